//! What `/metrics` shows. Each metric is registered together with what docs/metrics.md says of it;
//! a test compares the two.

use std::sync::atomic::{AtomicU64, Ordering};

use baton_core::LeaseEnd;
use baton_core::bulk::Tally;
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

use crate::pool_metrics::PoolMetrics;
use crate::process_metrics::{self, Process};
use crate::queue_metrics::QueueMetrics;
use crate::statistics::{Counters, StatisticsMetrics};
use crate::verb_metrics::Verb;

/// A label and its value. Values that clients make up never become one.
pub(crate) type Label = (&'static str, String);

/// Upper bounds of what is timed, in seconds.
const SECONDS: [f64; 14] =
    [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// A histogram of how long something of the server took.
pub(crate) fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

type Seconds<const N: usize> = Family<[Label; N], Histogram, fn() -> Histogram>;

/// Labels of requests, which are looked up with each of them: no text is copied for it but the
/// route's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    route: String,
}

/// What is said of a metric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Described {
    /// Its name. `<verb>` in it stands for each of the verbs.
    pub name: String,
    /// counter, gauge, histogram or info.
    pub kind: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it counts.
    pub help: &'static str,
}

/// Registers metrics, and keeps what is said of them.
pub(crate) struct Book<'a> {
    registry: &'a mut Registry,
    described: &'a mut Vec<Described>,
}

impl Book<'_> {
    pub(crate) fn add(&mut self, name: &str, labels: &'static [&'static str], help: &'static str, metric: impl Metric) {
        self.described.push(described(name, labels, help, &metric));
        self.registry.register(name, help, metric);
    }

    /// The same of each verb: said once.
    pub(crate) fn add_of_verb(
        &mut self,
        verb: &str,
        suffix: &'static str,
        labels: &'static [&'static str],
        metric: impl Metric,
    ) {
        let help = match suffix {
            "" => {
                "Runs on which the verb was carried out (workers for `renew`, positions for `write_steps`). \
                 What was refused, or had been done before, is not counted"
            }
            "_calls" => "Calls of the verb to the store; many runs may share one",
            "_refused" => "Runs or calls that were refused, by the code of the error",
            _ => {
                "How long the verb took, batching and the store included. For `claim` and `renew`, which may wait for \
                 something, only the part that is no waiting"
            }
        };
        let all = described(&format!("<verb>{suffix}"), labels, help, &metric);
        if !self.described.contains(&all) {
            self.described.push(all);
        }
        self.registry.register(format!("{verb}{suffix}"), format!("{verb}: {help}"), metric);
    }
}

fn described(name: &str, labels: &'static [&'static str], help: &'static str, metric: &impl EncodeMetric) -> Described {
    let (kind, suffix) = match metric.metric_type() {
        MetricType::Counter => ("counter", "_total"),
        MetricType::Gauge => ("gauge", ""),
        MetricType::Histogram => ("histogram", ""),
        MetricType::Info => ("info", "_info"),
        MetricType::Unknown => ("unknown", ""),
    };
    Described { name: format!("baton_{name}{suffix}"), kind, labels, help }
}

