//! What crosses all rows of a waterfall: its grid, its head, and hand-overs from one lease to the next.

use baton_core::{LeaseEnd, Millis};
use baton_server::service::sheet::Lease;
use maud::{Markup, html};

use super::{Drawing, LEASES_MAX, percent};
use crate::format::{self, Precision};
use crate::parts;

impl Drawing<'_> {
    pub(super) fn grid(&self) -> Markup {
        html! {
            svg.wf-grid aria-hidden="true" {
                @for (_, left, right) in self.scale.folds() {
                    rect.fold x=(percent(left)) width=(percent(right - left)) height="100%" {}
                }
                @for tick in self.scale.ticks(self.whole.from) {
                    line.tick x1=(percent(self.scale.at(tick))) x2=(percent(self.scale.at(tick))) y2="100%" {}
                }
                @for (at, ..) in self.hand_overs() {
                    line.over x1=(percent(self.scale.at(at))) x2=(percent(self.scale.at(at))) y2="100%" {}
                }
                @if !self.sheet.record.state.is_ended() && self.asked.window.is_none() {
                    line.now x1="100%" x2="100%" y2="100%" {}
                }
            }
        }
    }

    pub(super) fn head(&self) -> Markup {
        let window = self.scale.window();
        let begins = format::clock(window.from, self.view.now, &self.view.zone, Precision::Seconds);
        html! {
            div.wf-row.wf-head {
                span.lb { "Step" }
                svg.t aria-hidden="true" {
                    text x="0" y="18" dx="4" { (begins) }
                    @for tick in self.scale.ticks(self.whole.from) {
                        // Those at the right edge would stand beyond it.
                        @if self.scale.at(tick) < 93.0 && !self.is_near_hand_over(tick) {
                            text.hide-s x=(percent(self.scale.at(tick))) y="18" dx="4" {
                                "+" (format::duration(tick - self.whole.from))
                            }
                        }
                    }
                    @for (stretch, left, right) in self.scale.folds() {
                        text.hide-s x=(percent((left + right) / 2.0)) y="18" text-anchor="middle" {
                            (format::duration(stretch.length()))
                        }
                    }
                    @for (at, before, after) in self.hand_overs().into_iter().take(6) {
                        text.br.hide-s x=(percent(self.scale.at(at))) y="18" dx="4" { "e" (before) " → e" (after) }
                    }
                }
                span.du { "Took" }
            }
        }
    }

    fn is_near_hand_over(&self, tick: Millis) -> bool {
        let at = self.scale.at(tick);
        let is_near_fold = self.scale.folds().any(|(_, left, right)| at > left - 6.0 && at < right);
        is_near_fold || self.hand_overs().iter().take(6).any(|(over, ..)| (self.scale.at(*over) - at).abs() < 8.0)
    }

    /// When it went from one lease to the next although that had not ended as it should, and their epochs.
    fn hand_overs(&self) -> Vec<(Millis, u32, u32)> {
        let over = |pair: &[Lease]| {
            let (_, end) = pair[0].ended?;
            let is_over = match end {
                LeaseEnd::Lost | LeaseEnd::GivenBack | LeaseEnd::TimedOut => true,
                LeaseEnd::Completed | LeaseEnd::Failed | LeaseEnd::Slept | LeaseEnd::Cancelled => false,
            };
            let at = pair[1].claimed_at;
            (is_over && self.scale.shows(at, at)).then_some((at, pair[0].epoch, pair[1].epoch))
        };
        self.leases.windows(2).filter_map(over).take(LEASES_MAX).collect()
    }

    /// The first hand-over in words.
    pub(super) fn hand_over_words(&self) -> Option<Markup> {
        let pair = self.leases.windows(2).find(|pair| {
            pair[0]
                .ended
                .is_some_and(|(_, end)| matches!(end, LeaseEnd::Lost | LeaseEnd::GivenBack | LeaseEnd::TimedOut))
        })?;
        let (at, end) = pair[0].ended?;
        let name = |lease: &Lease| lease.worker_name.clone().unwrap_or_else(|| "a worker that is gone".into());
        let how = match end {
            LeaseEnd::Lost => "ended without a sign of life",
            LeaseEnd::TimedOut => "took too long",
            _ => "was given back",
        };
        Some(html! {
            "e" (pair[0].epoch) " → e" (pair[1].epoch) " at "
            (parts::clock(self.view, pair[1].claimed_at, Precision::Tenths)) ": the lease of "
            b.b dir="auto" { (format::visible(&name(&pair[0]))) } " " (how) ", and "
            b.b dir="auto" { (format::visible(&name(&pair[1]))) } " took over "
            (format::duration(pair[1].claimed_at - at)) " later."
        })
    }
}
