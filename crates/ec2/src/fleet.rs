//! An order of machines as a fleet of the type `instant`: what is there comes at once, and what is not is told with its reason.

use std::collections::BTreeMap;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::operation::create_fleet::CreateFleetOutput;
use aws_sdk_ec2::types::{
    DefaultTargetCapacityType, FleetLaunchTemplateConfigRequest, FleetLaunchTemplateOverridesRequest,
    FleetLaunchTemplateSpecificationRequest, FleetOnDemandAllocationStrategy, FleetType, InstanceLifecycle,
    InstanceType, OnDemandOptionsRequest, ResourceType, SpotAllocationStrategy, SpotOptionsRequest, TagSpecification,
    TargetCapacitySpecificationRequest,
};
use baton_core::pools::Usage;
use baton_server::providers::{Create, ProviderError, ProviderMachine};

use crate::instances;
use crate::kinds::{Kind, PoolKinds};
use crate::options::{Options, Template};
use crate::trouble;

/// Most pairs of type and subnet that a fleet is asked for.
const OVERRIDES_MAX: usize = 300;
/// Most different reasons that are told.
const REASONS_MAX: usize = 3;

/// What is to be made.
pub(crate) struct Order<'a> {
    pub wanted: &'a Create,
    pub options: &'a Options,
    /// So many machines the order has made before.
    pub made_before: u32,
    /// So many it still has to make.
    pub missing: u32,
    pub user_data: String,
}

/// Makes what an order still lacks, or as much of it as there is.
pub(crate) async fn create(
    client: &Client,
    kinds: &PoolKinds,
    order: Order<'_>,
) -> Result<Vec<ProviderMachine>, ProviderError> {
    let Order { wanted, options, made_before, missing, user_data } = order;
    let spec = &wanted.pool.spec;
    let fitting = kinds.fitting(spec, &wanted.types)?;
    let capacity = TargetCapacitySpecificationRequest::builder()
        .total_target_capacity(i32::try_from(missing).unwrap_or(i32::MAX))
        .default_target_capacity_type(match wanted.usage {
            Usage::Spot => DefaultTargetCapacityType::Spot,
            Usage::OnDemand => DefaultTargetCapacityType::OnDemand,
        });
    let template = match &options.template {
        Template::Id(id) => FleetLaunchTemplateSpecificationRequest::builder().launch_template_id(id),
        Template::Name(name) => FleetLaunchTemplateSpecificationRequest::builder().launch_template_name(name),
    };
    let template = template.version(&options.version).launch_template_specification_user_data(user_data);
    let config = FleetLaunchTemplateConfigRequest::builder()
        .launch_template_specification(template.build())
        .set_overrides(Some(overrides(&fitting, options, wanted.usage)));
    let mut call = client
        .create_fleet()
        .r#type(FleetType::Instant)
        // Asked again before its machines are listed, the number is the same and EC2 gives the same answer. Asked for the rest, it is another one.
        .client_token(format!("{}-{made_before}", wanted.token))
        .target_capacity_specification(capacity.build())
        .launch_template_configs(config.build());
    call = match wanted.usage {
        Usage::Spot => call.spot_options(
            SpotOptionsRequest::builder().allocation_strategy(SpotAllocationStrategy::PriceCapacityOptimized).build(),
        ),
        Usage::OnDemand => call.on_demand_options(
            OnDemandOptionsRequest::builder().allocation_strategy(FleetOnDemandAllocationStrategy::LowestPrice).build(),
        ),
    };
    for resource in [ResourceType::Instance, ResourceType::Volume, ResourceType::Fleet] {
        let tags = Some(instances::tags(wanted));
        call = call.tag_specifications(TagSpecification::builder().resource_type(resource).set_tags(tags).build());
    }
    let answer = call.send().await.map_err(|error| trouble::of("CreateFleet", error))?;
    let made = machines(&answer, wanted, kinds);
    if made.is_empty() {
        return Err(refusal(&answer, wanted.usage));
    }
    if made.len() < missing as usize {
        let (pool, made, why) = (&wanted.pool.name, made.len(), refusal(&answer, wanted.usage));
        tracing::warn!(pool, made, missing, %why, "EC2 has fewer machines than were asked for");
    }
    Ok(made)
}

/// Every type in every subnet, as many as a fleet takes.
fn overrides(kinds: &[&Kind], options: &Options, usage: Usage) -> Vec<FleetLaunchTemplateOverridesRequest> {
    let everywhere: Vec<Option<&String>> = match options.subnets.is_empty() {
        true => vec![None],
        false => options.subnets.iter().map(Some).collect(),
    };
    let price = options.spot_max_price.clone().filter(|_| usage == Usage::Spot);
    let one = |kind: &&Kind, subnet: &Option<&String>| {
        FleetLaunchTemplateOverridesRequest::builder()
            .instance_type(InstanceType::from(kind.name.as_str()))
            .set_subnet_id(subnet.cloned())
            .set_max_price(price.clone())
            .build()
    };
    let all = kinds.iter().flat_map(|kind| everywhere.iter().map(move |subnet| one(kind, subnet)));
    all.take(OVERRIDES_MAX).collect()
}

fn machines(answer: &CreateFleetOutput, wanted: &Create, kinds: &PoolKinds) -> Vec<ProviderMachine> {
    let several = answer.instances().iter().flat_map(|made| {
        let usage = match made.lifecycle() {
            Some(InstanceLifecycle::Spot) => Usage::Spot,
            Some(InstanceLifecycle::OnDemand) => Usage::OnDemand,
            Some(_) | None => wanted.usage,
        };
        let kind = made.instance_type().map_or("", |kind| kind.as_str());
        let machine = kinds.sized(kind, usage, &wanted.pool.spec);
        made.instance_ids().iter().map(move |id| ProviderMachine {
            id: id.clone(),
            token: Some(wanted.token.clone()),
            machine: machine.clone(),
        })
    });
    several.collect()
}

/// Why machines did not come.
fn refusal(answer: &CreateFleetOutput, usage: Usage) -> ProviderError {
    let mut reasons: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for error in answer.errors() {
        let (code, message) = (error.error_code().unwrap_or_default(), error.error_message().unwrap_or_default());
        reasons.entry(code).or_insert((0, message)).0 += 1;
    }
    if reasons.is_empty() {
        return ProviderError::Refused("EC2 made no machines, and does not say why".into());
    }
    let is_about_capacity = reasons.keys().any(|code| trouble::is_capacity(code));
    let tell = |(code, (count, message)): (&&str, &(usize, &str))| match count {
        1 => format!("{code}: {message}"),
        _ => format!("{code} ({count} times): {message}"),
    };
    let told: Vec<String> = reasons.iter().take(REASONS_MAX).map(tell).collect();
    let what = match usage {
        Usage::Spot => "spot machines",
        Usage::OnDemand => "machines on demand",
    };
    let why = format!("EC2 made fewer {what} than were asked for: {}", told.join("; "));
    match is_about_capacity {
        true => ProviderError::Refused(why),
        false => ProviderError::Misconfigured(why),
    }
}

#[cfg(test)]
#[path = "fleet_tests.rs"]
mod tests;
