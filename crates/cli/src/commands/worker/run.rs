//! `baton worker run`: a worker that runs a shell command for each run.

use std::sync::Arc;
use std::time::Duration;

use baton::Client;
use baton::proto::{NAMESPACE_DEFAULT, QUEUE_DEFAULT};
use baton::runs::{Worker, WorkerEvent};
use clap::Args;

use super::{group, health, process};
use crate::exit::Exit;
use crate::logging::LogArgs;
use crate::{duration, os, signals};

#[derive(Args)]
pub struct RunArgs {
    /// Type of runs it can do. May be given several times.
    #[arg(long = "type", short = 't', required = true, value_name = "TYPE")]
    types: Vec<String>,
    /// Shell command for each run.
    #[arg(long, short, value_name = "COMMAND")]
    exec: String,
    /// Queue it serves. May be given several times.
    #[arg(long = "queue", short, default_value = QUEUE_DEFAULT, value_name = "QUEUE")]
    queues: Vec<String>,
    /// Namespace it works in.
    #[arg(long, short, default_value = NAMESPACE_DEFAULT)]
    namespace: String,
    /// Runs at once.
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    concurrency: u32,
    /// Its name, which survives restarts. [default: the host name]
    #[arg(long)]
    name: Option<String>,
    /// A label, as name=value. May be given several times.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = parse_label)]
    labels: Vec<(String, String)>,
    /// How long to finish what it holds when it is told to stop; the rest is given back.
    #[arg(long, default_value = "30s", value_name = "SPAN", value_parser = duration::parse)]
    drain_timeout: Duration,
    #[command(flatten)]
    log: LogArgs,
}

pub(super) fn parse_label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a label is like name=value")?;
    Ok((name.into(), value.into()))
}

/// Works until it is asked to stop.
pub async fn run(client: &Client, args: RunArgs) -> Result<(), Exit> {
    args.log.start()?;
    let shutdown = signals::shutdown()?;
    let directory = std::env::current_dir()?;
    let mut worker = Worker::new(client.clone(), args.types)
        .namespace(args.namespace)
        .concurrency(args.concurrency)
        .version(env!("CARGO_PKG_VERSION"))
        .drain_timeout(args.drain_timeout)
        .stop_grace(group::TERMINATE_GRACE * 2)
        .health(move || health::measure(&directory))
        .watch(log);
    let hostname = os::hostname();
    for queue in args.queues {
        worker = worker.queue(queue);
    }
    for (name, value) in args.labels {
        worker = worker.label(name, value);
    }
    if let Some(name) = args.name.or_else(|| hostname.clone()) {
        worker = worker.name(name);
    }
    if let Some(hostname) = hostname {
        worker = worker.hostname(hostname);
    }
    let command: Arc<str> = args.exec.into();
    let handler = move |run, cancel| {
        let command = command.clone();
        async move { process::execute(&command, run, cancel).await }
    };
    Ok(worker.run(handler, shutdown).await?)
}

/// Writes what happens to a worker to the log.
pub(super) fn log(event: WorkerEvent) {
    match event {
        WorkerEvent::Registered { worker_id } => tracing::info!(%worker_id, "registered"),
        WorkerEvent::Claimed { run_id, epoch } => tracing::info!(%run_id, epoch, "claimed"),
        WorkerEvent::Reported { run_id, epoch, report } => tracing::info!(%run_id, epoch, ?report, "reported"),
        WorkerEvent::Refused { run_id, epoch, report, code, .. } => {
            tracing::warn!(%run_id, epoch, ?report, %code, "the report was refused");
        }
        WorkerEvent::Stopping { run_id, epoch, why } => tracing::warn!(%run_id, epoch, ?why, "stopping"),
        WorkerEvent::Unreachable { call, message } => tracing::warn!(%call, %message, "trying again"),
        WorkerEvent::Forgotten { worker_id } => tracing::warn!(%worker_id, "given up by the server"),
        WorkerEvent::Draining => tracing::info!("draining"),
        WorkerEvent::Deregistered => tracing::info!("deregistered"),
        other => tracing::debug!(?other, "something new happened"),
    }
}
