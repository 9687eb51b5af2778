//! States, leases and epochs. Each state has a shape and a word of its own besides its colour.

use baton_core::Millis;
use baton_server::service::lists::Phase;
use maud::{Markup, html};

use super::icon;
use crate::view::View;

/// The word for a phase.
fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waiting",
        Phase::Later => "due later",
        Phase::Starting => "starting",
        Phase::Running => "running",
        Phase::Cancelling => "cancelling",
        Phase::Sleeping => "sleeping",
        Phase::Completed => "completed",
        Phase::Failed => "failed",
        Phase::Cancelled => "cancelled",
    }
}

/// The class that has its colour.
fn class(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting | Phase::Later => "wait",
        Phase::Starting | Phase::Running | Phase::Cancelling => "run",
        Phase::Sleeping => "sleep",
        Phase::Completed => "ok",
        Phase::Failed => "bad",
        Phase::Cancelled => "off",
    }
}

/// The name of its icon.
pub fn state_icon(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "wait",
        Phase::Later => "later",
        Phase::Starting => "start",
        Phase::Running => "run",
        Phase::Cancelling => "stop",
        Phase::Sleeping => "sleep",
        Phase::Completed => "ok",
        Phase::Failed => "bad",
        Phase::Cancelled => "off",
    }
}

/// A state in a row.
pub fn state(phase: Phase) -> Markup {
    html! { span class={ "st " (class(phase)) } { (icon(state_icon(phase))) (word(phase)) } }
}

/// A state in a title.
pub fn state_badge(phase: Phase) -> Markup {
    html! { span class={ "st " (class(phase)) " badge" } { (icon(state_icon(phase))) (word(phase)) } }
}

/// The glyph of a plain run, a build or a workflow.
pub fn kind_icon(name: &'static str, title: &str) -> Markup {
    html! { span.kind title=(title) { (icon(name)) } }
}

/// The fence: orange from the second on, which is a hand-over.
pub fn epoch(number: u32) -> Markup {
    html! { span class=(if number > 1 { "epoch over" } else { "epoch" }) title={ "epoch " (number) } { "e" (number) } }
}

/// How long a lease lives unless it is renewed: a ring and seconds, which tick in the page.
pub fn lease(view: &View, until: Millis, ttl: Millis) -> Markup {
    let (left, ttl) = ((until - view.now).max(0), ttl.max(1));
    let ring = 31.4 * (left as f64 / ttl as f64).clamp(0.0, 1.0);
    let is_low = left * 3 < ttl;
    html! {
        span class=(if is_low { "lease low" } else { "lease" }) data-until=(until) data-ttl=(ttl)
            title="its lease ends then unless it is renewed" {
            svg viewBox="0 0 14 14" aria-hidden="true" {
                circle.bg {}
                circle.fg stroke-dasharray={ (format!("{ring:.1}")) " 32" } {}
            }
            b.b { (left.div_euclid(1_000) + i64::from(left % 1_000 > 0)) " s" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_states_share_shape_or_word() {
        for (index, one) in Phase::ALL.into_iter().enumerate() {
            for other in &Phase::ALL[index + 1..] {
                assert!(word(one) != word(*other) && state_icon(one) != state_icon(*other));
            }
        }
    }
}
