//! The time axis of a picture: long stretches in which nothing happened are folded.

use baton_core::Millis;

/// How wide a folded stretch is, in per cent.
const FOLD: f64 = 4.0;
/// Most folds.
const FOLDS_MAX: usize = 8;
/// A stretch is folded that is longer than this part of what is left of the whole.
const LONG: Millis = 10;
/// Room at the right, for words behind the last bar.
const RIGHT: f64 = 4.0;

/// Moments as places from left to right, in per cent.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// From when to when, and from where to where.
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Piece {
    from: Millis,
    to: Millis,
    left: f64,
    right: f64,
    is_fold: bool,
}

impl Axis {
    /// The axis for what happened from moment to moment.
    pub fn of(mut spans: Vec<(Millis, Millis)>) -> Axis {
        spans.sort_unstable();
        let Some(begin) = spans.first().map(|(from, _)| *from) else { return Axis { pieces: Vec::new() } };
        let (mut end, mut gaps) = (begin, Vec::new());
        for (from, to) in spans {
            if from > end {
                gaps.push((end, from));
            }
            end = end.max(to);
        }
        // The longest first: what is folded makes the whole shorter, and the next one longer beside it.
        gaps.sort_by_key(|(from, to)| from - to);
        let (mut left, mut folds) = (end.saturating_sub(begin), Vec::new());
        for (from, to) in gaps.into_iter().take(FOLDS_MAX) {
            if (to - from).saturating_mul(LONG) <= left {
                break;
            }
            left -= to - from;
            folds.push((from, to));
        }
        folds.sort_unstable();
        let room = 100.0 - RIGHT - FOLD * folds.len() as f64;
        let scale = room / left.max(1) as f64;
        let (mut pieces, mut at, mut x) = (Vec::new(), begin, 0.0);
        for (from, to) in folds {
            let right = x + (from - at) as f64 * scale;
            pieces.push(Piece { from: at, to: from, left: x, right, is_fold: false });
            pieces.push(Piece { from, to, left: right, right: right + FOLD, is_fold: true });
            (at, x) = (to, right + FOLD);
        }
        pieces.push(Piece { from: at, to: end, left: x, right: x + (end - at) as f64 * scale, is_fold: false });
        Axis { pieces }
    }

    /// The place of a moment.
    pub fn at(&self, at: Millis) -> f64 {
        let Some(piece) = self.pieces.iter().find(|piece| at <= piece.to).or(self.pieces.last()) else { return 0.0 };
        let share = (at - piece.from) as f64 / (piece.to - piece.from).max(1) as f64;
        piece.left + (piece.right - piece.left) * share.clamp(0.0, 1.0)
    }

    /// Folded stretches.
    pub fn folds(&self) -> impl Iterator<Item = (f64, f64)> {
        self.pieces.iter().filter(|piece| piece.is_fold).map(|piece| (piece.left, piece.right))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_idle_stretch_is_folded_and_a_short_one_is_not() {
        let axis = Axis::of(vec![(0, 100), (10_000, 10_100), (10_102, 10_200)]);
        let folds: Vec<_> = axis.folds().collect();
        assert_eq!(folds.len(), 1);
        assert!((folds[0].1 - folds[0].0 - FOLD).abs() < 1e-9 && (axis.at(100) - folds[0].0).abs() < 1e-9);
        assert!((axis.at(10_200) - (100.0 - RIGHT)).abs() < 1e-9);
        assert_eq!(Axis::of(vec![(5, 105), (107, 200)]).folds().count(), 0);
    }

    #[test]
    fn nothing_and_a_single_moment_have_a_place() {
        assert_eq!(Axis::of(vec![]).at(7), 0.0);
        assert_eq!(Axis::of(vec![(7, 7)]).at(7), 0.0);
    }

    proptest! {
        #[test]
        fn later_is_never_further_left(
            spans in prop::collection::vec((0i64..1_000_000_000, 0i64..100_000), 1..40),
            moments in prop::collection::vec(0i64..1_100_000_000, 2..40),
        ) {
            let axis = Axis::of(spans.iter().map(|(from, took)| (*from, from + took)).collect());
            let mut moments = moments;
            moments.sort_unstable();
            let places: Vec<f64> = moments.iter().map(|at| axis.at(*at)).collect();
            prop_assert!(places.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9), "{places:?}");
            prop_assert!(places.iter().all(|x| (0.0..=100.0).contains(x)));
        }
    }
}
