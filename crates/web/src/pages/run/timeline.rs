//! The waterfall of a workflow: who held it, and a row for each position. Zoom, folds and which rows are shown are in the
//! address, and the server draws what is asked for: the page stays small however many steps there are.

mod axis;
mod bars;
mod minimap;

use std::collections::HashMap;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use baton_core::{Millis, RunId};
use baton_server::service::sheet::{self, Child, Lease, Sheet, StepAttempt, StepKind, StepOutline};
use baton_server::service::{self};
use baton_server::{App, Error, Page};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Uri};
use maud::{Markup, html};

use super::rows::{self, Row, span};
use super::scale::{Scale, Stretch};
use crate::format;
use crate::parts::icon;
use crate::query::Query;
use crate::session::Visitor;
use crate::view::View;

/// Rows of a page, and of what is loaded behind them.
const ROWS: usize = 100;
/// Tries of steps that are drawn on one page.
const TRIES_MAX: usize = 2_000;
/// Leases and hand-overs that are drawn.
const LEASES_MAX: usize = 200;

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
    fn places_are_short() {
        assert_eq!((percent(0.0), percent(12.5), percent(100.0)), ("0%".into(), "12.5%".into(), "100%".into()));
    }
}
