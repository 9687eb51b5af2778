//! `baton pool scale`.

use baton::Client;
use baton::proto::ChangePool;
use baton_core::pools::spec::MinIdleRule;
use clap::Args;

use super::create::RuleArgs;
use super::{NameArgs, OneArgs, set, show};
use crate::exit::Exit;

#[derive(Args)]
pub struct ScaleArgs {
    #[command(flatten)]
    one: OneArgs,
    #[command(flatten)]
    sizes: SizeArgs,
}

/// How many machines a pool is to have.
#[derive(Args)]
pub struct SizeArgs {
    /// How many machines wait for claims at any time, at least.
    #[arg(long, value_name = "N")]
    min_idle: Option<u32>,
    #[command(flatten)]
    rules: RuleArgs,
    /// The same number at all times from now on.
    #[arg(long, conflicts_with = "rules")]
    no_rules: bool,
    /// Most machines. Those that are in use stay until they are released.
    #[arg(long, value_name = "N")]
    max_size: Option<u32>,
}

impl SizeArgs {
    /// The change that these flags stand for.
    pub(super) fn change(self) -> Result<ChangePool, Exit> {
        let rules = self.rules.rules()?;
        Ok(ChangePool {
            min_idle: self.min_idle,
            min_idle_rules: (self.no_rules || !rules.is_empty()).then_some(rules),
            max_size: self.max_size,
            ..ChangePool::default()
        })
    }
}

/// Says in the words of the command line which number is larger than the pool may be, or smaller
/// than it can get.
pub(super) fn check_idle(min_idle: u32, rules: &[MinIdleRule], max_size: u32) -> Result<(), String> {
    let by_rules = rules.iter().map(|rule| rule.min_idle).max().unwrap_or(0);
    match (min_idle > max_size, by_rules > max_size, rules.iter().find(|rule| rule.min_idle < min_idle)) {
        (true, _, _) => Err(format!("--min-idle asks for {min_idle}, --max-size is {max_size}")),
        (false, true, _) => Err(format!("--idle-at asks for {by_rules}, --max-size is {max_size}")),
        (false, false, Some(rule)) => Err(format!(
            "--min-idle {min_idle} counts at any time, so --idle-at '{}={}' would change nothing: lower --min-idle, and give \
             the hours that need more an --idle-at of their own",
            rule.cron, rule.min_idle
        )),
        (false, false, None) => Ok(()),
    }
}

/// Changes what was given of a pool's size.
pub async fn scale(client: &Client, args: ScaleArgs) -> Result<(), Exit> {
    let OneArgs { name: NameArgs { pool, namespace }, format } = args.one;
    let change = args.sizes.change()?;
    if change == ChangePool::default() {
        return Err(Exit::usage("nothing is to be changed: say what, for example --min-idle 4"));
    }
    let changed = set::apply(client, &namespace, &pool, |_| Ok(change.clone())).await?;
    format.show(&changed, show::changed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_that_asks_for_too_many_is_named() {
        let rule = |min_idle| MinIdleRule { cron: "@daily".into(), zone: "UTC".into(), min_idle };
        assert_eq!(check_idle(2, &[rule(4), rule(6)], 6), Ok(()));
        assert_eq!(check_idle(2, &[rule(4), rule(10)], 6), Err("--idle-at asks for 10, --max-size is 6".into()));
        assert_eq!(check_idle(7, &[rule(10)], 6), Err("--min-idle asks for 7, --max-size is 6".into()));
        assert!(check_idle(4, &[rule(3)], 6).unwrap_err().contains("--idle-at '@daily=3' would change nothing"));
    }
}
