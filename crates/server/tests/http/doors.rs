//! What all routes have in common at the door: problem details, cross-origin requests, entity tags.

use http::request::Builder;
use serde_json::json;

use crate::harness::{KEY, On, Server, on_both};

on_both!(
    refusals_are_problem_details_for_those_who_accept_them,
    a_refusal_names_the_field_that_is_wrong,
    pages_of_known_origins_may_call_and_no_others,
    what_has_not_changed_is_not_sent_again,
);

const DETAILS: &str = "application/problem+json";

fn asked(server: &Server, method: &str, path: &str, name: &str, value: &str) -> Builder {
    server.request(method, path).header("x-api-key", KEY).header(name, value)
}

async fn refusals_are_problem_details_for_those_who_accept_them(on: On) {
    let server = Server::start(on).await;
    let request = asked(&server, "POST", "/api/v1/runs", "accept", "application/json, application/problem+json");
    let answer = server.send(request.header("x-request-id", "mine-1"), r#"{"type":"a","priority":12}"#).await;
    assert_eq!((answer.status, answer.header("content-type")), (422, DETAILS));
    let expected = json!({
        "type": "/docs/errors#invalid", "title": "Invalid", "status": 422, "detail": "priority must be 0 to 9",
        "code": "invalid", "field": "priority", "request_id": "mine-1", "error": "priority must be 0 to 9",
    });
    assert_eq!(answer.json(), expected);
    // Whoever refuses, and whatever about.
    for (method, path, status) in [
        ("GET", "/api/v1/runs/00000000-0000-7000-8000-000000000000", 404),
        ("GET", "/nowhere", 404),
        ("PUT", "/api/v1/runs", 405),
        ("GET", "/api/v1/runs?limit=0", 422),
    ] {
        let answer = server.send(asked(&server, method, path, "accept", DETAILS), "").await;
        assert_eq!((answer.status, answer.header("content-type")), (status, DETAILS), "{method} {path}");
        assert_eq!(answer.json()["status"], status, "{method} {path}");
    }
    // Nobody else sees another shape, and what is no refusal stays as it is.
    for accept in ["*/*", "application/json"] {
        let answer = server.send(asked(&server, "GET", "/nowhere", "accept", accept), "").await;
        assert_eq!(answer.header("content-type"), "application/json", "{accept}");
        let members: Vec<_> = answer.json().as_object().unwrap().keys().cloned().collect();
        assert_eq!(members, ["code", "error", "request_id"]);
    }
    let fine = server.send(asked(&server, "GET", "/api/v1/runs", "accept", DETAILS), "").await;
    assert_eq!((fine.status, fine.header("content-type")), (200, "application/json"));
    let page = server.send(server.request("GET", "/docs/errors"), "").await;
    assert!(String::from_utf8_lossy(&page.body).contains("<code id=invalid>"), "where `type` points");
}

async fn a_refusal_names_the_field_that_is_wrong(on: On) {
    let server = Server::start(on).await;
    for (method, path, body, field) in [
        ("POST", "/api/v1/runs", json!({"type": ""}), "type"),
        ("POST", "/api/v1/runs", json!({"type": "a", "key": ""}), "key"),
        ("POST", "/api/v1/runs", json!({"type": "a", "retry": {"max_attempts": 0}}), "retry.max_attempts"),
        ("POST", "/api/v1/runs/batch", json!({"runs": [{"type": "a"}, {"type": ""}]}), "runs[1].type"),
        ("POST", "/api/v1/workers", json!({"types": []}), "types"),
        ("POST", "/api/v1/keys", json!({"name": "x", "scopes": ["root"]}), "scopes"),
        ("POST", "/api/v1/pools", json!({"name": "p", "max_size": 0}), "max_size"),
        ("POST", "/api/v1/schedules", json!({"id": "s", "cron": "* * * * *", "run": {"type": ""}}), "run.type"),
        ("PATCH", "/api/v1/queues/q", json!({"key_limit": 0}), "key_limit"),
        ("GET", "/api/v1/runs?limit=0", json!({}), "limit"),
        ("GET", "/api/v1/runs?state=lost", json!({}), "state"),
        ("GET", "/api/v1/workers?status=lost", json!({}), "status"),
    ] {
        let answer = server.call(method, path, body.to_string()).await;
        assert_eq!(answer.refusal(), "422 invalid", "{method} {path} {body}");
        assert_eq!(answer.json()["field"], field, "{method} {path} {body}: {answer:?}");
    }
}

async fn pages_of_known_origins_may_call_and_no_others(on: On) {
    let ours = "https://ci.example.org";
    let server = Server::with(on, |settings| settings.cors_origins = format!("{ours}, http://localhost:3000")).await;
    let first = |origin: &str| {
        let request = server.request("OPTIONS", "/api/v1/runs").header("origin", origin);
        request.header("access-control-request-method", "POST").header("access-control-request-headers", "x-api-key")
    };
    let answer = server.send(first(ours), "").await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (204, ours));
    assert!(answer.header("access-control-allow-methods").contains("POST"));
    assert!(answer.header("access-control-allow-headers").contains("X-API-Key"));
    let answer = server.send(asked(&server, "GET", "/api/v1/runs", "origin", ours), "").await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, ours));
    assert_eq!(answer.header("vary"), "Origin");
    // A page has to read refusals, too.
    let refused = server.send(server.request("GET", "/api/v1/runs").header("origin", ours), "").await;
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (401, ours));
    let others = ["https://evil.example", "http://ci.example.org", "null"];
    for other in others {
        let answer = server.send(first(other), "").await;
        assert!(!answer.headers.contains_key("access-control-allow-origin"), "{other}");
        let answer = server.send(asked(&server, "GET", "/api/v1/runs", "origin", other), "").await;
        assert!(!answer.headers.contains_key("access-control-allow-origin"), "{other}");
    }
    let closed = Server::start(on).await;
    let answer = closed.send(asked(&closed, "GET", "/api/v1/runs", "origin", ours), "").await;
    assert!(!answer.headers.contains_key("access-control-allow-origin"), "off unless it is set");
}