/// Everything that is counted.
#[derive(Debug)]
#[allow(missing_docs, reason = "each is named as its metric, whose help text is below")]
pub struct Metrics {
    registry: Registry,
    described: Vec<Described>,
    pub submit: Verb,
    pub claim: Verb,
    pub start: Verb,
    pub renew: Verb,
    pub complete: Verb,
    pub fail: Verb,
    pub give_back: Verb,
    pub sleep: Verb,
    pub cancel: Verb,
    pub expire: Verb,
    pub retry: Verb,
    pub write_steps: Verb,
    pub suspend: Verb,
    pub message: Verb,
    pub queues: QueueMetrics,
    /// What becomes of statistics, which `/metrics` does not show.
    pub series: Counters,
    pub statistics: StatisticsMetrics,
    pub fires: Counter,
    bulk_operations: Family<[Label; 2], Counter>,
    bulk_runs: Family<[Label; 2], Counter>,
    pub workers: Family<[Label; 1], Gauge>,
    pub workers_lost: Counter,
    leases_lost: Family<[Label; 1], Counter>,
    pub lease_refusals: Counter,
    /// Those of them that are not on record because too many came at once.
    pub lease_refusals_dropped: Counter,
    pub credential_refusals: Counter,
    /// Lines of the audit log that are in the store only, because its sink did not take them.
    pub audit_sink_failures: Counter,
    log_lines_dropped: Counter,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Family<RouteLabels, Histogram, fn() -> Histogram>,
    calls: Family<[Label; 2], Counter>,
    call_seconds: Seconds<1>,
    pub streams: Gauge,
    pub connections: Gauge,
    pub connections_refused: Counter,
    pub tls_handshakes_failed: Counter,
    /// Not there without TLS.
    pub tls_certificate_expiry: Family<[Label; 1], Gauge>,
    pub tls_reload_failed: Family<[Label; 1], Gauge>,
    pub polls_waiting: Gauge,
    /// Builds that have been silent for long.
    pub builds_stuck: Gauge,
    pub pools: PoolMetrics,
    pub event_listeners: Gauge,
    pub events_written: Counter,
    pub events_lost: Counter,
    pub events_missed: Counter,
    pub webhook_attempts: Family<[Label; 1], Counter>,
    pub webhook_attempt_seconds: Histogram,
    pub webhook_backlog: Gauge,
    pub webhook_dead: Gauge,
    pub webhook_missed: Counter,
    store_statements: Counter,
    spans_sent: Counter,
    spans_dropped: Counter,
    span_retries: Counter,
    spans_queued: Gauge,
    pub store_connections: Family<[Label; 1], Gauge>,
    pub store_connections_max: Gauge,
    pub store_connections_waiting: Gauge,
    loop_passes: Family<[Label; 1], Counter>,
    loop_failures: Family<[Label; 1], Counter>,
    loop_panics: Family<[Label; 1], Counter>,
    loop_seconds: Family<[Label; 1], Gauge<f64, AtomicU64>>,
}

/// What became of a pass of a background loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passed {
    /// It was carried out.
    Well,
    /// It failed, or took too long.
    Failed,
    /// It panicked.
    Panicked,
}

/// Why submits are refused when nothing is wrong with them.
const SUBMIT_REFUSALS: [&str; 6] =
    ["queue_full", "namespace_limit", "overloaded", "disk_full", "unavailable", "internal"];

