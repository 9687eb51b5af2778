//! Cron rules: when a schedule fires next.
//!
//! Five fields (minute, hour, day of month, month, day of week), six (a second first) or seven (and a year last), in a time zone.
//! Where clocks are put forward, a time that does not exist fires once, just after the gap; a rule for every hour goes on with the next
//! hour. Where they are put back, a time that exists twice fires the first time; a rule whose hours begin with `*` fires both times.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::Offset;

use crate::Millis;
use crate::cron_fields::{DAY, HOUR, MINUTE, MONTH, SECOND, WEEKDAY, YEAR, nth_bit, split};
use crate::cron_zone::{Seconds, Span, Zone};

/// What a complaint about the time zone names as its field.
pub const ZONE_FIELD: &str = "time zone";
/// The zone of a rule that names none.
pub const ZONE_DEFAULT: &str = "UTC";

/// What is wrong with a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CronError {
    /// The field that is wrong; `None` when it is the rule as a whole.
    pub field: Option<&'static str>,
    /// Why.
    pub why: String,
}

impl CronError {
    pub(crate) fn whole(why: impl Into<String>) -> CronError {
        CronError { field: None, why: why.into() }
    }
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field {
            Some(field) => write!(f, "the cron rule is wrong in the field {field}: {}", self.why),
            None => write!(f, "the cron rule is wrong: {}", self.why),
        }
    }
}

impl std::error::Error for CronError {}

/// A cron rule in its time zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cron {
    seconds: u64,
    minutes: u64,
    hours: u64,
    /// The hours begin with `*`.
    hours_are_wild: bool,
    days: u64,
    /// Bit 0 is the last day of the month, bit 1 the one before.
    days_from_end: u64,
    /// Days whose nearest workday is meant; bit 0 is the last day of the month.
    workdays: u64,
    /// The day of month or the day of week begins with `*`: then both have to fit, otherwise one of them.
    both_days: bool,
    months: u64,
    weekdays: u64,
    /// Of these only the last in its month.
    last_weekdays: u64,
    /// One of them in its month, by [`nth_bit`].
    nth_weekdays: u64,
    years: Vec<u16>,
    zone: Zone,
}

impl Cron {
    /// Reads a rule for a time zone with an IANA name.
    pub fn parse(rule: &str, zone: &str) -> Result<Cron, CronError> {
        let [second, minute, hour, day, month, weekday, year] = split(rule)?;
        let (hours, days, weekdays) = (HOUR.read(hour)?, DAY.read(day)?, WEEKDAY.read(weekday)?);
        let bits = |numbers: &[u16]| numbers.iter().fold(0, |bits: u64, number| bits | 1 << number);
        let cron = Cron {
            seconds: SECOND.read(second)?.bits(),
            minutes: MINUTE.read(minute)?.bits(),
            hours: hours.bits(),
            hours_are_wild: hours.is_wild,
            days: days.bits(),
            days_from_end: bits(&days.from_end),
            workdays: bits(&days.workdays),
            both_days: days.is_wild || weekdays.is_wild,
            months: MONTH.read(month)?.bits(),
            weekdays: weekdays.bits(),
            last_weekdays: bits(&weekdays.last),
            nth_weekdays: bits(&weekdays.nth),
            years: YEAR.read(year)?.numbers,
            zone: Zone::named(zone).ok_or_else(|| CronError {
                field: Some(ZONE_FIELD),
                why: format!("{zone:?} is no time zone; give an IANA name such as Europe/Berlin, or UTC"),
            })?,
        };
        match cron.on_the_wall(DateTime::constant(1970, 1, 1, 0, 0, 0, 0)) {
            Some(_) => Ok(cron),
            None => Err(CronError { field: Some(DAY.name), why: "no such day ever comes in these months".into() }),
        }
    }

    /// The first fire after a moment, if there is one.
    pub fn next(&self, after: Millis) -> Option<Millis> {
        self.at_or_after(after.div_euclid(1_000).checked_add(1)?).map(|at| at * 1_000)
    }

    /// The newest fires in `(after, until]`, oldest first, at most `most` of them.
    pub fn newest(&self, after: Millis, until: Millis, most: usize) -> Vec<Millis> {
        let mut reach: Millis = 60_000;
        // Most of a long time without fires need not be looked through, let alone a short rule's fires of many years.
        loop {
            let from = until.saturating_sub(reach).max(after);
            let mut found = self.between(from, until);
            if from == after || found.len() >= most {
                return found.split_off(found.len().saturating_sub(most));
            }
            reach = reach.saturating_mul(2);
        }
    }

    /// The first fires after a moment, at most `most` of them.
    pub fn upcoming(&self, after: Millis, most: usize) -> Vec<Millis> {
        std::iter::successors(self.next(after), |last| self.next(*last)).take(most).collect()
    }

    /// How many fires there are in `(after, until]`, counted up to `most`.
    pub fn count(&self, after: Millis, until: Millis, most: usize) -> usize {
        self.all_between(after, until).take(most).count()
    }

    fn between(&self, after: Millis, until: Millis) -> Vec<Millis> {
        self.all_between(after, until).collect()
    }

    fn all_between(&self, after: Millis, until: Millis) -> impl Iterator<Item = Millis> {
        std::iter::successors(self.next(after), |last| self.next(*last)).take_while(move |at| *at <= until)
    }

