//! Numbers about runner pools for `/metrics`. What has a total since the pool was made comes from the store, so every server shows the same: take the
//! largest of several servers, not their sum.

use std::sync::atomic::{AtomicU64, Ordering};

use baton_core::pools::{ClaimReason, RunnerState};
use baton_store::{Pool, PoolStats, PoolStock, pool_total};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use crate::metrics::{Book, Label};

/// Why claims are not filled.
const FAILURES: [ClaimReason; 3] = [ClaimReason::WaitOver, ClaimReason::Impossible, ClaimReason::PoolDeleted];

/// What providers are called for.
const PROVIDER_CALLS: [&str; 3] = ["create", "terminate", "list"];

/// Namespace and name of a pool.
pub type PoolLabels = [Label; 2];

/// Everything that is counted about pools.
#[derive(Debug)]
pub struct PoolMetrics {
    runners: Family<[Label; 3], Gauge>,
    min_idle: Family<PoolLabels, Gauge>,
    max_size: Family<PoolLabels, Gauge>,
    claims_waiting: Family<PoolLabels, Gauge>,
    claims_failed: Family<[Label; 3], Counter>,
    provider_failures: Family<PoolLabels, Counter>,
    provider_calls_failed: Family<[Label; 3], Counter>,
    claim_wait_seconds: Family<PoolLabels, Histogram, fn() -> Histogram>,
    hits: Family<[Label; 3], Counter>,
    ended: Family<[Label; 3], Counter>,
    machine_seconds: Family<[Label; 3], Counter<f64, AtomicU64>>,
}

impl PoolMetrics {
    pub(crate) fn register(book: &mut Book<'_>) -> PoolMetrics {
        let metrics = PoolMetrics {
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
            machine_seconds: Family::default(),
        };
        let own = &["namespace", "pool"];
        book.add("pool_runners", &["namespace", "pool", "state"], "Machines of a pool", metrics.runners.clone());
        book.add("pool_min_idle", own, "Machines that are to be idle now", metrics.min_idle.clone());
        book.add("pool_max_size", own, "Most machines that a pool may have", metrics.max_size.clone());
        book.add("pool_claims_waiting", own, "Claims that wait for machines", metrics.claims_waiting.clone());
        let help = "Claims that were not filled, since the pool was made: take the largest of several servers";
        book.add("pool_claims_failed", &["namespace", "pool", "reason"], help, metrics.claims_failed.clone());
        let help = "Orders of machines that the provider refused, since the pool was made: take the largest of several \
                    servers";
        book.add("pool_provider_failures", own, help, metrics.provider_failures.clone());
        let help =
            "Calls of the provider by this server that failed or got no answer in time: `create`, `terminate`, `list`";
        let labels = &["namespace", "pool", "call"];
        book.add("pool_provider_calls_failed", labels, help, metrics.provider_calls_failed.clone());
        let help = "How long claims waited that this server filled";
        book.add("pool_claim_wait_seconds", own, help, metrics.claim_wait_seconds.clone());
        let help = "Machines handed over, `warm` (ordered before their claim was opened) or `cold` (after), since the pool was \
                    made: take the largest of several servers";
        book.add("pool_hits", &["namespace", "pool", "start"], help, metrics.hits.clone());
        let help = "Machines that were ended, since the pool was made: take the largest of several servers";
        book.add("pool_runners_ended", &["namespace", "pool", "cause"], help, metrics.ended.clone());
        let help = "How long machines were `idle` or `used`, as far as that is over, since the pool was made: take the largest \
                    of several servers";
        book.add("pool_machine_seconds", &["namespace", "pool", "use"], help, metrics.machine_seconds.clone());
        metrics
    }

    /// Notes how long a claim waited that was filled.
    pub(crate) fn note_wait(&self, namespace: &str, pool: &str, waited_ms: i64) {
        let labels = [("namespace", namespace.to_owned()), ("pool", pool.to_owned())];
        self.claim_wait_seconds.get_or_create(&labels).observe(waited_ms as f64 / 1_000.0);
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
            self.runners.get_or_create(&labels(pool, ("state", state.as_str()))).set(i64::from(count));
        }
        let own = own_labels(pool);
        self.claims_waiting.get_or_create(&own).set(waiting.len() as i64);
        self.min_idle.get_or_create(&own).set(i64::from(pool.spec.min_idle_at(*now).0));
        self.max_size.get_or_create(&own).set(i64::from(pool.spec.max_size));
    }

    /// Notes a call of the provider that went wrong.
    pub(crate) fn note_failed_call(&self, pool: &Pool, what: &str) {
        self.provider_calls_failed.get_or_create(&labels(pool, ("call", what))).inc();
    }

    /// Notes the sums since a pool was made.
    pub(crate) fn note_totals(&self, pool: &Pool, stats: &PoolStats) {
        // Shown from the start: an alert on a counter that appears with its first failure misses that one.
        for reason in FAILURES {
            let failed = stats.totals.get(&format!("{}{}", pool_total::CLAIMS_ENDED, reason.as_str()));
            count(&self.claims_failed.get_or_create(&labels(pool, ("reason", reason.as_str()))), failed);
        }
        for call in PROVIDER_CALLS {
            drop(self.provider_calls_failed.get_or_create(&labels(pool, ("call", call))));
        }
        count(&self.provider_failures.get_or_create(&own_labels(pool)), stats.totals.get(pool_total::ORDERS_FAILED));
        for (name, sum) in &stats.totals {
            let spent = |what: &str| {
                let seconds = self.machine_seconds.get_or_create(&labels(pool, ("use", what)));
                seconds.inner().store((*sum as f64 / 1_000.0).to_bits(), Ordering::Relaxed);
            };
            let hits = |start: &str| count(&self.hits.get_or_create(&labels(pool, ("start", start))), Some(sum));
            match name.as_str() {
                pool_total::HITS_WARM => hits("warm"),
                pool_total::HITS_COLD => hits("cold"),
                pool_total::IDLE_MS => spent("idle"),
                pool_total::USED_MS => spent("used"),
                other => {
                    if let Some(cause) = other.strip_prefix(pool_total::ENDED) {
                        count(&self.ended.get_or_create(&labels(pool, ("cause", cause))), Some(sum));
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
        self.machine_seconds.clear();
    }
}

/// Has a counter show a sum that the store keeps.
fn count(counter: &Counter, sum: Option<&i64>) {
    let sum = sum.map_or(0, |sum| u64::try_from(*sum).unwrap_or(0));
    counter.inner().store(sum, Ordering::Relaxed);
}

/// The labels of a pool.
pub(crate) fn own_labels(pool: &Pool) -> PoolLabels {
    [("namespace", pool.namespace.clone()), ("pool", pool.name.clone())]
}

fn labels(pool: &Pool, (name, value): (&'static str, &str)) -> [Label; 3] {
    let [namespace, own] = own_labels(pool);
    [namespace, own, (name, value.to_owned())]
}
