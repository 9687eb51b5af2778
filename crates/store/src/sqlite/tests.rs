//! What is SQLite's own. What all stores have in common is in the contract suite.

use std::path::Path;

use baton_core::{LeaseEnd, WorkerId};
use bytes::Bytes;
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::connection::Sql;
use super::*;
use crate::{ClaimSlot, NewRun, StoreError, WorkerInfo};

const NOW: Millis = 1_700_000_000_000;

fn open(path: &Path) -> StoreResult<SqliteStore> {
    SqliteStore::open(path, Clock::manual(NOW))
}

fn directory() -> (TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("baton.db");
    (directory, path)
}

async fn lane(store: &SqliteStore) -> Lane {
    let name = LaneName { namespace: "default".into(), queue: "main".into(), kind: "build".into() };
    store.lanes(&[name]).await.unwrap()[0]
}

fn submission(lane: Lane) -> Submission {
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
    Submission { runs: vec![run], dice: vec![7] }
}

fn worker(id: WorkerId, max_concurrent: u32) -> NewWorker {
    NewWorker {
        id,
        instance: None,
        namespace: "default".into(),
        name: "mac-1".into(),
        info: WorkerInfo::default(),
        max_concurrent,
        ttl_ms: 15_000,
        key_id: None,
    }
}

/// Submits, then fails in the way that is asked for.
fn spoiled(lane: Lane, spoil: fn() -> StoreResult<()>) -> impl FnOnce(&Sql<'_>) -> StoreResult<()> + Send {
    move |sql| {
        submit::submit(sql, &[submission(lane)])?;
        spoil()
    }
}

/// Keeps the writer busy, so that what is sent meanwhile becomes one group. Dropping the sender lets it go on.
async fn hold_the_writer(store: &Arc<SqliteStore>) -> (oneshot::Sender<()>, tokio::task::JoinHandle<StoreResult<()>>) {
    let (release, released) = oneshot::channel::<()>();
    let (begin, begun) = oneshot::channel::<()>();
    let holder = Arc::clone(store);
    let held = tokio::spawn(async move {
        let job = move |_: &Sql<'_>| {
            let _ = begin.send(());
            let _ = released.blocking_recv();
            Ok(())
        };
        holder.write(job).await
    });
    begun.await.unwrap();
    (release, held)
}

async fn count(store: &SqliteStore) -> u64 {
    store.count_runs(&RunFilter::default()).await.unwrap()
}

#[tokio::test]
async fn everyone_in_a_group_is_answered_and_in_order() {
    let store = Arc::new(SqliteStore::open_in_memory(Clock::manual(NOW)).unwrap());
    let lane = lane(&store).await;
    let (release, held) = hold_the_writer(&store).await;
    let before = store.statements();
    // Polled one after the other, so all of them are in the inbox when the last one has been polled once.
    let mut submits: Vec<_> = (0..50).map(|_| Box::pin(store.submit(vec![submission(lane)]))).collect();
    for submit in &mut submits {
        assert!(futures_util::poll!(submit.as_mut()).is_pending());
    }
    drop(release);
    held.await.unwrap().unwrap();
    let mut runs = Vec::new();
    for submit in submits {
        runs.push(submit.await.unwrap()[0].as_ref().unwrap()[0].run);
    }
    assert_eq!(store.statements() - before, 50 * 3, "a number, a row of runs and one of live for each");
    assert!(runs.is_sorted(), "the numbers follow the order of the calls");
    assert_eq!(count(&store).await, 50);
}

#[tokio::test]
async fn a_failing_job_and_a_panicking_one_do_not_disturb_their_neighbours() {
    let store = Arc::new(SqliteStore::open_in_memory(Clock::manual(NOW)).unwrap());
    let lane = lane(&store).await;
    let (release, held) = hold_the_writer(&store).await;
    let mut first = Box::pin(store.submit(vec![submission(lane)]));
    let mut failing = Box::pin(store.write(spoiled(lane, || Err(StoreError::Internal("spoiled".into())))));
    let mut panicking = Box::pin(store.write(spoiled(lane, || panic!("a bug"))));
    let mut last = Box::pin(store.submit(vec![submission(lane)]));
    assert!(futures_util::poll!(first.as_mut()).is_pending());
    assert!(futures_util::poll!(failing.as_mut()).is_pending());
    assert!(futures_util::poll!(panicking.as_mut()).is_pending());
    assert!(futures_util::poll!(last.as_mut()).is_pending());
    drop(release);
    held.await.unwrap().unwrap();
    assert!(first.await.is_ok());
    assert_eq!(failing.await.unwrap_err().to_string(), "the store failed: spoiled");
    assert!(panicking.await.unwrap_err().to_string().contains("a bug"));
    assert!(last.await.is_ok());
    assert_eq!(count(&store).await, 2);
}

