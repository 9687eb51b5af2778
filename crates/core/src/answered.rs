//! Which claims of a worker were answered. A worker numbers its claims, and each number is answered
//! once, whichever server is asked: with runs, or with none.

/// How far behind the last answered number others are told apart.
pub const WINDOW: i64 = 63;

/// The numbers of a worker's claims that were answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Answered {
    /// The largest of them; 0 when there is none.
    pub last: i64,
    /// Which of the numbers up to `last` were: the lowest bit stands for `last`, the next one for
    /// the number before it.
    pub bits: i64,
}

impl Answered {
    /// Whether the claim with this number was answered. What lies far behind the last one counts as
    /// answered. Claims without a number (0) never are.
    pub fn has(self, number: i64) -> bool {
        let behind = self.last.saturating_sub(number);
        number > 0 && behind >= 0 && (behind >= WINDOW || self.bits >> behind & 1 == 1)
    }

    /// Whether this number is so far behind that it is no longer told apart from others: the worker
    /// counts from the beginning again.
    pub fn is_old(self, number: i64) -> bool {
        number > 0 && self.last.saturating_sub(number) >= WINDOW
    }

    /// Whether a worker that asks with this number although it was answered begins from there: it
    /// uses its last number again, or counts from the beginning. Any other is a late copy of a call
    /// that was answered elsewhere, and nobody waits for it.
    pub fn may_reopen(self, number: i64, only_old: bool) -> bool {
        self.has(number) && (self.is_old(number) || !only_old && number == self.last)
    }

    /// Notes that the claim with this number was answered.
    #[must_use]
    pub fn with(self, number: i64) -> Answered {
        let ahead = number.saturating_sub(self.last);
        match number {
            ..=0 => self,
            _ if ahead >= WINDOW => Answered { last: number, bits: 1 },
            _ if ahead > 0 => Answered { last: number, bits: self.bits << ahead | 1 },
            _ if ahead > -WINDOW => Answered { bits: self.bits | 1 << -ahead, ..self },
            _ => self,
        }
    }

    /// The worker asks with this number again although it was answered: it begins from there.
    #[must_use]
    pub fn without(self, number: i64) -> Answered {
        let behind = self.last.saturating_sub(number);
        match number {
            ..=0 => self,
            _ if behind >= WINDOW => Answered { last: number - 1, bits: 0 },
            _ if behind >= 0 => Answered { bits: self.bits & !(1 << behind), ..self },
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_number_is_answered_once() {
        let none = Answered::default();
        assert!(!none.has(1) && !none.has(0) && !none.with(0).has(0));
        let one = none.with(1);
        assert!(one.has(1) && !one.has(2));
        // A worker of two queues has two claims waiting; the later one may be answered first.
        let late = one.with(3);
        assert!(late.has(1) && !late.has(2) && late.has(3) && late.with(2).has(2));
        assert!(!late.without(3).has(3) && late.without(3).has(1));
        assert!(late.may_reopen(3, false) && !late.may_reopen(3, true));
        assert!(!late.may_reopen(1, false) && !late.may_reopen(2, false) && !late.may_reopen(4, false));
        let far = late.with(3 + WINDOW);
        assert!(far.may_reopen(3, true) && far.may_reopen(3, false));
        assert!(far.is_old(3) && !far.is_old(4) && !far.is_old(0));
        assert!(far.has(3) && far.has(2) && !far.has(2 + WINDOW), "what is far behind counts as answered");
        assert!(!far.without(1).has(1) && far.without(1).has(0).eq(&false));
        assert!(none.with(i64::MAX).has(i64::MAX) && none.with(i64::MAX).with(1).has(1));
    }

    proptest! {
        #[test]
        fn within_the_window_it_is_a_set(numbers in prop::collection::vec(1_i64..60, 0..80)) {
            let (mut answered, mut set) = (Answered::default(), HashSet::new());
            for number in numbers {
                prop_assert_eq!(answered.has(number), set.contains(&number));
                if number % 7 == 0 && set.remove(&number) {
                    answered = answered.without(number);
                } else {
                    answered = answered.with(number);
                    set.insert(number);
                }
                for other in 1..60 {
                    prop_assert_eq!(answered.has(other), set.contains(&other), "{} of {:?}", other, answered);
                }
            }
        }
    }
}
