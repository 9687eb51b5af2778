//! The keeper: as many machines as there should be, whatever providers do.

use std::collections::BTreeSet;

use baton_core::pools::Usage;
use baton_store::Clock;
use serde_json::json;

use super::fake::Mood;
use super::rig::Rig;
use crate::harness::{On, START, Server, eventually, on_both};

fn tokens(rig: &Rig) -> BTreeSet<String> {
    rig.fake.asked().into_iter().map(|create| create.token).collect()
}

async fn a_provider_that_falls_halfway_is_asked_again_under_the_same_token(on: On) {
    let rig = Rig::start(on).await;
    rig.fake.next(Mood::FallsHalfway);
    rig.pool(json!({"min_idle": 4, "max_size": 4})).await;
    eventually("it was asked", async || rig.fake.asked().len() == 1).await;
    eventually("it is told", async || rig.show().await["error"] == "fell over").await;
    // Nobody else asks until the call's time is over.
    rig.server.clock.advance(90_001);
    eventually("it was asked again", async || rig.fake.asked().len() == 2).await;
    assert_eq!(tokens(&rig).len(), 1);
    let agents = rig.idle(4).await;
    assert_eq!(agents.iter().map(|agent| agent.id.clone()).collect::<BTreeSet<_>>().len(), 4);
    assert_eq!(rig.fake.terminated(), [""; 0]);
    assert_eq!(rig.show().await["error"], json!(null), "that is over");
}

async fn a_provider_that_hangs_is_given_up_and_asked_again(on: On) {
    let rig = Rig::with(on, |settings| settings.pool_provider_timeout_ms = 100).await;
    rig.fake.next(Mood::Hangs);
    rig.pool(json!({"min_idle": 1, "max_size": 1})).await;
    eventually("it was asked", async || !rig.fake.asked().is_empty()).await;
    rig.server.clock.advance(30_101);
    rig.idle(1).await;
    assert_eq!(tokens(&rig).len(), 1);
    let failed = r#"baton_pool_provider_calls_failed_total{namespace="default",pool="ci",call="create"} 1"#;
    eventually("the call that hung is counted", async || {
        rig.server.client.metrics().await.unwrap().lines().any(|line| line == failed)
    })
    .await;
}

async fn a_provider_that_hangs_for_one_pool_keeps_no_other_waiting(on: On) {
    let rig = Rig::start(on).await;
    rig.fake.always(Some(Mood::HangsFor("stuck")));
    for number in 0..20 {
        rig.pool(json!({"name": format!("stuck-{number}"), "min_idle": 1, "max_size": 1})).await;
    }
    eventually("all of them hang", async || rig.fake.asked().len() == 20).await;
    rig.pool(json!({"min_idle": 1, "max_size": 1})).await;
    rig.idle(1).await;
}

async fn machines_that_nobody_asked_for_are_ended(on: On) {
    let rig = Rig::with(on, |settings| settings.pool_silent_ms = 100_000_000).await;
    rig.fake.next(Mood::MakesTooMany);
    rig.pool(json!({"min_idle": 1, "max_size": 3})).await;
    eventually("the one too many is ended", async || rig.fake.terminated().len() == 1).await;
    assert!(rig.fake.terminated()[0].ends_with("too-many"));
    rig.idle(1).await;
    // That one may have been listed before it was ended.
    rig.server.clock.advance(30_000);
    eventually("it is forgotten", async || rig.server.app.pools.strays_seen() == 0).await;
    // One that just appears has a while to turn out to be somebody's.
    rig.fake.appear("stray", "not-an-order");
    // Also when it has a name that cannot be written down.
    let token = rig.fake.asked()[0].token.clone();
    rig.fake.appear("two\nlines", &token);
    rig.server.clock.advance(30_000);
    eventually("they were seen", async || rig.server.app.pools.strays_seen() == 2).await;
    assert_eq!(rig.fake.terminated().len(), 1);
    rig.server.clock.advance(120_000);
    let is_ended = |id: &str| rig.fake.terminated().iter().any(|ended| ended == id);
    eventually("both are ended", async || is_ended("stray") && is_ended("two\nlines")).await;
    assert_eq!(rig.fake.machines().len(), 1);
}

