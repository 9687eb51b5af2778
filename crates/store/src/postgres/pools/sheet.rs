//! Rows onto a sheet, and what has changed on it back into the store, with one statement for each table.

use baton_core::Millis;
use baton_core::pools::RunnerId;
use uuid::Uuid;

use super::super::params::{Param, param, params};
use super::super::pool::{Outcome, Session};
use super::super::rows::clean;
use super::super::{PostgresStore, sql};
use super::rows;
use crate::PoolRunner;
use crate::pool_rules::Sheet;

impl PostgresStore {
    /// The time, for what is decided in this transaction. Asked for after the locks, so that waiting for them makes nothing early.
    pub(super) async fn time_in(&self, session: &Session<'_>) -> Outcome<Millis> {
        let rows = session.query(sql::READ_NOW, params![self.database.fixed_now()]).await?;
        Ok(rows.first().map(|row| row.try_get("now")).transpose()?.unwrap_or_default())
    }

    /// Locks runners and puts them on a sheet.
    pub(super) async fn hold_sheet(
        &self,
        session: &Session<'_>,
        statement: &str,
        ids: impl IntoIterator<Item = RunnerId>,
    ) -> Outcome<Sheet> {
        let ids: Vec<Uuid> = ids.into_iter().map(|id| id.0).collect();
        let found = session.query(statement, params![ids]).await?;
        let found: Vec<PoolRunner> = found.iter().map(rows::runner).collect::<Outcome<_>>()?;
        Ok(Sheet::new(self.time_in(session).await?, found))
    }
}

/// Columns of runners that have changed.
#[derive(Default)]
struct Columns {
    ids: Vec<Uuid>,
    was_state: Vec<i16>,
    was_epoch: Vec<i32>,
    state: Vec<i16>,
    epoch: Vec<i32>,
    claim: Vec<Option<i64>>,
    run_id: Vec<Option<String>>,
    deadline: Vec<Option<Millis>>,
    registered_at: Vec<Option<Millis>>,
    cause: Vec<Option<i16>>,
    since: Vec<Millis>,
    machine_id: Vec<Option<String>>,
    kind: Vec<String>,
    usage: Vec<i16>,
    cpu: Vec<i32>,
    memory_mib: Vec<i64>,
    seen_at: Vec<Option<Millis>>,
    uses: Vec<i32>,
    detail: Vec<String>,
    token: Vec<Option<Vec<u8>>>,
}

impl Columns {
    fn push(&mut self, before: &PoolRunner, after: &PoolRunner) {
        let (was, is) = (&before.rules, &after.rules);
        self.ids.push(after.id.0);
        self.was_state.push(was.state.code());
        self.was_epoch.push(was.epoch.number() as i32);
        self.state.push(is.state.code());
        self.epoch.push(is.epoch.number() as i32);
        self.claim.push(is.owner);
        self.run_id.push(after.run_id.clone());
        self.deadline.push(is.deadline);
        self.registered_at.push(is.registered_at);
        self.cause.push(is.cause.map(|cause| cause.code()));
        self.since.push(after.since);
        self.machine_id.push(after.machine_id.as_deref().map(clean));
        self.kind.push(clean(&after.machine.kind));
        self.usage.push(after.machine.usage.code());
        self.cpu.push(after.machine.cpu as i32);
        self.memory_mib.push(after.machine.memory_mib as i64);
        self.seen_at.push(after.seen_at);
        self.uses.push(after.uses as i32);
        self.detail.push(clean(&after.detail));
        self.token.push(after.token.map(|hash| hash.to_vec()));
    }

    /// As `set_runners` takes them.
    fn params<'a>(&'a self, token: &'a Vec<Option<&'a [u8]>>) -> Vec<Param<'a>> {
        vec![
            param(&self.ids),
            param(&self.was_state),
            param(&self.was_epoch),
            param(&self.state),
            param(&self.epoch),
            param(&self.claim),
            param(&self.run_id),
            param(&self.deadline),
            param(&self.registered_at),
            param(&self.cause),
            param(&self.since),
            param(&self.machine_id),
            param(&self.kind),
            param(&self.usage),
            param(&self.cpu),
            param(&self.memory_mib),
            param(&self.seen_at),
            param(&self.uses),
            param(&self.detail),
            param(token),
        ]
    }
}

/// Writes what has changed, and commits.
pub(super) async fn commit(session: &Session<'_>, sheet: &Sheet) -> Outcome<()> {
    write(session, sheet).await?;
    session.commit().await
}

/// Writes what has changed.
pub(super) async fn write(session: &Session<'_>, sheet: &Sheet) -> Outcome<()> {
    let mut columns = Columns::default();
    sheet.changed().for_each(|(before, after)| columns.push(before, after));
    if !columns.ids.is_empty() {
        let tokens = columns.token.iter().map(Option::as_deref).collect();
        session.query(sql::SET_RUNNERS, &columns.params(&tokens)).await?;
    }
    for claim in &sheet.claims {
        let reason = claim.reason.map(|reason| reason.code());
        let state = claim.state.code();
        let detail = clean(&claim.detail);
        session
            .query(
                sql::SET_POOL_CLAIM,
                params![claim.number, state, claim.deadline, claim.ready_at, claim.ended_at, reason, detail],
            )
            .await?;
    }
    write_events(session, sheet).await?;
    if !sheet.totals.is_empty() {
        let pools: Vec<i64> = sheet.totals.keys().map(|(pool, _)| *pool).collect();
        let names: Vec<&str> = sheet.totals.keys().map(|(_, what)| what.as_str()).collect();
        let sums: Vec<i64> = sheet.totals.values().copied().collect();
        session.query(sql::ADD_POOL_TOTALS, params![pools, names, sums]).await?;
    }
    Ok(())
}

async fn write_events(session: &Session<'_>, sheet: &Sheet) -> Outcome<()> {
    if sheet.events.is_empty() {
        return Ok(());
    }
    let events = &sheet.events;
    let pools: Vec<i64> = events.iter().map(|event| event.pool).collect();
    let runners: Vec<Uuid> = events.iter().map(|event| event.runner.0).collect();
    let claims: Vec<Option<i64>> = events.iter().map(|event| event.claim).collect();
    let was: Vec<Option<i16>> = events.iter().map(|event| event.from.map(|state| state.code())).collect();
    let became: Vec<i16> = events.iter().map(|event| event.to.code()).collect();
    let causes: Vec<Option<i16>> = events.iter().map(|event| event.cause.map(|cause| cause.code())).collect();
    let details: Vec<String> = events.iter().map(|event| clean(&event.detail)).collect();
    session
        .query(sql::ADD_RUNNER_EVENTS, params![sheet.now, pools, runners, claims, was, became, causes, details])
        .await?;
    Ok(())
}
