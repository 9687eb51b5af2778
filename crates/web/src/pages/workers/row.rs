//! A worker as a row: state, load, heartbeats, lease.

use baton_core::Millis;
use baton_proto::{HealthReport, WorkerView};
use baton_server::service::workers as service;
use baton_server::{Heard, Scope};
use maud::{Markup, html};

use crate::format::{self, MISSING, Precision};
use crate::parts::{self, Tone, hidden_csrf, icon};
use crate::view::View;

/// How far back heartbeats are drawn.
const BEATS_SHOWN: Millis = 120_000;
/// The drawing moves in steps of this length, so that it is the same when nothing has happened.
const BEATS_STEP: Millis = 4_000;

/// How a worker stands, worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Standing {
    /// It has not been heard of for most of its lease.
    Silent,
    /// It takes nothing because of its health.
    Unfit,
    /// It finishes what it holds, and ends.
    Draining,
    /// It takes work.
    Online,
    /// It is gone.
    Offline,
}

impl Standing {
    /// All of them.
    pub const ALL: [Standing; 5] =
        [Standing::Silent, Standing::Unfit, Standing::Draining, Standing::Online, Standing::Offline];

    /// Its name in addresses.
    pub fn word(self) -> &'static str {
        match self {
            Standing::Silent => "silent",
            Standing::Unfit => "unfit",
            Standing::Draining => "draining",
            Standing::Online => "online",
            Standing::Offline => "offline",
        }
    }

    /// Its name where it is chosen.
    pub fn title(self) -> &'static str {
        match self {
            Standing::Silent => "Silent",
            Standing::Unfit => "Unfit",
            Standing::Draining => "Draining",
            Standing::Online => "Online",
            Standing::Offline => "Offline",
        }
    }
}

/// How a worker stands now.
pub fn standing(view: &View, worker: &WorkerView) -> Standing {
    standing_at(view.now, worker)
}

fn standing_at(now: Millis, worker: &WorkerView) -> Standing {
    match worker.status.as_str() {
        "OFFLINE" => Standing::Offline,
        _ if is_silent(now, worker) => Standing::Silent,
        "DRAINING" => Standing::Draining,
        _ if worker.unfit.is_some() => Standing::Unfit,
        _ => Standing::Online,
    }
}

/// True when two heartbeats in three are missing: they come three times in the life of a lease.
fn is_silent(now: Millis, worker: &WorkerView) -> bool {
    (now - worker.seen_at.0) * 3 > ttl(worker) * 2
}

/// True when it went without a word.
pub fn is_lost(worker: &WorkerView) -> bool {
    worker.status_reason.as_deref().is_none_or(|why| why == "no sign of life")
}

/// How long its leases live after each sign of life.
pub fn ttl(worker: &WorkerView) -> Millis {
    (worker.lease_until.0 - worker.seen_at.0).max(1)
}

/// The path of a worker's page.
pub fn path(worker: &WorkerView) -> String {
    format!("/workers/{}", worker.id)
}

/// A worker of the list.
pub fn line(view: &View, standing: Standing, worker: &WorkerView) -> Markup {
    let heard = service::heard(&view.app, &view.caller, worker).unwrap_or_default();
    let may = view.may(Scope::Admin);
    html! {
        tr data-row data-key=(worker.id) {
            td.nowrap {
                a.b.cut.name href=(view.href(&path(worker))) dir="auto" { (format::visible(&worker.name)) }
                " " span.id { (format::short_id(&worker.id)) }
            }
            td.nowrap { (state(view, standing, worker)) }
            td { (load(worker, standing)) }
            td { (beats(view.now, &heard)) }
            td.nowrap { (lease(view, standing, worker)) }
            td.soft { span.cut.name dir="auto" title=(serves_all(worker)) { (serves(worker)) } }
            td.nowrap { (health(worker)) }
            td.num.soft.nowrap {
                @if standing == Standing::Offline { (parts::ago(view, worker.seen_at.0)) } @else { (parts::ago(view, worker.registered_at.0)) }
            }
            td.num {
                @if may && matches!(standing, Standing::Silent | Standing::Unfit | Standing::Online) { (drain(view, worker)) }
            }
        }
    }
}

/// A worker where there is little room.
pub fn short_line(view: &View, standing: Standing, worker: &WorkerView) -> Markup {
    html! {
        tr data-row data-key=(worker.id) {
            td.nowrap { a.b.cut.name href=(view.href(&path(worker))) dir="auto" { (format::visible(&worker.name)) } }
            td.nowrap { (state(view, standing, worker)) }
            td { (load(worker, standing)) }
            td.nowrap { (lease(view, standing, worker)) }
            td.soft { span.cut.name dir="auto" title=(serves_all(worker)) { (serves(worker)) } }
        }
    }
}

