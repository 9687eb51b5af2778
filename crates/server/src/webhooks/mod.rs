//! Webhooks: events that are told by calls. docs/adr/0029 has the reasons.
//!
//! `feed` reads the events and keeps what is for whom, `deliver` makes the calls; both are passes of one loop, on every
//! server. Nothing is asked of the store while there are no webhooks.

mod caller;
mod deliver;
mod feed;
mod message;
mod secret;
mod signals;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use baton_core::Millis;
use baton_proto::WebhookFilter;
use baton_store::{Webhook, WebhookId};
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio_util::task::TaskTracker;

pub use caller::{HostResolver, SystemResolver};
pub(crate) use feed::new_delivery;
pub(crate) use message::{Message, Outcome, attempts};
pub(crate) use secret::WebhookSecret;
pub(crate) use signals::WebhookSignals;

use self::caller::Caller;
use crate::events::EventFilter;
use crate::settings::LiveSettings;
use crate::{App, Error};

/// Most webhooks of one namespace; those of all namespaces count as one more.
pub const WEBHOOKS_PER_NAMESPACE_MAX: usize = 100;
/// Most webhooks of the installation.
pub const WEBHOOKS_MAX: usize = 1_000;
/// Most tests that a server makes at once.
const TESTS_MAX: usize = 16;

/// What this server knows of webhooks.
#[derive(Debug)]
pub struct Webhooks {
    pub(crate) signals: Arc<WebhookSignals>,
    /// Kinds of events that are written because webhooks hear of them.
    wanted: AsyncMutex<u32>,
    /// How far the events were looked at for each, and since when that is not written down.
    seen: Mutex<HashMap<WebhookId, Seen>>,
    /// Attempts under way, by webhook.
    under_way: Mutex<HashMap<WebhookId, usize>>,
    resolver: OnceLock<Arc<dyn HostResolver>>,
    caller: OnceLock<Caller>,
    tests: Semaphore,
    tasks: TaskTracker,
}

/// How far the events were looked at for a webhook.
#[derive(Clone, Copy, Debug)]
struct Seen {
    revision: i64,
    position: i64,
    /// Since when the store does not know.
    behind_since: Millis,
}

/// An active webhook, as it was read for a pass.
#[derive(Clone, Debug)]
pub(crate) struct LiveWebhook {
    pub(crate) row: Webhook,
    pub(crate) filter: EventFilter,
}

impl Webhooks {
    pub(crate) fn new(signals: Arc<WebhookSignals>) -> Webhooks {
        Webhooks {
            signals,
            wanted: AsyncMutex::default(),
            seen: Mutex::default(),
            under_way: Mutex::default(),
            resolver: OnceLock::new(),
            caller: OnceLock::new(),
            tests: Semaphore::new(TESTS_MAX),
            tasks: TaskTracker::new(),
        }
    }

    /// Has host names looked up in another way than by this machine. To be called before [`crate::serve`].
    pub fn use_resolver(&self, resolver: Arc<dyn HostResolver>) {
        let _ = self.resolver.set(resolver);
    }

    fn caller(&self, live: &Arc<LiveSettings>) -> Result<&Caller, Error> {
        if let Some(caller) = self.caller.get() {
            return Ok(caller);
        }
        let resolver = self.resolver.get_or_init(|| Arc::new(SystemResolver)).clone();
        let caller = Caller::new(resolver, live.clone())?;
        Ok(self.caller.get_or_init(|| caller))
    }

    /// Refuses a URL that would not be called now.
    pub(crate) async fn check_url(&self, live: &Arc<LiveSettings>, url: &str) -> Result<(), Error> {
        self.caller(live)?.check(url).await.map_err(|why| Error::field("url", why))
    }

    /// Calls a receiver now, without keeping anything of it.
    pub(crate) async fn test(&self, app: &App, webhook: &Webhook, message: Message) -> Result<Outcome, Error> {
        let busy = |_| Error::TooMany { retry_after_ms: 1_000 };
        let _permit = self.tests.try_acquire().map_err(busy)?;
        Ok(deliver::call(app, webhook, &message).await)
    }

    /// Has events written for the webhooks that there are, before anything happens at this server.
    pub(crate) async fn start(&self, app: &App) -> Result<(), Error> {
        let live = read(app).await?;
        let kinds = kinds(&live);
        if kinds != 0 {
            app.events.want_for_webhooks(kinds, true).await?;
            *self.wanted.lock().await = kinds;
        }
        self.signals.changed();
        Ok(())
    }

