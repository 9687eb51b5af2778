//! `baton workflow start`.

use std::time::{Duration, UNIX_EPOCH};

use baton::proto::{NAMESPACE_DEFAULT, QUEUE_DEFAULT, Time};
use baton::{Client, RetryPolicy};
use clap::Args;

use super::{finish, view};
use crate::commands::run::submit::read_json;
use crate::duration;
use crate::exit::Exit;
use crate::output::Format;

#[derive(Args)]
pub struct StartArgs {
    /// What kind of workflow.
    #[arg(value_name = "TYPE")]
    kind: String,
    /// Queue.
    #[arg(long, short, default_value = QUEUE_DEFAULT)]
    queue: String,
    /// Namespace.
    #[arg(long, short, default_value = NAMESPACE_DEFAULT)]
    namespace: String,
    /// What the workflow begins with: JSON, @FILE, or - for the standard input.
    #[arg(long, short, value_name = "JSON|@FILE|-")]
    input: Option<String>,
    /// The same key again gives the same run.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// 0 to 9; 9 goes first.
    #[arg(long, short, value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
    /// Not before this long from now.
    #[arg(long, value_name = "SPAN", value_parser = duration::parse, conflicts_with = "at")]
    delay: Option<Duration>,
    /// Not before this moment, like 2026-01-31T09:30:00Z.
    #[arg(long, value_name = "TIME")]
    at: Option<Time>,
    /// It fails when it takes longer than this, sleeps included.
    #[arg(long, value_name = "SPAN", value_parser = duration::parse_positive)]
    timeout: Option<Duration>,
    /// Attempts in all when the workflow itself fails. [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_attempts: Option<u32>,
    /// Runs with the same key take turns, and may be limited.
    #[arg(long)]
    key: Option<String>,
    /// Only workers of this version may take it.
    #[arg(long, value_name = "VERSION")]
    pin_version: Option<String>,
    /// Wait for the end, print the output, and end with 1 if it failed.
    #[arg(long, short)]
    wait: bool,
    #[command(flatten)]
    format: Format,
}

/// Starts a workflow, and waits for it when asked to.
pub async fn start(client: &Client, args: StartArgs) -> Result<(), Exit> {
    let input = args.input.as_deref().map(|text| read_json("--input", text)).transpose()?;
    let mut start =
        client.clone().with_trace_of_environment().start(args.kind, &input).queue(args.queue).namespace(args.namespace);
    if let Some(key) = args.idempotency_key {
        start = start.idempotency_key(key);
    }
    if let Some(priority) = args.priority {
        start = start.priority(priority);
    }
    if let Some(delay) = args.delay {
        start = start.delay(delay);
    }
    if let Some(Time(at)) = args.at {
        // What is before 1970 has passed, too.
        start = start.at(UNIX_EPOCH + Duration::from_millis(u64::try_from(at).unwrap_or(0)));
    }
    if let Some(timeout) = args.timeout {
        start = start.timeout(timeout);
    }
    if let Some(attempts) = args.max_attempts {
        start = start.retry(RetryPolicy::attempts(attempts));
    }
    if let Some(key) = args.key {
        start = start.key(key);
    }
    if let Some(version) = args.pin_version {
        start = start.pin_version(version);
    }
    let handle = start.await?;
    if handle.existed() && !args.format.is_json() {
        eprintln!("baton: it was started before, with the same idempotency key");
    }
    if args.wait {
        eprintln!("{}", handle.run_id());
        return finish(client, &handle, args.format).await;
    }
    args.format.print(&view::Started::from(&handle), |started| started.id.clone());
    Ok(())
}