/// Asks first: the server answers with a dialog that has the number of runs.
pub fn drain(view: &View, worker: &WorkerView) -> Markup {
    html! {
        form.inline method="post" action={ (path(worker)) "/drain" } {
            (hidden_csrf())
            input type="hidden" name="next" value=(view.href(&view.path));
            button.btn.small { "Drain…" }
        }
    }
}

/// Its state, in a word.
pub fn state(view: &View, standing: Standing, worker: &WorkerView) -> Markup {
    match standing {
        Standing::Silent => {
            html! { span.st.held { (icon("later")) "silent " (parts::span(view, worker.seen_at.0, None)) } }
        }
        Standing::Unfit => html! { span.st.held { (icon("held")) "unfit" } },
        Standing::Draining => html! { span.st.run { (icon("stop")) "draining" } },
        Standing::Online => html! { span.st.ok { (icon("ok")) "online" } },
        Standing::Offline if is_lost(worker) => html! { span.st.bad { (icon("bad")) "lost" } },
        Standing::Offline => html! { span.st.off { (icon("off")) "offline" } },
    }
}

fn load(worker: &WorkerView, standing: Standing) -> Markup {
    let tone = match standing {
        Standing::Silent => Tone::Warn,
        Standing::Unfit | Standing::Offline => Tone::Plain,
        Standing::Draining | Standing::Online => Tone::Run,
    };
    html! {
        span.row.sm {
            (parts::bar(f64::from(worker.active) / f64::from(worker.max_concurrent.max(1)), tone))
            span.nowrap { (worker.active) " of " (worker.max_concurrent) }
        }
    }
}

/// Until when its leases live.
pub fn lease(view: &View, standing: Standing, worker: &WorkerView) -> Markup {
    match standing {
        Standing::Offline => html! {
            span.dim { "ended " (parts::clock(view, worker.lease_until.0.min(view.now), Precision::Seconds)) }
        },
        _ => parts::lease(view, worker.lease_until.0, ttl(worker)),
    }
}

fn serves(worker: &WorkerView) -> String {
    let queues = match worker.queues.as_slice() {
        [] => return MISSING.into(),
        [one] => format::visible(one).into_owned(),
        several => format!("{} queues", several.len()),
    };
    match worker.types.as_slice() {
        [one] => format!("{queues}: {}", format::visible(one)),
        several => format!("{queues}: {} types", several.len()),
    }
}

fn serves_all(worker: &WorkerView) -> String {
    let list =
        |names: &[String]| names.iter().take(20).map(|name| format::visible(name).into_owned()).collect::<Vec<_>>();
    format!("{}: {}", list(&worker.queues).join(", "), list(&worker.types).join(", "))
}

/// What it measured last, or why it takes nothing.
pub fn health(worker: &WorkerView) -> Markup {
    html! {
        @if let Some(unfit) = &worker.unfit {
            span.c-warn.b.cut.name dir="auto" title=(format::visible(unfit)) { (format::first_line(unfit, 80)) }
        } @else if let (Some(reason), "OFFLINE" | "DRAINING") = (&worker.status_reason, worker.status.as_str()) {
            span.soft.cut.name dir="auto" title=(format::visible(reason)) { (format::first_line(reason, 80)) }
        } @else if let Some(text) = worker.health.as_ref().map(measured).filter(|text| !text.is_empty()) {
            span.soft { (text) }
        } @else { span.dim { (MISSING) } }
    }
}

fn measured(health: &HealthReport) -> String {
    let share = |name: &str, value: Option<f64>| {
        value.map(|value| format!("{name} {:.0} %", (value * 100.0).clamp(0.0, 999.0)))
    };
    let disk = health.disk_free_bytes.map(|free| format!("{} free", format::bytes(free)));
    [share("CPU", health.cpu), share("memory", health.memory), disk]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}

/// The heartbeats of two minutes: low for those on time, tall for those that came late, dashes where there were none.
pub fn beats(now: Millis, heard: &Heard) -> Markup {
    let (on_time, late, none) = drawn(now, &heard.signs.iter().copied().collect::<Vec<_>>());
    let words = match (heard.signs.is_empty(), late.is_empty() && none.is_empty()) {
        (true, _) => "this server has not heard of it",
        (false, true) => "heartbeats of the last two minutes, all on time",
        (false, false) => "heartbeats of the last two minutes, some late or missing",
    };
    html! {
        @if heard.signs.is_empty() { span.dim title=(words) { (MISSING) } } @else {
            svg.beats viewBox="0 0 150 18" role="img" aria-label=(words) {
                @if !on_time.is_empty() { path.y d=(on_time) {} }
                @if !late.is_empty() { path.m d=(late) {} }
                @if !none.is_empty() { path.z d=(none) {} }
            }
        }
    }
}

