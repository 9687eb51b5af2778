//! `baton storage`: from one storage to another while the servers run.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton_server::artifacts::{Move, MoveError, Moved, OpenError, Storage, StorageError, Wanting};
use baton_server::{Settings, SettingsFlags};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::build::text::{bytes, count};
use super::serve;
use crate::connection::Connection;
use crate::exit::Exit;
use crate::output::{Format, Table, print_line};

const SPIN: Duration = Duration::from_millis(100);
/// How long a file may usually take from one storage to the other when a server writes it to both.
const PATIENCE: Duration = Duration::from_secs(1);
/// Names of files in a table; `--json` has more.
const NAMES_SHOWN_MAX: usize = 20;

#[derive(Subcommand)]
pub enum StorageCommand {
    /// Copy every file that the target lacks. Servers may run; nothing is deleted from the source.
    #[command(after_help = "\
Start the servers with --storage-mirror TARGET first, so that new files reach the target, too. Repeat a call that was \
interrupted: files that are there are not copied again. docs/storage.md has every step.

A target directory is created; a bucket must exist. Credentials of buckets come from AWS_ACCESS_KEY_ID, \
AWS_SECRET_ACCESS_KEY and the like.

Examples:
  baton storage move --from /var/lib/baton/artifacts --to 's3://builds/baton?region=eu-north-1'
  baton storage move --from s3://old --to s3://new --verify --json

Ends with 0 when the target has every file, with 1 when some could not be copied, and with 5 when a storage cannot be \
reached.")]
    Move(MoveArgs),
    /// See whether the target has every file of the source. Changes nothing.
    #[command(after_help = "\
Examples:
  baton storage check --from /var/lib/baton/artifacts --to 's3://builds/baton?region=eu-north-1'
  baton storage check --from /mnt/old --to /mnt/new --verify

Ends with 0 when it has, with 1 when files or uploads are missing or files differ, and with 5 when a storage cannot \
be reached.")]
    Check(PairArgs),
    /// Say that a storage has the files of this installation from now on. Stop the servers first.
    #[command(after_help = "\
The database remembers which storage has its files, by the file storage.mark in it. A server that is started with \
another one answers 503 to whoever needs a file. `baton storage move` and a copy of the whole storage bring the mark \
along. Use this command when you copied the files by other means, or begin without them; then start the servers.

Examples:
  baton storage adopt --storage 's3://builds/baton?region=eu-north-1' --database postgres://baton@db/baton
  baton storage adopt --config /etc/baton.toml")]
    Adopt(AdoptArgs),
}

#[derive(Args)]
pub struct AdoptArgs {
    /// Settings file of the servers (TOML).
    #[arg(long, env = "BATON_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// postgres://... or a path. [default: SQLite in the data directory]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// The storage: a path or s3://bucket/prefix?endpoint=URL&region=NAME. [default: in the data
    /// directory]
    #[arg(long, value_name = "URL")]
    storage: Option<String>,
}

#[derive(Args)]
pub struct PairArgs {
    /// The storage that has the files: a path or s3://bucket/prefix?endpoint=URL&region=NAME.
    #[arg(long, value_name = "URL")]
    from: String,
    /// The storage that is to have them.
    #[arg(long, value_name = "URL")]
    to: String,
    /// Read files in both storages and compare their SHA-256 checksums, instead of taking equal
    /// sizes for proof.
    #[arg(long)]
    verify: bool,
    /// Files at once.
    #[arg(long, value_name = "FILES", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    concurrency: u16,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct MoveArgs {
    #[command(flatten)]
    pair: PairArgs,
    /// Also delete from the target what the source does not have and is older than an hour. Only
    /// while every server writes to both: a file that went to the target alone is deleted, too.
    #[arg(long)]
    prune: bool,
}

/// The summary.
#[derive(Serialize)]
struct Summary<'a> {
    from: &'a str,
    to: &'a str,
    /// True when the target has everything.
    complete: bool,
    /// True when checksums were compared, false when equal sizes were taken for proof.
    verified: bool,
    #[serde(flatten)]
    outcome: Outcome<'a>,
    present: u64,
    vanished: u64,
    uploads_left: u64,
    failed: u64,
    failures: &'a [String],
}