async fn machines_that_others_have_are_left_alone_whatever_a_provider_says(on: On) {
    let rig = Rig::start(on).await;
    rig.pool(json!({"min_idle": 3, "max_size": 9})).await;
    let mut before = rig.idle(3).await;
    rig.fake.next(Mood::NamesOthers);
    rig.server.call("PATCH", "/api/v1/pools/ci", r#"{"min_idle": 6}"#).await;
    eventually("six have a machine", async || {
        let runners = rig.runners("").await;
        let machines: BTreeSet<String> = runners.iter().map(|runner| runner["machine_id"].to_string()).collect();
        machines.len() == 6 && !machines.contains("null")
    })
    .await;
    assert_eq!(rig.fake.terminated(), [""; 0]);
    rig.claims("run-1", 3).await;
    rig.register_all(&mut before, "run-1").await;
    assert_eq!(rig.settled("run-1").await["state"], "ready");
}

async fn machines_of_another_pool_are_nobodys_to_end(on: On) {
    let rig = Rig::with(on, |settings| settings.pool_silent_ms = 100_000_000).await;
    rig.pool(json!({"min_idle": 1, "max_size": 1})).await;
    let own = rig.idle(1).await.remove(0);
    // Names the machine of the first pool as its own.
    rig.fake.next(Mood::NamesOthers);
    rig.pool(json!({"name": "greedy", "min_idle": 1, "max_size": 1})).await;
    eventually("it has its own", async || rig.fake.machines().len() == 2).await;
    for _ in 0..5 {
        let lists = rig.fake.lists();
        rig.server.clock.advance(60_000);
        // The fake lists all machines for both pools, without telling whose they are.
        eventually("both were listed", async || rig.fake.lists() >= lists + 2).await;
    }
    assert!(!rig.fake.terminated().contains(&own.machine), "{:?}", rig.fake.terminated());
    assert_eq!(rig.count("idle").await, 1);
}

async fn a_machine_that_is_lost_is_replaced(on: On) {
    let rig = Rig::with(on, |settings| settings.pool_silent_ms = 100_000_000).await;
    rig.pool(json!({"min_idle": 1, "max_size": 1})).await;
    let mut agents = rig.idle(1).await;
    rig.fake.lose(&agents[0].machine);
    rig.server.clock.advance(30_000);
    eventually("it is missed", async || rig.server.app.pools.missing_seen() == 1).await;
    rig.server.clock.advance(120_000);
    agents[0].hears(&rig, "end").await;
    rig.idle(1).await;
    let lost = rig.runners("state=gone").await;
    assert_eq!((lost.len(), &lost[0]["cause"], &lost[0]["id"]), (1, &json!("lost"), &json!(agents[0].id)));
}

async fn what_a_provider_that_lists_all_leaves_out_is_lost_at_once(on: On) {
    let rig = Rig::start(on).await;
    rig.fake.list_all();
    rig.pool(json!({"min_idle": 2, "max_size": 2})).await;
    let agents = rig.idle(2).await;
    rig.fake.lose(&agents[0].machine);
    // The other one is heard of, and that one was as well a moment ago.
    for agent in &agents {
        agent.call(&rig, "POST", "heartbeat", String::new()).await;
    }
    rig.server.clock.advance(30_000);
    eventually("it is replaced", async || rig.fake.asked().len() == 2).await;
    let gone = rig.runners("state=gone").await;
    assert_eq!((gone.len(), &gone[0]["cause"]), (1, &json!("lost")));
    assert_eq!(rig.fake.terminated(), [agents[0].machine.clone()]);
}

async fn a_provider_that_cannot_list_says_so_and_its_pool_can_be_given_up(on: On) {
    let rig = Rig::with(on, |settings| settings.pool_silent_ms = 100_000_000).await;
    rig.pool(json!({"min_idle": 1, "max_size": 1})).await;
    rig.idle(1).await;
    // A look that has begun before does not know yet, and the next one comes later.
    let error = async || {
        rig.server.clock.advance(31_000);
        rig.show().await["error"].clone()
    };
    rig.fake.fail_lists(Some("no such region"));
    let said = "the provider does not say what it has: no such region";
    eventually("it is said", async || error().await == said).await;
    rig.fake.fail_lists(None);
    eventually("it is over", async || error().await == json!(null)).await;
    rig.fake.fail_lists(Some("gone"));
    rig.server.call("DELETE", "/api/v1/pools/ci", "").await;
    eventually("its machine was asked to end", async || rig.fake.terminated().len() == 1).await;
    eventually("it is said", async || error().await == "the provider does not say what it has: gone").await;
    assert_eq!(rig.count("terminating").await, 1, "nobody knows whether it is gone");
    let forced = rig.server.call("DELETE", "/api/v1/pools/ci?force=true", "").await;
    assert_eq!(forced.status, 200, "{forced:?}");
    let audited = rig.audited("pool.delete_forced").await;
    assert!(audited[0]["detail"].as_str().unwrap().contains(&rig.fake.terminated()[0]), "{audited:?}");
    eventually("it is gone", async || rig.server.call("GET", "/api/v1/pools/ci", "").await.status == 404).await;
}

async fn one_list_that_leaves_machines_out_ends_nothing(on: On) {
    let rig = Rig::with(on, |settings| {
        settings.pool_silent_ms = 100_000_000;
        settings.pool_sweep_ms = 10_000;
    })
    .await;
    rig.pool(json!({"min_idle": 1, "max_size": 2})).await;
    let agents = rig.idle(1).await;
    // Old enough to be missed, and nothing is heard of it.
    rig.server.clock.advance(200_000);
    rig.fake.hide(true);
    rig.server.clock.advance(30_000);
    eventually("it is missed", async || rig.server.app.pools.missing_seen() == 1).await;
    rig.fake.hide(false);
    rig.server.clock.advance(30_000);
    eventually("it is found again", async || rig.server.app.pools.missing_seen() == 0).await;
    // Whoever is heard is there, whatever a provider says, however long.
    rig.fake.hide(true);
    for _ in 0..20 {
        agents[0].call(&rig, "POST", "heartbeat", String::new()).await;
        let lists = rig.fake.lists();
        rig.server.clock.advance(10_000);
        eventually("it was listed", async || rig.fake.lists() > lists).await;
    }
    assert_eq!((rig.count("idle").await, rig.fake.terminated().len()), (1, 0));
}

async fn a_pool_that_is_deleted_while_machines_are_made_waits_for_them(on: On) {
    let rig = Rig::with(on, |settings| settings.pool_provider_timeout_ms = 100).await;
    rig.fake.next(Mood::Hangs);
    rig.pool(json!({"min_idle": 1, "max_size": 1})).await;
    eventually("it was asked", async || rig.fake.asked().len() == 1).await;
    let order = rig.fake.asked()[0].token.clone();
    rig.server.call("DELETE", "/api/v1/pools/ci", "").await;
    rig.until("terminating", 1).await;
    // Nobody hears the answer, and the machine comes late.
    rig.server.clock.advance(30_000);
    rig.fake.appear("late", &order);
    rig.server.clock.advance(30_000);
    eventually("it is seen", async || rig.server.app.pools.strays_seen() == 1).await;
    rig.server.clock.advance(120_000);
    eventually("it is ended", async || rig.fake.terminated() == ["late"]).await;
    assert_eq!(rig.fake.machines(), []);
    rig.server.clock.advance(30_000);
    let is_gone = async || rig.server.call("GET", "/api/v1/pools/ci", "").await.status == 404;
    eventually("the pool is gone", is_gone).await;
    assert_eq!(rig.fake.asked().len(), 1, "nobody asks for machines of a deleted pool");
}

async fn a_machine_that_fell_with_its_server_is_given_up(on: On) {
    let rig = Rig::start(on).await;
    rig.pool(json!({"min_idle": 1, "max_size": 2})).await;
    let first = rig.idle(1).await.remove(0);
    rig.fake.lose_with_its_host(&first.machine);
    rig.server.clock.advance(60_001);
    rig.until("terminating", 1).await;
    // As long as its agent may live by itself it may be there.
    let asked = rig.fake.terminated().len();
    rig.server.clock.advance(600_000);
    eventually("its end is asked for", async || rig.fake.terminated().len() > asked).await;
    assert!(rig.runners("state=gone").await.iter().all(|runner| runner["id"] != first.id.as_str()));
    rig.server.clock.advance(90_000);
    eventually("it is gone", async || {
        rig.runners("state=gone").await.iter().any(|runner| runner["id"] == first.id.as_str())
    })
    .await;
}

async fn spot_falls_back_to_on_demand_at_once(on: On) {
    let rig = Rig::start(on).await;
    rig.fake.always(Some(Mood::HasNoSpot));
    rig.pool(json!({"min_idle": 1, "max_size": 1, "usage": "spot", "spot_fallback": true})).await;
    rig.idle(1).await;
    assert_eq!(rig.runners("state=idle").await[0]["usage"], "on_demand");
}

async fn of_what_came_in_part_the_rest_is_asked_for_at_once(on: On) {
    let rig = Rig::start(on).await;
    rig.fake.next(Mood::MakesHalf);
    rig.fake.next(Mood::Refuses("no more spot machines"));
    rig.pool(json!({"min_idle": 4, "max_size": 4, "usage": "spot", "spot_fallback": true})).await;
    rig.idle(4).await;
    let asked: Vec<_> = rig.fake.asked().into_iter().map(|create| (create.count, create.usage)).collect();
    assert_eq!(asked, [(4, Usage::Spot), (4, Usage::Spot), (2, Usage::OnDemand)]);
    assert_eq!(tokens(&rig).len(), 2);
    assert_eq!(rig.fake.terminated(), [""; 0]);
}

async fn a_provider_that_never_makes_more_than_a_part_is_not_asked_all_the_time(on: On) {
    let rig = Rig::start(on).await;
    rig.fake.always(Some(Mood::MakesHalf));
    rig.pool(json!({"min_idle": 4, "max_size": 4})).await;
    rig.idle(2).await;
    assert_eq!(rig.fake.asked().len(), 2);
}

async fn what_somebody_has_to_mend_is_no_reason_for_machines_on_demand(on: On) {
    let rig = Rig::start(on).await;
    rig.fake.next(Mood::IsMisconfigured);
    rig.pool(json!({"min_idle": 1, "max_size": 1, "usage": "spot", "spot_fallback": true})).await;
    eventually("it is told", async || rig.show().await["error"] == "no rights").await;
    assert!(rig.show().await["create_after"].is_string(), "it waits");
    rig.server.clock.advance(10_000);
    rig.idle(1).await;
    assert_eq!(rig.runners("state=idle").await[0]["usage"], "spot");
}

async fn after_a_refusal_creation_backs_off(on: On) {
    let rig = Rig::start(on).await;
    rig.fake.always(Some(Mood::Refuses("quota")));
    rig.pool(json!({"min_idle": 1, "max_size": 1})).await;
    eventually("it has refused", async || rig.show().await["error"] == "quota").await;
    assert!(rig.show().await["create_after"].is_string(), "it waits");
    rig.server.clock.advance(1_000);
    assert_eq!(rig.fake.asked().len(), 1);
    rig.fake.always(None);
    rig.server.clock.advance(10_000);
    rig.idle(1).await;
    eventually("all is well", async || rig.show().await["error"] == json!(null)).await;
    assert_eq!(rig.show().await["statistics"]["orders_failed"], 1);
}

async fn machines_that_fit_no_claim_are_made_now_and_then(on: On) {
    let rig = Rig::with(on, |settings| settings.pool_silent_ms = 100_000_000).await;
    rig.pool(json!({"max_size": 2})).await;
    // What this pool's machines will be is not known beforehand.
    assert_eq!(rig.claim(json!({"run_id": "run", "types": ["m5*"]})).await.status, 201);
    rig.idle(1).await;
    rig.server.clock.advance(4_000);
    assert_eq!(rig.fake.asked().len(), 1, "the next one waits");
    rig.server.clock.advance(1_001);
    eventually("another one is made", async || rig.fake.asked().len() == 2).await;
}

async fn a_pool_with_many_that_are_gone_lists_those_that_are_there(on: On) {
    let rig = Rig::start(on).await;
    rig.pool(json!({"min_idle": 3, "max_size": 6})).await;
    for agent in rig.idle(3).await {
        rig.server.call("DELETE", &format!("/api/v1/pools/ci/runners/{}", agent.id), "").await;
    }
    eventually("three are gone", async || rig.runners("state=gone").await.len() == 3).await;
    rig.until("creating", 3).await;
    for limit in 1..=3 {
        assert_eq!(rig.runners(&format!("limit={limit}")).await.len(), limit);
    }
}

async fn idle_machines_beyond_min_idle_end_after_a_while(on: On) {
    let rig = Rig::with(on, |settings| settings.pool_silent_ms = 100_000_000).await;
    rig.pool(json!({"min_idle": 2, "max_size": 2, "idle_ms": 60_000})).await;
    rig.idle(2).await;
    rig.server.call("PATCH", "/api/v1/pools/ci", r#"{"min_idle": 1}"#).await;
    rig.server.clock.advance(60_001);
    eventually("one is ended", async || rig.fake.machines().len() == 1).await;
    assert_eq!(rig.count("idle").await, 1);
    rig.until("terminating", 0).await;
    assert_eq!(rig.runners("state=gone").await[0]["cause"], "idle_too_long");
}

async fn an_agent_that_never_comes_up_is_replaced(on: On) {
    let rig = Rig::start(on).await;
    rig.pool(json!({"min_idle": 1, "max_size": 2})).await;
    eventually("a machine is there", async || rig.fake.machines().len() == 1).await;
    let first = rig.fake.machines().remove(0).0;
    rig.server.clock.advance(180_001);
    eventually("it is ended", async || rig.fake.terminated().contains(&first)).await;
    // The next one waits for a while, because this one came to nothing.
    assert!(rig.show().await["create_after"].is_string(), "and that is shown");
    rig.server.clock.advance(10_000);
    rig.idle(1).await;
}

async fn what_pools_have_is_on_the_metrics_page(on: On) {
    let rig = Rig::start(on).await;
    rig.pool(json!({"min_idle": 1, "max_size": 1})).await;
    rig.idle(1).await;
    let line = r#"baton_pool_runners{namespace="default",pool="ci",state="idle"} 1"#;
    eventually("the idle one is counted", async || {
        rig.server.client.metrics().await.unwrap().lines().any(|text| text == line)
    })
    .await;
}

async fn what_an_alert_looks_at_is_on_the_metrics_page(on: On) {
    let rig = Rig::with(on, |settings| settings.pool_sweep_ms = 1).await;
    rig.fake.always(Some(Mood::Refuses("quota")));
    rig.pool(json!({"min_idle": 2, "max_size": 3})).await;
    let late = rig.claim(json!({"run_id": "late", "wait_ms": 1_000})).await;
    assert_eq!(late.status, 201, "{late:?}");
    eventually("it has refused", async || rig.show().await["error"] == "quota").await;
    rig.server.clock.advance(1_001);
    assert_eq!(rig.settled("late").await["reason"], "wait_over");
    let pool = r#"namespace="default",pool="ci""#;
    let refused = rig.show().await["statistics"]["orders_failed"].clone();
    let lines = [
        format!("baton_pool_min_idle{{{pool}}} 2"),
        format!("baton_pool_max_size{{{pool}}} 3"),
        format!(r#"baton_pool_runners{{{pool},state="idle"}} 0"#),
        format!(r#"baton_pool_claims_failed_total{{{pool},reason="wait_over"}} 1"#),
        format!(r#"baton_pool_claims_failed_total{{{pool},reason="impossible"}} 0"#),
        format!("baton_pool_provider_failures_total{{{pool}}} {refused}"),
    ];
    eventually("all of it is shown", async || {
        rig.server.clock.advance(2);
        rig.server.app.pools.keeper.ring();
        let page = rig.server.client.metrics().await.unwrap();
        lines.iter().all(|line| page.lines().any(|text| text == line))
    })
    .await;
}

async fn the_time_that_machines_are_idle_is_shown_while_it_lasts(on: On) {
    let rig = Rig::with(on, |settings| settings.pool_silent_ms = 100_000_000).await;
    rig.pool(json!({"min_idle": 2, "max_size": 2})).await;
    rig.idle(2).await;
    rig.server.clock.advance(60_000);
    eventually("both are counted", async || {
        rig.show().await["statistics"]["idle_ms"].as_u64().is_some_and(|ms| (120_000..200_000).contains(&ms))
    })
    .await;
    assert_eq!(rig.show().await["statistics"]["used_ms"], 0);
}

on_both!(
    what_an_alert_looks_at_is_on_the_metrics_page,
    the_time_that_machines_are_idle_is_shown_while_it_lasts,
    a_provider_that_falls_halfway_is_asked_again_under_the_same_token,
    a_provider_that_hangs_is_given_up_and_asked_again,
    a_provider_that_hangs_for_one_pool_keeps_no_other_waiting,
    machines_that_nobody_asked_for_are_ended,
    machines_that_others_have_are_left_alone_whatever_a_provider_says,
    machines_of_another_pool_are_nobodys_to_end,
    a_machine_that_is_lost_is_replaced,
    what_a_provider_that_lists_all_leaves_out_is_lost_at_once,
    a_provider_that_cannot_list_says_so_and_its_pool_can_be_given_up,
    one_list_that_leaves_machines_out_ends_nothing,
    a_pool_that_is_deleted_while_machines_are_made_waits_for_them,
    a_machine_that_fell_with_its_server_is_given_up,
    spot_falls_back_to_on_demand_at_once,
    of_what_came_in_part_the_rest_is_asked_for_at_once,
    a_provider_that_never_makes_more_than_a_part_is_not_asked_all_the_time,
    what_somebody_has_to_mend_is_no_reason_for_machines_on_demand,
    after_a_refusal_creation_backs_off,
    machines_that_fit_no_claim_are_made_now_and_then,
    a_pool_with_many_that_are_gone_lists_those_that_are_there,
    idle_machines_beyond_min_idle_end_after_a_while,
    an_agent_that_never_comes_up_is_replaced,
    what_pools_have_is_on_the_metrics_page,
);

/// All servers are away for longer than an agent may take for anything, and one comes back.
async fn after_an_outage(mut rig: Rig, database: &str, clock: &Clock) -> Rig {
    rig.server.stop();
    rig.server.stopped().await;
    clock.advance(75_000);
    let fake = rig.fake.clone();
    rig = Rig::on(Server::on_database(database, clock.clone()).await);
    rig.server.app.pools.providers.add("fake", fake.clone());
    rig.fake = fake;
    rig
}

/// One agent was to register, and has; another was to deregister, and has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_agents_did_while_no_server_could_hear_them_counts() {
    let database = baton_testkit::database().await;
    let clock = Clock::manual(START);
    let mut rig = Rig::on(Server::on_database(database.url(), clock.clone()).await);
    rig.pool(json!({"min_idle": 2, "max_size": 2})).await;
    let mut agents = rig.idle(2).await;
    // No longer new, so that ten seconds are all they have.
    rig.claims("before", 2).await;
    rig.register_all(&mut agents, "before").await;
    assert_eq!(rig.settled("before").await["state"], "ready");
    rig.release("before").await;
    for agent in &mut agents {
        agent.hears(&rig, "deregister").await;
        agent.says(&rig, "UD_REMOVE_REG_OK", Some("before")).await;
    }
    rig.claims("given-back", 1).await;
    let place = rig.registering(&mut agents, "given-back").await;
    let mut given_back = agents.remove(place);
    given_back.says(&rig, "UD_REG_OK", Some("given-back")).await;
    assert_eq!(rig.settled("given-back").await["state"], "ready");
    rig.release("given-back").await;
    given_back.hears(&rig, "deregister").await;
    rig.claims("taken", 1).await;
    let mut taken = agents.remove(0);
    taken.hears(&rig, "register").await;

    rig = after_an_outage(rig, database.url(), &clock).await;
    assert_eq!(given_back.says(&rig, "UD_REMOVE_REG_OK", Some("given-back")).await["counts"], true);
    assert_eq!(taken.says(&rig, "UD_REG_OK", Some("taken")).await["counts"], true);
    assert_eq!(rig.settled("taken").await["state"], "ready");
    rig.until("idle", 1).await;
    assert_eq!((rig.fake.terminated().len(), rig.fake.asked().len()), (0, 1));
}

/// Somebody wants machines as soon as a server is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_that_no_server_could_hear_were_not_silent() {
    let database = baton_testkit::database().await;
    let clock = Clock::manual(START);
    let mut rig = Rig::on(Server::on_database(database.url(), clock.clone()).await);
    rig.pool(json!({"min_idle": 2, "max_size": 2})).await;
    let mut agents = rig.idle(2).await;
    rig = after_an_outage(rig, database.url(), &clock).await;
    rig.claims("one", 2).await;
    rig.register_all(&mut agents, "one").await;
    assert_eq!(rig.settled("one").await["state"], "ready");
    assert_eq!((rig.fake.terminated().len(), rig.fake.asked().len()), (0, 1));
    // Whoever says nothing from now on is silent, after the time for that.
    rig.release("one").await;
    for agent in &mut agents {
        agent.hears(&rig, "deregister").await;
        agent.says(&rig, "UD_REMOVE_REG_OK", Some("one")).await;
    }
    clock.advance(60_001);
    eventually("they are ended", async || rig.fake.terminated().len() == 2).await;
}
