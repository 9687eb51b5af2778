//! `/workflows` and `/workflows/types/{name}`: which workflows there are, in which versions, and how long they take.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::{Millis, RunId};
use baton_server::service::lists::{self, LaneOf, ListFilter, Listed, ListedKind, Phase, SearchFrom};
use baton_server::{Error, Scope};
use maud::{Markup, html};

use super::runs::{submit, table};
use crate::format;
use crate::page::{Entry, Page, part};
use crate::parts::{self, chip, icon};
use crate::query::{Query, escape};
use crate::view::View;

/// Ended runs from which durations are read.
const SAMPLE: usize = 200;
/// Runs that the page of a type shows.
const RECENT: usize = 25;
/// Types that are listed.
const TYPES_MAX: usize = 500;
/// Failed runs among which those are looked for whose code differs.
const HELD_MAX: usize = 500;
/// What the messages of those have in common.
const DIFFERS: &str = "is remembered";
/// Characters of such a message that are shown.
const DIFFERENCE_CHARS: usize = 240;
/// What stands between the name of a type and its version.
const VERSION_MARK: char = '@';

/// Runs of a type or a version that have not ended, by what people call their state.
#[derive(Clone, Copy, Default)]
struct Live {
    waiting: u64,
    later: u64,
    running: u64,
    sleeping: u64,
}

impl Live {
    fn add(&mut self, phase: Phase, count: u64) {
        match phase {
            Phase::Waiting => self.waiting += count,
            Phase::Later => self.later += count,
            Phase::Starting | Phase::Running | Phase::Cancelling => self.running += count,
            Phase::Sleeping => self.sleeping += count,
            Phase::Completed | Phase::Failed | Phase::Cancelled => {}
        }
    }

    fn sum(self) -> u64 {
        self.waiting + self.later + self.running + self.sleeping
    }
}

/// A version of a type in a queue.
struct Version<'a> {
    lane: &'a LaneOf,
    version: Option<&'a str>,
    live: Live,
}

fn split(kind: &str) -> (&str, Option<&str>) {
    kind.split_once(VERSION_MARK).map_or((kind, None), |(name, version)| (name, Some(version)))
}

/// Lanes of workflows by the name of their type, with what is live in them.
async fn by_type<'a>(view: &View, lanes: &'a [LaneOf]) -> Result<BTreeMap<&'a str, Vec<Version<'a>>>, Error> {
    let counts = lists::count_lanes(&view.app, &view.caller, &view.namespace, lanes).await?;
    let mut types: BTreeMap<&str, Vec<Version<'_>>> = BTreeMap::new();
    for lane in lanes {
        let (name, version) = split(&lane.name.kind);
        let mut live = Live::default();
        counts.iter().filter(|(of, ..)| *of == lane.lane).for_each(|(_, phase, count)| live.add(*phase, *count));
        types.entry(name).or_default().push(Version { lane, version, live });
    }
    Ok(types)
}

async fn lanes(view: &View) -> Result<Vec<LaneOf>, Error> {
    let mut lanes = lists::lanes(&view.app, &view.caller, &view.namespace).await?;
    lanes.retain(|lane| lane.kind == ListedKind::Workflow);
    Ok(lanes)
}

fn numbers(live: Live) -> Markup {
    let cell = |count: u64| html! { td.num { @if count == 0 { span.dim { "0" } } @else { (format::number(count)) } } };
    html! { (cell(live.waiting)) (cell(live.later)) (cell(live.running)) (cell(live.sleeping)) }
}

fn heads() -> Markup {
    html! { th.num { "Waiting" } th.num { "Due later" } th.num { "Running" } th.num { "Sleeping" } }
}

/// Runs that stopped because their code asks for something else than their journal has, and that nobody has retried yet: as
/// far as the newest runs say.
async fn held(view: &View, filter: &ListFilter) -> Result<Vec<Listed>, Error> {
    let (app, caller) = (&view.app, &view.caller);
    let failed = ListFilter { error: Some(DIFFERS.into()), phases: vec![Phase::Failed], ..filter.clone() };
    let mut held = lists::page(app, caller, &failed, SearchFrom::Newest, HELD_MAX).await?.runs;
    if held.is_empty() {
        return Ok(held);
    }
    let newest = lists::page(app, caller, filter, SearchFrom::Newest, HELD_MAX).await?.runs;
    let retried: BTreeSet<RunId> = newest.iter().filter_map(|row| row.run.record.retry_of).collect();
    held.retain(|row| !retried.contains(&row.run.record.id));
    Ok(held)
}

