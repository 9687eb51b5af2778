//! Reading what workflows have besides their runs.

use std::collections::{BTreeSet, HashMap};

use baton_core::{Millis, RunId, WorkerId};
use bytes::Bytes;
use futures_util::future::join;
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::PostgresStore;
use super::super::params::params;
use super::super::pool::Outcome;
use super::super::rows::{self, epoch, run_id};
use super::super::sql;
use super::inbox::list_news;
use super::memory::{step_kind, step_row, step_state};
use crate::{
    Journal, LaneId, OpenStep, Page, Relations, RunRecord, STEPS_AT_ONCE, Step, StepAttempt, StepOutline, Waits,
};

/// Stands before the first position and the first attempt.
const NOTHING_YET: i32 = -1;

impl PostgresStore {
    pub(super) async fn note_workflow_lanes(&self, lanes: &[LaneId]) -> Outcome<()> {
        self.database.query(sql::MARK_WORKFLOW_LANES, params![lanes.to_vec()]).await?;
        Ok(())
    }

    pub(super) async fn list_workflow_lanes(&self) -> Outcome<Vec<LaneId>> {
        let rows = self.database.query(sql::LIST_WORKFLOW_LANES, &[]).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    pub(super) async fn read_undone(&self, run: RunId) -> Outcome<bool> {
        let rows = self.database.query(sql::READ_UNDONE, params![run.0]).await?;
        Ok(rows.first().map(|row| row.try_get("is_undone")).transpose()?.unwrap_or_default())
    }

    pub(super) async fn list_waits(&self, run: RunId, limit: usize) -> Outcome<Waits> {
        let mut waits = Waits::default();
        for row in self.database.query(sql::LIST_WAITS, params![run.0, limit as i64]).await? {
            waits.open.push(OpenStep {
                kind: step_kind(row.try_get("kind")?)?,
                name: row.try_get("name")?,
                attempts: row.try_get::<_, i32>("attempts")?.max(0) as u32,
                due_at: row.try_get("due_at")?,
                child: row.try_get::<_, Option<Uuid>>("child")?.map(RunId),
                error: row.try_get("error")?,
            });
        }
        for row in self.database.query(sql::LIST_UNTAKEN_SIGNALS, params![run.0, limit as i64]).await? {
            waits.signals.push((row.try_get("name")?, row.try_get("at")?));
        }
        Ok(waits)
    }

    pub(super) async fn list_journals(&self, runs: &[RunId], bytes_max: u64) -> Outcome<Vec<Journal>> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<Uuid> = runs.iter().map(|run| run.0).collect();
        let each: BTreeSet<RunId> = runs.iter().copied().collect();
        let seen: Vec<(RunId, i64)> = each.into_iter().map(|run| (run, 0)).collect();
        let bytes_max = i64::try_from(bytes_max).unwrap_or(i64::MAX);
        let session = self.database.transaction().await?;
        let steps_max = i64::from(STEPS_AT_ONCE);
        let steps = session.query(sql::LIST_JOURNALS, params![ids, bytes_max, steps_max]).await?;
        let (messages, committed) = join(list_news(&session, &seen), session.commit()).await;
        committed?;
        let messages = messages?;
        let messages = |run| messages.get(run).cloned().unwrap_or_default();
        let mut journals: Vec<Journal> =
            runs.iter().map(|run| Journal { steps: Vec::new(), messages: messages(run) }).collect();
        for row in &steps {
            let index = row.try_get::<_, i64>("ordinal")? as usize - 1;
            if row.try_get::<_, i64>("bytes")? > bytes_max || row.try_get::<_, i64>("number")? > steps_max {
                journals.truncate(index);
                break;
            }
            journals[index].steps.push(step_row(row)?.step());
        }
        Ok(journals)
    }

    pub(super) async fn list_steps(&self, run: RunId, page: Page<u32>) -> Outcome<Vec<Step>> {
        let after = page.after.map_or(NOTHING_YET, |after| after as i32);
        let rows = self.database.query(sql::LIST_STEPS, params![run.0, after, page.limit as i64]).await?;
        rows.iter().map(|row| Ok(step_row(row)?.step())).collect()
    }

