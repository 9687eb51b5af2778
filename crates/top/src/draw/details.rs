//! Everything about one run, queue, worker or pool.

use baton::State;
use baton::proto::{HistoryEvent, RunView, Time, WorkerView};
use baton::{StepKind, StepState, StepView};
use ratatui::layout::Rect;

use super::canvas::{Canvas, Span, columns_of, span};
use super::lists;
use crate::app::{App, Pane, Subject};
use crate::ask::Named;
use crate::rows;
use crate::style::Tone;
use crate::text::{MISSING, age, clock, countdown, counted, duration, number, short_id, visible, wrap};

/// Columns of the names of facts.
const NAME: u16 = 12;
/// Lines that an input or output takes at most.
const PAYLOAD_LINES_MAX: usize = 200;

/// Lines that are being gathered.
struct Page<'a, 'b> {
    canvas: &'a Canvas<'b>,
    columns: u16,
    lines: Vec<Vec<Span>>,
}

impl Page<'_, '_> {
    fn line(&mut self, spans: Vec<Span>) {
        self.lines.push(spans);
    }

    fn title(&mut self, title: &str) {
        if !self.lines.is_empty() {
            self.lines.push(Vec::new());
        }
        self.lines.push(vec![span(title, Tone::Title)]);
    }

    /// A name and what it is, in as many lines as that takes.
    fn fact(&mut self, name: &str, value: impl AsRef<str>, tone: Tone) {
        let room = usize::from(self.columns.saturating_sub(NAME + 2));
        for (at, line) in wrap(&visible(value.as_ref()), room).into_iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            self.lines.push(vec![span(padded(name), Tone::Dim), Span { text: line, tone }]);
        }
    }

    fn spans(&mut self, name: &str, spans: Vec<Span>) {
        self.lines.push([vec![span(padded(name), Tone::Dim)], spans].concat());
    }

    fn text(&mut self, text: &str, tone: Tone) {
        for line in wrap(&visible(text), usize::from(self.columns)) {
            self.lines.push(vec![Span { text: line, tone }]);
        }
    }

    fn moment(&mut self, name: &str, at: Option<Time>) {
        if let Some(at) = at {
            let now = self.canvas.now;
            let ago =
                if at.0 > now { format!("in {}", countdown(at.0 - now)) } else { format!("{} ago", age(now - at.0)) };
            self.fact(name, format!("{}  ({ago})", clock(at.0, now, self.canvas.zone)), Tone::Plain);
        }
    }

    fn clock(&self, at: Time) -> String {
        clock(at.0, self.canvas.now, self.canvas.zone)
    }
}

fn padded(name: &str) -> String {
    format!("{name:<width$}  ", width = usize::from(NAME))
}

pub fn draw(canvas: &mut Canvas<'_>, app: &mut App, area: Rect) {
    let Some(details) = app.open().cloned() else { return };
    let mut page = Page { canvas, columns: area.width, lines: Vec::new() };
    let title = match (&details.subject, details.pane) {
        (Subject::Run(id), Pane::Log) => {
            log(&mut page, app);
            format!("Log of the run {}", visible(id))
        }
        (Subject::Run(id), Pane::Facts) => {
            run(&mut page, app, id);
            format!("Run {}", visible(id))
        }
        (Subject::Worker(id), _) => {
            worker(&mut page, app, id);
            format!("Worker {}", visible(id))
        }
        (Subject::Queue(name), _) => {
            queue(&mut page, app, name);
            format!("Queue {}", visible(&name.name))
        }
        (Subject::Pool(name), _) => {
            pool(&mut page, app, name);
            format!("Pool {}", visible(&name.name))
        }
    };
    let lines = page.lines;
    let room = usize::from(area.height.saturating_sub(1)).max(1);
    app.rows_shown = room;
    app.lines = lines.len();
    let most = lines.len().saturating_sub(room);
    let follows = app.follows && details.pane == Pane::Log;
    let scroll = if follows { most } else { details.scroll.min(most) };
    if let Some(open) = app.details.last_mut() {
        open.scroll = scroll;
    }
    canvas.put(area.x, area.y, area.width, &span(title, Tone::Strong));
    if lines.len() > room {
        let at = format!("{}-{} of {}", scroll + 1, (scroll + room).min(lines.len()), number(lines.len() as u64));
        let follows = if follows { "following  " } else { "" };
        canvas.put_right(area.x, area.y, area.width, &[span(follows, Tone::Good), span(at, Tone::Dim)]);
    }
    for (y, spans) in (area.y + 1..area.bottom()).zip(&lines[scroll..]) {
        canvas.put_all(area.x, y, area.width, spans);
    }
}

