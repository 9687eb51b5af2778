//! Where a run stands in its queue: priority, then due time, then submission, with fair turns between keys.
//!
//! The place is decided when a run becomes claimable, so that a claim only reads an index from its head.

use crate::Millis;

/// Highest priority. 0 is the lowest, 9 goes first.
pub const PRIORITY_MAX: u8 = 9;
/// Priority of a run that says nothing.
pub const PRIORITY_DEFAULT: u8 = 5;
/// How many levels there are: two for each priority.
pub const LEVELS: i16 = 2 * (PRIORITY_MAX as i16 + 1);

/// The level of a run: smaller is claimed first. Within a priority, runs that a worker lost or gave back go
/// before those that were never claimed.
pub fn level(priority: u8, returned: bool) -> i16 {
    2 * i16::from(PRIORITY_MAX - priority.min(PRIORITY_MAX)) + i16::from(!returned)
}

/// The place within a level of a run without a fairness key: its due time.
pub fn place(due_at: Millis, now: Millis) -> Millis {
    due_at.max(now)
}

/// The place within a level of the next run of a fairness key.
///
/// `head` is the place of the run that would be claimed next on this level, if any; `last_of_key` the place of the key's last waiting
/// run, if any. A key's second waiting run stands one turn behind its first, whoever came in between, so that
/// a key with a thousand runs and a key with one take turns.
pub fn fair_place(due_at: Millis, now: Millis, head: Option<Millis>, last_of_key: Option<Millis>) -> Millis {
    if due_at > now {
        return due_at;
    }
    // One behind the head, not beside it: otherwise an endless row of new keys would stand before whoever is second.
    let virtual_now = head.map_or(now, |head| head + 1).min(now);
    last_of_key.map_or(virtual_now, |last| virtual_now.max(last + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_sort_by_priority_then_returned() {
        let order = [level(9, true), level(9, false), level(5, true), level(5, false), level(0, true), level(0, false)];
        assert!(order.is_sorted());
        assert_eq!((order[0], order[5]), (0, LEVELS - 1));
        assert_eq!(level(200, false), level(PRIORITY_MAX, false));
    }

    #[test]
    fn keys_take_turns_whatever_their_backlog() {
        let (mut line, mut last) = (Vec::<(Millis, usize, &str)>::new(), std::collections::HashMap::new());
        let mut submit = |key: &'static str, now: Millis| {
            let head = line.iter().map(|(place, ..)| *place).min();
            let place = fair_place(now, now, head, last.get(key).copied());
            last.insert(key, place);
            line.push((place, line.len(), key));
        };
        (0..4).for_each(|_| submit("big", 1_000));
        (0..2).for_each(|_| submit("small", 5_000));
        line.sort();
        let turns: Vec<_> = line.iter().map(|(_, _, key)| *key).collect();
        assert_eq!(turns, ["big", "big", "small", "big", "small", "big"]);
    }
}
