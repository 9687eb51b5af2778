//! Workers that stop: by themselves, because they are told to, or by falling.

use std::time::Duration;

use baton::{Context, State, WorkflowError};

use crate::harness::{On, on_both};
use crate::site::{Counter, Site, Working, until, until_true, within};

on_both!(
    a_worker_that_stops_finishes_what_it_holds,
    what_takes_too_long_is_given_back_and_finished_by_another,
    a_worker_is_drained_by_the_server,
    a_worker_stops_at_sigterm,
    a_worker_that_was_given_up_drops_what_it_held_and_registers_again,
    what_a_fallen_worker_held_is_finished_by_another_without_repeating_steps,
    a_worker_without_workflows_or_with_a_wrong_key_is_refused,
);

async fn slow(site: &Site, executed: &Counter, pace: Duration) -> baton::Worker {
    slow_of(site.worker().await, executed, pace)
}

fn slow_of(mut worker: baton::Worker, executed: &Counter, pace: Duration) -> baton::Worker {
    let executed = executed.clone();
    worker.register("slow", move |ctx: Context, (): ()| {
        let executed = executed.clone();
        async move {
            let first = ctx.step("first", || async { Ok(executed.up()) }).await?;
            let second = ctx.step("second", || async {
                tokio::time::sleep(pace).await;
                Ok(executed.up())
            });
            Ok::<_, WorkflowError>((first, second.await?))
        }
    });
    worker
}

/// Waits until the first step is written down: what is executed and not yet written down would be
/// executed again.
async fn until_recorded(handle: &baton::WorkflowHandle) {
    within(async {
        while handle.steps().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

async fn a_worker_that_stops_finishes_what_it_holds(on: On) {
    let site = Site::start(on).await;
    let executed = Counter::default();
    let mut working = Working::begin(slow(&site, &executed, Duration::from_millis(300)).await);
    let handle = site.begin("slow", &()).await;
    until_true(|| executed.get() == 1).await;
    working.tell_to_stop();
    working.stopped().await;
    assert_eq!(handle.get().await.unwrap().state, State::Completed);
    // It takes no more.
    let handle = site.begin("slow", &()).await;
    assert_eq!(handle.wait_for(Duration::from_millis(100)).await.unwrap().state, State::Pending);
}

async fn what_takes_too_long_is_given_back_and_finished_by_another(on: On) {
    let site = Site::start(on).await;
    let executed = Counter::default();
    let impatient = site.builder(site.server.address).drain_timeout(Duration::from_millis(50)).build().await.unwrap();
    let mut working = Working::begin(slow_of(impatient, &executed, Duration::from_secs(3_600)));
    let handle = site.begin("slow", &()).await;
    until_recorded(&handle).await;
    working.tell_to_stop();
    working.stopped().await;
    let working = Working::begin(slow(&site, &executed, Duration::ZERO).await);
    let numbers: (u32, u32) = within(handle.result()).await.unwrap();
    assert_eq!(numbers, (1, 2));
    working.stop().await;
}

async fn a_worker_is_drained_by_the_server(on: On) {
    let site = Site::start(on).await;
    let executed = Counter::default();
    let working = Working::begin(slow(&site, &executed, Duration::ZERO).await);
    let handle = site.begin("slow", &()).await;
    within(handle.result::<(u32, u32)>()).await.unwrap();
    let worker_id = handle.get().await.unwrap().worker_id.unwrap();
    site.server.client.drain(&worker_id).await.unwrap();
    working.stopped().await;
}

async fn a_worker_stops_at_sigterm(on: On) {
    let site = Site::start(on).await;
    let executed = Counter::default();
    let working = tokio::spawn(slow(&site, &executed, Duration::from_millis(300)).await.run_until_signal());
    let handle = site.begin("slow", &()).await;
    until_true(|| executed.get() == 1).await;
    let pid = std::process::id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    within(working).await.unwrap().unwrap();
    assert_eq!(handle.get().await.unwrap().state, State::Completed);
}

async fn what_a_fallen_worker_held_is_finished_by_another_without_repeating_steps(on: On) {
    let site = Site::start(on).await;
    let executed = Counter::default();
    let working = Working::begin(slow(&site, &executed, Duration::from_secs(3_600)).await);
    let handle = site.begin("slow", &()).await;
    until_recorded(&handle).await;
    let worker_id = handle.get().await.unwrap().worker_id.unwrap();
    working.kill();
    // Sooner than by waiting for its lease to end.
    site.server.client.force_offline(&worker_id).await.unwrap();
    let working = Working::begin(slow(&site, &executed, Duration::ZERO).await);
    let numbers: (u32, u32) = within(handle.result()).await.unwrap();
    assert_eq!(numbers, (1, 2));
    until(&handle, State::Completed).await;
    working.stop().await;
}

async fn a_worker_that_was_given_up_drops_what_it_held_and_registers_again(on: On) {
    let site = Site::start(on).await;
    let executed = Counter::default();
    let working = Working::begin(slow(&site, &executed, Duration::from_millis(500)).await);
    let handle = site.begin("slow", &()).await;
    until_recorded(&handle).await;
    let before = handle.get().await.unwrap().worker_id.unwrap();
    site.server.client.force_offline(&before).await.unwrap();
    let numbers: (u32, u32) = within(handle.result()).await.unwrap();
    assert_eq!(numbers, (1, 2), "the step that was dropped does not count");
    assert_ne!(handle.get().await.unwrap().worker_id.unwrap(), before);
    working.stop().await;
}

async fn a_worker_without_workflows_or_with_a_wrong_key_is_refused(on: On) {
    let site = Site::start(on).await;
    let worker = site.worker().await;
    assert!(worker.run_until(std::future::pending()).await.is_err());
    let url = format!("http://{}", site.server.address);
    let error = baton::Worker::builder(&url, "q").api_key("wrong").build().await.unwrap_err();
    assert_eq!(error.code(), Some("bad_credential"), "{error:?}");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = baton::Client::connect(&url).api_key("x").await.unwrap_err();
    assert!(matches!(error, baton::ClientError::Unreachable(_)), "{error:?}");
}
