//! Queues, causes of failures, workers, pools.

use baton_core::State;
use baton_proto::Statistics;
use baton_server::service::read::RunQuery;
use baton_server::{Error, Page as StorePage, WorkerFilter, WorkerStatus, service};
use maud::{Markup, html};

use super::causes::{self, Cause};
use crate::format::{self, MISSING};
use crate::pages::queues::{Row, flow_chip, oldest};
use crate::pages::workers;
use crate::parts::{self, Tone, queue_path, series, total};
use crate::view::View;

/// Failures that are looked at, the newest.
const FAILURES_MAX: usize = 500;
/// Causes that are shown.
const CAUSES_SHOWN: usize = 8;
/// Workers that are looked at, and those that are shown.
const WORKERS_READ: usize = 200;
const WORKERS_SHOWN: usize = 6;
/// Pools that are shown.
const POOLS_SHOWN: usize = 6;

/// The queues in trouble, then the deepest.
pub fn queues(view: &View, rows: &[Row], all: usize) -> Markup {
    html! {
        section.panel id="queues" {
            header { h2 { "Queues" } span.count { (format::number(all as u64)) } a.end.link.sm href=(view.href("/queues")) { "All" } }
            div.scroll-x { table {
                thead { tr {
                    th { "Queue" } th { "Depth, " (parts::chosen_range(view).short) } th.num { "Waiting" } th.num { "Oldest" }
                    th.num { "Running" } th.num { "Workers" } th { "State" }
                } }
                tbody { @for row in rows {
                    @let name = row.queue.name.as_str();
                    @let (places, _) = row.coverage.places();
                    tr data-row data-key=(name) {
                        td { a.b.cut.name href=(view.href(&queue_path(name))) dir="auto" { (format::visible(name)) } }
                        td { @if row.depth.is_empty() { span.dim { (MISSING) } } @else { (parts::spark(&row.depth, row.tone(), 96, 20)) } }
                        td.num { a href=(parts::runs(view, &[("state", "waiting"), ("queue", name)])) { (format::number(row.queue.ready)) } }
                        td.num.soft.nowrap { (oldest(view, row.queue.oldest_ms)) }
                        td.num.nowrap {
                            (format::number(row.queue.held)) @if places > 0 && places >= row.queue.held { span.dim { " / " (format::number(places)) } }
                        }
                        td.num { (row.coverage.workers.len()) }
                        td { (flow_chip(view, &row.flow)) }
                    }
                } }
            } }
        }
    }
}

/// Failures, grouped by cause.
pub async fn causes(view: &View, found: &Statistics) -> Result<Markup, Error> {
    let query = RunQuery {
        namespace: Some(view.namespace.clone()),
        states: vec![State::Failed],
        submitted_after: Some(found.from.0),
        ..RunQuery::default()
    };
    let page = StorePage { after: None, limit: FAILURES_MAX };
    let (runs, _) = service::read::list(&view.app, &view.caller, query, page, false).await?;
    let causes = causes::causes(&runs, found.from.0, found.until.0);
    let since = parts::chosen_range(view).short.replace(' ', "");
    let failed = total(series(found, "failed")) as u64;
    Ok(html! {
        section.panel id="causes" {
            header {
                h2 { "Failures by cause" }
                @if failed > 0 { a.end.link.sm href=(parts::runs(view, &[("state", "failed"), ("since", &since)])) { (format::counted(failed, "run", "runs")) } }
            }
            @if causes.is_empty() {
                (parts::empty("ok", "Nothing that was submitted in this time has failed.", html! {}))
            } @else {
                div.scroll-x { table {
                    thead { tr { th { "Cause" } th { (parts::chosen_range(view).short) } th.num { "Runs" } } }
                    tbody { @for cause in causes.iter().take(CAUSES_SHOWN) { (cause_line(view, cause, &since)) } }
                } }
                @if runs.len() >= FAILURES_MAX { footer { "Of the newest " (FAILURES_MAX) " failures." } }
            }
        }
    })
}

