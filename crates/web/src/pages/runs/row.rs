//! A row: the same for plain runs, builds and workflows. *Now* holds the one thing worth knowing in its state.

use std::borrow::Cow;

use baton_core::{Millis, Reason};
use baton_server::service::explain::{PLACE_CAP, Why};
use baton_server::service::lists::{BuildSource, Listed, ListedKind, Phase, StepKind};
use maud::{Markup, html};

use super::filter::kind_word;
use crate::format::{self, Precision};
use crate::parts::{self, chip, icon};
use crate::view::View;

/// Characters of a message or an output that a row shows.
const CUT: usize = 160;
/// A worker that was silent for this share of its lease is called so.
const SILENT_SHARE: f64 = 0.6;
/// A deadline so far away that it stands for none.
const FAR: Millis = 4_000_000_000_000;

/// The icon of a kind.
pub fn kind_icon(kind: ListedKind) -> Markup {
    let name = match kind {
        ListedKind::Run => "plain",
        ListedKind::Build => "build",
        ListedKind::Workflow => "flow",
    };
    parts::kind_icon(name, kind_word(kind))
}

/// What a run is called: its type, or the project that is built; and whose it is.
pub fn names(row: &Listed) -> (String, String) {
    let key = row.run.record.key.clone().unwrap_or_default();
    let Some(build) = &row.build else { return (row.lane.kind.clone(), key) };
    let new = &build.submitted;
    match &new.source {
        BuildSource::Git { slug, reference, .. } => (slug.clone(), format!("{reference} · {}", new.platform)),
        BuildSource::Files { .. } => match &new.project {
            Some(project) => (project.clone(), new.platform.clone()),
            None => (new.platform.clone(), key),
        },
    }
}

/// The cell that selects a row.
fn check(row: &Listed, name: &str) -> Markup {
    html! {
        td.w-check {
            input type="checkbox" name="id" value=(row.run.record.id) form="chosen"
                aria-label={ "Select " (name) " " (format::short_id(&row.run.record.id.to_string())) };
        }
    }
}

/// A text that may be cut, for a title.
fn long(text: &str, chars: usize) -> Option<Cow<'_, str>> {
    (text.chars().count() > chars).then(|| format::visible(text))
}

/// A row of the table.
pub fn row(view: &View, row: &Listed, may_select: bool) -> Markup {
    let record = &row.run.record;
    let id = record.id.to_string();
    let (name, whose) = names(row);
    let name = format::visible(&name);
    let tries = record.epoch.number();
    let began = record.started_at.or(record.claimed_at);
    html! {
        tr id={ "r-" (id) } data-row {
            @if may_select { (check(row, &name)) }
            td.c-st { (parts::state(row.phase)) }
            td.c-name {
                span.main {
                    (kind_icon(row.kind))
                    a.b.cut href=(view.href(&format!("/runs/{id}"))) dir="auto" title=[long(&name, 16)] { (name) }
                    @if !whose.is_empty() { span.cut.dim dir="auto" title=[long(&whose, 16)] { (format::visible(&whose)) } }
                }
            }
            td.c-x.id { (format::short_id(&id)) }
            td.c-x.soft dir="auto" title=[long(&row.lane.queue, 10)] { (format::visible(&row.lane.queue)) }
            td.c-now { span.row { (now(view, row)) } }
            td.c-x.num.soft { @if tries == 0 { (format::MISSING) } @else { (tries) } }
            td.c-x.num {
                @match (began, record.ended_at) {
                    (Some(began), Some(ended)) if ended >= began => (format::duration(ended - began)),
                    (Some(began), None) if row.phase.is_held() => (parts::span(view, began, None)),
                    _ => (format::MISSING),
                }
            }
            td.c-age.num.soft { (parts::ago(view, record.submitted_at)) }
        }
    }
}

/// The one thing worth knowing.
fn now(view: &View, row: &Listed) -> Markup {
    match row.phase {
        Phase::Waiting => waiting(view, row),
        Phase::Later => later(view, row),
        Phase::Starting | Phase::Running | Phase::Cancelling => held(view, row),
        Phase::Sleeping => sleeping(view, row),
        Phase::Completed => completed(row),
        Phase::Failed => failed(row),
        Phase::Cancelled => cancelled(row),
    }
}

fn waiting(view: &View, row: &Listed) -> Markup {
    let place = row.before.map(|before| match before {
        0 => "first in line".to_owned(),
        before if before >= PLACE_CAP => format!("over {} before it", format::number(PLACE_CAP)),
        before => format!("{} before it", format::number(before)),
    });
    html! {
        @match &row.why {
            None => span.dim.sm { "next to be taken" },
            Some(Why::Position(_)) => (chip("", "wait", &place.unwrap_or_default())),
            Some(why) => {
                (why_chip(view, row, why))
                @if let Some(place) = place { span.dim.sm.nowrap { (place) } }
            }
        }
    }
}

