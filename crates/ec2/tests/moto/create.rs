//! Machines are made once for each token, from what there is.

use std::collections::BTreeSet;

use aws_sdk_ec2::types::{Instance, InstanceAttributeName};
use baton_core::pools::Usage;
use baton_ec2::Ec2Provider;
use baton_server::providers::{Provider, ProviderError, ProviderMachine};

use crate::front::Mood;
use crate::site::{self, Site, wanted};

const TOKEN: &str = "5b0c2a4e-0000-4000-8000-000000000001";

fn ids(machines: &[ProviderMachine]) -> BTreeSet<String> {
    machines.iter().map(|machine| machine.id.clone()).collect()
}

fn tag<'a>(instance: &'a Instance, name: &str) -> &'a str {
    instance.tags().iter().find(|tag| tag.key() == Some(name)).and_then(|tag| tag.value()).unwrap_or_default()
}

#[tokio::test]
async fn an_order_makes_machines_with_tags_and_start_data_once() {
    let site = Site::start().await;
    let pool = site.pool(&[("agent.register_hook", "echo 'hello'")]);
    assert_eq!(site.provider.check(&pool.spec), Ok(()));
    let order = wanted(&pool, TOKEN, 3, Usage::OnDemand);
    let made = site.provider.create(&order).await.unwrap();
    assert_eq!(ids(&made).len(), 3);
    for machine in &made {
        assert_eq!(machine.token.as_deref(), Some(TOKEN));
        assert_eq!((machine.machine.cpu, machine.machine.memory_mib), (2, 8192));
        assert_eq!((machine.machine.kind.as_str(), machine.machine.usage), ("m5.large", Usage::OnDemand));
    }
    let there = site.instances().await;
    assert_eq!(there.len(), 3);
    for instance in &there {
        assert_eq!(tag(instance, "baton:tag"), "c0ffee-1");
        assert_eq!(tag(instance, "baton:order"), TOKEN);
        assert_eq!((tag(instance, "baton:namespace"), tag(instance, "baton:pool")), ("default", "ci"));
        assert_eq!(tag(instance, "Name"), "baton default/ci");
        assert!(site.subnets.iter().any(|subnet| Some(subnet.as_str()) == instance.subnet_id()));
    }
    let data = site.client.describe_instance_attribute().instance_id(there[0].instance_id().unwrap());
    let data = data.attribute(InstanceAttributeName::UserData).send().await.unwrap();
    let data = data.user_data().and_then(|data| data.value()).unwrap();
    let script = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, data).unwrap();
    let script = String::from_utf8(script).unwrap();
    assert!(script.starts_with("#!/bin/sh") && script.contains("export BATON_JOIN_TOKEN='secret'"), "{script}");

    // The same again, and from a provider that remembers nothing.
    let again = site.provider.create(&order).await.unwrap();
    assert_eq!(ids(&again), ids(&made));
    let other = Ec2Provider::with(site.config.clone());
    assert_eq!(ids(&other.create(&order).await.unwrap()), ids(&made));
    assert_eq!(site.instances().await.len(), 3);
    assert_eq!(ids(&site.provider.list(&pool).await.unwrap()), ids(&made));

    // One that has ended is not made anew.
    let one = ids(&made).into_iter().next().unwrap();
    site.provider.terminate(&pool, std::slice::from_ref(&one)).await.unwrap();
    let rest = site.provider.create(&order).await.unwrap();
    assert_eq!(rest.len(), 2);
    assert!(!ids(&rest).contains(&one));
    assert_eq!(site.instances().await.len(), 3);
}

#[tokio::test]
async fn an_answer_that_is_lost_and_a_list_that_is_late_make_nothing_twice() {
    let site = Site::start().await;
    let pool = site.pool(&[]);
    let order = wanted(&pool, TOKEN, 2, Usage::Spot);
    site.front.next("CreateFleet", Mood::LosesTheAnswer);
    let made = site.provider.create(&order).await.unwrap();
    assert_eq!(site.front.calls("CreateFleet").len(), 2, "the SDK has asked again by itself");
    assert_eq!(made.len(), 2);
    assert!(made.iter().all(|machine| machine.machine.usage == Usage::Spot));
    site.front.next("DescribeInstances", Mood::ShowsNothing);
    assert_eq!(ids(&site.provider.create(&order).await.unwrap()), ids(&made));
    assert_eq!(site.instances().await.len(), 2);

    // Something else under the same token is no order that EC2 would carry out, but nobody knows that it was not.
    site.front.next("DescribeInstances", Mood::ShowsNothing);
    let other = wanted(&pool, TOKEN, 3, Usage::Spot);
    let why = site.provider.create(&other).await.unwrap_err();
    assert!(matches!(&why, ProviderError::Unclear(why) if why.contains("IdempotentParameterMismatch")), "{why:?}");
    // When they are listed, only the rest is asked for.
    let all = site.provider.create(&other).await.unwrap();
    assert!(ids(&all).is_superset(&ids(&made)));
    assert_eq!((all.len(), site.instances().await.len()), (3, 3));
}

