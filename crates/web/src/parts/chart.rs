//! Charts, drawn by the server as SVG. Geometry is in attributes: x in per cent or in units of the view box, never in a
//! style.

use maud::{Markup, html};

use crate::format;

/// The colour of a series, by what it means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    /// Neither good nor bad.
    Plain,
    /// Done.
    Ok,
    /// Failed.
    Bad,
    /// Under way.
    Run,
    /// Waiting too long.
    Warn,
}

impl Tone {
    fn spark(self) -> &'static str {
        match self {
            Tone::Plain => "spark",
            Tone::Ok => "spark ok",
            Tone::Bad => "spark bad",
            Tone::Run => "spark run",
            Tone::Warn => "spark warn",
        }
    }

    fn fill(self) -> &'static str {
        match self {
            Tone::Plain => "p-wait",
            Tone::Ok => "p-ok",
            Tone::Bad => "p-bad",
            Tone::Run => "p-run",
            Tone::Warn => "p-warn",
        }
    }
}

/// A small line without axes. A value that is not known leaves a gap.
pub fn spark(values: &[Option<f64>], tone: Tone, width: u32, height: u32) -> Markup {
    let max = values.iter().flatten().copied().fold(0.0, f64::max);
    let points = points(values, max, f64::from(width), f64::from(height), 1.5);
    let (line, area) = (path(&points), area(&points, f64::from(height)));
    html! {
        svg class=(tone.spark()) viewBox={ "0 0 " (width) " " (height) } preserveAspectRatio="none" aria-hidden="true" {
            @if !line.is_empty() { path.a d=(area) {} path d=(line) {} }
        }
    }
}

/// How much of something is used, as a bar.
pub fn bar(share: f64, tone: Tone) -> Markup {
    let width = format!("{:.1}%", (share * 100.0).clamp(0.0, 100.0));
    html! {
        svg.bar aria-hidden="true" {
            rect.bg width="100%" height="8" {}
            rect class={ "fill-" (tone.fill().trim_start_matches("p-")) } width=(width) height="8" {}
        }
    }
}

/// A chart of stacked bars.
pub struct Bars<'a> {
    /// What one would see, as a sentence.
    pub label: &'a str,
    /// The stacked series, from the bottom: name, tone, values.
    pub series: &'a [(&'a str, Tone, Vec<f64>)],
    /// What stands under the chart, from left to right.
    pub ticks: &'a [String],
}

/// Draws stacked bars.
pub fn bars(chart: &Bars<'_>) -> Markup {
    let count = chart.series.iter().map(|(_, _, values)| values.len()).max().unwrap_or(0);
    let value = |series: &[f64], index: usize| series.get(index).copied().unwrap_or(0.0);
    let sums = (0..count).map(|index| chart.series.iter().map(|(_, _, values)| value(values, index)).sum::<f64>());
    let top = nice_top(sums.fold(0.0, f64::max));
    let step = 100.0 / count.max(1) as f64;
    let mut bases = vec![100.0; count];
    let mut drawn = Vec::new();
    for (_, tone, values) in chart.series {
        let mut shape = String::new();
        for (index, base) in bases.iter_mut().enumerate() {
            let height = value(values, index) / top * 100.0;
            if height > 0.0 {
                *base -= height;
                let (x, y) = (coordinate(index as f64 * step + step * 0.1), coordinate(*base));
                let (width, height) = (coordinate(step * 0.8), coordinate(height));
                shape.push_str(&format!("M{x} {y}h{width}v{height}h-{width}z"));
            }
        }
        drawn.push((tone.fill(), shape));
    }
    html! {
        div.chart role="img" aria-label=(chart.label) {
            (scale(top, format::amount))
            svg.plot viewBox="0 0 100 100" preserveAspectRatio="none" {
                (grid())
                @for (class, shape) in drawn { path class=(class) d=(shape) {} }
            }
            (axis(chart.ticks))
        }
    }
}

/// One line of a chart.
pub struct Line<'a> {
    /// Its name, for the legend.
    pub name: &'a str,
    /// Solid for the first, dashed and dotted for the others: never colour alone.
    pub values: Vec<Option<f64>>,
}

/// A chart of lines.
pub struct Lines<'a> {
    /// What one would see, as a sentence.
    pub label: &'a str,
    /// At most three lines, the most important first.
    pub lines: &'a [Line<'a>],
    /// What stands under the chart, from left to right.
    pub ticks: &'a [String],
    /// How values of the scale are written.
    pub unit: fn(f64) -> String,
}

