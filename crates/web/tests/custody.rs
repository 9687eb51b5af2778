//! Custody on the page of a run, over the wire.

mod common;

use baton::proto::{Claim, CompleteRun, GiveBackRun, RegisterWorker, SubmitRun};
use baton_core::{LateVerb, RunId, State};
use baton_store::{LateWrite, LeaseRef};
use common::{ABSURD, START, Site};
use serde_json::{Value, json};

async fn worker(site: &Site, name: &str) -> String {
    let worker = json!({ "name": name, "queues": ["mail"], "types": ["send"], "max_concurrent": 10 });
    let worker: RegisterWorker = serde_json::from_value(worker).unwrap();
    site.client.register(&worker).await.unwrap().worker_id
}

/// Gives the run that waits to a worker. Returns its lease.
async fn claimed(site: &Site, worker: &str, number: i64) -> String {
    let claim: Claim = serde_json::from_value(json!({ "start": true, "claim_no": number })).unwrap();
    site.client.claim(worker, &claim).await.unwrap().runs.pop().expect("nothing to claim").lease
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// A run that its first worker has lost and a second one holds: its identifier and both leases.
async fn handed_over(site: &Site, names: [&str; 2]) -> (String, [String; 2]) {
    let id = site.client.submit(&SubmitRun::new("mail", "send")).await.unwrap().id;
    let first = worker(site, names[0]).await;
    let lost = claimed(site, &first, 1).await;
    site.clock.advance(site.app.settings.lease_ttl_ms as i64 + 1_001);
    until("the run is free", async || site.client.run(&id).await.unwrap().state == State::Pending).await;
    let second = worker(site, names[1]).await;
    let kept = claimed(site, &second, 1).await;
    (id, [lost, kept])
}

async fn ledger(site: &Site, session: &common::Session, id: &str) -> Value {
    site.get(session, &format!("/runs/{id}/custody.json")).await.json()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_and_a_late_write_are_shown() {
    let site = Site::start().await;
    let session = site.administrator().await;
    let (id, [lost, kept]) = handed_over(&site, ["mail-1", "mail-2"]).await;
    let path = format!("/runs/{id}");
    let complete = |lease: &str| CompleteRun { run_id: None, lease: lease.into(), output: None };
    assert!(site.client.complete(&id, &complete(&lost)).await.is_err());
    until("it is noted", async || ledger(&site, &session, &id).await["refused"] == 1).await;
    let page = site.get(&session, &path).await;
    page.assert_harmless().assert_has(&[
        "id=\"custody\"",
        "2 leases, 1 refused",
        "mail-1 held epoch 1 from",
        ", lost; its last heartbeat came at",
        "complete at",
        "was refused",
        "mail-2 holds epoch 2 since",
        "class=\"ov\"",
        "url(#hb)",
        "class=\"refuse\"",
        "silent since",
        "1 refused, lease_lost",
        "with epoch 1",
    ]);
    site.client.complete(&id, &complete(&kept)).await.unwrap();
    site.get(&session, &path).await.assert_has(&["mail-2 held epoch 2 from"]).assert_lacks(&["holds epoch"]);
    let file = site.get(&session, &format!("{path}/custody.json")).await;
    let header =
        |name: &str| file.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    assert_eq!(header("content-type"), "application/json");
    assert_eq!(header("content-disposition"), format!("attachment; filename=\"{id}-custody.json\""));
    assert_eq!(header("x-content-type-options"), "nosniff");
    let told = file.json();
    assert_eq!((&told["leases"], &told["lanes"][0]["refused"][0]["verb"]), (&json!(2), &json!("complete")));
    assert_eq!(told["lanes"][0]["end"], "lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_nobody_has_had_says_so() {
    let site = Site::start().await;
    let session = site.administrator().await;
    let id = site.client.submit(&SubmitRun::new("mail", "send")).await.unwrap().id;
    site.get(&session, &format!("/runs/{id}")).await.assert_has(&["No worker has had it yet.", "0 leases"]);
    assert_eq!(ledger(&site, &session, &id).await["lanes"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn absurd_names_are_text_and_the_same_leases_make_the_same_panel() {
    let site = Site::start().await;
    let session = site.administrator().await;
    // Control characters are no names of workers.
    let (id, _) = handed_over(&site, [ABSURD[0], ABSURD[1]]).await;
    let run: RunId = id.parse().unwrap();
    let past = site.app.store.past_leases(run, None, 1).await.unwrap();
    let lease = LeaseRef { run, epoch: past[0].attempt.epoch };
    let mut writes: Vec<LateWrite> = Vec::new();
    for position in 0..300_u32 {
        let name = format!("{}{}", ABSURD[position as usize % ABSURD.len()], "x".repeat(150));
        writes.push(LateWrite {
            lease,
            verb: LateVerb::Step,
            position: Some(position),
            name,
            bytes: 1 << 40,
            times: u64::from(u32::MAX),
            first_ms_ago: 500,
            last_ms_ago: 0,
        });
    }
    site.app.store.note_refused(writes).await.unwrap();
    let page = site.get(&session, &format!("/runs/{id}")).await;
    page.assert_harmless().assert_has(&["and only counted", "&lt;script&gt;", "1.1 TB"]);
    let panel = |page: &common::Answer| {
        let from = page.body.split("id=\"custody\"").nth(1).unwrap().to_owned();
        from.split("</section>").next().unwrap().to_owned()
    };
    let again = site.get(&session, &format!("/runs/{id}")).await;
    assert_eq!(panel(&page), panel(&again));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_leases_come_in_pages() {
    let site = Site::start().await;
    let session = site.administrator().await;
    let id = site.client.submit(&SubmitRun::new("mail", "send")).await.unwrap().id;
    let worker = worker(&site, "mail-1").await;
    for number in 1..=40 {
        let lease = claimed(&site, &worker, number).await;
        let back: GiveBackRun = serde_json::from_value(json!({ "lease": lease, "reason": "later" })).unwrap();
        site.client.give_back(&id, &back).await.unwrap();
    }
    let newest = site.get(&session, &format!("/runs/{id}")).await;
    newest.assert_has(&["40 leases", "Earlier leases", "custody=11#custody", "epoch 40 from"]);
    newest.assert_lacks(&["epoch 10 from", "Newest leases"]);
    let earlier = site.get(&session, &format!("/runs/{id}?custody=11")).await;
    earlier.assert_has(&["epoch 1 from", "epoch 10 from", "Newest leases"]);
    earlier.assert_lacks(&["epoch 11 from", "Earlier leases"]);
    assert_eq!(ledger(&site, &session, &id).await["lanes"].as_array().unwrap().len(), 40);
    assert_eq!(site.get(&session, &format!("/runs/{id}?custody=no")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_namespaces_custody_is_not_there() {
    let site = Site::start().await;
    let (id, _) = handed_over(&site, ["mail-1", "mail-2"]).await;
    let own = site.visitor(&["read"], Some("default")).await;
    assert_eq!(site.get(&own, &format!("/runs/{id}/custody.json")).await.status, 200);
    let other = site.visitor(&["read"], Some("shop")).await;
    for path in [format!("/runs/{id}/custody.json"), "/runs/nothing/custody.json".into()] {
        assert_eq!(site.get(&other, &path).await.status, 404, "{path}");
    }
    let unknown = format!("/runs/{}/custody.json", RunId::new(START, 1, 1));
    assert_eq!(site.get(&own, &unknown).await.status, 404);
}
