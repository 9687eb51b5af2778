//! Counters for `/metrics`. The name of a verb is the name of its metric: `baton_complete_total`.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::pool_metrics::PoolMetrics;

/// Labels of an HTTP request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// GET, POST, ...
    pub method: &'static str,
    /// The route, not the path: few of them.
    pub route: String,
    /// The status.
    pub status: u16,
}

/// Labels of a gRPC call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CallLabels {
    /// The method: one of those there are, or `none`.
    pub method: String,
    /// The code, as in google.rpc.Code.
    pub code: &'static str,
}

/// Labels of a loop.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct LoopLabels {
    /// Its name.
    pub name: &'static str,
}

/// Labels of the server's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TlsLabels {
    /// `self-signed` or `files`.
    pub source: &'static str,
}

/// A verb: how often it was called, and on how many runs.
#[derive(Debug, Default)]
pub struct Verb {
    /// Calls to the store: a batch is one.
    pub calls: Counter,
    /// Runs it was carried out on.
    pub runs: Counter,
}

/// Everything that is counted.
#[derive(Debug)]
#[allow(missing_docs, reason = "each is named as its metric, whose help text is below")]
pub struct Metrics {
    registry: Registry,
    pub submit: Verb,
    pub claim: Verb,
    pub start: Verb,
    pub complete: Verb,
    pub fail: Verb,
    pub give_back: Verb,
    pub sleep: Verb,
    pub cancel: Verb,
    pub expire: Verb,
    pub renew: Verb,
    pub write_steps: Verb,
    pub suspend: Verb,
    pub message: Verb,
    pub fires: Counter,
    pub workers_lost: Counter,
    pub lease_refusals: Counter,
    pub credential_refusals: Counter,
    /// Lines of the audit log that are in the store only, because its sink did not take them.
    pub audit_sink_failures: Counter,
    pub requests: Family<RequestLabels, Counter>,
    pub request_seconds: Histogram,
    pub calls: Family<CallLabels, Counter>,
    pub call_seconds: Histogram,
    pub streams: Gauge,
    pub connections: Gauge,
    pub connections_refused: Counter,
    pub tls_handshakes_failed: Counter,
    /// Not there without TLS.
    pub tls_certificate_expiry: Family<TlsLabels, Gauge>,
    pub tls_reload_failed: Family<TlsLabels, Gauge>,
    pub polls_waiting: Gauge,
    /// Builds that have been silent for long.
    pub builds_stuck: Gauge,
    pub pools: PoolMetrics,
    pub store_statements: Gauge<u64, AtomicU64>,
    pub loop_passes: Family<LoopLabels, Counter>,
    pub loop_failures: Family<LoopLabels, Counter>,
    pub loop_panics: Family<LoopLabels, Counter>,
    pub loop_seconds: Family<LoopLabels, Gauge<f64, AtomicU64>>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("baton"),
            submit: Verb::default(),
            claim: Verb::default(),
            start: Verb::default(),
            complete: Verb::default(),
            fail: Verb::default(),
            give_back: Verb::default(),
            sleep: Verb::default(),
            cancel: Verb::default(),
            expire: Verb::default(),
            renew: Verb::default(),
            write_steps: Verb::default(),
            suspend: Verb::default(),
            message: Verb::default(),
            fires: Counter::default(),
            workers_lost: Counter::default(),
            lease_refusals: Counter::default(),
            credential_refusals: Counter::default(),
            audit_sink_failures: Counter::default(),
            requests: Family::default(),
            request_seconds: Histogram::new(exponential_buckets(0.000_1, 2.0, 18)),
            calls: Family::default(),
            call_seconds: Histogram::new(exponential_buckets(0.000_1, 2.0, 18)),
            streams: Gauge::default(),
            connections: Gauge::default(),
            connections_refused: Counter::default(),
            tls_handshakes_failed: Counter::default(),
            tls_certificate_expiry: Family::default(),
            tls_reload_failed: Family::default(),
            polls_waiting: Gauge::default(),
            builds_stuck: Gauge::default(),
            pools: PoolMetrics::default(),
            store_statements: Gauge::default(),
            loop_passes: Family::default(),
            loop_failures: Family::default(),
            loop_panics: Family::default(),
            loop_seconds: Family::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let verbs = [
            ("submit", &self.submit),
            ("claim", &self.claim),
            ("start", &self.start),
            ("complete", &self.complete),
            ("fail", &self.fail),
            ("give_back", &self.give_back),
            ("sleep", &self.sleep),
            ("cancel", &self.cancel),
            ("expire", &self.expire),
            ("renew", &self.renew),
            ("write_steps", &self.write_steps),
            ("suspend", &self.suspend),
            ("message", &self.message),
        ];
        let registry = &mut self.registry;
        for (name, verb) in verbs {
            registry.register(
                name,
                format!("Runs (or workers, for renew) on which {name} was carried out"),
                verb.runs.clone(),
            );
            registry.register(format!("{name}_calls"), format!("Calls of {name} to the store"), verb.calls.clone());
        }
        registry.register("fires", "Runs that schedules have started", self.fires.clone());
        registry.register("workers_lost", "Workers that fell silent", self.workers_lost.clone());
        registry.register(
            "lease_refusals",
            "Writes refused because their lease was stale",
            self.lease_refusals.clone(),
        );
        registry.register("credential_refusals", "Requests with a bad credential", self.credential_refusals.clone());
        let help = "Lines of the audit log that its sink did not take";
        registry.register("audit_sink_failures", help, self.audit_sink_failures.clone());
        registry.register("http_requests", "HTTP requests by method, route and status", self.requests.clone());
        registry.register(
            "http_request_seconds",
            "Time to answer, waiting claims left out",
            self.request_seconds.clone(),
        );
        registry.register("grpc_calls", "gRPC calls by method and code", self.calls.clone());
        registry.register(
            "grpc_call_seconds",
            "Time to answer, waiting calls and streams left out",
            self.call_seconds.clone(),
        );
        registry.register("grpc_streams", "Open streams of workers", self.streams.clone());
        registry.register("connections", "Open connections", self.connections.clone());
        registry.register(
            "connections_refused",
            "Connections for which there was no room, with none idle",
            self.connections_refused.clone(),
        );
        let help = "TLS handshakes that came to nothing";
        registry.register("tls_handshakes_failed", help, self.tls_handshakes_failed.clone());
        registry.register(
            "tls_certificate_expiry_timestamp_seconds",
            "When the time of the server's certificate is over",
            self.tls_certificate_expiry.clone(),
        );
        registry.register(
            "tls_reload_failed",
            "1 while the TLS files have changed and cannot be used; the certificate from before is shown",
            self.tls_reload_failed.clone(),
        );
        registry.register("polls_waiting", "Claims that wait for work", self.polls_waiting.clone());
        registry.register("builds_stuck", "Builds that have been silent for long", self.builds_stuck.clone());
        self.pools.register(registry);
        registry.register(
            "store_statements",
            "Statements sent to the store since the start",
            self.store_statements.clone(),
        );
        registry.register("loop_passes", "Passes of a background loop", self.loop_passes.clone());
        registry.register("loop_failures", "Passes that failed", self.loop_failures.clone());
        registry.register("loop_panics", "Passes that panicked and were begun anew", self.loop_panics.clone());
        registry.register("loop_last_seconds", "How long the last pass took", self.loop_seconds.clone());
    }

    /// The text that Prometheus reads.
    pub fn text(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).expect("writing to a string works");
        text
    }
}
