//! What a workflow remembers, position by position, with what came out.

use baton_core::Millis;
use baton_server::service::lists::Phase;
use baton_server::service::sheet::{Payload, Sheet, Step, StepKind, StepState};
use baton_server::{Error, Page};
use maud::{Markup, html};

use super::{io, run_link, timeline};
use crate::format::{self, Precision};
use crate::parts::{self, icon};
use crate::view::View;

/// Positions on a page.
const SHOWN_MAX: usize = 50;
/// Characters of a result that stand in its row.
const ROW_CHARS: usize = 120;

/// The panel; `?journal=` is the position after which it begins.
pub async fn section(view: &View, sheet: &Sheet, count: usize) -> Result<Markup, Error> {
    let after = view.query.get("journal").and_then(|text| text.parse::<u32>().ok());
    let (steps, has_more) = sheet.steps(&view.app, Page { after, limit: SHOWN_MAX }).await?;
    let last = steps.last().map(|(step, _)| step.position);
    Ok(html! {
        section.panel id="journal" aria-labelledby="journal-title" {
            header {
                h2 id="journal-title" { "Journal" }
                span.count { (format::counted(count as u64, "position", "positions")) }
            }
            @if steps.is_empty() {
                div.body { p.none { "It remembers nothing yet." } }
            } @else {
                div.scroll-x {
                    table {
                        thead {
                            tr {
                                th.num.w-s { "#" }
                                th { "Step" }
                                th.num { "Tries" }
                                th.num { "From" }
                                th.num { "Took" }
                                th { "Result" }
                            }
                        }
                        tbody { @for (step, output) in &steps { (row(view, sheet, step, output.as_ref())) } }
                    }
                }
            }
            @if after.is_some() || has_more {
                footer.row {
                    @if after.is_some() { a.link href={ (view.here_with("journal", "")) "#journal" } { "From its beginning" } }
                    @if let Some(last) = last.filter(|_| has_more) {
                        a.link href={ (view.here_with("journal", &last.to_string())) "#journal" } { "Further" }
                    }
                }
            }
        }
    })
}

fn row(view: &View, sheet: &Sheet, step: &Step, output: Option<&Payload>) -> Markup {
    let query = view.query.with("step", step.position.to_string());
    html! {
        tr data-row="" id={ "position-" (step.position) } {
            td.num.dim { (step.position) }
            td {
                span.main {
                    span.kind title=(step.kind.as_str()) { (icon(timeline::kind_icon(step.kind))) }
                    a.b.cut dir="auto" href={ (query.at(&view.path)) "#step" } { (format::visible(&step.name)) }
                }
            }
            td.num.soft { (step.attempts) }
            td.num.soft { (parts::clock(view, step.begun_at, Precision::Tenths)) }
            td.num { (took(step)) }
            td.soft { (result(view, sheet, step, output)) }
        }
    }
}

/// How long the last try took.
fn took(step: &Step) -> String {
    match (step.kind, step.ended_at) {
        (StepKind::Fact, _) | (_, None) => format::MISSING.into(),
        (_, Some(ended)) => format::duration(ended - step.begun_at),
    }
}

/// What came out, in one line; all that is shown of it when it is opened.
fn result(view: &View, sheet: &Sheet, step: &Step, output: Option<&Payload>) -> Markup {
    if let Some(error) = step.error.as_ref().filter(|_| step.state != StepState::Completed) {
        return html! { span.c-bad dir="auto" { (format::first_line(error, 300)) } };
    }
    let Some(payload) = output.filter(|payload| payload.size > 0) else {
        return match step.child {
            Some(run) => html! { "run " (run_link(view, run)) },
            None => html! { (state_word(step.state, step.due_at)) },
        };
    };
    let text = payload.bytes.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
    let is_short = text.is_some_and(|text| text.len() <= ROW_CHARS && !text.contains('\n'));
    let line = match text {
        Some(text) => html! { code dir="auto" { (format::first_line(text, ROW_CHARS)) } },
        None => html! { (format::bytes(payload.size)) },
    };
    html! {
        @if is_short {
            (line)
        } @else {
            details {
                summary.cut { (line) }
                (io::whole(view, sheet.run(), &format!("step-{}", step.position), payload))
            }
        }
    }
}

