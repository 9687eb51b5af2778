//! What becomes of a delivery after an attempt.

use crate::{Millis, span};

/// Most delays of a schedule.
pub const DELAYS_MAX: usize = 30;
/// Longest delay: a month.
const DELAY_MS_MAX: Millis = 31 * 24 * 3_600 * 1_000;
/// Longest time that a receiver may ask to be left alone.
const RETRY_AFTER_MS_MAX: Millis = 24 * 3_600 * 1_000;
/// How much longer than its delay an attempt waits at most, as a share of the delay.
const JITTER: f64 = 0.2;

/// How long it takes from each attempt to the next. One more attempt is made than there are delays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backoff(Vec<Millis>);

/// What came of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The receiver answered with this status, and perhaps when it is to be called again.
    Status {
        /// The status.
        status: u16,
        /// What its header `Retry-After` says.
        retry_after_ms: Option<Millis>,
    },
    /// There was no answer.
    Silence,
}

/// What becomes of the delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextStep {
    /// It has arrived.
    Done,
    /// It is tried again.
    Retry {
        /// In so long.
        in_ms: Millis,
        /// The receiver wants nothing at all for so long.
        hold_ms: Option<Millis>,
    },
    /// It was tried as often as it is.
    Dead,
    /// The receiver wants no deliveries any more.
    Gone,
}

impl Backoff {
    /// Reads spans (`5s`, `1h30m`) with commas between them.
    pub fn parse(text: &str) -> Result<Backoff, String> {
        let read = |word: &str| {
            let span = span::parse(word.trim()).ok().and_then(|span| Millis::try_from(span.as_millis()).ok());
            span.filter(|delay| *delay <= DELAY_MS_MAX)
                .ok_or_else(|| format!("has {word:?}, which is no span like 5s or 2h, of at most 31 days"))
        };
        let delays: Vec<Millis> = text.split(',').map(read).collect::<Result<_, _>>()?;
        match delays.len() {
            0..=DELAYS_MAX => Ok(Backoff(delays)),
            more => Err(format!("has {more} delays, and may have {DELAYS_MAX}")),
        }
    }

    /// What comes after the attempt with this number, counted from 1. `die` is from 0 to 1.
    pub fn next(&self, answer: Answer, tries: u32, die: f64) -> NextStep {
        let hold_ms = match answer {
            Answer::Status { status: 200..=299, .. } => return NextStep::Done,
            Answer::Status { status: 410, .. } => return NextStep::Gone,
            Answer::Status { status: 429 | 503, retry_after_ms } => {
                retry_after_ms.map(|ms| ms.clamp(0, RETRY_AFTER_MS_MAX))
            }
            Answer::Status { .. } | Answer::Silence => None,
        };
        let Some(delay) = self.0.get((tries as usize).saturating_sub(1)) else { return NextStep::Dead };
        let jittered = *delay + (*delay as f64 * JITTER * die.clamp(0.0, 1.0)) as Millis;
        NextStep::Retry { in_ms: jittered.max(hold_ms.unwrap_or(0)), hold_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, retry_after_ms: Option<Millis>) -> Answer {
        Answer::Status { status, retry_after_ms }
    }

    #[test]
    fn each_answer_has_its_consequence() {
        let backoff = Backoff::parse("5s, 5m").unwrap();
        let retry = |in_ms, hold_ms| NextStep::Retry { in_ms, hold_ms };
        let day = RETRY_AFTER_MS_MAX;
        let cases = [
            (status(200, None), 1, 0.0, NextStep::Done),
            (status(204, None), 9, 0.0, NextStep::Done),
            (status(299, None), 3, 0.0, NextStep::Done),
            (status(410, None), 1, 0.0, NextStep::Gone),
            (status(301, None), 1, 0.0, retry(5_000, None)),
            (status(100, None), 1, 0.0, retry(5_000, None)),
            (status(404, None), 1, 1.0, retry(6_000, None)),
            (status(500, Some(9_000)), 1, 0.0, retry(5_000, None)),
            (status(429, Some(9_000)), 1, 0.0, retry(9_000, Some(9_000))),
            (status(503, Some(9_000)), 2, 0.5, retry(330_000, Some(9_000))),
            (status(503, Some(i64::MAX)), 2, 0.5, retry(day, Some(day))),
            (status(503, None), 1, 0.0, retry(5_000, None)),
            (status(429, Some(9_000)), 3, 0.0, NextStep::Dead),
            (Answer::Silence, 2, 0.0, retry(300_000, None)),
            (Answer::Silence, 3, 0.0, NextStep::Dead),
            (Answer::Silence, u32::MAX, 0.0, NextStep::Dead),
        ];
        for (answer, tries, die, expected) in cases {
            assert_eq!(backoff.next(answer, tries, die), expected, "{answer:?} after {tries}");
        }
    }

    #[test]
    fn a_schedule_says_what_it_cannot_read() {
        assert_eq!(
            Backoff::parse("0s").unwrap().next(Answer::Silence, 1, 1.0),
            NextStep::Retry { in_ms: 0, hold_ms: None }
        );
        for wrong in ["", "5x", "1s,,2s", "-1s", "32d", "1s;2s"] {
            assert!(Backoff::parse(wrong).is_err(), "{wrong:?}");
        }
        assert!(Backoff::parse(&["1s"; DELAYS_MAX].join(",")).is_ok());
        assert!(Backoff::parse(&["1s"; DELAYS_MAX + 1].join(",")).unwrap_err().contains("31 delays"));
    }
}
