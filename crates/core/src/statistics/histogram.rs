//! How long things took, in buckets that grow with the time: small, and mergeable across servers and minutes.

use crate::Millis;

/// Each doubling of the time has 2^BITS buckets.
const BITS: u32 = 4;
const PER_DOUBLING: u64 = 1 << BITS;
/// Longer spans are counted as this one, which is some 34 years.
pub const SPAN_MS_MAX: u64 = (1 << 40) - 1;
/// How far a quantile may be from the true one, as a part of it: half of the width of a bucket. Below 32 ms it is exact.
pub const ERROR_MAX: f64 = 1.0 / (2 * PER_DOUBLING) as f64;
/// Every bucket has a smaller index.
pub const BUCKETS: u16 = ((40 - BITS as u16) << BITS) + PER_DOUBLING as u16;

/// Spans of time, counted by their length. Only buckets with something in them take room.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Histogram {
    /// Index and count of each bucket, by index. No count is 0.
    buckets: Vec<(u16, u64)>,
}

/// The bucket of a span.
fn index(ms: u64) -> u16 {
    let ms = ms.min(SPAN_MS_MAX);
    if ms < 2 * PER_DOUBLING {
        return ms as u16;
    }
    let shift = ms.ilog2() - BITS;
    ((shift << BITS) as u64 + (ms >> shift)) as u16
}

/// What stands for all spans of a bucket: its middle.
fn middle(index: u16) -> u64 {
    let index = u64::from(index);
    if index < 2 * PER_DOUBLING {
        return index;
    }
    let shift = (index >> BITS) - 1;
    let lowest = (index - (shift << BITS)) << shift;
    lowest + ((1 << shift) - 1) / 2
}

impl Histogram {
    /// Counts a span. One that is negative, because clocks were set back, is none.
    pub fn note(&mut self, ms: Millis) {
        self.add(index(ms.max(0).unsigned_abs()), 1);
    }

    /// Counts so many in a bucket.
    pub(super) fn add(&mut self, index: u16, count: u64) {
        if count == 0 {
            return;
        }
        match self.buckets.binary_search_by_key(&index, |(at, _)| *at) {
            Ok(found) => self.buckets[found].1 = self.buckets[found].1.saturating_add(count),
            Err(place) => self.buckets.insert(place, (index, count)),
        }
    }

    /// Adds what another has counted.
    pub fn merge(&mut self, other: &Histogram) {
        if self.buckets.is_empty() {
            self.buckets.clone_from(&other.buckets);
            return;
        }
        other.buckets.iter().for_each(|(index, count)| self.add(*index, *count));
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// True when nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Index and count of each bucket that has something in it, by index.
    pub(super) fn buckets(&self) -> &[(u16, u64)] {
        &self.buckets
    }

    /// The span that this part of all is not longer than, within [`ERROR_MAX`]; none when nothing was counted.
    pub fn quantile(&self, part: f64) -> Option<Millis> {
        let rank = ((self.count() as f64 * part).ceil() as u64).max(1);
        let mut seen: u64 = 0;
        for (index, count) in &self.buckets {
            seen = seen.saturating_add(*count);
            if seen >= rank {
                return Some(middle(*index) as Millis);
            }
        }
        self.buckets.last().map(|(index, _)| middle(*index) as Millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_are_next_to_each_other_and_in_order() {
        let mut last = 0;
        for ms in (0..100_000).chain((17..40).flat_map(|power| (1_u64 << power) - 2..(1 << power) + 2)) {
            let here = index(ms);
            assert!(here == last || here == last + 1 || ms > 100_000, "{ms} ms are in {here} after {last}");
            assert!(here < BUCKETS, "{ms}");
            last = here;
        }
        assert_eq!(index(u64::MAX), BUCKETS - 1);
        for ms in 0..32 {
            assert_eq!(middle(index(ms)), ms, "short spans are exact");
        }
    }

    #[test]
    fn nothing_has_no_quantile() {
        let mut none = Histogram::default();
        assert_eq!((none.quantile(0.5), none.count(), none.is_empty()), (None, 0, true));
        none.note(-5);
        assert_eq!((none.quantile(0.5), none.count()), (Some(0), 1));
    }

    fn of(spans: &[Millis]) -> Histogram {
        let mut histogram = Histogram::default();
        spans.iter().for_each(|ms| histogram.note(*ms));
        histogram
    }

    proptest! {
        #[test]
        fn a_quantile_is_as_near_as_promised(
            mut spans in prop::collection::vec((0..40_u32, 0..u32::MAX).prop_map(|(bits, die)| {
                i64::from(die) % (1_i64 << bits.max(1))
            }), 1..200),
            part in 0.0..=1.0,
        ) {
            let told = of(&spans).quantile(part).unwrap();
            spans.sort_unstable();
            let rank = ((spans.len() as f64 * part).ceil() as usize).max(1);
            let truth = spans[rank - 1];
            let far = (told - truth).abs() as f64;
            prop_assert!(far <= truth as f64 * ERROR_MAX, "{told} for {truth}");
        }

        #[test]
        fn merged_is_counted_together(
            one in prop::collection::vec(0_i64..10_000_000, 0..50),
            other in prop::collection::vec(0_i64..10_000_000, 0..50),
        ) {
            let (mut there, mut back) = (of(&one), of(&other));
            there.merge(&of(&other));
            back.merge(&of(&one));
            let together = of(&one.iter().chain(&other).copied().collect::<Vec<_>>());
            prop_assert_eq!(&there, &together);
            prop_assert_eq!(&back, &together);
            prop_assert_eq!(there.count() as usize, one.len() + other.len());
        }
    }
}
