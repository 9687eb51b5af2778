//! The page of a workflow, over the wire: its waterfall above all.

mod common;

use std::time::Instant;

use baton::proto::{Claim, RegisterWorker};
use baton_core::RunId;
use baton_core::retry::RetryPolicy;
use baton_server::service::workflows::start::{self, Start};
use baton_server::{Caller, Scope};
use baton_store::{Due, LeaseRef, StepChange, StepKind, StepWrite};
use bytes::Bytes;
use common::{ABSURD, Site};
use serde_json::json;

async fn started(site: &Site) -> RunId {
    let start = Start {
        namespace: "default".into(),
        queue: "orders".into(),
        kind: "process_order".into(),
        version: Some("7".into()),
        input: Bytes::from_static(b"{\"id\":17}"),
        idempotency_key: None,
        fingerprint: [0; 16],
        priority: None,
        due: Due::Now,
        retry: None,
        timeout_ms: Some(3_600_000),
        key: Some("order-17".into()),
        trace: None,
    };
    let caller = Caller { key_id: "test".into(), scopes: vec![Scope::Submit], namespace: None };
    start::one(&site.app, &caller, start).await.unwrap().run
}

/// Gives the workflow that waits to a worker.
async fn claimed(site: &Site, name: &str) -> LeaseRef {
    let worker = json!({ "name": name, "queues": ["orders"], "types": ["process_order@7"], "max_concurrent": 4 });
    let worker: RegisterWorker = serde_json::from_value(worker).unwrap();
    let worker = site.client.register(&worker).await.unwrap().worker_id;
    let claim: Claim = serde_json::from_value(json!({ "start": true, "claim_no": 1 })).unwrap();
    let claimed = site.client.claim(&worker, &claim).await.unwrap().runs.pop().expect("nothing to claim");
    let run: RunId = claimed.run_id.parse().unwrap();
    LeaseRef { run, epoch: site.app.store.run(run).await.unwrap().unwrap().epoch }
}

fn write(lease: LeaseRef, position: u32, name: &str, kind: StepKind, what: StepChange) -> StepWrite {
    StepWrite { lease, position, name: name.into(), kind, what, journal_bytes_max: None }
}

fn done(output: &str) -> StepChange {
    StepChange::Complete { output: Bytes::from(output.to_owned()), message: None, took_ms: 0 }
}

fn failed(attempt: u32, error: &str) -> StepChange {
    StepChange::Fail {
        attempt,
        error: error.into(),
        code: Some("unavailable".into()),
        retryable: true,
        not_before_ms: None,
        policy: RetryPolicy { max_attempts: 3, ..RetryPolicy::default() },
        jitter: 0.0,
        took_ms: 0,
    }
}

