//! `/pools`: machines that wait to be claimed. `/pools/{name}` has the map of one pool, and why its claims wait.

mod claims;
mod forms;
mod machine;
mod map;

use std::collections::BTreeMap;

use baton_core::Millis;
use baton_core::pools::why::Why;
use baton_core::pools::{Cause, RunnerState};
use baton_proto::PoolView;
use baton_server::service::pools::board::{self, Board, Ended};
use baton_server::service::pools::read;
use baton_server::service::statistics::{self, Range, Wanted};
use baton_server::{Error, Page as Rows, Scope};
use maud::{Markup, html};

use crate::ask;
use crate::format::{self, Precision};
use crate::page::{Entry, Page, part};
use crate::parts::{self, Bars, Tone, icon};
use crate::query::escape;
use crate::view::View;

pub use forms::forms;
pub use machine::page as machine;

/// How many pools a page has.
const POOLS_MAX: usize = 50;
const HOUR: Millis = 3_600_000;
const DAY: Millis = 24 * HOUR;
/// Hours of the chart.
const HOURS: i64 = 24;

/// The address of a pool.
fn address(view: &View, name: &str) -> String {
    view.href(&format!("/pools/{}", escape(name)))
}

fn in_state(pool: &PoolView, state: RunnerState) -> u64 {
    pool.runners.get(state.as_str()).copied().unwrap_or(0)
}

fn size(pool: &PoolView) -> u64 {
    pool.runners.values().sum()
}

// ---- all pools

/// The list.
pub async fn page(view: &View) -> Result<Page, Error> {
    let after = view.query.get("after").map(|name| (view.namespace.clone(), name.to_owned()));
    let rows = Rows { after, limit: POOLS_MAX };
    let pools = read::list(&view.app, &view.caller, Some(&view.namespace), rows).await?;
    let next = pools.last().filter(|_| pools.len() == POOLS_MAX).map(|last| last.name.as_str());
    let main = html! {
        div.stack {
            div.page-head {
                p.lead { (said_of_all(view, &pools)) }
                @if view.may(Scope::Admin) { div.end { (ask::link(view, "primary", "/form/pools/new", "New pool")) } }
            }
            section.panel aria-label="Pools" {
                (part("pools-list", &list(view, &pools)))
                (parts::pager(view, next))
            }
        }
    };
    Ok(Page::new(Entry::Pools, "Pools", main))
}

fn said_of_all(view: &View, pools: &[PoolView]) -> Markup {
    let waiting: Vec<&PoolView> = pools.iter().filter(|pool| pool.waiting_claims > 0).collect();
    let waits: u64 = waiting.iter().map(|pool| pool.waiting_claims).sum();
    let troubled = pools.iter().filter(|pool| pool.error.is_some());
    html! {
        @match waiting.as_slice() {
            [] if pools.is_empty() => "No machines are kept ready here.",
            [] => "No claim waits.",
            [one] => { (format::counted(waits, "claim waits", "claims wait")) " in " a.b href=(address(view, &one.name)) dir="auto" { (format::visible(&one.name)) } "." },
            many => { (format::counted(waits, "claim waits", "claims wait")) " in " (many.len()) " pools." },
        }
        @for pool in troubled.take(3) {
            " " a.c-bad href=(address(view, &pool.name)) { "The provider of " bdi { (format::visible(&pool.name)) } " refuses." }
        }
    }
}

fn list(view: &View, pools: &[PoolView]) -> Markup {
    html! {
        div.scroll-x id="pools-list" {
            @if pools.is_empty() {
                (parts::empty("pool", "No pool yet.", html! {
                    p.soft { "A pool keeps machines ready, so that a job begins in seconds. To try it on this machine:" }
                    (parts::command(&view.command("pool create try --min-idle 2 --max-size 4", true)))
                    (parts::command(&view.command("pool claim try --run-id job-1", true)))
                }))
            } @else {
                table {
                    thead { tr {
                        th { "Pool" } th { "Machines" } th.num { "Ready" } th.num { "Claimed" } th.num { "Running" } th.num { "Creating" } th.num { "Waiting" } th { "State" }
                    } }
                    tbody { @for pool in pools { (row(view, pool)) } }
                }
            }
        }
    }
}

