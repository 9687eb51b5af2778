//! Code of users that blocks or computes: it costs no lease, whatever runtime it is on.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use baton::proto::SubmitRun;
use baton::{Context, State, StepState, Worker, WorkflowError, WorkflowHandle, runs};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::harness::{On, Server, on_both};
use crate::site::{Counter, QUEUE, Site, Working, until, within};

on_both!(
    steps_that_compute_cost_no_lease_on_one_thread,
    steps_that_compute_cost_no_lease_on_two_threads,
    steps_that_sleep_cost_no_lease_on_one_thread,
    what_is_done_is_written_down_while_another_step_keeps_the_only_thread,
    a_handler_that_sleeps_costs_no_lease,
    the_leases_of_a_worker_end_with_its_runtime,
    blocking_steps_run_at_once_on_one_thread_and_no_more_than_allowed,
    literally_forty_steps_of_half_a_second_on_two_threads,
    literally_forty_steps_of_half_a_second_on_one_thread,
    literally_two_sleeps_of_seventeen_seconds_on_one_thread,
    literally_two_sleeps_of_seventeen_seconds_on_two_threads,
);

/// Leases so short that the tests need not take long.
const HEARTBEAT_MS: u64 = 500;
const LEASE_MS: u64 = 1_500;

async fn short_leases(on: On) -> Site {
    let server = Server::real(on, |settings| {
        settings.heartbeat_interval_ms = HEARTBEAT_MS;
        settings.lease_ttl_ms = LEASE_MS;
    })
    .await;
    Site::of(server).await
}

/// A runtime with so many threads, the one that blocks on it included.
fn runtime(threads: usize) -> Runtime {
    match threads {
        1 => Builder::new_current_thread().enable_all().build().unwrap(),
        _ => Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap(),
    }
}

/// A worker on threads of its own, as a program has them. Code there may block what it likes.
struct Apart {
    stop: oneshot::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl Apart {
    fn begin(threads: usize, worker: Worker) -> Apart {
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime = runtime(threads);
            let working = runtime.spawn(worker.run_until(async move { drop(stopped.await) }));
            runtime.block_on(working).unwrap().unwrap();
        });
        Apart { stop, thread }
    }

    fn stop(self) {
        let _ = self.stop.send(());
        self.thread.join().unwrap();
    }
}

fn compute(span: Duration) {
    let begun = Instant::now();
    let mut sum = 0u64;
    while begun.elapsed() < span {
        sum = std::hint::black_box(sum.wrapping_add(1));
    }
}

/// A workflow with so many steps at once, each of which keeps its thread.
async fn keeping(
    site: &Site,
    executed: &Counter,
    steps: u32,
    keep: impl Fn() + Copy + Send + Sync + 'static,
) -> Worker {
    let (mut worker, executed) = (site.worker().await, executed.clone());
    worker.register("keeping", move |ctx: Context, (): ()| {
        let executed = executed.clone();
        async move {
            let step = |_| {
                ctx.step("keep", || async {
                    keep();
                    Ok(executed.up())
                })
            };
            let numbers: Vec<u32> = ctx.parallel(50, (0..steps).map(step)).await?;
            Ok::<_, WorkflowError>(numbers.len())
        }
    });
    worker
}

/// Every step was executed once and is written down, and no lease was lost.
async fn was_undisturbed(site: &Site, handle: &WorkflowHandle, steps: usize) {
    let recorded = handle.steps().await.unwrap();
    assert!(recorded.iter().all(|step| step.state == StepState::Completed && step.attempts == 1), "{recorded:?}");
    assert_eq!(recorded.len(), steps);
    let run = site.server.client.run(handle.run_id()).await.unwrap();
    assert_eq!((run.state, run.epoch, run.losses), (State::Completed, 1, 0), "{run:?}");
}

async fn steps_keep_their_threads(
    site: Site,
    threads: usize,
    (runs, steps): (u32, u32),
    keep: impl Fn() + Copy + Send + Sync + 'static,
) {
    let executed = Counter::default();
    let working = Apart::begin(threads, keeping(&site, &executed, steps, keep).await);
    let mut handles = Vec::new();
    for _ in 0..runs {
        handles.push(site.begin("keeping", &()).await);
    }
    for handle in &handles {
        assert_eq!(handle.result::<u32>().await.unwrap(), steps);
        was_undisturbed(&site, handle, steps as usize).await;
    }
    assert_eq!(executed.get(), runs * steps, "each is executed once");
    working.stop();
}

async fn steps_that_compute_cost_no_lease_on_one_thread(on: On) {
    steps_keep_their_threads(short_leases(on).await, 1, (1, 40), || compute(Duration::from_millis(75))).await;
}

async fn steps_that_compute_cost_no_lease_on_two_threads(on: On) {
    steps_keep_their_threads(short_leases(on).await, 2, (2, 40), || compute(Duration::from_millis(75))).await;
}

async fn steps_that_sleep_cost_no_lease_on_one_thread(on: On) {
    let keep = || thread::sleep(Duration::from_millis(LEASE_MS + 700));
    steps_keep_their_threads(short_leases(on).await, 1, (2, 1), keep).await;
}

async fn literally_forty_steps_of_half_a_second_on_two_threads(on: On) {
    steps_keep_their_threads(Site::start(on).await, 2, (1, 40), || compute(Duration::from_millis(500))).await;
}

