//! Cron rules in words: what people check a rule by.

use crate::cron::CronError;
use crate::cron_fields::{DAY, HOUR, MINUTE, MONTH, SECOND, Set, WEEKDAY, YEAR, split};

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// Times of a day up to this many are listed one by one.
const TIMES_LISTED_MAX: usize = 6;

/// A rule in words: `every 5 minutes, on Monday to Friday`.
pub fn words(rule: &str) -> Result<String, CronError> {
    let [second, minute, hour, day, month, weekday, year] = split(rule)?;
    let (days, weekdays) = (DAY.read(day)?, weekdays(WEEKDAY.read(weekday)?));
    let mut said = time(&SECOND.read(second)?.numbers, &MINUTE.read(minute)?.numbers, &HOUR.read(hour)?.numbers);
    let (of_month, of_week) = (days_of_month(&days), days_of_week(&weekdays));
    let joined = if days.is_wild || weekdays.is_wild { "that fall" } else { "and" };
    let on = match (of_month, of_week) {
        (None, None) if said.starts_with("at ") && !said.ends_with(" of every minute") => Some("every day".to_owned()),
        (None, None) => None,
        (Some(one), None) | (None, Some(one)) => Some(one),
        (Some(one), Some(other)) => Some(format!("{one} {joined} {other}")),
    };
    let months = MONTH.read(month)?.numbers;
    let within = (months.len() < 12).then(|| format!("in {}", named(&months, 1, &MONTHS)));
    let years = YEAR.read(year)?.numbers;
    let in_years = (years.len() < 8_000).then(|| format!("in {}", ranges(&years, |year| year.to_string())));
    for part in [on, within, in_years].into_iter().flatten() {
        said.push_str(if part == "every day" { " " } else { ", " });
        said.push_str(&part);
    }
    Ok(said)
}

/// Sunday has two numbers.
fn weekdays(mut set: Set) -> Set {
    let has_seven = set.numbers.contains(&7);
    set.numbers.retain(|day| *day != 7);
    if has_seven && !set.numbers.contains(&0) {
        set.numbers.push(0);
    }
    // The week begins on Monday, so that a week's end is a range.
    set.numbers.sort_unstable_by_key(|day| (day + 6) % 7);
    set
}

fn time(seconds: &[u16], minutes: &[u16], hours: &[u16]) -> String {
    if seconds == [0] {
        return time_of_minutes(minutes, hours);
    }
    let small = match (step(seconds, 0, 60), seconds) {
        (Some(1), _) => "every second".to_owned(),
        (Some(step), _) => format!("every {step} seconds"),
        (None, seconds) => format!("at {} {}", plural("second", seconds), ranges(seconds, |n| n.to_string())),
    };
    match (minutes.len(), hours.len()) {
        (60, 24) => small + if small_is_at(seconds) { " of every minute" } else { "" },
        (60, _) => format!("{small} {}", in_hours(hours)),
        _ => format!("{small}, {}", time_of_minutes(minutes, hours)),
    }
}

fn small_is_at(seconds: &[u16]) -> bool {
    step(seconds, 0, 60).is_none()
}

fn time_of_minutes(minutes: &[u16], hours: &[u16]) -> String {
    let every_hour = hours.len() == 24;
    match (step(minutes, 0, 60), step(hours, 0, 24)) {
        (Some(1), _) if every_hour => "every minute".into(),
        (Some(1), _) => format!("every minute {}", in_hours(hours)),
        (Some(step), _) if every_hour => format!("every {step} minutes"),
        (Some(step), _) => format!("every {step} minutes {}", in_hours(hours)),
        (None, _) if every_hour && minutes == [0] => "every hour".into(),
        (None, _) if every_hour => format!("every hour, at {}", at_minutes(minutes)),
        (None, Some(step)) if minutes == [0] => format!("every {step} hours"),
        (None, Some(step)) if minutes.len() == 1 => format!("every {step} hours, at {}", at_minutes(minutes)),
        _ if minutes.len() * hours.len() <= TIMES_LISTED_MAX => {
            let times =
                hours.iter().flat_map(|hour| minutes.iter().map(move |minute| format!("{hour:02}:{minute:02}")));
            format!("at {}", list(&times.collect::<Vec<_>>()))
        }
        _ => format!("at {} {}", at_minutes(minutes), in_hours(hours)),
    }
}

fn at_minutes(minutes: &[u16]) -> String {
    format!("{} {}", plural("minute", minutes), ranges(minutes, |n| n.to_string()))
}

fn plural(one: &str, numbers: &[u16]) -> String {
    if numbers.len() == 1 { one.to_owned() } else { format!("{one}s") }
}

fn in_hours(hours: &[u16]) -> String {
    match (hours, runs(hours).as_slice()) {
        ([one], _) => format!("from {one:02}:00 to {one:02}:59"),
        (_, [(first, last)]) => format!("from {first:02}:00 to {last:02}:59"),
        _ => format!("in the hours {}", ranges(hours, |n| n.to_string())),
    }
}

/// How far apart numbers are that begin at `min` and go on alike until `end`.
fn step(numbers: &[u16], min: u16, end: u16) -> Option<u16> {
    let [first, second, ..] = numbers else { return None };
    let step = second - first;
    let goes_on = numbers.windows(2).all(|pair| pair[1] - pair[0] == step);
    let is_even = *first == min && goes_on && numbers.last().is_some_and(|last| last + step == end);
    is_even.then_some(step)
}

