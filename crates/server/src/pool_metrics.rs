//! Numbers about runner pools for `/metrics`. What has a total since the pool was made comes from the store, so every server shows the same: take the
//! largest of several servers, not their sum.

use std::sync::atomic::AtomicU64;

use baton_core::pools::RunnerState;
use baton_core::pools::keeper::Stock;
use baton_store::{Pool, PoolStats, pool_total};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Labels of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PoolLabels {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pool: String,
}

/// Labels of one of several numbers about a pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PoolWhatLabels {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pool: String,
    /// Which number: a state, a cause, `warm` or `cold`, `idle` or `used`.
    pub what: String,
}

/// Everything that is counted about pools.
#[derive(Debug)]
#[allow(missing_docs, reason = "each is named as its metric, whose help text is below")]
pub struct PoolMetrics {
    pub runners: Family<PoolWhatLabels, Gauge>,
    pub claims_waiting: Family<PoolLabels, Gauge>,
    pub claim_wait_seconds: Family<PoolLabels, Histogram, fn() -> Histogram>,
    pub hits: Family<PoolWhatLabels, Gauge>,
    pub ended: Family<PoolWhatLabels, Gauge>,
    pub machine_minutes: Family<PoolWhatLabels, Gauge<f64, AtomicU64>>,
}

impl Default for PoolMetrics {
    fn default() -> PoolMetrics {
        PoolMetrics {
            runners: Family::default(),
            claims_waiting: Family::default(),
            claim_wait_seconds: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.01, 2.0, 18))),
            hits: Family::default(),
            ended: Family::default(),
            machine_minutes: Family::default(),
        }
    }
}

impl PoolMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("pool_runners", "Runners of a pool by state", self.runners.clone());
        registry.register("pool_claims_waiting", "Claims that wait for runners", self.claims_waiting.clone());
        let wait = "How long claims waited that this server filled";
        registry.register("pool_claim_wait_seconds", wait, self.claim_wait_seconds.clone());
        registry.register("pool_hits", "Runners handed over: warm, or created for their claim", self.hits.clone());
        registry.register("pool_runners_ended", "Runners that were ended, by cause", self.ended.clone());
        let minutes = "How long machines were idle, and used";
        registry.register("pool_machine_minutes", minutes, self.machine_minutes.clone());
    }

    /// Notes what a pool has.
    pub(crate) fn note_stock(&self, pool: &Pool, stock: &Stock, waiting: usize) {
        let counts = [
            (RunnerState::Creating, stock.creating),
            (RunnerState::Idle, stock.idle.len() as u32),
            (RunnerState::Claimed, stock.claimed),
            (RunnerState::Running, stock.running),
            (RunnerState::Releasing, stock.releasing),
            (RunnerState::Terminating, stock.terminating),
        ];
        for (state, count) in counts {
            self.runners.get_or_create(&labels(pool, state.as_str())).set(i64::from(count));
        }
        let own = PoolLabels { namespace: pool.namespace.clone(), pool: pool.name.clone() };
        self.claims_waiting.get_or_create(&own).set(waiting as i64);
    }

    /// Notes the sums since a pool was made.
    pub(crate) fn note_totals(&self, pool: &Pool, stats: &PoolStats) {
        for (name, sum) in &stats.totals {
            let minutes = *sum as f64 / 60_000.0;
            let whole = |family: &Family<PoolWhatLabels, Gauge>, what: &str| {
                family.get_or_create(&labels(pool, what)).set(*sum);
            };
            let spent = |what: &str| {
                self.machine_minutes.get_or_create(&labels(pool, what)).set(minutes);
            };
            match name.as_str() {
                pool_total::HITS_WARM => whole(&self.hits, "warm"),
                pool_total::HITS_COLD => whole(&self.hits, "cold"),
                pool_total::IDLE_MS => spent("idle"),
                pool_total::USED_MS => spent("used"),
                other => {
                    if let Some(cause) = other.strip_prefix(pool_total::ENDED) {
                        whole(&self.ended, cause);
                    }
                }
            }
        }
    }

    /// Forgets all pools: those that are still there are noted again.
    pub(crate) fn forget(&self) {
        self.runners.clear();
        self.claims_waiting.clear();
        self.hits.clear();
        self.ended.clear();
        self.machine_minutes.clear();
    }
}

fn labels(pool: &Pool, what: &str) -> PoolWhatLabels {
    PoolWhatLabels { namespace: pool.namespace.clone(), pool: pool.name.clone(), what: what.to_owned() }
}
