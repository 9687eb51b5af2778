//! `baton audit`: who did what.

use baton::Client;
use baton::proto::AuditPage;
use clap::{Args, Subcommand};

use super::flags;
use crate::exit::Exit;
use crate::output::{Format, Table, or_dash};

#[derive(Subcommand)]
pub enum AuditCommand {
    /// List what administrators did and which keys were refused, newest first.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  baton audit list
  baton audit list --limit 200 --json
  baton audit list --cursor 1234    older than this line; a list that goes on ends with the cursor

Wants an admin key that is good for all namespaces."
    )]
    List(ListArgs),
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

/// Carries out a command about the audit log.
pub async fn execute(client: &Client, command: AuditCommand) -> Result<(), Exit> {
    match command {
        AuditCommand::List(args) => {
            let page = client.audit_log(Some(args.limit), args.cursor.as_deref()).await;
            args.format.print(&page.map_err(flags::AUDIT_LIST.explain())?, table);
        }
    }
    Ok(())
}

fn table(page: &AuditPage) -> String {
    let mut table = Table::new(&["at", "actor", "action", "subject", "namespace", "detail"]);
    for line in &page.lines {
        table.row([
            line.at.to_string(),
            line.actor.clone(),
            line.action.clone(),
            line.subject.clone(),
            or_dash(line.namespace.as_ref()),
            line.detail.clone(),
        ]);
    }
    let mut text = table.to_string();
    if let Some(cursor) = &page.next_cursor {
        text.push_str(&format!("\nmore: --cursor {cursor}\n"));
    }
    text
}
