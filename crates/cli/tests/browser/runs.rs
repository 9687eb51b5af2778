//! A run, from its page.

use baton::proto::{Claim, CompleteRun, RegisterWorker, SubmitRun};
use serde_json::json;

use crate::rig::{Browser, KEY, Site, eventually, in_browser};

fn job() -> SubmitRun {
    SubmitRun::new("work", "job")
}

/// The word beside the title.
async fn state(browser: &Browser) -> String {
    let word = browser.run("return document.querySelector('#run-head .badge')?.innerText.trim() || ''").await;
    word.as_str().unwrap_or_default().to_owned()
}

async fn becomes(browser: &Browser, word: &str) {
    eventually(&format!("the run is {word}"), async || state(browser).await == word).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_seen_to_run_and_to_end_without_loading_the_page_again() {
    let site = Site::start().await;
    let run = site.api.submit(&job()).await.unwrap().id;
    in_browser(async |browser| {
        browser.sign_in(&site, KEY).await;
        browser.goto(&site.at(&format!("/runs/{run}"))).await;
        becomes(browser, "waiting").await;
        browser.mark().await;
        let worker = json!({"name": "worker-1", "queues": ["work"], "types": ["job"], "max_concurrent": 1});
        let worker: RegisterWorker = serde_json::from_value(worker).unwrap();
        let worker = site.api.register(&worker).await.unwrap().worker_id;
        let claim = Claim { claim_no: Some(1), start: true, ..Claim::default() };
        let claimed = site.api.claim(&worker, &claim).await.unwrap().runs.pop().unwrap();
        becomes(browser, "running").await;
        browser.reads("worker-1").await;
        let end = CompleteRun { run_id: None, lease: claimed.lease, output: None };
        site.api.complete(&run, &end).await.unwrap();
        becomes(browser, "completed").await;
        assert!(browser.is_marked().await, "the page was loaded again");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_cancelled_from_its_page() {
    let site = Site::start().await;
    let run = site.api.submit(&job()).await.unwrap().id;
    in_browser(async |browser| {
        browser.sign_in(&site, KEY).await;
        browser.goto(&site.at(&format!("/runs/{run}"))).await;
        becomes(browser, "waiting").await;
        browser.mark().await;
        browser.press("[data-what='#act-cancel']").await;
        browser.press("#act-cancel button.danger").await;
        becomes(browser, "cancelled").await;
        assert!(browser.is_marked().await, "the page was loaded again");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_sees_no_action_and_is_refused() {
    let site = Site::start().await;
    let run = site.api.submit(&job()).await.unwrap().id;
    let key = site.key(&["read"]).await;
    in_browser(async |browser| {
        browser.sign_in(&site, &key.key).await;
        browser.goto(&site.at(&format!("/runs/{run}"))).await;
        becomes(browser, "waiting").await;
        assert!(!browser.has("[data-what='#act-cancel'], #act-cancel").await);
        let refused = format!(
            "const done = arguments[arguments.length - 1]; \
             fetch('/runs/{run}/cancel', {{ method: 'POST', headers: {{ accept: 'application/json' }}, \
                 body: new URLSearchParams({{ csrf: document.body.dataset.csrf }}) }}) \
             .then(async (answer) => done([answer.status, (await answer.json()).error]))"
        );
        let answer = browser.run_async(&refused).await;
        assert_eq!(answer[0], 403, "{answer}");
        assert!(answer[1].as_str().unwrap().contains("lacks the scope submit"), "{answer}");
        assert_eq!(state(browser).await, "waiting");
    })
    .await;
}
