//! A server with a fake provider, and agents that are told what to do by the tests.

use std::collections::BTreeSet;
use std::sync::Arc;

use baton_server::Settings;
use serde_json::{Value, json};

use super::fake::Fake;
use crate::harness::{Answer, LONG_MS, On, Server, eventually};

/// A server whose provider `fake` is at hand.
pub struct Rig {
    pub server: Server,
    pub fake: Arc<Fake>,
}

/// The agent on a machine.
#[derive(Clone, Debug)]
pub struct Agent {
    pub id: String,
    pub token: String,
    pub machine: String,
    /// The last order it has heard.
    pub order: Value,
}

impl Rig {
    pub async fn start(on: On) -> Rig {
        Rig::with(on, |_| {}).await
    }

    pub async fn with(on: On, change: impl FnOnce(&mut Settings)) -> Rig {
        Rig::on(Server::with(on, change).await)
    }

    /// With a provider that has made nothing yet.
    pub fn on(server: Server) -> Rig {
        let fake = Arc::new(Fake::default());
        server.app.pools.providers.add("fake", fake.clone());
        Rig { server, fake }
    }

    /// Makes the pool `ci` with these words besides.
    pub async fn pool(&self, more: Value) -> Value {
        let mut wanted = json!({"name": "ci", "provider": "fake"});
        wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let made = self.server.call("POST", "/api/v1/pools", wanted.to_string()).await;
        assert_eq!(made.status, 201, "{made:?}");
        made.json()
    }

    pub async fn show(&self) -> Value {
        self.server.call("GET", "/api/v1/pools/ci", "").await.json()
    }

    /// How many runners of the pool are in a state.
    pub async fn count(&self, state: &str) -> u64 {
        self.show().await["runners"][state].as_u64().unwrap()
    }

    pub async fn until(&self, state: &str, count: u64) {
        eventually(&format!("{count} are {state}"), async || self.count(state).await == count).await;
    }

    pub async fn runners(&self, query: &str) -> Vec<Value> {
        let page = self.server.call("GET", &format!("/api/v1/pools/ci/runners?{query}"), "").await.json();
        page["runners"].as_array().unwrap().clone()
    }

    // ---- claims

    pub async fn claim(&self, wanted: Value) -> Answer {
        self.server.call("POST", "/api/v1/pools/ci/claims", wanted.to_string()).await
    }

    /// Claims so many for a run.
    pub async fn claims(&self, run_id: &str, count: u32) -> Value {
        let opened = self.claim(json!({"run_id": run_id, "count": count})).await;
        assert_eq!(opened.status, 201, "{opened:?}");
        opened.json()
    }

    pub async fn claimed(&self, run_id: &str) -> Value {
        self.server.call("GET", &format!("/api/v1/pools/ci/claims/{run_id}"), "").await.json()
    }

    /// Waits until a claim is filled or has ended.
    pub async fn settled(&self, run_id: &str) -> Value {
        let path = format!("/api/v1/pools/ci/claims/{run_id}?wait_ms={LONG_MS}");
        self.server.call("GET", &path, "").await.json()
    }

    pub async fn release(&self, run_id: &str) -> Value {
        self.server.call("DELETE", &format!("/api/v1/pools/ci/claims/{run_id}"), "").await.json()
    }

    // ---- agents

    /// The join token of the order with this token.
    pub fn join_token(&self, order: &str) -> String {
        let asked = self.fake.asked();
        let create = asked.iter().find(|create| create.token == order).expect("that order was made");
        create.environment["BATON_JOIN_TOKEN"].clone()
    }

    pub async fn join_with(&self, join_token: &str, machine: &str, nonce: u8) -> Answer {
        let request = self.server.request("POST", "/api/v1/runners/join");
        let body = json!({"machine_id": machine, "nonce": format!("{nonce:032x}")}).to_string();
        self.server.send(request.header("authorization", format!("Bearer {join_token}")), body).await
    }

    /// An agent on each machine there is, which has joined and says nothing.
    pub async fn joined(&self) -> Vec<Agent> {
        let mut agents = Vec::new();
        for (machine, order) in self.fake.machines() {
            let joined = self.join_with(&self.join_token(&order), &machine, 1).await;
            assert_eq!(joined.status, 200, "{joined:?}");
            let joined = joined.json();
            let text = |name: &str| joined[name].as_str().unwrap().to_owned();
            agents.push(Agent { id: text("runner_id"), token: text("token"), machine, order: joined["order"].clone() });
        }
        agents
    }

    /// Waits for so many machines, and has their agents say that they are up.
    pub async fn idle(&self, count: usize) -> Vec<Agent> {
        eventually("the machines are there", async || self.fake.machines().len() == count).await;
        let mut agents = self.joined().await;
        for agent in &mut agents {
            assert_eq!(agent.order["action"], "start");
            assert_eq!(agent.says(self, "UD_OK", None).await["counts"], true);
        }
        self.until("idle", count as u64).await;
        agents
    }

    /// Of these agents the one that is to register for this run.
    pub async fn registering(&self, agents: &mut [Agent], run_id: &str) -> usize {
        let mut found = None;
        eventually("an agent is to register", async || {
            for (place, agent) in agents.iter_mut().enumerate() {
                agent.looks(self).await;
                if agent.order["action"] == "register" && agent.order["run_id"] == run_id {
                    found = Some(place);
                }
            }
            found.is_some()
        })
        .await;
        found.unwrap()
    }

    /// All of these agents register for a run, as soon as they are told.
    pub async fn register_all(&self, agents: &mut [Agent], run_id: &str) {
        for agent in agents {
            agent.hears(self, "register").await;
            assert_eq!(agent.order["run_id"], run_id);
            assert_eq!(agent.says(self, "UD_REG_OK", Some(run_id)).await["counts"], true);
        }
    }

    pub async fn audited(&self, action: &str) -> Vec<Value> {
        let log = self.server.call("GET", "/api/v1/audit", "").await.json();
        log["lines"].as_array().unwrap().iter().filter(|line| line["action"] == action).cloned().collect()
    }
}

impl Agent {
    pub async fn call(&self, rig: &Rig, method: &str, path: &str, body: String) -> Answer {
        let request = rig.server.request(method, &format!("/api/v1/runners/{}/{path}", self.id));
        rig.server.send(request.header("authorization", format!("Bearer {}", self.token)), body).await
    }

    /// Asks what to do, without waiting.
    pub async fn looks(&mut self, rig: &Rig) {
        self.order = self.call(rig, "GET", "next", String::new()).await.json();
    }

    /// Waits until it is to do this.
    pub async fn hears(&mut self, rig: &Rig, action: &str) {
        let mut seen = BTreeSet::new();
        while self.order["action"] != action {
            let serial = self.order["serial"].as_str().unwrap().to_owned();
            assert!(seen.insert(serial.clone()), "it hears {} and not {action}", self.order);
            self.order =
                self.call(rig, "GET", &format!("next?wait_ms={LONG_MS}&after={serial}"), String::new()).await.json();
        }
    }

    /// Signals, with the epoch of its last order.
    pub async fn says(&mut self, rig: &Rig, signal: &str, run_id: Option<&str>) -> Value {
        let said =
            json!({"signal": signal, "run_id": run_id, "epoch": self.order["epoch"], "detail": "said by a test"});
        let answer = self.call(rig, "POST", "signals", said.to_string()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let answer = answer.json();
        self.order = answer["order"].clone();
        answer
    }
}
