//! Claims: filled with what is verified, or given back with a reason.

use baton::EventFilter;
use baton_core::pools::{Usage, Wanted};
use baton_store::NewPoolClaim;
use serde_json::{Value, json};

use super::fake::Mood;
use super::rig::Rig;
use crate::events::Ear;
use crate::harness::{On, eventually, on_both};

fn ids(claim: &Value) -> Vec<&str> {
    claim["runners"].as_array().unwrap().iter().map(|runner| runner["id"].as_str().unwrap()).collect()
}

async fn warm_runners_are_claimed_handed_over_and_given_back(on: On) {
    let rig = Rig::start(on).await;
    rig.pool(json!({"min_idle": 2, "max_size": 4})).await;
    let mut agents = rig.idle(2).await;
    // Warm is what was there before the claim.
    rig.server.clock.advance(1);
    let opened = rig.claims("run-1", 2).await;
    assert_eq!((&opened["state"], &opened["count"]), (&json!("waiting"), &json!(2)));
    for agent in &mut agents {
        agent.hears(&rig, "register").await;
        assert_eq!(agent.order["run_id"], "run-1");
        assert_eq!(agent.order["remaining_ms"], 179_999, "no claim has had it before");
    }
    agents[0].says(&rig, "UD_REG_OK", Some("run-1")).await;
    assert_eq!(agents[0].order["action"], "keep");
    eventually("one has registered", async || {
        let phases = rig.claimed("run-1").await["runners"].to_string();
        phases.contains("registered") && phases.contains("registering")
    })
    .await;
    assert_eq!(rig.claimed("run-1").await["state"], "waiting", "all or none");
    agents[1].says(&rig, "UD_REG_OK", Some("run-1")).await;
    let ready = rig.settled("run-1").await;
    assert_eq!(ready["state"], "ready");
    assert!(ready["runners"].as_array().unwrap().iter().all(|runner| runner["phase"] == "running"), "{ready}");
    let (mut has, mut expected) = (ids(&ready), agents.iter().map(|agent| agent.id.as_str()).collect::<Vec<_>>());
    has.sort_unstable();
    expected.sort_unstable();
    assert_eq!(has, expected);

    let again = rig.claim(json!({"run_id": "run-1", "count": 2})).await;
    assert_eq!((again.status, ids(&again.json())), (200, ids(&ready)), "the same claim has the same runners");
    let other = rig.claim(json!({"run_id": "run-1", "count": 1})).await;
    assert_eq!(other.refusal(), "409 conflict");
    // Releasing would not help: a run has one claim, for good.
    assert!(other.json().to_string().contains("asks for something else: use another run_id"), "{other:?}");

    let released = rig.release("run-1").await;
    assert_eq!((&released["state"], &released["reason"]), (&json!("released"), &json!("done")));
    assert_eq!(rig.release("run-1").await["state"], "released", "again does no harm");
    for agent in &mut agents {
        agent.hears(&rig, "deregister").await;
        assert_eq!(agent.order["run_id"], "run-1");
    }
    assert_eq!(rig.count("releasing").await, 2, "who still deregisters cannot be claimed");
    for agent in &mut agents {
        agent.says(&rig, "UD_REMOVE_REG_OK", Some("run-1")).await;
        agent.hears(&rig, "idle").await;
    }
    let idle = rig.runners("state=idle").await;
    assert!(idle.iter().all(|runner| runner["run_id"].is_null()), "they are for nobody now: {idle:?}");
    let statistics = rig.show().await["statistics"].clone();
    assert_eq!((&statistics["warm_hits"], &statistics["wait_p50_ms"]), (&json!(2), &json!(0)));
}

