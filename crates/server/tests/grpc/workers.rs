//! Workers: registering, polling, heartbeats.

use std::time::Duration;

use baton_proto::v1;
use baton_proto::v1::{RunState, WorkerState};
use tonic::Code;

use crate::harness::{On, PATIENCE, eventually, on_both};
use crate::rig::{Rig, Stream, field, poll, refusal, worker};

async fn a_worker_is_registered_shown_and_listed(on: On) {
    let mut rig = Rig::start(on).await;
    let labels = [("region".to_owned(), "eu".to_owned())].into();
    let said = v1::RegisterWorkerRequest { hostname: "h".into(), pid: 7, labels, instance: "i".into(), ..worker() };
    let registered = rig.client.register_worker(said.clone()).await.unwrap().into_inner();
    assert_eq!(registered.heartbeat_interval_secs, 5);
    assert_eq!(registered.lease_ttl.map(|ttl| ttl.seconds), Some(15));
    let again = rig.client.register_worker(said).await.unwrap().into_inner();
    assert_eq!(again.worker_id, registered.worker_id, "the same instance is the same worker");
    let get = v1::GetWorkerRequest { worker_id: registered.worker_id.clone() };
    let shown = rig.client.get_worker(get).await.unwrap().into_inner();
    assert_eq!((shown.state(), shown.workflow_types), (WorkerState::Online, vec!["order".into(), "child".to_owned()]));
    assert_eq!((shown.hostname.as_str(), shown.pid, shown.labels["region"].as_str()), ("h", 7, "eu"));
    let other = rig.worker().await;
    let list = v1::ListWorkersRequest { task_queue: "orders".into(), page_size: 1, ..Default::default() };
    let page = rig.client.list_workers(list.clone()).await.unwrap().into_inner();
    assert_eq!((page.workers.len(), page.total_count), (1, 2));
    let rest = v1::ListWorkersRequest { page_token: page.next_page_token, ..list.clone() };
    let rest = rig.client.list_workers(rest).await.unwrap().into_inner();
    let mut both = [page.workers[0].worker_id.clone(), rest.workers[0].worker_id.clone()];
    let mut expected = [registered.worker_id, other];
    both.sort();
    expected.sort();
    assert_eq!(both, expected);
    let offline = v1::ListWorkersRequest { state: WorkerState::Offline.into(), ..list };
    assert_eq!(rig.client.list_workers(offline).await.unwrap().into_inner().total_count, 0);
}

async fn what_is_wrong_with_a_registration_is_named(on: On) {
    let mut rig = Rig::start(on).await;
    for types in [vec![], vec!["a@1".to_owned()], vec![String::new()]] {
        let wrong = v1::RegisterWorkerRequest { workflow_types: types, ..worker() };
        assert_eq!(field(rig.client.register_worker(wrong).await), "workflow_types");
    }
    let nobody = v1::GetWorkerRequest { worker_id: "nobody".into() };
    assert_eq!(field(rig.client.get_worker(nobody).await), "worker_id");
    let unknown = v1::GetWorkerRequest { worker_id: "018bcfe5-6800-4000-8000-000000000000".into() };
    assert_eq!(refusal(rig.client.get_worker(unknown).await), (Code::NotFound, "UNKNOWN_WORKER".into()));
}

async fn another_key_cannot_act_for_a_worker(on: On) {
    let mut rig = Rig::start(on).await;
    let mut own = rig.client_for(&["worker"], None).await;
    let mut other = rig.client_for(&["worker"], None).await;
    let worker_id = own.register_worker(worker()).await.unwrap().into_inner().worker_id;
    let foreign = (Code::PermissionDenied, "FORBIDDEN".to_owned());
    let beat = v1::WorkerHeartbeatRequest { worker_id: worker_id.clone(), ..Default::default() };
    let goodbye = v1::DeregisterWorkerRequest { worker_id: worker_id.clone(), ..Default::default() };
    let draining = v1::DeregisterWorkerRequest { drain: true, ..goodbye.clone() };
    assert_eq!(refusal(other.worker_heartbeat(beat.clone()).await), foreign);
    assert_eq!(refusal(other.poll_activity(poll(&worker_id, Duration::ZERO)).await), foreign);
    assert_eq!(refusal(other.deregister_worker(draining).await), foreign);
    assert_eq!(refusal(other.deregister_worker(goodbye.clone()).await), foreign);
    let hello = Some(v1::Hello { worker_id, ..Default::default() });
    let mut stream = Stream::connect(&mut other, v1::WorkRequest { hello, ..Default::default() }).await;
    let ended = stream.next().await.unwrap_err().expect("it is refused");
    assert_eq!(ended.code(), Code::PermissionDenied);
    rig.client.worker_heartbeat(beat).await.expect("an administrator may");
    own.deregister_worker(goodbye).await.unwrap();
}

