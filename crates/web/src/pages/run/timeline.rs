//! The waterfall of a workflow: who held it, and a row for each position. Zoom, folds and which rows are shown are in the
//! address, and the server draws what is asked for: the page stays small however many steps there are.

use std::collections::HashMap;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use baton_core::{LeaseEnd, Millis, RunId};
use baton_server::service::sheet::{self, Child, Lease, Sheet, StepAttempt, StepKind, StepOutline, StepState};
use baton_server::service::{self};
use baton_server::{App, Error, Page};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Uri};
use maud::{Markup, html};

use super::rows::{self, Row, span};
use super::scale::{Scale, Stretch};
use crate::format::{self, Precision};
use crate::parts::{self, icon};
use crate::query::Query;
use crate::session::Visitor;
use crate::view::View;

/// Rows of a page, and of what is loaded behind them.
const ROWS: usize = 100;
/// Tries of steps that are drawn on one page.
const TRIES_MAX: usize = 2_000;
/// Leases and hand-overs that are drawn.
const LEASES_MAX: usize = 200;
/// Points of the small picture of the whole run.
const POINTS: usize = 600;

/// Routes of rows that are loaded.
pub fn routes(router: Router<App>) -> Router<App> {
    router.route("/runs/{id}/rows", get(fragment))
}

/// What the address asks to see.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Asked {
    /// From when to when, in milliseconds since the submit.
    window: Option<(Millis, Millis)>,
    is_true_time: bool,
    /// The first row.
    row: Option<usize>,
    /// Positions at which open groups begin.
    open: Vec<u32>,
    /// The chosen position.
    step: Option<u32>,
}

impl Asked {
    fn of(query: &Query) -> Asked {
        let number = |name: &str| query.get(name).and_then(|text| text.parse::<Millis>().ok()).filter(|ms| *ms >= 0);
        Asked {
            window: number("from").zip(number("to")).filter(|(from, to)| from < to),
            is_true_time: query.get("fold") == Some("0"),
            row: query.get("row").and_then(|text| text.parse().ok()),
            open: query.get("open").unwrap_or_default().split(',').filter_map(|text| text.parse().ok()).collect(),
            step: query.get("step").and_then(|text| text.parse().ok()),
        }
    }

    /// The same with a group open, or closed.
    fn toggled(&self, position: u32) -> String {
        let mut open = self.open.clone();
        match open.iter().position(|other| *other == position) {
            Some(index) => {
                open.remove(index);
            }
            None => open.push(position),
        }
        open.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
    }
}

/// Everything that is drawn.
struct Drawing<'a> {
    view: &'a View,
    sheet: &'a Sheet,
    leases: &'a [Lease],
    steps: &'a [StepOutline],
    asked: Asked,
    scale: Scale,
    /// The whole run.
    whole: Stretch,
    /// Rows that are in the window.
    rows: Vec<Row>,
    tries: HashMap<u32, Vec<StepAttempt>>,
    children: HashMap<RunId, Child>,
}

/// The panel.
pub async fn section(view: &View, sheet: &Sheet, leases: &[Lease], steps: &[StepOutline]) -> Result<Markup, Error> {
    let mut drawing = Drawing::new(view, sheet, leases, steps);
    let first = drawing.first_row();
    drawing.read(first).await?;
    let count = steps.len();
    Ok(html! {
        section.panel.wf id="timeline" aria-labelledby="timeline-title" {
            header {
                h2 id="timeline-title" { "Timeline" }
                span.count.hide-s { (format::counted(count as u64, "step", "steps")) }
                span.end { (legend()) (drawing.axis_choice()) }
            }
            (drawing.minimap())
            div.wf-body {
                (drawing.grid())
                (drawing.head())
                (drawing.held_by())
                @if first > 0 { (drawing.more(first.saturating_sub(ROWS), "earlier", first, false)) }
                @for row in drawing.page(first) { (drawing.row(row)) }
                div.loaded id={ "rows-" (first) } data-keep="" {
                    @if first + ROWS < drawing.rows.len() && !view.is_again {
                        (drawing.more(first + ROWS, "more", drawing.rows.len() - first - ROWS, true))
                    }
                }
                @if count == 0 { p.none.body { "No step yet." } }
                @else if drawing.rows.is_empty() { p.none.body { "No step in this part of the time." } }
            }
            @if let Some(words) = drawing.hand_over_words() { footer.sm { (words) } }
        }
    })
}

