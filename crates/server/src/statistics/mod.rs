//! Numbers about queues, workers and pools, as series. docs/adr/0028 has the reasons.
//!
//! Verbs count in memory ([`Counters`]); a pass of the loop `statistics` looks how deep queues are, writes down each minute that is
//! over, and puts old blocks together. `service/statistics.rs` reads: what is in memory and what is written, each number once.

mod counters;
mod depths;
mod rollup;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_core::Millis;
use baton_core::pools::RunnerState;
use baton_core::statistics::{Block, Measure, Resolution, STEP};
use baton_store::{NewStatistics, PoolStock, StatisticsFilter, Store, StoreResult, StoredStatistics};
use bytes::Bytes;
use prometheus_client::metrics::counter::Counter;

pub(crate) use self::counters::Counters;

use self::counters::Sealed;
use self::depths::Depths;
use crate::entropy::Entropy;
use crate::lanes::Lanes;
use crate::metrics::{Book, Metrics};

/// Queues and pools that a block tells apart; the others of a namespace are told together.
pub(crate) const SUBJECTS_SHOWN_MAX: usize = 100;
/// Most blocks in one read: a month of a day each, two days of an hour each and three hours of a minute each of a hundred
/// servers, before they are put together.
const BLOCKS_MAX: usize = 20_000;
/// How long a server that stops tries to write its last minute.
const STOP: Duration = Duration::from_secs(2);
/// Pause between two tries of it.
const STOP_PAUSE: Duration = Duration::from_millis(100);

/// What is counted of statistics themselves.
#[derive(Debug, Default)]
pub struct StatisticsMetrics {
    pub(crate) written: Counter,
    pub(crate) bytes: Counter,
    pub(crate) failed: Counter,
    pub(crate) lost: Counter<u64, AtomicU64>,
    pub(crate) merged: Counter,
    pub(crate) looks: Counter,
}

impl StatisticsMetrics {
    pub(crate) fn register(book: &mut Book<'_>) -> StatisticsMetrics {
        let metrics = StatisticsMetrics::default();
        let help = "Blocks of statistics that were written: one a minute";
        book.add("statistics_blocks_written", &[], help, metrics.written.clone());
        book.add("statistics_bytes_written", &[], "Bytes of these blocks", metrics.bytes.clone());
        let help = "Writes of statistics that failed; a block is kept in memory and written later";
        book.add("statistics_write_failures", &[], help, metrics.failed.clone());
        let help = "Blocks that were lost because the store could not be written for two hours";
        book.add("statistics_blocks_lost", &[], help, metrics.lost.clone());
        let help = "Blocks of statistics that were put together because they are old";
        book.add("statistics_blocks_merged", &[], help, metrics.merged.clone());
        let help = "Looks at how much there is, for statistics";
        book.add("statistics_looks", &[], help, metrics.looks.clone());
        metrics
    }
}

/// Runners by state, and claims that wait.
type PoolLevels = Vec<(Measure, u64)>;

/// Blocks that were read, from the store and from memory.
#[derive(Debug)]
pub(crate) struct Blocks {
    stored: Vec<StoredStatistics>,
    own: BTreeMap<i64, Arc<Sealed>>,
}

impl Blocks {
    /// Has `look` see one after the other: all together take much room.
    pub(crate) fn each(&self, mut look: impl FnMut(&Block)) {
        for stored in &self.stored {
            match Block::decode(&stored.body) {
                Ok(block) => look(&block),
                Err(error) => tracing::warn!(number = stored.number, %error, "a block of statistics is left out"),
            }
        }
        self.own.values().for_each(|sealed| look(&sealed.block));
    }
}

/// The statistics of this server.
#[derive(Debug)]
pub struct Statistics {
    store: Arc<dyn Store>,
    lanes: Arc<Lanes>,
    metrics: Arc<Metrics>,
    /// The name of this start of the server: no other ever has it.
    server: String,
    depths: tokio::sync::Mutex<Depths>,
    /// What the keeper of pools saw last, by namespace and name.
    pools: Mutex<BTreeMap<(String, String), PoolLevels>>,
    /// When somebody asked last.
    asked: Mutex<Option<Instant>>,
    /// Held while blocks are written: they go in their order.
    writing: tokio::sync::Mutex<()>,
}

impl Statistics {
    /// Begins to count.
    pub async fn start(
        store: Arc<dyn Store>,
        lanes: Arc<Lanes>,
        metrics: Arc<Metrics>,
        entropy: &dyn Entropy,
    ) -> StoreResult<Statistics> {
        static SERVERS: AtomicU64 = AtomicU64::new(0);
        let number = SERVERS.fetch_add(1, Ordering::Relaxed);
        let server = format!("{:016x}-{}-{number}", entropy.bits(), std::process::id());
        let now = store.now().await?;
        metrics.series.begin(lanes.clone(), store.clock().clone(), store.is_shared(), now);
        Ok(Statistics {
            store,
            lanes,
            metrics,
            server,
            depths: tokio::sync::Mutex::default(),
            pools: Mutex::default(),
            asked: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
        })
    }