    /// Has these kinds written, too, from now on: a webhook is about to hear of them.
    pub(crate) async fn want(&self, app: &App, kinds: u32) -> Result<(), Error> {
        let mut wanted = self.wanted.lock().await;
        let missing = kinds & !*wanted;
        if missing != 0 {
            app.events.want_for_webhooks(missing, false).await?;
            *wanted |= missing;
        }
        Ok(())
    }

    /// One pass of the loop: finds out what webhooks there are, feeds them, and has deliveries made.
    pub(crate) async fn pass(&self, app: &App) -> Result<String, Error> {
        if !self.signals.take() && !app.store.is_shared() {
            return Ok("nothing is to be done".into());
        }
        let passed = self.look(app).await;
        if passed.is_err() {
            self.signals.changed();
        }
        passed
    }

    async fn look(&self, app: &App) -> Result<String, Error> {
        let mut live = self.refresh(app).await?;
        if live.is_empty() {
            app.metrics.webhook_backlog.set(0);
            return Ok("there are no webhooks".into());
        }
        let new = feed::feed(app, &mut live).await?;
        let waiting: u64 = live.iter().map(|webhook| webhook.row.waiting).sum();
        app.metrics.webhook_backlog.set(waiting as i64);
        let begun = deliver::deliver(app, &live).await?;
        Ok(format!("{} webhooks, {new} new deliveries, {begun} attempts begun", live.len()))
    }

    /// The active webhooks, as they are now. What they hear of is written, and nothing else.
    pub(crate) async fn refresh(&self, app: &App) -> Result<Vec<LiveWebhook>, Error> {
        let mut wanted = self.wanted.lock().await;
        let live = read(app).await?;
        let kinds = kinds(&live);
        if kinds & !*wanted != 0 {
            app.events.want_for_webhooks(kinds & !*wanted, false).await?;
        }
        if *wanted & !kinds != 0 {
            app.events.want_no_longer(*wanted & !kinds).await;
        }
        *wanted = kinds;
        self.with_seen(|seen| seen.retain(|id, _| live.iter().any(|webhook| webhook.row.id == *id)));
        self.signals.are_used(!live.is_empty());
        Ok(live)
    }

    /// Feeds one webhook with everything that has happened until now.
    pub(crate) async fn catch_up(&self, app: &App, webhook: Webhook) -> Result<(), Error> {
        let mut live = vec![live(webhook)?];
        feed::feed(app, &mut live).await.map(drop)
    }

    fn with_seen<T>(&self, change: impl FnOnce(&mut HashMap<WebhookId, Seen>) -> T) -> T {
        change(&mut self.seen.lock().expect("nobody panics while holding it"))
    }

    fn with_under_way<T>(&self, change: impl FnOnce(&mut HashMap<WebhookId, usize>) -> T) -> T {
        change(&mut self.under_way.lock().expect("nobody panics while holding it"))
    }

    /// The server stops: attempts that are under way end, or are given back.
    pub(crate) async fn stop(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

async fn read(app: &App) -> Result<Vec<LiveWebhook>, Error> {
    app.store.live_webhooks().await?.into_iter().map(live).collect()
}

fn kinds(live: &[LiveWebhook]) -> u32 {
    live.iter().fold(0, |kinds, webhook| kinds | webhook.filter.kinds())
}

fn live(row: Webhook) -> Result<LiveWebhook, Error> {
    let filter = read_filter(&row.filter)?;
    Ok(LiveWebhook { filter: event_filter(&filter, row.namespace.clone())?, row })
}

/// The filter of a webhook, as it is kept.
pub(crate) fn read_filter(kept: &str) -> Result<WebhookFilter, Error> {
    serde_json::from_str(kept).map_err(|error| {
        tracing::error!(%error, "the filter of a webhook cannot be read");
        Error::Internal
    })
}

/// The filter of a webhook, as events are looked at.
pub(crate) fn event_filter(filter: &WebhookFilter, namespace: Option<String>) -> Result<EventFilter, Error> {
    let WebhookFilter { kinds, queue, run_type, run, worker, pool } = filter.clone();
    let filter = EventFilter { namespace, queue, run_type, run, worker, pool, ..EventFilter::default() };
    filter.of_kinds(&kinds.join(","))
}
