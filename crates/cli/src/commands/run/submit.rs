//! `baton run submit`.

use std::io::Read;
use std::time::Duration;

use baton::Client;
use baton::proto::{NAMESPACE_DEFAULT, QUEUE_DEFAULT, SubmitRun, Time};
use baton_core::RetryPolicy;
use clap::Args;
use serde_json::value::RawValue;

use super::finish;
use crate::commands::explained::until_ended_explained;
use crate::commands::patience::WAIT;
use crate::duration;
use crate::exit::Exit;
use crate::output::Format;

#[derive(Args)]
pub struct SubmitArgs {
    /// What kind of work this is.
    #[arg(value_name = "TYPE")]
    kind: String,
    /// Queue.
    #[arg(long, short, default_value = QUEUE_DEFAULT)]
    queue: String,
    /// Namespace.
    #[arg(long, short, default_value = NAMESPACE_DEFAULT)]
    namespace: String,
    /// What the worker needs: JSON, @FILE, or - for the standard input.
    #[arg(long, short, value_name = "JSON|@FILE|-")]
    input: Option<String>,
    /// 0 to 9; 9 goes first.
    #[arg(long, short, value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
    /// Not before this long from now.
    #[arg(long, value_name = "SPAN", value_parser = duration::parse, conflicts_with = "due_at")]
    delay: Option<Duration>,
    /// Not before this moment, like 2026-01-31T09:30:00Z.
    #[arg(long, value_name = "TIME")]
    due_at: Option<Time>,
    /// Runs with the same key take turns, and may be limited.
    #[arg(long)]
    key: Option<String>,
    /// Prefer the worker that last finished a run with this key.
    #[arg(long, value_name = "KEY")]
    affinity: Option<String>,
    /// The same key again gives the same run.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Attempts in all. [default: 3]
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// How long one attempt may take.
    #[arg(long, value_name = "SPAN", value_parser = duration::parse_positive)]
    timeout: Option<Duration>,
    /// Wait for the end, print the output, and end with 1 if it failed.
    #[arg(long, short)]
    wait: bool,
    #[command(flatten)]
    format: Format,
}

/// Submits a run, and waits for it when asked to.
pub async fn submit(client: &Client, args: SubmitArgs) -> Result<(), Exit> {
    let retry = args.max_attempts.map(|max_attempts| RetryPolicy { max_attempts, ..RetryPolicy::default() });
    let run = SubmitRun {
        namespace: args.namespace,
        input: args.input.as_deref().map(read_input).transpose()?,
        priority: args.priority,
        delay_ms: args.delay.map(|delay| delay.as_millis() as u64),
        due_at: args.due_at,
        key: args.key,
        affinity: args.affinity,
        idempotency_key: args.idempotency_key,
        retry,
        timeout_ms: args.timeout.map(|timeout| timeout.as_millis() as u64),
        ..SubmitRun::new(args.queue, args.kind)
    };
    let submitted = client.clone().with_trace_of_environment().submit(&run).await?;
    if !args.wait {
        args.format.print(&submitted, |run| run.id.clone());
        return Ok(());
    }
    eprintln!("{}", submitted.id);
    let ask = async || client.wait_for_run(&submitted.id, WAIT).await;
    let ended = until_ended_explained(client, &submitted.id, ask, |run| run.state.is_ended()).await?;
    finish(&ended, args.format)
}

pub(crate) fn read_input(input: &str) -> Result<Box<RawValue>, Exit> {
    read_json("--input", input)
}

/// Reads the JSON that a flag holds or names.
pub(crate) fn read_json(flag: &str, input: &str) -> Result<Box<RawValue>, Exit> {
    let text = match input.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| Exit::usage(format!("{flag}: cannot read {path}: {error}")))?,
        None if input == "-" => {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            read.map_err(|error| Exit::usage(format!("{flag}: cannot read the standard input: {error}")))?;
            text
        }
        None => input.to_owned(),
    };
    serde_json::from_str(&text)
        .map_err(|error| Exit::usage(format!("{flag} is not JSON ({error}); text needs quotes of its own: '\"text\"'")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_comes_from_the_line_or_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "[1, 2]").unwrap();
        assert_eq!(read_input(&format!("@{}", file.path().display())).unwrap().get(), "[1, 2]");
        assert_eq!(read_input("{\"a\": 1}").unwrap().get(), "{\"a\": 1}");
        assert!(read_input("hello").is_err());
        assert!(read_input("@/no/such/file").is_err());
    }
}
