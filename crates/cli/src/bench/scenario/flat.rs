//! Flat: a drain takes as long with a million finished runs and a long line as in an empty store, and as long beside
//! a transaction that has been open for minutes.

use std::io;
use std::time::{Duration, Instant};

use super::fill::{self, Filling};
use crate::bench::database;
use crate::bench::drain;
use crate::bench::load;
use crate::bench::report::{Floor, Report};
use crate::bench::server::Server;
use crate::bench::wire::Target;
use crate::bench::{Store, worker};
use crate::exit::Exit;

pub(super) const DRAINED: usize = 20_000;
pub(super) const FILLING: Filling = Filling { finished: 1_000_000, waiting: 100_000 };
/// Slower than this is not flat any more.
const RATIO_MAX: f64 = 1.3;
const STEADY_EVERY: Duration = Duration::from_millis(100);
/// Submitted each tick while the transaction is open: 500 a second.
const STEADY_RUNS: usize = 50;
/// Drains of an empty store differ; the middle one of so many counts.
const EMPTY_DRAINS: usize = 3;
const FULL_DRAINS: usize = 3;

/// Plays it on one store.
pub async fn play(store: &Store, seconds: u64, report: &mut Report) -> Result<(), Exit> {
    let peer = store.peer();
    let mut times = Vec::new();
    for _ in 0..EMPTY_DRAINS {
        let server = Server::start(store, &[]).await?;
        load::bulk(&server.target, DRAINED).await?;
        drain::settle(server.database.as_ref()).await?;
        times.push(timed_drain(&server.target).await?);
    }
    let empty = middle(times);
    report.add(peer, "drain_empty", DRAINED as f64 / empty, "jobs/s", format!("{DRAINED} runs, nothing else there"));

    let mut server = Server::start(store, &[]).await?;
    fill(&mut server).await?;
    let mut times = Vec::new();
    for _ in 0..FULL_DRAINS {
        times.push(timed_drain(&server.target).await?);
    }
    let full = middle(times);
    let settings = format!("{} finished, {} waiting", FILLING.finished, FILLING.waiting);
    report.add(peer, "drain_full", DRAINED as f64 / full, "jobs/s", settings);
    report.check(peer, "full_to_empty", full / empty, "times", Floor::AtMost(RATIO_MAX));
    drop(server);

    if matches!(store, Store::Postgres { .. }) {
        let beside = beside_transaction(store, Duration::from_secs(seconds)).await?;
        let settings = format!("a transaction open for {seconds} s, {} runs/s until then", steady_rate());
        report.add(peer, "drain_beside_transaction", DRAINED as f64 / beside, "jobs/s", settings);
        report.check(peer, "beside_to_empty", beside / empty, "times", Floor::AtMost(RATIO_MAX));
    }
    Ok(())
}

fn steady_rate() -> usize {
    STEADY_RUNS * 1_000 / STEADY_EVERY.as_millis() as usize
}

/// Seconds until a worker process has completed its share of what is there.
pub(super) async fn timed_drain(target: &Target) -> Result<f64, Exit> {
    let begun = Instant::now();
    drain::work(target, DRAINED, drain::By::BATCHES).await?;
    Ok(begun.elapsed().as_secs_f64())
}

/// The middle one.
pub(super) fn middle(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Fills the store of a server, which is started again.
pub(super) async fn fill(server: &mut Server) -> Result<(), Exit> {
    // The first run makes the queue and the lane.
    load::bulk(&server.target, 1).await?;
    drain::work(&server.target, 1, drain::By::BATCHES).await?;
    server.stop().await;
    match &server.database {
        Some(database) => fill::postgres(database, FILLING).await?,
        None => fill::sqlite(&server.sqlite_path(), FILLING)?,
    }
    drain::settle(server.database.as_ref()).await?;
    server.start_again().await
}

/// Holds a transaction open under a steady load, then measures a drain while it is still open.
async fn beside_transaction(store: &Store, held_for: Duration) -> Result<f64, Exit> {
    let server = Server::start(store, &[]).await?;
    let target = server.target.clone();
    // The first run makes the tables' rows that the transaction sees.
    load::bulk(&target, 1).await?;
    let Some(database) = &server.database else { return Err(Exit::failed("this is about PostgreSQL")) };
    let holder = database.connect().await?;
    // It has a snapshot and a number, so that nothing that dies from now on can be cleaned away.
    let begin = "begin isolation level repeatable read; select pg_current_xact_id(); select count(*) from live";
    database::execute(&holder, begin).await?;
    let registered = worker::register(&target).await?;
    let beats = tokio::spawn(worker::beat(target.clone(), registered.clone()));
    let worker = tokio::spawn({
        let target = target.clone();
        async move { worker::drain(&target, &registered, usize::MAX, STEADY_RUNS, 2).await }
    });
    submit_steadily(&target, held_for).await?;
    while drain::unfinished(&target).await? > 0 {
        tokio::time::sleep(STEADY_EVERY).await;
    }
    // It waits with empty hands, so that nothing is lost with it.
    worker.abort();
    beats.abort();
    load::bulk(&target, DRAINED).await?;
    let time = timed_drain(&target).await?;
    database::execute(&holder, "rollback").await?;
    Ok(time)
}

async fn submit_steadily(target: &Target, time: Duration) -> io::Result<()> {
    let request = target.request("POST", "/api/v1/runs/batch", &load::batch((0..STEADY_RUNS as i64).map(load::run)));
    let mut wire = target.connect().await?;
    let mut ticks = tokio::time::interval(STEADY_EVERY);
    let begun = Instant::now();
    while begun.elapsed() < time {
        ticks.tick().await;
        wire.call(&request).await?;
    }
    Ok(())
}
