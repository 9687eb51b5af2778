//! /healthz, /readyz, /metrics, and what is said about paths that are not there.

use baton_store::Clock;
use baton_testkit::Postgres;
use serde_json::json;

use crate::harness::{On, START, Server, complete, eventually, on_both};

async fn a_path_or_method_that_is_not_there_is_said_so(on: On) {
    let server = Server::start(on).await;
    for path in
        ["/", "/api", "/api/v1", "/api/v1/run", "/api/v1/runs/", "/api/v1/runs/x/y", "/API/V1/RUNS", "//healthz"]
    {
        let answer = server.call("GET", path, "").await;
        assert_eq!(answer.refusal(), "404 not_found", "{path}");
        assert!(answer.json()["error"].as_str().unwrap().contains("/openapi.json"));
    }
    for (method, path) in [("PUT", "/api/v1/runs"), ("DELETE", "/api/v1/queues/x"), ("POST", "/healthz")] {
        assert_eq!(server.call(method, path, "").await.refusal(), "405 method_not_allowed", "{method} {path}");
    }
    assert_eq!(server.call("HEAD", "/healthz", "").await.status, 200);
}

async fn methods_that_clients_make_up_do_not_become_labels(on: On) {
    let server = Server::start(on).await;
    for method in ["BREW", "WHEN", "PROPFIND"] {
        assert_eq!(server.call(method, "/healthz", "").await.status, 405);
    }
    let text = String::from_utf8(server.call("GET", "/metrics", "").await.body.to_vec()).unwrap();
    assert!(!text.contains("BREW") && text.contains("method=\"other\""), "{text}");
}

async fn the_server_says_that_it_lives_and_works(on: On) {
    let server = Server::start(on).await;
    let alive = server.send(server.request("GET", "/healthz"), "").await;
    assert_eq!((alive.status, alive.json()), (200, json!({"status": "ok"})));
    let ready = server.send(server.request("GET", "/readyz"), "").await;
    let store = if on == On::Sqlite { "sqlite" } else { "postgres" };
    assert_eq!((ready.status, &ready.json()["store"]), (200, &json!(store)));
    server.clock.advance(600);
    eventually("the reaper has passed", async || {
        let ready = server.send(server.request("GET", "/readyz"), "").await.json();
        ready["loops"]["reaper"]["ok"] == true
    })
    .await;
}

/// Everything here comes from this machine, so what was passed on stands for others.
async fn metrics_are_for_this_machine_and_for_keys_of_everything(on: On) {
    let ask = async |server: &Server, passed_on: bool, key: Option<&str>| {
        let mut request = server.request("GET", "/metrics");
        if passed_on {
            request = request.header("x-forwarded-for", "203.0.113.7");
        }
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        server.send(request, "").await.status
    };
    let server = Server::start(on).await;
    let mut keys = Vec::new();
    for wanted in [
        json!({"name": "x", "scopes": ["read"]}),
        json!({"name": "x", "scopes": ["read"], "namespace": "team"}),
        json!({"name": "x", "scopes": ["worker"]}),
    ] {
        let made = server.call("POST", "/api/v1/keys", wanted.to_string()).await.json();
        keys.push(made["key"].as_str().unwrap().to_owned());
    }
    assert_eq!((ask(&server, false, None).await, ask(&server, true, None).await), (200, 401));
    let statuses = [ask(&server, true, Some(&keys[0])).await, ask(&server, true, Some(&keys[1])).await];
    assert_eq!(statuses, [200, 403]);
    assert_eq!(ask(&server, true, Some(&keys[2])).await, 403);
    let own = "the key of the metrics";
    let server = Server::with(on, |settings| settings.metrics_key = Some(own.into())).await;
    assert_eq!((ask(&server, false, None).await, ask(&server, true, None).await), (401, 401));
    assert_eq!((ask(&server, false, Some(own)).await, ask(&server, true, Some(own)).await), (200, 200));
    assert_eq!(ask(&server, false, Some("another key altogether")).await, 403);
}

