//! Agents speak for their own runner, about their own run, and nobody else does.

use serde_json::json;

use super::fake::Mood;
use super::rig::Rig;
use crate::harness::{On, eventually, on_both};

async fn a_machine_has_one_agent(on: On) {
    let rig = Rig::start(on).await;
    rig.pool(json!({"min_idle": 1, "max_size": 1})).await;
    eventually("a machine is there", async || rig.fake.machines().len() == 1).await;
    let (machine, order) = rig.fake.machines().remove(0);
    let token = rig.join_token(&order);
    let joined = rig.join_with(&token, &machine, 1).await.json();
    assert_eq!(
        (&joined["pool"], &joined["namespace"], &joined["heartbeat_ms"]),
        (&json!("ci"), &json!("default"), &json!(5_000))
    );
    assert_eq!(rig.join_with(&token, &machine, 1).await.json(), joined, "an answer may get lost");
    assert_eq!(rig.join_with(&token, &machine, 2).await.refusal(), "403 forbidden", "jobs may read the start data");
    assert_eq!(rig.join_with(&token, "another", 1).await.refusal(), "404 not_found");
    assert_eq!(rig.join_with(&format!("{token}x"), &machine, 1).await.refusal(), "403 bad_credential");
    let request = rig.server.request("POST", "/api/v1/runners/join");
    let wrong = json!({"machine_id": machine, "nonce": "short"}).to_string();
    let answer = rig.server.send(request.header("authorization", format!("Bearer {token}")), wrong).await;
    assert_eq!(answer.refusal(), "422 invalid");
    assert_eq!(rig.audited("runner.join_refused").await.len(), 1);
}

async fn nobody_joins_for_a_machine_that_the_provider_has_not_named(on: On) {
    let rig = Rig::with(on, |settings| settings.pool_provider_timeout_ms = 100).await;
    rig.fake.next(Mood::FallsHalfway);
    rig.pool(json!({"min_idle": 2, "max_size": 2})).await;
    eventually("a machine is there", async || rig.fake.machines().len() == 1).await;
    let (machine, order) = rig.fake.machines().remove(0);
    let token = rig.join_token(&order);
    // A job can read the token, and would have any machine ended with its runner.
    assert_eq!(rig.join_with(&token, "of-another-pool", 1).await.refusal(), "503 not_yet");
    assert_eq!(rig.join_with(&token, &machine, 1).await.refusal(), "503 not_yet", "the answer got lost");
    assert!(rig.runners("").await.iter().all(|runner| runner["machine_id"].is_null()));
    rig.server.clock.advance(151);
    rig.idle(2).await;
    assert_eq!(rig.join_with(&token, "of-another-pool", 1).await.refusal(), "404 not_found");
}

async fn a_token_is_good_for_its_own_runner_only(on: On) {
    let rig = Rig::start(on).await;
    rig.pool(json!({"min_idle": 2, "max_size": 2})).await;
    let agents = rig.idle(2).await;
    let thief = super::rig::Agent { id: agents[1].id.clone(), ..agents[0].clone() };
    let signal = json!({"signal": "UD_OK", "epoch": 0}).to_string();
    for (method, path, body) in [("POST", "signals", signal.as_str()), ("POST", "heartbeat", ""), ("GET", "next", "")] {
        assert_eq!(thief.call(&rig, method, path, body.into()).await.refusal(), "403 forbidden", "{path}");
        let stranger = super::rig::Agent { token: "br_made_up".into(), ..agents[0].clone() };
        assert_eq!(stranger.call(&rig, method, path, body.into()).await.refusal(), "403 bad_credential", "{path}");
    }
    // An API key is no runner's token, and the other way round.
    let request = rig.server.request("GET", "/api/v1/pools/ci").header("x-api-key", &agents[0].token);
    assert_eq!(rig.server.send(request, "").await.refusal(), "403 bad_credential");
    let keyed = rig.server.call("POST", &format!("/api/v1/runners/{}/heartbeat", agents[0].id), "").await;
    assert_eq!(keyed.refusal(), "403 bad_credential");
}

