//! Sessions with the database: the pool, transactions that begin together with their first statement, and what a
//! failure means.
//!
//! Statements are sent unnamed, with the types of their parameters and without any state in the session, so that
//! PgBouncer in transaction mode may stand in between. The few that run all the time are prepared when a connection is
//! made, because planning them costs more than carrying them out; where a pooler does not know them again, the store
//! notices and does without.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use baton_core::Millis;
use deadpool::Runtime;
use deadpool::managed::{self, HookError, Timeouts};
use futures_util::future::join;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Config, Row};

use super::connect::{ConnectError, Manager, Target};
use super::home::Home;
use super::params::Param;
use crate::{Clock, Connections, StoreError, StoreResult};

type Pool = managed::Pool<Manager>;
type PoolError = managed::PoolError<ConnectError>;
type Hook = managed::Hook<Manager>;
type Object = managed::Object<Manager>;

/// How long it may take to reach one host.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a new connection may take, whichever of the URL's hosts it is to.
pub(super) const CREATE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may be without a sign of the other side before it is given up: what was
/// sent is not acknowledged, or the kernel's probes are not. A database that is slow acknowledges.
const SILENCE_MAX: Duration = Duration::from_millis(2_000);
/// How often the kernel probes a connection on which nothing is said.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// How often work is done again over another connection.
const LOST_MAX: u32 = 2;
/// How long a call waits for a free connection.
const POOL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a whole call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a transaction that lost against another one is tried again.
pub(super) const RETRIES_MAX: u32 = 3;

/// Begins a transaction. A server that is cut off in the middle must not keep its locks for as long as its connection seems to live.
/// And rows are always to be looked up: what the planner believes of a table that fills and empties all day is always wrong, and a scan
/// would make a claim as slow as the queue is long, or as the rows are many that a transaction elsewhere keeps from being cleaned away.
/// Compiling a statement takes half a second, and seems worth it to a planner that believes in millions of rows.
const BEGIN: &str = "begin isolation level read committed; \
     set local idle_in_transaction_session_timeout = '5s'; set local enable_seqscan = off; set local jit = off";
/// Begins one whose prepared statements are not planned anew each time, which the database would do because it cannot know
/// how little they read. Only for this transaction: a pooler may give the connection to somebody else afterwards.
const BEGIN_PLANNED: &str = "begin isolation level read committed; \
     set local idle_in_transaction_session_timeout = '5s'; set local enable_seqscan = off; set local jit = off; \
     set local plan_cache_mode = 'force_generic_plan'";
/// Largest batch for which a prepared statement is used. Its plan is made once for all, and must not be made for few rows
/// and then used for thousands.
const PREPARED_ROWS_MAX: usize = 256;

/// Why a piece of work at the database did not succeed.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Two transactions met; the same work again may well succeed.
    Conflict(String),
    /// The connection was lost before the answer came: nobody knows whether the work was done.
    Lost(String),
    /// The connection does not know a statement that was prepared on it. The same work again goes without.
    Unprepared(String),
    /// Everything else.
    Store(StoreError),
}

/// What work at the database returns.
pub(super) type Outcome<T> = Result<T, Trouble>;

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Trouble {
        let Some(code) = error.code() else {
            let lost = error.is_closed() || is_input_output(&error);
            let text = describe(&error);
            return if lost { Trouble::Lost(text) } else { Trouble::Store(StoreError::Internal(text)) };
        };
        let text = describe(&error);
        if [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT].contains(code) {
            return Trouble::Unprepared(text);
        }
        if [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE].contains(code) {
            return Trouble::Conflict(text);
        }
        if *code == SqlState::DISK_FULL {
            return Trouble::Store(StoreError::Full);
        }
        // Connections, resources and operators' interventions; and a standby that cannot be written.
        let passing = ["08", "53", "57"].iter().any(|class| code.code().starts_with(class));
        let standby = *code == SqlState::READ_ONLY_SQL_TRANSACTION;
        Trouble::Store(if passing || standby { StoreError::Unavailable(text) } else { StoreError::Internal(text) })
    }
}

