//! Sleeps, messages, and workflows that wait for them.

use std::time::Duration;

use baton_proto::v1;
use baton_proto::v1::{MessageKind, RunState, StepKind, StepState};
use tonic::Code;

use crate::harness::{On, PATIENCE, eventually, on_both};
use crate::rig::{Rig, field, refusal, sleep, step, suspension};

async fn a_sleep_ends_the_lease_and_the_run_comes_back_when_it_is_over(on: On) {
    let mut rig = Rig::start(on).await;
    let (worker, run) = rig.held().await;
    let request = v1::ScheduleSleepRequest {
        run_id: run.run_id.clone(),
        lease: run.lease.clone(),
        position: 0,
        name: "pause".into(),
        duration: Some(prost_types::Duration { seconds: 10, nanos: 0 }),
        ..Default::default()
    };
    let slept = rig.client.schedule_sleep(request.clone()).await.unwrap().into_inner();
    assert!(slept.suspended);
    let again = rig.client.schedule_sleep(request.clone()).await.unwrap().into_inner();
    assert_eq!((again.suspended, again.wake_at), (true, slept.wake_at), "the same call again gets the same answer");
    assert_eq!(rig.state(&run.run_id).await, RunState::Sleeping);
    let both = v1::ScheduleSleepRequest { until: slept.wake_at, ..request.clone() };
    assert_eq!(field(rig.client.schedule_sleep(both).await), "duration");
    let neither = v1::ScheduleSleepRequest { duration: None, ..request };
    assert_eq!(field(rig.client.schedule_sleep(neither).await), "duration");
    let waiting = {
        let (mut client, request) = (rig.client.clone(), crate::rig::poll(&worker, Duration::from_secs(50)));
        tokio::spawn(async move { client.poll_activity(request).await.unwrap().into_inner() })
    };
    eventually("the poll waits", async || rig.server.app.dispatcher.waiting() == 1).await;
    rig.server.clock.advance(10_000);
    let woken = tokio::time::timeout(PATIENCE, waiting).await.expect("it did not wake").unwrap();
    assert_eq!((&woken.run_id, woken.steps.len()), (&run.run_id, 1));
    assert_eq!((woken.steps[0].kind(), woken.steps[0].due_at), (StepKind::Sleep, slept.wake_at));
    assert_ne!(woken.lease, run.lease);
}

async fn a_signal_wakes_a_workflow_that_sleeps_and_is_taken_once(on: On) {
    let mut rig = Rig::start(on).await;
    let (worker, run) = rig.held().await;
    assert!(rig.client.suspend(suspension(&run, 0)).await.unwrap().into_inner().suspended);
    let explained = rig.server.client.explain(&run.run_id).await.unwrap();
    assert_eq!(explained.reasons[0].code, "message", "{}", explained.summary);
    assert_eq!(rig.signal(&run.run_id, "approved", "true").await, 1);
    let woken = rig.poll(&worker).await;
    let message = &woken.messages[0];
    assert_eq!((message.number, message.kind(), message.name.as_str()), (1, MessageKind::Signal, "approved"));
    assert_eq!(&message.payload[..], b"true");
    let taken =
        v1::CompleteStepRequest { kind: StepKind::Signal.into(), message: 1, ..step(&woken, 0, "approved", "true") };
    rig.client.complete_step(taken.clone()).await.unwrap();
    let twice = v1::CompleteStepRequest { position: 1, ..taken };
    assert_eq!(refusal(rig.client.complete_step(twice).await), (Code::FailedPrecondition, "SIGNAL_TAKEN".into()));
    let list = v1::ListStepsRequest { run_id: run.run_id.clone(), ..Default::default() };
    let steps = rig.client.list_steps(list).await.unwrap().into_inner().steps;
    assert_eq!((steps.len(), steps[0].message, steps[0].state()), (1, 1, StepState::Completed));
}

async fn a_message_that_was_not_seen_keeps_the_lease(on: On) {
    let mut rig = Rig::start(on).await;
    let (_, run) = rig.held().await;
    rig.signal(&run.run_id, "go", "1").await;
    let news = rig.client.suspend(sleep(&run, 0, Duration::from_secs(10))).await.unwrap().into_inner();
    assert_eq!((news.suspended, news.messages.len()), (false, 1));
    rig.complete_step(&run, 1, "s", "1").await;
    let seen = v1::SuspendRequest { seen: 1, ..sleep(&run, 0, Duration::from_secs(10)) };
    assert!(rig.client.suspend(seen).await.unwrap().into_inner().suspended);
}

