//! `baton pool set`: change anything of a pool that can be changed.

use std::collections::BTreeMap;
use std::time::Duration;

use baton::proto::{ChangePool, PoolView};
use baton::{Client, ClientError};
use baton_core::pools::Usage;
use clap::Args;

use super::create::{HookArgs, parse_option, parse_usage};
use super::scale::{SizeArgs, check_idle};
use super::{NameArgs, OneArgs, show};
use crate::duration;
use crate::exit::Exit;

/// How often a pool is read anew because somebody else has changed it in between.
const TRIES_MAX: u32 = 5;

#[derive(Args)]
pub struct SetArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Sets one option; the others stay. May be given several times.
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = parse_option)]
    options: Vec<(String, String)>,
    /// Removes one option. May be given several times.
    #[arg(long = "unset-option", value_name = "NAME")]
    unset: Vec<String>,
    #[command(flatten)]
    hooks: HookArgs,
    /// Type of machines it may use, as a pattern with * and ?, in place of those before. May be given several times.
    #[arg(long = "type", short = 't', value_name = "PATTERN")]
    types: Vec<String>,
    /// Machines of any type from now on.
    #[arg(long, conflicts_with = "types")]
    any_type: bool,
    /// How machines are paid for: on-demand or spot.
    #[arg(long, value_parser = parse_usage)]
    usage: Option<Usage>,
    /// On-demand machines will do while there are no spot machines.
    #[arg(long)]
    spot_fallback: bool,
    /// Spot machines or none.
    #[arg(long, conflicts_with = "spot_fallback")]
    no_spot_fallback: bool,
    #[command(flatten)]
    sizes: SizeArgs,
    /// How long a machine that is not needed stays.
    #[arg(long, value_name = "SPAN", value_parser = duration::parse)]
    idle: Option<Duration>,
    /// How long a claim may keep its machines.
    #[arg(long, value_name = "SPAN", value_parser = duration::parse_positive)]
    runtime: Option<Duration>,
}

/// What is to become of the options of a pool.
struct OptionChange {
    set: BTreeMap<String, String>,
    unset: Vec<String>,
}

impl OptionChange {
    /// All options, as they are sent: those that are not changed as they were shown, which keeps secrets as they are.
    fn of(&self, pool: &PoolView) -> Result<Option<BTreeMap<String, String>>, Exit> {
        if self.set.is_empty() && self.unset.is_empty() {
            return Ok(None);
        }
        let mut options = pool.options.clone();
        for name in &self.unset {
            if options.remove(name).is_none() {
                return Err(Exit::usage(format!("--unset-option: the pool {} has no option {name}", pool.name)));
            }
        }
        options.extend(self.set.clone());
        Ok(Some(options))
    }
}

/// Changes what was given of a pool.
pub async fn set(client: &Client, args: SetArgs) -> Result<(), Exit> {
    let OneArgs { name: NameArgs { pool, namespace }, format } = args.one;
    let ms = |span: Duration| span.as_millis() as u64;
    let options =
        OptionChange { set: args.options.into_iter().chain(args.hooks.options()).collect(), unset: args.unset };
    let plain = ChangePool {
        types: (args.any_type || !args.types.is_empty()).then_some(args.types),
        usage: args.usage,
        spot_fallback: (args.spot_fallback || args.no_spot_fallback).then_some(args.spot_fallback),
        idle_ms: args.idle.map(ms),
        runtime_ms: args.runtime.map(ms),
        ..args.sizes.change()?
    };
    if plain == ChangePool::default() && options.set.is_empty() && options.unset.is_empty() {
        return Err(Exit::usage("nothing is to be changed: say what, for example --option agent.hook_timeout=5m"));
    }
    let changed = apply(client, &namespace, &pool, |seen| {
        if plain.spot_fallback == Some(true) && plain.usage.unwrap_or(seen.usage) != Usage::Spot {
            return Err(Exit::usage("--spot-fallback is for pools of spot machines: add --usage spot"));
        }
        Ok(ChangePool { options: options.of(seen)?, ..plain.clone() })
    });
    format.show(&changed.await?, show::changed);
    Ok(())
}

/// Reads a pool, and changes what was read: what somebody else changes in between is not lost, but read as well.
pub(super) async fn apply(
    client: &Client,
    namespace: &str,
    pool: &str,
    change: impl Fn(&PoolView) -> Result<ChangePool, Exit>,
) -> Result<PoolView, Exit> {
    let mut tries = 0;
    loop {
        tries += 1;
        let seen = client.pool(namespace, pool).await?;
        let change = ChangePool { revision: Some(seen.revision), ..change(&seen)? };
        let rules = change.min_idle_rules.as_ref().unwrap_or(&seen.min_idle_rules);
        let max_size = change.max_size.unwrap_or(seen.max_size);
        check_idle(change.min_idle.unwrap_or(seen.min_idle), rules, max_size).map_err(Exit::refused)?;
        match client.change_pool(namespace, pool, &change).await {
            Err(ClientError::Refused { status: 409, .. }) if tries < TRIES_MAX && !seen.deleting => {}
            done => return Ok(done?),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_that_are_not_named_stay() {
        let pool = show::sample(json!({"options": {"script": "fleet", "api_token": "***", "size": "1"}}));
        let change = |set: &[(&str, &str)], unset: &[&str]| {
            let set = set.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            OptionChange { set, unset: unset.iter().map(ToString::to_string).collect() }.of(&pool)
        };
        assert_eq!(change(&[], &[]), Ok(None));
        let changed = change(&[("size", "2"), ("zone", "b")], &["script"]).unwrap();
        let expected = json!({"api_token": "***", "size": "2", "zone": "b"});
        assert_eq!(serde_json::to_value(changed).unwrap(), expected);
        let said = "--unset-option: the pool linux has no option zone";
        assert_eq!(change(&[], &["zone"]), Err(Exit::usage(said)));
    }
}
