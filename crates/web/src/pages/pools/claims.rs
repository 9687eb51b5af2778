//! Claims of a pool: those that wait, with why, and those that have machines.

use baton_core::pools::ClaimState;
use baton_core::pools::why::Why;
use baton_proto::ListedClaim;
use baton_server::service::pools::board::{Board, WaitingClaim};
use baton_server::service::pools::claims;
use baton_server::{Error, Page as Rows, Scope};
use maud::{Markup, html};

use crate::ask;
use crate::format::{self, Precision};
use crate::parts::{self, Tone, chip};
use crate::query::escape;
use crate::view::View;

/// How many claims that wait are shown; those behind them are counted.
const WAITING_MAX: usize = 50;
/// How many claims that have machines are shown.
const READY_MAX: usize = 50;

/// Claims that have their machines.
pub async fn ready(view: &View, pool: &str) -> Result<Vec<ListedClaim>, Error> {
    let rows = Rows { after: None, limit: READY_MAX };
    let listed = claims::list(&view.app, &view.caller, &view.namespace, pool, Some(ClaimState::Ready), rows).await?;
    Ok(listed.0)
}

/// Claims that wait.
pub fn waiting(view: &View, board: &Board) -> Markup {
    let left = board.claims.len().saturating_sub(WAITING_MAX);
    html! {
        section.panel id="pool-claims" aria-label="Claims waiting" {
            header { h2 { "Claims waiting" } span.count { (format::number(board.pool.waiting_claims)) } }
            @if board.claims.is_empty() {
                div.body.stack {
                    p.none { "None. A claim asks for machines and waits until it has all of them:" }
                    (parts::command(&view.command(&format!("pool claim {} --run-id job-1", parts::word(&board.pool.name)), true)))
                }
            } @else {
                div.scroll-x { table {
                    thead { tr { th { "Run" } th.num { "Priority" } th { "Has" } th.num { "Waits" } th.num { "Gives up" } th { "Why" } th { span.sr { "Actions" } } } }
                    tbody { @for one in board.claims.iter().take(WAITING_MAX) { (row(view, board, one)) } }
                } }
                @if left > 0 { footer { (format::number(left as u64)) " more wait behind these." } }
            }
        }
    }
}

fn row(view: &View, board: &Board, one: &WaitingClaim) -> Markup {
    let claim = &one.claim;
    let has = claim.live.unwrap_or(0);
    html! {
        tr data-row data-key=(claim.run_id) {
            td { span.b.cut dir="auto" { (format::visible(&claim.run_id)) } }
            td.num { (claim.priority) }
            td { span.row.sm { (parts::bar(f64::from(has) / f64::from(claim.count.max(1)), Tone::Run)) span.nowrap { (has) " of " (claim.count) } } }
            td.num.nowrap { (parts::ago(view, claim.opened_at.0)) }
            td.num.soft { @if let Some(at) = claim.deadline { (parts::clock(view, at.0, Precision::Seconds)) } @else { span.dim { "never" } } }
            td { (why(view, board, one)) }
            td { (release(view, board, claim, "Give up")) }
        }
    }
}

fn release(view: &View, board: &Board, claim: &ListedClaim, label: &str) -> Markup {
    release_of(view, &board.pool.name, claim, label)
}

fn release_of(view: &View, pool: &str, claim: &ListedClaim, label: &str) -> Markup {
    let path = format!("/form/pools/{}/release?run={}", escape(pool), escape(&claim.run_id));
    html! { @if view.may(Scope::Submit) { div.actions { (ask::link(view, "small danger", &path, label)) } } }
}

fn why(view: &View, board: &Board, one: &WaitingClaim) -> Markup {
    let (claim, pool) = (&one.claim, &board.pool);
    let needs = claim.count.saturating_sub(claim.live.unwrap_or(0));
    let size: u64 = pool.runners.values().sum();
    let run_at = |place: usize| board.claims.get(place).map_or("", |other| other.claim.run_id.as_str());
    html! {
        span.row {
            @match &one.why {
                Why::Never(why) => { (chip("bad", "bad", "can never be filled")) span.soft.sm { (format::first_line(why, 200)) } },
                Why::Registering(left) => { (chip("sleep", "later", "registering")) span.soft.sm { (format::counted(u64::from(*left), "machine runs its hook", "machines run their hook")) } },
                Why::HandingOver => { (chip("run", "hand", "is handed over")) },
                Why::Held(why) => { (chip("warn", "pause", "held")) span.soft.sm dir="auto" { (format::first_line(why, 200)) } },
                Why::Behind(first) => { (chip("", "wait", &format!("behind {}", format::visible(run_at(*first))))) span.soft.sm { "needs " (needs) } },
                Why::Coming(count) => { (chip("run", "start", "coming")) span.soft.sm { (count) " of the " (needs) " it needs " (if *count == 1 { "is" } else { "are" }) " being created" } },
                Why::Full => { (chip("warn", "warn", "pool is full")) span.soft.sm { "holds " (claim.count - needs) ", needs " (needs) " more; " (size) " of " (pool.max_size) " exist" } },
                Why::NotAsked => {
                    (chip("warn", "wait", "no machine yet"))
                    span.soft.sm { @if let Some(at) = pool.create_after { "machines are asked for again " (parts::ago(view, at.0)) } @else { "needs " (needs) "; they are asked for next" } }
                },
            }
        }
    }
}

/// Claims that have their machines.
pub fn ready_table(view: &View, ready: &[ListedClaim]) -> Markup {
    html! {
        section.panel id="pool-ready" aria-label="Claims that have machines" {
            header { h2 { "Claims that have machines" } span.count { "newest first" @if ready.len() == READY_MAX { ", the last " (READY_MAX) } } }
            div.scroll-x { table {
                thead { tr { th { "Run" } th { "Machines" } th.num { "Waited" } th.num { "Since" } th.num { "At most until" } th { span.sr { "Actions" } } } }
                tbody {
                    @for claim in ready {
                        tr data-row data-key=(claim.run_id) {
                            td { span.b.cut dir="auto" { (format::visible(&claim.run_id)) } }
                            td { (claim.live.unwrap_or(0)) " of " (claim.count) @if claim.live.unwrap_or(0) < claim.count { " " span.chip.warn { span { "some were lost" } } } }
                            td.num { @if let Some(at) = claim.ready_at { (format::duration(at.0 - claim.opened_at.0)) } }
                            td.num.nowrap { @if let Some(at) = claim.ready_at { (parts::ago(view, at.0)) } }
                            td.num.soft { @if let Some(at) = claim.deadline { (parts::clock(view, at.0, Precision::Minutes)) } }
                            td { (release_of(view, &claim.pool, claim, "Release")) }
                        }
                    }
                }
            } }
        }
    }
}