fn cause_line(view: &View, cause: &Cause, since: &str) -> Markup {
    let reason = cause.reason.map_or("failed", baton_core::Reason::as_str);
    let mut tokens = vec![("state", "failed"), ("type", cause.kind.as_str())];
    if !cause.words.is_empty() {
        tokens.push(("error", cause.words.as_str()));
    }
    tokens.push(("since", since));
    let when: Vec<Option<f64>> = cause.when.iter().map(|count| Some(*count as f64)).collect();
    html! {
        tr data-row {
            td.fill {
                a.b href=(parts::runs(view, &tokens)) { (reason) } " " span.dim dir="auto" { (format::visible(&cause.kind)) }
                @if !cause.line.is_empty() { div.soft.sm.cut.line dir="auto" title=(format::visible(&cause.line)) { (format::visible(&cause.line)) } }
            }
            td { (parts::spark(&when, Tone::Bad, 96, 20)) }
            td.num.b { (format::number(cause.count)) }
        }
    }
}

/// Workers in trouble, then the busiest.
pub async fn workers(view: &View) -> Result<Markup, Error> {
    let mut all = Vec::new();
    for status in [WorkerStatus::Draining, WorkerStatus::Online] {
        let filter =
            WorkerFilter { namespace: Some(view.namespace.clone()), status: Some(status), ..WorkerFilter::default() };
        let page = StorePage { after: None, limit: WORKERS_READ };
        all.extend(service::workers::list(&view.app, &view.caller, filter, page, false).await?.0);
    }
    let count = all.len();
    let rows = workers::sorted(view, all);
    Ok(html! {
        section.panel id="workers" {
            header { h2 { "Workers" } span.count { (count) } a.end.link.sm href=(view.href("/workers")) { "All" } }
            @if rows.is_empty() {
                (parts::empty("worker", "No worker is online.", html! { a.btn href=(view.href("/start")) { "Start one" } }))
            } @else {
                div.scroll-x { table {
                    thead { tr { th { "Worker" } th { "State" } th { "Load" } th { "Lease" } th { "Serves" } } }
                    tbody { @for (standing, worker) in rows.iter().take(WORKERS_SHOWN) { (workers::short_line(view, *standing, worker)) } }
                } }
            }
        }
    })
}

/// Pools with what they have.
pub async fn pools(view: &View) -> Result<Markup, Error> {
    let page = StorePage { after: None, limit: POOLS_SHOWN };
    let pools = service::pools::read::list(&view.app, &view.caller, Some(&view.namespace), page).await?;
    let of = |pool: &baton_proto::PoolView, state: &str| pool.runners.get(state).copied().unwrap_or(0);
    Ok(html! {
        section.panel id="pools" {
            header { h2 { "Pools" } a.end.link.sm href=(view.href("/pools")) { "All" } }
            @if pools.is_empty() {
                (parts::empty("pool", "There are no pools of warm machines.", html! {
                    p.soft { "A pool keeps machines ready for CI:" }
                    (parts::command(&view.command("pool create linux --min-idle 1 --max-size 4", true)))
                }))
            } @else {
                div.scroll-x { table {
                    thead { tr { th { "Pool" } th.num { "Idle" } th.num { "In use" } th.num { "Creating" } th.num { "Claims waiting" } th { "State" } } }
                    tbody { @for pool in &pools {
                        tr data-row data-key=(pool.name) {
                            td { a.b.cut.name href=(view.href(&format!("/pools/{}", crate::query::escape(&pool.name)))) dir="auto" { (format::visible(&pool.name)) } }
                            td.num { (format::number(of(pool, "idle"))) span.dim { " / " (format::number(u64::from(pool.min_idle_now))) } }
                            td.num { (format::number(of(pool, "running") + of(pool, "claimed"))) }
                            td.num { (format::number(of(pool, "creating"))) }
                            td.num { (format::number(pool.waiting_claims)) }
                            td {
                                @if let Some(error) = &pool.error { span.c-bad.cut.name dir="auto" title=(format::visible(error)) { (format::first_line(error, 80)) } }
                                @else if pool.deleting { span.soft { "being deleted" } }
                                @else { span.st.ok { (parts::icon("ok")) "ready" } }
                            }
                        }
                    } }
                } }
            }
        }
    })
}
