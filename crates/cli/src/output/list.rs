//! Lists: tables of entries, in pages, that can be watched.

use baton::ClientError;
use baton::proto::{
    AuditLine, AuditPage, BuildPage, BulkPage, BulkView, ClaimPage, History, HistoryEvent, KeyView, Keys, ListedBuild,
    ListedClaim, NamespacePage, NamespaceView, NextFires, PoolPage, PoolView, QueueView, Queues, RunPage, RunView,
    RunnerPage, RunnerView, ScheduleFire, ScheduleFires, SchedulePage, ScheduleView, Series, SettingList, SettingView,
    Statistics, Time, WebhookDelivery, WebhookDeliveryPage, WebhookPage, WebhookView, WorkerPage, WorkerView,
};
use clap::Args;
use serde::Serialize;

use super::{Format, Look, Output, Table, print_line, watch};
use crate::exit::Exit;

/// An answer that is a list.
pub trait List: Serialize {
    /// One entry, which is one row of the table.
    type Entry: Serialize;

    /// The entries.
    fn entries(&self) -> &[Self::Entry];

    /// Where the list goes on.
    fn next_cursor(&self) -> Option<&str> {
        None
    }

    /// How many there are in all, if they were counted.
    fn total(&self) -> Option<u64> {
        None
    }
}

macro_rules! lists {
    ($($list:ty { $entries:ident: $entry:ty $(, cursor $cursor:ident)? $(, total $total:expr)? })+) => {$(
        impl List for $list {
            type Entry = $entry;

            fn entries(&self) -> &[$entry] {
                &self.$entries
            }
            $(fn next_cursor(&self) -> Option<&str> {
                self.$cursor.as_deref()
            })?
            $(fn total(&self) -> Option<u64> {
                let total: fn(&$list) -> Option<u64> = $total;
                total(self)
            })?
        }
    )+};
}

lists! {
    RunPage { runs: RunView, cursor next_cursor, total |page| page.total }
    BuildPage { builds: ListedBuild, cursor next_cursor, total |page| Some(page.total) }
    BulkPage { operations: BulkView, cursor next_cursor }
    WorkerPage { workers: WorkerView, cursor next_cursor, total |page| page.total }
    NamespacePage { namespaces: NamespaceView, cursor next_cursor, total |page| page.total }
    SchedulePage { schedules: ScheduleView, cursor next_cursor, total |page| page.total }
    ScheduleFires { fires: ScheduleFire, cursor next_cursor }
    NextFires { fires: Time }
    PoolPage { pools: PoolView, cursor next_cursor }
    RunnerPage { runners: RunnerView, cursor next_cursor }
    ClaimPage { claims: ListedClaim, cursor next_cursor }
    AuditPage { lines: AuditLine, cursor next_cursor }
    Queues { queues: QueueView, cursor next_cursor }
    Keys { keys: KeyView, cursor next_cursor }
    SettingList { settings: SettingView }
    WebhookPage { webhooks: WebhookView, cursor next_cursor }
    WebhookDeliveryPage { deliveries: WebhookDelivery, cursor next_cursor }
    History { events: HistoryEvent }
    Statistics { series: Series }
}

/// How a list is printed, and how often.
#[derive(Args, Clone, Copy)]
pub struct Listing {
    #[command(flatten)]
    pub format: Format,
    /// Show the list anew every two seconds, until Ctrl-C.
    #[arg(long, short)]
    watch: bool,
}

impl Listing {
    /// Asks for a list and shows it, once or until Ctrl-C.
    pub async fn show<L: List>(
        self,
        ask: impl AsyncFn() -> Result<L, ClientError>,
        table: impl Fn(&L, Look) -> Table,
    ) -> Result<(), Exit> {
        if self.watch {
            return watch::watch(self.format, ask, table).await;
        }
        self.format.list(&ask().await?, table);
        Ok(())
    }
}

impl Format {
    /// Prints a list as JSON, or as a table.
    pub fn list<L: List>(self, list: &L, table: impl FnOnce(&L, Look) -> Table) {
        match self.output() {
            Output::Json => self.show(list, |_, _| String::new()),
            Output::Jsonl => {
                for entry in list.entries() {
                    print_line(json_line(entry));
                }
                // The lines are entries and nothing else.
                if let Some(cursor) = list.next_cursor() {
                    eprintln!("more: --cursor {}", quoted(cursor));
                }
            }
            Output::Table | Output::Wide => {
                let look = self.look();
                print_line(format!("{}{}", table(list, look).render(look), footer(list)));
            }
        }
    }
}

/// The shapes of the wire always can be written as JSON.
pub(super) fn json_line(entry: &impl Serialize) -> String {
    serde_json::to_string(entry).unwrap_or_default()
}

/// What is said below a table.
pub(super) fn footer(list: &impl List) -> String {
    let total = list.total().map(|total| format!("\n{} of {total}\n", list.entries().len()));
    let more = list.next_cursor().map(|cursor| format!("\nmore: --cursor {}\n", quoted(cursor)));
    [total, more].into_iter().flatten().collect()
}

/// A cursor as a shell takes it.
fn quoted(cursor: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/=+".contains(c);
    match cursor.chars().all(is_plain) {
        true => cursor.to_owned(),
        false => format!("'{}'", cursor.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_can_be_pasted() {
        assert_eq!(quoted("0198c1f2-0000"), "0198c1f2-0000");
        assert_eq!(quoted("mobile night's"), "'mobile night'\\''s'");
    }
}