fn run(page: &mut Page<'_, '_>, app: &App, id: &str) {
    let about = &app.facts.about;
    if let Some(gone) = &about.gone {
        return page.text(&format!("Not here: {gone}. It may have been removed after its retention."), Tone::Bad);
    }
    let Some(run) = app.run(id) else { return page.text("Asking the server …", Tone::Dim) };
    page.spans("state", vec![lists::run_state(run, page.canvas.now)]);
    if let Some(why) = &about.explanation {
        page.fact("why", &why.summary, Tone::Strong);
        for reason in why.reasons.iter().skip(1) {
            page.fact("", format!("also: {}", reason.message), Tone::Plain);
        }
    }
    page.fact("type", &run.kind, Tone::Plain);
    page.fact("queue", format!("{}  (namespace {}, priority {})", run.queue, run.namespace, run.priority), Tone::Plain);
    for (name, value) in
        [("key", &run.key), ("affinity", &run.affinity), ("retry of", &run.retry_of), ("trace", &run.trace_id)]
    {
        if let Some(value) = value {
            page.fact(name, value, Tone::Plain);
        }
    }
    holder(page, app, run);
    page.moment("submitted", Some(run.submitted_at));
    if run.due_at != run.submitted_at && run.state == State::Pending {
        page.moment("due", Some(run.due_at));
    }
    page.moment("claimed", run.claimed_at);
    page.moment("ended", run.ended_at);
    page.moment("cancel by", run.cancel_by);
    if run.failures > 0 || run.losses > 0 {
        let failures = counted(run.failures.into(), "failed attempt", "failed attempts");
        page.fact(
            "tries",
            format!("{failures}, {}", counted(run.losses.into(), "lost worker", "lost workers")),
            Tone::Plain,
        );
    }
    if let Some(error) = &run.error {
        let reason = run.reason.map_or(String::new(), |reason| format!("{}: ", reason.as_str()));
        page.fact("error", format!("{reason}{error}"), Tone::Bad);
    }
    steps(page, &about.steps);
    history(page, app, &about.history);
    payload(page, "Input", run.input.as_deref().map(|json| json.get()));
    payload(page, "Output", run.output.as_deref().map(|json| json.get()));
}

fn holder(page: &mut Page<'_, '_>, app: &App, run: &RunView) {
    let Some(id) = &run.worker_id else { return };
    let worker = app.facts.worker(id);
    let name = worker.map_or_else(String::new, |worker| worker.name.clone());
    let mut spans =
        vec![span(name, Tone::Strong), span(format!(" {}", short_id(id)), Tone::Dim), lists::epoch(run.epoch)];
    let is_held = matches!(run.state, State::Assigned | State::Running);
    if let Some(worker) = worker.filter(|_| is_held) {
        spans.extend(lists::lease(worker, page.canvas.now));
    }
    page.spans(if is_held { "held by" } else { "last held by" }, spans);
}

fn history(page: &mut Page<'_, '_>, app: &App, events: &[HistoryEvent]) {
    if events.is_empty() {
        return;
    }
    page.title("History");
    let mut before = 0;
    for event in events {
        let tone = match event.event.as_str() {
            "completed" => Tone::Good,
            "failed" | "write_refused" => Tone::Bad,
            "lease_ended" => Tone::Warn,
            "claimed" | "started" => Tone::Active,
            _ => Tone::Plain,
        };
        let mut spans = vec![span(format!("{}  ", page.clock(event.at)), Tone::Dim)];
        spans.push(span(format!("{:<12}", event.event.replace('_', " ")), tone));
        if let Some(number) = event.epoch {
            spans.push(lists::epoch(number));
            if event.event == "claimed" {
                if number > before && before > 0 {
                    spans.push(span(format!(" handed over e{before} → e{number}"), Tone::Warn));
                }
                // What is refused later still names the lease before.
                before = number;
            }
        }
        if let Some(id) = &event.worker_id {
            let name = app.facts.worker(id).map_or_else(|| short_id(id), |worker| worker.name.clone());
            spans.push(span(format!("  {name}"), Tone::Plain));
        }
        for text in [&event.reason, &event.message].into_iter().flatten() {
            spans.push(span(format!("  {text}"), Tone::Plain));
        }
        page.line(spans);
    }
}

