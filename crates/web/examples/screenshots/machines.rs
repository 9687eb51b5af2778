//! A provider of machines that are only on paper, and their agents.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use baton::proto::CreatePool;
use baton_core::pools::{Machine, PoolSpec, Usage};
use baton_server::providers::{Create, PoolInfo, Provider, ProviderError, ProviderMachine};
use serde_json::{Value, json};

use crate::common::Site;
use crate::crew::{Crew, from};

/// Makes whatever it is asked for, up to a limit, and remembers with which token its agents join.
#[derive(Debug, Default)]
pub struct Paper {
    machines: Mutex<BTreeMap<String, (ProviderMachine, String)>>,
    joined: Mutex<BTreeMap<String, Agent>>,
}

#[derive(Clone, Debug)]
struct Agent {
    id: String,
    token: String,
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
        let join = wanted.environment["BATON_JOIN_TOKEN"].clone();
        let mut known = self.machines.lock().expect("nobody panics while holding it");
        let machine = Machine { kind: "m7g.large".into(), usage: Usage::OnDemand, cpu: 2, memory_mib: 8_192 };
        let made = (0..wanted.count).map(|number| ProviderMachine {
            id: format!("i-{:06x}{number:02x}", known.len() * 7_919 + 0x000a_3100),
            token: Some(wanted.token.clone()),
            machine: machine.clone(),
        });
        let made: Vec<ProviderMachine> = made.collect();
        known.extend(made.iter().map(|machine| (machine.id.clone(), (machine.clone(), join.clone()))));
        Ok(made)
    }

    async fn terminate(&self, _: &PoolInfo, machines: &[String]) -> Result<(), ProviderError> {
        self.machines.lock().expect("nobody panics while holding it").retain(|id, _| !machines.contains(id));
        Ok(())
    }

    async fn list(&self, _: &PoolInfo) -> Result<Vec<ProviderMachine>, ProviderError> {
        let known = self.machines.lock().expect("nobody panics while holding it");
        Ok(known.values().map(|(machine, _)| machine.clone()).collect())
    }
}

impl Paper {
    pub fn of(site: &Site) -> Arc<Paper> {
        let paper = Arc::new(Paper::default());
        site.app.pools.providers.add("paper", paper.clone());
        paper
    }

    /// At most this many of the machines that have said nothing yet are up; the others follow later.
    pub async fn wake(&self, site: &Site, count: usize) {
        let known: Vec<(String, String)> = {
            let (machines, joined) =
                (self.machines.lock().expect("nobody panics"), self.joined.lock().expect("nobody panics"));
            let new = machines.iter().filter(|(id, _)| !joined.contains_key(*id));
            new.map(|(id, (_, join))| (id.clone(), join.clone())).take(count).collect()
        };
        for (machine, join) in known {
            let body = json!({ "machine_id": machine, "nonce": format!("{:032x}", 1) });
            let bearer = format!("Bearer {join}");
            let joined = site.api_as("POST", "/api/v1/runners/join", ("authorization", &bearer), body).await;
            let agent = Agent {
                id: joined["runner_id"].as_str().unwrap_or_default().to_owned(),
                token: joined["token"].as_str().unwrap_or_default().to_owned(),
            };
            agent.signal(site, "UD_OK", &Value::Null, &joined["order"]["epoch"]).await;
            self.joined.lock().expect("nobody panics").insert(machine, agent);
        }
    }

    /// The agents of machines that are claimed do as they are told: their runs begin.
    pub async fn obey(&self, site: &Site, count: usize) {
        let agents: Vec<Agent> = self.joined.lock().expect("nobody panics").values().cloned().collect();
        let mut begun = 0;
        for agent in agents {
            let bearer = format!("Bearer {}", agent.token);
            let path = format!("/api/v1/runners/{}/heartbeat", agent.id);
            let order = site.api_as("POST", &path, ("authorization", &bearer), Value::Null).await;
            if begun < count && order["run_id"].is_string() {
                begun += 1;
                agent.signal(site, "UD_REG_OK", &order["run_id"], &order["epoch"]).await;
            }
        }
    }
}

impl Agent {
    async fn signal(&self, site: &Site, signal: &str, run: &Value, epoch: &Value) {
        let said = json!({ "signal": signal, "run_id": run, "epoch": epoch, "detail": "" });
        let bearer = format!("Bearer {}", self.token);
        let path = format!("/api/v1/runners/{}/signals", self.id);
        site.api_as("POST", &path, ("authorization", &bearer), said).await;
    }
}

impl Crew<'_> {
    /// A pool of machines on paper.
    pub async fn pool(&self, name: &str, min_idle: u32, max_size: u32) {
        let pool: CreatePool = from(json!({
            "name": name, "provider": "paper", "cpu": 2, "memory_mib": 8_192, "min_idle": min_idle, "max_size": max_size,
        }));
        self.site.client.create_pool(&pool).await.expect("a pool is made");
    }

    pub async fn claim_machines(&self, pool: &str, run: &str, count: u32) {
        let claim = from(json!({ "run_id": run, "count": count }));
        self.site.client.open_pool_claim("default", pool, &claim).await.expect("a claim is taken");
    }

    /// Gives loops of pools time, which ring each other.
    pub async fn settle(&mut self) {
        for _ in 0..8 {
            self.pass(500).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