fn row(view: &View, pool: &PoolView) -> Markup {
    let count = |state| format::number(in_state(pool, state));
    let (size, most) = (size(pool), u64::from(pool.max_size));
    html! {
        tr data-row data-key=(pool.name) {
            td {
                a.b.cut dir="auto" href=(address(view, &pool.name)) { (format::visible(&pool.name)) }
                div.sm.soft { (machines_of(pool)) }
            }
            td { span.row { (parts::bar(size as f64 / most.max(1) as f64, if size >= most { Tone::Warn } else { Tone::Run })) span.nowrap { (format::number(size)) span.dim { " of " (format::number(most)) } } } }
            td.num { (count(RunnerState::Idle)) span.dim { " of " (format::number(u64::from(pool.min_idle_now))) } }
            td.num { (count(RunnerState::Claimed)) }
            td.num { (count(RunnerState::Running)) }
            td.num { (count(RunnerState::Creating)) }
            td.num { @if pool.waiting_claims > 0 { span.b.c-warn { (format::number(pool.waiting_claims)) } } @else { "0" } }
            td { (state(pool)) }
        }
    }
}

fn state(pool: &PoolView) -> Markup {
    html! {
        @if pool.deleting { span.st.held { (icon("pause")) "being deleted" } }
        @else if let Some(error) = &pool.error { span.st.bad { (icon("bad")) "refused" } div.sm.soft dir="auto" { (format::first_line(error, 160)) } }
        @else if pool.waiting_claims > 0 { span.st.held { (icon("wait")) "claims wait" } }
        @else if in_state(pool, RunnerState::Idle) < u64::from(pool.min_idle_now) { span.st.run { (icon("start")) "filling" } }
        @else { span.st.ok { (icon("ok")) "ready" } }
    }
}

/// What the machines of a pool are.
fn machines_of(pool: &PoolView) -> Markup {
    html! {
        bdi { (format::visible(&pool.provider)) } ", "
        (format::counted(u64::from(pool.cpu), "core", "cores")) ", " (memory(pool.memory_mib))
        @if pool.usage == baton_core::pools::Usage::Spot { ", spot" @if pool.spot_fallback { " first" } }
    }
}

/// Memory, in the units in which machines are sold.
fn memory(mib: u64) -> String {
    match mib {
        ..1_024 => format!("{mib} MiB"),
        _ if mib.is_multiple_of(1_024) => format!("{} GiB", format::number(mib / 1_024)),
        _ => format!("{:.1} GiB", mib as f64 / 1_024.0),
    }
}

// ---- one pool

/// One pool.
pub async fn one(view: &View, name: &str) -> Result<Page, Error> {
    let board = board::get(&view.app, &view.caller, &view.namespace, name, view.now - DAY).await?;
    let others = Rows { after: None, limit: 12 };
    let others = read::list(&view.app, &view.caller, Some(&view.namespace), others).await?;
    let hits = hits(view, name).await?;
    let ready = claims::ready(view, name).await?;
    let pool = &board.pool;
    let main = html! {
        div.page-head {
            @if others.len() > 1 { (seg(view, pool, &others)) }
            span.soft.hide-s { (machines_of(pool)) " · " (format::number(u64::from(pool.min_idle_now))) " to " (format::number(u64::from(pool.max_size))) " machines" }
            div.end { (actions(view, pool)) }
        }
        div.stack {
            (part("pool-explain", &explain(view, &board)))
            (part("pool-stats", &stats(view, &board, &hits)))
            (map::lanes(view, &board))
            (part("pool-claims", &claims::waiting(view, &board)))
            @if !ready.is_empty() { (part("pool-ready", &claims::ready_table(view, &ready))) }
            div.grid.g2 {
                (part("pool-hits", &hits_chart(&hits)))
                (part("pool-ended", &ended_table(view, &board)))
            }
        }
    };
    Ok(Page::new(Entry::Pools, name.to_owned(), main).below("Pools", view.href("/pools")))
}