fn legend() -> Markup {
    html! {
        span.legend.hide-s {
            span { (icon("hand")) "hand-over" }
            span { svg { rect.fill-ok y="1" width="12" height="8" rx="2" {} } "done" }
            span { svg { rect.fill-bad y="1" width="12" height="8" rx="2" {} } "failed try" }
            span { svg { rect.box-bad fill="url(#hb)" y="1" width="12" height="8" rx="2" {} } "worker lost" }
            span { svg { line.ln.wait y1="5" y2="5" x2="14" {} } "waiting" }
        }
    }
}

impl<'a> Drawing<'a> {
    fn new(view: &'a View, sheet: &'a Sheet, leases: &'a [Lease], steps: &'a [StepOutline]) -> Drawing<'a> {
        let record = &sheet.record;
        let asked = Asked::of(&view.query);
        let end = record.ended_at.unwrap_or(view.now).max(record.submitted_at + 1);
        let whole = Stretch { from: record.submitted_at, to: end };
        let window = match asked.window {
            Some((from, to)) => {
                Stretch { from: (whole.from + from).min(whole.to - 1), to: whole.from.saturating_add(to).min(whole.to) }
            }
            None => whole,
        };
        let busy: Vec<Stretch> = leases.iter().map(|lease| held(lease, end)).collect();
        let scale = Scale::new(window, (!asked.is_true_time).then_some(&busy[..]));
        let shown = rows::of(steps, |position| asked.open.contains(&position));
        let is_in = |row: &Row| {
            let of_row = &steps[row.first..row.first + row.count];
            of_row.iter().any(|step| {
                let (from, to) = span(step, end);
                scale.shows(from, to)
            })
        };
        let rows = match asked.window {
            Some(_) => shown.into_iter().filter(is_in).collect(),
            None => shown,
        };
        let (tries, children) = (HashMap::new(), HashMap::new());
        Drawing { view, sheet, leases, steps, asked, scale, whole, rows, tries, children }
    }

    /// The first row of the page: that which was asked for, that before the chosen step, or the last ones of what goes on.
    fn first_row(&self) -> usize {
        let last_page = self.rows.len().saturating_sub(ROWS);
        let chosen = || {
            let step = self.asked.step?;
            let row = self.rows.iter().rposition(|row| self.steps[row.first].position <= step)?;
            (row >= ROWS).then(|| row.saturating_sub(ROWS / 4))
        };
        let is_done = self.sheet.record.state == baton_core::State::Completed;
        let usual = || if is_done || self.asked.step.is_some() { 0 } else { last_page };
        self.asked.row.or_else(chosen).unwrap_or_else(usual).min(self.rows.len().saturating_sub(1))
    }

    fn page(&self, first: usize) -> impl Iterator<Item = Row> {
        self.rows.iter().skip(first).take(ROWS).copied()
    }

    /// Reads what else is shown of the rows of a page: tries that failed, and how children stand.
    async fn read(&mut self, first: usize) -> Result<(), Error> {
        let steps = self.steps;
        let shown: Vec<&StepOutline> =
            self.page(first).filter(|row| row.count == 1).map(|row| &steps[row.first]).collect();
        let tried: Vec<u32> = shown.iter().filter(|step| step.attempts > 1).map(|step| step.position).collect();
        if let (Some(first), Some(last)) = (tried.iter().min(), tried.iter().max()) {
            let after = first.checked_sub(1).map(|before| (before, u32::MAX >> 1));
            let page = Page { after, limit: TRIES_MAX };
            for attempt in self.sheet.attempts(&self.view.app, None, page).await? {
                if attempt.position <= *last {
                    self.tries.entry(attempt.position).or_default().push(attempt);
                }
            }
        }
        let runs: Vec<RunId> = shown.iter().filter_map(|step| step.child).collect();
        if !runs.is_empty() {
            let found = self.sheet.children(&self.view.app, &runs).await?;
            self.children = runs.into_iter().zip(found).filter_map(|(run, child)| Some((run, child?))).collect();
        }
        Ok(())
    }

    fn end(&self) -> Millis {
        self.whole.to
    }

    /// The page with other parameters.
    fn href(&self, query: &Query) -> String {
        format!("{}#timeline", query.at(&self.view.path))
    }

    fn axis_choice(&self) -> Markup {
        let query = &self.view.query;
        let is_true = self.asked.is_true_time;
        html! {
            span.seg role="group" aria-label="Time axis" {
                a href=(self.href(&query.without("fold"))) aria-current=[(!is_true).then_some("true")] { "Fold idle time" }
                a href=(self.href(&query.with("fold", "0"))) aria-current=[is_true.then_some("true")] { "True time" }
            }
        }
    }

    // ---- the small picture

    /// The whole run in true time, and ways to choose a part of it.
    fn minimap(&self) -> Markup {
        let whole = self.whole;
        let percent = |moment: Millis| (moment - whole.from) as f64 * 100.0 / whole.length() as f64;
        let window = self.scale.window();
        let lanes = [("held", 3), ("done", 9), ("under", 14), ("failed", 19), ("sleeps", 24)];
        let mut strips: Vec<Strip> = lanes.iter().map(|_| Strip::new()).collect();
        for lease in self.leases {
            let held = held(lease, whole.to);
            strips[0].mark(whole, held.from, held.to);
        }
        for step in self.steps {
            let (from, to) = span(step, whole.to);
            let lane = match (step.kind, step.state) {
                (_, StepState::Failed) => 3,
                (StepKind::Sleep | StepKind::Signal, _) => 4,
                (_, StepState::Begun) if step.attempts > 1 => 3,
                (_, StepState::Begun) => 2,
                (_, StepState::Completed) => 1,
            };
            strips[lane].mark(whole, from, to);
        }
        let classes = ["m-run", "m-ok", "m-run", "m-bad", "m-sleep"];
        let zoomed = |from: f64, to: f64| {
            let length = window.length() as f64;
            let moment = |share: f64| {
                let at = window.from as f64 + length * share - whole.from as f64;
                (at.round() as Millis).clamp(0, whole.length())
            };
            let query = self.view.query.without("row").with("from", moment(from).to_string());
            self.href(&query.with("to", moment(to).max(moment(from) + 1).to_string()))
        };
        html! {
            div.mini-wrap {
                svg.mini role="img" aria-label="The whole run in true time; drag to choose a part" viewBox="0 0 600 30"
                    preserveAspectRatio="none" data-length=(whole.length()) {
                    rect.fold width="600" height="30" {}
                    @for ((strip, class), (_, y)) in strips.iter().zip(classes).zip(lanes) {
                        @let path = strip.path(y);
                        @if !path.is_empty() { path class=(class) d=(path) {} }
                    }
                    rect.v x=(format!("{:.1}", percent(window.from) * 6.0)) y="0.5" height="29" rx="3"
                        width=(format!("{:.1}", (percent(window.to) - percent(window.from)).max(0.5) * 6.0)) {}
                }
            }
            @if self.steps.len() > ROWS || self.asked.window.is_some() {
                nav.zoom aria-label="Part of the time" {
                    @if self.asked.window.is_some() {
                        a.btn.small href=(self.href(&self.view.query.without("from").without("to").without("row"))) { "All" }
                        a.btn.small href=(zoomed(-0.5, 0.5)) { "Before" }
                        a.btn.small href=(zoomed(0.5, 1.5)) { "After" }
                        a.btn.small href=(zoomed(-0.5, 1.5)) { "Wider" }
                    }
                    a.btn.small href=(zoomed(0.0, 0.5)) { "First half" }
                    a.btn.small href=(zoomed(0.5, 1.0)) { "Second half" }
                }
            }
        }
    }

    // ---- what crosses all rows

    fn grid(&self) -> Markup {
        html! {
            svg.wf-grid aria-hidden="true" {
                @for (_, left, right) in self.scale.folds() {
                    rect.fold x=(percent(left)) width=(percent(right - left)) height="100%" {}
                }
                @for tick in self.scale.ticks(self.whole.from) {
                    line.tick x1=(percent(self.scale.at(tick))) x2=(percent(self.scale.at(tick))) y2="100%" {}
                }
                @for (at, ..) in self.hand_overs() {
                    line.over x1=(percent(self.scale.at(at))) x2=(percent(self.scale.at(at))) y2="100%" {}
                }
                @if !self.sheet.record.state.is_ended() && self.asked.window.is_none() {
                    line.now x1="100%" x2="100%" y2="100%" {}
                }
            }
        }
    }

    fn head(&self) -> Markup {
        let window = self.scale.window();
        let begins = format::clock(window.from, self.view.now, &self.view.zone, Precision::Seconds);
        html! {
            div.wf-row.wf-head {
                span.lb { "Step" }
                svg.t aria-hidden="true" {
                    text x="0" y="18" dx="4" { (begins) }
                    @for tick in self.scale.ticks(self.whole.from) {
                        // Those at the right edge would stand beyond it.
                        @if self.scale.at(tick) < 93.0 && !self.is_near_hand_over(tick) {
                            text.hide-s x=(percent(self.scale.at(tick))) y="18" dx="4" {
                                "+" (format::duration(tick - self.whole.from))
                            }
                        }
                    }
                    @for (stretch, left, right) in self.scale.folds() {
                        text.hide-s x=(percent((left + right) / 2.0)) y="18" text-anchor="middle" {
                            (format::duration(stretch.length()))
                        }
                    }
                    @for (at, before, after) in self.hand_overs().into_iter().take(6) {
                        text.br.hide-s x=(percent(self.scale.at(at))) y="18" dx="4" { "e" (before) " → e" (after) }
                    }
                }
                span.du { "Took" }
            }
        }
    }

    fn is_near_hand_over(&self, tick: Millis) -> bool {
        let at = self.scale.at(tick);
        let is_near_fold = self.scale.folds().any(|(_, left, right)| at > left - 6.0 && at < right);
        is_near_fold || self.hand_overs().iter().take(6).any(|(over, ..)| (self.scale.at(*over) - at).abs() < 8.0)
    }

    /// When it went from one lease to the next although that had not ended as it should, and their epochs.
    fn hand_overs(&self) -> Vec<(Millis, u32, u32)> {
        let over = |pair: &[Lease]| {
            let (_, end) = pair[0].ended?;
            let is_over = match end {
                LeaseEnd::Lost | LeaseEnd::GivenBack | LeaseEnd::TimedOut => true,
                LeaseEnd::Completed | LeaseEnd::Failed | LeaseEnd::Slept | LeaseEnd::Cancelled => false,
            };
            let at = pair[1].claimed_at;
            (is_over && self.scale.shows(at, at)).then_some((at, pair[0].epoch, pair[1].epoch))
        };
        self.leases.windows(2).filter_map(over).take(LEASES_MAX).collect()
    }

    /// The first hand-over in words.
    fn hand_over_words(&self) -> Option<Markup> {
        let pair = self.leases.windows(2).find(|pair| {
            pair[0]
                .ended
                .is_some_and(|(_, end)| matches!(end, LeaseEnd::Lost | LeaseEnd::GivenBack | LeaseEnd::TimedOut))
        })?;
        let (at, end) = pair[0].ended?;
        let name = |lease: &Lease| lease.worker_name.clone().unwrap_or_else(|| "a worker that is gone".into());
        let how = match end {
            LeaseEnd::Lost => "ended without a sign of life",
            LeaseEnd::TimedOut => "took too long",
            _ => "was given back",
        };
        Some(html! {
            "e" (pair[0].epoch) " → e" (pair[1].epoch) " at "
            (parts::clock(self.view, pair[1].claimed_at, Precision::Tenths)) ": the lease of "
            b.b dir="auto" { (format::visible(&name(&pair[0]))) } " " (how) ", and "
            b.b dir="auto" { (format::visible(&name(&pair[1]))) } " took over "
            (format::duration(pair[1].claimed_at - at)) " later."
        })
    }

    // ---- rows

    fn held_by(&self) -> Markup {
        let shown: Vec<&Lease> = self
            .leases
            .iter()
            .filter(|lease| {
                let held = held(lease, self.end());
                self.scale.shows(held.from, held.to)
            })
            .collect();
        let words = |lease: &&Lease| {
            format!("epoch {} {}", lease.epoch, lease.worker_name.as_deref().unwrap_or("a worker that is gone"))
        };
        let label = shown.iter().take(10).map(words).collect::<Vec<_>>().join("; ");
        html! {
            a.wf-row href="#custody" {
                span.lb { (icon("hand")) span.cut { "Held by" } }
                svg.t role="img" aria-label={ "Leases: " (format::visible(&label)) } {
                    @for lease in shown.iter().rev().take(LEASES_MAX) {
                        @let held = held(lease, self.end());
                        @let (left, width) = self.bar(held.from, held.to);
                        @match lease.ended {
                            Some((_, LeaseEnd::Lost)) => {
                                rect.box-bad fill="url(#hb)" x=(percent(left)) width=(percent(width)) y="5" height="16" rx="2" {}
                            },
                            _ => rect.hold x=(percent(left)) width=(percent(width)) y="5" height="16" rx="2" {}
                        }
                        @if width > 4.0 && !matches!(lease.ended, Some((_, LeaseEnd::Lost))) {
                            text class="in" x=(percent(left)) y="17" dx="5" {
                                "e" (lease.epoch)
                                @if width > 14.0 {
                                    tspan.hide-s { " " (format::visible(lease.worker_name.as_deref().unwrap_or_default())) }
                                }
                            }
                        }
                    }
                }
                span.du { (format::counted(self.leases.len() as u64, "lease", "leases")) }
            }
        }
    }

    fn row(&self, row: Row) -> Markup {
        match row.count {
            1 => self.step(&self.steps[row.first], row.is_inside),
            _ => self.group(&self.steps[row.first..row.first + row.count]),
        }
    }

    fn group(&self, steps: &[StepOutline]) -> Markup {
        let first = &steps[0];
        let count = |state| steps.iter().filter(|step| step.state == state).count();
        let (done, failed) = (count(StepState::Completed), count(StepState::Failed));
        let spans = steps.iter().map(|step| span(step, self.end()));
        let (from, to) = spans.fold((Millis::MAX, 0), |all, (from, to)| (all.0.min(from), all.1.max(to)));
        let is_open = self.asked.open.contains(&first.position);
        let (class, icon_name) = match (failed, done == steps.len()) {
            (0, true) => ("fill-ok", kind_icon(first.kind)),
            (0, false) => ("fill-run", kind_icon(first.kind)),
            (_, _) => ("fill-bad", kind_icon(first.kind)),
        };
        let (left, width) = self.bar(from, to);
        let href = self.href(&self.view.query.with("open", self.asked.toggled(first.position)));
        let name = format!("{} × {}", first.name, format::number(steps.len() as u64));
        let state = format!("{} of {}", format::number(done as u64), format::number(steps.len() as u64));
        html! {
            a.wf-row href=(href) id={ "group-" (first.position) } aria-expanded=(is_open) {
                span.lb {
                    (icon(icon_name)) span.cut dir="auto" title=(format::visible(&name)) { (format::visible(&name)) }
                    span.push.dim.xs.nowrap.hide-s { (state) }
                }
                svg.t role="img" aria-label={ (state) " done" } {
                    rect class=(class) x=(percent(left)) width=(percent(width)) y="11" height="4" rx="2" {}
                }
                span.du { (format::duration(to - from)) }
            }
        }
    }

    fn step(&self, step: &StepOutline, is_inside: bool) -> Markup {
        let (from, to) = span(step, self.end());
        let tries = self.tries.get(&step.position).map_or(&[][..], Vec::as_slice);
        let first = tries.first().map_or(from, |first| first.begun_at.min(from));
        let query = self.view.query.with("step", step.position.to_string());
        let is_chosen = self.asked.step == Some(step.position);
        let class = if is_inside { "lb d1" } else { "lb" };
        html! {
            a.wf-row href={ (query.at(&self.view.path)) "#step" } id={ "at-" (step.position) }
                aria-current=[is_chosen.then_some("true")] {
                span class=(class) {
                    (icon(kind_icon(step.kind)))
                    span.cut dir="auto" title=(format::visible(&step.name)) { (label(step)) }
                    @if step.attempts > 1 { span.push.dim.xs.nowrap.hide-s { (step.attempts) " tries" } }
                }
                svg.t role="img" aria-label=(self.words(step)) { (self.bars(step, tries)) }
                span.du { @if step.kind != StepKind::Fact { (format::duration(to - first)) } }
            }
        }
    }

    /// The bars of a step: tries that failed, pauses between them, and the last one.
    fn bars(&self, step: &StepOutline, tries: &[StepAttempt]) -> Markup {
        let (from, to) = span(step, self.end());
        let rect = |class: &str, fill: Option<&str>, from: Millis, to: Millis| {
            let (left, width) = self.bar(from, to);
            html! { rect class=(class) fill=[fill] x=(percent(left)) width=(percent(width)) y="8" height="10" rx="2" {} }
        };
        let line = |class: &str, from: Millis, to: Millis| {
            let (left, width) = self.bar(from, to);
            html! { line class={ "ln " (class) } x1=(percent(left)) x2=(percent(left + width)) y1="13" y2="13" {} }
        };
        let earlier =
            tries.iter().filter(|attempt| attempt.attempt < step.attempts || attempt.begun_at < step.begun_at);
        let mut before: Option<Millis> = None;
        let mut drawn = Vec::new();
        for attempt in earlier {
            if let Some(before) = before.filter(|before| *before < attempt.begun_at) {
                drawn.push(line("wait", before, attempt.begun_at));
            }
            let lost_at = || self.lease_end(attempt.epoch.number());
            let end = attempt.ended_at.or_else(lost_at).unwrap_or(attempt.begun_at).max(attempt.begun_at);
            drawn.push(match (attempt.state, attempt.ended_at) {
                (StepState::Begun, _) | (_, None) => rect("box-bad", Some("url(#hb)"), attempt.begun_at, end),
                (StepState::Completed, Some(_)) => rect("fill-ok", None, attempt.begun_at, end),
                (StepState::Failed, Some(_)) => rect("fill-bad", None, attempt.begun_at, end),
            });
            before = Some(end);
        }
        if let Some(before) = before.filter(|before| *before < from) {
            drawn.push(line("wait", before, from));
        }
        drawn.push(match (step.kind, step.state) {
            (StepKind::Fact, _) => {
                html! { rect.fill-wait x=(percent(self.scale.at(from))) y="10" width="6" height="6" rx="1" {} }
            }
            (StepKind::Sleep, _) => line("sleep", from, to),
            (StepKind::Signal, _) => line("sig", from, to),
            (_, StepState::Failed) => rect("fill-bad", None, from, to),
            (_, StepState::Completed) => rect("fill-ok", None, from, to),
            (StepKind::Child, StepState::Begun) => self.open_child(step, from, to),
            // Between two tries: the last one failed, and the next one is due.
            (StepKind::Step, StepState::Begun) if step.due_at.is_some() => {
                let ended = step.ended_at.or_else(|| tries.last()?.ended_at).unwrap_or(from);
                html! { (rect("fill-bad", None, from, ended)) (line("wait", ended, to)) }
            }
            (StepKind::Step, StepState::Begun) => match self.is_under_way(step) {
                true => rect("fill-run", None, from, to),
                false => rect("box-bad", Some("url(#hb)"), from, self.lease_end(step.epoch.number()).unwrap_or(to)),
            },
        });
        html! { @for one in drawn { (one) } }
    }

    /// A child that has not been heard of yet, as its run stands.
    fn open_child(&self, step: &StepOutline, from: Millis, to: Millis) -> Markup {
        let child = step.child.and_then(|run| self.children.get(&run));
        let end = child.and_then(|child| child.ended_at).unwrap_or(to).max(from);
        let class = match child.map(|child| child.state) {
            Some(baton_core::State::Completed) => "fill-ok",
            Some(baton_core::State::Failed) => "fill-bad",
            Some(baton_core::State::Pending | baton_core::State::Cancelled) => "fill-wait",
            Some(baton_core::State::Sleeping) => "fill-sleep",
            Some(baton_core::State::Assigned | baton_core::State::Running) | None => "fill-run",
        };
        let (left, width) = self.bar(from, end);
        html! { rect class=(class) x=(percent(left)) width=(percent(width)) y="8" height="10" rx="2" {} }
    }

    /// Whether the worker that began a step still holds the run.
    fn is_under_way(&self, step: &StepOutline) -> bool {
        self.sheet.record.state.is_held() && step.epoch == self.sheet.record.epoch
    }

    fn lease_end(&self, epoch: u32) -> Option<Millis> {
        self.leases.iter().find(|lease| lease.epoch == epoch).and_then(|lease| lease.ended).map(|(at, _)| at)
    }

    /// Left edge and width in per cent; what is short can still be seen.
    fn bar(&self, from: Millis, to: Millis) -> (f64, f64) {
        let (left, right) = (self.scale.at(from), self.scale.at(to));
        let width = (right - left).max(0.3);
        (left.min(100.0 - width), width)
    }

    fn words(&self, step: &StepOutline) -> String {
        let state = match (step.kind, step.state) {
            (StepKind::Fact, _) => "decided once",
            (StepKind::Sleep, StepState::Begun) => "sleeps",
            (StepKind::Sleep, _) => "slept",
            (StepKind::Signal, _) => "signal taken",
            (_, StepState::Completed) => "completed",
            (_, StepState::Failed) => "failed",
            (StepKind::Step, StepState::Begun) if step.due_at.is_some() => "is tried again",
            (_, StepState::Begun) => "under way",
        };
        format!("{}: {state}", format::visible(&step.name))
    }

    /// A row that stands for others; the script loads them in its place.
    fn more(&self, first: usize, which: &str, count: usize, loads: bool) -> Markup {
        let query = self.view.query.with("row", first.to_string());
        let load = query.at(&format!("/runs/{}/rows", self.sheet.run()));
        html! {
            a.wf-row.more href=(self.href(&query)) data-load=[loads.then_some(load)] {
                span.lb { (icon("more")) span.cut { (format::number(count as u64)) " " (which) " " (if count == 1 { "row" } else { "rows" }) } }
            }
        }
    }
}

