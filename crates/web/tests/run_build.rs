//! The page of a build, over the wire: its log above all.

mod common;

use baton::proto::{Claim, RegisterWorker};
use baton_core::RunId;
use baton_store::{BuildSource, Due, LaneName, LeaseRef, LogLine, NewBuild, NewRun};
use common::{ABSURD, Session, Site};
use serde_json::json;

/// Room for logs.
const ROOM: u64 = 1 << 20;

/// A build from a repository that waits.
async fn build(site: &Site, project: &str) -> RunId {
    let name = LaneName { namespace: "default".into(), queue: "builds".into(), kind: "linux".into() };
    let lane = site.app.lanes.get(vec![name]).await.unwrap()[0];
    let run = NewRun {
        lane,
        priority: 5,
        due: Due::Now,
        key: Some(project.into()),
        affinity: None,
        idempotency: None,
        options: None,
        retry_of: None,
        trace: None,
        input: "{}".into(),
    };
    let build = NewBuild {
        namespace: "default".into(),
        platform: "linux".into(),
        project: Some(project.into()),
        key_id: None,
        source: BuildSource::Git {
            slug: "shop".into(),
            version: "1.0".into(),
            url: "https://example.com/shop.git".into(),
            reference: "main".into(),
            image: "rust".into(),
        },
        base_image: None,
    };
    site.app.store.submit_build(run, 7, build, None).await.unwrap().unwrap().run
}

/// Gives the build that waits to a worker.
async fn claimed(site: &Site, name: &str) -> LeaseRef {
    let worker = json!({ "name": name, "queues": ["builds"], "types": ["linux"], "max_concurrent": 4 });
    let worker: RegisterWorker = serde_json::from_value(worker).unwrap();
    let worker = site.client.register(&worker).await.unwrap().worker_id;
    let claim: Claim = serde_json::from_value(json!({ "start": true, "claim_no": 1 })).unwrap();
    let claimed = site.client.claim(&worker, &claim).await.unwrap().runs.pop().expect("nothing to claim");
    let run: RunId = claimed.run_id.parse().unwrap();
    LeaseRef { run, epoch: site.app.store.run(run).await.unwrap().unwrap().epoch }
}

async fn say(site: &Site, lease: LeaseRef, lines: impl IntoIterator<Item = String>) {
    let line = |message| LogLine { level: "info".into(), message, at: None };
    let lines = lines.into_iter().map(line).collect();
    site.app.store.add_logs(lease.run, Some(lease), None, lines, ROOM).await.unwrap();
}

