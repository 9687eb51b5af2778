//! Schedules, over the wire.

mod common;

use baton_core::Millis;
use common::{ABSURD, START, Session, Site, encoded, eventually};

const MINUTE: Millis = 60_000;

async fn made(site: &Site, session: &Session, id: &str, cron: &str) {
    let fields = [("id", id), ("cron", cron), ("time_zone", "UTC"), ("type", "report"), ("queue", "default")];
    let made = site.post(session, "/form/schedules/new", &fields).await;
    assert_eq!(made.status, 200, "{}", made.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_is_made_changed_paused_run_and_removed() {
    let site = Site::start().await;
    let session = site.administrator().await;
    site.get(&session, "/schedules").await.assert_has(&[
        "No schedule yet.",
        "schedule create nightly",
        "--url http://127.0.0.1:",
    ]);
    made(&site, &session, "nightly", "0 3 * * 1-5").await;
    let list = site.get(&session, "/schedules").await;
    list.assert_harmless().assert_has(&["At 03:00, on Monday to Friday", "/schedules/nightly", "Week", "report"]);
    let page = site.get(&session, "/schedules/nightly").await;
    page.assert_harmless().assert_has(&["It has not fired yet.", "start beside it", "Make up for fires"]);
    let edit = [
        ("cron", "@hourly"),
        ("time_zone", "Europe/Berlin"),
        ("type", "report"),
        ("queue", "q"),
        ("overlap", "skip"),
        ("jitter_ms", "30s"),
        ("input", "{\"a\":1}"),
        ("note", "a note"),
    ];
    let changed = site.post(&session, "/form/schedules/nightly/edit", &edit).await;
    assert_eq!(changed.status, 200, "{}", changed.body);
    site.get(&session, "/schedules/nightly").await.assert_has(&["Every hour", "leave it out", "a note", "30 s"]);
    for (field, value, wrong) in [
        ("cron", "61 * * * *", "cron"),
        ("input", "{", "input"),
        ("jitter_ms", "soon", "jitter_ms"),
        ("time_zone", "Moon", "time_zone"),
    ] {
        let fields: Vec<_> =
            edit.iter().map(|(name, known)| (*name, if *name == field { value } else { *known })).collect();
        let refused = site.post(&session, "/form/schedules/nightly/edit", &fields).await;
        assert_eq!((refused.status, refused.json()["field"].as_str()), (422, Some(wrong)), "{}", refused.body);
    }
    assert_eq!(site.post(&session, "/form/schedules/nightly/pause", &[]).await.status, 200);
    site.get(&session, "/schedules").await.assert_has(&["paused", "Resume"]);
    assert_eq!(site.post(&session, "/form/schedules/nightly/resume", &[]).await.status, 200);
    for _ in 0..2 {
        assert_eq!(site.post(&session, "/form/schedules/nightly/run", &[("key", "once")]).await.status, 200);
    }
    let page = site.get(&session, "/schedules/nightly").await;
    page.assert_has(&["by hand", "/runs/", "1 started"]);
    assert_eq!(site.post(&session, "/form/schedules/nightly/remove", &[]).await.status, 200);
    site.get(&session, "/schedules/nightly").await.assert_has(&["No such schedule"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_is_explained_while_it_is_typed() {
    let site = Site::start().await;
    let session = site.administrator().await;
    let told =
        site.get(&session, &format!("/form/schedules/preview?cron={}&time_zone=UTC", encoded("*/15 9-17 * * *"))).await;
    told.assert_has(&["Every 15 minutes from 09:00 to 17:59", "Next: "]);
    assert!(!told.body.contains("<html"));
    let wrong = site.get(&session, "/form/schedules/preview?cron=%3Cscript%3Ealert(1)&time_zone=UTC").await;
    wrong.assert_harmless().assert_has(&["fields"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fires_are_made_up_for_after_they_were_counted() {
    let site = Site::start().await;
    let session = site.administrator().await;
    made(&site, &session, "often", "* * * * *").await;
    site.post(&session, "/form/schedules/often/pause", &[]).await;
    let (from, to) = ((START - 3 * MINUTE).to_string(), (START - MINUTE).to_string());
    let counted = site.post(&session, "/form/schedules/often/backfill", &[("from", &from), ("to", &to)]).await;
    let html = counted.json()["html"].as_str().unwrap().to_owned();
    assert!(html.contains("Make up for 2 fires?") && html.contains("name=\"sure\""), "{html}");
    site.get(&session, "/schedules/often").await.assert_has(&["It has not fired yet."]);
    let done =
        site.post(&session, "/form/schedules/often/backfill", &[("from", &from), ("to", &to), ("sure", "1")]).await;
    assert!(done.json()["said"].as_str().unwrap().contains("2 runs are submitted"), "{}", done.body);
    site.get(&session, "/schedules/often").await.assert_has(&["made up for", "2 started"]);
    // Many have to be typed.
    let from = (START - 200 * MINUTE).to_string();
    let fields = [("from", from.as_str()), ("to", to.as_str()), ("sure", "1")];
    let many = site.post(&session, "/form/schedules/often/backfill", &fields).await;
    assert!(many.json()["html"].as_str().unwrap().contains("data-type-this=\"199\""), "{}", many.body);
    let local = site
        .post(
            &session,
            "/form/schedules/often/backfill",
            &[("from", "2023-11-14T22:00"), ("to", "2023-11-14T22:05"), ("zone", "UTC")],
        )
        .await;
    assert!(local.json()["html"].as_str().unwrap().contains("6 fires"), "{}", local.body);
    let future =
        site.post(&session, "/form/schedules/often/backfill", &[("from", &to), ("to", "2030-01-01T00:00")]).await;
    assert_eq!(future.json()["field"].as_str(), Some("to"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_became_of_fires_is_shown_as_bars_and_in_the_week() {
    let site = Site::start().await;
    let session = site.administrator().await;
    made(&site, &session, "minutely", "* * * * *").await;
    site.clock.advance(3 * MINUTE);
    eventually("it has fired", async || site.get(&session, "/schedules/minutely").await.body.contains("3 started"))
        .await;
    let list = site.get(&session, "/schedules").await;
    list.assert_has(&["class=\"live\"", "3 fires: 0 completed", " ×"]);
    site.get(&session, "/schedules?week=-1").await.assert_has(&["nothing"]);
    site.get(&session, "/schedules?week=99999999999999").await.assert_harmless();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_no_action_and_others_see_nothing() {
    let site = Site::start().await;
    let session = site.administrator().await;
    made(&site, &session, "nightly", "0 3 * * *").await;
    let reader = site.visitor(&["read"], None).await;
    for path in ["/schedules", "/schedules/nightly"] {
        site.get(&reader, path).await.assert_harmless().assert_lacks(&["/form/schedules", "Run now", "Pause"]);
    }
    for verb in ["edit", "pause", "resume", "run", "backfill", "remove"] {
        let fields = [("from", "1"), ("to", "2"), ("type", "x"), ("cron", "* * * * *")];
        let refused = site.post(&reader, &format!("/form/schedules/nightly/{verb}"), &fields).await;
        assert_eq!(refused.status, 403, "{verb}: {}", refused.body);
    }
    let foreign = site.visitor(&["admin"], Some("elsewhere")).await;
    site.get(&foreign, "/schedules").await.assert_lacks(&["nightly\""]);
    site.get(&foreign, "/schedules/nightly").await.assert_has(&["No such schedule"]);
    site.get(&foreign, "/schedules/nightly?ns=default").await.assert_lacks(&["03:00"]);
    assert_eq!(site.post(&foreign, "/form/schedules/nightly/pause", &[("ns", "default")]).await.status, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn absurd_names_are_text() {
    let site = Site::start().await;
    let session = site.administrator().await;
    let long = "x".repeat(200);
    for name in ABSURD.into_iter().chain([long.as_str()]) {
        let fields = [
            ("id", name),
            ("cron", "0 3 * * *"),
            ("time_zone", "UTC"),
            ("type", name),
            ("queue", name),
            ("note", name),
        ];
        site.post(&session, "/form/schedules/new", &fields).await;
        site.get(&session, &format!("/schedules/{}", encoded(name))).await.assert_text();
        site.get(&session, &format!("/form/schedules/{}/edit", encoded(name))).await;
    }
    site.get(&session, "/schedules").await.assert_harmless();
}
