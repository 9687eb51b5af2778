//! Webhooks are made, changed, tested and removed, by callers that may; their secrets are shown once.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use baton::proto::{ChangeWebhook, CreateWebhook, ReplayWebhook, RotateWebhook, SubmitRun};
use baton_server::webhooks::WEBHOOKS_PER_NAMESPACE_MAX;
use serde_json::{Value, json};

use super::receiver::{Call, Receiver, deliveries, made, server, webhook};
use crate::harness::{On, START, on_both, refusal, run};

on_both!(
    two_secrets_sign_while_one_takes_the_place_of_the_other,
    a_namespace_hears_nothing_of_another_and_sees_nothing_of_its_webhooks,
    the_secret_is_shown_once_and_kept_sealed,
    the_same_webhook_is_made_once,
    a_webhook_that_makes_no_sense_is_refused,
    a_test_says_what_the_receiver_answered,
    there_are_only_so_many_in_a_namespace,
    what_is_done_to_webhooks_is_written_down,
);

async fn two_secrets_sign_while_one_takes_the_place_of_the_other(on: On) {
    let (server, receiver) = (server(on).await, Receiver::start().await);
    let made = made(&server, &receiver).await;
    let old = made.secret.unwrap();
    let rotation = RotateWebhook { overlap_ms: Some(60_000), secret: None };
    let rotated = server.client.rotate_webhook(&made.id, &rotation).await.unwrap();
    let new = rotated.secret.unwrap();
    assert_eq!(rotated.secret_before_until.map(|at| at.0), Some(START + 60_000));
    assert_ne!(old, new);
    server.submit().await;
    let call = receiver.called(1).await.remove(0);
    assert!(call.is_signed_with(&old) && call.is_signed_with(&new));
    server.clock.advance(60_000);
    server.submit().await;
    let call = receiver.called(2).await.remove(1);
    assert!(!call.is_signed_with(&old) && call.is_signed_with(&new));
    let own = RotateWebhook { overlap_ms: Some(0), secret: Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into()) };
    let given = server.client.rotate_webhook(&made.id, &own).await.unwrap();
    assert_eq!((given.secret, given.secret_before_until), (own.secret.clone(), None));
    let again = server.client.rotate_webhook(&made.id, &own).await.unwrap();
    assert_eq!(again.secret, None, "it has it already");
    let long = RotateWebhook { overlap_ms: Some(u64::MAX), secret: None };
    assert_eq!(refusal(server.client.rotate_webhook(&made.id, &long).await), "422 invalid");
}

async fn a_namespace_hears_nothing_of_another_and_sees_nothing_of_its_webhooks(on: On) {
    let server = server(on).await;
    let (ours, theirs, everything) = (Receiver::start().await, Receiver::start().await, Receiver::start().await);
    let team = server.client_for(&["admin"], Some("team")).await;
    let made = made(&server, &ours).await;
    let foreign = CreateWebhook { namespace: None, ..webhook("ci", &theirs.url(), &["run.submitted"]) };
    let foreign = team.create_webhook(&foreign).await.unwrap();
    assert_eq!(foreign.namespace.as_deref(), Some("team"));
    let all = CreateWebhook { namespace: None, ..webhook("all", &everything.url(), &["run.submitted"]) };
    let all = server.client.create_webhook(&all).await.unwrap();
    assert_eq!(all.namespace, None);
    let run_of_ours = server.submit().await;
    let run_of_theirs = team.submit(&SubmitRun { namespace: "team".into(), ..run() }).await.unwrap().id;
    let subject = |call: &Call| call.event()["subject"].as_str().unwrap().to_owned();
    assert_eq!(ours.called(1).await.iter().map(subject).collect::<Vec<_>>(), std::slice::from_ref(&run_of_ours));
    assert_eq!(theirs.called(1).await.iter().map(subject).collect::<Vec<_>>(), std::slice::from_ref(&run_of_theirs));
    let heard: BTreeSet<_> = everything.called(2).await.iter().map(subject).collect();
    assert_eq!(heard, BTreeSet::from([run_of_ours, run_of_theirs]));
    let listed = team.webhooks(None, None, None).await.unwrap().webhooks;
    assert_eq!(listed.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), [foreign.id]);
    for id in [&made.id, &all.id, "018bcfe5-6800-7000-8000-000000000000", "ci"] {
        assert_eq!(refusal(team.webhook(id).await), "404 not_found");
        assert_eq!(refusal(team.pause_webhook(id).await), "404 not_found");
        assert_eq!(refusal(team.webhook_deliveries(id, None, None, None).await), "404 not_found");
        assert_eq!(refusal(team.delete_webhook(id).await), "404 not_found");
    }
    assert_eq!(refusal(team.create_webhook(&webhook("x", &ours.url(), &[])).await), "403 forbidden");
    let reader = server.client_for(&["read"], Some("default")).await;
    let read = reader.webhook(&made.id).await.unwrap();
    assert_eq!((read.url, read.secret), (format!("http://{}", ours.address), None), "a URL may hold a secret");
    assert_eq!(refusal(reader.webhook_deliveries(&made.id, None, None, None).await), "403 forbidden");
}

