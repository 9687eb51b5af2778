//! Pools, over the wire, with a provider that makes machines of paper.

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use baton_core::pools::{Machine, PoolSpec, Usage};
use baton_server::providers::{Create, PoolInfo, Provider, ProviderError, ProviderMachine};
use common::{Session, Site, encoded, eventually};
use serde_json::{Value, json};

/// Makes whatever it is asked for, and remembers with which token its agents join.
#[derive(Debug, Default)]
struct Paper {
    machines: Mutex<BTreeMap<String, (ProviderMachine, String)>>,
    refuses: Mutex<Option<String>>,
}

#[async_trait]
impl Provider for Paper {
    fn check(&self, _: &PoolSpec) -> Result<(), String> {
        Ok(())
    }

    fn runs_here(&self) -> bool {
        false
    }

    async fn create(&self, wanted: &Create) -> Result<Vec<ProviderMachine>, ProviderError> {
        if let Some(why) = self.refuses.lock().unwrap().clone() {
            return Err(ProviderError::Refused(why));
        }
        let join = wanted.environment["BATON_JOIN_TOKEN"].clone();
        let mut known = self.machines.lock().unwrap();
        let machine = Machine { kind: "paper.1".into(), usage: Usage::OnDemand, cpu: 1, memory_mib: 1_024 };
        let made = (0..wanted.count).map(|number| ProviderMachine {
            id: format!("m-{}-{number}", wanted.token),
            token: Some(wanted.token.clone()),
            machine: machine.clone(),
        });
        let made: Vec<ProviderMachine> = made.collect();
        known.extend(made.iter().map(|machine| (machine.id.clone(), (machine.clone(), join.clone()))));
        Ok(made)
    }

    async fn terminate(&self, _: &PoolInfo, machines: &[String]) -> Result<(), ProviderError> {
        self.machines.lock().unwrap().retain(|id, _| !machines.contains(id));
        Ok(())
    }

    async fn list(&self, _: &PoolInfo) -> Result<Vec<ProviderMachine>, ProviderError> {
        Ok(self.machines.lock().unwrap().values().map(|(machine, _)| machine.clone()).collect())
    }
}

async fn start() -> (Site, Arc<Paper>, Session) {
    let site = Site::start().await;
    let paper = Arc::new(Paper::default());
    site.app.pools.providers.add("paper", paper.clone());
    let session = site.administrator().await;
    (site, paper, session)
}

async fn made(site: &Site, session: &Session, min_idle: &str, max_size: &str) {
    let fields = [
        ("name", "ci"),
        ("provider", "paper"),
        ("cpu", "1"),
        ("memory_mib", "1024"),
        ("min_idle", min_idle),
        ("max_size", max_size),
        ("idle_ms", "30m"),
        ("runtime_ms", "6h"),
        ("usage", "on_demand"),
        ("options", "zone=a\napi_token=hush"),
    ];
    let made = site.post(session, "/form/pools/new", &fields).await;
    assert_eq!(made.status, 200, "{}", made.body);
}

/// Waits until so many machines of the pool are in a state.
async fn until(site: &Site, state: &str, count: u64) {
    eventually(&format!("{count} are {state}"), async || {
        let pool = site.api("GET", "/api/v1/pools/ci", Value::Null).await;
        pool["runners"][state].as_u64() == Some(count)
    })
    .await;
}

