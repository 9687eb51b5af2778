//! `baton workflow`: start workflows, wait for them, talk to them.

mod history;
mod show;
mod start;
mod view;

use std::time::Duration;

use baton::{Client, State, WorkflowHandle};
use clap::{Args, Subcommand};
use serde_json::value::RawValue;

use super::explained::until_ended_explained;
use super::ids;
use super::patience::WAIT;
use super::run::{parse_state, submit::read_json};
use crate::duration;
use crate::exit::Exit;
use crate::output::{Format, Listing, print_line};

#[derive(Subcommand)]
pub enum WorkflowCommand {
    /// Start a workflow.
    #[command(after_help = "Examples:
  baton workflow start process_order --queue orders --input '{\"id\":17}'
  baton workflow start process_order --queue orders --input @order.json --idempotency-key order-17 --wait
  echo '{\"id\":17}' | baton workflow start process_order --queue orders --input -
  baton workflow start report --delay 10m --timeout 1d --priority 9
  baton workflow start report --at 2030-01-31T09:30:00Z --pin-version 1.2.3

Prints the identifier of its run. The same idempotency key again gives the same run.")]
    Start(start::StartArgs),
    /// List workflows, newest first.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  baton workflow list --queue orders --state sleeping
  baton workflow list --queue orders --watch
  baton workflow list --type process_order --limit 200 --json"
    )]
    List(ListArgs),
    /// Show a workflow with its input and output.
    #[command(after_help = "Examples:
  baton workflow get e9d1aa
  baton workflow get e9d1aa --json")]
    Get(OneArgs),
    /// Wait for the end of a workflow and print what it returned.
    #[command(after_help = "Examples:
  baton workflow result e9d1aa          ends with 1 when the workflow failed or was cancelled
  baton workflow result e9d1aa --json   all of the run instead of its output alone

Follows a workflow that continues as a new run, and outlives a restart of the server.")]
    Result(OneArgs),
    /// Tell a workflow to clean up and end.
    #[command(after_help = "Examples:
  baton workflow cancel e9d1aa
  baton workflow cancel e9d1aa --grace 10m   time to clean up
  baton workflow cancel e9d1aa --grace 0s    at once, without cleaning up

A workflow that nobody has begun ends at once. Any other hears of it at the next thing it waits for.")]
    Cancel(CancelArgs),
    /// Send a workflow a signal.
    #[command(after_help = "Examples:
  baton workflow signal e9d1aa approved
  baton workflow signal e9d1aa approved --payload '{\"by\":\"Ada\"}'
  baton workflow signal e9d1aa approved --payload @who.json --idempotency-key approval-17

Each signal is taken once, in the order of sending. One that nobody waits for yet is kept.")]
    Signal(SignalArgs),
    /// Print what a workflow last published about itself.
    #[command(after_help = "Examples:
  baton workflow query e9d1aa   ends with 3 when there is nothing yet")]
    Query(RunArgs),
    /// Show what is remembered of a workflow, position by position.
    #[command(after_help = "Examples:
  baton workflow steps e9d1aa
  baton workflow steps e9d1aa --json   with the outputs; of large ones the size")]
    Steps(ManyArgs),
    /// Show what happened to a workflow: leases, attempts of steps, sleeps, signals.
    #[command(after_help = "Examples:
  baton workflow history e9d1aa
  baton workflow history e9d1aa --json")]
    History(ManyArgs),
    /// Say why a workflow is where it is, and what it waits for.
    #[command(after_help = "Examples:
  baton workflow explain e9d1aa
  baton workflow explain e9d1aa --json")]
    Explain(OneArgs),
    /// Start a workflow again that has ended, as a new run.
    #[command(after_help = "Examples:
  baton workflow retry e9d1aa                goes on after the steps that were completed
  baton workflow retry e9d1aa --from-start   remembers nothing

Prints the identifier of the new run. A workflow whose steps were undone has to begin from the start.")]
    Retry(RetryArgs),
}

#[derive(Args)]
pub struct RunArgs {
    /// The run of the workflow: its id, or the end of it.
    run: String,
}

