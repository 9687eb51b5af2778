//! Bulk: many sleeping runs are cancelled in a minute, and those who submit meanwhile hardly notice.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton::proto::{BulkFilter, BulkView, Claim, CreateBulk, RegisterWorker, SleepRun};
use baton_core::State;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::bench::Store;
use crate::bench::load::{self, KIND, QUEUE};
use crate::bench::pickup::Latencies;
use crate::bench::report::{Floor, Report};
use crate::bench::server::Server;
use crate::bench::wire::Target;
use crate::exit::Exit;

/// Sleeping runs, unless told otherwise.
pub const SLEEPERS: usize = 100_000;
/// Runs that are submitted in a second.
const SUBMITS_PER_SECOND: u32 = 500;
/// Connections of those who submit.
const CONNECTIONS: usize = 32;
/// Runs that are put to sleep at once.
const CLAIM: u32 = 1_000;
/// Calls in flight that put runs to sleep.
const IN_FLIGHT: usize = 32;
/// Longer than the scenario takes.
const NAP_MS: u64 = 24 * 3_600_000;
const SECONDS_MAX: f64 = 60.0;
/// What submits may take, compared with before.
const SLOWER_MAX: f64 = 2.0;
const LOOK: Duration = Duration::from_millis(200);
/// Submits that are not counted: the first ones open connections and fill caches.
const WARM_UP: Duration = Duration::from_secs(3);

/// Plays it on one store.
pub async fn play(store: &Store, sleepers: usize, seconds: u64, report: &mut Report) -> Result<(), Exit> {
    let server = Server::start(store, &[("BATON_BACKLOG_MAX", "10000000")]).await?;
    let target = server.target.clone();
    load::bulk(&target, sleepers).await?;
    put_to_sleep(&target, sleepers).await?;
    let before = submits(&target, Duration::from_secs(seconds)).await?;
    let client = target.client()?;
    let filter = BulkFilter { queue: Some(QUEUE.into()), ..BulkFilter::in_states([State::Sleeping]) };
    let (stop, stopped) = watch::channel(false);
    let during = tokio::spawn({
        let target = target.clone();
        async move { submits_until(&target, Duration::ZERO, stopped).await }
    });
    let begun = Instant::now();
    let mut operation = client.bulk_start(&CreateBulk::new("cancel", filter), None).await?;
    while !operation.is_ended() {
        tokio::time::sleep(LOOK).await;
        operation = client.bulk(&operation.id).await?;
    }
    let took = begun.elapsed();
    // Whoever submits may have failed already.
    let _ = stop.send(true);
    let during = during.await.map_err(|error| Exit::failed(error.to_string()))??;
    assess(store, sleepers, &operation, took, (&before, &during), report)
}

fn assess(
    store: &Store,
    sleepers: usize,
    operation: &BulkView,
    took: Duration,
    (before, during): (&Latencies, &Latencies),
    report: &mut Report,
) -> Result<(), Exit> {
    let peer = store.peer();
    if operation.state != "completed" || operation.done != sleepers as u64 {
        return Err(Exit::failed(format!("not all of {sleepers} runs were cancelled: {operation:?}")));
    }
    report.check(peer, "bulk_cancel", took.as_secs_f64(), "s", Floor::AtMost(SECONDS_MAX));
    let settings = format!("{sleepers} sleeping runs, {SUBMITS_PER_SECOND} submits a second meanwhile");
    report.add(peer, "bulk_cancel_rate", sleepers as f64 / took.as_secs_f64(), "runs/s", settings);
    for (name, latencies) in [("before", before), ("during", during)] {
        for (quantile, share) in [("p50", 0.5), ("p99", 0.99)] {
            let metric = format!("bulk_submit_{name}_{quantile}");
            report.add(
                peer,
                &metric,
                latencies.quantile(share),
                "ms",
                format!("{SUBMITS_PER_SECOND} submits a second"),
            );
        }
    }
    let slower = during.quantile(0.99) / before.quantile(0.99);
    report.check(peer, "bulk_submit_p99_slower", slower, "times", Floor::AtMost(SLOWER_MAX));
    Ok(())
}

