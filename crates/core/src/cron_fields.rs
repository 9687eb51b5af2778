//! The fields of a cron rule: from text to sets of numbers. A complaint names the field.

use crate::cron::CronError;

/// Longest rule, in bytes.
const TEXT_BYTES_MAX: usize = 1_000;

/// What a field may hold.
pub(crate) struct Field {
    /// What people call it.
    pub name: &'static str,
    min: u16,
    max: u16,
    names: &'static [&'static str],
    /// Whether `?` stands for any.
    may_ask: bool,
}

const fn plain(name: &'static str, min: u16, max: u16) -> Field {
    Field { name, min, max, names: &[], may_ask: false }
}

pub(crate) const SECOND: Field = plain("second", 0, 59);
pub(crate) const MINUTE: Field = plain("minute", 0, 59);
pub(crate) const HOUR: Field = plain("hour", 0, 23);
pub(crate) const DAY: Field = Field { may_ask: true, ..plain("day of month", 1, 31) };
pub(crate) const MONTH: Field = Field {
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
    ..plain("month", 1, 12)
};
/// Both 0 and 7 are Sunday.
pub(crate) const WEEKDAY: Field =
    Field { names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"], may_ask: true, ..plain("day of week", 0, 7) };
pub(crate) const YEAR: Field = plain("year", 1970, 9999);

/// What one field says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Set {
    /// The numbers, in order.
    pub numbers: Vec<u16>,
    /// It begins with `*` or is `?`.
    pub is_wild: bool,
    /// Days of the month counted from its end: 0 is the last.
    pub from_end: Vec<u16>,
    /// Days of the week, of which only the last in the month is meant.
    pub last: Vec<u16>,
    /// Days of the month for which the nearest workday is meant; 0 is the last day.
    pub workdays: Vec<u16>,
    /// Days of the week, of which only one in the month is meant, as [`nth_bit`] numbers them.
    pub nth: Vec<u16>,
}

/// The number of the nth (1 to 5) of its weekdays in a month; Sunday is 0.
pub(crate) const fn nth_bit(weekday: u16, nth: u16) -> u16 {
    (nth - 1) * 7 + weekday
}

impl Set {
    /// The numbers as bits; only for fields below 64.
    pub(crate) fn bits(&self) -> u64 {
        self.numbers.iter().fold(0, |bits, number| bits | 1 << number)
    }
}

/// Splits a rule into second, minute, hour, day of month, month, day of week and year.
pub(crate) fn split(text: &str) -> Result<[&str; 7], CronError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(CronError::whole(format!("it is longer than {TEXT_BYTES_MAX} bytes")));
    }
    let text = text.trim();
    if let Some(word) = text.strip_prefix('@') {
        let standard = match word.to_ascii_lowercase().as_str() {
            "yearly" | "annually" => "0 0 1 1 *",
            "monthly" => "0 0 1 * *",
            "weekly" => "0 0 * * 0",
            "daily" | "midnight" => "0 0 * * *",
            "hourly" => "0 * * * *",
            "minutely" => "* * * * *",
            every if every.starts_with("every") => {
                return Err(CronError::whole(
                    "@every is not known; write */5 * * * * for every five minutes, */10 * * * * * for every ten seconds",
                ));
            }
            _ => {
                return Err(CronError::whole(format!(
                    "@{word} is not known; there are @yearly, @monthly, @weekly, @daily, @hourly and @minutely"
                )));
            }
        };
        return split(standard);
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    match fields[..] {
        [minute, hour, day, month, weekday] => Ok(["0", minute, hour, day, month, weekday, "*"]),
        [second, minute, hour, day, month, weekday] => Ok([second, minute, hour, day, month, weekday, "*"]),
        [second, minute, hour, day, month, weekday, year] => Ok([second, minute, hour, day, month, weekday, year]),
        _ => Err(CronError::whole(format!(
            "it has {} fields; there must be five (minute, hour, day of month, month, day of week), six (a second first) or \
             seven (and a year last)",
            fields.len()
        ))),
    }
}

impl Field {
    /// Reads what the field says.
    pub(crate) fn read(&self, text: &str) -> Result<Set, CronError> {
        let mut set = Set { is_wild: text.starts_with('*') || text == "?", ..Set::default() };
        for part in text.split(',') {
            self.read_part(part, &mut set).map_err(|why| CronError { field: Some(self.name), why })?;
        }
        for numbers in [&mut set.numbers, &mut set.from_end, &mut set.last, &mut set.workdays, &mut set.nth] {
            numbers.sort_unstable();
            numbers.dedup();
        }
        Ok(set)
    }

