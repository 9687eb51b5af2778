//! `baton queue`: what waits where, and how much of it may run.

use std::time::Duration;

use baton::Client;
use baton::proto::{NAMESPACE_DEFAULT, PauseQueue, QueueLimits, QueueView, Queues, Time};
use clap::{Args, Subcommand};

use crate::duration;
use crate::exit::Exit;
use crate::output::{Column, Format, Listing, Look, Table, or_dash};
use baton_core::did_you_mean::near;

#[derive(Subcommand)]
pub enum QueueCommand {
    /// List queues with what waits, is held and sleeps in them.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  baton queue list --watch
  baton queue list --namespace mobile --json"
    )]
    List(ListArgs),
    /// Show a queue.
    #[command(after_help = "Examples:
  baton queue get builds
  baton queue get builds --json")]
    Get(GetArgs),
    /// Stop handing out runs; what is held goes on.
    #[command(after_help = "Examples:
  baton queue pause builds            until somebody resumes it
  baton queue pause builds --for 10m
  baton queue pause nightly --create  before its first run")]
    Pause(PauseArgs),
    /// Hand out runs again.
    #[command(after_help = "Examples:
  baton queue resume builds")]
    Resume(QueueArgs),
    /// Change the limits of a queue; `none` clears one.
    #[command(after_help = "Examples:
  baton queue limit builds --rate 5 --per-key 2
  baton queue limit builds --backlog none
  baton queue limit nightly --rate 1 --create    before its first run")]
    Limit(LimitArgs),
}

#[derive(Args)]
pub struct ListArgs {
    /// Only this namespace.
    #[arg(long, short)]
    namespace: Option<String>,
    #[command(flatten)]
    listing: Listing,
}

