//! `/workers`: who is alive, and who is in trouble?

mod forms;
mod one;
mod row;

use baton_core::Millis;
use baton_proto::WorkerView;
use baton_server::service::workers as service;
use baton_server::{Error, Page as StorePage, WorkerFilter, WorkerStatus};
use maud::{Markup, html};

pub use self::forms::forms;
pub use self::one::page as one;
pub use self::row::short_line;
use self::row::{Standing, line, standing};
use crate::format;
use crate::page::{Entry, Page, part};
use crate::parts;
use crate::view::View;

/// Workers that are looked at, of each status.
const LOOKED_AT: usize = 1_000;
/// Rows of the list.
const ROWS_MAX: usize = 200;
/// Workers that are gone are listed for this long.
const GONE_FOR: Millis = 24 * 60 * 60 * 1_000;

/// The page.
pub async fn page(view: &View) -> Result<Page, Error> {
    let mut alive = read(view, WorkerStatus::Draining).await?;
    alive.extend(read(view, WorkerStatus::Online).await?);
    let mut gone = read(view, WorkerStatus::Offline).await?;
    gone.retain(|worker| view.now - worker.seen_at.0 < GONE_FOR);
    let words = view.query.get("find").unwrap_or_default().to_lowercase();
    let wanted = view.query.get("state").unwrap_or_default();
    let mut counts = [0_usize; Standing::ALL.len()];
    let mut rows: Vec<(Standing, WorkerView)> = alive
        .into_iter()
        .chain(gone)
        .map(|worker| (standing(view, &worker), worker))
        .inspect(|(standing, _)| counts[*standing as usize] += 1)
        .filter(|(standing, worker)| (wanted.is_empty() || standing.word() == wanted) && fits(worker, &words))
        .collect();
    sort(&mut rows);
    let is_empty = counts.iter().all(|count| *count == 0);
    let main = html! {
        (part("head", &html! {
            div.page-head id="head" {
                @if !is_empty { (states(view, wanted, &counts)) (search(view, wanted)) }
            }
        }))
        (part("workers", &html! {
            section.panel id="workers" aria-label="Workers" {
                @if is_empty { (nothing(view)) }
                @else if rows.is_empty() {
                    (parts::empty("find", "No worker is like that.", html! { a.btn href=(view.href("/workers")) { "Show all" } }))
                } @else { (table(view, &rows)) }
            }
        }))
    };
    Ok(Page::new(Entry::Workers, "Workers", main))
}

/// Those in trouble first, then the busiest, then those that went last.
fn sort(rows: &mut [(Standing, WorkerView)]) {
    rows.sort_by(|(one, left), (other, right)| {
        let load = |worker: &WorkerView| u64::from(worker.active) * 1_000 / u64::from(worker.max_concurrent.max(1));
        one.cmp(other)
            .then_with(|| match one {
                Standing::Offline => right.seen_at.cmp(&left.seen_at),
                _ => load(right).cmp(&load(left)),
            })
            .then_with(|| (&left.name, &left.id).cmp(&(&right.name, &right.id)))
    });
}

/// Workers with how they stand, in the order in which somebody wants to see them.
pub fn sorted(view: &View, workers: Vec<WorkerView>) -> Vec<(Standing, WorkerView)> {
    let mut rows: Vec<_> = workers.into_iter().map(|worker| (standing(view, &worker), worker)).collect();
    sort(&mut rows);
    rows
}

async fn read(view: &View, status: WorkerStatus) -> Result<Vec<WorkerView>, Error> {
    let filter =
        WorkerFilter { namespace: Some(view.namespace.clone()), status: Some(status), ..WorkerFilter::default() };
    let page = StorePage { after: None, limit: if status == WorkerStatus::Offline { ROWS_MAX } else { LOOKED_AT } };
    Ok(service::list(&view.app, &view.caller, filter, page, false).await?.0)
}

/// True when the name, a queue, a type or a label of a worker has these words.
fn fits(worker: &WorkerView, words: &str) -> bool {
    let labels = worker.labels.iter().flat_map(|(name, value)| [name, value]);
    let texts = [&worker.name, &worker.id, &worker.hostname].into_iter();
    let mut texts = texts.chain(&worker.queues).chain(&worker.types).chain(labels);
    words.is_empty() || texts.any(|text| text.to_lowercase().contains(words))
}

fn states(view: &View, wanted: &str, counts: &[usize]) -> Markup {
    let all: usize = counts.iter().sum();
    html! {
        nav.seg aria-label="State" {
            a href=(view.here_with("state", "")) aria-current=[wanted.is_empty().then_some("true")] { "All " (format::number(all as u64)) }
            @for standing in Standing::ALL {
                @let count = counts[standing as usize];
                @if count > 0 || wanted == standing.word() {
                    a href=(view.here_with("state", standing.word())) aria-current=[(wanted == standing.word()).then_some("true")] {
                        (standing.title()) " " (format::number(count as u64))
                    }
                }
            }
        }
    }
}

fn search(view: &View, wanted: &str) -> Markup {
    html! {
        form.end method="get" action="/workers" role="search" {
            @if let Some(namespace) = view.query.get("ns") { input type="hidden" name="ns" value=(namespace); }
            @if !wanted.is_empty() { input type="hidden" name="state" value=(wanted); }
            input.input type="search" name="find" value=(view.query.get("find").unwrap_or_default())
                placeholder="name, queue, type, label" aria-label="Find workers";
        }
    }
}

fn table(view: &View, rows: &[(Standing, WorkerView)]) -> Markup {
    let more = rows.len().saturating_sub(ROWS_MAX);
    let rows = &rows[..rows.len().min(ROWS_MAX)];
    let first_gone = rows.iter().position(|(standing, _)| *standing == Standing::Offline);
    html! {
        div.scroll-x {
            table {
                thead { tr {
                    th { "Worker" } th { "State" } th { "Load" } th { "Heartbeats, 2 min" } th { "Lease" } th { "Serves" } th { "Health" }
                    th.num { "Since" } th { span.sr { "Actions" } }
                } }
                tbody {
                    @for (index, (standing, worker)) in rows.iter().enumerate() {
                        @if first_gone == Some(index) { tr.group data-key="offline" { td colspan="9" { "Offline, last 24 h" } } }
                        (line(view, *standing, worker))
                    }
                }
            }
        }
        footer {
            @if more > 0 { (format::number(more as u64)) " more are not listed: find them by state, name, queue, type or label. " }
            "What a silent worker holds is handed over when its lease ends. A worker that is drained takes nothing new, finishes what it \
             holds, and ends."
        }
    }
}

fn nothing(view: &View) -> Markup {
    parts::empty(
        "worker",
        "No worker has said hello yet.",
        html! {
            p.soft { "A worker asks for work of the queues and types that it serves. One that runs a command for each run:" }
            (parts::command(&view.command("worker run --queue mail --type greet --exec 'cat'", true)))
            p.soft { "Workflows are run by programs that use the SDK; builds by " code { "baton worker build" } "." }
        },
    )
}