#[tokio::test]
async fn what_comes_of_a_fleet_is_taken_and_the_rest_is_told() {
    let site = Site::start().await;
    let pool = site.pool(&[]);
    let order = wanted(&pool, TOKEN, 5, Usage::Spot);
    site.front.next("CreateFleet", Mood::HasOnly(2, "InsufficientInstanceCapacity"));
    let made = site.provider.create(&order).await.unwrap();
    assert_eq!(made.len(), 2);
    site.front.next("CreateFleet", Mood::HasOnly(0, "InsufficientInstanceCapacity"));
    let why = site.provider.create(&order).await.unwrap_err();
    assert!(matches!(&why, ProviderError::Refused(why) if why.contains("InsufficientInstanceCapacity")), "{why:?}");
    let calls = site.front.calls("CreateFleet");
    let asked = |number: usize, name: &str| calls[number][name].clone();
    assert_eq!(asked(1, "TargetCapacitySpecification.TotalTargetCapacity"), "3");
    assert_eq!(asked(0, "Type"), "instant");
    assert_ne!(asked(0, "ClientToken"), asked(1, "ClientToken"));
    assert_eq!(asked(0, "TargetCapacitySpecification.DefaultTargetCapacityType"), "spot");
    // Every type in every subnet.
    assert_eq!(asked(0, "LaunchTemplateConfigs.1.Overrides.4.InstanceType"), "m5a.large");
    assert_eq!(asked(0, "LaunchTemplateConfigs.1.Overrides.4.SubnetId"), site.subnets[1]);

    // On demand instead, as the keeper does: an order of its own.
    let order = wanted(&pool, "5b0c2a4e-0000-4000-8000-000000000002", 3, Usage::OnDemand);
    let rest = site.provider.create(&order).await.unwrap();
    assert!(rest.len() == 3 && rest.iter().all(|machine| machine.machine.usage == Usage::OnDemand));
    assert_eq!(site.provider.list(&pool).await.unwrap().len(), 5);
}

#[tokio::test]
async fn refusals_are_told_apart_by_what_helps() {
    let site = Site::start().await;
    let order = wanted(&site.pool(&[]), TOKEN, 1, Usage::Spot);
    for (status, code, expected) in [
        (400, "MaxSpotInstanceCountExceeded", "refused"),
        (400, "SpotMaxPriceTooLow", "refused"),
        (403, "UnauthorizedOperation", "misconfigured"),
        (400, "InvalidLaunchTemplateId.NotFound", "misconfigured"),
        (401, "AuthFailure", "misconfigured"),
        (503, "RequestLimitExceeded", "unclear"),
        (500, "InternalError", "unclear"),
    ] {
        // The SDK asks three times by itself where that may help.
        let times = if expected == "unclear" { 3 } else { 1 };
        (0..times).for_each(|_| site.front.next("CreateFleet", Mood::Refuses(status, code)));
        let why = site.provider.create(&order).await.unwrap_err();
        let seen = match &why {
            ProviderError::Refused(_) => "refused",
            ProviderError::Misconfigured(_) => "misconfigured",
            ProviderError::Unclear(_) => "unclear",
        };
        assert_eq!(seen, expected, "{code}: {why}");
        let told = why.to_string();
        assert!(told.contains(code) && told.contains("so it is") && !told.contains("secret"), "{told}");
    }
    assert_eq!(site.provider.create(&order).await.unwrap().len(), 1);
    let mut large = order.pool.clone();
    large.spec.cpu = 64;
    let why = site.provider.create(&wanted(&large, "another", 1, Usage::Spot)).await.unwrap_err();
    assert!(why.to_string().contains("exactly 64 cores") && why.to_string().contains("m5.large has 2"), "{why}");
    large.spec.types = vec!["m5.larg".into()];
    let why = site.provider.create(&wanted(&large, "another", 1, Usage::Spot)).await.unwrap_err();
    assert!(matches!(&why, ProviderError::Misconfigured(why) if why.contains("m5.larg")), "{why:?}");
}

#[tokio::test]
async fn endpoint_region_and_credentials_come_from_the_environment() {
    const OWN_NAME: &str = "create::endpoint_region_and_credentials_come_from_the_environment";
    // Variables can only be set for another process. It is this same test, and finds this one.
    const TEMPLATE: &str = "BATON_TEST_LAUNCH_TEMPLATE";
    if let Ok(template) = std::env::var(TEMPLATE) {
        let pool = site::pool(&[("launch_template", &template)]);
        let made = Ec2Provider::new().create(&wanted(&pool, TOKEN, 1, Usage::OnDemand)).await.unwrap();
        assert_eq!(made.len(), 1);
        return;
    }
    let site = Site::start().await;
    let other = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", OWN_NAME])
        .env(TEMPLATE, &site.template)
        .env("AWS_ENDPOINT_URL_EC2", site.config.endpoint_url().unwrap())
        .env("AWS_REGION", "eu-central-1")
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .output();
    let other = other.await.unwrap();
    assert!(other.status.success(), "{}", String::from_utf8_lossy(&other.stdout));
    assert_eq!(site.instances().await.len(), 1);
}