/// Why something waits, in a few words.
fn why_chip(view: &View, row: &Listed, why: &Why) -> Markup {
    let kind = format::visible(&row.lane.kind);
    let clock = |at: Millis| format::clock(at, view.now, &view.zone, Precision::Minutes);
    match why {
        Why::NoWorker => chip("bad", "bad", &format!("no worker serves type {kind}")),
        Why::NamespaceDisabled => chip("warn", "pause", "namespace disabled"),
        Why::Paused(until) if *until >= FAR => chip("warn", "pause", "queue paused"),
        Why::Paused(until) => chip("warn", "pause", &format!("queue paused until {}", clock(*until))),
        Why::AllBusy { workers: 1, .. } => chip("", "start", "its only worker is busy"),
        Why::AllBusy { workers, .. } => {
            chip("", "start", &format!("all {} workers busy", format::number(*workers as u64)))
        }
        Why::KeyLimit { held, limit } => {
            let key = row.run.record.key.as_deref().map(format::visible).unwrap_or_default();
            chip("", "later", &format!("key limit: {held} of {limit} with {key}"))
        }
        Why::Rate(per_second) => chip("", "later", &format!("{} a second", format::amount(*per_second))),
        Why::Position(before) => chip("", "wait", &format!("{} before it", format::number(*before))),
        Why::Message => chip("sleep", "signal", "waits for a message"),
        Why::Sleeps(until) => chip("sleep", "sleep", &format!("sleeps until {}", clock(*until))),
        Why::Due { at, .. } => chip("", "later", &format!("due {}", clock(*at))),
    }
}

fn later(view: &View, row: &Listed) -> Markup {
    let record = &row.run.record;
    let again = record.failures + record.losses > 0;
    html! {
        span.chip {
            (icon("later"))
            span {
                @if again { "try " (record.failures + 1) " of " (record.options.retry.max_attempts.max(1)) " " } @else { "due " }
                (parts::ago(view, record.due_at))
            }
        }
        @if let Some(error) = record.error.as_deref().filter(|_| again) { span.c-bad.sm.cut dir="auto" { (format::first_line(error, CUT)) } }
    }
}

fn held(view: &View, row: &Listed) -> Markup {
    let (record, lease) = (&row.run.record, row.run.lease);
    let until = record.lease_until.or(lease.map(|lease| lease.until));
    let ttl = lease.map_or(15_000, |lease| lease.ttl_ms);
    let silent = lease.map(|lease| view.now - lease.seen_at);
    let is_silent = silent.is_some_and(|silent| silent as f64 > ttl as f64 * SILENT_SHARE);
    html! {
        span.cut dir="auto" { (format::visible(row.run.worker_name.as_deref().unwrap_or("a worker"))) }
        (parts::epoch(record.epoch.number()))
        @if let Some(until) = until { (parts::lease(view, until, ttl)) }
        @if let Some(lease) = lease.filter(|_| is_silent) {
            span.c-warn.sm.nowrap { "silent " (parts::span(view, lease.seen_at, None)) }
        } @else if let Some(by) = record.cancel_by.filter(|by| *by < FAR) {
            span.dim.sm.nowrap { "asked to stop, has until " (format::clock(by, view.now, &view.zone, Precision::Seconds)) }
        } @else if row.kind == ListedKind::Workflow && row.run.steps > 0 {
            span.dim.sm.nowrap { (steps(row)) }
        } @else if record.losses > 0 {
            (chip("", "hand", "taken over"))
        }
    }
}

fn steps(row: &Listed) -> String {
    format::counted(u64::from(row.run.steps), "step", "steps")
}

fn sleeping(view: &View, row: &Listed) -> Markup {
    let until = |at: Millis| format::clock(at, view.now, &view.zone, Precision::Minutes);
    let chip_of = match &row.run.waits_for {
        Some((StepKind::Child, name, _)) => {
            chip("sleep", "child", &format!("waits for child {}", format::visible(name)))
        }
        Some((StepKind::Signal, name, _)) => {
            chip("sleep", "signal", &format!("waits for signal {}", format::visible(name)))
        }
        Some((StepKind::Step, name, Some(at))) => {
            chip("sleep", "later", &format!("tries {} again at {}", format::visible(name), until(*at)))
        }
        Some(_) | None => match &row.why {
            Some(why @ (Why::Message | Why::Sleeps(_))) => why_chip(view, row, why),
            Some(why) => why_chip(view, row, why),
            None => chip("sleep", "sleep", "about to wake"),
        },
    };
    html! { (chip_of) @if row.run.steps > 0 { span.dim.sm.nowrap { (steps(row)) } } }
}

fn completed(row: &Listed) -> Markup {
    let (files, bytes) = row.run.files;
    let by = row.run.worker_name.as_deref();
    html! {
        @if files > 0 {
            span.soft.nowrap { (format::counted(files, "artifact", "artifacts")) ", " (format::bytes(bytes)) }
        } @else if let Some(output) = row.run.output.as_deref().filter(|output| !output.is_empty()) {
            @match std::str::from_utf8(output) {
                Ok(text) => code.soft.cut dir="auto" { (format::first_line(text, CUT)) },
                Err(_) => span.soft { (format::bytes(output.len() as u64)) " of output" },
            }
        } @else if row.run.output_bytes > 0 {
            span.soft.nowrap { (format::bytes(row.run.output_bytes)) " of output" }
        }
        @if let Some(by) = by { span.dim.cut dir="auto" { "by " (format::visible(by)) } }
    }
}

fn failed(row: &Listed) -> Markup {
    let record = &row.run.record;
    html! {
        span.c-bad.b { (record.reason.map_or("error", Reason::as_str)) }
        @if let Some(error) = &record.error {
            span.cut.soft dir="auto" title=(format::first_line(error, 500)) { (format::first_line(error, CUT)) }
        }
    }
}

fn cancelled(row: &Listed) -> Markup {
    let record = &row.run.record;
    html! {
        @match record.error.as_deref().filter(|error| !error.is_empty()) {
            Some(error) => span.soft.cut dir="auto" { (format::first_line(error, CUT)) },
            None if record.epoch.number() == 0 => span.soft { "before anybody had it" },
            None => span.soft { "while a worker had it" },
        }
    }
}
