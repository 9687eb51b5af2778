//! `baton storage`: from one storage to another while the servers run.

use std::io::IsTerminal;
use std::time::Duration;

use baton_server::Settings;
use baton_server::artifacts::{Move, Moved, Storage, StorageError};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::build::text::{bytes, count};
use crate::exit::Exit;
use crate::output::{Format, Table};

const SPIN: Duration = Duration::from_millis(100);
/// How long a file may usually take from one storage to the other when a server writes it to both.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Subcommand)]
pub enum StorageCommand {
    /// Copy every file that the target lacks. Servers may run; nothing is deleted from the source.
    #[command(
        after_help = "Start the servers with --storage-mirror TARGET first, so that what is new reaches the target, too. A
call that was interrupted is repeated: files that are there are not copied again. docs/storage.md has every step.

Credentials of buckets come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the like.

Examples:
  baton storage move --from /var/lib/baton/artifacts --to 's3://builds/baton?region=eu-north-1'
  baton storage move --from s3://old --to s3://new --verify --json

Ends with 0 when the target has every file, with 1 when some could not be copied, and with 5 when a storage cannot be
reached."
    )]
    Move(MoveArgs),
    /// See whether the target has every file of the source. Changes nothing.
    #[command(after_help = "Examples:
  baton storage check --from /var/lib/baton/artifacts --to 's3://builds/baton?region=eu-north-1'
  baton storage check --from /mnt/old --to /mnt/new --verify

Ends with 0 when it has, with 1 when files or uploads are missing, and with 5 when a storage cannot be reached.")]
    Check(PairArgs),
}

#[derive(Args)]
pub struct PairArgs {
    /// The storage that has the files: a path or s3://bucket/prefix?endpoint=URL&region=NAME.
    #[arg(long, value_name = "URL")]
    from: String,
    /// The storage that is to have them; a directory is made.
    #[arg(long, value_name = "URL")]
    to: String,
    /// Read files in both storages and compare their SHA-256 sums, instead of taking equal sizes
    /// for proof.
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
struct Summary {
    from: String,
    to: String,
    /// True when the target has everything.
    complete: bool,
    #[serde(flatten)]
    moved: Moved,
}

/// Executes one of the commands.
pub async fn execute(command: StorageCommand) -> Result<(), Exit> {
    match command {
        StorageCommand::Move(MoveArgs { pair, prune }) => go(pair, false, prune).await,
        StorageCommand::Check(pair) => go(pair, true, false).await,
    }
}

async fn go(args: PairArgs, only_look: bool, prune: bool) -> Result<(), Exit> {
    let free_bytes_min = Settings::default().storage_free_bytes_min;
    let existing = |url: &str| Storage::open_existing(url, baton_server::text_variables(), free_bytes_min);
    let made = |url: &str| Storage::open(url, baton_server::text_variables(), free_bytes_min);
    let from = existing(&args.from).map_err(|error| Exit::usage(format!("--from: {error}")))?;
    let to = if only_look { existing(&args.to) } else { made(&args.to) };
    let to = to.map_err(|error| Exit::usage(format!("--to: {error}")))?;
    if from.name() == to.name() {
        return Err(Exit::usage(format!("--from and --to are the same storage: {}", from.name())));
    }
    let at_once = args.concurrency.into();
    let terms = Move { only_look, verify: args.verify, prune, at_once, patience: PATIENCE };
    let screen = screen();
    let told = |moved: &Moved| screen.set_message(so_far(moved, only_look));
    let moved = from.copy_to(&to, terms, &told).await;
    screen.finish_and_clear();
    let moved = moved.map_err(|error| stopped(&error))?;
    let is_missing = only_look && moved.copied + moved.uploads_left > 0;
    let complete = moved.failed == 0 && moved.uploads_left == 0 && !is_missing;
    let summary = Summary { from: from.name().into(), to: to.name().into(), complete, moved };
    args.format.print(&summary, |summary| table(summary, only_look));
    if summary.moved.failed > 0 || is_missing { Err(Exit::failed_silently()) } else { Ok(()) }
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
    let verb = if only_look { "missing" } else { "copied" };
    let files = count(moved.copied, "file", "files");
    format!("{files} {verb} ({}), {} there already, {} failed", bytes(moved.copied_bytes), moved.present, moved.failed)
}

/// A storage failed in the middle.
fn stopped(error: &StorageError) -> Exit {
    match error {
        StorageError::Unavailable(_) => Exit::unreachable(format!(
            "{error}\nWhat was copied stays. Repeat the command when the storage is back: it goes on from there."
        )),
        StorageError::DiskFull => {
            Exit::failed("the target is full. Make room and repeat the command: it goes on from there.")
        }
        error => Exit::failed(error.to_string()),
    }
}

fn table(summary: &Summary, only_look: bool) -> String {
    let Summary { from, to, complete, moved } = summary;
    let mut table = Table::plain();
    table.row(["from", from]);
    table.row(["to", to]);
    let files = format!("{} ({})", count(moved.copied, "file", "files"), bytes(moved.copied_bytes));
    table.row([if only_look { "missing" } else { "copied" }, &files]);
    table.row(["there already", &count(moved.present, "file", "files")]);
    let some = |number: u64, one: &str, many: &str| (number > 0).then(|| count(number, one, many));
    table.field("deleted meanwhile", some(moved.vanished, "file", "files"));
    table.field("removed from the target", some(moved.pruned, "file", "files"));
    let uploads = some(moved.uploads_left, "upload", "uploads");
    table.field("under way", uploads.map(|uploads| format!("{uploads} that the target lacks")));
    table.field("failed", some(moved.failed, "file", "files"));
    moved.failures.iter().for_each(|failure| table.row(["", failure]));
    let verdict = if *complete { "The target has every file." } else { "The target does not have everything yet." };
    format!("{table}{verdict}")
}