/// Has the agents of all machines say that they are up.
async fn agents_say_up(site: &Site, paper: &Paper) {
    let machines: Vec<(String, String)> =
        paper.machines.lock().unwrap().iter().map(|(id, (_, join))| (id.clone(), join.clone())).collect();
    for (machine, join) in machines {
        let body = json!({"machine_id": machine, "nonce": format!("{:032x}", 1)});
        let bearer = format!("Bearer {join}");
        let joined = site.api_as("POST", "/api/v1/runners/join", ("authorization", &bearer), body).await;
        let (id, token) = (joined["runner_id"].as_str().unwrap(), joined["token"].as_str().unwrap());
        let said = json!({"signal": "UD_OK", "run_id": null, "epoch": joined["order"]["epoch"], "detail": ""});
        let bearer = format!("Bearer {token}");
        site.api_as("POST", &format!("/api/v1/runners/{id}/signals"), ("authorization", &bearer), said).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_is_made_shown_changed_and_removed() {
    let (site, paper, session) = start().await;
    site.get(&session, "/pools").await.assert_has(&["No pool yet.", "pool create try", "--url http://127.0.0.1:"]);
    made(&site, &session, "2", "4").await;
    until(&site, "creating", 2).await;
    site.get(&session, "/pools").await.assert_harmless().assert_has(&["/pools/ci", "filling", " of 2"]);
    let page = site.get(&session, "/pools/ci").await;
    page.assert_harmless().assert_has(&[
        "mach creating",
        "No claim waits.",
        "lane-idle",
        "ordered",
        "None. A claim asks",
    ]);
    agents_say_up(&site, &paper).await;
    until(&site, "idle", 2).await;
    site.get(&session, "/pools/ci").await.assert_has(&["mach idle", "2 machines are", "paper.1"]);
    let edit = site.get(&session, "/form/pools/ci/edit").await;
    edit.assert_has(&["api_token=***", "zone=a", "value=\"6h\"", "value=\"30m\""]).assert_lacks(&["hush"]);
    let fields = [
        ("min_idle", "1"),
        ("max_size", "3"),
        ("idle_ms", "10m"),
        ("runtime_ms", "1h"),
        ("usage", "on_demand"),
        ("options", "zone=b\napi_token=***"),
    ];
    let changed = site.post(&session, "/form/pools/ci/edit", &fields).await;
    assert_eq!(changed.status, 200, "{}", changed.body);
    for (field, value) in [("min_idle", "some"), ("idle_ms", "10"), ("options", "nonsense")] {
        let wrong: Vec<_> =
            fields.iter().map(|(name, known)| (*name, if *name == field { value } else { *known })).collect();
        let refused = site.post(&session, "/form/pools/ci/edit", &wrong).await;
        assert_eq!((refused.status, refused.json()["field"].as_str()), (422, Some(field)), "{}", refused.body);
    }
    let stale = [("revision", "1"), ("min_idle", "1"), ("options", "")];
    assert_eq!(site.post(&session, "/form/pools/ci/edit", &stale).await.status, 409);
    assert_eq!(site.post(&session, "/form/pools/ci/remove", &[]).await.status, 200);
    eventually("the pool is gone", async || site.get(&session, "/pools").await.body.contains("No pool yet.")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_say_why_they_wait_and_are_given_up() {
    let (site, paper, session) = start().await;
    made(&site, &session, "0", "2").await;
    let claim = async |run: &str, count: &str, priority: &str| {
        let fields = [("run_id", run), ("count", count), ("priority", priority)];
        let claimed = site.post(&session, "/form/pools/ci/claim", &fields).await;
        assert_eq!(claimed.status, 200, "{}", claimed.body);
    };
    claim("job-1", "2", "5").await;
    until(&site, "creating", 2).await;
    claim("job-2", "1", "5").await;
    let page = site.get(&session, "/pools/ci").await;
    page.assert_has(&["2 claims wait", "coming", "behind job-1", "at its largest size", "0 of 2"]);
    agents_say_up(&site, &paper).await;
    until(&site, "claimed", 2).await;
    let page = site.get(&session, "/pools/ci").await;
    page.assert_has(&["registering", "2 machines run their hook", "mach claimed", "registers, job-1", "pool is full"]);
    let ask = site.get(&session, "/form/pools/ci/release?run=job-2").await;
    ask.assert_has(&["Give the claim up?", "leaves the line"]);
    assert_eq!(site.post(&session, "/form/pools/ci/release", &[("run", "job-2")]).await.status, 200);
    site.get(&session, "/pools/ci").await.assert_has(&["1 claim waits"]).assert_lacks(&["behind job-1"]);
    let wrong = site.post(&session, "/form/pools/ci/claim", &[("run_id", "a b"), ("count", "1")]).await;
    assert_eq!(wrong.json()["field"].as_str(), Some("run_id"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_provider_says_is_shown_as_text() {
    let (site, paper, session) = start().await;
    *paper.refuses.lock().unwrap() = Some("<script>alert(1)</script> no \u{1b}[31mcapacity".into());
    made(&site, &session, "1", "2").await;
    eventually("it has refused", async || site.api("GET", "/api/v1/pools/ci", Value::Null).await["error"].is_string())
        .await;
    for path in ["/pools", "/pools/ci"] {
        site.get(&session, path).await.assert_harmless().assert_has(&["capacity"]);
    }
    site.get(&session, "/pools/ci").await.assert_has(&["The provider says:", "asked for again"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_has_a_life_and_is_ended() {
    let (site, paper, session) = start().await;
    made(&site, &session, "1", "1").await;
    until(&site, "creating", 1).await;
    site.clock.advance(5_000);
    agents_say_up(&site, &paper).await;
    until(&site, "idle", 1).await;
    let runners = site.api("GET", "/api/v1/pools/ci/runners", Value::Null).await;
    let id = runners["runners"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("/pools/ci/machines/{id}");
    site.get(&session, "/pools/ci").await.assert_has(&[&path]);
    let page = site.get(&session, &path).await;
    page.assert_harmless().assert_has(&["creating 5.0 s", "It waits for a claim", "End it", "paper.1"]);
    site.get(&session, &format!("/form{path}/end")).await.assert_has(&["Nobody uses it."]);
    let reader = site.visitor(&["read"], None).await;
    site.get(&reader, &path).await.assert_lacks(&["End it"]);
    assert_eq!(site.post(&reader, &format!("/form{path}/end"), &[]).await.status, 403);
    assert_eq!(site.post(&session, &format!("/form{path}/end"), &[]).await.status, 200);
    eventually("it is gone", async || site.get(&session, &path).await.body.contains("It is gone")).await;
    site.get(&session, &path).await.assert_has(&["because", "asked"]);
    site.get(&session, "/pools/ci").await.assert_has(&["Ended machines, 24 h", "asked"]);
    site.get(&session, "/pools/ci/machines/none").await.assert_has(&["No such runner"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_machines_are_squares() {
    let (site, _, session) = start().await;
    made(&site, &session, "210", "1000").await;
    // Machines are asked for by the hundred, one order at each look.
    eventually("210 are creating", async || {
        site.clock.advance(500);
        let pool = site.api("GET", "/api/v1/pools/ci", Value::Null).await;
        pool["runners"]["creating"].as_u64() == Some(210)
    })
    .await;
    let page = site.get(&session, "/pools/ci").await;
    page.assert_has(&["sq creating", "squares"]).assert_lacks(&["mach creating"]);
    assert!(page.body.len() < 150_000, "{}", page.body.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_no_action_and_others_see_nothing() {
    let (site, _, session) = start().await;
    made(&site, &session, "0", "2").await;
    let reader = site.visitor(&["read"], None).await;
    for path in ["/pools", "/pools/ci"] {
        site.get(&reader, path).await.assert_harmless().assert_lacks(&["/form/pools"]);
    }
    for verb in ["edit", "remove", "claim", "release"] {
        let refused = site.post(&reader, &format!("/form/pools/ci/{verb}"), &[("run_id", "a"), ("run", "a")]).await;
        assert_eq!(refused.status, 403, "{verb}: {}", refused.body);
    }
    let foreign = site.visitor(&["admin"], Some("elsewhere")).await;
    site.get(&foreign, "/pools").await.assert_lacks(&["/pools/ci"]);
    site.get(&foreign, "/pools/ci").await.assert_has(&["No such pool"]);
    site.get(&foreign, "/pools/ci?ns=default").await.assert_lacks(&["lane-idle"]);
    for name in common::ABSURD {
        site.get(&session, &format!("/pools/{}", encoded(name))).await.assert_text();
    }
}
