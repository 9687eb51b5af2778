//! The time axis of a waterfall: stretches in which nobody held the run may be folded, so that the work can be seen.

use baton_core::Millis;

/// What a folded stretch takes of the axis, in per cent.
const FOLDED: f64 = 6.0;
/// A stretch is folded when it is longer than this part of what is shown.
const FOLD_PART: f64 = 0.1;
/// Most folds: beyond them the axis would be nothing but folds.
const FOLDS_MAX: usize = 8;
/// Steps between ticks, in milliseconds.
const STEPS: [Millis; 23] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 15_000, 30_000, 60_000, 120_000, 300_000, 900_000,
    1_800_000, 3_600_000, 10_800_000, 43_200_000, 86_400_000,
];
/// Ticks that fit, roughly.
const TICKS: i64 = 7;

/// A stretch of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// Its beginning.
    pub from: Millis,
    /// Its end.
    pub to: Millis,
}

impl Stretch {
    /// How long it is.
    pub fn length(self) -> Millis {
        self.to - self.from
    }
}

/// A piece of the axis.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Piece {
    stretch: Stretch,
    /// From where to where, in per cent.
    left: f64,
    right: f64,
    is_folded: bool,
}

/// The axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Scale {
    pieces: Vec<Piece>,
}

impl Scale {
    /// An axis that shows a window; `busy` are the stretches in which somebody held the run, in their order. Without
    /// them nothing is folded.
    pub fn new(window: Stretch, busy: Option<&[Stretch]>) -> Scale {
        let window = Stretch { from: window.from, to: window.to.max(window.from + 1) };
        let mut idle = busy.map_or_else(Vec::new, |busy| gaps(window, busy));
        idle.retain(|gap| gap.length() as f64 > window.length() as f64 * FOLD_PART);
        // The longest are folded when there are too many; where all is idle, there is nothing to make room for.
        idle.sort_by_key(|gap| std::cmp::Reverse(gap.length()));
        idle.truncate(FOLDS_MAX);
        idle.sort_by_key(|gap| gap.from);
        let folded: Millis = idle.iter().map(|gap| gap.length()).sum();
        if folded >= window.length() {
            idle.clear();
        }
        let folded: Millis = idle.iter().map(|gap| gap.length()).sum();
        let room = 100.0 - FOLDED * idle.len() as f64;
        let per_ms = room / (window.length() - folded) as f64;
        let (mut pieces, mut at, mut left) = (Vec::new(), window.from, 0.0);
        let mut add = |to: Millis, is_folded: bool| {
            if to > at {
                let right = left + if is_folded { FOLDED } else { (to - at) as f64 * per_ms };
                pieces.push(Piece { stretch: Stretch { from: at, to }, left, right, is_folded });
                (at, left) = (to, right);
            }
        };
        for gap in &idle {
            add(gap.from, false);
            add(gap.to, true);
        }
        add(window.to, false);
        Scale { pieces }
    }

    /// Where a moment is, in per cent; what is outside is at the edge.
    pub fn at(&self, moment: Millis) -> f64 {
        let Some(piece) = self.pieces.iter().find(|piece| moment <= piece.stretch.to) else { return 100.0 };
        let share = (moment - piece.stretch.from).max(0) as f64 / piece.stretch.length() as f64;
        piece.left + share * (piece.right - piece.left)
    }

    /// What is shown.
    pub fn window(&self) -> Stretch {
        let first = self.pieces.first().map_or(0, |piece| piece.stretch.from);
        Stretch { from: first, to: self.pieces.last().map_or(1, |piece| piece.stretch.to) }
    }

    /// True when a stretch is at least partly shown.
    pub fn shows(&self, from: Millis, to: Millis) -> bool {
        let window = self.window();
        from <= window.to && to >= window.from
    }

    /// Folded stretches, and where they are.
    pub fn folds(&self) -> impl Iterator<Item = (Stretch, f64, f64)> {
        self.pieces.iter().filter(|piece| piece.is_folded).map(|piece| (piece.stretch, piece.left, piece.right))
    }