/// Those with the same difference, the largest group first.
fn by_difference(held: &[Listed]) -> Vec<(String, Vec<RunId>)> {
    let mut groups: BTreeMap<String, Vec<RunId>> = BTreeMap::new();
    for row in held {
        let message = row.run.record.error.as_deref().unwrap_or_default();
        let difference = message.split(": its code").next().unwrap_or(message);
        let difference = format::first_line(difference, DIFFERENCE_CHARS).into_owned();
        groups.entry(difference).or_default().push(row.run.record.id);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(difference, runs)| (std::cmp::Reverse(runs.len()), difference.clone()));
    groups
}

/// Groups of runs that somebody has to look at, each with a way to go on.
fn held_panel(view: &View, name: &str, held: &[Listed]) -> Markup {
    let may_act = view.may(Scope::Submit);
    html! {
        section.panel aria-label="On hold" {
            header { h2 { (icon("held")) " On hold: the code differs from the journal" } span.count { (held.len()) } }
            div.body.soft { "Deploy code that can follow them (" code { "ctx.version" } "), then go on: steps that were completed are not repeated." }
            table {
                thead { tr { th { "Difference" } th.num { "Runs" } @if may_act { th {} } } }
                tbody {
                    @for (difference, runs) in by_difference(held) {
                        tr {
                            td dir="auto" { (difference) }
                            td.num {
                                a.link href=(view.href(&format!("/runs/{}", runs[0]))) { (format::number(runs.len() as u64)) }
                            }
                            @if may_act {
                                td.num {
                                    form.inline method="post" action="/runs/ask" {
                                        (parts::hidden_csrf())
                                        input type="hidden" name="ns" value=(view.namespace);
                                        input type="hidden" name="verb" value="retry";
                                        input type="hidden" name="next" value=(address(view, name));
                                        @for run in &runs { input type="hidden" name="id" value=(run); }
                                        button.btn.small { "Resume " (format::number(runs.len() as u64)) "…" }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The types.
pub async fn page(view: &View) -> Result<Page, Error> {
    let lanes = lanes(view).await?;
    let types = by_type(view, &lanes).await?;
    let all =
        ListFilter { namespace: view.namespace.clone(), kind: Some(ListedKind::Workflow), ..ListFilter::default() };
    let mut held_by_type: BTreeMap<String, u64> = BTreeMap::new();
    for row in held(view, &all).await? {
        *held_by_type.entry(split(&row.lane.kind).0.to_owned()).or_default() += 1;
    }
    let held_of = |name: &str| held_by_type.get(name).copied().unwrap_or_default();
    let mut rows: Vec<_> = types.iter().collect();
    // Those that somebody has to look at first, then the busiest.
    rows.sort_by_key(|(name, versions)| {
        let live: u64 = versions.iter().map(|version| version.live.sum()).sum();
        (std::cmp::Reverse((held_of(name), live)), **name)
    });
    let cut = rows.len() > TYPES_MAX;
    rows.truncate(TYPES_MAX);
    let sum = |versions: &[Version<'_>]| {
        let mut live = Live::default();
        for own in versions.iter().map(|version| version.live) {
            live.waiting += own.waiting;
            live.later += own.later;
            live.running += own.running;
            live.sleeping += own.sleeping;
        }
        live
    };
    let list = html! {
        div.scroll-x id="types" {
            table {
                thead { tr { th { "Type" } th { "Versions" } th { "Queues" } (heads()) th { "On hold" } } }
                tbody {
                    @for (name, versions) in &rows {
                        @let queues: BTreeSet<&str> = versions.iter().map(|version| version.lane.name.queue.as_str()).collect();
                        tr data-row {
                            td { span.main { (parts::kind_icon("flow", "workflow")) a.b.cut href=(address(view, name)) dir="auto" { (format::visible(name)) } } }
                            td { (versions_of(versions)) }
                            td.soft dir="auto" { (format::visible(&queues.into_iter().collect::<Vec<_>>().join(", "))) }
                            (numbers(sum(versions)))
                            td {
                                @if held_of(name) > 0 { (chip("warn", "held", &format!("{} on hold", format::number(held_of(name))))) }
                                @else { span.dim { "0" } }
                            }
                        }
                    }
                }
            }
        }
    };
    let main = html! {
        div.page-head {
            nav.seg aria-label="View" {
                a href=(view.href("/workflows")) aria-current="true" { "Types" }
                a href=(view.href("/workflows/runs")) { "Runs" }
            }
            @if view.may(Scope::Submit) { div.end { (submit::button(view, Entry::Workflows)) } }
        }
        section.panel aria-label="Types of workflows" {
            @if rows.is_empty() {
                (parts::empty("flow", "No workflow yet.", html! {
                    p.soft { "A type is here once a worker serves it or somebody has started one:" }
                    (parts::command(&view.command("workflow start process_order --queue orders", true)))
                }))
            } @else { (part("types", &list)) }
            @if cut { footer { "The first " (TYPES_MAX) " types." } }
        }
    };
    Ok(Page::new(Entry::Workflows, "Workflows", main))
}

fn address(view: &View, name: &str) -> String {
    view.href(&format!("/workflows/types/{}", escape(name)))
}

fn versions_of(versions: &[Version<'_>]) -> Markup {
    let mut names: Vec<&str> = versions.iter().filter_map(|version| version.version).collect();
    names.sort_unstable();
    names.dedup();
    html! {
        @if names.is_empty() { span.dim { (format::MISSING) } }
        @for name in names.iter().take(5) { span.tag dir="auto" { (format::visible(name)) } " " }
        @if names.len() > 5 { span.dim.sm { "and " (names.len() - 5) " more" } }
    }
}

/// A value of a sorted list below which this share of it is.
fn quantile(sorted: &[Millis], share: f64) -> Option<Millis> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}

/// One type.
pub async fn one(view: &View, name: &str) -> Result<Page, Error> {
    let lanes = lanes(view).await?;
    let types = by_type(view, &lanes).await?;
    let missing = || Error::NotFound { what: "workflow type", id: name.to_owned() };
    let versions = types.get(name).ok_or_else(missing)?;
    let filter = ListFilter {
        namespace: view.namespace.clone(),
        kind: Some(ListedKind::Workflow),
        types: vec![name.to_owned()],
        ..ListFilter::default()
    };
    let (app, caller) = (&view.app, &view.caller);
    let recent = lists::page(app, caller, &filter, SearchFrom::Newest, RECENT).await?;
    let held = held(view, &filter).await?;
    let completed = ListFilter { phases: vec![Phase::Completed], ..filter };
    let sample = lists::page(app, caller, &completed, SearchFrom::Newest, SAMPLE).await?;
    // A workflow sleeps and is taken again: what people wait for is from its due time to its end.
    let took = |row: &lists::Listed| {
        Some((row.run.record.ended_at? - row.run.record.due_at.min(row.run.record.ended_at?)).max(0))
    };
    let mut durations: Vec<Millis> = sample.runs.iter().filter_map(took).collect();
    durations.sort_unstable();
    let shown = |share: f64| quantile(&durations, share).map_or_else(|| format::MISSING.into(), format::duration);
    let q = |token: String| view.href(&Query::default().with("q", token).at("/workflows/runs"));
    let table_of = html! {
        div.scroll-x id="versions" {
            table {
                thead { tr { th { "Version" } th { "Queue" } (heads()) } }
                tbody {
                    @for version in versions {
                        tr data-row {
                            td { a.b href=(q(filter_token(&version.lane.name.kind))) dir="auto" { (version.version.map_or_else(|| "any".into(), format::visible)) } }
                            td.soft dir="auto" { (format::visible(&version.lane.name.queue)) }
                            (numbers(version.live))
                        }
                    }
                }
            }
        }
    };
    let main = html! {
        div.stack {
            @if !held.is_empty() { (held_panel(view, name, &held)) }
            section.panel aria-label="Versions" {
                header { h2 { "Versions" } span.count { (versions.len()) } }
                (part("versions", &table_of))
            }
            section.panel aria-label="Durations" {
                header { h2 { "From due to completed" } span.count { "of the last " (durations.len()) } }
                (part("durations", &html! {
                    div.stats.s5 id="durations" {
                        div { div.k { "Half took at most" } div.v { (shown(0.5)) } }
                        div { div.k { "95 of 100 at most" } div.v { (shown(0.95)) } }
                        div { div.k { "The longest" } div.v { (shown(1.0)) } }
                    }
                }))
            }
            section.panel aria-label="Recent runs" {
                header {
                    h2 { "Recent runs" }
                    span.end { a.link href=(q(filter_token(name))) { "All" } }
                }
                @if recent.runs.is_empty() { (parts::empty("flow", "No run of it yet.", html! {})) }
                @else { (table(view, &recent.runs, false)) }
            }
        }
    };
    Ok(Page::new(Entry::Workflows, name, main).below("Workflows", view.href("/workflows")))
}

fn filter_token(kind: &str) -> String {
    super::runs::filter::Token::Type(kind.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_of_the_list() {
        let sorted: Vec<Millis> = (1..=100).collect();
        assert_eq!((quantile(&sorted, 0.5), quantile(&sorted, 0.95)), (Some(51), Some(95)));
        assert_eq!((quantile(&[7], 0.95), quantile(&[], 0.5)), (Some(7), None));
    }

    #[test]
    fn a_type_has_a_version_behind_its_mark() {
        assert_eq!(split("process_order@7"), ("process_order", Some("7")));
        assert_eq!(split("poller"), ("poller", None));
    }
}