async fn moves_of_runners_and_claims_are_heard_of(on: On) {
    let rig = Rig::start(on).await;
    let of_pool = |name: &str| EventFilter { pool: Some(name.into()), ..EventFilter::default() };
    let mut heard = Ear::open(&rig.server, of_pool("ci")).await;
    let mut other = Ear::open(&rig.server, of_pool("other")).await;
    rig.pool(json!({"min_idle": 1, "max_size": 1})).await;
    let mut agents = rig.idle(1).await;
    rig.claims("run-1", 1).await;
    rig.register_all(&mut agents, "run-1").await;
    assert_eq!(rig.settled("run-1").await["state"], "ready");
    rig.release("run-1").await;
    agents[0].hears(&rig, "deregister").await;
    agents[0].says(&rig, "UD_REMOVE_REG_OK", Some("run-1")).await;
    let ended = rig.server.call("DELETE", &format!("/api/v1/pools/ci/runners/{}", agents[0].id), "").await;
    assert_eq!(ended.status, 200, "{ended:?}");

    let (mut claims, mut runners) = (Vec::new(), Vec::new());
    while runners.last().is_none_or(|state| state != "terminating") {
        let event = heard.next().await;
        assert_eq!((event.namespace.as_deref(), event.pool.as_deref()), (Some("default"), Some("ci")), "{event:?}");
        let state = event.state.clone().unwrap();
        match event.kind.as_str() {
            "claim.changed" => {
                assert_eq!(event.run_id.as_deref(), Some("run-1"));
                claims.push(state);
            }
            "runner.changed" if event.runner_id.as_deref() == Some(agents[0].id.as_str()) => {
                assert_eq!(event.reason.as_deref(), (state == "terminating").then_some("asked"));
                runners.push(state);
            }
            "runner.changed" => assert_eq!(state, "creating", "the one that takes its place"),
            kind => panic!("{kind}"),
        }
    }
    assert_eq!(claims, ["waiting", "ready", "released"]);
    runners.dedup();
    assert_eq!(runners, ["creating", "idle", "claimed", "running", "releasing", "idle", "terminating"]);
    assert!(futures_util::poll!(std::pin::pin!(other.next())).is_pending(), "another pool is not meant");
}

async fn the_shortfall_is_created(on: On) {
    let rig = Rig::start(on).await;
    rig.pool(json!({"max_size": 3})).await;
    rig.claims("cold", 3).await;
    eventually("three machines are made", async || rig.fake.machines().len() == 3).await;
    assert_eq!(rig.fake.asked().iter().map(|create| create.count).sum::<u32>(), 3);
    let mut agents = rig.joined().await;
    for agent in &mut agents {
        agent.says(&rig, "UD_OK", None).await;
    }
    rig.register_all(&mut agents, "cold").await;
    assert_eq!(rig.settled("cold").await["state"], "ready");
    assert_eq!(rig.show().await["statistics"]["cold_hits"], 3);
    let listed = rig.server.call("GET", "/api/v1/pools/ci/claims?state=ready", "").await.json();
    assert_eq!((&listed["claims"][0]["run_id"], &listed["claims"][0]["live"]), (&json!("cold"), &json!(3)));
    for unknown in ["runners", "failures", "discarded"] {
        assert!(listed["claims"][0].get(unknown).is_none(), "a list does not know {unknown}: {listed}");
    }
}

async fn a_runner_that_cannot_register_is_discarded_and_another_one_taken(on: On) {
    let rig = Rig::start(on).await;
    rig.pool(json!({"min_idle": 2, "max_size": 2})).await;
    let mut agents = rig.idle(2).await;
    rig.claims("run", 1).await;
    let bad = rig.registering(&mut agents, "run").await;
    agents[bad].says(&rig, "UD_REG_FAILED", Some("run")).await;
    assert_eq!(agents[bad].order["action"], "end");
    let bad = agents.remove(bad);
    rig.register_all(&mut agents, "run").await;
    let ready = rig.settled("run").await;
    assert_eq!((&ready["state"], ids(&ready)), (&json!("ready"), vec![agents[0].id.as_str()]));
    let failure = &ready["failures"][0];
    assert_eq!(ready["discarded"], 1);
    assert_eq!((&failure["runner_id"], &failure["cause"]), (&json!(bad.id), &json!("register_failed")));
    eventually("its machine is ended", async || rig.fake.terminated().contains(&bad.machine)).await;
}

