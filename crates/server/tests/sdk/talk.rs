//! Signals, queries and cancelling.

use std::time::Duration;

use baton::{Context, ResultError, State, WorkflowError};

use crate::harness::{On, on_both};
use crate::site::{Counter, Site, Working, until, until_true, within};

on_both!(
    signals_reach_a_sleeping_and_a_working_workflow,
    a_signal_with_a_timeout,
    what_is_published_can_be_asked_for,
    a_sleeping_workflow_is_cancelled_and_cleans_up,
    a_working_one_is_told_at_once,
    one_that_nobody_has_is_cancelled_without_being_played,
    children_are_cancelled_with_their_parent,
    a_retried_run_goes_on_after_its_steps,
);

async fn signals_reach_a_sleeping_and_a_working_workflow(on: On) {
    let site = Site::start(on).await;
    let mut worker = site.worker().await;
    worker.register("approval", |ctx: Context, (): ()| async move {
        let first: String = ctx.signal("approved").await?;
        let long = ctx.step::<(), _, _>("never ends", std::future::pending);
        let second = ctx.signal::<String>("approved");
        match futures_util::future::select(long, second).await {
            futures_util::future::Either::Left(_) => Err(WorkflowError::fatal("it ended")),
            futures_util::future::Either::Right((second, _)) => Ok((first, second?)),
        }
    });
    let working = Working::begin(worker);
    let handle = site.begin("approval", &()).await;
    until(&handle, State::Sleeping).await;
    handle.signal_once("approved", &"by Ada", "a").await.unwrap();
    handle.signal_once("approved", &"by Ada", "a").await.unwrap();
    until(&handle, State::Running).await;
    handle.signal("approved", &"by Bob").await.unwrap();
    let both: (String, String) = within(handle.result()).await.unwrap();
    assert_eq!(both, ("by Ada".into(), "by Bob".into()));
    let late = handle.signal("approved", &"too late").await.unwrap_err();
    assert_eq!(late.code(), Some("ended"));
    working.stop().await;
}

