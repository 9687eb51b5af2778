//! Moments and ages. They tick in the page, and `t` turns ages into clock times.

use baton_core::Millis;
use maud::{Markup, html};

use crate::format::{self, Precision};
use crate::view::View;

/// How a moment is shown first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Times {
    /// How long ago.
    Age,
    /// The time of day.
    Clock,
}

/// How long ago something was, or how long it is until then.
pub fn ago(view: &View, at: Millis) -> Markup {
    moment(view, at, Times::Age, Precision::Seconds)
}

/// When something was.
pub fn clock(view: &View, at: Millis, precision: Precision) -> Markup {
    moment(view, at, Times::Clock, precision)
}

fn moment(view: &View, at: Millis, shown: Times, precision: Precision) -> Markup {
    let clock = format::clock(at, view.now, &view.zone, precision);
    let age = match at > view.now {
        true => format!("in {}", format::age(at - view.now)),
        false => format::age(view.now - at),
    };
    let (text, as_) = match shown {
        Times::Age => (&age, "age"),
        Times::Clock => (&clock, "clock"),
    };
    let full = format!("{}, {age}", format::full_time(at, &view.zone));
    html! {
        time datetime=(format::iso(at)) data-at=(at) data-as=(as_) data-clock=(clock) title=(full) { (text) }
    }
}

/// A length of time; one that still grows ticks in the page.
pub fn span(view: &View, from: Millis, to: Option<Millis>) -> Markup {
    let text = format::duration(to.unwrap_or(view.now) - from);
    match to {
        Some(_) => html! { (text) },
        None => html! { span data-from=(from) { (text) } },
    }
}
