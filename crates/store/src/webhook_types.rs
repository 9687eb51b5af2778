//! Webhooks and what is delivered to them, as a store keeps them.

use std::fmt;

use baton_core::{Millis, RunId};
use bytes::Bytes;
use uuid::Uuid;

/// Names one webhook. Time-ordered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WebhookId(pub Uuid);

/// Names one delivery, also to its receiver, however often it is tried. Time-ordered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeliveryId(pub Uuid);

impl WebhookId {
    /// One made at this moment.
    pub fn new(now: Millis, random: u64) -> WebhookId {
        WebhookId(RunId::new(now, random >> 48, random).0)
    }
}

impl DeliveryId {
    /// One made at this moment, about the event at this position.
    pub fn new(now: Millis, event: i64, random: u64) -> DeliveryId {
        DeliveryId(RunId::new(now, event as u64, random).0)
    }
}

impl fmt::Display for WebhookId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for WebhookId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<WebhookId, uuid::Error> {
        text.parse().map(WebhookId)
    }
}

impl std::str::FromStr for DeliveryId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<DeliveryId, uuid::Error> {
        text.parse().map(DeliveryId)
    }
}

/// Whether a webhook is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i16)]
pub enum WebhookState {
    /// It is.
    Active = 1,
    /// Somebody has paused it.
    Paused = 2,
    /// Nobody takes its deliveries.
    Disabled = 3,
}

impl WebhookState {
    /// The number kept in the store.
    pub fn code(self) -> i16 {
        self as i16
    }

    /// The state with this number.
    pub fn from_code(code: i16) -> Option<WebhookState> {
        [WebhookState::Active, WebhookState::Paused, WebhookState::Disabled]
            .into_iter()
            .find(|state| state.code() == code)
    }
}

/// Where a delivery stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i16)]
pub enum DeliveryState {
    /// It waits for its next attempt, or for the end of one.
    Waiting = 1,
    /// It has arrived.
    Delivered = 2,
    /// It was tried as often as it is.
    Dead = 3,
}

impl DeliveryState {
    /// The number kept in the store.
    pub fn code(self) -> i16 {
        self as i16
    }

    /// The state with this number.
    pub fn from_code(code: i16) -> Option<DeliveryState> {
        [DeliveryState::Waiting, DeliveryState::Delivered, DeliveryState::Dead]
            .into_iter()
            .find(|state| state.code() == code)
    }
}

/// A webhook to be made.
#[derive(Clone, Debug)]
pub struct NewWebhook {
    /// Its id.
    pub id: WebhookId,
    /// Whose events it hears of; all when `None`.
    pub namespace: Option<String>,
    /// Its name, which no other of the namespace has.
    pub name: String,
    /// What is called.
    pub url: String,
    /// Which events it hears of, as the server writes it.
    pub filter: String,
    /// What it signs with, sealed.
    pub secret: Bytes,
    /// It hears of events after this position.
    pub position: i64,
    /// The key that made it.
    pub created_by: String,
    /// Most webhooks of one namespace.
    pub namespace_max: usize,
    /// Most webhooks.
    pub all_max: usize,
}

/// What became of a webhook to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WebhookAnswer {
    /// It was made.
    Made(Webhook),
    /// There is one of this name.
    Exists(Webhook),
    /// There are as many as there may be.
    Full,
}

/// A webhook.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// Whose events it hears of; all when `None`.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// What is called.
    pub url: String,
    /// Which events it hears of, as the server writes it.
    pub filter: String,
    /// Whether it is called.
    pub state: WebhookState,
    /// Why not.
    pub why: String,
    /// What it signs with, sealed.
    pub secret: Bytes,
    /// What it signed with before, sealed, and until when it still does.
    pub secret_before: Option<Bytes>,
    /// Until then.
    pub before_until: Millis,
    /// Every event up to here was looked at.
    pub position: i64,
    /// Since when it hears of what its filter fits.
    pub since: Millis,
    /// Deliveries that wait.
    pub waiting: u64,
    /// Events that did not fit, and that it was not told of yet.
    pub missed: u64,
    /// Since when nothing but failures came of attempts.
    pub failing_since: Option<Millis>,
    /// When a delivery last arrived.
    pub last_success_at: Option<Millis>,
    /// Its receiver wants nothing before.
    pub held_until: Millis,
    /// When it was made.
    pub created_at: Millis,
    /// The key that made it.
    pub created_by: String,
    /// Goes up with every change.
    pub revision: i64,
}

/// Without what may be a secret: URLs of receivers often hold one.
impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Webhook");
        shown.field("id", &self.id).field("name", &self.name).field("state", &self.state);
        shown.field("position", &self.position).field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

