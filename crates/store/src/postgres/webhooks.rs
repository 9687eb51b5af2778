//! Webhooks: who is told of events by calls.

use std::collections::HashMap;

use async_trait::async_trait;
use baton_core::Millis;
use baton_core::webhooks::BACKLOG_MAX;
use bytes::Bytes;
use tokio_postgres::Row;
use uuid::Uuid;

use super::params::params;
use super::pool::{Outcome, Session, retried};
use super::{PostgresStore, rows, sql};
use crate::webhooks::after_attempt;
use crate::{
    ClaimedDeliveries, ClaimedDelivery, Delivery, DeliveryId, DeliveryRetention, DeliveryState, NewDelivery,
    NewWebhook, Page, ReplayAnswer, SettledAnswer, SettledDelivery, StoreResult, Webhook, WebhookAnswer, WebhookChange,
    WebhookId, WebhookMove, WebhookState, Webhooks,
};

#[async_trait]
impl Webhooks for PostgresStore {
    async fn add_webhook(&self, webhook: NewWebhook) -> StoreResult<WebhookAnswer> {
        self.database.within(self.insert_webhook(&webhook)).await
    }

    async fn webhook(&self, id: WebhookId) -> StoreResult<Option<Webhook>> {
        let found =
            || async { self.database.query(sql::READ_WEBHOOK, params![id.0]).await?.first().map(read).transpose() };
        self.database.again(found).await
    }

    async fn webhooks(&self, namespace: Option<&str>, page: Page<WebhookId>) -> StoreResult<Vec<Webhook>> {
        let (after, limit) = (page.after.map(|after| after.0), page.limit as i64);
        let listed = || async {
            let found = self.database.query(sql::LIST_WEBHOOKS, params![namespace, after, limit]).await?;
            found.iter().map(read).collect()
        };
        self.database.again(listed).await
    }

    async fn live_webhooks(&self) -> StoreResult<Vec<Webhook>> {
        let listed = || async { self.database.query(sql::LIVE_WEBHOOKS, &[]).await?.iter().map(read).collect() };
        self.database.again(listed).await
    }

    async fn change_webhook(
        &self,
        id: WebhookId,
        revision: i64,
        change: WebhookChange,
    ) -> StoreResult<Option<Webhook>> {
        self.database.within(async { retried!(self.update_webhook(id, revision, &change)) }).await
    }

    async fn delete_webhook(&self, id: WebhookId) -> StoreResult<bool> {
        let delete = async { Ok(!self.database.query(sql::DELETE_WEBHOOK, params![id.0]).await?.is_empty()) };
        self.database.within(delete).await
    }

    async fn move_webhook(&self, moved: WebhookMove) -> StoreResult<bool> {
        self.database.within(async { retried!(self.move_on(&moved)) }).await
    }

    async fn claim_deliveries(
        &self,
        room: &[(WebhookId, usize)],
        limit: usize,
        lease_ms: Millis,
    ) -> StoreResult<ClaimedDeliveries> {
        self.database.within(async { retried!(self.take_deliveries(room, limit, lease_ms)) }).await
    }

    async fn settle_delivery(&self, settled: SettledDelivery) -> StoreResult<SettledAnswer> {
        self.database.within(async { retried!(self.settle(&settled)) }).await
    }

    async fn deliveries(
        &self,
        webhook: WebhookId,
        state: Option<DeliveryState>,
        page: Page<DeliveryId>,
    ) -> StoreResult<Vec<Delivery>> {
        let (state, after) = (state.map(DeliveryState::code), page.after.map(|after| after.0));
        let limit = page.limit as i64;
        let listed = || async {
            let values = params![webhook.0, state, after, limit];
            let found = self.database.query_each(sql::LIST_DELIVERIES, values, usize::MAX).await?;
            found.iter().map(delivery).collect()
        };
        self.database.again(listed).await
    }

    async fn replay_delivery(&self, webhook: WebhookId, id: DeliveryId) -> StoreResult<ReplayAnswer> {
        self.database.again(|| async { retried!(self.replay_one(webhook, id)) }).await
    }

    async fn replay_deliveries(&self, webhook: WebhookId, since: Millis) -> StoreResult<u64> {
        self.database.within(async { retried!(self.replay_dead(webhook, since)) }).await
    }

