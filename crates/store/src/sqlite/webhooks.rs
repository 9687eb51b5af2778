//! Webhooks: who is told of events by calls.

use async_trait::async_trait;
use baton_core::Millis;
use baton_core::webhooks::BACKLOG_MAX;
use rusqlite::{Row, params};
use uuid::Uuid;

use super::connection::Sql;
use super::{SqliteStore, rows, statements};
use crate::webhooks::after_attempt;
use crate::{
    ClaimedDeliveries, ClaimedDelivery, Delivery, DeliveryId, DeliveryRetention, DeliveryState, NewDelivery,
    NewWebhook, Page, ReplayAnswer, SettledAnswer, SettledDelivery, StoreResult, Webhook, WebhookAnswer, WebhookChange,
    WebhookId, WebhookMove, WebhookState, Webhooks,
};

#[async_trait]
impl Webhooks for SqliteStore {
    async fn add_webhook(&self, webhook: NewWebhook) -> StoreResult<WebhookAnswer> {
        self.write(move |sql| {
            let NewWebhook { id, namespace, name, url, filter, secret, position, created_by, namespace_max, all_max } =
                &webhook;
            let (id, secret) = (id.0.as_bytes(), secret.as_ref());
            let (own_max, all_max) = (*namespace_max as i64, *all_max as i64);
            let values =
                params![sql.now, id, namespace, name, url, filter, secret, position, created_by, own_max, all_max];
            if let Some(made) = sql.row(statements::ADD_WEBHOOK, values, read)? {
                return Ok(WebhookAnswer::Made(made));
            }
            let known = sql.row(statements::FIND_WEBHOOK, params![namespace, name], read)?;
            Ok(known.map_or(WebhookAnswer::Full, WebhookAnswer::Exists))
        })
        .await
    }

    async fn webhook(&self, id: WebhookId) -> StoreResult<Option<Webhook>> {
        self.read(move |sql| find(sql, id)).await
    }

    async fn webhooks(&self, namespace: Option<&str>, page: Page<WebhookId>) -> StoreResult<Vec<Webhook>> {
        let namespace = namespace.map(str::to_owned);
        self.read(move |sql| {
            let after = page.after.map(|after| *after.0.as_bytes());
            sql.rows(statements::LIST_WEBHOOKS, params![namespace, after, page.limit as i64], read)
        })
        .await
    }

    async fn live_webhooks(&self) -> StoreResult<Vec<Webhook>> {
        self.read(|sql| sql.rows(statements::LIVE_WEBHOOKS, [], read)).await
    }

    async fn change_webhook(
        &self,
        id: WebhookId,
        revision: i64,
        change: WebhookChange,
    ) -> StoreResult<Option<Webhook>> {
        self.write(move |sql| {
            let values = params![
                sql.now,
                id.0.as_bytes(),
                revision,
                change.url,
                change.filter,
                change.state.code(),
                change.why,
                change.secret.as_ref(),
                change.secret_before.as_deref(),
                change.before_until,
                change.position,
                change.is_new_filter,
                i64::from(change.first.is_some()),
            ];
            let changed = sql.row(statements::CHANGE_WEBHOOK, values, read)?;
            if changed.is_some() {
                add(sql, id, change.first.as_slice())?;
            }
            Ok(changed)
        })
        .await
    }

    async fn delete_webhook(&self, id: WebhookId) -> StoreResult<bool> {
        self.write(move |sql| Ok(sql.execute(statements::DELETE_WEBHOOK, params![id.0.as_bytes()])? > 0)).await
    }

    async fn move_webhook(&self, moved: WebhookMove) -> StoreResult<bool> {
        self.write(move |sql| {
            let WebhookMove { webhook, revision, from, to, deliveries, missed } = &moved;
            let (new, missed) = (deliveries.len() as i64, *missed as i64);
            let values = params![webhook.0.as_bytes(), revision, from, to, new, missed];
            if sql.execute(statements::MOVE_WEBHOOK, values)? == 0 {
                return Ok(false);
            }
            add(sql, *webhook, deliveries)?;
            Ok(true)
        })
        .await
    }

