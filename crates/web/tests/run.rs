//! The page of a run, over the wire.

mod common;

use baton::proto::{Claim, CompleteRun, FailRun, RegisterWorker, SubmitRun};
use baton_core::State;
use common::{ABSURD, Site};
use serde_json::json;
use serde_json::value::RawValue;

fn run(input: &str) -> SubmitRun {
    SubmitRun { input: Some(RawValue::from_string(input.into()).unwrap()), ..SubmitRun::new("mail", "send") }
}

/// A worker for runs of [`run`].
async fn worker(site: &Site, name: &str) -> String {
    let worker = json!({ "name": name, "queues": ["mail"], "types": ["send"], "max_concurrent": 10 });
    let worker: RegisterWorker = serde_json::from_value(worker).unwrap();
    site.client.register(&worker).await.unwrap().worker_id
}

/// Gives the run that waits to a worker. Returns its lease.
async fn claimed(site: &Site, worker: &str) -> String {
    let claim: Claim = serde_json::from_value(json!({ "start": true, "claim_no": 1 })).unwrap();
    site.client.claim(worker, &claim).await.unwrap().runs.pop().expect("nothing to claim").lease
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_shown_from_its_submit_to_its_end() {
    let site = Site::start().await;
    let session = site.administrator().await;
    let id = site.client.submit(&run(r#"{"to":"<b>you</b>"}"#)).await.unwrap().id;
    let path = format!("/runs/{id}");
    site.get(&session, &path).await.assert_harmless().assert_has(&[
        "waiting",
        "No worker that is online serves the queue mail",
        "&lt;b&gt;you&lt;/b&gt;",
        "nobody yet",
    ]);
    let worker = worker(&site, "mail-1").await;
    let lease = claimed(&site, &worker).await;
    let words = ["running", "mail-1", "renews its lease", "class=\"epoch\"", "Handed to"];
    site.get(&session, &path).await.assert_has(&words);
    let output = RawValue::from_string(r#"{"sent":true}"#.into()).unwrap();
    site.client.complete(&id, &CompleteRun { run_id: None, lease, output: Some(output) }).await.unwrap();
    let words = ["completed", "It completed at", "&quot;sent&quot;", "The worker completed it", "Retry…"];
    site.get(&session, &path).await.assert_has(&words);
    let input = site.get(&session, &format!("{path}/payload/input")).await;
    assert_eq!((input.status, input.body.as_str()), (200, r#"{"to":"<b>you</b>"}"#));
    assert_eq!(site.get(&session, &format!("{path}/payload/step-1")).await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_run_says_why_and_can_be_retried_and_copied() {
    let site = Site::start().await;
    let session = site.administrator().await;
    let worker = worker(&site, &format!("{} {}", ABSURD[0], ABSURD[2])).await;
    let absurd = SubmitRun { key: Some("k".repeat(200)), ..run(&serde_json::to_string(&ABSURD).unwrap()) };
    let id = site.client.submit(&absurd).await.unwrap().id;
    let path = format!("/runs/{id}");
    let lease = claimed(&site, &worker).await;
    let error = format!("no answer {} {}\nCaused by: {}", ABSURD.join(" "), "x".repeat(500), ABSURD[0]);
    let failed: FailRun =
        serde_json::from_value(json!({ "lease": lease, "error": error, "retryable": false })).unwrap();
    site.client.fail(&id, &failed).await.unwrap();
    site.get(&session, &path).await.assert_harmless().assert_has(&[
        "failed",
        "the work itself said so",
        "Because",
        "no answer &lt;script&gt;",
    ]);
    let retried = site.post_plain(&session, &format!("{path}/retry"), &[]).await;
    assert_eq!(retried.status, 303, "{retried:?}");
    let location = retried.headers["location"].to_str().unwrap();
    let again = location.strip_prefix("/runs/").unwrap();
    assert_eq!(site.client.run(again).await.unwrap().retry_of, Some(id.clone()));
    site.get(&session, location).await.assert_has(&["Retry of"]);
    let fields = [("input", r#"{"other":1}"#), ("priority", "7"), ("key", "other")];
    let copied = site.post(&session, &format!("{path}/copy"), &fields).await.json();
    let copy = site.client.run(copied["go"].as_str().unwrap().strip_prefix("/runs/").unwrap()).await.unwrap();
    assert_eq!((copy.priority, copy.key.as_deref()), (7, Some("other")));
    assert_eq!(copy.input.unwrap().get(), r#"{"other":1}"#);
    let wrong = site.post(&session, &format!("{path}/copy"), &[("input", "{no")]).await;
    assert_eq!(wrong.status, 422);
    assert!(wrong.body.contains("must be JSON"), "{wrong:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_waits_can_be_cancelled_by_those_who_may() {
    let site = Site::start().await;
    let id = site.client.submit(&run("null")).await.unwrap().id;
    let path = format!("/runs/{id}");
    let reader = site.visitor(&["read"], None).await;
    site.get(&reader, &path).await.assert_lacks(&["Cancel…", "Start a copy…", "<dialog id=\"act-"]);
    for act in ["cancel", "retry", "signal", "copy"] {
        let refused = site.post(&reader, &format!("{path}/{act}"), &[("name", "go")]).await;
        assert_eq!(refused.status, 403, "{act}: {refused:?}");
    }
    let session = site.administrator().await;
    let forged = site.post(&session.without_csrf(), &format!("{path}/cancel"), &[]).await;
    assert_eq!(forged.status, 403);
    assert_eq!(site.client.run(&id).await.unwrap().state, State::Pending);
    let cancelled = site.post_plain(&session, &format!("{path}/cancel"), &[]).await;
    assert_eq!((cancelled.status, cancelled.headers["location"].to_str().unwrap()), (303, path.as_str()));
    site.get(&session, &path).await.assert_has(&["It was cancelled at"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_there_and_what_is_anothers_look_alike() {
    let site = Site::start().await;
    let id = site.client.submit(&run(r#""secret""#)).await.unwrap().id;
    let other = site.visitor(&["admin"], Some("other")).await;
    for run in [id.as_str(), "01890000-0000-7000-8000-000000000000", "nonsense"] {
        let page = site.get(&other, &format!("/runs/{run}")).await;
        page.assert_has(&["Not here.", "30 days (retention)"]).assert_lacks(&["secret"]);
        assert_eq!(site.get(&other, &format!("/runs/{run}/payload/input")).await.status, 404);
        assert_eq!(site.get(&other, &format!("/runs/{run}/log")).await.status, 404);
        assert_eq!(site.post(&other, &format!("/runs/{run}/cancel"), &[]).await.status, 404);
    }
}
