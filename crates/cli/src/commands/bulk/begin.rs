//! Begins a bulk operation: counts, asks, and follows it to its end.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use baton::Client;
use baton::proto::{BulkFilter, BulkView, CreateBulk, Time};
use baton_core::{BulkAction, State};
use baton_server::entropy::{Entropy, SystemEntropy};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::show;
use crate::commands::ids;
use crate::commands::patience::until_answered;
use crate::commands::run::parse_state;
use crate::exit::Exit;
use crate::output::{Format, print_line};

/// How often an operation is looked at.
const LOOK: Duration = Duration::from_millis(300);

/// All runs that match, instead of one.
#[derive(Args, Clone)]
#[group(id = "matching")]
pub struct Matching {
    /// All runs in this namespace.
    #[arg(long, short, help_heading = "All runs that match")]
    namespace: Option<String>,
    /// On this queue.
    #[arg(long, short, help_heading = "All runs that match")]
    queue: Option<String>,
    /// Of this type.
    #[arg(long = "type", short = 't', value_name = "TYPE", help_heading = "All runs that match")]
    kind: Option<String>,
    /// In this state, or in one of these: pending,sleeping. [default: those the command is for; to retry, failed]
    #[arg(long, short, value_parser = parse_state, value_delimiter = ',', help_heading = "All runs that match")]
    state: Vec<State>,
    /// Held by this worker, now or at their end; its id, or the end of it.
    #[arg(long, value_name = "ID", help_heading = "All runs that match")]
    worker: Option<String>,
    /// With this key.
    #[arg(long, help_heading = "All runs that match")]
    key: Option<String>,
    /// Submitted at this moment or later.
    #[arg(long, value_name = "TIME", help_heading = "All runs that match")]
    submitted_after: Option<Time>,
    /// Submitted before this moment.
    #[arg(long, value_name = "TIME", help_heading = "All runs that match")]
    submitted_before: Option<Time>,
    /// Every run, without any filter.
    #[arg(long, help_heading = "All runs that match")]
    all: bool,
    /// Only count them, and show a few.
    #[arg(long, help_heading = "All runs that match")]
    dry_run: bool,
    /// Do not ask.
    #[arg(long, help_heading = "All runs that match")]
    yes: bool,
    /// At most this many in a second. [default: the server's setting bulk_rate]
    #[arg(long, value_name = "NUMBER", help_heading = "All runs that match")]
    rate: Option<f64>,
    /// Why, for the audit log.
    #[arg(long, help_heading = "All runs that match")]
    reason: Option<String>,
    /// Print the id of the operation, and do not wait for its end.
    #[arg(long, help_heading = "All runs that match")]
    detach: bool,
}

impl Matching {
    async fn wanted(self, client: &Client, action: BulkAction) -> Result<CreateBulk, Exit> {
        let worker = match self.worker {
            Some(worker) => Some(ids::worker(client, worker).await?),
            None => None,
        };
        let filter = BulkFilter {
            namespace: self.namespace,
            queue: self.queue,
            kind: self.kind,
            worker,
            key: self.key,
            submitted_after: self.submitted_after,
            submitted_before: self.submitted_before,
            ..BulkFilter::in_states(self.state)
        };
        if filter.is_empty() && !self.all {
            return Err(Exit::usage(
                "a run is wanted, or which runs: --queue, --type, --state or another filter; --all stands for every run",
            ));
        }
        Ok(CreateBulk {
            all: self.all,
            rate_per_second: self.rate,
            reason: self.reason,
            ..CreateBulk::new(action.as_str(), filter)
        })
    }
}

/// Acts on all runs that match: counts them, asks, and follows the operation to its end.
pub async fn begin(client: &Client, action: BulkAction, matching: Matching, format: Format) -> Result<(), Exit> {
    let (dry_run, yes, detach) = (matching.dry_run, matching.yes, matching.detach);
    let wanted = matching.wanted(client, action).await?;
    let count = client.bulk_count(&wanted).await?;
    let found = format!("{} match: {}", runs(count.matched), show::filter(&count.filter));
    if dry_run {
        format.print(&count, |count| std::iter::once(found).chain(count.sample.clone()).collect::<Vec<_>>().join("\n"));
        return Ok(());
    }
    if count.matched == 0 {
        format.print(&count, |_| found);
        return Ok(());
    }
    eprintln!("{found}");
    if !yes && !ask(action, count.matched)? {
        return Err(Exit::failed("nothing was changed"));
    }
    // The call may be repeated while the server restarts.
    let key = format!("{:016x}{:016x}", SystemEntropy.bits(), SystemEntropy.bits());
    let begun = until_answered(async || client.bulk_start(&wanted, Some(&key)).await).await?;
    if detach {
        format.print(&begun, |begun| begun.id.clone());
        return Ok(());
    }
    finish(&follow(client, begun).await?, action, format)
}

/// Asks whoever sits there.
fn ask(action: BulkAction, matched: u64) -> Result<bool, Exit> {
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Err(Exit::usage("nobody can be asked here: --yes says that it is meant, and --dry-run only counts"));
    }
    let verb = match action {
        BulkAction::Cancel => "Cancel",
        BulkAction::Retry => "Retry",
    };
    eprint!("{verb} {}? [y/N] ", runs(matched));
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

async fn follow(client: &Client, begun: BulkView) -> Result<BulkView, Exit> {
    let bar = std::io::stderr().is_terminal().then(|| {
        let style = ProgressStyle::with_template("{bar:30.cyan} {pos}/{len} {per_sec:.dim} {msg}");
        ProgressBar::new(begun.matched.unwrap_or_default())
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    });
    let mut view = begun;
    while !view.is_ended() {
        tokio::time::sleep(LOOK).await;
        view = until_answered(async || client.bulk(&view.id).await).await?;
        if let Some(bar) = &bar {
            bar.set_length(view.matched.unwrap_or_default());
            bar.set_position(view.done + view.skipped + view.failed);
            bar.set_message(view.waits_for.as_ref().map(|why| format!("waits: {why}")).unwrap_or_default());
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok(view)
}

/// Says how it ended; ends with 1 unless all went well.
fn finish(view: &BulkView, action: BulkAction, format: Format) -> Result<(), Exit> {
    let done = match action {
        BulkAction::Cancel => "cancelled",
        BulkAction::Retry => "retried",
    };
    let said = format!("{done} {}, {} skipped, {} failed", runs(view.done), view.skipped, view.failed);
    let went_well = view.state == "completed" && view.failed == 0;
    if format.is_json() {
        format.show(view, show::operation);
        return if went_well { Ok(()) } else { Err(Exit::failed_silently()) };
    }
    match (went_well, view.state.as_str()) {
        (true, _) => {
            print_line(said);
            Ok(())
        }
        (false, "completed") => Err(Exit::failed(format!("{said}; baton bulk get {} has the first errors", view.id))),
        (false, state) => Err(Exit::failed(format!("the operation {} was {state}: {said}", view.id))),
    }
}

fn runs(count: u64) -> String {
    if count == 1 { "1 run".into() } else { format!("{count} runs") }
}
