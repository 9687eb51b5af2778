//! `baton pool`: warm machines for CI runs.

mod board;
mod claim;
mod create;
mod scale;
mod show;

use baton::proto::{NAMESPACE_DEFAULT, PAGE_MAX};
use baton::{Client, ClientError};
use baton_core::pools::RunnerState;
use clap::{Args, Subcommand};

use super::flags;
use crate::exit::Exit;
use crate::output::{Format, print_line};

#[derive(Subcommand)]
pub enum PoolCommand {
    /// Make a pool.
    #[command(after_help = "Examples:
  baton pool create linux --min-idle 4 --max-size 20
  baton pool create linux --register-hook ./register.sh --deregister-hook ./remove.sh
  baton pool create office --min-idle 1 --idle-at '0 8 * * MON-FRI=10' --idle-at '0 19 * * *=1' --time-zone Europe/Berlin
  baton pool create large --provider command --option script=fleet --cpu 16 --memory 64G --type 'm6i.*'

The provider `local` starts agents as processes of the server's machine; `command` calls a script of yours. Hooks are run on
each machine, when it is claimed and when it is released: `baton agent --help`.")]
    Create(create::CreateArgs),
    /// List pools, with how many machines are idle and in use.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  baton pool list
  baton pool list --namespace mobile --json"
    )]
    List(ListArgs),
    /// Show a pool and its machines.
    #[command(after_help = "Examples:
  baton pool show linux
  baton pool show linux --json     without the machines: those are listed by `baton pool runners`")]
    Show(OneArgs),
    /// List the machines of a pool.
    #[command(after_help = "Examples:
  baton pool runners linux
  baton pool runners linux --state terminating --json")]
    Runners(RunnersArgs),
    /// Change how many machines a pool keeps.
    #[command(after_help = "Examples:
  baton pool scale linux --min-idle 10
  baton pool scale linux --min-idle 0 --max-size 40
  baton pool scale linux --idle-at '0 8 * * MON-FRI=10' --idle-at '0 19 * * *=1'    in place of the rules before")]
    Scale(scale::ScaleArgs),
    /// Delete a pool: idle machines end, those in use when they are released.
    #[command(
        visible_alias = "rm",
        after_help = "Examples:
  baton pool delete linux"
    )]
    Delete(OneArgs),
    /// Claim machines for a run, and wait until all of them are registered for it.
    #[command(after_help = "Examples:
  baton pool claim linux --run-id ci-17 --count 4
  baton pool claim linux --run-id ci-17 --count 4 --wait 5m --runtime 1h > machines.json
  baton pool claim large --run-id nightly-3 --type 'm6i.*' --usage on-demand --priority 9

All or none: when the claim cannot be filled in time, what it took goes back, and the command ends with 1 and says why. The
machines are printed as a JSON array in one line; --json prints the whole claim. The same run again gets the same machines.
Ctrl-C or SIGTERM while it waits gives up the claim.")]
    Claim(claim::ClaimArgs),
    /// Give back the machines of a run, or give up its claim.
    #[command(after_help = "Examples:
  baton pool release linux --run-id ci-17
  baton pool release linux --run-id ci-17 --missing-ok    for the last step of a workflow, which is always run")]
    Release(ReleaseArgs),
}

/// Which pool.
#[derive(Args)]
pub struct NameArgs {
    /// The pool.
    pool: String,
    /// Its namespace.
    #[arg(long, short, default_value = NAMESPACE_DEFAULT)]
    namespace: String,
}

#[derive(Args)]
pub struct OneArgs {
    #[command(flatten)]
    name: NameArgs,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct ListArgs {
    /// Only this namespace.
    #[arg(long, short)]
    namespace: Option<String>,
    /// At most this many.
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Go on where a list ended.
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct RunnersArgs {
    #[command(flatten)]
    name: NameArgs,
    /// In this state. Those that are gone are listed only with it.
    #[arg(long, short, value_parser = parse_state)]
    state: Option<RunnerState>,
    /// At most this many.
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Go on where a list ended.
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct ReleaseArgs {
    #[command(flatten)]
    name: NameArgs,
    /// The run whose machines are given back.
    #[arg(long, value_name = "ID")]
    run_id: String,
    /// A run that has claimed nothing is no error.
    #[arg(long)]
    missing_ok: bool,
    #[command(flatten)]
    format: Format,
}

fn parse_state(word: &str) -> Result<RunnerState, String> {
    let wanted = || format!("one of {} is wanted", RunnerState::ALL.map(RunnerState::as_str).join(", "));
    RunnerState::parse(word).ok_or_else(wanted)
}

/// Carries out a command about pools.
pub async fn execute(client: &Client, command: PoolCommand) -> Result<(), Exit> {
    match command {
        PoolCommand::Create(args) => create::create(client, args).await?,
        PoolCommand::List(args) => {
            let page = client.pools(args.namespace.as_deref(), Some(args.limit), args.cursor.as_deref()).await;
            args.format.print(&page.map_err(flags::POOL_LIST.explain())?, show::pools);
        }
        PoolCommand::Show(OneArgs { name: NameArgs { pool, namespace }, format }) => {
            format.print(&client.pool(&namespace, &pool).await?, show::pool);
            if !format.json {
                let page = client.pool_runners(&namespace, &pool, None, Some(PAGE_MAX), None).await?;
                print_line(format!("\n{}", show::runners(&page)));
            }
        }
        PoolCommand::Runners(RunnersArgs { name: NameArgs { pool, namespace }, state, limit, cursor, format }) => {
            let page = client.pool_runners(&namespace, &pool, state, Some(limit), cursor.as_deref()).await;
            format.print(&page.map_err(flags::POOL_RUNNERS.explain())?, show::runners);
        }
        PoolCommand::Scale(args) => scale::scale(client, args).await?,
        PoolCommand::Delete(OneArgs { name: NameArgs { pool, namespace }, format }) => {
            format.print(&client.delete_pool(&namespace, &pool).await?, show::deleted);
        }
        PoolCommand::Claim(args) => claim::claim(client, args).await?,
        PoolCommand::Release(args) => release(client, args).await?,
    }
    Ok(())
}

async fn release(client: &Client, args: ReleaseArgs) -> Result<(), Exit> {
    let ReleaseArgs { name: NameArgs { pool, namespace }, run_id, missing_ok, format } = args;
    match client.release_pool_claim(&namespace, &pool, &run_id).await {
        Ok(claim) => format.print(&claim, show::ended),
        Err(ClientError::Refused { status: 404, message, .. }) if missing_ok => eprintln!("baton: {message}"),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