fn seg(view: &View, pool: &PoolView, others: &[PoolView]) -> Markup {
    html! {
        nav.seg aria-label="Pool" {
            @for other in others {
                a href=(address(view, &other.name)) aria-current=[(other.name == pool.name).then_some("true")] dir="auto" {
                    (format::visible(&other.name)) @if other.waiting_claims > 0 || other.error.is_some() { (icon("warn")) }
                }
            }
        }
    }
}

fn actions(view: &View, pool: &PoolView) -> Markup {
    let form = format!("/form/pools/{}", escape(&pool.name));
    html! {
        @if view.may(Scope::Submit) && !pool.deleting { (ask::link(view, "", &format!("{form}/claim"), "Claim")) }
        @if view.may(Scope::Admin) {
            @if !pool.deleting { (ask::link(view, "", &format!("{form}/edit"), "Edit")) }
            (ask::link(view, "danger", &format!("{form}/remove"), "Remove"))
        }
    }
}

/// One sentence that says what is the matter, and what else is known.
fn explain(view: &View, board: &Board) -> Markup {
    let pool = &board.pool;
    let waiting = board.claims.len() as u64;
    let short: u32 = board.claims.iter().map(|one| one.claim.count.saturating_sub(one.claim.live.unwrap_or(0))).sum();
    let never = board.claims.iter().filter(|one| matches!(one.why, Why::Never(_))).count() as u64;
    let (creating, idle) = (in_state(pool, RunnerState::Creating), in_state(pool, RunnerState::Idle));
    let is_full = size(pool) >= u64::from(pool.max_size);
    let (tone, glyph) = match (pool.deleting, &pool.error, waiting) {
        (true, _, _) => ("warn", "pause"),
        (_, Some(_), _) => ("bad", "bad"),
        (_, None, 0) if idle < u64::from(pool.min_idle_now) => ("run", "start"),
        (_, None, 0) => ("ok", "ok"),
        (_, None, _) if is_full || never > 0 => ("warn", "warn"),
        _ => ("run", "wait"),
    };
    let soonest = soonest_back(board);
    html! {
        section class={ "explain " (tone) } id="pool-explain" {
            span class={ "c-" (tone) } { (icon(glyph)) }
            p {
                @if pool.deleting { "The pool is being deleted, and goes when the last of its " (format::counted(size(pool), "machine has", "machines have")) " ended. " }
                @if waiting > 0 {
                    b.b { (format::counted(waiting, "claim waits", "claims wait")) }
                    @if short > 0 { ", and " (format::counted(u64::from(short), "machine is", "machines are")) " short. " } @else { "; their machines register. " }
                } @else if !pool.deleting {
                    "No claim waits. "
                    @if idle == 0 && pool.min_idle_now == 0 { "Machines are made when one comes. " }
                    @else { (format::counted(idle, "machine is", "machines are")) " ready, of " (format::number(u64::from(pool.min_idle_now))) " that are to be. " }
                }
                @if let Some(error) = &pool.error { "The provider says: " q dir="auto" { (format::first_line(error, 300)) } " " }
                @else if creating > 0 { b.b { (format::counted(creating, "machine is", "machines are")) " being created" } ". " }
                @if never > 0 { b.b.c-bad { (format::counted(never, "of them can", "of them can")) " never be filled." } }
            }
            ul {
                li { (format::number(size(pool))) " of " (format::number(u64::from(pool.max_size))) " machines exist" @if is_full { ": the pool is at its largest size" } }
                @if let Some(at) = pool.create_after { li { "machines are asked for again " (parts::ago(view, at.0)) } }
                @if let Some((run, at)) = soonest.filter(|_| waiting > 0 && is_full) {
                    li { "first machine back: " bdi { (format::visible(run)) } ", at the latest " (parts::ago(view, at)) }
                }
            }
        }
    }
}

