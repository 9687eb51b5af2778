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

use crate::commands::{ids, run};
use crate::exit::Exit;
use crate::output::{Format, JsonFlag, Listing, print_line};
use follow::Followed;
use screen::Screen;

#[derive(Subcommand)]
pub enum BuildCommand {
    /// List builds, newest first.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  baton build list --state failed
  baton build list --platform ios --watch
  baton build list --platform ios --limit 200 --json"
    )]
    List(ListArgs),
    /// Show where a build stands.
    #[command(
        alias = "status",
        after_help = "Examples:
  baton build get e9d1aa      the end of its id, as lists show it
  baton build get e9d1aa --json"
    )]
    Get(OneArgs),
    /// Print a build's log.
    #[command(after_help = "Examples:
  baton build logs e9d1aa
  baton build logs -f e9d1aa      goes on until the build has ended")]
    Logs(LogsArgs),
    /// Fetch what came out of a build.
    #[command(after_help = "Examples:
  baton build download e9d1aa
  baton build download e9d1aa --output app.ipa

A cut connection is taken up again where it was, and the file gets its name when it is whole and its
sha-256 is right.")]
    Download(DownloadArgs),
    /// Cancel a build: at once, or by telling the worker that has it.
    #[command(after_help = "Examples:
  baton build cancel e9d1aa")]
    Cancel(OneArgs),
    /// Build the same source again.
    #[command(after_help = "Examples:
  baton build retry e9d1aa      prints the identifier of the new build")]
    Retry(OneArgs),
    /// Say why a build is where it is.
    #[command(after_help = "Examples:
  baton build explain e9d1aa    why does nobody build it? who has it, and until when?")]
    Explain(OneArgs),
}

#[derive(Args)]
pub struct OneArgs {
    /// The build: its id, or the end of it.
    id: String,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct ListArgs {
    /// In this state.
    #[arg(long, short, alias = "status", value_parser = parse_state)]
    state: Option<BuildStatus>,
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
    listing: Listing,
}

#[derive(Args)]
pub struct LogsArgs {
    /// The build: its id, or the end of it.
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
    /// The build: its id, or the end of it.
    id: String,
    /// File or directory to write to. [default: the file's own name, here]
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    json: JsonFlag,
}

fn parse_state(word: &str) -> Result<BuildStatus, String> {
    let known = BuildStatus::ALL.into_iter().find(|status| status.as_str() == word);
    known.ok_or_else(|| format!("one of {} is wanted", BuildStatus::ALL.map(BuildStatus::as_str).join(", ")))
}

/// Carries out a command about builds.
pub async fn execute(client: &Client, command: BuildCommand) -> Result<(), Exit> {
    match command {
        BuildCommand::List(args) => {
            let filter = BuildFilter {
                status: args.state,
                platform: args.platform,
                limit: Some(args.limit),
                cursor: args.cursor,
            };
            let ask = async || client.builds(&filter).await;
            args.listing.show(ask, show::page).await?;
        }
        BuildCommand::Get(OneArgs { id, format }) => {
            format.show(&client.build(&ids::build(client, id).await?).await?, show::one);
        }
        BuildCommand::Logs(args) => logs(client, args).await?,
        BuildCommand::Download(args) => download(client, args).await?,
        BuildCommand::Cancel(OneArgs { id, format }) => {
            let id = ids::build(client, id).await?;
            format.print(&client.cancel_build(&id).await?, |cancelled| {
                let note = if cancelled.status.is_ended() { "" } else { " (its worker has been told to stop)" };
                format!("{id} {}{note}", cancelled.status.as_str())
            });
        }
        BuildCommand::Retry(OneArgs { id, format }) => {
            let id = ids::build(client, id).await?;
            format.print(&client.retry_build(&id, None).await?, |build| build.id.clone());
        }
        BuildCommand::Explain(OneArgs { id, format }) => {
            let id = ids::build(client, id).await?;
            // Whoever is no build is none here, also when it is a run of another kind.
            client.build(&id).await?;
            run::explain(client, &id, format).await?;
        }
    }
    Ok(())
}

async fn logs(client: &Client, args: LogsArgs) -> Result<(), Exit> {
    let args = LogsArgs { id: ids::build(client, args.id).await?, ..args };
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
    let build = client.build(&ids::build(client, args.id).await?).await?;
    let Some(file) = fetch::result(&build) else {
        let status = build.status.as_str();
        return Err(Exit::not_found(format!("there is no file to download: the build is {status}")));
    };
    let path = fetch::fetch(client, &build, file, args.output.as_deref()).await?;
    let answer = json!({"path": path, "size": file.size, "sha256": file.sha256});
    args.json.format().print(&answer, |_| path.display().to_string());
    Ok(())
}
