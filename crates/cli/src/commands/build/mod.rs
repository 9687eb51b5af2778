//! `baton build`: follow builds, fetch what came out of them, stop them.

pub mod fetch;
pub mod finish;
pub mod follow;
mod interrupt;
pub mod results;
pub mod screen;
mod show;
pub mod text;

use std::path::PathBuf;
use std::time::Duration;

use baton::proto::BuildStatus;
use baton::{BuildFilter, Client};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::commands::{flags, run};
use crate::exit::Exit;
use crate::output::{Format, print_line};
use follow::Followed;
use screen::Screen;

#[derive(Subcommand)]
pub enum BuildCommand {
    /// List builds, newest first.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  baton build list --status failed
  baton build list --platform ios --limit 200 --json"
    )]
    List(ListArgs),
    /// Show where a build stands.
    #[command(after_help = "Examples:
  baton build status 0198c1f2-...
  baton build status 0198c1f2-... --json")]
    Status(OneArgs),
    /// Print a build's log.
    #[command(after_help = "Examples:
  baton build logs 0198c1f2-...
  baton build logs -f 0198c1f2-...      goes on until the build has ended")]
    Logs(LogsArgs),
    /// Fetch what came out of a build.
    #[command(after_help = "Examples:
  baton build download 0198c1f2-...
  baton build download 0198c1f2-... --output app.ipa

A cut connection is taken up again where it was, and the file gets its name when it is whole and its
sha-256 is right.")]
    Download(DownloadArgs),
    /// Cancel a build: at once, or by telling the worker that has it.
    #[command(after_help = "Examples:
  baton build cancel 0198c1f2-...")]
    Cancel(OneArgs),
    /// Build the same source again.
    #[command(after_help = "Examples:
  baton build retry 0198c1f2-...      prints the identifier of the new build")]
    Retry(OneArgs),
    /// Say why a build is where it is.
    #[command(after_help = "Examples:
  baton build explain 0198c1f2-...    why does nobody build it? who has it, and until when?")]
    Explain(OneArgs),
}

#[derive(Args)]
pub struct OneArgs {
    /// The build.
    id: String,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct ListArgs {
    /// In this state.
    #[arg(long, short, value_parser = parse_status)]
    status: Option<BuildStatus>,
    /// For this platform.
    #[arg(long, short)]
    platform: Option<String>,
    /// At most this many.
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Go on where a list ended.
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct LogsArgs {
    /// The build.
    id: String,
    /// Go on until the build has ended.
    #[arg(long, short)]
    follow: bool,
    /// Print each line as one JSON document.
    #[arg(long, conflicts_with = "follow")]
    json: bool,
}

#[derive(Args)]
pub struct DownloadArgs {
    /// The build.
    id: String,
    /// File or directory to write to; the file's own name, here, unless given.
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
}

fn parse_status(word: &str) -> Result<BuildStatus, String> {
    let known = BuildStatus::ALL.into_iter().find(|status| status.as_str() == word);
    known.ok_or_else(|| format!("one of {} is wanted", BuildStatus::ALL.map(BuildStatus::as_str).join(", ")))
}

/// Carries out a command about builds.
pub async fn execute(client: &Client, command: BuildCommand) -> Result<(), Exit> {
    match command {
        BuildCommand::List(args) => {
            let filter = BuildFilter {
                status: args.status,
                platform: args.platform,
                limit: Some(args.limit),
                cursor: args.cursor,
            };
            args.format.print(&client.builds(&filter).await.map_err(flags::BUILD_LIST.explain())?, show::page);
        }
        BuildCommand::Status(OneArgs { id, format }) => format.print(&client.build(&id).await?, show::one),
        BuildCommand::Logs(args) => logs(client, args).await?,
        BuildCommand::Download(args) => download(client, args).await?,
        BuildCommand::Cancel(OneArgs { id, format }) => format.print(&client.cancel_build(&id).await?, |cancelled| {
            let note = if cancelled.status.is_ended() { "" } else { " (its worker has been told to stop)" };
            format!("{id} {}{note}", cancelled.status.as_str())
        }),
        BuildCommand::Retry(OneArgs { id, format }) => {
            format.print(&client.retry_build(&id, None).await?, |build| build.id.clone());
        }
        BuildCommand::Explain(OneArgs { id, format }) => {
            // Whoever is no build is none here, also when it is a run of another kind.
            client.build(&id).await?;
            run::explain(client, &id, format).await?;
        }
    }
    Ok(())
}

async fn logs(client: &Client, args: LogsArgs) -> Result<(), Exit> {
    if args.follow {
        let screen = Screen::new(false);
        if let Followed::Detached = follow::follow(client, &args.id, &screen).await? {
            drop(screen);
            finish::detached(&args.id);
        }
        return Ok(());
    }
    let mut last = 0;
    loop {
        let page = client.build_logs(&args.id, last, follow::PAGE_LINES, Duration::ZERO).await?;
        let Some(line) = page.logs.last() else { return Ok(()) };
        last = line.number;
        for line in &page.logs {
            match args.json {
                true => print_line(serde_json::to_string(line).unwrap_or_default()),
                // An empty line is a line, too.
                false => print_line(format!("{}\n", text::printable(&line.message))),
            }
        }
    }
}

async fn download(client: &Client, args: DownloadArgs) -> Result<(), Exit> {
    let build = client.build(&args.id).await?;
    let Some(file) = fetch::result(&build) else {
        let status = build.status.as_str();
        return Err(Exit::not_found(format!("there is no file to download: the build is {status}")));
    };
    let path = fetch::fetch(client, &build, file, args.output.as_deref()).await?;
    let answer = json!({"path": path, "size": file.size, "sha256": file.sha256});
    args.format.print(&answer, |_| path.display().to_string());
    Ok(())
}
