//! Steps, sleeps, children, and what becomes of a run.

use std::time::{Duration, Instant};

use baton::{Context, ResultError, RetryPolicy, State, StepError, StepKind, WorkflowError};
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

use crate::harness::{On, on_both};
use crate::site::{Counter, QUEUE, Site, Working, until, within};

on_both!(
    steps_sleeps_and_children_come_to_a_result,
    a_flaky_step_is_tried_again_and_its_attempts_are_seen,
    a_workflow_that_fails_is_tried_again_as_its_policy_says,
    a_failed_workflow_says_why,
    parallel_branches_survive_being_suspended,
    a_workflow_continues_as_new_and_is_followed,
    a_saga_is_undone,
    a_sleeping_workflow_that_is_cancelled_as_a_run_cleans_up,
    a_pinned_run_waits_for_its_version,
    a_run_is_started_once_for_its_key_and_listed,
    many_workflows_at_once,
    a_timeout_ends_the_run,
);

#[derive(Serialize, Deserialize)]
struct Order {
    id: u64,
    cents: u64,
}

#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Receipt {
    charge: String,
    doubled: u64,
}

async fn process_order(ctx: Context, order: Order) -> Result<Receipt, WorkflowError> {
    let charge = ctx.step("charge", || async { Ok(format!("charge of {}", order.cents)) }).await?;
    ctx.sleep(Duration::from_millis(300)).await?;
    let doubled = ctx.child("double", &order.cents).await?;
    ctx.step("ship", || async { Ok(order.id) }).await?;
    Ok(Receipt { charge, doubled })
}

async fn double(_: Context, number: u64) -> Result<u64, WorkflowError> {
    Ok(number * 2)
}

async fn steps_sleeps_and_children_come_to_a_result(on: On) {
    let site = Site::start(on).await;
    let mut worker = site.worker().await;
    worker.register("process_order", process_order).register("double", double);
    let working = Working::begin(worker);
    let begun = Instant::now();
    let handle = site.begin("process_order", &Order { id: 7, cents: 1_900 }).await;
    let receipt: Receipt = within(handle.result()).await.unwrap();
    assert_eq!(receipt, Receipt { charge: "charge of 1900".into(), doubled: 3_800 });
    assert!(begun.elapsed() >= Duration::from_millis(300));
    let steps = handle.steps().await.unwrap();
    let kinds: Vec<_> = steps.iter().map(|step| (step.kind, step.name.as_str())).collect();
    let expected =
        [(StepKind::Step, "charge"), (StepKind::Sleep, "sleep"), (StepKind::Child, "double"), (StepKind::Step, "ship")];
    assert_eq!(kinds, expected);
    let child = site.client.workflow(steps[2].child_run_id.clone().unwrap()).get().await.unwrap();
    assert_eq!((child.state, child.parent_run_id.as_deref()), (State::Completed, Some(handle.run_id())));
    working.stop().await;
}

async fn a_flaky_step_is_tried_again_and_its_attempts_are_seen(on: On) {
    let site = Site::start(on).await;
    let executed = Counter::default();
    let counter = executed.clone();
    let mut worker = site.worker().await;
    worker.register("flaky", move |ctx: Context, (): ()| {
        let counter = counter.clone();
        async move {
            let policy = RetryPolicy::attempts(5).first_interval(Duration::from_millis(100)).jitter(0.0);
            let flaky = || async {
                match counter.up() {
                    3 => Ok("done".to_owned()),
                    number => Err(StepError::new(format!("no {number}"))),
                }
            };
            let done = ctx.step("flaky", flaky).retry(policy).await?;
            let policy = RetryPolicy::attempts(5).non_retryable(["declined"]);
            let declined = || async { Err::<(), _>(StepError::new("no").code("declined")) };
            let error = ctx.step("declined", declined).retry(policy).await.unwrap_err();
            Ok::<_, WorkflowError>((done, error.code().to_owned()))
        }
    });
    let working = Working::begin(worker);
    let handle = site.begin("flaky", &()).await;
    let result: (String, String) = within(handle.result()).await.unwrap();
    assert_eq!(result, ("done".into(), "declined".into()));
    assert_eq!(executed.get(), 3);
    let steps = handle.steps().await.unwrap();
    assert_eq!((steps[0].attempts, steps[1].attempts), (3, 1));
    working.stop().await;
}

