//! The small picture of a whole run over its waterfall, and ways to choose a part of it.

use baton_core::Millis;
use baton_server::service::sheet::{StepKind, StepState};
use maud::{Markup, html};

use super::super::rows::span;
use super::super::scale::Stretch;
use super::{Drawing, ROWS, held};

/// Points of the small picture of the whole run.
const POINTS: usize = 600;

impl Drawing<'_> {
    /// The whole run in true time, and ways to choose a part of it.
    pub(super) fn minimap(&self) -> Markup {
        let whole = self.whole;
        let percent = |moment: Millis| (moment - whole.from) as f64 * 100.0 / whole.length() as f64;
        let window = self.scale.window();
        let lanes = [("held", 3), ("done", 9), ("under", 14), ("failed", 19), ("sleeps", 24)];
        let mut strips: Vec<Strip> = lanes.iter().map(|_| Strip::new()).collect();
        for lease in self.leases {
            let held = held(lease, whole.to);
            strips[0].mark(whole, held.from, held.to);
        }
        for step in self.steps {
            let (from, to) = span(step, whole.to);
            let lane = match (step.kind, step.state) {
                (_, StepState::Failed) => 3,
                (StepKind::Sleep | StepKind::Signal, _) => 4,
                (_, StepState::Begun) if step.attempts > 1 => 3,
                (_, StepState::Begun) => 2,
                (_, StepState::Completed) => 1,
            };
            strips[lane].mark(whole, from, to);
        }
        let classes = ["m-run", "m-ok", "m-run", "m-bad", "m-sleep"];
        let zoomed = |from: f64, to: f64| {
            let length = window.length() as f64;
            let moment = |share: f64| {
                let at = window.from as f64 + length * share - whole.from as f64;
                (at.round() as Millis).clamp(0, whole.length())
            };
            let query = self.view.query.without("row").with("from", moment(from).to_string());
            self.href(&query.with("to", moment(to).max(moment(from) + 1).to_string()))
        };
        html! {
            div.mini-wrap {
                svg.mini role="img" aria-label="The whole run in true time; drag to choose a part" viewBox="0 0 600 30"
                    preserveAspectRatio="none" data-length=(whole.length()) {
                    rect.fold width="600" height="30" {}
                    @for ((strip, class), (_, y)) in strips.iter().zip(classes).zip(lanes) {
                        @let path = strip.path(y);
                        @if !path.is_empty() { path class=(class) d=(path) {} }
                    }
                    rect.v x=(format!("{:.1}", percent(window.from) * 6.0)) y="0.5" height="29" rx="3"
                        width=(format!("{:.1}", (percent(window.to) - percent(window.from)).max(0.5) * 6.0)) {}
                }
            }
            @if self.steps.len() > ROWS || self.asked.window.is_some() {
                nav.zoom aria-label="Part of the time" {
                    @if self.asked.window.is_some() {
                        a.btn.small href=(self.href(&self.view.query.without("from").without("to").without("row"))) { "All" }
                        a.btn.small href=(zoomed(-0.5, 0.5)) { "Before" }
                        a.btn.small href=(zoomed(0.5, 1.5)) { "After" }
                        a.btn.small href=(zoomed(-0.5, 1.5)) { "Wider" }
                    }
                    a.btn.small href=(zoomed(0.0, 0.5)) { "First half" }
                    a.btn.small href=(zoomed(0.5, 1.0)) { "Second half" }
                }
            }
        }
    }
}

/// A line of the small picture: which of its points are covered.
struct Strip([bool; POINTS]);

impl Strip {
    fn new() -> Strip {
        Strip([false; POINTS])
    }

    fn mark(&mut self, whole: Stretch, from: Millis, to: Millis) {
        let point = |moment: Millis| {
            let share = (moment - whole.from).max(0) as f64 / whole.length().max(1) as f64;
            ((share * POINTS as f64) as usize).min(POINTS - 1)
        };
        self.0[point(from)..=point(to.max(from))].fill(true);
    }

    /// A stroke for each stretch of covered points.
    fn path(&self, y: u32) -> String {
        let (mut path, mut at) = (String::new(), 0);
        while at < POINTS {
            let length = self.0[at..].iter().take_while(|is_covered| **is_covered == self.0[at]).count();
            if self.0[at] {
                path.push_str(&format!("M{at} {y}h{length}"));
            }
            at += length;
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_picture_has_few_points() {
        let whole = Stretch { from: 100, to: 1_100 };
        let mut strip = Strip::new();
        strip.mark(whole, 100, 350);
        strip.mark(whole, 1_100, 1_100);
        strip.mark(whole, 2_000, 3_000);
        assert_eq!(strip.path(3), "M0 3h151M599 3h1");
        let mut dense = Strip::new();
        (0..10_000).for_each(|at| dense.mark(Stretch { from: 0, to: 10_000 }, at, at));
        assert_eq!(dense.path(1), "M0 1h600");
    }
}
