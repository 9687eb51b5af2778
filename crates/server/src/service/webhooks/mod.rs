//! Webhooks: made, changed, read. What is delivered to them is in `deliveries`. docs/webhooks.md has the promises.

pub mod control;
pub mod deliveries;

use baton_core::Millis;
use baton_proto::{ChangeWebhook, CreateWebhook, Time, WebhookFilter, WebhookView};
use baton_store::{NewWebhook, Page, Scope, Webhook, WebhookAnswer, WebhookChange, WebhookId, WebhookState};

use super::{NAME_BYTES_MAX, audit, check_name};
use crate::auth::Caller;
use crate::webhooks::{WEBHOOKS_MAX, WEBHOOKS_PER_NAMESPACE_MAX, WebhookSecret, event_filter, read_filter};
use crate::{App, Error};

/// How often a change is tried again because somebody else changed the webhook in between.
const TRIES_MAX: usize = 20;
/// Most kinds of events in a filter.
const KINDS_MAX: usize = 64;

/// Makes a webhook. The same again gives the same one, without its secret; true when this call made it.
pub async fn create(app: &App, caller: &Caller, wanted: CreateWebhook) -> Result<(WebhookView, bool), Error> {
    caller.has(Scope::Admin)?;
    let namespace = wanted.namespace.or_else(|| caller.namespace.clone());
    if let Some(namespace) = &namespace {
        caller.may(Scope::Admin, namespace)?;
        check_name("namespace", namespace)?;
    }
    check_name("name", &wanted.name)?;
    let filter = check_filter(&wanted.filter)?;
    let kinds = event_filter(&wanted.filter, namespace.clone())?.kinds();
    let given = wanted.secret.as_deref().map(WebhookSecret::read).transpose()?;
    app.webhooks.check_url(&app.live, &wanted.url).await?;
    if let Some(namespace) = &namespace {
        // Made on first use, and refused while it is disabled.
        app.namespaces.limits(namespace).await?;
    }
    let secret = given.unwrap_or_else(|| WebhookSecret::fresh(&*app.entropy));
    let id = WebhookId::new(app.store.now().await?, app.entropy.bits());
    // Before its position is taken: from there on everything is written.
    app.webhooks.want(app, kinds).await?;
    let new = NewWebhook {
        id,
        namespace: namespace.clone(),
        name: wanted.name.clone(),
        url: wanted.url.clone(),
        filter: filter.clone(),
        secret: app.secrets.ring().seal_webhook(id, &secret.0, &*app.entropy),
        position: last_event(app).await?,
        created_by: caller.key_id.clone(),
        namespace_max: WEBHOOKS_PER_NAMESPACE_MAX,
        all_max: WEBHOOKS_MAX,
    };
    match app.store.add_webhook(new).await? {
        WebhookAnswer::Made(made) => {
            app.webhooks.signals.changed();
            audit::act(app, caller, "webhook.create", &id.to_string(), &origin(&made.url), namespace.as_deref())
                .await?;
            let view = view(app, caller, made, 0).await?;
            Ok((WebhookView { secret: Some(secret.reveal()), ..view }, true))
        }
        WebhookAnswer::Exists(known) => {
            // The kinds that were asked for may not be needed after all.
            app.webhooks.signals.changed();
            let same_secret = match &wanted.secret {
                Some(_) => is_current(app, &known, &secret).await?,
                None => true,
            };
            if known.url == wanted.url && known.filter == filter && same_secret {
                return Ok((read_one(app, caller, known).await?, false));
            }
            let name = wanted.name;
            Err(Error::Conflict(format!(
                "there is a webhook {name} already, and it is another one: change it, or choose another name"
            )))
        }
        WebhookAnswer::Full => {
            app.webhooks.signals.changed();
            let limit = WEBHOOKS_PER_NAMESPACE_MAX as u64;
            Err(match namespace {
                Some(namespace) => Error::NamespaceLimit { namespace, what: "webhooks", limit },
                None => Error::Conflict(format!(
                    "there may be {limit} webhooks of all namespaces, and {WEBHOOKS_MAX} of any kind; delete some"
                )),
            })
        }
    }
}

