//! The queue of spans, and the task that sends them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use crate::proto::collector::trace::v1::ExportTraceServiceRequest;
use crate::proto::common::v1::InstrumentationScope;
use crate::proto::resource::v1::Resource;
use crate::proto::trace::v1::{ResourceSpans, ScopeSpans};
use crate::span::{Value, attribute};
use crate::transport::{Refused, Transport};
use crate::{Config, ConfigError, Span, bounded};

/// Most spans that wait to be sent; more are dropped.
pub const QUEUE_SPANS_MAX: usize = 16_384;
/// Most spans in one call.
const BATCH_SPANS_MAX: usize = 512;
/// How long spans gather.
const GATHER: Duration = Duration::from_millis(500);
/// Pauses before a call is made again, doubled each time.
const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_LONGEST: Duration = Duration::from_secs(15);
/// How long a batch is tried before it is dropped.
const RETRY_FOR: Duration = Duration::from_secs(60);

/// What became of spans so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Taken by the collector.
    pub sent: u64,
    /// Dropped: the queue was full, or the collector did not take them.
    pub dropped: u64,
    /// Calls that failed and were made again.
    pub retries: u64,
    /// In the queue.
    pub queued: u64,
}

#[derive(Debug, Default)]
struct Counters {
    sent: AtomicU64,
    dropped: AtomicU64,
    retries: AtomicU64,
    queued: AtomicUsize,
}

/// Told when spans were sent or dropped: both times nobody needs to send them again.
pub type Delivery = oneshot::Receiver<()>;

enum Order {
    /// Spans that belong together, and who is to be told.
    Spans(Vec<Span>, oneshot::Sender<()>),
    /// Send all that came before this at once.
    Flush(oneshot::Sender<()>),
}

/// Sends spans to a collector. Cheap to clone; the task ends with the last one.
#[derive(Clone, Debug)]
pub struct Exporter {
    orders: mpsc::UnboundedSender<Order>,
    counters: Arc<Counters>,
}

impl Exporter {
    /// Starts the task that sends.
    pub fn start(config: Config) -> Result<Exporter, ConfigError> {
        let transport = Transport::new(&config)?;
        // Bounded by the count of spans, which is what takes memory.
        let (orders, receiver) = mpsc::unbounded_channel();
        let counters = Arc::new(Counters::default());
        let resource = resource(&config);
        let sender = Sender { config, transport, resource, counters: counters.clone(), is_failing: false };
        tokio::spawn(sender.run(receiver));
        Ok(Exporter { orders, counters })
    }

    /// Has spans sent soon. Never waits; nothing is told when there is no room for them.
    pub fn send(&self, spans: Vec<Span>) -> Delivery {
        let (done, delivery) = oneshot::channel();
        let count = spans.len();
        if count == 0 {
            let _ = done.send(());
            return delivery;
        }
        let queued = self.counters.queued.fetch_add(count, Ordering::Relaxed);
        // A run may have more spans than the queue has room for; alone they go.
        let is_full = queued > 0 && queued + count > QUEUE_SPANS_MAX;
        if is_full || self.orders.send(Order::Spans(spans, done)).is_err() {
            self.counters.queued.fetch_sub(count, Ordering::Relaxed);
            self.counters.dropped.fetch_add(count as u64, Ordering::Relaxed);
        }
        delivery
    }

    /// Sends what is in the queue now; gives up after `within`.
    pub async fn flush(&self, within: Duration) {
        let (done, flushed) = oneshot::channel();
        if self.orders.send(Order::Flush(done)).is_ok() {
            let _ = tokio::time::timeout(within, flushed).await;
        }
    }

    /// What became of spans so far.
    pub fn counts(&self) -> Counts {
        let Counters { sent, dropped, retries, queued } = &*self.counters;
        Counts {
            sent: sent.load(Ordering::Relaxed),
            dropped: dropped.load(Ordering::Relaxed),
            retries: retries.load(Ordering::Relaxed),
            queued: queued.load(Ordering::Relaxed) as u64,
        }
    }
}

