//! Files: noted before they are written, forgotten after they are removed.

use baton_core::{Millis, RunId};
use rusqlite::{Result, Row, params};
use uuid::Uuid;

use super::super::connection::Sql;
use super::super::{rows, statements};
use super::machines::claimed_at;
use super::record::uuid;
use crate::{Artifact, ArtifactKind, LeaseRef, NewArtifact, StoreResult};

pub(super) fn add(sql: &Sql<'_>, artifact: &NewArtifact) -> StoreResult<bool> {
    let lease = artifact.owner.lease();
    if let Some(lease) = lease
        && claimed_at(sql, lease)?.is_none()
    {
        return Ok(false);
    }
    sql.execute(
        statements::INSERT_ARTIFACT,
        params![
            artifact.id.as_bytes(),
            artifact.namespace,
            lease.map(|lease| *lease.run.0.as_bytes()),
            artifact.owner.kind().code(),
            lease.map_or(0, |lease| lease.epoch.code()),
            sql.now,
            artifact.name,
            artifact.path,
        ],
    )?;
    Ok(true)
}

pub(super) fn touch(sql: &Sql<'_>, id: Uuid) -> StoreResult<()> {
    sql.execute(statements::TOUCH_ARTIFACT, params![id.as_bytes(), sql.now])?;
    Ok(())
}

pub(super) fn bind_draft(sql: &Sql<'_>, id: Uuid, lease: LeaseRef) -> StoreResult<bool> {
    let parameters = params![id.as_bytes(), lease.run.0.as_bytes(), lease.epoch.code()];
    Ok(sql.execute(statements::BIND_DRAFT, parameters)? == 1)
}

pub(super) fn stored(sql: &Sql<'_>, id: Uuid, size: u64, sha256: [u8; 32]) -> StoreResult<bool> {
    let (id, size_kept) = (id.as_bytes(), rows::limit(size));
    let parameters = params![id, size_kept, sha256, sql.now];
    let namespace: Option<String> = sql.row(statements::STORE_ARTIFACT, parameters, |row| row.get(0))?;
    match namespace {
        Some(namespace) => {
            sql.execute(statements::ADD_ARTIFACT_BYTES, params![namespace, rows::limit(size)])?;
            Ok(true)
        }
        None => sql.one(statements::READ_STORED_ARTIFACT, params![id, size_kept, sha256], |row| row.get(0)),
    }
}

pub(super) fn one(sql: &Sql<'_>, id: Uuid) -> StoreResult<Option<Artifact>> {
    sql.row(statements::READ_ARTIFACT, params![id.as_bytes()], artifact)
}

pub(super) fn of_run(sql: &Sql<'_>, run: RunId) -> StoreResult<Vec<Artifact>> {
    sql.rows(statements::LIST_ARTIFACTS, params![run.0.as_bytes()], artifact)
}

pub(super) fn orphans(sql: &Sql<'_>, age_ms: Millis, limit: usize) -> StoreResult<Vec<Artifact>> {
    sql.execute(statements::KEEP_RESULTS, params![super::retain::SETTLED_MAX])?;
    let parameters = params![sql.now, sql.now.saturating_sub(age_ms), limit as i64];
    let mut doomed = sql.rows(statements::DOOM_ARTIFACTS, parameters, artifact)?;
    doomed.sort_by_key(|artifact| (artifact.created_at, artifact.id));
    Ok(doomed)
}

pub(super) fn forget(sql: &Sql<'_>, ids: &[Uuid]) -> StoreResult<()> {
    for id in ids {
        let gone: Option<(String, Option<i64>)> =
            sql.row(statements::DELETE_ARTIFACT, params![id.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if let Some((namespace, Some(size))) = gone {
            sql.execute(statements::ADD_ARTIFACT_BYTES, params![namespace, -size])?;
        }
    }
    Ok(())
}

pub(super) fn bytes(sql: &Sql<'_>, namespace: Option<&str>) -> StoreResult<u64> {
    sql.one(statements::SUM_ARTIFACT_BYTES, params![namespace], rows::count)
}

fn artifact(row: &Row<'_>) -> Result<Artifact> {
    let size = rows::maybe(row, "size", rows::number)?;
    let sha256 = row.get::<_, Option<[u8; 32]>>("sha256")?;
    Ok(Artifact {
        id: row.get("artifact_id").map(Uuid::from_bytes)?,
        namespace: row.get("namespace")?,
        run: rows::maybe(row, "run_id", uuid)?.map(RunId),
        kind: rows::coded(row, "kind", ArtifactKind::from_code)?,
        epoch: rows::epoch(row, "epoch")?,
        name: row.get("name")?,
        path: row.get("path")?,
        stored: size.zip(sha256),
        created_at: row.get("created_at")?,
    })
}