fn state_word(state: StepState, due_at: Option<Millis>) -> &'static str {
    match (state, due_at) {
        (StepState::Begun, Some(_)) => "waits",
        (StepState::Begun, None) => "under way",
        (StepState::Completed, _) => "nothing",
        (StepState::Failed, _) => "failed",
    }
}

/// The panel about a chosen position, beside the waterfall.
pub async fn chosen(view: &View, sheet: &Sheet, position: u32) -> Result<Option<Markup>, Error> {
    let after = position.checked_sub(1);
    let (steps, _) = sheet.steps(&view.app, Page { after, limit: 1 }).await?;
    let Some((step, output)) = steps.into_iter().next().filter(|(step, _)| step.position == position) else {
        return Ok(None);
    };
    let tries = sheet.attempts(&view.app, Some(position), Page { after: None, limit: TRIES_MAX }).await?;
    let close = format!("{}#timeline", view.query.without("step").at(&view.path));
    let link = format!("{}#step", view.query.at(&view.path));
    Ok(Some(html! {
        aside.panel id="step" aria-label="Chosen step" {
            header {
                (icon(timeline::kind_icon(step.kind)))
                h2.cut dir="auto" { (format::visible(&step.name)) }
                span.count { (step.kind.as_str()) " " (position) }
                span.end {
                    a.btn.small.icon.ghost href=(link) aria-label="Link to this step" { (icon("link")) }
                    a.btn.small.icon.ghost href=(close) aria-label="Close" { (icon("x")) }
                }
            }
            div.body.stack {
                dl.kv {
                    dt { "State" }
                    dd { (state(step.state)) }
                    @if let Some(due) = step.due_at.filter(|_| step.state == StepState::Begun) {
                        dt { "Until" }
                        dd { (parts::clock(view, due, Precision::Seconds)) " " span.dim { (parts::ago(view, due)) } }
                    }
                    dt { "Began" } dd { (parts::clock(view, step.begun_at, Precision::Tenths)) }
                    @if let Some(ended) = step.ended_at {
                        dt { "Ended" } dd { (parts::clock(view, ended, Precision::Tenths)) }
                        dt { "Took" } dd { (format::duration(ended - step.begun_at)) }
                    }
                    @if let Some(run) = step.child { dt { "Child" } dd { (run_link(view, run)) } }
                    @if let Some(message) = step.message { dt { "Signal" } dd { "number " (message) } }
                    @if let Some(code) = &step.code { dt { "Code" } dd { (parts::code(code)) } }
                }
                @if let Some(error) = &step.error {
                    div {
                        h3 { @if step.state == StepState::Completed { "What the last failed try said" } @else { "Error" } }
                        (io::message(error))
                    }
                }
                @if let Some(payload) = output.as_ref().filter(|payload| payload.size > 0) {
                    div {
                        h3 { "Result " span.dim { (format::bytes(payload.size)) } }
                        (io::whole(view, sheet.run(), &format!("step-{position}"), payload))
                    }
                }
                @if tries.len() > 1 {
                    div {
                        h3 { (tries.len()) " tries" }
                        ol.tries {
                            @for attempt in &tries {
                                li {
                                    span.row {
                                        @let is_lost = attempt.ended_at.is_none() && attempt.epoch < sheet.record.epoch;
                                        @if is_lost { span.st.bad { (icon("bad")) "lost" } } @else { (state(attempt.state)) }
                                        (parts::epoch(attempt.epoch.number()))
                                        span.dim.nowrap { (parts::clock(view, attempt.begun_at, Precision::Tenths)) }
                                        @if let Some(ended) = attempt.ended_at {
                                            span.push { (format::duration(ended - attempt.begun_at)) }
                                        } @else if is_lost { span.push.soft { "with its worker" } }
                                    }
                                    @if let Some(error) = &attempt.error {
                                        code dir="auto" { (format::first_line(error, 300)) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }))
}

/// Tries that are listed.
const TRIES_MAX: usize = 100;

fn state(state: StepState) -> Markup {
    parts::state(match state {
        StepState::Begun => Phase::Running,
        StepState::Completed => Phase::Completed,
        StepState::Failed => Phase::Failed,
    })
}