async fn page(site: &Site, session: &Session, run: RunId, query: &str) -> String {
    let answer = site.get(session, &format!("/runs/{run}{query}")).await;
    answer.assert_harmless();
    answer.main().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_is_shown_in_windows_and_searched() {
    let site = Site::start().await;
    let session = site.administrator().await;
    let run = build(&site, "payments").await;
    let waiting = page(&site, &session, run, "").await;
    for part in ["Nothing was said yet.", "https://example.com/shop.git", "None yet.", "payments"] {
        assert!(waiting.contains(part), "{part} is not in {waiting}");
    }
    let lease = claimed(&site, "linux-1").await;
    site.clock.advance(5_000);
    say(&site, lease, (1..=2_000).map(|line| format!("line {line}"))).await;
    say(&site, lease, ["a Refund".into(), "error: it broke".into(), "again a refund".into()]).await;
    let end = page(&site, &session, run, "").await;
    assert!(end.contains("id=\"L2003\"") && end.contains("id=\"L1604\"") && !end.contains("id=\"L1603\""), "{end}");
    assert!(end.contains("1,603 earlier lines") && end.contains("2,003 lines") && end.contains("build e1"), "{end}");
    let window = page(&site, &session, run, "?log=500-502").await;
    assert!(window.contains("<li id=\"L500\" class=\"on\">") && window.contains("<li id=\"L502\" class=\"on\">"));
    assert!(window.contains("id=\"L440\"") && !window.contains("id=\"L439\"") && window.contains("later lines"));
    let first = page(&site, &session, run, "?line=1").await;
    assert!(first.contains("id=\"L1\"") && first.contains("1,603 later lines"), "{first}");
    let found = page(&site, &session, run, "?find=refund").await;
    assert!(found.contains("1 of 2") && found.contains("<mark class=\"cur\">Refund</mark>"), "{found}");
    assert!(found.contains("?find=refund&amp;log=2003#L2003"), "{found}");
    let error = page(&site, &session, run, "?log=error").await;
    assert!(error.contains("<li id=\"L2002\" class=\"on\">"), "{error}");
    let nothing = page(&site, &session, run, "?find=%3Cscript%3E").await;
    assert!(nothing.contains("nothing"), "{nothing}");
    let more = site.get(&session, &format!("/runs/{run}/log?after=1995")).await;
    assert_eq!(more.headers["x-log-last"], "2003");
    assert!(more.body.starts_with("<li id=\"L1996\">") && more.body.matches("<li").count() == 8, "{}", more.body);
    say(&site, lease, ["found later: refund".into()]).await;
    assert!(page(&site, &session, run, "?find=refund").await.contains("1 of 3"), "a search goes on where it was");
    let raw = site.get(&session, &format!("/runs/{run}/log.txt")).await;
    assert!(raw.body.starts_with("line 1\nline 2\n") && raw.body.lines().count() == 2_004);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_is_a_line_across_the_log() {
    let site = Site::start().await;
    let session = site.administrator().await;
    let run = build(&site, "payments").await;
    let lease = claimed(&site, "linux-1").await;
    say(&site, lease, ["by the first".into()]).await;
    site.clock.advance(1_000);
    site.app.store.give_back(vec![(lease, "it goes away".into())]).await.unwrap();
    site.clock.advance(14_900);
    let lease = claimed(&site, "linux-2").await;
    assert_eq!(lease.run, run);
    say(&site, lease, ["by the second".into()]).await;
    let log = page(&site, &session, run, "").await;
    let words = ["linux-1 gave it back. ", "<b>linux-2</b> took over with epoch 2", "15 s later", "class=\"hand\""];
    for part in words {
        assert!(log.contains(part), "{part} is not in {log}");
    }
    assert!(log.contains("<li id=\"L1\" class=\"earlier\">") && log.contains("<li id=\"L2\">"), "{log}");
    let (one, hand, two) = (log.find("id=\"L1\""), log.find("class=\"hand\""), log.find("id=\"L2\""));
    assert!(one < hand && hand < two);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_programs_print_stays_text() {
    let site = Site::start().await;
    let session = site.administrator().await;
    let run = build(&site, ABSURD[0]).await;
    let lease = claimed(&site, ABSURD[1]).await;
    let absurd = ABSURD.iter().map(|text| (*text).to_owned());
    let long = "w".repeat(100_000);
    let sections = ["::group::build <b>".into(), "inside".into(), "::endgroup::".into(), "outside".into(), long];
    say(&site, lease, absurd.chain(sections)).await;
    let log = page(&site, &session, run, "?find=script").await;
    assert!(log.contains("<summary class=\"sec\">build &lt;b&gt;"), "{log}");
    assert!(log.contains("<span class=\"e\">red</span>") && log.contains("96,000 more characters"), "{log}");
    assert!(log.len() < 60_000, "{} bytes", log.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_of_another_namespace_is_not_there() {
    let site = Site::start().await;
    let run = build(&site, "payments").await;
    let other = site.visitor(&["admin"], Some("other")).await;
    for path in ["log", "log.txt", "file/source", "file/result", "rows"] {
        assert_eq!(site.get(&other, &format!("/runs/{run}/{path}")).await.status, 404, "{path}");
    }
}