    /// The time on the store's clock, as far as it is known here.
    pub(crate) fn now(&self) -> Millis {
        self.metrics.series.now()
    }

    /// Notes what a pool has.
    pub(crate) fn note_pool(&self, seen: &PoolStock) {
        let PoolStock { pool, stock, waiting, .. } = seen;
        let levels = [
            (RunnerState::Creating, stock.creating),
            (RunnerState::Idle, stock.idle.len() as u32),
            (RunnerState::Claimed, stock.claimed),
            (RunnerState::Running, stock.running),
            (RunnerState::Releasing, stock.releasing),
            (RunnerState::Terminating, stock.terminating),
        ];
        let runners = levels.into_iter().filter_map(|(state, count)| Some((measure_of(state)?, u64::from(count))));
        let levels = runners.chain([(Measure::ClaimsWaiting, waiting.len() as u64)]).collect();
        let mut pools = self.pools.lock().expect("nobody panics while holding it");
        pools.insert((pool.namespace.clone(), pool.name.clone()), levels);
    }

    /// Forgets pools that are no more.
    pub(crate) fn keep_pools(&self, is_there: impl Fn(&str, &str) -> bool) {
        let mut pools = self.pools.lock().expect("nobody panics while holding it");
        pools.retain(|(namespace, name), _| is_there(namespace, name));
    }

    /// One pass: looks if it is time to, and writes minutes that are over. Returns how many.
    pub async fn pass(&self) -> StoreResult<usize> {
        self.metrics.series.tick();
        let looked = self.look().await;
        let written = self.write().await;
        looked.and(written)
    }

    /// Writes down minutes that are over, oldest first. Each stays in memory until the store says that it has it.
    async fn write(&self) -> StoreResult<usize> {
        let _in_order = self.writing.lock().await;
        let (counters, own) = (&self.metrics.series, &self.metrics.statistics);
        own.lost.inner().store(counters.lost(), Ordering::Relaxed);
        let mut written = 0;
        while let Some(sealed) = counters.next() {
            // Tried again it is the same, so it does not matter which of two tries came through.
            let mut block = sealed.block.clone();
            block.fold(SUBJECTS_SHOWN_MAX);
            let body = Bytes::from(block.encode());
            let bytes = body.len() as u64;
            let new = NewStatistics { at: sealed.at, step_ms: STEP, body };
            let now = self.store.write_statistics(&self.server, sealed.seq, new).await;
            let now = now.inspect_err(|_| {
                own.failed.inc();
            })?;
            counters.note_time(now);
            counters.written(sealed.seq);
            own.written.inc();
            own.bytes.inc_by(bytes);
            written += 1;
        }
        Ok(written)
    }

    /// The server stops: writes the minute that is being filled, too.
    pub(crate) async fn stop(&self) {
        self.metrics.series.close();
        let begun = Instant::now();
        while let Err(error) = self.write().await {
            if begun.elapsed() >= STOP {
                tracing::warn!(%error, "the last minute of statistics could not be written");
                return;
            }
            tokio::time::sleep(STOP_PAUSE).await;
        }
    }

    /// All blocks with something of this stretch that are fine enough, each number once.
    pub(crate) async fn read(&self, from: Millis, until: Millis, resolution: Resolution) -> StoreResult<Blocks> {
        *self.asked.lock().expect("nobody panics while holding it") = Some(Instant::now());
        // Before the store is asked: what was written by then is there, and what was not is here. What is written in
        // between is in both places, and known by its number.
        let mut own = counters::by_seq(self.metrics.series.unwritten());
        let filter = StatisticsFilter {
            from: baton_core::statistics::floor(from, resolution.block_ms()),
            before: until,
            step_ms_max: resolution.step_ms(),
        };
        let stored = self.store.statistics(filter, BLOCKS_MAX).await?;
        if stored.len() >= BLOCKS_MAX {
            tracing::warn!("there are more blocks of statistics than are read at once; the newest are left out");
        }
        for block in stored.iter().filter(|block| block.server == self.server) {
            own.remove(&block.seq);
        }
        Ok(Blocks { stored, own })
    }

    /// True when somebody has asked for statistics within so much time.
    fn was_asked_within(&self, span: Duration) -> bool {
        let asked = *self.asked.lock().expect("nobody panics while holding it");
        asked.is_some_and(|at| at.elapsed() < span)
    }
}

/// The number that runners in this state are counted in.
fn measure_of(state: RunnerState) -> Option<Measure> {
    Some(match state {
        RunnerState::Creating => Measure::RunnersCreating,
        RunnerState::Idle => Measure::RunnersIdle,
        RunnerState::Claimed => Measure::RunnersClaimed,
        RunnerState::Running => Measure::RunnersRunning,
        RunnerState::Releasing => Measure::RunnersReleasing,
        RunnerState::Terminating => Measure::RunnersTerminating,
        RunnerState::Gone => return None,
    })
}
