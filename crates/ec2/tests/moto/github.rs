//! A pool of EC2 whose machines are runners of GitHub: from the order to the end, with both
//! stand-ins, on both stores.

use aws_sdk_ec2::types::InstanceLifecycleType;
use baton::Client;
use baton::proto::{CreatePool, JoinRunner, OpenClaim, RegisterRunner, RunnerAction, RunnerOrder, SignalRunner};
use baton_core::pools::{ClaimState, RunnerState, Signal, Usage};
use baton_testkit::GitHub;
use serde_json::json;

use crate::server::{Installation, eventually, running, variable};
use crate::site::Site;

/// The agent on a machine, as far as this story needs one.
struct Agent {
    client: Client,
    id: String,
    token: String,
    order: RunnerOrder,
}

impl Agent {
    async fn hears(&mut self, action: RunnerAction) {
        eventually(&format!("{action:?}"), async || {
            self.order = self.client.beat_runner(&self.id, &self.token).await.unwrap();
            self.order.action == action
        })
        .await;
    }

    async fn says(&mut self, signal: Signal) {
        let run_id = self.order.run_id.clone();
        let said = SignalRunner { signal, epoch: self.order.epoch, run_id, detail: String::new() };
        let answer = self.client.signal_runner(&self.id, &self.token, &said).await.unwrap();
        assert!(answer.counts, "{signal:?}: {answer:?}");
        self.order = answer.order;
    }
}

#[tokio::test]
async fn a_machine_of_ec2_is_a_runner_of_github_for_its_run_on_sqlite() {
    is_ordered_registered_claimed_released_and_ended(None).await;
}

#[tokio::test]
async fn a_machine_of_ec2_is_a_runner_of_github_for_its_run_on_postgres() {
    let database = baton_testkit::database().await;
    is_ordered_registered_claimed_released_and_ended(Some(database.url())).await;
}

async fn is_ordered_registered_claimed_released_and_ended(database: Option<&str>) {
    let site = Site::start().await;
    let github = GitHub::start();
    let installation = Installation { database, github: Some(&github.url), ..Installation::default() };
    let client = installation.serve(&site).await;
    let pool: CreatePool =
        serde_json::from_value(json!({"name": "ci", "provider": "ec2", "types": ["m5.large", "m5a.large"],
        "cpu": 2, "memory_mib": 8192, "usage": "spot", "spot_fallback": true, "max_size": 3,
        "options": {"launch_template": "runners", "github.repository": "acme/shop"}}))
        .unwrap();
    client.create_pool(&pool).await.unwrap();

    // What the claim asks for is what EC2 is asked for.
    let open = OpenClaim {
        usage: Some(Usage::OnDemand),
        types: vec!["m5a.*".into()],
        ..serde_json::from_value(json!({"run_id": "gh-1"})).unwrap()
    };
    client.open_pool_claim("default", "ci", &open).await.unwrap();
    eventually("a machine runs", async || running(&site).await.len() == 1).await;
    let instance = running(&site).await.remove(0);
    assert_eq!(instance.instance_type().unwrap().as_str(), "m5a.large");
    assert_ne!(instance.instance_lifecycle(), Some(&InstanceLifecycleType::Spot));
    let machine_id = instance.instance_id().unwrap().to_owned();
    assert_eq!(variable(&site, &machine_id, "BATON_AGENT_HOOK").await, "github");

    let agent = Client::new(&variable(&site, &machine_id, "BATON_URL").await, "").unwrap();
    let token = variable(&site, &machine_id, "BATON_JOIN_TOKEN").await;
    let mut joined = None;
    eventually("it joins", async || {
        let join = JoinRunner { machine_id: machine_id.clone(), nonce: "a".repeat(32) };
        joined = agent.join_runner(&token, &join).await.ok();
        joined.is_some()
    })
    .await;
    let joined = joined.unwrap();
    let mut agent = Agent { client: agent, id: joined.runner_id, token: joined.token, order: joined.order };
    agent.says(Signal::Ready).await;
    agent.hears(RunnerAction::Register).await;
    let wanted = RegisterRunner { run_id: "gh-1".into(), epoch: agent.order.epoch };
    agent.client.register_runner(&agent.id, &agent.token, &wanted).await.unwrap();
    let [runner] = &github.runners()[..] else { panic!("{:?}", github.runners()) };
    assert_eq!(runner.labels, ["gh-1"]);
    agent.says(Signal::Registered).await;
    let claim = async || client.pool_claim("default", "ci", "gh-1").await.unwrap();
    eventually("the claim is filled", async || claim().await.state == ClaimState::Ready).await;
    let held = claim().await.runners.remove(0);
    assert_eq!((held.kind.as_str(), held.usage), ("m5a.large", Usage::OnDemand));

    client.release_pool_claim("default", "ci", "gh-1").await.unwrap();
    agent.hears(RunnerAction::Deregister).await;
    agent.client.deregister_runner(&agent.id, &agent.token).await.unwrap();
    assert_eq!(github.runners(), []);
    agent.says(Signal::Deregistered).await;
    let runners = client.pool_runners("default", "ci", None, None, None).await.unwrap().runners;
    assert_eq!(runners.iter().map(|runner| runner.state).collect::<Vec<_>>(), [RunnerState::Idle]);

    client.delete_pool("default", "ci").await.unwrap();
    eventually("no machine runs", async || running(&site).await.is_empty()).await;
    eventually("the pool is gone", async || client.pool("default", "ci").await.is_err()).await;
}