/// What only one of the two commands has to say.
#[derive(Serialize)]
#[serde(untagged)]
enum Outcome<'a> {
    Move {
        copied: u64,
        copied_bytes: u64,
        pruned: u64,
    },
    Check {
        missing: u64,
        missing_bytes: u64,
        missing_names: &'a [String],
        differs: u64,
        differs_bytes: u64,
        differs_names: &'a [String],
        /// Files that are counted above and not named: there are too many.
        names_left_off: u64,
    },
}

impl<'a> Outcome<'a> {
    fn of_move(moved: &Moved) -> Outcome<'a> {
        Outcome::Move { copied: moved.copied, copied_bytes: moved.copied_bytes, pruned: moved.pruned }
    }

    fn of_check(Moved { missing, differs, .. }: &'a Moved) -> Outcome<'a> {
        Outcome::Check {
            missing: missing.files,
            missing_bytes: missing.bytes,
            missing_names: &missing.names,
            differs: differs.files,
            differs_bytes: differs.bytes,
            differs_names: &differs.names,
            names_left_off: [missing, differs].map(|files| files.files - files.names.len() as u64).iter().sum(),
        }
    }
}

/// Executes one of the commands.
pub async fn execute(connection: &Connection, command: StorageCommand) -> Result<(), Exit> {
    match command {
        StorageCommand::Adopt(args) => adopt(connection, args).await,
        StorageCommand::Move(MoveArgs { pair, prune }) => go(pair, false, prune).await,
        StorageCommand::Check(pair) => go(pair, true, false).await,
    }
}

async fn adopt(connection: &Connection, args: AdoptArgs) -> Result<(), Exit> {
    let AdoptArgs { config, database, storage } = args;
    let flags = SettingsFlags { data: connection.data.clone(), database, storage, ..SettingsFlags::default() };
    let settings = serve::load(config.as_deref(), flags).map_err(Exit::usage)?;
    let name = baton_server::adopt_storage(&settings).await.map_err(Exit::failed)?;
    print_line(format!("{name} has the files of this installation from now on; start the servers"));
    Ok(())
}

async fn go(args: PairArgs, only_look: bool, prune: bool) -> Result<(), Exit> {
    let free_bytes_min = Settings::default().storage_free_bytes_min;
    let existing = |url: &str| Storage::open_existing(url, baton_server::text_variables(), free_bytes_min);
    let created = |url: &str| Storage::open(url, baton_server::text_variables(), free_bytes_min);
    let from = existing(&args.from).map_err(|error| not_opened("--from", error))?;
    let to = if only_look { existing(&args.to) } else { created(&args.to).map_err(OpenError::Unusable) };
    let to = to.map_err(|error| not_opened("--to", error))?;
    if from.name() == to.name() {
        return Err(Exit::usage(format!("--from and --to are the same storage: {}", from.name())));
    }
    let at_once = args.concurrency.into();
    let terms = Move { only_look, verify: args.verify, prune, at_once, patience: PATIENCE };
    let (screen, copied) = (screen(), AtomicU64::new(0));
    let told = |moved: &Moved| {
        copied.store(moved.copied, Ordering::Relaxed);
        screen.set_message(so_far(moved, only_look));
    };
    let moved = from.copy_to(&to, terms, &told).await;
    screen.finish_and_clear();
    let moved = moved.map_err(|error| stopped(&error, copied.into_inner()))?;
    let has_all_files = moved.failed + moved.missing.files + moved.differs.files == 0;
    let complete = has_all_files && moved.uploads_left == 0;
    let summary = Summary {
        from: from.name(),
        to: to.name(),
        complete,
        verified: args.verify,
        outcome: if only_look { Outcome::of_check(&moved) } else { Outcome::of_move(&moved) },
        present: moved.present,
        vanished: moved.vanished,
        uploads_left: moved.uploads_left,
        failed: moved.failed,
        failures: &moved.failures,
    };
    args.format.print(&summary, |summary| table(summary, &moved));
    // Uploads under way reach the target with the servers, so a move has done its part without them.
    let is_done = if only_look { complete } else { has_all_files };
    if is_done { Ok(()) } else { Err(Exit::failed_silently()) }
}

