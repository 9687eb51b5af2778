//! The map of a pool: lanes in the order of a machine's life, machines by deadline.

use baton_core::Millis;
use baton_core::pools::RunnerState;
use baton_server::service::pools::board::{Board, BoardMachine};
use maud::{Markup, html};

use crate::format;
use crate::page::part;
use crate::parts::{self, Tone, icon};
use crate::query::escape;
use crate::view::View;

/// With more machines than this, tiles become squares.
const TILES_MAX: usize = 200;
/// Most squares of a lane; the rest is counted.
const SQUARES_MAX: usize = 500;

struct Lane {
    state: RunnerState,
    name: &'static str,
    icon: &'static str,
    /// The class of its tiles.
    class: &'static str,
    id: &'static str,
    tone: Tone,
}

const LANES: [Lane; 6] = [
    lane(RunnerState::Creating, "Creating", "start", "creating", "lane-creating", Tone::Plain),
    lane(RunnerState::Idle, "Ready", "ok", "idle", "lane-idle", Tone::Ok),
    lane(RunnerState::Claimed, "Claimed", "later", "claimed", "lane-claimed", Tone::Run),
    lane(RunnerState::Running, "Running", "run", "running", "lane-running", Tone::Run),
    lane(RunnerState::Releasing, "Releasing", "stop", "going", "lane-releasing", Tone::Plain),
    lane(RunnerState::Terminating, "Ending", "off", "going", "lane-ending", Tone::Plain),
];

const fn lane(
    state: RunnerState,
    name: &'static str,
    icon: &'static str,
    class: &'static str,
    id: &'static str,
    tone: Tone,
) -> Lane {
    Lane { state, name, icon, class, id, tone }
}

/// The map.
pub fn lanes(view: &View, board: &Board) -> Markup {
    let is_small = board.machines.len() > TILES_MAX;
    html! {
        section.panel aria-label="Machines" {
            header {
                h2 { "Machines" }
                span.count { "by state, soonest deadline first" }
                @if !is_small {
                    span.end.legend.hide-s { span { (parts::bar(0.6, Tone::Run)) } span { "time used until the server gives it up" } }
                }
            }
            div.lanes.many[is_small] { @for lane in &LANES { (part(lane.id, &lane_of(view, board, lane, is_small))) } }
        }
    }
}

fn lane_of(view: &View, board: &Board, lane: &Lane, is_small: bool) -> Markup {
    let mut machines: Vec<&BoardMachine> = board.machines.iter().filter(|one| one.runner.state == lane.state).collect();
    machines.sort_by_key(|one| (one.runner.deadline.map_or(Millis::MAX, |at| at.0), one.runner.id.clone()));
    let left = machines.len().saturating_sub(SQUARES_MAX);
    html! {
        div.mlane id=(lane.id) {
            h3 {
                (icon(lane.icon)) (lane.name)
                span.n { (format::number(machines.len() as u64)) @if lane.state == RunnerState::Idle { " of " (format::number(u64::from(board.pool.min_idle_now))) } }
            }
            ul.squares[is_small] {
                @for one in machines.iter().take(SQUARES_MAX) {
                    li { @if is_small { (square(view, board, one, lane)) } @else { (tile(view, board, one, lane)) } }
                }
                @if machines.is_empty() { li.none { (nothing(board, lane.state)) } }
                @if left > 0 { li.none { "and " (format::number(left as u64)) " more, with later deadlines" } }
            }
        }
    }
}

/// What it means that a lane is empty.
fn nothing(board: &Board, state: RunnerState) -> &'static str {
    match state {
        RunnerState::Idle if !board.claims.is_empty() => "None: what comes back goes to the claims below.",
        _ => "None.",
    }
}

/// The share of its time that a machine has used, and whether less than a tenth of it is left.
fn used(since: Millis, deadline: Option<Millis>, now: Millis) -> Option<(f64, bool)> {
    let whole = (deadline? - since).max(1) as f64;
    let share = ((now - since).max(0) as f64 / whole).min(1.0);
    // In steps, so that a page is not sent again for what nobody sees.
    Some(((share * 50.0).floor() / 50.0, share > 0.9))
}

