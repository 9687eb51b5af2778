//! What finished is not in the way: with a million finished runs and a hundred thousand waiting ones, a claim reads a
//! few pages, and no verb walks through a whole table.

use std::sync::Arc;
use std::time::Duration;

use baton_core::order::LEVELS;
use baton_core::{Failure, Reason, State, WorkerId};
use baton_store::postgres::{PostgresOptions, PostgresStore};
use baton_store::sqlite::SqliteStore;
use baton_store::{
    ArtifactOwner, Beat, BuildSource, ClaimRequest, ClaimSlot, Claimed, Clock, Completion, Due, Lane, LaneId, LaneName,
    LeaseRef, LogLine, NewArtifact, NewBuild, NewRun, NewWorker, Page, RunFilter, Store, Submission, WorkerInfo,
};
use tokio_postgres::{Client, IsolationLevel, NoTls, SimpleQueryMessage};
use uuid::Uuid;

const START: i64 = 1_700_000_000_000;
const FINISHED: i64 = 1_000_000;
const WAITING: i64 = 100_000;
/// The oldest of the finished ones are builds.
const BUILDS: i64 = 200_000;

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
    create temporary table built as select n, run_id from made where n > TOTAL - BUILDS;
    insert into builds (run_id, namespace, platform, slug, version, url, reference, image, outcome)
        select run_id, 'default', 'ios', 's', 'v', 'u', 'r', 'i', 4 from built;
    insert into build_progress (run_id, log_lines, measured) select run_id, 1, 1 from built;
    insert into log_chunks (run_id, last, lines, bytes_before, at, body)
        select run_id, 1, 1, 0, 0, '[[\"info\",\"line\",null]]' from built;
    insert into measurements (run_id, number, at, cpu) select run_id, 1, 0, 0.5 from built;
    insert into machines (run_id, epoch, seen_at) select run_id, 1, 0 from built;
    insert into artifacts (artifact_id, namespace, run_id, kind, epoch, uses, created_at, size, sha256, name, path)
        select run_id, 'default', run_id, 2, 1, 1, 1700000000000 - n, 1, decode(repeat('07', 32), 'hex'), 'n', 'p' from built;
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
        .replace("BUILDS", &BUILDS.to_string())
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
    exercise_builds(store.as_ref(), lanes[0]).await;
    store.close().await;
    drop(store);
    let scanned = rows_scanned(&admin).await - before;
    // Small tables may be scanned; of these, one scan would count at least a hundred thousand.
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
        let request = ClaimRequest { queue: lanes[0].queue, slots, limit: TAKEN as usize, die: 7 };
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
               where relname in ('runs', 'ended', 'live', 'attempts', 'builds', 'build_progress', 'log_chunks', \
                                 'measurements', 'machines', 'artifacts')";
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
        trace: None,
        input: "{}".into(),
    }
}

fn new_slot(worker: WorkerId, lanes: Vec<LaneId>, room: u32, claim_no: i64) -> ClaimSlot {
    ClaimSlot { worker, name: "worker".into(), lanes, room, claim_no, start: false, lease_ms: None, asked_ms_ago: None }
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
    let claim = |slots: Vec<ClaimSlot>| ClaimRequest { queue: lanes[0].queue, slots, limit: 20, die: 7 };
    let claimed = store.claim(claim(vec![slot.clone()])).await.unwrap().claimed;
    assert_eq!(claimed.len(), 20);
    // Two who wait are served in another way than one.
    let two = vec![ClaimSlot { room: 5, claim_no: 0, ..slot.clone() }, ClaimSlot { room: 5, claim_no: 0, ..slot }];
    assert_eq!(store.claim(claim(two)).await.unwrap().claimed.len(), 10);
    let held: Vec<_> = claimed.iter().map(|one| LeaseRef { run: one.run, epoch: one.epoch }).collect();
    let failure =
        Failure { reason: Reason::Error, code: None, message: "no".into(), retryable: true, not_before: None };
    store.claimed(worker, Some(1)).await.unwrap();
    store.start(held.clone()).await.unwrap();
    store.renew(vec![Beat { worker, health: None, unfit: None, ttl_ms: None, leases: held.clone() }]).await.unwrap();
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
        let filter = RunFilter { states: state.into_iter().collect(), ..RunFilter::default() };
        store.runs(&filter, page).await.unwrap();
        store.runs(&RunFilter { lanes: Some(lane_ids.clone()), ..filter }, page).await.unwrap();
    }
    store.depths(&[lanes[0].queue], 1_000).await.unwrap();
    store.lane_depths(&lane_ids, 1_000).await.unwrap();
    store.retain(1 << 41, 1 << 41, 1 << 41, 100).await.unwrap();
}