fn days_of_month(set: &Set) -> Option<String> {
    if set.numbers.len() == 31 {
        return None;
    }
    let mut parts = Vec::new();
    if !set.numbers.is_empty() {
        parts.push(match step(&set.numbers, 1, 32) {
            Some(step) => format!("every {step} days from the 1st"),
            None => format!("on the {}", ranges(&set.numbers, nth)),
        });
    }
    for back in &set.from_end {
        parts.push(match back {
            0 => "on the last day of the month".to_owned(),
            back => format!("{back} {} before the last of the month", if *back == 1 { "day" } else { "days" }),
        });
    }
    for day in &set.workdays {
        parts.push(match day {
            0 => "on the last workday of the month".to_owned(),
            day => format!("on the workday nearest to the {}", nth(*day)),
        });
    }
    (!parts.is_empty()).then(|| list(&parts))
}

fn days_of_week(set: &Set) -> Option<String> {
    if set.numbers.len() == 7 {
        return None;
    }
    let name = |day: u16| WEEKDAYS[usize::from(day % 7)];
    let mut parts = Vec::new();
    if !set.numbers.is_empty() {
        // By their places in a week that begins on Monday.
        let places: Vec<u16> = set.numbers.iter().map(|day| (day + 6) % 7).collect();
        parts.push(format!("on {}", ranges(&places, |place| name(place + 1).to_owned())));
    }
    for day in &set.last {
        parts.push(format!("on the last {} of the month", name(*day)));
    }
    for bit in &set.nth {
        parts.push(format!("on the {} {} of the month", nth(bit / 7 + 1), name(bit % 7)));
    }
    (!parts.is_empty()).then(|| list(&parts))
}

fn named(numbers: &[u16], first: u16, names: &[&str]) -> String {
    ranges(numbers, |number| names[usize::from(number - first)].to_owned())
}

fn nth(number: u16) -> String {
    let end = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{end}")
}

/// Neighbours together: first and last of each group.
fn runs(numbers: &[u16]) -> Vec<(u16, u16)> {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    runs
}

/// Numbers as words, three and more neighbours as a range.
fn ranges(numbers: &[u16], word: impl Fn(u16) -> String) -> String {
    let mut words = Vec::new();
    for (first, last) in runs(numbers) {
        match last - first {
            0 => words.push(word(first)),
            1 => words.extend([word(first), word(last)]),
            _ => words.push(format!("{} to {}", word(first), word(last))),
        }
    }
    list(&words)
}

fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rules_are_told_in_words() {
        let table = [
            ("* * * * *", "every minute"),
            ("*/5 * * * *", "every 5 minutes"),
            ("*/7 * * * *", "every hour, at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56"),
            ("0 * * * *", "every hour"),
            ("@hourly", "every hour"),
            ("30 * * * *", "every hour, at minute 30"),
            ("0 */6 * * *", "every 6 hours"),
            ("15 */6 * * *", "every 6 hours, at minute 15"),
            ("0 3 * * *", "at 03:00 every day"),
            ("30 9,17 * * 1-5", "at 09:30 and 17:30, on Monday to Friday"),
            ("*/15 9-17 * * MON-FRI", "every 15 minutes from 09:00 to 17:59, on Monday to Friday"),
            ("0 0 1 1 *", "at 00:00, on the 1st, in January"),
            ("0 0 1,15 * *", "at 00:00, on the 1st and 15th"),
            ("0 0 L * *", "at 00:00, on the last day of the month"),
            ("0 0 * * 7", "at 00:00, on Sunday"),
            ("0 0 * * 6,7", "at 00:00, on Saturday and Sunday"),
            ("0 0 13 * 5", "at 00:00, on the 13th and on Friday"),
            ("0 9 * * 5L", "at 09:00, on the last Friday of the month"),
            ("0 9 * * 2#2", "at 09:00, on the 2nd Tuesday of the month"),
            ("0 9 15W * *", "at 09:00, on the workday nearest to the 15th"),
            ("*/10 * * * * *", "every 10 seconds"),
            ("* * * * * *", "every second"),
            ("30 * * * * *", "at second 30 of every minute"),
            ("0 0 0 * 6-8 * 2027", "at 00:00 every day, in June to August, in 2027"),
        ];
        for (rule, said) in table {
            assert_eq!(words(rule).unwrap(), said, "{rule}");
        }
        assert!(words("61 * * * *").is_err() && words("every day").is_err());
    }

    proptest! {
        #[test]
        fn whatever_can_be_read_can_be_told(
            minute in 0u16..60, hour in 0u16..24, every in 1u16..60, day in 1u16..29, month in 1u16..13, weekday in 0u16..8,
        ) {
            for rule in [
                format!("{minute} {hour} {day} {month} {weekday}"),
                format!("*/{every} {hour}-23 */2 {month}-12 {weekday}-7"),
                format!("{minute}-59/{every} * {day}W * {weekday}L"),
            ] {
                let said = words(&rule).unwrap();
                prop_assert!(!said.is_empty() && !said.contains("  "), "{rule}: {said}");
            }
        }
    }
}