    pub(super) async fn list_step_outlines(&self, run: RunId, page: Page<u32>) -> Outcome<Vec<StepOutline>> {
        let after = page.after.map_or(NOTHING_YET, |after| after as i32);
        let rows = self.database.query(sql::LIST_STEP_OUTLINES, params![run.0, after, page.limit as i64]).await?;
        let outline = |row: &Row| {
            Ok(StepOutline {
                position: row.try_get::<_, i32>("position")? as u32,
                kind: step_kind(row.try_get("kind")?)?,
                state: step_state(row.try_get("state")?)?,
                attempts: row.try_get::<_, i32>("attempts")?.max(0) as u32,
                epoch: epoch(row, "epoch")?,
                begun_at: row.try_get("begun_at")?,
                ended_at: row.try_get("ended_at")?,
                due_at: row.try_get("due_at")?,
                child: row.try_get::<_, Option<Uuid>>("child")?.map(RunId),
                name: row.try_get("name")?,
                code: row.try_get("code")?,
            })
        };
        rows.iter().map(outline).collect()
    }

    pub(super) async fn list_step_attempts(
        &self,
        run: RunId,
        position: Option<u32>,
        page: Page<(u32, u32)>,
    ) -> Outcome<Vec<StepAttempt>> {
        let position = position.map(|position| position as i32);
        let (after, after_attempt) =
            page.after.map_or((NOTHING_YET, NOTHING_YET), |(after, attempt)| (after as i32, attempt as i32));
        let limit = page.limit as i64;
        let params = params![run.0, position, after, after_attempt, limit];
        let rows = self.database.query(sql::LIST_STEP_ATTEMPTS, params).await?;
        let attempt = |row: &tokio_postgres::Row| {
            Ok(StepAttempt {
                position: row.try_get::<_, i32>("position")? as u32,
                attempt: row.try_get::<_, i32>("attempt")? as u32,
                name: row.try_get("name")?,
                epoch: epoch(row, "epoch")?,
                worker: row.try_get::<_, Option<Uuid>>("worker_id")?.map(WorkerId),
                state: step_state(row.try_get("state")?)?,
                error: row.try_get("error")?,
                code: row.try_get("code")?,
                begun_at: row.try_get("begun_at")?,
                ended_at: row.try_get("ended_at")?,
            })
        };
        rows.iter().map(attempt).collect()
    }

    pub(super) async fn read_published(&self, run: RunId) -> Outcome<Option<(Bytes, Millis)>> {
        let rows = self.database.query(sql::READ_PUBLISHED, params![run.0]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some((Bytes::from(row.try_get::<_, Vec<u8>>("payload")?), row.try_get("at")?)))
    }

    pub(super) async fn read_workflows(&self, runs: &[RunId]) -> Outcome<Vec<Option<(RunRecord, Relations)>>> {
        let mut found = HashMap::new();
        for row in self.read_runs(runs).await? {
            found.insert(run_id(&row, "run_id")?, (rows::whole_record(&row)?, relations(&row)?));
        }
        Ok(runs.iter().map(|run| found.get(run).cloned()).collect())
    }

    pub(super) async fn find_relations(&self, runs: &[RunId]) -> Outcome<Vec<Relations>> {
        let ids: Vec<Uuid> = runs.iter().map(|run| run.0).collect();
        let mut found = HashMap::new();
        for row in self.database.query(sql::FIND_RELATIONS, params![ids]).await? {
            found.insert(run_id(&row, "run_id")?, relations(&row)?);
        }
        Ok(runs.iter().map(|run| found.get(run).cloned().unwrap_or_default()).collect())
    }
}

/// What a run has to do with others.
fn relations(row: &Row) -> Outcome<Relations> {
    Ok(Relations {
        parent: row.try_get::<_, Option<Uuid>>("parent")?.map(RunId),
        continued_to: row.try_get::<_, Option<Uuid>>("next")?.map(RunId),
        cancel_requested: row.try_get("cancel_requested")?,
    })
}
