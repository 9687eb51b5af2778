//! Steps: what is done once, and what comes out when it is asked for again.

use baton_proto::v1;
use baton_proto::v1::{RunState, StepKind, StepState};
use tonic::Code;

use crate::harness::{On, on_both};
use crate::rig::{Rig, completion, failed_step, field, refusal, step, suspension};

async fn a_step_is_remembered_and_handed_to_the_next_worker(on: On) {
    let mut rig = Rig::start(on).await;
    let (_, run) = rig.held().await;
    let begin = v1::BeginStepRequest {
        run_id: run.run_id.clone(),
        lease: run.lease.clone(),
        position: 0,
        name: "charge".into(),
    };
    let begun = rig.client.begin_step(begin.clone()).await.unwrap().into_inner();
    assert!(begun.execute && begun.attempt == 1);
    assert_eq!(rig.state(&run.run_id).await, RunState::Running, "the first write starts the run");
    let kept = rig.client.complete_step(step(&run, 0, "charge", "41")).await.unwrap().into_inner();
    assert_eq!((&kept.output[..], kept.existed), (&b"41"[..], false));
    let again = rig.client.complete_step(step(&run, 0, "charge", "42")).await.unwrap().into_inner();
    assert_eq!((&again.output[..], again.existed), (&b"41"[..], true), "what was there before stands");
    let begun = rig.client.begin_step(begin).await.unwrap().into_inner();
    assert!(!begun.execute);
    assert_eq!(&begun.step.unwrap().output[..], b"41");
    let fact = v1::CompleteStepRequest { kind: StepKind::Fact.into(), ..step(&run, 1, "now", "5") };
    rig.client.complete_step(fact).await.unwrap();
    let back =
        v1::GiveBackWorkflowRequest { run_id: run.run_id.clone(), lease: run.lease.clone(), reason: String::new() };
    assert_eq!(rig.client.give_back_workflow(back).await.unwrap().into_inner().state(), RunState::Pending);
    let other = rig.worker().await;
    let next = rig.poll(&other).await;
    let steps: Vec<_> =
        next.steps.iter().map(|step| (step.position, step.kind(), step.state(), &step.output[..])).collect();
    let done = StepState::Completed;
    assert_eq!(steps, [(0, StepKind::Step, done, &b"41"[..]), (1, StepKind::Fact, done, &b"5"[..])]);
}

async fn something_else_at_a_position_is_refused_with_both_names(on: On) {
    let mut rig = Rig::start(on).await;
    let (_, run) = rig.held().await;
    rig.complete_step(&run, 0, "charge", "1").await;
    let other = rig.client.complete_step(step(&run, 0, "refund", "1")).await.unwrap_err();
    assert_eq!(other.code(), Code::FailedPrecondition);
    assert!(other.message().contains("charge") && other.message().contains("refund"), "{other}");
    assert!(other.message().contains("position 0"), "{other}");
    assert_eq!(refusal::<()>(Err(other)).1, "DIVERGED");
    let fact = v1::CompleteStepRequest { kind: StepKind::Fact.into(), ..step(&run, 0, "charge", "1") };
    assert_eq!(refusal(rig.client.complete_step(fact).await).1, "DIVERGED");
    let slept = v1::ScheduleSleepRequest {
        run_id: run.run_id.clone(),
        lease: run.lease.clone(),
        position: 0,
        name: "charge".into(),
        duration: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
        ..Default::default()
    };
    assert_eq!(refusal(rig.client.schedule_sleep(slept).await).1, "DIVERGED");
}

async fn a_failed_step_is_tried_again_by_its_policy(on: On) {
    let mut rig = Rig::start(on).await;
    let (_, run) = rig.held().await;
    let first = rig.client.fail_step(failed_step(&run, 0, 1)).await.unwrap().into_inner();
    assert!(first.retry && first.retry_at.is_some());
    assert_eq!(first.retry_after.map(|after| after.seconds), Some(3));
    // Attempts are added up when the run is retried: the sum has to stay a number.
    for wrong in [0, 1_000_001, u32::MAX] {
        let refused = refusal(rig.client.fail_step(failed_step(&run, 0, wrong)).await);
        assert_eq!(refused.0, Code::InvalidArgument, "attempt {wrong}");
    }
    let same = rig.client.fail_step(failed_step(&run, 0, 1)).await.unwrap().into_inner();
    assert_eq!((same.retry, same.retry_at), (true, first.retry_at), "the same failure again");
    let last = rig.client.fail_step(failed_step(&run, 0, 2)).await.unwrap().into_inner();
    assert!(!last.retry && last.retry_at.is_none());
    let list = v1::ListStepAttemptsRequest { run_id: run.run_id.clone(), ..Default::default() };
    let attempts = rig.client.list_step_attempts(list).await.unwrap().into_inner().attempts;
    let seen: Vec<_> =
        attempts.iter().map(|attempt| (attempt.attempt, attempt.state(), attempt.code.as_str())).collect();
    assert_eq!(seen, [(1, StepState::Failed, "card"), (2, StepState::Failed, "card")]);
    let get = v1::GetStepAttemptRequest { run_id: run.run_id.clone(), position: 0, attempt: 2 };
    let second = rig.client.get_step_attempt(get.clone()).await.unwrap().into_inner();
    assert_eq!((second.error.as_str(), second.epoch), ("declined", 1));
    let third = v1::GetStepAttemptRequest { attempt: 3, ..get };
    assert_eq!(refusal(rig.client.get_step_attempt(third).await), (Code::NotFound, "NOT_FOUND".into()));
    let list = v1::ListStepsRequest { run_id: run.run_id.clone(), ..Default::default() };
    let steps = rig.client.list_steps(list).await.unwrap().into_inner().steps;
    assert_eq!((steps.len(), steps[0].state(), steps[0].error.as_str()), (1, StepState::Failed, "declined"));
}

