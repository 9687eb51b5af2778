//! Bulk operations on workflows: what the verbs for one workflow do, for many.

use std::time::Duration;

use baton::proto::{BulkFilter, BulkView, CreateBulk};
use baton_core::State;
use baton_proto::v1;
use baton_proto::v1::{MessageKind, RunState};

use crate::harness::{On, eventually, on_both};
use crate::rig::{Rig, sleep};

on_both!(
    workflows_are_cancelled_with_time_to_clean_up,
    workflows_are_retried_after_what_they_had_completed,
    a_workflow_whose_steps_were_undone_is_left_alone,
);

async fn carried_out(rig: &Rig, action: &str, filter: BulkFilter) -> BulkView {
    let wanted = CreateBulk { all: true, ..CreateBulk::new(action, filter) };
    let begun = rig.server.client.bulk_start(&wanted, None).await.unwrap();
    let mut view = begun.clone();
    eventually("the operation ends", async || {
        view = rig.server.client.bulk(&begun.id).await.unwrap();
        view.is_ended()
    })
    .await;
    view
}

async fn workflows_are_cancelled_with_time_to_clean_up(on: On) {
    let mut rig = Rig::start(on).await;
    let (worker, sleeping) = rig.held().await;
    assert!(rig.client.suspend(sleep(&sleeping, 0, Duration::from_secs(3_600))).await.unwrap().into_inner().suspended);
    let (_, held) = rig.held().await;
    let (_, done) = rig.held().await;
    rig.complete(&done, "1").await;
    let (_, old) = rig.held().await;
    let next = v1::ContinueAsNewRequest { run_id: old.run_id.clone(), lease: old.lease.clone(), input: "1".into() };
    let next = rig.client.continue_as_new(next).await.unwrap().into_inner().run_id;
    let fresh = rig.begin().await;
    let view = carried_out(&rig, "cancel", BulkFilter::default()).await;
    assert_eq!((view.matched, view.done, view.skipped, view.failed), (Some(4), 4, 0, 0), "{view:?}");
    // Those that nobody has begun end at once.
    assert_eq!(rig.state(&fresh).await, RunState::Cancelled);
    assert_eq!(rig.state(&next).await, RunState::Cancelled);
    assert_eq!(rig.state(&done.run_id).await, RunState::Completed);
    // The others hear of it, and may clean up.
    let woken = rig.poll(&worker).await;
    assert_eq!((&woken.run_id, woken.messages[0].kind()), (&sleeping.run_id, MessageKind::Cancel));
    rig.complete(&woken, "1").await;
    assert_eq!(rig.state(&sleeping.run_id).await, RunState::Completed, "done is done");
    assert!(rig.get(&held.run_id).await.cancel_requested);
    assert_eq!(rig.state(&held.run_id).await, RunState::Assigned);
    // Again tells nobody again, and does no harm.
    let view = carried_out(&rig, "cancel", BulkFilter::default()).await;
    assert_eq!((view.matched, view.done), (Some(1), 1));
    rig.server.clock.advance(31_000);
    let mut reader = rig.client.clone();
    eventually("its grace is over", async || {
        rig.server.clock.advance(1_000);
        let get = v1::GetWorkflowRunRequest { run_id: held.run_id.clone() };
        reader.get_workflow_run(get).await.unwrap().into_inner().state() == RunState::Cancelled
    })
    .await;
}

/// A workflow that has completed these steps, and failed.
async fn failed(rig: &mut Rig, steps: &[&str]) -> String {
    let (_, run) = rig.held().await;
    for (position, name) in steps.iter().enumerate() {
        rig.complete_step(&run, position as u32, name, "1").await;
    }
    let failure = v1::FailWorkflowRequest {
        run_id: run.run_id.clone(),
        lease: run.lease.clone(),
        error: "it broke".into(),
        ..Default::default()
    };
    rig.client.fail_workflow(failure).await.unwrap();
    eventually("it has failed", async || rig.server.state(&run.run_id).await == State::Failed).await;
    run.run_id
}

async fn workflows_are_retried_after_what_they_had_completed(on: On) {
    let mut rig = Rig::start(on).await;
    let mut failed_ones = vec![failed(&mut rig, &["charge"]).await, failed(&mut rig, &["charge"]).await];
    failed_ones.sort();
    let view = carried_out(&rig, "retry", BulkFilter::default()).await;
    assert_eq!((view.matched, view.done, view.skipped, view.failed), (Some(2), 2, 0, 0), "{view:?}");
    let worker = rig.worker().await;
    let mut again = Vec::new();
    for _ in 0..2 {
        let taken = rig.poll(&worker).await;
        let names: Vec<String> = taken.steps.iter().map(|step| step.name.clone()).collect();
        assert_eq!(names, ["charge"], "it goes on after that");
        again.push(rig.server.client.run(&taken.run_id).await.unwrap().retry_of.unwrap());
        rig.complete(&taken, "1").await;
    }
    again.sort();
    assert_eq!(again, failed_ones);
}

async fn a_workflow_whose_steps_were_undone_is_left_alone(on: On) {
    let mut rig = Rig::start(on).await;
    let undone = failed(&mut rig, &["charge", "undo charge"]).await;
    let view = carried_out(&rig, "retry", BulkFilter::default()).await;
    assert_eq!((view.matched, view.done, view.skipped, view.failed), (Some(1), 0, 1, 0));
    assert_eq!(
        (view.errors.len(), view.errors[0].run_id.as_str(), view.errors[0].code.as_str()),
        (1, undone.as_str(), "conflict")
    );
    assert!(view.errors[0].error.contains("--from-start"), "{view:?}");
}
