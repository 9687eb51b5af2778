//! Queues and lanes, keys, the audit log, retention.

use std::collections::HashMap;

use baton_core::order::LEVELS;
use baton_core::token::Hash;
use baton_core::{Millis, RunId};

use super::PostgresStore;
use super::params::params;
use super::pool::{Outcome, retried};
use super::rows::{self, clean, to_json};
use super::sql;
use crate::{
    AuditEntry, AuditRecord, Depth, Key, Lane, LaneDepth, LaneId, LaneName, Look, NewKey, Page, Queue, QueueChange,
    QueueId, Retained, Rotation, StoreError,
};

impl PostgresStore {
    pub(super) async fn read_now(&self) -> Outcome<Millis> {
        let rows = self.database.query(sql::READ_NOW, params![self.database.fixed_now()]).await?;
        let Some(row) = rows.first() else {
            return Err(StoreError::Internal("the database did not tell the time".into()).into());
        };
        match row.try_get("read_only")? {
            true => Err(StoreError::Unavailable("the database can only be read".into()).into()),
            false => Ok(row.try_get("now")?),
        }
    }

    pub(super) async fn keep_storage_mark(&self, found: [u8; 16]) -> Outcome<[u8; 16]> {
        let rows = self.database.query(sql::KEEP_STORAGE_MARK, params![found.as_slice()]).await?;
        let kept = rows.first().map(|row| row.try_get::<_, Vec<u8>>(0)).transpose()?.unwrap_or_default();
        kept.try_into().map_err(|_| StoreError::Internal("the mark of the storage is damaged".into()).into())
    }

    pub(super) async fn change_storage_mark(&self, mark: [u8; 16]) -> Outcome<()> {
        self.database.query(sql::SET_STORAGE_MARK, params![mark.as_slice()]).await?;
        Ok(())
    }

    pub(super) async fn find_or_add_lanes(&self, names: &[LaneName]) -> Outcome<Vec<Lane>> {
        let mut found = self.find_lanes(names).await?;
        let missing: Vec<&LaneName> =
            names.iter().enumerate().filter(|(index, _)| !found.contains_key(index)).map(|(_, name)| name).collect();
        if !missing.is_empty() {
            let namespaces: Vec<&str> = missing.iter().map(|name| name.namespace.as_str()).collect();
            let queues: Vec<&str> = missing.iter().map(|name| name.queue.as_str()).collect();
            let kinds: Vec<&str> = missing.iter().map(|name| name.kind.as_str()).collect();
            retried!(self.database.query(sql::ADD_QUEUES, params![namespaces, queues]))?;
            retried!(self.database.query(sql::ADD_LANES, params![namespaces, queues, kinds]))?;
            found = self.find_lanes(names).await?;
        }
        let lane = |index: usize| {
            let missing = || StoreError::Internal("a lane is gone that was just made".into()).into();
            found.get(&index).copied().ok_or_else(missing)
        };
        (0..names.len()).map(lane).collect()
    }

    async fn find_lanes(&self, names: &[LaneName]) -> Outcome<HashMap<usize, Lane>> {
        let namespaces: Vec<&str> = names.iter().map(|name| name.namespace.as_str()).collect();
        let queues: Vec<&str> = names.iter().map(|name| name.queue.as_str()).collect();
        let kinds: Vec<&str> = names.iter().map(|name| name.kind.as_str()).collect();
        let mut found = HashMap::new();
        for row in self.database.query(sql::FIND_LANES, params![namespaces, queues, kinds]).await? {
            let lane = Lane { lane: row.try_get("lane_id")?, queue: row.try_get("queue_id")? };
            found.insert(row.try_get::<_, i64>("ordinal")? as usize - 1, lane);
        }
        Ok(found)
    }

    pub(super) async fn list_lanes(&self) -> Outcome<Vec<(LaneName, Lane)>> {
        let mut lanes = Vec::new();
        for row in self.database.query(sql::LIST_LANES, &[]).await? {
            let name = LaneName { namespace: row.try_get(0)?, queue: row.try_get(1)?, kind: row.try_get(2)? };
            lanes.push((name, Lane { lane: row.try_get(3)?, queue: row.try_get(4)? }));
        }
        Ok(lanes)
    }