async fn a_workflow_that_fails_is_tried_again_as_its_policy_says(on: On) {
    let site = Site::start(on).await;
    let (steps, plays) = (Counter::default(), Counter::default());
    let (counted, played) = (steps.clone(), plays.clone());
    let mut worker = site.worker().await;
    worker.register("unlucky", move |ctx: Context, (): ()| {
        let (steps, plays) = (counted.clone(), played.clone());
        async move {
            ctx.step("once", || async { Ok(steps.up()) }).await?;
            match plays.up() {
                1 => panic!("the first time"),
                2 => Err(WorkflowError::failed("the second time")),
                _ => Ok(ctx.attempt()),
            }
        }
    });
    let working = Working::begin(worker);
    let policy = RetryPolicy::attempts(3).first_interval(Duration::from_millis(20));
    let handle = site.client.start("unlucky", &()).queue(QUEUE).retry(policy).await.unwrap();
    assert_eq!(within(handle.result::<u32>()).await.unwrap(), 3);
    assert_eq!(steps.get(), 1);
    working.stop().await;
}

async fn a_failed_workflow_says_why(on: On) {
    let site = Site::start(on).await;
    let mut worker = site.worker().await;
    worker.register("doomed", |_: Context, order: Order| async move {
        Err::<(), _>(WorkflowError::failed(format!("order {} is cursed", order.id)))
    });
    let working = Working::begin(worker);
    let handle = site.begin("doomed", &Order { id: 13, cents: 1 }).await;
    let error = within(handle.result::<()>()).await.unwrap_err();
    assert_eq!(error, ResultError::Failed { reason: "error".into(), message: "order 13 is cursed".into() });
    let handle = site.begin("doomed", &serde_json::json!({ "id": 13, "cents": "many" })).await;
    let error = within(handle.result::<()>()).await.unwrap_err().to_string();
    assert!(error.contains("cents: invalid type"), "{error}");
    working.stop().await;
}

async fn branch(ctx: &Context, number: u64) -> Result<u64, WorkflowError> {
    let name = |what: &str| format!("{what} of {number}");
    let mut sum = ctx.step(name("first"), || async move { Ok(number) }).await?;
    ctx.sleep(Duration::from_millis(40 * (5 - number))).await?;
    sum += ctx.step(name("second"), || async move { Ok(10 * number) }).await?;
    sum += ctx.child::<u64>("double", &number).await?;
    sum += ctx.step(name("third"), || async move { Ok(100 * number) }).await?;
    Ok(sum)
}

async fn parallel_branches_survive_being_suspended(on: On) {
    let site = Site::start(on).await;
    let mut worker = site.worker().await;
    worker.register("double", double).register("branches", |ctx: Context, (): ()| async move {
        let sums: Result<Vec<u64>, WorkflowError> =
            join_all((0..5).map(|number| branch(&ctx, number))).await.into_iter().collect();
        sums
    });
    let working = Working::begin(worker);
    let mut handles = Vec::new();
    for _ in 0..20 {
        handles.push(site.begin("branches", &()).await);
    }
    for handle in handles {
        let sums: Vec<u64> = within(handle.result()).await.unwrap();
        assert_eq!(sums, [0, 113, 226, 339, 452]);
    }
    working.stop().await;
}

async fn a_workflow_continues_as_new_and_is_followed(on: On) {
    let site = Site::start(on).await;
    let mut worker = site.worker().await;
    worker.register("count", |ctx: Context, number: u32| async move {
        ctx.step("one", || async { Ok(()) }).await?;
        match number {
            3 => Ok(ctx.run_id().to_owned()),
            _ => ctx.continue_as_new(&(number + 1)),
        }
    });
    let working = Working::begin(worker);
    let handle = site.begin("count", &0).await;
    let last: String = within(handle.result()).await.unwrap();
    assert_ne!(last, handle.run_id());
    assert!(handle.get().await.unwrap().continued_to.is_some());
    working.stop().await;
}

async fn a_saga_is_undone(on: On) {
    let site = Site::start(on).await;
    let mut worker = site.worker().await;
    worker.register("trip", |ctx: Context, (): ()| async move {
        for what in ["flight", "hotel"] {
            ctx.step(what, move || async move { Ok(what.to_owned()) }).compensate(|_| async { Ok(()) }).await?;
        }
        Err::<(), _>(WorkflowError::failed("no car"))
    });
    let working = Working::begin(worker);
    // What was undone is not tried again.
    let handle = site.client.start("trip", &()).queue(QUEUE).retry(RetryPolicy::attempts(5)).await.unwrap();
    let error = within(handle.result::<()>()).await.unwrap_err();
    assert_eq!(error, ResultError::Failed { reason: "error".into(), message: "no car".into() });
    let names: Vec<_> = handle.steps().await.unwrap().into_iter().map(|step| step.name).collect();
    assert_eq!(names, ["flight", "hotel", "undo hotel", "undo flight"]);
    // Nor can it go on after steps that are no longer true.
    let refused = handle.retry(false).await.unwrap_err();
    assert_eq!(refused.code(), Some("conflict"), "{refused:?}");
    let again = handle.retry(true).await.unwrap();
    within(again.result::<()>()).await.unwrap_err();
    assert_eq!(again.steps().await.unwrap().len(), 4);
    working.stop().await;
}