    async fn count_dead_deliveries(&self, webhooks: &[WebhookId]) -> StoreResult<Vec<u64>> {
        let ids: Vec<Uuid> = webhooks.iter().map(|id| id.0).collect();
        let counted = || async {
            let mut counts = HashMap::new();
            for row in self.database.query_each(sql::COUNT_DEAD_DELIVERIES, params![ids], usize::MAX).await? {
                counts.insert(row.try_get::<_, Uuid>(0)?, row.try_get::<_, i64>(1)?.max(0) as u64);
            }
            Ok(ids.iter().map(|id| counts.get(id).copied().unwrap_or(0)).collect())
        };
        self.database.again(counted).await
    }

    async fn forget_deliveries(&self, retention: DeliveryRetention) -> StoreResult<u64> {
        let DeliveryRetention { state, age_ms, keep, limit } = retention;
        let (now, state) = (self.database.fixed_now(), state.code());
        let (keep, limit) = (keep as i64, limit as i64);
        let forget = async {
            let values = params![now, state, age_ms, keep, limit];
            Ok(self.database.query_each(sql::FORGET_DELIVERIES, values, usize::MAX).await?.len() as u64)
        };
        self.database.within(forget).await
    }
}

impl PostgresStore {
    async fn insert_webhook(&self, new: &NewWebhook) -> Outcome<WebhookAnswer> {
        let NewWebhook { namespace, name, url, filter, position, created_by, .. } = new;
        let (now, secret) = (self.database.fixed_now(), new.secret.as_ref());
        let (own_max, all_max) = (new.namespace_max as i64, new.all_max as i64);
        let values =
            params![now, new.id.0, namespace, name, url, filter, secret, position, created_by, own_max, all_max];
        if let Some(made) = self.database.query(sql::ADD_WEBHOOK, values).await?.first() {
            return Ok(WebhookAnswer::Made(read(made)?));
        }
        let known = self.database.query(sql::FIND_WEBHOOK, params![namespace, name]).await?;
        Ok(known.first().map(read).transpose()?.map_or(WebhookAnswer::Full, WebhookAnswer::Exists))
    }

    async fn update_webhook(&self, id: WebhookId, revision: i64, change: &WebhookChange) -> Outcome<Option<Webhook>> {
        let session = self.database.transaction().await?;
        let WebhookChange { url, filter, why, before_until, position, is_new_filter, .. } = change;
        let (secret, before) = (change.secret.as_ref(), change.secret_before.as_deref());
        let (now, state, first) = (self.database.fixed_now(), change.state.code(), change.first.as_slice());
        let new = first.len() as i64;
        let values = params![
            now,
            id.0,
            revision,
            url,
            filter,
            state,
            why,
            secret,
            before,
            before_until,
            position,
            is_new_filter,
            new
        ];
        let changed = session.query(sql::CHANGE_WEBHOOK, values).await?.first().map(read).transpose()?;
        if changed.is_some() {
            self.add_deliveries(&session, id, first).await?;
        }
        session.commit().await?;
        Ok(changed)
    }

    async fn move_on(&self, moved: &WebhookMove) -> Outcome<bool> {
        let session = self.database.transaction().await?;
        let WebhookMove { webhook, revision, from, to, deliveries, missed } = moved;
        let (new, missed) = (deliveries.len() as i64, *missed as i64);
        let values = params![webhook.0, revision, from, to, new, missed];
        let is_moved = !session.query(sql::MOVE_WEBHOOK, values).await?.is_empty();
        if is_moved {
            self.add_deliveries(&session, *webhook, deliveries).await?;
        }
        session.commit().await?;
        Ok(is_moved)
    }

    async fn add_deliveries(&self, session: &Session<'_>, webhook: WebhookId, new: &[NewDelivery]) -> Outcome<()> {
        if new.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = new.iter().map(|delivery| delivery.id.0).collect();
        let events: Vec<i64> = new.iter().map(|delivery| delivery.event).collect();
        let kinds: Vec<&str> = new.iter().map(|delivery| delivery.kind.as_str()).collect();
        let subjects: Vec<Option<&str>> = new.iter().map(|delivery| delivery.subject.as_deref()).collect();
        let bodies: Vec<&[u8]> = new.iter().map(|delivery| delivery.body.as_ref()).collect();
        let now = self.database.fixed_now();
        session.query(sql::ADD_DELIVERIES, params![now, webhook.0, ids, events, kinds, subjects, bodies]).await?;
        Ok(())
    }

