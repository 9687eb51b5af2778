//! Where a claim begins to read.
//!
//! A run that was claimed leaves a dead entry at the head of the index, and while a transaction elsewhere stays open
//! nothing cleans it up. A claim that started at the head would walk all of them, more each time. So each server
//! remembers, for every lane and level, a place below which it found nothing claimable, and starts there.
//!
//! A hint is never truth: everything that makes a run claimable lowers it, servers tell each other how far, and now
//! and then it is forgotten. Levels of returned runs have no hint: such runs are few and come back to old places.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use baton_core::Millis;
use baton_core::order::LEVELS;

use crate::LaneId;

/// How far behind its neighbours a run of another server may become visible before it is missed until hints are
/// forgotten.
const LATE_COMMIT_MS: Millis = 5_000;
/// How often hints are forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(30);

/// The place before all others.
pub(super) const START: Millis = 0;

#[derive(Clone, Copy)]
struct Hint {
    /// Where the next claim begins.
    from: Millis,
    /// The highest it has been since hints were last forgotten.
    top: Millis,
    /// The lowest place that became claimable since the claims under way began to read.
    meanwhile: Millis,
}

const UNKNOWN: Hint = Hint { from: START, top: START, meanwhile: Millis::MAX };

struct LaneHints {
    levels: [Hint; LEVELS as usize],
    /// Claims that are reading this lane.
    reading: u32,
    /// The lowest place that became claimable since other servers were last told.
    untold: Option<Millis>,
}

struct State {
    lanes: HashMap<LaneId, LaneHints>,
    forgotten: Instant,
}

/// The hints of this server.
pub(super) struct Cursor {
    state: Mutex<State>,
}

