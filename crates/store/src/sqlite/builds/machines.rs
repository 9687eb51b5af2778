//! Machines of leases, and what is measured on them.

use baton_core::{Millis, RunId};
use rusqlite::params;

use super::super::connection::Sql;
use super::super::statements;
use crate::{LeaseRef, Machine, Measured, NewMeasurement, OtpAnswer, StoreResult};

/// When a lease was claimed, if it is the live one.
pub(super) fn claimed_at(sql: &Sql<'_>, lease: LeaseRef) -> StoreResult<Option<Millis>> {
    let parameters = params![lease.run.0.as_bytes(), lease.epoch.code()];
    sql.row(statements::READ_CLAIMED_AT, parameters, |row| row.get(0))
}

pub(super) fn use_otp(sql: &Sql<'_>, lease: LeaseRef, good_ms: Millis) -> StoreResult<OtpAnswer> {
    let Some(claimed_at) = claimed_at(sql, lease)? else { return Ok(OtpAnswer::LeaseLost) };
    if sql.now > claimed_at.saturating_add(good_ms) {
        return Ok(OtpAnswer::Expired);
    }
    let used = sql.execute(statements::USE_OTP, params![lease.run.0.as_bytes(), lease.epoch.code(), sql.now])?;
    Ok(if used > 0 { OtpAnswer::Good } else { OtpAnswer::Used })
}

pub(super) fn seen(sql: &Sql<'_>, lease: LeaseRef, ready: bool, progress: Option<f64>) -> StoreResult<bool> {
    let parameters = params![lease.run.0.as_bytes(), lease.epoch.code(), ready, sql.now, progress];
    Ok(sql.execute(statements::SEE_MACHINE, parameters)? > 0)
}

pub(super) fn machine(sql: &Sql<'_>, lease: LeaseRef) -> StoreResult<Option<Machine>> {
    sql.row(statements::READ_MACHINE, params![lease.run.0.as_bytes(), lease.epoch.code()], |row| {
        Ok(Machine { otp_used_at: row.get(0)?, ready_at: row.get(1)?, seen_at: row.get(2)?, progress: row.get(3)? })
    })
}

pub(super) fn add_measured(sql: &Sql<'_>, lease: LeaseRef, new: NewMeasurement, keep: usize) -> StoreResult<bool> {
    let id = lease.run.0.as_bytes();
    let number: Option<i64> =
        sql.row(statements::COUNT_MEASUREMENT, params![id, lease.epoch.code()], |row| row.get(0))?;
    let Some(number) = number else { return Ok(false) };
    let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
    let (cpu, memory, memory_mb) = (finite(new.cpu), finite(new.memory), finite(new.memory_mb));
    sql.execute(statements::INSERT_MEASUREMENT, params![id, number, sql.now, cpu, memory, memory_mb])?;
    sql.execute(statements::DELETE_OLD_MEASUREMENTS, params![id, number - keep.max(1) as i64])?;
    Ok(true)
}

pub(super) fn measured(sql: &Sql<'_>, run: RunId, limit: usize) -> StoreResult<Vec<Measured>> {
    let parameters = params![run.0.as_bytes(), limit as i64];
    let mut newest = sql.rows(statements::LIST_MEASUREMENTS, parameters, |row| {
        Ok(Measured { at: row.get(0)?, cpu: row.get(1)?, memory: row.get(2)?, memory_mb: row.get(3)? })
    })?;
    newest.reverse();
    Ok(newest)
}
