//! Keys, namespaces, audit, settings and webhooks, over the wire.

mod common;

use common::{ABSURD, Site, encoded};

const PAGES: [&str; 6] = ["/keys", "/namespaces", "/namespaces/choose", "/audit", "/settings", "/webhooks"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_is_there_before_anything_was_made() {
    let site = Site::start().await;
    let session = site.administrator().await;
    for path in PAGES {
        let page = site.get(&session, path).await;
        page.assert_harmless();
        assert_eq!(page.body.matches("<h1").count(), 1, "{path}");
        assert_eq!(page.headers["cache-control"], "no-store", "{path}");
        assert!(!page.main().contains("style=") && !page.main().contains("onclick"), "{path}");
    }
    site.get(&session, "/webhooks").await.assert_has(&["baton webhook create", " --url http://127.0.0.1:"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_made_shown_once_and_revoked() {
    let site = Site::start().await;
    let session = site.administrator().await;
    site.get(&session, "/form/keys/new").await.assert_has(&["name=\"scopes\"", "<main"]);
    assert!(
        site.get_scripted(&session, "/form/keys/new").await.json()["html"].as_str().unwrap().starts_with("<dialog")
    );
    let fields = [("name", "shop"), ("scopes", "submit"), ("scopes", "worker"), ("days", "30")];
    let made = site.post(&session, "/form/keys/new", &fields).await;
    let html = made.json()["html"].as_str().unwrap().to_owned();
    assert!(html.contains("data-stays") && html.contains("bk_"), "{html}");
    assert_eq!(made.headers["cache-control"], "no-store");
    let secret = html.split("bk_").nth(1).unwrap().split('<').next().unwrap().to_owned();
    let list = site.get(&session, "/keys").await;
    list.assert_has(&["shop", "submit", "worker", "never"]).assert_lacks(&[&secret]);
    let id = site.client.keys().await.unwrap().keys.into_iter().find(|key| key.name == "shop").unwrap().id;
    site.get(&session, &format!("/form/keys/{id}/revoke")).await.assert_has(&["shop", "Revoke it"]);
    let done = site.post(&session, &format!("/form/keys/{id}/revoke"), &[]).await;
    assert_eq!(done.status, 200, "{}", done.body);
    site.get(&session, "/keys?state=revoked").await.assert_has(&["shop", "revoked"]);
    site.get(&session, "/keys?state=good").await.assert_lacks(&[">shop<"]);
    site.get(&session, "/audit?what=key.revoke").await.assert_has(&["shop", &id]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_script_a_key_is_shown_on_a_page_that_is_not_kept() {
    let site = Site::start().await;
    let session = site.administrator().await;
    let made =
        site.post_plain(&session, "/form/keys/new", &[("name", "plain"), ("scopes", "read"), ("days", "0")]).await;
    made.assert_has(&["bk_", "not shown again"]);
    assert_eq!((made.status, made.headers["cache-control"].to_str().unwrap()), (200, "no-store"));
    let wrong = site.post(&session, "/form/keys/new", &[("name", "x")]).await;
    assert_eq!((wrong.status, wrong.json()["field"].as_str()), (422, Some("scopes")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_administrators_are_refused_to_others() {
    let site = Site::start().await;
    let reader = site.visitor(&["read"], None).await;
    for path in ["/keys", "/audit", "/settings"] {
        site.get(&reader, path).await.assert_has(&["Not allowed"]);
    }
    site.get(&reader, "/namespaces").await.assert_lacks(&["New namespace", "Disable"]);
    site.get(&reader, "/webhooks").await.assert_lacks(&["New webhook"]);
    let forms =
        ["keys/new", "namespaces/new", "namespaces/default/disable", "settings/backlog_max/edit", "webhooks/new"];
    for form in forms {
        let fields = [("name", "x"), ("scopes", "read"), ("value", "1"), ("url", "https://a.example")];
        let refused = site.post(&reader, &format!("/form/{form}"), &fields).await;
        assert_eq!(refused.status, 403, "{form}: {}", refused.body);
    }
    let administrator = site.administrator().await.without_csrf();
    assert_eq!(site.post(&administrator, "/form/keys/new", &[("name", "x"), ("scopes", "read")]).await.status, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_administrator_of_one_namespace_sees_nothing_of_others() {
    let site = Site::start().await;
    site.key(&["read"], Some("foreign")).await;
    let own = site.visitor(&["admin"], Some("own")).await;
    site.get(&own, "/keys").await.assert_has(&["this key"]).assert_lacks(&["foreign"]);
    site.get(&own, "/namespaces").await.assert_lacks(&["foreign"]);
    for path in ["/audit", "/settings"] {
        site.get(&own, path).await.assert_has(&["Not allowed"]);
    }
    let foreign =
        site.client.keys().await.unwrap().keys.into_iter().find(|key| key.namespace.as_deref() == Some("foreign"));
    let revoked = site.post(&own, &format!("/form/keys/{}/revoke", foreign.unwrap().id), &[]).await;
    assert_eq!(revoked.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_is_made_limited_disabled_and_enabled() {
    let site = Site::start().await;
    let session = site.administrator().await;
    let made = site.post(&session, "/form/namespaces/new", &[("name", "team a"), ("live_runs_max", "1,000")]).await;
    assert_eq!(made.status, 200, "{}", made.body);
    site.get(&session, "/namespaces").await.assert_has(&["team a", " of 1,000"]);
    site.get(&session, "/namespaces/choose?q=TEAM").await.assert_has(&["/?ns=team%20a"]).assert_lacks(&[">default<"]);
    let wrong = site.post(&session, "/form/namespaces/team%20a/edit", &[("workers_max", "many")]).await;
    assert_eq!((wrong.status, wrong.json()["field"].as_str()), (422, Some("workers_max")));
    assert_eq!(site.post(&session, "/form/namespaces/team%20a/edit", &[("description", "of A")]).await.status, 200);
    site.get(&session, "/namespaces").await.assert_has(&["of A"]).assert_lacks(&[" of 1,000"]);
    site.get(&session, "/form/namespaces/team%20a/disable").await.assert_has(&["0 runs have not ended"]);
    assert_eq!(site.post(&session, "/form/namespaces/team%20a/disable", &[("reason", "moving")]).await.status, 200);
    site.get(&session, "/namespaces").await.assert_has(&["disabled", "moving"]);
    assert_eq!(site.post_plain(&session, "/form/namespaces/team%20a/enable", &[]).await.status, 303);
    site.get(&session, "/namespaces").await.assert_lacks(&["moving"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_changed_in_place_and_secrets_are_not_shown() {
    let site = Site::with(|settings| settings.metrics_key = Some("a-secret-key-of-the-metrics".into())).await;
    let session = site.administrator().await;
    let page = site.get(&session, "/settings").await;
    page.assert_has(&["metrics_key", "***", "lease_ttl_ms", "How long a worker"]);
    page.assert_lacks(&["a-secret-key-of-the-metrics", common::KEY]);
    let wrong = site.post(&session, "/form/settings/lease_ttl_ms/edit", &[("value", "soon")]).await;
    assert_eq!((wrong.status, wrong.json()["field"].as_str()), (422, Some("value")));
    let refused = site.post(&session, "/form/settings/lease_ttl_ms/edit", &[("value", "1ms")]).await;
    assert_eq!(refused.json()["field"].as_str(), Some("value"), "{}", refused.body);
    assert_eq!(site.post(&session, "/form/settings/lease_ttl_ms/edit", &[("value", "30s")]).await.status, 200);
    site.get(&session, "/settings?kind=set").await.assert_has(&["30000", "changed"]);
    assert_eq!(site.post(&session, "/form/settings/listen/edit", &[("value", "x")]).await.status, 404);
    assert_eq!(site.post(&session, "/form/settings/lease_ttl_ms/reset", &[]).await.status, 200);
    site.get(&session, "/settings?kind=set").await.assert_lacks(&["30000"]);
    site.get(&session, "/audit?what=setting").await.assert_has(&["setting.set", "setting.reset"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_is_made_paused_tested_and_removed() {
    let site = Site::with(|settings| settings.webhook_allow = "127.0.0.1".into()).await;
    let session = site.administrator().await;
    let fields = [("name", "ci"), ("url", "http://127.0.0.1:9/hook"), ("kinds", "run.ended, worker")];
    let made = site.post(&session, "/form/webhooks/new", &fields).await;
    assert!(made.json()["html"].as_str().is_some_and(|html| html.contains("whsec_")), "{}", made.body);
    let wrong =
        site.post(&session, "/form/webhooks/new", &[("name", "b"), ("url", fields[1].1), ("kinds", "no.such")]).await;
    assert_eq!(wrong.json()["field"].as_str(), Some("kinds"), "{}", wrong.body);
    let list = site.get(&session, "/webhooks").await;
    list.assert_has(&["ci", "run.ended", "active"]).assert_lacks(&["whsec_"]);
    let id = list.body.split("href=\"/webhooks/").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let tested = site.post(&session, &format!("/form/webhooks/{id}/test"), &[]).await;
    assert_eq!(tested.status, 409, "{}", tested.body);
    assert_eq!(site.post(&session, &format!("/form/webhooks/{id}/pause"), &[]).await.status, 200);
    site.get(&session, &format!("/webhooks/{id}")).await.assert_has(&["paused", "Resume", "Deliveries"]);
    let reader = site.visitor(&["read"], None).await;
    site.get(&reader, &format!("/webhooks/{id}")).await.assert_lacks(&["/hook", "Deliveries", "Resume"]);
    assert_eq!(
        site.post(&session, &format!("/form/webhooks/{id}/edit"), &[("url", fields[1].1), ("kinds", "")]).await.status,
        200
    );
    site.get(&session, "/webhooks").await.assert_has(&["every event"]);
    assert_eq!(site.post(&session, &format!("/form/webhooks/{id}/remove"), &[]).await.status, 200);
    site.get(&session, "/webhooks").await.assert_has(&["No webhook yet."]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn absurd_names_are_text() {
    let site = Site::start().await;
    let session = site.administrator().await;
    let long = "x".repeat(200);
    for name in ABSURD.into_iter().chain([long.as_str()]) {
        site.post(&session, "/form/keys/new", &[("name", name), ("scopes", "read"), ("days", "0")]).await;
        site.post(&session, "/form/namespaces/new", &[("name", name), ("description", name)]).await;
        site.post(&session, "/form/namespaces/default/disable", &[("reason", name)]).await;
    }
    for path in PAGES {
        site.get(&session, path).await.assert_harmless();
    }
    for word in ABSURD {
        let word = encoded(word);
        for path in [
            format!("/keys?q={word}"),
            format!("/audit?q={word}&who={word}&what={word}"),
            format!("/settings?q={word}"),
        ] {
            site.get(&session, &path).await.assert_harmless();
        }
        site.get(&session, &format!("/keys?ns={word}")).await.assert_harmless();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_audit_log_is_read_page_by_page() {
    let site = Site::start().await;
    let session = site.administrator().await;
    for number in 0..130 {
        site.post(&session, "/form/namespaces/default/disable", &[("reason", &format!("reason-{number:03}"))]).await;
    }
    let first = site.get(&session, "/audit?what=namespace.disable").await;
    first.assert_has(&["reason-129", "reason-030", "Next page"]).assert_lacks(&["reason-029"]);
    let next = first.main().split("rel=\"next\"").next().unwrap().rsplit("href=\"").next().unwrap();
    let next = next.split('"').next().unwrap().replace("&amp;", "&");
    let second = site.get(&session, &next).await;
    second.assert_has(&["reason-029", "reason-000", "First page"]).assert_lacks(&["Next page", "reason-030"]);
    site.get(&session, "/audit?q=REASON-077").await.assert_has(&["reason-077"]).assert_lacks(&["reason-076"]);
    site.get(&session, "/audit?who=nobody").await.assert_has(&["No line is like this."]);
    site.clock.advance(8 * 86_400_000);
    let session = site.administrator().await;
    site.get(&session, "/audit?since=7d&what=namespace").await.assert_has(&["No line is like this."]);
}
