//! Forgets deliveries of webhooks that have ended.

use baton_core::Millis;
use baton_store::{DeliveryRetention, DeliveryState, WebhookId};

use crate::webhooks::WEBHOOKS_MAX;
use crate::{App, Error};

const HOUR_MS: Millis = 3_600_000;
/// How long deliveries that have arrived are kept, and how many of each webhook.
const DELIVERED_MS: Millis = 24 * HOUR_MS;
const DELIVERED_MAX: usize = 1_000;
/// How long dead deliveries can be replayed, and how many of each webhook are kept.
const DEAD_MS: Millis = 30 * 24 * HOUR_MS;
const DEAD_MAX: usize = 10_000;
/// Deliveries deleted in one call.
const DELETE_MAX: usize = 1_000;
/// Calls in one pass, so that a pass ends.
const ROUNDS_MAX: usize = 100;

/// Deletes deliveries that are old, or too many. Without webhooks that is one small read.
pub(super) async fn forget(app: &App) -> Result<u64, Error> {
    let page = baton_store::Page { after: None, limit: WEBHOOKS_MAX };
    let ids: Vec<WebhookId> = app.store.webhooks(None, page).await?.iter().map(|webhook| webhook.id).collect();
    if ids.is_empty() {
        return Ok(0);
    }
    let limit = DELETE_MAX;
    let kept = [
        DeliveryRetention { state: DeliveryState::Delivered, age_ms: DELIVERED_MS, keep: DELIVERED_MAX, limit },
        DeliveryRetention { state: DeliveryState::Dead, age_ms: DEAD_MS, keep: DEAD_MAX, limit },
    ];
    let mut forgotten = 0;
    for retention in kept {
        for _ in 0..ROUNDS_MAX {
            let gone = app.store.forget_deliveries(retention).await?;
            forgotten += gone;
            if gone < DELETE_MAX as u64 {
                break;
            }
        }
    }
    let dead: u64 = app.store.count_dead_deliveries(&ids).await?.iter().sum();
    app.metrics.webhook_dead.set(dead as i64);
    Ok(forgotten)
}
