//! Webhooks: who is told of events by calls.

use serde::{Deserialize, Serialize};

use crate::Time;

/// Which events a webhook hears of, in the words of `GET /api/v1/events`. What is left out does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WebhookFilter {
    /// Kinds of events: `run.ended`, or all of a subject: `run`. All if none is given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// Of this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Of runs of this type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub run_type: Option<String>,
    /// Of this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Of this worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Of this runner pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
}

/// Make a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CreateWebhook {
    /// Its name, which no other of its namespace has.
    pub name: String,
    /// Whose events it hears of; all that the key is good for if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// What is called: https, and a host with public addresses. Others have to be allowed by the setting `webhook_allow`.
    pub url: String,
    /// Which events it hears of.
    #[serde(default)]
    pub filter: WebhookFilter,
    /// What deliveries are signed with: `whsec_` and the base64 of 24 to 64 bytes. The server makes one if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// Change a webhook. What is left out stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChangeWebhook {
    /// What is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Which events it hears of; the whole of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<WebhookFilter>,
}

/// A webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WebhookView {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Whose events it hears of; left out when it hears of those of all namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// What is called. Keys that may not change webhooks see its scheme and host only.
    pub url: String,
    /// Which events it hears of.
    pub filter: WebhookFilter,
    /// Whether it is called.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::WebhookState))]
    pub state: String,
    /// Why it is disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What deliveries are signed with. Shown once: where it was made or changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Until then deliveries are signed with the secret before, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_before_until: Option<Time>,
    /// Deliveries that wait for an attempt, or for its end.
    pub waiting: u64,
    /// Deliveries that were tried as often as they are, and can be replayed.
    pub dead: u64,
    /// Events that did not fit because so many wait. The receiver is told of them once there is room.
    pub missed: u64,
    /// Since when nothing but failures came of attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Time>,
    /// When a delivery last arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success_at: Option<Time>,
    /// The receiver has asked to be left alone until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_until: Option<Time>,
    /// When it was made.
    pub created_at: Time,
    /// The API key that made it.
    pub created_by: String,
}

/// A page of webhooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WebhookPage {
    /// Newest first.
    pub webhooks: Vec<WebhookView>,
    /// Where the next page begins, if there may be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Give a webhook another secret.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RotateWebhook {
    /// How long deliveries are signed with the secret before, too; a day if not given, a week at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap_ms: Option<u64>,
    /// The new secret; the server makes one if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// What came of a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WebhookTest {
    /// True when the receiver has taken it.
    pub delivered: bool,
    /// What the receiver answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why there was no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How long it took.
    pub took_ms: u64,
    /// The beginning of what the receiver answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
}

/// An attempt to deliver an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WebhookAttempt {
    /// Its number, counted from 1.
    pub number: u32,
    /// When it began.
    pub at: Time,
    /// How long it took.
    pub took_ms: u64,
    /// What the receiver answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why there was no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The beginning of what the receiver answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
}

/// An event on its way to a receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WebhookDelivery {
    /// Its id, which the receiver sees as `webhook-id` and as the `id` of the event.
    pub id: String,
    /// The position of its event among all events.
    pub event_id: i64,
    /// The kind of its event.
    pub kind: String,
    /// What its event is about: a run, a worker, a queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Where it stands.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::DeliveryState))]
    pub state: String,
    /// When it was made.
    pub created_at: Time,
    /// When it is tried next, or again if nobody says what came of the attempt that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Time>,
    /// When it arrived or died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// The last attempts, oldest first.
    pub attempts: Vec<WebhookAttempt>,
}

/// A page of deliveries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WebhookDeliveryPage {
    /// Newest first.
    pub deliveries: Vec<WebhookDelivery>,
    /// Where the next page begins, if there may be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Have dead deliveries tried again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReplayWebhook {
    /// Those that died since then; all if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// What a replay did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReplayedWebhook {
    /// Deliveries that are tried again.
    pub replayed: u64,
    /// Those that are dead still: they died before, or there was no room.
    pub dead: u64,
}
