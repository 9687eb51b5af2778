//! ScheduleService and NamespaceService.

use baton_proto::v1;
use baton_proto::v1::namespace_service_client::NamespaceServiceClient;
use baton_proto::v1::schedule_service_client::ScheduleServiceClient;
use prost_types::{Duration, Timestamp};
use tonic::Code;
use tonic::service::interceptor::InterceptedService;

use crate::harness::{KEY, On, START, Server, eventually, on_both};
use crate::rig::{Rig, Transport, WithKey, field, order, origin, poll, refusal, transport, worker};

type Schedules = ScheduleServiceClient<InterceptedService<Transport, WithKey>>;
type Namespaces = NamespaceServiceClient<InterceptedService<Transport, WithKey>>;

fn schedules(server: &Server, key: &str) -> Schedules {
    let inner = InterceptedService::new(transport(), WithKey(key.to_owned()));
    ScheduleServiceClient::with_origin(inner, origin(server))
}

fn namespaces(server: &Server, key: &str) -> Namespaces {
    let inner = InterceptedService::new(transport(), WithKey(key.to_owned()));
    NamespaceServiceClient::with_origin(inner, origin(server))
}

fn spec() -> v1::ScheduleSpec {
    v1::ScheduleSpec { cron: "*/5 * * * * *".into(), start: Some(order()), ..v1::ScheduleSpec::default() }
}

fn create(id: &str, spec: v1::ScheduleSpec) -> v1::CreateScheduleRequest {
    v1::CreateScheduleRequest { schedule_id: id.into(), spec: Some(spec), ..v1::CreateScheduleRequest::default() }
}

fn get(id: &str) -> v1::GetScheduleRequest {
    v1::GetScheduleRequest { namespace_id: String::new(), schedule_id: id.into() }
}

fn at(millis: i64) -> Option<Timestamp> {
    Some(Timestamp { seconds: millis / 1_000, nanos: 0 })
}

async fn fired(client: &Schedules, id: &str, count: u64) {
    let look = async || client.clone().get_schedule(get(id)).await.unwrap().into_inner().fired == count;
    eventually("the schedule fires", look).await;
}

async fn a_schedule_starts_workflows(on: On) {
    let mut rig = Rig::start(on).await;
    let mut client = schedules(&rig.server, KEY);
    let wanted = v1::ScheduleSpec {
        time_zone: "Europe/Berlin".into(),
        jitter: Some(Duration { seconds: 0, nanos: 0 }),
        max_catchup: Some(7),
        overlap: v1::OverlapPolicy::Skip.into(),
        start: Some(v1::StartWorkflowRequest {
            priority: Some(7),
            timeout: Some(Duration { seconds: 60, nanos: 0 }),
            pin_version: Some("2".into()),
            ..order()
        }),
        ..spec()
    };
    let made = client.create_schedule(create("a", wanted.clone())).await.unwrap().into_inner();
    let shown = made.spec.clone().unwrap();
    assert_eq!(
        (shown.cron.as_str(), shown.time_zone.as_str(), shown.max_catchup),
        ("*/5 * * * * *", "Europe/Berlin", Some(7))
    );
    assert_eq!((shown.overlap(), made.next_fires[0].seconds), (v1::OverlapPolicy::Skip, START / 1_000 + 5));
    let start = shown.start.unwrap();
    assert_eq!(
        (start.workflow_type.as_str(), start.pin_version.as_deref(), start.priority),
        ("order", Some("2"), Some(7))
    );
    assert_eq!((start.input, start.timeout.unwrap().seconds), (order().input, 60));
    assert_eq!(start.retry.unwrap().max_attempts, 1, "tried once, as every workflow that says nothing");
    let again = client.create_schedule(create("a", wanted)).await.unwrap().into_inner();
    assert_eq!(again, made);
    rig.server.clock.advance(5_000);
    fired(&client, "a", 1).await;
    let request = v1::ListScheduleRunsRequest { schedule_id: "a".into(), ..Default::default() };
    let fires = client.list_schedule_runs(request).await.unwrap().into_inner().runs;
    assert_eq!(
        (fires[0].what.as_str(), fires[0].state(), &fires[0].fire_at),
        ("started", v1::RunState::Pending, &at(START + 5_000))
    );
    let run = rig.get(&fires[0].run_id).await;
    assert_eq!((run.workflow_type.as_str(), run.priority), ("order@2", 7));
}

