//! `baton secret`: the master key, and what it wraps.

use std::path::PathBuf;
use std::time::Duration;

use baton::Client;
use baton::proto::{RotateSecret, SecretStatus};
use baton_server::entropy::SystemEntropy;
use baton_server::secrets::{self, MasterKey, MasterKeySource};
use baton_server::{SettingsFlags, open_store};
use baton_store::Clock;
use clap::{Args, Subcommand};

use super::serve;
use crate::connection::Connection;
use crate::duration;
use crate::exit::Exit;
use crate::output::{Column, Format, Look, Table, print_line};

#[derive(Subcommand)]
pub enum SecretCommand {
    /// Print a new master key. Nothing is kept of it.
    #[command(after_help = "Examples:
  baton secret generate
  (umask 077; baton secret generate > /etc/baton/master.key)

`baton serve --master-key-file /etc/baton/master.key` uses it.")]
    Generate,
    /// Show where the master key is, and which generations of the secret it wraps.
    #[command(after_help = "Examples:
  baton secret status
  baton secret status --json")]
    Status(Format),
    /// Make a new generation of the secret, and wrap all of them with the first key of the source.
    #[command(after_help = "Examples:
  baton secret rotate
  baton secret rotate --overlap 0s    somebody else may know the old one: leases of now are lost

To change the master key: put the new one in front of the old one, on every server; rotate; then remove the old one.
Where the server has made the key by itself (SQLite), it does all of that.")]
    Rotate(RotateArgs),
    /// Begin anew after the master key was lost. What was sealed is lost; stop all servers first.
    #[command(after_help = "Examples:
  baton secret reset --data /var/lib/baton --i-accept-that-sealed-data-is-lost

Certificates, sealed payloads and payloads in the storage cannot be read any more, and leases and other tokens are
void. Runs, keys, settings and history stay.")]
    Reset(ResetArgs),
}

#[derive(Args)]
pub struct RotateArgs {
    /// How long leases and other tokens of the generations before stay good.
    #[arg(long, value_name = "SPAN", default_value = "7d", value_parser = duration::parse)]
    overlap: Duration,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct ResetArgs {
    /// Settings file (TOML) of the server.
    #[arg(long, env = "BATON_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// The database of the server, as for `baton serve`.
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// The file with the master key from now on, as for `baton serve`.
    #[arg(long, value_name = "FILE")]
    master_key_file: Option<PathBuf>,
    /// Nothing is done without it.
    #[arg(long)]
    i_accept_that_sealed_data_is_lost: bool,
    #[command(flatten)]
    format: Format,
}

/// Carries out a command about the secret.
pub async fn execute(connection: &Connection, command: SecretCommand) -> Result<(), Exit> {
    match command {
        SecretCommand::Generate => print_line(MasterKey::fresh(&SystemEntropy).reveal()),
        SecretCommand::Status(format) => format.show(&connection.client()?.secret_status().await?, show),
        SecretCommand::Rotate(args) => rotate(&connection.client()?, args).await?,
        SecretCommand::Reset(args) => reset(connection, args).await?,
    }
    Ok(())
}

async fn rotate(client: &Client, args: RotateArgs) -> Result<(), Exit> {
    let overlap_ms = u64::try_from(args.overlap.as_millis()).unwrap_or(u64::MAX);
    let rotated = client.rotate_secret(&RotateSecret { overlap_ms: Some(overlap_ms) }).await?;
    args.format.print(&rotated, |rotated| {
        let key = match rotated.key_id == rotated.key_id_before {
            true => format!("wrapped with the master key {}, as before", rotated.key_id),
            false => format!(
                "wrapped with the master key {} instead of {} (keep a copy of the new one)",
                rotated.key_id, rotated.key_id_before
            ),
        };
        let overlap = duration::show(overlap_ms);
        format!("generation {}, {key}; tokens of those before are good for another {overlap}", rotated.generation)
    });
    Ok(())
}

async fn reset(connection: &Connection, args: ResetArgs) -> Result<(), Exit> {
    let flags = SettingsFlags {
        data: connection.data.clone(),
        database: args.database,
        master_key_file: args.master_key_file,
        ..SettingsFlags::default()
    };
    let settings = serve::load(args.config.as_deref(), flags).map_err(Exit::usage)?;
    if !args.i_accept_that_sealed_data_is_lost {
        return Err(Exit::usage(
            "this discards the installation's secret: certificates, sealed payloads and payloads in the storage cannot be \
             read any more, and leases and other tokens are void. Runs, keys, settings and history stay. If that is what \
             you want, stop all servers and add --i-accept-that-sealed-data-is-lost",
        ));
    }
    if let Some(path) = settings.sqlite_path().filter(|path| !path.exists()) {
        return Err(Exit::not_found(format!(
            "there is no database {}; --data or --database say where",
            path.display()
        )));
    }
    let store = open_store(&settings, Clock::Real).await.map_err(|error| Exit::failed(error.to_string()))?;
    let source = MasterKeySource::of(&settings);
    let reset = secrets::reset(&*store, &source, &SystemEntropy).await;
    store.close().await;
    let reset = reset.map_err(Exit::failed)?;
    let rotated = baton::proto::RotatedSecret {
        generation: reset.generation,
        key_id: reset.key_id,
        key_id_before: reset.key_id_before,
    };
    args.format.print(&rotated, |rotated| {
        format!(
            "begun anew with generation {}, wrapped with the master key {} in {}",
            rotated.generation,
            rotated.key_id,
            source.place()
        )
    });
    Ok(())
}

fn show(status: &SecretStatus, look: Look) -> String {
    let source = status.source.replace('_', " ");
    let mut text = format!("master key {} from {} ({source})\n\n", status.key_id, status.place);
    let mut table = Table::of([
        Column::number("generation"),
        Column::name("master key"),
        Column::age("age"),
        Column::text("tokens good until"),
    ]);
    for one in &status.generations {
        let until = one.tokens_until.map_or_else(|| "it is replaced".into(), |until| look.moment(until));
        table.row([one.generation.to_string(), one.key_id.clone(), look.age(one.made_at), until]);
    }
    text.push_str(&table.render(look));
    if let Some(next) = status.key_ids.first().filter(|next| **next != status.key_id) {
        text.push_str(&format!("\n\nthe next rotation wraps with the master key {next}"));
    }
    if let Some(mode) = &status.mode_too_wide {
        text.push_str(&format!("\n\n{} has the mode {mode}: others can read it; chmod 600 closes it", status.place));
    }
    if let Some(trouble) = &status.trouble {
        text.push_str(&format!("\n\n{trouble}"));
    }
    text
}
