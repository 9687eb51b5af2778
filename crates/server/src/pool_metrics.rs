//! Numbers about runner pools for `/metrics`. What has a total since the pool was made comes from the store, so every server shows the same: take the
//! largest of several servers, not their sum.

use std::sync::atomic::{AtomicU64, Ordering};

use baton_core::pools::{ClaimReason, RunnerState};
use baton_store::{Pool, PoolStats, PoolStock, pool_total};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Why claims are not filled.
const FAILURES: [ClaimReason; 3] = [ClaimReason::WaitOver, ClaimReason::Impossible, ClaimReason::PoolDeleted];

/// What providers are called for.
const PROVIDER_CALLS: [&str; 3] = ["create", "terminate", "list"];

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
    /// Which number: a state, a cause, a reason, a call, `warm` or `cold`, `idle` or `used`.
    pub what: String,
}

/// Everything that is counted about pools.
#[derive(Debug)]
#[allow(missing_docs, reason = "each is named as its metric, whose help text is below")]
pub struct PoolMetrics {
    pub runners: Family<PoolWhatLabels, Gauge>,
    pub min_idle: Family<PoolLabels, Gauge>,
    pub max_size: Family<PoolLabels, Gauge>,
    pub claims_waiting: Family<PoolLabels, Gauge>,
    pub claims_failed: Family<PoolWhatLabels, Counter>,
    pub provider_failures: Family<PoolLabels, Counter>,
    pub provider_calls_failed: Family<PoolWhatLabels, Counter>,
    pub claim_wait_seconds: Family<PoolLabels, Histogram, fn() -> Histogram>,
    pub hits: Family<PoolWhatLabels, Gauge>,
    pub ended: Family<PoolWhatLabels, Gauge>,
    pub machine_minutes: Family<PoolWhatLabels, Gauge<f64, AtomicU64>>,
}

impl Default for PoolMetrics {
    fn default() -> PoolMetrics {
        PoolMetrics {
            runners: Family::default(),
            min_idle: Family::default(),
            max_size: Family::default(),
            claims_waiting: Family::default(),
            claims_failed: Family::default(),
            provider_failures: Family::default(),
            provider_calls_failed: Family::default(),
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
        registry.register("pool_min_idle", "Runners that are to be idle now", self.min_idle.clone());
        registry.register("pool_max_size", "Most runners that a pool may have", self.max_size.clone());
        let failed = "Claims that were not filled, by reason";
        registry.register("pool_claims_failed", failed, self.claims_failed.clone());
        let refused = "Orders of machines that the provider refused";
        registry.register("pool_provider_failures", refused, self.provider_failures.clone());
        let failed = "Calls of the provider by this server that failed or got no answer in time, by call";
        registry.register("pool_provider_calls_failed", failed, self.provider_calls_failed.clone());
        registry.register("pool_claims_waiting", "Claims that wait for runners", self.claims_waiting.clone());
        let wait = "How long claims waited that this server filled";
        registry.register("pool_claim_wait_seconds", wait, self.claim_wait_seconds.clone());
        registry.register("pool_hits", "Runners handed over: warm, or created for their claim", self.hits.clone());
        registry.register("pool_runners_ended", "Runners that were ended, by cause", self.ended.clone());
        let minutes = "How long machines were idle, and used";
        registry.register("pool_machine_minutes", minutes, self.machine_minutes.clone());
    }

    /// Notes what a pool has.
    pub(crate) fn note_stock(&self, seen: &PoolStock) {
        let PoolStock { pool, stock, waiting, now } = seen;
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
        let own = own_labels(pool);
        self.claims_waiting.get_or_create(&own).set(waiting.len() as i64);
        self.min_idle.get_or_create(&own).set(i64::from(pool.spec.min_idle_at(*now).0));
        self.max_size.get_or_create(&own).set(i64::from(pool.spec.max_size));
    }

    /// Notes a call of the provider that went wrong.
    pub(crate) fn note_failed_call(&self, pool: &Pool, what: &str) {
        self.provider_calls_failed.get_or_create(&labels(pool, what)).inc();
    }

    /// Notes the sums since a pool was made.
    pub(crate) fn note_totals(&self, pool: &Pool, stats: &PoolStats) {
        // Shown from the start: an alert on a counter that appears with its first failure misses that one.
        for reason in FAILURES {
            let failed = stats.totals.get(&format!("{}{}", pool_total::CLAIMS_ENDED, reason.as_str()));
            count(&self.claims_failed.get_or_create(&labels(pool, reason.as_str())), failed);
        }
        for call in PROVIDER_CALLS {
            drop(self.provider_calls_failed.get_or_create(&labels(pool, call)));
        }
        count(&self.provider_failures.get_or_create(&own_labels(pool)), stats.totals.get(pool_total::ORDERS_FAILED));
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

    /// Forgets all pools because these are no more: what is known of the others is noted again.
    pub(crate) fn forget<'a>(&self, gone: impl IntoIterator<Item = &'a PoolLabels>) {
        // Nothing but this server knows how long claims waited, so what others have stays.
        for pool in gone {
            self.claim_wait_seconds.remove(pool);
        }
        self.runners.clear();
        self.min_idle.clear();
        self.max_size.clear();
        self.claims_waiting.clear();
        self.claims_failed.clear();
        self.provider_failures.clear();
        self.provider_calls_failed.clear();
        self.hits.clear();
        self.ended.clear();
        self.machine_minutes.clear();
    }
}

/// Has a counter show a sum that the store keeps.
fn count(counter: &Counter, sum: Option<&i64>) {
    let sum = sum.map_or(0, |sum| u64::try_from(*sum).unwrap_or(0));
    counter.inner().store(sum, Ordering::Relaxed);
}

/// The labels of a pool.
pub(crate) fn own_labels(pool: &Pool) -> PoolLabels {
    PoolLabels { namespace: pool.namespace.clone(), pool: pool.name.clone() }
}

fn labels(pool: &Pool, what: &str) -> PoolWhatLabels {
    PoolWhatLabels { namespace: pool.namespace.clone(), pool: pool.name.clone(), what: what.to_owned() }
}
