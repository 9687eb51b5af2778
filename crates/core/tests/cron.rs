//! Cron rules against a table of examples, and against an oracle that looks at every minute.

use baton_core::Millis;
use baton_core::cron::Cron;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use proptest::prelude::*;

fn millis(text: &str) -> Millis {
    text.parse::<Timestamp>().unwrap().as_millisecond()
}

fn shown(at: Millis) -> String {
    Timestamp::from_millisecond(at).unwrap().to_string()
}

/// The first fires after a moment.
fn fires(rule: &str, zone: &str, after: &str, most: usize) -> Vec<String> {
    Cron::parse(rule, zone).unwrap().upcoming(millis(after), most).into_iter().map(shown).collect()
}

#[test]
fn rules_fire_when_they_say() {
    for (rule, after, expected) in [
        ("* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"),
        ("* * * * *", "2026-01-01T00:00:59.999Z", "2026-01-01T00:01:00Z"),
        ("* * * * *", "2025-12-31T23:59:59.999Z", "2026-01-01T00:00:00Z"),
        ("*/15 * * * *", "2026-01-01T00:07:00Z", "2026-01-01T00:15:00Z"),
        ("5/15 * * * *", "2026-01-01T00:51:00Z", "2026-01-01T01:05:00Z"),
        ("10-12,40 3 * * *", "2026-01-01T03:12:00Z", "2026-01-01T03:40:00Z"),
        ("10-20/5 3 * * *", "2026-01-01T03:10:00Z", "2026-01-01T03:15:00Z"),
        ("30 * * * * *", "2026-01-01T00:00:30Z", "2026-01-01T00:01:30Z"),
        ("*/20 59 23 31 12 *", "2026-12-31T23:59:41Z", "2027-12-31T23:59:00Z"),
        ("0 0 12 1 1 * 2030", "2026-01-01T00:00:00Z", "2030-01-01T12:00:00Z"),
        ("0 0 12 1 1 ? 2028-2032/2", "2028-01-01T12:00:00Z", "2030-01-01T12:00:00Z"),
        ("0 9 * * MON-FRI", "2026-01-02T09:00:00Z", "2026-01-05T09:00:00Z"),
        ("0 9 * * sat-sun", "2026-01-02T09:00:00Z", "2026-01-03T09:00:00Z"),
        ("0 9 * * 7", "2026-01-02T09:00:00Z", "2026-01-04T09:00:00Z"),
        ("0 9 * * 0", "2026-01-02T09:00:00Z", "2026-01-04T09:00:00Z"),
        ("0 0 1 jan,Jul *", "2026-01-01T00:00:00Z", "2026-07-01T00:00:00Z"),
        ("0 0 L * *", "2026-02-01T00:00:00Z", "2026-02-28T00:00:00Z"),
        ("0 0 L * ?", "2028-02-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("0 0 L-2 * *", "2026-02-01T00:00:00Z", "2026-02-26T00:00:00Z"),
        ("0 0 15,L * *", "2026-01-15T00:00:00Z", "2026-01-31T00:00:00Z"),
        ("0 0 * * 5L", "2026-01-01T00:00:00Z", "2026-01-30T00:00:00Z"),
        ("0 0 ? * FRIL", "2026-01-30T00:00:00Z", "2026-02-27T00:00:00Z"),
        // The 15th is a Thursday in January 2026, a Sunday in February and March; August begins on a Saturday, May ends on a Sunday.
        ("0 0 15W * *", "2026-01-01T00:00:00Z", "2026-01-15T00:00:00Z"),
        ("0 0 15W * *", "2026-02-01T00:00:00Z", "2026-02-16T00:00:00Z"),
        ("0 0 14w * *", "2026-02-01T00:00:00Z", "2026-02-13T00:00:00Z"),
        ("0 0 1W * *", "2026-07-31T12:00:00Z", "2026-08-03T00:00:00Z"),
        ("0 0 31W * ?", "2026-05-01T00:00:00Z", "2026-05-29T00:00:00Z"),
        ("0 0 31W * ?", "2026-05-29T00:00:00Z", "2026-07-31T00:00:00Z"),
        ("0 0 LW * *", "2026-05-01T00:00:00Z", "2026-05-29T00:00:00Z"),
        ("0 0 LW * *", "2026-01-30T00:00:00Z", "2026-02-27T00:00:00Z"),
        ("0 0 1,15W * *", "2026-02-01T00:00:00Z", "2026-02-16T00:00:00Z"),
        ("0 0 * * 5#2", "2026-01-01T00:00:00Z", "2026-01-09T00:00:00Z"),
        ("0 0 ? * fri#5", "2026-01-31T00:00:00Z", "2026-05-29T00:00:00Z"),
        ("0 0 * * 7#1", "2026-01-05T00:00:00Z", "2026-02-01T00:00:00Z"),
        ("0 0 * * MON#1,MON#3", "2026-01-05T00:00:00Z", "2026-01-19T00:00:00Z"),
        ("0 9 * * WED", "2026-01-01T00:00:00Z", "2026-01-07T09:00:00Z"),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("0 0 29 2 *", "2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"),
        // Both days given: either will do. One of them a wildcard: both must fit.
        ("0 0 13 * FRI", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("0 0 13 * FRI", "2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z"),
        ("0 0 */2 * FRI", "2026-01-01T00:00:00Z", "2026-01-09T00:00:00Z"),
        ("@hourly", "2026-01-01T00:30:00Z", "2026-01-01T01:00:00Z"),
        ("@daily", "2026-01-01T00:30:00Z", "2026-01-02T00:00:00Z"),
        ("@midnight", "2026-01-01T00:30:00Z", "2026-01-02T00:00:00Z"),
        ("@weekly", "2026-01-01T00:30:00Z", "2026-01-04T00:00:00Z"),
        ("@Monthly", "2026-01-01T00:30:00Z", "2026-02-01T00:00:00Z"),
        ("@yearly", "2026-01-01T00:30:00Z", "2027-01-01T00:00:00Z"),
        ("@annually", "2026-01-01T00:30:00Z", "2027-01-01T00:00:00Z"),
    ] {
        assert_eq!(fires(rule, "UTC", after, 1), [expected], "{rule} after {after}");
    }
    assert_eq!(fires("0 0 12 1 1 * 2030", "UTC", "2030-01-01T12:00:00Z", 1), [""; 0], "its last year is over");
}

#[test]
fn zones_are_those_of_the_people_there() {
    assert_eq!(fires("0 9 * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z", 1), ["2026-01-01T03:30:00Z"]);
    assert_eq!(fires("0 9 * * *", "America/New_York", "2026-01-01T00:00:00Z", 1), ["2026-01-01T14:00:00Z"]);
    assert_eq!(fires("0 9 * * *", "europe/berlin", "2026-07-01T00:00:00Z", 1), ["2026-07-01T07:00:00Z"]);
}

/// In Berlin clocks go from 02:00 to 03:00 on 2026-03-29 (01:00 UTC).
#[test]
fn a_time_that_does_not_exist_fires_once_just_after_the_gap() {
    let after = "2026-03-28T12:00:00Z";
    let next = |rule, most| fires(rule, "Europe/Berlin", after, most);
    assert_eq!(next("30 2 * * *", 2), ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
    assert_eq!(next("*/15 2 * * *", 2), ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"], "four times, one fire");
    assert_eq!(next("0,30 2,3 * * *", 3), ["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:00:00Z"]);
    assert_eq!(next("0 3 * * *", 1), ["2026-03-29T01:00:00Z"]);
    let night = "2026-03-28T23:30:00Z";
    let next = |rule, most| fires(rule, "Europe/Berlin", night, most);
    assert_eq!(next("30 */2 * * *", 2), ["2026-03-29T01:00:00Z", "2026-03-29T02:30:00Z"]);
    assert_eq!(next("30 * * * *", 2), ["2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"], "an hour apart");
    assert_eq!(fires("30 2 * * *", "Europe/Berlin", "2026-03-29T00:59:59Z", 1), ["2026-03-29T01:00:00Z"]);
    assert_eq!(fires("30 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", 1), ["2026-03-30T00:30:00Z"]);
}

/// In Berlin clocks go from 03:00 to 02:00 on 2026-10-25 (01:00 UTC).
#[test]
fn a_time_that_exists_twice_fires_once_and_wildcard_hours_fire_both_times() {
    let after = "2026-10-24T23:30:00Z";
    let next = |rule, most| fires(rule, "Europe/Berlin", after, most);
    assert_eq!(next("30 2 * * *", 2), ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
    assert_eq!(next("15,45 2-3 * * *", 3), ["2026-10-25T00:15:00Z", "2026-10-25T00:45:00Z", "2026-10-25T02:15:00Z"]);
    assert_eq!(next("30 * * * *", 3), ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"]);
    assert_eq!(next("30 */2 * * *", 3), ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T03:30:00Z"]);
    assert_eq!(fires("30 2 * * *", "Europe/Berlin", "2026-10-25T01:00:00Z", 1), ["2026-10-26T01:30:00Z"]);
}

#[test]
fn a_wrong_rule_says_which_field() {
    for (rule, expected) in [
        ("61 * * * *", "field minute: \"61\" is not 0 to 59"),
        ("* 24 * * *", "field hour: \"24\" is not 0 to 23"),
        ("* * 0 * *", "field day of month: \"0\" is not 1 to 31"),
        ("* * * 13 *", "field month: \"13\" is not 1 to 12 or JAN to DEC"),
        ("* * * JULY *", "field month: \"JULY\" is not"),
        ("* * * * 8", "field day of week: \"8\" is not 0 to 7 or SUN to SAT"),
        ("* * * * Monday", "field day of week: \"Monday\" is not"),
        ("60 * * * * *", "field second: \"60\" is not 0 to 59"),
        ("0 0 0 1 1 * 1969", "field year: \"1969\" is not 1970 to 9999"),
        ("*/0 * * * *", "field minute: the step \"0\" is not 1 to 59"),
        ("1,,2 * * * *", "field minute: a value is missing"),
        ("20-10 * * * *", "field minute: the range 20-10 runs backwards"),
        ("? * * * *", "field minute: ? stands alone"),
        ("-5 * * * *", "field minute: \"\" is not"),
        ("+5 * * * *", "field minute: \"+5\" is not"),
        ("* L * * *", "field hour: L is for"),
        ("* * L-31 * *", "field day of month: \"L-31\" is not L"),
        ("* * * * L", "field day of week: L needs a day before it"),
        ("* * * * 9L", "field day of week: \"9\" is not"),
        ("* * W * *", "field day of month: W needs a day before it"),
        ("* * 1-5W * *", "field day of month: \"1-5W\" is not LW or one day and W"),
        ("* * 32W * *", "field day of month: \"32W\" is not LW or one day and W: \"32\" is not 1 to 31"),
        ("* 5W * * *", "field hour: W is for the day of month"),
        ("* * L-2W * *", "field day of month: \"L-2W\" is not LW or one day and W"),
        ("* * 5#2 * *", "field day of month: # is for the day of week"),
        ("* * * * 5#6", "field day of week: \"5#6\" does not end with #1 to #5"),
        ("* * * * 9#1", "field day of week: \"9\" is not 0 to 7"),
        ("0 0 30W 2 *", "field day of month: no such day ever comes"),
        ("0 0 30 2 *", "field day of month: no such day ever comes"),
        ("* * * *", "it has 4 fields"),
        ("", "it has 0 fields"),
        ("* * * * * * * *", "it has 8 fields"),
        ("@reboot", "@reboot is not known"),
        ("@every 5m", "write */5 * * * *"),
    ] {
        let error = Cron::parse(rule, "UTC").unwrap_err().to_string();
        assert!(error.contains(expected), "{rule}: {error}");
    }
    assert!(Cron::parse("* * * * *", "Mars/Base").unwrap_err().to_string().contains("no time zone"));
    assert!(Cron::parse(&"1,".repeat(600), "UTC").unwrap_err().to_string().contains("longer than"));
}

#[test]
fn the_newest_of_missed_fires_are_found_however_many_there_were() {
    let every_second = Cron::parse("* * * * * *", "Europe/Berlin").unwrap();
    let (from, now) = (millis("1990-01-01T00:00:00Z"), millis("2026-06-01T00:00:00Z"));
    let newest = every_second.newest(from, now, 3);
    assert_eq!(newest, [now - 2_000, now - 1_000, now]);
    let yearly = Cron::parse("@yearly", "UTC").unwrap();
    assert_eq!(
        yearly.newest(from, now, 2).into_iter().map(shown).collect::<Vec<_>>(),
        ["2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"]
    );
    assert_eq!(yearly.newest(from, now, 100).len(), 36, "not the one at the very beginning");
    assert_eq!(yearly.newest(now, now, 100), [0; 0]);
    assert_eq!(yearly.newest(now, from, 100), [0; 0], "the clock was put back");
    assert_eq!(yearly.newest(from, now, 0), [0; 0]);
    assert_eq!((yearly.count(from, now, 100), yearly.count(from, now, 5), yearly.count(now, from, 5)), (36, 5, 0));
}

// ---- the oracle

/// A rule by its sets, with the day of week always a wildcard or the day of month one.
#[derive(Clone, Debug)]
struct Sets {
    minutes: Vec<u8>,
    hours: Option<Vec<u8>>,
    step: Option<u8>,
    days: Option<Vec<u8>>,
    weekdays: Option<Vec<u8>>,
}

impl Sets {
    fn text(&self) -> String {
        let list = |set: &[u8]| set.iter().map(u8::to_string).collect::<Vec<_>>().join(",");
        let or_any = |set: &Option<Vec<u8>>| set.as_deref().map_or("*".to_owned(), list);
        let hours = match self.step {
            Some(step) => format!("*/{step}"),
            None => or_any(&self.hours),
        };
        format!("{} {hours} {} * {}", list(&self.minutes), or_any(&self.days), or_any(&self.weekdays))
    }

    fn has_hour(&self, hour: u8) -> bool {
        match self.step {
            Some(step) => hour.is_multiple_of(step),
            None => self.hours.as_ref().is_none_or(|hours| hours.contains(&hour)),
        }
    }

    fn is_shown(&self, at: DateTime) -> bool {
        let day = self.days.as_ref().map(|days| days.contains(&(at.day() as u8)));
        let weekday = self.weekdays.as_ref().map(|days| days.contains(&(at.weekday().to_sunday_zero_offset() as u8)));
        let day_fits = match (day, weekday) {
            (Some(day), Some(weekday)) => day || weekday,
            (day, weekday) => day.unwrap_or(true) && weekday.unwrap_or(true),
        };
        day_fits && self.minutes.contains(&(at.minute() as u8)) && self.has_hour(at.hour() as u8)
    }

    fn is_every_hour(&self) -> bool {
        (0..24).all(|hour| self.has_hour(hour))
    }

    /// Whether it fires at this very minute, by asking what the clock shows, and what it has never shown.
    fn fires_at(&self, zone: &TimeZone, at: Timestamp) -> bool {
        let (clock, before) = (zone.to_datetime(at), zone.to_datetime(at - jiff::SignedDuration::from_mins(1)));
        let mut skipped = before + jiff::SignedDuration::from_mins(1);
        while !self.is_every_hour() && skipped < clock {
            if self.is_shown(skipped) {
                return true;
            }
            skipped += jiff::SignedDuration::from_mins(1);
        }
        let wild = self.step.is_some() || self.hours.is_none();
        let is_first = zone.to_ambiguous_timestamp(clock).earlier().unwrap() == at;
        self.is_shown(clock) && (wild || is_first)
    }
}

fn sets() -> impl Strategy<Value = Sets> {
    let some = |range: std::ops::Range<u8>, most| proptest::collection::vec(range, 1..most);
    let hours = prop_oneof![
        2 => some(0..24, 4).prop_map(|hours| (Some(hours), None)),
        2 => some(0..4, 3).prop_map(|hours| (Some(hours), None)),
        1 => Just((None, None)),
        1 => (1u8..6).prop_map(|step| (None, Some(step))),
    ];
    let days = proptest::option::of(some(1..32, 5));
    (some(0..60, 4), hours, days, proptest::option::of(some(0..7, 3)))
        .prop_map(|(minutes, (hours, step), days, weekdays)| Sets { minutes, hours, step, days, weekdays })
}

const ZONES: [&str; 7] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Asia/Kolkata",
    "Pacific/Apia",
];
/// How far the oracle looks.
const MINUTES: i64 = 4 * 24 * 60;

/// Moments, half of them at most a day before clocks are changed.
fn moment(zone: &TimeZone, seed: i64, near: bool, back: i64) -> Timestamp {
    let any = Timestamp::from_second(946_684_800 + seed.rem_euclid(1_200_000_000)).unwrap();
    let change = near.then(|| zone.following(any).next().map(|change| change.timestamp())).flatten();
    change.map_or(any, |change| change - jiff::SignedDuration::from_secs(back))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_next_fire_is_the_one_that_a_look_at_every_minute_finds(
        sets in sets(), zone in 0..ZONES.len(), seed in any::<i64>(), near in any::<bool>(), back in 0i64..90_000,
    ) {
        let (name, cron) = (ZONES[zone], Cron::parse(&sets.text(), ZONES[zone]).unwrap());
        let zone = jiff::tz::TimeZoneDatabase::bundled().get(name).unwrap();
        let after = moment(&zone, seed, near, back);
        let first = after.as_second().div_euclid(60) + 1;
        let expected = (first..first + MINUTES).map(|minute| Timestamp::from_second(minute * 60).unwrap()).find(|at| sets.fires_at(&zone, *at));
        let found = cron.next(after.as_millisecond());
        match expected {
            Some(expected) => prop_assert_eq!(found.map(shown), Some(expected.to_string()), "{} {}", sets.text(), name),
            None => prop_assert!(found.is_none_or(|found| found / 60_000 >= first + MINUTES), "{} {}: {:?}", sets.text(), name, found.map(shown)),
        }
    }

    #[test]
    fn the_next_fire_is_always_after(
        sets in sets(), zone in 0..ZONES.len(), seed in 0i64..4_000_000_000_000,
    ) {
        let cron = Cron::parse(&sets.text(), ZONES[zone]).unwrap();
        let fires = cron.upcoming(seed, 20);
        prop_assert!(fires.first().is_some_and(|first| *first > seed));
        prop_assert!(fires.is_sorted_by(|one, other| one < other));
        // Whatever the moment between two fires, the next one is the same.
        for pair in fires.windows(2) {
            prop_assert_eq!(cron.next(pair[1] - 1), Some(pair[1]));
            prop_assert_eq!(cron.next((pair[0] + pair[1]) / 2), Some(pair[1]));
        }
        prop_assert_eq!(cron.newest(seed, fires[fires.len() - 1], 5), fires[fires.len() - 5..].to_vec());
    }

    #[test]
    fn no_text_makes_it_panic(text in "[-*/?,#LW0-9 A-Z@]{0,40}") {
        if let Ok(cron) = Cron::parse(&text, "Europe/Berlin") {
            let _ = cron.next(1_700_000_000_000);
        }
    }
}