fn steps(page: &mut Page<'_, '_>, steps: &[StepView]) {
    if steps.is_empty() {
        return;
    }
    page.title(&format!("Steps ({})", number(steps.len() as u64)));
    for step in steps {
        let (sign, tone) = match step.state {
            StepState::Completed => ("✓", Tone::Good),
            StepState::Failed => ("✗", Tone::Bad),
            StepState::Begun => ("▶", Tone::Active),
            _ => ("○", Tone::Dim),
        };
        let kind = match step.kind {
            StepKind::Step => "step",
            StepKind::Sleep => "sleep",
            StepKind::Signal => "signal",
            StepKind::Child => "child",
            StepKind::Fact => "fact",
            _ => "?",
        };
        let mut spans = vec![
            span(format!("{:>5}  ", step.position), Tone::Dim),
            span(format!("{sign} "), tone),
            span(format!("{kind:<7} "), Tone::Dim),
            span(&step.name, Tone::Plain),
        ];
        if let (Some(begun), Some(ended)) = (step.begun_at, step.ended_at) {
            let took = ended.duration_since(begun).unwrap_or_default();
            spans.push(span(format!("  {}", duration(took.as_millis() as i64)), Tone::Dim));
        }
        if step.attempts > 1 {
            spans.push(span(format!("  {} tries", step.attempts), Tone::Warn));
        }
        if let Some(error) = &step.error {
            spans.push(span(format!("  {error}"), Tone::Bad));
        }
        page.line(spans);
    }
}

fn payload(page: &mut Page<'_, '_>, title: &str, json: Option<&str>) {
    let Some(json) = json else { return };
    page.title(title);
    let value: Option<serde_json::Value> = serde_json::from_str(json).ok();
    let pretty = value.and_then(|value| serde_json::to_string_pretty(&value).ok()).unwrap_or_else(|| json.to_owned());
    for (at, line) in pretty.lines().enumerate() {
        if at == PAYLOAD_LINES_MAX {
            return page.text(&format!("… {} in all", counted(json.len() as u64, "byte", "bytes")), Tone::Dim);
        }
        page.text(line, Tone::Plain);
    }
}

fn log(page: &mut Page<'_, '_>, app: &App) {
    let about = &app.facts.about;
    if let Some(why) = &about.no_log {
        return page.text(why, Tone::Warn);
    }
    let digits = about.log.last().map_or(1, |(number, _)| number.to_string().len());
    let room = usize::from(page.columns).saturating_sub(digits + 1).max(1);
    for (number, text) in &about.log {
        for (at, line) in wrap(&visible(&without_colours(text)), room).into_iter().enumerate() {
            let number = if at == 0 { format!("{number:>digits$} ") } else { " ".repeat(digits + 1) };
            page.lines.push(vec![span(number, Tone::Dim), Span { text: line, tone: Tone::Plain }]);
        }
    }
    if about.log.is_empty() {
        page.text("No line yet.", Tone::Dim);
    }
}

/// A line without the sequences that colour it, which as pictures only stand in the way.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |line, part| {
        let end = part.find(|c: char| !(c.is_ascii_digit() || c == ';'));
        match end {
            Some(end) if part[end..].starts_with('m') => line + &part[end + 1..],
            _ => line + "\u{1b}[" + part,
        }
    })
}

