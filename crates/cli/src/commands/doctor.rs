//! `baton doctor`: what is wrong here, and what to do about it.

mod server;
mod store;
mod tls;

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_server::{Settings, SettingsFlags};
use clap::Args;
use serde::Serialize;

use super::serve;
use crate::connection::Connection;
use crate::exit::Exit;
use crate::os;
use crate::output::{Format, Table};

const CALL_TIMEOUT: Duration = Duration::from_secs(5);
const DISK_FREE_WARN: u64 = 1 << 30;
const DISK_FREE_FAIL: u64 = 100 << 20;

#[derive(Args)]
#[command(after_help = "Checks what `baton serve` and the other commands would use with the same options and
environment. Ends with 1 if anything fails, and with 0 if there are only warnings: --json has the \"status\" of each
check (ok, warn, fail), for those who want to stop at warnings.

Examples:
  baton doctor
  baton doctor --config /etc/baton.toml --json
  baton doctor --url http://baton.internal:7400")]
pub struct DoctorArgs {
    /// Settings file (TOML).
    #[arg(long, env = "BATON_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Ok,
    Warn,
    Fail,
}

/// What one look found.
#[derive(Serialize)]
struct Check {
    name: &'static str,
    status: Status,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    todo: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Check {
        Check { name, status: Status::Ok, found: found.into(), todo: None }
    }

    fn warn(name: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Check {
        Check { name, status: Status::Warn, found: found.into(), todo: Some(todo.into()) }
    }

    fn fail(name: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Check {
        Check { status: Status::Fail, ..Check::warn(name, found, todo) }
    }
}

#[derive(Serialize)]
struct Report {
    ok: bool,
    checks: Vec<Check>,
}

/// Looks at everything and reports.
pub async fn doctor(connection: &Connection, args: DoctorArgs) -> Result<(), Exit> {
    let mut checks = Vec::new();
    let flags = SettingsFlags { data: connection.data.clone(), ..SettingsFlags::default() };
    let settings = serve::load(args.config.as_deref(), flags);
    let directory = settings.as_ref().map_or_else(|_| connection.data_directory(), |settings| settings.data.clone());
    checks.push(check_settings(args.config.as_deref(), &settings));
    checks.push(check_directory(&directory));
    checks.push(check_disk(&directory));
    let key = connection.find_api_key()?;
    let client = connection.client_with(key.as_deref().unwrap_or_default())?.with_timeout(CALL_TIMEOUT);
    let server = server::check_server(&client).await;
    let server_answers = server.status == Status::Ok;
    checks.push(server);
    if let Ok(settings) = &settings {
        checks.extend(tls::check_settings(settings));
    }
    checks.extend(tls::check_certificate(&client, connection).await);
    if server_answers {
        checks.push(server::check_store_behind(&client).await);
        checks.extend(server::check_storage_behind(&client).await);
        checks.push(server::check_key(&client, key.is_some(), connection).await);
        checks.extend(server::check_attention(&client).await);
        checks.extend(server::check_pools(&client).await);
        checks.extend(server::check_legacy_auth(&client).await);
        checks.extend(server::check_expiry(&client).await);
        checks.extend(server::check_master_key(&client).await);
    }
    if let Ok(settings) = &settings
        && (!server_answers || settings.sqlite_path().is_none())
    {
        checks.extend(store::check_store(settings).await);
    }
    if let Ok(settings) = &settings
        && !server_answers
    {
        checks.extend(store::check_storage(settings).await);
    }
    let report = Report { ok: checks.iter().all(|check| check.status != Status::Fail), checks };
    args.format.print(&report, table);
    if report.ok { Ok(()) } else { Err(Exit::failed_silently()) }
}

fn table(report: &Report) -> String {
    let mut table = Table::plain();
    for check in &report.checks {
        let status = match check.status {
            Status::Ok => "ok",
            Status::Warn => "warn",
            Status::Fail => "FAIL",
        };
        table.row([status, check.name, &check.found]);
        if let Some(todo) = &check.todo {
            table.row(["", "", &format!("-> {todo}")]);
        }
    }
    table.to_string()
}

fn check_settings(config: Option<&Path>, settings: &Result<Settings, String>) -> Check {
    let name = "settings";
    let from = config.map_or("defaults and environment".into(), |path| format!("{} and environment", path.display()));
    match settings {
        Ok(settings) => {
            let store = settings.sqlite_path().map_or("PostgreSQL".into(), |path| path.display().to_string());
            Check::ok(name, format!("{from}; listen on {}, store {store}", settings.listen))
        }
        Err(error) => Check::fail(name, error, "correct the file or the variable; `baton serve --help` names them"),
    }
}

fn check_directory(directory: &Path) -> Check {
    let name = "data directory";
    let shown = directory.display();
    if !directory.exists() {
        return Check::warn(name, format!("{shown} does not exist yet"), "`baton serve` makes it");
    }
    match tempfile::tempfile_in(directory) {
        Ok(_) => Check::ok(name, format!("{shown} can be written")),
        Err(error) => Check::fail(
            name,
            format!("{shown} cannot be written: {error}"),
            "give it to the user the server runs as, or choose another with --data",
        ),
    }
}

fn check_disk(directory: &Path) -> Check {
    let name = "disk";
    let existing = directory.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let (free, size) = match os::disk_space(existing) {
        Ok(space) => space,
        Err(error) => return Check::warn(name, format!("cannot be measured: {error}"), "look yourself with `df`"),
    };
    let found = format!("{} MiB of {} MiB free", free >> 20, size >> 20);
    let todo = "free some space: a full disk takes no new runs (and loses none)";
    match free {
        0..DISK_FREE_FAIL => Check::fail(name, found, todo),
        DISK_FREE_FAIL..DISK_FREE_WARN => Check::warn(name, found, todo),
        DISK_FREE_WARN.. => Check::ok(name, found),
    }
}