    /// Moments to be written at the axis, counted from `zero`.
    pub fn ticks(&self, zero: Millis) -> Vec<Millis> {
        let busy: Millis =
            self.pieces.iter().filter(|piece| !piece.is_folded).map(|piece| piece.stretch.length()).sum();
        let days = (busy / TICKS / 86_400_000 + 1) * 86_400_000;
        let step = STEPS.into_iter().find(|step| busy / step <= TICKS).unwrap_or(days);
        let mut ticks: Vec<Millis> = Vec::new();
        for piece in self.pieces.iter().filter(|piece| !piece.is_folded) {
            let first = (piece.stretch.from - zero).div_euclid(step) * step + zero + step;
            let mut tick = first;
            while tick < piece.stretch.to {
                // Not on top of the one before, which may be beyond a fold.
                if ticks.last().is_none_or(|last| self.at(tick) - self.at(*last) > 9.0) && self.at(tick) > 10.0 {
                    ticks.push(tick);
                }
                tick += step;
            }
        }
        ticks
    }
}

/// Stretches of a window that none of these cover.
fn gaps(window: Stretch, busy: &[Stretch]) -> Vec<Stretch> {
    let (mut gaps, mut at) = (Vec::new(), window.from);
    for stretch in busy {
        if stretch.from > at {
            gaps.push(Stretch { from: at, to: stretch.from.min(window.to) });
        }
        at = at.max(stretch.to);
        if at >= window.to {
            break;
        }
    }
    if at < window.to {
        gaps.push(Stretch { from: at, to: window.to });
    }
    gaps.retain(|gap| gap.to > gap.from);
    gaps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stretch(from: Millis, to: Millis) -> Stretch {
        Stretch { from, to }
    }

    #[test]
    fn idle_time_is_folded_and_work_is_not() {
        let busy = [stretch(0, 100), stretch(900, 1_000)];
        let scale = Scale::new(stretch(0, 1_000), Some(&busy));
        assert_eq!(scale.folds().map(|(stretch, ..)| stretch).collect::<Vec<_>>(), [stretch(100, 900)]);
        assert_eq!((scale.at(0), scale.at(100), scale.at(900), scale.at(1_000)), (0.0, 47.0, 53.0, 100.0));
        let plain = Scale::new(stretch(0, 1_000), None);
        assert_eq!((plain.at(500), plain.folds().count()), (50.0, 0));
        let short = Scale::new(stretch(0, 1_000), Some(&[stretch(0, 450), stretch(500, 1_000)]));
        assert_eq!(short.folds().count(), 0, "a short stretch stays as it is");
        let idle = Scale::new(stretch(0, 1_000), Some(&[]));
        assert_eq!(idle.folds().count(), 0, "nothing but idle time is not folded");
    }

    #[test]
    fn a_window_without_length_can_be_shown() {
        let scale = Scale::new(stretch(5, 5), Some(&[]));
        assert_eq!((scale.at(0), scale.at(5), scale.at(99)), (0.0, 0.0, 100.0));
        assert_eq!(scale.ticks(5), Vec::<Millis>::new());
    }

    proptest! {
        #[test]
        fn time_never_goes_backwards_and_ends_at_the_edge(
            cuts in prop::collection::vec(0_i64..100_000, 0..40),
            moments in prop::collection::vec(-1_000_i64..101_000, 2..20),
        ) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let busy: Vec<Stretch> = cuts.chunks_exact(2).map(|pair| stretch(pair[0], pair[1])).collect();
            let scale = Scale::new(stretch(0, 100_000), Some(&busy));
            let mut moments = moments;
            moments.sort_unstable();
            let places: Vec<f64> = moments.iter().map(|moment| scale.at(*moment)).collect();
            prop_assert!(places.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9), "{places:?}");
            prop_assert!(places.iter().all(|place| (-1e-9..=100.0 + 1e-9).contains(place)));
            prop_assert!((scale.at(100_000) - 100.0).abs() < 1e-6);
            prop_assert!(scale.ticks(0).len() <= 12);
        }
    }
}
