//! When workers were heard of lately, and what they measured: a few minutes of it, for people who look. In memory only, so each
//! server knows of those that talk to it.

use std::collections::VecDeque;
use std::sync::Mutex;

use baton_core::Millis;
use baton_store::Health;

/// Signs of life that are remembered: two minutes of them, at the usual pace.
const SIGNS_MAX: usize = 48;
/// Signs that follow each other sooner are one.
const SIGN_EVERY: Millis = 2_000;
/// Measurements that are remembered: ten minutes of them.
const MEASURED_MAX: usize = 40;
/// How often one is kept.
const MEASURED_EVERY: Millis = 15_000;

/// What is remembered of one worker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heard {
    /// When it was heard of, oldest first.
    pub signs: VecDeque<Millis>,
    /// What it measured, oldest first.
    pub measured: VecDeque<(Millis, Health)>,
}

/// Notes what one worker says.
#[derive(Debug, Default)]
pub struct Heartbeats(Mutex<Heard>);

impl Heartbeats {
    /// The worker was heard of.
    pub fn note(&self, now: Millis, health: Option<Health>) {
        let mut heard = self.0.lock().expect("nobody panics while holding it");
        push(&mut heard.signs, SIGNS_MAX, SIGN_EVERY, now, |at| *at, now);
        if let Some(health) = health {
            push(&mut heard.measured, MEASURED_MAX, MEASURED_EVERY, now, |(at, _)| *at, (now, health));
        }
    }

    /// What is remembered.
    pub fn heard(&self) -> Heard {
        self.0.lock().expect("nobody panics while holding it").clone()
    }
}

fn push<T>(kept: &mut VecDeque<T>, most: usize, every: Millis, now: Millis, at: impl Fn(&T) -> Millis, new: T) {
    // The clock was set back, so what was noted before would lie in the future.
    if kept.back().is_some_and(|last| at(last) > now) {
        kept.clear();
    }
    if kept.back().is_some_and(|last| now - at(last) < every) {
        return;
    }
    if kept.len() >= most {
        kept.pop_front();
    }
    kept.push_back(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded_and_thinned() {
        let heartbeats = Heartbeats::default();
        for step in 0..2_000 {
            heartbeats.note(step * 500, Some(Health { cpu: Some(0.5), memory: None, disk_free_bytes: None }));
        }
        let heard = heartbeats.heard();
        assert_eq!(heard.signs.len(), SIGNS_MAX);
        assert_eq!(heard.signs.back(), Some(&998_000));
        assert!(heard.signs.iter().zip(heard.signs.iter().skip(1)).all(|(one, next)| next - one == SIGN_EVERY));
        assert_eq!(heard.measured.len(), MEASURED_MAX);
        heartbeats.note(1_000, None);
        assert_eq!(heartbeats.heard().signs, [1_000], "the clock was set back");
    }
}