fn resource(config: &Config) -> Resource {
    let attributes = config.resource.iter().map(|(name, value)| attribute(name, Value::from(value.as_str())));
    Resource { attributes: attributes.collect(), ..Resource::default() }
}

struct Sender {
    config: Config,
    transport: Transport,
    resource: Resource,
    counters: Arc<Counters>,
    /// The last batch was not taken: said once.
    is_failing: bool,
}

/// Spans of one call.
#[derive(Default)]
struct Batch {
    spans: Vec<Span>,
    done: Vec<oneshot::Sender<()>>,
}

impl Sender {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        while let Some(first) = orders.recv().await {
            let (mut batch, mut flushed) = (Batch::default(), Vec::new());
            batch.take(first, &mut flushed);
            let gathered = tokio::time::sleep(GATHER);
            tokio::pin!(gathered);
            while flushed.is_empty() && batch.spans.len() < BATCH_SPANS_MAX {
                tokio::select! {
                    order = orders.recv() => match order {
                        Some(order) => batch.take(order, &mut flushed),
                        None => break,
                    },
                    () = &mut gathered => break,
                }
            }
            self.deliver(batch).await;
            for done in flushed {
                let _ = done.send(());
            }
        }
    }

    /// Sends a batch until it is taken, or dropped.
    async fn deliver(&mut self, batch: Batch) {
        let Batch { spans, done } = batch;
        let mut left = spans.into_iter().peekable();
        while left.peek().is_some() {
            let part: Vec<Span> = left.by_ref().take(BATCH_SPANS_MAX).collect();
            let count = part.len();
            let taken = self.call(part).await;
            self.counters.queued.fetch_sub(count, Ordering::Relaxed);
            let dropped = count as u64 - taken.min(count as u64);
            self.counters.sent.fetch_add(count as u64 - dropped, Ordering::Relaxed);
            self.counters.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
        for done in done {
            let _ = done.send(());
        }
    }

    /// How many of these spans the collector took.
    async fn call(&mut self, spans: Vec<Span>) -> u64 {
        let count = spans.len() as u64;
        let request = self.request(spans);
        let (begun, mut pause) = (Instant::now(), RETRY_FIRST);
        loop {
            match self.transport.send(&self.config, &request).await {
                Ok(rejected) => {
                    if std::mem::take(&mut self.is_failing) {
                        tracing::info!("spans are sent to the collector again");
                    }
                    let Some((rejected, why)) = rejected else { return count };
                    tracing::warn!(rejected, why = bounded(&why), "the collector did not want all spans");
                    return count.saturating_sub(rejected.unsigned_abs());
                }
                Err(Refused { why, is_for_now, retry_after }) => {
                    let wait = retry_after.unwrap_or(pause).min(RETRY_LONGEST);
                    let is_over = begun.elapsed() + wait > RETRY_FOR;
                    if !std::mem::replace(&mut self.is_failing, true) {
                        tracing::warn!(endpoint = %self.config.endpoint, why = bounded(&why), "spans cannot be sent");
                    }
                    if !is_for_now || is_over {
                        return 0;
                    }
                    self.counters.retries.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(wait).await;
                    pause = (pause * 2).min(RETRY_LONGEST);
                }
            }
        }
    }

    fn request(&self, spans: Vec<Span>) -> ExportTraceServiceRequest {
        let scope = InstrumentationScope {
            name: "baton".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            ..InstrumentationScope::default()
        };
        let spans = spans.into_iter().map(Into::into).collect();
        let scoped = ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() };
        let of_resource = ResourceSpans {
            resource: Some(self.resource.clone()),
            scope_spans: vec![scoped],
            ..ResourceSpans::default()
        };
        ExportTraceServiceRequest { resource_spans: vec![of_resource] }
    }
}

impl Batch {
    fn take(&mut self, order: Order, flushed: &mut Vec<oneshot::Sender<()>>) {
        match order {
            Order::Spans(spans, done) => {
                self.spans.extend(spans);
                self.done.push(done);
            }
            Order::Flush(done) => flushed.push(done),
        }
    }
}
