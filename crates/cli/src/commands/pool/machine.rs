//! `baton pool runner` and `baton pool end`: one machine.

use baton::proto::{PAGE_MAX, RunnerView};
use baton::{Client, ClientError};
use baton_core::pools::{RunnerId, RunnerState};
use clap::Args;

use super::{NameArgs, show};
use crate::commands::ids;
use crate::commands::patience::until_answered;
use crate::exit::Exit;
use crate::output::Format;

#[derive(Args)]
pub struct MachineArgs {
    #[command(flatten)]
    name: NameArgs,
    /// The runner: its id, the end or the beginning of it, or the provider's name for its machine.
    runner: String,
    #[command(flatten)]
    format: Format,
}

/// Shows a machine and what became of it.
pub async fn show(client: &Client, args: MachineArgs) -> Result<(), Exit> {
    let MachineArgs { name: NameArgs { pool, namespace }, runner, format } = args;
    let id = find(client, &namespace, &pool, runner).await?;
    format.show(&client.pool_runner(&namespace, &pool, &id).await?, show::runner);
    Ok(())
}

/// Ends a machine.
pub async fn end(client: &Client, args: MachineArgs) -> Result<(), Exit> {
    let MachineArgs { name: NameArgs { pool, namespace }, runner, format } = args;
    let id = find(client, &namespace, &pool, runner).await?;
    let ended = until_answered(async || client.end_pool_runner(&namespace, &pool, &id).await).await?;
    format.print(&ended, show::ended_runner);
    Ok(())
}

/// The whole identifier of a runner. Those that are there go before those that are gone.
async fn find(client: &Client, namespace: &str, pool: &str, word: String) -> Result<String, Exit> {
    if word.parse::<RunnerId>().is_ok() {
        return Ok(word);
    }
    for state in [None, Some(RunnerState::Gone)] {
        let found = called(client, namespace, pool, state, &word).await?;
        match &found[..] {
            [] => {}
            [one] => return Ok(one.clone()),
            several => {
                let candidates = several.iter().map(|id| (id.clone(), Vec::<String>::new())).collect();
                return ids::one("runner", &word, candidates);
            }
        }
    }
    Err(Exit::not_found(format!("no runner of {pool} is called {word:?}")))
}

async fn called(
    client: &Client,
    namespace: &str,
    pool: &str,
    state: Option<RunnerState>,
    word: &str,
) -> Result<Vec<String>, ClientError> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = client.pool_runners(namespace, pool, state, Some(PAGE_MAX), cursor.as_deref()).await?;
        found.extend(page.runners.iter().filter(|runner| is_called(runner, word)).map(|runner| runner.id.clone()));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(found);
        }
    }
}

fn is_called(runner: &RunnerView, word: &str) -> bool {
    let is_end = ids::suffix(word).is_some_and(|end| runner.id.ends_with(&end));
    is_end || (!word.is_empty() && runner.id.starts_with(word)) || runner.machine_id.as_deref() == Some(word)
}
