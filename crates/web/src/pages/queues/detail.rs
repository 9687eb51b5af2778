//! `/queues/{name}`: one queue, why it does what it does, and who serves it.

use baton_core::Millis;
use baton_proto::Statistics;
use baton_server::service::coverage::{COUNTED_MAX, Coverage, Flow};
use baton_server::service::statistics::{self, Wanted};
use baton_server::{Error, Scope, service};
use maud::{Markup, html};

use super::row::{flow_chip, since, table};
use super::{Row, rows};
use crate::format::{self, MISSING, Precision};
use crate::page::{Entry, Page, part};
use crate::parts::{self, Dialog, Line, Lines, hidden_csrf, icon, queue_path};
use crate::view::View;

/// Workers and types that the matrix shows.
const WORKERS_SHOWN: usize = 12;
const TYPES_SHOWN: usize = 60;

/// The page.
pub async fn page(view: &View, name: &str) -> Result<Page, Error> {
    let queue = service::queues::get_counted(&view.app, &view.caller, &view.namespace, name, COUNTED_MAX).await?;
    let rows = rows(view, vec![queue]).await?;
    let Some(row) = rows.first() else { return Err(Error::Internal) };
    let main = html! {
        div.stack {
            (part("why", &banner(view, row)))
            (part("queue", &html! {
                section.panel id="queue" aria-label="Numbers and limits" { (table(view, &rows, None)) }
            }))
            (below(view, row).await?)
        }
    };
    Ok(Page::new(Entry::Queues, name, main).below("Queues", "/queues").with_tools(parts::ranges(view)))
}

/// Chart and matrix of a queue.
pub async fn below(view: &View, row: &Row) -> Result<Markup, Error> {
    let range = parts::chosen_range(view);
    let wanted = Wanted {
        namespace: Some(view.namespace.clone()),
        queue: Some(row.queue.name.clone()),
        series: Some("ready,completed,failed,cancelled".into()),
        range: Some(range.range),
        points: Some(range.points),
        ..Wanted::default()
    };
    let found = statistics::get(&view.app, &view.caller, wanted).await?;
    let name = row.queue.name.as_str();
    let is_own_page = view.path.trim_end_matches('/') != "/queues";
    Ok(html! {
        div.split {
            (part("depth", &html! {
                section.panel id="depth" {
                    header {
                        @if is_own_page { h2 { "Depth" } } @else {
                            h2 { a.cut href=(view.href(&queue_path(name))) dir="auto" { (format::visible(name)) } }
                            (flow_chip(view, &row.flow))
                        }
                        span.end { a.btn.small href=(parts::runs(view, &[("state", "waiting"), ("queue", name)])) {
                            (format::counted(row.queue.ready, "waiting run", "waiting runs"))
                        } }
                    }
                    div.body.stack {
                        @if !is_own_page { p { (explained(view, row)) } }
                        (depth(view, name, &found))
                    }
                }
            }))
            (part("cover", &matrix(view, name, &row.coverage)))
        }
    })
}

fn depth(view: &View, name: &str, found: &Statistics) -> Markup {
    let waiting = parts::series(found, "ready").to_vec();
    let a_minute = 60_000.0 / found.step_ms.max(1) as f64;
    let ended = ["completed", "failed", "cancelled"].map(|name| parts::series(found, name));
    let ended = (0..found.times.len()).map(|index| {
        let counts = ended.iter().filter_map(|values| values.get(index).copied().flatten());
        counts.reduce(|sum, count| sum + count).map(|count| count * a_minute)
    });
    let most = waiting.iter().flatten().copied().fold(0.0, f64::max);
    let label = format!("Depth of {}: at most {} waited", format::visible(name), format::number(most as u64));
    let lines = [Line { name: "waiting", values: waiting }, Line { name: "ended a minute", values: ended.collect() }];
    let drawn = Lines { label: &label, lines: &lines, ticks: &parts::ticks(view, found), unit: format::amount };
    html! {
        (parts::lines(&drawn))
        (parts::legend(&["waiting", "ended a minute"]))
    }
}