/// Whose machine comes back first, and when at the latest.
fn soonest_back(board: &Board) -> Option<(&str, Millis)> {
    let back =
        board.machines.iter().filter(|one| matches!(one.runner.state, RunnerState::Releasing | RunnerState::Running));
    back.filter_map(|one| Some((one.runner.run_id.as_deref()?, one.runner.deadline?.0))).min_by_key(|(_, at)| *at)
}

fn stats(view: &View, board: &Board, hits: &Hits) -> Markup {
    let pool = &board.pool;
    let oldest = board.claims.iter().map(|one| one.claim.opened_at.0).min();
    let (warm, cold) = (hits.warm.iter().sum::<f64>() as u64, hits.cold.iter().sum::<f64>() as u64);
    let ended: u64 = board.ended.iter().map(|ended| ended.count).sum();
    let worst = board.ended.iter().filter(|ended| is_bad(ended.cause)).max_by_key(|ended| ended.count);
    let span = |ms: Option<u64>| {
        ms.map_or_else(|| format::MISSING.to_owned(), |ms| format::duration(i64::try_from(ms).unwrap_or(i64::MAX)))
    };
    let statistics = pool.statistics.clone().unwrap_or_default();
    let number = |state| format::number(in_state(pool, state));
    html! {
        section.panel.stats.s5 id="pool-stats" aria-label="Numbers" {
            div { span.k { "Machines" } div.v { (format::number(size(pool))) span.of { " of " (format::number(u64::from(pool.max_size))) } }
                div.s { (number(RunnerState::Idle)) " ready, " (number(RunnerState::Claimed)) " claimed, " (number(RunnerState::Creating)) " creating" } }
            div { span.k { "Warm hits, 24 h" } div.v { (format::percent(warm, warm + cold)) } div.s { (format::number(warm)) " of " (format::counted(warm + cold, "machine", "machines")) } }
            div { span.k { "Claim to hand-over, p50" } div.v { (span(statistics.wait_p50_ms)) } div.s { "p99 " (span(statistics.wait_p99_ms)) ", of the last 1,000" } }
            div { span.k { "Claims waiting" } div.v { (format::number(pool.waiting_claims)) }
                div.s { @if let Some(at) = oldest { "oldest " (parts::ago(view, at)) } @else { "none" } } }
            div { span.k { "Ended, 24 h" } div.v { (format::number(ended)) @if board.is_ended_cut { span.of { " at least" } } }
                div.s { @if let Some(worst) = worst { (worst.count) " because " (worst.cause.as_str()) } @else { "none that failed" } } }
        }
    }
}

/// Whether somebody has to look at why machines ended.
fn is_bad(cause: Cause) -> bool {
    match cause {
        Cause::IdleTooLong | Cause::Surplus | Cause::PoolDeleted | Cause::RuntimeOver | Cause::Asked => false,
        Cause::CreateFailed
        | Cause::CreateTimeout
        | Cause::RegisterFailed
        | Cause::RegisterTimeout
        | Cause::Silent
        | Cause::Abandoned
        | Cause::ReleaseFailed
        | Cause::ReleaseTimeout
        | Cause::Lost => true,
    }
}

/// Machines handed over, by hour.
struct Hits {
    warm: Vec<f64>,
    cold: Vec<f64>,
    ticks: Vec<String>,
}

async fn hits(view: &View, name: &str) -> Result<Hits, Error> {
    let wanted = Wanted {
        range: Some(Range::Day),
        namespace: Some(view.namespace.clone()),
        pool: Some(name.to_owned()),
        series: Some("hits".into()),
        ..Wanted::default()
    };
    let read = statistics::get(&view.app, &view.caller, wanted).await?;
    let first = view.now - view.now.rem_euclid(HOUR) - (HOURS - 1) * HOUR;
    let by_hour = |name: &str| {
        let found = read.series.iter().find(|series| series.name == name);
        let values = found.into_iter().flat_map(|series| read.times.iter().zip(&series.values));
        let points = values.filter_map(|(at, value)| Some((at.0, (*value)?)));
        by_hour(points, first)
    };
    let ticks = [0, HOURS / 2, HOURS - 1].map(|hour| first + hour * HOUR);
    let ticks = ticks.map(|at| format::clock(at, view.now, &view.zone, Precision::Minutes)).into();
    Ok(Hits { warm: by_hour("hits.warm"), cold: by_hour("hits.cold"), ticks })
}

