//! Claims of runners, and what a pool has.

use std::collections::BTreeMap;

use baton_core::Millis;
use baton_core::pools::{ClaimNo, Limits, RunnerState};
use rusqlite::params;

use super::super::connection::Sql;
use super::super::rows::{coded, to_json};
use super::super::statements;
use super::{rows, sheet};
use crate::pool_rules::Sheet;
use crate::pool_rules::claims::{self as rules, Ending, PoolView};
use crate::pools::{COMING_LOOK_MAX, IDLE_LOOK_MAX, WAITS_MAX};
use crate::{
    CommitAnswer, EndClaimAnswer, NewPoolClaim, OpenAnswer, PoolClaim, PoolNo, PoolRunner, PoolStats, PoolStock,
    RunnerAnswer, RunnerRef, StoreResult, TakeAnswer, TakeRules,
};

pub(super) fn open(sql: &Sql<'_>, new: &NewPoolClaim) -> StoreResult<OpenAnswer> {
    let wanted = to_json(&new.wanted)?;
    let parameters = params![
        sql.now,
        new.pool,
        new.run_id,
        new.fingerprint,
        new.count,
        wanted,
        new.priority,
        new.owner,
        new.runtime_ms,
        new.wait_ms,
        rules::most_waiting(new)
    ];
    if let Some(known) = sql.row(statements::READ_POOL_CLAIM, params![new.pool, new.run_id], rows::claim)? {
        return Ok(rules::known(known, new));
    }
    match sql.row(statements::OPEN_POOL_CLAIM, parameters, rows::claim)? {
        Some(claim) => {
            let mut opened = Sheet::new(sql.now, Vec::new());
            opened.put_claim(claim.clone());
            sheet::write(sql, &opened)?;
            Ok(OpenAnswer::Opened(claim))
        }
        None => {
            let pool = sql.row(statements::READ_POOL_OF_NUMBER, params![new.pool], rows::pool)?;
            Ok(rules::not_opened(pool.as_ref()))
        }
    }
}

pub(super) fn view(sql: &Sql<'_>, pool: PoolNo) -> StoreResult<Option<PoolView>> {
    let Some(found) = sql.row(statements::READ_POOL_OF_NUMBER, params![pool], rows::pool)? else { return Ok(None) };
    Ok(Some(PoolView {
        pool: found,
        claims: sql.rows(statements::LIST_WAITING_CLAIMS, params![pool], rows::claim)?,
        held: sql.rows(statements::LIST_TAKEN_RUNNERS, params![pool], rows::runner)?,
        idle: sql.rows(statements::LIST_IDLE_RUNNERS, params![pool, IDLE_LOOK_MAX], rows::runner)?,
        counts: counts(sql, pool)?,
    }))
}

fn counts(sql: &Sql<'_>, pool: PoolNo) -> StoreResult<BTreeMap<RunnerState, u64>> {
    let counted = sql.rows(statements::COUNT_RUNNERS, params![pool], |row| {
        Ok((coded(row, 0, RunnerState::from_code)?, row.get::<_, i64>(1)?.unsigned_abs()))
    })?;
    Ok(counted.into_iter().collect())
}

pub(super) fn stock(sql: &Sql<'_>, pool: PoolNo) -> StoreResult<Option<PoolStock>> {
    let Some(view) = view(sql, pool)? else { return Ok(None) };
    let coming = sql.rows(statements::LIST_COMING_RUNNERS, params![pool, COMING_LOOK_MAX], rows::coming)?;
    Ok(Some(view.stock(coming, sql.now)))
}

pub(super) fn stats(sql: &Sql<'_>, pool: PoolNo) -> StoreResult<PoolStats> {
    let total = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let waits_ms: Vec<Millis> = sql.rows(statements::LIST_CLAIM_WAITS, params![pool, WAITS_MAX], |row| row.get(0))?;
    Ok(PoolStats {
        runners: counts(sql, pool)?,
        waiting: sql.count_rows(statements::LIST_WAITING_CLAIMS, params![pool])?,
        totals: sql.rows(statements::LIST_POOL_TOTALS, params![pool], total)?.into_iter().collect(),
        waits_ms,
    })
}

pub(super) fn take(sql: &Sql<'_>, pool: PoolNo, rules: &TakeRules) -> StoreResult<TakeAnswer> {
    let Some(view) = view(sql, pool)? else { return Ok(TakeAnswer::default()) };
    let choice = rules::choose(&view, rules);
    let mut held = sheet::of_runners(sql, choice.runners())?;
    let answer = rules::take(&mut held, &view, &choice, rules);
    sheet::write(sql, &held)?;
    Ok(answer)
}

/// A claim, and its runners on a sheet.
fn hold(sql: &Sql<'_>, claim: ClaimNo) -> StoreResult<Option<(PoolClaim, Sheet)>> {
    let Some(found) = sql.row(statements::HOLD_POOL_CLAIM, params![claim], rows::claim)? else { return Ok(None) };
    let runners = sql.rows(statements::HOLD_CLAIM_RUNNERS, params![claim], rows::runner)?;
    Ok(Some((found, Sheet::new(sql.now, runners))))
}

pub(super) fn commit(sql: &Sql<'_>, claim: ClaimNo, limits: &Limits) -> StoreResult<CommitAnswer> {
    let Some((claim, mut held)) = hold(sql, claim)? else { return Ok(CommitAnswer::Unknown) };
    let answer = rules::commit(&mut held, claim, limits);
    sheet::write(sql, &held)?;
    Ok(answer)
}

/// Ends a claim, and says what has become of its runners.
pub(super) fn end(
    sql: &Sql<'_>,
    claim: ClaimNo,
    ending: Ending,
    detail: &str,
    release_ms: Millis,
) -> StoreResult<(EndClaimAnswer, Vec<PoolRunner>)> {
    let Some((claim, mut held)) = hold(sql, claim)? else { return Ok((EndClaimAnswer::Unknown, Vec::new())) };
    let answer = rules::end(&mut held, claim, ending, detail, release_ms);
    sheet::write(sql, &held)?;
    Ok((answer, held.changed().map(|(_, after)| after.clone()).collect()))
}

pub(super) fn give_back(
    sql: &Sql<'_>,
    claim: ClaimNo,
    runners: &[RunnerRef],
    why: &str,
    release_ms: Millis,
) -> StoreResult<Vec<RunnerAnswer>> {
    let mut held = sheet::of_runners(sql, runners.iter().map(|runner| runner.runner))?;
    let answers = runners.iter().map(|seen| rules::give_back(&mut held, claim, *seen, release_ms, why)).collect();
    sheet::write(sql, &held)?;
    Ok(answers)
}