fn worker(page: &mut Page<'_, '_>, app: &App, id: &str) {
    let about = &app.facts.about;
    let Some(worker) = about.worker.as_ref().filter(|worker| worker.id == id).or_else(|| app.facts.worker(id)) else {
        return page.text(about.gone.as_deref().unwrap_or("Asking the server …"), Tone::Dim);
    };
    let trouble = rows::trouble(worker, page.canvas.now);
    page.fact("name", &worker.name, Tone::Strong);
    page.spans("state", vec![lists::worker_state(trouble)]);
    if let Some(why) = worker.unfit.as_ref().or(worker.status_reason.as_ref()) {
        page.fact("because", why, Tone::Warn);
    }
    if trouble != rows::Trouble::Gone {
        page.spans("lease", lists::lease(worker, page.canvas.now));
    }
    page.fact("load", format!("{} of {}", worker.active, worker.max_concurrent), Tone::Plain);
    page.fact("queues", worker.queues.join(", "), Tone::Plain);
    page.fact("types", worker.types.join(", "), Tone::Plain);
    let pid = worker.pid.map_or(String::new(), |pid| format!(", process {pid}"));
    page.fact("host", format!("{}{pid}", worker.hostname), Tone::Plain);
    page.fact("version", or_missing(&worker.version), Tone::Plain);
    let labels: Vec<String> = worker.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    page.fact("labels", or_missing(&labels.join(", ")), Tone::Plain);
    page.fact(
        "ended",
        format!("{} completed, {} failed", number(worker.completed), number(worker.failed)),
        Tone::Plain,
    );
    health(page, worker);
    page.moment("registered", Some(worker.registered_at));
    page.moment("seen", Some(worker.seen_at));
    if about.held.is_empty() {
        return;
    }
    page.title(&format!("Holds {}", counted(about.held.len() as u64, "run", "runs")));
    for run in &about.held {
        let since = run.claimed_at.map_or_else(String::new, |at| format!("  {}", age(page.canvas.now - at.0)));
        page.line(vec![
            span(format!("{}  ", short_id(&run.id)), Tone::Dim),
            lists::run_state(run, page.canvas.now),
            span(format!("  {}", run.kind), Tone::Strong),
            lists::epoch(run.epoch),
            span(since, Tone::Dim),
        ]);
    }
}

fn health(page: &mut Page<'_, '_>, worker: &WorkerView) {
    let Some(health) = &worker.health else { return };
    let percent = |name: &str, share: Option<f64>| share.map(|share| format!("{name} {:.0} %", share * 100.0));
    let disk = health.disk_free_bytes.map(|bytes| format!("{:.1} GB free", bytes as f64 / 1e9));
    let parts: Vec<String> =
        [percent("cpu", health.cpu), percent("memory", health.memory), disk].into_iter().flatten().collect();
    page.fact("health", or_missing(&parts.join(", ")), Tone::Plain);
}

fn or_missing(text: &str) -> &str {
    if text.is_empty() { MISSING } else { text }
}

fn queue(page: &mut Page<'_, '_>, app: &App, name: &Named) {
    let Some(queue) = app.facts.queues.iter().flatten().find(|queue| Named::queue(queue) == *name) else {
        return page.text("There is no such queue any more.", Tone::Bad);
    };
    page.fact("namespace", &queue.namespace, Tone::Plain);
    match (queue.paused, queue.paused_until) {
        (false, _) => page.fact("state", "open", Tone::Good),
        (true, Some(until)) if until.0 < i64::MAX / 2 => page.moment("paused until", Some(until)),
        (true, _) => page.fact("state", "paused, until somebody resumes it", Tone::Warn),
    }
    page.fact("waiting", number(queue.ready), Tone::Plain);
    page.fact("oldest", queue.oldest_ms.map_or_else(|| MISSING.into(), |ms| age(ms as i64)), Tone::Plain);
    page.fact("running", number(queue.held), Tone::Plain);
    page.fact("due later", number(queue.scheduled), Tone::Plain);
    page.fact("sleeping", number(queue.sleeping), Tone::Plain);
    page.fact("limits", or_missing(&lists::limits(queue)), Tone::Plain);
    page.fact("backlog", format!("at most {}", number(queue.backlog_max)), Tone::Plain);
    let unserved = rows::unserved(app, name);
    if let Some(types) = app.facts.types.get(name).filter(|types| !types.is_empty()) {
        page.title("Types among the newest runs that wait");
        for kind in types {
            let served = if unserved.contains(&kind.as_str()) {
                ("✗ no worker serves it", Tone::Bad)
            } else {
                ("✓ served", Tone::Good)
            };
            page.line(vec![span(format!("{kind}  "), Tone::Strong), span(served.0, served.1)]);
        }
    }
    let serving = app.facts.workers.values().flatten().filter(|worker| {
        worker.status != "OFFLINE" && worker.namespace == queue.namespace && worker.queues.contains(&queue.name)
    });
    let serving: Vec<&WorkerView> = serving.collect();
    page.title(&format!("Served by {}", counted(serving.len() as u64, "worker", "workers")));
    for worker in serving {
        page.line(vec![
            lists::worker_state(rows::trouble(worker, page.canvas.now)),
            span(format!("  {}", worker.name), Tone::Strong),
            span(format!("  {}/{}", worker.active, worker.max_concurrent), Tone::Plain),
            span(format!("  {}", worker.types.join(", ")), Tone::Dim),
        ]);
    }
}

