//! The overview and the first start, over the wire.

mod common;

use baton::proto::{Claim, CompleteRun, FailRun, RegisterWorker, SubmitRun};
use common::Site;
use serde_json::json;

fn worker(name: &str) -> RegisterWorker {
    let value = json!({"name": name, "queues": ["mail"], "types": ["greet"], "max_concurrent": 8});
    serde_json::from_value(value).unwrap()
}

/// Claims all runs, and returns them with their leases.
async fn claim(site: &Site, worker: &str) -> Vec<(String, String)> {
    let claim: Claim = serde_json::from_value(json!({"queue": "mail", "claim_no": 1, "max": 8})).unwrap();
    let runs = site.client.claim(worker, &claim).await.unwrap().runs;
    runs.into_iter().map(|run| (run.run_id, run.lease)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_start_goes_from_step_to_step() {
    let site = Site::start().await;
    let session = site.administrator().await;
    let first = site.get(&session, "/").await;
    let url = format!("--url http://{}", site.address);
    first.assert_harmless().assert_has(&["Nothing has run here yet.", &url, "waiting for a worker to say hello"]);
    for (kind, words) in [("build", "worker build"), ("workflow", "--example hello"), ("pool", "pool create linux")] {
        site.get(&session, &format!("/start?kind={kind}")).await.assert_harmless().assert_has(&[words]);
    }
    let id = site.client.register(&worker("one")).await.unwrap().worker_id;
    site.get(&session, "/").await.assert_has(&["is online.", "waiting for a run"]);
    let run = site.client.submit(&SubmitRun::new("mail", "greet")).await.unwrap().id;
    site.get(&session, "/").await.assert_has(&["waiting", &format!("/runs/{run}")]);
    let (run, lease) = claim(&site, &id).await.remove(0);
    site.client.complete(&run, &CompleteRun { run_id: None, lease, output: None }).await.unwrap();
    site.get(&session, "/").await.assert_has(&["completed", "See this run", "Work is going through."]);
    site.clock.advance(6 * 60_000);
    site.get(&session, "/").await.assert_has(&["Needs attention", "Nothing needs attention"]);
    site.get(&session, "/start").await.assert_has(&["Work is going through."]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_stands_first_in_words_with_a_link() {
    let site = Site::start().await;
    let session = site.administrator().await;
    let id = site.client.register(&worker("one")).await.unwrap().worker_id;
    for number in 0..3 {
        site.client.submit(&SubmitRun::new("mail", "digest")).await.unwrap();
        site.client.submit(&SubmitRun::new("mail", "greet")).await.unwrap();
        site.client.submit(&SubmitRun::new(format!("q{number}"), "greet")).await.unwrap();
    }
    for (number, (run, lease)) in claim(&site, &id).await.into_iter().enumerate() {
        let error = format!("no answer in {} s from 10.0.0.{number}", 30 + number);
        let fail: FailRun =
            serde_json::from_value(json!({"lease": lease, "error": error, "retryable": false})).unwrap();
        site.client.fail(&run, &fail).await.unwrap();
    }
    site.clock.advance(30_000);
    let page = site.get(&session, "/").await;
    page.assert_harmless().assert_has(&[
        "Queue mail:",
        "3 runs wait, and no worker serves the type digest",
        "href=\"/queues/mail\"",
        "no answer in 32 s from 10.0.0.2",
        "error:%22no%20answer%20in%22",
        "Waiting, by queue",
        "Ended, a minute",
    ]);
    assert_eq!(page.main().matches("no answer in").count(), 2, "one cause: its words and their title");
    assert_eq!(page.body.matches("<h1").count(), 1);
    for range in ["day", "month", "nonsense"] {
        site.get(&session, &format!("/?t={range}")).await.assert_harmless().assert_has(&["Needs attention"]);
    }
    let other = site.visitor(&["read"], Some("other")).await;
    site.get(&other, "/").await.assert_has(&["Nothing has run here yet."]).assert_lacks(&["digest"]);
}