async fn written(site: &Site, writes: Vec<StepWrite>) {
    site.app.store.write_steps(writes).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_are_rows_with_tries_and_a_journal() {
    let site = Site::start().await;
    let session = site.administrator().await;
    let run = started(&site).await;
    let path = format!("/runs/{run}");
    site.get(&session, &path).await.assert_has(&["No step yet.", "version 7", "order-17", "Deadline"]);
    let lease = claimed(&site, "orders-1").await;
    let absurd = ABSURD.join(" ");
    written(
        &site,
        vec![
            write(lease, 0, "version", StepKind::Fact, done("7")),
            write(lease, 1, "reserve_stock", StepKind::Step, StepChange::Begin),
        ],
    )
    .await;
    site.clock.advance(1_000);
    written(&site, vec![write(lease, 1, "reserve_stock", StepKind::Step, failed(1, &format!("503 {absurd}")))]).await;
    site.clock.advance(5_000);
    written(
        &site,
        vec![
            write(lease, 1, "reserve_stock", StepKind::Step, StepChange::Begin),
            write(lease, 1, "reserve_stock", StepKind::Step, done(&json!({ "at": absurd }).to_string())),
            write(lease, 2, "<script>alert(1)</script>", StepKind::Step, done("null")),
        ],
    )
    .await;
    for position in 3..13 {
        written(&site, vec![write(lease, position, "pack_box", StepKind::Step, done("1"))]).await;
    }
    let page = site.get(&session, &path).await;
    page.assert_harmless().assert_has(&[
        "13 steps",
        "reserve_stock",
        "2 tries",
        "fill-bad",
        "pack_box × 10",
        "10 of 10",
    ]);
    page.assert_has(&["id=\"position-1\"", "orders-1", "Fold idle time"]).assert_lacks(&["id=\"at-5\"", "id=\"step\""]);
    let open = site.get(&session, &format!("{path}?open=3&step=1&fold=0")).await;
    open.assert_harmless().assert_has(&[
        "id=\"at-5\"",
        "id=\"step\"",
        "Result",
        "What the last failed try said",
        "503",
    ]);
    let output = site.get(&session, &format!("{path}/payload/step-1")).await;
    assert_eq!(serde_json::from_str::<serde_json::Value>(&output.body).unwrap(), json!({ "at": absurd }));
    site.get(&session, &format!("{path}?from=0&to=500"))
        .await
        .assert_has(&["version"])
        .assert_lacks(&["id=\"group-3\""]);
    for odd in
        ["?from=9&to=1", "?step=99", "?step=x", "?row=99999", "?journal=99", "?open=,,x", "?from=0&to=99999999999"]
    {
        site.get(&session, &format!("{path}{odd}")).await.assert_harmless();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_is_signalled_by_those_who_may() {
    let site = Site::start().await;
    let session = site.administrator().await;
    let run = started(&site).await;
    let path = format!("/runs/{run}");
    site.get(&session, &path).await.assert_has(&["Send a signal…"]);
    let fields = [("name", "approved"), ("payload", "{\"by\":\"<b>me</b>\"}")];
    let sent = site.post(&session, &format!("{path}/signal"), &fields).await;
    assert_eq!(sent.status, 200, "{sent:?}");
    site.get(&session, &path)
        .await
        .assert_harmless()
        .assert_has(&["The signal <code dir=\"auto\">approved</code> came."]);
    let wrong = site.post(&session, &format!("{path}/signal"), &[("name", "approved"), ("payload", "{")]).await;
    assert_eq!(wrong.status, 422);
    let nameless = site.post(&session, &format!("{path}/signal"), &[("payload", "1")]).await;
    assert_eq!(nameless.status, 422);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_steps_are_a_small_page() {
    const STEPS: u32 = 10_000;
    let site = Site::start().await;
    let session = site.administrator().await;
    let run = started(&site).await;
    let lease = claimed(&site, "orders-1").await;
    for chunk in (0..STEPS).collect::<Vec<_>>().chunks(1_000) {
        let write =
            |position: &u32| write(lease, *position, &format!("step {}", position % 7), StepKind::Step, done("1"));
        written(&site, chunk.iter().map(write).collect()).await;
        site.clock.advance(1_000);
    }
    let path = format!("/runs/{run}");
    let began = Instant::now();
    let page = site.get(&session, &path).await;
    let took = began.elapsed();
    page.assert_has(&["10,000 steps", "id=\"at-9999\"", "9,900 earlier rows"]);
    // The page of a program that is not optimised on a busy machine; a bound for what grows with the square.
    assert!(took.as_millis() < 5_000, "{took:?}");
    assert!(page.body.len() < 160_000, "{} bytes", page.body.len());
    let rows = site.get(&session, &format!("{path}/rows?row=500")).await;
    assert!(rows.body.contains("id=\"at-500\"") && rows.body.contains("id=\"at-599\""), "{}", rows.body);
    assert!(!rows.body.contains("id=\"at-600\"") && rows.body.contains("9,400 more rows"), "{}", rows.body);
    let part = site.get(&session, &format!("{path}?from=2500&to=2600")).await;
    part.assert_has(&["All"]).assert_lacks(&["id=\"at-0\"", "id=\"at-9999\""]);
    let journal = site.get(&session, &format!("{path}?journal=4999")).await;
    journal
        .assert_has(&["id=\"position-5000\"", "id=\"position-5049\"", "Further"])
        .assert_lacks(&["id=\"position-5050\""]);
}
