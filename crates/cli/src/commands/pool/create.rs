//! `baton pool create`.

use std::time::Duration;

use baton::Client;
use baton::proto::{CreatePool, NAMESPACE_DEFAULT};
use baton_core::cron::{Cron, ZONE_DEFAULT};
use baton_core::pools::Usage;
use baton_core::pools::spec::MinIdleRule;
use clap::Args;

use super::scale::check_idle;
use super::show;
use crate::commands::worker::build::size;
use crate::duration;
use crate::exit::Exit;
use crate::output::Format;

/// The options of a pool that agents get as their hooks.
const REGISTER_HOOK: &str = "agent.register_hook";
const DEREGISTER_HOOK: &str = "agent.deregister_hook";
/// Most machines of a pool that does not say.
const MAX_SIZE_DEFAULT: u32 = 10;

#[derive(Args)]
pub struct CreateArgs {
    /// The pool's name; unique in its namespace.
    name: String,
    /// Its namespace.
    #[arg(long, short, default_value = NAMESPACE_DEFAULT)]
    namespace: String,
    /// Who makes its machines: local, command or ec2. [default: local]
    #[arg(long)]
    provider: Option<String>,
    /// What the provider, or with the prefix `agent.` its agents, need to know. May be given several times.
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = parse_option)]
    options: Vec<(String, String)>,
    #[command(flatten)]
    hooks: HookArgs,
    /// Cores of each machine. [default: 1]
    #[arg(long)]
    cpu: Option<u32>,
    /// Memory of each machine, at least. [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    memory: Option<u64>,
    /// Type of machines it may use, as a pattern with * and ?. May be given several times. [default: any]
    #[arg(long = "type", short = 't', value_name = "PATTERN")]
    types: Vec<String>,
    /// How machines are paid for: on-demand or spot. [default: on-demand]
    #[arg(long, value_parser = parse_usage)]
    usage: Option<Usage>,
    /// On-demand machines will do while there are no spot machines.
    #[arg(long)]
    spot_fallback: bool,
    /// How many machines wait for claims at any time, at least.
    #[arg(long, default_value_t = 0, value_name = "N")]
    min_idle: u32,
    #[command(flatten)]
    rules: RuleArgs,
    /// Most machines. [default: 10]
    #[arg(long, value_name = "N")]
    max_size: Option<u32>,
    /// How long a machine that is not needed stays. [default: 30m]
    #[arg(long, value_name = "SPAN", value_parser = duration::parse)]
    idle: Option<Duration>,
    /// How long a claim may keep its machines. [default: 6h]
    #[arg(long, value_name = "SPAN", value_parser = duration::parse_positive)]
    runtime: Option<Duration>,
    #[command(flatten)]
    format: Format,
}

/// The hooks of a pool, which are two of its options.
#[derive(Args)]
pub struct HookArgs {
    /// Shell command that registers a machine for a run.
    #[arg(long, value_name = "COMMAND")]
    register_hook: Option<String>,
    /// Shell command that takes the registration back.
    #[arg(long, value_name = "COMMAND")]
    deregister_hook: Option<String>,
}

impl HookArgs {
    /// Those that were given, as options.
    pub(super) fn options(self) -> impl Iterator<Item = (String, String)> {
        let hooks = [(REGISTER_HOOK, self.register_hook), (DEREGISTER_HOOK, self.deregister_hook)];
        hooks.into_iter().filter_map(|(name, hook)| Some((name.to_owned(), hook?)))
    }
}

/// How many machines wait at which times.
#[derive(Args)]
pub struct RuleArgs {
    /// More waiting machines from a moment on, until another rule fires; never fewer than
    /// --min-idle. May be given several times.
    #[arg(long = "idle-at", value_name = "CRON=N", value_parser = parse_rule)]
    rules: Vec<(String, u32)>,
    /// The time zone of those rules.
    #[arg(long, value_name = "ZONE", default_value = ZONE_DEFAULT, requires = "rules")]
    time_zone: String,
}

