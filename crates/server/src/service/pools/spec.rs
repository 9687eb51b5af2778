//! What a pool is to be, from what somebody asked for.

use std::collections::BTreeMap;

use baton_core::pools::PoolSpec;
use baton_proto::{ChangePool, CreatePool};

use super::read::HIDDEN;
use crate::auth::{Caller, refused};
use crate::github::GithubScope;
use crate::providers::{self, PROVIDER_DEFAULT};
use crate::{App, Error};

const CPU_DEFAULT: u32 = 1;
const MEMORY_MIB_DEFAULT: u64 = 1_024;
const MAX_SIZE_DEFAULT: u32 = 10;
const IDLE_MS_DEFAULT: u64 = 30 * 60_000;
const RUNTIME_MS_DEFAULT: u64 = 6 * 3_600_000;

/// The spec of a new pool.
pub(super) fn of(wanted: CreatePool) -> PoolSpec {
    PoolSpec {
        provider: wanted.provider.unwrap_or_else(|| PROVIDER_DEFAULT.into()),
        options: wanted.options,
        cpu: wanted.cpu.unwrap_or(CPU_DEFAULT),
        memory_mib: wanted.memory_mib.unwrap_or(MEMORY_MIB_DEFAULT),
        types: wanted.types,
        usage: wanted.usage.unwrap_or_default(),
        spot_fallback: wanted.spot_fallback,
        min_idle: wanted.min_idle,
        min_idle_rules: wanted.min_idle_rules,
        max_size: wanted.max_size.unwrap_or(MAX_SIZE_DEFAULT),
        idle_ms: wanted.idle_ms.unwrap_or(IDLE_MS_DEFAULT),
        runtime_ms: wanted.runtime_ms.unwrap_or(RUNTIME_MS_DEFAULT),
    }
}

/// The spec of a pool after a change.
pub(super) fn changed(spec: &PoolSpec, wanted: &ChangePool) -> Result<PoolSpec, Error> {
    let ChangePool {
        revision: _,
        options,
        types,
        usage,
        spot_fallback,
        min_idle,
        min_idle_rules,
        max_size,
        idle_ms,
        runtime_ms,
    } = wanted.clone();
    let options = options.map(|options| options_given(spec, options)).transpose()?;
    let spec = spec.clone();
    Ok(PoolSpec {
        options: options.unwrap_or(spec.options),
        types: types.unwrap_or(spec.types),
        usage: usage.unwrap_or(spec.usage),
        spot_fallback: spot_fallback.unwrap_or(spec.spot_fallback),
        min_idle: min_idle.unwrap_or(spec.min_idle),
        min_idle_rules: min_idle_rules.unwrap_or(spec.min_idle_rules),
        max_size: max_size.unwrap_or(spec.max_size),
        idle_ms: idle_ms.unwrap_or(spec.idle_ms),
        runtime_ms: runtime_ms.unwrap_or(spec.runtime_ms),
        ..spec
    })
}

/// Options as they were given. Whoever sends back what was shown means that the secret stays as it is.
fn options_given(spec: &PoolSpec, mut options: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Error> {
    for (name, value) in options.iter_mut().filter(|(_, value)| *value == HIDDEN) {
        let Some(known) = spec.options.get(name) else {
            let why = format!("options: {name} is {HIDDEN}, which stands for the value it has, and it has none");
            return Err(Error::Invalid(why));
        };
        value.clone_from(known);
    }
    Ok(options)
}

/// Refuses what makes no sense, and what this caller may not have.
pub(super) fn check(app: &App, caller: &Caller, spec: &PoolSpec) -> Result<(), Error> {
    let Some(provider) = app.pools.providers.get(&spec.provider) else {
        let names = app.pools.providers.names().join(", ");
        let hint = match spec.provider.as_str() {
            "ec2" => ": this server was built without the feature ec2",
            "command" => ": this server has no pool_command_directory",
            _ => "",
        };
        let why = format!("must be one of {names}, not {}{hint}", spec.provider);
        return Err(Error::field("provider", why));
    };
    // Whoever says what such agents run says what runs next to the server: that is not for the administrator of a part.
    if provider.runs_here() && caller.namespace.is_some() {
        let why = format!("pools of the provider {} need an admin key that is good for all namespaces", spec.provider);
        return Err(refused(why));
    }
    if GithubScope::of(&spec.options).map_err(Error::Invalid)?.is_some() {
        // The token of this server is good for more than one namespace.
        if caller.namespace.is_some() {
            let why = "pools that register at GitHub need an admin key that is good for all namespaces".into();
            return Err(refused(why));
        }
        app.settings.has_github_access().map_err(Error::Invalid)?;
    }
    spec.check().and_then(|()| providers::check_options(&spec.options)).map_err(Error::by_rule)?;
    let mut own = spec.clone();
    GithubScope::strip(&mut own.options);
    provider.check(&own).map_err(Error::Invalid)
}
