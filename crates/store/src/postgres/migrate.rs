//! Brings the schema up to what this program knows.

use super::params::params;
use super::pool::{Database, Outcome};
use super::sql;
use crate::StoreError;

/// Number, name and text of every migration, oldest first.
const MIGRATIONS: &[(i32, &str, &str)] = &[
    (1, "kernel", include_str!("../../migrations/postgres/0001_kernel.sql")),
    (2, "size", include_str!("../../migrations/postgres/0002_size.sql")),
    (3, "builds", include_str!("../../migrations/postgres/0003_builds.sql")),
    (4, "settings", include_str!("../../migrations/postgres/0004_settings.sql")),
    (5, "workflows", include_str!("../../migrations/postgres/0005_workflows.sql")),
    (6, "schedules", include_str!("../../migrations/postgres/0006_schedules.sql")),
    (7, "log_places", include_str!("../../migrations/postgres/0007_log_places.sql")),
    (8, "missed_fires", include_str!("../../migrations/postgres/0008_missed_fires.sql")),
    (9, "workflow_lanes", include_str!("../../migrations/postgres/0009_workflow_lanes.sql")),
    (10, "payloads", include_str!("../../migrations/postgres/0010_payloads.sql")),
    (11, "pools", include_str!("../../migrations/postgres/0011_pools.sql")),
    (12, "progress", include_str!("../../migrations/postgres/0012_progress.sql")),
    (13, "leases", include_str!("../../migrations/postgres/0013_leases.sql")),
    (14, "order_types", include_str!("../../migrations/postgres/0014_order_types.sql")),
    (15, "audit_origin", include_str!("../../migrations/postgres/0015_audit_origin.sql")),
    (16, "key_life", include_str!("../../migrations/postgres/0016_key_life.sql")),
    (17, "secrets", include_str!("../../migrations/postgres/0017_secrets.sql")),
    (18, "events", include_str!("../../migrations/postgres/0018_events.sql")),
    (19, "bulk", include_str!("../../migrations/postgres/0019_bulk.sql")),
    (20, "statistics", include_str!("../../migrations/postgres/0020_statistics.sql")),
    (21, "webhooks", include_str!("../../migrations/postgres/0021_webhooks.sql")),
    (22, "traces", include_str!("../../migrations/postgres/0022_traces.sql")),
    (23, "sessions", include_str!("../../migrations/postgres/0023_sessions.sql")),
    (24, "custody", include_str!("../../migrations/postgres/0024_custody.sql")),
    (25, "runs_by_key", include_str!("../../migrations/postgres/0025_runs_by_key.sql")),
];

/// The newest migration that was applied and the last one known, if it is newer.
pub(super) async fn newer(database: &Database) -> Outcome<Option<(i32, i32)>> {
    let rows = database.query(sql::READ_MIGRATIONS, &[]).await?;
    let newest = rows.last().map(|row| row.try_get::<_, i32>(0)).transpose()?.unwrap_or(0);
    let known = MIGRATIONS.last().map_or(0, |(version, ..)| *version);
    Ok((newest > known).then_some((newest, known)))
}

/// Applies what is missing, in one transaction that only one server at a time can be in.
pub(super) async fn migrate(database: &Database) -> Outcome<()> {
    let session = database.transaction().await?;
    session.query(sql::LOCK_MIGRATIONS, &[]).await?;
    session.query(sql::CREATE_MIGRATIONS, &[]).await?;
    let rows = session.query(sql::READ_MIGRATIONS, &[]).await?;
    let mut applied = Vec::with_capacity(rows.len());
    for row in &rows {
        applied.push(row.try_get::<_, i32>(0)?);
    }
    let known = MIGRATIONS.last().map_or(0, |(version, ..)| *version);
    if let Some(newer) = applied.iter().find(|version| **version > known) {
        session.roll_back().await?;
        return Err(StoreError::Internal(format!(
            "the database has schema version {newer}, but this program only knows versions up to {known}: \
             start a newer version of it"
        ))
        .into());
    }
    for (version, name, text) in MIGRATIONS.iter().filter(|(version, ..)| !applied.contains(version)) {
        session.run_script(text).await?;
        session.query(sql::ADD_MIGRATION, params![*version, *name, database.fixed_now()]).await?;
        tracing::info!(version, name, "applied a migration");
    }
    session.commit().await
}
