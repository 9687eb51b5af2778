//! `baton key`: who may do what.

use std::time::Duration;

use baton::Client;
use baton::proto::{CreateKey, Keys, RotateKey, Whoami};
use clap::{Args, Subcommand};

use crate::duration;
use crate::exit::Exit;
use crate::output::{Column, Format, Listing, Look, Table, or_dash, print_line};

#[derive(Subcommand)]
pub enum KeyCommand {
    /// Make a key. It is shown this once and never again.
    #[command(after_help = "Examples:
  baton key create ci --scope submit --scope read
  baton key create mac-mini-3 --scope worker --namespace mobile
  baton key create release-bot --scope submit --expires-in 90d")]
    Create(CreateArgs),
    /// Give a key another secret. The one before stays good for a while.
    #[command(after_help = "Examples:
  baton key rotate key_5f0c1d2e3a4b
  baton key rotate key_5f0c1d2e3a4b --overlap 1h --expires-in 90d
  baton key rotate key_5f0c1d2e3a4b --overlap 0s    somebody else may know the old one")]
    Rotate(RotateArgs),
    /// List keys.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  baton key list
  baton key list --json"
    )]
    List(Listing),
    /// Show the key that commands use: what it may do, and where.
    #[command(after_help = "Examples:
  baton key whoami
  baton key whoami --json")]
    Whoami(Format),
    /// Sign a key out of the dashboard: end all its sessions.
    #[command(after_help = "Examples:
  baton key sign-out                      the key that commands use
  baton key sign-out key_5f0c1d2e3a4b
  baton key sign-out operator             sessions of links that servers have printed at their start")]
    SignOut {
        /// Its identifier, as `key list` shows it. [default: the key that commands use]
        id: Option<String>,
        #[command(flatten)]
        format: Format,
    },
    /// Revoke a key.
    #[command(after_help = "Examples:
  baton key revoke key_5f0c1d2e3a4b
  baton key revoke key_5f0c1d2e3a4b --force    even if nobody can make keys afterwards")]
    Revoke {
        /// Its identifier, as `key list` shows it.
        id: String,
        /// Also when it is the last admin key.
        #[arg(long)]
        force: bool,
    },
}

#[derive(Args)]
pub struct CreateArgs {
    /// What you call it.
    name: String,
    /// What it may do: admin, submit, worker or read. May be given several times.
    #[arg(long = "scope", required = true, value_parser = ["admin", "submit", "worker", "read"])]
    scopes: Vec<String>,
    /// The only namespace it is good for.
    #[arg(long, short)]
    namespace: Option<String>,
    /// How long it is good for, like 90d or 12h. [default: until it is revoked]
    #[arg(long, value_name = "SPAN", value_parser = duration::parse_positive)]
    expires_in: Option<Duration>,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct RotateArgs {
    /// Its identifier, as `key list` shows it.
    id: String,
    /// How long the secret before stays good.
    #[arg(long, value_name = "SPAN", default_value = "1d", value_parser = duration::parse)]
    overlap: Duration,
    /// How long the key is good for from now on. [default: as long as before]
    #[arg(long, value_name = "SPAN", value_parser = duration::parse_positive)]
    expires_in: Option<Duration>,
    #[command(flatten)]
    format: Format,
}

/// Carries out a command about keys.
pub async fn execute(client: &Client, command: KeyCommand) -> Result<(), Exit> {
    match command {
        KeyCommand::Create(args) => {
            let key = CreateKey {
                name: args.name,
                scopes: args.scopes,
                namespace: args.namespace,
                expires_in_ms: args.expires_in.map(milliseconds),
            };
            let created = client.create_key(&key).await?;
            args.format.print(&created, |created| {
                eprintln!("Keep it: it is not shown again. To revoke it: baton key revoke {}", created.id);
                created.key.clone()
            });
        }
        KeyCommand::Rotate(args) => {
            let rotation = RotateKey {
                overlap_ms: Some(milliseconds(args.overlap)),
                expires_in_ms: args.expires_in.map(milliseconds),
            };
            let rotated = client.rotate_key(&args.id, &rotation).await?;
            let overlap = duration::show(milliseconds(args.overlap));
            args.format.print(&rotated, |rotated| {
                eprintln!(
                    "Keep it: it is not shown again. The secret before is good for another {overlap}, unless its time was \
                     over. If it is in the file admin.key of a data directory, write the new one there."
                );
                rotated.key.clone()
            });
        }
        KeyCommand::List(listing) => listing.show(async || client.keys().await, table).await?,
        KeyCommand::Whoami(format) => format.show(&client.whoami().await?, whoami),
        KeyCommand::SignOut { id, format } => {
            let id = match id {
                Some(id) => id,
                None => client.whoami().await?.id,
            };
            format.print(&client.end_sessions(&id).await?, |ended| match ended.ended {
                1 => format!("1 session of {id} ended"),
                many => format!("{many} sessions of {id} ended"),
            });
        }
        KeyCommand::Revoke { id, force } => {
            let revoked = if force { client.force_revoke_key(&id).await } else { client.revoke_key(&id).await };
            revoked.map_err(|error| match error.code() {
                Some("last_admin_key") => Exit::refused(format!("{error}\n--force revokes it all the same.")),
                _ => error.into(),
            })?;
            print_line(format!("revoked {id}"));
        }
    }
    Ok(())
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn whoami(key: &Whoami, look: Look) -> String {
    let mut table = Table::plain();
    table.field("id", Some(&key.id));
    table.field("name", Some(&key.name));
    table.field("scopes", Some(key.scopes.join(",")));
    table.field("namespace", Some(key.namespace.as_deref().unwrap_or("all")));
    table.field("expires", Some(key.expires_at.map_or_else(|| "never".into(), |at| look.moment(at))));
    table.render(look)
}

fn table(keys: &Keys, look: Look) -> Table {
    let mut table = Table::of([
        Column::id("id"),
        Column::name("name"),
        Column::text("scopes"),
        Column::name("namespace"),
        Column::state("state"),
        Column::age("age"),
        Column::age("used"),
        Column::age("expires"),
        Column::age("revoked").extra(),
    ]);
    for key in &keys.keys {
        let state = match (key.revoked_at, key.good) {
            (Some(_), _) => "revoked",
            (None, false) => "expired",
            (None, true) => "good",
        };
        table.row([
            key.id.clone(),
            key.name.clone(),
            key.scopes.join(","),
            key.namespace.clone().unwrap_or_else(|| "all".into()),
            state.to_owned(),
            look.age(key.created_at),
            or_dash(key.used_at.map(|at| look.age(at))),
            or_dash(key.expires_at.map(|at| look.now.until(at))),
            or_dash(key.revoked_at.map(|at| look.age(at))),
        ]);
    }
    table
}
