//! Health, numbers for everybody, reports of builders.

use serde_json::json;

use crate::harness::{On, Server, on_both};

on_both!(numbers_are_true_and_need_no_key, reports_are_kept_by_day);

async fn numbers_are_true_and_need_no_key(on: On) {
    let server = Server::start(on).await;
    server.held_build().await;
    // Asked before, so that an old answer would be noticed.
    assert_eq!(server.get_with("/health", &[]).await.json()["queue"], json!({"pending": 0, "active": 1}));
    server.submit_build().await;
    for path in ["/health", "/api/health"] {
        let health = server.get_with(path, &[]).await.json();
        assert_eq!(
            (health["status"].clone(), health["queue"].clone()),
            (json!("ok"), json!({"pending": 1, "active": 1}))
        );
        assert_eq!(health["storage"], "directory");
    }
    for path in ["/api/stats", "/public/stats"] {
        let expected =
            json!({"nodesOnline": 1, "buildsQueued": 1, "activeBuilds": 1, "buildsToday": 2, "totalBuilds": 2});
        assert_eq!(server.get_with(path, &[]).await.json(), expected);
    }
}

async fn reports_are_kept_by_day(on: On) {
    let server = Server::start(on).await;
    let report = async |word: &str| {
        let body = json!({"worker_id": "../mac", "disk": word}).to_string();
        server.call("POST", "/api/diagnostics/report", body).await.status
    };
    assert_eq!((report("full").await, report("empty").await), (200, 200));
    server.clock.advance(24 * 3_600_000);
    assert_eq!(report("new").await, 200);
    let all = server.call("GET", "/api/diagnostics/..%2Fmac", "").await.json();
    let disks: Vec<_> = all["reports"].as_array().unwrap().iter().map(|one| one["disk"].clone()).collect();
    assert_eq!(disks, [json!("new"), json!("empty")], "newest first");
    assert_eq!(all["worker_id"], "../mac");
    let latest = server.call("GET", "/api/diagnostics/..%2Fmac/latest", "").await.json();
    assert_eq!((latest["disk"].clone(), latest["worker_id"].clone()), (json!("new"), json!("../mac")));
    let one = server.call("GET", "/api/diagnostics/..%2Fmac?limit=1", "").await.json();
    assert_eq!(one["reports"], json!([latest]));
    assert_eq!(server.call("GET", "/api/diagnostics/nobody/latest", "").await.refusal(), "404 not_found");
    assert_eq!(server.call("POST", "/api/diagnostics/report", "{}").await.refusal(), "422 invalid");
}