fn pool(page: &mut Page<'_, '_>, app: &App, name: &Named) {
    let about = &app.facts.about;
    let listed = || app.facts.pools.iter().flatten().find(|pool| Named::pool(pool) == *name);
    let Some(pool) = about.pool.as_ref().or_else(listed) else {
        return page.text(about.gone.as_deref().unwrap_or("Asking the server …"), Tone::Dim);
    };
    page.fact("namespace", &pool.namespace, Tone::Plain);
    page.fact("provider", format!("{}  ({} cores, {} MiB)", pool.provider, pool.cpu, pool.memory_mib), Tone::Plain);
    page.fact("size", format!("{} to be idle now, at most {}", pool.min_idle_now, pool.max_size), Tone::Plain);
    let states: Vec<String> =
        pool.runners.iter().filter(|(_, count)| **count > 0).map(|(state, count)| format!("{count} {state}")).collect();
    page.fact("machines", or_missing(&states.join(", ")), Tone::Plain);
    let why = lists::pool_why(page.canvas, pool);
    if columns_of(&why) > 0 {
        page.spans("why", why);
    }
    if let Some(numbers) = &pool.statistics {
        page.fact(
            "handed over",
            format!("{} warm, {} cold", number(numbers.warm_hits), number(numbers.cold_hits)),
            Tone::Plain,
        );
        let wait = |ms: Option<u64>| ms.map_or_else(|| MISSING.into(), |ms| duration(ms as i64));
        page.fact(
            "waits",
            format!("p50 {}, p99 {}", wait(numbers.wait_p50_ms), wait(numbers.wait_p99_ms)),
            Tone::Plain,
        );
    }
    page.title(&format!("{} waiting", counted(about.claims.len() as u64, "claim", "claims")));
    for claim in &about.claims {
        let has = claim.live.map_or(String::new(), |live| format!(" has {live} of {}", claim.count));
        let until =
            claim.deadline.map_or(String::new(), |at| format!("  gives up in {}", countdown(at.0 - page.canvas.now)));
        page.line(vec![
            span(&claim.run_id, Tone::Strong),
            span(format!("{has}  waits {}{until}", age(page.canvas.now - claim.opened_at.0)), Tone::Plain),
            span(format!("  {}", claim.detail), Tone::Warn),
        ]);
    }
    page.title(&counted(about.machines.len() as u64, "machine", "machines"));
    for machine in &about.machines {
        let until =
            machine.deadline.map_or(String::new(), |at| format!("  until in {}", countdown(at.0 - page.canvas.now)));
        let run = machine.run_id.as_deref().map_or(String::new(), |run| format!("  for {run}"));
        page.line(vec![
            span(format!("{:<12}", machine.state.as_str()), Tone::Active),
            span(format!("for {}{until}", age(page.canvas.now - machine.since.0)), Tone::Plain),
            span(format!("  {}", machine.machine_id.as_deref().unwrap_or_default()), Tone::Dim),
            span(run, Tone::Plain),
            span(format!("  {}", machine.detail), Tone::Warn),
        ]);
    }
}

/// The keys that mean something in details.
pub fn keys(app: &App) -> Vec<(&'static str, &'static str)> {
    let mut keys = vec![("Esc", "back"), ("j k", "scroll")];
    match app.open().map(|details| (&details.subject, details.pane)) {
        Some((Subject::Run(_), Pane::Facts)) => keys.extend([("l", "log"), ("c", "cancel"), ("r", "retry")]),
        Some((Subject::Run(_), Pane::Log)) => keys.extend([("G", "follow"), ("c", "cancel")]),
        Some((Subject::Queue(_), _)) => keys.extend([("Enter", "its runs"), ("p", "pause/resume")]),
        Some((Subject::Worker(_), _)) => keys.extend([("Enter", "its runs"), ("d", "drain")]),
        Some((Subject::Pool(_), _)) | None => {}
    }
    keys.extend([("?", "help"), ("q", "quit")]);
    keys
}
