//! What each kind of key may do: every route against every scope, and against another namespace.

use crate::harness::{KEY, On, Server, on_both};

/// Names no run and no worker.
const UNKNOWN: &str = "018bcfe5-6800-7000-8000-000000000000";

/// Route, and the scopes that open it besides admin.
const ROUTES: [(&str, &str, &[&str]); 33] = [
    ("POST", "/api/v1/runs", &["submit"]),
    ("POST", "/api/v1/runs/batch", &["submit"]),
    ("GET", "/api/v1/runs", &["submit", "read"]),
    ("GET", "/api/v1/runs/{run}", &["submit", "read"]),
    ("GET", "/api/v1/runs/{run}/history", &["submit", "read"]),
    ("GET", "/api/v1/runs/{run}/explain", &["submit", "read"]),
    ("POST", "/api/v1/runs/{run}/cancel", &["submit"]),
    ("POST", "/api/v1/runs/{run}/retry", &["submit"]),
    ("POST", "/api/v1/runs/{run}/start", &["worker"]),
    ("POST", "/api/v1/runs/{run}/complete", &["worker"]),
    ("POST", "/api/v1/runs/{run}/fail", &["worker"]),
    ("POST", "/api/v1/runs/{run}/give_back", &["worker"]),
    ("POST", "/api/v1/runs/{run}/sleep", &["worker"]),
    ("POST", "/api/v1/runs/start", &["worker"]),
    ("POST", "/api/v1/runs/complete", &["worker"]),
    ("POST", "/api/v1/runs/fail", &["worker"]),
    ("POST", "/api/v1/runs/give_back", &["worker"]),
    ("POST", "/api/v1/workers", &["worker"]),
    ("GET", "/api/v1/workers", &["submit", "read"]),
    ("GET", "/api/v1/workers/{worker}", &["submit", "read"]),
    ("POST", "/api/v1/workers/{worker}/heartbeat", &["worker"]),
    ("POST", "/api/v1/workers/{worker}/claim", &["worker"]),
    ("POST", "/api/v1/workers/{worker}/drain", &[]),
    ("POST", "/api/v1/workers/{worker}/offline", &[]),
    ("GET", "/api/v1/queues", &["submit", "read"]),
    ("GET", "/api/v1/queues/builds", &["submit", "read"]),
    ("PATCH", "/api/v1/queues/builds", &[]),
    ("POST", "/api/v1/queues/builds/pause", &[]),
    ("POST", "/api/v1/keys", &[]),
    ("GET", "/api/v1/keys", &[]),
    ("GET", "/api/v1/audit", &[]),
    ("GET", "/api/v1/settings", &[]),
    ("PATCH", "/api/v1/settings", &[]),
];

