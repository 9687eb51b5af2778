//! Every rpc against every kind of credential. `table.rs` says what opens it; one without a row
//! fails here.

mod table;

use std::collections::BTreeSet;
use std::time::Duration;

use baton_proto::v1;
use baton_proto::v1::schedule_service_client::ScheduleServiceClient;
use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, Full};
use prost::Message;
use tonic::service::interceptor::InterceptedService;
use tonic::{Code, Status};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_types::StatusExt;

use self::table::{OPEN_SERVICES, Opens, ROWS, Row, Things, daily};
use crate::harness::{KEY, On, PATIENCE, Server, on_both};
use crate::rig::{Transport, WithKey, order, origin, poll, step, transport, worker, workflows};

on_both!(every_rpc_is_open_to_those_it_is_for_and_to_nobody_else, what_a_scope_lacks_is_written_down);

const PACKAGE: &str = "baton.v1";
/// Names nothing.
const UNKNOWN: &str = "018bcfe5-6800-7000-8000-000000000000";

/// Every rpc of the package, by its service and name.
fn rpcs() -> BTreeSet<String> {
    let files = prost_types::FileDescriptorSet::decode(v1::DESCRIPTORS).unwrap().file;
    let services = files.into_iter().filter(|file| file.package() == PACKAGE).flat_map(|file| file.service);
    let names = services.flat_map(|service| {
        let of = service.name().to_owned();
        service.method.into_iter().map(move |method| format!("{of}/{}", method.name()))
    });
    names.collect()
}

#[test]
fn every_rpc_has_a_row() {
    let declared: BTreeSet<_> = ROWS.iter().map(|row| row.rpc.to_owned()).collect();
    let there = rpcs();
    let missing: Vec<_> = there.difference(&declared).collect();
    assert!(missing.is_empty(), "say in tests/grpc/matrix/table.rs what opens these rpcs: {missing:?}");
    let gone: Vec<_> = declared.difference(&there).collect();
    assert!(gone.is_empty(), "tests/grpc/matrix/table.rs has rows of rpcs that are not there: {gone:?}");
}

#[tokio::test]
async fn every_other_service_is_declared_open() {
    let server = Server::start(On::Sqlite).await;
    let mut reflection = ServerReflectionClient::with_origin(transport(), origin(&server));
    let question = MessageRequest::ListServices(String::new());
    let question = ServerReflectionRequest { host: String::new(), message_request: Some(question) };
    let answers = reflection.server_reflection_info(futures_util::stream::iter([question])).await;
    let answer = answers.unwrap().into_inner().next().await.unwrap().unwrap().message_response;
    let Some(MessageResponse::ListServicesResponse(list)) = answer else { panic!("no list: {answer:?}") };
    let others: BTreeSet<_> = list.service.into_iter().map(|service| service.name).collect();
    let others: BTreeSet<_> = others.iter().filter(|name| !name.starts_with(PACKAGE)).map(String::as_str).collect();
    // The older name of reflection is served without being listed.
    let declared: BTreeSet<_> = OPEN_SERVICES.into_iter().filter(|name| !name.contains("v1alpha")).collect();
    assert_eq!(others, declared, "say in tests/grpc/matrix/table.rs that a service needs no key");
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Nobody,
    /// A key that nobody made.
    Stranger,
    /// Keys of our namespace with one scope.
    Read,
    Submit,
    Worker,
    NamespaceAdmin,
    /// The administrator of all namespaces.
    Admin,
    /// A key with all scopes of a foreign namespace, with our lease.
    Foreign,
    /// The same, with a lease of its own namespace.
    ForeignLease,
}

const ROLES: [Role; 9] = [
    Role::Nobody,
    Role::Stranger,
    Role::Read,
    Role::Submit,
    Role::Worker,
    Role::NamespaceAdmin,
    Role::Admin,
    Role::Foreign,
    Role::ForeignLease,
];

impl Role {
    fn is_foreign(self) -> bool {
        matches!(self, Role::Foreign | Role::ForeignLease)
    }

    fn may(self, opens: Opens) -> bool {
        match self {
            Role::Nobody | Role::Stranger | Role::Foreign | Role::ForeignLease => false,
            Role::Read => matches!(opens, Opens::Key | Opens::Read),
            Role::Submit => matches!(opens, Opens::Key | Opens::Read | Opens::Submit),
            Role::Worker => matches!(opens, Opens::Key | Opens::Worker),
            Role::NamespaceAdmin => opens != Opens::Everything,
            Role::Admin => true,
        }
    }
}

/// What came back: how it went, and the bytes of the answers.
type Answer = (Status, Bytes);

struct World {
    server: Server,
    transport: Transport,
    /// In the order of `ROLES`.
    keys: Vec<String>,
    ours: Things,
    theirs: Things,
}

