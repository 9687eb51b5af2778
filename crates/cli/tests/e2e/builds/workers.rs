//! Workers that are told to stop, killed, and cut off in the middle of a build.

use baton::proto::BuildStatus;

use super::{PATIENCE, Yard, endless, entries, processes, wait_until_gone};
use crate::on_both_stores;
use crate::site::{Leases, Store};
use crate::wait::eventually;

async fn a_cancelled_build_is_killed_with_everything_it_started(store: Store) {
    let yard = Yard::new(store, Leases::SHORT).await;
    let running = yard.path("running");
    // It does not want to go.
    let recipe = format!("trap '' TERM; {}; sleep 600", endless(&running));
    let _worker = yard.worker("one", &["--recipe", &recipe]);
    let id = yard.submit_detached().await;
    let pids = processes(&running).await;
    yard.client().cancel_build(&id).await.unwrap();
    yard.wait_for(&id, BuildStatus::Cancelled).await;
    wait_until_gone(&pids).await;
    yard.wait_until_tidy("one").await;
}

async fn a_killed_workers_build_is_finished_by_another_one(store: Store) {
    let yard = Yard::new(store, Leases::SHORT).await;
    let running = yard.path("running");
    let mut victim = yard.worker("one", &["--recipe", &endless(&running)]);
    let id = yard.submit_detached().await;
    let pids = processes(&running).await;
    victim.sigkill();
    // Also the child of its child, which nobody told that the worker is gone.
    wait_until_gone(&pids).await;
    let _successor = yard.worker("two", &["--recipe", "cp greeting.txt \"$BATON_OUTPUT_DIR/app.txt\""]);
    let build = yard.wait_for(&id, BuildStatus::Completed).await;
    assert_eq!(build.attempts, 2, "{build:?}");
    let fetched = yard.baton(&["build", "download", &id]).await;
    assert_eq!((fetched.code, yard.read("desk/app.txt").as_str()), (Some(0), "hello"), "{fetched:?}");

    // What the killed one left is removed when it comes back.
    assert!(!yard.left_by("one").is_empty(), "a killed worker cannot tidy up");
    let again = yard.worker("one", &["--recipe", "true"]);
    again.wait_for_line("registered", PATIENCE).await;
    assert_eq!(yard.left_by("one"), Vec::<std::path::PathBuf>::new());
}

async fn a_worker_that_is_told_to_stop_gives_back_what_it_cannot_finish(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let running = yard.path("running");
    let mut worker = yard.worker("one", &["--recipe", &endless(&running), "--drain-timeout", "200ms"]);
    let id = yard.submit_detached().await;
    let pids = processes(&running).await;
    let status = worker.sigterm_and_wait(PATIENCE).await;
    assert!(status.success(), "{status}: {}", worker.output());
    wait_until_gone(&pids).await;
    let build = yard.client().build(&id).await.unwrap();
    assert_eq!(build.status, BuildStatus::Pending, "{build:?}; the worker: {}", worker.output());
    assert_eq!(entries(&yard.path("one/work")), Vec::<std::path::PathBuf>::new());
    let _successor = yard.worker("two", &["--recipe", "true"]);
    yard.wait_for(&id, BuildStatus::Completed).await;
}

async fn a_worker_that_is_told_to_stop_finishes_what_it_can(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let (running, gate) = (yard.path("running"), yard.site.gate());
    let recipe = format!("touch '{}'; {}; cp greeting.txt \"$BATON_OUTPUT_DIR\"", running.display(), gate.command());
    let mut worker = yard.worker("one", &["--recipe", &recipe, "--drain-timeout", "60s"]);
    let id = yard.submit_detached().await;
    eventually("a build at work", async || running.exists().then_some(())).await;
    worker.sigterm();
    worker.wait_for_line("draining", PATIENCE).await;
    gate.open();
    assert!(worker.wait(PATIENCE).await.success(), "{}", worker.output());
    let build = yard.client().build(&id).await.unwrap();
    assert_eq!((build.status, build.attempts), (BuildStatus::Completed, 1), "{build:?}");
}

async fn several_builds_run_at_once(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let place = yard.path("arrived");
    std::fs::create_dir(&place).unwrap();
    // Each waits until both are there.
    let here = place.display();
    let recipe = format!("touch '{here}'/$BATON_BUILD_ID; while [ $(ls '{here}' | wc -l) -lt 2 ]; do sleep 0.1; done");
    let _worker = yard.worker("one", &["--recipe", &recipe, "--concurrency", "2"]);
    let (first, second) = (yard.submit_detached().await, yard.submit_detached().await);
    yard.wait_for(&first, BuildStatus::Completed).await;
    yard.wait_for(&second, BuildStatus::Completed).await;
}

async fn a_build_that_takes_too_long_is_stopped(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let running = yard.path("running");
    let _worker = yard.worker("one", &["--recipe", &endless(&running), "--limit-time", "1s"]);
    let said = yard.submit(&[]).await;
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("the build took longer than 1s"), "{said:?}");
    wait_until_gone(&processes(&running).await).await;
}

on_both_stores!(
    a_cancelled_build_is_killed_with_everything_it_started,
    a_killed_workers_build_is_finished_by_another_one,
    a_worker_that_is_told_to_stop_gives_back_what_it_cannot_finish,
    a_worker_that_is_told_to_stop_finishes_what_it_can,
    several_builds_run_at_once,
    a_build_that_takes_too_long_is_stopped,
);
