//! Decisions turned into columns: one array for each, as the set-based statements take them.

use baton_core::Millis;
use uuid::Uuid;

use super::params::{Param, param};
use super::rows::clean;
use crate::decide::{Decision, LiveRow};

/// Columns of runs that end.
#[derive(Default)]
pub(super) struct EndedColumns {
    runs: Vec<Uuid>,
    states: Vec<i16>,
    reasons: Vec<Option<i16>>,
    epochs: Vec<i64>,
    failures: Vec<i32>,
    losses: Vec<i32>,
    claimed_at: Vec<Option<Millis>>,
    started_at: Vec<Option<Millis>>,
    lease_ends: Vec<Option<i16>>,
    workers: Vec<Option<Uuid>>,
    errors: Vec<Option<String>>,
}

impl EndedColumns {
    pub(super) fn of(ended: &[(LiveRow, Decision)]) -> EndedColumns {
        let mut columns = EndedColumns::default();
        for (row, decision) in ended {
            columns.runs.push(row.run.0);
            columns.states.push(decision.next.state.code());
            columns.reasons.push(decision.next.reason.map(|reason| reason.code()));
            columns.epochs.push(decision.next.epoch.code());
            columns.failures.push(decision.next.failures as i32);
            columns.losses.push(decision.next.losses as i32);
            columns.claimed_at.push(row.claimed_at);
            columns.started_at.push(row.started_at);
            columns.lease_ends.push(decision.end.map(|end| end.code()));
            columns.workers.push(row.worker.map(|worker| worker.0));
            columns.errors.push(decision.error.as_deref().map(clean));
        }
        columns
    }

    /// As `end_runs` takes them.
    pub(super) fn params<'a>(&'a self, now: &'a Millis) -> Vec<Param<'a>> {
        vec![
            param(now),
            param(&self.runs),
            param(&self.states),
            param(&self.reasons),
            param(&self.epochs),
            param(&self.failures),
            param(&self.losses),
            param(&self.claimed_at),
            param(&self.started_at),
            param(&self.lease_ends),
            param(&self.workers),
            param(&self.errors),
        ]
    }
}

/// Columns of runs that wait again, and of the leases that ended.
#[derive(Default)]
pub(super) struct ReturnedColumns {
    runs: Vec<Uuid>,
    states: Vec<i16>,
    places: Vec<i16>,
    levels: Vec<i16>,
    order_at: Vec<Millis>,
    due_at: Vec<Millis>,
    failures: Vec<i32>,
    losses: Vec<i32>,
    cancel_by: Vec<Option<Millis>>,
    epochs: Vec<i64>,
    workers: Vec<Option<Uuid>>,
    claimed_at: Vec<Millis>,
    started_at: Vec<Option<Millis>>,
    lease_ends: Vec<Option<i16>>,
    errors: Vec<Option<String>>,
}

impl ReturnedColumns {
    pub(super) fn of(returned: &[(LiveRow, Decision)]) -> ReturnedColumns {
        let mut columns = ReturnedColumns::default();
        for (row, decision) in returned {
            columns.runs.push(row.run.0);
            columns.states.push(decision.next.state.code());
            columns.places.push(decision.place.code());
            columns.levels.push(decision.level);
            columns.order_at.push(decision.order_at);
            columns.due_at.push(decision.next.due_at);
            columns.failures.push(decision.next.failures as i32);
            columns.losses.push(decision.next.losses as i32);
            columns.cancel_by.push(decision.next.cancel_by);
            columns.epochs.push(row.rules.epoch.code());
            columns.workers.push(row.worker.map(|worker| worker.0));
            columns.claimed_at.push(row.claimed_at.unwrap_or_default());
            columns.started_at.push(row.started_at);
            columns.lease_ends.push(decision.end.map(|end| end.code()));
            columns.errors.push(decision.error.as_deref().map(clean));
        }
        columns
    }

    /// As `return_runs` takes them.
    pub(super) fn params(&self) -> Vec<Param<'_>> {
        vec![
            param(&self.runs),
            param(&self.states),
            param(&self.places),
            param(&self.levels),
            param(&self.order_at),
            param(&self.due_at),
            param(&self.failures),
            param(&self.losses),
            param(&self.cancel_by),
        ]
    }

    /// As `add_attempts` takes them.
    pub(super) fn attempt_params<'a>(&'a self, now: &'a Millis) -> Vec<Param<'a>> {
        vec![
            param(now),
            param(&self.runs),
            param(&self.epochs),
            param(&self.workers),
            param(&self.claimed_at),
            param(&self.started_at),
            param(&self.lease_ends),
            param(&self.errors),
        ]
    }
}
