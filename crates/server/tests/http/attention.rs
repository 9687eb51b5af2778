//! What is wrong now.

use baton::proto::{Attention, CreateKey, SubmitRun};
use baton::{Client, ClientError};
use serde_json::json;

use crate::harness::{On, Server, on_both, worker};

on_both!(
    a_type_without_workers_is_told_of_once_it_has_waited,
    a_silent_worker_and_a_paused_queue_are_told_of,
    nothing_of_another_namespace_is_told,
    all_is_well,
);

async fn codes(client: &Client, namespace: Option<&str>) -> Vec<(String, String)> {
    let Attention { findings, .. } = client.attention(namespace).await.unwrap();
    findings.into_iter().map(|finding| (finding.code, finding.subject)).collect()
}

fn of(code: &str, subject: &str) -> (String, String) {
    (code.to_owned(), subject.to_owned())
}

async fn a_type_without_workers_is_told_of_once_it_has_waited(on: On) {
    let server = Server::start(on).await;
    server.client.submit(&SubmitRun::new("mail", "digest")).await.unwrap();
    server.client.submit(&SubmitRun::new("mail", "digest")).await.unwrap();
    assert_eq!(codes(&server.client, None).await, [], "a worker may be on its way");
    server.clock.advance(60_000);
    let finding = server.client.attention(Some("default")).await.unwrap().findings.remove(0);
    assert_eq!((finding.code.as_str(), finding.severity.as_str()), ("type_unserved", "fail"));
    assert_eq!(finding.message, "2 runs wait, and no worker serves the type digest");
    assert_eq!(finding.link.as_deref(), Some("/queues/mail"));
    assert_eq!(finding.namespace.as_deref(), Some("default"));
    assert_eq!(finding.since.unwrap().0, crate::harness::START);
    let serving = serde_json::from_value(json!({"name": "a", "queues": ["mail"], "types": ["digest"]})).unwrap();
    server.client.register(&serving).await.unwrap();
    assert_eq!(codes(&server.client, None).await, []);
}

async fn a_silent_worker_and_a_paused_queue_are_told_of(on: On) {
    let server = Server::start(on).await;
    let id = server.client.register(&worker("quiet")).await.unwrap().worker_id;
    for _ in 0..2 {
        server.client.submit(&SubmitRun::new("builds", "ios")).await.unwrap();
    }
    let claim = serde_json::from_value(json!({"queue": "builds", "claim_no": 1, "max": 1})).unwrap();
    assert_eq!(server.client.claim(&id, &claim).await.unwrap().runs.len(), 1);
    let pause = serde_json::from_value(json!({})).unwrap();
    server.client.pause_queue("default", "builds", &pause).await.unwrap();
    assert_eq!(codes(&server.client, None).await, [of("queue_paused", "Queue builds")]);
    server.clock.advance(11_000);
    let mut told = codes(&server.client, None).await;
    told.sort();
    assert_eq!(told, [of("queue_paused", "Queue builds"), of("worker_silent", "Worker quiet")]);
}

async fn nothing_of_another_namespace_is_told(on: On) {
    let server = Server::start(on).await;
    server.client.submit(&SubmitRun { namespace: "own".into(), ..SubmitRun::new("mail", "digest") }).await.unwrap();
    server.client.submit(&SubmitRun::new("reports", "pdf")).await.unwrap();
    server.clock.advance(60_000);
    let made = CreateKey {
        name: "own".into(),
        scopes: vec!["read".into()],
        namespace: Some("own".into()),
        expires_in_ms: None,
    };
    let key = server.client.create_key(&made).await.unwrap().key;
    let own = Client::new(&format!("http://{}", server.address), &key).unwrap();
    assert_eq!(codes(&own, None).await, [of("type_unserved", "Queue mail")]);
    assert!(matches!(own.attention(Some("default")).await, Err(ClientError::Refused { status: 403, .. })));
    assert_eq!(codes(&server.client, None).await.len(), 2);
    assert_eq!(codes(&server.client, Some("default")).await, [of("type_unserved", "Queue reports")]);
    let blind = CreateKey { scopes: vec!["worker".into()], namespace: None, ..made };
    let key = server.client.create_key(&blind).await.unwrap().key;
    let blind = Client::new(&format!("http://{}", server.address), &key).unwrap();
    assert!(matches!(blind.attention(None).await, Err(ClientError::Refused { status: 403, .. })));
}

async fn all_is_well(on: On) {
    let server = Server::start(on).await;
    let attention = server.client.attention(None).await.unwrap();
    assert_eq!(attention, Attention::default());
}
