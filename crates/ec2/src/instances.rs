//! Instances: marked with tags, found by them, and ended.

use aws_sdk_ec2::Client;
use aws_sdk_ec2::error::ProvideErrorMetadata;
use aws_sdk_ec2::types::{Filter, Instance, InstanceStateName, Tag};
use baton_server::providers::{Create, PoolInfo, ProviderError};

use crate::options::is_id;
use crate::trouble;

/// The tag by which the machines of a pool are found.
const POOL_TAG: &str = "baton:tag";
/// The tag with the token of the order.
pub(crate) const ORDER_TAG: &str = "baton:order";
/// Most characters of a tag's value.
const TAG_CHARS_MAX: usize = 256;
/// Instances that are listed in one call.
const PAGE: i32 = 100;
/// Instances that are ended in one call. EC2 asks for small batches.
const BATCH: usize = 100;
/// Most instances of one pool: more than pools may have, those included that ended in the last hour.
const INSTANCES_MAX: usize = 100_000;
/// States in which an instance, or its disk, is paid for.
const COSTS: [InstanceStateName; 4] =
    [InstanceStateName::Pending, InstanceStateName::Running, InstanceStateName::Stopping, InstanceStateName::Stopped];

/// The tags of an order's machines.
pub(crate) fn tags(wanted: &Create) -> Vec<Tag> {
    let Create { pool, token, .. } = wanted;
    let tags = [
        ("Name", format!("baton {}/{}", pool.namespace, pool.name)),
        (POOL_TAG, pool.tag.clone()),
        (ORDER_TAG, token.clone()),
        ("baton:namespace", pool.namespace.clone()),
        ("baton:pool", pool.name.clone()),
    ];
    tags.into_iter().map(|(name, value)| Tag::builder().key(name).value(tag_value(&value)).build()).collect()
}

/// A text with only what EC2 takes in a tag.
fn tag_value(text: &str) -> String {
    let fitting = |c: char| if c.is_alphanumeric() || " +-=._:/@".contains(c) { c } else { '_' };
    text.chars().take(TAG_CHARS_MAX).map(fitting).collect()
}

/// What a tag of an instance says.
pub(crate) fn tag(instance: &Instance, name: &str) -> Option<String> {
    let found = instance.tags().iter().find(|tag| tag.key() == Some(name))?;
    found.value().map(str::to_owned)
}

fn filter(name: &str, values: impl IntoIterator<Item = String>) -> Filter {
    Filter::builder().name(name).set_values(Some(values.into_iter().collect())).build()
}

fn tagged(name: &str, value: &str) -> Filter {
    filter(&format!("tag:{name}"), [tag_value(value)])
}

/// Whether an instance still costs something.
pub(crate) fn costs(instance: &Instance) -> bool {
    instance.state().and_then(|state| state.name()).is_some_and(|state| COSTS.contains(state))
}

/// Every instance of a pool that still costs something.
pub(crate) async fn of_pool(client: &Client, pool: &PoolInfo) -> Result<Vec<Instance>, ProviderError> {
    let states = COSTS.iter().map(|state| state.as_str().to_owned());
    described(client, vec![tagged(POOL_TAG, &pool.tag), filter("instance-state-name", states)]).await
}

/// Every instance that was made for an order and that EC2 remembers, ended or not.
pub(crate) async fn of_order(client: &Client, pool: &PoolInfo, token: &str) -> Result<Vec<Instance>, ProviderError> {
    described(client, vec![tagged(POOL_TAG, &pool.tag), tagged(ORDER_TAG, token)]).await
}

async fn described(client: &Client, filters: Vec<Filter>) -> Result<Vec<Instance>, ProviderError> {
    let call = client.describe_instances().set_filters(Some(filters));
    let mut pages = call.into_paginator().page_size(PAGE).items().send();
    let mut found = Vec::new();
    while let Some(reservation) = pages.next().await {
        let reservation = reservation.map_err(|error| trouble::of("DescribeInstances", error))?;
        found.extend(reservation.instances.unwrap_or_default());
        if found.len() > INSTANCES_MAX {
            // Half a list would say of the other half that it is gone.
            return Err(ProviderError::Unclear(format!("EC2 lists more than {INSTANCES_MAX} instances of one pool")));
        }
    }
    Ok(found)
}

/// Ends instances of a pool.
pub(crate) async fn terminate(client: &Client, pool: &PoolInfo, machines: &[String]) -> Result<(), ProviderError> {
    // What is not called like an instance is none, and EC2 would refuse the others because of it.
    let ids: Vec<String> = machines.iter().filter(|id| is_id("i-", id)).cloned().collect();
    let mut failed = None;
    for batch in ids.chunks(BATCH) {
        if let Err(error) = terminate_batch(client, pool, batch).await {
            // The others are to end all the same.
            failed = Some(error);
        }
    }
    failed.map_or(Ok(()), Err)
}

async fn terminate_batch(client: &Client, pool: &PoolInfo, batch: &[String]) -> Result<(), ProviderError> {
    let ended = client.terminate_instances().set_instance_ids(Some(batch.to_vec())).send().await;
    let Err(error) = ended else { return Ok(()) };
    if !error.code().is_some_and(|code| code.starts_with("InvalidInstanceID")) {
        return Err(trouble::of("TerminateInstances", error));
    }
    // One that is gone keeps EC2 from ending the others. A filter does not mind it.
    let filters = vec![tagged(POOL_TAG, &pool.tag), filter("instance-id", batch.iter().cloned())];
    let there = described(client, filters).await?;
    let there: Vec<String> = there.into_iter().filter(costs).filter_map(|instance| instance.instance_id).collect();
    if there.is_empty() {
        return Ok(());
    }
    let ended = client.terminate_instances().set_instance_ids(Some(there)).send().await;
    ended.map(|_| ()).map_err(|error| trouble::of("TerminateInstances", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_have_only_what_ec2_takes() {
        assert_eq!(tag_value("ci/linux-1 a=b:c@d.e_f+"), "ci/linux-1 a=b:c@d.e_f+");
        assert_eq!(tag_value("größe\n{x}"), "größe__x_");
        assert_eq!(tag_value(&"x".repeat(300)).len(), TAG_CHARS_MAX);
    }
}
