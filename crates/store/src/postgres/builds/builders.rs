//! Builders and their tokens.

use baton_core::{Millis, WorkerId};
use tokio_postgres::Row;

use super::super::PostgresStore;
use super::super::params::params;
use super::super::pool::Outcome;
use super::super::sql;
use crate::{Builder, BuilderSet, TokenAnswer};

impl PostgresStore {
    pub(super) async fn read_builder(&self, namespace: &str, name_id: &str) -> Outcome<Option<Builder>> {
        let rows = self.database.query(sql::READ_BUILDER, params![namespace, name_id]).await?;
        rows.first().map(builder).transpose()
    }

    pub(super) async fn write_builder(
        &self,
        namespace: &str,
        name_id: &str,
        worker: WorkerId,
        key_id: Option<&str>,
        token_ttl_ms: Millis,
    ) -> Outcome<Option<BuilderSet>> {
        let now = self.database.fixed_now();
        let params = params![now, namespace, name_id, worker.0, key_id, token_ttl_ms];
        let rows = self.database.query(sql::SET_BUILDER, params).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let replaced = row.try_get::<_, Option<uuid::Uuid>>("replaced_id")?.map(WorkerId);
        Ok(Some(BuilderSet { token: row.try_get("token")?, replaced }))
    }

    pub(super) async fn show_token(
        &self,
        worker: WorkerId,
        number: i64,
        rotate: Option<Millis>,
    ) -> Outcome<TokenAnswer> {
        let now = self.database.fixed_now();
        let shown = self.database.query(sql::SHOW_TOKEN, params![now, worker.0, number, rotate]).await?;
        if let Some(row) = shown.first() {
            return Ok(builder(row)?.shown(rotate.is_some()));
        }
        let found = self.database.query(sql::READ_BUILDER_OF_WORKER, params![worker.0]).await?;
        if let Some(row) = found.first() {
            return Ok(builder(row)?.refuse(number));
        }
        let known = self.database.query(sql::READ_STATUSES, params![vec![worker.0]]).await?;
        Ok(if known.is_empty() { TokenAnswer::Unknown } else { TokenAnswer::Dead })
    }

    pub(super) async fn count_builder(&self, worker: WorkerId, succeeded: bool) -> Outcome<()> {
        self.database.query(sql::COUNT_BUILDER, params![worker.0, succeeded]).await?;
        Ok(())
    }
}

fn builder(row: &Row) -> Outcome<Builder> {
    Ok(Builder {
        namespace: row.try_get("namespace")?,
        name_id: row.try_get("name_id")?,
        worker: WorkerId(row.try_get("worker_id")?),
        key_id: row.try_get("key_id")?,
        token: row.try_get("token")?,
        token_used: row.try_get("token_used")?,
        token_until: row.try_get("token_until")?,
        registered_at: row.try_get("registered_at")?,
        revoked_at: row.try_get("revoked_at")?,
        succeeded: row.try_get::<_, i64>("succeeded")?.max(0) as u64,
        failed: row.try_get::<_, i64>("failed")?.max(0) as u64,
    })
}
