//! `baton pool scale`.

use baton::Client;
use baton::proto::ChangePool;
use clap::Args;

use super::create::RuleArgs;
use super::{NameArgs, OneArgs, show};
use crate::commands::flags;
use crate::exit::Exit;

#[derive(Args)]
pub struct ScaleArgs {
    #[command(flatten)]
    one: OneArgs,
    /// How many machines wait for claims.
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

/// Changes what was given of a pool's size.
pub async fn scale(client: &Client, args: ScaleArgs) -> Result<(), Exit> {
    let OneArgs { name: NameArgs { pool, namespace }, format } = args.one;
    let rules = args.rules.rules()?;
    let change = ChangePool {
        min_idle: args.min_idle,
        min_idle_rules: (args.no_rules || !rules.is_empty()).then_some(rules),
        max_size: args.max_size,
        ..ChangePool::default()
    };
    if change == ChangePool::default() {
        return Err(Exit::usage("nothing is to be changed: say what, for example --min-idle 4"));
    }
    let changed = client.change_pool(&namespace, &pool, &change).await.map_err(flags::POOL_SCALE.explain())?;
    format.print(&changed, show::pool);
    Ok(())
}