async fn what_has_not_changed_is_not_sent_again(on: On) {
    let server = Server::start(on).await;
    let run = server.submit().await;
    let worker = server.worker("a").await;
    let namespace = server.call("POST", "/api/v1/namespaces", r#"{"name":"team"}"#).await;
    assert_eq!(namespace.status, 201);
    let paths = [
        format!("/api/v1/runs/{run}"),
        format!("/api/v1/workers/{worker}"),
        "/api/v1/queues/builds".into(),
        "/api/v1/namespaces/team".into(),
    ];
    for path in &paths {
        let whole = server.call("GET", path, "").await;
        let tag = whole.header("etag").to_owned();
        assert!(whole.status == 200 && tag.starts_with("W/\""), "{path}: {whole:?}");
        let again = server.send(asked(&server, "GET", path, "if-none-match", &tag), "").await;
        assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, tag.as_str()), "{path}");
        let other = server.send(asked(&server, "GET", path, "if-none-match", "W/\"other\""), "").await;
        assert_eq!((other.status, other.body), (200, whole.body), "{path}");
    }
    let before = server.call("GET", &paths[0], "").await.header("etag").to_owned();
    server.client.cancel(&run).await.unwrap();
    let changed = server.send(asked(&server, "GET", &paths[0], "if-none-match", &before), "").await;
    assert_eq!((changed.status, &changed.json()["state"]), (200, &json!("cancelled")));
    // Who may not read it is not told whether it has changed.
    let nobody = server.send(server.request("GET", &paths[0]).header("if-none-match", "*"), "").await;
    assert_eq!(nobody.status, 401);
    let list = server.call("GET", "/api/v1/runs", "").await;
    assert!(!list.headers.contains_key("etag"), "lists have none");
}
