//! `baton context`: which of the servers that somebody has logged in to is used.

use baton::ClientError;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::contexts::Contexts;
use crate::exit::Exit;
use crate::output::{Column, List, Listing, Look, Table, print_line};

#[derive(Subcommand)]
pub enum ContextCommand {
    /// List the servers that you have logged in to.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  baton context list
  baton context list --json"
    )]
    List(Listing),
    /// Use a server from now on.
    #[command(after_help = "Examples:
  baton context use prod
  baton context use --none      the server of this machine again")]
    Use(UseArgs),
    /// Forget a server and the key to it. The key stays good: `baton key revoke` ends it.
    #[command(
        visible_alias = "rm",
        after_help = "Examples:
  baton context remove prod"
    )]
    Remove(NameArgs),
}

#[derive(Args)]
pub struct UseArgs {
    /// The context.
    #[arg(required_unless_present = "none", conflicts_with = "none")]
    name: Option<String>,
    /// None of them.
    #[arg(long)]
    none: bool,
}

#[derive(Args)]
pub struct NameArgs {
    /// The context.
    name: String,
}

/// What is shown of contexts: everything but their keys.
#[derive(Serialize)]
struct Shown {
    contexts: Vec<ShownContext>,
}

#[derive(Serialize)]
struct ShownContext {
    name: String,
    url: String,
    current: bool,
    has_key: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_pin: Option<String>,
}

impl List for Shown {
    type Entry = ShownContext;

    fn entries(&self) -> &[ShownContext] {
        &self.contexts
    }
}

impl From<Contexts> for Shown {
    fn from(all: Contexts) -> Shown {
        let current = all.current;
        let contexts = all.contexts.into_iter().map(|(name, context)| ShownContext {
            current: current.as_ref() == Some(&name),
            name,
            url: context.url,
            has_key: context.api_key.is_some(),
            ca: context.ca.map(|path| path.display().to_string()),
            tls_pin: context.tls_pin,
        });
        Shown { contexts: contexts.collect() }
    }
}

/// Carries out a command about contexts.
pub async fn execute(command: ContextCommand) -> Result<(), Exit> {
    match command {
        ContextCommand::List(listing) => {
            // A file that cannot be read is told of at once.
            Contexts::load()?;
            let ask = async || Ok::<_, ClientError>(Shown::from(Contexts::load().unwrap_or_default()));
            listing.show(ask, table).await?;
        }
        ContextCommand::Use(UseArgs { name, .. }) => {
            Contexts::change(|all| {
                if let Some(name) = &name {
                    all.get(name)?;
                }
                all.current = name;
                Ok(())
            })?;
        }
        ContextCommand::Remove(NameArgs { name }) => {
            Contexts::change(|all| {
                all.get(&name)?;
                all.contexts.remove(&name);
                all.current.take_if(|current| *current == name);
                Ok(())
            })?;
            print_line(format!("removed {name}"));
        }
    }
    Ok(())
}

fn table(shown: &Shown, _: Look) -> Table {
    let mut table = Table::of([
        Column::text("current"),
        Column::key("name"),
        Column::name("url"),
        Column::text("key"),
        Column::name("ca").extra(),
        Column::name("pin").extra(),
    ]);
    for context in &shown.contexts {
        table.row([
            if context.current { "*" } else { "" },
            &context.name,
            &context.url,
            if context.has_key { "yes" } else { "no" },
            context.ca.as_deref().unwrap_or("-"),
            context.tls_pin.as_deref().unwrap_or("-"),
        ]);
    }
    table
}
