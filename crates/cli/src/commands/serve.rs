//! `baton serve`: the server.

use std::path::PathBuf;
use std::sync::Arc;

use baton_server::providers::Provider;
use baton_server::{Extras, Settings, SettingsFlags};
use clap::Args;

use crate::connection::Connection;
use crate::exit::Exit;
use crate::logging::LogArgs;
use crate::signals;

/// Where the server listens and keeps things.
#[derive(Args)]
#[command(after_help = "Examples:
  baton serve                                        on 127.0.0.1:7400, with SQLite in the user's data directory
  baton serve --data /var/lib/baton --listen 0.0.0.0:7400
  baton serve --database postgres://baton@db/baton   for several servers
  baton serve --config /etc/baton.toml
  baton serve --listen 0.0.0.0:7400 --tls self-signed
  baton serve --listen 0.0.0.0:7400 --tls-cert /etc/baton/tls.crt --tls-key /etc/baton/tls.key

Settings come from defaults, then the file, then the environment (BATON_LISTEN, BATON_LEASE_TTL_MS, ...), then
flags. The first start makes an admin key and leaves it in DIR/admin.key, where the other commands find it; the
address it listens on is in DIR/server.addr.")]
pub struct ServeArgs {
    /// Settings file (TOML).
    #[arg(long, env = "BATON_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Speak TLS with a certificate that the server makes on its first start (self-signed) and keeps.
    #[arg(long, value_name = "HOW")]
    tls: Option<String>,
    /// Speak TLS with this certificate (PEM); read anew when the file changes.
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// The key that belongs to it (PEM).
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// Ask clients for certificates that the authorities in this file (PEM) vouch for.
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<String>,
    /// Whether each client has to show one: optional or required.
    #[arg(long, value_name = "WHETHER")]
    tls_client_auth: Option<String>,
    /// Do not warn when listening beyond this machine without TLS: the network is safe.
    #[arg(long)]
    insecure_listen: bool,
    /// postgres://... or a path. [default: SQLite in the data directory]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// A path or s3://bucket/prefix?endpoint=URL&region=NAME for artifacts. [default: in the data directory]
    #[arg(long, value_name = "URL")]
    storage: Option<String>,
    /// A second storage that gets every file as well, to move from one to the other while the
    /// servers run.
    #[arg(long, value_name = "URL")]
    storage_mirror: Option<String>,
    /// A file that has the master key, or several, one a line. [default: DIR/master.key, which is made]
    #[arg(long, value_name = "FILE")]
    master_key_file: Option<PathBuf>,
    #[command(flatten)]
    log: LogArgs,
}

/// Runs the server until it is asked to stop.
pub async fn serve(connection: &Connection, args: ServeArgs) -> Result<(), Exit> {
    // Dropped last: it writes what is left of the log.
    let _log = args.log.start_queued()?;
    let flags = SettingsFlags {
        listen: args.listen,
        tls: args.tls,
        tls_cert: args.tls_cert,
        tls_key: args.tls_key,
        tls_client_ca: args.tls_client_ca,
        tls_client_auth: args.tls_client_auth,
        insecure_listen: args.insecure_listen,
        data: connection.data.clone(),
        database: args.database,
        storage: args.storage,
        storage_mirror: args.storage_mirror,
        api_key: connection.api_key.clone(),
        master_key_file: args.master_key_file,
    };
    let settings = load(args.config.as_deref(), flags).map_err(Exit::usage)?;
    let shutdown = signals::shutdown()?;
    let extras = Extras { providers: providers(), dashboard: Some(baton_web::dashboard) };
    baton_server::run(settings, extras, shutdown).await.map_err(Exit::failed)
}

/// Providers of machines that this program was built with, besides those of the server.
fn providers() -> Vec<(&'static str, Arc<dyn Provider>)> {
    vec![
        #[cfg(feature = "ec2")]
        (baton_ec2::NAME, Arc::new(baton_ec2::Ec2Provider::new())),
    ]
}

/// Reads the settings from the file, the environment and the flags.
pub fn load(config: Option<&std::path::Path>, flags: SettingsFlags) -> Result<Settings, String> {
    Settings::load(config, baton_server::text_variables(), flags)
}