async fn every_verb_of_schedules(on: On) {
    let rig = Rig::start(on).await;
    let mut client = schedules(&rig.server, KEY);
    client.create_schedule(create("a", spec())).await.unwrap();
    let of = |id: &str| id.to_owned();
    let pause = v1::PauseScheduleRequest { schedule_id: of("a"), note: "why".into(), ..Default::default() };
    let paused = client.pause_schedule(pause).await.unwrap().into_inner();
    assert_eq!((paused.paused, paused.note.as_str(), paused.next_fires.len()), (true, "why", 0));
    let resume = v1::ResumeScheduleRequest { schedule_id: of("a"), ..Default::default() };
    assert!(!client.resume_schedule(resume).await.unwrap().into_inner().paused);
    let trigger =
        v1::TriggerScheduleRequest { schedule_id: of("a"), idempotency_key: Some("k".into()), ..Default::default() };
    let run = client.trigger_schedule(trigger.clone()).await.unwrap().into_inner().run_id;
    assert_eq!(client.trigger_schedule(trigger).await.unwrap().into_inner().run_id, run);
    let backfill = v1::BackfillScheduleRequest {
        schedule_id: of("a"),
        from: at(START - 10_000),
        to: at(START),
        ..Default::default()
    };
    let filled = client.backfill_schedule(backfill.clone()).await.unwrap().into_inner();
    assert_eq!((filled.started, filled.existed), (3, 0));
    let filled = client.backfill_schedule(backfill).await.unwrap().into_inner();
    assert_eq!((filled.started, filled.existed), (0, 3));
    let update = v1::UpdateScheduleRequest {
        schedule_id: of("a"),
        spec: Some(v1::ScheduleSpec { cron: "@daily".into(), ..spec() }),
        note: Some("less".into()),
        ..Default::default()
    };
    let updated = client.update_schedule(update).await.unwrap().into_inner();
    assert_eq!((updated.spec.unwrap().cron.as_str(), updated.note.as_str()), ("@daily", "less"));
    client.create_schedule(create("b", spec())).await.unwrap();
    let list = v1::ListSchedulesRequest { page_size: 1, ..Default::default() };
    let first = client.list_schedules(list.clone()).await.unwrap().into_inner();
    assert_eq!((first.schedules[0].schedule_id.as_str(), first.total_count), ("a", 2));
    let rest = v1::ListSchedulesRequest { page_token: first.next_page_token, ..list };
    assert_eq!(client.list_schedules(rest).await.unwrap().into_inner().schedules[0].schedule_id, "b");
    let request = v1::ListScheduleRunsRequest { schedule_id: of("a"), page_size: 3, ..Default::default() };
    let page = client.list_schedule_runs(request.clone()).await.unwrap().into_inner();
    let next = v1::ListScheduleRunsRequest { page_token: page.next_page_token, ..request };
    assert_eq!((page.runs.len(), client.list_schedule_runs(next).await.unwrap().into_inner().runs.len()), (3, 1));
    let delete = v1::DeleteScheduleRequest { schedule_id: of("a"), ..Default::default() };
    client.delete_schedule(delete.clone()).await.unwrap();
    assert_eq!(refusal(client.delete_schedule(delete).await), (Code::NotFound, "NOT_FOUND".into()));
}

async fn what_makes_no_sense_names_its_field(on: On) {
    let rig = Rig::start(on).await;
    let mut client = schedules(&rig.server, KEY);
    let start = |change: fn(&mut v1::StartWorkflowRequest)| {
        let mut start = order();
        change(&mut start);
        v1::ScheduleSpec { start: Some(start), ..spec() }
    };
    for (wanted, expected) in [
        (v1::ScheduleSpec { cron: "61 * * * *".into(), ..spec() }, "cron"),
        (v1::ScheduleSpec { time_zone: "Mars/Base".into(), ..spec() }, "time_zone"),
        (v1::ScheduleSpec { max_catchup: Some(0), ..spec() }, "max_catchup"),
        (v1::ScheduleSpec { overlap: 77, ..spec() }, "spec.overlap"),
        (v1::ScheduleSpec { jitter: Some(Duration { seconds: -1, nanos: 0 }), ..spec() }, "spec.jitter"),
        (v1::ScheduleSpec { start: None, ..spec() }, "spec.start"),
        (start(|start| start.idempotency_key = Some("k".into())), "spec.start.idempotency_key"),
        (start(|start| start.start_after = Some(Duration::default())), "spec.start.start_at"),
        (start(|start| start.namespace_id = "other".into()), "spec.start.namespace_id"),
        (start(|start| start.workflow_type = "a@1".into()), "spec.start.workflow_type"),
        (start(|start| start.input = "{".into()), "spec.start.input"),
        (start(|start| start.priority = Some(999)), "spec.start.priority"),
    ] {
        assert_eq!(field(client.create_schedule(create("a", wanted)).await), expected);
    }
    let refused = client.create_schedule(create("a", v1::ScheduleSpec { cron: "61 * * * *".into(), ..spec() })).await;
    assert!(refused.unwrap_err().message().contains("in the field minute"));
    assert_eq!(refusal(client.get_schedule(get("a")).await), (Code::NotFound, "NOT_FOUND".into()));
    let stranger = schedules(&rig.server, "").create_schedule(create("a", spec())).await;
    assert_eq!(refusal(stranger), (Code::Unauthenticated, "NO_CREDENTIAL".into()));
}

