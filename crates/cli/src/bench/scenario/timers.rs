//! Timers: workflows that sleep go on in time, and cost nothing until then.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use baton::{Context, StepKind, Worker, WorkflowError, WorkflowHandle};
use serde::de::IgnoredAny;
use tokio::sync::oneshot;

use super::idle::cpu_seconds;
use crate::bench::load::{self, KIND, QUEUE};
use crate::bench::pickup::Latencies;
use crate::bench::report::{Floor, Report};
use crate::bench::server::Server;
use crate::bench::wire::Target;
use crate::bench::{Store, drain, workflows};
use crate::exit::Exit;

/// Workflows whose going on is timed.
const TIMED: u32 = 500;
/// They become due one after the other within this time.
const SPREAD: Duration = Duration::from_secs(20);
/// Before the first one is due all of them have to sleep.
const HEAD_START: Duration = Duration::from_secs(8);
/// How late the last one may be before it is given up.
const PATIENCE: Duration = Duration::from_secs(10);
const LATE_P99_MAX_MS: f64 = 50.0;
/// Sleeping workflows that are to cost nothing, unless told otherwise.
pub const SLEEPERS: usize = 100_000;
/// Longer than the scenario takes.
const LONG: Duration = Duration::from_secs(24 * 3_600);
/// Share of one core, in percent.
const CPU_MAX: f64 = 1.0;
/// Until whatever the load has left to be done is done.
const SETTLED_AFTER: Duration = Duration::from_secs(12);
const LOOK: Duration = Duration::from_millis(500);
const ASLEEP_PATIENCE: Duration = Duration::from_secs(300);

/// Plays it on one store.
pub async fn play(store: &Store, sleepers: usize, seconds: u64, report: &mut Report) -> Result<(), Exit> {
    punctuality(store, report).await?;
    cost(store, sleepers, Duration::from_secs(seconds), report).await
}

/// When the function of a run went on after its sleep.
type WentOn = Arc<Mutex<HashMap<String, SystemTime>>>;

async fn punctuality(store: &Store, report: &mut Report) -> Result<(), Exit> {
    let server = Server::start(store, &[]).await?;
    let target = server.target.clone();
    let late = load::on_one_thread(async move { lateness(&target).await.map_err(io::Error::other) }).await?;
    let peer = store.peer();
    let early = late.iter().filter(|late| **late < 0.0).count();
    let late = Latencies::of(late);
    let settings = format!("{TIMED} workflows, due within {} s, from the due time to the function", SPREAD.as_secs());
    report.check(peer, "timers_early", early as f64, "workflows", Floor::AtMost(0.0));
    report.add(peer, "timers_late_p50", late.quantile(0.5), "ms", settings);
    report.check(peer, "timers_late_p99", late.quantile(0.99), "ms", Floor::AtMost(LATE_P99_MAX_MS));
    Ok(())
}

