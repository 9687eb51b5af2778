//! Namespaces.

use async_trait::async_trait;
use baton_core::WorkerId;
use rusqlite::{Result, Row, params};

use super::{SqliteStore, rows, statements};
use crate::{Namespace, NamespaceChange, NamespaceLimits, Namespaces, StoreResult};

#[async_trait]
impl Namespaces for SqliteStore {
    async fn namespaces(&self, change_no: i64) -> StoreResult<Vec<Namespace>> {
        self.read(move |sql| sql.rows(statements::LIST_NAMESPACES, params![change_no], namespace)).await
    }

    async fn add_namespace(
        &self,
        name: &str,
        description: &str,
        limits: NamespaceLimits,
    ) -> StoreResult<(Namespace, bool)> {
        let (name, description) = (name.to_owned(), description.to_owned());
        self.write(move |sql| {
            let NamespaceLimits { live_runs_max, workers_max, schedules_max, seal_payloads } = limits;
            let limit = |most: Option<u64>| most.map(rows::limit);
            let parameters = params![
                name,
                description,
                sql.now,
                limit(live_runs_max),
                limit(workers_max),
                limit(schedules_max),
                seal_payloads
            ];
            let is_new = sql.execute(statements::ADD_NAMESPACE, parameters)? > 0;
            Ok((sql.one(statements::READ_NAMESPACE, params![name], namespace)?, is_new))
        })
        .await
    }

    async fn change_namespace(&self, name: &str, change: NamespaceChange) -> StoreResult<Option<Namespace>> {
        let name = name.to_owned();
        self.write(move |sql| {
            let limit = |most: Option<Option<u64>>| most.flatten().map(rows::limit);
            sql.execute(
                statements::CHANGE_NAMESPACE,
                params![
                    sql.now,
                    name,
                    change.description,
                    change.disabled.is_some(),
                    change.disabled.clone().flatten(),
                    change.live_runs_max.is_some(),
                    limit(change.live_runs_max),
                    change.workers_max.is_some(),
                    limit(change.workers_max),
                    change.schedules_max.is_some(),
                    limit(change.schedules_max),
                    change.seal_payloads,
                ],
            )?;
            sql.row(statements::READ_NAMESPACE, params![name], namespace)
        })
        .await
    }

    async fn worker_of_instance(&self, instance: &str) -> StoreResult<Option<WorkerId>> {
        let instance = instance.to_owned();
        self.read(move |sql| {
            sql.row(statements::FIND_WORKER_OF_INSTANCE, params![instance], |row| rows::worker_id(row, 0))
        })
        .await
    }
}

pub(super) fn namespace(row: &Row<'_>) -> Result<Namespace> {
    let limit = |index: &str| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(index)?.map(i64::unsigned_abs));
    Ok(Namespace {
        name: row.get("name")?,
        description: row.get("description")?,
        created_at: row.get("created_at")?,
        change_no: row.get("change_no")?,
        disabled_at: row.get("disabled_at")?,
        disabled_reason: row.get("disabled_reason")?,
        limits: NamespaceLimits {
            live_runs_max: limit("live_runs_max")?,
            workers_max: limit("workers_max")?,
            schedules_max: limit("schedules_max")?,
            seal_payloads: row.get("seal_payloads")?,
        },
    })
}
