//! The workflow that is killed, and the worker process that plays it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use baton::{Context, StepError, Worker, WorkflowError};
use serde::{Deserialize, Serialize};

use crate::bench::dice;
use crate::bench::load::{KIND, QUEUE};
use crate::bench::wire::Target;
use crate::exit::Exit;

/// The type of workflows that wait for signals after the steps.
const SIGNALLED: &str = "signalled";
/// The signal they wait for, and how many of it they take.
const SIGNAL: &str = "go";
const SIGNALS: usize = 2;
/// The steps, in order.
pub const STEPS: [&str; 3] = ["first", "second", "third"];
/// Runs that one worker works on at once.
pub const SLOTS: u32 = 16;
/// A step takes this long, and up to so much longer, in two halves around its effect.
const WORK_MS: u64 = 40;
const WORK_SPREAD_MS: u64 = 200;
/// Between the first and the second step the worker lets go of the run.
const NAP: Duration = Duration::from_millis(20);
/// Between two tries to find the server, which may be down just now.
const PAUSE: Duration = Duration::from_millis(20);

/// What a step returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Made {
    /// Follows from what came before.
    pub value: u64,
    /// New with each execution, so that two executions never return the same.
    pub token: u64,
}

impl Made {
    /// What the next step begins with.
    pub fn handed_on(self) -> u64 {
        self.value ^ self.token
    }
}

/// What a step makes of what it begins with.
pub fn value_of(step: usize, begins_with: u64) -> u64 {
    dice::scramble(begins_with.wrapping_add(step as u64 + 1))
}

/// What the workflow returns after a last step that made this.
pub fn result_of(last: Made) -> u64 {
    dice::scramble(last.handed_on())
}

/// The line that an execution leaves.
pub fn effect(run: &str, step: usize, token: u64) -> String {
    format!("{run} {step} {token:016x}\n")
}

/// Plays workflows of this namespace until it is killed, and appends a line to this file with each
/// execution of a step.
pub async fn work(target: &Target, namespace: &str, effects: &Path) -> Result<(), Exit> {
    let effects = Arc::new(OpenOptions::new().append(true).open(effects)?);
    let mut worker = loop {
        let worker = Worker::builder(target.url(), QUEUE).tls(target.tls());
        match worker.api_key(&target.api_key).namespace(namespace).max_concurrent(SLOTS).build().await {
            Ok(worker) => break worker,
            Err(error) if error.is_transient() => tokio::time::sleep(PAUSE).await,
            Err(error) => return Err(error.into()),
        }
    };
    let also = effects.clone();
    worker.register(KIND, move |ctx, id| three_steps(ctx, id, effects.clone()));
    worker.register(SIGNALLED, move |ctx, id| signalled(ctx, id, also.clone()));
    Ok(worker.run_until(std::future::pending()).await?)
}

async fn three_steps(ctx: Context, id: u64, effects: Arc<File>) -> Result<u64, WorkflowError> {
    let run = ctx.run_id().to_owned();
    let mut made = Made { value: id, token: 0 };
    for (step, name) in STEPS.into_iter().enumerate() {
        let begins_with = made.handed_on();
        made = ctx.step(name, || execute(&effects, &run, step, begins_with)).await?;
        if step == 0 {
            ctx.sleep(NAP).await?;
        }
    }
    Ok(result_of(made))
}

/// What a workflow that waits for signals returns.
#[derive(Serialize)]
struct Signalled {
    result: u64,
    signals: Vec<u64>,
}

async fn signalled(ctx: Context, id: u64, effects: Arc<File>) -> Result<Signalled, WorkflowError> {
    let result = three_steps(ctx.clone(), id, effects).await?;
    let mut signals = Vec::with_capacity(SIGNALS);
    for _ in 0..SIGNALS {
        signals.push(ctx.signal(SIGNAL).await?);
    }
    Ok(Signalled { result, signals })
}

async fn execute(effects: &File, run: &str, step: usize, begins_with: u64) -> Result<Made, StepError> {
    let token = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
    let half = Duration::from_millis(WORK_MS + token % WORK_SPREAD_MS) / 2;
    tokio::time::sleep(half).await;
    // One write for the whole line, so that a kill leaves all of it or nothing.
    (&mut &*effects).write_all(effect(run, step, token).as_bytes())?;
    tokio::time::sleep(half).await;
    Ok(Made { value: value_of(step, begins_with), token })
}
