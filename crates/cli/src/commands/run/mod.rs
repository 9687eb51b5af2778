//! `baton run`: submit runs and follow them.

mod show;
pub(crate) mod submit;
mod watch;

use baton::proto::{NAMESPACE_DEFAULT, RunView};
use baton::{Client, RunFilter};
use baton_core::{BulkAction, State};
use clap::{Args, Subcommand};

use crate::commands::bulk::{self, Matching};
use crate::commands::ids;
use crate::commands::patience::until_answered;
use crate::exit::Exit;
use crate::output::{Format, Listing, print_line};

#[derive(Subcommand)]
pub enum RunCommand {
    /// Submit a run.
    #[command(after_help = "Examples:
  baton run submit greet --input '{\"name\":\"Ada\"}'
  baton run submit build --queue mac --input @build.json --priority 9 --wait
  echo '[1,2,3]' | baton run submit sum --input - --idempotency-key order-17
  baton run submit report --delay 10m --max-attempts 5 --timeout 1h")]
    Submit(submit::SubmitArgs),
    /// List runs, newest first.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  baton run list --state failed,cancelled
  baton run list --queue mac --watch
  baton run list --queue mac --limit 200 -o jsonl"
    )]
    List(ListArgs),
    /// Show a run with its input and output.
    #[command(after_help = "Examples:
  baton run get e9d1aa        the end of its id, as lists show it
  baton run get 0198c1f2-0c2b-7000-8000-5a0c2be9d1aa --json")]
    Get(OneArgs),
    /// Show what happened to a run.
    #[command(after_help = "Examples:
  baton run history e9d1aa
  baton run history e9d1aa --json")]
    History(HistoryArgs),
    /// Cancel a run, or all runs that match: at once, or by telling the workers that hold them.
    #[command(after_help = "Examples:
  baton run cancel e9d1aa
  baton run cancel --queue mail --state sleeping --dry-run
  baton run cancel --queue mail --submitted-before 2026-01-31T09:30:00Z --rate 500
  baton run cancel --type report --yes --detach

With filters instead of a run, the runs that match are counted first, and you are asked. `baton bulk`
shows such operations, and stops them.

A worker that holds the run is told to stop and has a grace time for it; `baton run get` says until
when.")]
    Cancel(OneOrMatchingArgs),
    /// Submit a run again that has ended, or all that match.
    #[command(after_help = "Examples:
  baton run retry e9d1aa      prints the identifier of the new run
  baton run retry --queue mail --dry-run
  baton run retry --queue mail --state failed,cancelled --rate 50 --yes

With filters instead of a run, the runs that match are counted first, and you are asked. `baton bulk`
shows such operations, and stops them.")]
    Retry(OneOrMatchingArgs),
    /// Say why a run is where it is.
    #[command(after_help = "Examples:
  baton run explain e9d1aa    why is it not running yet? who holds it, and until when?")]
    Explain(OneArgs),
    /// Follow a run to its end, or a queue until interrupted.
    #[command(after_help = "Examples:
  baton run watch e9d1aa      ends with 0 when the run completes, with 1 when it does not
  baton run watch --queue builds")]
    Watch(WatchArgs),
}