/// The position of the last event of all.
async fn last_event(app: &App) -> Result<i64, Error> {
    Ok(app.store.events_after(i64::MAX - 1, 1).await?.last)
}

/// A filter as it is kept, if it makes sense.
fn check_filter(filter: &WebhookFilter) -> Result<String, Error> {
    let words = [
        ("filter.queue", &filter.queue),
        ("filter.type", &filter.run_type),
        ("filter.run", &filter.run),
        ("filter.worker", &filter.worker),
        ("filter.pool", &filter.pool),
    ];
    if let Some((field, _)) =
        words.iter().find(|(_, word)| word.as_ref().is_some_and(|word| word.is_empty() || word.len() > NAME_BYTES_MAX))
    {
        return Err(Error::field(*field, format!("must have 1 to {NAME_BYTES_MAX} bytes")));
    }
    if filter.kinds.len() > KINDS_MAX {
        return Err(Error::field("filter.kinds", format!("must have at most {KINDS_MAX} entries")));
    }
    if let Some(word) = filter.kinds.iter().find(|word| word.contains(',') || word.trim().is_empty()) {
        return Err(Error::field("filter.kinds", format!("has {word:?}, which is no kind of event")));
    }
    event_filter(filter, None).map_err(|error| match error {
        Error::InvalidField { why, .. } => Error::field("filter.kinds", why),
        other => other,
    })?;
    serde_json::to_string(filter).map_err(|_| Error::Internal)
}

/// Changes a webhook.
pub async fn change(app: &App, caller: &Caller, id: &str, wanted: ChangeWebhook) -> Result<WebhookView, Error> {
    let filter = wanted.filter.as_ref().map(check_filter).transpose()?;
    // Before the URL is looked at: nobody is to try out URLs with the help of others' webhooks.
    find(app, caller, Scope::Admin, id).await?;
    if let Some(url) = &wanted.url {
        app.webhooks.check_url(&app.live, url).await?;
    }
    for _ in 0..TRIES_MAX {
        let seen = find(app, caller, Scope::Admin, id).await?;
        let is_new_filter = filter.as_ref().is_some_and(|filter| *filter != seen.filter);
        if let Some(filter) = wanted.filter.as_ref().filter(|_| is_new_filter) {
            app.webhooks.want(app, event_filter(filter, seen.namespace.clone())?.kinds()).await?;
            if seen.state == WebhookState::Active {
                // What has happened until now is for the filter that it had.
                app.webhooks.catch_up(app, seen.clone()).await?;
            }
        }
        let change = WebhookChange {
            url: wanted.url.clone().unwrap_or_else(|| seen.url.clone()),
            filter: filter.clone().unwrap_or_else(|| seen.filter.clone()),
            is_new_filter,
            ..WebhookChange::of(&seen)
        };
        if change == WebhookChange::of(&seen) {
            return read_one(app, caller, seen).await;
        }
        if let Some(changed) = app.store.change_webhook(seen.id, seen.revision, change).await? {
            app.webhooks.signals.changed();
            let namespace = changed.namespace.clone();
            audit::act(app, caller, "webhook.change", id, &origin(&changed.url), namespace.as_deref()).await?;
            return read_one(app, caller, changed).await;
        }
    }
    Err(keeps_changing())
}

fn keeps_changing() -> Error {
    Error::Conflict("the webhook keeps changing; look at it and try again".into())
}

/// Deletes a webhook with everything that waits for it.
pub async fn delete(app: &App, caller: &Caller, id: &str) -> Result<(), Error> {
    let seen = find(app, caller, Scope::Admin, id).await?;
    app.store.delete_webhook(seen.id).await?;
    app.webhooks.signals.changed();
    audit::act(app, caller, "webhook.delete", id, &seen.name, seen.namespace.as_deref()).await
}