/// Rows behind those of the page, for the script.
async fn fragment(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Error> {
    let sheet = sheet::one(&app, &visitor.caller, service::run_id(&id)?).await?;
    let mut view = View::of(&app, &visitor, &headers, &uri).await?;
    view.namespace.clone_from(&sheet.lane.namespace);
    view.path = format!("/runs/{}", sheet.run());
    let leases = sheet.leases(&app).await?;
    let steps = sheet.outlines(&app).await?;
    let mut drawing = Drawing::new(&view, &sheet, &leases, &steps);
    let first = drawing.asked.row.unwrap_or(0);
    drawing.read(first).await?;
    let shown = html! {
        @for row in drawing.page(first) { (drawing.row(row)) }
        @if first + ROWS < drawing.rows.len() {
            (drawing.more(first + ROWS, "more", drawing.rows.len() - first - ROWS, true))
        }
    };
    Ok(([(CONTENT_TYPE, "text/html; charset=utf-8")], shown.into_string()).into_response())
}

/// From when to when a lease was held.
fn held(lease: &Lease, end: Millis) -> Stretch {
    let to = lease.ended.map_or(end, |(at, _)| at);
    Stretch { from: lease.claimed_at, to: to.max(lease.claimed_at) }
}

fn percent(value: f64) -> String {
    let text = format!("{value:.2}");
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The icon of a kind of step.
pub fn kind_icon(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Step => "plain",
        StepKind::Sleep => "sleep",
        StepKind::Signal => "signal",
        StepKind::Child => "child",
        StepKind::Fact => "fact",
    }
}

/// What stands in a row: kinds that are not plain to see have their word.
pub fn label(step: &StepOutline) -> String {
    let name = format::visible(&step.name);
    match step.kind {
        StepKind::Step | StepKind::Child | StepKind::Fact => name.into_owned(),
        StepKind::Sleep => format!("sleep {name}"),
        StepKind::Signal => format!("signal {name}"),
    }
}

/// A line of the small picture: which of its points are covered.
struct Strip([bool; POINTS]);

impl Strip {
    fn new() -> Strip {
        Strip([false; POINTS])
    }

    fn mark(&mut self, whole: Stretch, from: Millis, to: Millis) {
        let point = |moment: Millis| {
            let share = (moment - whole.from).max(0) as f64 / whole.length().max(1) as f64;
            ((share * POINTS as f64) as usize).min(POINTS - 1)
        };
        self.0[point(from)..=point(to.max(from))].fill(true);
    }

    /// A stroke for each stretch of covered points.
    fn path(&self, y: u32) -> String {
        let (mut path, mut at) = (String::new(), 0);
        while at < POINTS {
            let length = self.0[at..].iter().take_while(|is_covered| **is_covered == self.0[at]).count();
            if self.0[at] {
                path.push_str(&format!("M{at} {y}h{length}"));
            }
            at += length;
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_read_from_the_address() {
        let asked = |query: &str| Asked::of(&Query::parse(query));
        assert_eq!(
            asked("from=5&to=9&fold=0&row=200&open=3,x,7&step=4"),
            Asked { window: Some((5, 9)), is_true_time: true, row: Some(200), open: vec![3, 7], step: Some(4) }
        );
        assert_eq!(asked("from=9&to=5").window, None);
        assert_eq!(asked("from=-9&to=5").window, None);
        assert_eq!(asked("open=3,7").toggled(3), "7");
        assert_eq!(asked("open=3").toggled(9), "3,9");
    }

    #[test]
    fn the_small_picture_has_few_points() {
        let whole = Stretch { from: 100, to: 1_100 };
        let mut strip = Strip::new();
        strip.mark(whole, 100, 350);
        strip.mark(whole, 1_100, 1_100);
        strip.mark(whole, 2_000, 3_000);
        assert_eq!(strip.path(3), "M0 3h151M599 3h1");
        let mut dense = Strip::new();
        (0..10_000).for_each(|at| dense.mark(Stretch { from: 0, to: 10_000 }, at, at));
        assert_eq!(dense.path(1), "M0 1h600");
    }

    #[test]
    fn places_are_short() {
        assert_eq!((percent(0.0), percent(12.5), percent(100.0)), ("0%".into(), "12.5%".into(), "100%".into()));
    }
}
