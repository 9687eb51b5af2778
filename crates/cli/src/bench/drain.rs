//! Drain: the runs are in the store; one worker process; from its start until the store shows no unfinished run.

use std::time::{Duration, Instant};

use baton::proto::QueueView;
use tokio::io::AsyncReadExt;

use super::database::{self, Database};
use super::load::{self, QUEUE};
use super::server;
use super::wire::Target;
use crate::exit::Exit;

const LOOK: Duration = Duration::from_millis(5);

/// How the worker gets runs and says what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// Calls of the HTTP API, each for many runs.
    Batches,
    /// The stream of the gRPC service.
    Stream,
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
    let mut arguments = vec!["--runs", &runs_text];
    if by == By::Stream {
        arguments.push("--stream");
    }
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