#[derive(Args)]
pub struct GetArgs {
    /// The queue.
    queue: String,
    /// Its namespace.
    #[arg(long, short, default_value = NAMESPACE_DEFAULT)]
    namespace: String,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct QueueArgs {
    /// The queue.
    queue: String,
    /// Its namespace.
    #[arg(long, short, default_value = NAMESPACE_DEFAULT)]
    namespace: String,
    /// Make the queue if there is none of this name yet.
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct PauseArgs {
    #[command(flatten)]
    queue: QueueArgs,
    /// Resume by itself after this long.
    #[arg(long = "for", value_name = "SPAN", value_parser = duration::parse_positive)]
    span: Option<Duration>,
}

#[derive(Args)]
pub struct LimitArgs {
    #[command(flatten)]
    queue: QueueArgs,
    /// Most runs that may wait.
    #[arg(long, value_name = "RUNS", value_parser = limit::<u64>, allow_negative_numbers = true, required_unless_present_any = ["rate", "per_key"])]
    backlog: Option<Limit<u64>>,
    /// Most runs handed out in a second.
    #[arg(long, value_name = "RUNS", value_parser = limit::<f64>, allow_negative_numbers = true)]
    rate: Option<Limit<f64>>,
    /// Most runs of one key that may be held at once.
    #[arg(long, value_name = "RUNS", value_parser = limit::<u32>, allow_negative_numbers = true)]
    per_key: Option<Limit<u32>>,
}

/// A limit, or none.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limit<T>(Option<T>);

fn limit<T: std::str::FromStr>(text: &str) -> Result<Limit<T>, String> {
    match text {
        "none" => Ok(Limit(None)),
        number => number.parse().map(|number| Limit(Some(number))).map_err(|_| "a number or `none` is wanted".into()),
    }
}

/// Carries out a command about queues.
pub async fn execute(client: &Client, command: QueueCommand) -> Result<(), Exit> {
    match command {
        QueueCommand::List(args) => {
            let ask = async || client.queues(args.namespace.as_deref()).await;
            args.listing.show(ask, table).await?;
        }
        QueueCommand::Get(args) => args.format.show(&client.queue(&args.namespace, &args.queue).await?, one),
        QueueCommand::Pause(PauseArgs { queue, span }) => {
            let pause = PauseQueue { until: None, for_ms: span.map(|span| span.as_millis() as u64) };
            must_exist(client, &queue).await?;
            let paused = client.pause_queue(&queue.namespace, &queue.queue, &pause).await;
            show(queue.format, paused?);
        }
        QueueCommand::Resume(queue) => {
            must_exist(client, &queue).await?;
            let resumed = client.resume_queue(&queue.namespace, &queue.queue).await;
            show(queue.format, resumed?);
        }
        QueueCommand::Limit(LimitArgs { queue, backlog, rate, per_key }) => {
            let limits = QueueLimits {
                backlog_max: backlog.map(|limit| limit.0),
                rate_per_second: rate.map(|limit| limit.0),
                key_limit: per_key.map(|limit| limit.0),
            };
            must_exist(client, &queue).await?;
            let limited = client.limit_queue(&queue.namespace, &queue.queue, &limits).await;
            show(queue.format, limited?);
        }
    }
    Ok(())
}

/// The server makes a queue that it is told to change, which is right before a first run and wrong after a slip of the finger.
async fn must_exist(client: &Client, wanted: &QueueArgs) -> Result<(), Exit> {
    let (name, namespace) = (wanted.queue.as_str(), wanted.namespace.as_str());
    // What is no name at all is refused by the server, in better words.
    if wanted.create || name.is_empty() {
        return Ok(());
    }
    let queues = client.queues(Some(namespace)).await?.queues;
    if queues.iter().any(|queue| queue.name == name) {
        return Ok(());
    }
    let near = near(name, queues.iter().map(|queue| queue.name.as_str()));
    let meant = match near.is_empty() {
        true => "`baton queue list` shows those there are.".to_owned(),
        false => format!("Did you mean {}?", near.join(" or ")),
    };
    Err(Exit::not_found(format!(
        "there is no queue {name} in the namespace {namespace}. {meant}\n--create makes it, before its first run."
    )))
}

fn show(format: Format, queue: QueueView) {
    format.show(&queue, one);
}

fn table(queues: &Queues, look: Look) -> Table {
    let mut table = Table::of([
        Column::namespace(queues.queues.iter().map(|queue| queue.namespace.as_str())),
        Column::key("queue"),
        Column::number("ready"),
        Column::number("scheduled"),
        Column::number("held"),
        Column::number("sleeping"),
        Column::age("oldest"),
        Column::text("paused"),
        Column::number("backlog").extra(),
        Column::number("rate").extra(),
        Column::number("per key").extra(),
    ]);
    for queue in &queues.queues {
        table.row([
            queue.namespace.clone(),
            queue.name.clone(),
            queue.ready.to_string(),
            queue.scheduled.to_string(),
            queue.held.to_string(),
            queue.sleeping.to_string(),
            or_dash(queue.oldest_ms.map(Look::span)),
            paused(queue, |until| look.now.until(until)),
            queue.backlog_max.to_string(),
            or_dash(queue.rate_per_second.map(|rate| format!("{rate}/s"))),
            or_dash(queue.key_limit),
        ]);
    }
    table
}

/// Whether a queue is paused, and for how long.
fn paused(queue: &QueueView, until: impl Fn(Time) -> String) -> String {
    match (queue.paused, queue.paused_until) {
        (false, _) => "no".to_owned(),
        (true, Some(at)) if at.0 != i64::MAX => match until(at).strip_prefix("in ") {
            Some(span) => format!("for {span}"),
            None => format!("until {}", until(at)),
        },
        (true, _) => "yes".to_owned(),
    }
}

fn one(queue: &QueueView, look: Look) -> String {
    let mut table = Table::plain();
    table.field("queue", Some(&queue.name));
    table.field("namespace", Some(&queue.namespace));
    table.field("ready", Some(queue.ready));
    table.field("scheduled", Some(queue.scheduled));
    table.field("held", Some(queue.held));
    table.field("sleeping", Some(queue.sleeping));
    table.field("oldest", queue.oldest_ms.map(duration::show));
    table.field("paused", Some(paused(queue, |until| look.moment(until))));
    table.field("backlog", Some(queue.backlog_max));
    table.field("rate", queue.rate_per_second.map(|rate| format!("{rate}/s")));
    table.field("per key", queue.key_limit);
    table.render(look)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_or_none() {
        assert_eq!(limit::<u32>("7"), Ok(Limit(Some(7))));
        assert_eq!(limit::<u32>("none"), Ok(Limit(None)));
        assert!(limit::<u32>("-1").is_err());
    }
}