/// What is to hold from now on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebhookChange {
    /// What is called.
    pub url: String,
    /// Which events it hears of.
    pub filter: String,
    /// Whether it is called.
    pub state: WebhookState,
    /// Why not.
    pub why: String,
    /// What it signs with, sealed.
    pub secret: Bytes,
    /// What it signed with before, sealed.
    pub secret_before: Option<Bytes>,
    /// Until then it signs with that, too.
    pub before_until: Millis,
    /// Begins afresh after this position: failures are forgotten.
    pub position: Option<i64>,
    /// True when it hears of other events from now on.
    pub is_new_filter: bool,
    /// Delivered first of all.
    pub first: Option<NewDelivery>,
}

impl WebhookChange {
    /// The one that leaves everything as it is.
    pub fn of(webhook: &Webhook) -> WebhookChange {
        WebhookChange {
            url: webhook.url.clone(),
            filter: webhook.filter.clone(),
            state: webhook.state,
            why: webhook.why.clone(),
            secret: webhook.secret.clone(),
            secret_before: webhook.secret_before.clone(),
            before_until: webhook.before_until,
            position: None,
            is_new_filter: false,
            first: None,
        }
    }
}

/// A delivery to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewDelivery {
    /// Its id.
    pub id: DeliveryId,
    /// The position of its event.
    pub event: i64,
    /// The kind of its event.
    pub kind: String,
    /// What its event is about.
    pub subject: Option<String>,
    /// What is sent.
    pub body: Bytes,
}

/// Moves a webhook on: events up to a position were looked at, and these are for it.
#[derive(Clone, Debug)]
pub struct WebhookMove {
    /// Which.
    pub webhook: WebhookId,
    /// As it was seen.
    pub revision: i64,
    /// Where it was seen.
    pub from: i64,
    /// Where it is now.
    pub to: i64,
    /// What is for it.
    pub deliveries: Vec<NewDelivery>,
    /// Events that did not fit, those from before among them.
    pub missed: u64,
}

/// A delivery that a server is to attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimedDelivery {
    /// Its id.
    pub id: DeliveryId,
    /// To whom.
    pub webhook: WebhookId,
    /// The position of its event.
    pub event: i64,
    /// The kind of its event.
    pub kind: String,
    /// The number of this attempt: what comes of it is written down unless a later one has begun.
    pub attempt: u32,
    /// Attempts since it was made or replayed, this one among them.
    pub tries: u32,
    /// What came of those before, as the server writes it.
    pub log: String,
    /// What is sent.
    pub body: Bytes,
}

/// What was claimed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClaimedDeliveries {
    /// To be attempted now.
    pub deliveries: Vec<ClaimedDelivery>,
    /// When the next one is due of those webhooks that got less than there was room for.
    pub next_at: Option<Millis>,
    /// The time.
    pub now: Millis,
}

/// What came of an attempt.
#[derive(Clone, Debug)]
pub struct SettledDelivery {
    /// To whom.
    pub webhook: WebhookId,
    /// Which.
    pub id: DeliveryId,
    /// The number of the attempt.
    pub attempt: u32,
    /// Where it stands now.
    pub state: DeliveryState,
    /// When it is tried again.
    pub retry_ms: Millis,
    /// True when the attempt does not count: the server stopped in the middle.
    pub is_given_back: bool,
    /// What came of all attempts.
    pub log: String,
    /// The receiver wants nothing at all for so long.
    pub hold_ms: Option<Millis>,
    /// The receiver wants nothing any more, for this reason.
    pub gone: Option<String>,
    /// A webhook with nothing but failures for so long is disabled.
    pub disable_after_ms: Millis,
}

/// What settling did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SettledAnswer {
    /// It was written down.
    Done,
    /// It was, and the webhook is disabled by it.
    Disabled(Box<Webhook>),
    /// Another attempt has begun since, or the delivery is gone. Nothing was changed.
    Stale,
}

/// A delivery, as it is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Its id.
    pub id: DeliveryId,
    /// To whom.
    pub webhook: WebhookId,
    /// The position of its event.
    pub event: i64,
    /// The kind of its event.
    pub kind: String,
    /// What its event is about.
    pub subject: Option<String>,
    /// Where it stands.
    pub state: DeliveryState,
    /// When it is tried next, while it waits.
    pub due_at: Millis,
    /// Attempts of all time.
    pub attempt: u32,
    /// Attempts since it was made or replayed.
    pub tries: u32,
    /// What came of them, as the server writes it.
    pub log: String,
    /// When it was made.
    pub created_at: Millis,
    /// When it arrived or died.
    pub ended_at: Option<Millis>,
}

/// What a replay did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReplayAnswer {
    /// It waits, again or still.
    Waits(Delivery),
    /// As many wait as there may.
    Full,
    /// There is no such delivery.
    Unknown,
}

/// How long deliveries that have ended are kept, and how many of each webhook.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryRetention {
    /// Those in this state.
    pub state: DeliveryState,
    /// For so long.
    pub age_ms: Millis,
    /// So many of each webhook.
    pub keep: usize,
    /// Most that are forgotten at once.
    pub limit: usize,
}
