//! Who had a run, from when to when, how that ended, and what was refused afterwards.

mod axis;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use baton_core::{Millis, RunId};
use baton_server::service::custody::{self, Custody, HELD, LANES_MAX, Lane, Refusal, was_taken};
use baton_server::{App, Error, service};
use http::Uri;
use http::header::CONTENT_DISPOSITION;
use maud::{Markup, html};

use self::axis::Axis;
use crate::format::{self, Precision};
use crate::parts::{self, icon};
use crate::query::Query;
use crate::session::Visitor;
use crate::view::View;

/// Leases on a page.
const SHOWN_MAX: usize = 30;
/// Late writes that are marked in one lane of the picture; the table has all.
const MARKS_MAX: usize = 20;
/// A bar of this width has room for its epoch, in per cent.
const ROOMY: f64 = 3.0;
/// Left of this there is room for a word behind a bar, in per cent.
const ENDING_MAX: f64 = 88.0;
/// Left of this there is room for what a late write wanted.
const LABEL_MAX: f64 = 62.0;
/// The parameter that asks for leases before an epoch.
const BEFORE: &str = "custody";

/// The route of the file.
pub fn downloads(router: Router<App>) -> Router<App> {
    router.route("/runs/{id}/custody.json", get(ledger))
}

/// The panel.
pub async fn section(view: &View, run: RunId) -> Result<Markup, Error> {
    let before = before(&view.query);
    let found = custody::of_run(&view.app, &view.caller, None, run, before, SHOWN_MAX).await?;
    Ok(panel(view, &found, before))
}

/// All of it as a file: up to [`LANES_MAX`] leases, and older ones with the number that it says.
async fn ledger(State(app): State<App>, visitor: Visitor, Path(id): Path<String>, uri: Uri) -> Result<Response, Error> {
    let run = service::run_id(&id)?;
    let before = before(&Query::parse(uri.query().unwrap_or_default()));
    let found = custody::of_run(&app, &visitor.caller, None, run, before, LANES_MAX).await?;
    let name = format!("attachment; filename=\"{run}-custody.json\"");
    Ok(([(CONTENT_DISPOSITION, name)], Json(found)).into_response())
}

fn before(query: &Query) -> Option<u32> {
    query.get(BEFORE).and_then(|text| text.parse().ok())
}

/// `3 leases, 1 refused`.
fn counted(found: &Custody) -> String {
    let leases = format::counted(found.leases, "lease", "leases");
    match found.refused {
        0 => leases,
        refused => format!("{leases}, {} refused", format::number(refused)),
    }
}

fn panel(view: &View, found: &Custody, before: Option<u32>) -> Markup {
    let ledger = format!("/runs/{}/custody.json", found.run_id);
    let older = found.before.map(|epoch| view.here_with(BEFORE, &epoch.to_string()));
    let newest = before.map(|_| view.query.without(BEFORE).at(&view.path));
    html! {
        section.panel id="custody" aria-labelledby="custody-title" {
            header {
                h2 id="custody-title" { "Custody" }
                span.count { (counted(found)) }
                span.end { a.btn.small href=(view.href(&ledger)) download { (icon("get")) "Ledger" } }
            }
            @if found.lanes.is_empty() {
                (parts::empty("hand", "No worker has had it yet.", html! {
                    p.soft { "Each lease will stand here: who had it, from when to when, how it ended, and late writes that were refused." }
                }))
            } @else {
                (picture(view, &found.lanes))
                (table(view, &found.lanes))
            }
            @if found.refused > 0 { (refusals(view, found)) }
            @if older.is_some() || newest.is_some() {
                footer.row {
                    @if let Some(older) = &older { a.link href={ (older) "#custody" } { "Earlier leases" } }
                    @if let Some(newest) = &newest { a.link href={ (newest) "#custody" } { "Newest leases" } }
                }
            }
        }
    }
}

// ---- the picture

/// The leases of one start of a worker.
struct Start<'a> {
    lanes: Vec<&'a Lane>,
}