#[derive(Args)]
pub struct OneArgs {
    /// The run: its id, or the end of it.
    id: String,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct OneOrMatchingArgs {
    /// The run: its id, or the end of it.
    #[arg(conflicts_with = "matching")]
    id: Option<String>,
    #[command(flatten)]
    matching: Matching,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct HistoryArgs {
    /// The run: its id, or the end of it.
    id: String,
    #[command(flatten)]
    listing: Listing,
}

#[derive(Args)]
pub struct ListArgs {
    /// In this namespace.
    #[arg(long, short)]
    namespace: Option<String>,
    /// On this queue.
    #[arg(long, short)]
    queue: Option<String>,
    /// Of this type.
    #[arg(long = "type", short = 't', value_name = "TYPE")]
    kind: Option<String>,
    /// In this state, or in one of these: pending,running.
    #[arg(long, short, value_parser = parse_state, value_delimiter = ',')]
    state: Vec<State>,
    /// Held by this worker, now or at their end; its id, or the end of it.
    #[arg(long, value_name = "ID")]
    worker: Option<String>,
    /// With this key.
    #[arg(long)]
    key: Option<String>,
    /// At most this many.
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Go on where a list ended.
    #[arg(long)]
    cursor: Option<String>,
    /// Also count all that there are.
    #[arg(long)]
    total: bool,
    #[command(flatten)]
    listing: Listing,
}

#[derive(Args)]
pub struct WatchArgs {
    /// The run: its id, or the end of it.
    #[arg(required_unless_present = "queue")]
    id: Option<String>,
    /// A queue instead of a run.
    #[arg(long, short, conflicts_with = "id")]
    queue: Option<String>,
    /// The queue's namespace.
    #[arg(long, short, default_value = NAMESPACE_DEFAULT)]
    namespace: String,
}

pub(crate) fn parse_state(word: &str) -> Result<State, String> {
    State::parse(word).ok_or_else(|| format!("one of {} is wanted", State::ALL.map(State::as_str).join(", ")))
}

/// Carries out a command about runs.
pub async fn execute(client: &Client, command: RunCommand) -> Result<(), Exit> {
    match command {
        RunCommand::Submit(args) => submit::submit(client, args).await?,
        RunCommand::List(args) => list(client, args).await?,
        RunCommand::Get(OneArgs { id, format }) => {
            format.show(&client.run(&ids::run(client, id).await?).await?, show::run);
        }
        RunCommand::History(HistoryArgs { id, listing }) => {
            let id = ids::run(client, id).await?;
            listing.show(async || client.history(&id).await, show::history).await?;
        }
        RunCommand::Cancel(OneOrMatchingArgs { id: None, matching, format }) => {
            bulk::begin(client, BulkAction::Cancel, matching, format).await?;
        }
        RunCommand::Retry(OneOrMatchingArgs { id: None, matching, format }) => {
            bulk::begin(client, BulkAction::Retry, matching, format).await?;
        }
        RunCommand::Cancel(OneOrMatchingArgs { id: Some(id), format, .. }) => {
            let id = ids::run(client, id).await?;
            let cancelled = until_answered(async || client.cancel(&id).await).await?;
            format.print(&cancelled, |run| {
                let note = if run.cancelling { " (its worker has been told to stop)" } else { "" };
                format!("{} {}{note}", run.id, run.state.as_str())
            });
        }
        RunCommand::Retry(OneOrMatchingArgs { id: Some(id), format, .. }) => {
            format.print(&client.retry(&ids::run(client, id).await?).await?, |run| run.id.clone());
        }
        RunCommand::Explain(OneArgs { id, format }) => explain(client, &ids::run(client, id).await?, format).await?,
        RunCommand::Watch(args) => match (args.id, args.queue) {
            (Some(id), _) => watch::run(client, &ids::run(client, id).await?).await?,
            (None, Some(queue)) => watch::queue(client, &args.namespace, &queue).await?,
            (None, None) => return Err(Exit::usage("a run or --queue is wanted")),
        },
    }
    Ok(())
}

/// Says why a run is where it is.
pub async fn explain(client: &Client, id: &str, format: Format) -> Result<(), Exit> {
    format.show(&client.explain(id).await?, show::explanation);
    Ok(())
}

async fn list(client: &Client, args: ListArgs) -> Result<(), Exit> {
    let worker = match args.worker {
        Some(worker) => Some(ids::worker(client, worker).await?),
        None => None,
    };
    let filter = RunFilter {
        namespace: args.namespace,
        queue: args.queue,
        kind: args.kind,
        states: args.state,
        worker,
        key: args.key,
        limit: Some(args.limit),
        cursor: args.cursor,
        total: args.total,
        ..RunFilter::default()
    };
    args.listing.show(async || client.runs(&filter).await, show::page).await
}

/// Prints what came out of a run that has ended, and ends with 1 unless it completed.
fn finish(run: &RunView, format: Format) -> Result<(), Exit> {
    if format.is_json() {
        format.show(run, show::run);
    } else if let Some(output) = &run.output {
        print_line(output.get());
    }
    if run.state == State::Completed {
        return Ok(());
    }
    if format.is_json() { Err(Exit::failed_silently()) } else { Err(Exit::failed(show::end(run))) }
}
