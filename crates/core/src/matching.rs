//! Which waiting worker gets which waiting run.
//!
//! Runs are taken strictly in the order they are given (priority, due time, submission). Affinity only chooses
//! among the workers that could take a run anyway; it never delays one.

use std::collections::HashMap;

/// A parked poll: a worker that can take some runs.
#[derive(Clone, Debug)]
pub struct Slot<'a> {
    /// Who is asking, as affinity knows it: the worker's name, which survives its restarts.
    pub name: &'a str,
    /// Lanes (queue and type) it can take, sorted.
    pub lanes: &'a [i32],
    /// How many runs it can take.
    pub room: u32,
}

/// A run that could be handed out.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    /// Its lane (queue and type).
    pub lane: i32,
    /// The key whose live runs are limited, if it has one.
    pub key: Option<&'a str>,
    /// The name of the worker that last finished a run with the same affinity key, if any.
    pub preferred: Option<&'a str>,
}

/// What becomes of a candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The slot with this index gets it.
    Slot(usize),
    /// Its key has as many live runs as it may have.
    KeyFull,
    /// No slot has room for its lane.
    NoRoom,
}

/// Gives each candidate, in order, to a slot. `key_room` is how many more runs of each limited key may be live;
/// a key that is not listed has no limit. At most `most` runs are handed out.
pub fn assign(candidates: &[Candidate<'_>], slots: &[Slot<'_>], key_room: &HashMap<&str, u32>, most: u32) -> Vec<Fate> {
    let mut room: Vec<u32> = slots.iter().map(|slot| slot.room).collect();
    let mut key_room = key_room.clone();
    let mut left = most;
    let mut fates = vec![Fate::NoRoom; candidates.len()];
    // First those whose preferred worker is waiting, then the rest: otherwise a run without a preference could
    // take the place that the next one's warm cache is waiting in.
    for preferred in [true, false] {
        for (fate, candidate) in fates.iter_mut().zip(candidates) {
            if matches!(fate, Fate::Slot(_) | Fate::KeyFull) || left == 0 {
                continue;
            }
            let fits = |index: &usize| room[*index] > 0 && slots[*index].lanes.binary_search(&candidate.lane).is_ok();
            let mut fitting = (0..slots.len()).filter(fits);
            let slot = match preferred {
                true => fitting.find(|index| candidate.preferred == Some(slots[*index].name)),
                false => fitting.next(),
            };
            let Some(slot) = slot else { continue };
            if let Some(of_key) = candidate.key.and_then(|key| key_room.get_mut(key)) {
                if *of_key == 0 {
                    *fate = Fate::KeyFull;
                    continue;
                }
                *of_key -= 1;
            }
            room[slot] -= 1;
            left -= 1;
            *fate = Fate::Slot(slot);
        }
    }
    fates
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(lane: i32) -> Candidate<'static> {
        Candidate { lane, key: None, preferred: None }
    }

    fn slot(name: &'static str, lanes: &'static [i32], room: u32) -> Slot<'static> {
        Slot { name, lanes, room }
    }

    #[test]
    fn an_impossible_run_does_not_block_the_ones_behind_it() {
        let fates = assign(&[run(9), run(1)], &[slot("a", &[1], 1)], &HashMap::new(), 10);
        assert_eq!(fates, [Fate::NoRoom, Fate::Slot(0)]);
    }

    #[test]
    fn a_warm_cache_is_preferred_but_never_waited_for() {
        let warm = Candidate { preferred: Some("b"), ..run(1) };
        let slots = [slot("a", &[1], 1), slot("b", &[1], 1)];
        assert_eq!(assign(&[run(1), warm.clone()], &slots, &HashMap::new(), 10), [Fate::Slot(0), Fate::Slot(1)]);
        assert_eq!(assign(&[warm.clone(), run(1)], &slots, &HashMap::new(), 10), [Fate::Slot(1), Fate::Slot(0)]);
        assert_eq!(assign(&[warm], &slots[..1], &HashMap::new(), 10), [Fate::Slot(0)]);
    }

    #[test]
    fn a_full_key_lets_others_pass() {
        let keyed = Candidate { key: Some("k"), ..run(1) };
        let fates =
            assign(&[keyed.clone(), keyed.clone(), run(1)], &[slot("a", &[1], 9)], &HashMap::from([("k", 1)]), 10);
        assert_eq!(fates, [Fate::Slot(0), Fate::KeyFull, Fate::Slot(0)]);
    }

    #[test]
    fn no_more_than_allowed_are_handed_out() {
        let fates = assign(&[run(1), run(1), run(1)], &[slot("a", &[1], 9)], &HashMap::new(), 2);
        assert_eq!(fates, [Fate::Slot(0), Fate::Slot(0), Fate::NoRoom]);
    }

    proptest! {
        #[test]
        fn nobody_gets_more_than_room_and_nothing_fitting_is_left(
            candidates in proptest::collection::vec((0i32..4, 0usize..3), 0..40),
            rooms in proptest::collection::vec((0u32..5, 0usize..4), 0..6),
        ) {
            const LANES: [&[i32]; 4] = [&[0], &[1], &[0, 1], &[0, 1, 2, 3]];
            const NAMES: [&str; 3] = ["x", "y", "z"];
            let slots: Vec<_> = rooms.iter().enumerate()
                .map(|(index, (room, lanes))| Slot { name: NAMES[index % 3], lanes: LANES[*lanes], room: *room }).collect();
            let runs: Vec<_> = candidates.iter()
                .map(|(lane, name)| Candidate { preferred: Some(NAMES[*name]), ..run(*lane) }).collect();
            let fates = assign(&runs, &slots, &HashMap::new(), 1_000);
            for (index, slot) in slots.iter().enumerate() {
                let got = fates.iter().filter(|fate| **fate == Fate::Slot(index)).count();
                prop_assert!(got <= slot.room as usize);
                if got < slot.room as usize {
                    let left = fates.iter().zip(&runs)
                        .any(|(fate, run)| *fate == Fate::NoRoom && slot.lanes.contains(&run.lane));
                    prop_assert!(!left, "a run waits although slot {index} could take it");
                }
            }
            for (fate, run) in fates.iter().zip(&runs) {
                if let Fate::Slot(slot) = fate { prop_assert!(slots[*slot].lanes.contains(&run.lane)); }
            }
        }
    }
}
