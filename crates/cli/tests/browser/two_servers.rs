//! Two servers on one database: the page is on one, the work on the other.

use baton::Client;
use baton::proto::{Claim, CompleteRun, RegisterWorker, SubmitRun};
use baton_testkit::Baton;
use serde_json::json;

use crate::rig::{KEY, Site, in_browser, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_page_shows_what_another_server_does() {
    let database = baton_testkit::database().await;
    let site = Site::with(&[("BATON_DATABASE_URL", database.url())]).await;
    let home = tempfile::tempdir().unwrap();
    let (master_key, artifacts) = (site.home.path().join("master.key"), site.home.path().join("artifacts"));
    let settings = [
        ("BATON_API_KEY", KEY),
        ("BATON_DATABASE_URL", database.url()),
        ("BATON_MASTER_KEY_FILE", text(&master_key)),
        ("BATON_STORAGE_URL", text(&artifacts)),
    ];
    let other = Baton::serve(&["--data", text(home.path())], &settings).await;
    let there = Client::new(&other.url(), KEY).unwrap();
    in_browser(async |browser| {
        browser.sign_in(&site, KEY).await;
        browser.goto(&site.at("/runs")).await;
        browser.mark().await;
        let run = there.submit(&SubmitRun::new("work", "elsewhere")).await.unwrap().id;
        browser.reads("elsewhere").await;
        browser.reads("waiting").await;
        let worker = json!({"name": "worker-there", "queues": ["work"], "types": ["elsewhere"], "max_concurrent": 1});
        let worker: RegisterWorker = serde_json::from_value(worker).unwrap();
        let worker = there.register(&worker).await.unwrap().worker_id;
        let claim = Claim { claim_no: Some(1), start: true, ..Claim::default() };
        let claimed = there.claim(&worker, &claim).await.unwrap().runs.pop().unwrap();
        browser.reads("worker-there").await;
        let end = CompleteRun { run_id: None, lease: claimed.lease, output: None };
        there.complete(&run, &end).await.unwrap();
        browser.reads("completed").await;
        assert!(browser.is_marked().await, "the page was loaded again");
    })
    .await;
}
