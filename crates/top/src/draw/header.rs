//! The two lines at the top: which server, whether it answers, and how much is going on.

use ratatui::layout::Rect;

use super::canvas::{Canvas, Span, columns_of, span};
use crate::app::{App, Link};
use crate::style::Tone;
use crate::text::{MISSING, amount, clock, countdown, cut, number, sparkline, visible};

/// Narrowest chart that says something.
const CHART_COLUMNS_MIN: u16 = 4;
const CHART_COLUMNS_MAX: u16 = 30;

pub fn draw(canvas: &mut Canvas<'_>, app: &App, area: Rect) {
    let right = link(canvas, app);
    let room = area.width.saturating_sub(columns_of(&right) + 2);
    let server = &app.server;
    let url = visible(server.url.trim_start_matches("http://"));
    let mut left = vec![span("baton top", Tone::Strong), span(format!("  {}", cut(&url, 60)), Tone::Plain)];
    let namespace =
        server.namespace.as_deref().map_or_else(|| "all namespaces".into(), |name| format!("namespace {name}"));
    left.push(span(format!("  {}", cut(&visible(&namespace), 40)), Tone::Plain));
    if let Some(version) = &server.version {
        left.push(span(format!("  Baton {}", visible(version)), Tone::Dim));
    }
    canvas.put_all(area.x, area.y, room, &left);
    canvas.put_right(area.x, area.y, area.width, &right);
    draw_numbers(canvas, app, Rect { y: area.y + 1, height: 1, ..area });
}

fn link(canvas: &Canvas<'_>, app: &App) -> Vec<Span> {
    match &app.link {
        Link::Live => vec![span("● live", Tone::Good)],
        Link::Refused(_) => vec![span("✗ refused", Tone::Bad)],
        Link::Lost { since, next, .. } => {
            let since = clock(*since, canvas.now, canvas.zone);
            let next = countdown((next - canvas.now).max(0));
            vec![span(format!("○ no connection since {since}, next try in {next}"), Tone::Bad)]
        }
    }
}

/// A number with the last minutes of it.
struct Figure {
    name: &'static str,
    value: String,
    unit: &'static str,
    tone: Tone,
    values: Vec<Option<f64>>,
}

fn draw_numbers(canvas: &mut Canvas<'_>, app: &App, area: Rect) {
    let figures = figures(app);
    let texts: Vec<[Span; 2]> = figures
        .iter()
        .map(|figure| {
            let name = span(format!("{} ", figure.name), Tone::Dim);
            [name, span(format!("{}{} ", figure.value, figure.unit), figure.tone)]
        })
        .collect();
    let used: u16 = texts.iter().map(|spans| columns_of(spans) + 1).sum();
    let chart = area.width.saturating_sub(used) / figures.len().max(1) as u16;
    let chart = if chart < CHART_COLUMNS_MIN { 0 } else { chart.min(CHART_COLUMNS_MAX) };
    let mut x = area.x;
    for (figure, spans) in figures.iter().zip(&texts) {
        x = canvas.put_all(x, area.y, area.right().saturating_sub(x), spans);
        let bars = sparkline(&figure.values, usize::from(chart), canvas.theme.is_ascii);
        x = canvas.put(x, area.y, area.right().saturating_sub(x), &Span { text: bars, tone: figure.tone });
        x = x.saturating_add(1).min(area.right());
    }
}

fn figures(app: &App) -> [Figure; 4] {
    let queues = app.facts.queues.as_deref();
    let sum = |of: fn(&baton::proto::QueueView) -> u64| {
        queues.map_or_else(|| MISSING.into(), |queues| number(queues.iter().map(of).sum()))
    };
    let values = |name: &str| {
        let series = app.facts.numbers.iter().flat_map(|numbers| &numbers.series);
        series.into_iter().find(|series| series.name == name).map(|series| series.values.clone()).unwrap_or_default()
    };
    let (completed, failed) = (values("completed"), values("failed"));
    let step = app.facts.numbers.as_ref().map_or(10_000, |numbers| numbers.step_ms.max(1));
    let has_failed = last_minute(&failed, step).is_some_and(|count| count > 0.0);
    [
        Figure { name: "completed", value: rate(&completed, step), unit: "/min", tone: Tone::Good, values: completed },
        Figure {
            name: "failed",
            value: rate(&failed, step),
            unit: "/min",
            tone: if has_failed { Tone::Bad } else { Tone::Plain },
            values: failed,
        },
        Figure {
            name: "waiting",
            value: sum(|queue| queue.ready),
            unit: "",
            tone: Tone::Plain,
            values: values("ready"),
        },
        Figure {
            name: "running",
            value: sum(|queue| queue.held),
            unit: "",
            tone: Tone::Active,
            values: values("running"),
        },
    ]
}

/// What happened in the minute of whole steps that ended last: the step that is going on would make it too small.
fn last_minute(values: &[Option<f64>], step_ms: u64) -> Option<f64> {
    let steps = (60_000 / step_ms).max(1) as usize;
    let whole = &values[..values.len().saturating_sub(1)];
    let minute = &whole[whole.len().saturating_sub(steps)..];
    let known: Vec<f64> = minute.iter().flatten().copied().collect();
    (!known.is_empty()).then(|| known.iter().sum())
}

fn rate(values: &[Option<f64>], step_ms: u64) -> String {
    last_minute(values, step_ms).map_or_else(|| MISSING.into(), amount)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_whole_steps() {
        let values: Vec<Option<f64>> = [9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 100.0].map(Some).to_vec();
        assert_eq!(rate(&values, 10_000), "21");
        assert_eq!(rate(&[Some(3.0)], 10_000), MISSING);
        assert_eq!(rate(&[None, None, Some(1.0), None], 10_000), "1");
        assert_eq!(rate(&[Some(50.0), Some(7.0), None], 60_000), "7");
    }
}
