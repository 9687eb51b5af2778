//! The stretch of time that charts show: an hour, a day or a month, by `?t=`.

use baton_core::Millis;
use baton_proto::Statistics;
use baton_server::service::statistics::Range;
use jiff::Timestamp;
use maud::{Markup, html};

use crate::format::{self, Precision};
use crate::view::View;

/// A stretch, and how it is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shown {
    /// The stretch.
    pub range: Range,
    /// Its name in addresses.
    pub name: &'static str,
    /// `1 h`
    pub short: &'static str,
    /// Into how many steps it is parted.
    pub points: usize,
}

const ALL: [(Shown, &str); 3] = [
    (Shown { range: Range::Hour, name: "hour", short: "1 h", points: 60 }, "Hour"),
    (Shown { range: Range::Day, name: "day", short: "24 h", points: 96 }, "Day"),
    (Shown { range: Range::Month, name: "month", short: "31 d", points: 93 }, "Month"),
];

/// What the address asks for.
pub fn chosen(view: &View) -> Shown {
    let asked = view.query.get("t").unwrap_or_default();
    ALL.into_iter().map(|(shown, _)| shown).find(|shown| shown.name == asked).unwrap_or(ALL[0].0)
}

/// The choice, for the bar at the top.
pub fn ranges(view: &View) -> Markup {
    let now = chosen(view);
    html! {
        nav.seg aria-label="Time" {
            @for (shown, word) in &ALL {
                @let value = if shown.name == "hour" { "" } else { shown.name };
                a href=(view.here_with("t", value)) aria-current=[(shown.name == now.name).then_some("true")] { (word) }
            }
        }
    }
}

/// What stands under a chart of these steps: five moments.
pub fn ticks(view: &View, found: &Statistics) -> Vec<String> {
    let (from, until) = (found.from.0, found.until.0);
    let at = |part: Millis| from + (until - from) * part / 4;
    (0..5).map(|part| tick(view, at(part), until - from)).collect()
}

fn tick(view: &View, at: Millis, span: Millis) -> String {
    let zoned = Timestamp::from_millisecond(at).map(|at| at.to_zoned(view.zone.clone()));
    match zoned {
        Ok(zoned) if span <= 2 * 86_400_000 => zoned.strftime("%H:%M").to_string(),
        Ok(zoned) => zoned.strftime("%-d %b").to_string(),
        Err(_) => format::clock(at, view.now, &view.zone, Precision::Minutes),
    }
}

/// The values of a series that is a sum over all that was asked for.
pub fn series<'a>(found: &'a Statistics, name: &str) -> &'a [Option<f64>] {
    found.series.iter().find(|series| series.name == name).map_or(&[], |series| series.values.as_slice())
}

/// All of a series that counts.
pub fn total(values: &[Option<f64>]) -> f64 {
    values.iter().flatten().sum()
}
