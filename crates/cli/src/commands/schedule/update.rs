//! `baton schedule update`.

use std::time::Duration;

use baton::Client;
use baton::proto::{ChangeSchedule, ScheduledRun};
use baton_core::RetryPolicy;
use baton_core::schedule::Overlap;
use clap::Args;

use super::create::parse_overlap;
use super::{OneArgs, show};
use crate::commands::run::submit::read_input;
use crate::duration;
use crate::exit::Exit;

#[derive(Args)]
pub struct UpdateArgs {
    #[command(flatten)]
    one: OneArgs,
    /// When it fires.
    #[arg(long, value_name = "RULE")]
    cron: Option<String>,
    /// An IANA time zone.
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// What kind of work it starts.
    #[arg(long = "type", short = 't', value_name = "TYPE")]
    kind: Option<String>,
    /// Queue of the runs.
    #[arg(long, short)]
    queue: Option<String>,
    /// What the worker needs: JSON, @FILE, or - for the standard input.
    #[arg(long, short, value_name = "JSON|@FILE|-")]
    input: Option<String>,
    /// Each run is late by chance, at most this much.
    #[arg(long, value_name = "SPAN", value_parser = duration::parse)]
    jitter: Option<Duration>,
    /// Most fires made up for after a downtime.
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
    /// Whether it is a workflow.
    #[arg(long, value_name = "BOOL")]
    workflow: Option<bool>,
    /// Attempts in all.
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// How long one attempt may take.
    #[arg(long, value_name = "SPAN", value_parser = duration::parse_positive)]
    timeout: Option<Duration>,
    /// How long a run may take as a whole.
    #[arg(long, value_name = "SPAN", value_parser = duration::parse_positive)]
    run_timeout: Option<Duration>,
    /// For people.
    #[arg(long)]
    note: Option<String>,
}

/// Changes what was given of a schedule.
pub async fn update(client: &Client, args: UpdateArgs) -> Result<(), Exit> {
    let OneArgs { name, format } = &args.one;
    let known = client.schedule(&name.namespace, &name.id).await?.run;
    let change = ChangeSchedule {
        // The API takes the run as a whole, so what is not given comes from what is there.
        run: run(&args, known)?,
        cron: args.cron,
        time_zone: args.time_zone,
        jitter_ms: args.jitter.map(ms),
        max_catchup: args.max_catchup,
        overlap: args.overlap,
        note: args.note,
    };
    if is_nothing(&change) {
        return Err(Exit::usage("nothing is to be changed: say what, for example --cron"));
    }
    let changed = client.change_schedule(&name.namespace, &name.id, &change).await;
    format.show(&changed?, show::one);
    Ok(())
}

fn is_nothing(change: &ChangeSchedule) -> bool {
    let ChangeSchedule { cron, time_zone, jitter_ms, max_catchup, overlap, run, note } = change;
    cron.is_none()
        && time_zone.is_none()
        && jitter_ms.is_none()
        && max_catchup.is_none()
        && overlap.is_none()
        && run.is_none()
        && note.is_none()
}

/// The run with what was given, or nothing when nothing was given about it.
fn run(args: &UpdateArgs, known: ScheduledRun) -> Result<Option<ScheduledRun>, Exit> {
    let is_changed = args.kind.is_some()
        || args.queue.is_some()
        || args.input.is_some()
        || args.priority.is_some()
        || args.key.is_some()
        || args.workflow.is_some()
        || args.max_attempts.is_some()
        || args.timeout.is_some()
        || args.run_timeout.is_some();
    if !is_changed {
        return Ok(None);
    }
    let retry = match (args.max_attempts, known.retry) {
        (Some(max_attempts), known) => Some(RetryPolicy { max_attempts, ..known.unwrap_or_default() }),
        (None, known) => known,
    };
    Ok(Some(ScheduledRun {
        kind: args.kind.clone().unwrap_or(known.kind),
        queue: args.queue.clone().unwrap_or(known.queue),
        input: args.input.as_deref().map(read_input).transpose()?.or(known.input),
        priority: args.priority.or(known.priority),
        key: args.key.clone().or(known.key),
        workflow: args.workflow.unwrap_or(known.workflow),
        retry,
        timeout_ms: args.timeout.map(ms).or(known.timeout_ms),
        run_timeout_ms: args.run_timeout.map(ms).or(known.run_timeout_ms),
        affinity: known.affinity,
        max_losses: known.max_losses,
    }))
}

fn ms(span: Duration) -> u64 {
    span.as_millis() as u64
}
