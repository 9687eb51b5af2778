//! Workflows of the past are in nobody's way: with many remembered steps and messages, no verb walks through a whole table, and no plan that
//! was made while the tables were empty does either.

use std::time::Duration;

use baton_core::{RetryPolicy, RunId, WorkerId};
use baton_store::postgres::{PostgresOptions, PostgresStore};
use baton_store::{
    ClaimRequest, ClaimSlot, Clock, Completion, Due, Lane, LaneName, LeaseRef, MessageKind, NewChild, NewMessage,
    NewRun, NewWorker, Page, StepChange, StepKind, StepWrite, Store, Submission, Suspension, WorkerInfo, Workflows,
};
use tokio_postgres::{Client, NoTls};

const START: i64 = 1_700_000_000_000;
const PAST: i64 = 100_000;

/// Fills the tables as the store would have: runs that wait, and a step, an attempt, a message, a deadline and a relative of each.
const FILL: &str = "
    create temporary table made as
        select n, (lpad(to_hex(1700000000000 - n), 12, '0') || '7000' || '8000' || lpad(to_hex(n), 12, '0'))::uuid as run_id
        from generate_series(1, PAST) as n;
    insert into runs (run_id, lane_id, priority, submitted_at, due_at, input) select run_id, LANE, 5, 1, 1, '{}' from made;
    insert into live (run_id, queue_id, lane_id, state, place, level, priority, order_at, due_at, parent)
        select run_id, QUEUE, LANE, 3, 1, 9, 5, 253402300799000, 253402300799000, gen_random_uuid() from made;
    insert into steps (run_id, position, kind, state, attempts, epoch, failures, begun_at, message, name)
        select run_id, 0, 2, 1, 1, 1, 0, 1, 1, 'signal' from made;
    insert into step_attempts (run_id, position, attempt, state, epoch, begun_at, name) select run_id, 0, 1, 2, 1, 1, 'step' from made;
    insert into inbox (run_id, number, kind, at, name, key) select run_id, 1, 0, 1, 'go', 'key' from made;
    insert into deadlines (run_id, at, cancels) select run_id, 1800000000000, false from made;
    insert into relatives (run_id, parent) select run_id, gen_random_uuid() from made;
    insert into continued (run_id, next) select gen_random_uuid(), gen_random_uuid() from made;
    insert into published (run_id, at, payload) select run_id, 1, '' from made;
";