/// How late each workflow went on, in milliseconds. The store's clock is taken to be this machine's.
async fn lateness(target: &Target) -> Result<Vec<f64>, String> {
    let went_on = WentOn::default();
    let mut worker = workflows::worker(target, workflows::MAX_CONCURRENT).await.map_err(|error| error.to_string())?;
    let notes = went_on.clone();
    worker.register(KIND, move |ctx: Context, nap: Duration| {
        let notes = notes.clone();
        async move {
            ctx.sleep(nap).await?;
            let now = SystemTime::now();
            notes.lock().unwrap_or_else(PoisonError::into_inner).insert(ctx.run_id().to_owned(), now);
            Ok::<(), WorkflowError>(())
        }
    });
    let working = tokio::spawn(worker.run_until(std::future::pending()));
    let client = target.connected().await;
    let client = client.map_err(|error| error.to_string())?;
    let first = Instant::now() + HEAD_START;
    let mut handles = Vec::new();
    for index in 0..TIMED {
        let nap = (first + SPREAD * index / TIMED).saturating_duration_since(Instant::now());
        handles.push(client.start(KIND, &nap).queue(QUEUE).await.map_err(|error| error.to_string())?);
    }
    // Well before the first is due, so that this question disturbs none.
    tokio::time::sleep_until((first - Duration::from_secs(1)).into()).await;
    let queue = drain::queue(target).await.map_err(|_| "the server does not say how many sleep")?;
    if queue.sleeping != u64::from(TIMED) {
        return Err(format!("only {} of {TIMED} workflows sleep before the first is due", queue.sleeping));
    }
    // Nobody asks the server anything while they become due.
    tokio::time::sleep_until((first + SPREAD).into()).await;
    let mut late = Vec::new();
    for handle in &handles {
        let ended = tokio::time::timeout(PATIENCE, handle.result::<()>()).await;
        ended.map_err(|_| "a workflow does not go on")?.map_err(|error| error.to_string())?;
        let due = due(handle).await?;
        let went_on = went_on.lock().unwrap_or_else(PoisonError::into_inner).get(handle.run_id()).copied();
        let went_on = went_on.ok_or("a workflow ended without having gone on")?;
        late.push(match went_on.duration_since(due) {
            Ok(late) => late.as_secs_f64() * 1e3,
            Err(early) => early.duration().as_secs_f64() * -1e3,
        });
    }
    working.abort();
    Ok(late)
}

/// The moment at which a workflow was to go on, by the store's own clock.
async fn due(handle: &WorkflowHandle) -> Result<SystemTime, String> {
    let steps = handle.steps().await.map_err(|error| error.to_string())?;
    let sleep = steps.into_iter().find(|step| step.kind == StepKind::Sleep);
    sleep.and_then(|sleep| sleep.due_at).ok_or_else(|| "a sleep has no due time".into())
}

/// What many sleeping workflows cost the server, compared with none.
async fn cost(store: &Store, sleepers: usize, time: Duration, report: &mut Report) -> Result<(), Exit> {
    let server = Server::start(store, &[]).await?;
    let mut worker = workflows::worker(&server.target, workflows::MAX_CONCURRENT).await?;
    worker.register(KIND, |ctx: Context, _: IgnoredAny| async move { ctx.sleep(LONG).await });
    let (stop, stopped) = oneshot::channel::<()>();
    let working = tokio::spawn(load::on_one_thread(serve(worker, stopped)));
    tokio::time::sleep(SETTLED_AFTER).await;
    let without = cpu_share(&server, time).await?;
    load::bulk(&server.target, sleepers).await?;
    let deadline = Instant::now() + ASLEEP_PATIENCE;
    while drain::queue(&server.target).await?.sleeping < sleepers as u64 {
        if Instant::now() > deadline {
            return Err(Exit::failed(format!("{sleepers} workflows did not fall asleep in time")));
        }
        tokio::time::sleep(LOOK).await;
    }
    tokio::time::sleep(SETTLED_AFTER).await;
    let with = cpu_share(&server, time).await?;
    // It may have ended already, and then there is nobody to be stopped.
    let _ = stop.send(());
    working.await.map_err(|error| Exit::failed(error.to_string()))??;
    let peer = store.peer();
    report.add(peer, "timers_cpu_without_sleepers", without, "% of a core", "one worker waits");
    report.add(peer, "timers_cpu_with_sleepers", with, "% of a core", format!("and {sleepers} workflows sleep"));
    report.check(peer, "timers_cpu_of_sleepers", with - without, "% of a core", Floor::AtMost(CPU_MAX));
    Ok(())
}

async fn serve(worker: Worker, stopped: oneshot::Receiver<()>) -> io::Result<()> {
    let stopped = async move { stopped.await.unwrap_or_default() };
    worker.run_until(stopped).await.map_err(io::Error::other)
}

/// What share of a core the server uses, in percent.
async fn cpu_share(server: &Server, time: Duration) -> Result<f64, Exit> {
    let (begun, before) = (Instant::now(), cpu_seconds(server.pid())?);
    tokio::time::sleep(time).await;
    Ok(100.0 * (cpu_seconds(server.pid())? - before) / begun.elapsed().as_secs_f64())
}
