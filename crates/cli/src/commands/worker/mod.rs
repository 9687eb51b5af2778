//! `baton worker`: look at workers, stop them, or be one.

pub mod build;
pub mod group;
mod health;
mod process;
mod run;

use baton::proto::{WorkerPage, WorkerView};
use baton::{Client, WorkerFilter};
use clap::{Args, Subcommand};

use crate::commands::ids;
use crate::exit::Exit;
use crate::output::{Column, Format, Listing, Look, Table, or_dash};

#[derive(Subcommand)]
pub enum WorkerCommand {
    /// List workers, newest first.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  baton worker list --state online --watch
  baton worker list --queue mac --total --json"
    )]
    List(ListArgs),
    /// Show a worker.
    #[command(after_help = "Examples:
  baton worker get 4f0b8a      the end of its id, as lists show it")]
    Get(OneArgs),
    /// Ask a worker to take no new work, finish what it holds and go.
    #[command(after_help = "Examples:
  baton worker drain 4f0b8a")]
    Drain(OneArgs),
    /// Take everything away from a worker, now.
    #[command(after_help = "Examples:
  baton worker offline 4f0b8a    what it holds goes to others, and its reports are refused")]
    Offline(OneArgs),
    /// Work on runs with a shell command.
    #[command(after_help = "For each run the command gets the run's input on its standard input, and BATON_RUN_ID,
BATON_RUN_TYPE, BATON_ATTEMPT and BATON_EPOCH in its environment. What it prints becomes the run's output: JSON as it
is, anything else as a JSON string. When it ends with another code than 0 the attempt has failed, and the last lines of
its error output say why. It is killed, with everything it started, when the run is cancelled or no longer ours.

Examples:
  baton worker run --type greet --exec 'jq -r .name'
  baton worker run --queue mac --type build --type test --concurrency 2 --exec ./build.sh")]
    Run(run::RunArgs),
    /// Build what is submitted with `baton submit`.
    #[command(
        after_help = "For each build the source is fetched and unpacked, and the recipe is run in it by `sh -e`, with PATH, HOME,
LANG, BATON_BUILD_ID, BATON_PLATFORM, BATON_SOURCE_DIR and BATON_OUTPUT_DIR in its environment and nothing else.
What it prints becomes the build's log. What it leaves in BATON_OUTPUT_DIR is the result: one file as it is, more as a zip.
Signing certificates are in certs.zip in its HOME. It is killed, with everything it started, when the build is
cancelled or no longer ours.

A project brings its recipe in baton.toml, used where the worker has none:

  [build.ios]
  run = './build.sh'

Examples:
  baton worker build --platform ios --recipe './build.sh'
  baton worker build -p ios -p android --recipe ios='make ios' --recipe android='make android' -c 2
  baton worker build --platform linux --isolation bubblewrap --limit-time 1h --limit-memory 8G
  baton worker build --platform git --isolation docker --image debian:12

Give the key as BATON_API_KEY, not as --api-key: everybody on this machine can read command lines."
    )]
    Build(build::BuildArgs),
}

