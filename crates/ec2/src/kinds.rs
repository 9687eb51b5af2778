//! Instance types: which of them a pool may use, and how large they are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aws_sdk_ec2::Client;
use aws_sdk_ec2::types::{Filter, Instance, InstanceLifecycleType};
use baton_core::pools::spec::is_like;
use baton_core::pools::{Machine, PoolSpec, Usage};
use baton_server::providers::{PoolInfo, ProviderError, ProviderMachine};

use crate::instances::{ORDER_TAG, tag};
use crate::options::Options;
use crate::trouble;

/// How long it is remembered what EC2 offers.
const KNOWN_FOR: Duration = Duration::from_secs(3_600);
/// Pools whose types are remembered.
const POOLS_MAX: usize = 1_000;
const PAGE: i32 = 100;

/// An instance type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Kind {
    pub name: String,
    pub cpu: u32,
    pub memory_mib: u64,
}

/// Those that the types of a pool mean, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolKinds(Arc<Vec<Kind>>);

type Key = (Option<String>, Vec<String>);

/// What EC2 has said.
#[derive(Debug, Default)]
pub(crate) struct Kinds(Mutex<HashMap<Key, (Instant, PoolKinds)>>);

impl Kinds {
    /// The instance types of a pool, of whatever size.
    pub async fn of(&self, client: &Client, options: &Options, spec: &PoolSpec) -> Result<PoolKinds, ProviderError> {
        let key = (options.region.clone(), spec.types.clone());
        let known = self.0.lock().expect("nobody panics while holding it").get(&key).cloned();
        if let Some((_, kinds)) = known.filter(|(since, _)| since.elapsed() < KNOWN_FOR) {
            return Ok(kinds);
        }
        let kinds = PoolKinds(Arc::new(ask(client, spec).await?));
        let mut all = self.0.lock().expect("nobody panics while holding it");
        if all.len() >= POOLS_MAX {
            all.clear();
        }
        all.insert(key, (Instant::now(), kinds.clone()));
        Ok(kinds)
    }
}

async fn ask(client: &Client, spec: &PoolSpec) -> Result<Vec<Kind>, ProviderError> {
    // The patterns of pools are those of EC2's filters.
    let types = Filter::builder().name("instance-type").set_values(Some(spec.types.clone())).build();
    let mut pages = client.describe_instance_types().filters(types).into_paginator().page_size(PAGE).items().send();
    let mut kinds = Vec::new();
    while let Some(found) = pages.next().await {
        let found = found.map_err(|error| trouble::of("DescribeInstanceTypes", error))?;
        let cpu = found.v_cpu_info().and_then(|info| u32::try_from(info.default_v_cpus()?).ok());
        let memory_mib = found.memory_info().and_then(|info| u64::try_from(info.size_in_mib()?).ok());
        if let (Some(name), Some(cpu), Some(memory_mib)) = (found.instance_type(), cpu, memory_mib) {
            kinds.push(Kind { name: name.as_str().to_owned(), cpu, memory_mib });
        }
    }
    // Always in the same order: a repeated call has to be the same call.
    kinds.sort_by(|one, other| (one.memory_mib, &one.name).cmp(&(other.memory_mib, &other.name)));
    Ok(kinds)
}

impl PoolKinds {
    /// Those that are as large as the pool's machines are to be, and of one of these types when
    /// there are any, the smallest first.
    pub fn fitting(&self, spec: &PoolSpec, wanted: &[String]) -> Result<Vec<&Kind>, ProviderError> {
        const SHOWN_MAX: usize = 3;
        let fits = |kind: &&Kind| kind.cpu == spec.cpu && kind.memory_mib >= spec.memory_mib;
        let is_wanted = |kind: &&Kind| wanted.is_empty() || wanted.iter().any(|pattern| is_like(pattern, &kind.name));
        let large: Vec<&Kind> = self.0.iter().filter(fits).collect();
        let fitting: Vec<&Kind> = large.iter().copied().filter(is_wanted).collect();
        if !fitting.is_empty() {
            return Ok(fitting);
        }
        if !large.is_empty() {
            let names: Vec<&str> = large.iter().take(SHOWN_MAX).map(|kind| kind.name.as_str()).collect();
            let more = if large.len() > SHOWN_MAX { ", ..." } else { "" };
            let (wanted, names) = (wanted.join(", "), names.join(", "));
            return Err(ProviderError::Misconfigured(format!(
                "a claim wants machines of type {wanted}, and those of this pool are {names}{more}"
            )));
        }
        let types = spec.types.join(", ");
        if self.0.is_empty() {
            let why = format!("EC2 has no instance type {types} in this region");
            return Err(ProviderError::Misconfigured(why));
        }
        let show = |kind: &Kind| format!("{} has {} and {} MiB", kind.name, kind.cpu, kind.memory_mib);
        let some: Vec<String> = self.0.iter().take(SHOWN_MAX).map(show).collect();
        Err(ProviderError::Misconfigured(format!(
            "of {types} no instance type has exactly {} cores and at least {} MiB of memory: {}{}",
            spec.cpu,
            spec.memory_mib,
            some.join(", "),
            if self.0.len() > SHOWN_MAX { ", ..." } else { "" }
        )))
    }

    /// What a machine of this type is. One of a type that the pool no longer has is taken for what the pool's machines are.
    pub fn sized(&self, name: &str, usage: Usage, spec: &PoolSpec) -> Machine {
        let known = self.0.iter().find(|kind| kind.name == name);
        let (cpu, memory_mib) = known.map_or((spec.cpu, spec.memory_mib), |kind| (kind.cpu, kind.memory_mib));
        Machine { kind: name.to_owned(), usage, cpu, memory_mib }
    }

    /// An instance, as the server sees it.
    pub fn machine(&self, instance: &Instance, pool: &PoolInfo) -> Option<ProviderMachine> {
        let usage = match instance.instance_lifecycle() {
            Some(InstanceLifecycleType::Spot) => Usage::Spot,
            Some(_) | None => Usage::OnDemand,
        };
        let kind = instance.instance_type().map_or("", |kind| kind.as_str());
        Some(ProviderMachine {
            id: instance.instance_id()?.to_owned(),
            token: tag(instance, ORDER_TAG),
            machine: self.sized(kind, usage, &pool.spec),
        })
    }
}
