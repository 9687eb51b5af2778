//! Certificates of clients.

use std::collections::BTreeMap;

use baton::proto::{CreateKey, SubmitRun};
use baton::{Client, ClientError, Tls};
use baton_server::Settings;
use baton_testkit::Authority;

use crate::rig::{KEY, NAMES, Rig};

/// Settings for certificates that the server's own authority vouches for.
fn asks(auth: &str, keys: BTreeMap<String, String>) -> impl FnOnce(&mut Settings, &std::path::Path) {
    move |settings, home| {
        settings.tls_client_ca = Some(home.join("ca.pem").to_str().unwrap().to_owned());
        settings.tls_client_auth = auth.into();
        settings.tls_client_keys = keys;
    }
}

fn shows(rig: &Rig, authority: &Authority, common: &str, names: &[&str]) -> Tls {
    let (certificate, key) = authority.client(common, Some("Acme"), names).write(rig.home.path(), common);
    rig.trust().client_certificate(certificate, key).unwrap()
}

async fn key(client: &Client, scope: &str, expires_in_ms: Option<u64>) -> String {
    let wanted = CreateKey { name: "a test's".into(), scopes: vec![scope.into()], namespace: None, expires_in_ms };
    client.create_key(&wanted).await.unwrap().id
}

#[tokio::test(flavor = "multi_thread")]
async fn where_one_is_required_nobody_gets_in_without() {
    let rig = Rig::with(|authority| authority.server(&NAMES), asks("required", BTreeMap::new())).await;
    let without = rig.client().healthz().await.unwrap_err();
    assert!(
        matches!(without, ClientError::Untrusted(_)) && without.to_string().contains("--client-cert"),
        "{without:?}"
    );
    let foreign = rig.client_with(KEY, &shows(&rig, &Authority::new(), "stranger", &[])).healthz().await.unwrap_err();
    assert!(matches!(foreign, ClientError::Untrusted(_)), "{foreign:?}");
    let grpc = Client::connect(rig.url()).api_key(KEY).tls(rig.trust()).await.unwrap_err();
    assert!(matches!(grpc, ClientError::Untrusted(_)), "{grpc:?}");
    rig.client_with(KEY, &shows(&rig, &rig.authority, "worker-1", &[])).healthz().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subject_or_another_name_stands_for_a_key() {
    // The ids of keys are known only when they have been made: by a server that has no certificates yet.
    let first = Rig::start().await;
    let submitter = key(&first.client(), "submit", None).await;
    let reader = key(&first.client(), "read", None).await;
    let keys = BTreeMap::from([
        ("CN=ci,O=Acme".to_owned(), submitter.clone()),
        ("dns:reader.acme.example".to_owned(), reader.clone()),
    ]);
    let rig = first.again(asks("optional", keys)).await;
    let ci = rig.client_with("", &shows(&rig, &rig.authority, "ci", &[]));
    ci.submit(&SubmitRun::new("q", "t")).await.unwrap();
    // gRPC, too; and a good key that is sent along is the one that counts.
    Client::connect(rig.url()).api_key("").tls(shows(&rig, &rig.authority, "ci", &[])).await.unwrap();
    rig.client_with(KEY, &shows(&rig, &rig.authority, "ci", &[])).keys().await.unwrap();
    assert_eq!(ci.keys().await.unwrap_err().code(), Some("forbidden"));
    // It is written down as that key.
    let lines = rig.client().audit_log(None, None).await.unwrap().lines;
    assert!(lines.iter().any(|line| line.actor == submitter && line.action == "access.refused"), "{lines:?}");
    let reads = rig.client_with("", &shows(&rig, &rig.authority, "other", &["reader.acme.example"]));
    reads.queues(None).await.unwrap();
    assert_eq!(reads.submit(&SubmitRun::new("q", "t")).await.unwrap_err().code(), Some("forbidden"));
    // One that stands for nothing, and none at all.
    let nobody = rig.client_with("", &shows(&rig, &rig.authority, "nobody", &[]));
    let unmapped = nobody.queues(None).await.unwrap_err();
    assert_eq!(unmapped.code(), Some("no_credential"));
    assert!(unmapped.to_string().contains("tls_client_keys"), "{unmapped}");
    nobody.healthz().await.unwrap();
    let none = rig.client_with("", &rig.trust());
    assert_eq!(none.queues(None).await.unwrap_err().code(), Some("no_credential"));
    // Whoever makes up what the server writes for itself gets nowhere.
    let made_up = rig.client_with(&format!("certificate:{}:{submitter}", "0".repeat(64)), &rig.trust());
    assert!(matches!(made_up.queues(None).await, Err(ClientError::Refused { status: 401 | 403, .. })));
    rig.client().revoke_key(&submitter).await.unwrap();
    let refused = ci.submit(&SubmitRun::new("q", "t")).await.unwrap_err();
    assert!(matches!(refused, ClientError::Refused { status: 401 | 403, .. }), "{refused:?}");
    assert!(refused.to_string().contains(&submitter) && refused.to_string().contains("revoked"), "{refused}");
}
