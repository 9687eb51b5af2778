//! Data for tests: nothing, as it usually is, and as bad as it gets.

use baton::proto::{
    Explanation, History, PoolPage, QueueView, RunPage, RunView, Series, Statistics, Time, WorkerPage, WorkerView,
};
use baton_core::Millis;
use serde_json::{Value, json};

use crate::app::{App, Server, View};
use crate::ask::{Answer, Ask, Lane, Named};

/// The moment in which everything happens.
pub const NOW: Millis = 1_700_222_400_000;
/// A text that nobody is polite enough not to send.
pub const ABSURD: &str =
    "\u{1b}[2J\u{1b}]0;x\u{7}漢字\u{202e}שלום👨\u{200d}👩\u{200d}👧e\u{301}\u{301}\u{301}\u{301}\r\n<script>\u{9b}31m";

pub fn at(ms: Millis) -> Time {
    Time(NOW + ms)
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub fn app(view: View) -> App {
    let server = Server {
        url: "http://127.0.0.1:7400".into(),
        version: Some("0.1.0".into()),
        key: "admin".into(),
        scopes: vec!["admin".into()],
        namespace: None,
    };
    App::new(server, view)
}

pub fn id(number: usize) -> String {
    format!("0199a3c4-1111-7222-8333-{number:012x}")
}

pub fn run(number: usize, state: &str, more: Value) -> RunView {
    let mut run = json!({
        "id": id(number), "namespace": "default", "queue": "mail", "type": "digest", "state": state, "epoch": 1,
        "failures": 0, "losses": 0, "priority": 5, "submitted_at": at(-60_000), "due_at": at(-60_000),
    });
    run.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    read(run)
}

pub fn queue(name: &str, ready: u64, more: Value) -> QueueView {
    let mut queue = json!({
        "namespace": "default", "name": name, "ready": ready, "scheduled": 0, "held": 0, "sleeping": 0,
        "paused": false, "backlog_max": 1_000_000,
    });
    queue.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    read(queue)
}

pub fn worker(number: usize, name: &str, status: &str, more: Value) -> WorkerView {
    let mut worker = json!({
        "id": id(1_000 + number), "namespace": "default", "name": name, "status": status, "queues": ["mail"],
        "types": ["digest"], "hostname": "host-1", "version": "1.2", "labels": {}, "max_concurrent": 2, "active": 1,
        "completed": 1_284, "failed": 3, "registered_at": at(-3_600_000), "seen_at": at(-2_000), "lease_until": at(8_000),
    });
    worker.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    read(worker)
}

fn pools(name: &str, error: Option<&str>) -> PoolPage {
    read(json!({"pools": [{
        "name": name, "namespace": "default", "provider": "local", "options": {}, "cpu": 2, "memory_mib": 2048, "types": [],
        "usage": "on_demand", "spot_fallback": false, "min_idle": 2, "min_idle_rules": [], "min_idle_now": 2, "max_size": 10,
        "idle_ms": 1_000, "runtime_ms": 1_000, "revision": 1, "created_at": at(-1), "deleting": false,
        "runners": {"idle": 2, "creating": 1, "claimed": 0, "running": 4, "releasing": 0, "terminating": 1},
        "waiting_claims": 2, "error": error,
    }]}))
}

fn numbers(largest: f64) -> Statistics {
    let series = ["completed", "failed", "ready", "running"].map(|name| Series {
        name: name.into(),
        namespace: None,
        queue: None,
        pool: None,
        other: false,
        values: (0..30).map(|at| (at % 7 != 3).then_some(f64::from(at) * largest / 30.0)).collect(),
    });
    let (from, until) = (at(-300_000), at(0));
    Statistics { from, until, step_ms: 10_000, complete_until: from, times: vec![], series: series.to_vec() }
}

/// Gives the app an answer, as the server would.
pub fn answer(app: &mut App, ask: Ask, answer: Answer) {
    app.take(ask, Ok(answer), NOW);
}

pub fn give_runs(app: &mut App, runs: Vec<RunView>, next: Option<&str>) {
    let filter = app.wanted_runs().unwrap();
    let page = RunPage { runs, next_cursor: next.map(str::to_owned), total: None };
    answer(app, Ask::Runs(filter), Answer::Runs(page));
}

pub fn give_workers(app: &mut App, status: &'static str, workers: Vec<WorkerView>) {
    let page = WorkerPage { workers, next_cursor: None, total: None };
    answer(app, Ask::Workers(status), Answer::Workers(page));
}

/// Nothing has been submitted to this server.
pub fn empty(view: View) -> App {
    let mut app = app(view);
    answer(&mut app, Ask::Queues, Answer::Queues(vec![]));
    give_runs(&mut app, vec![], None);
    for status in ["ONLINE", "DRAINING", "OFFLINE"] {
        give_workers(&mut app, status, vec![]);
    }
    answer(&mut app, Ask::Pools, Answer::Pools(read(json!({"pools": []}))));
    app
}

/// A server at work.
pub fn normal(view: View) -> App {
    let mut app = app(view);
    answer(&mut app, Ask::Numbers, Answer::Numbers(numbers(124.0)));
    let queues = vec![
        queue("builds", 2, json!({"held": 3, "oldest_ms": 64_000, "key_limit": 1})),
        queue("default", 0, json!({})),
        queue("mail", 412, json!({"held": 2, "oldest_ms": 930_000, "rate_per_second": 50.0, "scheduled": 7})),
        queue("orders", 0, json!({"paused": true, "sleeping": 18})),
    ];
    answer(&mut app, Ask::Queues, Answer::Queues(queues));
    let workers = vec![
        worker(1, "finch", "ONLINE", json!({})),
        worker(2, "otter", "ONLINE", json!({"lease_until": at(-1_500), "active": 2})),
        worker(3, "heron", "ONLINE", json!({"unfit": "disk: 1 GB is free, and 5 GB are wanted"})),
    ];
    give_workers(&mut app, "ONLINE", workers);
    give_workers(
        &mut app,
        "DRAINING",
        vec![worker(4, "lynx", "DRAINING", json!({"status_reason": "drained by admin"}))],
    );
    let gone =
        json!({"seen_at": at(-600_000), "lease_until": at(-590_000), "active": 0, "status_reason": "lease ended"});
    give_workers(&mut app, "OFFLINE", vec![worker(5, "wren", "OFFLINE", gone)]);
    let held = json!({"worker_id": id(1_001), "epoch": 2, "claimed_at": at(-4_000), "key": "order-204"});
    let runs = vec![
        run(9, "pending", json!({})),
        run(8, "pending", json!({"due_at": at(42_000), "failures": 1, "error": "connection reset"})),
        run(7, "running", held),
        run(6, "assigned", json!({"worker_id": id(1_002), "claimed_at": at(-200)})),
        run(5, "running", json!({"worker_id": id(1_002), "cancel_by": at(5_000), "claimed_at": at(-9_000)})),
        run(4, "sleeping", json!({"due_at": at(90_000), "type": "process_order", "queue": "orders"})),
        run(3, "completed", json!({"claimed_at": at(-30_000), "ended_at": at(-29_560)})),
        run(2, "failed", json!({"reason": "error", "error": "no such address\nat line 3", "ended_at": at(-1_000)})),
        run(1, "cancelled", json!({"reason": "cancelled", "ended_at": at(-1_000)})),
    ];
    let lane = Lane::of(&runs[0]);
    give_runs(&mut app, runs, Some("next"));
    let why: Explanation = read(json!({
        "id": id(9), "state": "pending", "summary": "No worker that is online serves the queue mail and the type digest.",
        "reasons": [{"code": "no_worker", "message": "No worker that is online serves the queue mail and the type digest."}],
        "position": 0,
    }));
    answer(&mut app, Ask::WhyLane(lane, id(9)), Answer::Why(why.clone()));
    answer(&mut app, Ask::Why(id(9)), Answer::Why(why));
    let mail = Named { namespace: "default".into(), name: "mail".into() };
    let waiting = vec![run(9, "pending", json!({})), run(10, "pending", json!({"type": "newsletter"}))];
    answer(&mut app, Ask::Types(mail), Answer::Types(RunPage { runs: waiting, next_cursor: None, total: None }));
    answer(&mut app, Ask::Pools, Answer::Pools(pools("linux", None)));
    app
}

/// Names, keys and errors that want to break the screen, and numbers as large as they get.
pub fn absurd(view: View) -> App {
    let mut app = app(view);
    app.server.url = format!("http://{ABSURD}");
    app.server.namespace = Some(ABSURD.repeat(10));
    answer(&mut app, Ask::Numbers, Answer::Numbers(numbers(1e15)));
    let long = ABSURD.repeat(12);
    let many = u64::MAX / 2;
    let more = json!({"held": many, "oldest_ms": many, "scheduled": many, "sleeping": many, "namespace": long,
        "rate_per_second": 1e300, "key_limit": u32::MAX, "paused": true});
    answer(&mut app, Ask::Queues, Answer::Queues(vec![queue(&long, 3, more), queue("q", 1, json!({}))]));
    let holder = json!({"queues": [long, "q"], "types": vec![&long; 50], "hostname": long, "active": u32::MAX, "unfit": long,
        "completed": many, "lease_until": Time(i64::MAX), "labels": {&long: long}});
    give_workers(&mut app, "ONLINE", vec![worker(1, &long, "ONLINE", holder)]);
    let states = ["pending", "assigned", "running", "sleeping", "completed", "failed", "cancelled"];
    let runs = states.iter().enumerate().map(|(at, state)| {
        run(
            at,
            state,
            json!({"type": long, "key": long, "queue": long, "error": long, "epoch": u32::MAX,
            "worker_id": id(1_001), "submitted_at": Time(0), "due_at": Time(if at % 2 == 0 { 0 } else { i64::MAX }),
            "claimed_at": Time(0), "ended_at": Time(NOW), "reason": "error", "failures": u32::MAX}),
        )
    });
    give_runs(&mut app, runs.collect(), None);
    answer(&mut app, Ask::Pools, Answer::Pools(pools(&long, Some(&long))));
    app
}

/// The history of a run that was handed over.
pub fn history() -> History {
    let event = |ms: i64, event: &str, epoch: Option<u32>, worker: Option<usize>, reason: Option<&str>| {
        let worker_id = worker.map(|worker| id(1_000 + worker));
        baton::proto::HistoryEvent {
            at: at(ms),
            event: event.into(),
            epoch,
            worker_id,
            reason: reason.map(str::to_owned),
            message: None,
        }
    };
    History {
        events: vec![
            event(-60_000, "submitted", None, None, None),
            event(-50_000, "claimed", Some(1), Some(2), None),
            event(-42_000, "lease_ended", Some(1), Some(2), Some("worker_lost")),
            event(-41_000, "claimed", Some(2), Some(1), None),
        ],
    }
}