/// A worker takes all runs and puts them to sleep.
async fn put_to_sleep(target: &Target, runs: usize) -> Result<(), Exit> {
    let client = Arc::new(target.client()?);
    let shape = json!({"name": "sleeper", "queues": [QUEUE], "types": [KIND], "max_concurrent": CLAIM});
    let shape: RegisterWorker = serde_json::from_value(shape).map_err(|error| Exit::failed(error.to_string()))?;
    let worker = client.register(&shape).await?.worker_id;
    let (mut asleep, mut number) = (0, 0);
    while asleep < runs {
        number += 1;
        let claim = Claim { max: Some(CLAIM), start: true, claim_no: Some(number), ..Claim::default() };
        let held = client.claim(&worker, &claim).await?.runs;
        if held.is_empty() {
            return Err(Exit::failed(format!("only {asleep} of {runs} runs were there to be put to sleep")));
        }
        asleep += held.len();
        let mut naps = JoinSet::new();
        for run in held {
            if naps.len() >= IN_FLIGHT {
                ended(naps.join_next().await)?;
            }
            let client = client.clone();
            naps.spawn(async move {
                let nap = SleepRun { lease: run.lease, ms: Some(NAP_MS), until: None };
                client.sleep(&run.run_id, &nap).await
            });
        }
        while let Some(nap) = naps.join_next().await {
            ended(Some(nap))?;
        }
    }
    client.deregister(&worker).await?;
    Ok(())
}

fn ended<T>(nap: Option<Result<Result<T, baton::ClientError>, tokio::task::JoinError>>) -> Result<(), Exit> {
    match nap {
        Some(nap) => Ok(nap.map_err(|error| Exit::failed(error.to_string()))?.map(drop)?),
        None => Ok(()),
    }
}

/// Submits for this long, after a while that does not count.
async fn submits(target: &Target, time: Duration) -> Result<Latencies, Exit> {
    let (stop, stopped) = watch::channel(false);
    let timer = async move {
        tokio::time::sleep(WARM_UP + time).await;
        let _ = stop.send(true);
    };
    let (latencies, ()) = tokio::join!(submits_until(target, WARM_UP, stopped), timer);
    latencies
}

/// Submits at an even pace until told to stop, whatever each submit takes: who waits longer than the pace does not make the
/// others wait.
async fn submits_until(target: &Target, warm_up: Duration, stopped: watch::Receiver<bool>) -> Result<Latencies, Exit> {
    let target = target.clone();
    let latencies = load::on_one_thread(async move {
        // Runs of another queue, so that the operation and the load share the store and nothing else.
        let body = load::run(1).replace(QUEUE, "others");
        let request: Arc<[u8]> = target.request("POST", "/api/v1/runs", &body).into();
        let (give_back, mut idle) = mpsc::unbounded_channel();
        for _ in 0..CONNECTIONS {
            let _ = give_back.send(target.connect().await?);
        }
        let (seen, mut latencies) = mpsc::unbounded_channel();
        let begun = Instant::now();
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / SUBMITS_PER_SECOND);
        while !*stopped.borrow() {
            ticks.tick().await;
            let due = Instant::now();
            let Some(mut wire) = idle.recv().await else { break };
            let (request, give_back, seen) = (request.clone(), give_back.clone(), seen.clone());
            tokio::spawn(async move {
                let answered = wire.call(&request).await.map(drop);
                let counts = due.duration_since(begun) >= warm_up;
                let latency = answered.map(|()| counts.then(|| due.elapsed().as_secs_f64() * 1e3));
                let _ = seen.send(latency);
                let _ = give_back.send(wire);
            });
        }
        drop(seen);
        let mut all = Vec::new();
        while let Some(latency) = latencies.recv().await {
            all.extend(latency?);
        }
        io::Result::Ok(Latencies::of(all))
    })
    .await?;
    Ok(latencies)
}
