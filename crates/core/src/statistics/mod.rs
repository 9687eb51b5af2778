//! Numbers about queues, workers and pools, as series. docs/adr/0028 has the reasons.
//!
//! * [`Measure`]: what is measured, and how two measurements of the same time are put together.
//! * [`Histogram`]: how long things took, within a known error.
//! * [`Bucket`], [`Block`]: what happened in a stretch of time.
//! * [`Resolution`]: how long it is kept, and how exactly.
//! * [`Window`]: the moments of a chart.

mod bucket;
mod code;
mod histogram;
mod measure;
mod rollup;

pub use bucket::{Block, Bucket, Kind, Numbers, Subject};
pub use code::Unreadable;
pub use histogram::{ERROR_MAX, Histogram, SPAN_MS_MAX};
pub use measure::{MEASURES, Measure, Together};
pub use rollup::{DAY, HOUR, KEPT, MINUTE, Resolution, STEP, kept_since};

use crate::Millis;

/// The last moment that is a multiple of a step and not later.
pub fn floor(at: Millis, step_ms: Millis) -> Millis {
    at - at.rem_euclid(step_ms)
}

/// The moments of a chart, each the beginning of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// The first moment.
    pub from: Millis,
    /// How far the moments are apart: a multiple of the length of a bucket.
    pub step_ms: Millis,
    /// How many there are.
    pub count: usize,
    /// The coarsest resolution that steps are made of.
    pub resolution: Resolution,
}

impl Window {
    /// The steps that touch a stretch, at the finest resolution that is kept for all of it. Steps are made longer until there
    /// are at most so many points; two are always allowed.
    pub fn new(from: Millis, until: Millis, now: Millis, points_max: usize) -> Window {
        let fits = |resolution: &Resolution| {
            let shown = resolution.shown_ms();
            let step = resolution.step_ms();
            until - from <= shown && from >= floor(now, step) + step - shown
        };
        let resolution = Resolution::ALL.into_iter().find(fits).unwrap_or(Resolution::Hours);
        let base = resolution.step_ms();
        let wanted = |step: Millis| {
            let span = (until - floor(from, step)).max(1);
            (span + step - 1) / step
        };
        let most = points_max.max(2) as Millis;
        let mut step_ms = base * ((wanted(base) + most - 1) / most);
        // A longer step begins earlier, and may need one more. What is longer than a bucket of a coarser resolution is made of
        // whole ones: at its beginning there may be nothing finer any more.
        let coarser = Resolution::ALL.into_iter().find(|other| *other > resolution).map(Resolution::step_ms);
        while wanted(step_ms) > most {
            step_ms += base;
        }
        if let Some(coarser) = coarser.filter(|coarser| step_ms > *coarser) {
            step_ms += (coarser - step_ms % coarser) % coarser;
            while wanted(step_ms) > most {
                step_ms += coarser;
            }
        }
        let from = floor(from, step_ms);
        let is_made_of = |resolution: &Resolution| step_ms % resolution.step_ms() == 0;
        let resolution = Resolution::ALL.into_iter().rev().find(is_made_of).unwrap_or(resolution);
        Window { from, step_ms, count: wanted(step_ms) as usize, resolution }
    }

    /// The last of so much time, up to the step that is being filled.
    pub fn last(resolution: Resolution, now: Millis, points_max: usize) -> Window {
        let step = resolution.step_ms();
        let until = floor(now, step) + step;
        Window::new(until - resolution.shown_ms(), until, now, points_max)
    }

    /// The moment after the last step.
    pub fn until(&self) -> Millis {
        self.from + self.step_ms * self.count as Millis
    }

    /// The moments.
    pub fn times(&self) -> impl Iterator<Item = Millis> + use<> {
        let Window { from, step_ms, count, .. } = *self;
        (0..count as Millis).map(move |index| from + index * step_ms)
    }

    /// The step that a moment is in.
    pub fn index(&self, at: Millis) -> Option<usize> {
        let is_inside = (self.from..self.until()).contains(&at);
        is_inside.then(|| ((at - self.from) / self.step_ms) as usize)
    }
}

#[cfg(test)]
mod tests;
