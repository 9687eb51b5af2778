//! Schedules and their fires.

use async_trait::async_trait;
use baton_core::schedule::plan;
use baton_core::{Millis, RunId};
use rusqlite::{Result, Row, params};

use super::connection::Sql;
use super::{SqliteStore, rows, statements, submit};
use crate::{
    DueSchedules, Fire, FireAnswer, FireKind, FireRecord, FireRun, NewSchedule, Page, Schedule, ScheduleAnswer,
    ScheduleChange, ScheduleNo, Schedules, StoreResult, Submission, Submitted,
};

#[async_trait]
impl Schedules for SqliteStore {
    async fn add_schedule(&self, schedule: NewSchedule) -> StoreResult<ScheduleAnswer> {
        self.write(move |sql| add(sql, &schedule)).await
    }

    async fn schedule(&self, namespace: &str, id: &str) -> StoreResult<Option<Schedule>> {
        let (namespace, id) = (namespace.to_owned(), id.to_owned());
        self.read(move |sql| sql.row(statements::READ_SCHEDULE, params![namespace, id], schedule)).await
    }

    async fn schedules(&self, namespace: Option<&str>, page: Page<(String, String)>) -> StoreResult<Vec<Schedule>> {
        let namespace = namespace.map(str::to_owned);
        self.read(move |sql| {
            let (after_namespace, after_id) = page.after.unzip();
            let parameters = params![namespace, after_namespace, after_id, page.limit as i64];
            sql.rows(statements::LIST_SCHEDULES, parameters, schedule)
        })
        .await
    }

    async fn count_schedules(&self, namespace: Option<&str>) -> StoreResult<u64> {
        let namespace = namespace.map(str::to_owned);
        self.read(move |sql| sql.one(statements::COUNT_SCHEDULES, params![namespace], rows::count)).await
    }

    async fn change_schedule(
        &self,
        number: ScheduleNo,
        revision: i64,
        change: ScheduleChange,
    ) -> StoreResult<Option<Schedule>> {
        self.write(move |sql| {
            let ScheduleChange { spec, note, is_paused, last_at, next_at, buffered_at } = change;
            let parameters = params![number, revision, spec, note, is_paused, last_at, next_at, buffered_at];
            sql.row(statements::CHANGE_SCHEDULE, parameters, schedule)
        })
        .await
    }

    async fn delete_schedule(&self, number: ScheduleNo) -> StoreResult<bool> {
        self.write(move |sql| Ok(sql.execute(statements::DELETE_SCHEDULE, params![number])? > 0)).await
    }

    async fn due_schedules(&self, limit: usize) -> StoreResult<DueSchedules> {
        self.read(move |sql| due(sql, limit)).await
    }

    async fn fire(&self, all: Fire) -> StoreResult<FireAnswer> {
        self.write(move |sql| fire(sql, all)).await
    }

    async fn fire_by_hand(
        &self,
        number: ScheduleNo,
        kind: FireKind,
        fires: Vec<FireRun>,
    ) -> StoreResult<Option<Vec<Submitted>>> {
        self.write(move |sql| {
            if hold(sql, number)?.is_none() {
                return Ok(None);
            }
            let started = start(sql, fires)?;
            let mut new = 0;
            for (at, submitted) in started.iter().filter(|(_, submitted)| submitted.is_new) {
                note(sql, number, *at, kind, Some(submitted.run), None)?;
                new += 1;
            }
            sql.execute(statements::COUNT_FIRED, params![number, new])?;
            Ok(Some(started.into_iter().map(|(_, submitted)| submitted).collect()))
        })
        .await
    }

    async fn fires(&self, number: ScheduleNo, page: Page<i64>) -> StoreResult<Vec<FireRecord>> {
        self.read(move |sql| {
            let parameters = params![number, page.after.unwrap_or(i64::MAX), page.limit as i64];
            sql.rows(statements::LIST_FIRES, parameters, record)
        })
        .await
    }

    async fn last_fires(&self, schedules: &[ScheduleNo], most: usize) -> StoreResult<Vec<(ScheduleNo, FireRecord)>> {
        let schedules = schedules.to_vec();
        self.read(move |sql| {
            let mut listed = Vec::new();
            for number in schedules {
                let fires = sql.rows(statements::LIST_FIRES, params![number, i64::MAX, most as i64], record)?;
                listed.extend(fires.into_iter().map(|fire| (number, fire)));
            }
            Ok(listed)
        })
        .await
    }

    async fn forget_fires(&self, age_ms: Millis, limit: usize) -> StoreResult<u64> {
        self.write(move |sql| {
            let parameters = params![sql.now.saturating_sub(age_ms), limit as i64];
            Ok(sql.execute(statements::DELETE_FIRES, parameters)? as u64)
        })
        .await
    }
}

fn add(sql: &Sql<'_>, new: &NewSchedule) -> StoreResult<ScheduleAnswer> {
    let known = || sql.row(statements::READ_SCHEDULE, params![new.namespace, new.id], schedule);
    if let Some(known) = known()? {
        return Ok(ScheduleAnswer::Exists(known));
    }
    let namespace = sql.row(statements::READ_NAMESPACE, params![new.namespace], super::namespaces::namespace)?;
    if let Some(most) = namespace.and_then(|namespace| namespace.limits.schedules_max)
        && sql.one(statements::COUNT_SCHEDULES, params![new.namespace], rows::count)? >= most
    {
        return Ok(ScheduleAnswer::Full(most));
    }
    let NewSchedule { namespace, id, spec, note, is_paused, last_at, next_at } = new;
    let parameters = params![sql.now, namespace, id, spec, note, is_paused, last_at, next_at];
    sql.one(statements::ADD_SCHEDULE, parameters, schedule).map(ScheduleAnswer::Made)
}