async fn the_same_key_is_the_same_signal(on: On) {
    let mut rig = Rig::start(on).await;
    let (_, run) = rig.held().await;
    let signal = v1::SignalWorkflowRunRequest {
        run_id: run.run_id.clone(),
        name: "go".into(),
        payload: "1".into(),
        idempotency_key: Some("k".into()),
    };
    for _ in 0..2 {
        let number = rig.client.signal_workflow_run(signal.clone()).await.unwrap().into_inner().number;
        assert_eq!(number, 1);
    }
    let nameless = v1::SignalWorkflowRunRequest { name: String::new(), ..signal.clone() };
    assert_eq!(field(rig.client.signal_workflow_run(nameless).await), "name");
    rig.complete(&run, "").await;
    let late = v1::SignalWorkflowRunRequest { idempotency_key: None, ..signal };
    assert_eq!(refusal(rig.client.signal_workflow_run(late).await), (Code::FailedPrecondition, "ENDED".into()));
}

async fn whoever_awaits_messages_gets_them_at_once(on: On) {
    let mut rig = Rig::start(on).await;
    let (_, run) = rig.held().await;
    let wait = v1::AwaitMessagesRequest {
        run_id: run.run_id.clone(),
        lease: run.lease.clone(),
        seen: 0,
        wait: Some(prost_types::Duration { seconds: 50, nanos: 0 }),
    };
    let nothing = v1::AwaitMessagesRequest { wait: None, ..wait.clone() };
    assert_eq!(rig.client.await_messages(nothing).await.unwrap().into_inner().messages, []);
    let (mut client, request) = (rig.client.clone(), wait.clone());
    let waiting = tokio::spawn(async move { client.await_messages(request).await.unwrap().into_inner().messages });
    rig.signal(&run.run_id, "go", "1").await;
    let messages = tokio::time::timeout(PATIENCE, waiting).await.expect("nobody was told").unwrap();
    assert_eq!((messages.len(), messages[0].name.as_str()), (1, "go"));
    let beyond = v1::AwaitMessagesRequest { seen: 1, wait: None, ..wait };
    assert_eq!(rig.client.await_messages(beyond).await.unwrap().into_inner().messages, []);
}

async fn a_workflow_that_continues_is_followed(on: On) {
    let mut rig = Rig::start(on).await;
    let (worker, run) = rig.held().await;
    rig.signal(&run.run_id, "later", "7").await;
    let wait = v1::WaitWorkflowRunRequest { run_id: run.run_id.clone(), wait: None };
    let mut waiter = rig.client.clone();
    let waiting = tokio::spawn(async move { waiter.wait_workflow_run(wait).await.unwrap().into_inner() });
    let next = v1::ContinueAsNewRequest { run_id: run.run_id.clone(), lease: run.lease.clone(), input: "2".into() };
    let continued = rig.client.continue_as_new(next.clone()).await.unwrap().into_inner();
    let again = rig.client.continue_as_new(next).await.unwrap().into_inner();
    assert_eq!((&again.run_id, again.existed), (&continued.run_id, true));
    let old = rig.get(&run.run_id).await;
    assert_eq!((old.state(), &old.continued_to), (RunState::Completed, &continued.run_id));
    rig.signal(&run.run_id, "last", "8").await;
    let successor = rig.poll(&worker).await;
    assert_eq!((&successor.run_id, &successor.workflow_input[..]), (&continued.run_id, &b"2"[..]));
    let messages = rig.client.suspend(suspension(&successor, 0)).await.unwrap().into_inner().messages;
    let names: Vec<_> = messages.iter().map(|message| message.name.as_str()).collect();
    assert_eq!(names, ["later", "last"], "what nobody took moved over, and what came later followed");
    rig.complete(&successor, "3").await;
    let ended = tokio::time::timeout(PATIENCE, waiting).await.expect("nobody was told").unwrap();
    assert_eq!((&ended.run_id, &ended.output[..]), (&continued.run_id, &b"3"[..]));
}

on_both!(
    a_sleep_ends_the_lease_and_the_run_comes_back_when_it_is_over,
    a_signal_wakes_a_workflow_that_sleeps_and_is_taken_once,
    a_message_that_was_not_seen_keeps_the_lease,
    the_same_key_is_the_same_signal,
    whoever_awaits_messages_gets_them_at_once,
    a_workflow_that_continues_is_followed,
);