async fn the_secret_is_shown_once_and_kept_sealed(on: On) {
    let (server, receiver) = (server(on).await, Receiver::start().await);
    let canary = format!("whsec_{}", STANDARD.encode(b"a canary that sings when it is out"));
    let wanted = CreateWebhook { secret: Some(canary.clone()), ..webhook("ci", &receiver.url(), &["run.submitted"]) };
    let made = server.client.create_webhook(&wanted).await.unwrap();
    assert_eq!(made.secret.as_deref(), Some(canary.as_str()));
    server.submit().await;
    assert!(receiver.called(1).await[0].is_signed_with(&canary));
    for path in ["/api/v1/webhooks".to_owned(), format!("/api/v1/webhooks/{}", made.id), "/api/v1/audit".to_owned()] {
        let answer = server.call("GET", &path, "").await;
        let said = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(answer.status == 200 && !said.contains("whsec_") && !said.contains("canary"), "{path}: {said}");
    }
    assert!(!server.holds("a canary that sings").await, "it is in the database");
    assert!(!server.holds(&canary[6..]).await, "it is in the database");
}

async fn the_same_webhook_is_made_once(on: On) {
    let (server, receiver) = (server(on).await, Receiver::start().await);
    let wanted = webhook("ci", &receiver.url(), &["run"]);
    let first = server.call("POST", "/api/v1/webhooks", serde_json::to_vec(&wanted).unwrap()).await;
    let again = server.call("POST", "/api/v1/webhooks", serde_json::to_vec(&wanted).unwrap()).await;
    assert_eq!((first.status, again.status), (201, 200));
    assert_eq!((first.json()["id"].clone(), &again.json()["secret"]), (again.json()["id"].clone(), &Value::Null));
    let other = webhook("ci", &receiver.url(), &["queue"]);
    assert_eq!(refusal(server.client.create_webhook(&other).await), "409 conflict");
    server.client.delete_webhook(first.json()["id"].as_str().unwrap()).await.unwrap();
    assert_eq!(server.client.webhooks(None, None, None).await.unwrap().webhooks, []);
    server.client.create_webhook(&other).await.unwrap();
}

async fn a_webhook_that_makes_no_sense_is_refused(on: On) {
    let server = server(on).await;
    let good = json!({"name": "ci", "url": "https://8.8.8.8/", "namespace": "default"});
    let cases = [
        ("url", json!("http://8.8.8.8/"), "url"),
        ("url", json!("https://10.0.0.1/"), "url"),
        ("url", json!("https://[::1]/"), "url"),
        ("url", json!("https://user:password@8.8.8.8/"), "url"),
        ("url", json!("ftp://8.8.8.8/"), "url"),
        ("url", json!("nonsense"), "url"),
        ("name", json!(""), "name"),
        ("filter", json!({"kinds": ["run.over"]}), "filter.kinds"),
        ("filter", json!({"kinds": ["run.ended,queue"]}), "filter.kinds"),
        ("filter", json!({"kinds": [""]}), "filter.kinds"),
        ("filter", json!({"queue": ""}), "filter.queue"),
        ("filter", json!({"type": "x".repeat(201)}), "filter.type"),
        ("secret", json!("whsec_short"), "secret"),
    ];
    for (key, value, field) in cases {
        let mut wrong = good.clone();
        wrong[key] = value;
        let answer = server.call("POST", "/api/v1/webhooks", wrong.to_string()).await;
        assert_eq!((answer.status, answer.json()["field"].as_str()), (422, Some(field)), "{wrong}: {answer:?}");
        assert!(!String::from_utf8_lossy(&answer.body).contains("password@"), "{answer:?}");
    }
    assert_eq!(server.client.webhooks(None, None, None).await.unwrap().webhooks, []);
}

