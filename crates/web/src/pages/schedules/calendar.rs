//! A week of fires, past and to come: a column a day, from Monday on.

use baton_core::Millis;
use baton_core::cron::Cron;
use baton_proto::ScheduleView;
use baton_server::service::schedules::read::PastFire;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use maud::{Markup, html};

use super::{Outcome, address, outcome};
use crate::format;
use crate::parts::icon;
use crate::view::View;

/// A schedule with more fires a day than this is one line of the day.
const A_DAY_MAX: usize = 6;
/// Counting the fires of a day stops here.
const COUNTED_MAX: usize = 2_000;
/// Most lines of a day.
const LINES_MAX: usize = 24;
/// How far one may look, in weeks.
const WEEKS_MAX: i64 = 520;

/// What stands in a day.
#[derive(Clone, PartialEq, Debug)]
enum Line {
    /// A fire at a moment; what became of it if that is known.
    At(Millis, Option<Outcome>),
    /// So many of them; `None` is more than are counted.
    Many(Option<usize>),
}

/// A schedule, its rule as it was read, and what became of its last fires.
struct Ruled<'a> {
    schedule: &'a ScheduleView,
    rule: Cron,
    past: &'a [PastFire],
}

/// The calendar.
pub fn week(view: &View, shown: &[(ScheduleView, Vec<PastFire>)]) -> Markup {
    let offset =
        view.query.get("week").and_then(|week| week.parse::<i64>().ok()).unwrap_or(0).clamp(-WEEKS_MAX, WEEKS_MAX);
    let days = days(view.now, &view.zone, offset);
    let ruled = shown.iter().filter_map(|(schedule, past)| {
        let rule = Cron::parse(&schedule.cron, &schedule.time_zone).ok()?;
        Some(Ruled { schedule, rule, past })
    });
    let ruled: Vec<Ruled<'_>> = ruled.collect();
    let to = |offset: i64| match offset {
        0 => view.query.without("week").at(&view.path),
        offset => view.query.with("week", offset.to_string()).at(&view.path),
    };
    html! {
        section.panel id="schedules-week" aria-label="Week" {
            header {
                h2 { "Week" }
                span.count { @if let (Some((first, _, _)), Some((last, _, _))) = (days.first(), days.last()) { (first.strftime("%-d %b")) " to " (last.strftime("%-d %b %Y")) } }
                span.end {
                    nav.seg aria-label="Week" {
                        a href=(to(offset - 1)) aria-label="The week before" { "←" }
                        a href=(to(0)) aria-current=[(offset == 0).then_some("true")] { "This week" }
                        a href=(to(offset + 1)) aria-label="The week after" { "→" }
                    }
                }
            }
            div.scroll-x {
                ol.week {
                    @for (date, from, until) in &days {
                        li.today[*from <= view.now && view.now < *until] {
                            h3 { (date.strftime("%a %-d")) }
                            (day(view, &ruled, *from, *until))
                        }
                    }
                }
            }
        }
    }
}

/// The days of a week: dates, where they begin and where the next one does.
fn days(now: Millis, zone: &TimeZone, offset: i64) -> Vec<(Date, Millis, Millis)> {
    let Ok(now) = Timestamp::from_millisecond(now) else { return Vec::new() };
    let today = now.to_zoned(zone.clone()).date();
    let back = i64::from(today.weekday().to_monday_zero_offset());
    let Ok(monday) = today.checked_add((offset * 7 - back).days()) else { return Vec::new() };
    let begin = |date: Date| date.to_zoned(zone.clone()).ok().map(|begin| begin.timestamp().as_millisecond());
    let day = |number: i64| {
        let date = monday.checked_add(number.days()).ok()?;
        Some((date, begin(date)?, begin(date.checked_add(1.day()).ok()?)?))
    };
    (0..7).filter_map(day).collect()
}

