//! One store with a clock that the case moves, and words to say things briefly.

use std::sync::Arc;

use baton_core::token::Hash;
use baton_core::{Epoch, Failure, Millis, Reason, RunId, State, WorkerId, mark};
use baton_store::postgres::{PostgresOptions, PostgresStore};
use baton_store::sqlite::SqliteStore;
use baton_store::{
    Beat, BeatAnswer, Changes, ClaimAnswer, ClaimRequest, ClaimSlot, Claimed, Clock, Completion, Due, Idempotency,
    Lane, LaneName, LeaseRef, NewRun, NewWorker, Registered, RunRecord, Store, Submission, SubmitAnswer, Verdict,
    Worker, WorkerInfo,
};
use bytes::Bytes;
use tempfile::TempDir;

/// Makes one test for SQLite and one for PostgreSQL of each case.
macro_rules! contract {
    ($($case:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                super::$case($crate::rig::Rig::sqlite().await).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                super::$case($crate::rig::Rig::postgres().await).await;
            })+
        }
    };
}
pub(crate) use contract;

/// Where every case's clock begins.
pub const START: Millis = 1_700_000_000_000;
/// The random bits of claims unless a case says otherwise.
pub const DIE: u32 = 7;
/// How long leases live unless a case says otherwise.
pub const TTL_MS: Millis = 15_000;

/// A store under test.
pub struct Rig {
    pub store: Arc<dyn Store>,
    pub clock: Clock,
    home: Home,
}

enum Home {
    Sqlite(TempDir),
    Postgres(baton_testkit::Database),
}

impl Rig {
    pub async fn sqlite() -> Rig {
        Rig::on(Home::Sqlite(tempfile::tempdir().unwrap())).await
    }

    pub async fn postgres() -> Rig {
        Rig::on(Home::Postgres(baton_testkit::database().await)).await
    }

    async fn on(home: Home) -> Rig {
        let clock = Clock::manual(START);
        Rig { store: home.open(&clock).await, clock, home }
    }

    /// Closes the store and opens it again, as a restart does.
    pub async fn reopen(self) -> Rig {
        let Rig { store, clock, home } = self;
        store.close().await;
        // SQLite takes one process only: the old one has to be gone before the new one comes.
        drop(store);
        Rig { store: home.open(&clock).await, clock, home }
    }

    /// Closes the store and opens it again on the clock that it has in production.
    pub async fn on_its_own_clock(self) -> Rig {
        Rig { clock: Clock::Real, ..self }.reopen().await
    }

    /// Several servers on this store, where it can be shared; otherwise the same one several times.
    pub async fn servers(&self, count: usize) -> Vec<Arc<dyn Store>> {
        let mut servers = vec![Arc::clone(&self.store)];
        while servers.len() < count {
            servers.push(match self.store.is_shared() {
                true => self.home.open(&self.clock).await,
                false => Arc::clone(&self.store),
            });
        }
        servers
    }

    pub fn now(&self) -> Millis {
        self.clock.local()
    }

    /// Puts a secret there as versions before there were master keys did.
    pub async fn plant_plain_secret(&self, secret: [u8; 32]) {
        match &self.home {
            Home::Sqlite(home) => {
                let connection = rusqlite::Connection::open(home.path().join("baton.db")).unwrap();
                connection.execute("insert into meta values ('secret', ?1)", [secret]).unwrap();
            }
            Home::Postgres(database) => {
                let insert = "insert into meta values ('secret', $1)";
                connect(database).await.execute(insert, &[&secret.as_slice()]).await.unwrap();
            }
        }
    }

    /// The bytes of the files that facts of the installation are in.
    pub async fn bytes(&self) -> Vec<u8> {
        match &self.home {
            Home::Sqlite(home) => {
                let files = std::fs::read_dir(home.path()).unwrap();
                files.flat_map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
            }
            Home::Postgres(database) => {
                let client = connect(database).await;
                client.batch_execute("checkpoint").await.unwrap();
                let read = "select pg_read_binary_file(pg_relation_filepath('meta')) ||
                    pg_read_binary_file(pg_relation_filepath('secrets'))";
                client.query_one(read, &[]).await.unwrap().get(0)
            }
        }
    }