async fn a_signal_about_another_run_is_ignored_and_written_down(on: On) {
    let rig = Rig::start(on).await;
    rig.pool(json!({"min_idle": 1, "max_size": 1})).await;
    let mut agents = rig.idle(1).await;
    rig.claims("mine", 1).await;
    agents[0].hears(&rig, "register").await;
    let answer = agents[0].says(&rig, "UD_REG_OK", Some("another")).await;
    assert_eq!((&answer["counts"], &answer["order"]["action"]), (&json!(false), &json!("register")));
    let lines = rig.audited("runner.signal_ignored").await;
    assert_eq!(
        (lines.len(), &lines[0]["subject"], &lines[0]["namespace"]),
        (1, &json!(agents[0].id), &json!("default"))
    );
    assert!(lines[0]["detail"].as_str().unwrap().contains("another"), "{}", lines[0]);
    assert_eq!(rig.claimed("mine").await["state"], "waiting");
    assert_eq!(agents[0].says(&rig, "UD_REG_OK", Some("mine")).await["counts"], true);
    assert_eq!(rig.settled("mine").await["state"], "ready");
    // The same signal again counts, and one of an order that is over does not.
    assert_eq!(agents[0].says(&rig, "UD_REG_OK", Some("mine")).await["counts"], true);
    rig.release("mine").await;
    let late = agents[0].says(&rig, "UD_REG_FAILED", Some("mine")).await;
    assert_eq!((&late["counts"], &late["order"]["action"]), (&json!(false), &json!("deregister")));
    for wrong in [
        json!({"signal": "UD_REG_OK", "epoch": 1}),
        json!({"signal": "UD_OK", "epoch": 1, "run_id": "mine"}),
        json!({"signal": "x", "epoch": 1}),
        json!({"signal": "UD_REG_OK", "epoch": 1, "run_id": "a b"}),
        json!({"signal": "UD_REG_OK", "epoch": 1, "run_id": "x".repeat(201)}),
    ] {
        assert_eq!(
            agents[0].call(&rig, "POST", "signals", wrong.to_string()).await.refusal(),
            "422 invalid",
            "{wrong}"
        );
    }
}

async fn an_agent_is_told_by_its_heartbeat_too(on: On) {
    let rig = Rig::start(on).await;
    rig.pool(json!({"min_idle": 1, "max_size": 1})).await;
    let agents = rig.idle(1).await;
    let before = rig.runners("").await[0]["seen_at"].clone();
    rig.server.clock.advance(5_000);
    let order = agents[0].call(&rig, "POST", "heartbeat", String::new()).await.json();
    assert_eq!(order["action"], "idle");
    assert_ne!(rig.runners("").await[0]["seen_at"], before);
    let path = format!("/api/v1/pools/ci/runners/{}", agents[0].id);
    let ended = rig.server.call("DELETE", &path, "").await.json();
    assert_eq!((&ended["state"], &ended["cause"]), (&json!("terminating"), &json!("asked")));
    assert_eq!(rig.server.call("DELETE", &path, "").await.status, 200, "again does no harm");
    assert_eq!(agents[0].call(&rig, "POST", "heartbeat", String::new()).await.json()["action"], "end");
    assert_eq!(rig.audited("runner.end").await.len(), 1);
    let moves = rig.server.call("GET", &path, "").await.json()["moves"].to_string();
    assert!(moves.contains("creating") && moves.contains("terminating"), "{moves}");
}

on_both!(
    a_machine_has_one_agent,
    nobody_joins_for_a_machine_that_the_provider_has_not_named,
    a_token_is_good_for_its_own_runner_only,
    a_signal_about_another_run_is_ignored_and_written_down,
    an_agent_is_told_by_its_heartbeat_too,
);