    pub(super) async fn list_queues(&self, namespace: Option<&str>) -> Outcome<Vec<Queue>> {
        self.database.query(sql::LIST_QUEUES, params![namespace]).await?.iter().map(rows::queue).collect()
    }

    pub(super) async fn change_queue(&self, namespace: &str, name: &str, change: QueueChange) -> Outcome<Queue> {
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        match self
            .database
            .query(
                sql::SET_QUEUE,
                params![
                    self.database.fixed_now(),
                    namespace,
                    name,
                    change.paused_until.is_some(),
                    change.paused_until.flatten(),
                    change.backlog_max.is_some(),
                    change.backlog_max.flatten().map(signed),
                    change.rate_per_second.is_some(),
                    change.rate_per_second.flatten(),
                    change.key_limit.is_some(),
                    change.key_limit.flatten().map(|limit| i32::try_from(limit).unwrap_or(i32::MAX)),
                ],
            )
            .await?
            .first()
        {
            Some(row) => rows::queue(row),
            None => Err(StoreError::Internal("the queue was not written".into()).into()),
        }
    }

    pub(super) async fn count_depths(&self, queues: &[QueueId], cap: u64) -> Outcome<Vec<Depth>> {
        // The statement multiplies it.
        let cap = i64::try_from(cap).unwrap_or(i64::MAX).min(i64::MAX / 16);
        let mut depths = Vec::with_capacity(queues.len());
        for row in
            self.database.query(sql::COUNT_DEPTHS, params![self.database.fixed_now(), queues.to_vec(), cap]).await?
        {
            depths.push(Depth {
                queue: row.try_get("queue_id")?,
                ready: row.try_get::<_, i64>("ready")? as u64,
                scheduled: row.try_get::<_, i64>("scheduled")? as u64,
                held: row.try_get::<_, i64>("held")? as u64,
                sleeping: row.try_get::<_, i64>("sleeping")? as u64,
                oldest_ms: row.try_get("oldest_ms")?,
            });
        }
        Ok(depths)
    }

    pub(super) async fn count_lane_depths(&self, lanes: &[LaneId], cap: u64) -> Outcome<Vec<LaneDepth>> {
        let cap = i64::try_from(cap).unwrap_or(i64::MAX).min(i64::MAX / 16);
        let mut depths = Vec::with_capacity(lanes.len());
        for row in
            self.database.query(sql::COUNT_LANE_DEPTHS, params![self.database.fixed_now(), lanes.to_vec(), cap]).await?
        {
            depths.push(LaneDepth {
                lane: row.try_get("lane_id")?,
                ready: row.try_get::<_, i64>("ready")? as u64,
                oldest_ms: row.try_get("oldest_ms")?,
            });
        }
        Ok(depths)
    }

    pub(super) async fn look_at(&self, lanes: &[LaneId]) -> Outcome<Look> {
        self.cursor.soften();
        let mut look = Look::default();
        if lanes.is_empty() {
            return Ok(look);
        }
        for row in self
            .database
            .query(
                sql::LOOK_LANES,
                params![self.database.fixed_now(), lanes.to_vec(), self.cursor.starts(lanes), i32::from(LEVELS)],
            )
            .await?
        {
            let lane = row.try_get("lane_id")?;
            if row.try_get("is_ready")? {
                look.ready.push(lane);
            }
            look.later.extend(row.try_get::<_, Option<Millis>>("due_in_ms")?.map(|ms| (lane, ms)));
        }
        Ok(look)
    }

    pub(super) async fn insert_key(&self, key: &NewKey) -> Outcome<bool> {
        let scopes = to_json(&key.scopes)?;
        Ok(!self
            .database
            .query(
                sql::ADD_KEY,
                params![
                    self.database.fixed_now(),
                    key.id,
                    key.hash.as_slice(),
                    key.name,
                    scopes,
                    key.namespace,
                    key.lives_ms
                ],
            )
            .await?
            .is_empty())
    }

    pub(super) async fn read_key(&self, hash: &Hash) -> Outcome<Option<Key>> {
        let (now, hash) = (self.database.fixed_now(), hash.as_slice());
        self.database.query(sql::READ_KEY, params![now, hash]).await?.first().map(rows::key).transpose()
    }

