//! One stand-in of EC2 with a launch template and subnets, a provider that speaks to it, and a pool.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_ec2::Client;
use aws_sdk_ec2::config::{BehaviorVersion, Credentials, Region, SharedCredentialsProvider};
use aws_sdk_ec2::types::{Instance, RequestLaunchTemplateData};
use baton_core::pools::{PoolSpec, Usage};
use baton_ec2::Ec2Provider;
use baton_server::providers::{Create, PoolInfo};
use baton_testkit::{Process, free_port};
use serde_json::json;

use crate::front::Front;

/// Where `scripts/moto` puts it.
const PLACE: &str = "moto-5.2.5";
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Site {
    _moto: Process,
    pub front: Front,
    pub config: SdkConfig,
    /// Speaks to moto directly.
    pub client: Client,
    pub provider: Ec2Provider,
    pub template: String,
    pub subnets: Vec<String>,
}

impl Site {
    pub async fn start() -> Site {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join(PLACE);
        assert!(place.join("ready").exists(), "there is no moto in {}: run scripts/moto", place.display());
        let port = free_port().to_string();
        let arguments = ["-m", "moto.server", "-H", "127.0.0.1", "-p", &port];
        let none: [(&str, &str); 0] = [];
        let process = Process::spawn(place.join("bin/python"), arguments, none);
        process.wait_for_line("Running on", PATIENCE).await;
        let moto = format!("http://127.0.0.1:{port}");
        let (front, address) = Front::start(moto.clone()).await;
        let client = Client::new(&config(&moto));
        let (template, subnets) = prepare(&client).await;
        let config = config(&address);
        let provider = Ec2Provider::with(config.clone());
        Site { _moto: process, front, config, client, provider, template, subnets }
    }

    /// A pool with these options besides those that every pool has here.
    pub fn pool(&self, options: &[(&str, &str)]) -> PoolInfo {
        let subnets = self.subnets.join(",");
        pool(&[&[("launch_template", self.template.as_str()), ("subnets", &subnets)], options].concat())
    }

    /// Every instance there is, ended ones included.
    pub async fn instances(&self) -> Vec<Instance> {
        let mut pages = self.client.describe_instances().into_paginator().items().send();
        let mut all = Vec::new();
        while let Some(reservation) = pages.next().await {
            all.extend(reservation.unwrap().instances.unwrap_or_default());
        }
        all
    }
}

/// A pool with these options.
pub fn pool(options: &[(&str, &str)]) -> PoolInfo {
    let spec = json!({"provider": "ec2", "types": ["m5.large", "m5a.large"], "cpu": 2, "memory_mib": 4096,
        "max_size": 500, "idle_ms": 1000, "runtime_ms": 1000});
    let mut spec: PoolSpec = serde_json::from_value(spec).unwrap();
    spec.options.extend(options.iter().map(|(name, value)| (name.to_string(), value.to_string())));
    PoolInfo { tag: "c0ffee-1".into(), namespace: "default".into(), name: "ci".into(), spec }
}

pub fn wanted(pool: &PoolInfo, token: &str, count: u32, usage: Usage) -> Create {
    let environment = BTreeMap::from([("BATON_JOIN_TOKEN".to_owned(), "secret".to_owned())]);
    Create { pool: pool.clone(), token: token.into(), count, usage, types: vec![], environment }
}

fn config(endpoint: &str) -> SdkConfig {
    let keys = Credentials::new("key", "secret", None, None, "tests");
    let http = aws_smithy_http_client::Builder::new().build_http();
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-central-1"))
        .credentials_provider(SharedCredentialsProvider::new(keys))
        .http_client(http)
        .endpoint_url(endpoint)
        .build()
}

async fn prepare(client: &Client) -> (String, Vec<String>) {
    let images = client.describe_images().owners("amazon").send().await.unwrap();
    let image = images.images()[0].image_id().unwrap();
    let data = RequestLaunchTemplateData::builder().image_id(image).build();
    let made = client.create_launch_template().launch_template_name("runners").launch_template_data(data);
    let made = made.send().await.unwrap();
    let template = made.launch_template().unwrap().launch_template_id().unwrap().to_owned();
    let subnets = client.describe_subnets().send().await.unwrap();
    let subnets = subnets.subnets().iter().take(2).map(|subnet| subnet.subnet_id().unwrap().to_owned()).collect();
    (template, subnets)
}