    async fn take_deliveries(
        &self,
        room: &[(WebhookId, usize)],
        limit: usize,
        lease_ms: Millis,
    ) -> Outcome<ClaimedDeliveries> {
        let session = self.database.transaction().await?;
        let (now, limit) = (self.database.fixed_now(), limit as i64);
        let ids: Vec<Uuid> = room.iter().map(|(id, _)| id.0).collect();
        let rooms: Vec<i64> = room.iter().map(|(_, room)| *room as i64).collect();
        let mut claimed = ClaimedDeliveries::default();
        for row in &session.query(sql::CLAIM_DELIVERIES, params![now, ids, rooms, lease_ms, limit]).await? {
            claimed.deliveries.push(claim(row)?);
        }
        let got = |id: &WebhookId| claimed.deliveries.iter().filter(|delivery| delivery.webhook == *id).count();
        let hungry: Vec<Uuid> = room.iter().filter(|(id, room)| got(id) < *room).map(|(id, _)| id.0).collect();
        if let Some(row) = session.query(sql::NEXT_DELIVERY, params![now, hungry]).await?.first() {
            (claimed.now, claimed.next_at) = (row.try_get(0)?, row.try_get(1)?);
        }
        session.commit().await?;
        // An update returns its rows in any order.
        claimed.deliveries.sort_by_key(|delivery| (delivery.webhook, delivery.event));
        Ok(claimed)
    }

    async fn settle(&self, settled: &SettledDelivery) -> Outcome<SettledAnswer> {
        let session = self.database.transaction().await?;
        let now = self.database.fixed_now();
        let Some((mut webhook, at)) = hold(&session, now, settled.webhook).await? else {
            session.roll_back().await?;
            return Ok(SettledAnswer::Stale);
        };
        let SettledDelivery { id, attempt, retry_ms, log, is_given_back, .. } = settled;
        let (attempt, state, given_back) = (*attempt as i32, settled.state.code(), i32::from(*is_given_back));
        let values = params![now, settled.webhook.0, id.0, attempt, state, retry_ms, log, given_back];
        if session.query(sql::SETTLE_DELIVERY, values).await?.is_empty() {
            session.roll_back().await?;
            return Ok(SettledAnswer::Stale);
        }
        let is_disabled = after_attempt(&mut webhook, settled, at);
        note(&session, &webhook).await?;
        session.commit().await?;
        Ok(if is_disabled { SettledAnswer::Disabled(Box::new(webhook)) } else { SettledAnswer::Done })
    }

    async fn replay_one(&self, webhook: WebhookId, id: DeliveryId) -> Outcome<ReplayAnswer> {
        let session = self.database.transaction().await?;
        let now = self.database.fixed_now();
        let held = hold(&session, now, webhook).await?;
        let seen = session.query(sql::READ_DELIVERY, params![webhook.0, id.0]).await?;
        let seen = seen.first().map(delivery).transpose()?;
        let answer = match (held, seen) {
            (None, _) | (_, None) => ReplayAnswer::Unknown,
            (Some(_), Some(seen)) if seen.state == DeliveryState::Waiting => ReplayAnswer::Waits(seen),
            (Some((hook, _)), Some(_)) if hook.waiting >= BACKLOG_MAX => ReplayAnswer::Full,
            (Some((mut hook, _)), Some(_)) => {
                let replayed = session.query(sql::REPLAY_DELIVERY, params![now, webhook.0, id.0]).await?;
                hook.waiting += replayed.len() as u64;
                note(&session, &hook).await?;
                let row = session.query(sql::READ_DELIVERY, params![webhook.0, id.0]).await?;
                row.first().map(delivery).transpose()?.map_or(ReplayAnswer::Unknown, ReplayAnswer::Waits)
            }
        };
        session.commit().await?;
        Ok(answer)
    }

