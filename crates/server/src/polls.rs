//! How often a builder may poll. One that asks in a tight loop is slowed down; one that keeps the
//! pause it is told never is. The pause grows with the number of builders, so that all of them
//! together ask about as often as the server likes.

use std::collections::HashMap;
use std::sync::Mutex;

use baton_core::rate::{self, Bucket};
use baton_core::{Millis, WorkerId};

use crate::{Error, Settings};

/// Most builders whose polls are counted; beyond it the memory starts anew.
const POLLERS_MAX: usize = 100_000;
/// Builders that share an API key cannot be told apart where it is all they show. So many may poll as often as each of them may alone.
const BUILDERS_OF_A_KEY: u32 = 50;

/// Polls a second that a server likes to answer. Where more come, builders are told to wait longer.
const POLLS_PER_SECOND: f64 = 200.0;
/// The longest pause that builders are told for being many.
const PAUSE_MS_MAX: u64 = 60_000;
/// How long polls are counted before the pause is reckoned again.
const WINDOW_MS: Millis = 5_000;

/// Who polls.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Poller {
    /// A builder that has registered.
    Builder(WorkerId),
    /// All builders of the API key with this id, which show nothing else.
    Key(String),
}

impl Poller {
    /// How many builders that is, at most.
    fn builders(&self) -> u32 {
        match self {
            Poller::Builder(_) => 1,
            Poller::Key(_) => BUILDERS_OF_A_KEY,
        }
    }
}

/// The polls that were answered lately.
#[derive(Debug, Default)]
pub struct Polls {
    buckets: Mutex<HashMap<Poller, Bucket>>,
    pace: Mutex<Pace>,
}

/// The pause that builders are told, and the polls since it was reckoned.
#[derive(Debug, Default)]
struct Pace {
    since: Millis,
    polls: u32,
    /// `None` until there was anything to reckon with.
    pause_ms: Option<u64>,
}

/// The next pause, when so many polls came in a span while builders were told the last one: each of
/// them polls once in a pause.
fn next_pause_ms(polls: u32, span_ms: Millis, last_ms: u64, shortest_ms: u64) -> u64 {
    let builders = f64::from(polls) * last_ms as f64 / span_ms.max(1) as f64;
    let pause_ms = builders / POLLS_PER_SECOND * 1_000.0;
    (pause_ms as u64).min(PAUSE_MS_MAX).max(shortest_ms)
}

impl Polls {
    /// Counts a poll, or refuses it.
    pub fn admit(&self, who: &Poller, settings: &Settings, now: Millis) -> Result<(), Error> {
        if settings.build_polls_per_second == 0.0 {
            self.count(settings, now);
            return Ok(());
        }
        let builders = f64::from(who.builders());
        let per_second = settings.build_polls_per_second * builders;
        let burst = f64::from(settings.build_polls_burst) * builders;
        let mut buckets = self.buckets.lock().expect("nobody panics while holding it");
        if buckets.len() >= POLLERS_MAX && !buckets.contains_key(who) {
            buckets.clear();
        }
        let bucket = buckets.entry(who.clone()).or_insert(Bucket { tokens: burst, at: now });
        let (granted, left) = rate::take_of(*bucket, per_second, burst, now, 1);
        *bucket = left;
        match granted {
            0 => Err(Error::TooMany { retry_after_ms: rate::wait_ms(left, per_second, now).max(1) as u64 }),
            _ => {
                drop(buckets);
                self.count(settings, now);
                Ok(())
            }
        }
    }

    /// Counts a poll that was not refused: a loop that is must not slow down the others.
    fn count(&self, settings: &Settings, now: Millis) {
        let mut pace = self.pace.lock().expect("nobody panics while holding it");
        pace.polls = pace.polls.saturating_add(1);
        let span_ms = now - pace.since;
        if !(0..WINDOW_MS).contains(&span_ms) {
            let shortest_ms = settings.build_poll_after_ms;
            let last_ms = pace.pause_ms.unwrap_or(shortest_ms);
            let pause_ms = next_pause_ms(pace.polls, span_ms, last_ms, shortest_ms);
            *pace = Pace { since: now, polls: 0, pause_ms: Some(pause_ms) };
        }
    }

