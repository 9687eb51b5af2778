//! `baton pool`: warm machines for CI runs.

mod board;
mod claim;
mod claims;
mod create;
mod machine;
mod scale;
mod set;
pub(super) mod show;

use baton::proto::{NAMESPACE_DEFAULT, PAGE_MAX};
use baton::{Client, ClientError};
use baton_core::pools::RunnerState;
use clap::{Args, Subcommand};

use super::patience::until_answered;
use crate::exit::Exit;
use crate::output::{Format, Listing, print_line, print_note};

#[derive(Subcommand)]
pub enum PoolCommand {
    /// Make a pool.
    #[command(after_help = "Examples:
  baton pool create linux --min-idle 4 --max-size 20
  baton pool create linux --register-hook /opt/ci/register.sh --deregister-hook /opt/ci/remove.sh
  baton pool create office --min-idle 1 --idle-at '0 8 * * MON-FRI=10' --idle-at '0 19 * * *=1' --time-zone Europe/Berlin
  baton pool create large --provider command --option script=fleet --cpu 16 --memory 64G --type 'm6i.*'

The provider `local` starts agents as processes of the server's machine; `command` calls a script of yours. Hooks are run on
each machine, when it is claimed and when it is released: `baton agent --help`. They work in a directory of the run, which
is empty; one that begins with ./ or ../ is looked for in agent.hook_directory. With the provider `local` a hook that is
not there is refused.

Options (--option NAME=VALUE) of every pool:
  agent.register_hook, agent.deregister_hook   the hooks; the flags of the same names set them
  agent.hook_directory     where hooks like ./register are [default: where the agent was started; with the provider local
                           that is where the server was started]
  agent.hook_timeout       how long a hook may take [default: 2m]
  agent.end_with           how a machine ends itself: exit (the agent), shutdown, or a shell command. Never shutdown with
                           the provider local: that is the machine of the server
  agent.overtime           how long after its run's deadline it ends itself [default: 1m]
  agent.unreachable        how long without a server before it ends itself [default: pool_abandon_ms of the server]
  agent.work_directory     where runs work
  agent.github_runner      where GitHub's runner is [default: /opt/actions-runner]
  github.repository        owner/name: machines become runners of that repository while they are claimed
  github.organization      the same for an organization
  github.runner_group_id   their group there
  github.registration      jit or token [default: jit]
of the provider command: script, a file in pool_command_directory (a setting of the server, which has to be there when it
starts); of the provider ec2: see docs/pool_providers.md.")]
    Create(create::CreateArgs),
    /// List pools, with how many machines are idle and in use.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  baton pool list --watch
  baton pool list --namespace mobile --json

With --json: {\"pools\": [...], \"next_cursor\": \"...\"}, the latter when there are more."
    )]
    List(ListArgs),
    /// Show a pool and its machines.
    #[command(
        alias = "show",
        after_help = "Examples:
  baton pool get linux
  baton pool get linux --json     without the machines: those are listed by `baton pool runners`"
    )]
    Get(OneArgs),
    /// List the machines of a pool.
    #[command(after_help = "Examples:
  baton pool runners linux
  baton pool runners linux --state terminating --json

States: creating, idle, claimed, running, releasing, terminating, gone. The table shows the end of each runner's
id, which `baton pool runner` and `baton pool end` take; `-o wide` shows all of it. UNTIL is when the server gives the
machine up in this state, SEEN its last heartbeat, BECAUSE why it was ended and what its hooks or its provider said.
With --json: {\"runners\": [...], \"next_cursor\": \"...\"}, the latter when there are more.")]
    Runners(RunnersArgs),
    /// Show one machine, with what became of it.
    #[command(after_help = "Examples:
  baton pool runner linux 4f2a90
  baton pool runner linux i-0123456789abcdef0 --json     by the provider's name for it")]
    Runner(machine::MachineArgs),
    /// End a machine, whatever it does: one that is in use is taken from its run.
    #[command(after_help = "Examples:
  baton pool end linux 4f2a90
  baton pool end linux i-0123456789abcdef0 --json

The pool gets another one if it needs it. Again does no harm.")]
    End(machine::MachineArgs),
    /// List the claims of a pool, newest first, or show one with its machines.
    #[command(after_help = "Examples:
  baton pool claims linux
  baton pool claims linux --state failed --json
  baton pool claims linux ci-17     one claim: its machines, and why it had to discard others

States: waiting, ready (its machines were handed over), released, failed. Claims that have ended are forgotten after a week
(the server's setting pool_retention_ms).
With --json: {\"claims\": [...], \"next_cursor\": \"...\"}, the latter when there are more. Machines (\"runners\", \"failures\",
\"discarded\") are in the answer about one claim only.")]
    Claims(claims::ClaimsArgs),
    /// Change how many machines a pool keeps.
    #[command(after_help = "Examples:
  baton pool scale linux --min-idle 10
  baton pool scale linux --min-idle 0 --max-size 40
  baton pool scale linux --min-idle 1 --idle-at '0 8 * * MON-FRI=10' --idle-at '0 19 * * *=1'

Rules that are given take the place of those before.")]
    Scale(scale::ScaleArgs),
    /// Change anything else of a pool: hooks, options, types, times.
    #[command(after_help = "Examples:
  baton pool set linux --register-hook /opt/ci/register.sh --option agent.hook_timeout=5m
  baton pool set linux --unset-option agent.deregister_hook
  baton pool set linux --idle 1h --runtime 2h --max-size 40
  baton pool set large --type 'm7i.*' --type 'm6i.*' --usage spot --spot-fallback