impl From<PoolError> for Trouble {
    fn from(error: PoolError) -> Trouble {
        match error {
            PoolError::Backend(error) => Trouble::Store(error.into()),
            PoolError::PostCreateHook(error) => Trouble::Store(StoreError::Unavailable(error.to_string())),
            other => Trouble::Store(StoreError::Unavailable(other.to_string())),
        }
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Trouble {
        Trouble::Store(error)
    }
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> StoreError {
        match trouble {
            Trouble::Conflict(text) | Trouble::Unprepared(text) | Trouble::Lost(text) => StoreError::Unavailable(text),
            Trouble::Store(error) => error,
        }
    }
}

fn is_input_output(error: &tokio_postgres::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if inner.is::<std::io::Error>() {
            return true;
        }
        source = inner.source();
    }
    false
}

pub(super) fn describe(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(inner) => format!("{} ({})", inner.message(), inner.code().code()),
        None => match std::error::Error::source(error) {
            Some(inner) => format!("{error}: {inner}"),
            None => error.to_string(),
        },
    }
}

/// Repeats work that lost against another transaction a few times.
macro_rules! retried {
    ($work:expr) => {{
        let mut tries = 0;
        loop {
            match $work.await {
                Err($crate::postgres::pool::Trouble::Conflict(_) | $crate::postgres::pool::Trouble::Unprepared(_))
                    if tries < $crate::postgres::pool::RETRIES_MAX =>
                {
                    tries += 1;
                }
                other => break other,
            }
        }
    }};
}
pub(super) use retried;

/// The pool of connections and what belongs to every session.
pub(super) struct Database {
    pool: Pool,
    /// Whether new connections prepare what runs all the time, and sessions use it.
    prepares: Arc<AtomicBool>,
    pub(super) clock: Clock,
    home: Arc<Home>,
    statements: AtomicU64,
}

impl Database {
    pub(super) fn new(target: Target, max_connections: usize, clock: Clock, home: Arc<Home>) -> StoreResult<Database> {
        let prepares = Arc::new(AtomicBool::new(false));
        let pool = Pool::builder(Manager(target))
            .max_size(max_connections.max(1))
            .post_create(prepare_often(prepares.clone(), home.clone()))
            .runtime(Runtime::Tokio1)
            .timeouts(Timeouts {
                wait: Some(POOL_TIMEOUT),
                create: Some(CREATE_TIMEOUT),
                recycle: Some(CREATE_TIMEOUT),
            })
            .build()
            .map_err(|error| StoreError::Internal(error.to_string()))?;
        Ok(Database { pool, prepares, clock, home, statements: AtomicU64::new(0) })
    }

    /// The time by hand, which statements prefer to the database's own.
    pub(super) fn fixed_now(&self) -> Option<Millis> {
        self.clock.fixed()
    }

    /// From now on, prepares what runs all the time. Only once the schema is there, and with new connections.
    pub(super) fn prepare_from_now_on(&self) {
        self.prepares.store(true, Ordering::Relaxed);
        self.pool.retain(|_, _| false);
    }

    pub(super) fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    pub(super) fn connections(&self) -> Connections {
        let status = self.pool.status();
        let idle = status.available.min(status.size);
        Connections { in_use: status.size - idle, idle, max: status.max_size, waiting: status.waiting }
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }

