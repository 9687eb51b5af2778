//! `baton bench-worker`: the worker process of a measurement. Claims in batches, does nothing, completes in batches.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use baton::proto::{RegisterWorker, RegisteredWorker};
use clap::Args;
use serde::Deserialize;
use tokio::task::JoinSet;

use super::load::{KIND, QUEUE, on_one_thread};
use super::wire::{Target, Wire};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::output::print_line;

/// Runs in one claim.
pub const CLAIM_RUNS: usize = 1_000;
/// Claims in flight.
pub const CLAIMS_IN_FLIGHT: usize = 4;
/// How long a claim waits for work.
const WAIT_MS: u64 = 30_000;

#[derive(Args)]
pub struct BenchWorkerArgs {
    /// End when so many runs are completed.
    #[arg(long, default_value_t = usize::MAX)]
    runs: usize,
    /// Runs in one claim.
    #[arg(long, default_value_t = CLAIM_RUNS)]
    claim: usize,
    /// Claims in flight.
    #[arg(long, default_value_t = CLAIMS_IN_FLIGHT)]
    polls: usize,
    /// Get the runs over the stream of the gRPC service, and hold so many at once.
    #[arg(long, conflicts_with_all = ["claim", "polls", "hold"])]
    stream: Option<u32>,
    /// Claim so many runs and keep them.
    #[arg(long)]
    hold: Option<usize>,
    /// Work with the SDK, and leave a line in this file for each run whose completion the server has confirmed.
    #[arg(long)]
    confirmed: Option<std::path::PathBuf>,
    /// Play workflows of three steps, and leave a line in this file for each execution of a step.
    #[arg(long)]
    effects: Option<std::path::PathBuf>,
    /// The namespace of these workflows.
    #[arg(long, default_value = baton::proto::NAMESPACE_DEFAULT, requires = "effects")]
    namespace: String,
}

/// Works until it has completed as many runs as it was told to.
pub async fn work(connection: &Connection, args: BenchWorkerArgs) -> Result<(), Exit> {
    if let Some(path) = args.confirmed {
        return super::scenario::kills::work(connection.client()?, &path).await;
    }
    let api_key = connection.find_api_key()?.unwrap_or_default();
    let target = Target::new(&connection.find_url(), &api_key, connection.tls_options()?)?;
    if let Some(path) = args.effects {
        return super::scenario::workflow_kills::three_steps::work(&target, &args.namespace, &path).await;
    }
    on_one_thread(async move {
        if let Some(slots) = args.stream {
            print_line(super::workflows::drain(&target, args.runs, slots).await?);
            return Ok(());
        }
        let worker = register(&target).await?;
        tokio::spawn(beat(target.clone(), worker.clone()));
        if let Some(runs) = args.hold {
            let claim = claim(&target, &worker, 1, runs, 0);
            let mut wire = target.connect().await?;
            let held = held(wire.call(&claim).await?)?.len();
            print_line(held);
            return std::future::pending().await;
        }
        let completed = drain(&target, &worker, args.runs, args.claim, args.polls).await?;
        print_line(completed);
        Ok(())
    })
    .await?;
    Ok(())
}

/// Registers a worker of the benchmark's queue.
pub async fn register(target: &Target) -> io::Result<RegisteredWorker> {
    let worker = RegisterWorker {
        namespace: baton::proto::NAMESPACE_DEFAULT.into(),
        name: None,
        queues: vec![QUEUE.into()],
        types: vec![KIND.into()],
        hostname: None,
        pid: Some(std::process::id()),
        version: None,
        labels: Default::default(),
        max_concurrent: Some(100_000),
        instance: None,
    };
    let answer = target.once("POST", "/api/v1/workers", &serde_json::to_string(&worker)?).await?;
    Ok(serde_json::from_slice(&answer)?)
}

/// Keeps the worker's leases alive for as long as the server takes its heartbeats.
pub async fn beat(target: Target, worker: RegisteredWorker) -> io::Result<()> {
    let request = heartbeat(&target, &worker);
    let mut wire = target.connect().await?;
    let mut ticks = tokio::time::interval(Duration::from_millis(worker.heartbeat_interval_ms));
    loop {
        ticks.tick().await;
        wire.call(&request).await?;
    }
}

/// A request with a sign of life.
pub fn heartbeat(target: &Target, worker: &RegisteredWorker) -> Vec<u8> {
    target.request("POST", &format!("/api/v1/workers/{}/heartbeat", worker.worker_id), "{}")
}