fn starts(lanes: &[Lane]) -> Vec<Start<'_>> {
    let mut starts: Vec<Start<'_>> = Vec::new();
    for lane in lanes {
        let same = |start: &&mut Start<'_>| {
            lane.worker_id.is_some() && start.lanes.first().is_some_and(|first| first.worker_id == lane.worker_id)
        };
        match starts.iter_mut().find(same) {
            Some(start) => start.lanes.push(lane),
            None => starts.push(Start { lanes: vec![lane] }),
        }
    }
    starts
}

/// Until when a lease is drawn. One that is held goes on until it would end: no clock has a part in it, so that the same
/// leases make the same picture.
fn drawn_to(lane: &Lane) -> Millis {
    let open = lane.lease_until.or(lane.last_heartbeat).map_or(lane.from.0, |at| at.0);
    lane.to.map_or(open, |to| to.0).max(lane.from.0)
}

fn axis(lanes: &[Lane]) -> Axis {
    let held = lanes.iter().map(|lane| (lane.from.0, drawn_to(lane)));
    let late = lanes.iter().flat_map(|lane| &lane.refused).map(|refusal| (refusal.at.0, refusal.at.0));
    Axis::of(held.chain(late).collect())
}

fn picture(view: &View, lanes: &[Lane]) -> Markup {
    let axis = axis(lanes);
    // A hand-over is where another start of a worker goes on.
    let changed = lanes.windows(2).filter(|pair| pair[0].worker_id != pair[1].worker_id);
    let hand_overs: Vec<String> = changed.map(|pair| percent(axis.at(pair[1].from.0))).collect();
    html! {
        div.cust {
            @for (index, start) in starts(lanes).iter().enumerate() {
                div class=(if index == 0 { "who" } else { "who lane" }) {
                    b.b.cut dir="auto" { (format::visible(&name(start.lanes[0]))) }
                    span.dim.xs.cut { @if let Some(id) = &start.lanes[0].worker_id { "start " (format::short_id(id)) } }
                }
                svg class=[(index > 0).then_some("lane")] role="img" aria-label=(sentence(view, start)) {
                    @for (from, to) in axis.folds() {
                        rect.fold x=(percent(from)) width=(percent(to - from)) height="46" {}
                    }
                    @for x in &hand_overs { line.ov x1=(x) x2=(x) y2="46" {} }
                    @for lane in &start.lanes { (bar(&axis, lane)) }
                    @if let Some(last) = start.lanes.last() { (ending(&axis, last)) }
                    @for lane in &start.lanes { (marks(view, &axis, lane)) }
                }
            }
        }
    }
}

fn percent(x: f64) -> String {
    format!("{x:.2}%")
}

fn bar(axis: &Axis, lane: &Lane) -> Markup {
    let (from, to) = (lane.from.0, drawn_to(lane));
    let silent_from =
        lane.last_heartbeat.map(|at| at.0).filter(|at| *at < to && (lane.end == HELD || was_taken(lane.end)));
    let sure_to = silent_from.unwrap_or(to);
    let (x, middle, end) = (axis.at(from), axis.at(sure_to), axis.at(to));
    let is_held = lane.end == HELD;
    html! {
        rect.held x=(percent(x)) width=(percent((middle - x).max(0.3))) y="13" height="20" rx="3" {}
        @if let Some(at) = silent_from {
            line.beat x1=(percent(axis.at(at))) x2=(percent(axis.at(at))) y1="29" y2="33" {}
            @if is_held {
                rect.open x=(percent(middle)) width=(percent(end - middle)) y="13" height="20" {}
            } @else {
                rect.lost x=(percent(middle)) width=(percent(end - middle)) y="13" height="20" fill="url(#hb)" {}
            }
        }
        @if middle - x >= ROOMY { text.e x=(percent(x)) dx="7" y="27" { "e" (lane.epoch) } }
        @if let Some(at) = silent_from.filter(|_| !is_held && end - middle >= 4.0 * ROOMY) {
            text.bad.halo.hide-s x=(percent(f64::midpoint(middle, end))) y="27" text-anchor="middle" {
                "silent " (format::duration(to - at))
            }
        }
    }
}

