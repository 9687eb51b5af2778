//! What finished is not in the way: with a million finished runs and a hundred thousand waiting ones, a claim reads a
//! few pages, and no verb walks through a whole table.

use std::sync::Arc;
use std::time::Duration;

use baton_core::order::LEVELS;
use baton_core::{Failure, Reason, State, WorkerId};
use baton_store::postgres::{PostgresOptions, PostgresStore};
use baton_store::sqlite::SqliteStore;
use baton_store::{
    Beat, ClaimRequest, ClaimSlot, Claimed, Clock, Completion, Due, Lane, LaneId, LaneName, LeaseRef, NewRun,
    NewWorker, Page, RunFilter, Store, Submission, WorkerInfo,
};
use tokio_postgres::{Client, IsolationLevel, NoTls, SimpleQueryMessage};

const START: i64 = 1_700_000_000_000;
const FINISHED: i64 = 1_000_000;
const WAITING: i64 = 100_000;

/// Fills the tables as the store would have, one run for each millisecond before START.
const FILL: &str = "
    create temporary table made as
        select n, (lpad(to_hex(1700000000000 - n), 12, '0') || '7000' || '8000' || lpad(to_hex(n), 12, '0'))::uuid as run_id,
               case when n % 2 = 0 then LANE_A else LANE_B end as lane_id
        from generate_series(1, TOTAL) as n;
    insert into runs (run_id, lane_id, priority, submitted_at, due_at, input)
        select run_id, lane_id, 5, 1700000000000 - n, 1700000000000 - n, '{}' from made;
    insert into ended (run_id, state, epoch, failures, losses, ended_at, lease_end)
        select run_id, case when n % 100 = 0 then 5 else 4 end, 1, 0, 0, 1700000000000 - n, 0 from made where n > WAITING;
    insert into live (run_id, queue_id, lane_id, state, place, level, priority, order_at, due_at)
        select run_id, QUEUE, lane_id, 0, 0, 9, 5, 1700000000000 - n, 1700000000000 - n from made where n <= WAITING;
    analyze;
";

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn open(url: &str) -> PostgresStore {
    PostgresStore::connect(url, Clock::manual(START), PostgresOptions::default()).await.unwrap()
}

async fn lanes(store: &dyn Store) -> Vec<Lane> {
    let name = |kind: &str| LaneName { namespace: "default".into(), queue: "builds".into(), kind: kind.into() };
    store.lanes(&[name("ios"), name("android")]).await.unwrap()
}

#[tokio::test]
async fn a_million_finished_runs_are_in_nobodys_way() {
    let database = baton_testkit::database().await;
    let store = open(database.url()).await;
    let lanes = lanes(&store).await;
    let admin = connect(database.url()).await;
    let fill = FILL
        .replace("TOTAL", &(FINISHED + WAITING).to_string())
        .replace("WAITING", &WAITING.to_string())
        .replace("LANE_A", &lanes[0].lane.to_string())
        .replace("LANE_B", &lanes[1].lane.to_string())
        .replace("QUEUE", &lanes[0].queue.to_string());
    admin.batch_execute(&fill).await.unwrap();

    let pages = pages_read_by_a_claim(&admin, &lanes, 10).await;
    // Ten runs, two lanes, twenty levels each: three or four pages of index for each level looked at, and as many for
    // each run taken. Reading the lanes would take some two thousand.
    assert!(pages < 400, "a claim of ten runs read {pages} pages");

    store.close().await;
    let before = rows_scanned(&admin).await;
    let store: Arc<dyn Store> = Arc::new(open(database.url()).await);
    exercise(store.as_ref(), &lanes).await;
    store.close().await;
    drop(store);
    let scanned = rows_scanned(&admin).await - before;
    // Small tables may be scanned; of these four, one scan would count at least a hundred thousand.
    assert!(scanned < WAITING / 10, "the verbs read {scanned} rows of big tables without an index");
}