/// A request for up to `runs` runs. The number makes repeating it harmless.
pub fn claim(target: &Target, worker: &RegisteredWorker, number: u64, runs: usize, wait_ms: u64) -> Vec<u8> {
    let path = format!("/api/v1/workers/{}/claim", worker.worker_id);
    let body = format!(r#"{{"max":{runs},"wait_ms":{wait_ms},"claim_no":{number},"start":true}}"#);
    target.request("POST", &path, &body)
}

/// A request to complete these runs, with the leases as they came.
pub fn complete(target: &Target, runs: &[Held<'_>]) -> Vec<u8> {
    let mut body = String::with_capacity(runs.len() * 128 + 16);
    body.push_str(r#"{"runs":["#);
    for (index, run) in runs.iter().enumerate() {
        let parts =
            [if index == 0 { "" } else { "," }, r#"{"run_id":""#, run.run_id, r#"","lease":""#, run.lease, "\"}"];
        parts.iter().for_each(|part| body.push_str(part));
    }
    body.push_str("]}");
    target.request("POST", "/api/v1/runs/complete", &body)
}

/// What the worker reads of a run.
#[derive(Debug, Deserialize)]
pub struct Held<'a> {
    run_id: &'a str,
    lease: &'a str,
    pub input: Input,
}

/// What the handler reads of its input.
#[derive(Debug, Deserialize)]
pub struct Input {
    pub id: i64,
}

/// The runs in the answer to a claim.
pub fn held(answer: &[u8]) -> io::Result<Vec<Held<'_>>> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        runs: Vec<Held<'a>>,
    }
    Ok(serde_json::from_slice::<Answer<'_>>(answer)?.runs)
}

/// How many runs the answer to a completion says are completed.
fn count_completed(answer: &[u8]) -> io::Result<usize> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        runs: Vec<Outcome<'a>>,
    }
    #[derive(Deserialize)]
    struct Outcome<'a> {
        state: Option<&'a str>,
    }
    let outcomes = serde_json::from_slice::<Answer<'_>>(answer)?.runs;
    Ok(outcomes.iter().filter(|outcome| outcome.state == Some("completed")).count())
}

/// Completes runs until there have been enough, and returns how many there were.
pub async fn drain(
    target: &Target,
    worker: &RegisteredWorker,
    enough: usize,
    batch: usize,
    in_flight: usize,
) -> io::Result<usize> {
    let (completed, number) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(1)));
    let mut polls = JoinSet::new();
    for _ in 0..in_flight {
        let poll = Poll {
            wire: target.connect().await?,
            target: target.clone(),
            worker: worker.clone(),
            number: number.clone(),
            batch,
        };
        polls.spawn(poll.work(enough, completed.clone()));
    }
    // The first that sees the end ends them all: the others wait for work that does not come.
    while let Some(ended) = polls.join_next().await {
        if ended.map_err(io::Error::other)?? {
            break;
        }
    }
    Ok(completed.load(Ordering::Relaxed))
}

/// One claim after the other, each completed before the next.
struct Poll {
    wire: Wire,
    target: Target,
    worker: RegisteredWorker,
    number: Arc<AtomicU64>,
    batch: usize,
}

impl Poll {
    async fn work(mut self, enough: usize, completed: Arc<AtomicUsize>) -> io::Result<bool> {
        loop {
            let number = self.number.fetch_add(1, Ordering::Relaxed);
            let claim = claim(&self.target, &self.worker, number, self.batch, WAIT_MS);
            let held = held(self.wire.call(&claim).await?)?;
            if held.is_empty() {
                continue;
            }
            let complete = complete(&self.target, &held);
            let done = count_completed(self.wire.call(&complete).await?)?;
            if completed.fetch_add(done, Ordering::Relaxed) + done >= enough {
                return Ok(true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_without_copies_and_leases_go_back_as_they_came() {
        let answer = br#"{"runs":[{"run_id":"a","lease":"b","epoch":1,"input":{"id":7,"note":"x"}}]}"#;
        let runs = held(answer).unwrap();
        assert_eq!(runs[0].input.id, 7);
        let target = Target::new("http://h:1", "k", baton::Tls::new()).unwrap();
        let request = String::from_utf8(complete(&target, &runs)).unwrap();
        let (_, body) = request.split_once("\r\n\r\n").unwrap();
        assert_eq!(body, r#"{"runs":[{"run_id":"a","lease":"b"}]}"#);
        let outcomes = br#"{"runs":[{"run_id":"a","state":"completed"},{"run_id":"b","code":"lease_lost"}]}"#;
        assert_eq!(count_completed(outcomes).unwrap(), 1);
    }
}