#[tokio::test]
async fn steps_and_messages_of_others_are_in_nobodys_way() {
    let database = baton_testkit::database().await;
    let (admin, connection) = tokio_postgres::connect(database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let store = open(database.url()).await;
    let name = |kind: &str| LaneName { namespace: "default".into(), queue: "flows".into(), kind: kind.into() };
    let lanes = store.lanes(&[name("past"), name("now")]).await.unwrap();
    // The planner counted while all was empty, and is not told what has come since.
    admin.batch_execute("analyze").await.unwrap();
    let fill = FILL
        .replace("PAST", &PAST.to_string())
        .replace("LANE", &lanes[0].lane.to_string())
        .replace("QUEUE", &lanes[0].queue.to_string());
    admin.batch_execute(&fill).await.unwrap();
    store.close().await;
    let before = rows_scanned(&admin).await;
    let store = open(database.url()).await;
    exercise(&store, lanes[1]).await;
    store.close().await;
    drop(store);
    let scanned = rows_scanned(&admin).await - before;
    assert!(scanned < PAST / 10, "the verbs read {scanned} rows without an index");
}

async fn open(url: &str) -> PostgresStore {
    PostgresStore::connect(url, Clock::manual(START), PostgresOptions::default()).await.unwrap()
}

/// Rows that were read by scanning tables from end to end.
async fn rows_scanned(admin: &Client) -> i64 {
    // A server process hands its counts in when it ends.
    let others = "select count(*) from pg_stat_activity \
                  where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()";
    while admin.query_one(others, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let sum = "select coalesce(sum(seq_tup_read), 0)::bigint from pg_stat_user_tables \
               where relname in ('runs', 'ended', 'live', 'attempts', 'steps', 'step_attempts', 'inbox', 'deadlines', 'relatives', \
                                 'continued', 'published', 'outbox')";
    admin.query_one(sum, &[]).await.unwrap().get(0)
}

fn new_run(lane: Lane) -> NewRun {
    NewRun {
        lane,
        priority: 5,
        due: Due::Now,
        key: None,
        affinity: None,
        idempotency: None,
        options: None,
        retry_of: None,
        trace: None,
        input: "{}".into(),
    }
}

async fn claim(store: &PostgresStore, worker: WorkerId, lane: Lane, room: u32) -> Vec<LeaseRef> {
    let slot = ClaimSlot {
        worker,
        name: "worker".into(),
        lanes: vec![lane.lane],
        room,
        claim_no: 0,
        start: false,
        lease_ms: None,
        asked_ms_ago: None,
    };
    let request = ClaimRequest { queue: lane.queue, slots: vec![slot], limit: room as usize, die: 7 };
    let claimed = store.claim(request).await.unwrap().claimed;
    claimed.iter().map(|one| LeaseRef { run: one.run, epoch: one.epoch }).collect()
}

/// Every verb of workflows, with few runs (prepared) and with many (planned anew).
async fn exercise(store: &PostgresStore, lane: Lane) {
    let worker = WorkerId::from_random(7);
    let new_worker = NewWorker {
        id: worker,
        instance: None,
        namespace: "default".into(),
        name: "worker".into(),
        info: WorkerInfo::default(),
        max_concurrent: 1_000,
        ttl_ms: 15_000,
        key_id: None,
    };
    store.register(new_worker).await.unwrap();
    for many in [3, 300] {
        let submission = Submission { runs: vec![new_run(lane); many], dice: (0..many as u64).collect() };
        store.submit(vec![submission]).await.unwrap().remove(0).unwrap();
        let held = claim(store, worker, lane, many as u32).await;
        assert_eq!(held.len(), many);
        let runs: Vec<RunId> = held.iter().map(|lease| lease.run).collect();
        remember(store, lane, &held).await;
        let children = held.iter().map(|lease| NewChild {
            lease: *lease,
            position: 5,
            name: "child".into(),
            run: NewRun { due: Due::After(1_000_000), ..new_run(lane) },
            die: 1,
            timeout_ms: Some(1_000),
        });
        store.start_children(children.collect()).await.unwrap();
        let signal = |run: &RunId| NewMessage {
            run: *run,
            kind: MessageKind::Signal,
            name: "go".into(),
            payload: None,
            key: Some("key".into()),
        };
        store.leave_messages(runs.iter().map(signal).collect()).await.unwrap();
        store.publish(held.iter().map(|lease| (*lease, "shown".into())).collect()).await.unwrap();
        store.set_deadlines(runs.iter().map(|run| (*run, 1_000_000, false)).collect()).await.unwrap();
        let nap = |lease: &LeaseRef| Suspension {
            lease: *lease,
            sleeps: vec![(6, "nap".into(), Due::After(5))],
            wake_at: None,
            seen: 1,
        };
        store.suspend(held.iter().map(nap).collect()).await.unwrap();
        let cancel = |run: &RunId| NewMessage { kind: MessageKind::Cancel, key: None, ..signal(run) };
        store.leave_messages(runs.iter().map(cancel).collect()).await.unwrap();
        read(store, &runs).await;
        let held = claim(store, worker, lane, many as u32).await;
        assert_eq!(held.len(), many, "they are awake");
        store.continue_as_new(held[0], NewRun { due: Due::After(1_000_000), ..new_run(lane) }, 2).await.unwrap();
        store.cancelled(vec![(held[1], "stopped".into())]).await.unwrap();
        store
            .complete(held[2..].iter().map(|lease| Completion { lease: *lease, output: None }).collect())
            .await
            .unwrap();
        while store.deliver(1_000, 100).await.unwrap().more {}
        store.clock().advance(2_000);
        while store.end_overdue(100).await.unwrap().more {}
        while store.deliver(1_000, 100).await.unwrap().more {}
    }
    store.retain(0, 1 << 40, 1 << 40, 10).await.unwrap();
}

async fn remember(store: &PostgresStore, lane: Lane, held: &[LeaseRef]) {
    let write = |lease: &LeaseRef, position, what| StepWrite {
        lease: *lease,
        position,
        name: "step".into(),
        kind: StepKind::Step,
        what,
        journal_bytes_max: None,
    };
    let done = |message| StepChange::Complete { output: "out".into(), message, took_ms: 1 };
    let counted = |lease| StepWrite { journal_bytes_max: Some(100), ..write(lease, 4, done(None)) };
    let fail = StepChange::Fail {
        attempt: 1,
        error: "it broke".into(),
        code: None,
        retryable: true,
        not_before_ms: None,
        policy: RetryPolicy::default(),
        jitter: 0.5,
        took_ms: 1,
    };
    for what in [done(None), done(None)] {
        store.write_steps(held.iter().map(|lease| write(lease, 0, what.clone())).collect()).await.unwrap();
    }
    store.write_steps(held.iter().map(|lease| write(lease, 1, StepChange::Begin)).collect()).await.unwrap();
    store.write_steps(held.iter().map(|lease| write(lease, 1, fail.clone())).collect()).await.unwrap();
    store.write_steps(held.iter().map(|lease| write(lease, 2, done(Some(9)))).collect()).await.unwrap();
    store.write_steps(held.iter().map(|lease| write(lease, 3, done(Some(9)))).collect()).await.unwrap();
    store.write_steps(held.iter().map(counted).collect()).await.unwrap();
    let retry = NewRun { due: Due::After(1_000_000), ..new_run(lane) };
    store.retry_from(held[0].run, retry, 3).await.unwrap();
}

async fn read(store: &PostgresStore, runs: &[RunId]) {
    store.journals(runs, u64::MAX).await.unwrap();
    store.relations(runs).await.unwrap();
    store.messages(runs[0], 0).await.unwrap();
    store.published(runs[0]).await.unwrap();
    store.steps(runs[0], Page { after: None, limit: 10 }).await.unwrap();
    store.step_attempts(runs[0], None, Page { after: Some((0, 1)), limit: 10 }).await.unwrap();
}