impl RuleArgs {
    /// The rules, which are looked at here to say at once what is wrong.
    pub(super) fn rules(self) -> Result<Vec<MinIdleRule>, Exit> {
        let zone = self.time_zone;
        let rule = |(cron, min_idle): (String, u32)| -> Result<MinIdleRule, Exit> {
            Cron::parse(&cron, &zone).map_err(|error| Exit::usage(format!("--idle-at: {error}")))?;
            Ok(MinIdleRule { cron, zone: zone.clone(), min_idle })
        };
        self.rules.into_iter().map(rule).collect()
    }
}

pub(super) fn parse_option(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("an option is like name=value")?;
    Ok((name.into(), value.into()))
}

fn parse_rule(text: &str) -> Result<(String, u32), String> {
    let wrong = || format!("{text:?} is not a rule like '0 8 * * MON-FRI=10'");
    let (cron, number) = text.rsplit_once('=').ok_or_else(wrong)?;
    Ok((cron.trim().into(), number.trim().parse().map_err(|_| wrong())?))
}

pub(super) fn parse_usage(word: &str) -> Result<Usage, String> {
    match word {
        // The second is what the JSON of every command has.
        "on-demand" | "on_demand" => Ok(Usage::OnDemand),
        "spot" => Ok(Usage::Spot),
        _ => Err("one of on-demand, spot is wanted".into()),
    }
}

/// Memory in MiB, which is what pools count in.
pub(super) fn parse_memory(text: &str) -> Result<u64, String> {
    match size::parse_positive(text)? {
        bytes if bytes < 1 << 20 => Err(format!("{text:?} is less than 1M")),
        bytes => Ok(bytes.div_ceil(1 << 20)),
    }
}

/// Makes a pool.
pub async fn create(client: &Client, args: CreateArgs) -> Result<(), Exit> {
    let ms = |span: Duration| span.as_millis() as u64;
    if args.spot_fallback && args.usage != Some(Usage::Spot) {
        return Err(Exit::usage("--spot-fallback is for pools of spot machines: add --usage spot"));
    }
    let min_idle_rules = args.rules.rules()?;
    check_idle(args.min_idle, &min_idle_rules, args.max_size.unwrap_or(MAX_SIZE_DEFAULT)).map_err(Exit::usage)?;
    let pool = CreatePool {
        namespace: args.namespace,
        name: args.name,
        provider: args.provider,
        options: args.options.into_iter().chain(args.hooks.options()).collect(),
        cpu: args.cpu,
        memory_mib: args.memory,
        types: args.types,
        usage: args.usage,
        spot_fallback: args.spot_fallback,
        min_idle: args.min_idle,
        min_idle_rules,
        max_size: args.max_size,
        idle_ms: args.idle.map(ms),
        runtime_ms: args.runtime.map(ms),
    };
    let made = client.create_pool(&pool).await?;
    args.format.show(&made, show::pool);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_sizes_are_read_as_people_write_them() {
        assert_eq!(parse_rule("0 8 * * MON-FRI=10"), Ok(("0 8 * * MON-FRI".into(), 10)));
        assert_eq!(parse_rule("@daily = 0"), Ok(("@daily".into(), 0)));
        for wrong in ["0 8 * * *", "0 8 * * *=", "0 8 * * *=many", "=-1"] {
            assert!(parse_rule(wrong).is_err(), "{wrong}");
        }
        assert_eq!((parse_memory("64G"), parse_memory("1M"), parse_memory("1025K")), (Ok(65_536), Ok(1), Ok(2)));
        assert!(parse_memory("512").is_err() && parse_memory("0G").is_err());
        assert_eq!(["on-demand", "on_demand"].map(parse_usage), [Ok(Usage::OnDemand), Ok(Usage::OnDemand)]);
        assert_eq!(parse_option("create=/a=b"), Ok(("create".into(), "/a=b".into())));
    }
}