    /// A session in which every statement is a transaction of its own.
    pub(super) async fn direct(&self) -> Outcome<Session<'_>> {
        self.session(true).await
    }

    /// A session in one transaction, which begins with the first statement and ends with [`Session::commit`]. One
    /// that is dropped before takes its connection with it, and the database rolls back.
    pub(super) async fn transaction(&self) -> Outcome<Session<'_>> {
        self.session(false).await
    }

    /// As [`Database::transaction`], for work about so many rows that is done all the time.
    pub(super) async fn transaction_often(&self, rows: usize) -> Outcome<Session<'_>> {
        let few = rows <= PREPARED_ROWS_MAX && self.prepares.load(Ordering::Relaxed);
        let mut session = self.session(false).await?;
        session.begin = if few { BEGIN_PLANNED } else { BEGIN };
        Ok(session)
    }

    async fn session(&self, direct: bool) -> Outcome<Session<'_>> {
        if self.home.has_moved() {
            return Err(StoreError::Unavailable("the database has moved; this server begins again".into()).into());
        }
        Ok(Session {
            begin: BEGIN,
            client: Some(self.pool.get().await?),
            statements: &self.statements,
            prepares: &self.prepares,
            begun: AtomicBool::new(direct),
            open: AtomicBool::new(false),
            waiting: AtomicU32::new(0),
        })
    }

    /// One statement, on its own.
    pub(super) async fn query(&self, sql: &str, params: &[Param<'_>]) -> Outcome<Vec<Row>> {
        self.direct().await?.query(sql, params).await
    }

    /// As [`Session::query_often`], on its own.
    pub(super) async fn query_often(&self, sql: &str, params: &[Param<'_>], rows: usize) -> Outcome<Vec<Row>> {
        self.direct().await?.query_often(sql, params, rows).await
    }

    /// As [`Database::query_often`], for a statement that looks up each of its rows: a large batch must not scan for them.
    pub(super) async fn query_each(&self, sql: &str, params: &[Param<'_>], rows: usize) -> Outcome<Vec<Row>> {
        if rows <= PREPARED_ROWS_MAX {
            return self.query_often(sql, params, rows).await;
        }
        let session = self.transaction().await?;
        let (found, committed) = join(session.query(sql, params), session.commit()).await;
        let found = found?;
        committed?;
        Ok(found)
    }

    /// As [`Database::query_often`], for a statement whose plan the database would make anew each time, or one that scans.
    pub(super) async fn query_planned(&self, sql: &str, params: &[Param<'_>], rows: usize) -> Outcome<Vec<Row>> {
        let session = self.transaction_often(rows).await?;
        // Before it is joined: what waits for a preparation would come after the commit, which would find nothing open.
        if session.uses_prepared(rows) {
            session.client().prepare_cached(sql).await?;
        }
        let (found, committed) = join(session.query_often(sql, params, rows), session.commit()).await;
        let found = found?;
        committed?;
        Ok(found)
    }

    /// As [`Database::within`], for work that does no harm when it is done again: where a
    /// connection is lost, it goes on over another.
    pub(super) async fn again<T, F>(&self, call: impl Fn() -> F) -> StoreResult<T>
    where
        F: Future<Output = Outcome<T>>,
    {
        let patiently = async {
            let mut tries = 0;
            loop {
                match call().await {
                    Err(Trouble::Lost(error)) if tries < LOST_MAX => {
                        tries += 1;
                        tracing::warn!(error, "a connection to the database was lost; going on over another");
                        self.drop_idle();
                    }
                    other => return other,
                }
            }
        };
        self.within(patiently).await
    }

    /// Closes the connections that nobody uses: where one was lost, others on the same path most
    /// likely are, too.
    fn drop_idle(&self) {
        self.pool.retain(|_, _| false);
    }

    /// Gives up on a call that takes too long.
    pub(super) async fn within<T>(&self, call: impl Future<Output = Outcome<T>>) -> StoreResult<T> {
        match tokio::time::timeout(CALL_TIMEOUT, call).await {
            Ok(Err(Trouble::Lost(text))) => {
                self.drop_idle();
                Err(Trouble::Lost(text).into())
            }
            Ok(outcome) => outcome.map_err(StoreError::from),
            Err(_) => Err(StoreError::Unavailable(format!("no answer within {} s", CALL_TIMEOUT.as_secs()))),
        }
    }
}

/// Has a connection that nothing comes back from noticed in seconds, where the URL does not say
/// otherwise.
pub(super) fn mind_silence(config: &mut Config) {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENCE_MAX);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_idle(PROBE_EVERY).keepalives_interval(PROBE_EVERY).keepalives_retries(2);
    }
}

/// Checks where every new connection leads, has the other side mind silence, too, and prepares what runs all the time, so that using it
/// later never waits for anything.
fn prepare_often(prepares: Arc<AtomicBool>, home: Arc<Home>) -> Hook {
    Hook::async_fn(move |client, _| {
        let (prepares, home) = (prepares.load(Ordering::Relaxed), home.clone());
        Box::pin(async move {
            home.check(client).await.map_err(HookError::message)?;
            let (silence, probe) = (SILENCE_MAX.as_millis().to_string(), PROBE_EVERY.as_secs().to_string());
            // Typed, so that nothing is prepared: behind a pooler the next message may go elsewhere.
            let params: [(&(dyn ToSql + Sync), Type); 2] = [(&silence, Type::TEXT), (&probe, Type::TEXT)];
            client
                .query_typed(super::sql::MIND_SILENCE, &params)
                .await
                .map_err(|error| HookError::Backend(error.into()))?;
            for sql in super::sql::OFTEN.iter().filter(|_| prepares) {
                client.prepare_cached(sql).await.map_err(|error| HookError::Backend(error.into()))?;
            }
            Ok(())
        })
    })
}

/// A connection in use.
pub(super) struct Session<'a> {
    client: Option<Object>,
    statements: &'a AtomicU64,
    prepares: &'a AtomicBool,
    begin: &'static str,
    begun: AtomicBool,
    /// True while a transaction is open.
    open: AtomicBool,
    /// Statements that were sent and not answered yet.
    waiting: AtomicU32,
}