async fn a_signal_with_a_timeout(on: On) {
    let site = Site::start(on).await;
    let mut worker = site.worker().await;
    worker.register("impatient", |ctx: Context, (): ()| async move {
        let first: Option<u32> = ctx.signal("number").timeout(Duration::from_millis(200)).await?;
        let second: Option<u32> = ctx.signal("number").timeout(Duration::from_secs(60)).await?;
        Ok::<_, WorkflowError>((first, second))
    });
    let working = Working::begin(worker);
    let handle = site.begin("impatient", &()).await;
    within(async {
        while handle.steps().await.unwrap().iter().filter(|step| step.name == "timeout").count() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    handle.signal("number", &5).await.unwrap();
    let both: (Option<u32>, Option<u32>) = within(handle.result()).await.unwrap();
    assert_eq!(both, (None, Some(5)));
    working.stop().await;
}

async fn what_is_published_can_be_asked_for(on: On) {
    let site = Site::start(on).await;
    let mut worker = site.worker().await;
    worker.register("progress", |ctx: Context, (): ()| async move {
        for percent in [10, 50] {
            ctx.publish(&percent)?;
            ctx.step("work", || async { Ok(()) }).await?;
        }
        ctx.signal::<()>("go on").await?;
        ctx.publish(&100)
    });
    let working = Working::begin(worker);
    let handle = site.begin("progress", &()).await;
    assert_eq!(handle.query::<u32>().await.unwrap().unwrap_or(10) % 10, 0);
    until(&handle, State::Sleeping).await;
    assert_eq!(handle.query::<u32>().await.unwrap(), Some(50));
    handle.signal("go on", &()).await.unwrap();
    within(handle.result::<()>()).await.unwrap();
    assert_eq!(handle.query::<u32>().await.unwrap(), Some(100));
    working.stop().await;
}

async fn a_sleeping_workflow_is_cancelled_and_cleans_up(on: On) {
    let site = Site::start(on).await;
    let mut worker = site.worker().await;
    worker.register("sleepy", |ctx: Context, (): ()| async move {
        ctx.step("book", || async { Ok(1) }).compensate(|_| async { Ok(()) }).await?;
        ctx.sleep(Duration::from_secs(3_600)).await
    });
    let working = Working::begin(worker);
    let handle = site.begin("sleepy", &()).await;
    until(&handle, State::Sleeping).await;
    handle.cancel().await.unwrap();
    let error = within(handle.result::<()>()).await.unwrap_err();
    assert_eq!(error, ResultError::Cancelled { message: "the workflow was cancelled".into() });
    let names: Vec<_> = handle.steps().await.unwrap().into_iter().map(|step| step.name).collect();
    assert_eq!(names, ["book", "sleep", "end", "undo book"]);
    working.stop().await;
}

async fn a_working_one_is_told_at_once(on: On) {
    let site = Site::start(on).await;
    let mut worker = site.worker().await;
    worker.register("busy", |ctx: Context, (): ()| async move {
        let asked = ctx.clone();
        let busy = ctx.step("busy", || async {
            while !asked.cancel_requested() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        });
        busy.await?;
        ctx.step("next", || async { Ok(()) }).await
    });
    let working = Working::begin(worker);
    let handle = site.begin("busy", &()).await;
    until(&handle, State::Assigned).await;
    handle.cancel().await.unwrap();
    let error = within(handle.result::<()>()).await.unwrap_err();
    assert!(matches!(error, ResultError::Cancelled { .. }), "{error:?}");
    working.stop().await;
}

async fn one_that_nobody_has_is_cancelled_without_being_played(on: On) {
    let site = Site::start(on).await;
    let handle = site.begin("nobody's", &()).await;
    handle.cancel().await.unwrap();
    let error = within(handle.result::<()>()).await.unwrap_err();
    assert!(matches!(error, ResultError::Cancelled { .. }), "{error:?}");
}

async fn children_are_cancelled_with_their_parent(on: On) {
    let site = Site::start(on).await;
    let mut worker = site.worker().await;
    worker.register("parent", |ctx: Context, (): ()| async move { ctx.child::<()>("child", &()).await });
    worker.register("child", |ctx: Context, (): ()| async move { ctx.sleep(Duration::from_secs(3_600)).await });
    let working = Working::begin(worker);
    let parent = site.begin("parent", &()).await;
    until(&parent, State::Sleeping).await;
    let child = site.client.workflow(parent.steps().await.unwrap()[0].child_run_id.clone().unwrap());
    until(&child, State::Sleeping).await;
    parent.cancel().await.unwrap();
    assert!(matches!(within(parent.result::<()>()).await, Err(ResultError::Cancelled { .. })));
    assert!(matches!(within(child.result::<()>()).await, Err(ResultError::Cancelled { .. })));
    working.stop().await;
}

async fn a_retried_run_goes_on_after_its_steps(on: On) {
    let site = Site::start(on).await;
    let (charged, failing) = (Counter::default(), Counter::default());
    let (counter, failures) = (charged.clone(), failing.clone());
    let mut worker = site.worker().await;
    worker.register("order", move |ctx: Context, (): ()| {
        let (charged, failing) = (counter.clone(), failures.clone());
        async move {
            ctx.step("charge", || async { Ok(charged.up()) }).await?;
            match failing.up() {
                1 => Err(WorkflowError::failed("not today")),
                _ => Ok(()),
            }
        }
    });
    let working = Working::begin(worker);
    let handle = site.begin("order", &()).await;
    within(handle.result::<()>()).await.unwrap_err();
    let again = handle.retry(false).await.unwrap();
    within(again.result::<()>()).await.unwrap();
    assert_eq!(charged.get(), 1);
    let from_start = handle.retry(true).await.unwrap();
    within(from_start.result::<()>()).await.unwrap();
    until_true(|| charged.get() == 2).await;
    working.stop().await;
}
