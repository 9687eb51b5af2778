//! A whole server with this provider: from a pool to machines that can join, and to nothing left.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_ec2::types::{Instance, InstanceAttributeName, InstanceLifecycleType, InstanceStateName};
use baton::Client;
use baton::proto::{CreatePool, JoinRunner};
use baton_ec2::{Ec2Provider, NAME};
use baton_server::{Settings, SettingsFlags};
use baton_testkit::{GITHUB_TOKEN, free_port};
use serde_json::json;
use tempfile::TempDir;

use crate::front::Mood;
use crate::site::Site;

const KEY: &str = "an-admin-key-for-tests-0123456789abcdef";
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks until the answer is yes.
pub async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let until = tokio::time::Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(tokio::time::Instant::now() < until, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A server to be, with a directory of its own.
pub struct Installation<'a> {
    pub data: TempDir,
    pub database: Option<&'a str>,
    pub github: Option<&'a str>,
    /// It says where agents find it.
    pub has_url: bool,
}

impl Default for Installation<'_> {
    fn default() -> Self {
        Installation { data: tempfile::tempdir().unwrap(), database: None, github: None, has_url: true }
    }
}

impl Installation<'_> {
    pub async fn serve(&self, site: &Site) -> Client {
        let url = format!("http://127.0.0.1:{}", free_port());
        let flags = SettingsFlags {
            listen: url.strip_prefix("http://").map(str::to_owned),
            data: Some(self.data.path().into()),
            database: self.database.map(str::to_owned),
            api_key: Some(KEY.into()),
            ..SettingsFlags::default()
        };
        let mut env = Vec::new();
        if self.has_url {
            env.push(("BATON_POOL_URL".to_owned(), url.clone()));
        }
        if let Some(github) = self.github {
            let token = GITHUB_TOKEN.to_owned();
            env.extend([("BATON_GITHUB_URL".to_owned(), github.to_owned()), ("BATON_GITHUB_TOKEN".to_owned(), token)]);
        }
        let settings = Settings::load(None, env.into_iter(), flags).unwrap();
        let provider = Arc::new(Ec2Provider::with(site.config.clone()));
        let extras = baton_server::Extras { providers: vec![(NAME, provider)], dashboard: None };
        tokio::spawn(baton_server::run(settings, extras, std::future::pending()));
        let client = Client::new(&url, KEY).unwrap();
        eventually("the server listens", async || client.healthz().await.is_ok()).await;
        client
    }
}

pub async fn running(site: &Site) -> Vec<Instance> {
    let is_running =
        |instance: &Instance| instance.state().and_then(|state| state.name()) == Some(&InstanceStateName::Running);
    site.instances().await.into_iter().filter(is_running).collect()
}

/// A variable of the start data of a machine.
pub async fn variable(site: &Site, machine: &str, name: &str) -> String {
    let data = site.client.describe_instance_attribute().instance_id(machine);
    let data = data.attribute(InstanceAttributeName::UserData).send().await.unwrap();
    let data = data.user_data().and_then(|data| data.value()).unwrap();
    let script = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, data).unwrap();
    let script = String::from_utf8(script).unwrap();
    let line = script.lines().find_map(|line| line.strip_prefix(&format!("export {name}='"))).unwrap();
    line.strip_suffix('\'').unwrap().to_owned()
}