impl Metrics {
    /// All at zero, for a server on this kind of store.
    pub fn new(store: &'static str) -> Metrics {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Process::default()));
        let mut described = process_metrics::described();
        let mut book = Book { registry: registry.sub_registry_with_prefix("baton"), described: &mut described };
        let build = Info::new([("version", env!("CARGO_PKG_VERSION")), ("store", store)]);
        book.add("build", &["version", "store"], "The version of Baton, and the kind of its store; always 1", build);
        let store_seconds: Seconds<1> = Family::new_with_constructor(seconds);
        let help = "How long calls of a verb to the store took";
        book.add("store_call_duration_seconds", &["verb"], help, store_seconds.clone());
        let mut verb = |name: &'static str| {
            Verb::register(name, store_seconds.get_or_create_owned(&[("verb", name.into())]), &mut book)
        };
        let (submit, claim, start, renew) = (verb("submit"), verb("claim"), verb("start"), verb("renew"));
        submit.may_be_refused(&SUBMIT_REFUSALS);
        let (complete, fail, give_back, sleep) = (verb("complete"), verb("fail"), verb("give_back"), verb("sleep"));
        let (cancel, expire, retry) = (verb("cancel"), verb("expire"), verb("retry"));
        let (write_steps, suspend, message) = (verb("write_steps"), verb("suspend"), verb("message"));
        let queues = QueueMetrics::register(&mut book);
        let pools = PoolMetrics::register(&mut book);
        let statistics = StatisticsMetrics::register(&mut book);
        let metrics = Metrics {
            described: Vec::new(),
            registry: Registry::default(),
            submit,
            claim,
            start,
            renew,
            complete,
            fail,
            give_back,
            sleep,
            cancel,
            expire,
            retry,
            write_steps,
            suspend,
            message,
            queues,
            series: Counters::default(),
            statistics,
            pools,
            fires: Counter::default(),
            bulk_operations: Family::default(),
            bulk_runs: Family::default(),
            workers: Family::default(),
            workers_lost: Counter::default(),
            leases_lost: Family::default(),
            lease_refusals: Counter::default(),
            lease_refusals_dropped: Counter::default(),
            credential_refusals: Counter::default(),
            audit_sink_failures: Counter::default(),
            log_lines_dropped: Counter::default(),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(seconds),
            calls: Family::default(),
            call_seconds: Family::new_with_constructor(seconds),
            streams: Gauge::default(),
            connections: Gauge::default(),
            connections_refused: Counter::default(),
            tls_handshakes_failed: Counter::default(),
            tls_certificate_expiry: Family::default(),
            tls_reload_failed: Family::default(),
            polls_waiting: Gauge::default(),
            builds_stuck: Gauge::default(),
            event_listeners: Gauge::default(),
            events_written: Counter::default(),
            events_lost: Counter::default(),
            events_missed: Counter::default(),
            webhook_attempts: Family::default(),
            webhook_attempt_seconds: seconds(),
            webhook_backlog: Gauge::default(),
            webhook_dead: Gauge::default(),
            webhook_missed: Counter::default(),
            store_statements: Counter::default(),
            spans_sent: Counter::default(),
            spans_dropped: Counter::default(),
            span_retries: Counter::default(),
            spans_queued: Gauge::default(),
            store_connections: Family::default(),
            store_connections_max: Gauge::default(),
            store_connections_waiting: Gauge::default(),
            loop_passes: Family::default(),
            loop_failures: Family::default(),
            loop_panics: Family::default(),
            loop_seconds: Family::default(),
        };
        metrics.register(&mut book);
        Metrics { registry, described, ..metrics }
    }

    fn register(&self, book: &mut Book<'_>) {
        let help = "Listeners to events at this server, not counting webhooks";
        book.add("event_listeners", &[], help, self.event_listeners.clone());
        let help = "Events that were written because somebody listens";
        book.add("events_written", &[], help, self.events_written.clone());
        let help = "Events that could not be written, of which listeners are told that they are missing";
        book.add("events_lost", &[], help, self.events_lost.clone());
        let help = "Events that listeners were told they missed, because they read too slowly";
        book.add("events_missed", &[], help, self.events_missed.clone());
        let help = "Attempts to deliver events to webhooks: `delivered`, `failed` (tried again), `dead` (the last attempt failed), \
                    `gone` (410), `given_back` (the server stopped) or `stale` (another attempt has begun)";
        book.add("webhook_attempts", &["outcome"], help, self.webhook_attempts.clone());
        let help = "How long attempts to deliver events to webhooks took";
        book.add("webhook_attempt_duration_seconds", &[], help, self.webhook_attempt_seconds.clone());
        let help = "Deliveries that wait, of all active webhooks, as this server last saw them";
        book.add("webhook_backlog", &[], help, self.webhook_backlog.clone());
        let help = "Deliveries of all webhooks that were given up and can be replayed; counted once a minute";
        book.add("webhook_dead", &[], help, self.webhook_dead.clone());
        let help = "Events that webhooks missed because so many deliveries waited";
        book.add("webhook_missed", &[], help, self.webhook_missed.clone());
        book.add("fires", &[], "Runs that schedules have started", self.fires.clone());
        let help = "Bulk operations by what became of them: `started`, `completed`, `stopped` or `failed`";
        book.add("bulk_operations", &["action", "outcome"], help, self.bulk_operations.clone());
        let help = "Runs that bulk operations came to: `done`, `skipped` or `failed`";
        book.add("bulk_runs", &["action", "outcome"], help, self.bulk_runs.clone());
        let help = "Registered workers: `online`, `draining` or `offline`";
        book.add("workers", &["status"], help, self.workers.clone());
        book.add("workers_lost", &[], "Workers that fell silent", self.workers_lost.clone());
        let help = "Leases that were taken back: `lost` (the worker fell silent), `timed_out` or `cancelled`";
        book.add("leases_lost", &["reason"], help, self.leases_lost.clone());
        let help = "Writes refused because their lease was no longer good: zombies";
        book.add("lease_refusals", &[], help, self.lease_refusals.clone());
        let help = "Refused writes that custody does not show because too many came at once";
        book.add("lease_refusals_dropped", &[], help, self.lease_refusals_dropped.clone());
        book.add("credential_refusals", &[], "Requests with a bad credential", self.credential_refusals.clone());
        let help = "Lines of the audit log that its sink did not take";
        book.add("audit_sink_failures", &[], help, self.audit_sink_failures.clone());
        let help = "Lines of the log that were dropped because nobody read them as fast as they came";
        book.add("log_lines_dropped", &[], help, self.log_lines_dropped.clone());
        self.register_faces(book);
        let help = "Claims that wait for work";
        book.add("polls_waiting", &[], help, self.polls_waiting.clone());
        book.add("builds_stuck", &[], "Builds that have been silent for long", self.builds_stuck.clone());
        let help = "Statements sent to the store";
        book.add("store_statements", &[], help, self.store_statements.clone());
        let help = "Spans that the collector of traces took";
        book.add("spans_sent", &[], help, self.spans_sent.clone());
        let help = "Spans that were lost: the queue was full, or the collector did not take them in a minute";
        book.add("spans_dropped", &[], help, self.spans_dropped.clone());
        let help = "Calls of the collector of traces that failed and were made again";
        book.add("span_retries", &[], help, self.span_retries.clone());
        book.add("spans_queued", &[], "Spans that wait to be sent", self.spans_queued.clone());
        let help = "Connections to PostgreSQL that are `in_use` or `idle`; not there with SQLite";
        book.add("store_connections", &["state"], help, self.store_connections.clone());
        let help = "Most connections to PostgreSQL that this server opens; 0 with SQLite";
        book.add("store_connections_max", &[], help, self.store_connections_max.clone());
        let help = "Calls that wait for a connection to PostgreSQL";
        book.add("store_connections_waiting", &[], help, self.store_connections_waiting.clone());
        book.add("loop_passes", &["name"], "Passes of a background loop", self.loop_passes.clone());
        book.add("loop_failures", &["name"], "Passes that failed", self.loop_failures.clone());
        let help = "Passes that panicked and were begun anew";
        book.add("loop_panics", &["name"], help, self.loop_panics.clone());
        book.add("loop_last_duration_seconds", &["name"], "How long the last pass took", self.loop_seconds.clone());
    }

    fn register_faces(&self, book: &mut Book<'_>) {
        let help = "HTTP requests that were answered";
        book.add("http_requests", &["method", "route", "status"], help, self.requests.clone());
        let help = "Time until the head of the answer; requests that may wait for something are left out";
        book.add("http_request_duration_seconds", &["method", "route"], help, self.request_seconds.clone());
        book.add("grpc_calls", &["method", "code"], "gRPC calls that were answered", self.calls.clone());
        let help = "Time to answer; calls that may wait for something, and streams, are left out";
        book.add("grpc_call_duration_seconds", &["method"], help, self.call_seconds.clone());
        book.add("grpc_streams", &[], "Open streams of workers", self.streams.clone());
        book.add("connections", &[], "Open connections", self.connections.clone());
        let help = "Connections for which there was no room, with none idle";
        book.add("connections_refused", &[], help, self.connections_refused.clone());
        let help = "TLS handshakes that came to nothing";
        book.add("tls_handshakes_failed", &[], help, self.tls_handshakes_failed.clone());
        let help = "When the server's certificate expires, since 1970; not there without TLS";
        book.add("tls_certificate_expiry_timestamp_seconds", &["source"], help, self.tls_certificate_expiry.clone());
        let help = "1 while the TLS files have changed and cannot be used; the certificate from before is shown";
        book.add("tls_reload_failed", &["source"], help, self.tls_reload_failed.clone());
    }

    /// Counts an HTTP request, and times it unless it may have waited for something.
    pub(crate) fn answered_request(&self, method: &'static str, route: String, status: u16, seconds: Option<f64>) {
        let labels = RequestLabels { method, route, status };
        self.requests.get_or_create(&labels).inc();
        if let Some(seconds) = seconds {
            let RequestLabels { method, route, .. } = labels;
            self.request_seconds.get_or_create(&RouteLabels { method, route }).observe(seconds);
        }
    }

    /// Counts a gRPC call, and times it unless it may have waited for something.
    pub(crate) fn answered_call(&self, method: &str, code: &'static str, seconds: Option<f64>) {
        let labels = [("method", method.to_owned()), ("code", code.to_owned())];
        self.calls.get_or_create(&labels).inc();
        if let Some(seconds) = seconds {
            let [method, _] = labels;
            self.call_seconds.get_or_create(&[method]).observe(seconds);
        }
    }

    /// Counts a lease that was taken back.
    pub(crate) fn lease_lost(&self, why: LeaseEnd) {
        self.leases_lost.get_or_create(&[("reason", why.as_str().into())]).inc();
    }

    /// Counts a bulk operation that has begun or ended.
    pub(crate) fn bulk_operations(&self, action: &'static str, outcome: &'static str) {
        self.bulk_operations.get_or_create(&[("action", action.into()), ("outcome", outcome.into())]).inc();
    }

    /// Counts runs that a bulk operation came to.
    pub(crate) fn bulk_runs(&self, action: &'static str, tally: Tally) {
        for (outcome, runs) in [("done", tally.done), ("skipped", tally.skipped), ("failed", tally.failed)] {
            self.bulk_runs.get_or_create(&[("action", action.into()), ("outcome", outcome.into())]).inc_by(runs);
        }
    }

    /// Counts a pass of a background loop.
    pub(crate) fn passed(&self, name: &'static str, seconds: f64, how: Passed) {
        let labels = [("name", name.to_owned())];
        self.loop_passes.get_or_create(&labels).inc();
        self.loop_seconds.get_or_create(&labels).set(seconds);
        // Shown from the start: an alert on a counter that appears with its first failure misses that one.
        self.loop_failures.get_or_create(&labels).inc_by(u64::from(how == Passed::Failed));
        self.loop_panics.get_or_create(&labels).inc_by(u64::from(how == Passed::Panicked));
    }

    /// Notes what became of spans since the start.
    pub(crate) fn note_spans(&self, counts: baton_otlp::Counts) {
        self.spans_sent.inner().store(counts.sent, Ordering::Relaxed);
        self.spans_dropped.inner().store(counts.dropped, Ordering::Relaxed);
        self.span_retries.inner().store(counts.retries, Ordering::Relaxed);
        self.spans_queued.set(counts.queued as i64);
    }

    /// Notes statements that were sent since the start.
    pub(crate) fn note_statements(&self, statements: u64) {
        self.store_statements.inner().store(statements, Ordering::Relaxed);
        self.log_lines_dropped.inner().store(crate::log_queue::dropped(), Ordering::Relaxed);
    }

    /// What is said of every metric.
    pub fn described(&self) -> &[Described] {
        &self.described
    }

    /// The text that Prometheus reads.
    pub fn text(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).expect("writing to a string works");
        text
    }
}
