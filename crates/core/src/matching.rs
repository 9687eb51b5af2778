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
    let mut table = Table::new(slots, key_room, most);
    let mut fates = vec![Fate::NoRoom; candidates.len()];
    table.serve_in_order(candidates, &mut fates);
    // The order decides who is served; only then do warm caches decide by whom.
    if let Some((preferred, room)) = by_preference(candidates, slots, &fates) {
        fates = preferred;
        table.room = room;
        // Whoever moved to a warm cache may have made room for somebody who had found none.
        table.serve_in_order(candidates, &mut fates);
    }
    fates
}

fn takes(slot: &Slot<'_>, room: u32, candidate: &Candidate<'_>) -> bool {
    room > 0 && slot.lanes.binary_search(&candidate.lane).is_ok()
}

/// What is left to be handed out.
struct Table<'a> {
    slots: &'a [Slot<'a>],
    room: Vec<u32>,
    key_room: HashMap<&'a str, u32>,
    left: u32,
}

impl<'a> Table<'a> {
    fn new(slots: &'a [Slot<'a>], key_room: &HashMap<&'a str, u32>, most: u32) -> Table<'a> {
        Table { slots, room: slots.iter().map(|slot| slot.room).collect(), key_room: key_room.clone(), left: most }
    }

    /// Serves those without a place strictly in order, each by the slot that waits longest and can take it.
    fn serve_in_order(&mut self, candidates: &[Candidate<'_>], fates: &mut [Fate]) {
        for (fate, candidate) in fates.iter_mut().zip(candidates) {
            if *fate == Fate::NoRoom {
                *fate = self.serve(candidate);
            }
        }
    }

    fn serve(&mut self, candidate: &Candidate<'_>) -> Fate {
        let slot = (0..self.slots.len()).find(|slot| takes(&self.slots[*slot], self.room[*slot], candidate));
        let Some(slot) = slot.filter(|_| self.left > 0) else { return Fate::NoRoom };
        if let Some(of_key) = candidate.key.and_then(|key| self.key_room.get_mut(key)) {
            if *of_key == 0 {
                return Fate::KeyFull;
            }
            *of_key -= 1;
        }
        self.room[slot] -= 1;
        self.left -= 1;
        Fate::Slot(slot)
    }
}

/// Serves the same candidates by the workers they prefer, where those wait. Returns their fates and the room that is left; `None`
/// when nobody prefers anybody who waits, or when somebody would go away empty: affinity never delays a run.
fn by_preference(candidates: &[Candidate<'_>], slots: &[Slot<'_>], plain: &[Fate]) -> Option<(Vec<Fate>, Vec<u32>)> {
    let prefers = |candidate: &Candidate<'_>, slot: &Slot<'_>| candidate.preferred == Some(slot.name);
    if !candidates.iter().any(|candidate| slots.iter().any(|slot| prefers(candidate, slot))) {
        return None;
    }
    let mut room: Vec<u32> = slots.iter().map(|slot| slot.room).collect();
    let mut fates = plain.to_vec();
    let mut placed = vec![false; candidates.len()];
    // Those whose preferred worker waits choose first: otherwise a run without a preference could take the place that
    // the next one's warm cache is waiting in.
    for choosing in [true, false] {
        for (index, candidate) in candidates.iter().enumerate() {
            if placed[index] || !matches!(plain[index], Fate::Slot(_)) {
                continue;
            }
            let mut fitting = (0..slots.len()).filter(|slot| takes(&slots[*slot], room[*slot], candidate));
            let slot = match choosing {
                true => fitting.find(|slot| prefers(candidate, &slots[*slot])),
                false => Some(fitting.next()?),
            };
            if let Some(slot) = slot {
                room[slot] -= 1;
                placed[index] = true;
                fates[index] = Fate::Slot(slot);
            }
        }
    }
    Some((fates, room))
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
    fn a_warm_cache_does_not_jump_the_line() {
        let warm = Candidate { preferred: Some("a"), ..run(1) };
        assert_eq!(assign(&[run(1), warm], &[slot("a", &[1], 1)], &HashMap::new(), 10), [Fate::Slot(0), Fate::NoRoom]);
    }

    #[test]
    fn a_run_without_a_preference_leaves_a_warm_cache_to_a_later_one() {
        let warm = Candidate { preferred: Some("a"), ..run(1) };
        let slots = [slot("a", &[1], 1), slot("b", &[1], 1)];
        assert_eq!(assign(&[run(1), warm], &slots, &HashMap::new(), 10), [Fate::Slot(1), Fate::Slot(0)]);
    }

    #[test]
    fn a_warm_cache_neither_jumps_the_line_nor_pushes_anybody_out() {
        let warm = Candidate { preferred: Some("b"), ..run(1) };
        let one = [slot("b", &[1], 1)];
        assert_eq!(assign(&[run(1), warm.clone()], &one, &HashMap::new(), 10), [Fate::Slot(0), Fate::NoRoom]);
        let slots = [slot("a", &[1], 1), slot("b", &[1, 2], 1)];
        assert_eq!(assign(&[warm, run(2)], &slots, &HashMap::new(), 10), [Fate::Slot(0), Fate::Slot(1)]);
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
