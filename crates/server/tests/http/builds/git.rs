//! /api/v1/builds: builders that poll with nothing but a key.

use serde_json::{Value, json};

use super::rig::text;
use crate::harness::{KEY, On, Server, on_both};

on_both!(
    a_git_build_is_claimed_built_and_ended,
    bad_results_are_refused,
    fifty_megabytes_of_log_are_taken,
    a_build_whose_builder_never_answers_goes_to_another,
    ten_polls_for_one_build,
    runs_that_are_no_builds_do_not_stop_builders,
);

fn wanted() -> Value {
    json!({
        "project_slug": "shop", "version": "1.2.3", "source_url": "https://git.example/shop.git", "ref": "main",
        "docker_image": "rust:1",
    })
}

impl Server {
    async fn git_build(&self) -> String {
        let answer = self.call("POST", "/api/v1/builds", wanted().to_string()).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        text(&answer.json()["id"])
    }

    async fn pending(&self) -> crate::harness::Answer {
        let request = self.request("GET", "/api/v1/builds/pending").header("authorization", format!("Bearer {KEY}"));
        self.send(request, "").await
    }

    async fn result(&self, id: &str, body: Value) -> crate::harness::Answer {
        self.call("POST", &format!("/api/v1/builds/{id}/result"), body.to_string()).await
    }
}

async fn a_git_build_is_claimed_built_and_ended(on: On) {
    let server = Server::start(on).await;
    assert_eq!(server.pending().await.status, 204);
    let (first, second) = (server.git_build().await, server.git_build().await);
    let job = server.pending().await.json();
    let expected = json!({
        "id": first, "project_slug": "shop", "version": "1.2.3", "source_url": "https://git.example/shop.git",
        "ref": "main", "docker_image": "rust:1",
    });
    assert_eq!(job, expected, "every value is a string");
    assert_eq!(server.build_status(&first).await, "building");
    let done = json!({"job_id": first, "status": "success", "duration": 12.5, "logs": "one\ntwo \u{0}\n"});
    let answer = server.result(&first, done.clone()).await;
    assert_eq!((answer.status, answer.json()["status"].clone()), (200, json!("completed")));
    let again = server.result(&first, done).await;
    assert_eq!((again.status, again.json()), (200, answer.json()), "a lost answer can be asked for again");
    for other in [
        json!({"job_id": first, "status": "success", "duration": 13}),
        json!({"job_id": first, "status": "failed", "error": "x"}),
    ] {
        assert_eq!(server.result(&first, other).await.status, 409, "it is not running any more");
    }
    let logs = server.call("GET", &format!("/api/builds/{first}/logs?after=2"), "").await.json();
    assert_eq!(logs["logs"][1]["message"], "two \u{0}");
    assert_eq!(logs["logs"].as_array().map(Vec::len), Some(3), "and its log is not written twice");
    assert_eq!(server.pending().await.json()["id"], second.as_str());
    let failed = json!({"job_id": second, "status": "failed", "duration": "3s", "error": "no compiler"});
    for _ in 0..2 {
        assert_eq!(server.result(&second, failed.clone()).await.json()["error_message"], "no compiler");
    }
}

async fn bad_results_are_refused(on: On) {
    let server = Server::start(on).await;
    let id = server.git_build().await;
    let success = |id: &str| json!({"job_id": id, "status": "success", "duration": 1});
    assert_eq!(server.result(&id, success(&id)).await.status, 409, "nobody has it");
    server.pending().await;
    assert_eq!(server.result(&id, json!({"job_id": id, "status": "perhaps", "duration": 1})).await.status, 400);
    assert_eq!(server.result(&id, success("another")).await.status, 400);
    assert_eq!(server.result("nonsense", success("nonsense")).await.status, 404);
    let request = server.request("POST", &format!("/api/v1/builds/{id}/result"));
    assert_eq!(server.send(request, success(&id).to_string()).await.status, 401);
    let wanted_key = baton::proto::CreateKey {
        name: "other".into(),
        scopes: vec!["worker".into()],
        namespace: None,
        expires_in_ms: None,
    };
    let other = server.client.create_key(&wanted_key).await.unwrap().key;
    let request = server.request("POST", &format!("/api/v1/builds/{id}/result")).header("x-api-key", other);
    assert_eq!(server.send(request, success(&id).to_string()).await.status, 409, "somebody else has it");
    for wrong in [
        json!({"project_slug": "x"}),
        json!({}),
        {
            let mut dash = wanted();
            dash["ref"] = json!("--upload-pack=x");
            dash
        },
        {
            let mut helper = wanted();
            helper["source_url"] = json!("ext::sh -c x");
            helper
        },
    ] {
        assert_eq!(server.call("POST", "/api/v1/builds", wrong.to_string()).await.status, 422, "{wrong}");
    }
    assert_eq!(server.build_status(&id).await, "building");
}

async fn fifty_megabytes_of_log_are_taken(on: On) {
    let server = Server::start(on).await;
    let id = server.git_build().await;
    server.pending().await;
    let line = format!("{}\n", "x".repeat(99));
    let done = json!({"job_id": id, "status": "success", "duration": 1, "logs": line.repeat(500_000)});
    assert_eq!(server.result(&id, done).await.status, 200);
    let last = server.call("GET", &format!("/api/builds/{id}/logs?after=499999&limit=10"), "").await.json();
    assert_eq!(last["logs"].as_array().unwrap().len(), 4, "and the lines about who submitted, had and completed it");
}

async fn a_build_whose_builder_never_answers_goes_to_another(on: On) {
    let server = Server::start(on).await;
    let id = server.git_build().await;
    assert_eq!(server.pending().await.status, 200);
    server.clock.advance(server.settings.build_git_lease_ms as i64 + 1_000);
    crate::harness::eventually("it comes back", async || server.build_status(&id).await == "pending").await;
    assert_eq!(server.pending().await.json()["id"], id.as_str());
}

async fn ten_polls_for_one_build(on: On) {
    let server = std::sync::Arc::new(Server::start(on).await);
    server.git_build().await;
    let mut polls = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let server = server.clone();
        polls.spawn(async move { server.pending().await.status });
    }
    let answers = polls.join_all().await;
    assert_eq!(answers.iter().filter(|status| **status == 200).count(), 1, "{answers:?}");
}

async fn runs_that_are_no_builds_do_not_stop_builders(on: On) {
    let server = Server::start(on).await;
    let mut strangers = Vec::new();
    // The last one looks like a build, and nobody has checked it.
    let alike = json!({"project": "p", "git": {"url": "--upload-pack=x", "ref": "-x", "image": "i", "version": "1"}});
    for (kind, input) in [("git", json!("x")), ("git", json!({"project": 1})), ("ios", json!(null)), ("git", alike)] {
        let run = json!({"queue": "builds", "type": kind, "input": input});
        let submitted = server.call("POST", "/api/v1/runs", run.to_string()).await;
        strangers.push(text(&submitted.json()["id"]));
    }
    let build = server.git_build().await;
    assert_eq!(server.pending().await.json()["id"], build.as_str());
    let mut builder = server.builder("expo").await;
    let (source, _) = server.submit_build().await;
    assert_eq!(builder.poll(&server).await["id"], source.as_str());
    for run in strangers {
        let found = server.call("GET", &format!("/api/v1/runs/{run}"), "").await.json();
        assert_eq!((&found["state"], &found["reason"]), (&json!("failed"), &json!("rejected")), "{found}");
        assert!(found["error"].to_string().contains("POST /api/builds"), "{found}");
    }
}