/// What a transaction elsewhere keeps from being cleaned away is in nobody's way either, whatever the planner believes of a
/// table that was empty when it last counted.
#[tokio::test]
async fn runs_that_cannot_be_cleaned_away_are_walked_over_once() {
    const DEAD: u64 = 60_000;
    const ROUNDS: i64 = 10;
    const TAKEN: u32 = 100;
    let database = baton_testkit::database().await;
    let store = open(database.url()).await;
    let lanes = lanes(&store).await;
    let (mut other, admin) = (connect(database.url()).await, connect(database.url()).await);
    let long = other.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await.unwrap();
    long.batch_execute("select pg_current_xact_id(), count(*) from live").await.unwrap();
    let fill = format!(
        "insert into live (run_id, queue_id, lane_id, state, place, level, priority, order_at, due_at)
            select gen_random_uuid(), {}, {}, 0, 0, 9, 5, n, n from generate_series(1, {DEAD}) as n;
         delete from live;",
        lanes[0].queue, lanes[0].lane
    );
    admin.batch_execute(&fill).await.unwrap();
    admin.batch_execute("vacuum analyze live").await.unwrap();
    let worker = WorkerId::from_random(7);
    store.register(new_worker(worker, TAKEN)).await.unwrap();
    let before = pages_of_live(&admin).await;

    for round in 1..=ROUNDS {
        let runs = vec![new_run(lanes[0], None); TAKEN as usize];
        let submission = Submission { runs, dice: (0..u64::from(TAKEN)).collect() };
        store.submit(vec![submission]).await.unwrap().remove(0).unwrap();
        let slots = vec![new_slot(worker, vec![lanes[0].lane], TAKEN, round)];
        let request = ClaimRequest { queue: lanes[0].queue, slots, limit: TAKEN as usize };
        let claimed = store.claim(request).await.unwrap().claimed;
        assert_eq!(claimed.len(), TAKEN as usize);
        let done = |one: &Claimed| Completion { lease: LeaseRef { run: one.run, epoch: one.epoch }, output: None };
        store.complete(claimed.iter().map(done).collect()).await.unwrap();
    }
    store.close().await;
    let pages = pages_of_live(&admin).await - before;
    long.rollback().await.unwrap();
    // The first claim walks over all of them. A second walk, by any of twenty statements, would show.
    assert!(pages < 2 * DEAD, "{pages} pages of the table of live runs were read");
}

/// Pages of the table of live runs and its indexes that were touched until now.
async fn pages_of_live(admin: &Client) -> u64 {
    let sum = "select (heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::bigint \
               from pg_statio_user_tables where relname = 'live'";
    let mut last = -1;
    loop {
        // A server process hands its counts in when it ends, and at the latest a second after it was last at work.
        admin.batch_execute("select pg_stat_clear_snapshot()").await.unwrap();
        let now: i64 = admin.query_one(sum, &[]).await.unwrap().get(0);
        if now == last {
            return now as u64;
        }
        last = now;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
    }
}

/// How many pages the statement that picks runs touches for a claim of `take` runs from either lane.
async fn pages_read_by_a_claim(admin: &Client, lanes: &[Lane], take: i64) -> u64 {
    let pick = baton_store::postgres::SQL.iter().find(|(name, _)| *name == "pick_runs.pg.sql");
    let (_, text) = pick.expect("the statement that picks runs for a claim");
    admin.batch_execute(&format!("prepare pick as {text}")).await.unwrap();
    let starts = vec!["-9223372036854775808"; lanes.len() * LEVELS as usize].join(",");
    let (queue, first, second, most) = (lanes[0].queue, lanes[0].lane, lanes[1].lane, 2 * take);
    let explain = format!(
        "explain (analyze, buffers, format json) execute pick
            ({queue}, array[{first},{second}], array[{take},{take}], array[{starts}]::bigint[], {LEVELS}, {most}, 1000000)"
    );
    let messages = admin.simple_query(&explain).await.unwrap();
    let plan = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    let plan: serde_json::Value = serde_json::from_str(&plan.expect("a plan")).unwrap();
    let top = &plan[0]["Plan"];
    assert_eq!(top["Actual Rows"].as_f64(), Some(most as f64), "{plan:#}");
    let blocks = |name: &str| top[name].as_u64().unwrap();
    blocks("Shared Hit Blocks") + blocks("Shared Read Blocks")
}