async fn only_a_registered_worker_that_is_online_may_poll(on: On) {
    let mut rig = Rig::start(on).await;
    let at_once = Duration::ZERO;
    let unknown = poll("018bcfe5-6800-4000-8000-000000000000", at_once);
    assert_eq!(refusal(rig.client.poll_activity(unknown).await), (Code::FailedPrecondition, "UNKNOWN_WORKER".into()));
    assert_eq!(field(rig.client.poll_activity(poll("nonsense", at_once)).await), "worker_id");
    let id = rig.worker().await;
    let none = v1::PollActivityRequest { supported_workflow_types: vec![], ..poll(&id, at_once) };
    assert_eq!(field(rig.client.poll_activity(none).await), "supported_workflow_types");
    let other = v1::PollActivityRequest { supported_workflow_types: vec!["x".into()], ..poll(&id, at_once) };
    assert_eq!(field(rig.client.poll_activity(other).await), "supported_workflow_types");
    let elsewhere = v1::PollActivityRequest { namespace_id: "other".into(), ..poll(&id, at_once) };
    assert_eq!(field(rig.client.poll_activity(elsewhere).await), "namespace_id");
    let mut foreign = rig.client_for(&["worker"], Some("other")).await;
    let refused = refusal(foreign.poll_activity(poll(&id, at_once)).await);
    assert_eq!(refused, (Code::FailedPrecondition, "UNKNOWN_WORKER".into()), "as one that does not exist");

    let drain = v1::DeregisterWorkerRequest { worker_id: id.clone(), drain: true };
    rig.client.deregister_worker(drain.clone()).await.unwrap();
    let refused = rig.client.poll_activity(poll(&id, at_once)).await;
    assert_eq!(refusal(refused), (Code::FailedPrecondition, "WORKER_DRAINING".into()));
    rig.client.deregister_worker(v1::DeregisterWorkerRequest { drain: false, ..drain }).await.unwrap();
    let refused = rig.client.poll_activity(poll(&id, at_once)).await;
    assert_eq!(refusal(refused), (Code::FailedPrecondition, "WORKER_OFFLINE".into()));
}

async fn a_poll_waits_for_a_workflow_and_no_longer_than_it_may(on: On) {
    let mut rig = Rig::start(on).await;
    let id = rig.worker().await;
    let empty = rig.client.poll_activity(poll(&id, Duration::from_millis(1))).await.unwrap().into_inner();
    assert_eq!(empty, v1::PollActivityResponse::default());
    let (mut client, request) = (rig.client.clone(), poll(&id, Duration::from_secs(50)));
    let waiting = tokio::spawn(async move { client.poll_activity(request).await.unwrap().into_inner() });
    eventually("the poll waits", async || rig.server.app.dispatcher.waiting() == 1).await;
    let run = rig.begin().await;
    let got = tokio::time::timeout(PATIENCE, waiting).await.expect("nobody was woken").unwrap();
    assert_eq!(got.run_id, run);
}

async fn a_lost_answer_is_repeated_for_the_same_number(on: On) {
    let mut rig = Rig::start(on).await;
    let id = rig.worker().await;
    rig.begin().await;
    let numbered = v1::PollActivityRequest { claim_no: 1, ..poll(&id, Duration::ZERO) };
    let first = rig.client.poll_activity(numbered.clone()).await.unwrap().into_inner();
    let again = rig.client.poll_activity(numbered).await.unwrap().into_inner();
    assert_eq!((&again.run_id, &again.lease), (&first.run_id, &first.lease));
    let next = v1::PollActivityRequest { claim_no: 2, ..poll(&id, Duration::ZERO) };
    assert_eq!(rig.client.poll_activity(next).await.unwrap().into_inner().run_id, "");
}

async fn a_heartbeat_says_what_is_lost_and_whether_to_drain(on: On) {
    let mut rig = Rig::start(on).await;
    let (id, run) = rig.held().await;
    let lease = v1::RunLease { run_id: run.run_id.clone(), lease: run.lease.clone() };
    let beat = v1::WorkerHeartbeatRequest {
        worker_id: id.clone(),
        active_count: 1,
        leases: vec![lease],
        all_leases: true,
        cpu: Some(0.5),
        ..Default::default()
    };
    let answer = rig.client.worker_heartbeat(beat.clone()).await.unwrap().into_inner();
    assert_eq!(answer, v1::WorkerHeartbeatResponse { accepted: true, ..Default::default() });
    rig.complete(&run, "").await;
    rig.client.deregister_worker(v1::DeregisterWorkerRequest { worker_id: id.clone(), drain: true }).await.unwrap();
    let answer = rig.client.worker_heartbeat(beat.clone()).await.unwrap().into_inner();
    assert_eq!((answer.lost, answer.should_drain), (vec![run.run_id], true));
    rig.client.deregister_worker(v1::DeregisterWorkerRequest { worker_id: id, drain: false }).await.unwrap();
    assert_eq!(refusal(rig.client.worker_heartbeat(beat).await), (Code::FailedPrecondition, "WORKER_OFFLINE".into()));
}

async fn deregistering_gives_back_what_the_worker_holds(on: On) {
    let mut rig = Rig::start(on).await;
    let (id, run) = rig.held().await;
    let gone = v1::DeregisterWorkerRequest { worker_id: id, drain: false };
    assert_eq!(rig.client.deregister_worker(gone).await.unwrap().into_inner().given_back, 1);
    assert_eq!(rig.state(&run.run_id).await, RunState::Pending);
    let other = rig.worker().await;
    assert_eq!(rig.poll(&other).await.run_id, run.run_id);
}

on_both!(
    a_worker_is_registered_shown_and_listed,
    what_is_wrong_with_a_registration_is_named,
    another_key_cannot_act_for_a_worker,
    only_a_registered_worker_that_is_online_may_poll,
    a_poll_waits_for_a_workflow_and_no_longer_than_it_may,
    a_lost_answer_is_repeated_for_the_same_number,
    a_heartbeat_says_what_is_lost_and_whether_to_drain,
    deregistering_gives_back_what_the_worker_holds,
);