fn not_opened(option: &str, error: OpenError) -> Exit {
    let text = format!("{option}: {error}");
    match error {
        OpenError::Unusable(_) => Exit::usage(text),
        OpenError::Gone(_) => Exit::unreachable(text),
    }
}

/// A line that lives, where there is a terminal.
fn screen() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner:.cyan} {msg} {elapsed:.dim}").expect("the template is ours");
    let screen = ProgressBar::new_spinner().with_style(style);
    screen.enable_steady_tick(SPIN);
    screen
}

fn so_far(moved: &Moved, only_look: bool) -> String {
    let Moved { missing, differs, present, failed, .. } = moved;
    if only_look {
        return format!("{} missing, {} differ, {present} equal", count(missing.files, "file", "files"), differs.files);
    }
    let (files, size) = (count(moved.copied, "file", "files"), bytes(moved.copied_bytes));
    format!("{files} copied ({size}), {present} there already, {failed} failed")
}

/// A storage failed in the middle, or nothing may be pruned.
fn stopped(error: &MoveError, copied: u64) -> Exit {
    let hint = match copied {
        0 => String::new(),
        1 => "\n1 file was copied and stays. Repeat the command: it goes on from there.".into(),
        many => format!("\n{many} files were copied and stay. Repeat the command: it goes on from there."),
    };
    match error {
        MoveError::Storage(StorageError::Unavailable(_)) => Exit::unreachable(format!("{error}{hint}")),
        MoveError::Storage(StorageError::DiskFull) => {
            Exit::failed("the target is full. Make room and repeat the command: it goes on from there.")
        }
        MoveError::Storage(error) => Exit::failed(format!("{error}{hint}")),
        MoveError::EmptySource { .. } => Exit::failed(format!("refused: {error}")),
    }
}

fn table(summary: &Summary<'_>, moved: &Moved) -> String {
    let mut table = Table::plain();
    let some = |number: u64, one: &str, many: &str| (number > 0).then(|| count(number, one, many));
    table.row(["from", summary.from]);
    table.row(["to", summary.to]);
    let is_check = matches!(summary.outcome, Outcome::Check { .. });
    if is_check {
        let Wanting { files, bytes: size, .. } = moved.missing;
        table.row(["missing", &format!("{} ({})", count(files, "file", "files"), bytes(size))]);
        list(&mut table, &moved.missing);
        table.row(["differs", &count(moved.differs.files, "file", "files")]);
        list(&mut table, &moved.differs);
    } else {
        table.row(["copied", &format!("{} ({})", count(moved.copied, "file", "files"), bytes(moved.copied_bytes))]);
    }
    let proof = match (summary.verified, is_check) {
        _ if moved.present == 0 => "",
        (true, _) => ", checksums equal",
        (false, true) => ", sizes equal",
        (false, false) => "",
    };
    table.row(["there already", &format!("{}{proof}", count(moved.present, "file", "files"))]);
    table.field("deleted meanwhile", some(moved.vanished, "file", "files"));
    table.field("removed from the target", some(moved.pruned, "file", "files"));
    let uploads = some(moved.uploads_left, "upload", "uploads");
    table.field("under way", uploads.as_ref().map(|uploads| format!("{uploads} that the target lacks")));
    table.field("failed", some(moved.failed, "file", "files"));
    moved.failures.iter().for_each(|failure| table.row(["", failure]));
    format!("{table}{}", verdict(moved))
}

/// The first names, and how many more there are.
fn list(table: &mut Table, files: &Wanting) {
    let shown = files.names.iter().take(NAMES_SHOWN_MAX);
    shown.for_each(|name| table.row(["", name]));
    let more = files.files.saturating_sub(NAMES_SHOWN_MAX as u64);
    if more > 0 {
        table.row(["", &format!("and {more} more: see --json")]);
    }
}

fn verdict(moved: &Moved) -> String {
    let all = "The target has every file.";
    match (moved.failed + moved.missing.files + moved.differs.files, moved.uploads_left) {
        (0, 0) => all.into(),
        (0, 1) => format!("{all} 1 upload is still under way: see docs/storage.md"),
        (0, many) => format!("{all} {many} uploads are still under way: see docs/storage.md"),
        (_, _) => "The target does not have everything yet.".into(),
    }
}