impl World {
    async fn start(on: On) -> World {
        let server = Server::with(on, |settings| settings.refusals_per_second = 1_000_000).await;
        let make = async |scopes: &[&str], namespace: &str| {
            let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
            let namespace = Some(namespace.to_owned());
            let wanted = baton::proto::CreateKey { name: "a role's".into(), scopes, namespace, expires_in_ms: None };
            server.client.create_key(&wanted).await.unwrap().key
        };
        let worker = make(&["worker"], "default").await;
        let foreign = make(&["admin", "submit", "worker", "read"], "team").await;
        let keys = vec![
            String::new(),
            "a-key-that-nobody-made".into(),
            make(&["read"], "default").await,
            make(&["submit"], "default").await,
            worker.clone(),
            make(&["admin"], "default").await,
            KEY.into(),
            foreign.clone(),
            foreign.clone(),
        ];
        let ours = things(&server, "default", KEY, &worker, 0).await;
        let theirs = things(&server, "team", &foreign, &foreign, 0).await;
        World { server, transport: transport(), keys, ours, theirs }
    }

    fn key(&self, role: Role) -> &str {
        &self.keys[ROLES.iter().position(|one| *one == role).unwrap()]
    }

    /// Sends a row's request as this role does.
    async fn ask(&self, row: &Row, role: Role, about: &Things) -> Answer {
        let mut things = about.clone();
        if role == Role::ForeignLease {
            things.held.lease = self.theirs.held.lease.clone();
        }
        self.call(row.rpc, self.key(role), (row.request)(&things)).await
    }

    async fn call(&self, rpc: &str, key: &str, message: Vec<u8>) -> Answer {
        let mut frame = vec![0];
        frame.extend((message.len() as u32).to_be_bytes());
        frame.extend(message);
        let request = http::Request::post(format!("{}{PACKAGE}.{rpc}", origin(&self.server)));
        let request = request.header("content-type", "application/grpc").header("te", "trailers");
        let request = if key.is_empty() { request } else { request.header("x-api-key", key) };
        let request = request.body(tonic::body::Body::new(Full::new(Bytes::from(frame)))).unwrap();
        let answer = async {
            let (head, body) = self.transport.request(request).await.unwrap().into_parts();
            let body = body.collect().await.unwrap();
            let status = Status::from_header_map(body.trailers().unwrap_or(&head.headers));
            (status.expect("every answer has a status"), body.to_bytes())
        };
        tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_| panic!("no answer to {rpc}"))
    }

    /// Everything of ours that a call could change, as the administrator sees it.
    async fn snapshot(&self) -> Vec<(&'static str, Bytes)> {
        let mut all = Vec::new();
        for row in ROWS.iter().filter(|row| row.opens == Opens::Read && !row.own) {
            let (status, body) = self.ask(row, Role::Admin, &self.ours).await;
            assert_eq!(status.code(), Code::Ok, "{}: {status:?}", row.rpc);
            all.push((row.rpc, body));
        }
        all
    }

    /// Asks as somebody who may not. What is in a foreign namespace is answered as what does not
    /// exist, to the letter.
    async fn is_refused(&self, row: &Row, role: Role) -> Result<(), String> {
        let (status, _) = self.ask(row, role, &self.ours).await;
        let told = |expected: &str| Err(format!("{role:?}: {}: {expected}, and got {status:?}", row.rpc));
        let expected = match role {
            Role::Nobody | Role::Stranger => &[Code::Unauthenticated][..],
            // A poll says in its own way that there is no such worker.
            _ if role.is_foreign() => &[Code::PermissionDenied, Code::NotFound, Code::FailedPrecondition],
            _ => &[Code::PermissionDenied],
        };
        if !expected.contains(&status.code()) || status.message().is_empty() {
            return told("it may not");
        }
        if role.is_foreign() {
            let (nothing, _) = self.ask(row, role, &nothing(&self.ours)).await;
            if said(&nothing, &self.ours) != said(&status, &self.ours) {
                return told(&format!("what does not exist is answered {nothing:?}"));
            }
        }
        Ok(())
    }
}

/// A worker with a run, and a schedule.
async fn things(server: &Server, namespace: &str, submitter: &str, worker_key: &str, number: u32) -> Things {
    let namespace_id = || namespace.to_owned();
    let (mut submitting, mut working) = (workflows(server, submitter), workflows(server, worker_key));
    let start = v1::StartWorkflowRequest { namespace_id: namespace_id(), ..order() };
    submitting.start_workflow(start).await.unwrap();
    let register = v1::RegisterWorkerRequest { namespace_id: namespace_id(), ..worker() };
    let worker = working.register_worker(register).await.unwrap().into_inner().worker_id;
    let wanted = v1::PollActivityRequest { namespace_id: namespace_id(), ..poll(&worker, Duration::ZERO) };
    let wanted = v1::PollActivityRequest { supported_workflow_types: vec!["order".into()], ..wanted };
    let held = working.poll_activity(wanted).await.unwrap().into_inner();
    assert!(!held.run_id.is_empty(), "nothing to take");
    working.complete_step(step(&held, 0, "charge", "1")).await.unwrap();
    let (run_id, lease) = (held.run_id.clone(), held.lease.clone());
    working.publish(v1::PublishRequest { run_id, lease, value: "1".into() }).await.unwrap();
    let schedule = format!("{namespace}-{number}");
    let inner = InterceptedService::new(transport(), WithKey(submitter.to_owned()));
    let wanted = v1::CreateScheduleRequest {
        namespace_id: namespace_id(),
        schedule_id: schedule.clone(),
        spec: Some(daily()),
        ..Default::default()
    };
    ScheduleServiceClient::with_origin(inner, origin(server)).create_schedule(wanted).await.unwrap();
    Things { held, worker, schedule, namespace: namespace_id() }
}

