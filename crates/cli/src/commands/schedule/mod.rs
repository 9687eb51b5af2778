//! `baton schedule`: rules that start runs.

mod create;
mod show;
mod update;

use baton::Client;
use baton::proto::{BackfillSchedule, NAMESPACE_DEFAULT, NextFires, PauseSchedule, Time, TriggerSchedule};
use baton_core::cron::{Cron, ZONE_DEFAULT};
use clap::{Args, Subcommand};

use crate::connection::Connection;
use crate::exit::Exit;
use crate::output::{Format, Listing, print_line};

/// Fires that are shown unless somebody asks for more.
const NEXT_DEFAULT: usize = 10;

#[derive(Subcommand)]
pub enum ScheduleCommand {
    /// Make a schedule.
    #[command(after_help = "Examples:
  baton schedule create nightly --cron '0 2 * * *' --type report
  baton schedule create opening --cron '0 9 * * MON-FRI' --time-zone Europe/Berlin --type greet --input '{\"a\":1}'
  baton schedule create sync --cron '*/10 * * * * *' --type sync --overlap skip --jitter 2s
  baton schedule create billing --cron '0 6 1W * *' --type bill_all --queue billing --workflow
  baton schedule create month-end --cron '0 18 L * *' --type close --max-catchup 1 --paused

Fields: [second] minute hour day-of-month month day-of-week [year]. Names, ranges, steps, lists, ?, L (last), W (nearest workday), # (second Friday: FRI#2) and @hourly, @daily, @weekly, @monthly, @yearly are understood.")]
    Create(create::CreateArgs),
    /// List schedules, paused ones among them.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  baton schedule list --watch
  baton schedule list --namespace mobile --json"
    )]
    List(ListArgs),
    /// Show a schedule, what it starts and when it fires next.
    #[command(after_help = "Examples:
  baton schedule get nightly
  baton schedule get nightly --json")]
    Get(OneArgs),
    /// Change a schedule. What is not given stays as it is.
    #[command(after_help = "Examples:
  baton schedule update nightly --cron '0 3 * * *'
  baton schedule update nightly --input @report.json --note 'the new form'

A new rule or time zone holds from now on.")]
    Update(update::UpdateArgs),
    /// Let a schedule wait. Fires that it misses are not made up for.
    #[command(after_help = "Examples:
  baton schedule pause nightly
  baton schedule pause nightly --note 'until the migration is through'")]
    Pause(PauseArgs),
    /// Let a schedule fire again, from now on.
    #[command(after_help = "Examples:
  baton schedule resume nightly")]
    Resume(OneArgs),
    /// Start a run now, whatever the rule says.
    #[command(after_help = "Examples:
  baton schedule trigger nightly                            prints the identifier of the run
  baton schedule trigger nightly --idempotency-key ask-17   the same key again gives the same run")]
    Trigger(TriggerArgs),
    /// Start the runs of a range that has passed, each once.
    #[command(after_help = "Examples:
  baton schedule backfill nightly --from 2026-01-01T00:00:00Z --to 2026-01-31T23:59:59Z")]
    Backfill(BackfillArgs),
    /// Delete a schedule. Its runs stay.
    #[command(
        visible_alias = "rm",
        after_help = "Examples:
  baton schedule delete nightly"
    )]
    Delete(NameArgs),
    /// Show what became of a schedule's fires, newest first.
    #[command(after_help = "Examples:
  baton schedule runs nightly
  baton schedule runs nightly --limit 200 --json")]
    Runs(RunsArgs),
    /// Say when a schedule, or a rule that is no schedule yet, fires next.
    #[command(after_help = "Examples:
  baton schedule next nightly
  baton schedule next --cron '30 2 * * *' --time-zone Europe/Berlin --count 20")]
    Next(NextArgs),
}

/// Which schedule.
#[derive(Args)]
pub struct NameArgs {
    /// The schedule.
    id: String,
    /// Its namespace.
    #[arg(long, short, default_value = NAMESPACE_DEFAULT)]
    namespace: String,
}

