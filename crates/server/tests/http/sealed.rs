//! Payloads of namespaces that seal them: in plain for those who may read them, and nowhere else.

use baton::proto::{CompleteRun, CreateNamespace, RotateSecret, SubmitRun};
use serde_json::json;
use serde_json::value::RawValue;

use crate::harness::{On, Server, complete, on_both, refusal, run};

const CANARY: &str = "canary-4711-yellow";

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(json!({ "secret": text }).to_string()).unwrap()
}

fn with_input(text: &str, key: Option<&str>) -> SubmitRun {
    SubmitRun { input: Some(raw(text)), idempotency_key: key.map(str::to_owned), ..run() }
}

fn with_output(lease: &str, text: &str) -> CompleteRun {
    CompleteRun { output: Some(raw(text)), ..complete(lease) }
}

async fn sealed(on: On) -> Server {
    let server = Server::with(on, |settings| settings.payload_inline_bytes_max = 1_000).await;
    server.submit().await;
    server.seal("default", true).await;
    server
}

async fn inputs_and_outputs_are_plain_for_those_who_may_read_and_sealed_where_they_lie(on: On) {
    let server = sealed(on).await;
    let worker = server.worker("one").await;
    let first = server.claim(&worker).await;
    server.client.complete(&first.run_id, &complete(&first.lease)).await.unwrap();
    let large = CANARY.repeat(200);
    for text in [CANARY, &large] {
        let id = server.submit_run(&with_input(text, None)).await;
        let claimed = server.claim(&worker).await;
        assert_eq!((&claimed.run_id, claimed.input.unwrap().get()), (&id, raw(text).get()));
        server.client.complete(&id, &with_output(&claimed.lease, text)).await.unwrap();
        // A repeated call is the same call.
        server.client.complete(&id, &with_output(&claimed.lease, text)).await.unwrap();
        let shown = server.client.run(&id).await.unwrap();
        assert_eq!(shown.input.unwrap().get(), raw(text).get());
        assert_eq!(shown.output.unwrap().get(), raw(text).get());
        // The store copies the input to a run that is tried again.
        let id = server.submit_run(&with_input(text, None)).await;
        let claimed = server.claim(&worker).await;
        let failure = json!({"lease": claimed.lease, "error": "no", "retryable": false}).to_string();
        assert_eq!(server.call("POST", &format!("/api/v1/runs/{id}/fail"), failure).await.status, 200);
        server.client.retry(&id).await.unwrap();
        let claimed = server.claim(&worker).await;
        assert_eq!(claimed.input.unwrap().get(), raw(text).get());
        server.client.complete(&claimed.run_id, &complete(&claimed.lease)).await.unwrap();
    }
    assert!(!server.holds(CANARY).await);
    server.client.rotate_secret(&RotateSecret::default()).await.unwrap();
    let id = server.submit_run(&with_input(CANARY, None)).await;
    assert_eq!(server.client.run(&id).await.unwrap().input.unwrap().get(), raw(CANARY).get());
    assert!(!server.holds(CANARY).await);
    // From now on as before; what is sealed stays readable.
    server.seal("default", false).await;
    assert_eq!(server.client.run(&id).await.unwrap().input.unwrap().get(), raw(CANARY).get());
    server.submit_run(&with_input(CANARY, None)).await;
    assert!(server.holds(CANARY).await, "this test can find it");
}

async fn a_repeated_submit_is_the_same_run_and_another_input_is_not(on: On) {
    let server = sealed(on).await;
    let large = CANARY.repeat(200);
    for (key, text) in [("small", CANARY), ("large", &large)] {
        let id = server.submit_run(&with_input(text, Some(key))).await;
        server.client.rotate_secret(&RotateSecret::default()).await.unwrap();
        assert_eq!(server.submit_run(&with_input(text, Some(key))).await, id);
        let other = server.client.submit(&with_input("another", Some(key))).await;
        assert_eq!(refusal(other), "422 idempotency_key_reused");
    }
}

async fn a_namespace_can_be_made_sealed_and_others_are_not(on: On) {
    let server = Server::start(on).await;
    let vault = CreateNamespace { name: "vault".into(), seal_payloads: true, ..Default::default() };
    assert!(server.client.create_namespace(&vault).await.unwrap().seal_payloads);
    assert!(server.client.get_namespace("vault").await.unwrap().seal_payloads);
    server.submit_run(&SubmitRun { namespace: "vault".into(), ..with_input(CANARY, None) }).await;
    assert!(!server.holds(CANARY).await);
    server.submit_run(&with_input(CANARY, None)).await;
    assert!(server.holds(CANARY).await, "the other namespace is as it was");
    assert!(!server.client.get_namespace("default").await.unwrap().seal_payloads);
    let forged = server.call("POST", "/api/v1/runs", "{}").await;
    assert_eq!(forged.status, 422);
}

async fn the_template_of_a_schedule_is_sealed_and_its_runs_are(on: On) {
    let server = sealed(on).await;
    let schedule = json!({"id": "nightly", "cron": "0 3 * * *",
        "run": {"queue": "builds", "type": "ios", "input": {"secret": CANARY}}});
    for status in [201, 200] {
        let made = server.call("POST", "/api/v1/schedules", schedule.to_string()).await;
        assert_eq!((made.status, &made.json()["run"]["input"]["secret"]), (status, &json!(CANARY)), "{made:?}");
    }
    let changed = server.call("PATCH", "/api/v1/schedules/nightly", json!({"cron": "0 4 * * *"}).to_string()).await;
    assert_eq!(changed.json()["run"]["input"]["secret"], CANARY, "{changed:?}");
    let triggered = server.call("POST", "/api/v1/schedules/nightly/trigger", "{}").await.json();
    let id = triggered["run_id"].as_str().unwrap();
    assert_eq!(server.client.run(id).await.unwrap().input.unwrap().get(), raw(CANARY).get());
    assert!(!server.holds(CANARY).await);
}

on_both!(
    inputs_and_outputs_are_plain_for_those_who_may_read_and_sealed_where_they_lie,
    a_repeated_submit_is_the_same_run_and_another_input_is_not,
    a_namespace_can_be_made_sealed_and_others_are_not,
    the_template_of_a_schedule_is_sealed_and_its_runs_are,
);
