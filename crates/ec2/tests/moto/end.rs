//! Machines are ended and listed, whatever else there is.

use std::time::Duration;

use aws_sdk_ec2::types::InstanceStateName;
use baton_core::pools::Usage;
use baton_ec2::Ec2Provider;
use baton_server::providers::{Provider, ProviderError};

use crate::front::Mood;
use crate::site::{self, Site, wanted};

const TOKEN: &str = "5b0c2a4e-0000-4000-8000-000000000001";

#[tokio::test]
async fn machines_that_are_gone_do_not_keep_others_from_ending() {
    let site = Site::start().await;
    let pool = site.pool(&[]);
    let order = wanted(&pool, TOKEN, 3, Usage::OnDemand);
    let made: Vec<String> = site.provider.create(&order).await.unwrap().into_iter().map(|machine| machine.id).collect();
    // One that there never was, one that cannot be, and one that has ended.
    site.provider.terminate(&pool, &made[..1]).await.unwrap();
    let all = [made[0].clone(), "i-0123456789abcdef0".into(), "something else".into(), made[1].clone()];
    site.provider.terminate(&pool, &all).await.unwrap();
    let left: Vec<String> = site.provider.list(&pool).await.unwrap().into_iter().map(|machine| machine.id).collect();
    assert_eq!(left, made[2..]);
    site.provider.terminate(&pool, &["i-0123456789abcdef0".into()]).await.unwrap();
    site.provider.terminate(&pool, &[]).await.unwrap();

    // Anything else is said, and the machine stays listed until it has ended.
    site.front.next("TerminateInstances", Mood::Refuses(400, "OperationNotPermitted"));
    let why = site.provider.terminate(&pool, &made[2..]).await.unwrap_err();
    assert!(why.to_string().contains("OperationNotPermitted"), "{why}");
    assert_eq!(site.provider.list(&pool).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_pool_lists_its_own_machines_over_all_pages_and_ends_them_in_batches() {
    let site = Site::start().await;
    let (pool, mut other) = (site.pool(&[]), site.pool(&[]));
    other.tag = "c0ffee-2".into();
    site.provider.create(&wanted(&pool, TOKEN, 100, Usage::OnDemand)).await.unwrap();
    site.provider.create(&wanted(&pool, "second", 30, Usage::Spot)).await.unwrap();
    site.provider.create(&wanted(&other, "third", 2, Usage::OnDemand)).await.unwrap();
    let listed = site.provider.list(&pool).await.unwrap();
    assert_eq!(listed.len(), 130);
    assert_eq!(listed.iter().filter(|machine| machine.token.as_deref() == Some("second")).count(), 30);
    assert!(listed.iter().filter(|machine| machine.machine.usage == Usage::Spot).count() == 30);
    // A stopped machine has a disk that costs something.
    let stopped = listed[0].id.clone();
    site.client.stop_instances().instance_ids(&stopped).send().await.unwrap();
    assert_eq!(site.provider.list(&pool).await.unwrap().len(), 130);
    // A half that cannot be read is no list.
    (0..3).for_each(|_| site.front.next("DescribeInstances", Mood::Refuses(503, "Unavailable")));
    assert!(matches!(site.provider.list(&pool).await, Err(ProviderError::Unclear(_))));

    let ids: Vec<String> = listed.into_iter().map(|machine| machine.id).collect();
    site.provider.terminate(&pool, &ids).await.unwrap();
    assert_eq!(site.front.calls("TerminateInstances").len(), 2);
    assert_eq!(site.provider.list(&pool).await.unwrap().len(), 0);
    let left = site.instances().await;
    let runs = |instance: &&aws_sdk_ec2::types::Instance| {
        instance.state().and_then(|state| state.name()) == Some(&InstanceStateName::Running)
    };
    assert_eq!(left.iter().filter(runs).count(), 2, "those of the other pool");
}

#[tokio::test]
async fn without_credentials_or_a_region_the_reason_is_told() {
    use aws_sdk_ec2::config::{BehaviorVersion, Region};
    let pool = site::pool(&[("launch_template", "lt-1")]);
    let order = wanted(&pool, TOKEN, 1, Usage::OnDemand);
    let nobody = || aws_config::SdkConfig::builder().behavior_version(BehaviorVersion::latest());
    let nowhere = Ec2Provider::with(nobody().build());
    let why = nowhere.create(&order).await.unwrap_err();
    assert!(matches!(&why, ProviderError::Misconfigured(why) if why.contains("AWS_REGION")), "{why:?}");
    let somewhere = || {
        let http = aws_smithy_http_client::Builder::new().build_http();
        nobody().region(Region::new("eu-central-1")).http_client(http)
    };
    let without_keys = Ec2Provider::with(somewhere().endpoint_url("http://127.0.0.1:9").build());
    let why = without_keys.create(&order).await.unwrap_err();
    assert!(matches!(&why, ProviderError::Misconfigured(_)), "{why:?}");

    // Somebody who does not answer is another matter.
    let deaf = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", deaf.local_addr().unwrap());
    drop(deaf);
    let keys = aws_sdk_ec2::config::Credentials::new("key", "secret", None, None, "tests");
    let keys = aws_sdk_ec2::config::SharedCredentialsProvider::new(keys);
    let lonely = Ec2Provider::with(somewhere().credentials_provider(keys).endpoint_url(address).build());
    let asked = tokio::time::timeout(Duration::from_secs(30), lonely.create(&order)).await.unwrap();
    assert!(matches!(&asked, Err(ProviderError::Unclear(_))), "{asked:?}");
}