/// Why the queue does what it does, in words, and what would help.
fn banner(view: &View, row: &Row) -> Markup {
    let (class, icon_name) = match &row.flow {
        Flow::Unserved(_) => ("explain bad", "bad"),
        Flow::Paused(_) => ("explain warn", "pause"),
        Flow::Disabled => ("explain warn", "held"),
        Flow::Full | Flow::Rate(_) | Flow::Keys(_) => ("explain", "later"),
        Flow::Flowing => ("explain run", "ok"),
        Flow::Idle => ("explain run", "wait"),
    };
    let name = row.queue.name.as_str();
    html! {
        section class=(class) id="why" aria-label="Why" {
            (icon(icon_name))
            p { (explained(view, row)) }
            @if view.may(Scope::Admin) {
                div.btns {
                    @if row.queue.paused {
                        form.inline method="post" action={ (queue_path(name)) "/resume" } {
                            (hidden_csrf())
                            input type="hidden" name="ns" value=(view.namespace);
                            input type="hidden" name="next" value=(view.href(&view.path));
                            button.btn.primary { (icon("run")) "Resume" }
                        }
                    } @else {
                        (parts::confirm("Pause", "", &pausing(view, name, &format!("{}/pause", queue_path(name)))))
                    }
                }
            }
        }
    }
}

fn pausing<'a>(view: &View, name: &str, action: &'a str) -> Dialog<'a> {
    const SPANS: [(&str, &str); 4] = [
        ("", "until somebody resumes it"),
        ("900000", "for 15 minutes"),
        ("3600000", "for an hour"),
        ("28800000", "for 8 hours"),
    ];
    Dialog {
        id: "pause",
        title: "Pause this queue?",
        action,
        body: html! {
            p { "It hands out nothing; what runs goes on, and what is submitted waits." }
            input type="hidden" name="ns" value=(view.namespace);
            input type="hidden" name="next" value=(view.href(&queue_path(name)));
            fieldset.stack {
                legend.sr { "For how long" }
                @for (index, (value, words)) in SPANS.iter().enumerate() {
                    label.row { input type="radio" name="for_ms" value=(value) checked[index == 0]; (words) }
                }
            }
        },
        confirm: "Pause",
        is_dangerous: false,
    }
}

/// Why a queue does what it does.
pub fn explained(view: &View, row: &Row) -> Markup {
    let (queue, coverage) = (&row.queue, &row.coverage);
    let waiting = format::counted(queue.ready, "run waits", "runs wait");
    let oldest = html! {
        @if let Some(ms) = queue.oldest_ms { ", the oldest since " (parts::clock(view, since(view, ms), Precision::Seconds)) }
    };
    let (places, held) = coverage.places();
    match &row.flow {
        Flow::Disabled => html! {
            "The namespace is disabled: nothing of it is handed out. " (waiting) (oldest) "."
        },
        Flow::Paused(Millis::MAX) => html! {
            "The queue is paused until somebody resumes it. " (waiting) (oldest) "."
        },
        Flow::Paused(until) => html! {
            "The queue is paused until " b.b { (parts::clock(view, *until, Precision::Seconds)) } ". " (waiting) (oldest) "."
        },
        Flow::Unserved(_) => html! {
            @for one in coverage.unserved().take(3) {
                "No online worker serves the type " code dir="auto" { (format::visible(&one.kind)) }
                @if let Some(at) = one.unserved_since {
                    " since " b.b { (parts::clock(view, at - at.rem_euclid(1_000), Precision::Minutes)) }
                }
                ": " (at_least(one.ready)) (if one.ready == 1 { " run of it waits. " } else { " runs of it wait. " })
            }
            @if coverage.unserved().count() > 3 { "The table has the other types. " }
            @if coverage.types.iter().any(|one| one.unserved_since.is_none()) { "The other types flow." }
            @else { "Start a worker for it, and it goes on." }
        },
        Flow::Full => html! {
            "All " (format::number(places)) " places of its workers are taken. " (waiting) (oldest) "."
        },
        Flow::Rate(rate) => html! {
            "It hands out " (format::amount(*rate)) " runs a second, as somebody has set it. " (waiting) (oldest) "."
        },
        Flow::Keys(limit) => html! {
            "At most " (limit) " runs of each key are held at once, as somebody has set it. " (waiting) (oldest) "."
        },
        Flow::Flowing if queue.ready == 0 => html! {
            "Nothing waits. " (format::counted(queue.held, "run is held", "runs are held")) ", and " (format::number(places.saturating_sub(held))) " places are free."
        },
        Flow::Flowing => html! { "It flows: " (waiting) (oldest) "." },
        Flow::Idle if queue.scheduled + queue.sleeping > 0 => html! {
            "Nothing waits now. " (format::number(queue.scheduled)) " are due later, and " (format::number(queue.sleeping)) " sleep."
        },
        Flow::Idle => html! { "The queue is empty." },
    }
}