    /// How long a builder that got nothing should wait before it polls again.
    pub fn pause_ms(&self, settings: &Settings) -> u64 {
        let pause_ms = self.pace.lock().expect("nobody panics while holding it").pause_ms;
        pause_ms.unwrap_or_default().max(settings.build_poll_after_ms)
    }

    /// Takes a poll off the count that brought work: a builder with much room may ask again at once.
    pub fn brought_work(&self, who: &Poller) {
        if let Some(bucket) = self.buckets.lock().expect("nobody panics while holding it").get_mut(who) {
            bucket.tokens += 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builder(number: u128) -> Poller {
        Poller::Builder(WorkerId::from_random(number))
    }

    fn admitted(polls: &Polls, who: &Poller, settings: &Settings, now: Millis) -> usize {
        (0..1_000).take_while(|_| polls.admit(who, settings, now).is_ok()).count()
    }

    #[test]
    fn a_tight_loop_is_slowed_and_others_are_not() {
        let (polls, settings) = (Polls::default(), Settings::default());
        assert_eq!(admitted(&polls, &builder(1), &settings, 0), 10);
        assert_eq!(polls.admit(&builder(1), &settings, 0), Err(Error::TooMany { retry_after_ms: 500 }));
        assert_eq!(admitted(&polls, &builder(2), &settings, 0), 10);
        assert_eq!(admitted(&polls, &builder(1), &settings, 5_000), 10, "full again after five seconds");
        assert_eq!(admitted(&polls, &Poller::Key("shared".into()), &settings, 0), 500);
    }

    #[test]
    fn polls_in_the_pace_that_builders_are_told_are_never_refused() {
        let (polls, settings) = (Polls::default(), Settings::default());
        for number in 0..10_000 {
            let now = number * settings.build_poll_after_ms as Millis;
            assert_eq!(polls.admit(&builder(1), &settings, now), Ok(()));
        }
    }

    #[test]
    fn polls_that_bring_work_do_not_count() {
        let (polls, settings) = (Polls::default(), Settings::default());
        for _ in 0..1_000 {
            assert_eq!(polls.admit(&builder(1), &settings, 0), Ok(()));
            polls.brought_work(&builder(1));
        }
        assert_eq!(admitted(&polls, &builder(1), &settings, 0), 10);
    }

    #[test]
    fn many_builders_are_told_to_wait_longer() {
        for (polls, span_ms, last_ms, expected) in [
            (0, 5_000, 5_000, 5_000),
            (1_000, 5_000, 5_000, 5_000),
            // 2,000 builders, each once in five seconds: 400 polls a second.
            (2_000, 5_000, 5_000, 10_000),
            // They have slowed down, and there are as many as before.
            (1_000, 5_000, 10_000, 10_000),
            (1_000_000, 5_000, 5_000, 60_000),
            (50, 5_000, 60_000, 5_000),
            // The clock went backwards.
            (10, -5, 5_000, 60_000),
        ] {
            assert_eq!(next_pause_ms(polls, span_ms, last_ms, 5_000), expected, "{polls} in {span_ms} ms");
        }
        let (polls, settings) = (Polls::default(), Settings::default());
        assert_eq!(polls.pause_ms(&settings), 5_000);
        for number in 0..5_000 {
            polls.count(&settings, 1_000_000 + number * 2);
        }
        polls.count(&settings, 1_010_001);
        assert!(polls.pause_ms(&settings) > 5_000, "{}", polls.pause_ms(&settings));
    }

    #[test]
    fn polls_that_are_refused_slow_down_nobody_else() {
        let (polls, settings) = (Polls::default(), Settings::default());
        for number in 0..100_000 {
            let _ = polls.admit(&builder(1), &settings, 1_000_000 + number / 10);
        }
        assert_eq!(polls.pause_ms(&settings), settings.build_poll_after_ms);
    }

    #[test]
    fn no_limit_is_no_limit() {
        let settings = Settings { build_polls_per_second: 0.0, ..Settings::default() };
        assert_eq!(admitted(&Polls::default(), &builder(1), &settings, 0), 1_000);
    }
}