async fn literally_forty_steps_of_half_a_second_on_one_thread(on: On) {
    steps_keep_their_threads(Site::start(on).await, 1, (1, 40), || compute(Duration::from_millis(500))).await;
}

async fn literally_two_sleeps_of_seventeen_seconds_on_one_thread(on: On) {
    steps_keep_their_threads(Site::start(on).await, 1, (2, 1), || thread::sleep(Duration::from_secs(17))).await;
}

async fn literally_two_sleeps_of_seventeen_seconds_on_two_threads(on: On) {
    steps_keep_their_threads(Site::start(on).await, 2, (2, 1), || thread::sleep(Duration::from_secs(17))).await;
}

async fn what_is_done_is_written_down_while_another_step_keeps_the_only_thread(on: On) {
    let site = Site::start(on).await;
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let mut worker = site.worker().await;
    worker.register("two", move |ctx: Context, (): ()| {
        let released = released.clone();
        async move {
            let first = ctx.step("first", || async {
                compute(Duration::from_millis(20));
                Ok(1)
            });
            let second = ctx.step("second", || async {
                let _ = released.lock().unwrap().recv();
                Ok(2)
            });
            ctx.parallel(2, [first, second]).await
        }
    });
    let working = Apart::begin(1, worker);
    let handle = site.begin("two", &()).await;
    within(async {
        while handle.steps().await.unwrap().first().is_none_or(|step| step.state != StepState::Completed) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(handle.get().await.unwrap().state, State::Running);
    release.send(()).unwrap();
    assert_eq!(within(handle.result::<Vec<u32>>()).await.unwrap(), [1, 2]);
    was_undisturbed(&site, &handle, 2).await;
    working.stop();
}

async fn a_handler_that_sleeps_costs_no_lease(on: On) {
    let site = short_leases(on).await;
    let client = site.server.client.clone();
    let (stop, stopped) = oneshot::channel::<()>();
    let own = client.clone();
    let working = thread::spawn(move || {
        let worker = runs::Worker::new(own, ["sleepy"]).concurrency(2);
        let handler = |_, _| async {
            thread::sleep(Duration::from_millis(LEASE_MS + 700));
            Ok("rested".into())
        };
        runtime(1).block_on(worker.run(handler, async move { drop(stopped.await) })).unwrap();
    });
    let mut ids = Vec::new();
    for _ in 0..2 {
        ids.push(client.submit(&SubmitRun::new("default", "sleepy")).await.unwrap().id);
    }
    for id in ids {
        let run = within(async {
            loop {
                let run = client.run(&id).await.unwrap();
                if run.state == State::Completed {
                    return run;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        assert_eq!((run.epoch, run.losses), (1, 0), "{run:?}");
    }
    stop.send(()).unwrap();
    working.join().unwrap();
}

async fn the_leases_of_a_worker_end_with_its_runtime(on: On) {
    let site = short_leases(on).await;
    let begun = Counter::default();
    let mut worker = site.worker().await;
    let seen = begun.clone();
    worker.register("endless", move |ctx: Context, (): ()| {
        let seen = seen.clone();
        async move {
            ctx.step("endless", || async {
                seen.up();
                std::future::pending().await
            })
            .await
            .map(|()| 0)
        }
    });
    let apart = runtime(2);
    apart.spawn(worker.run_until(std::future::pending()));
    let handle = site.begin("endless", &()).await;
    crate::site::until_true(|| begun.get() == 1).await;
    // Nobody says goodbye.
    apart.shutdown_background();
    let mut worker = site.worker().await;
    worker.register("endless", |_: Context, (): ()| async { Ok::<_, WorkflowError>(7) });
    let working = Working::begin(worker);
    assert_eq!(within(handle.result::<u32>()).await.unwrap(), 7);
    working.stop().await;
}

async fn blocking_steps_run_at_once_on_one_thread_and_no_more_than_allowed(on: On) {
    const AT_ONCE: usize = 3;
    let site = Site::start(on).await;
    let builder = site.builder(site.server.address).blocking_threads(AT_ONCE);
    let mut worker = builder.build().await.unwrap();
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = most.clone();
    worker.register("crunch", move |ctx: Context, numbers: Vec<u64>| {
        let (running, most) = (running.clone(), seen.clone());
        async move {
            // Nobody comes through it but with all the others.
            let together = Arc::new(Barrier::new(AT_ONCE));
            let step = |number: u64| {
                let (running, most, together) = (running.clone(), most.clone(), together.clone());
                ctx.step_blocking("crunch", move || {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    together.wait();
                    running.fetch_sub(1, Ordering::SeqCst);
                    Ok(number * 2)
                })
            };
            ctx.parallel(50, numbers.into_iter().map(step)).await
        }
    });
    let working = Apart::begin(1, worker);
    let numbers: Vec<u64> = (0..4 * AT_ONCE as u64).collect();
    let handle = site.client.start("crunch", &numbers).queue(QUEUE).await.unwrap();
    let doubled: Vec<u64> = within(handle.result()).await.unwrap();
    assert_eq!(doubled, numbers.iter().map(|number| number * 2).collect::<Vec<_>>());
    until(&handle, State::Completed).await;
    was_undisturbed(&site, &handle, numbers.len()).await;
    assert_eq!(most.load(Ordering::SeqCst), AT_ONCE);
    working.stop();
}
