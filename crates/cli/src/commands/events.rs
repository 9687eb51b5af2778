//! `baton events`: what happens, as it happens.

use std::pin::pin;

use baton::proto::Event;
use baton::{Client, EventFilter};
use clap::{Args, ValueEnum};
use futures_util::StreamExt;

use crate::commands::ids;
use crate::exit::Exit;
use crate::output::harmless::one_line;
use crate::output::print_line;

pub const HELP: &str = "\
One line for each event, until Ctrl-C. A connection that is cut is made again, and nothing is lost by it; where something was, a line
says so (missed).

Examples:
  baton events
  baton events --queue builds --kind run.ended
  baton events --kind worker,queue -o json
  baton events --after 1234 --limit 10    go on after this event, and end after ten";

/// How events are printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A line for people.
    #[value(alias = "table", alias = "wide")]
    Text,
    /// A JSON document on a line of its own.
    #[value(alias = "jsonl")]
    Json,
}

#[derive(Args)]
pub struct EventsArgs {
    /// Only of this namespace.
    #[arg(long)]
    namespace: Option<String>,
    /// Only of this queue.
    #[arg(long)]
    queue: Option<String>,
    /// Only of runs of this type.
    #[arg(long = "type", value_name = "TYPE")]
    run_type: Option<String>,
    /// Only of this run.
    #[arg(long)]
    run: Option<String>,
    /// Only of this worker.
    #[arg(long)]
    worker: Option<String>,
    /// Only of this runner pool.
    #[arg(long)]
    pool: Option<String>,
    /// Only of these kinds, parted by commas: `run.ended`, or all of a subject: `run`.
    #[arg(long, value_delimiter = ',')]
    kind: Vec<String>,
    /// Begin after the event with this id, not with what happens from now on.
    #[arg(long)]
    after: Option<i64>,
    /// End after so many.
    #[arg(long)]
    limit: Option<usize>,
    /// How to print them.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

/// Prints what happens.
pub async fn events(client: &Client, args: EventsArgs) -> Result<(), Exit> {
    let EventsArgs { namespace, queue, run_type, run, worker, pool, kind: kinds, after, limit, output } = args;
    // A claim of a pool has an id of its owner's, which may look like the end of one.
    let run = match run {
        Some(run) => Some(ids::run(client, run.clone()).await.or_else(|exit| exit.or_if_not_found(run))?),
        None => None,
    };
    let worker = match worker {
        Some(worker) => Some(ids::worker(client, worker).await?),
        None => None,
    };
    let filter = EventFilter { namespace, queue, run_type, run, worker, pool, kinds, after };
    let mut events = pin!(client.events(&filter).take(limit.unwrap_or(usize::MAX)));
    while let Some(event) = events.next().await {
        let event = event?;
        match output {
            Output::Text => print_line(line(&event)),
            // The shapes of the wire always can be written as JSON.
            Output::Json => print_line(serde_json::to_string(&event).unwrap_or_default()),
        }
    }
    Ok(())
}

/// An event for people: when, what, and everything that is known of it.
fn line(event: &Event) -> String {
    let mut line = format!("{} {:<20}", event.at, event.kind);
    let count = event.count.map(|count| count.to_string());
    let fields = [
        ("run", &event.run_id),
        ("state", &event.state),
        ("reason", &event.reason),
        ("queue", &event.queue),
        ("type", &event.run_type),
        ("worker", &event.worker_id),
        ("name", &event.worker_name),
        ("pool", &event.pool),
        ("runner", &event.runner_id),
        ("schedule", &event.schedule),
        ("count", &count),
        ("namespace", &event.namespace),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            line.push_str(&format!(" {name}={}", one_line(value)));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton::proto::Time;

    #[test]
    fn an_event_is_one_line_with_what_is_known_of_it() {
        let event = Event {
            run_id: Some("r1".into()),
            queue: Some("a\nb".into()),
            ..Event::new("run.ended", Time(1_700_000_000_000))
        };
        assert_eq!(line(&event), "2023-11-14T22:13:20.000Z run.ended            run=r1 queue=a b");
    }
}
