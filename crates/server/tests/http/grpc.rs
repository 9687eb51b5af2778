//! gRPC on the same port.

use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::harness::{On, Server};

#[tokio::test]
async fn the_health_check_answers_on_the_same_port() {
    let server = Server::start(On::Sqlite).await;
    let transport = legacy::Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let mut health = HealthClient::with_origin(transport, format!("http://{}", server.address).parse().unwrap());
    let answer = health.check(HealthCheckRequest { service: String::new() }).await.unwrap();
    assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
    let unknown = health.check(HealthCheckRequest { service: "nobody".into() }).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    assert_eq!(server.call("GET", "/healthz", "").await.status, 200);
}

#[tokio::test]
async fn a_method_that_is_not_there_is_refused_in_grpcs_words() {
    let server = Server::start(On::Sqlite).await;
    let request = server.request("POST", "/baton.v1.NobodysService/Nothing").header("content-type", "application/grpc");
    let answer = server.send(request, "").await;
    assert_eq!((answer.status, answer.header("grpc-status")), (200, "12"));
}
