//! Takes deliveries that are due, and calls receivers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use baton_core::Millis;
use baton_core::webhooks::{Backoff, NextStep, signature};
use baton_proto::{Time, WebhookAttempt};
use baton_store::{ClaimedDelivery, DeliveryState, SettledAnswer, SettledDelivery, Webhook, WebhookId};

use super::LiveWebhook;
use super::caller::{Call, Called};
use super::message::{Message, Outcome, attempts, with_attempt};
use crate::service::audit;
use crate::{App, Error, crash};

/// Attempts at once at one server.
const ATTEMPTS_MAX: usize = 512;
/// Attempts at once of one webhook: with all webhooks of a namespace fewer than there may be, so that a namespace whose
/// receivers are slow does not hold up the others.
const ATTEMPTS_PER_WEBHOOK_MAX: usize = 4;
/// Attempts at once of webhooks that fail, which get one each.
const FAILING_MAX: usize = ATTEMPTS_MAX / 2;
/// For how many times as long as an attempt may take it is left alone by others.
const LEASE_TIMEOUTS: Millis = 2;
/// How long a server that stops waits for the answers of receivers.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// Soonest look after one that left something undone, so that looks are no busy loop.
const LOOK_AGAIN_MS: Millis = 50;
/// How often it is tried to write down what came of an attempt.
const SETTLE_TRIES_MAX: u32 = 3;
const SETTLE_PAUSE: Duration = Duration::from_secs(1);

/// Begins attempts of what is due. Returns how many.
pub(super) async fn deliver(app: &App, live: &[LiveWebhook]) -> Result<usize, Error> {
    if app.stopping.is_cancelled() {
        return Ok(0);
    }
    let (failing, well): (Vec<_>, Vec<_>) = live.iter().partition(|webhook| webhook.row.failing_since.is_some());
    let mut begun = 0;
    // Those that fail come last, and take half of the places at most.
    for (webhooks, each, most) in [(well, ATTEMPTS_PER_WEBHOOK_MAX, ATTEMPTS_MAX), (failing, 1, FAILING_MAX)] {
        begun += begin(app, &webhooks, each, most).await?;
    }
    Ok(begun)
}

async fn begin(app: &App, webhooks: &[&LiveWebhook], each: usize, most: usize) -> Result<usize, Error> {
    let (room, limit) = app.webhooks.with_under_way(|under_way| {
        let room_of = |webhook: &&&LiveWebhook| {
            let own = under_way.get(&webhook.row.id).copied().unwrap_or(0);
            let left = each.saturating_sub(own);
            (left > 0 && webhook.row.waiting > own as u64).then_some((webhook.row.id, left))
        };
        let room: Vec<(WebhookId, usize)> = webhooks.iter().filter_map(|webhook| room_of(&webhook)).collect();
        let all: usize = under_way.values().sum();
        (room, most.saturating_sub(all))
    });
    if room.is_empty() || limit == 0 {
        return Ok(0);
    }
    let timeout_ms = app.current().webhook_timeout_ms as Millis;
    let claimed = app.store.claim_deliveries(&room, limit, timeout_ms * LEASE_TIMEOUTS).await?;
    if !claimed.deliveries.is_empty() {
        crash::point("webhook.claimed");
    }
    // Where all places are taken, the end of an attempt makes this look again.
    if let Some(next_at) = claimed.next_at.filter(|_| claimed.deliveries.len() < limit) {
        app.webhooks.signals.wait_until(next_at.max(claimed.now + LOOK_AGAIN_MS), claimed.now);
    }
    let count = claimed.deliveries.len();
    for delivery in claimed.deliveries {
        let Some(webhook) = webhooks.iter().find(|webhook| webhook.row.id == delivery.webhook) else { continue };
        let place = Place::take(app, delivery.webhook);
        let (app, webhook) = (app.clone(), Arc::new(webhook.row.clone()));
        app.clone().webhooks.tasks.spawn(async move {
            attempt(&app, &webhook, delivery).await;
            drop(place);
        });
    }
    Ok(count)
}

/// A place among the attempts that are under way. Given back when it is dropped.
struct Place {
    app: App,
    webhook: WebhookId,
}

impl Place {
    fn take(app: &App, webhook: WebhookId) -> Place {
        app.webhooks.with_under_way(|under_way| *under_way.entry(webhook).or_default() += 1);
        Place { app: app.clone(), webhook }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.app.webhooks.with_under_way(|under_way| {
            if let Some(count) = under_way.get_mut(&self.webhook) {
                *count -= 1;
                if *count == 0 {
                    under_way.remove(&self.webhook);
                }
            }
        });
        self.app.webhooks.signals.changed();
    }
}

async fn attempt(app: &App, webhook: &Webhook, delivery: ClaimedDelivery) {
    let message = Message { id: delivery.id, body: delivery.body.clone() };
    let stopped = async {
        app.stopping.cancelled().await;
        tokio::time::sleep(STOP_GRACE).await;
    };
    let outcome = tokio::select! {
        outcome = call(app, webhook, &message) => Some(outcome),
        () = stopped => None,
    };
    crash::point("webhook.called");
    let settled = settled(app, &delivery, outcome.as_ref());
    if let Some(outcome) = &outcome {
        app.metrics.webhook_attempt_seconds.observe(outcome.took_ms as f64 / 1_000.0);
    }
    for tries in 1..=SETTLE_TRIES_MAX {
        match settle(app, settled.clone()).await {
            Ok(()) => return,
            Err(error) => {
                tracing::warn!(%error, delivery = %delivery.id, "what came of a delivery cannot be written down now");
            }
        }
        if tries < SETTLE_TRIES_MAX {
            tokio::time::sleep(SETTLE_PAUSE).await;
        }
    }
}

