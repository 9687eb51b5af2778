//! `baton demo-worker`: one worker of the demo, a process of its own.
//!
//! It tells the demo what it does with a line of JSON for each event, and appends a line to a file for each piece of
//! work it carries out: that file is the world outside, where work that ran twice shows.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton::Client;
use baton::proto::ClaimedRun;
use baton::runs::{Failure, Worker};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{QUEUE, RUN_TYPE, SLOTS};
use crate::exit::Exit;
use crate::output::print_line;
use crate::signals;

const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Args)]
pub struct DemoWorkerArgs {
    /// Its name.
    #[arg(long)]
    name: String,
    /// Where it leaves a line for each piece of work.
    #[arg(long)]
    effects: PathBuf,
}

/// What the demo submits.
#[derive(Serialize, Deserialize)]
pub struct DemoInput {
    /// What the demo calls the run.
    pub name: String,
    /// How long it takes.
    pub work_ms: u64,
}

/// Works until it is asked to stop.
pub async fn work(client: &Client, args: DemoWorkerArgs) -> Result<(), Exit> {
    let shutdown = signals::shutdown()?;
    let effects = args.effects;
    let handler = move |run: ClaimedRun, _| {
        // The token that says "stop" is ignored on purpose: a worker that was cut off does not hear it in time either.
        let effects = effects.clone();
        async move { one_run(run, &effects).await }
    };
    Worker::new(client.clone(), [RUN_TYPE])
        .queue(QUEUE)
        .name(args.name)
        .concurrency(SLOTS)
        .drain_timeout(DRAIN_TIMEOUT)
        .watch(|event| print_line(serde_json::to_string(&event).unwrap_or_default()))
        .run(handler, shutdown)
        .await?;
    Ok(())
}

async fn one_run(run: ClaimedRun, effects: &Path) -> Result<Value, Failure> {
    let input = run.input.as_ref().ok_or_else(|| Failure::rejected("the run has no input"))?;
    let input: DemoInput = serde_json::from_str(input.get()).map_err(|error| Failure::rejected(error.to_string()))?;
    tokio::time::sleep(Duration::from_millis(input.work_ms)).await;
    let mut file = OpenOptions::new().append(true).create(true).open(effects).map_err(|error| error.to_string())?;
    // One write for the whole line, so that a kill leaves all of it or nothing.
    file.write_all(format!("{} {}\n", run.run_id, run.epoch).as_bytes()).map_err(|error| error.to_string())?;
    Ok(json!({ "name": input.name, "epoch": run.epoch }))
}
