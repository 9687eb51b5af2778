//! `baton webhook`: events that are told by calls.

use std::time::Duration;

use baton::Client;
use baton::proto::{
    ChangeWebhook, CreateWebhook, ReplayWebhook, RotateWebhook, Time, WebhookDeliveryPage, WebhookFilter, WebhookPage,
    WebhookTest, WebhookView,
};
use clap::{Args, Subcommand};

use super::ids;
use crate::duration;
use crate::exit::Exit;
use crate::output::{Column, Format, Listing, Look, Table, or_dash, print_line};

#[derive(Subcommand)]
pub enum WebhookCommand {
    /// Make a webhook. Prints its secret, once.
    #[command(after_help = "Examples:
  baton webhook create ci https://ci.example.org/baton --kind run.ended --queue builds
  baton webhook create chat https://chat.example.org/hook --namespace mobile --kind run,worker.offline
  baton webhook create ci https://ci.internal/baton --secret-file ci.secret

The target has to be https and in public; the server's setting webhook_allow makes exceptions.")]
    Create(CreateArgs),
    /// List webhooks, without their secrets.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  baton webhook list --watch
  baton webhook list --namespace mobile --json"
    )]
    List(ListArgs),
    /// Show a webhook.
    #[command(after_help = "Examples:
  baton webhook get ci
  baton webhook get ci --json")]
    Get(OneArgs),
    /// Change what a webhook calls, or which events it hears of.
    #[command(after_help = "Examples:
  baton webhook set ci --target https://ci.example.org/v2/baton
  baton webhook set ci --kind run.ended,run.returned --queue builds   the whole filter
  baton webhook set ci --everything                                   no filter")]
    Set(SetArgs),
    /// Let a webhook rest. What happens meanwhile is not kept for it.
    #[command(after_help = "Examples:
  baton webhook pause ci")]
    Pause(OneArgs),
    /// Let a webhook that is paused or disabled hear of events again.
    #[command(after_help = "Examples:
  baton webhook resume ci")]
    Resume(OneArgs),
    /// Call the receiver now, and say what came of it.
    #[command(after_help = "Examples:
  baton webhook test ci

Ends with 1 when the receiver did not take it.")]
    Test(OneArgs),
    /// Give a webhook another secret, which is printed once. For a while deliveries are signed with both.
    #[command(after_help = "Examples:
  baton webhook rotate ci
  baton webhook rotate ci --overlap 0s    the old one is known to others")]
    Rotate(RotateArgs),
    /// List the deliveries of a webhook, newest first.
    #[command(after_help = "Examples:
  baton webhook deliveries ci --state dead
  baton webhook deliveries ci --json      with every attempt")]
    Deliveries(DeliveriesArgs),
    /// Have dead deliveries made again: all, those since a moment, or one.
    #[command(after_help = "Examples:
  baton webhook replay ci
  baton webhook replay ci --since 2026-01-31T09:30:00Z
  baton webhook replay ci --delivery 9e2b7a      the end of its id, as lists show it")]
    Replay(ReplayArgs),
    /// Delete a webhook with all of its deliveries.
    #[command(
        visible_alias = "rm",
        after_help = "Examples:
  baton webhook delete ci"
    )]
    Delete(NameArgs),
}

/// Which events.
#[derive(Args, Default)]
pub struct FilterArgs {
    /// Only of these kinds, parted by commas: `run.ended`, or all of a subject: `run`.
    #[arg(long, value_delimiter = ',')]
    kind: Vec<String>,
    /// Only of this queue.
    #[arg(long)]
    queue: Option<String>,
    /// Only of runs of this type.
    #[arg(long = "type", value_name = "TYPE")]
    run_type: Option<String>,
    /// Only of this run.
    #[arg(long)]
    run: Option<String>,
    /// Only of this worker.
    #[arg(long)]
    worker: Option<String>,
    /// Only of this runner pool.
    #[arg(long)]
    pool: Option<String>,
}

impl FilterArgs {
    fn filter(self) -> WebhookFilter {
        let FilterArgs { kind: kinds, queue, run_type, run, worker, pool } = self;
        WebhookFilter { kinds, queue, run_type, run, worker, pool }
    }
}

