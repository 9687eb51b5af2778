//! The rows of the four lists.

use baton::State;
use baton::proto::{PoolView, QueueView, RunView, WorkerView};
use baton_core::Millis;
use ratatui::layout::Rect;

use super::canvas::{Canvas, Span, span};
use super::table::{Column, Row};
use crate::app::{App, Subject, View};
use crate::ask::{Lane, Named};
use crate::filter::Tab;
use crate::rows::{self, Trouble};
use crate::style::Tone;
use crate::text::{MISSING, age, amount, countdown, counted, duration, number, short_id};

/// Cells of the bar of a lease.
const LEASE_CELLS: i64 = 5;

/// Columns of the list that is shown, and those of its rows that are on the screen.
pub fn rows(canvas: &Canvas<'_>, app: &App, offset: usize, room: usize) -> (Vec<Column>, Vec<Row>) {
    match app.view {
        View::Queues => {
            let all = rows::queues(app);
            let has_namespaces = all.iter().any(|queue| queue.namespace != all[0].namespace);
            let some = all.iter().skip(offset).take(room);
            (queue_columns(has_namespaces), some.map(|queue| queue_row(app, queue, has_namespaces)).collect())
        }
        View::Runs => {
            let all = rows::runs(app);
            let some = all.iter().skip(offset).take(room);
            (run_columns(), some.map(|run| run_row(canvas, app, run)).collect())
        }
        View::Workers => {
            let all = rows::workers(app, canvas.now);
            let some = all.iter().skip(offset).take(room);
            (worker_columns(), some.map(|worker| worker_row(canvas, worker)).collect())
        }
        View::Pools => {
            let all = rows::pools(app);
            let some = all.iter().skip(offset).take(room);
            (pool_columns(), some.map(|pool| pool_row(canvas, pool)).collect())
        }
    }
}

fn queue_columns(has_namespaces: bool) -> Vec<Column> {
    let mut columns = vec![Column::text("QUEUE", 8, 60)];
    if has_namespaces {
        columns.push(Column::text("NAMESPACE", 6, 30).leaves(2));
    }
    columns.extend([
        Column::text("STATE", 8, 10),
        Column::number("WAITING", 7),
        Column::text("OLDEST", 6, 14),
        Column::number("RUNNING", 7),
        Column::number("LATER", 5).leaves(4),
        Column::number("ASLEEP", 6).leaves(5),
        Column::text("LIMITS", 6, 40).leaves(3),
        Column::text("UNSERVED TYPES", 8, 60).leaves(1),
    ]);
    columns
}

fn queue_row(app: &App, queue: &QueueView, has_namespaces: bool) -> Row {
    let unserved = rows::unserved(app, &Named::queue(queue));
    let mut row = vec![vec![span(&queue.name, Tone::Strong)]];
    if has_namespaces {
        row.push(vec![span(&queue.namespace, Tone::Dim)]);
    }
    let state = match (queue.paused, unserved.is_empty(), queue.held) {
        (true, _, _) => span("‖ paused", Tone::Warn),
        (false, false, _) => span("✗ stuck", Tone::Bad),
        (false, true, 0) if queue.ready == 0 => span("○ idle", Tone::Dim),
        (false, true, _) => span("▶ open", Tone::Good),
    };
    let count = |count: u64, tone: Tone| match count {
        0 => vec![span("0", Tone::Dim)],
        count => vec![span(number(count), tone)],
    };
    row.extend([
        vec![state],
        count(queue.ready, Tone::Plain),
        vec![queue.oldest_ms.map_or_else(|| span(MISSING, Tone::Dim), |ms| span(age(ms as Millis), Tone::Plain))],
        count(queue.held, Tone::Active),
        count(queue.scheduled, Tone::Plain),
        count(queue.sleeping, Tone::Asleep),
        vec![span(limits(queue), Tone::Dim)],
        vec![span(unserved.join(", "), Tone::Bad)],
    ]);
    row
}