#[derive(Args)]
pub struct OneArgs {
    /// The worker: its id, or the end of it.
    id: String,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct ListArgs {
    /// In this namespace.
    #[arg(long, short)]
    namespace: Option<String>,
    /// In this state.
    #[arg(long, short, alias = "status", value_parser = ["online", "draining", "offline"], ignore_case = true)]
    state: Option<String>,
    /// Serving this queue.
    #[arg(long, short)]
    queue: Option<String>,
    /// At most this many.
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Go on where a list ended.
    #[arg(long)]
    cursor: Option<String>,
    /// Also count all that there are.
    #[arg(long)]
    total: bool,
    #[command(flatten)]
    listing: Listing,
}

/// Carries out a command about workers.
pub async fn execute(client: &Client, command: WorkerCommand) -> Result<(), Exit> {
    match command {
        WorkerCommand::List(args) => {
            let filter = WorkerFilter {
                namespace: args.namespace,
                status: args.state.map(|state| state.to_uppercase()),
                queue: args.queue,
                limit: Some(args.limit),
                cursor: args.cursor,
                total: args.total,
            };
            let ask = async || client.workers(&filter).await;
            args.listing.show(ask, table).await?;
        }
        WorkerCommand::Get(OneArgs { id, format }) => {
            format.show(&client.worker(&ids::worker(client, id).await?).await?, one);
        }
        WorkerCommand::Drain(OneArgs { id, format }) => {
            format.print(&client.drain(&ids::worker(client, id).await?).await?, |worker| {
                format!("{} {} ({} runs to finish)", worker.id, worker.status, worker.active)
            });
        }
        WorkerCommand::Offline(OneArgs { id, format }) => {
            let id = ids::worker(client, id).await?;
            format.print(&client.force_offline(&id).await?, |gone| {
                format!("{id} OFFLINE ({} runs given back)", gone.given_back)
            });
        }
        WorkerCommand::Run(args) => run::run(client, args).await?,
        WorkerCommand::Build(args) => build::build(client, args).await?,
    }
    Ok(())
}

fn table(page: &WorkerPage, look: Look) -> Table {
    let mut table = Table::of([
        Column::id("id"),
        Column::name("name"),
        Column::namespace(page.workers.iter().map(|worker| worker.namespace.as_str())),
        Column::state("state"),
        Column::text("queues"),
        Column::text("types"),
        Column::number("active"),
        Column::number("completed").extra(),
        Column::number("failed"),
        Column::name("host").extra(),
        Column::number("pid").extra(),
        Column::name("version").extra(),
        Column::age("seen"),
    ]);
    for worker in &page.workers {
        table.row([
            look.id(&worker.id),
            worker.name.clone(),
            worker.namespace.clone(),
            worker.status.clone(),
            worker.queues.join(","),
            worker.types.join(","),
            format!("{}/{}", worker.active, worker.max_concurrent),
            worker.completed.to_string(),
            worker.failed.to_string(),
            worker.hostname.clone(),
            or_dash(worker.pid),
            or_dash(Some(&worker.version).filter(|version| !version.is_empty())),
            look.age(worker.seen_at),
        ]);
    }
    table
}

fn one(worker: &WorkerView, look: Look) -> String {
    let labels: Vec<String> = worker.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut table = Table::plain();
    table.field("id", Some(&worker.id));
    table.field("name", Some(&worker.name));
    table.field("namespace", Some(&worker.namespace));
    table.field("state", Some(&worker.status));
    table.field("because", worker.status_reason.as_ref());
    table.field("queues", Some(worker.queues.join(", ")));
    table.field("types", Some(worker.types.join(", ")));
    table.field("host", Some(&worker.hostname));
    table.field("pid", worker.pid);
    table.field("version", Some(&worker.version).filter(|version| !version.is_empty()));
    table.field("labels", Some(labels.join(", ")).filter(|labels| !labels.is_empty()));
    table.field("active", Some(format!("{} of {}", worker.active, worker.max_concurrent)));
    table.field("completed", Some(worker.completed));
    table.field("failed", Some(worker.failed));
    table.field("registered", Some(look.moment(worker.registered_at)));
    table.field("seen", Some(look.moment(worker.seen_at)));
    table.field("lease until", Some(look.moment(worker.lease_until)));
    if let Some(health) = &worker.health {
        table.field("cpu", health.cpu.map(|share| format!("{:.0} %", share * 100.0)));
        table.field("memory", health.memory.map(|share| format!("{:.0} %", share * 100.0)));
        table.field("disk free", health.disk_free_bytes.map(|bytes| format!("{} MiB", bytes >> 20)));
    }
    table.field("no new work", worker.unfit.as_ref());
    table.render(look)
}