/// Draws lines; the first one has an area below it.
pub fn lines(chart: &Lines<'_>) -> Markup {
    let top = nice_top(chart.lines.iter().flat_map(|line| line.values.iter().flatten().copied()).fold(0.0, f64::max));
    let drawn: Vec<_> = chart.lines.iter().map(|line| points(&line.values, top, 100.0, 100.0, 0.0)).collect();
    html! {
        div.chart role="img" aria-label=(chart.label) {
            (scale(top, chart.unit))
            svg.plot viewBox="0 0 100 100" preserveAspectRatio="none" {
                (grid())
                @if let Some(first) = drawn.first() { path.fillr d=(area(first, 100.0)) {} }
                @for (points, class) in drawn.iter().zip(LINES) { path class=(class) d=(path(points)) {} }
            }
            (axis(chart.ticks))
        }
    }
}

/// What the lines of a chart mean.
pub fn legend(names: &[&str]) -> Markup {
    html! {
        div.legend {
            @for (name, class) in names.iter().zip(LINES) {
                span { svg aria-hidden="true" { path class=(class) d="M0 5H14" {} } span.cut { (format::visible(name)) } }
            }
        }
    }
}

/// The classes of lines: one is solid, the others are dashed and dotted.
const LINES: [&str; 3] = ["l l1", "l l2", "l l3"];

fn grid() -> Markup {
    html! { path.ax d="M0 0H100M0 25H100M0 50H100M0 75H100M0 100H100" {} }
}

fn scale(top: f64, unit: fn(f64) -> String) -> Markup {
    html! { div.y aria-hidden="true" { @for part in [1.0, 0.75, 0.5, 0.25, 0.0] { span { (mark(top * part, unit)) } } } }
}

/// What stands beside a line of the scale: nothing where the number would have to be rounded.
fn mark(value: f64, unit: fn(f64) -> String) -> String {
    if (0.1..100.0).contains(&value) && ((value * 10.0).round() / 10.0 - value).abs() > 1e-6 {
        return String::new();
    }
    let text = unit(value);
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

fn axis(ticks: &[String]) -> Markup {
    html! { div.x aria-hidden="true" { @for tick in ticks { span { (tick) } } } }
}

/// The points of a line, in pieces between gaps.
fn points(values: &[Option<f64>], max: f64, width: f64, height: f64, margin: f64) -> Vec<Vec<(f64, f64)>> {
    let step = width / (values.len().max(2) - 1) as f64;
    let scale = if max > 0.0 { (height - 2.0 * margin) / max } else { 0.0 };
    let mut pieces = vec![Vec::new()];
    for (index, value) in values.iter().enumerate() {
        match value {
            Some(value) => {
                let point = (index as f64 * step, height - margin - value.max(0.0) * scale);
                if let Some(piece) = pieces.last_mut() {
                    piece.push(point);
                }
            }
            None => pieces.push(Vec::new()),
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

fn path(pieces: &[Vec<(f64, f64)>]) -> String {
    let mut text = String::new();
    for piece in pieces {
        for (index, (x, y)) in piece.iter().enumerate() {
            text.push_str(&format!("{}{} {}", if index == 0 { 'M' } else { 'L' }, coordinate(*x), coordinate(*y)));
        }
        if piece.len() == 1 {
            text.push_str("h.5");
        }
    }
    text
}

fn area(pieces: &[Vec<(f64, f64)>], height: f64) -> String {
    let mut text = String::new();
    for piece in pieces {
        let (Some(first), Some(last)) = (piece.first(), piece.last()) else { continue };
        text.push_str(&path(std::slice::from_ref(piece)));
        text.push_str(&format!("L{} {height}L{} {height}z", coordinate(last.0), coordinate(first.0)));
    }
    text
}

/// A number of an attribute, as short as it can be seen.
fn coordinate(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// A round number at or above the largest value: the top of the scale.
fn nice_top(max: f64) -> f64 {
    if max.is_nan() || max <= 0.0 {
        return 1.0;
    }
    let unit = 10f64.powf(max.log10().floor());
    [1.0, 2.0, 4.0, 5.0, 8.0, 10.0].map(|factor| factor * unit).into_iter().find(|top| *top >= max).unwrap_or(max)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn gaps_stay_gaps() {
        let drawn = path(&points(&[Some(1.0), Some(2.0), None, Some(1.0)], 2.0, 90.0, 10.0, 0.0));
        assert_eq!(drawn.matches('M').count(), 2, "{drawn}");
        assert!(path(&points(&[None, None], 0.0, 90.0, 10.0, 0.0)).is_empty());
    }

    proptest! {
        #[test]
        fn the_top_of_a_scale_is_a_little_above_all(max in 0.001f64..1e12) {
            let top = nice_top(max);
            prop_assert!(top >= max && top <= max * 2.5, "{top}");
        }

        #[test]
        fn lines_stay_within_their_box(values in prop::collection::vec(prop::option::of(0.0f64..1e9), 0..200)) {
            let max = values.iter().flatten().copied().fold(0.0, f64::max);
            for (x, y) in points(&values, max, 100.0, 26.0, 1.5).into_iter().flatten() {
                prop_assert!((0.0..=100.01).contains(&x) && (0.0..=26.0).contains(&y));
            }
        }
    }
}