/// Paths of the stretches in which it was heard in time, of signs that came late, and of silence.
fn drawn(now: Millis, signs: &[Millis]) -> (String, String, String) {
    let now = now - now.rem_euclid(BEATS_STEP) + BEATS_STEP;
    let from = now - BEATS_SHOWN;
    let mut gaps: Vec<Millis> = signs.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    // Most come at the usual pace.
    let usual = gaps.get(gaps.len() / 2).copied().unwrap_or(5_000).max(BEATS_STEP);
    let x = |at: Millis| (at - from).clamp(0, BEATS_SHOWN) as f64 * 150.0 / BEATS_SHOWN as f64;
    let stretch = |from: Millis, to: Millis| format!("M{:.0} 9H{:.0}", x(from), x(to));
    let (mut on_time, mut late, mut none) = (String::new(), String::new(), String::new());
    let seen = signs.iter().copied().filter(|at| *at >= from - usual);
    let mut last = None;
    for at in seen {
        match last {
            Some(before) if at - before > usual * 2 => {
                none.push_str(&stretch(before + usual, at));
                late.push_str(&format!("M{:.0} 9h3", x(at)));
            }
            Some(before) => on_time.push_str(&stretch(before, at)),
            None => on_time.push_str(&format!("M{:.0} 9h3", x(at))),
        }
        last = Some(at);
    }
    match last {
        Some(at) if now - at > usual * 2 + BEATS_STEP => none.push_str(&stretch(at + usual, now)),
        Some(_) => {}
        None => none.push_str("M0 9H150"),
    }
    (on_time, late, none)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use baton_proto::Time;
    use proptest::prelude::*;

    use super::*;

    fn worker(status: &str, seen_at: Millis, unfit: Option<&str>) -> WorkerView {
        WorkerView {
            id: "w".into(),
            namespace: "default".into(),
            name: "w".into(),
            status: status.into(),
            status_reason: None,
            queues: vec!["mail".into()],
            types: vec!["a".into(), "b".into()],
            hostname: String::new(),
            pid: None,
            version: String::new(),
            labels: BTreeMap::new(),
            max_concurrent: 4,
            active: 1,
            completed: 0,
            failed: 0,
            registered_at: Time(0),
            seen_at: Time(seen_at),
            lease_until: Time(seen_at + 15_000),
            health: None,
            unfit: unfit.map(str::to_owned),
        }
    }

    #[test]
    fn a_worker_is_silent_before_its_lease_ends() {
        let table = [
            (worker("ONLINE", 0, None), 5_000, Standing::Online),
            (worker("ONLINE", 0, None), 10_001, Standing::Silent),
            (worker("DRAINING", 0, None), 10_001, Standing::Silent),
            (worker("DRAINING", 0, Some("disk full")), 5_000, Standing::Draining),
            (worker("ONLINE", 0, Some("disk full")), 5_000, Standing::Unfit),
            (worker("OFFLINE", 0, Some("disk full")), 99_000, Standing::Offline),
        ];
        for (worker, now, expected) in table {
            assert_eq!(standing_at(now, &worker), expected, "{worker:?} at {now}");
        }
        assert_eq!(serves(&worker("ONLINE", 0, None)), "mail: 2 types");
    }

    #[test]
    fn late_heartbeats_and_silence_are_drawn() {
        let steady: Vec<Millis> = (0..24).map(|step| step * 5_000).collect();
        let (on_time, late, none) = drawn(116_000, &steady);
        assert!(!on_time.is_empty() && late.is_empty() && none.is_empty(), "{late} {none}");
        let gap: Vec<Millis> = steady.iter().copied().filter(|at| !(40_000..60_000).contains(at)).collect();
        let (_, late, none) = drawn(116_000, &gap);
        assert_eq!((late.matches('M').count(), none.matches('M').count()), (1, 1));
        assert_eq!(drawn(150_000, &steady).2.matches('M').count(), 1, "silent at the end");
        assert_eq!(drawn(900_000, &steady).2, "M0 9H150");
    }

    proptest! {
        #[test]
        fn beats_stay_within_their_box(now in 0i64..1 << 45, mut ago in prop::collection::vec(0i64..500_000, 0..48)) {
            ago.sort_unstable();
            let signs: Vec<Millis> = ago.into_iter().rev().map(|ago| now - ago).collect();
            let (on_time, late, none) = drawn(now, &signs);
            for number in format!("{on_time}{late}{none}").split(|c: char| !c.is_ascii_digit()).filter(|text| !text.is_empty()) {
                prop_assert!(number.parse::<u32>().unwrap() <= 150);
            }
        }
    }
}