impl Session<'_> {
    fn client(&self) -> &Object {
        self.client.as_ref().expect("a session keeps its client until it is dropped")
    }

    fn uses_prepared(&self, rows: usize) -> bool {
        rows <= PREPARED_ROWS_MAX && self.prepares.load(Ordering::Relaxed)
    }

    /// Waits for the answer to statements. When the caller gives up meanwhile, they stay counted as waiting.
    async fn answer<T>(&self, statements: u64, sent: impl Future<Output = T>) -> T {
        self.statements.fetch_add(statements, Ordering::Relaxed);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let answer = sent.await;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        answer
    }

    /// Sends one statement. Several of these futures joined travel together and are carried out in order.
    pub(super) async fn query(&self, sql: &str, params: &[Param<'_>]) -> Outcome<Vec<Row>> {
        let typed: Vec<(&(dyn ToSql + Sync), _)> =
            params.iter().map(|param| (param.value, param.kind.clone())).collect();
        self.begin_with(self.client().query_typed(sql, &typed)).await
    }

    /// As [`Session::query`], for one of the statements that run all the time, about so many rows.
    pub(super) async fn query_often(&self, sql: &str, params: &[Param<'_>], rows: usize) -> Outcome<Vec<Row>> {
        if !self.uses_prepared(rows) {
            return self.query(sql, params).await;
        }
        // Prepared when the connection was made, so this does not wait, and joined statements stay in order.
        let statement = self.client().prepare_cached(sql).await?;
        let values: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| param.value).collect();
        let outcome = self.begin_with(self.client().query(&statement, &values)).await;
        if let Err(Trouble::Unprepared(_)) = outcome {
            tracing::warn!("a pooler stands before the database and forgets prepared statements; doing without them");
            self.prepares.store(false, Ordering::Relaxed);
        }
        outcome
    }

    /// Sends a statement, and before the first one the beginning of the transaction.
    async fn begin_with(
        &self,
        query: impl Future<Output = Result<Vec<Row>, tokio_postgres::Error>>,
    ) -> Outcome<Vec<Row>> {
        if self.begun.swap(true, Ordering::Relaxed) {
            return Ok(self.answer(1, query).await?);
        }
        self.open.store(true, Ordering::Relaxed);
        let begin = self.client().batch_execute(self.begin);
        let (begun, rows) = self.answer(2, join(begin, query)).await;
        begun?;
        Ok(rows?)
    }

    /// Several statements without parameters in one text: migrations.
    pub(super) async fn run_script(&self, sql: &str) -> Outcome<()> {
        Ok(self.answer(1, self.client().batch_execute(sql)).await?)
    }

    /// Ends the transaction. May travel together with the last statements: when one of them fails, this undoes.
    pub(super) async fn commit(&self) -> Outcome<()> {
        self.end("commit").await
    }

    /// Undoes the transaction and keeps the connection.
    pub(super) async fn roll_back(&self) -> Outcome<()> {
        self.end("rollback").await
    }

    async fn end(&self, how: &str) -> Outcome<()> {
        // Nothing is open: it was ended before, no statement was sent, or each was a transaction of its own.
        if !self.open.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.answer(1, self.client().batch_execute(how)).await?;
        self.open.store(false, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if !self.open.load(Ordering::Relaxed) && self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        // Neither an open transaction nor a statement that nobody waits for any more may go back to the pool. Closing
        // the connection rolls back.
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}
