//! Cancelling: at once, with time to clean up, and when that is over.

use std::time::Duration;

use baton_proto::v1;
use baton_proto::v1::{MessageKind, RunState};
use tonic::Code;

use crate::harness::{On, eventually, on_both};
use crate::rig::{Rig, completion, refusal, sleep, step};

fn cancel(run: &str, grace: Option<Duration>) -> v1::CancelWorkflowRunRequest {
    v1::CancelWorkflowRunRequest { run_id: run.into(), grace: grace.map(|grace| grace.try_into().unwrap()) }
}

async fn cancelled(rig: &Rig, run: &str) {
    let mut reader = rig.client.clone();
    eventually("it is cancelled", async || {
        let get = v1::GetWorkflowRunRequest { run_id: run.into() };
        reader.get_workflow_run(get).await.unwrap().into_inner().state() == RunState::Cancelled
    })
    .await;
}

async fn a_workflow_nobody_has_begun_ends_at_once(on: On) {
    let mut rig = Rig::start(on).await;
    let run = rig.begin().await;
    for _ in 0..2 {
        let state = rig.client.cancel_workflow_run(cancel(&run, None)).await.unwrap().into_inner().state();
        assert_eq!(state, RunState::Cancelled);
    }
    let (_, other) = rig.held().await;
    rig.complete(&other, "").await;
    let late = rig.client.cancel_workflow_run(cancel(&other.run_id, None)).await;
    assert_eq!(refusal(late), (Code::FailedPrecondition, "ENDED".into()));
}

async fn a_held_workflow_hears_of_it_cleans_up_and_says_so(on: On) {
    let mut rig = Rig::start(on).await;
    let (_, run) = rig.held().await;
    rig.complete_step(&run, 0, "charge", "1").await;
    let state = rig.client.cancel_workflow_run(cancel(&run.run_id, None)).await.unwrap().into_inner().state();
    assert_eq!(state, RunState::Running);
    assert!(rig.get(&run.run_id).await.cancel_requested);
    let wait = v1::AwaitMessagesRequest { run_id: run.run_id.clone(), lease: run.lease.clone(), ..Default::default() };
    let messages = rig.client.await_messages(wait).await.unwrap().into_inner().messages;
    assert_eq!((messages.len(), messages[0].kind()), (1, MessageKind::Cancel));
    rig.complete_step(&run, 1, "refund", "1").await;
    let words = v1::CancelledWorkflowRequest {
        run_id: run.run_id.clone(),
        lease: run.lease.clone(),
        message: "refunded".into(),
    };
    for _ in 0..2 {
        let state = rig.client.cancelled_workflow(words.clone()).await.unwrap().into_inner().state();
        assert_eq!(state, RunState::Cancelled);
    }
    let shown = rig.get(&run.run_id).await;
    assert_eq!((shown.reason.as_str(), shown.error.as_str()), ("cancelled", "refunded"));
}

async fn a_sleeping_workflow_is_woken_to_clean_up(on: On) {
    let mut rig = Rig::start(on).await;
    let (worker, run) = rig.held().await;
    assert!(rig.client.suspend(sleep(&run, 0, Duration::from_secs(3_600))).await.unwrap().into_inner().suspended);
    rig.client.cancel_workflow_run(cancel(&run.run_id, None)).await.unwrap();
    let woken = rig.poll(&worker).await;
    assert_eq!((&woken.run_id, woken.messages[0].kind()), (&run.run_id, MessageKind::Cancel));
    rig.complete(&woken, "1").await;
    assert_eq!(rig.state(&run.run_id).await, RunState::Completed, "done is done");
}

async fn the_grace_time_ends_a_workflow_that_does_not_stop(on: On) {
    let mut rig = Rig::start(on).await;
    let (_, run) = rig.held().await;
    let grace = Some(Duration::from_secs(5));
    rig.client.cancel_workflow_run(cancel(&run.run_id, grace)).await.unwrap();
    rig.server.clock.advance(4_000);
    rig.complete_step(&run, 0, "refund", "1").await;
    rig.server.clock.advance(1_001);
    cancelled(&rig, &run.run_id).await;
    let late = rig.client.complete_workflow(completion(&run, "1")).await;
    assert_eq!(refusal(late), (Code::Aborted, "LEASE_LOST".into()));
    assert_eq!(refusal(rig.client.complete_step(step(&run, 1, "s", "1")).await).1, "LEASE_LOST");
}

async fn no_grace_ends_it_at_once(on: On) {
    let mut rig = Rig::start(on).await;
    let (_, run) = rig.held().await;
    let at_once = Some(Duration::ZERO);
    let state = rig.client.cancel_workflow_run(cancel(&run.run_id, at_once)).await.unwrap().into_inner().state();
    assert_eq!(state, RunState::Cancelled);
    assert_eq!(refusal(rig.client.complete_step(step(&run, 0, "s", "1")).await).1, "LEASE_LOST");
}

fn continued(run: &v1::PollActivityResponse) -> v1::ContinueAsNewRequest {
    v1::ContinueAsNewRequest { run_id: run.run_id.clone(), lease: run.lease.clone(), input: "1".into() }
}

async fn a_workflow_that_continued_is_followed(on: On) {
    let mut rig = Rig::start(on).await;
    for grace in [Some(Duration::ZERO), None] {
        let (_, run) = rig.held().await;
        let next = rig.client.continue_as_new(continued(&run)).await.unwrap().into_inner().run_id;
        let state = rig.client.cancel_workflow_run(cancel(&run.run_id, grace)).await.unwrap().into_inner().state();
        assert_eq!(state, RunState::Cancelled, "nobody has begun its successor, grace {grace:?}");
        assert_eq!(rig.state(&next).await, RunState::Cancelled);
    }
}

async fn a_request_to_cancel_that_moved_on_comes_with_the_first_claim(on: On) {
    let mut rig = Rig::start(on).await;
    let (worker, run) = rig.held().await;
    rig.client.cancel_workflow_run(cancel(&run.run_id, None)).await.unwrap();
    // It went on before it heard of it.
    let next = rig.client.continue_as_new(continued(&run)).await.unwrap().into_inner().run_id;
    let taken = rig.poll(&worker).await;
    let kinds: Vec<_> = taken.messages.iter().map(v1::Message::kind).collect();
    assert_eq!((&taken.run_id, kinds), (&next, vec![MessageKind::Cancel]));
}

on_both!(
    a_workflow_that_continued_is_followed,
    a_request_to_cancel_that_moved_on_comes_with_the_first_claim,
    a_workflow_nobody_has_begun_ends_at_once,
    a_held_workflow_hears_of_it_cleans_up_and_says_so,
    a_sleeping_workflow_is_woken_to_clean_up,
    the_grace_time_ends_a_workflow_that_does_not_stop,
    no_grace_ends_it_at_once,
);