/// Sums by hour, from the hour that begins at `first` on.
fn by_hour(points: impl Iterator<Item = (Millis, f64)>, first: Millis) -> Vec<f64> {
    let mut sums = vec![0.0; HOURS as usize];
    for (at, value) in points {
        let hour = usize::try_from((at - first).div_euclid(HOUR)).ok();
        if let Some(sum) = hour.and_then(|hour| sums.get_mut(hour)) {
            *sum += value;
        }
    }
    sums
}

fn hits_chart(hits: &Hits) -> Markup {
    let (warm, cold): (f64, f64) = (hits.warm.iter().sum(), hits.cold.iter().sum());
    let label = format!("{warm} warm and {cold} cold machines handed over in 24 hours, by hour");
    let series = [("warm", Tone::Run, hits.warm.clone()), ("cold", Tone::Warn, hits.cold.clone())];
    html! {
        section.panel id="pool-hits" aria-label="Handed over" {
            header { h2 { "Handed over, an hour" } span.end.legend {
                span { svg aria-hidden="true" { rect.fill-run y="1" width="10" height="8" {} } "warm" }
                span { svg aria-hidden="true" { rect.fill-warn y="1" width="10" height="8" {} } "cold, on top" }
            } }
            div.body {
                @if warm + cold > 0.0 { (parts::bars(&Bars { label: &label, series: &series, ticks: &hits.ticks })) }
                @else { p.none { "No machine was handed over in the last 24 hours." } }
            }
        }
    }
}

fn ended_table(view: &View, board: &Board) -> Markup {
    let count: u64 = board.ended.iter().map(|ended| ended.count).sum();
    html! {
        section.panel id="pool-ended" aria-label="Ended machines" {
            header { h2 { "Ended machines, 24 h" } span.count { (format::number(count)) @if board.is_ended_cut { " at least: only the last moves were looked at" } } }
            @if board.ended.is_empty() { p.body.none { "None." } } @else {
                div.scroll-x { table {
                    thead { tr { th { "Because" } th.num { "Machines" } th { "Last" } } }
                    tbody { @for ended in &board.ended { (ended_row(view, ended)) } }
                } }
            }
        }
    }
}

fn ended_row(view: &View, ended: &Ended) -> Markup {
    html! {
        tr {
            td { span.b.c-bad[is_bad(ended.cause)] { (ended.cause.as_str()) } }
            td.num { (format::number(ended.count)) }
            td.soft { (parts::ago(view, ended.last_at)) @if !ended.last_detail.is_empty() { ", " span dir="auto" { (format::first_line(&ended.last_detail, 120)) } } }
        }
    }
}

/// What stands in a list as `name=value`, one a line.
fn as_lines(options: &BTreeMap<String, String>) -> String {
    options.iter().map(|(name, value)| format!("{name}={value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_summed_and_others_left_out() {
        let first = 100 * HOUR;
        let points =
            [(first - 1, 9.0), (first, 1.0), (first + HOUR - 1, 2.0), (first + HOUR, 4.0), (first + 24 * HOUR, 8.0)];
        let sums = by_hour(points.into_iter(), first);
        assert_eq!((sums.len(), sums[0], sums[1], sums[2]), (24, 3.0, 4.0, 0.0));
    }

    #[test]
    fn memory_is_in_the_units_of_machines() {
        assert_eq!(
            [memory(512), memory(1_024), memory(1_536), memory(32_768)],
            ["512 MiB", "1 GiB", "1.5 GiB", "32 GiB"]
        );
    }
}
