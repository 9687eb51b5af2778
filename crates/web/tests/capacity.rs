//! Queues and workers, over the wire.

mod common;

use baton::proto::{Claim, RegisterWorker, SubmitRun};
use common::{ABSURD, Site, encoded};
use serde_json::json;

fn worker(name: &str, queue: &str, kind: &str) -> RegisterWorker {
    serde_json::from_value(json!({"name": name, "queues": [queue], "types": [kind], "max_concurrent": 4})).unwrap()
}

async fn submit(site: &Site, queue: &str, kind: &str) -> String {
    site.client.submit(&SubmitRun::new(queue, kind)).await.unwrap().id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_without_queues_and_workers_teach_how_to_make_some() {
    let site = Site::start().await;
    let session = site.administrator().await;
    for (path, words) in [("/queues", "There are no queues yet."), ("/workers", "No worker has said hello yet.")] {
        let page = site.get(&session, path).await;
        page.assert_harmless().assert_has(&[words, " worker run --queue mail"]);
        assert_eq!(page.body.matches("<h1").count(), 1, "{path}");
        assert!(!page.main().contains("style="), "{path}");
    }
    site.get(&session, "/queues/none").await.assert_has(&["Not here."]);
    site.get(&session, "/workers/none").await.assert_has(&["Not here."]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_type_that_nobody_serves_is_named() {
    let site = Site::start().await;
    let session = site.administrator().await;
    site.client.register(&worker("mail-1", "mail", "receipt")).await.unwrap();
    for kind in ["digest", "digest", "receipt"] {
        submit(&site, "mail", kind).await;
    }
    let list = site.get(&session, "/queues").await;
    list.assert_harmless().assert_has(&[
        "no worker for digest",
        "1 of 2",
        "1 queue",
        "Who serves what",
        "digest: nobody",
    ]);
    let one = site.get(&session, "/queues/mail").await;
    one.assert_has(&["No online worker serves the type", "2 runs of it wait", "The other types flow.", "mail-1"]);
    site.client.register(&worker("mail-2", "mail", "digest")).await.unwrap();
    site.get(&session, "/queues").await.assert_has(&["2 of 2", "flowing"]).assert_lacks(&["no worker for"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_is_paused_for_a_while_and_resumed() {
    let site = Site::start().await;
    let session = site.administrator().await;
    submit(&site, "mail", "digest").await;
    let paused = site.post(&session, "/queues/mail/pause", &[("for_ms", "900000")]).await;
    assert_eq!(paused.json()["said"], "mail is paused; what runs goes on.");
    site.get(&session, "/queues").await.assert_has(&["paused until", "aria-checked=\"false\""]);
    site.get(&session, "/queues/mail").await.assert_has(&["The queue is paused until", "Resume"]);
    let plain = site.post_plain(&session, "/queues/mail/resume", &[("next", "/queues/mail")]).await;
    assert_eq!((plain.status, plain.headers["location"].to_str().unwrap()), (303, "/queues/mail"));
    site.get(&session, "/queues").await.assert_lacks(&["paused"]);
    assert_eq!(site.post(&session, "/queues/mail/pause", &[("for_ms", "soon")]).await.status, 422);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_who_change_a_limit_the_second_is_told() {
    let site = Site::start().await;
    let session = site.administrator().await;
    submit(&site, "mail", "digest").await;
    let set = async |value: &str, seen: &str| {
        let fields = [("what", "key_limit"), ("value", value), ("seen", seen)];
        site.post(&session, "/queues/mail/limit", &fields).await
    };
    assert_eq!(set("2", "").await.json()["said"], "mail: at most 2 of each key.");
    let late = set("3", "").await;
    assert_eq!(late.status, 409, "{}", late.body);
    let why = late.json()["error"].as_str().unwrap().to_owned();
    assert!(why.contains("was faster and has set it to 2"), "{why}");
    assert_eq!(set("", "2").await.json()["said"], "mail: as many of each key as there are.");
    assert_eq!(set("two", "").await.status, 422);
    let backlog = [("what", "backlog_max"), ("value", "1,284"), ("seen", "1,000,000")];
    assert_eq!(site.post(&session, "/queues/mail/limit", &backlog).await.json()["said"], "mail: at most 1,284 wait.");
    site.get(&session, "/queues").await.assert_has(&["value=\"1,284\""]);
    let rate = [("what", "rate_per_second"), ("value", "0.5"), ("seen", "")];
    assert_eq!(site.post(&session, "/queues/mail/limit", &rate).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_queues_are_paged() {
    let site = Site::start().await;
    let session = site.administrator().await;
    for number in 0..101 {
        let name = format!("queue-{number:03}");
        let pause = serde_json::from_value(json!({})).unwrap();
        site.client.pause_queue("default", &name, &pause).await.unwrap();
    }
    let first = site.get(&session, "/queues").await;
    first.assert_has(&["101 queues", "queue-099", "Next page"]).assert_lacks(&["queue-100"]);
    let next = first.body.split("rel=\"next\"").next().unwrap().rsplit("href=\"").next().unwrap();
    let next = next.split('"').next().unwrap().replace("&amp;", "&");
    site.get(&session, &next).await.assert_has(&["queue-100", "First page"]).assert_lacks(&["queue-099"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_in_trouble_come_first() {
    let site = Site::start().await;
    let session = site.administrator().await;
    let silent = site.client.register(&worker("quiet", "mail", "digest")).await.unwrap().worker_id;
    submit(&site, "mail", "digest").await;
    let claim: Claim = serde_json::from_value(json!({"queue": "mail", "claim_no": 1, "max": 1})).unwrap();
    assert_eq!(site.client.claim(&silent, &claim).await.unwrap().runs.len(), 1);
    site.clock.advance(11_000);
    site.client.register(&worker("awake", "mail", "digest")).await.unwrap();
    let list = site.get(&session, "/workers").await;
    list.assert_harmless().assert_has(&["All 2", "Silent 1", "Online 1", "1 of 4", "mail: digest"]);
    assert!(list.body.find("quiet").unwrap() < list.body.find("awake").unwrap());
    site.get(&session, "/workers?state=online").await.assert_lacks(&["quiet"]).assert_has(&["awake"]);
    site.get(&session, "/workers?find=QUI").await.assert_lacks(&["awake"]).assert_has(&["quiet"]);
    let page = site.get(&session, &format!("/workers/{silent}")).await;
    page.assert_has(&["Silent for", "1 run", "Leases now", "digest", "Take offline"]);
    assert_eq!(site.post(&session, &format!("/workers/{silent}/offline"), &[("sure", "1")]).await.status, 200);
    site.get(&session, "/workers").await.assert_has(&["Offline, last 24 h", "Offline 1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_asks_first_with_the_number_of_runs() {
    let site = Site::start().await;
    let session = site.administrator().await;
    let id = site.client.register(&worker("mail-1", "mail", "digest")).await.unwrap().worker_id;
    let asked = site.post(&session, &format!("/workers/{id}/drain"), &[]).await;
    let html = asked.json()["html"].as_str().unwrap().to_owned();
    assert!(html.starts_with("<dialog") && html.contains("0 runs") && !html.contains('\u{1}'), "{html}");
    site.post_plain(&session, &format!("/workers/{id}/drain"), &[]).await.assert_has(&["Drain this worker?", "0 runs"]);
    assert_eq!(site.client.worker(&id).await.unwrap().status, "ONLINE", "nothing was done yet");
    let drained = site.post(&session, &format!("/workers/{id}/drain"), &[("sure", "1")]).await;
    assert_eq!(drained.json()["said"], "mail-1 drains; it holds 0 runs.");
    site.get(&session, "/workers").await.assert_has(&["draining"]).assert_lacks(&["Drain…"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_only_read_sees_no_action_and_is_refused() {
    let site = Site::start().await;
    let id = site.client.register(&worker("mail-1", "mail", "digest")).await.unwrap().worker_id;
    submit(&site, "mail", "digest").await;
    let reader = site.visitor(&["read"], None).await;
    for path in ["/queues", "/queues/mail", "/workers", &format!("/workers/{id}")] {
        let page = site.get(&reader, path).await;
        page.assert_lacks(&["<form method=\"post\"", "Pause", "Drain…", "Take offline", "switch", "class=\"edit\""]);
    }
    let limit = [("what", "key_limit"), ("value", "1"), ("seen", "")];
    let forms: [(&str, &[(&str, &str)]); 5] = [
        ("/queues/mail/pause", &[]),
        ("/queues/mail/resume", &[]),
        ("/queues/mail/limit", &limit),
        (&format!("/workers/{id}/drain"), &[("sure", "1")]),
        (&format!("/workers/{id}/offline"), &[("sure", "1")]),
    ];
    for (path, fields) in forms {
        assert_eq!(site.post(&reader, path, fields).await.status, 403, "{path}");
    }
    let stranger = site.administrator().await.without_csrf();
    assert_eq!(site.post(&stranger, "/queues/mail/pause", &[]).await.status, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_of_another_namespace_is_not_shown() {
    let site = Site::start().await;
    let id = site.client.register(&worker("mail-1", "mail", "digest")).await.unwrap().worker_id;
    submit(&site, "mail", "digest").await;
    let other = site.visitor(&["admin"], Some("other")).await;
    site.get(&other, "/queues").await.assert_lacks(&["/queues/mail"]);
    site.get(&other, "/workers").await.assert_lacks(&["mail-1"]);
    site.get(&other, &format!("/workers/{id}")).await.assert_has(&["Not here."]).assert_lacks(&["mail-1"]);
    site.get(&other, "/queues/mail").await.assert_has(&["Not here."]);
    site.get(&other, "/queues?ns=default").await.assert_has(&["Not allowed"]);
    assert_eq!(site.post(&other, "/queues/mail/pause", &[("ns", "default")]).await.status, 403);
    assert_eq!(site.post(&other, &format!("/workers/{id}/drain"), &[("sure", "1")]).await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn absurd_names_are_text() {
    let site = Site::start().await;
    let session = site.administrator().await;
    let long = "x".repeat(199);
    let names = ABSURD.iter().copied().filter(|name| !name.contains('\u{7}')).chain([long.as_str(), "a/b c"]);
    for name in names {
        let registered = site.client.register(&worker(name, name, name)).await.unwrap();
        submit(&site, name, &format!("{name}!")).await;
        site.get(&session, &format!("/workers/{}", registered.worker_id)).await.assert_harmless();
        let one = site.get(&session, &format!("/queues/{}", encoded(name))).await;
        one.assert_harmless().assert_has(&["No online worker serves the type"]);
        let set = [("what", "key_limit"), ("value", "7"), ("seen", "")];
        assert_eq!(site.post(&session, &format!("/queues/{}/limit", encoded(name)), &set).await.status, 200);
    }
    for path in ["/queues", "/workers", "/"] {
        site.get(&session, path).await.assert_harmless();
    }
}