fn day(view: &View, all: &[Ruled<'_>], from: Millis, until: Millis) -> Markup {
    let mut lines: Vec<(Millis, &ScheduleView, Line)> = Vec::new();
    for ruled in all {
        let found = lines_of(ruled, view.now, from, until);
        lines.extend(found.into_iter().map(|line| (at(&line, from), ruled.schedule, line)));
    }
    lines.sort_by(|one, other| (one.0, &one.1.id).cmp(&(other.0, &other.1.id)));
    let left = lines.len().saturating_sub(LINES_MAX);
    html! {
        ul {
            @for (_, schedule, line) in lines.iter().take(LINES_MAX) {
                li.past[at(line, until) <= view.now] { (entry(view, schedule, line)) }
            }
            @if lines.is_empty() { li.none { "nothing" } }
            @if left > 0 { li.none { (left) " more" } }
        }
    }
}

fn at(line: &Line, otherwise: Millis) -> Millis {
    match line {
        Line::At(at, _) => *at,
        Line::Many(_) => otherwise,
    }
}

fn entry(view: &View, schedule: &ScheduleView, line: &Line) -> Markup {
    let clock = |at: Millis| {
        let at = Timestamp::from_millisecond(at).ok().map(|at| at.to_zoned(view.zone.clone()));
        at.map_or_else(String::new, |at| at.strftime("%H:%M").to_string())
    };
    html! {
        @match line {
            Line::At(at, became) => {
                span.t { (clock(*at)) }
                @if let Some(became) = became { span class={ "c-" (became.class()) } title=(became.word()) { (icon(became.icon())) } }
            },
            Line::Many(Some(count)) => span.t { (format::number(*count as u64)) " ×" },
            Line::Many(None) => span.t { "many" },
        }
        a.cut href=(address(view, &schedule.id)) dir="auto" title=(format::visible(&schedule.id)) { (format::visible(&schedule.id)) }
    }
}

/// What a schedule has in a day. Before it was made it had nothing, and while it is paused nothing comes.
fn lines_of(ruled: &Ruled<'_>, now: Millis, from: Millis, until: Millis) -> Vec<Line> {
    let Ruled { schedule, rule, past } = ruled;
    let begin = from.max(schedule.created_at.0);
    let end = if schedule.paused { until.min(now) } else { until };
    if begin >= end {
        return Vec::new();
    }
    // The beginning of a day belongs to it, its end to the next.
    let fires: Vec<Millis> = rule.upcoming(begin - 1, A_DAY_MAX + 1).into_iter().filter(|at| *at < end).collect();
    if fires.len() > A_DAY_MAX {
        let count = rule.count(begin - 1, end - 1, COUNTED_MAX);
        return vec![Line::Many((count < COUNTED_MAX).then_some(count))];
    }
    let became = |at: Millis| past.iter().find(|past| past.fire.fire_at.0 == at).map(|past| outcome(&past.fire));
    let mut lines: Vec<Line> = fires.iter().map(|at| Line::At(*at, became(*at))).collect();
    // Runs that somebody started by hand.
    let by_hand =
        past.iter().filter(|past| past.fire.what == "triggered" && (from..until).contains(&past.fire.fire_at.0));
    lines.extend(by_hand.take(A_DAY_MAX).map(|past| Line::At(past.fire.fire_at.0, Some(outcome(&past.fire)))));
    lines
}

#[cfg(test)]
mod tests {
    use baton_core::schedule::Overlap;
    use baton_proto::{ScheduledRun, Time};

    use super::*;

    const DAY: Millis = 86_400_000;
    /// A Wednesday, 12:00 UTC.
    const NOON: Millis = 1_699_444_800_000;

    fn schedule(cron: &str) -> ScheduleView {
        ScheduleView {
            id: "a".into(),
            namespace: "default".into(),
            cron: cron.into(),
            time_zone: "UTC".into(),
            jitter_ms: 0,
            max_catchup: 100,
            overlap: Overlap::Allow,
            run: ScheduledRun::new("default", "a"),
            paused: false,
            note: String::new(),
            created_at: Time(0),
            last_fire: None,
            last_run: None,
            waiting_fire: None,
            next_fires: vec![],
            fired: 0,
            left_out: 0,
        }
    }

    #[test]
    fn a_week_begins_on_monday_in_the_readers_zone() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let week = days(NOON, &berlin, 0);
        assert_eq!(week.len(), 7);
        assert_eq!(week[0].0.to_string(), "2023-11-06");
        assert_eq!(week[2].1, NOON - 13 * 3_600_000);
        assert_eq!(days(NOON, &berlin, -2)[0].0.to_string(), "2023-10-23");
        // Clocks were put back on the last Sunday of October.
        let long = days(NOON, &berlin, -2)[6];
        assert_eq!(long.2 - long.1, 25 * 3_600_000);
    }

    #[test]
    fn a_day_has_fires_or_a_count() {
        let from = NOON - NOON % DAY;
        let lines = |schedule: &ScheduleView| {
            let rule = Cron::parse(&schedule.cron, &schedule.time_zone).unwrap();
            lines_of(&Ruled { schedule, rule, past: &[] }, NOON, from, from + DAY)
        };
        let of = |cron: &str| lines(&schedule(cron));
        assert_eq!(of("0 3 * * *"), [Line::At(from + 3 * 3_600_000, None)]);
        assert_eq!(of("0 0 * * *"), [Line::At(from, None)], "midnight belongs to the day that begins");
        assert_eq!(of("0 * * * *"), [Line::Many(Some(24))]);
        assert_eq!(of("* * * * *"), [Line::Many(Some(1_440))]);
        assert_eq!(of("* * * * * *"), [Line::Many(None)]);
        let paused = ScheduleView { paused: true, ..schedule("0 3,15 * * *") };
        assert_eq!(lines(&paused), [Line::At(from + 3 * 3_600_000, None)]);
        let new = ScheduleView { created_at: Time(NOON), ..schedule("0 3,15 * * *") };
        assert_eq!(lines(&new), [Line::At(from + 15 * 3_600_000, None)]);
    }
}