fn end_of(id: &str) -> &str {
    id.get(id.len().saturating_sub(6)..).unwrap_or(id)
}

fn address(view: &View, board: &Board, id: &str) -> String {
    view.href(&format!("/pools/{}/machines/{id}", escape(&board.pool.name)))
}

fn tile(view: &View, board: &Board, one: &BoardMachine, lane: &Lane) -> Markup {
    let runner = &one.runner;
    let used = used(runner.since.0, runner.deadline.map(|at| at.0), view.now);
    let is_late = used.is_some_and(|(_, is_late)| is_late);
    let class = format!("mach {}{}", lane.class, if is_late { " late" } else { "" });
    html! {
        a class=(class) href=(address(view, board, &runner.id)) data-key=(runner.id) {
            span.id { (end_of(&runner.id)) } br;
            span.cut dir="auto" { (what(view, one)) } br;
            @if let Some(at) = runner.deadline { span.dim[!is_late].b[is_late] { (parts::ago(view, at.0)) } }
            @else { span.dim { "for " (parts::ago(view, runner.since.0)) } }
            @if let Some((share, _)) = used { (parts::bar(share, if is_late { Tone::Warn } else { lane.tone })) }
        }
    }
}

/// What a machine does, in a word or two.
fn what(view: &View, one: &BoardMachine) -> Markup {
    let runner = &one.runner;
    let run = runner.run_id.as_deref().unwrap_or_default();
    html! {
        @match runner.state {
            RunnerState::Creating => { "ordered " (parts::ago(view, runner.ordered_at.0)) },
            RunnerState::Idle => (format::visible(&runner.kind)),
            RunnerState::Claimed if one.is_registered => { "ready for " (format::visible(run)) },
            RunnerState::Claimed => { "registers, " (format::visible(run)) },
            RunnerState::Running => (format::visible(run)),
            RunnerState::Releasing => { "cleans up, " (format::visible(run)) },
            RunnerState::Terminating | RunnerState::Gone => (runner.cause.map_or("", |cause| cause.as_str())),
        }
    }
}

fn square(view: &View, board: &Board, one: &BoardMachine, lane: &Lane) -> Markup {
    let runner = &one.runner;
    let is_late = used(runner.since.0, runner.deadline.map(|at| at.0), view.now).is_some_and(|(_, is_late)| is_late);
    let class = format!("sq {}{}", lane.class, if is_late { " late" } else { "" });
    let run = runner.run_id.as_deref().map(|run| format!(", {}", format::visible(run))).unwrap_or_default();
    let until = runner
        .deadline
        .map(|at| format!(", until {}", format::clock(at.0, view.now, &view.zone, format::Precision::Seconds)));
    let title = format!("{}: {}{run}{}", end_of(&runner.id), lane.name.to_lowercase(), until.unwrap_or_default());
    html! { a class=(class) href=(address(view, board, &runner.id)) title=(title) {} }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_tenth_is_late() {
        assert_eq!(used(0, None, 5), None);
        assert_eq!(used(0, Some(100), 50), Some((0.5, false)));
        assert_eq!(used(0, Some(100), 90), Some((0.9, false)));
        assert_eq!(used(0, Some(100), 91), Some((0.9, true)));
        assert_eq!(used(0, Some(100), 500), Some((1.0, true)));
        assert_eq!(used(10, Some(10), 5), Some((0.0, false)));
    }

    #[test]
    fn every_live_state_has_a_lane() {
        let live = RunnerState::ALL.into_iter().filter(|state| *state != RunnerState::Gone);
        assert!(live.eq(LANES.iter().map(|lane| lane.state)));
        assert_eq!((end_of("0199a3c4"), end_of("ab")), ("99a3c4", "ab"));
    }
}
