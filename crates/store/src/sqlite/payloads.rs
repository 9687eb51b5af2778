//! Payloads that are kept in the storage.

use async_trait::async_trait;
use baton_core::Millis;
use rusqlite::params;
use uuid::Uuid;

use super::connection::Sql;
use super::{SqliteStore, statements};
use crate::{LookedAt, Payloads, StoreResult};

#[async_trait]
impl Payloads for SqliteStore {
    async fn note_payload(&self, id: Uuid, reference: Vec<u8>) -> StoreResult<()> {
        self.write(move |sql| {
            sql.execute(statements::NOTE_PAYLOAD, params![id.as_bytes(), reference, sql.now])?;
            Ok(())
        })
        .await
    }

    async fn touch_payload(&self, id: Uuid) -> StoreResult<bool> {
        self.write(move |sql| {
            let params = params![id.as_bytes(), sql.now];
            Ok(sql.row(statements::TOUCH_PAYLOAD, params, |row| row.get::<_, [u8; 16]>(0))?.is_some())
        })
        .await
    }

    async fn look_at_payloads(&self, age_ms: Millis, limit: usize) -> StoreResult<LookedAt> {
        self.write(move |sql| look(sql, age_ms, limit)).await
    }

    async fn forget_payloads(&self, ids: &[Uuid]) -> StoreResult<()> {
        let ids = ids.to_vec();
        self.write(move |sql| {
            for id in &ids {
                sql.execute(statements::FORGET_PAYLOAD, params![id.as_bytes()])?;
            }
            Ok(())
        })
        .await
    }
}

fn look(sql: &Sql<'_>, age_ms: Millis, limit: usize) -> StoreResult<LookedAt> {
    type Row = ([u8; 16], Vec<u8>, Option<Millis>, bool, Millis);
    let before = sql.now.saturating_sub(age_ms);
    let chosen: Vec<Row> = sql.rows(statements::LIST_PAYLOADS_TO_LOOK_AT, params![before, limit as i64], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
    })?;
    let mut looked = LookedAt { count: chosen.len(), doomed: vec![] };
    for (id, reference, unused_since, doomed, looked_at) in chosen {
        let used: bool = sql.one(statements::IS_PAYLOAD_USED, params![reference], |row| row.get(0))?;
        if doomed || !used && unused_since.is_some_and(|since| since <= before) {
            // Found again until it is forgotten.
            sql.execute(statements::SET_PAYLOAD_LOOKED_AT, params![id, looked_at, unused_since, true])?;
            looked.doomed.push(Uuid::from_bytes(id));
        } else {
            let since = if used { None } else { unused_since.or(Some(sql.now)) };
            sql.execute(statements::SET_PAYLOAD_LOOKED_AT, params![id, sql.now, since, false])?;
        }
    }
    Ok(looked)
}
