//! `baton bulk`: operations on all runs that a filter finds.

mod begin;
mod show;

use baton::Client;
use baton_core::BulkState;
use clap::{Args, Subcommand};

pub use begin::{Matching, begin};

use crate::commands::ids;
use crate::commands::patience::until_answered;
use crate::exit::Exit;
use crate::output::{Format, Listing};

#[derive(Subcommand)]
pub enum BulkCommand {
    /// List bulk operations, newest first.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  baton bulk list --watch
  baton bulk list --state running
  baton bulk list --limit 200 -o jsonl"
    )]
    List(ListArgs),
    /// Show a bulk operation: which runs, how far it is, and its first errors.
    #[command(after_help = "Examples:
  baton bulk get e9d1aa       the end of its id, as lists show it
  baton bulk get 0198c1f2-0c2b-7000-8000-5a0c2be9d1aa --json")]
    Get(OneArgs),
    /// Stop a bulk operation. Runs that it has acted on stay as they are.
    #[command(after_help = "Examples:
  baton bulk stop e9d1aa

Operations begin with `baton run cancel` and `baton run retry`, where those are given filters instead
of a run.")]
    Stop(OneArgs),
}

#[derive(Args)]
pub struct OneArgs {
    /// The operation: its id, or the end of it.
    id: String,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct ListArgs {
    /// Only this namespace.
    #[arg(long, short)]
    namespace: Option<String>,
    /// In this state: running, completed, stopped or failed.
    #[arg(long, short, value_parser = parse_state)]
    state: Option<BulkState>,
    /// At most this many.
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Go on where a list ended.
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    listing: Listing,
}

fn parse_state(word: &str) -> Result<BulkState, String> {
    let wanted = || format!("one of {} is wanted", BulkState::ALL.map(BulkState::as_str).join(", "));
    BulkState::parse(word).ok_or_else(wanted)
}

/// Carries out a command about bulk operations.
pub async fn execute(client: &Client, command: BulkCommand) -> Result<(), Exit> {
    match command {
        BulkCommand::List(ListArgs { namespace, state, limit, cursor, listing }) => {
            let state = state.map(BulkState::as_str);
            let ask = async || client.bulks(namespace.as_deref(), state, Some(limit), cursor.as_deref()).await;
            listing.show(ask, show::page).await?;
        }
        BulkCommand::Get(OneArgs { id, format }) => {
            format.show(&client.bulk(&ids::bulk(client, id).await?).await?, show::operation);
        }
        BulkCommand::Stop(OneArgs { id, format }) => {
            let id = ids::bulk(client, id).await?;
            let stopped = until_answered(async || client.bulk_stop(&id).await).await?;
            format.show(&stopped, show::operation);
        }
    }
    Ok(())
}
