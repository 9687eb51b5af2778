//! What is PostgreSQL's own; what every store promises is in the contract suite.

use std::sync::Arc;

use baton_core::{State, WorkerId};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use super::super::{PostgresOptions, PostgresStore};
use crate::{
    ArtifactOwner, BuildSource, Builds, ClaimRequest, ClaimSlot, Clock, Completion, Due, LaneName, LeaseRef, LogAnswer,
    LogLine, NewArtifact, NewBuild, NewRun, NewWorker, Store, Verdict, WorkerInfo,
};

const START: i64 = 1_700_000_000_000;
const DONE: Verdict = Verdict::Done { state: State::Completed, cancelling: false };

async fn connect(url: &str) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::connect(url, Clock::manual(START), PostgresOptions::default()).await.unwrap())
}

/// Somebody else in the same database.
async fn stranger(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A build that a worker holds.
async fn held(store: &PostgresStore) -> LeaseRef {
    let name = LaneName { namespace: "default".into(), queue: "builds".into(), kind: "linux".into() };
    let lane = store.lanes(&[name]).await.unwrap()[0];
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
        input: "{}".into(),
    };
    let text = || "text".to_owned();
    let source = BuildSource::Git { slug: text(), version: text(), url: text(), reference: text(), image: text() };
    let build = NewBuild {
        namespace: "default".into(),
        platform: text(),
        project: None,
        key_id: None,
        source,
        base_image: None,
    };
    store.submit_build(run, 7, build, None).await.unwrap().unwrap();
    let worker = NewWorker {
        id: WorkerId::from_random(1),
        instance: None,
        namespace: "default".into(),
        name: "worker".into(),
        info: WorkerInfo::default(),
        max_concurrent: 10,
        ttl_ms: 15_000,
        key_id: None,
    };
    let worker = store.register(worker).await.unwrap().id;
    let slot = ClaimSlot {
        worker,
        name: "worker".into(),
        lanes: vec![lane.lane],
        room: 1,
        claim_no: 1,
        start: false,
        lease_ms: None,
        asked_ms_ago: None,
    };
    let claimed =
        store.claim(ClaimRequest { queue: lane.queue, slots: vec![slot], limit: 1, die: 7 }).await.unwrap().claimed;
    LeaseRef { run: claimed[0].run, epoch: claimed[0].epoch }
}

/// How many wait for a lock in this database.
async fn waiting(admin: &Client) -> i64 {
    let count = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    admin.query_one(count, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_lease_does_not_end_while_something_is_written_under_it() {
    let database = baton_testkit::database().await;
    let store = connect(database.url()).await;
    let lease = held(&store).await;
    let (admin, other) = (stranger(database.url()).await, stranger(database.url()).await);
    let lock = format!("begin; select 1 from build_progress where run_id = '{}' for update", lease.run);
    other.batch_execute(&lock).await.unwrap();
    let line = LogLine { level: "info".into(), message: "line".into(), at: None };
    let writer = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.add_logs(lease.run, Some(lease), None, vec![line], 1_000).await.unwrap() }
    });
    while waiting(&admin).await < 1 {
        tokio::task::yield_now().await;
    }
    let end = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.complete(vec![Completion { lease, output: None }]).await.unwrap().verdicts }
    });
    while waiting(&admin).await < 2 {
        assert!(!end.is_finished(), "the lease ended before what was written under it");
        tokio::task::yield_now().await;
    }
    other.batch_execute("rollback").await.unwrap();
    assert_eq!(writer.await.unwrap(), LogAnswer::Kept(1));
    assert_eq!(end.await.unwrap(), [DONE]);
}

#[tokio::test]
async fn the_collector_looks_at_a_good_result_once() {
    let database = baton_testkit::database().await;
    let store = connect(database.url()).await;
    let lease = held(&store).await;
    let result = NewArtifact {
        id: Uuid::from_u128(1),
        namespace: "default".into(),
        owner: ArtifactOwner::Result(lease),
        name: "app.zip".into(),
        path: "path".into(),
    };
    assert!(store.add_artifact(result.clone()).await.unwrap());
    assert!(store.artifact_stored(result.id, 1, [1; 32]).await.unwrap());
    store.complete(vec![Completion { lease, output: None }]).await.unwrap();
    let admin = stranger(database.url()).await;
    let mut unused = Vec::new();
    for _ in 0..2 {
        let count = "select count(*) from artifacts where uses = 0";
        unused.push(admin.query_one(count, &[]).await.unwrap().get::<_, i64>(0));
        assert_eq!(store.orphans(0, 10).await.unwrap(), []);
    }
    assert_eq!(unused, [1, 0]);
}
