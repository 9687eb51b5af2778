//! `baton namespace`: parts of the installation that see nothing of each other.

use baton::Client;
use baton::proto::{ChangeNamespace, CreateNamespace, NamespacePage, NamespaceView};
use clap::{Args, Subcommand};

use crate::exit::Exit;
use crate::output::{Column, Format, Listing, Look, Table, or_dash};

#[derive(Subcommand)]
pub enum NamespaceCommand {
    /// Make a namespace. It would also be made on first use.
    #[command(after_help = "Examples:
  baton namespace create mobile --description 'apps for phones'
  baton namespace create trial --live-runs 100 --workers 5 --schedules 10")]
    Create(CreateArgs),
    /// List namespaces.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  baton namespace list
  baton namespace list --json"
    )]
    List(ListArgs),
    /// Show a namespace.
    #[command(after_help = "Examples:
  baton namespace get mobile --json")]
    Get(OneArgs),
    /// Let a namespace take nothing new. What is under way may finish.
    #[command(after_help = "Examples:
  baton namespace disable mobile --reason 'moves to another server'")]
    Disable(DisableArgs),
    /// Let a namespace take things again.
    #[command(after_help = "Examples:
  baton namespace enable mobile")]
    Enable(OneArgs),
    /// Change the limits of a namespace; `none` clears one.
    #[command(after_help = "Examples:
  baton namespace limits mobile --live-runs 10000 --workers 50
  baton namespace limits mobile --schedules none")]
    Limits(LimitsArgs),
    /// Encrypt new payloads of a namespace before they reach the database, or no longer do.
    #[command(after_help = "Examples:
  baton namespace seal mobile on
  baton namespace seal mobile off    what is sealed stays sealed, and readable")]
    Seal(SealArgs),
}

#[derive(Args)]
pub struct CreateArgs {
    /// Its name.
    name: String,
    /// What it is for.
    #[arg(long, default_value = "")]
    description: String,
    /// Most runs that have not ended.
    #[arg(long, value_name = "RUNS")]
    live_runs: Option<u64>,
    /// Most workers that are online.
    #[arg(long, value_name = "WORKERS")]
    workers: Option<u64>,
    /// Most schedules.
    #[arg(long, value_name = "SCHEDULES")]
    schedules: Option<u64>,
    /// Encrypt inputs, outputs and other payloads before they reach the database.
    #[arg(long)]
    seal_payloads: bool,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct ListArgs {
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
pub struct OneArgs {
    /// The namespace.
    name: String,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct DisableArgs {
    #[command(flatten)]
    one: OneArgs,
    /// For those who wonder.
    #[arg(long, default_value = "")]
    reason: String,
}

#[derive(Args)]
pub struct LimitsArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Most runs that have not ended.
    #[arg(long, value_name = "RUNS", value_parser = limit, required_unless_present_any = ["workers", "schedules"])]
    live_runs: Option<Limit>,
    /// Most workers that are online.
    #[arg(long, value_name = "WORKERS", value_parser = limit)]
    workers: Option<Limit>,
    /// Most schedules.
    #[arg(long, value_name = "SCHEDULES", value_parser = limit)]
    schedules: Option<Limit>,
}

#[derive(Args)]
pub struct SealArgs {
    /// The namespace.
    name: String,
    /// `on` or `off`.
    #[arg(value_parser = ["on", "off"])]
    payloads: String,
    #[command(flatten)]
    format: Format,
}

/// A limit, or none.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limit(Option<u64>);

fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit(None)),
        number => number.parse().map(|number| Limit(Some(number))).map_err(|_| "a number or `none` is wanted".into()),
    }
}

/// Carries out a command about namespaces.
pub async fn execute(client: &Client, command: NamespaceCommand) -> Result<(), Exit> {
    match command {
        NamespaceCommand::Create(args) => {
            let namespace = CreateNamespace {
                name: args.name,
                description: args.description,
                live_runs_max: args.live_runs,
                workers_max: args.workers,
                schedules_max: args.schedules,
                seal_payloads: args.seal_payloads,
            };
            let made = client.create_namespace(&namespace).await;
            show(args.format, made?);
        }
        NamespaceCommand::List(args) => {
            let ask = async || client.namespaces(Some(args.limit), args.cursor.as_deref()).await;
            args.listing.show(ask, table).await?;
        }
        NamespaceCommand::Get(OneArgs { name, format }) => show(format, client.get_namespace(&name).await?),
        NamespaceCommand::Disable(DisableArgs { one: OneArgs { name, format }, reason }) => {
            show(format, client.disable_namespace(&name, &reason).await?);
        }
        NamespaceCommand::Enable(OneArgs { name, format }) => show(format, client.enable_namespace(&name).await?),
        NamespaceCommand::Limits(LimitsArgs { one: OneArgs { name, format }, live_runs, workers, schedules }) => {
            let change = ChangeNamespace {
                description: None,
                live_runs_max: live_runs.map(|limit| limit.0),
                workers_max: workers.map(|limit| limit.0),
                schedules_max: schedules.map(|limit| limit.0),
                seal_payloads: None,
            };
            let changed = client.change_namespace(&name, &change).await;
            show(format, changed?);
        }
        NamespaceCommand::Seal(SealArgs { name, payloads, format }) => {
            let change = ChangeNamespace { seal_payloads: Some(payloads == "on"), ..ChangeNamespace::default() };
            show(format, client.change_namespace(&name, &change).await?);
        }
    }
    Ok(())
}

fn show(format: Format, namespace: NamespaceView) {
    format.show(&namespace, one);
}

fn state(namespace: &NamespaceView) -> &'static str {
    if namespace.disabled_at.is_some() { "disabled" } else { "enabled" }
}

fn table(page: &NamespacePage, look: Look) -> Table {
    let mut table = Table::of([
        Column::key("namespace"),
        Column::state("state"),
        Column::text("reason"),
        Column::number("runs"),
        Column::number("workers"),
        Column::number("schedules"),
        Column::text("payloads"),
        Column::age("age").extra(),
        Column::text("description").extra(),
    ]);
    for namespace in &page.namespaces {
        table.row([
            namespace.name.clone(),
            state(namespace).to_owned(),
            or_dash(namespace.disabled_reason.as_ref().filter(|reason| !reason.is_empty())),
            or_dash(namespace.live_runs_max),
            or_dash(namespace.workers_max),
            or_dash(namespace.schedules_max),
            if namespace.seal_payloads { "sealed" } else { "plain" }.to_owned(),
            look.age(namespace.created_at),
            or_dash(Some(&namespace.description).filter(|description| !description.is_empty())),
        ]);
    }
    table
}

fn one(namespace: &NamespaceView, look: Look) -> String {
    let mut table = Table::plain();
    table.field("namespace", Some(&namespace.name));
    table.field("state", Some(state(namespace)));
    table.field("disabled", namespace.disabled_at.map(|at| look.moment(at)));
    table.field("reason", namespace.disabled_reason.as_ref().filter(|reason| !reason.is_empty()));
    table.field("description", Some(&namespace.description).filter(|description| !description.is_empty()));
    table.field("created", Some(look.moment(namespace.created_at)));
    let limit = |limit: Option<u64>| limit.map_or_else(|| "no limit".into(), |limit| limit.to_string());
    table.field("live runs", Some(limit(namespace.live_runs_max)));
    table.field("workers", Some(limit(namespace.workers_max)));
    table.field("schedules", Some(limit(namespace.schedules_max)));
    table.field("payloads", Some(if namespace.seal_payloads { "sealed" } else { "plain" }));
    table.render(look)
}
