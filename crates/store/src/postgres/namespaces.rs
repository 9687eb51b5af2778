//! Namespaces.

use async_trait::async_trait;
use baton_core::WorkerId;
use tokio_postgres::Row;

use super::params::params;
use super::pool::Outcome;
use super::{PostgresStore, sql};
use crate::{Namespace, NamespaceChange, NamespaceLimits, Namespaces, StoreError, StoreResult};

/// A limit for the database, which knows no number as large as the largest of ours.
fn limit(most: Option<u64>) -> Option<i64> {
    most.map(|most| i64::try_from(most).unwrap_or(i64::MAX))
}

#[async_trait]
impl Namespaces for PostgresStore {
    async fn namespaces(&self, change_no: i64) -> StoreResult<Vec<Namespace>> {
        let listed = async {
            self.database.query(sql::LIST_NAMESPACES, params![change_no]).await?.iter().map(namespace).collect()
        };
        self.database.within(listed).await
    }

    async fn add_namespace(
        &self,
        name: &str,
        description: &str,
        limits: NamespaceLimits,
    ) -> StoreResult<(Namespace, bool)> {
        self.database.within(self.insert_namespace(name, description, limits)).await
    }

    async fn change_namespace(&self, name: &str, change: NamespaceChange) -> StoreResult<Option<Namespace>> {
        let changed = async {
            let changed = self
                .database
                .query(
                    sql::CHANGE_NAMESPACE,
                    params![
                        self.database.fixed_now(),
                        name,
                        change.description,
                        change.disabled.is_some(),
                        change.disabled.clone().flatten(),
                        change.live_runs_max.is_some(),
                        limit(change.live_runs_max.flatten()),
                        change.workers_max.is_some(),
                        limit(change.workers_max.flatten()),
                        change.schedules_max.is_some(),
                        limit(change.schedules_max.flatten()),
                        change.seal_payloads,
                    ],
                )
                .await?;
            changed.first().map(namespace).transpose()
        };
        self.database.within(changed).await
    }

    async fn worker_of_instance(&self, instance: &str) -> StoreResult<Option<WorkerId>> {
        let found = async {
            let rows = self.database.query(sql::FIND_WORKER_OF_INSTANCE, params![instance]).await?;
            Ok(rows.first().map(|row| row.try_get(0)).transpose()?.map(WorkerId))
        };
        self.database.within(found).await
    }
}

impl PostgresStore {
    async fn insert_namespace(
        &self,
        name: &str,
        description: &str,
        limits: NamespaceLimits,
    ) -> Outcome<(Namespace, bool)> {
        let now = self.database.fixed_now();
        let NamespaceLimits { live_runs_max, workers_max, schedules_max, seal_payloads } = limits;
        let (live_runs_max, workers_max) = (limit(live_runs_max), limit(workers_max));
        let schedules_max = limit(schedules_max);
        let params = params![now, name, description, live_runs_max, workers_max, schedules_max, seal_payloads];
        if let Some(row) = self.database.query(sql::ADD_NAMESPACE, params).await?.first() {
            return Ok((namespace(row)?, true));
        }
        match self.database.query(sql::READ_NAMESPACE, params![name]).await?.first() {
            Some(row) => Ok((namespace(row)?, false)),
            None => Err(StoreError::Internal("a namespace is gone that was just there".into()).into()),
        }
    }
}

fn namespace(row: &Row) -> Outcome<Namespace> {
    let limit = |column: &str| Outcome::Ok(row.try_get::<_, Option<i64>>(column)?.map(i64::unsigned_abs));
    Ok(Namespace {
        name: row.try_get("name")?,
        description: row.try_get("description")?,
        created_at: row.try_get("created_at")?,
        change_no: row.try_get("change_no")?,
        disabled_at: row.try_get("disabled_at")?,
        disabled_reason: row.try_get("disabled_reason")?,
        limits: NamespaceLimits {
            live_runs_max: limit("live_runs_max")?,
            workers_max: limit("workers_max")?,
            schedules_max: limit("schedules_max")?,
            seal_payloads: row.try_get("seal_payloads")?,
        },
    })
}
