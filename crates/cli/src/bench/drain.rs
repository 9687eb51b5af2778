//! Drain: the runs are in the store; one worker process; from its start until the store shows no unfinished run.

use std::fmt;
use std::time::{Duration, Instant};

use baton::proto::QueueView;
use tokio::io::AsyncReadExt;

use super::database::{self, Database};
use super::load::{self, QUEUE};
use super::wire::Target;
use super::worker::{CLAIM_RUNS, CLAIMS_IN_FLIGHT};
use super::{server, workflows};
use crate::exit::Exit;

const LOOK: Duration = Duration::from_millis(5);

/// How the worker gets runs and says what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// Calls of the HTTP API, each for many runs.
    Batches { claim: usize, polls: usize },
    /// The stream of the gRPC service, with as many runs held at once.
    Stream { slots: u32 },
}

impl By {
    /// Batches that are as fast as batches can be.
    pub const BATCHES: By = By::Batches { claim: CLAIM_RUNS, polls: CLAIMS_IN_FLIGHT };
    /// A stream whose worker never has too few.
    pub const STREAM: By = By::Stream { slots: workflows::MAX_CONCURRENT };

    fn arguments(self) -> Vec<String> {
        match self {
            By::Batches { claim, polls } => vec![format!("--claim={claim}"), format!("--polls={polls}")],
            By::Stream { slots } => vec![format!("--stream={slots}")],
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            By::Batches { claim, polls } => {
                write!(f, "{polls} claims in flight, up to {claim} runs each, completed in batches")
            }
            By::Stream { slots } => write!(f, "one gRPC stream, up to {slots} runs held"),
        }
    }
}

/// Submits runs and has one worker process complete them.
pub async fn measure(target: &Target, store: Option<&Database>, runs: usize, by: By) -> Result<Duration, Exit> {
    load::bulk(target, runs).await?;
    settle(store).await?;
    let begun = Instant::now();
    work(target, runs, by).await?;
    while unfinished(target).await? > 0 {
        tokio::time::sleep(LOOK).await;
    }
    Ok(begun.elapsed())
}

/// As every peer gets it before its drain: PostgreSQL knows what is in its tables.
pub async fn settle(store: Option<&Database>) -> Result<(), Exit> {
    match store {
        Some(database) => database::execute(&database.connect().await?, "vacuum analyze").await,
        None => Ok(()),
    }
}

/// Starts a worker process and waits until it has completed so many runs.
pub async fn work(target: &Target, runs: usize, by: By) -> Result<(), Exit> {
    let runs_text = runs.to_string();
    let how = by.arguments();
    let arguments: Vec<&str> = ["--runs", &runs_text].into_iter().chain(how.iter().map(String::as_str)).collect();
    let mut worker = server::worker(target, &arguments)?;
    let mut said = String::new();
    if let Some(mut output) = worker.stdout.take() {
        output.read_to_string(&mut said).await?;
    }
    match said.trim().parse::<usize>() {
        Ok(completed) if completed >= runs => Ok(()),
        _ => Err(Exit::failed(format!("the worker was to complete {runs} runs and said {said:?}"))),
    }
}

/// Runs of the queue that have not ended.
pub async fn unfinished(target: &Target) -> Result<u64, Exit> {
    let queue = queue(target).await?;
    Ok(queue.ready + queue.scheduled + queue.held + queue.sleeping)
}

/// The queue of all measurements, with how many runs are in which state.
pub async fn queue(target: &Target) -> Result<QueueView, Exit> {
    let answer = target.once("GET", &format!("/api/v1/queues/{QUEUE}"), "").await?;
    serde_json::from_slice(&answer).map_err(|error| Exit::failed(error.to_string()))
}