#[derive(Args)]
pub struct OneArgs {
    #[command(flatten)]
    name: NameArgs,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct ListArgs {
    /// Only this namespace.
    #[arg(long, short)]
    namespace: Option<String>,
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
pub struct PauseArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Why; takes the place of the schedule's note.
    #[arg(long)]
    note: Option<String>,
}

#[derive(Args)]
pub struct TriggerArgs {
    #[command(flatten)]
    one: OneArgs,
    /// The same key again gives the same run.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

#[derive(Args)]
pub struct BackfillArgs {
    #[command(flatten)]
    one: OneArgs,
    /// From this moment on, like 2026-01-31T09:30:00Z.
    #[arg(long, value_name = "TIME")]
    from: Time,
    /// Up to this moment, which must have passed.
    #[arg(long, value_name = "TIME")]
    to: Time,
}

#[derive(Args)]
pub struct RunsArgs {
    #[command(flatten)]
    name: NameArgs,
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
pub struct NextArgs {
    /// The schedule.
    #[arg(required_unless_present = "cron")]
    id: Option<String>,
    /// A rule instead of a schedule, reckoned by this machine's clock.
    #[arg(long, value_name = "RULE", conflicts_with = "id")]
    cron: Option<String>,
    /// The rule's time zone.
    #[arg(long, value_name = "ZONE", default_value = ZONE_DEFAULT, requires = "cron")]
    time_zone: String,
    /// The schedule's namespace.
    #[arg(long, short, default_value = NAMESPACE_DEFAULT)]
    namespace: String,
    /// How many.
    #[arg(long, default_value_t = NEXT_DEFAULT)]
    count: usize,
    #[command(flatten)]
    format: Format,
}

/// Carries out a command about schedules.
pub async fn execute(connection: &Connection, command: ScheduleCommand) -> Result<(), Exit> {
    match command {
        // A rule alone needs no server.
        ScheduleCommand::Next(NextArgs { id: None, cron: Some(rule), time_zone, count, format, .. }) => {
            let cron = Cron::parse(&rule, &time_zone).map_err(|error| Exit::usage(error.to_string()))?;
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            let fires = cron.upcoming(since.as_millis() as i64, count).into_iter().map(Time).collect();
            format.list(&NextFires { fires }, show::next);
            Ok(())
        }
        other => ask(&connection.client()?, other).await,
    }
}

async fn ask(client: &Client, command: ScheduleCommand) -> Result<(), Exit> {
    match command {
        ScheduleCommand::Create(args) => create::create(client, args).await?,
        ScheduleCommand::Update(args) => update::update(client, args).await?,
        ScheduleCommand::List(args) => {
            let (namespace, cursor) = (args.namespace.as_deref(), args.cursor.as_deref());
            let ask = async || client.schedules(namespace, Some(args.limit), cursor).await;
            args.listing.show(ask, show::page).await?;
        }
        ScheduleCommand::Get(OneArgs { name, format }) => {
            format.show(&client.schedule(&name.namespace, &name.id).await?, show::one);
        }
        ScheduleCommand::Pause(PauseArgs { one: OneArgs { name, format }, note }) => {
            let pause = PauseSchedule { note };
            format.show(&client.pause_schedule(&name.namespace, &name.id, &pause).await?, show::one);
        }
        ScheduleCommand::Resume(OneArgs { name, format }) => {
            format.show(&client.resume_schedule(&name.namespace, &name.id).await?, show::one);
        }
        ScheduleCommand::Trigger(TriggerArgs { one: OneArgs { name, format }, idempotency_key }) => {
            let trigger = TriggerSchedule { idempotency_key };
            let triggered = client.trigger_schedule(&name.namespace, &name.id, &trigger).await;
            format.print(&triggered?, |run| run.run_id.clone());
        }
        ScheduleCommand::Backfill(BackfillArgs { one: OneArgs { name, format }, from, to }) => {
            let range = BackfillSchedule { from, to };
            let filled = client.backfill_schedule(&name.namespace, &name.id, &range).await;
            format
                .print(&filled?, |filled| format!("{} started, {} had started before", filled.started, filled.existed));
        }
        ScheduleCommand::Delete(name) => {
            client.delete_schedule(&name.namespace, &name.id).await?;
            print_line(format!("{} is deleted; its runs stay", name.id));
        }
        ScheduleCommand::Runs(RunsArgs { name: NameArgs { id, namespace }, limit, cursor, listing }) => {
            let ask = async || client.schedule_runs(&namespace, &id, Some(limit), cursor.as_deref()).await;
            listing.show(ask, show::fires).await?;
        }
        ScheduleCommand::Next(args) => {
            let id = args.id.ok_or_else(|| Exit::usage("a schedule or --cron is wanted"))?;
            let next = client.next_fires(&args.namespace, &id, Some(args.count)).await;
            args.format.list(&next?, show::next);
            if client.schedule(&args.namespace, &id).await?.paused {
                eprintln!("{id} is paused: none of these comes before `baton schedule resume {id}`");
            }
        }
    }
    Ok(())
}
