//! What is delivered to webhooks: read, and replayed.

use baton_core::Millis;
use baton_core::webhooks::BACKLOG_MAX;
use baton_proto::{ReplayWebhook, ReplayedWebhook, Time, WebhookDelivery};
use baton_store::{Delivery, DeliveryId, DeliveryState, Page, ReplayAnswer, Scope};

use super::find;
use crate::auth::Caller;
use crate::service::audit;
use crate::webhooks::attempts;
use crate::{App, Error};

/// Words for where deliveries stand.
const STATES: [(&str, DeliveryState); 3] =
    [("waiting", DeliveryState::Waiting), ("delivered", DeliveryState::Delivered), ("dead", DeliveryState::Dead)];

/// A page of the deliveries of a webhook, in one state or all, newest first.
pub async fn list(
    app: &App,
    caller: &Caller,
    id: &str,
    state: Option<&str>,
    page: Page<DeliveryId>,
) -> Result<Vec<WebhookDelivery>, Error> {
    // What receivers answer is for those who may set them up.
    let webhook = find(app, caller, Scope::Admin, id).await?;
    let named = |word: &str| {
        let known = STATES.iter().find(|(name, _)| *name == word).map(|(_, state)| *state);
        known.ok_or_else(|| Error::field("state", format!("must be waiting, delivered or dead, not {word:?}")))
    };
    let state = state.map(named).transpose()?;
    Ok(app.store.deliveries(webhook.id, state, page).await?.into_iter().map(view).collect())
}

/// Has one delivery made again. One that waits already stays as it is.
pub async fn replay(app: &App, caller: &Caller, id: &str, delivery: &str) -> Result<WebhookDelivery, Error> {
    let webhook = find(app, caller, Scope::Admin, id).await?;
    let unknown = || Error::NotFound { what: "delivery", id: delivery.into() };
    let number = delivery.parse().map(DeliveryId).map_err(|_| unknown())?;
    match app.store.replay_delivery(webhook.id, number).await? {
        ReplayAnswer::Waits(waits) => {
            app.webhooks.signals.changed();
            audit::act(app, caller, "webhook.replay", id, delivery, webhook.namespace.as_deref()).await?;
            Ok(view(waits))
        }
        ReplayAnswer::Full => Err(Error::Conflict(format!(
            "{BACKLOG_MAX} deliveries of the webhook wait, which is all that may; replay when some are made"
        ))),
        ReplayAnswer::Unknown => Err(unknown()),
    }
}

/// Has dead deliveries made again, as many as there is room for.
pub async fn replay_all(app: &App, caller: &Caller, id: &str, wanted: ReplayWebhook) -> Result<ReplayedWebhook, Error> {
    let webhook = find(app, caller, Scope::Admin, id).await?;
    let since = wanted.since.map_or(Millis::MIN, |since| since.0);
    let replayed = app.store.replay_deliveries(webhook.id, since).await?;
    app.webhooks.signals.changed();
    let detail = format!("{replayed} dead deliveries");
    audit::act(app, caller, "webhook.replay", id, &detail, webhook.namespace.as_deref()).await?;
    let dead = app.store.count_dead_deliveries(&[webhook.id]).await?.first().copied().unwrap_or_default();
    Ok(ReplayedWebhook { replayed, dead })
}

fn view(delivery: Delivery) -> WebhookDelivery {
    let waits = delivery.state == DeliveryState::Waiting;
    WebhookDelivery {
        id: delivery.id.to_string(),
        event_id: delivery.event,
        kind: delivery.kind,
        subject: delivery.subject,
        state: STATES.iter().find(|(_, state)| *state == delivery.state).map_or("", |(name, _)| name).to_owned(),
        created_at: Time(delivery.created_at),
        next_attempt_at: waits.then_some(Time(delivery.due_at)),
        ended_at: delivery.ended_at.map(Time),
        attempts: attempts(&delivery.log),
    }
}