async fn a_workflow_is_cancelled_as_one(on: On) {
    let mut rig = Rig::start(on).await;
    let mut client = schedules(&rig.server, KEY);
    let cancel = v1::ScheduleSpec { overlap: v1::OverlapPolicy::CancelPrevious.into(), ..spec() };
    client.create_schedule(create("a", cancel)).await.unwrap();
    rig.server.clock.advance(5_000);
    fired(&client, "a", 1).await;
    let worker = rig.worker().await;
    let held = rig.poll(&worker).await;
    rig.server.clock.advance(5_000);
    fired(&client, "a", 2).await;
    assert!(rig.get(&held.run_id).await.cancel_requested, "it hears of it as a message, and can clean up");
}

async fn every_verb_of_namespaces(on: On) {
    let mut rig = Rig::start(on).await;
    let mut client = namespaces(&rig.server, KEY);
    let wanted =
        v1::Namespace { namespace_id: "m".into(), description: "apps".into(), workers_max: 1, ..Default::default() };
    let made =
        client.create_namespace(v1::CreateNamespaceRequest { namespace: Some(wanted) }).await.unwrap().into_inner();
    assert_eq!((made.workers_max, made.live_runs_max, made.disabled), (1, 0, false));
    let get = v1::GetNamespaceRequest { namespace_id: "m".into() };
    assert_eq!(client.get_namespace(get.clone()).await.unwrap().into_inner(), made);
    let update = v1::UpdateNamespaceRequest {
        namespace_id: "m".into(),
        live_runs_max: Some(1),
        workers_max: Some(0),
        ..Default::default()
    };
    let updated = client.update_namespace(update).await.unwrap().into_inner();
    assert_eq!((updated.live_runs_max, updated.workers_max, updated.description.as_str()), (1, 0, "apps"));
    let listed = client.list_namespaces(v1::ListNamespacesRequest::default()).await.unwrap().into_inner();
    assert_eq!((listed.total_count, listed.namespaces[1].namespace_id.as_str()), (2, "m"));
    let start = || v1::StartWorkflowRequest { namespace_id: "m".into(), ..order() };
    rig.client.start_workflow(start()).await.unwrap();
    assert_eq!(refusal(rig.client.start_workflow(start()).await), (Code::ResourceExhausted, "NAMESPACE_LIMIT".into()));
    let own = v1::RegisterWorkerRequest { namespace_id: "m".into(), ..worker() };
    let id = rig.client.register_worker(own.clone()).await.unwrap().into_inner().worker_id;
    let disable = v1::DisableNamespaceRequest { namespace_id: "m".into(), reason: "why".into() };
    assert!(client.disable_namespace(disable).await.unwrap().into_inner().disabled);
    let disabled = (Code::FailedPrecondition, "NAMESPACE_DISABLED".to_owned());
    assert_eq!(refusal(rig.client.start_workflow(start()).await), disabled);
    assert_eq!(refusal(rig.client.register_worker(own).await), disabled);
    let polled = v1::PollActivityRequest { namespace_id: "m".into(), ..poll(&id, std::time::Duration::ZERO) };
    assert_eq!(refusal(rig.client.poll_activity(polled).await), disabled);
    let in_namespace = v1::CreateScheduleRequest { namespace_id: "m".into(), ..create("a", spec()) };
    assert_eq!(refusal(schedules(&rig.server, KEY).create_schedule(in_namespace).await), disabled);
    let enable = v1::EnableNamespaceRequest { namespace_id: "m".into() };
    assert!(!client.enable_namespace(enable).await.unwrap().into_inner().disabled);
    let unknown = v1::GetNamespaceRequest { namespace_id: "none".into() };
    assert_eq!(refusal(client.get_namespace(unknown).await), (Code::NotFound, "NOT_FOUND".into()));
}

on_both!(
    a_schedule_starts_workflows,
    every_verb_of_schedules,
    what_makes_no_sense_names_its_field,
    a_workflow_is_cancelled_as_one,
    every_verb_of_namespaces,
);
