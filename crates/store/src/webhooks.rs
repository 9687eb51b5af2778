//! Webhooks: who is told of events by calls. docs/adr/0029 has the reasons.
//!
//! Where several rows change together, the webhook's is locked first.

use async_trait::async_trait;
use baton_core::Millis;
use baton_core::webhooks::is_given_up;

use crate::{
    ClaimedDeliveries, Delivery, DeliveryId, DeliveryRetention, DeliveryState, NewWebhook, Page, ReplayAnswer,
    SettledAnswer, SettledDelivery, StoreResult, Webhook, WebhookAnswer, WebhookChange, WebhookId, WebhookMove,
    WebhookState,
};

/// The verbs of webhooks. Every [`crate::Store`] has them.
#[async_trait]
pub trait Webhooks: Send + Sync {
    /// Makes a webhook, if there is none of its name and there may be one more.
    async fn add_webhook(&self, webhook: NewWebhook) -> StoreResult<WebhookAnswer>;
    /// One webhook.
    async fn webhook(&self, id: WebhookId) -> StoreResult<Option<Webhook>>;
    /// The webhooks of a namespace (all when `None`), newest first.
    async fn webhooks(&self, namespace: Option<&str>, page: Page<WebhookId>) -> StoreResult<Vec<Webhook>>;
    /// All that are active.
    async fn live_webhooks(&self) -> StoreResult<Vec<Webhook>>;
    /// Changes a webhook, unless somebody has changed it since it had this revision (then: `None`).
    async fn change_webhook(&self, id: WebhookId, revision: i64, change: WebhookChange)
    -> StoreResult<Option<Webhook>>;
    /// Deletes a webhook with its deliveries. False when it is gone already.
    async fn delete_webhook(&self, id: WebhookId) -> StoreResult<bool>;

    /// Moves a webhook on, and keeps what is for it; both or nothing. False when somebody was faster, or has changed it.
    async fn move_webhook(&self, moved: WebhookMove) -> StoreResult<bool>;
    /// Takes deliveries that are due for so long: then another server may. At most so many of each of these webhooks, and
    /// `limit` of all.
    async fn claim_deliveries(
        &self,
        room: &[(WebhookId, usize)],
        limit: usize,
        lease_ms: Millis,
    ) -> StoreResult<ClaimedDeliveries>;
    /// Writes down what came of an attempt.
    async fn settle_delivery(&self, settled: SettledDelivery) -> StoreResult<SettledAnswer>;
    /// The deliveries of a webhook, in one state or all, newest first.
    async fn deliveries(
        &self,
        webhook: WebhookId,
        state: Option<DeliveryState>,
        page: Page<DeliveryId>,
    ) -> StoreResult<Vec<Delivery>>;
    /// Has a delivery that has ended tried again, from the beginning.
    async fn replay_delivery(&self, webhook: WebhookId, id: DeliveryId) -> StoreResult<ReplayAnswer>;
    /// Has dead deliveries tried again that died since a moment, as many as there is room for. Returns how many.
    async fn replay_deliveries(&self, webhook: WebhookId, since: Millis) -> StoreResult<u64>;
    /// How many dead deliveries each webhook has, in the order asked for.
    async fn count_dead_deliveries(&self, webhooks: &[WebhookId]) -> StoreResult<Vec<u64>>;
    /// Forgets deliveries that have ended. Returns how many.
    async fn forget_deliveries(&self, retention: DeliveryRetention) -> StoreResult<u64>;
}

/// What an attempt means for its webhook. True when it is disabled by it.
pub(crate) fn after_attempt(webhook: &mut Webhook, settled: &SettledDelivery, now: Millis) -> bool {
    let has_ended = settled.state != DeliveryState::Waiting;
    webhook.waiting = webhook.waiting.saturating_sub(u64::from(has_ended));
    if settled.is_given_back {
        return false;
    }
    if settled.state == DeliveryState::Delivered {
        webhook.failing_since = None;
        webhook.last_success_at = Some(now);
        return false;
    }
    webhook.failing_since = webhook.failing_since.or(Some(now));
    if let Some(hold_ms) = settled.hold_ms {
        webhook.held_until = webhook.held_until.max(now.saturating_add(hold_ms));
    }
    if webhook.state != WebhookState::Active {
        return false;
    }
    let why = match &settled.gone {
        Some(why) => why.clone(),
        None if is_given_up(webhook.failing_since, now, settled.disable_after_ms) => {
            "every attempt has failed for so long that it was given up".into()
        }
        None => return false,
    };
    (webhook.state, webhook.why) = (WebhookState::Disabled, why);
    true
}
