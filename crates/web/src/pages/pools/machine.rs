//! `/pools/{name}/machines/{id}`: the life of a machine, and why it ended.

use baton_core::Millis;
use baton_core::pools::RunnerState;
use baton_proto::{RunnerMove, RunnerView};
use baton_server::service::pools::runners;
use baton_server::{Error, Scope};
use maud::{Markup, html};

use crate::ask;
use crate::format::{self, Precision};
use crate::page::{Entry, Page, part};
use crate::parts::{self, icon};
use crate::query::escape;
use crate::view::View;

/// The page.
pub async fn page(view: &View, pool: &str, id: &str) -> Result<Page, Error> {
    let runner = runners::get(&view.app, &view.caller, &view.namespace, pool, id).await?;
    let can_end = !matches!(runner.state, RunnerState::Terminating | RunnerState::Gone) && view.may(Scope::Admin);
    let form = format!("/form/pools/{}/machines/{}/end", escape(pool), escape(id));
    let main = html! {
        div.stack {
            div.page-head {
                (part("machine-state", &html! { span id="machine-state" { (badge(runner.state)) } }))
                span.id { (runner.id) }
                @if can_end { div.end { (ask::link(view, "danger", &form, "End it")) } }
            }
            (part("machine-said", &said(view, &runner)))
            (part("machine-life", &life(view, &runner)))
            div.split {
                (part("machine-moves", &moves(view, &runner)))
                (part("machine-facts", &facts(view, &runner)))
            }
        }
    };
    let page = Page::new(Entry::Pools, format::short_id(id), main).below("Pools", view.href("/pools"));
    Ok(page.below(pool, view.href(&format!("/pools/{}", escape(pool)))))
}

fn word(state: RunnerState) -> &'static str {
    match state {
        RunnerState::Creating => "creating",
        RunnerState::Idle => "ready",
        RunnerState::Claimed => "claimed",
        RunnerState::Running => "running",
        RunnerState::Releasing => "releasing",
        RunnerState::Terminating => "ending",
        RunnerState::Gone => "gone",
    }
}

fn look(state: RunnerState) -> (&'static str, &'static str) {
    match state {
        RunnerState::Creating => ("wait", "start"),
        RunnerState::Idle => ("ok", "ok"),
        RunnerState::Claimed => ("sleep", "later"),
        RunnerState::Running => ("run", "run"),
        RunnerState::Releasing => ("wait", "stop"),
        RunnerState::Terminating | RunnerState::Gone => ("off", "off"),
    }
}

fn badge(state: RunnerState) -> Markup {
    let (class, name) = look(state);
    html! { span class={ "st " (class) " badge" } { (icon(name)) (word(state)) } }
}

fn said(view: &View, runner: &RunnerView) -> Markup {
    let run = runner.run_id.as_deref().unwrap_or_default();
    let until = html! { @if let Some(at) = runner.deadline { " The server gives it up " (parts::ago(view, at.0)) ", unless it says something." } };
    let (tone, glyph) = match runner.cause {
        Some(cause) if super::is_bad(cause) => ("bad", "bad"),
        _ => ("run", look(runner.state).1),
    };
    html! {
        section class={ "explain " (tone) } id="machine-said" {
            span class={ "c-" (tone) } { (icon(glyph)) }
            p {
                @match runner.state {
                    RunnerState::Creating => { "Its machine was asked for " (parts::ago(view, runner.ordered_at.0)) " ago, and has not said that it is up." (until) },
                    RunnerState::Idle => { "It waits for a claim since " (parts::ago(view, runner.since.0)) "." @if let Some(at) = runner.deadline { " It is ended " (parts::ago(view, at.0)) " if nobody needs it." } },
                    RunnerState::Claimed => { "The claim " b.b dir="auto" { (format::visible(run)) } " has taken it; it registers for that." (until) },
                    RunnerState::Running => { "It was handed over to " b.b dir="auto" { (format::visible(run)) } " " (parts::ago(view, runner.since.0)) " ago." @if let Some(at) = runner.deadline { " It may be kept until " (parts::clock(view, at.0, Precision::Minutes)) "." } },
                    RunnerState::Releasing => { "It was given back and cleans up." (until) },
                    RunnerState::Terminating => { "It is being ended" (because(runner)) " The provider has not said yet that its machine is gone." },
                    RunnerState::Gone => { "It is gone" (because(runner)) },
                }
            }
            @if !runner.detail.is_empty() { ul { li dir="auto" { (format::first_line(&runner.detail, 400)) } } }
        }
    }
}

fn because(runner: &RunnerView) -> Markup {
    html! { @if let Some(cause) = runner.cause { ", because " b.b { (cause.as_str()) } } "." }
}

/// A stretch of a machine's life.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Stretch {
    state: RunnerState,
    from: Millis,
    to: Millis,
}

/// The stretches of a life, oldest first. Moves are the newest first; the last one lasts until now, unless nothing comes after it.
fn stretches(moves: &[RunnerMove], now: Millis) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    for one in moves.iter().rev() {
        if let Some(last) = stretches.last_mut() {
            if last.state == one.to {
                continue;
            }
            last.to = one.at.0;
        }
        stretches.push(Stretch { state: one.to, from: one.at.0, to: now.max(one.at.0) });
    }
    stretches.retain(|stretch| stretch.state != RunnerState::Gone);
    stretches
}