fn due(sql: &Sql<'_>, limit: usize) -> StoreResult<DueSchedules> {
    let limit = limit as i64;
    let mut due = sql.rows(statements::LIST_DUE_SCHEDULES, params![sql.now, limit], schedule)?;
    let (next_at, is_waiting) =
        sql.one(statements::READ_NEXT_SCHEDULE, params![sql.now], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if is_waiting {
        let waiting = sql.rows(statements::LIST_WAITING_SCHEDULES, params![limit], schedule)?;
        let known = |one: &Schedule| due.iter().any(|due| due.number == one.number);
        let waiting: Vec<_> = waiting.into_iter().filter(|one| !known(one)).collect();
        due.extend(waiting);
    }
    Ok(DueSchedules { now: sql.now, due, next_at, is_waiting })
}

/// The schedule as it is, and whether the last run of its rule lives.
fn hold(sql: &Sql<'_>, number: ScheduleNo) -> StoreResult<Option<(Schedule, bool)>> {
    let held = |row: &Row<'_>| Ok((schedule(row)?, row.get("previous_lives")?));
    sql.row(statements::HOLD_SCHEDULE, params![number], held)
}

fn fire(sql: &Sql<'_>, all: Fire) -> StoreResult<FireAnswer> {
    let Some((seen, previous_lives)) = hold(sql, all.schedule)? else { return Ok(FireAnswer::Stale) };
    if seen.revision != all.revision || seen.is_paused {
        return Ok(FireAnswer::Stale);
    }
    let fresh = all.fires.iter().map(|fire| fire.at).filter(|at| Some(*at) != seen.buffered_at);
    let plan = plan(all.overlap, &fresh.collect::<Vec<_>>(), previous_lives, seen.buffered_at);
    let chosen = all.fires.into_iter().filter(|fire| plan.start.contains(&fire.at)).collect();
    let started = start(sql, chosen)?;
    let refused = plan.start.iter().filter(|at| started.iter().all(|(started, _)| started != *at));
    let left_out: Vec<Millis> = plan.left_out.iter().chain(refused).copied().collect();
    if let Some(missed) = all.missed {
        note(sql, all.schedule, missed.at, FireKind::Skipped, None, Some(missed.count))?;
    }
    for at in &left_out {
        note(sql, all.schedule, *at, FireKind::Skipped, None, None)?;
    }
    for (at, submitted) in started.iter().filter(|(_, submitted)| submitted.is_new) {
        note(sql, all.schedule, *at, FireKind::Started, Some(submitted.run), None)?;
    }
    let last = started.last();
    sql.execute(
        statements::SET_FIRED,
        params![
            all.schedule,
            all.last_at,
            all.next_at,
            plan.buffered,
            last.map(|(at, _)| *at),
            last.map(|(_, submitted)| *submitted.run.0.as_bytes()),
            started.iter().filter(|(_, submitted)| submitted.is_new).count() as i64,
            left_out.len() as i64 + all.missed.map_or(0, |missed| missed.count as i64),
        ],
    )?;
    Ok(FireAnswer::Fired(started))
}

/// Submits the runs of fires. A fire whose key somebody took for another run is nobody's: it is left out.
fn start(sql: &Sql<'_>, fires: Vec<FireRun>) -> StoreResult<Vec<(Millis, Submitted)>> {
    let mut started = Vec::with_capacity(fires.len());
    for FireRun { at, run, die, timeout_ms } in fires {
        let answers = submit::submit(sql, &[Submission { runs: vec![run], dice: vec![die] }])?;
        let Some(submitted) = answers.into_iter().flatten().flatten().next() else { continue };
        if let Some(ms) = timeout_ms.filter(|_| submitted.is_new) {
            let parameters = params![submitted.run.0.as_bytes(), submitted.due_at.saturating_add(ms)];
            sql.execute(statements::INSERT_FIRE_DEADLINE, parameters)?;
        }
        started.push((at, submitted));
    }
    Ok(started)
}

fn note(
    sql: &Sql<'_>,
    number: ScheduleNo,
    fire_at: Millis,
    kind: FireKind,
    run: Option<RunId>,
    missed: Option<u64>,
) -> StoreResult<()> {
    let run = run.map(|run| *run.0.as_bytes());
    let missed = missed.map(|count| count as i64);
    sql.execute(statements::INSERT_FIRE, params![number, fire_at, sql.now, kind.code(), run, missed])?;
    Ok(())
}

fn schedule(row: &Row<'_>) -> Result<Schedule> {
    Ok(Schedule {
        number: row.get("schedule_no")?,
        namespace: row.get("namespace")?,
        id: row.get("schedule_id")?,
        spec: row.get("spec")?,
        note: row.get("note")?,
        is_paused: row.get("is_paused")?,
        revision: row.get("revision")?,
        created_at: row.get("created_at")?,
        last_at: row.get("last_at")?,
        next_at: row.get("next_at")?,
        last_fire: row.get("last_fire")?,
        last_run: rows::maybe(row, "last_run", rows::run_id)?,
        buffered_at: row.get("buffered_at")?,
        fired: rows::number(row, "fired")?,
        left_out: rows::number(row, "left_out")?,
    })
}

fn record(row: &Row<'_>) -> Result<FireRecord> {
    Ok(FireRecord {
        number: row.get(0)?,
        fire_at: row.get(1)?,
        at: row.get(2)?,
        kind: rows::coded(row, 3, FireKind::from_code)?,
        run: rows::maybe(row, 4, rows::run_id)?,
        state: rows::maybe(row, 5, rows::state)?,
        missed: row.get::<_, Option<i64>>(6)?.map(|count| count.max(0) as u64),
        claimed_at: row.get(7)?,
        ended_at: row.get(8)?,
    })
}