async fn pages_of_steps_follow_each_other(on: On) {
    let mut rig = Rig::start(on).await;
    let (_, run) = rig.held().await;
    for position in 0..5 {
        rig.complete_step(&run, position, "s", "1").await;
    }
    let list = v1::ListStepsRequest { run_id: run.run_id.clone(), page_size: 2, ..Default::default() };
    let (mut positions, mut token) = (Vec::new(), String::new());
    loop {
        let request = v1::ListStepsRequest { page_token: token, ..list.clone() };
        let page = rig.client.list_steps(request).await.unwrap().into_inner();
        positions.extend(page.steps.iter().map(|step| step.position));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(positions, [0, 1, 2, 3, 4]);
}

async fn a_page_of_large_steps_ends_early(on: On) {
    let mut rig = Rig::start(on).await;
    let (_, run) = rig.held().await;
    let mut client = rig.client.clone().max_decoding_message_size(64 << 20);
    let large = format!("\"{}\"", "x".repeat(1 << 20));
    for position in 0..10 {
        rig.complete_step(&run, position, "s", &large).await;
    }
    let list = v1::ListStepsRequest { run_id: run.run_id.clone(), page_size: 100, ..Default::default() };
    let first = client.list_steps(list.clone()).await.unwrap().into_inner();
    assert_eq!((first.steps.len(), first.next_page_token.is_empty()), (8, false));
    let rest = v1::ListStepsRequest { page_token: first.next_page_token, ..list };
    let rest = client.list_steps(rest).await.unwrap().into_inner();
    assert_eq!((rest.steps.len(), rest.next_page_token.as_str()), (2, ""));
}

async fn what_is_wrong_with_a_step_is_named(on: On) {
    let mut rig = Rig::with(on, |settings| settings.payload_bytes_max = 1 << 20).await;
    let (_, run) = rig.held().await;
    assert_eq!(field(rig.client.complete_step(step(&run, 0, "", "1")).await), "name");
    let sleep = v1::CompleteStepRequest { kind: StepKind::Sleep.into(), ..step(&run, 0, "s", "1") };
    assert_eq!(field(rig.client.complete_step(sleep).await), "kind");
    let signal = v1::CompleteStepRequest { kind: StepKind::Signal.into(), ..step(&run, 0, "s", "1") };
    assert_eq!(field(rig.client.complete_step(signal).await), "message");
    assert_eq!(field(rig.client.fail_step(failed_step(&run, 0, 0)).await), "attempt");
    let nothing = v1::SuspendRequest { awaits_messages: false, ..suspension(&run, 0) };
    assert_eq!(field(rig.client.suspend(nothing).await), "awaits_messages");
    let large = "1".repeat(2 << 20);
    let refused = rig.client.complete_step(step(&run, 0, "s", &large)).await;
    assert_eq!(refusal(refused), (Code::ResourceExhausted, "TOO_LARGE".into()));
    let exact = "1".repeat(1 << 20);
    assert_eq!(rig.client.complete_step(step(&run, 0, "s", &exact)).await.unwrap().into_inner().output.len(), 1 << 20);
}

async fn a_lease_that_is_not_the_live_one_changes_nothing(on: On) {
    let mut rig = Rig::start(on).await;
    let (worker, old) = rig.held().await;
    rig.client.deregister_worker(v1::DeregisterWorkerRequest { worker_id: worker, drain: false }).await.unwrap();
    let other = rig.worker().await;
    let run = rig.poll(&other).await;
    assert_eq!(run.run_id, old.run_id);
    let lost = (Code::Aborted, "LEASE_LOST".to_owned());
    let (id, lease) = (old.run_id.clone(), old.lease.clone());
    assert_eq!(refusal(rig.client.complete_step(step(&old, 0, "s", "1")).await), lost);
    assert_eq!(refusal(rig.client.fail_step(failed_step(&old, 0, 1)).await), lost);
    let begin = v1::BeginStepRequest { run_id: id.clone(), lease: lease.clone(), position: 0, name: "s".into() };
    assert_eq!(refusal(rig.client.begin_step(begin).await), lost);
    assert_eq!(refusal(rig.client.suspend(suspension(&old, 0)).await), lost);
    let publish = v1::PublishRequest { run_id: id.clone(), lease: lease.clone(), value: "1".into() };
    assert_eq!(refusal(rig.client.publish(publish).await), lost);
    let start = Some(v1::StartWorkflowRequest { workflow_type: "child".into(), ..Default::default() });
    let child =
        v1::StartChildRequest { run_id: id.clone(), lease: lease.clone(), position: 0, name: "c".into(), start };
    assert_eq!(refusal(rig.client.start_child(child).await), lost);
    let wait = v1::AwaitMessagesRequest { run_id: id.clone(), lease: lease.clone(), ..Default::default() };
    assert_eq!(refusal(rig.client.await_messages(wait).await), lost);
    assert_eq!(refusal(rig.client.complete_workflow(completion(&old, "1")).await), lost);
    let fail = v1::FailWorkflowRequest { run_id: id.clone(), lease: lease.clone(), ..Default::default() };
    assert_eq!(refusal(rig.client.fail_workflow(fail).await), lost);
    let words = v1::CancelledWorkflowRequest { run_id: id.clone(), lease: lease.clone(), ..Default::default() };
    assert_eq!(refusal(rig.client.cancelled_workflow(words).await), lost);
    let next = v1::ContinueAsNewRequest { run_id: id.clone(), lease: lease.clone(), input: "1".into() };
    assert_eq!(refusal(rig.client.continue_as_new(next).await), lost);
    // Somebody else's lease is no lease of this run at all.
    let forged = v1::PollActivityResponse { lease: "bl_1_x".into(), ..run.clone() };
    assert_eq!(refusal(rig.client.complete_step(step(&forged, 0, "s", "1")).await).0, Code::PermissionDenied);
    // Nor is the right one, with a key of another namespace.
    let mut elsewhere = rig.client_for(&["worker"], Some("elsewhere")).await;
    let foreign = (Code::PermissionDenied, "FORBIDDEN".to_owned());
    assert_eq!(refusal(elsewhere.complete_step(step(&run, 0, "s", "1")).await), foreign);
    assert_eq!(refusal(elsewhere.complete_workflow(completion(&run, "1")).await), foreign);
    let list = v1::ListStepsRequest { run_id: id, ..Default::default() };
    assert_eq!(rig.client.list_steps(list).await.unwrap().into_inner().steps, []);
    rig.complete(&run, "2").await;
    assert_eq!(&rig.get(&run.run_id).await.output[..], b"2");
    let again = rig.client.complete_workflow(completion(&run, "2")).await.unwrap().into_inner();
    assert_eq!(again.state(), RunState::Completed, "the same call again gets the same answer");
}

async fn a_workflow_with_a_policy_is_tried_again(on: On) {
    let mut rig = Rig::start(on).await;
    let retry = Some(v1::RetryPolicy { max_attempts: 2, ..Default::default() });
    let start = v1::StartWorkflowRequest { retry, ..crate::rig::order() };
    rig.client.start_workflow(start).await.unwrap();
    let worker = rig.worker().await;
    let run = rig.poll(&worker).await;
    let fail = |run: &v1::PollActivityResponse, non_retryable| v1::FailWorkflowRequest {
        run_id: run.run_id.clone(),
        lease: run.lease.clone(),
        error: "no".into(),
        non_retryable,
        ..Default::default()
    };
    let failed = rig.client.fail_workflow(fail(&run, false)).await.unwrap().into_inner();
    assert_eq!(failed.state(), RunState::Pending);
    rig.server.clock.advance(60_000);
    rig.client
        .worker_heartbeat(v1::WorkerHeartbeatRequest { worker_id: worker.clone(), ..Default::default() })
        .await
        .ok();
    let worker = rig.worker().await;
    let run = rig.poll(&worker).await;
    assert_eq!(run.attempt, 2);
    let failed = rig.client.fail_workflow(fail(&run, true)).await.unwrap().into_inner();
    assert_eq!(failed.state(), RunState::Failed);
    let shown = rig.get(&run.run_id).await;
    assert_eq!((shown.reason.as_str(), shown.error.as_str(), shown.attempt), ("error", "no", 2));
}

on_both!(
    a_step_is_remembered_and_handed_to_the_next_worker,
    something_else_at_a_position_is_refused_with_both_names,
    a_failed_step_is_tried_again_by_its_policy,
    pages_of_steps_follow_each_other,
    a_page_of_large_steps_ends_early,
    what_is_wrong_with_a_step_is_named,
    a_lease_that_is_not_the_live_one_changes_nothing,
    a_workflow_with_a_policy_is_tried_again,
);