#[tokio::test]
async fn a_spot_pool_is_filled_on_demand_and_a_deleted_one_leaves_nothing() {
    let site = Site::start().await;
    let installation = Installation::default();
    let client = installation.serve(&site).await;
    let mut pool: CreatePool = serde_json::from_value(json!({"name": "ci", "provider": "ec2", "types": ["m5*.large"],
        "cpu": 2, "memory_mib": 8192, "usage": "spot", "spot_fallback": true, "min_idle": 3, "max_size": 3,
        "options": {"launch_template": "runners", "endpoint_url": "http://elsewhere"}}))
    .unwrap();
    let why = client.create_pool(&pool).await.unwrap_err();
    assert!(why.to_string().contains("knows no endpoint_url"), "{why}");
    pool.options.remove("endpoint_url");

    site.front.next("CreateFleet", Mood::HasOnly(1, "InsufficientInstanceCapacity"));
    site.front.next("CreateFleet", Mood::HasOnly(0, "InsufficientInstanceCapacity"));
    client.create_pool(&pool).await.unwrap();
    eventually("three machines run", async || running(&site).await.len() == 3).await;
    let spot = |instance: &&Instance| instance.instance_lifecycle() == Some(&InstanceLifecycleType::Spot);
    assert_eq!(running(&site).await.iter().filter(spot).count(), 1);
    let machines = async || client.pool_runners("default", "ci", None, None, None).await.unwrap().runners;
    let known = async || machines().await.iter().filter(|runner| runner.machine_id.is_some()).count();
    eventually("the server knows them", async || known().await == 3).await;

    // What a machine was started with lets it join, once.
    let first = machines().await.into_iter().find_map(|runner| runner.machine_id).unwrap();
    assert_eq!(variable(&site, &first, "BATON_POOL").await, "ci");
    let agent = Client::new(&variable(&site, &first, "BATON_URL").await, "").unwrap();
    let token = variable(&site, &first, "BATON_JOIN_TOKEN").await;
    let join = |digit: &str| JoinRunner { machine_id: first.clone(), nonce: digit.repeat(32) };
    let joined = agent.join_runner(&token, &join("a")).await.unwrap();
    assert_eq!((joined.pool.as_str(), joined.namespace.as_str()), ("ci", "default"));
    assert!(agent.join_runner(&token, &join("b")).await.is_err(), "another one with the same start data");

    client.delete_pool("default", "ci").await.unwrap();
    eventually("no machine runs", async || running(&site).await.is_empty()).await;
    eventually("the pool is gone", async || client.pool("default", "ci").await.is_err()).await;
}

#[tokio::test]
async fn what_has_to_be_mended_is_shown_with_the_pool_and_buys_no_machines_on_demand() {
    let site = Site::start().await;
    let installation = Installation::default();
    let client = installation.serve(&site).await;
    let pool: CreatePool =
        serde_json::from_value(json!({"name": "ci", "provider": "ec2", "types": ["m5.large"], "cpu": 2,
        "memory_mib": 8192, "usage": "spot", "spot_fallback": true, "min_idle": 1, "max_size": 3,
        "options": {"launch_template": "runners"}}))
        .unwrap();
    site.front.next("CreateFleet", Mood::Refuses(403, "UnauthorizedOperation"));
    client.create_pool(&pool).await.unwrap();
    let shown = async || client.pool("default", "ci").await.unwrap();
    eventually("the reason is shown", async || shown().await.error.is_some()).await;
    let seen = shown().await;
    assert!(seen.error.as_deref().is_some_and(|why| why.contains("UnauthorizedOperation")), "{seen:?}");
    assert!(seen.create_after.is_some(), "it is not asked again at once: {seen:?}");
    // Mended: what comes is what was wanted.
    eventually("a machine runs", async || running(&site).await.len() == 1).await;
    assert_eq!(running(&site).await[0].instance_lifecycle(), Some(&InstanceLifecycleType::Spot));
}

#[tokio::test]
async fn machines_that_would_look_for_the_server_on_themselves_are_not_ordered() {
    let site = Site::start().await;
    let installation = Installation { has_url: false, ..Installation::default() };
    let client = installation.serve(&site).await;
    let pool: CreatePool =
        serde_json::from_value(json!({"name": "ci", "provider": "ec2", "types": ["m5.large"], "cpu": 2,
        "memory_mib": 8192, "min_idle": 1, "options": {"launch_template": "runners"}}))
        .unwrap();
    let why = client.create_pool(&pool).await.unwrap_err().to_string();
    assert!(why.contains("http://127.0.0.1:") && why.contains("BATON_POOL_URL"), "{why}");
    assert!(running(&site).await.is_empty());
}