#[derive(Args)]
pub struct CreateArgs {
    /// Its name.
    name: String,
    /// The URL that is called.
    #[arg(value_name = "TARGET")]
    target: String,
    /// Whose events it hears of; all that the key is good for if not given.
    #[arg(long, short)]
    namespace: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// A file with the secret (`whsec_...`); the server makes one if not given.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<std::path::PathBuf>,
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

/// Which webhook.
#[derive(Args)]
pub struct NameArgs {
    /// The webhook: its name, its id, or the end of its id.
    webhook: String,
}

#[derive(Args)]
pub struct OneArgs {
    #[command(flatten)]
    name: NameArgs,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct SetArgs {
    #[command(flatten)]
    one: OneArgs,
    /// The URL that is called.
    #[arg(long, value_name = "URL")]
    target: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Without a filter: everything that the webhook may hear of.
    #[arg(long)]
    everything: bool,
}

#[derive(Args)]
pub struct RotateArgs {
    #[command(flatten)]
    one: OneArgs,
    /// How long deliveries are signed with the old secret, too.
    #[arg(long, value_name = "SPAN", default_value = "1d", value_parser = duration::parse)]
    overlap: Duration,
    /// A file with the new secret (`whsec_...`); the server makes one if not given.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<std::path::PathBuf>,
}

#[derive(Args)]
pub struct DeliveriesArgs {
    #[command(flatten)]
    name: NameArgs,
    /// Only those in this state.
    #[arg(long, value_parser = ["waiting", "delivered", "dead"])]
    state: Option<String>,
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
pub struct ReplayArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Only those that died since this moment, like 2026-01-31T09:30:00Z.
    #[arg(long, value_name = "TIME", conflicts_with = "delivery")]
    since: Option<Time>,
    /// Only this one, whether it is dead or has arrived.
    #[arg(long, value_name = "ID")]
    delivery: Option<String>,
}

/// Carries out a command about webhooks.
pub async fn execute(client: &Client, command: WebhookCommand) -> Result<(), Exit> {
    match command {
        WebhookCommand::Create(CreateArgs { name, target: url, namespace, filter, secret_file, format }) => {
            let secret = secret_file.map(secret).transpose()?;
            let made = CreateWebhook { name, namespace, url, filter: filter.filter(), secret };
            format.show(&client.create_webhook(&made).await?, one);
        }
        WebhookCommand::List(args) => {
            let (namespace, cursor) = (args.namespace.as_deref(), args.cursor.as_deref());
            let ask = async || client.webhooks(namespace, Some(args.limit), cursor).await;
            args.listing.show(ask, table).await?;
        }
        WebhookCommand::Get(OneArgs { name, format }) => {
            let id = ids::webhook(client, name.webhook).await?;
            format.show(&client.webhook(&id).await?, one);
        }
        WebhookCommand::Set(SetArgs { one: OneArgs { name, format }, target: url, filter, everything }) => {
            let filter = filter.filter();
            let is_given = everything || filter != WebhookFilter::default();
            if everything && filter != WebhookFilter::default() {
                return Err(Exit::usage("--everything goes with no other filter"));
            }
            let id = ids::webhook(client, name.webhook).await?;
            let change = ChangeWebhook { url, filter: is_given.then_some(filter) };
            format.show(&client.change_webhook(&id, &change).await?, one);
        }
        WebhookCommand::Pause(OneArgs { name, format }) => {
            let id = ids::webhook(client, name.webhook).await?;
            format.show(&client.pause_webhook(&id).await?, one);
        }
        WebhookCommand::Resume(OneArgs { name, format }) => {
            let id = ids::webhook(client, name.webhook).await?;
            format.show(&client.resume_webhook(&id).await?, one);
        }
        WebhookCommand::Test(OneArgs { name, format }) => {
            let id = ids::webhook(client, name.webhook).await?;
            let tested = client.test_webhook(&id).await?;
            format.print(&tested, said);
            if !tested.delivered {
                return Err(Exit::failed("the receiver did not take it"));
            }
        }
        WebhookCommand::Rotate(RotateArgs { one: OneArgs { name, format }, overlap, secret_file }) => {
            let secret = secret_file.map(secret).transpose()?;
            let id = ids::webhook(client, name.webhook).await?;
            let rotation = RotateWebhook { overlap_ms: Some(overlap.as_millis() as u64), secret };
            format.show(&client.rotate_webhook(&id, &rotation).await?, one);
        }
        WebhookCommand::Deliveries(DeliveriesArgs { name, state, limit, cursor, listing }) => {
            let id = ids::webhook(client, name.webhook).await?;
            let (state, cursor) = (state.as_deref(), cursor.as_deref());
            let ask = async || client.webhook_deliveries(&id, state, Some(limit), cursor).await;
            listing.show(ask, deliveries).await?;
        }
        WebhookCommand::Replay(ReplayArgs { one: OneArgs { name, format }, since, delivery }) => {
            let id = ids::webhook(client, name.webhook).await?;
            match delivery {
                Some(delivery) => {
                    let delivery = ids::delivery(client, &id, delivery).await?;
                    let replayed = client.replay_webhook_delivery(&id, &delivery).await?;
                    format.print(&replayed, |delivery| format!("{} is tried again", delivery.id));
                }
                None => {
                    let replayed = client.replay_webhook(&id, &ReplayWebhook { since }).await?;
                    format.print(&replayed, |all| format!("{} are tried again, {} are dead", all.replayed, all.dead));
                }
            }
        }
        WebhookCommand::Delete(NameArgs { webhook }) => {
            let id = ids::webhook(client, webhook.clone()).await?;
            client.delete_webhook(&id).await?;
            print_line(format!("{webhook} is deleted, and what waited for it"));
        }
    }
    Ok(())
}

fn secret(path: std::path::PathBuf) -> Result<String, Exit> {
    let read = std::fs::read_to_string(&path).map(|text| text.trim().to_owned());
    read.map_err(|error| Exit::usage(format!("cannot read {}: {error}", path.display())))
}

fn said(test: &WebhookTest) -> String {
    let answer = match (test.status, &test.error) {
        (Some(status), _) => format!("answered {status}"),
        (None, error) => or_dash(error.as_ref()),
    };
    let response = test.response.as_ref().map_or_else(String::new, |text| format!("\n{text}"));
    format!("{answer} after {}{response}", duration::show(test.took_ms))
}

/// What a filter lets through, for people.
fn about(filter: &WebhookFilter) -> Option<String> {
    let kinds = Some(filter.kinds.join(",")).filter(|kinds| !kinds.is_empty());
    let fields = [
        ("kind", &kinds),
        ("queue", &filter.queue),
        ("type", &filter.run_type),
        ("run", &filter.run),
        ("worker", &filter.worker),
        ("pool", &filter.pool),
    ];
    let words: Vec<_> = fields.iter().filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?))).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