async fn metrics_can_be_parsed_and_count(on: On) {
    let server = Server::start(on).await;
    let (_, claimed) = server.held().await;
    server.client.complete(&claimed.run_id, &complete(&claimed.lease)).await.unwrap();
    server.call("GET", "/api/v1/runs/x", "").await;
    let plain = server.send(server.request("GET", "/metrics"), "").await;
    assert!(plain.header("content-type").starts_with("text/plain; version=0.0.4"));
    let plain = String::from_utf8(plain.body.to_vec()).unwrap();
    assert!(plain.contains("# TYPE baton_submit_total counter\nbaton_submit_total 1\n"), "{plain}");
    assert!(plain.contains("# TYPE baton_build_info gauge\n") && !plain.contains("# EOF"), "{plain}");
    let open = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4";
    let answer = server.send(server.request("GET", "/metrics").header("accept", open), "").await;
    assert!(answer.header("content-type").starts_with("application/openmetrics-text"));
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    assert!(text.ends_with("# EOF\n"));
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let is_ours = name.starts_with("baton_") || name.starts_with("process_");
        assert!(is_ours && value.parse::<f64>().is_ok(), "{line}");
    }
    for (name, expected) in [("submit", 1), ("claim", 1), ("complete", 1), ("fail", 0)] {
        assert_eq!(server.metric(&format!("baton_{name}_total")).await, expected, "{name}");
    }
    let routed = r#"baton_http_requests_total{method="GET",route="/api/v1/runs/{id}",status="404"} 1"#;
    assert!(text.contains(routed), "by route, not by path:\n{text}");
    assert!(server.metric("baton_store_statements_total").await > 0);
    assert!(server.metric("baton_connections").await >= 1);
    assert_eq!(server.metric("baton_polls_waiting").await, 0);
}

on_both!(
    methods_that_clients_make_up_do_not_become_labels,
    a_path_or_method_that_is_not_there_is_said_so,
    the_server_says_that_it_lives_and_works,
    metrics_can_be_parsed_and_count,
    metrics_are_for_this_machine_and_for_keys_of_everything,
);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_database_a_server_is_alive_but_not_ready() {
    // Durable: what was committed before the crash has to be there after it.
    let postgres = Postgres::durable().await;
    let database = postgres.new_database().await;
    let server = Server::on_database(database.url(), Clock::manual(START)).await;
    let id = server.submit().await;
    postgres.kill9();
    let path = format!("/api/v1/runs/{id}");
    // Its processes notice one by one that the first of them is gone, and may answer until then.
    eventually("the database is gone", async || {
        let ready = server.send(server.request("GET", "/readyz"), "").await;
        ready.status == 503 && server.call("GET", &path, "").await.status == 503
    })
    .await;
    let ready = server.send(server.request("GET", "/readyz"), "").await;
    assert_eq!((ready.refusal().as_str(), ready.header("retry-after")), ("503 unavailable", "1"));
    let said = String::from_utf8_lossy(&ready.body).to_lowercase();
    assert!(!said.contains("postgres") && !said.contains("127.0.0.1"), "internal text never leaves: {said}");
    assert_eq!(server.send(server.request("GET", "/healthz"), "").await.status, 200);
    assert_eq!(server.call("GET", &path, "").await.refusal(), "503 unavailable");
    postgres.start_again().await;
    eventually("it is ready again", async || server.send(server.request("GET", "/readyz"), "").await.status == 200)
        .await;
    assert_eq!(server.call("GET", &path, "").await.status, 200);
}

#[tokio::test]
async fn the_store_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let server = Server::start(On::Sqlite).await;
    server.submit().await;
    for name in ["baton.db", "baton.db-wal", "baton.db-shm", "baton.db.lock"] {
        let found = std::fs::metadata(server.settings.data.join(name)).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, 0o600, "{name}");
    }
}