/// Rows of the big tables that were read by scanning them from end to end.
async fn rows_scanned(admin: &Client) -> i64 {
    // A server process hands its counts in when it ends.
    let others = "select count(*) from pg_stat_activity \
                  where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()";
    while admin.query_one(others, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let sum = "select coalesce(sum(seq_tup_read), 0)::bigint from pg_stat_user_tables \
               where relname in ('runs', 'ended', 'live', 'attempts')";
    admin.query_one(sum, &[]).await.unwrap().get(0)
}

fn new_worker(id: WorkerId, max_concurrent: u32) -> NewWorker {
    NewWorker {
        id,
        instance: None,
        namespace: "default".into(),
        name: "worker".into(),
        info: WorkerInfo::default(),
        max_concurrent,
        ttl_ms: 15_000,
        key_id: None,
    }
}

fn new_run(lane: Lane, key: Option<&str>) -> NewRun {
    NewRun {
        lane,
        priority: 5,
        due: Due::Now,
        key: key.map(str::to_owned),
        affinity: None,
        idempotency: None,
        options: None,
        retry_of: None,
        input: "{}".into(),
    }
}

fn new_slot(worker: WorkerId, lanes: Vec<LaneId>, room: u32, claim_no: i64) -> ClaimSlot {
    ClaimSlot { worker, name: "worker".into(), lanes, room, claim_no, start: false, lease_ms: None }
}

/// Every verb that a busy server calls often.
async fn exercise(store: &dyn Store, lanes: &[Lane]) {
    let lane_ids: Vec<_> = lanes.iter().map(|lane| lane.lane).collect();
    let worker = WorkerId::from_random(7);
    store.register(new_worker(worker, 100)).await.unwrap();
    let runs = [None, Some("key"), Some("key")].map(|key| new_run(lanes[0], key)).to_vec();
    let submission = Submission { runs, dice: vec![1, 2, 3] };
    let submitted = store.submit(vec![submission]).await.unwrap().remove(0).unwrap();
    let slot = new_slot(worker, lane_ids.clone(), 20, 1);
    let claim = |slots: Vec<ClaimSlot>| ClaimRequest { queue: lanes[0].queue, slots, limit: 20 };
    let claimed = store.claim(claim(vec![slot.clone()])).await.unwrap().claimed;
    assert_eq!(claimed.len(), 20);
    // Two who wait are served in another way than one.
    let two = vec![ClaimSlot { room: 5, claim_no: 2, ..slot.clone() }, ClaimSlot { room: 5, claim_no: 2, ..slot }];
    assert_eq!(store.claim(claim(two)).await.unwrap().claimed.len(), 10);
    let held: Vec<_> = claimed.iter().map(|one| LeaseRef { run: one.run, epoch: one.epoch }).collect();
    let failure =
        Failure { reason: Reason::Error, code: None, message: "no".into(), retryable: true, not_before: None };
    store.claimed(worker, Some(1)).await.unwrap();
    store.start(held.clone()).await.unwrap();
    store.renew(vec![Beat { worker, health: None, unfit: None, leases: held.clone() }]).await.unwrap();
    store
        .complete(vec![Completion { lease: held[0], output: None }, Completion { lease: held[0], output: None }])
        .await
        .unwrap();
    store.fail(vec![(held[1], failure)], 0.5).await.unwrap();
    store.give_back(vec![(held[2], String::new())]).await.unwrap();
    store.sleep(vec![(held[3], Due::After(1_000))]).await.unwrap();
    store.cancel(vec![held[4].run, submitted[0].run], 1_000).await.unwrap();
    store.look(&lane_ids).await.unwrap();
    store.lose_workers(0, 100).await.unwrap();
    store.expire(0.5, 100).await.unwrap();
    store.unblock(100).await.unwrap();
    store.run(held[0].run).await.unwrap();
    store.attempts(held[1].run).await.unwrap();
    store.lease_end(held[1]).await.unwrap();
    store.key_held(lanes[0].queue, "key").await.unwrap();
    let page = Page { after: Some(held[5].run), limit: 20 };
    for state in [None, Some(State::Completed), Some(State::Failed)] {
        store.runs(&RunFilter { state, ..RunFilter::default() }, page).await.unwrap();
        store.runs(&RunFilter { state, lanes: Some(lane_ids.clone()), ..RunFilter::default() }, page).await.unwrap();
    }
    store.depths(&[lanes[0].queue], 1_000).await.unwrap();
    store.retain(1 << 41, 1 << 41, 1 << 41, 100).await.unwrap();
}

#[tokio::test]
async fn a_claim_reads_the_head_of_an_index_on_sqlite() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("baton.db");
    SqliteStore::open(&path, Clock::Real).unwrap().close().await;
    let connection = rusqlite::Connection::open(&path).unwrap();
    let read = baton_store::sqlite::SQL.iter().find(|(name, _)| *name == "read_candidates.sqlite.sql");
    let (_, text) = read.expect("the statement that reads runs for a claim");
    let mut statement = connection.prepare(&format!("explain query plan {text}")).unwrap();
    let plan: Vec<String> =
        statement.query_map([1, 10], |row| row.get("detail")).unwrap().map(|line| line.unwrap()).collect();
    assert_eq!(plan, ["SEARCH live USING INDEX live_ready (lane_id=?)"], "it neither scans nor sorts");
}
