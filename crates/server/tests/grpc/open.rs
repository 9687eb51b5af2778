//! Calls that need no key: few may stay long, and none in silence.

use baton_server::Settings;
use futures_util::StreamExt;
use futures_util::stream;
use tonic::{Code, Streaming};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;

use crate::harness::{On, PATIENCE, Server, eventually};
use crate::rig::{Transport, origin, transport};

/// As many as a server lets stay.
const STREAMS_MAX: usize = 100;

type Health = HealthClient<Transport>;
type Reflection = ServerReflectionClient<Transport>;

async fn watch(health: &mut Health) -> Result<Streaming<HealthCheckResponse>, tonic::Status> {
    Ok(health.watch(HealthCheckRequest::default()).await?.into_inner())
}

/// Asks one question, and stays.
async fn ask(reflection: &mut Reflection) -> Result<(), tonic::Status> {
    let question = MessageRequest::ListServices(String::new());
    let question = ServerReflectionRequest { host: String::new(), message_request: Some(question) };
    let questions = stream::iter([question]).chain(stream::pending());
    let mut answers = reflection.server_reflection_info(questions).await?.into_inner();
    assert!(answers.next().await.unwrap().is_ok());
    let end = tokio::time::timeout(PATIENCE, answers.next()).await.expect("the stream stays");
    assert!(end.is_none(), "{end:?}");
    Ok(())
}

#[tokio::test]
async fn watchers_of_the_health_have_a_limit() {
    let server = Server::start(On::Sqlite).await;
    let mut health = HealthClient::with_origin(transport(), origin(&server));
    let mut watching = Vec::new();
    for _ in 0..STREAMS_MAX {
        let mut watched = watch(&mut health).await.unwrap();
        assert!(watched.next().await.unwrap().is_ok());
        watching.push(watched);
    }
    let refused = watch(&mut health).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert!(refused.message().contains("100"), "{refused}");
    health.check(HealthCheckRequest::default()).await.unwrap();
    watching.pop();
    eventually("the place is free again", async || match watch(&mut health).await {
        Ok(watched) => {
            watching.push(watched);
            true
        }
        Err(_) => false,
    })
    .await;
    assert!(watch(&mut health).await.is_err(), "one place was free");
}

#[tokio::test]
async fn a_reflection_stream_that_says_nothing_ends() {
    let server = Server::with(On::Sqlite, |settings: &mut Settings| settings.body_timeout_ms = 100).await;
    let mut reflection = ServerReflectionClient::with_origin(transport(), origin(&server));
    // Each gives its place back.
    for _ in 0..2 {
        let streams = (0..STREAMS_MAX / 2).map(|_| {
            let mut reflection = reflection.clone();
            async move { ask(&mut reflection).await }
        });
        for ended in futures_util::future::join_all(streams).await {
            ended.unwrap();
        }
    }
    ask(&mut reflection).await.unwrap();
}