/// Every verb of builds.
async fn exercise_builds(store: &dyn Store, lane: Lane) {
    let file = |owner| NewArtifact {
        id: Uuid::from_u128(START as u128),
        namespace: "default".into(),
        owner,
        name: "app.zip".into(),
        path: "path".into(),
    };
    let source = file(ArtifactOwner::Source);
    assert!(store.add_artifact(source.clone()).await.unwrap());
    assert!(store.artifact_stored(source.id, 1, [1; 32]).await.unwrap());
    let build = NewBuild {
        namespace: "default".into(),
        platform: "ios".into(),
        project: None,
        key_id: None,
        source: BuildSource::Files { source: source.id, certs: None },
        base_image: None,
    };
    // First in its lane, so that it is the one that is claimed.
    let run = NewRun { priority: 9, ..new_run(lane, None) };
    let submitted = store.submit_build(run, 7, build, None).await.unwrap().unwrap();
    let worker = WorkerId::from_random(8);
    store.register(new_worker(worker, 100)).await.unwrap();
    let slots = vec![new_slot(worker, vec![lane.lane], 1, 1)];
    let claimed = store.claim(ClaimRequest { queue: lane.queue, slots, limit: 1, die: 7 }).await.unwrap().claimed;
    assert_eq!(claimed[0].run, submitted.run);
    let lease = LeaseRef { run: submitted.run, epoch: claimed[0].epoch };
    let result = NewArtifact { id: Uuid::from_u128(1), ..file(ArtifactOwner::Result(lease)) };
    assert!(store.add_artifact(result.clone()).await.unwrap());
    assert!(store.artifact_stored(result.id, 1, [1; 32]).await.unwrap());
    let line = |size| LogLine { level: "info".into(), message: "x".repeat(size), at: None };
    for size in [1, 2 << 20] {
        store.add_logs(lease.run, Some(lease), None, vec![line(size)], 1 << 30).await.unwrap();
    }
    assert_eq!(store.logs(lease.run, 0, 100).await.unwrap().len(), 2);
    let set = store.set_builder("default", "mac", worker, None, 1_000).await.unwrap().unwrap();
    store.token_shown(worker, set.token, Some(1_000)).await.unwrap();
    store.token_shown(WorkerId::from_random(9), 1, None).await.unwrap();
    store.builder("default", "mac").await.unwrap();
    store.count_for_builder(worker, true).await.unwrap();
    store.use_otp(lease, 1_000).await.unwrap();
    assert!(store.machine_seen(lease, true, None).await.unwrap());
    store.machine(lease).await.unwrap();
    assert!(
        store
            .add_measured(
                lease,
                baton_store::NewMeasurement { cpu: Some(0.5), ..baton_store::NewMeasurement::default() },
                10
            )
            .await
            .unwrap()
    );
    store.measured(lease.run, 10).await.unwrap();
    store.builds(&[lease.run]).await.unwrap();
    store.stuck_builds(0, 100).await.unwrap();
    store.complete(vec![Completion { lease, output: None }]).await.unwrap();
    for namespace in [None, Some("default")] {
        assert_eq!(store.count_builds(namespace, START).await.unwrap().completed, 1);
        store.artifact_bytes(namespace).await.unwrap();
    }
    assert_eq!(store.artifacts(lease.run).await.unwrap().len(), 2);
    assert_eq!(store.orphans(1_000, 100).await.unwrap().len(), 0);
    let kept_ms = FINISHED;
    assert_eq!(store.retain(kept_ms, 1 << 41, 1 << 41, 100).await.unwrap().runs, 100);
    let orphans: Vec<Uuid> = store.orphans(1_000, 100).await.unwrap().iter().map(|orphan| orphan.id).collect();
    assert_eq!(orphans.len(), 100, "the results of the deleted ones");
    store.forget_artifacts(&orphans).await.unwrap();
}

#[tokio::test]
async fn no_verb_of_builds_scans_a_table_on_sqlite() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("baton.db");
    SqliteStore::open(&path, Clock::Real).unwrap().close().await;
    let connection = rusqlite::Connection::open(&path).unwrap();
    let big = ["builds", "build_progress", "log_chunks", "measurements", "machines", "artifacts"];
    // Indexes of what is open, which is never much.
    let small = ["builds_open", "artifacts_unused"];
    for (name, text) in baton_store::sqlite::SQL {
        let mut statement = connection.prepare(&format!("explain query plan {text}")).unwrap();
        let parameters = vec![rusqlite::types::Null; statement.parameter_count()];
        let lines = statement.query_map(rusqlite::params_from_iter(parameters), |row| row.get("detail")).unwrap();
        let lines: Vec<String> = lines.map(Result::unwrap).collect();
        let scans = |line: &&String| {
            let scanned = line.strip_prefix("SCAN ").and_then(|rest| rest.split(' ').next());
            scanned.is_some_and(|table| big.contains(&table)) && !small.iter().any(|index| line.contains(index))
        };
        assert_eq!(lines.iter().find(scans), None, "{name}\n{lines:#?}");
    }
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
