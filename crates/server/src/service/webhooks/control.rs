//! Pause, resume, rotate and test.

use baton_core::Millis;
use baton_proto::{Event, RotateWebhook, Time, WebhookTest, WebhookView};
use baton_store::{DeliveryId, Scope, Webhook, WebhookChange, WebhookState};

use super::{TRIES_MAX, find, is_current, keeps_changing, last_event, read_one};
use crate::auth::Caller;
use crate::events::missed;
use crate::service::audit;
use crate::webhooks::{Message, WebhookSecret, event_filter, new_delivery, read_filter};
use crate::{App, Error};

/// How long both secrets sign if nobody says otherwise: a day.
const OVERLAP_MS: Millis = 24 * 3_600_000;
/// The longest: a week.
const OVERLAP_MS_MAX: Millis = 7 * OVERLAP_MS;
/// Why events are missed: nobody was to be called.
const PAUSED: &str = "paused";

/// Lets a webhook rest: nothing is delivered, and nothing that happens meanwhile is kept for it.
pub async fn pause(app: &App, caller: &Caller, id: &str) -> Result<WebhookView, Error> {
    for _ in 0..TRIES_MAX {
        let seen = find(app, caller, Scope::Admin, id).await?;
        if seen.state == WebhookState::Paused {
            return read_one(app, caller, seen).await;
        }
        let change = WebhookChange { state: WebhookState::Paused, why: String::new(), ..WebhookChange::of(&seen) };
        if let Some(paused) = set(app, caller, "webhook.pause", &seen, change).await? {
            return read_one(app, caller, paused).await;
        }
    }
    Err(keeps_changing())
}

/// Lets a webhook that is paused or disabled hear of events again, from now on. It is told that it has missed some.
pub async fn resume(app: &App, caller: &Caller, id: &str) -> Result<WebhookView, Error> {
    for _ in 0..TRIES_MAX {
        let seen = find(app, caller, Scope::Admin, id).await?;
        if seen.state == WebhookState::Active {
            return read_one(app, caller, seen).await;
        }
        let filter = event_filter(&read_filter(&seen.filter)?, seen.namespace.clone())?;
        app.webhooks.want(app, filter.kinds()).await?;
        let (last, now) = (last_event(app).await?, app.time.now().await?);
        let change = WebhookChange {
            state: WebhookState::Active,
            why: String::new(),
            position: Some(last),
            is_new_filter: true,
            first: Some(new_delivery(app, &missed(last, Time(now), PAUSED, None), now)),
            ..WebhookChange::of(&seen)
        };
        if let Some(resumed) = set(app, caller, "webhook.resume", &seen, change).await? {
            return read_one(app, caller, resumed).await;
        }
    }
    Err(keeps_changing())
}

/// Gives a webhook another secret. Until the overlap is over deliveries are signed with both.
pub async fn rotate(app: &App, caller: &Caller, id: &str, wanted: RotateWebhook) -> Result<WebhookView, Error> {
    let overlap_ms = match wanted.overlap_ms {
        None => OVERLAP_MS,
        Some(ms) => Millis::try_from(ms)
            .ok()
            .filter(|ms| *ms <= OVERLAP_MS_MAX)
            .ok_or_else(|| Error::field("overlap_ms", format!("must be at most {OVERLAP_MS_MAX}")))?,
    };
    let given = wanted.secret.as_deref().map(WebhookSecret::read).transpose()?;
    let is_given = given.is_some();
    let secret = given.unwrap_or_else(|| WebhookSecret::fresh(&*app.entropy));
    for _ in 0..TRIES_MAX {
        let seen = find(app, caller, Scope::Admin, id).await?;
        if is_given && is_current(app, &seen, &secret).await? {
            // The answer to the same call before was lost.
            return read_one(app, caller, seen).await;
        }
        let now = app.store.now().await?;
        let change = WebhookChange {
            secret: app.secrets.ring().seal_webhook(seen.id, &secret.0, &*app.entropy),
            secret_before: (overlap_ms > 0).then(|| seen.secret.clone()),
            before_until: now.saturating_add(overlap_ms),
            ..WebhookChange::of(&seen)
        };
        if let Some(rotated) = set(app, caller, "webhook.rotate", &seen, change).await? {
            let view = read_one(app, caller, rotated).await?;
            return Ok(WebhookView { secret: Some(secret.reveal()), ..view });
        }
    }
    Err(keeps_changing())
}

/// Calls the receiver now, with an event of the kind `ping`, and says what came of it. Nothing of it is kept.
pub async fn test(app: &App, caller: &Caller, id: &str) -> Result<WebhookTest, Error> {
    let seen = find(app, caller, Scope::Admin, id).await?;
    let now = app.time.now().await?;
    let ping = Event { namespace: seen.namespace.clone(), ..Event::new("ping", Time(now)) };
    let delivery = DeliveryId::new(now, 0, app.entropy.bits());
    let message = Message::of(delivery, &ping, app.secrets.installation());
    let outcome = app.webhooks.test(app, &seen, message).await?;
    Ok(WebhookTest {
        delivered: outcome.status().is_some_and(|status| (200..300).contains(&status)),
        status: outcome.status(),
        error: outcome.error,
        took_ms: outcome.took_ms,
        response: outcome.response,
    })
}

/// Changes a webhook, if it is still as it was seen, and writes that down.
async fn set(
    app: &App,
    caller: &Caller,
    action: &str,
    seen: &Webhook,
    change: WebhookChange,
) -> Result<Option<Webhook>, Error> {
    let changed = app.store.change_webhook(seen.id, seen.revision, change).await?;
    if let Some(changed) = &changed {
        app.webhooks.signals.changed();
        let id = changed.id.to_string();
        audit::act(app, caller, action, &id, &changed.name, changed.namespace.as_deref()).await?;
    }
    Ok(changed)
}