    fn read_part(&self, part: &str, set: &mut Set) -> Result<(), String> {
        if part.is_empty() {
            return Err("a value is missing (a comma too many?)".into());
        }
        if self.read_workday(part, set)? || self.read_nth(part, set)? || self.read_last(part, set)? {
            return Ok(());
        }
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(self.step(step)?)),
            None => (part, None),
        };
        let (first, last) = match range {
            "*" => (self.min, self.max),
            "?" if self.may_ask && step.is_none() => (self.min, self.max),
            "?" => return Err("? stands alone, and only for the day of month or the day of week".into()),
            range => match range.split_once('-') {
                Some((first, last)) => self.range(first, last)?,
                // "5/15" is from 5 on.
                None if step.is_some() => (self.number(range)?, self.max),
                None => {
                    let number = self.number(range)?;
                    (number, number)
                }
            },
        };
        let numbers = (first..=last).step_by(usize::from(step.unwrap_or(1)));
        set.numbers.extend(numbers.map(|number| if self.is_weekday() { number % 7 } else { number }));
        Ok(())
    }

    /// Reads `15W` and `LW` (days of the month). False when it is none of them.
    fn read_workday(&self, part: &str, set: &mut Set) -> Result<bool, String> {
        let upper = part.to_ascii_uppercase();
        let Some(day) = upper.strip_suffix('W') else { return Ok(false) };
        if self.name != DAY.name {
            return Err("W is for the day of month".into());
        }
        set.workdays.push(match day {
            "" => return Err("W needs a day before it: 15W is the workday nearest to the 15th".into()),
            "L" => 0,
            day => self.number(day).map_err(|why| format!("{part:?} is not LW or one day and W: {why}"))?,
        });
        Ok(true)
    }

    /// Reads `5#2` (days of the week). False when it is not like that.
    fn read_nth(&self, part: &str, set: &mut Set) -> Result<bool, String> {
        let Some((day, nth)) = part.split_once('#') else { return Ok(false) };
        if !self.is_weekday() {
            return Err("# is for the day of week".into());
        }
        let nth = nth.parse().ok().filter(|nth| (1..=5).contains(nth));
        let nth = nth.ok_or_else(|| format!("{part:?} does not end with #1 to #5: 5#2 is the second Friday"))?;
        set.nth.push(nth_bit(self.number(day)? % 7, nth));
        Ok(true)
    }

    /// Reads `L`, `L-3` (days of the month) and `5L` (days of the week). False when it is none of them.
    fn read_last(&self, part: &str, set: &mut Set) -> Result<bool, String> {
        let upper = part.to_ascii_uppercase();
        // JUL ends with an L of its own.
        if !upper.contains('L') || self.names.contains(&upper.as_str()) || upper.contains("JUL") {
            return Ok(false);
        }
        if self.name == DAY.name {
            let before = match upper.strip_prefix("L-") {
                Some(before) => before.parse().ok().filter(|before| (1..=30).contains(before)),
                None => (upper == "L").then_some(0),
            };
            set.from_end.push(before.ok_or_else(|| format!("{part:?} is not L, LW or L-1 to L-30"))?);
            return Ok(true);
        }
        if self.is_weekday() {
            let day = upper.strip_suffix('L').unwrap_or_default();
            if day.is_empty() {
                return Err("L needs a day before it: 5L is the last Friday of the month".into());
            }
            set.last.push(self.number(day)? % 7);
            return Ok(true);
        }
        Err("L is for the day of month and the day of week".into())
    }

    fn range(&self, first: &str, last: &str) -> Result<(u16, u16), String> {
        let (from, mut to) = (self.number(first)?, self.number(last)?);
        // Sunday ends a week as well as it begins one.
        if self.is_weekday() && to == 0 && from > 0 {
            to = 7;
        }
        match from <= to {
            true => Ok((from, to)),
            false => Err(format!("the range {first}-{last} runs backwards; write it as two, with a comma")),
        }
    }

    fn step(&self, text: &str) -> Result<u16, String> {
        match text.parse::<u16>() {
            Ok(step) if step > 0 && step <= self.max => Ok(step),
            Ok(_) | Err(_) => Err(format!("the step {text:?} is not 1 to {}", self.max)),
        }
    }

    fn number(&self, text: &str) -> Result<u16, String> {
        if let Some(index) = self.names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
            return Ok(self.min + index as u16);
        }
        let number = match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse::<u16>().ok(),
            false => None,
        };
        number.filter(|number| (self.min..=self.max).contains(number)).ok_or_else(|| match self.names {
            [] => format!("{text:?} is not {} to {}", self.min, self.max),
            names => {
                format!("{text:?} is not {} to {} or {} to {}", self.min, self.max, names[0], names[names.len() - 1])
            }
        })
    }

    fn is_weekday(&self) -> bool {
        self.name == WEEKDAY.name
    }
}