/// What is written down of an attempt; without an outcome the server stops, and another is to try.
fn settled(app: &App, delivery: &ClaimedDelivery, outcome: Option<&Outcome>) -> SettledDelivery {
    let settings = app.current();
    let log = with_lost_attempts(delivery);
    let base = SettledDelivery {
        webhook: delivery.webhook,
        id: delivery.id,
        attempt: delivery.attempt,
        state: DeliveryState::Waiting,
        retry_ms: 0,
        is_given_back: false,
        log,
        hold_ms: None,
        gone: None,
        disable_after_ms: settings.webhook_disable_after_ms as Millis,
    };
    let Some(outcome) = outcome else {
        return SettledDelivery { is_given_back: true, ..base };
    };
    let log = with_attempt(&base.log, outcome.attempt(delivery.attempt));
    let base = SettledDelivery { log, ..base };
    // What is set was checked; one that cannot be read tries once.
    let next = Backoff::parse(&settings.webhook_backoff)
        .map_or(NextStep::Dead, |backoff| backoff.next(outcome.answer, delivery.tries, app.entropy.die()));
    match next {
        NextStep::Done => SettledDelivery { state: DeliveryState::Delivered, ..base },
        NextStep::Retry { in_ms, hold_ms } => SettledDelivery { retry_ms: in_ms, hold_ms, ..base },
        NextStep::Dead => SettledDelivery { state: DeliveryState::Dead, ..base },
        NextStep::Gone => {
            let gone = Some("its receiver answered 410: it wants no deliveries any more".into());
            SettledDelivery { state: DeliveryState::Dead, gone, ..base }
        }
    }
}

/// The log, with a line for each attempt of which nobody said what came of it.
fn with_lost_attempts(delivery: &ClaimedDelivery) -> String {
    let last = attempts(&delivery.log).last().map_or(0, |attempt| attempt.number);
    let mut log = delivery.log.clone();
    // What is older would not be kept.
    for number in (last + 1).max(delivery.attempt.saturating_sub(3))..delivery.attempt {
        let error = Some("the server stopped or died in the middle of the attempt".into());
        let lost = WebhookAttempt { number, at: Time(0), took_ms: 0, status: None, error, response: None };
        log = with_attempt(&log, lost);
    }
    log
}

async fn settle(app: &App, settled: SettledDelivery) -> Result<(), Error> {
    let (state, is_given_back) = (settled.state, settled.is_given_back);
    let gone = settled.gone.is_some();
    let outcome = match app.store.settle_delivery(settled).await? {
        SettledAnswer::Stale => "stale",
        SettledAnswer::Done | SettledAnswer::Disabled(_) if is_given_back => "given_back",
        answer @ (SettledAnswer::Done | SettledAnswer::Disabled(_)) => {
            if let SettledAnswer::Disabled(webhook) = answer {
                app.webhooks.signals.changed();
                let (id, namespace) = (webhook.id.to_string(), webhook.namespace.as_deref());
                tracing::warn!(webhook = id, why = webhook.why, "a webhook is disabled");
                audit::write(app, "server", "webhook.disable", &id, &webhook.why, namespace).await?;
            }
            match state {
                DeliveryState::Delivered => "delivered",
                DeliveryState::Waiting => "failed",
                DeliveryState::Dead if gone => "gone",
                DeliveryState::Dead => "dead",
            }
        }
    };
    app.metrics.webhook_attempts.get_or_create_owned(&[("outcome", outcome.into())]).inc();
    Ok(())
}

/// Calls the receiver of a webhook, once.
pub(super) async fn call(app: &App, webhook: &Webhook, message: &Message) -> Outcome {
    let begun = Instant::now();
    let at = app.time.now().await.unwrap_or_else(|_| app.store.clock().local());
    let called = match signatures(app, webhook, message, at).await {
        Ok(signatures) => {
            let call = Call {
                url: &webhook.url,
                id: message.id.to_string(),
                timestamp_s: at / 1_000,
                signatures,
                body: message.body.clone(),
                timeout: Duration::from_millis(app.current().webhook_timeout_ms),
            };
            match app.webhooks.caller(&app.live) {
                Ok(caller) => caller.call(call).await,
                Err(error) => Called::silent(error.to_string()),
            }
        }
        Err(why) => Called::silent(why),
    };
    let Called { answer, error, response } = called;
    Outcome { answer, error, response, at, took_ms: begun.elapsed().as_millis() as u64 }
}

/// The signatures of a message: with the secret, and while it is being changed with the one before, too.
async fn signatures(app: &App, webhook: &Webhook, message: &Message, now: Millis) -> Result<String, String> {
    let before = webhook.secret_before.as_ref().filter(|_| now < webhook.before_until);
    let mut all = Vec::with_capacity(2);
    for kept in std::iter::once(&webhook.secret).chain(before) {
        let secret = app.secrets.open_webhook(webhook.id, kept).await.map_err(|error| error.to_string())?;
        let secret = secret.ok_or("the secret cannot be opened: rotate it")?;
        let signed = signature(&secret, &message.id.to_string(), now / 1_000, &message.body);
        all.push(format!("v1,{}", STANDARD.encode(signed)));
    }
    Ok(all.join(" "))
}
