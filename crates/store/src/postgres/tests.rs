//! What is PostgreSQL's own; what every store promises is in the contract suite.

use std::time::Duration;

use baton_core::{Answered, RunId, WorkerId};
use bytes::Bytes;
use tokio_postgres::NoTls;

use super::params::params;
use super::{PostgresOptions, PostgresStore, sql};
use crate::{
    Beat, ClaimRequest, ClaimSlot, Claimed, Clock, Completion, Due, Events, Hints, Lane, LaneId, LaneName, LeaseRef,
    NewRun, NewWorker, Store, StoreError, Submission, Traces, WorkerInfo,
};

const START: i64 = 1_700_000_000_000;

async fn connect(url: &str, clock: &Clock) -> PostgresStore {
    PostgresStore::connect(url, clock.clone(), PostgresOptions::default()).await.unwrap()
}

async fn lane(store: &PostgresStore) -> Lane {
    let name = LaneName { namespace: "default".into(), queue: "builds".into(), kind: "ios".into() };
    store.lanes(&[name]).await.unwrap()[0]
}

fn work_in(lane: LaneId) -> Hints {
    Hints { lanes: vec![lane], ..Hints::default() }
}

async fn submit(store: &PostgresStore, lane: Lane, count: usize) -> Vec<RunId> {
    let run = NewRun {
        lane,
        priority: 5,
        due: Due::Now,
        key: None,
        affinity: None,
        idempotency: None,
        options: None,
        retry_of: None,
        trace: None,
        input: Bytes::from_static(b"{}"),
    };
    let dice = (0..count as u64).collect();
    let answers = store.submit(vec![Submission { runs: vec![run; count], dice }]).await.unwrap();
    answers.into_iter().flat_map(Result::unwrap).map(|submitted| submitted.run).collect()
}

async fn register(store: &PostgresStore, number: u128) -> WorkerId {
    let worker = NewWorker {
        id: WorkerId::from_random(number),
        instance: None,
        namespace: "default".into(),
        name: format!("worker-{number}"),
        info: WorkerInfo::default(),
        max_concurrent: 1_000,
        ttl_ms: 15_000,
        key_id: None,
    };
    store.register(worker).await.unwrap().id
}

async fn claim(store: &PostgresStore, lane: Lane, worker: WorkerId, room: u32) -> Vec<Claimed> {
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
    let request = ClaimRequest { queue: lane.queue, slots: vec![slot], limit: 1_000, die: 7 };
    store.claim(request).await.unwrap().claimed
}

fn lease(claimed: &Claimed) -> LeaseRef {
    LeaseRef { run: claimed.run, epoch: claimed.epoch }
}