async fn a_crowd_hides_nobody(on: On) {
    let rig = Rig::start(on).await;
    rig.pool(json!({"min_idle": 1, "max_size": 1})).await;
    let mut agents = rig.idle(1).await;
    rig.pool(json!({"name": "crowded", "max_size": 1})).await;
    rig.fake.always(Some(Mood::Refuses("no more")));
    let number = rig.server.app.store.pool("default", "crowded").await.unwrap().unwrap().number;
    assert_eq!(rig.claims("first", 1).await["state"], "waiting");
    // All of them newer.
    for place in 0..1_100 {
        let run_id = format!("crowd-{place}");
        let claim = NewPoolClaim {
            pool: number,
            run_id,
            fingerprint: [0; 16],
            count: 1,
            wanted: Wanted::default(),
            priority: 5,
            owner: "crowd".into(),
            runtime_ms: 1_000,
            wait_ms: 100_000_000,
            waiting_max: u64::MAX,
        };
        rig.server.app.store.open_claim(claim).await.unwrap();
    }
    rig.register_all(&mut agents, "first").await;
    assert_eq!(rig.settled("first").await["state"], "ready");
}

async fn a_crowded_pool_says_when_to_come_back(on: On) {
    let rig = Rig::with(on, |settings| settings.pool_claims_waiting_max = 2).await;
    rig.pool(json!({"max_size": 1})).await;
    rig.fake.always(Some(Mood::Refuses("no more")));
    rig.claims("first", 1).await;
    rig.claims("second", 1).await;
    let full = rig.claim(json!({"run_id": "third"})).await;
    assert_eq!(full.refusal(), "503 claims_full");
    assert_eq!(full.header("retry-after"), "5");
    let said = "the pool ci takes no more claims now: 2 wait for its machines already; try again";
    assert!(full.json()["error"].as_str().unwrap().contains(said), "{full:?}");
    assert_eq!(rig.server.call("GET", "/api/v1/pools/ci/claims/third", "").await.refusal(), "404 not_found");
    let again = rig.claim(json!({"run_id": "first", "count": 1})).await;
    assert_eq!((again.status, &again.json()["state"]), (200, &json!("waiting")), "{again:?}");
    assert_eq!(rig.claim(json!({"run_id": "first", "priority": 9})).await.refusal(), "409 conflict");
    rig.release("second").await;
    rig.claims("third", 1).await;
}

async fn a_silent_runner_is_not_handed_over(on: On) {
    let rig = Rig::start(on).await;
    rig.pool(json!({"min_idle": 2, "max_size": 2})).await;
    let mut agents = rig.idle(2).await;
    rig.claims("run", 2).await;
    agents[0].hears(&rig, "register").await;
    agents[1].hears(&rig, "register").await;
    agents[0].says(&rig, "UD_REG_OK", Some("run")).await;
    rig.server.clock.advance(10_000);
    agents[1].call(&rig, "POST", "heartbeat", String::new()).await;
    rig.server.clock.advance(5_001);
    agents[1].says(&rig, "UD_REG_OK", Some("run")).await;
    // The first one fell silent after it had registered; a new machine takes its place.
    eventually("it is discarded", async || rig.claimed("run").await["failures"][0]["cause"] == "silent").await;
    assert_eq!(rig.claimed("run").await["failures"][0]["runner_id"], agents[0].id);
    assert_eq!(rig.claimed("run").await["state"], "waiting");
}