async fn a_sleeping_workflow_that_is_cancelled_as_a_run_cleans_up(on: On) {
    let site = Site::start(on).await;
    let mut worker = site.worker().await;
    worker.register("trip", |ctx: Context, (): ()| async move {
        ctx.step("flight", || async { Ok(()) }).compensate(|()| async { Ok(()) }).await?;
        ctx.signal::<()>("go").await
    });
    let working = Working::begin(worker);
    let handle = site.begin("trip", &()).await;
    until(&handle, State::Sleeping).await;
    let told = site.client.cancel(handle.run_id()).await.unwrap();
    assert!(told.cancelling || told.state == State::Cancelled, "{told:?}");
    assert!(matches!(within(handle.result::<()>()).await.unwrap_err(), ResultError::Cancelled { .. }));
    let names: Vec<_> = handle.steps().await.unwrap().into_iter().map(|step| step.name).collect();
    assert_eq!(names.last().map(String::as_str), Some("undo flight"), "{names:?}");
    assert_eq!(site.client.cancel(handle.run_id()).await.unwrap().state, State::Cancelled, "once more");
    working.stop().await;
}

async fn a_pinned_run_waits_for_its_version(on: On) {
    let site = Site::start(on).await;
    let mut worker = site.worker().await;
    worker.register("double", double);
    let working = Working::begin(worker);
    let pinned = |version: &str| site.client.start("double", &4).queue(QUEUE).pin_version(version);
    let other = pinned("9.9.9").await.unwrap();
    let fitting = pinned("1.2.3").await.unwrap();
    assert_eq!(within(fitting.result::<u64>()).await.unwrap(), 8);
    assert_eq!(other.get().await.unwrap().state, State::Pending);
    working.stop().await;
}

async fn a_run_is_started_once_for_its_key_and_listed(on: On) {
    let site = Site::start(on).await;
    let start = || {
        site.client.start("double", &1).queue(QUEUE).idempotency_key("one").priority(9).delay(Duration::from_secs(60))
    };
    let (first, second) = (start().await.unwrap(), start().await.unwrap());
    assert_eq!(first.run_id(), second.run_id());
    assert!(!first.existed() && second.existed());
    let page = site.client.list_workflows().queue(QUEUE).workflow_type("double").limit(10).await.unwrap();
    assert_eq!((page.total, page.next), (1, None));
    assert_eq!((page.runs[0].run_id.as_str(), page.runs[0].priority), (first.run_id(), 9));
    let error = site.client.workflow("nonsense").get().await.unwrap_err();
    assert_eq!(error.code(), Some("invalid"), "{error:?}");
}

async fn many_workflows_at_once(on: On) {
    let site = Site::start(on).await;
    let mut worker = site.worker().await;
    worker.register("three", |ctx: Context, number: u64| async move {
        let mut sum = 0;
        for _ in 0..3 {
            sum += ctx.step("add", || async { Ok(number) }).await?;
        }
        Ok::<_, WorkflowError>(sum)
    });
    let working = Working::begin(worker);
    let one = async |number: u64| site.begin("three", &number).await.result::<u64>().await.unwrap();
    let sums = within(join_all((0..300).map(one))).await;
    assert_eq!(sums, (0..300).map(|number| 3 * number).collect::<Vec<_>>());
    working.stop().await;
}

async fn a_timeout_ends_the_run(on: On) {
    let site = Site::start(on).await;
    let mut worker = site.worker().await;
    worker.register("sleepy", |ctx: Context, (): ()| async move { ctx.sleep(Duration::from_secs(3_600)).await });
    let working = Working::begin(worker);
    let start = site.client.start("sleepy", &()).queue(QUEUE).timeout(Duration::from_millis(1_500));
    let handle = start.await.unwrap();
    until(&handle, State::Sleeping).await;
    let error = within(handle.result::<()>()).await.unwrap_err();
    assert!(matches!(&error, ResultError::Failed { reason, .. } if reason == "timeout"), "{error:?}");
    working.stop().await;
}