/// Which worker serves which type. A type that nobody serves is named.
fn matrix(view: &View, queue: &str, coverage: &Coverage) -> Markup {
    let workers = &coverage.workers[..coverage.workers.len().min(WORKERS_SHOWN)];
    let more = coverage.workers.len() - workers.len();
    let unserved: Vec<&str> = coverage.unserved().map(|one| one.kind.as_str()).collect();
    html! {
        section.panel id="cover" {
            header { h2 { "Who serves what" } span.count { (coverage.workers.len()) } }
            @if coverage.types.is_empty() {
                (parts::empty("worker", "No type has work here, and no worker is online.", html! {
                    p.soft { "A worker says which queue and which types it serves:" }
                    (parts::command(&format!("baton worker run --queue {} --type TYPE --exec COMMAND", parts::word(queue))))
                }))
            } @else {
                div.scroll-x {
                    table.cover {
                        thead { tr {
                            th { "Type" }
                            th.num { "Waiting" }
                            @for worker in workers {
                                th { a.cut.name href=(view.href(&format!("/workers/{}", worker.id))) dir="auto" { (format::visible(&worker.name)) } }
                            }
                            @if more > 0 { th { "and " (more) " more" } }
                        } }
                        tbody {
                            @for one in coverage.types.iter().take(TYPES_SHOWN) {
                                tr data-key=(one.kind) {
                                    td.c-bad[one.unserved_since.is_some()].b[one.unserved_since.is_some()] {
                                        span.cut.name dir="auto" { (format::visible(&one.kind)) }
                                    }
                                    td.num { a href=(parts::runs(view, &[("state", "waiting"), ("queue", queue), ("type", &one.kind)])) {
                                        (at_least(one.ready))
                                    } }
                                    @for worker in workers {
                                        td {
                                            @if worker.types.contains(&one.kind) {
                                                span.dim[worker.status != "ONLINE"] title=(if worker.status == "ONLINE" { "places" } else { "drains" }) {
                                                    (worker.max_concurrent)
                                                }
                                            } @else { span.dim { (MISSING) } }
                                        }
                                    }
                                    @if more > 0 { td.soft { (one.workers) " in all" } }
                                }
                            }
                        }
                    }
                }
                footer {
                    "Numbers are places."
                    @if coverage.types.len() > TYPES_SHOWN { " " (coverage.types.len() - TYPES_SHOWN) " more types." }
                    @for kind in unserved.iter().take(5) { " " span.c-bad dir="auto" { (format::visible(kind)) ": nobody" } }
                }
            }
        }
    }
}

/// A number that was counted up to a limit.
fn at_least(count: u64) -> String {
    match count {
        COUNTED_MAX.. => format!("{}+", format::number(count)),
        count => format::number(count),
    }
}
