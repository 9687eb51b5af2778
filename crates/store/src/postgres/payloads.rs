//! Payloads that are kept in the storage.

use async_trait::async_trait;
use baton_core::Millis;
use uuid::Uuid;

use super::params::params;
use super::pool::{Outcome, retried};
use super::{PostgresStore, sql};
use crate::{LookedAt, Payloads, StoreResult};

#[async_trait]
impl Payloads for PostgresStore {
    async fn note_payload(&self, id: Uuid, reference: Vec<u8>) -> StoreResult<()> {
        let (now, reference) = (self.database.fixed_now(), reference.as_slice());
        let params = params![now, id, reference];
        self.database.within(async { self.database.query(sql::NOTE_PAYLOAD, params).await.map(drop) }).await
    }

    async fn touch_payload(&self, id: Uuid) -> StoreResult<bool> {
        let now = self.database.fixed_now();
        let params = params![now, id];
        let touched = async { Ok(!self.database.query(sql::TOUCH_PAYLOAD, params).await?.is_empty()) };
        self.database.within(touched).await
    }

    async fn look_at_payloads(&self, age_ms: Millis, limit: usize) -> StoreResult<LookedAt> {
        self.database.within(async { retried!(self.look(age_ms, limit)) }).await
    }

    async fn forget_payloads(&self, ids: &[Uuid]) -> StoreResult<()> {
        let ids = ids.to_vec();
        self.database.within(async { self.database.query(sql::FORGET_PAYLOADS, params![ids]).await.map(drop) }).await
    }
}

impl PostgresStore {
    async fn look(&self, age_ms: Millis, limit: usize) -> Outcome<LookedAt> {
        let now = self.read_now().await?;
        let limit = limit as i64;
        let params = params![now, age_ms, limit];
        let rows = self.database.query_each(sql::LOOK_AT_PAYLOADS, params, usize::MAX).await?;
        let mut looked = LookedAt { count: rows.len(), doomed: vec![] };
        for row in rows {
            if row.try_get(1)? {
                looked.doomed.push(row.try_get(0)?);
            }
        }
        Ok(looked)
    }
}
