//! States, leases and epochs. Each state has a shape and a word of its own besides its colour.

use baton_core::{Millis, State};
use maud::{Markup, html};

use super::icon;
use crate::view::View;

/// The states that are shown, which are more than the kernel has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Shown {
    /// Pending, and due.
    Waiting,
    /// Pending, and due in the future.
    DueLater,
    /// A worker has it and has not begun.
    Starting,
    /// A worker works on it.
    Running,
    /// Its worker was asked to stop.
    Cancelling,
    /// It waits without a worker.
    Sleeping,
    /// Done.
    Completed,
    /// Given up.
    Failed,
    /// Somebody did not want it any more.
    Cancelled,
}

impl Shown {
    /// What a run in this state of the kernel is shown as.
    pub fn of(state: State, due_at: Millis, cancel_by: Option<Millis>, now: Millis) -> Shown {
        match state {
            State::Pending if due_at > now => Shown::DueLater,
            State::Pending => Shown::Waiting,
            State::Assigned | State::Running if cancel_by.is_some() => Shown::Cancelling,
            State::Assigned => Shown::Starting,
            State::Running => Shown::Running,
            State::Sleeping => Shown::Sleeping,
            State::Completed => Shown::Completed,
            State::Failed => Shown::Failed,
            State::Cancelled => Shown::Cancelled,
        }
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Shown::Waiting => "waiting",
            Shown::DueLater => "due later",
            Shown::Starting => "starting",
            Shown::Running => "running",
            Shown::Cancelling => "cancelling",
            Shown::Sleeping => "sleeping",
            Shown::Completed => "completed",
            Shown::Failed => "failed",
            Shown::Cancelled => "cancelled",
        }
    }

    /// The class that has its colour.
    pub fn class(self) -> &'static str {
        match self {
            Shown::Waiting | Shown::DueLater => "wait",
            Shown::Starting | Shown::Running | Shown::Cancelling => "run",
            Shown::Sleeping => "sleep",
            Shown::Completed => "ok",
            Shown::Failed => "bad",
            Shown::Cancelled => "off",
        }
    }

    /// The name of its icon.
    pub fn icon(self) -> &'static str {
        match self {
            Shown::Waiting => "wait",
            Shown::DueLater => "later",
            Shown::Starting => "start",
            Shown::Running => "run",
            Shown::Cancelling => "stop",
            Shown::Sleeping => "sleep",
            Shown::Completed => "ok",
            Shown::Failed => "bad",
            Shown::Cancelled => "off",
        }
    }
}

/// A state in a row.
pub fn state(shown: Shown) -> Markup {
    html! { span class={ "st " (shown.class()) } { (icon(shown.icon())) (shown.word()) } }
}

/// A state in a title.
pub fn state_badge(shown: Shown) -> Markup {
    html! { span class={ "st " (shown.class()) " badge" } { (icon(shown.icon())) (shown.word()) } }
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

    const ALL: [Shown; 9] = [
        Shown::Waiting,
        Shown::DueLater,
        Shown::Starting,
        Shown::Running,
        Shown::Cancelling,
        Shown::Sleeping,
        Shown::Failed,
        Shown::Completed,
        Shown::Cancelled,
    ];

    #[test]
    fn states_are_shown_by_what_they_mean_to_people() {
        let table = [
            (State::Pending, 100, None, Shown::Waiting),
            (State::Pending, 101, None, Shown::DueLater),
            (State::Assigned, 0, None, Shown::Starting),
            (State::Running, 0, None, Shown::Running),
            (State::Running, 0, Some(200), Shown::Cancelling),
            (State::Sleeping, 500, None, Shown::Sleeping),
            (State::Failed, 0, None, Shown::Failed),
        ];
        for (state, due_at, cancel_by, shown) in table {
            assert_eq!(Shown::of(state, due_at, cancel_by, 100), shown);
        }
    }

    #[test]
    fn no_two_states_share_shape_or_word() {
        for (index, one) in ALL.iter().enumerate() {
            for other in &ALL[index + 1..] {
                assert!(one.word() != other.word() && one.icon() != other.icon());
            }
        }
    }
}