/// A connection of somebody else.
async fn stranger(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Otherwise the locks of a server that is cut off stand in everybody's way until the database notices by itself.
#[tokio::test]
async fn the_database_gives_up_a_silent_connection_as_soon_as_we_do() {
    let database = baton_testkit::database().await;
    let store = connect(database.url(), &Clock::manual(START)).await;
    for (name, value) in [("tcp_user_timeout", "2000"), ("tcp_keepalives_idle", "1"), ("tcp_keepalives_count", "2")] {
        let shown = store.database.query(&format!("show {name}"), params![]).await.unwrap();
        assert_eq!(shown[0].get::<_, &str>(0), value, "{name}");
    }
}

#[tokio::test]
async fn several_servers_may_start_on_an_empty_database_at_once() {
    let database = baton_testkit::database().await;
    let clock = Clock::manual(START);
    let (one, two, three) =
        tokio::join!(connect(database.url(), &clock), connect(database.url(), &clock), connect(database.url(), &clock));
    let lanes = [lane(&one).await, lane(&two).await, lane(&three).await];
    assert!(lanes.iter().all(|lane| *lane == lanes[0]));
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let database = baton_testkit::database().await;
    let clock = Clock::manual(START);
    connect(database.url(), &clock).await.close().await;
    let insert = "insert into schema_migrations (version, name, applied_at) values (9999, 'future', 0)";
    stranger(database.url()).await.batch_execute(insert).await.unwrap();
    let refused = PostgresStore::connect(database.url(), clock, PostgresOptions::default()).await.unwrap_err();
    assert!(refused.to_string().contains("9999"), "{refused}");
}

#[tokio::test]
async fn a_database_that_is_not_there_is_unavailable() {
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", baton_testkit::free_port());
    let error = PostgresStore::connect(&url, Clock::Real, PostgresOptions::default()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
}

#[tokio::test]
async fn connections_that_were_cut_are_replaced() {
    let database = baton_testkit::database().await;
    let store = connect(database.url(), &Clock::manual(START)).await;
    let lane = lane(&store).await;
    let cut = "select pg_terminate_backend(pid) from pg_stat_activity
               where datname = current_database() and pid <> pg_backend_pid()";
    stranger(database.url()).await.batch_execute(cut).await.unwrap();
    // Whoever meets a cut connection first hears that the store is unavailable; nobody hears anything else.
    let mut again = 0;
    while let Err(error) = store.now().await {
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        again += 1;
        assert!(again < 20, "no new connection was made");
    }
    assert_eq!(submit(&store, lane, 1).await.len(), 1);
}

#[tokio::test]
async fn what_is_asked_for_in_a_plan_of_its_own_keeps_its_connection() {
    let database = baton_testkit::database().await;
    let store = connect(database.url(), &Clock::manual(START)).await;
    let lane = lane(&store).await;
    let runs = submit(&store, lane, 2).await;
    let open = || store.connections().map(|connections| connections.idle);
    let before = open();
    for _ in 0..3 {
        assert_eq!(store.run_facts(&runs).await.unwrap().len(), 2);
        store.trace_facts(&runs).await.unwrap();
        assert_eq!(open(), before, "the transaction was left open, and took its connection with it");
    }
}

#[tokio::test]
async fn a_run_that_somebody_has_locked_does_not_stand_in_the_way() {
    let database = baton_testkit::database().await;
    let store = connect(database.url(), &Clock::manual(START)).await;
    let (lane, worker) = (lane(&store).await, register(&store, 1).await);
    let runs = submit(&store, lane, 3).await;
    let stranger = stranger(database.url()).await;
    stranger
        .batch_execute(&format!("begin; select 1 from live where run_id = '{}' for update", runs[0]))
        .await
        .unwrap();
    assert_eq!(claim(&store, lane, worker, 1).await[0].run, runs[1]);
    stranger.batch_execute("rollback").await.unwrap();
    assert_eq!(claim(&store, lane, worker, 1).await[0].run, runs[0]);
}

#[tokio::test]
async fn the_usual_verbs_take_few_statements() {
    let database = baton_testkit::database().await;
    let store = connect(database.url(), &Clock::manual(START)).await;
    let (lane, worker) = (lane(&store).await, register(&store, 1).await);
    let mut before = store.statements();
    let mut since = || {
        let now = store.statements();
        now - std::mem::replace(&mut before, now)
    };
    submit(&store, lane, 100).await;
    assert_eq!(since(), 1, "submit");
    let claimed = claim(&store, lane, worker, 50).await;
    assert_eq!((claimed.len(), since()), (50, 3), "claim: begin, claim, commit");
    let done = claimed.iter().map(|claimed| Completion { lease: lease(claimed), output: None }).collect();
    store.complete(done).await.unwrap();
    assert_eq!(since(), 1, "complete");
    store.renew(vec![Beat { worker, health: None, unfit: None, ttl_ms: None, leases: vec![] }]).await.unwrap();
    assert_eq!(since(), 1, "renew");
    store.look(&[lane.lane]).await.unwrap();
    assert_eq!(since(), 1, "look");
}

#[tokio::test]
async fn other_servers_hear_of_work() {
    let database = baton_testkit::database().await;
    let clock = Clock::manual(START);
    let (here, there) = (connect(database.url(), &clock).await, connect(database.url(), &clock).await);
    let lane = lane(&here).await;
    let heard = tokio::time::timeout(Duration::from_secs(10), there.listen()).await.unwrap().unwrap();
    assert!(heard.is_empty(), "what came before the connection was missed");
    submit(&here, lane, 1).await;
    here.notify(&work_in(lane.lane)).await.unwrap();
    let heard = tokio::time::timeout(Duration::from_secs(10), there.listen()).await.unwrap().unwrap();
    assert_eq!(heard, work_in(lane.lane));
}

/// A run that one server makes claimable at an old place stands below the hint of another, which has taken newer runs.
#[tokio::test]
async fn a_run_below_the_hint_is_found_once_its_server_has_told() {
    let database = baton_testkit::database().await;
    let clock = Clock::manual(START);
    let (here, there) = (connect(database.url(), &clock).await, connect(database.url(), &clock).await);
    let (lane, worker) = (lane(&here).await, register(&here, 1).await);
    assert!(there.listen().await.unwrap().is_empty());
    let old = submit(&here, lane, 1).await;
    let hidden = stranger(database.url()).await;
    hidden.batch_execute("update live set place = 2").await.unwrap();
    clock.advance(60_000);
    submit(&here, lane, 1).await;
    // The first claim takes it, which is what moves the hint.
    assert_eq!(claim(&there, lane, worker, 10).await.len(), 1);
    hidden.batch_execute("update live set place = 0 where place = 2").await.unwrap();
    assert!(claim(&there, lane, worker, 10).await.is_empty(), "the hint does not keep the claim from reading");
    here.cursor.lower(lane.lane, baton_core::order::level(5, false), START);
    here.notify(&work_in(lane.lane)).await.unwrap();
    assert_eq!(there.listen().await.unwrap(), work_in(lane.lane));
    let found: Vec<RunId> = claim(&there, lane, worker, 10).await.iter().map(|claimed| claimed.run).collect();
    assert_eq!(found, old);
}

#[tokio::test]
async fn time_comes_from_the_database() {
    let database = baton_testkit::database().await;
    let store = connect(database.url(), &Clock::Real).await;
    let lane = lane(&store).await;
    let before = store.now().await.unwrap();
    let run = submit(&store, lane, 1).await[0];
    let after = store.now().await.unwrap();
    assert!((before..=after).contains(&run.submitted_at()), "{before} {} {after}", run.submitted_at());
}

/// What migration 13 and the claim write in SQL is what `baton_core::answered` says.
#[tokio::test]
async fn the_database_reckons_with_answered_claims_as_the_rules_do() {
    let database = baton_testkit::database().await;
    let store = connect(database.url(), &Clock::Real).await;
    let mut dice = 7_u64;
    let mut die = |sides: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % sides
    };
    let (mut last, mut bits, mut numbers, mut wanted_last, mut wanted_bits) = (vec![], vec![], vec![], vec![], vec![]);
    let (mut one, mut with_one, mut any, mut with_all) = (vec![], vec![], vec![], vec![]);
    for _ in 0..2_000 {
        let around = 100 + die(100) as i64;
        let near = |die: &mut dyn FnMut(u64) -> u64| around - 70 + die(140) as i64;
        let before = (0..die(40)).fold(Answered::default(), |before, _| before.with(near(&mut die)));
        let number = if die(20) == 0 { -1 } else { near(&mut die) };
        let first = near(&mut die);
        let several: Vec<i64> = (0..=die(3)).map(|_| first + die(62) as i64).collect();
        let wanted = several.iter().fold(Answered::default(), |wanted, number| wanted.with(*number));
        let after = several.iter().fold(before, |after, number| after.with(*number));
        one.push(before.has(number));
        with_one.push(before.with(number).bits);
        any.push(several.iter().any(|number| before.has(*number)));
        with_all.push(after.bits);
        last.push(before.last);
        bits.push(before.bits);
        numbers.push(number);
        wanted_last.push(wanted.last);
        wanted_bits.push(wanted.bits);
    }
    // What stands in the statement that hands out runs, for several numbers at once.
    let within = |begin: &str, end: &str| {
        let (_, rest) = sql::CLAIM_RUNS.split_once(begin).unwrap();
        format!("{}{end}", rest.split_once(end).unwrap().0)
    };
    let (is_any, with_all_bits) =
        (within("\n      and not ", "\n      end"), within("answered_bits = ", "\n        end"));
    let sql = format!(
        "select is_answered(a, b, n) as one, answered_with(a, b, n) as with_one, {is_any} as \"any\", {with_all_bits} as with_all
        from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) as given(a, b, n, l, w)
        cross join lateral (select a as answered_no, b as answered_bits) worker_live
        cross join lateral (select l as number, w as bits) share
        cross join lateral (select l as number, w as bits) fit"
    );
    let rows = store.database.query(&sql, params![last, bits, numbers, wanted_last, wanted_bits]).await.unwrap();
    for (index, row) in rows.iter().enumerate() {
        // The highest bit stands for nothing.
        let bits_of = |name: &str| row.get::<_, i64>(name) & i64::MAX;
        let found = (row.get("one"), bits_of("with_one"), row.get("any"), bits_of("with_all"));
        let with = (with_one[index] & i64::MAX, with_all[index] & i64::MAX);
        let expected: (bool, i64, bool, i64) = (one[index], with.0, any[index], with.1);
        assert_eq!(found, expected, "{} {:b} {}", last[index], bits[index], numbers[index]);
    }
    assert!(rows.len() == 2_000 && any.contains(&true) && any.contains(&false) && one.contains(&true));
}