/// How the last lease of a row ended, behind its bar.
fn ending(axis: &Axis, lane: &Lane) -> Markup {
    let end = axis.at(drawn_to(lane));
    let class = if was_taken(lane.end) { "bad" } else { "t" };
    html! {
        @if lane.end != HELD && end < ENDING_MAX {
            text class=(class) x=(percent(end)) dx="8" y="18" { (words(lane.end)) }
        }
    }
}

fn marks(view: &View, axis: &Axis, lane: &Lane) -> Markup {
    let last = lane.refused.len().min(MARKS_MAX).checked_sub(1);
    html! {
        @for (index, refusal) in lane.refused.iter().take(MARKS_MAX).enumerate() {
            @let x = axis.at(refusal.at.0);
            circle.refuse cx=(percent(x)) cy="31" r="6.5" {}
            text.bad x=(percent(x)) y="34.5" text-anchor="middle" { "×" }
            @if Some(index) == last && x <= LABEL_MAX {
                text.bad.halo.hide-s x=(percent(x)) dx="12" y="35" {
                    (moment(view, refusal.at.0)) " refused: " (format::first_line(&refusal.what(), 60))
                    " with epoch " (refusal.epoch)
                }
            }
        }
    }
}

fn moment(view: &View, at: Millis) -> String {
    format::clock(at, view.now, &view.zone, Precision::Tenths)
}

/// What one sees in a row of the picture.
fn sentence(view: &View, start: &Start<'_>) -> String {
    let mut said: Vec<String> = Vec::new();
    for lane in &start.lanes {
        let from = moment(view, lane.from.0);
        match lane.to {
            None => said.push(format!("holds epoch {} since {from}", lane.epoch)),
            Some(to) => {
                let (to, end) = (moment(view, to.0), words(lane.end));
                said.push(format!("held epoch {} from {from} to {to}, {end}", lane.epoch));
            }
        }
        if let Some(at) = lane.last_heartbeat.filter(|_| lane.end != HELD) {
            said.push(format!("its last heartbeat came at {}", moment(view, at.0)));
        }
        for refusal in lane.refused.iter().take(MARKS_MAX) {
            said.push(format!("{} at {} was refused", refusal.what(), moment(view, refusal.at.0)));
        }
    }
    format::visible(&format!("{} {}", name(start.lanes[0]), said.join("; "))).into_owned()
}

fn name(lane: &Lane) -> String {
    let id = || lane.worker_id.as_deref().map(format::short_id);
    lane.worker_name.clone().or_else(id).unwrap_or_else(|| "unknown".into())
}

// ---- in words

/// How a lease ended, for people.
fn words(end: &str) -> &str {
    match end {
        "given_back" => "given back",
        "timed_out" => "timed out",
        other => other,
    }
}

/// What was said about an end, where the end itself does not say it.
fn said(lane: &Lane) -> Option<&str> {
    lane.message.as_deref().filter(|message| !message.is_empty() && lane.end != "lost")
}

/// The tone and the icon of an end.
fn look(end: &str) -> (&'static str, &'static str) {
    match end {
        HELD => ("run", "run"),
        "completed" => ("ok", "ok"),
        "slept" => ("sleep", "sleep"),
        "given_back" => ("wait", "hand"),
        "cancelled" => ("off", "off"),
        _ => ("bad", "bad"),
    }
}

fn table(view: &View, lanes: &[Lane]) -> Markup {
    html! {
        div.scroll-x {
            table {
                thead {
                    tr {
                        th { "Epoch" } th { "Worker" } th.num { "From" } th.num { "To" } th.num { "Held" }
                        th { "Ended as" } th { "Late writes" }
                    }
                }
                tbody { @for lane in lanes { (row(view, lane)) } }
            }
        }
    }
}

