//! How often a builder may poll. One that asks in a tight loop is slowed down; one that keeps the pause it is told never is.

use std::collections::HashMap;
use std::sync::Mutex;

use baton_core::rate::{self, Bucket};
use baton_core::{Millis, WorkerId};

use crate::{Error, Settings};

/// Most builders whose polls are counted; beyond it the memory starts anew.
const POLLERS_MAX: usize = 100_000;
/// Builders that share an API key cannot be told apart where it is all they show. So many may poll as often as each of them may alone.
const BUILDERS_OF_A_KEY: u32 = 50;

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
}

impl Polls {
    /// Counts a poll, or refuses it.
    pub fn admit(&self, who: &Poller, settings: &Settings, now: Millis) -> Result<(), Error> {
        if settings.build_polls_per_second == 0.0 {
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
            _ => Ok(()),
        }
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
    fn no_limit_is_no_limit() {
        let settings = Settings { build_polls_per_second: 0.0, ..Settings::default() };
        assert_eq!(admitted(&Polls::default(), &builder(1), &settings, 0), 1_000);
    }
}
