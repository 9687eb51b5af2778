//! A queue as a row: how deep, how old, what limits it, and the switch.

use baton_core::Millis;
use baton_proto::QueueView;
use baton_server::Scope;
use baton_server::service::coverage::{Coverage, Flow};
use maud::{Markup, html};

use crate::format::{self, MISSING, Precision};
use crate::parts::{self, Tone, chip, hidden_csrf, icon, queue_path};
use crate::view::View;

/// A queue and what is known of it.
pub struct Row {
    /// The queue.
    pub queue: QueueView,
    /// Who serves what.
    pub coverage: Coverage,
    /// What it does.
    pub flow: Flow,
    /// How deep it was.
    pub depth: Vec<Option<f64>>,
}

impl Row {
    /// True when somebody should look at it.
    pub fn is_trouble(&self) -> bool {
        match &self.flow {
            Flow::Unserved(_) => true,
            Flow::Paused(_) | Flow::Disabled => self.queue.ready > 0,
            Flow::Full | Flow::Rate(_) | Flow::Keys(_) | Flow::Flowing | Flow::Idle => false,
        }
    }

    /// The colour of its depth.
    pub fn tone(&self) -> Tone {
        match &self.flow {
            Flow::Unserved(_) => Tone::Bad,
            Flow::Paused(_) | Flow::Disabled => Tone::Warn,
            Flow::Full | Flow::Rate(_) | Flow::Keys(_) | Flow::Flowing | Flow::Idle => Tone::Plain,
        }
    }
}

/// The queues of a page.
pub fn table(view: &View, rows: &[Row], chosen: Option<&str>) -> Markup {
    let may = view.may(Scope::Admin);
    html! {
        div.scroll-x {
            table {
                thead {
                    tr {
                        th { "Queue" }
                        th { "Depth, " (parts::chosen_range(view).short) }
                        th.num { "Waiting" }
                        th.num { "Oldest" }
                        th.num { "Running" }
                        th.num title="Most runs that may wait" { "Most waiting" }
                        th.num title="Most runs handed out in a second" { "Most a second" }
                        th.num title="Most runs of one key that are held at once" { "Most each key" }
                        th { "Types served" }
                        th { "State" }
                        @if may { th.num { "On" } }
                    }
                }
                tbody { @for row in rows { (line(view, row, chosen == Some(row.queue.name.as_str()), may)) } }
            }
        }
    }
}

fn line(view: &View, row: &Row, is_chosen: bool, may: bool) -> Markup {
    let queue = &row.queue;
    let name = queue.name.as_str();
    html! {
        tr data-row data-key=(name) aria-selected=[is_chosen.then_some("true")] {
            td { a.b.cut.name href=(view.href(&queue_path(name))) dir="auto" { (format::visible(name)) } }
            td { @if row.depth.is_empty() { span.dim { (MISSING) } } @else { (parts::spark(&row.depth, row.tone(), 96, 20)) } }
            td.num { a.b href=(parts::runs(view, &[("state", "waiting"), ("queue", name)])) { (format::number(queue.ready)) } }
            td.num.soft.nowrap { (oldest(view, queue.oldest_ms)) }
            td.num { a href=(parts::runs(view, &[("state", "running"), ("queue", name)])) { (format::number(queue.held)) } }
            td.num { (limit(view, name, "backlog_max", "Most runs that may wait", &format::number(queue.backlog_max), may)) }
            td.num { (limit(view, name, "rate_per_second", "Most runs handed out in a second", &shown(queue.rate_per_second), may)) }
            td.num { (limit(view, name, "key_limit", "Most runs of one key that are held at once", &shown(queue.key_limit), may)) }
            td.nowrap { (served(&row.coverage)) }
            td { (flow_chip(view, &row.flow)) }
            @if may { td.num { (switch(view, queue)) } }
        }
    }
}

fn shown<T: ToString>(limit: Option<T>) -> String {
    limit.map_or_else(String::new, |limit| limit.to_string())
}

/// How long the oldest has been waiting, which is since a moment: it ticks.
pub fn oldest(view: &View, ms: Option<u64>) -> Markup {
    match ms {
        Some(ms) => parts::ago(view, since(view, ms)),
        None => html! { (MISSING) },
    }
}

/// The second in which something began that has lasted so long: it is the same each time the page is made.
pub fn since(view: &View, ms: u64) -> Millis {
    let at = view.now - Millis::try_from(ms).unwrap_or(0);
    at - at.rem_euclid(1_000)
}

/// How many of the types with work or workers somebody serves.
fn served(coverage: &Coverage) -> Markup {
    let (all, lacking) = (coverage.types.len(), coverage.unserved().count());
    html! {
        @if all == 0 { span.dim { (MISSING) } }
        @else if lacking > 0 { span.c-bad.b { (all - lacking) " of " (all) } }
        @else { (all) " of " (all) }
    }
}

/// What a queue does, in a word.
pub fn flow_chip(view: &View, flow: &Flow) -> Markup {
    match flow {
        Flow::Disabled => chip("warn", "held", "namespace disabled"),
        Flow::Paused(Millis::MAX) => chip("warn", "pause", "paused"),
        Flow::Paused(until) => {
            let until = format::clock(*until, view.now, &view.zone, Precision::Minutes);
            chip("warn", "pause", &format!("paused until {until}"))
        }
        Flow::Unserved(types) => match types.as_slice() {
            [one] => chip("bad", "bad", &format!("no worker for {}", format::visible(one))),
            several => chip("bad", "bad", &format!("no worker for {} types", several.len())),
        },
        Flow::Full => chip("", "start", "all places taken"),
        Flow::Rate(rate) => chip("", "later", &format!("{} a second", format::amount(*rate))),
        Flow::Keys(limit) => chip("", "key", &format!("{limit} each key")),
        Flow::Flowing => html! { span.st.ok { (icon("ok")) "flowing" } },
        Flow::Idle => html! { span.st.off { (icon("wait")) "empty" } },
    }
}

/// A limit that is edited where it stands. An empty field is none.
fn limit(view: &View, name: &str, what: &str, label: &str, value: &str, may: bool) -> Markup {
    html! {
        @if may {
            form.inline method="post" action={ (queue_path(name)) "/limit" } {
                (hidden_csrf())
                input type="hidden" name="ns" value=(view.namespace);
                input type="hidden" name="next" value=(view.href(&view.path));
                input type="hidden" name="what" value=(what);
                input type="hidden" name="seen" value=(value);
                input.edit name="value" value=(value) placeholder=(MISSING) inputmode="decimal" autocomplete="off" size="6"
                    title=(label) aria-label={ (label) " in " (format::visible(name)) };
            }
        } @else if value.is_empty() {
            span.dim { (MISSING) }
        } @else {
            (value)
        }
    }
}

/// Lets the queue hand out runs, or stops it.
fn switch(view: &View, queue: &QueueView) -> Markup {
    let verb = if queue.paused { "resume" } else { "pause" };
    html! {
        form.inline method="post" action={ (queue_path(&queue.name)) "/" (verb) } {
            (hidden_csrf())
            input type="hidden" name="ns" value=(view.namespace);
            input type="hidden" name="next" value=(view.href(&view.path));
            button.switch role="switch" aria-checked=(if queue.paused { "false" } else { "true" })
                aria-label={ (format::visible(&queue.name)) " hands out work" }
                title=(if queue.paused { "Resume" } else { "Pause" }) {}
        }
    }
}