/// One webhook.
pub async fn get(app: &App, caller: &Caller, id: &str) -> Result<WebhookView, Error> {
    let found = find(app, caller, Scope::Read, id).await?;
    read_one(app, caller, found).await
}

/// A page of the webhooks that the caller sees (of one namespace, if given), newest first.
pub async fn list(
    app: &App,
    caller: &Caller,
    namespace: Option<&str>,
    page: Page<WebhookId>,
) -> Result<Vec<WebhookView>, Error> {
    caller.has(Scope::Read)?;
    if let Some(namespace) = namespace {
        caller.may(Scope::Read, namespace)?;
    }
    let found = app.store.webhooks(namespace.or(caller.namespace.as_deref()), page).await?;
    let ids: Vec<WebhookId> = found.iter().map(|webhook| webhook.id).collect();
    let dead = app.store.count_dead_deliveries(&ids).await?;
    let mut views = Vec::with_capacity(found.len());
    for (webhook, dead) in found.into_iter().zip(dead) {
        views.push(view(app, caller, webhook, dead).await?);
    }
    Ok(views)
}

/// The webhook, if the caller may do this with it. A foreign one is as unknown as one that is not there.
async fn find(app: &App, caller: &Caller, scope: Scope, id: &str) -> Result<Webhook, Error> {
    caller.has(scope)?;
    let unknown = || Error::NotFound { what: "webhook", id: id.into() };
    let number = id.parse().map(WebhookId).map_err(|_| unknown())?;
    let found = app.store.webhook(number).await?.ok_or_else(unknown)?;
    let is_seen = match &found.namespace {
        Some(namespace) => caller.sees(namespace),
        None => caller.namespace.is_none(),
    };
    if is_seen { Ok(found) } else { Err(unknown()) }
}

/// Whether a webhook signs with this secret.
async fn is_current(app: &App, webhook: &Webhook, secret: &WebhookSecret) -> Result<bool, Error> {
    let current = app.secrets.open_webhook(webhook.id, &webhook.secret).await?;
    Ok(current.is_some_and(|current| current == secret.0))
}

async fn read_one(app: &App, caller: &Caller, webhook: Webhook) -> Result<WebhookView, Error> {
    let dead = app.store.count_dead_deliveries(&[webhook.id]).await?.first().copied().unwrap_or_default();
    view(app, caller, webhook, dead).await
}

async fn view(app: &App, caller: &Caller, webhook: Webhook, dead: u64) -> Result<WebhookView, Error> {
    let now = app.time.now().await?;
    let later = |at: Millis| (at > now).then_some(Time(at));
    Ok(WebhookView {
        id: webhook.id.to_string(),
        filter: read_filter(&webhook.filter)?,
        url: if caller.can(Scope::Admin) { webhook.url } else { origin(&webhook.url) },
        state: state_name(webhook.state).into(),
        why: Some(webhook.why).filter(|why| !why.is_empty()),
        secret: None,
        secret_before_until: webhook.secret_before.and(later(webhook.before_until)),
        waiting: webhook.waiting,
        dead,
        missed: webhook.missed,
        failing_since: webhook.failing_since.map(Time),
        last_success_at: webhook.last_success_at.map(Time),
        held_until: later(webhook.held_until),
        created_at: Time(webhook.created_at),
        created_by: webhook.created_by,
        name: webhook.name,
        namespace: webhook.namespace,
    })
}

fn state_name(state: WebhookState) -> &'static str {
    match state {
        WebhookState::Active => "active",
        WebhookState::Paused => "paused",
        WebhookState::Disabled => "disabled",
    }
}

/// Scheme and host of a URL: the rest may hold a secret.
fn origin(url: &str) -> String {
    let read = reqwest::Url::parse(url).ok();
    read.map_or_else(String::new, |url| url.origin().ascii_serialization())
}
