//! `baton audit`: who did what.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use baton::Client;
use baton::proto::AuditPage;
use clap::{Args, Subcommand};

use crate::exit::Exit;
use crate::output::{Column, Listing, Look, Table, or_dash};

#[derive(Subcommand)]
pub enum AuditCommand {
    /// List what administrators did and which keys were refused, newest first.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  baton audit list --watch
  baton audit list --limit 200 --json
  baton audit list --cursor 1234    older than this line; a list that goes on ends with the cursor

Wants an admin key that is good for all namespaces."
    )]
    List(ListArgs),
    /// Write the audit log as JSON lines, oldest first.
    #[command(after_help = "Examples:
  baton audit export > audit.jsonl
  baton audit export --output audit.jsonl
  baton audit export --after 1234 --output audit.jsonl    only newer lines, added to the file

Wants an admin key that is good for all namespaces.")]
    Export(ExportArgs),
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
pub struct ExportArgs {
    /// Only lines after the one with this number.
    #[arg(long, default_value_t = 0)]
    after: i64,
    /// Add the lines to this file; others cannot read it if it is new. Without it, they are printed.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Lines asked for at once.
const EXPORT_PAGE: usize = 1_000;

/// Carries out a command about the audit log.
pub async fn execute(client: &Client, command: AuditCommand) -> Result<(), Exit> {
    match command {
        AuditCommand::List(args) => {
            let ask = async || client.audit_log(Some(args.limit), args.cursor.as_deref()).await;
            args.listing.show(ask, table).await
        }
        AuditCommand::Export(args) => export(client, args).await,
    }
}

async fn export(client: &Client, args: ExportArgs) -> Result<(), Exit> {
    let name = args.output.as_ref().map_or_else(|| "the output".into(), |path| path.display().to_string());
    let failed = |error: io::Error| match error.kind() {
        // Whoever reads the lines has seen enough.
        ErrorKind::BrokenPipe => std::process::exit(0),
        _ => Exit::failed(format!("{name} cannot be written: {error}")),
    };
    let mut out: Box<dyn Write> = match &args.output {
        Some(path) => {
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
            Box::new(BufWriter::new(file.map_err(failed)?))
        }
        None => Box::new(BufWriter::new(io::stdout())),
    };
    let (mut after, mut count) = (args.after, 0);
    loop {
        let page = client.audit_log_after(after, Some(EXPORT_PAGE)).await?;
        for line in &page.lines {
            serde_json::to_writer(&mut out, line).map_err(|error| failed(error.into()))?;
            out.write_all(b"\n").map_err(failed)?;
            after = line.id;
        }
        count += page.lines.len();
        if page.next_cursor.is_none() {
            break;
        }
    }
    out.flush().map_err(failed)?;
    // So that the next export can go on after it, and the lines themselves stay what is printed.
    eprintln!("{count} lines; the next export goes on with --after {after}");
    Ok(())
}

fn table(page: &AuditPage, look: Look) -> Table {
    let mut table = Table::of([
        Column::number("id").extra(),
        Column::age("age"),
        Column::name("at").extra(),
        Column::name("actor"),
        Column::name("action"),
        Column::name("subject"),
        Column::name("namespace").extra(),
        Column::name("address").extra(),
        Column::name("request").extra(),
        Column::text("detail"),
    ]);
    for line in &page.lines {
        table.row([
            line.id.to_string(),
            look.age(line.at),
            line.at.to_string(),
            line.actor.clone(),
            line.action.clone(),
            look.id(&line.subject),
            or_dash(line.namespace.as_ref()),
            or_dash(line.address.as_ref()),
            or_dash(line.request_id.as_ref()),
            line.detail.clone(),
        ]);
    }
    table
}