fn row(view: &View, lane: &Lane) -> Markup {
    let (tone, glyph) = look(lane.end);
    let refused: u64 = lane.refused.iter().map(|refusal| refusal.times).sum();
    html! {
        tr data-row {
            td { (parts::epoch(lane.epoch)) }
            td { (worker(view, lane.worker_id.as_deref(), lane.worker_name.as_deref())) }
            td.num { (parts::clock(view, lane.from.0, Precision::Tenths)) }
            td.num {
                @match lane.to {
                    Some(to) => { (parts::clock(view, to.0, Precision::Tenths)) }
                    None => { (format::MISSING) }
                }
            }
            td.num { (parts::span(view, lane.from.0, lane.to.map(|to| to.0))) }
            td {
                span class={ "st " (tone) } { (icon(glyph)) (words(lane.end)) }
                @if let Some(at) = lane.last_heartbeat {
                    " " span.soft.sm {
                        @if lane.end == HELD { "last heard of " } @else { "silent since " }
                        (parts::clock(view, at.0, Precision::Tenths))
                    }
                }
                @if let Some(message) = said(lane) {
                    " " span.soft.sm dir="auto" title=(format::visible(message)) { (format::first_line(message, 80)) }
                }
            }
            td {
                @if refused == 0 { span.dim { "none" } } @else {
                    a.chip.bad href="#refused" {
                        (icon("refuse")) span { (format::number(refused)) " refused, lease_lost" }
                    }
                }
            }
        }
    }
}

fn worker(view: &View, id: Option<&str>, name: Option<&str>) -> Markup {
    html! {
        @match (id, name) {
            (Some(id), Some(name)) => {
                a.b dir="auto" href=(view.href(&format!("/workers/{id}"))) { (format::visible(name)) } " "
                span.id title=(id) { (format::short_id(id)) }
            }
            (Some(id), None) => { span.id title=(id) { (format::short_id(id)) } }
            (None, _) => { span.dim { (format::MISSING) } }
        }
    }
}

fn refusals(view: &View, found: &Custody) -> Markup {
    let mut all: Vec<&Refusal> =
        found.lanes.iter().flat_map(|lane| &lane.refused).chain(&found.other_refused).collect();
    all.sort_by_key(|refusal| (refusal.at, refusal.epoch));
    let name_of = |refusal: &Refusal| {
        let same = |lane: &&Lane| lane.worker_id.is_some() && lane.worker_id == refusal.worker_id;
        found.lanes.iter().find(same).and_then(|lane| lane.worker_name.clone())
    };
    html! {
        div.scroll-x id="refused" {
            table {
                caption.sr { "Late writes that were refused" }
                thead {
                    tr {
                        th.num { "Refused" } th { "Shown" } th { "Newest" } th { "From" } th { "It wanted to" }
                        th.num { "Size" } th.num { "Times" }
                    }
                }
                tbody {
                    @for refusal in all {
                        tr {
                            td.num { (parts::clock(view, refusal.at.0, Precision::Tenths)) }
                            td { (parts::epoch(refusal.epoch)) }
                            td { (parts::epoch(refusal.current_epoch)) }
                            td { (worker(view, refusal.worker_id.as_deref(), name_of(refusal).as_deref())) }
                            td { span.row { span.c-bad { (icon("refuse")) } (parts::code(&refusal.what())) } }
                            td.num { @if refusal.bytes == 0 { (format::MISSING) } @else { (format::bytes(refusal.bytes)) } }
                            td.num {
                                (format::number(refusal.times))
                                @if refusal.last_at > refusal.at {
                                    " " span.soft.sm { "until " (parts::clock(view, refusal.last_at.0, Precision::Tenths)) }
                                }
                            }
                        }
                    }
                }
            }
        }
        @if found.refused_more > 0 {
            p.body.soft { (format::number(found.refused_more)) " more were refused, and only counted." }
        }
    }
}
