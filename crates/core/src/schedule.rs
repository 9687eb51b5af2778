//! What becomes of the fires of a schedule, given whether the run before them lives; and how late each is by chance.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Millis;

/// Fires made up for after a downtime, unless the schedule says otherwise.
pub const CATCHUP_DEFAULT: u32 = 100;
/// Most fires that a schedule may have made up for.
pub const CATCHUP_MAX: u32 = 1_000;

/// What happens to a fire while the run before it lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It starts a run beside it.
    #[default]
    Allow,
    /// It is left out.
    Skip,
    /// One waits for the end of that run; more are left out.
    BufferOne,
    /// That run is cancelled.
    CancelPrevious,
}

/// What to do with fires.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// These start runs, in this order.
    pub start: Vec<Millis>,
    /// These are left out.
    pub left_out: Vec<Millis>,
    /// This one waits for the end of the run before it.
    pub buffered: Option<Millis>,
}

/// Says what to do with fires (oldest first), given whether the last run that the rule started still lives, and the fire that waits for its end.
pub fn plan(overlap: Overlap, fires: &[Millis], previous_lives: bool, buffered: Option<Millis>) -> Plan {
    match overlap {
        Overlap::Allow => {
            Plan { start: buffered.into_iter().chain(fires.iter().copied()).collect(), ..Plan::default() }
        }
        Overlap::Skip | Overlap::BufferOne => {
            let mut plan = Plan::default();
            for fire in buffered.into_iter().chain(fires.iter().copied()) {
                if !previous_lives && plan.start.is_empty() {
                    plan.start.push(fire);
                } else if overlap == Overlap::BufferOne && plan.buffered.is_none() {
                    plan.buffered = Some(fire);
                } else {
                    plan.left_out.push(fire);
                }
            }
            plan
        }
        // A run that would be cancelled at once need not be started.
        Overlap::CancelPrevious => {
            let mut left_out: Vec<Millis> = buffered.into_iter().chain(fires.iter().copied()).collect();
            let start = left_out.pop().into_iter().collect();
            Plan { start, left_out, buffered: None }
        }
    }
}

/// How late a fire is by chance: 0 to `most`, and always the same for the same fire.
pub fn lateness(schedule: &str, fire: Millis, most: Millis) -> Millis {
    if most <= 0 {
        return 0;
    }
    let digest = Sha256::new().chain_update(schedule).chain_update([0]).chain_update(fire.to_be_bytes()).finalize();
    let mut die = [0; 8];
    die.copy_from_slice(&digest[..8]);
    // The bias of the remainder is nothing against a span in milliseconds.
    (u64::from_be_bytes(die) % (most as u64 + 1)) as Millis
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(
        overlap: Overlap,
        previous_lives: bool,
        buffered: Option<Millis>,
    ) -> (Vec<Millis>, Vec<Millis>, Option<Millis>) {
        let plan = plan(overlap, &[1, 2, 3], previous_lives, buffered);
        (plan.start, plan.left_out, plan.buffered)
    }

    #[test]
    fn fires_overlap_as_the_policy_says() {
        assert_eq!(planned(Overlap::Allow, true, None), (vec![1, 2, 3], vec![], None));
        assert_eq!(planned(Overlap::Skip, true, None), (vec![], vec![1, 2, 3], None));
        assert_eq!(planned(Overlap::Skip, false, None), (vec![1], vec![2, 3], None));
        assert_eq!(planned(Overlap::BufferOne, true, None), (vec![], vec![2, 3], Some(1)));
        assert_eq!(planned(Overlap::BufferOne, false, None), (vec![1], vec![3], Some(2)));
        assert_eq!(planned(Overlap::BufferOne, true, Some(0)), (vec![], vec![1, 2, 3], Some(0)));
        assert_eq!(planned(Overlap::BufferOne, false, Some(0)), (vec![0], vec![2, 3], Some(1)));
        assert_eq!(planned(Overlap::CancelPrevious, true, None), (vec![3], vec![1, 2], None));
        assert_eq!(plan(Overlap::BufferOne, &[], false, Some(7)), Plan { start: vec![7], ..Plan::default() });
        assert_eq!(plan(Overlap::CancelPrevious, &[], true, None), Plan::default());
    }

    #[test]
    fn lateness_is_bounded_and_always_the_same() {
        assert_eq!(lateness("a", 5, 0), 0);
        let all: std::collections::BTreeSet<_> = (0..1_000).map(|fire| lateness("a", fire, 9)).collect();
        assert_eq!(all, (0..=9).collect());
        assert_eq!(lateness("a", 5, 1_000_000), lateness("a", 5, 1_000_000));
        assert_ne!(lateness("a", 5, 1_000_000), lateness("b", 5, 1_000_000));
        assert_ne!(lateness("a", 5, 1_000_000), lateness("a", 6, 1_000_000));
    }
}
