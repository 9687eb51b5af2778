//! /healthz, /readyz, /metrics, /openapi.json, and what is said about paths that are not there.

use std::collections::BTreeSet;

use baton_store::Clock;
use baton_testkit::Postgres;
use serde_json::{Value, json};

use crate::harness::{On, START, Server, complete, eventually, on_both};

/// Every route there is.
const ROUTES: [&str; 38] = [
    "POST /api/v1/runs",
    "GET /api/v1/runs",
    "POST /api/v1/runs/batch",
    "GET /api/v1/runs/{id}",
    "GET /api/v1/runs/{id}/history",
    "GET /api/v1/runs/{id}/explain",
    "POST /api/v1/runs/{id}/cancel",
    "POST /api/v1/runs/{id}/retry",
    "POST /api/v1/runs/{id}/start",
    "POST /api/v1/runs/{id}/complete",
    "POST /api/v1/runs/{id}/fail",
    "POST /api/v1/runs/{id}/give_back",
    "POST /api/v1/runs/{id}/sleep",
    "POST /api/v1/runs/start",
    "POST /api/v1/runs/complete",
    "POST /api/v1/runs/fail",
    "POST /api/v1/runs/give_back",
    "POST /api/v1/workers",
    "GET /api/v1/workers",
    "GET /api/v1/workers/{id}",
    "POST /api/v1/workers/{id}/heartbeat",
    "POST /api/v1/workers/{id}/claim",
    "POST /api/v1/workers/{id}/deregister",
    "POST /api/v1/workers/{id}/drain",
    "POST /api/v1/workers/{id}/offline",
    "GET /api/v1/queues",
    "GET /api/v1/queues/{name}",
    "PATCH /api/v1/queues/{name}",
    "POST /api/v1/queues/{name}/pause",
    "POST /api/v1/queues/{name}/resume",
    "POST /api/v1/keys",
    "GET /api/v1/keys",
    "DELETE /api/v1/keys/{id}",
    "GET /api/v1/audit",
    "GET /healthz",
    "GET /readyz",
    "GET /metrics",
    "GET /openapi.json",
];

async fn the_document_lists_every_route_and_no_other(on: On) {
    let server = Server::start(on).await;
    let document: Value = serde_json::from_str(&server.client.openapi().await.unwrap()).unwrap();
    let mut listed = BTreeSet::from(["GET /openapi.json".to_owned()]);
    for (path, methods) in document["paths"].as_object().unwrap() {
        let methods = methods.as_object().unwrap().keys().filter(|key| *key != "parameters" && *key != "summary");
        listed.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    assert_eq!(listed, ROUTES.iter().map(|route| (*route).to_owned()).collect());
    for route in ROUTES {
        let (method, path) = route.split_once(' ').unwrap();
        let answer = server.send(server.request(method, &path.replace("{id}", "x").replace("{name}", "x")), "").await;
        let open = !path.starts_with("/api/");
        assert_eq!(answer.status, if open { 200 } else { 401 }, "{route}: it is there, and asks for a key first");
    }
    let secured = &document["components"]["securitySchemes"]["api_key"];
    assert_eq!((&secured["in"], &secured["name"]), (&json!("header"), &json!("X-API-Key")));
}

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

async fn metrics_can_be_parsed_and_count(on: On) {
    let server = Server::start(on).await;
    let (_, claimed) = server.held().await;
    server.client.complete(&claimed.run_id, &complete(&claimed.lease)).await.unwrap();
    server.call("GET", "/api/v1/runs/x", "").await;
    let answer = server.send(server.request("GET", "/metrics"), "").await;
    assert!(answer.header("content-type").starts_with("application/openmetrics-text"));
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    assert!(text.ends_with("# EOF\n"));
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("baton_") && value.parse::<f64>().is_ok(), "{line}");
    }
    for (name, expected) in [("submit", 1), ("claim", 1), ("complete", 1), ("fail", 0)] {
        assert_eq!(server.metric(&format!("baton_{name}_total")).await, expected, "{name}");
    }
    let routed = r#"baton_http_requests_total{method="GET",route="/api/v1/runs/{id}",status="404"} 1"#;
    assert!(text.contains(routed), "by route, not by path:\n{text}");
    assert!(server.metric("baton_store_statements").await > 0);
    assert!(server.metric("baton_connections").await >= 1);
    assert_eq!(server.metric("baton_polls_waiting").await, 0);
}

on_both!(
    methods_that_clients_make_up_do_not_become_labels,
    the_document_lists_every_route_and_no_other,
    a_path_or_method_that_is_not_there_is_said_so,
    the_server_says_that_it_lives_and_works,
    metrics_can_be_parsed_and_count,
);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_database_a_server_is_alive_but_not_ready() {
    // Durable: what was committed before the crash has to be there after it.
    let postgres = Postgres::durable().await;
    let database = postgres.new_database().await;
    let server = Server::on_database(database.url(), Clock::manual(START)).await;
    let id = server.submit().await;
    postgres.kill9();
    let ready = server.send(server.request("GET", "/readyz"), "").await;
    assert_eq!((ready.refusal().as_str(), ready.header("retry-after")), ("503 unavailable", "1"));
    let said = String::from_utf8_lossy(&ready.body).to_lowercase();
    assert!(!said.contains("postgres") && !said.contains("127.0.0.1"), "internal text never leaves: {said}");
    assert_eq!(server.send(server.request("GET", "/healthz"), "").await.status, 200);
    let path = format!("/api/v1/runs/{id}");
    assert_eq!(server.call("GET", &path, "").await.refusal(), "503 unavailable");
    postgres.start_again().await;
    eventually("it is ready again", async || server.send(server.request("GET", "/readyz"), "").await.status == 200)
        .await;
    assert_eq!(server.call("GET", &path, "").await.status, 200);
}