/// The limits that somebody has set. The one on the backlog is always there, and of interest when it is near.
pub fn limits(queue: &QueueView) -> String {
    let rate = queue.rate_per_second.map(|rate| format!("{}/s", amount(rate)));
    let key = queue.key_limit.map(|limit| format!("{limit} a key"));
    let is_near = queue.ready + queue.scheduled >= queue.backlog_max / 10 * 9;
    let backlog = is_near.then(|| format!("room for {}", number(queue.backlog_max)));
    [rate, key, backlog].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn run_columns() -> Vec<Column> {
    vec![
        Column::text("STATE", 12, 12),
        Column::text("TYPE", 8, 40),
        Column::text("KEY", 4, 30).leaves(2),
        Column::text("QUEUE", 5, 30).leaves(1),
        Column::text("NOW", 14, 90),
        Column::text("AGE", 6, 12),
        Column::text("RUN", 7, 7),
    ]
}

fn run_row(canvas: &Canvas<'_>, app: &App, run: &RunView) -> Row {
    vec![
        vec![run_state(run, canvas.now)],
        vec![span(&run.kind, Tone::Strong)],
        vec![span(run.key.as_deref().unwrap_or_default(), Tone::Plain)],
        vec![span(&run.queue, Tone::Dim)],
        now(canvas, app, run),
        vec![span(age(canvas.now - run.submitted_at.0), Tone::Dim)],
        vec![span(short_id(&run.id), Tone::Dim)],
    ]
}

/// Sign and word of a run's state.
pub fn run_state(run: &RunView, now: Millis) -> Span {
    match run.state {
        State::Pending if run.due_at.0 > now => span("◷ due later", Tone::Dim),
        State::Pending => span("○ waiting", Tone::Plain),
        State::Assigned | State::Running if run.cancel_by.is_some() => span("◌ cancelling", Tone::Warn),
        State::Assigned => span("◐ starting", Tone::Active),
        State::Running => span("▶ running", Tone::Active),
        State::Sleeping => span("☾ sleeping", Tone::Asleep),
        State::Completed => span("✓ completed", Tone::Good),
        State::Failed => span("✗ failed", Tone::Bad),
        State::Cancelled => span("⊘ cancelled", Tone::Dim),
    }
}

/// The one thing worth knowing of a run in its state.
fn now(canvas: &Canvas<'_>, app: &App, run: &RunView) -> Vec<Span> {
    let now = canvas.now;
    match run.state {
        State::Pending if run.due_at.0 > now => {
            let mut spans = vec![span(format!("in {}", countdown(run.due_at.0 - now)), Tone::Plain)];
            if let Some(error) = &run.error {
                spans.push(span(format!(", after: {error}"), Tone::Dim));
            }
            spans
        }
        State::Pending => why_of(app, run),
        State::Assigned | State::Running => held(canvas, app, run),
        State::Sleeping if run.due_at.0 < Millis::MAX / 2 && run.due_at.0 > now => {
            vec![span(format!("until in {}", countdown(run.due_at.0 - now)), Tone::Plain)]
        }
        State::Sleeping => vec![span("until something comes", Tone::Plain)],
        State::Completed => took(run),
        State::Failed | State::Cancelled => {
            let reason = run.reason.map_or("", baton_core::Reason::as_str);
            let mut spans = vec![span(reason, if run.state == State::Failed { Tone::Bad } else { Tone::Dim })];
            if let Some(error) = run.error.as_deref().filter(|error| !error.is_empty()) {
                spans.push(span(format!(": {}", error.lines().next().unwrap_or_default()), Tone::Plain));
            }
            spans
        }
    }
}

fn took(run: &RunView) -> Vec<Span> {
    let (Some(begun), Some(ended)) = (run.claimed_at, run.ended_at) else { return vec![] };
    let mut spans = vec![span(format!("in {}", duration(ended.0 - begun.0)), Tone::Plain)];
    if run.epoch > 1 {
        spans.push(span(format!(" at e{}", run.epoch), Tone::Warn));
    }
    spans
}

fn held(canvas: &Canvas<'_>, app: &App, run: &RunView) -> Vec<Span> {
    let Some(id) = &run.worker_id else { return vec![] };
    let worker = app.facts.worker(id);
    let name = worker.map_or_else(|| short_id(id), |worker| worker.name.clone());
    let mut spans = vec![span(name, Tone::Plain), epoch(run.epoch)];
    if let Some(worker) = worker {
        spans.extend(lease(worker, canvas.now));
    }
    spans
}

/// The fence. After the first hand-over it is what one wants to see.
pub fn epoch(epoch: u32) -> Span {
    span(format!(" e{epoch}"), if epoch > 1 { Tone::Warn } else { Tone::Dim })
}

/// The bar and the countdown of a lease.
pub fn lease(worker: &WorkerView, now: Millis) -> Vec<Span> {
    let left = worker.lease_until.0 - now;
    let whole = worker.lease_until.0.saturating_sub(worker.seen_at.0).max(1);
    if left <= 0 {
        return vec![span(format!(" lease over for {}", duration(-left)), Tone::Bad)];
    }
    let full = left.saturating_mul(LEASE_CELLS).saturating_add(whole - 1) / whole;
    let full = full.clamp(0, LEASE_CELLS) as usize;
    let tone = if left.saturating_mul(3) < whole { Tone::Warn } else { Tone::Active };
    let bar: String =
        std::iter::repeat_n('▰', full).chain(std::iter::repeat_n('▱', LEASE_CELLS as usize - full)).collect();
    vec![span(format!(" {bar}"), tone), span(format!(" {}", countdown(left)), tone)]
}

fn why_of(app: &App, run: &RunView) -> Vec<Span> {
    let chosen = app.facts.chosen.as_ref().filter(|why| why.id == run.id);
    let own = chosen.and_then(|why| why.reasons.first().map(|reason| (reason.code.as_str(), why.position)));
    let of_lane = app.facts.why.get(&Lane::of(run)).and_then(|why| why.reason.as_ref());
    match own.or_else(|| of_lane.map(|reason| (reason.code.as_str(), None))) {
        Some((code, position)) => vec![reason(code, position)],
        None => vec![],
    }
}

/// A reason in a few words. Red means: without somebody it stays so.
fn reason(code: &str, position: Option<u64>) -> Span {
    match (code, position) {
        ("no_worker", _) => span("no worker serves it", Tone::Bad),
        ("queue_paused", _) => span("its queue is paused", Tone::Warn),
        ("namespace_disabled", _) => span("its namespace is disabled", Tone::Warn),
        ("all_busy", _) => span("all workers are busy", Tone::Plain),
        ("key_limit", _) => span("others of its key run", Tone::Plain),
        ("rate_limit", _) => span("the queue's rate is reached", Tone::Plain),
        ("due_later", _) => span("due later", Tone::Plain),
        ("message", _) => span("waits for a message", Tone::Asleep),
        ("position", Some(before)) => span(format!("{} before it", counted(before, "run", "runs")), Tone::Plain),
        ("position", None) => span("others come before it", Tone::Plain),
        (other, _) => span(other.replace('_', " "), Tone::Plain),
    }
}

fn worker_columns() -> Vec<Column> {
    vec![
        Column::text("WORKER", 8, 50),
        Column::text("STATE", 10, 10),
        Column::number("LOAD", 5),
        Column::text("LEASE", 12, 24),
        Column::number("DONE", 5).leaves(3),
        Column::number("FAILED", 6).leaves(4),
        Column::text("QUEUES", 6, 40).leaves(2),
        Column::text("TYPES", 5, 60).leaves(5),
        Column::text("HOST", 4, 30).leaves(6),
        Column::text("NOTE", 4, 60).leaves(1),
    ]
}

fn worker_row(canvas: &Canvas<'_>, worker: &WorkerView) -> Row {
    let trouble = rows::trouble(worker, canvas.now);
    let note = worker.unfit.as_deref().or(worker.status_reason.as_deref()).unwrap_or_default();
    let lease = match trouble {
        Trouble::Gone => vec![span(format!("seen {} ago", age(canvas.now - worker.seen_at.0)), Tone::Dim)],
        Trouble::Silent | Trouble::Unfit | Trouble::Draining | Trouble::None => trimmed(lease(worker, canvas.now)),
    };
    let load = format!("{}/{}", worker.active, worker.max_concurrent);
    let is_full = worker.active >= worker.max_concurrent;
    vec![
        vec![span(&worker.name, if trouble == Trouble::Gone { Tone::Dim } else { Tone::Strong })],
        vec![worker_state(trouble)],
        vec![span(load, if is_full && trouble != Trouble::Gone { Tone::Active } else { Tone::Plain })],
        lease,
        vec![span(number(worker.completed), Tone::Plain)],
        vec![span(number(worker.failed), if worker.failed > 0 { Tone::Bad } else { Tone::Dim })],
        vec![span(worker.queues.join(", "), Tone::Dim)],
        vec![span(worker.types.join(", "), Tone::Dim)],
        vec![span(&worker.hostname, Tone::Dim)],
        vec![span(note, Tone::Warn)],
    ]
}

/// Without the space that parts a lease from what comes before it.
fn trimmed(mut spans: Vec<Span>) -> Vec<Span> {
    if let Some(first) = spans.first_mut() {
        first.text = first.text.trim_start().to_owned();
    }
    spans
}

pub fn worker_state(trouble: Trouble) -> Span {
    match trouble {
        Trouble::Silent => span("✗ silent", Tone::Bad),
        Trouble::Unfit => span("‖ unfit", Tone::Warn),
        Trouble::Draining => span("◌ draining", Tone::Warn),
        Trouble::None => span("● online", Tone::Good),
        Trouble::Gone => span("○ offline", Tone::Dim),
    }
}

fn pool_columns() -> Vec<Column> {
    vec![
        Column::text("POOL", 8, 40),
        Column::number("IDLE", 4),
        Column::number("CREATING", 4),
        Column::number("CLAIMED", 4),
        Column::number("RUNNING", 4),
        Column::number("ENDING", 4).leaves(2),
        Column::number("WANTED", 4).leaves(1),
        Column::number("CLAIMS", 6),
        Column::text("WHY", 10, 90),
    ]
}

fn pool_row(canvas: &Canvas<'_>, pool: &PoolView) -> Row {
    let count = |states: &[&str]| states.iter().filter_map(|state| pool.runners.get(*state)).sum::<u64>();
    let cell = |count: u64, tone: Tone| vec![span(number(count), if count == 0 { Tone::Dim } else { tone })];
    vec![
        vec![span(&pool.name, Tone::Strong)],
        cell(count(&["idle"]), Tone::Good),
        cell(count(&["creating"]), Tone::Plain),
        cell(count(&["claimed"]), Tone::Active),
        cell(count(&["running"]), Tone::Active),
        cell(count(&["releasing", "terminating"]), Tone::Plain),
        vec![span(format!("{}-{}", pool.min_idle_now, pool.max_size), Tone::Dim)],
        cell(pool.waiting_claims, Tone::Warn),
        pool_why(canvas, pool),
    ]
}

/// Why claims of a pool wait, or what is wrong with it.
pub fn pool_why(canvas: &Canvas<'_>, pool: &PoolView) -> Vec<Span> {
    let machines: u64 = pool.runners.values().sum();
    let creating = pool.runners.get("creating").copied().unwrap_or(0);
    let later = pool.create_after.filter(|at| at.0 > canvas.now);
    if pool.deleting {
        return vec![span("is being deleted", Tone::Warn)];
    }
    if let Some(error) = &pool.error {
        let again = later.map_or(String::new(), |at| format!("again in {}: ", countdown(at.0 - canvas.now)));
        return vec![span("✗ ", Tone::Bad), span(again, Tone::Plain), span(error, Tone::Bad)];
    }
    match (pool.waiting_claims, later) {
        (0, _) => vec![],
        (_, Some(at)) => {
            vec![span(format!("no machine is asked for before {}", countdown(at.0 - canvas.now)), Tone::Warn)]
        }
        (_, None) if machines >= u64::from(pool.max_size) => {
            vec![span(format!("the pool has its {} machines", number(machines)), Tone::Warn)]
        }
        (_, None) if creating > 0 => {
            vec![span(format!("{} being made", counted(creating, "machine is", "machines are")), Tone::Plain)]
        }
        (_, None) => vec![span("waits for machines", Tone::Plain)],
    }
}

/// What stands where there are no rows.
pub fn draw_empty(canvas: &mut Canvas<'_>, app: &App, area: Rect) {
    let is_known = match app.view {
        View::Queues => app.facts.queues.is_some(),
        View::Runs => app.facts.runs.is_some(),
        View::Workers => app.facts.workers.contains_key("ONLINE"),
        View::Pools => app.facts.pools.is_some(),
    };
    let is_filtered = !app.filter_text().is_empty() || (app.view == View::Runs && app.tab != Tab::All);
    let url = &app.server.url;
    let lines: Vec<String> = match (is_known, is_filtered, app.view) {
        (false, _, _) => vec!["Asking the server …".into()],
        (true, true, _) => vec!["Nothing fits the filter. Esc shows everything again.".into()],
        (true, false, View::Queues | View::Runs) => vec![
            "Nothing has been submitted yet. A first run:".into(),
            String::new(),
            format!("  baton worker run --url {url} --type greet --exec cat"),
            format!("  baton run submit --url {url} greet --input '{{\"name\":\"Ada\"}}' --wait"),
        ],
        (true, false, View::Workers) => vec![
            "No worker has been here within a day. A first one:".into(),
            String::new(),
            format!("  baton worker run --url {url} --type greet --exec cat"),
        ],
        (true, false, View::Pools) => {
            vec![
                "There are no pools. A first one:".into(),
                String::new(),
                format!("  baton pool create --url {url} ci --min-idle 2"),
            ]
        }
    };
    for (at, line) in (area.y + 1..area.bottom()).zip(&lines) {
        canvas.put(area.x + 2, at, area.width.saturating_sub(2), &span(line, Tone::Plain));
    }
}

/// The sentence about the row that is chosen.
pub fn remark(canvas: &Canvas<'_>, app: &App) -> Vec<Span> {
    match app.subject() {
        Some(Subject::Run(id)) => {
            let chosen = app.facts.chosen.as_ref().filter(|why| why.id == id);
            let run = app.run(&id);
            match (chosen, run) {
                (Some(why), Some(run)) if run.state == State::Pending => vec![span(&why.summary, Tone::Plain)],
                (_, Some(run)) => run.error.as_deref().map(|error| span(error, Tone::Dim)).into_iter().collect(),
                (_, None) => vec![],
            }
        }
        Some(Subject::Queue(queue)) => {
            let unserved = rows::unserved(app, &queue);
            match unserved.as_slice() {
                [] => vec![],
                [one] => {
                    vec![span(format!("No worker that is online serves the type {one} on this queue."), Tone::Bad)]
                }
                many => {
                    vec![span(format!("No worker that is online serves {} on this queue.", many.join(", ")), Tone::Bad)]
                }
            }
        }
        Some(Subject::Worker(id)) => {
            let worker = app.facts.worker(&id);
            let silent = worker.filter(|worker| rows::trouble(worker, canvas.now) == Trouble::Silent);
            match silent {
                Some(_) => vec![span("Nothing has been heard of it: its runs go to others.", Tone::Bad)],
                None => worker
                    .and_then(|worker| worker.unfit.as_ref())
                    .map(|why| span(why, Tone::Warn))
                    .into_iter()
                    .collect(),
            }
        }
        Some(Subject::Pool(_)) | None => vec![],
    }
}

/// The keys of a list.
pub fn keys(view: View) -> Vec<(&'static str, &'static str)> {
    let mut keys = vec![("?", "help"), ("/", "filter"), ("Enter", "details")];
    match view {
        View::Queues => keys.push(("p", "pause/resume")),
        View::Runs => keys.extend([("s", "state"), ("c", "cancel"), ("r", "retry"), ("l", "log"), ("n", "next page")]),
        View::Workers => keys.push(("d", "drain")),
        View::Pools => {}
    }
    keys.push(("q", "quit"));
    keys
}
