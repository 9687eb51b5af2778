//! Files: noted before they are written, forgotten after they are removed.

use baton_core::{Epoch, Millis, RunId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::PostgresStore;
use super::super::params::{Param, params};
use super::super::pool::Outcome;
use super::super::sql;
use super::retain::SETTLED_MAX;
use super::signed;
use crate::{Artifact, ArtifactKind, LeaseRef, NewArtifact, StoreError};

impl PostgresStore {
    pub(super) async fn insert_artifact(&self, artifact: &NewArtifact) -> Outcome<bool> {
        let lease = artifact.owner.lease();
        let run = lease.map(|lease| lease.run.0);
        let (kind, epoch) = (artifact.owner.kind().code(), lease.map_or(0, |lease| lease.epoch.code()));
        let now = self.database.fixed_now();
        let NewArtifact { id, namespace, name, path, .. } = artifact;
        self.is_true(sql::ADD_ARTIFACT, params![now, id, namespace, run, kind, epoch, name, path]).await
    }

    pub(super) async fn refresh_artifact(&self, id: Uuid) -> Outcome<()> {
        self.database.query(sql::TOUCH_ARTIFACT, params![self.database.fixed_now(), id]).await?;
        Ok(())
    }

    pub(super) async fn bind_result(&self, id: Uuid, lease: LeaseRef) -> Outcome<bool> {
        self.is_true(sql::BIND_DRAFT, params![id, lease.run.0, lease.epoch.code()]).await
    }

    pub(super) async fn store_artifact(&self, id: Uuid, size: u64, sha256: &[u8; 32]) -> Outcome<bool> {
        let now = self.database.fixed_now();
        self.is_true(sql::STORE_ARTIFACT, params![id, signed(size), sha256.as_slice(), now]).await
    }

    pub(super) async fn read_artifact(&self, id: Uuid) -> Outcome<Option<Artifact>> {
        self.look_up(sql::READ_ARTIFACT, params![id]).await?.first().map(artifact).transpose()
    }

    pub(super) async fn list_artifacts(&self, run: RunId) -> Outcome<Vec<Artifact>> {
        self.look_up(sql::LIST_ARTIFACTS, params![run.0]).await?.iter().map(artifact).collect()
    }

    pub(super) async fn doom_artifacts(&self, age_ms: Millis, limit: usize) -> Outcome<Vec<Artifact>> {
        let now = self.read_now().await?;
        self.look_up(sql::KEEP_RESULTS, params![SETTLED_MAX]).await?;
        let rows = self.look_up(sql::DOOM_ARTIFACTS, params![now, age_ms, limit as i64]).await?;
        let mut doomed = rows.iter().map(artifact).collect::<Outcome<Vec<_>>>()?;
        doomed.sort_by_key(|artifact| (artifact.created_at, artifact.id));
        Ok(doomed)
    }

    pub(super) async fn delete_artifacts(&self, ids: &[Uuid]) -> Outcome<()> {
        self.look_up(sql::FORGET_ARTIFACTS, params![ids.to_vec()]).await?;
        Ok(())
    }

    pub(super) async fn sum_artifact_bytes(&self, namespace: Option<&str>) -> Outcome<u64> {
        let rows = self.database.query(sql::SUM_ARTIFACT_BYTES, params![namespace]).await?;
        Ok(rows.first().map(|row| row.try_get::<_, i64>(0)).transpose()?.unwrap_or_default().max(0) as u64)
    }

    async fn is_true(&self, sql: &str, params: &[Param<'_>]) -> Outcome<bool> {
        let rows = self.database.query(sql, params).await?;
        Ok(rows.first().map(|row| row.try_get::<_, bool>(0)).transpose()?.unwrap_or_default())
    }
}

fn artifact(row: &Row) -> Outcome<Artifact> {
    let damaged = |what: &str| StoreError::Internal(format!("the database holds a file with {what}"));
    let size = row.try_get::<_, Option<i64>>("size")?.map(|size| size.max(0) as u64);
    let sha256 = row.try_get::<_, Option<Vec<u8>>>("sha256")?.map(<[u8; 32]>::try_from).transpose();
    let kind = ArtifactKind::from_code(row.try_get("kind")?);
    Ok(Artifact {
        id: row.try_get("artifact_id")?,
        namespace: row.try_get("namespace")?,
        run: row.try_get::<_, Option<Uuid>>("run_id")?.map(RunId),
        kind: kind.ok_or_else(|| damaged("a kind that this program does not know"))?,
        epoch: Epoch::from_code(row.try_get::<_, i64>("epoch")?),
        name: row.try_get("name")?,
        path: row.try_get("path")?,
        stored: size.zip(sha256.map_err(|_| damaged("a checksum that is none"))?),
        created_at: row.try_get("created_at")?,
    })
}