async fn a_claim_that_cannot_be_filled_gives_back_and_says_why(on: On) {
    let rig = Rig::start(on).await;
    rig.pool(json!({"min_idle": 1, "max_size": 2})).await;
    let mut agents = rig.idle(1).await;
    rig.fake.always(Some(Mood::Refuses("the shelves are empty")));
    let opened = rig.claim(json!({"run_id": "run", "count": 2, "wait_ms": 5_000})).await;
    assert_eq!(opened.status, 201);
    rig.register_all(&mut agents, "run").await;
    eventually("the provider has refused", async || rig.show().await["error"] == "the shelves are empty").await;
    rig.server.clock.advance(5_001);
    let failed = rig.settled("run").await;
    assert_eq!((&failed["state"], &failed["reason"]), (&json!("failed"), &json!("wait_over")));
    let said = failed["detail"].as_str().unwrap();
    assert!(said.contains("the pool has 1 of 2 machines: 1 ") && said.contains("the shelves are empty"), "{failed}");
    agents[0].hears(&rig, "deregister").await;
    agents[0].says(&rig, "UD_REMOVE_REG_OK", Some("run")).await;
    rig.until("idle", 1).await;
    assert_eq!(failed["runners"], json!([]));
}

async fn what_a_pool_cannot_have_is_refused_at_once(on: On) {
    let rig = Rig::start(on).await;
    rig.pool(json!({"max_size": 2, "cpu": 4, "memory_mib": 2_048, "usage": "spot", "runtime_ms": 1_000, "types": ["fake.*"]})).await;
    for wrong in [
        json!({"count": 0}),
        json!({"count": 3}),
        json!({"cpu": 2}),
        json!({"memory_mib": 4_096}),
        json!({"usage": "on_demand"}),
        json!({"max_runtime_ms": 1_001}),
        json!({"priority": 10}),
        json!({"types": [""]}),
        json!({"types": ["m5*", "c?"]}),
        json!({"run_id": ""}),
        json!({"run_id": "a b"}),
        json!({"wait": 1}),
    ] {
        let mut claim = json!({"run_id": "run"});
        claim.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        assert_eq!(rig.claim(claim).await.refusal(), "422 invalid", "{wrong}");
    }
    assert_eq!(rig.server.call("GET", "/api/v1/pools/ci/claims/none", "").await.refusal(), "404 not_found");
    assert_eq!(rig.server.call("DELETE", "/api/v1/pools/ci/claims/none", "").await.refusal(), "404 not_found");
    let unlike = rig.claim(json!({"run_id": "run", "types": ["m5*", "c?"]})).await;
    let said = "no machine of this pool is of type m5*, c?: they are of type ";
    assert!(unlike.json().to_string().contains(said), "{unlike:?}");
    let fits = rig.claim(json!({"run_id": "fits", "types": ["m5*", "*.small"]})).await;
    assert_eq!(fits.status, 201, "{fits:?}");
    rig.release("fits").await;
    let other = rig.claim(json!({"run_id": "fits", "count": 2})).await;
    assert_eq!(other.refusal(), "409 conflict");
    assert!(other.json().to_string().contains("has ended (released): choose another run_id"), "{other:?}");
    let shrunk = rig.claims("two", 2).await;
    assert_eq!(shrunk["state"], "waiting");
    rig.server.call("PATCH", "/api/v1/pools/ci", r#"{"max_size": 1}"#).await;
    let failed = rig.settled("two").await;
    assert_eq!((&failed["state"], &failed["reason"]), (&json!("failed"), &json!("impossible")));
}

async fn a_claim_that_keeps_its_runners_too_long_loses_them(on: On) {
    let rig = Rig::start(on).await;
    rig.pool(json!({"min_idle": 1, "max_size": 1, "runtime_ms": 60_000})).await;
    let mut agents = rig.idle(1).await;
    rig.claims("run", 1).await;
    rig.register_all(&mut agents, "run").await;
    assert_eq!(rig.settled("run").await["state"], "ready");
    agents[0].hears(&rig, "keep").await;
    rig.server.clock.advance(60_001);
    agents[0].hears(&rig, "end").await;
    eventually("the machine is ended", async || rig.fake.terminated().contains(&agents[0].machine)).await;
    assert_eq!(rig.claimed("run").await["reason"], "runtime_over");
}

async fn what_a_claim_asks_for_is_what_is_ordered(on: On) {
    let rig = Rig::start(on).await;
    rig.pool(
        json!({"min_idle": 1, "max_size": 3, "usage": "spot", "spot_fallback": true, "types": ["fake.small", "fake.l*"]}),
    )
    .await;
    rig.idle(1).await;
    assert_eq!(rig.claim(json!({"run_id": "lasting", "usage": "on_demand"})).await.status, 201);
    assert_eq!(rig.claim(json!({"run_id": "large", "types": ["fake.large"]})).await.status, 201);
    eventually("both are made", async || rig.fake.machines().len() == 3).await;
    let asked = rig.fake.asked();
    let asked: Vec<_> = asked.iter().map(|one| (one.count, one.usage, one.types.join(" "))).collect();
    assert_eq!(asked[0], (1, Usage::Spot, String::new()), "for min_idle");
    assert!(asked[1..].contains(&(1, Usage::OnDemand, String::new())), "{asked:?}");
    assert!(asked[1..].contains(&(1, Usage::Spot, "fake.large".into())), "{asked:?}");

    let mut agents = rig.joined().await;
    for agent in agents.iter_mut().filter(|agent| agent.order["action"] == "start") {
        agent.says(&rig, "UD_OK", None).await;
    }
    for (run_id, usage, kind) in [("lasting", "on_demand", "fake.small"), ("large", "spot", "fake.large")] {
        let place = rig.registering(&mut agents, run_id).await;
        agents[place].says(&rig, "UD_REG_OK", Some(run_id)).await;
        let filled = rig.settled(run_id).await;
        let runner = &filled["runners"][0];
        assert_eq!(
            (&filled["state"], &runner["usage"], &runner["type"]),
            (&json!("ready"), &json!(usage), &json!(kind))
        );
    }
    assert_eq!(asked.len(), rig.fake.asked().len(), "nothing is made in vain");
    assert_eq!((rig.count("idle").await, rig.fake.terminated()), (1, vec![]), "and what was warm stays so");
}

async fn a_claim_ends_no_warm_machine_that_it_cannot_use(on: On) {
    let rig = Rig::start(on).await;
    rig.pool(json!({"min_idle": 2, "max_size": 2, "usage": "spot", "spot_fallback": true})).await;
    rig.idle(2).await;
    let picky = json!({"run_id": "picky", "usage": "on_demand", "wait_ms": 5_000});
    assert_eq!(rig.claim(picky).await.status, 201);
    // Whoever is content with what is there gets it, after the keeper has looked what the other one
    // lacks.
    rig.server.clock.advance(5_001);
    let failed = rig.settled("picky").await;
    assert_eq!((&failed["state"], &failed["reason"]), (&json!("failed"), &json!("wait_over")));
    let detail = failed["detail"].as_str().unwrap();
    assert!(detail.ends_with("2 of the idle ones are not what the claim asks for"), "{detail}");
    assert_eq!((rig.count("idle").await, rig.fake.terminated()), (2, vec![]));
}

on_both!(
    what_a_claim_asks_for_is_what_is_ordered,
    a_claim_ends_no_warm_machine_that_it_cannot_use,
    warm_runners_are_claimed_handed_over_and_given_back,
    moves_of_runners_and_claims_are_heard_of,
    the_shortfall_is_created,
    a_runner_that_cannot_register_is_discarded_and_another_one_taken,
    a_crowd_hides_nobody,
    a_crowded_pool_says_when_to_come_back,
    a_silent_runner_is_not_handed_over,
    a_claim_that_cannot_be_filled_gives_back_and_says_why,
    what_a_pool_cannot_have_is_refused_at_once,
    a_claim_that_keeps_its_runners_too_long_loses_them,
);