#[tokio::test]
async fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let (_directory, path) = directory();
    let store = open(&path).unwrap();
    let lane = lane(&store).await;
    store.submit(vec![submission(lane)]).await.unwrap();
    store.write(|sql| Ok(sql.connection.pragma_update(None, "max_page_count", 1)?)).await.unwrap();
    let mut large = submission(lane);
    large.runs[0].input = vec![0; 1_000_000].into();
    assert!(matches!(store.submit(vec![large.clone()]).await, Err(StoreError::Full)));
    assert_eq!(count(&store).await, 1);
    store.write(|sql| Ok(sql.connection.pragma_update(None, "max_page_count", 1_000_000)?)).await.unwrap();
    store.submit(vec![large]).await.unwrap();
    assert_eq!(count(&store).await, 2);
}

#[tokio::test]
async fn a_second_process_is_refused_until_the_first_has_closed() {
    let (_directory, path) = directory();
    let first = open(&path).unwrap();
    let refused = open(&path).unwrap_err().to_string();
    assert!(refused.contains("another process") && refused.contains("baton.db"), "{refused}");
    first.close().await;
    assert!(matches!(first.now().await, Err(StoreError::Unavailable(_))));
    let second = open(&path).unwrap();
    drop(second);
    open(&path).unwrap();
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let (_directory, path) = directory();
    drop(open(&path).unwrap());
    let connection = Connection::open(&path).unwrap();
    connection.execute("insert into schema_migrations values (9999, 'later', 0)", []).unwrap();
    drop(connection);
    let refused = open(&path).unwrap_err().to_string();
    assert!(refused.contains("newer version") && refused.contains("9999"), "{refused}");
}

/// Two people wrote one each, and the one with the lower number came later.
#[tokio::test]
async fn a_migration_that_was_left_out_is_made_up_for() {
    let (_directory, path) = directory();
    drop(open(&path).unwrap());
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch("alter table live drop column size; delete from schema_migrations where version = 2")
        .unwrap();
    drop(connection);
    let store = open(&path).unwrap();
    lane(&store).await;
    store.close().await;
    let connection = Connection::open(&path).unwrap();
    connection.prepare("select size from live").unwrap();
}

#[tokio::test]
async fn a_fleeting_store_leaves_nothing_behind() {
    let files = Files::temporary().unwrap();
    let directory = files.database().parent().unwrap().to_owned();
    let store = SqliteStore::open_files(files, Role::FleetingWriter, Clock::Real).unwrap();
    lane(&store).await;
    store.close().await;
    assert!(!directory.exists());
}

#[tokio::test]
async fn a_closed_store_is_one_file() {
    let (_directory, path) = directory();
    let store = open(&path).unwrap();
    lane(&store).await;
    let log = path.with_extension("db-wal");
    assert!(log.metadata().unwrap().len() > 0);
    store.close().await;
    assert!(!log.exists());
}

#[tokio::test]
async fn runs_survive_without_a_close() {
    let (_directory, path) = directory();
    let store = open(&path).unwrap();
    let lane = lane(&store).await;
    store.submit(vec![submission(lane)]).await.unwrap();
    // What a killed process leaves: the files as they are now, the log beside the database.
    let (_other_directory, copy) = directory_with_copy(&path);
    assert_eq!(count(&open(&copy).unwrap()).await, 1);
}

fn directory_with_copy(path: &Path) -> (TempDir, std::path::PathBuf) {
    let (directory, copy) = directory();
    std::fs::copy(path, &copy).unwrap();
    std::fs::copy(path.with_extension("db-wal"), copy.with_extension("db-wal")).unwrap();
    (directory, copy)
}