/// Names of things that do not exist.
fn nothing(ours: &Things) -> Things {
    let held = v1::PollActivityResponse { run_id: UNKNOWN.into(), ..ours.held.clone() };
    Things { held, worker: UNKNOWN.into(), schedule: "made-up".into(), namespace: "made-up".into() }
}

/// Code, reason and words, without the names of things.
fn said(status: &Status, ours: &Things) -> (Code, String, String) {
    let reason = status.get_error_details().error_info().map(|info| info.reason.clone()).unwrap_or_default();
    let names = [&ours.held.run_id, &ours.worker, &ours.schedule, &ours.namespace].map(String::as_str);
    let names = names.into_iter().chain([UNKNOWN, "made-up"]);
    let words = names.fold(status.message().to_owned(), |words, name| words.replace(name, "ID"));
    (status.code(), reason, words)
}

fn pairs() -> impl Iterator<Item = (&'static Row, Role)> {
    ROWS.iter().flat_map(|row| ROLES.into_iter().map(move |role| (row, role)))
}

async fn every_rpc_is_open_to_those_it_is_for_and_to_nobody_else(on: On) {
    let mut world = World::start(on).await;
    // So that a sign of life would be seen.
    world.server.clock.advance(1_000);
    let before = world.snapshot().await;
    let mut wrong = Vec::new();
    for (row, role) in pairs().filter(|(row, role)| !(role.may(row.opens) || row.own && role.is_foreign())) {
        wrong.extend(world.is_refused(row, role).await.err());
    }
    for row in ROWS.iter().filter(|row| row.own) {
        let (status, body) = world.ask(row, Role::Foreign, &world.ours).await;
        let ours = [world.ours.held.run_id.as_bytes(), world.ours.worker.as_bytes(), b"default"];
        let shows = ours.iter().any(|name| body.windows(name.len()).any(|part| part == *name));
        if status.code() != Code::Ok || shows {
            wrong.push(format!("a foreign key sees of {}: {status:?} {body:?}", row.rpc));
        }
    }
    for ((rpc, before), (_, after)) in before.iter().zip(world.snapshot().await) {
        if *before != after {
            wrong.push(format!("a refused call changed what {rpc} says: {before:?} to {after:?}"));
        }
    }
    let mut succeeded = BTreeSet::new();
    for (number, (row, role)) in (1..).zip(pairs().filter(|(row, role)| role.may(row.opens))) {
        if !row.rpc.contains("/Get") && !row.rpc.contains("/List") && !row.rpc.starts_with("NamespaceService") {
            world.ours = things(&world.server, "default", KEY, world.key(Role::Worker), number).await;
        }
        let (status, _) = world.ask(row, role, &world.ours).await;
        let is_refused = [Code::Unauthenticated, Code::PermissionDenied, Code::Internal, Code::Unknown];
        if is_refused.contains(&status.code()) {
            wrong.push(format!("{role:?}: {}: it may, and got {status:?}", row.rpc));
        }
        // A run that is under way cannot be retried.
        let is_retry = row.rpc == "WorkflowService/RetryWorkflowRun";
        if status.code() == if is_retry { Code::InvalidArgument } else { Code::Ok } {
            succeeded.insert(row.rpc);
        }
    }
    let never: Vec<_> = rpcs().into_iter().filter(|rpc| !succeeded.contains(rpc.as_str())).collect();
    assert!(wrong.is_empty(), "{} wrong answers:\n{}", wrong.len(), wrong.join("\n"));
    assert!(never.is_empty(), "no role got an answer, so the requests are wrong: {never:?}");
}

async fn what_a_scope_lacks_is_written_down(on: On) {
    let world = World::start(on).await;
    let keys = world.server.client.keys().await.unwrap().keys;
    let mut expected = BTreeSet::new();
    for (row, role) in pairs() {
        let is_scope = matches!(role, Role::Read | Role::Submit | Role::Worker);
        if is_scope && !role.may(row.opens) {
            world.ask(row, role, &world.ours).await;
            expected.insert(format!("/{PACKAGE}.{}", row.rpc));
        }
    }
    let lines = world.server.client.audit_log(Some(1_000), None).await.unwrap().lines;
    let refused: Vec<_> = lines.iter().filter(|line| line.action == "access.refused").collect();
    let written: BTreeSet<_> = refused.iter().map(|line| line.subject.clone()).collect();
    let missing: Vec<_> = expected.difference(&written).collect();
    assert!(missing.is_empty(), "these refusals are not in the audit log: {missing:?}");
    for line in refused {
        assert!(keys.iter().any(|key| key.id == line.actor), "{line:?}");
        assert_eq!(line.namespace.as_deref(), Some("default"), "{line:?}");
        assert!(line.detail.contains("lacks the scope") && line.address.is_some(), "{line:?}");
    }
}
