//! `baton namespace`: parts of the installation that see nothing of each other.

use baton::Client;
use baton::proto::{ChangeNamespace, CreateNamespace, NamespacePage, NamespaceView};
use clap::{Args, Subcommand};

use super::flags;
use crate::exit::Exit;
use crate::output::{Format, Table, or_dash};

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
    format: Format,
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
            show(args.format, made.map_err(flags::NAMESPACE_CREATE.explain())?);
        }
        NamespaceCommand::List(args) => {
            args.format.print(&client.namespaces(Some(args.limit), args.cursor.as_deref()).await?, table);
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
            show(format, changed.map_err(flags::NAMESPACE_LIMITS.explain())?);
        }
        NamespaceCommand::Seal(SealArgs { name, payloads, format }) => {
            let change = ChangeNamespace { seal_payloads: Some(payloads == "on"), ..ChangeNamespace::default() };
            show(format, client.change_namespace(&name, &change).await?);
        }
    }
    Ok(())
}

fn show(format: Format, namespace: NamespaceView) {
    let one = |namespace: &NamespaceView| {
        table(&NamespacePage { namespaces: vec![namespace.clone()], next_cursor: None, total: None })
    };
    format.print(&namespace, one);
}

fn table(page: &NamespacePage) -> String {
    let mut table = Table::new(&[
        "namespace",
        "disabled",
        "max live runs",
        "max workers",
        "max schedules",
        "payloads",
        "description",
    ]);
    for namespace in &page.namespaces {
        let disabled = match (&namespace.disabled_at, &namespace.disabled_reason) {
            (None, _) => "no".to_owned(),
            (Some(at), None) => format!("since {at}"),
            (Some(at), Some(why)) => format!("since {at}: {why}"),
        };
        table.row([
            namespace.name.clone(),
            disabled,
            or_dash(namespace.live_runs_max),
            or_dash(namespace.workers_max),
            or_dash(namespace.schedules_max),
            if namespace.seal_payloads { "sealed" } else { "plain" }.to_owned(),
            or_dash(Some(&namespace.description).filter(|description| !description.is_empty())),
        ]);
    }
    match &page.next_cursor {
        Some(cursor) => format!("{table}\nThere may be more: --cursor {cursor}"),
        None => table.to_string(),
    }
}