#[tokio::test]
async fn every_statement_can_be_prepared_and_the_hot_ones_read_only_what_they_need() {
    let (_directory, path) = directory();
    drop(open(&path).unwrap());
    let connection = Connection::open(&path).unwrap();
    for (file, text) in SQL {
        assert!(text.starts_with("-- "), "{file} does not say what it does");
        connection.prepare(text).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
    let plan = |text: &str| -> String {
        let mut statement = connection.prepare(&format!("explain query plan {text}")).unwrap();
        let parameters = vec![rusqlite::types::Null; statement.parameter_count()];
        let rows = statement.query_map(rusqlite::params_from_iter(parameters), |row| row.get::<_, String>(3)).unwrap();
        rows.map(Result::unwrap).collect::<Vec<_>>().join("\n")
    };
    for (text, index) in [
        (statements::READ_CANDIDATES, "live_ready"),
        (statements::READ_LANE_HEAD, "live_ready"),
        (statements::PROMOTE_LIVE, "live_later"),
        (statements::READ_NEXT_DUE_AFTER, "live_later"),
        (statements::READ_KEY_TAIL, "live_keys"),
        (statements::COUNT_KEY_HELD, "live_keys"),
        (statements::UNBLOCK_KEY, "live_keys"),
        (statements::LIST_BLOCKED_KEYS, "live_blocked"),
        (statements::LIST_OVERDUE, "live_deadline"),
        (statements::LIST_ORPHANS, "live_held"),
        (statements::LIST_HELD, "live_held"),
        (statements::LOSE_WORKERS, "worker_live_up"),
        (statements::READ_POSITION, "live_ready"),
        (statements::READ_OLDEST_DUE, "live_ready"),
        (statements::FIND_RUNS_OF_LANE, "runs_by_lane"),
    ] {
        let plan = plan(text);
        assert!(plan.contains(index), "{text}\n{plan}");
        let whole_table = plan.lines().any(|line| line.starts_with("SCAN live") && !line.contains("USING"));
        assert!(!whole_table, "{text}\n{plan}");
    }
    for text in
        [statements::READ_CANDIDATES, statements::PROMOTE_LIVE, statements::LIST_OVERDUE, statements::UNBLOCK_KEY]
    {
        assert!(!plan(text).contains("TEMP B-TREE"), "{text}\n{}", plan(text));
    }
}

#[tokio::test]
async fn an_idle_beat_is_one_statement() {
    let store = SqliteStore::open_in_memory(Clock::manual(NOW)).unwrap();
    let id = WorkerId::from_random(1);
    store.register(worker(id, 2)).await.unwrap();
    let before = store.statements();
    store.renew(vec![Beat { worker: id, health: None, unfit: None, ttl_ms: None, leases: vec![] }]).await.unwrap();
    assert_eq!(store.statements() - before, 1);
}

#[tokio::test]
async fn a_run_goes_through_its_life() {
    let clock = Clock::manual(NOW);
    let store = SqliteStore::open_in_memory(clock.clone()).unwrap();
    let lane = lane(&store).await;
    let id = WorkerId::from_random(1);
    let first = NewWorker { instance: Some("i".into()), ..worker(id, 1) };
    store.register(first.clone()).await.unwrap();
    assert!(!store.register(NewWorker { id: WorkerId::from_random(2), ..first }).await.unwrap().is_new);
    store.submit(vec![submission(lane), submission(lane)]).await.unwrap();
    let slot = ClaimSlot {
        worker: id,
        name: "mac-1".into(),
        lanes: vec![lane.lane],
        room: 2,
        claim_no: 1,
        start: false,
        lease_ms: None,
        asked_ms_ago: None,
    };
    let answer = store.claim(ClaimRequest { queue: lane.queue, slots: vec![slot], limit: 10, die: 7 }).await.unwrap();
    assert_eq!(answer.claimed.len(), 1, "{answer:?}");
    assert_eq!(answer.refused, [(0, crate::SlotRefused::Full)]);
    assert!(!answer.more);
    let lease = LeaseRef { run: answer.claimed[0].run, epoch: answer.claimed[0].epoch };
    assert_eq!(store.claimed(id, None).await.unwrap(), answer.claimed);
    clock.advance(20_000);
    assert_eq!(store.lose_workers(0, 10).await.unwrap(), [id]);
    let expired = store.expire(0.5, 10).await.unwrap();
    assert_eq!(expired.runs[0].end, LeaseEnd::Lost);
    assert_eq!(expired.woken.lanes, [lane.lane]);
    assert_eq!(store.worker(id).await.unwrap().unwrap().active, 0);
    let depth = store.depths(&[lane.queue], 100).await.unwrap()[0];
    assert_eq!((depth.ready, depth.held, depth.oldest_ms), (2, 0, Some(20_000)));
    assert_eq!(store.position(lease.run, 10).await.unwrap(), Some(0));
    let done = store.complete(vec![Completion { lease, output: None }]).await.unwrap();
    assert_eq!(done.verdicts, [Verdict::Refused(baton_core::Refused::NotHeld)]);
    assert_eq!(store.attempts(lease.run).await.unwrap().len(), 1);
}