#[derive(Args)]
pub struct OneArgs {
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct ListArgs {
    /// In this namespace.
    #[arg(long, short)]
    namespace: Option<String>,
    /// On this queue.
    #[arg(long, short)]
    queue: Option<String>,
    /// Of this type.
    #[arg(long = "type", short = 't', value_name = "TYPE")]
    kind: Option<String>,
    /// In this state.
    #[arg(long, short, value_parser = parse_state)]
    state: Option<State>,
    /// At most this many, up to 1000.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Go on where a list ended.
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    listing: Listing,
}

#[derive(Args)]
pub struct ManyArgs {
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    listing: Listing,
}

#[derive(Args)]
pub struct CancelArgs {
    #[command(flatten)]
    one: OneArgs,
    /// How long it may clean up. [default: the server's setting]
    #[arg(long, value_name = "SPAN", value_parser = duration::parse)]
    grace: Option<Duration>,
}

#[derive(Args)]
pub struct SignalArgs {
    #[command(flatten)]
    run: RunArgs,
    /// The signal that the workflow waits for.
    name: String,
    /// What it brings: JSON, @FILE, or - for the standard input.
    #[arg(long, value_name = "JSON|@FILE|-")]
    payload: Option<String>,
    /// The same key again is the same signal.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

#[derive(Args)]
pub struct RetryArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Forget what is remembered.
    #[arg(long)]
    from_start: bool,
}

/// Carries out a command about workflows.
pub async fn execute(client: &Client, command: WorkflowCommand) -> Result<(), Exit> {
    match command {
        WorkflowCommand::Start(args) => start::start(client, args).await?,
        WorkflowCommand::List(args) => list(client, args).await?,
        WorkflowCommand::Get(OneArgs { run, format }) => {
            let found = client.workflow(ids::workflow(client, run.run).await?).get().await?;
            format.show(&view::Run::from(found), show::run);
        }
        WorkflowCommand::Result(OneArgs { run, format }) => {
            let handle = client.workflow(ids::workflow(client, run.run).await?);
            // Whoever mistyped is told at once, and so is whoever asks a server that is not there.
            handle.get().await?;
            finish(client, &handle, format).await?;
        }
        WorkflowCommand::Cancel(args) => cancel(client, args).await?,
        WorkflowCommand::Signal(args) => signal(client, args).await?,
        WorkflowCommand::Query(RunArgs { run }) => {
            let run = ids::workflow(client, run).await?;
            let published: Option<Box<RawValue>> = client.workflow(&run).query().await?;
            match published {
                Some(value) => print_line(value.get()),
                None => return Err(Exit::not_found(format!("the workflow {run} has not published anything"))),
            }
        }
        WorkflowCommand::Steps(ManyArgs { run, listing }) => {
            let handle = client.workflow(ids::workflow(client, run.run).await?);
            let ask = async || {
                let steps = handle.steps().await?;
                Ok(view::Steps { steps: steps.into_iter().map(view::Step::from).collect() })
            };
            listing.show(ask, show::steps).await?;
        }
        WorkflowCommand::History(ManyArgs { run, listing }) => {
            let run = ids::workflow(client, run.run).await?;
            listing.show(async || history::read(client, &run).await, show::history).await?;
        }
        WorkflowCommand::Explain(OneArgs { run, format }) => {
            super::run::explain(client, &ids::workflow(client, run.run).await?, format).await?;
        }
        WorkflowCommand::Retry(RetryArgs { one: OneArgs { run, format }, from_start }) => {
            let again = client.workflow(ids::workflow(client, run.run).await?).retry(from_start).await?;
            format.print(&view::Started::from(&again), |started| started.id.clone());
        }
    }
    Ok(())
}

async fn list(client: &Client, args: ListArgs) -> Result<(), Exit> {
    let ask = async || {
        let namespace = args.namespace.clone().unwrap_or_default();
        let mut wanted = client.list_workflows().namespace(namespace).limit(args.limit);
        if let Some(queue) = &args.queue {
            wanted = wanted.queue(queue.clone());
        }
        if let Some(kind) = &args.kind {
            wanted = wanted.workflow_type(kind.clone());
        }
        if let Some(state) = args.state {
            wanted = wanted.state(state);
        }
        if let Some(cursor) = &args.cursor {
            wanted = wanted.after(cursor.clone());
        }
        Ok(view::Page::from(wanted.await?))
    };
    args.listing.show(ask, show::page).await
}

async fn cancel(client: &Client, args: CancelArgs) -> Result<(), Exit> {
    let OneArgs { run, format } = args.one;
    let handle = client.workflow(ids::workflow(client, run.run).await?);
    let cancelled = match args.grace {
        Some(grace) => handle.cancel_within(grace).await,
        None => handle.cancel().await,
    };
    cancelled?;
    // What continued as a new run was cancelled there.
    let run = handle.wait_for(Duration::ZERO).await?;
    format.print(&view::Run::from(run), |run| {
        let note = if run.ended_at.is_none() { " (it has been told, and may clean up)" } else { "" };
        format!("{} {}{note}", run.id, run.state)
    });
    Ok(())
}

async fn signal(client: &Client, args: SignalArgs) -> Result<(), Exit> {
    let payload = args.payload.as_deref().map(|text| read_json("--payload", text)).transpose()?;
    let handle = client.workflow(ids::workflow(client, args.run.run).await?);
    let sent = match args.idempotency_key {
        Some(key) => handle.signal_once(&args.name, &payload, key).await,
        None => handle.signal(&args.name, &payload).await,
    };
    sent?;
    print_line(format!("{} has the signal {}", handle.run_id(), args.name));
    Ok(())
}

/// Waits for the end of a workflow, prints what came out of it, and ends with 1 unless it completed.
async fn finish(client: &Client, handle: &WorkflowHandle, format: Format) -> Result<(), Exit> {
    let ask = async || handle.wait_for(WAIT).await;
    let ended = until_ended_explained(client, handle.run_id(), ask, |run| run.state.is_ended()).await?;
    let completed = ended.state == State::Completed;
    let run = view::Run::from(ended);
    if format.is_json() {
        format.show(&run, show::run);
    } else if let Some(output) = &run.output {
        print_line(output.get());
    }
    match (completed, format.is_json()) {
        (true, _) => Ok(()),
        (false, true) => Err(Exit::failed_silently()),
        (false, false) => Err(Exit::failed(show::end(&run))),
    }
}
