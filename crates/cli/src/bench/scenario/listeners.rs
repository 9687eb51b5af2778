//! Listeners: a thousand of them cost a quiet server next to nothing, and one of a busy server hears of the end of each
//! run, or is told how many it missed.

use std::io;
use std::time::{Duration, Instant};

use baton::EventFilter;
use futures_util::StreamExt;
use tokio::task::JoinSet;

use super::idle::{cpu_seconds, metric};
use crate::bench::Store;
use crate::bench::load;
use crate::bench::report::{Floor, Report};
use crate::bench::server::Server;
use crate::bench::wire::{Target, Wire};
use crate::bench::worker;
use crate::exit::Exit;

const LISTENERS: usize = 1_000;
/// Share of one core, in percent.
const CPU_MAX: f64 = 5.0;
/// How long they settle before it is counted.
const SETTLED_AFTER: Duration = Duration::from_secs(3);
/// Runs on the busy server, unless told otherwise.
pub const RUNS: usize = 100_000;
/// Runs that are submitted in a second, and in a call.
const RUNS_PER_SECOND: usize = 5_000;
const RUNS_PER_CALL: usize = 100;
/// The listener has heard of everything within this time after the last run has ended.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);

/// Plays it on one store.
pub async fn play(store: &Store, runs: usize, seconds: u64, report: &mut Report) -> Result<(), Exit> {
    quiet(store, seconds, report).await?;
    busy(store, runs.next_multiple_of(RUNS_PER_CALL), report).await
}

async fn quiet(store: &Store, seconds: u64, report: &mut Report) -> Result<(), Exit> {
    let server = Server::start(store, &[]).await?;
    let target = server.target.clone();
    let mut wires = Vec::with_capacity(LISTENERS);
    for _ in 0..LISTENERS {
        let mut wire = target.connect().await?;
        wire.follow(&target.request("GET", "/api/v1/events", "")).await?;
        wires.push(wire);
    }
    let crowd = tokio::spawn(load::on_one_thread(async move {
        let mut reading: JoinSet<io::Result<()>> = wires.into_iter().map(Wire::read_on).collect();
        // None of them ends while all is well.
        reading.join_next().await.unwrap_or(Ok(Ok(()))).map_err(io::Error::other)?
    }));
    let listening = metric(&target, "baton_event_listeners").await?;
    report.check(store.peer(), "listeners", listening, "listeners", Floor::AtLeast(LISTENERS as f64));
    tokio::time::sleep(SETTLED_AFTER).await;
    let (begun, before) = (Instant::now(), cpu_seconds(server.pid())?);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let cpu = 100.0 * (cpu_seconds(server.pid())? - before) / begun.elapsed().as_secs_f64();
    if crowd.is_finished() {
        return Err(Exit::failed("the server ended the stream of a listener"));
    }
    crowd.abort();
    report.check(store.peer(), "listeners_cpu", cpu, "% of a core", Floor::AtMost(CPU_MAX));
    Ok(())
}

async fn busy(store: &Store, runs: usize, report: &mut Report) -> Result<(), Exit> {
    let server = Server::start(store, &[]).await?;
    let target = server.target.clone();
    let filter = EventFilter { kinds: vec!["run.ended".into()], ..EventFilter::default() };
    let mut events = Box::pin(target.client()?.events(&filter));
    let ear = tokio::spawn(async move {
        let (mut heard, mut missed) = (0, 0);
        while heard + missed < runs as u64 {
            match events.next().await.transpose()? {
                Some(event) if event.kind == "missed" => missed += event.count.unwrap_or_default(),
                Some(_) => heard += 1,
                None => break,
            }
        }
        Ok::<_, baton::ClientError>((heard, missed))
    });
    while metric(&target, "baton_event_listeners").await? < 1.0 {
        tokio::time::sleep(LOOK).await;
    }
    let begun = Instant::now();
    let worked = {
        let target = target.clone();
        tokio::spawn(load::on_one_thread(async move {
            let worker = worker::register(&target).await?;
            let beat = tokio::spawn(worker::beat(target.clone(), worker.clone()));
            let done = worker::drain(&target, &worker, runs, worker::CLAIM_RUNS, worker::CLAIMS_IN_FLIGHT).await;
            beat.abort();
            done
        }))
    };
    submit(&target, runs).await?;
    let submitted = begun.elapsed();
    let completed = worked.await.map_err(|error| Exit::failed(error.to_string()))??;
    let told = tokio::time::timeout(PATIENCE, ear).await;
    let (heard, missed) = match told {
        Ok(told) => told.map_err(|error| Exit::failed(error.to_string()))??,
        Err(_) => return Err(Exit::failed("the listener did not hear of all runs, nor how many it missed")),
    };
    let peer = store.peer();
    let rate = runs as f64 / submitted.as_secs_f64();
    report.add(peer, "listener_load", rate, "runs/s", format!("{completed} runs completed"));
    report.add(peer, "listener_missed", missed as f64, "runs", "which it was told of");
    let untold = runs as f64 - heard as f64 - missed as f64;
    report.check(peer, "listener_not_told", untold.abs(), "runs", Floor::AtMost(0.0));
    Ok(())
}

/// Submits at an even pace.
async fn submit(target: &Target, runs: usize) -> Result<(), Exit> {
    let body = load::batch((0..RUNS_PER_CALL as i64).map(load::run));
    let request = target.request("POST", "/api/v1/runs/batch", &body);
    let mut wire = target.connect().await?;
    let calls_per_second = RUNS_PER_SECOND / RUNS_PER_CALL;
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / calls_per_second as u32);
    for _ in 0..runs / RUNS_PER_CALL {
        ticks.tick().await;
        wire.call(&request).await?;
    }
    Ok(())
}