    fn at_or_after(&self, mut from: Seconds) -> Option<Seconds> {
        loop {
            let span = self.zone.span(from)?;
            if span.begins == Some(from) && self.falls_into_gap(span) {
                return Some(from);
            }
            let shown = self.on_the_wall(clock(from + span.offset)?)?;
            let at = seconds(shown) - span.offset;
            from = match (span.ends, self.shown_before_until(span)) {
                // It does not come before clocks are changed.
                (Some(ends), _) if at >= ends => ends,
                (_, Some(until)) if at < until => until,
                _ => return Some(at),
            };
        }
    }

    /// A time of the rule was left out when clocks were put forward at the beginning of the span.
    fn falls_into_gap(&self, span: Span) -> bool {
        const EVERY_HOUR: u64 = (1 << 24) - 1;
        let Some(begins) = span.begins.filter(|_| span.offset > span.offset_before && self.hours != EVERY_HOUR) else {
            return false;
        };
        let first_missing = clock(begins + span.offset_before).and_then(|missing| self.on_the_wall(missing));
        first_missing.is_some_and(|missing| seconds(missing) < begins + span.offset)
    }

    /// Until when clocks show what they showed once before, because they were put back at the beginning of the span. A rule for fixed hours
    /// is done with those times.
    fn shown_before_until(&self, span: Span) -> Option<Seconds> {
        span.begins.filter(|_| !self.hours_are_wild).map(|begins| begins + span.offset_before - span.offset)
    }

    /// The first time of the rule that a clock on the wall shows from `from` on, if it only goes forward.
    fn on_the_wall(&self, from: DateTime) -> Option<DateTime> {
        let mut date = from.date();
        let mut earliest = (from.hour() as u32, from.minute() as u32, from.second() as u32);
        loop {
            if self.day_fits(date)
                && let Some((hour, minute, second)) = self.time_from(earliest)
            {
                return Some(date.at(hour as i8, minute as i8, second as i8, 0));
            }
            date = self.later_day(date)?;
            earliest = (0, 0, 0);
        }
    }

    /// The first time of a day from `(hour, minute, second)` on.
    fn time_from(&self, (hour, minute, second): (u32, u32, u32)) -> Option<(u32, u32, u32)> {
        let (first_minute, first_second) = (lowest(self.minutes, 0)?, lowest(self.seconds, 0)?);
        let same_hour = self.hours >> hour & 1 == 1;
        if same_hour
            && self.minutes >> minute & 1 == 1
            && let Some(second) = lowest(self.seconds, second)
        {
            return Some((hour, minute, second));
        }
        if same_hour && let Some(minute) = lowest(self.minutes, minute + 1) {
            return Some((hour, minute, first_second));
        }
        lowest(self.hours, hour + 1).map(|hour| (hour, first_minute, first_second))
    }

    /// The next day that is in a year and month of the rule.
    fn later_day(&self, date: Date) -> Option<Date> {
        let mut date = date.tomorrow().ok()?;
        loop {
            let year = date.year() as u16;
            let fitting = self.years[self.years.partition_point(|known| *known < year)..].first().copied()?;
            if fitting > year {
                date = Date::new(fitting as i16, 1, 1).ok()?;
            }
            if self.months >> date.month() & 1 == 1 {
                return Some(date);
            }
            date = date.last_of_month().tomorrow().ok()?;
        }
    }

    fn day_fits(&self, date: Date) -> bool {
        let in_time = self.months >> date.month() & 1 == 1 && self.years.binary_search(&(date.year() as u16)).is_ok();
        let left = date.days_in_month() - date.day();
        let weekday = date.weekday().to_sunday_zero_offset();
        let nth = nth_bit(weekday as u16, (date.day() as u16 - 1) / 7 + 1);
        let day = (self.days >> date.day() | self.days_from_end >> left) & 1 == 1 || self.is_nearest_workday(date);
        let weekday = (self.weekdays >> weekday | self.nth_weekdays >> nth) & 1 == 1
            || self.last_weekdays >> weekday & 1 == 1 && left < 7;
        in_time && if self.both_days { day && weekday } else { day || weekday }
    }

    /// It is the workday nearest to a day of the rule.
    fn is_nearest_workday(&self, date: Date) -> bool {
        // Nothing but a weekend lies between, and none but at the ends of a month moves a day by two.
        let near = (date.day() - 2).max(1)..=(date.day() + 2).min(date.days_in_month());
        self.workdays != 0
            && near.into_iter().any(|day| {
                let is_meant = self.workdays >> day & 1 == 1 || self.workdays & 1 == 1 && day == date.days_in_month();
                is_meant && nearest_workday(date, day) == Some(date.day())
            })
    }
}

/// The workday nearest to a day of the month of `date`, in the same month.
fn nearest_workday(date: Date, day: i8) -> Option<i8> {
    let weekday = Date::new(date.year(), date.month(), day).ok()?.weekday();
    Some(match weekday {
        Weekday::Saturday if day == 1 => 3,
        Weekday::Saturday => day - 1,
        Weekday::Sunday if day == date.days_in_month() => day - 2,
        Weekday::Sunday => day + 1,
        _ => day,
    })
}

/// The lowest number of the set from `from` on.
fn lowest(set: u64, from: u32) -> Option<u32> {
    let left = set.checked_shr(from)? << from;
    (left != 0).then(|| left.trailing_zeros())
}

/// What a clock shows that is this many seconds past 1970-01-01.
fn clock(shown: Seconds) -> Option<DateTime> {
    Timestamp::from_second(shown).ok().map(|at| Offset::UTC.to_datetime(at))
}

fn seconds(shown: DateTime) -> Seconds {
    // A clock that shows it is within the calendar; the end of time is as good as what lies beyond.
    Offset::UTC.to_timestamp(shown).unwrap_or(Timestamp::MAX).as_second()
}
