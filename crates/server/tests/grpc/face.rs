//! What all calls have in common: keys, deadlines, limits, reflection, health, gRPC-Web.

use std::time::Duration;

use baton_proto::v1;
use futures_util::StreamExt;
use prost::Message;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_types::StatusExt;

use crate::harness::{KEY, On, Server, eventually, on_both};
use crate::rig::{Rig, field, order, origin, poll, refusal, transport, workflows};

async fn a_call_without_a_good_key_is_refused(on: On) {
    let rig = Rig::start(on).await;
    let nobody = workflows(&rig.server, "").start_workflow(order()).await;
    assert_eq!(refusal(nobody), (Code::Unauthenticated, "NO_CREDENTIAL".into()));
    let stranger = workflows(&rig.server, "a-key-that-nobody-made").start_workflow(order()).await;
    assert_eq!(refusal(stranger), (Code::Unauthenticated, "BAD_CREDENTIAL".into()));
    let mut request = Request::new(order());
    request.metadata_mut().insert("authorization", format!("Bearer {KEY}").parse().unwrap());
    assert!(workflows(&rig.server, "").start_workflow(request).await.is_ok());
    // Before a message is read: this one never comes.
    let refused = workflows(&rig.server, "").work(futures_util::stream::pending()).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated);
}

async fn the_time_a_caller_gives_is_kept(on: On) {
    let mut rig = Rig::start(on).await;
    let worker = rig.worker().await;
    let mut request = Request::new(poll(&worker, Duration::from_secs(50)));
    request.set_timeout(Duration::from_millis(100));
    assert_eq!(rig.client.poll_activity(request).await.unwrap_err().code(), Code::DeadlineExceeded);
    eventually("the poll is withdrawn", async || rig.server.app.dispatcher.waiting() == 0).await;
    let run = rig.begin().await;
    assert_eq!(rig.poll(&worker).await.run_id, run, "nobody got it in the dark");
    let mut request = Request::new(order());
    request.metadata_mut().insert("grpc-timeout", "soon".parse().unwrap());
    assert_eq!(rig.client.start_workflow(request).await.unwrap_err().code(), Code::InvalidArgument);
}

async fn what_is_too_large_is_refused_and_says_so(on: On) {
    let mut rig = Rig::with(on, |settings| settings.payload_bytes_max = 2 << 20).await;
    let with_input = |bytes: usize| v1::StartWorkflowRequest { input: "1".repeat(bytes).into(), ..order() };
    assert!(rig.client.start_workflow(with_input(2 << 20)).await.is_ok());
    for bytes in [(2 << 20) + 1, (4 << 20) + 1] {
        let refused = rig.client.start_workflow(with_input(bytes)).await.unwrap_err();
        assert!(refused.message().contains("bytes allowed"), "{refused}");
        assert_eq!(refusal::<()>(Err(refused)), (Code::ResourceExhausted, "TOO_LARGE".into()));
    }
    assert_eq!(field(rig.client.start_workflow(v1::StartWorkflowRequest::default()).await), "workflow_type");
}

async fn a_caller_over_its_rate_is_told_when_to_come_back(on: On) {
    let mut rig = Rig::with(on, |settings| settings.requests_per_second = 1).await;
    let refused = loop {
        if let Err(refused) = rig.client.start_workflow(order()).await {
            break refused;
        }
    };
    assert!(refused.get_error_details().retry_info().unwrap().retry_delay.is_some());
    assert_eq!(refusal::<()>(Err(refused)), (Code::ResourceExhausted, "TOO_MANY_REQUESTS".into()));
}

async fn health_is_told_with_and_without_a_name(on: On) {
    let mut rig = Rig::start(on).await;
    let mut health = HealthClient::with_origin(transport(), origin(&rig.server));
    for service in ["", "baton.v1.WorkflowService"] {
        let answer = health.check(HealthCheckRequest { service: service.into() }).await.unwrap().into_inner();
        assert_eq!(answer.status(), tonic_health::pb::health_check_response::ServingStatus::Serving);
    }
    let own = rig.client.health_check(v1::HealthCheckRequest {}).await.unwrap().into_inner();
    assert!(own.serving && !own.version.is_empty());
    assert_eq!(own.store, if on == On::Sqlite { "sqlite" } else { "postgres" });
}

on_both!(
    a_call_without_a_good_key_is_refused,
    the_time_a_caller_gives_is_kept,
    what_is_too_large_is_refused_and_says_so,
    a_caller_over_its_rate_is_told_when_to_come_back,
    health_is_told_with_and_without_a_name,
);

#[tokio::test]
async fn reflection_lists_the_services_and_their_files() {
    let server = Server::start(On::Sqlite).await;
    let mut reflection = ServerReflectionClient::with_origin(transport(), origin(&server));
    let ask = |what| ServerReflectionRequest { host: String::new(), message_request: Some(what) };
    let symbol = "baton.v1.WorkflowService.Work".to_owned();
    let questions =
        vec![ask(MessageRequest::ListServices(String::new())), ask(MessageRequest::FileContainingSymbol(symbol))];
    let mut answers =
        reflection.server_reflection_info(futures_util::stream::iter(questions)).await.unwrap().into_inner();
    let Some(MessageResponse::ListServicesResponse(list)) = answers.next().await.unwrap().unwrap().message_response
    else {
        panic!("no list")
    };
    let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    for service in ["baton.v1.WorkflowService", "grpc.health.v1.Health"] {
        assert!(names.contains(&service), "{service} is not in {names:?}");
    }
    let Some(MessageResponse::FileDescriptorResponse(files)) = answers.next().await.unwrap().unwrap().message_response
    else {
        panic!("no file")
    };
    assert!(!files.file_descriptor_proto.is_empty());
}

#[tokio::test]
async fn a_browser_may_call_in_grpc_webs_words() {
    let server = Server::start(On::Sqlite).await;
    let message = order().encode_to_vec();
    let mut frame = vec![0];
    frame.extend((message.len() as u32).to_be_bytes());
    frame.extend(message);
    let call = || {
        server
            .request("POST", "/baton.v1.WorkflowService/StartWorkflow")
            .header("content-type", "application/grpc-web+proto")
    };
    let answer = server.send(call().header("x-api-key", KEY), frame.clone()).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/grpc-web+proto"));
    let length = u32::from_be_bytes(answer.body[1..5].try_into().unwrap()) as usize;
    let started = v1::StartWorkflowResponse::decode(&answer.body[5..5 + length]).unwrap();
    assert_eq!(server.client.run(&started.run_id).await.unwrap().kind, "order");
    let trailers = String::from_utf8_lossy(&answer.body[5 + length..]).into_owned();
    assert!(trailers.contains("grpc-status:0"), "{trailers:?}");
    let refused = server.send(call(), frame).await;
    assert_eq!((refused.status, refused.header("grpc-status")), (200, "16"));
}

#[tokio::test]
async fn calls_are_counted_by_method_and_code() {
    let mut rig = Rig::start(On::Sqlite).await;
    rig.begin().await;
    let _ = rig.client.start_workflow(v1::StartWorkflowRequest::default()).await;
    let text = rig.server.client.metrics().await.unwrap();
    for code in ["OK", "INVALID_ARGUMENT"] {
        let line =
            format!(r#"baton_grpc_calls_total{{method="baton.v1.WorkflowService/StartWorkflow",code="{code}"}} 1"#);
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
}