    async fn replay_dead(&self, webhook: WebhookId, since: Millis) -> Outcome<u64> {
        let session = self.database.transaction().await?;
        let now = self.database.fixed_now();
        let Some((mut hook, _)) = hold(&session, now, webhook).await? else {
            session.roll_back().await?;
            return Ok(0);
        };
        let room = BACKLOG_MAX.saturating_sub(hook.waiting) as i64;
        let replayed = session.query(sql::REPLAY_DELIVERIES, params![now, webhook.0, since, room]).await?.len() as u64;
        hook.waiting += replayed;
        note(&session, &hook).await?;
        session.commit().await?;
        Ok(replayed)
    }
}

/// The webhook, locked, and the time.
async fn hold(session: &Session<'_>, now: Option<Millis>, id: WebhookId) -> Outcome<Option<(Webhook, Millis)>> {
    let rows = session.query(sql::HOLD_WEBHOOK, params![now, id.0]).await?;
    rows.first().map(|row| Ok((read(row)?, row.try_get("now")?))).transpose()
}

async fn note(session: &Session<'_>, webhook: &Webhook) -> Outcome<()> {
    let Webhook { failing_since, last_success_at, held_until, why, .. } = webhook;
    let (waiting, state) = (webhook.waiting as i64, webhook.state.code());
    let values = params![webhook.id.0, waiting, failing_since, last_success_at, held_until, state, why];
    session.query(sql::NOTE_ATTEMPT, values).await.map(drop)
}

fn bytes(row: &Row, name: &str) -> Outcome<Bytes> {
    Ok(Bytes::from(row.try_get::<_, Vec<u8>>(name)?))
}

fn read(row: &Row) -> Outcome<Webhook> {
    Ok(Webhook {
        id: WebhookId(row.try_get("webhook_id")?),
        namespace: row.try_get("namespace")?,
        name: row.try_get("name")?,
        url: row.try_get("url")?,
        filter: row.try_get("filter")?,
        state: WebhookState::from_code(row.try_get("state")?).ok_or_else(|| rows::corrupt("a state of a webhook"))?,
        why: row.try_get("why")?,
        secret: bytes(row, "secret")?,
        secret_before: row.try_get::<_, Option<Vec<u8>>>("secret_before")?.map(Bytes::from),
        before_until: row.try_get("before_until")?,
        position: row.try_get("position")?,
        since: row.try_get("since")?,
        waiting: row.try_get::<_, i64>("waiting")?.max(0) as u64,
        missed: row.try_get::<_, i64>("missed")?.max(0) as u64,
        failing_since: row.try_get("failing_since")?,
        last_success_at: row.try_get("last_success_at")?,
        held_until: row.try_get("held_until")?,
        created_at: row.try_get("created_at")?,
        created_by: row.try_get("created_by")?,
        revision: row.try_get("revision")?,
    })
}

fn claim(row: &Row) -> Outcome<ClaimedDelivery> {
    Ok(ClaimedDelivery {
        id: DeliveryId(row.try_get("delivery_id")?),
        webhook: WebhookId(row.try_get("webhook_id")?),
        event: row.try_get("event_id")?,
        kind: row.try_get("kind")?,
        attempt: row.try_get::<_, i32>("attempt")?.max(0) as u32,
        tries: row.try_get::<_, i32>("tries")?.max(0) as u32,
        log: row.try_get("log")?,
        body: bytes(row, "body")?,
    })
}

fn delivery(row: &Row) -> Outcome<Delivery> {
    let state = DeliveryState::from_code(row.try_get("state")?);
    Ok(Delivery {
        id: DeliveryId(row.try_get("delivery_id")?),
        webhook: WebhookId(row.try_get("webhook_id")?),
        event: row.try_get("event_id")?,
        kind: row.try_get("kind")?,
        subject: row.try_get("subject")?,
        state: state.ok_or_else(|| rows::corrupt("a state of a delivery"))?,
        due_at: row.try_get("due_at")?,
        attempt: row.try_get::<_, i32>("attempt")?.max(0) as u32,
        tries: row.try_get::<_, i32>("tries")?.max(0) as u32,
        log: row.try_get("log")?,
        created_at: row.try_get("created_at")?,
        ended_at: row.try_get("ended_at")?,
    })
}