    // ---- lanes and runs

    /// The lane of this type on the queue that most cases use.
    pub async fn lane(&self, kind: &str) -> Lane {
        self.lane_on("builds", kind).await
    }

    pub async fn lane_on(&self, queue: &str, kind: &str) -> Lane {
        self.store.lanes(&[lane_name(queue, kind)]).await.unwrap()[0]
    }

    /// Submits runs as one submission.
    pub async fn try_submit(&self, runs: Vec<NewRun>) -> SubmitAnswer {
        self.store.submit(vec![submission(runs)]).await.unwrap().remove(0)
    }

    pub async fn submit_all(&self, runs: Vec<NewRun>) -> Vec<RunId> {
        self.try_submit(runs).await.unwrap().into_iter().map(|submitted| submitted.run).collect()
    }

    pub async fn submit(&self, run: NewRun) -> RunId {
        self.submit_all(vec![run]).await[0]
    }

    pub async fn record(&self, run: RunId) -> RunRecord {
        self.store.run(run).await.unwrap().unwrap_or_else(|| panic!("{run} is gone"))
    }

    pub async fn state(&self, run: RunId) -> State {
        self.record(run).await.state
    }

    // ---- workers and claims

    /// Registers a worker that can hold a hundred runs.
    pub async fn worker(&self, name: &str) -> WorkerId {
        self.register(new_worker(name)).await.id
    }

    pub async fn register(&self, worker: NewWorker) -> Registered {
        self.store.register(worker).await.unwrap()
    }

    pub async fn shown(&self, worker: WorkerId) -> Worker {
        self.store.worker(worker).await.unwrap().unwrap_or_else(|| panic!("{worker} is gone"))
    }

    pub async fn beat(&self, worker: WorkerId, leases: &[LeaseRef]) -> BeatAnswer {
        let beat = Beat { worker, health: None, unfit: None, ttl_ms: None, leases: leases.to_vec() };
        self.store.renew(vec![beat]).await.unwrap().remove(0)
    }

    pub async fn claim_for(&self, slots: Vec<ClaimSlot>, lane: Lane) -> ClaimAnswer {
        self.store.claim(ClaimRequest { queue: lane.queue, slots, limit: 1_000, die: DIE }).await.unwrap()
    }

    pub async fn claim(&self, worker: WorkerId, lane: Lane, room: u32) -> Vec<Claimed> {
        self.claim_for(vec![slot(worker, &[lane], room)], lane).await.claimed
    }

    pub async fn claim_ids(&self, worker: WorkerId, lane: Lane, room: u32) -> Vec<RunId> {
        self.claim(worker, lane, room).await.iter().map(|claimed| claimed.run).collect()
    }

    /// Submits a run, and has a new worker claim it.
    pub async fn held(&self, run: NewRun) -> (WorkerId, LeaseRef) {
        let (lane, id, worker) = (run.lane, self.submit(run).await, self.worker("holder").await);
        let claimed = self.claim(worker, lane, 1).await;
        assert_eq!(claimed.iter().map(|claimed| claimed.run).collect::<Vec<_>>(), [id], "another run was in the way");
        (worker, lease(&claimed[0]))
    }

    // ---- verbs on one run

    pub async fn start(&self, lease: LeaseRef) -> Verdict {
        self.store.start(vec![lease]).await.unwrap()[0]
    }

    pub async fn complete(&self, lease: LeaseRef) -> Verdict {
        one(self.store.complete(vec![Completion { lease, output: None }]).await.unwrap())
    }

    pub async fn fail(&self, lease: LeaseRef, failure: Failure) -> Verdict {
        one(self.store.fail(vec![(lease, failure)], 0.5).await.unwrap())
    }

    pub async fn give_back(&self, lease: LeaseRef) -> Verdict {
        one(self.store.give_back(vec![(lease, "no disk left".into())]).await.unwrap())
    }

    pub async fn sleep(&self, lease: LeaseRef, due: Due) -> Verdict {
        one(self.store.sleep(vec![(lease, due)]).await.unwrap())
    }