async fn a_test_says_what_the_receiver_answered(on: On) {
    let (server, receiver) = (server(on).await, Receiver::start().await);
    let made = made(&server, &receiver).await;
    let tested = server.client.test_webhook(&made.id).await.unwrap();
    assert_eq!((tested.delivered, tested.status, tested.response.as_deref()), (true, Some(200), Some("said 200")));
    let call = receiver.called(1).await.remove(0);
    assert!(call.kind() == "dev.baton.ping" && call.is_signed_with(&made.secret.unwrap()), "{call:?}");
    receiver.answer(418, &[]);
    let tested = server.client.test_webhook(&made.id).await.unwrap();
    assert_eq!((tested.delivered, tested.status), (false, Some(418)));
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let change = ChangeWebhook { url: Some(format!("http://{nobody}/")), filter: None };
    server.client.change_webhook(&made.id, &change).await.unwrap();
    let tested = server.client.test_webhook(&made.id).await.unwrap();
    assert_eq!((tested.delivered, tested.status), (false, None));
    assert!(tested.error.as_ref().unwrap().starts_with("no connection"), "{tested:?}");
    assert_eq!(deliveries(&server, &made.id).await, [], "nothing of it is kept");
}

async fn there_are_only_so_many_in_a_namespace(on: On) {
    let server = server(on).await;
    for number in 0..WEBHOOKS_PER_NAMESPACE_MAX {
        let wanted = webhook(&format!("n{number}"), "http://127.0.0.1:9/", &["worker"]);
        server.client.create_webhook(&wanted).await.unwrap();
    }
    let more = server.client.create_webhook(&webhook("more", "http://127.0.0.1:9/", &["worker"])).await;
    assert_eq!(refusal(more), "429 namespace_limit");
    let page = server.client.webhooks(Some("default"), Some(60), None).await.unwrap();
    let rest = server.client.webhooks(Some("default"), Some(60), page.next_cursor.as_deref()).await.unwrap();
    assert_eq!((page.webhooks.len(), rest.webhooks.len(), rest.next_cursor), (60, 40, None));
}

async fn what_is_done_to_webhooks_is_written_down(on: On) {
    let (server, receiver) = (server(on).await, Receiver::start().await);
    let made = made(&server, &receiver).await;
    let change = ChangeWebhook { url: Some(receiver.url() + "x"), filter: None };
    server.client.change_webhook(&made.id, &change).await.unwrap();
    server.client.pause_webhook(&made.id).await.unwrap();
    server.client.resume_webhook(&made.id).await.unwrap();
    server.client.rotate_webhook(&made.id, &RotateWebhook::default()).await.unwrap();
    server.client.replay_webhook(&made.id, &ReplayWebhook::default()).await.unwrap();
    server.client.delete_webhook(&made.id).await.unwrap();
    let lines = server.client.audit_log(Some(50), None).await.unwrap().lines;
    let of_this: Vec<_> =
        lines.iter().rev().filter(|line| line.subject == made.id).map(|line| line.action.as_str()).collect();
    let expected = ["create", "change", "pause", "resume", "rotate", "replay", "delete"];
    assert_eq!(of_this, expected.map(|verb| format!("webhook.{verb}")));
    assert!(lines.iter().all(|line| !line.detail.contains("t0ken")), "a URL may hold a secret");
}