What is not named stays. Machines that are there keep what they were made with, their hooks too: end them one by one
(`baton pool end`) to have others in their place. Name, provider, --cpu and --memory of a pool stay as they were made.")]
    Set(set::SetArgs),
    /// Delete a pool: idle machines end, those in use when they are released.
    #[command(
        visible_alias = "rm",
        after_help = "Examples:
  baton pool delete linux
  baton pool delete linux --force      when its provider does not say any more what it has"
    )]
    Delete(DeleteArgs),
    /// Claim machines for a run, and wait until all of them are registered for it.
    #[command(after_help = "Examples:
  baton pool claim linux --run-id ci-17 --count 4
  baton pool claim linux --run-id ci-17 --count 4 --wait 5m --runtime 1h > machines.json
  baton pool claim large --run-id nightly-3 --type 'm6i.*' --usage on-demand --priority 9

All or none: when the claim cannot be filled in time, what it took goes back, and the command ends with 1 and says why. The
machines are printed as a JSON array in one line; --json prints the whole claim. The same run again gets the same machines,
or the same failure: try again with another --run-id. Ctrl-C, SIGTERM or SIGHUP while it waits gives up the claim.
Of a claim that was filled and has lost machines since, those that are left are printed, and it ends with 1.

Exit codes:
  0 all machines are there   1 not filled, or some are lost   2 usage   3 no such pool   4 refused, or released before
  5 unreachable   130 interrupted")]
    Claim(claim::ClaimArgs),
    /// Give back the machines of a run, or give up its claim.
    #[command(after_help = "Examples:
  baton pool release linux --run-id ci-17
  baton pool release linux --run-id ci-17 --missing-ok    for the last step of a workflow, which is always run

A pool that is not there is an error all the same (3). A server that restarts is waited for, for a minute, as
`baton pool claim` does: machines that are not released are kept until their --runtime is over. Again does no harm.

Exit codes:
  0 released, now or before   2 usage   3 no such pool, or the run has claimed nothing   4 refused   5 unreachable")]
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
pub struct DeleteArgs {
    #[command(flatten)]
    name: NameArgs,
    /// Give up machines that are being ended, whether their provider says that they are gone or not. The audit log names them: see to it that they are.
    #[arg(long)]
    force: bool,
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
    listing: Listing,
}

#[derive(Args)]
pub struct RunnersArgs {
    #[command(flatten)]
    name: NameArgs,
    /// In this state: creating, idle, claimed, running, releasing, terminating or gone. Those that are gone are listed only with it.
    #[arg(long, short, value_parser = parse_state)]
    state: Option<RunnerState>,
    /// At most this many.
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Go on where a list ended.
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    listing: Listing,
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
            let (namespace, cursor) = (args.namespace.as_deref(), args.cursor.as_deref());
            let ask = async || client.pools(namespace, Some(args.limit), cursor).await;
            args.listing.show(ask, show::pools).await?;
        }
        PoolCommand::Get(OneArgs { name: NameArgs { pool, namespace }, format }) => {
            format.show(&client.pool(&namespace, &pool).await?, show::pool);
            if !format.is_json() {
                let page = client.pool_runners(&namespace, &pool, None, Some(PAGE_MAX), None).await?;
                print_line("\n");
                format.list(&page, show::runners);
            }
        }
        PoolCommand::Runners(RunnersArgs { name: NameArgs { pool, namespace }, state, limit, cursor, listing }) => {
            let ask = async || client.pool_runners(&namespace, &pool, state, Some(limit), cursor.as_deref()).await;
            listing.show(ask, show::runners).await?;
        }
        PoolCommand::Runner(args) => machine::show(client, args).await?,
        PoolCommand::End(args) => machine::end(client, args).await?,
        PoolCommand::Claims(args) => claims::claims(client, args).await?,
        PoolCommand::Scale(args) => scale::scale(client, args).await?,
        PoolCommand::Set(args) => set::set(client, args).await?,
        PoolCommand::Delete(DeleteArgs { name: NameArgs { pool, namespace }, force, format }) => {
            let deleted = match force {
                true => client.force_delete_pool(&namespace, &pool).await?,
                false => client.delete_pool(&namespace, &pool).await?,
            };
            // The pool may be gone by now: then nobody has its machines.
            let machines = match format.is_json() {
                true => None,
                false => client.pool_runners(&namespace, &pool, None, Some(PAGE_MAX), None).await.ok(),
            };
            let machines = machines.map(|page| page.runners).unwrap_or_default();
            format.print(&deleted, |pool| show::deleted(pool, &machines));
        }
        PoolCommand::Claim(args) => claim::claim(client, args).await?,
        PoolCommand::Release(args) => release(client, args).await?,
    }
    Ok(())
}

impl PoolCommand {
    /// Whether it would be lost if it ended because the server restarts: machines would be kept for
    /// hours, or a run go without.
    pub fn waits_for_a_restart(&self) -> bool {
        matches!(self, PoolCommand::Claim(_) | PoolCommand::Release(_) | PoolCommand::End(_))
    }
}

async fn release(client: &Client, args: ReleaseArgs) -> Result<(), Exit> {
    let ReleaseArgs { name: NameArgs { pool, namespace }, run_id, missing_ok, format } = args;
    // What is not released is held until its time is over: a server that restarts is waited for, as
    // a claim does.
    match until_answered(async || client.release_pool_claim(&namespace, &pool, &run_id).await).await {
        Ok(claim) => format.print(&claim, show::ended),
        Err(ClientError::Refused { status: 404, message, .. }) if missing_ok => {
            // It may be the pool that is missing, which is a mistake of whoever wrote its name.
            until_answered(async || client.pool(&namespace, &pool).await).await?;
            print_note(&message);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