/// A body that gets past the decoder, so that only the key decides.
fn body(path: &str, run: &str, lease: &str) -> String {
    let one = |extra: &str| format!(r#"{{"lease":"{lease}"{extra}}}"#);
    let batch = |extra: &str| format!(r#"{{"runs":[{{"run_id":"{run}","lease":"{lease}"{extra}}}]}}"#);
    match path {
        "/api/v1/runs" => r#"{"queue":"builds","type":"ios"}"#.into(),
        "/api/v1/runs/batch" => r#"{"runs":[{"queue":"builds","type":"ios"}]}"#.into(),
        "/api/v1/runs/fail" => batch(r#","error":"x""#),
        "/api/v1/runs/start" | "/api/v1/runs/complete" | "/api/v1/runs/give_back" => batch(""),
        "/api/v1/runs/{run}/fail" => one(r#","error":"x""#),
        "/api/v1/runs/{run}/sleep" => one(r#","ms":1"#),
        path if path.starts_with("/api/v1/runs/{run}/") => one(""),
        "/api/v1/workers" => r#"{"types":["ios"]}"#.into(),
        "/api/v1/keys" => r#"{"name":"x","scopes":["read"]}"#.into(),
        _ => "{}".into(),
    }
}

async fn each_scope_opens_its_routes_and_no_others(on: On) {
    let server = Server::start(on).await;
    let keys = ["submit", "worker", "read"].map(|scope| (scope, format!(r#"{{"name":"x","scopes":["{scope}"]}}"#)));
    for (scope, wanted) in keys {
        let key = server.call("POST", "/api/v1/keys", wanted).await.json()["key"].as_str().unwrap().to_owned();
        for (method, path, open_to) in ROUTES {
            // A fresh run and worker for each call: the one before may have ended them.
            let (worker, claimed) = server.held().await;
            // A worker is its own key's.
            let named = match scope {
                "worker" => server.client_with(&key).register(&crate::harness::worker("own")).await.unwrap().worker_id,
                _ => worker.clone(),
            };
            let full = path.replace("{run}", &claimed.run_id).replace("{worker}", &named);
            let body = body(path, &claimed.run_id, &claimed.lease);
            let answer = server.send(server.request(method, &full).header("x-api-key", &key), body).await;
            match open_to.contains(&scope) {
                true => assert_ne!(answer.status, 403, "{scope}: {method} {path}: {answer:?}"),
                false => assert_eq!(answer.refusal(), "403 forbidden", "{scope}: {method} {path}"),
            }
            server.client.cancel(&claimed.run_id).await.ok();
            server.client.force_offline(&worker).await.unwrap();
            let queue = server.client.queue("default", "builds").await.unwrap();
            assert!(!queue.paused, "{scope} may not pause");
            if queue.ready > 0 {
                clear(&server).await;
            }
        }
    }
}

/// Cancels what a call submitted, so that the next one finds its own run.
async fn clear(server: &Server) {
    let waiting = baton::RunFilter { state: Some(baton_core::State::Pending), ..baton::RunFilter::default() };
    for run in server.client.runs(&waiting).await.unwrap().runs {
        server.client.cancel(&run.id).await.unwrap();
    }
}

async fn a_key_reaches_into_no_other_namespace(on: On) {
    let server = Server::start(on).await;
    let wanted = r#"{"name":"x","scopes":["admin"],"namespace":"team"}"#;
    let key = server.call("POST", "/api/v1/keys", wanted).await.json()["key"].as_str().unwrap().to_owned();
    let (worker, claimed) = server.held().await;
    // Lists show the own namespace only; keys are looked at elsewhere.
    let lists = ["/api/v1/workers", "/api/v1/queues", "/api/v1/runs", "/api/v1/keys"];
    for (method, path, _) in ROUTES {
        if (method == "GET" && lists.contains(&path)) || path == "/api/v1/keys" {
            continue;
        }
        let ask = async |run: &str, worker: &str| {
            let full = path.replace("{run}", run).replace("{worker}", worker);
            let body = body(path, run, &claimed.lease);
            let answer = server.send(server.request(method, &full).header("x-api-key", &key), body).await;
            let said = String::from_utf8_lossy(&answer.body).replace(run, "ID").replace(worker, "ID");
            (answer, said)
        };
        let (answer, said) = ask(&claimed.run_id, &worker).await;
        let names_something = path.contains('{') || said.contains("ID");
        if names_something {
            // What is in a foreign namespace is answered as what does not exist, to the letter, and
            // a lease of it as one that was made up.
            let (made_up, nothing) = ask(UNKNOWN, UNKNOWN).await;
            assert_eq!((answer.status, said), (made_up.status, nothing), "{method} {path}");
        } else {
            assert_eq!(answer.refusal(), "403 forbidden", "{method} {path}");
        }
    }
    for path in ["/api/v1/runs", "/api/v1/workers", "/api/v1/queues"] {
        let own = server.send(server.request("GET", path).header("x-api-key", &key), "").await;
        assert!(own.json().as_object().unwrap().values().all(|list| list.as_array().unwrap().is_empty()), "{own:?}");
        let foreign = format!("{path}?namespace=default");
        let foreign = server.send(server.request("GET", &foreign).header("x-api-key", &key), "").await;
        assert_eq!(foreign.refusal(), "403 forbidden", "{path}");
        let all = server.send(server.request("GET", path).header("x-api-key", KEY), "").await;
        assert!(all.json().as_object().unwrap().values().any(|list| !list.as_array().unwrap().is_empty()));
    }
    assert_eq!(server.state(&claimed.run_id).await, baton_core::State::Running);
}

async fn a_lease_is_good_with_a_key_of_its_namespace_only(on: On) {
    let server = Server::start(on).await;
    let key_of = async |namespace: &str| {
        let wanted = serde_json::json!({"name": "x", "scopes": ["worker"], "namespace": namespace}).to_string();
        server.call("POST", "/api/v1/keys", wanted).await.json()["key"].as_str().unwrap().to_owned()
    };
    let (own, foreign) = (key_of("default").await, key_of("team").await);
    for verb in ["start", "fail", "give_back", "sleep", "complete"] {
        let (_, claimed) = server.held().await;
        let one = format!("/api/v1/runs/{}/{verb}", claimed.run_id);
        let said = body(&format!("/api/v1/runs/{{run}}/{verb}"), &claimed.run_id, &claimed.lease);
        let refused = server.send(server.request("POST", &one).header("x-api-key", &foreign), said.clone()).await;
        assert_eq!(refused.refusal(), "403 forbidden", "{verb}");
        if verb != "sleep" {
            let path = format!("/api/v1/runs/{verb}");
            let said = body(&path, &claimed.run_id, &claimed.lease);
            let batch = server.send(server.request("POST", &path).header("x-api-key", &foreign), said).await;
            assert_eq!(batch.json()["runs"][0]["code"], "forbidden", "{verb}: {batch:?}");
        }
        assert_eq!(server.state(&claimed.run_id).await, baton_core::State::Running, "{verb}");
        let taken = server.send(server.request("POST", &one).header("x-api-key", &own), said).await;
        assert_eq!(taken.status, 200, "{verb}: {taken:?}");
        server.client.cancel(&claimed.run_id).await.ok();
    }
}

on_both!(
    each_scope_opens_its_routes_and_no_others,
    a_key_reaches_into_no_other_namespace,
    a_lease_is_good_with_a_key_of_its_namespace_only,
);

#[test]
fn the_document_says_the_same() {
    let document = serde_json::to_value(baton_server::http::openapi()).unwrap();
    for (method, path, open_to) in ROUTES {
        let path =
            path.replace("{run}", "{id}").replace("{worker}", "{id}").replace("/queues/builds", "/queues/{name}");
        let said = &document["paths"][&path][method.to_lowercase()]["security"][0]["api_key"][0];
        let meant = if open_to.contains(&"read") { "read" } else { open_to.first().copied().unwrap_or("admin") };
        assert_eq!(said, meant, "{method} {path}");
    }
}