fn table(page: &WebhookPage, look: Look) -> Table {
    let mut table = Table::of([
        Column::key("webhook"),
        Column::id("id"),
        Column::text("namespace").extra(),
        Column::state("state"),
        Column::number("waiting"),
        Column::number("dead"),
        Column::age("last success"),
        Column::text("filter"),
        Column::text("url").extra(),
    ]);
    for webhook in &page.webhooks {
        table.row([
            webhook.name.clone(),
            look.id(&webhook.id),
            or_dash(webhook.namespace.as_ref()),
            webhook.state.clone(),
            webhook.waiting.to_string(),
            webhook.dead.to_string(),
            or_dash(webhook.last_success_at.map(|at| look.age(at))),
            or_dash(about(&webhook.filter)),
            webhook.url.clone(),
        ]);
    }
    table
}

fn one(webhook: &WebhookView, look: Look) -> String {
    let mut table = Table::plain();
    let moment = |at: Option<Time>| at.map(|at| look.moment(at));
    table.field("webhook", Some(&webhook.name));
    table.field("id", Some(&webhook.id));
    table.field("namespace", Some(webhook.namespace.as_deref().unwrap_or("all")));
    table.field("url", Some(&webhook.url));
    table.field("filter", about(&webhook.filter));
    table.field("state", Some(&webhook.state));
    table.field("why", webhook.why.as_ref());
    table.field("secret", webhook.secret.as_ref());
    table.field("old secret until", moment(webhook.secret_before_until));
    table.field("waiting", Some(webhook.waiting));
    table.field("dead", Some(webhook.dead));
    table.field("missed", Some(webhook.missed).filter(|missed| *missed > 0));
    table.field("last success", moment(webhook.last_success_at));
    table.field("failing since", moment(webhook.failing_since));
    table.field("left alone until", moment(webhook.held_until));
    table.field("created", Some(look.moment(webhook.created_at)));
    table.field("by", Some(&webhook.created_by));
    table.render(look)
}

fn deliveries(page: &WebhookDeliveryPage, look: Look) -> Table {
    let mut table = Table::of([
        Column::id("id"),
        Column::key("kind"),
        Column::text("subject").extra(),
        Column::state("state"),
        Column::number("attempts"),
        Column::text("last answer"),
        Column::text("next"),
        Column::age("age"),
    ]);
    for delivery in &page.deliveries {
        let last = delivery.attempts.last();
        let answer = last.and_then(|last| last.status.map(|status| status.to_string()).or_else(|| last.error.clone()));
        table.row([
            look.id(&delivery.id),
            delivery.kind.clone(),
            or_dash(delivery.subject.as_ref()),
            delivery.state.clone(),
            last.map_or(0, |last| last.number).to_string(),
            or_dash(answer),
            or_dash(delivery.next_attempt_at.map(|at| look.moment(at))),
            look.age(delivery.created_at),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_shown_in_the_words_of_its_flags() {
        assert_eq!(about(&WebhookFilter::default()), None);
        let filter =
            FilterArgs { kind: vec!["run".into(), "queue".into()], queue: Some("q".into()), ..Default::default() };
        assert_eq!(about(&filter.filter()).as_deref(), Some("kind=run,queue queue=q"));
    }
}