    async fn claim_deliveries(
        &self,
        room: &[(WebhookId, usize)],
        limit: usize,
        lease_ms: Millis,
    ) -> StoreResult<ClaimedDeliveries> {
        let room = room.to_vec();
        self.write(move |sql| {
            let mut claimed = ClaimedDeliveries { now: sql.now, ..ClaimedDeliveries::default() };
            for (webhook, room) in &room {
                let id = webhook.0.as_bytes();
                let most = (*room).min(limit - claimed.deliveries.len());
                let values = params![sql.now, id, most as i64, lease_ms];
                let mut found = sql.rows(statements::CLAIM_DELIVERIES, values, claim)?;
                if found.len() < *room {
                    let next = sql.row(statements::NEXT_DELIVERY, params![id], |row| row.get(0))?;
                    claimed.next_at = claimed.next_at.into_iter().chain(next).min();
                }
                // An update returns its rows in any order.
                found.sort_by_key(|delivery| delivery.event);
                claimed.deliveries.extend(found);
            }
            Ok(claimed)
        })
        .await
    }

    async fn settle_delivery(&self, settled: SettledDelivery) -> StoreResult<SettledAnswer> {
        self.write(move |sql| {
            let (webhook, id) = (settled.webhook.0.as_bytes(), settled.id.0.as_bytes());
            let values = params![
                sql.now,
                webhook,
                id,
                settled.attempt,
                settled.state.code(),
                settled.retry_ms,
                settled.log,
                i64::from(settled.is_given_back),
            ];
            if sql.execute(statements::SETTLE_DELIVERY, values)? == 0 {
                return Ok(SettledAnswer::Stale);
            }
            let Some(mut found) = find(sql, settled.webhook)? else { return Ok(SettledAnswer::Stale) };
            let is_disabled = after_attempt(&mut found, &settled, sql.now);
            note(sql, &found)?;
            Ok(if is_disabled { SettledAnswer::Disabled(Box::new(found)) } else { SettledAnswer::Done })
        })
        .await
    }

    async fn deliveries(
        &self,
        webhook: WebhookId,
        state: Option<DeliveryState>,
        page: Page<DeliveryId>,
    ) -> StoreResult<Vec<Delivery>> {
        self.read(move |sql| {
            let (state, after) = (state.map(DeliveryState::code), page.after.map(|after| *after.0.as_bytes()));
            let values = params![webhook.0.as_bytes(), state, after, page.limit as i64];
            sql.rows(statements::LIST_DELIVERIES, values, delivery)
        })
        .await
    }

    async fn replay_delivery(&self, webhook: WebhookId, id: DeliveryId) -> StoreResult<ReplayAnswer> {
        self.write(move |sql| {
            let key = params![webhook.0.as_bytes(), id.0.as_bytes()];
            let (Some(mut hook), Some(seen)) =
                (find(sql, webhook)?, sql.row(statements::READ_DELIVERY, key, delivery)?)
            else {
                return Ok(ReplayAnswer::Unknown);
            };
            if seen.state == DeliveryState::Waiting {
                return Ok(ReplayAnswer::Waits(seen));
            }
            if hook.waiting >= BACKLOG_MAX {
                return Ok(ReplayAnswer::Full);
            }
            sql.execute(statements::REPLAY_DELIVERY, params![sql.now, webhook.0.as_bytes(), id.0.as_bytes()])?;
            hook.waiting += 1;
            note(sql, &hook)?;
            Ok(ReplayAnswer::Waits(sql.one(statements::READ_DELIVERY, key, delivery)?))
        })
        .await
    }

    async fn replay_deliveries(&self, webhook: WebhookId, since: Millis) -> StoreResult<u64> {
        self.write(move |sql| {
            let Some(mut hook) = find(sql, webhook)? else { return Ok(0) };
            let room = BACKLOG_MAX.saturating_sub(hook.waiting) as i64;
            let values = params![sql.now, webhook.0.as_bytes(), since, room];
            let replayed = sql.execute(statements::REPLAY_DELIVERIES, values)? as u64;
            hook.waiting += replayed;
            note(sql, &hook)?;
            Ok(replayed)
        })
        .await
    }