impl Cursor {
    pub(super) fn new() -> Cursor {
        Cursor { state: Mutex::new(State { lanes: HashMap::new(), forgotten: Instant::now() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Hints are never truth, so those that a panic left behind do no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a claim that reads these lanes. Keep the guard until the hints have been raised.
    pub(super) fn read(&self, lanes: &[LaneId]) -> Reading<'_> {
        let mut state = self.state();
        for lane in lanes {
            let hints = state.lane(*lane);
            if hints.reading == 0 {
                hints.levels.iter_mut().for_each(|hint| hint.meanwhile = Millis::MAX);
            }
            hints.reading += 1;
        }
        Reading { cursor: self, lanes: lanes.to_vec() }
    }

    /// Where to begin on each level of these lanes: all levels of the first, then all of the second, ...
    pub(super) fn starts(&self, lanes: &[LaneId]) -> Vec<Millis> {
        let state = self.state();
        let hints = |lane| state.lanes.get(lane).map_or([UNKNOWN; LEVELS as usize], |hints| hints.levels);
        lanes.iter().flat_map(hints).map(|hint| hint.from).collect()
    }

    /// Where to begin on one level of a lane.
    pub(super) fn level_start(&self, lane: LaneId, level: i16) -> Millis {
        let state = self.state();
        state.lanes.get(&lane).and_then(|hints| hints.levels.get(level as usize)).map_or(START, |hint| hint.from)
    }

    /// A run has become claimable at this place. Call it after the commit: a claim that raises the hint before it
    /// cannot have seen the run, and one that raises it afterwards is held back by this call.
    pub(super) fn lower(&self, lane: LaneId, level: i16, place: Millis) {
        let mut state = self.state();
        let hints = state.lane(lane);
        hints.untold = Some(hints.untold.map_or(place, |other| other.min(place)));
        if let Some(hint) = hints.levels.get_mut(level as usize) {
            hint.lower(place);
        }
    }

    /// Another server made runs of this lane claimable, at this place or later.
    pub(super) fn lower_all(&self, lane: LaneId, place: Millis) {
        let mut state = self.state();
        state.lane(lane).levels.iter_mut().for_each(|hint| hint.lower(place));
    }

    /// Makes room for runs of other servers whose commit was late, and now and then forgets everything.
    pub(super) fn soften(&self) {
        let mut state = self.state();
        let forget = state.forgotten.elapsed() >= FORGET_EVERY;
        if forget {
            state.forgotten = Instant::now();
        }
        for hint in state.lanes.values_mut().flat_map(|hints| &mut hints.levels) {
            hint.lower(if forget { START } else { hint.top - LATE_COMMIT_MS });
            if forget {
                hint.top = START;
            }
        }
    }

    /// How far other servers have to go back on this lane; asked when they are told that it has work.
    pub(super) fn take_untold(&self, lane: LaneId) -> Option<Millis> {
        self.state().lanes.get_mut(&lane)?.untold.take()
    }
}

impl State {
    fn lane(&mut self, lane: LaneId) -> &mut LaneHints {
        self.lanes.entry(lane).or_insert(LaneHints { levels: [UNKNOWN; LEVELS as usize], reading: 0, untold: None })
    }
}

impl Hint {
    fn lower(&mut self, place: Millis) {
        self.from = self.from.min(place.max(START));
        self.meanwhile = self.meanwhile.min(place.max(START));
    }
}

/// A claim under way.
pub(super) struct Reading<'a> {
    cursor: &'a Cursor,
    lanes: Vec<LaneId>,
}

impl Reading<'_> {
    /// Everything claimable on this level up to `place` has been taken, as far as this claim could see.
    pub(super) fn raise(&self, lane: LaneId, level: i16, place: Millis) {
        if is_returned(level) {
            return;
        }
        let mut state = self.cursor.state();
        if let Some(hint) = state.lane(lane).levels.get_mut(level as usize) {
            hint.from = hint.from.max(place.min(hint.meanwhile));
            hint.top = hint.top.max(hint.from);
        }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let mut state = self.cursor.state();
        for lane in &self.lanes {
            state.lane(*lane).reading -= 1;
        }
    }
}

/// Levels of runs that a worker lost or gave back are the even ones.
fn is_returned(level: i16) -> bool {
    level % 2 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::order::level;

    const LANE: LaneId = 7;

    fn fresh() -> i16 {
        level(5, false)
    }

    fn raised_to(place: Millis) -> Cursor {
        let cursor = Cursor::new();
        cursor.read(&[LANE]).raise(LANE, fresh(), place);
        cursor
    }

    #[test]
    fn returned_levels_are_the_even_ones() {
        for priority in 0..=9 {
            assert!(is_returned(level(priority, true)) && !is_returned(level(priority, false)));
        }
    }

    #[test]
    fn a_claim_begins_where_the_one_before_ended() {
        let cursor = raised_to(100);
        assert_eq!(cursor.level_start(LANE, fresh()), 100);
        let all = cursor.starts(&[LANE, 8]);
        assert_eq!(all.len(), 2 * LEVELS as usize);
        assert_eq!(all.iter().filter(|from| **from == 100).count(), 1);
        assert_eq!(all[fresh() as usize], 100);
    }

    #[test]
    fn a_run_that_becomes_claimable_lowers_the_hint() {
        let cursor = raised_to(100);
        cursor.lower(LANE, fresh(), 40);
        cursor.lower(LANE, fresh(), 70);
        assert_eq!(cursor.level_start(LANE, fresh()), 40);
    }

    #[test]
    fn a_run_committed_while_a_claim_reads_is_not_jumped_over() {
        let cursor = Cursor::new();
        let reading = cursor.read(&[LANE]);
        cursor.lower(LANE, fresh(), 40);
        reading.raise(LANE, fresh(), 100);
        assert_eq!(cursor.level_start(LANE, fresh()), 40);
        drop(reading);
        cursor.read(&[LANE]).raise(LANE, fresh(), 100);
        assert_eq!(cursor.level_start(LANE, fresh()), 100, "the next claim has seen it");
    }

    #[test]
    fn a_second_claim_under_way_does_not_hide_what_the_first_may_have_missed() {
        let cursor = Cursor::new();
        let first = cursor.read(&[LANE]);
        cursor.lower(LANE, fresh(), 40);
        let second = cursor.read(&[LANE]);
        first.raise(LANE, fresh(), 100);
        drop(second);
        assert_eq!(cursor.level_start(LANE, fresh()), 40);
    }

    #[test]
    fn returned_runs_are_always_looked_for_from_the_start() {
        let cursor = Cursor::new();
        cursor.read(&[LANE]).raise(LANE, level(5, true), 100);
        assert_eq!(cursor.level_start(LANE, level(5, true)), START);
    }

    #[test]
    fn softening_goes_back_by_the_time_a_commit_may_be_late_and_no_further() {
        let cursor = raised_to(60_000);
        cursor.soften();
        cursor.soften();
        assert_eq!(cursor.level_start(LANE, fresh()), 60_000 - LATE_COMMIT_MS);
        cursor.state().forgotten = Instant::now() - FORGET_EVERY;
        cursor.soften();
        assert_eq!(cursor.level_start(LANE, fresh()), START);
    }

    #[test]
    fn other_servers_are_told_the_lowest_place_once() {
        let cursor = Cursor::new();
        assert_eq!(cursor.take_untold(LANE), None);
        cursor.lower(LANE, fresh(), 50);
        cursor.lower(LANE, level(9, true), 20);
        assert_eq!(cursor.take_untold(LANE), Some(20));
        assert_eq!(cursor.take_untold(LANE), None);
    }
}
