//! Blocking: steps that compute use the cores there are, and cost no lease.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use baton::{Context, State, WorkflowError};
use tokio::runtime::Builder;

use super::idle::cpu_seconds;
use crate::bench::load::{KIND, QUEUE};
use crate::bench::report::{Floor, Report};
use crate::bench::server::Server;
use crate::bench::wire::Target;
use crate::bench::{Store, workflows};
use crate::exit::Exit;

/// Steps of the workflow, and how long each computes.
const STEPS: u32 = 40;
const STEP: Duration = Duration::from_millis(500);
/// Threads of the worker's runtime, and for its blocking steps.
const THREADS: usize = 2;
/// Of two.
const CORES_MIN: f64 = 1.7;
/// Steps under way at the same time. Each lasts for so long whoever else computes, so this can be
/// told on a busy machine, too.
const AT_ONCE_MIN: f64 = 1.7;

/// How the steps compute.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// On the runtime, where they should not.
    Plain,
    /// In steps that are made for it.
    Blocking,
}

struct Outcome {
    cores: f64,
    at_once: f64,
    executed: u32,
    leases_lost: u32,
    recorded: usize,
}

/// Plays it on one store.
pub async fn play(store: &Store, report: &mut Report) -> Result<(), Exit> {
    let peer = store.peer();
    for (how, name) in [(How::Plain, "plain"), (How::Blocking, "blocking")] {
        let server = Server::start(store, &[]).await?;
        let target = server.target.clone();
        let played =
            tokio::task::spawn_blocking(move || compute_all(&target, how)).await.map_err(io::Error::other)??;
        let Outcome { cores, at_once, executed, leases_lost, recorded } = played;
        let settings = format!("{STEPS} steps of {} ms, a runtime of {THREADS} threads", STEP.as_millis());
        match how {
            How::Plain => report.add(peer, &format!("{name}_cores"), cores, "cores", settings),
            How::Blocking => {
                report.check(peer, &format!("{name}_cores"), cores, "cores", Floor::AtLeast(CORES_MIN));
                report.check(peer, &format!("{name}_at_once"), at_once, "steps", Floor::AtLeast(AT_ONCE_MIN));
            }
        }
        let more = f64::from(executed.saturating_sub(STEPS));
        report.check(peer, &format!("{name}_executed_again"), more, "steps", Floor::AtMost(0.0));
        report.check(peer, &format!("{name}_recorded"), recorded as f64, "steps", Floor::AtLeast(f64::from(STEPS)));
        report.check(peer, &format!("{name}_leases_lost"), f64::from(leases_lost), "leases", Floor::AtMost(0.0));
    }
    Ok(())
}

/// Executes one workflow by a worker on a runtime of its own.
fn compute_all(target: &Target, how: How) -> io::Result<Outcome> {
    let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    runtime.block_on(async {
        let executed = Arc::new(AtomicU32::new(0));
        let mut worker = workflows::worker_with_threads(target, 1, THREADS).await?;
        let count = executed.clone();
        worker.register(KIND, move |ctx: Context, (): ()| steps(ctx, how, count.clone()));
        let working = tokio::spawn(worker.run_until(std::future::pending()));
        let client = target.connected().await;
        let client = client.map_err(io::Error::other)?;
        let (begun, cpu) = (Instant::now(), cpu_seconds(std::process::id())?);
        let handle = client.start(KIND, &()).queue(QUEUE).await.map_err(io::Error::other)?;
        handle.result::<usize>().await.map_err(io::Error::other)?;
        let took = begun.elapsed().as_secs_f64();
        let cores = (cpu_seconds(std::process::id())? - cpu) / took;
        let at_once = f64::from(STEPS) * STEP.as_secs_f64() / took;
        let run = client.run(handle.run_id()).await.map_err(io::Error::other)?;
        debug_assert_eq!(run.state, State::Completed);
        let recorded = handle.steps().await.map_err(io::Error::other)?.len();
        working.abort();
        Ok(Outcome { cores, at_once, executed: executed.load(Ordering::Relaxed), leases_lost: run.losses, recorded })
    })
}

async fn steps(ctx: Context, how: How, executed: Arc<AtomicU32>) -> Result<usize, WorkflowError> {
    let done = match how {
        How::Plain => {
            let step = |_| {
                ctx.step("compute", || async {
                    compute(&executed);
                    Ok(())
                })
            };
            ctx.parallel(50, (0..STEPS).map(step)).await?
        }
        How::Blocking => {
            let step = |_| {
                let executed = executed.clone();
                ctx.step_blocking("compute", move || {
                    compute(&executed);
                    Ok(())
                })
            };
            ctx.parallel(50, (0..STEPS).map(step)).await?
        }
    };
    Ok(done.len())
}

fn compute(executed: &AtomicU32) {
    executed.fetch_add(1, Ordering::Relaxed);
    let begun = Instant::now();
    let mut sum = 0u64;
    while begun.elapsed() < STEP {
        sum = std::hint::black_box(sum.wrapping_add(1));
    }
}