/// The life as a line: a bar for each state, as wide as it lasted.
fn life(view: &View, runner: &RunnerView) -> Markup {
    let stretches = stretches(&runner.moves, view.now);
    let (Some(first), Some(last)) = (stretches.first(), stretches.last()) else {
        return html! { section.panel id="machine-life" { p.body.none { "Its moves are not kept any more." } } };
    };
    let whole = (last.to - first.from).max(1) as f64;
    let share = |at: Millis| (at - first.from) as f64 / whole * 100.0;
    let label: Vec<String> =
        stretches.iter().map(|one| format!("{} {}", word(one.state), format::duration(one.to - one.from))).collect();
    html! {
        section.panel id="machine-life" aria-label="Life" {
            header { h2 { "Life" } span.count { (format::duration(last.to - first.from)) ", claimed " (format::counted(u64::from(runner.uses), "time", "times")) } }
            div.body {
                div.phases {
                    svg role="img" aria-label=(label.join(", ")) preserveAspectRatio="none" {
                        @for one in &stretches {
                            rect class={ "life " (look(one.state).0) " " (word(one.state)) } x={ (format!("{:.2}", share(one.from))) "%" }
                                width={ (format!("{:.2}", (share(one.to) - share(one.from)).max(0.3))) "%" } y="2" height="18" rx="2" {
                                title { (word(one.state)) ", " (format::duration(one.to - one.from)) }
                            }
                        }
                    }
                    ol { @for one in &stretches { li { span class={ "c-" (look(one.state).0) } { (icon(look(one.state).1)) } (word(one.state)) " " (format::duration(one.to - one.from)) } } }
                }
            }
        }
    }
}

fn moves(view: &View, runner: &RunnerView) -> Markup {
    html! {
        section.panel id="machine-moves" aria-label="Moves" {
            header { h2 { "Moves" } span.count { "newest first" } }
            @if runner.moves.is_empty() { p.body.none { "None are kept." } } @else {
                div.scroll-x { table {
                    thead { tr { th { "When" } th { "From" } th { "To" } th { "Because" } } }
                    tbody {
                        @for one in &runner.moves {
                            tr {
                                td.nowrap { (parts::clock(view, one.at.0, Precision::Tenths)) }
                                td { @match one.from { Some(from) => (word(from)), None => span.dim { "ordered" } } }
                                td { span.b { @if one.from == Some(one.to) { "registered" } @else { (word(one.to)) } } }
                                td {
                                    @if let Some(cause) = one.cause { span.c-bad[super::is_bad(cause)] { (cause.as_str()) } " " }
                                    span.soft dir="auto" { (format::first_line(&one.detail, 300)) }
                                }
                            }
                        }
                    }
                } }
            }
        }
    }
}

fn facts(view: &View, runner: &RunnerView) -> Markup {
    html! {
        aside.panel id="machine-facts" aria-label="Machine" {
            header { h2 { "Machine" } }
            div.body {
                dl.kv {
                    dt { "Provider's name" } dd { @if let Some(id) = &runner.machine_id { code dir="auto" { (format::visible(id)) } } @else { span.dim { "not yet" } } }
                    dt { "Type" } dd dir="auto" { @if runner.kind.is_empty() { span.dim { (format::MISSING) } } @else { (format::visible(&runner.kind)) } }
                    dt { "Cores" } dd { (runner.cpu) }
                    dt { "Memory" } dd { (super::memory(runner.memory_mib)) }
                    dt { "Paid for" } dd { @match runner.usage { baton_core::pools::Usage::Spot => "spot", baton_core::pools::Usage::OnDemand => "on demand" } }
                    dt { "Ordered" } dd { (parts::ago(view, runner.ordered_at.0)) }
                    dt { "Last heard of" } dd { @if let Some(at) = runner.seen_at { (parts::ago(view, at.0)) } @else { span.dim { "never" } } }
                    @if let Some(run) = &runner.run_id { dt { "Run" } dd dir="auto" { (format::visible(run)) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_proto::Time;

    use super::*;

    #[test]
    fn a_life_is_told_by_its_moves() {
        let step = |at, from, to| RunnerMove { at: Time(at), from, to, cause: None, detail: String::new() };
        let moves = [
            step(90, Some(RunnerState::Terminating), RunnerState::Gone),
            step(80, Some(RunnerState::Idle), RunnerState::Terminating),
            step(30, Some(RunnerState::Creating), RunnerState::Idle),
            step(20, Some(RunnerState::Creating), RunnerState::Creating),
            step(10, None, RunnerState::Creating),
        ];
        let told: Vec<_> = stretches(&moves, 500).into_iter().map(|one| (one.state, one.from, one.to)).collect();
        assert_eq!(
            told,
            [(RunnerState::Creating, 10, 30), (RunnerState::Idle, 30, 80), (RunnerState::Terminating, 80, 90)]
        );
        assert_eq!(stretches(&moves[2..], 500).last().unwrap().to, 500);
        assert!(stretches(&[], 5).is_empty());
    }
}
