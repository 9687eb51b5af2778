//! The schema, brought up to date when a store is opened.

use super::connection::Sql;
use super::statements;
use crate::{StoreError, StoreResult};
use rusqlite::params;

/// A step of the schema. Never change one that was released: add another.
struct Migration {
    version: i64,
    name: &'static str,
    text: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "kernel", text: include_str!("../../migrations/sqlite/0001_kernel.sql") },
    Migration { version: 2, name: "size", text: include_str!("../../migrations/sqlite/0002_size.sql") },
    Migration { version: 3, name: "builds", text: include_str!("../../migrations/sqlite/0003_builds.sql") },
    Migration { version: 4, name: "settings", text: include_str!("../../migrations/sqlite/0004_settings.sql") },
    Migration { version: 5, name: "workflows", text: include_str!("../../migrations/sqlite/0005_workflows.sql") },
    Migration { version: 6, name: "schedules", text: include_str!("../../migrations/sqlite/0006_schedules.sql") },
    Migration { version: 7, name: "log_places", text: include_str!("../../migrations/sqlite/0007_log_places.sql") },
    Migration { version: 8, name: "missed_fires", text: include_str!("../../migrations/sqlite/0008_missed_fires.sql") },
    Migration {
        version: 9,
        name: "workflow_lanes",
        text: include_str!("../../migrations/sqlite/0009_workflow_lanes.sql"),
    },
    Migration { version: 10, name: "payloads", text: include_str!("../../migrations/sqlite/0010_payloads.sql") },
    Migration { version: 11, name: "pools", text: include_str!("../../migrations/sqlite/0011_pools.sql") },
    Migration { version: 12, name: "progress", text: include_str!("../../migrations/sqlite/0012_progress.sql") },
    Migration { version: 13, name: "leases", text: include_str!("../../migrations/sqlite/0013_leases.sql") },
    Migration { version: 14, name: "order_types", text: include_str!("../../migrations/sqlite/0014_order_types.sql") },
    Migration {
        version: 15,
        name: "audit_origin",
        text: include_str!("../../migrations/sqlite/0015_audit_origin.sql"),
    },
    Migration { version: 16, name: "key_life", text: include_str!("../../migrations/sqlite/0016_key_life.sql") },
    Migration { version: 17, name: "secrets", text: include_str!("../../migrations/sqlite/0017_secrets.sql") },
    Migration { version: 18, name: "events", text: include_str!("../../migrations/sqlite/0018_events.sql") },
    Migration { version: 19, name: "bulk", text: include_str!("../../migrations/sqlite/0019_bulk.sql") },
    Migration { version: 20, name: "statistics", text: include_str!("../../migrations/sqlite/0020_statistics.sql") },
    Migration { version: 21, name: "webhooks", text: include_str!("../../migrations/sqlite/0021_webhooks.sql") },
    Migration { version: 22, name: "traces", text: include_str!("../../migrations/sqlite/0022_traces.sql") },
    Migration { version: 23, name: "sessions", text: include_str!("../../migrations/sqlite/0023_sessions.sql") },
    Migration { version: 24, name: "custody", text: include_str!("../../migrations/sqlite/0024_custody.sql") },
    Migration { version: 25, name: "runs_by_key", text: include_str!("../../migrations/sqlite/0025_runs_by_key.sql") },
];

/// Applies what is missing, all in one transaction.
pub(super) fn migrate(sql: &Sql<'_>) -> StoreResult<()> {
    sql.control("begin immediate")?;
    let migrated = apply(sql);
    sql.control(if migrated.is_ok() { "commit" } else { "rollback" })?;
    migrated
}

fn apply(sql: &Sql<'_>) -> StoreResult<()> {
    sql.execute(statements::CREATE_SCHEMA_MIGRATIONS, [])?;
    let applied: Vec<i64> = sql.rows(statements::READ_MIGRATIONS, [], |row| row.get(0))?;
    let found = applied.last().copied().unwrap_or(0);
    let known = MIGRATIONS.last().map_or(0, |newest| newest.version);
    if found > known {
        return Err(StoreError::Internal(format!(
            "the database was written by a newer version of Baton (schema {found}, this program knows {known}); \
             start that version, or restore a backup from before the upgrade"
        )));
    }
    for migration in MIGRATIONS.iter().filter(|migration| !applied.contains(&migration.version)) {
        sql.connection.execute_batch(migration.text)?;
        sql.execute(statements::INSERT_SCHEMA_MIGRATION, params![migration.version, migration.name, sql.now])?;
    }
    Ok(())
}