    pub(super) async fn change_key_secret(&self, id: &str, to: &Rotation) -> Outcome<bool> {
        let (now, hash) = (self.database.fixed_now(), to.hash.as_slice());
        let params = params![now, id, hash, to.overlap_ms, to.lives_ms];
        Ok(!self.database.query(sql::ROTATE_KEY, params).await?.is_empty())
    }

    pub(super) async fn mark_key_used(&self, id: &str) -> Outcome<()> {
        self.database.query(sql::TOUCH_KEY, params![self.database.fixed_now(), id]).await.map(drop)
    }

    pub(super) async fn list_keys(&self) -> Outcome<Vec<Key>> {
        self.database.query(sql::LIST_KEYS, params![self.database.fixed_now()]).await?.iter().map(rows::key).collect()
    }

    pub(super) async fn mark_key_revoked(&self, id: &str) -> Outcome<bool> {
        Ok(!self.database.query(sql::REVOKE_KEY, params![self.database.fixed_now(), id]).await?.is_empty())
    }

    pub(super) async fn write_audit(&self, entries: Vec<AuditEntry>) -> Outcome<Vec<AuditRecord>> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let column = |of: fn(&AuditEntry) -> &str| entries.iter().map(|entry| clean(of(entry))).collect::<Vec<_>>();
        let optional = |of: fn(&AuditEntry) -> &Option<String>| -> Vec<Option<String>> {
            entries.iter().map(|entry| of(entry).as_deref().map(clean)).collect()
        };
        let rows = self
            .database
            .query(
                sql::ADD_AUDIT,
                params![
                    self.database.fixed_now(),
                    column(|entry| &entry.actor),
                    column(|entry| &entry.action),
                    column(|entry| &entry.subject),
                    column(|entry| &entry.detail),
                    optional(|entry| &entry.namespace),
                    optional(|entry| &entry.address),
                    optional(|entry| &entry.request_id),
                ],
            )
            .await?;
        let written = rows.iter().zip(entries);
        written.map(|(row, entry)| Ok(AuditRecord { id: row.try_get("id")?, at: row.try_get("at")?, entry })).collect()
    }

    pub(super) async fn list_audit(&self, page: Page<i64>, oldest_first: bool) -> Outcome<Vec<AuditRecord>> {
        let limit = page.limit as i64;
        let rows = match oldest_first {
            true => self.database.query(sql::FOLLOW_AUDIT, params![page.after.unwrap_or(0), limit]).await?,
            false => self.database.query(sql::LIST_AUDIT, params![page.after, limit]).await?,
        };
        let mut records = Vec::new();
        for row in rows {
            records.push(AuditRecord {
                id: row.try_get("id")?,
                at: row.try_get("at")?,
                entry: AuditEntry {
                    actor: row.try_get("actor")?,
                    action: row.try_get("action")?,
                    subject: row.try_get("subject")?,
                    detail: row.try_get("detail")?,
                    namespace: row.try_get("namespace")?,
                    address: row.try_get("address")?,
                    request_id: row.try_get("request_id")?,
                },
            });
        }
        Ok(records)
    }

    pub(super) async fn delete_old(
        &self,
        runs_ms: Millis,
        workers_ms: Millis,
        audit_ms: Millis,
        limit: usize,
    ) -> Outcome<Retained> {
        let (now, limit) = (self.read_now().await?, limit as i64);
        let before = |ms: Millis| now.saturating_sub(ms);
        let floor = RunId::floor(before(runs_ms)).0;
        let builds = self.strip_builds(floor, before(runs_ms), limit).await?;
        // Looked up one by one, whatever the planner believes.
        let runs = retried!(self.database.query_each(
            sql::DELETE_RUNS,
            params![floor, before(runs_ms), limit, builds, now],
            usize::MAX
        ))?;
        let workers = self.database.query(sql::DELETE_WORKERS, params![before(workers_ms), limit]).await?;
        self.database.query(sql::DELETE_AFFINITY, params![before(runs_ms)]).await?;
        let audit = self.database.query(sql::DELETE_AUDIT, params![before(audit_ms), limit]).await?;
        Ok(Retained { runs: runs.len() as u64, workers: workers.len() as u64, audit: audit.len() as u64 })
    }
}
