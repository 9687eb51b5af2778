//! For those who start workflows.

use std::time::Duration;

use baton_proto::v1;
use baton_proto::v1::RunState;
use tonic::Code;

use crate::harness::{On, PATIENCE, on_both};
use crate::rig::{Rig, completion, field, order, poll, refusal, workflows};

async fn a_workflow_is_started_taken_completed_and_read(on: On) {
    let mut rig = Rig::start(on).await;
    let started = rig.client.start_workflow(order()).await.unwrap().into_inner();
    assert!(!started.existed && started.submitted_at.is_some());
    let before = rig.get(&started.run_id).await;
    assert_eq!((before.state(), before.attempt, before.namespace_id.as_str()), (RunState::Pending, 0, "default"));
    assert_eq!((before.task_queue.as_str(), before.workflow_type.as_str()), ("orders", "order"));
    assert_eq!((&before.input[..], before.priority), (&br#"{"id":7}"#[..], 5));
    let worker = rig.worker().await;
    let run = rig.poll(&worker).await;
    assert_eq!((&run.workflow_input[..], run.attempt, run.steps.len()), (&br#"{"id":7}"#[..], 1, 0));
    assert!(run.now.is_some() && run.task_queue == "orders" && run.workflow_type == "order");
    rig.complete(&run, r#""done""#).await;
    let after = rig.get(&run.run_id).await;
    assert_eq!((after.state(), &after.output[..], after.attempt), (RunState::Completed, &br#""done""#[..], 1));
    assert_eq!(after.worker_id, worker);
    assert!(after.ended_at.is_some());
}

async fn the_same_key_is_the_same_workflow(on: On) {
    let mut rig = Rig::start(on).await;
    let with_key = v1::StartWorkflowRequest { idempotency_key: Some("k".into()), ..order() };
    let first = rig.client.start_workflow(with_key.clone()).await.unwrap().into_inner();
    let again = rig.client.start_workflow(with_key.clone()).await.unwrap().into_inner();
    assert_eq!((again.run_id, again.existed), (first.run_id, true));
    let other = v1::StartWorkflowRequest { input: "8".into(), ..with_key };
    let refused = rig.client.start_workflow(other).await;
    assert_eq!(refusal(refused), (Code::AlreadyExists, "IDEMPOTENCY_KEY_REUSED".into()));
}

async fn what_is_wrong_with_a_start_is_named(on: On) {
    let mut rig = Rig::start(on).await;
    let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    let wrong = [
        ("workflow_type", v1::StartWorkflowRequest { workflow_type: String::new(), ..order() }),
        ("workflow_type", v1::StartWorkflowRequest { workflow_type: "order@2".into(), ..order() }),
        ("task_queue", v1::StartWorkflowRequest { task_queue: "a\nb".into(), ..order() }),
        ("namespace_id", v1::StartWorkflowRequest { namespace_id: "a/b".into(), ..order() }),
        ("namespace_id", v1::StartWorkflowRequest { namespace_id: "a\nb".into(), ..order() }),
        ("priority", v1::StartWorkflowRequest { priority: Some(10), ..order() }),
        ("input", v1::StartWorkflowRequest { input: "{".into(), ..order() }),
        ("timeout", v1::StartWorkflowRequest { timeout: seconds(0), ..order() }),
        ("start_after", v1::StartWorkflowRequest { start_after: seconds(-1), ..order() }),
        (
            "retry",
            v1::StartWorkflowRequest { retry: Some(v1::RetryPolicy { factor: 0.5, ..Default::default() }), ..order() },
        ),
    ];
    for (name, request) in wrong {
        assert_eq!(field(rig.client.start_workflow(request).await), name);
    }
}

async fn runs_that_are_not_there_or_not_ours_are_refused(on: On) {
    let mut rig = Rig::start(on).await;
    let get = |id: &str| v1::GetWorkflowRunRequest { run_id: id.into() };
    assert_eq!(field(rig.client.get_workflow_run(get("nonsense")).await), "run_id");
    let unknown = "018bcfe5-6800-7000-8000-000000000000";
    assert_eq!(refusal(rig.client.get_workflow_run(get(unknown)).await), (Code::NotFound, "NOT_FOUND".into()));
    let run = rig.begin().await;
    let mut foreign = rig.client_for(&["admin"], Some("other")).await;
    assert_eq!(refusal(foreign.get_workflow_run(get(&run)).await), (Code::NotFound, "NOT_FOUND".into()));
    assert_eq!(refusal(foreign.start_workflow(order()).await).0, Code::PermissionDenied);
    let mut reader = rig.client_for(&["read"], None).await;
    assert!(reader.get_workflow_run(get(&run)).await.is_ok());
    assert_eq!(refusal(reader.start_workflow(order()).await), (Code::PermissionDenied, "FORBIDDEN".into()));
    let mut stranger = workflows(&rig.server, "");
    assert_eq!(refusal(stranger.get_workflow_run(get(&run)).await), (Code::Unauthenticated, "NO_CREDENTIAL".into()));
}

async fn whoever_waits_hears_of_the_end_at_once(on: On) {
    let mut rig = Rig::start(on).await;
    let (_, run) = rig.held().await;
    let wait = v1::WaitWorkflowRunRequest { run_id: run.run_id.clone(), wait: None };
    let mut waiter = rig.client.clone();
    let waiting = tokio::spawn(async move { waiter.wait_workflow_run(wait).await.unwrap().into_inner() });
    rig.complete(&run, "1").await;
    let ended = tokio::time::timeout(PATIENCE, waiting).await.expect("nobody was told").unwrap();
    assert_eq!((ended.state(), &ended.output[..]), (RunState::Completed, &b"1"[..]));
    let id = rig.begin().await;
    let wait = v1::WaitWorkflowRunRequest { run_id: id, wait: Some(Duration::from_millis(1).try_into().unwrap()) };
    let shown = rig.client.wait_workflow_run(wait).await.unwrap().into_inner();
    assert_eq!(shown.state(), RunState::Pending, "after the wait it is shown as it is");
}

async fn lists_have_pages_and_a_true_count(on: On) {
    let mut rig = Rig::start(on).await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(rig.begin().await);
    }
    all.reverse();
    let list = v1::ListWorkflowRunsRequest { task_queue: "orders".into(), page_size: 2, ..Default::default() };
    let (mut listed, mut token) = (Vec::new(), String::new());
    loop {
        let request = v1::ListWorkflowRunsRequest { page_token: token, ..list.clone() };
        let page = rig.client.list_workflow_runs(request).await.unwrap().into_inner();
        assert_eq!(page.total_count, 5);
        listed.extend(page.runs.into_iter().map(|run| run.run_id));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(listed, all);
    let none = v1::ListWorkflowRunsRequest { state: RunState::Completed.into(), ..list.clone() };
    assert_eq!(rig.client.list_workflow_runs(none).await.unwrap().into_inner().total_count, 0);
    let wrong = v1::ListWorkflowRunsRequest { page_size: 1_001, ..list.clone() };
    assert_eq!(field(rig.client.list_workflow_runs(wrong).await), "page_size");
    let wrong = v1::ListWorkflowRunsRequest { page_token: "x".into(), ..list };
    assert_eq!(field(rig.client.list_workflow_runs(wrong).await), "page_token");
}

async fn a_retry_goes_on_after_what_was_completed(on: On) {
    let mut rig = Rig::start(on).await;
    let (worker, run) = rig.held().await;
    rig.complete_step(&run, 0, "charge", "41").await;
    let retry = v1::RetryWorkflowRunRequest { run_id: run.run_id.clone(), from_start: false };
    assert_eq!(refusal(rig.client.retry_workflow_run(retry.clone()).await).0, Code::InvalidArgument);
    let failed = v1::FailWorkflowRequest {
        run_id: run.run_id.clone(),
        lease: run.lease.clone(),
        error: "no stock".into(),
        ..Default::default()
    };
    let state = rig.client.fail_workflow(failed).await.unwrap().into_inner().state();
    assert_eq!(state, RunState::Failed, "a workflow is tried once unless it says otherwise");
    let again = rig.client.retry_workflow_run(retry.clone()).await.unwrap().into_inner();
    assert_ne!(again.run_id, run.run_id);
    let taken = rig.poll(&worker).await;
    assert_eq!((&taken.run_id, taken.steps.len()), (&again.run_id, 1));
    assert_eq!((&taken.steps[0].output[..], taken.steps[0].name.as_str()), (&b"41"[..], "charge"));
    rig.complete(&taken, "").await;
    let retry = v1::RetryWorkflowRunRequest { from_start: true, ..retry };
    rig.client.retry_workflow_run(retry).await.unwrap();
    assert_eq!(rig.poll(&worker).await.steps, []);
}

async fn a_retry_has_as_much_time_as_the_first(on: On) {
    let mut rig = Rig::start(on).await;
    let timed = v1::StartWorkflowRequest { timeout: Some(prost_types::Duration { seconds: 60, nanos: 0 }), ..order() };
    let first = rig.client.start_workflow(timed).await.unwrap().into_inner().run_id;
    times_out(&mut rig, &first).await;
    for from_start in [false, true] {
        let retry = v1::RetryWorkflowRunRequest { run_id: first.clone(), from_start };
        let again = rig.client.retry_workflow_run(retry).await.unwrap().into_inner().run_id;
        times_out(&mut rig, &again).await;
    }
}

/// A minute passes, and a run ends with it and not before.
async fn times_out(rig: &mut Rig, run: &str) {
    rig.server.clock.advance(59_999);
    assert_eq!(rig.state(run).await, RunState::Pending);
    rig.server.clock.advance(2);
    let wait = v1::WaitWorkflowRunRequest { run_id: run.into(), wait: None };
    let ended = tokio::time::timeout(PATIENCE, rig.client.wait_workflow_run(wait)).await.expect("it does not end");
    let ended = ended.unwrap().into_inner();
    assert_eq!((ended.state(), ended.reason.as_str()), (RunState::Failed, "timeout"));
}

async fn what_is_published_can_be_asked_for(on: On) {
    let mut rig = Rig::start(on).await;
    let (_, run) = rig.held().await;
    let query = v1::QueryWorkflowRunRequest { run_id: run.run_id.clone() };
    let nothing = rig.client.query_workflow_run(query.clone()).await.unwrap().into_inner();
    assert_eq!((nothing.value.len(), nothing.published_at), (0, None));
    for value in ["1", "2"] {
        let (run_id, lease) = (run.run_id.clone(), run.lease.clone());
        rig.client.publish(v1::PublishRequest { run_id, lease, value: value.into() }).await.unwrap();
    }
    assert_eq!(&rig.client.query_workflow_run(query).await.unwrap().into_inner().value[..], b"2");
}

async fn a_pinned_workflow_goes_to_its_version_only(on: On) {
    let mut rig = Rig::start(on).await;
    let pinned = v1::StartWorkflowRequest { pin_version: Some("2.0.0".into()), ..order() };
    let id = rig.client.start_workflow(pinned).await.unwrap().into_inner().run_id;
    let old = rig.worker().await;
    let none = rig.client.poll_activity(poll(&old, Duration::ZERO)).await.unwrap().into_inner();
    assert_eq!(none.run_id, "");
    let new = v1::RegisterWorkerRequest { version: "2.0.0".into(), ..crate::rig::worker() };
    let new = rig.client.register_worker(new).await.unwrap().into_inner().worker_id;
    let run = rig.poll(&new).await;
    assert_eq!((run.run_id, run.workflow_type.as_str()), (id, "order"), "the worker knows it by its plain name");
}

async fn a_timeout_ends_the_workflow_and_its_lease(on: On) {
    let mut rig = Rig::start(on).await;
    let timed = v1::StartWorkflowRequest { timeout: Some(prost_types::Duration { seconds: 60, nanos: 0 }), ..order() };
    let id = rig.client.start_workflow(timed).await.unwrap().into_inner().run_id;
    let worker = rig.worker().await;
    let run = rig.poll(&worker).await;
    let wait = v1::WaitWorkflowRunRequest { run_id: id, wait: None };
    let mut waiter = rig.client.clone();
    let waiting = tokio::spawn(async move { waiter.wait_workflow_run(wait).await.unwrap().into_inner() });
    rig.server.clock.advance(60_001);
    let ended = tokio::time::timeout(PATIENCE, waiting).await.expect("it did not end").unwrap();
    assert_eq!((ended.state(), ended.reason.as_str()), (RunState::Failed, "timeout"));
    let late = rig.client.complete_workflow(completion(&run, "1")).await;
    assert_eq!(refusal(late), (Code::Aborted, "LEASE_LOST".into()));
}

on_both!(
    a_workflow_is_started_taken_completed_and_read,
    the_same_key_is_the_same_workflow,
    what_is_wrong_with_a_start_is_named,
    runs_that_are_not_there_or_not_ours_are_refused,
    whoever_waits_hears_of_the_end_at_once,
    lists_have_pages_and_a_true_count,
    a_retry_goes_on_after_what_was_completed,
    a_retry_has_as_much_time_as_the_first,
    what_is_published_can_be_asked_for,
    a_pinned_workflow_goes_to_its_version_only,
    a_timeout_ends_the_workflow_and_its_lease,
);
