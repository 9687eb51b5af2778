//! Six numbers with sparklines, and two charts.

use baton_proto::{QueueView, Statistics};
use maud::{Markup, html};

use crate::format;
use crate::pages::queues::{Row, since};
use crate::parts::{self, Bars, Line, Lines, Tone, series, total};
use crate::view::View;

/// What waits and runs now.
pub struct Level {
    waiting: u64,
    running: u64,
    /// How long the oldest has waited, and where.
    oldest: Option<(u64, String)>,
}

impl Level {
    /// From the queues that were read; where there are more, from the last look at all of them.
    pub fn of(rows: &[Row], total: usize, found: &Statistics) -> Level {
        let queues: Vec<&QueueView> = rows.iter().map(|row| &row.queue).collect();
        let last =
            |name: &str| series(found, name).iter().rev().flatten().next().map_or(0, |value| value.round() as u64);
        let oldest = queues.iter().filter_map(|queue| Some((queue.oldest_ms?, queue.name.clone()))).max();
        match queues.len() == total {
            true => Level {
                waiting: queues.iter().map(|queue| queue.ready).sum(),
                running: queues.iter().map(|queue| queue.held).sum(),
                oldest,
            },
            false => Level { waiting: last("ready"), running: last("running"), oldest },
        }
    }
}

/// The six numbers.
pub fn panel(view: &View, found: &Statistics, level: &Level) -> Markup {
    let (completed, failed) = (series(found, "completed"), series(found, "failed"));
    let (p50, p95) = (series(found, "wait.p50_ms"), series(found, "wait.p95_ms"));
    let lost = series(found, "lost");
    let (done, broken, gone) = (total(completed) as u64, total(failed) as u64, total(lost) as u64);
    let cancelled = total(series(found, "cancelled")) as u64;
    let up = completed.iter().flatten().count().max(1) as f64 * found.step_ms as f64 / 1_000.0;
    let within = parts::chosen_range(view).short.replace(' ', "");
    let newest = |values: &[Option<f64>]| values.iter().rev().flatten().next().copied();
    let span = |value: Option<f64>| value.map_or_else(|| format::MISSING.to_owned(), |ms| format::duration(ms as i64));
    let workers = newest(series(found, "workers.online")).unwrap_or(0.0).round() as u64;
    html! {
        section.panel.stats id="numbers" aria-label="Now" {
            a href=(parts::runs(view, &[("state", "waiting")])) {
                span.k { "Waiting" }
                div.v { (format::short_number(level.waiting)) }
                div.s.cut {
                    @if let Some((ms, queue)) = &level.oldest {
                        "oldest " (parts::ago(view, since(view, *ms))) ", " span dir="auto" { (format::visible(queue)) }
                    } @else { "nothing waits" }
                }
                (parts::spark(series(found, "ready"), Tone::Warn, 100, 26))
            }
            a href=(parts::runs(view, &[("state", "running")])) {
                span.k { "Running" }
                div.v { (format::short_number(level.running)) }
                div.s.cut { (format::counted(workers, "worker online", "workers online")) }
                (parts::spark(series(found, "running"), Tone::Run, 100, 26))
            }
            a href=(parts::runs(view, &[("state", "completed"), ("since", &within)])) {
                span.k { "Completed" }
                div.v { (format::short_number(done)) }
                div.s.cut { (format::amount(done as f64 / up)) " a second" }
                (parts::spark(completed, Tone::Ok, 100, 26))
            }
            a href=(parts::runs(view, &[("state", "failed"), ("since", &within)])) {
                span.k { "Failed" }
                div.v { (format::short_number(broken)) }
                div.s.cut { (format::percent(broken, done + broken + cancelled)) @if broken > 0 { " of ended" } }
                (parts::spark(failed, Tone::Bad, 100, 26))
            }
            a href=(view.href("/queues")) {
                span.k { "Wait, p95" }
                div.v { (span(newest(p95))) }
                div.s.cut { "p50 " (span(newest(p50))) }
                (parts::spark(p95, Tone::Plain, 100, 26))
            }
            a href=(view.href("/workers")) {
                span.k { "Handed over" }
                div.v { (format::short_number(gone)) }
                div.s.cut { @if gone == 0 { "no worker was lost" } @else { "their workers fell silent" } }
                (parts::spark(lost, Tone::Plain, 100, 26))
            }
        }
    }
}

/// What ended in each step.
pub fn ended(view: &View, found: &Statistics) -> Markup {
    let a_minute = 60_000.0 / found.step_ms.max(1) as f64;
    let of = |name: &str| series(found, name).iter().map(|value| value.unwrap_or(0.0) * a_minute).collect::<Vec<_>>();
    let (completed, failed, cancelled) = (of("completed"), of("failed"), of("cancelled"));
    let most = failed.iter().copied().fold(0.0, f64::max);
    let label = format!(
        "Ended runs a minute: {} in all, failures at most {} a minute",
        format::number(total(series(found, "completed")) as u64 + total(series(found, "failed")) as u64),
        format::amount(most)
    );
    let all =
        [("completed", Tone::Ok, completed), ("failed", Tone::Bad, failed), ("cancelled", Tone::Plain, cancelled)];
    html! {
        section.panel id="ended" {
            header {
                h2 { "Ended, a minute" }
                span.end { div.legend {
                    @for (name, class) in [("completed", "p-ok"), ("failed", "p-bad"), ("cancelled", "p-wait")] {
                        span { svg aria-hidden="true" { rect class=(class) y="1" width="10" height="8" {} } (name) }
                    }
                } }
            }
            div.body { (parts::bars(&Bars { label: &label, series: &all, ticks: &parts::ticks(view, found) })) }
        }
    }
}

/// What waited, by queue.
pub fn waiting(view: &View, found: &Statistics) -> Markup {
    let of_queues = found.series.iter().filter(|series| series.name == "ready" && series.queue.is_some());
    let lines: Vec<Line<'_>> = of_queues
        .map(|series| Line { name: series.queue.as_deref().unwrap_or_default(), values: series.values.clone() })
        .take(3)
        .collect();
    let names: Vec<&str> = lines.iter().map(|line| line.name).collect();
    let most = lines.iter().flat_map(|line| line.values.iter().flatten().copied()).fold(0.0, f64::max);
    let label = format!("Waiting runs by queue: at most {} in one of them", format::number(most as u64));
    html! {
        section.panel id="waiting" {
            header { h2 { "Waiting, by queue" } span.end { (parts::legend(&names)) } }
            div.body {
                (parts::lines(&Lines { label: &label, lines: &lines, ticks: &parts::ticks(view, found), unit: format::amount }))
            }
        }
    }
}
