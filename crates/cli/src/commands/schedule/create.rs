//! `baton schedule create`.

use std::time::Duration;

use baton::Client;
use baton::proto::{CreateSchedule, NAMESPACE_DEFAULT, QUEUE_DEFAULT, ScheduledRun};
use baton_core::RetryPolicy;
use baton_core::schedule::Overlap;
use clap::Args;

use super::show;
use crate::commands::run::submit::read_input;
use crate::duration;
use crate::exit::Exit;
use crate::output::Format;

#[derive(Args)]
pub struct CreateArgs {
    /// The schedule's name; unique in its namespace.
    id: String,
    /// When it fires.
    #[arg(long, value_name = "RULE")]
    cron: String,
    /// An IANA time zone. [default: UTC]
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// What kind of work it starts.
    #[arg(long = "type", short = 't', value_name = "TYPE")]
    kind: String,
    /// Queue of the runs.
    #[arg(long, short, default_value = QUEUE_DEFAULT)]
    queue: String,
    /// Namespace of the schedule and its runs.
    #[arg(long, short, default_value = NAMESPACE_DEFAULT)]
    namespace: String,
    /// What the worker needs: JSON, @FILE, or - for the standard input.
    #[arg(long, short, value_name = "JSON|@FILE|-")]
    input: Option<String>,
    /// Each run is late by chance, at most this much.
    #[arg(long, value_name = "SPAN", value_parser = duration::parse)]
    jitter: Option<Duration>,
    /// Most fires made up for after a downtime. [default: 100]
    #[arg(long, value_name = "N")]
    max_catchup: Option<u32>,
    /// While the run before lives: allow, skip, buffer-one or cancel-previous.
    #[arg(long, value_parser = parse_overlap)]
    overlap: Option<Overlap>,
    /// 0 to 9; 9 goes first.
    #[arg(long, short, value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
    /// Runs with the same key take turns, and may be limited.
    #[arg(long)]
    key: Option<String>,
    /// It is a workflow: tried once unless told otherwise, and it may clean up when it is cancelled.
    #[arg(long)]
    workflow: bool,
    /// Attempts in all. [default: 3; 1 for a workflow]
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// How long one attempt may take.
    #[arg(long, value_name = "SPAN", value_parser = duration::parse_positive)]
    timeout: Option<Duration>,
    /// How long a run may take as a whole.
    #[arg(long, value_name = "SPAN", value_parser = duration::parse_positive)]
    run_timeout: Option<Duration>,
    /// Wait until somebody resumes it.
    #[arg(long)]
    paused: bool,
    /// For people.
    #[arg(long, default_value = "")]
    note: String,
    #[command(flatten)]
    format: Format,
}

pub(super) fn parse_overlap(word: &str) -> Result<Overlap, String> {
    match word {
        "allow" => Ok(Overlap::Allow),
        "skip" => Ok(Overlap::Skip),
        "buffer-one" => Ok(Overlap::BufferOne),
        "cancel-previous" => Ok(Overlap::CancelPrevious),
        _ => Err("one of allow, skip, buffer-one, cancel-previous is wanted".into()),
    }
}

/// Makes a schedule.
pub async fn create(client: &Client, args: CreateArgs) -> Result<(), Exit> {
    let ms = |span: Duration| span.as_millis() as u64;
    let schedule = CreateSchedule {
        namespace: args.namespace,
        id: args.id,
        cron: args.cron,
        time_zone: args.time_zone,
        jitter_ms: args.jitter.map(ms),
        max_catchup: args.max_catchup,
        overlap: args.overlap,
        run: ScheduledRun {
            input: args.input.as_deref().map(read_input).transpose()?,
            priority: args.priority,
            key: args.key,
            retry: args.max_attempts.map(|max_attempts| RetryPolicy { max_attempts, ..RetryPolicy::default() }),
            timeout_ms: args.timeout.map(ms),
            run_timeout_ms: args.run_timeout.map(ms),
            workflow: args.workflow,
            ..ScheduledRun::new(args.queue, args.kind)
        },
        paused: args.paused,
        note: args.note,
    };
    let made = client.create_schedule(&schedule).await?;
    args.format.show(&made, show::one);
    Ok(())
}