    pub async fn cancel(&self, run: RunId, grace_ms: Millis) -> Verdict {
        one(self.store.cancel(vec![run], grace_ms).await.unwrap())
    }

    /// One pass of the reaper, as the server does it.
    pub async fn reap(&self) -> baton_store::Expired {
        self.store.lose_workers(0, 1_000).await.unwrap();
        self.store.expire(0.5, 1_000).await.unwrap()
    }
}

impl Home {
    async fn open(&self, clock: &Clock) -> Arc<dyn Store> {
        match self {
            Home::Sqlite(directory) => {
                Arc::new(SqliteStore::open(&directory.path().join("baton.db"), clock.clone()).unwrap())
            }
            Home::Postgres(database) => {
                let options = PostgresOptions { max_connections: 6, ..PostgresOptions::default() };
                Arc::new(PostgresStore::connect(database.url(), clock.clone(), options).await.unwrap())
            }
        }
    }
}

fn one(changes: Changes) -> Verdict {
    assert_eq!(changes.verdicts.len(), 1);
    changes.verdicts[0]
}

pub fn lane_name(queue: &str, kind: &str) -> LaneName {
    LaneName { namespace: "default".into(), queue: queue.into(), kind: kind.into() }
}

/// A plain run for this lane.
pub fn run(lane: Lane) -> NewRun {
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
        input: Bytes::from_static(b"{}"),
    }
}

/// A run with a key for limits and fair turns.
pub fn keyed(lane: Lane, key: &str) -> NewRun {
    NewRun { key: Some(key.into()), ..run(lane) }
}

/// A run whose submit may be repeated. `body` stands for everything the submitter said.
pub fn once(lane: Lane, key: &str, body: u8) -> NewRun {
    NewRun { idempotency: Some(Idempotency { key: key.into(), fingerprint: [body; 16] }), ..run(lane) }
}

pub fn submission(runs: Vec<NewRun>) -> Submission {
    Submission { dice: runs.iter().map(|_| dice()).collect(), runs }
}

pub fn new_worker(name: &str) -> NewWorker {
    NewWorker {
        id: WorkerId::from_random(u128::from(dice()) << 64 | u128::from(dice())),
        instance: None,
        namespace: "default".into(),
        name: name.into(),
        info: WorkerInfo::default(),
        max_concurrent: 100,
        ttl_ms: TTL_MS,
        key_id: None,
    }
}

/// A poll of this worker for these lanes.
pub fn slot(worker: WorkerId, lanes: &[Lane], room: u32) -> ClaimSlot {
    let mut lanes: Vec<_> = lanes.iter().map(|lane| lane.lane).collect();
    lanes.sort_unstable();
    ClaimSlot {
        worker,
        name: "holder".into(),
        lanes,
        room,
        claim_no: 0,
        start: false,
        lease_ms: None,
        asked_ms_ago: None,
    }
}

pub fn lease(claimed: &Claimed) -> LeaseRef {
    LeaseRef { run: claimed.run, epoch: claimed.epoch }
}

/// The lease of this run with this epoch, whether it was ever given out or not.
/// The epoch of a run's n-th claim, if that was made with the usual die.
pub fn claimed_epoch(number: u32) -> Epoch {
    // Nobody has claimed a run with epoch 0.
    if number == 0 { Epoch::default() } else { Epoch::new(number).marked(mark(DIE)) }
}

pub fn lease_of(run: RunId, epoch: u32) -> LeaseRef {
    LeaseRef { run, epoch: claimed_epoch(epoch) }
}

/// A failure that the policy decides about.
pub fn error() -> Failure {
    Failure { reason: Reason::Error, code: None, message: "it broke".into(), retryable: true, not_before: None }
}

/// The verdict of a verb that was carried out.
pub fn done(state: State) -> Verdict {
    Verdict::Done { state, cancelling: false }
}

pub fn hash_of(text: &str) -> Hash {
    baton_core::token::hash(text)
}

/// Random bits that no two calls share: std's hasher keys are seeded by the operating system.
pub fn dice() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

async fn connect(database: &baton_testkit::Database) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
