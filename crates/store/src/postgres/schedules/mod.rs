//! Schedules: made, changed, listed. Their fires are in `fire`.

mod fire;

use async_trait::async_trait;
use baton_core::{Millis, RunId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::params::params;
use super::pool::{Outcome, Trouble, retried};
use super::{PostgresStore, rows, sql};
use crate::{
    DueSchedules, Fire, FireAnswer, FireKind, FireRecord, FireRun, NewSchedule, Page, Schedule, ScheduleAnswer,
    ScheduleChange, ScheduleNo, Schedules, StoreError, StoreResult, Submitted,
};

#[async_trait]
impl Schedules for PostgresStore {
    async fn add_schedule(&self, schedule: NewSchedule) -> StoreResult<ScheduleAnswer> {
        self.database.within(async { retried!(self.insert_schedule(&schedule)) }).await
    }

    async fn schedule(&self, namespace: &str, id: &str) -> StoreResult<Option<Schedule>> {
        self.database.within(self.read_schedule(namespace, id)).await
    }

    async fn schedules(&self, namespace: Option<&str>, page: Page<(String, String)>) -> StoreResult<Vec<Schedule>> {
        self.database.within(self.list_schedules(namespace, page)).await
    }

    async fn count_schedules(&self, namespace: Option<&str>) -> StoreResult<u64> {
        let counted = async {
            let rows = self.database.query(sql::COUNT_SCHEDULES, params![namespace]).await?;
            Ok(rows.first().map(|row| row.try_get::<_, i64>(0)).transpose()?.unwrap_or_default() as u64)
        };
        self.database.within(counted).await
    }

    async fn change_schedule(
        &self,
        number: ScheduleNo,
        revision: i64,
        change: ScheduleChange,
    ) -> StoreResult<Option<Schedule>> {
        let ScheduleChange { spec, note, is_paused, last_at, next_at, buffered_at } = change;
        let changed = async {
            let params = params![number, revision, spec, note, is_paused, last_at, next_at, buffered_at];
            self.database.query(sql::CHANGE_SCHEDULE, params).await?.first().map(schedule).transpose()
        };
        self.database.within(changed).await
    }

    async fn delete_schedule(&self, number: ScheduleNo) -> StoreResult<bool> {
        let deleted = async { Ok(!self.database.query(sql::DELETE_SCHEDULE, params![number]).await?.is_empty()) };
        self.database.within(deleted).await
    }

    async fn due_schedules(&self, limit: usize) -> StoreResult<DueSchedules> {
        self.database.within(self.find_due_schedules(limit)).await
    }

    async fn fire(&self, fire: Fire) -> StoreResult<FireAnswer> {
        self.database.within(async { retried!(self.fire_schedule(&fire)) }).await
    }

    async fn fire_by_hand(
        &self,
        number: ScheduleNo,
        kind: FireKind,
        fires: Vec<FireRun>,
    ) -> StoreResult<Option<Vec<Submitted>>> {
        self.database.within(async { retried!(self.fire_schedule_by_hand(number, kind, &fires)) }).await
    }

    async fn fires(&self, number: ScheduleNo, page: Page<i64>) -> StoreResult<Vec<FireRecord>> {
        let listed = async {
            let (after, limit) = (page.after.unwrap_or(i64::MAX), page.limit as i64);
            let params = params![number, after, limit];
            self.database.query_each(sql::LIST_FIRES, params, usize::MAX).await?.iter().map(record).collect()
        };
        self.database.within(listed).await
    }

    async fn last_fires(&self, schedules: &[ScheduleNo], most: usize) -> StoreResult<Vec<(ScheduleNo, FireRecord)>> {
        let (schedules, most) = (schedules.to_vec(), most as i64);
        let listed = async {
            let params = params![schedules, most];
            let rows = self.database.query_each(sql::LIST_LAST_FIRES, params, usize::MAX).await?;
            rows.iter().map(|row| Ok((row.try_get("schedule_no")?, record(row)?))).collect()
        };
        self.database.within(listed).await
    }

    async fn forget_fires(&self, age_ms: Millis, limit: usize) -> StoreResult<u64> {
        let forgotten = async {
            let before = self.read_now().await?.saturating_sub(age_ms);
            Ok(self.database.query(sql::DELETE_FIRES, params![before, limit as i64]).await?.len() as u64)
        };
        self.database.within(forgotten).await
    }
}

impl PostgresStore {
    async fn insert_schedule(&self, new: &NewSchedule) -> Outcome<ScheduleAnswer> {
        let session = self.database.transaction().await?;
        let locked = session.query(sql::LOCK_NAMESPACE, params![new.namespace]).await?;
        let known = session.query(sql::READ_SCHEDULE, params![new.namespace, new.id]).await?;
        if let Some(row) = known.first() {
            session.roll_back().await?;
            return Ok(ScheduleAnswer::Exists(schedule(row)?));
        }
        if let Some(most) = locked.first().map(|row| row.try_get::<_, Option<i64>>(0)).transpose()?.flatten() {
            let counted = session.query(sql::COUNT_SCHEDULES, params![Some(new.namespace.as_str())]).await?;
            if counted.first().map(|row| row.try_get::<_, i64>(0)).transpose()?.unwrap_or_default() >= most {
                session.roll_back().await?;
                return Ok(ScheduleAnswer::Full(most.unsigned_abs()));
            }
        }
        let NewSchedule { namespace, id, spec, note, is_paused, last_at, next_at } = new;
        let now = self.database.fixed_now();
        let params = params![now, namespace, id, spec, note, *is_paused, *last_at, *next_at];
        let made = session.query(sql::ADD_SCHEDULE, params).await?;
        session.commit().await?;
        match made.first() {
            Some(row) => Ok(ScheduleAnswer::Made(schedule(row)?)),
            // In a namespace that is not there yet, nobody keeps others from making the same one.
            None => match self.read_schedule(namespace, id).await? {
                Some(known) => Ok(ScheduleAnswer::Exists(known)),
                None => Err(StoreError::Unavailable("the schedule was deleted while it was made".into()).into()),
            },
        }
    }

    async fn read_schedule(&self, namespace: &str, id: &str) -> Outcome<Option<Schedule>> {
        self.database.query(sql::READ_SCHEDULE, params![namespace, id]).await?.first().map(schedule).transpose()
    }

    async fn list_schedules(&self, namespace: Option<&str>, page: Page<(String, String)>) -> Outcome<Vec<Schedule>> {
        let (after_namespace, after_id) = page.after.unzip();
        let limit = page.limit as i64;
        let params = params![namespace, after_namespace, after_id, limit];
        self.database.query(sql::LIST_SCHEDULES, params).await?.iter().map(schedule).collect()
    }

    async fn find_due_schedules(&self, limit: usize) -> Outcome<DueSchedules> {
        let now = self.database.fixed_now();
        let rows = self.database.query(sql::DUE_SCHEDULES, params![now, limit as i64]).await?;
        let mut found = DueSchedules::default();
        for row in &rows {
            found.now = row.try_get("now")?;
            found.next_at = row.try_get("later_at")?;
            found.is_waiting = row.try_get("is_waiting")?;
            let Some(number) = row.try_get::<_, Option<ScheduleNo>>("schedule_no")? else { continue };
            // One whose time has come may also have a fire that waited.
            if found.due.iter().all(|due| due.number != number) {
                found.due.push(schedule(row)?);
            }
        }
        Ok(found)
    }
}

fn corrupt() -> Trouble {
    StoreError::Internal("the database holds a kind of fire that this program does not know".into()).into()
}

fn schedule(row: &Row) -> Outcome<Schedule> {
    Ok(Schedule {
        number: row.try_get("schedule_no")?,
        namespace: row.try_get("namespace")?,
        id: row.try_get("schedule_id")?,
        spec: row.try_get("spec")?,
        note: row.try_get("note")?,
        is_paused: row.try_get("is_paused")?,
        revision: row.try_get("revision")?,
        created_at: row.try_get("created_at")?,
        last_at: row.try_get("last_at")?,
        next_at: row.try_get("next_at")?,
        last_fire: row.try_get("last_fire")?,
        last_run: row.try_get::<_, Option<Uuid>>("last_run")?.map(RunId),
        buffered_at: row.try_get("buffered_at")?,
        fired: row.try_get::<_, i64>("fired")?.max(0) as u64,
        left_out: row.try_get::<_, i64>("left_out")?.max(0) as u64,
    })
}

fn record(row: &Row) -> Outcome<FireRecord> {
    Ok(FireRecord {
        number: row.try_get("fire_no")?,
        fire_at: row.try_get("fire_at")?,
        at: row.try_get("at")?,
        kind: FireKind::from_code(row.try_get("what")?).ok_or_else(corrupt)?,
        run: row.try_get::<_, Option<Uuid>>("run_id")?.map(RunId),
        state: row.try_get::<_, Option<i16>>("state")?.map(rows::state).transpose()?,
        missed: row.try_get::<_, Option<i64>>("missed")?.map(|count| count.max(0) as u64),
        claimed_at: row.try_get("claimed_at")?,
        ended_at: row.try_get("ended_at")?,
    })
}