    async fn count_dead_deliveries(&self, webhooks: &[WebhookId]) -> StoreResult<Vec<u64>> {
        let webhooks = webhooks.to_vec();
        self.read(move |sql| {
            let count = |id: &WebhookId| {
                sql.one(statements::COUNT_DEAD_DELIVERIES, params![id.0.as_bytes()], |row| rows::number(row, 0))
            };
            webhooks.iter().map(count).collect()
        })
        .await
    }

    async fn forget_deliveries(&self, retention: DeliveryRetention) -> StoreResult<u64> {
        self.write(move |sql| {
            let DeliveryRetention { state, age_ms, keep, limit } = retention;
            let values = params![sql.now, state.code(), age_ms, keep as i64, limit as i64];
            Ok(sql.execute(statements::FORGET_DELIVERIES, values)? as u64)
        })
        .await
    }
}

fn find(sql: &Sql<'_>, id: WebhookId) -> StoreResult<Option<Webhook>> {
    sql.row(statements::READ_WEBHOOK, params![id.0.as_bytes()], read)
}

fn note(sql: &Sql<'_>, webhook: &Webhook) -> StoreResult<()> {
    let Webhook { failing_since, last_success_at, held_until, why, .. } = webhook;
    let (id, waiting) = (webhook.id.0.as_bytes(), webhook.waiting as i64);
    let values = params![id, waiting, failing_since, last_success_at, held_until, webhook.state.code(), why];
    sql.execute(statements::NOTE_ATTEMPT, values).map(drop)
}

fn add(sql: &Sql<'_>, webhook: WebhookId, deliveries: &[NewDelivery]) -> StoreResult<()> {
    for NewDelivery { id, event, kind, subject, body } in deliveries {
        let (webhook, id) = (webhook.0.as_bytes(), id.0.as_bytes());
        let values = params![sql.now, webhook, id, event, kind, subject, body.as_ref()];
        sql.execute(statements::ADD_DELIVERY, values)?;
    }
    Ok(())
}

fn uuid(row: &Row<'_>, name: &str) -> rusqlite::Result<Uuid> {
    Ok(Uuid::from_bytes(row.get(name)?))
}

fn read(row: &Row<'_>) -> rusqlite::Result<Webhook> {
    Ok(Webhook {
        id: WebhookId(uuid(row, "webhook_id")?),
        namespace: row.get("namespace")?,
        name: row.get("name")?,
        url: row.get("url")?,
        filter: row.get("filter")?,
        state: rows::coded(row, "state", WebhookState::from_code)?,
        why: row.get("why")?,
        secret: rows::bytes(row, "secret")?,
        secret_before: rows::maybe(row, "secret_before", rows::bytes)?,
        before_until: row.get("before_until")?,
        position: row.get("position")?,
        since: row.get("since")?,
        waiting: rows::number(row, "waiting")?,
        missed: rows::number(row, "missed")?,
        failing_since: row.get("failing_since")?,
        last_success_at: row.get("last_success_at")?,
        held_until: row.get("held_until")?,
        created_at: row.get("created_at")?,
        created_by: row.get("created_by")?,
        revision: row.get("revision")?,
    })
}

fn claim(row: &Row<'_>) -> rusqlite::Result<ClaimedDelivery> {
    Ok(ClaimedDelivery {
        id: DeliveryId(uuid(row, "delivery_id")?),
        webhook: WebhookId(uuid(row, "webhook_id")?),
        event: row.get("event_id")?,
        kind: row.get("kind")?,
        attempt: row.get("attempt")?,
        tries: row.get("tries")?,
        log: row.get("log")?,
        body: rows::bytes(row, "body")?,
    })
}

fn delivery(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    Ok(Delivery {
        id: DeliveryId(uuid(row, "delivery_id")?),
        webhook: WebhookId(uuid(row, "webhook_id")?),
        event: row.get("event_id")?,
        kind: row.get("kind")?,
        subject: row.get("subject")?,
        state: rows::coded(row, "state", DeliveryState::from_code)?,
        due_at: row.get("due_at")?,
        attempt: row.get("attempt")?,
        tries: row.get("tries")?,
        log: row.get("log")?,
        created_at: row.get("created_at")?,
        ended_at: row.get("ended_at")?,
    })
}
