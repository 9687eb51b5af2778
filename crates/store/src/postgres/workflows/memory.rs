//! What workflows remember, read and written in sets while their runs are locked.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use baton_core::step::{Remembered, Writer};
use baton_core::{Epoch, Millis, RunId, WorkerId};
use bytes::Bytes;
use futures_util::future::join_all;
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::params::params;
use super::super::pool::{Outcome, Session};
use super::super::rows::{clean, corrupt, epoch, run_id};
use super::super::sql;
use crate::decide::{LiveRow, holds};
use crate::memory::{Holder, StepRow};
use crate::{LeaseRef, POSITIONS_MAX, StepAttempt, StepKind, StepState};

/// Remembered positions of some runs, and what is to be written of them.
#[derive(Default)]
pub(super) struct Memory {
    known: HashMap<(RunId, u32), StepRow>,
    taken: HashMap<(RunId, i64), u32>,
    /// How many bytes runs remember with what is to be written; of those that were counted.
    bytes: HashMap<RunId, u64>,
    changed: BTreeSet<(RunId, u32)>,
    attempts: Vec<(RunId, StepAttempt)>,
    started: BTreeMap<RunId, Epoch>,
}

impl Memory {
    /// Reads positions, and where signals were taken.
    pub(super) async fn read(
        session: &Session<'_>,
        positions: Vec<(RunId, u32)>,
        messages: Vec<(RunId, i64)>,
    ) -> Outcome<Memory> {
        let mut memory = Memory::default();
        let positions: BTreeSet<(RunId, u32)> = positions.into_iter().collect();
        let (runs, positions): (Vec<Uuid>, Vec<i32>) = positions
            .into_iter()
            .filter(|(_, position)| *position < POSITIONS_MAX)
            .map(|(run, position)| (run.0, position as i32))
            .unzip();
        if !runs.is_empty() {
            for row in session.query(sql::FIND_STEPS, params![runs, positions]).await? {
                let row = step_row(&row)?;
                memory.known.insert((row.run, row.position), row);
            }
        }
        let (runs, messages): (Vec<Uuid>, Vec<i64>) =
            messages.into_iter().map(|(run, message)| (run.0, message)).unzip();
        if !runs.is_empty() {
            for row in session.query(sql::FIND_TAKEN, params![runs, messages]).await? {
                let position = row.try_get::<_, i32>("position")? as u32;
                memory.taken.insert((run_id(&row, "run_id")?, row.try_get("message")?), position);
            }
        }
        Ok(memory)
    }

    /// Counts how many bytes runs remember.
    pub(super) async fn count(&mut self, session: &Session<'_>, runs: BTreeSet<RunId>) -> Outcome<()> {
        if runs.is_empty() {
            return Ok(());
        }
        let runs: Vec<Uuid> = runs.into_iter().map(|run| run.0).collect();
        for row in session.query(sql::SUM_JOURNALS, params![runs]).await? {
            self.bytes.insert(run_id(&row, "run_id")?, row.try_get::<_, i64>("bytes")? as u64);
        }
        Ok(())
    }

    /// How many bytes a run remembers; 0 for one that was not counted.
    pub(super) fn bytes(&self, run: RunId) -> u64 {
        self.bytes.get(&run).copied().unwrap_or(0)
    }

    pub(super) fn known(&self, run: RunId, position: u32) -> Option<&StepRow> {
        self.known.get(&(run, position))
    }

    pub(super) fn taken_at(&self, run: RunId, message: i64) -> Option<u32> {
        self.taken.get(&(run, message)).copied()
    }

    /// Checks a lease for a write under it, which starts the run if it is the first.
    pub(super) fn hold(&mut self, row: &LiveRow, lease: LeaseRef) -> Result<Holder, baton_core::Refused> {
        if holds(row, lease)? {
            self.started.insert(lease.run, lease.epoch);
        }
        Ok(Holder::of(row))
    }

    /// Keeps what is to be written, so that a later write of the same batch sees it.
    pub(super) fn set(&mut self, row: StepRow) {
        let place = (row.run, row.position);
        if let Some(message) = row.message {
            self.taken.insert((row.run, message), row.position);
        }
        self.changed.insert(place);
        let (run, bytes) = (row.run, row.bytes());
        let before = self.known.insert(place, row).map_or(0, |before| before.bytes());
        if let Some(counted) = self.bytes.get_mut(&run) {
            *counted = counted.saturating_sub(before) + bytes;
        }
    }

    pub(super) fn keep_attempts(&mut self, run: RunId, attempts: Vec<StepAttempt>) {
        self.attempts.extend(attempts.into_iter().map(|attempt| (run, attempt)));
    }

    /// Writes all that has changed.
    pub(super) async fn write(&self, session: &Session<'_>, now: Millis) -> Outcome<()> {
        let changed: Vec<&StepRow> = self.changed.iter().filter_map(|place| self.known.get(place)).collect();
        let rules = |of: fn(&Remembered) -> i32| changed.iter().map(|row| of(&row.rules)).collect::<Vec<i32>>();
        let runs: Vec<Uuid> = changed.iter().map(|row| row.run.0).collect();
        let positions: Vec<i32> = changed.iter().map(|row| row.position as i32).collect();
        let kinds: Vec<i16> = changed.iter().map(|row| row.rules.kind.code()).collect();
        let states: Vec<i16> = changed.iter().map(|row| row.rules.state.code()).collect();
        let attempts = rules(|rules| rules.attempts as i32);
        let earlier: Vec<i32> = changed.iter().map(|row| row.earlier as i32).collect();
        let epochs: Vec<i64> = changed.iter().map(|row| row.rules.writer.epoch.code()).collect();
        let failures = rules(|rules| rules.writer.failures as i32);
        let begun_at: Vec<Millis> = changed.iter().map(|row| row.rules.begun_at).collect();
        let ended_at: Vec<Option<Millis>> = changed.iter().map(|row| row.rules.ended_at).collect();
        let due_at: Vec<Option<Millis>> = changed.iter().map(|row| row.rules.due_at).collect();
        let messages: Vec<Option<i64>> = changed.iter().map(|row| row.message).collect();
        let workers: Vec<Option<Uuid>> = changed.iter().map(|row| row.worker.map(|worker| worker.0)).collect();
        let children: Vec<Option<Uuid>> = changed.iter().map(|row| row.child.map(|child| child.0)).collect();
        let names: Vec<&str> = changed.iter().map(|row| row.rules.name.as_str()).collect();
        let errors: Vec<Option<String>> = changed.iter().map(|row| row.error.as_deref().map(clean)).collect();
        let codes: Vec<Option<String>> = changed.iter().map(|row| row.code.as_deref().map(clean)).collect();
        let outputs: Vec<Option<&[u8]>> = changed.iter().map(|row| row.output.as_deref()).collect();
        let steps = params![
            runs, positions, kinds, states, attempts, earlier, epochs, failures, begun_at, ended_at, due_at, messages,
            workers, children, names, errors, codes, outputs
        ];
        let tried = AttemptColumns::of(&self.attempts);
        let tried = params![
            tried.runs,
            tried.positions,
            tried.attempts,
            tried.states,
            tried.epochs,
            tried.workers,
            tried.begun_at,
            tried.ended_at,
            tried.names,
            tried.errors,
            tried.codes
        ];
        let (started, leases): (Vec<Uuid>, Vec<i64>) =
            self.started.iter().map(|(run, epoch)| (run.0, epoch.code())).unzip();
        let started_params = params![now, started, leases];
        // Rows of live first, as everywhere.
        let mut statements = Vec::new();
        if !started.is_empty() {
            statements.push(session.query(sql::START_RUNS, started_params));
        }
        if !changed.is_empty() {
            statements.push(session.query(sql::SET_STEPS, steps));
        }
        if !self.attempts.is_empty() {
            statements.push(session.query(sql::ADD_STEP_ATTEMPTS, tried));
        }
        join_all(statements).await.into_iter().try_for_each(|written| written.map(|_| ()))
    }
}

#[derive(Default)]
struct AttemptColumns {
    runs: Vec<Uuid>,
    positions: Vec<i32>,
    attempts: Vec<i32>,
    states: Vec<i16>,
    epochs: Vec<i64>,
    workers: Vec<Option<Uuid>>,
    begun_at: Vec<Millis>,
    ended_at: Vec<Option<Millis>>,
    names: Vec<String>,
    errors: Vec<Option<String>>,
    codes: Vec<Option<String>>,
}

impl AttemptColumns {
    fn of(attempts: &[(RunId, StepAttempt)]) -> AttemptColumns {
        let mut columns = AttemptColumns::default();
        for (run, attempt) in attempts {
            columns.runs.push(run.0);
            columns.positions.push(attempt.position as i32);
            columns.attempts.push(attempt.attempt as i32);
            columns.states.push(attempt.state.code());
            columns.epochs.push(attempt.epoch.code());
            columns.workers.push(attempt.worker.map(|worker| worker.0));
            columns.begun_at.push(attempt.begun_at);
            columns.ended_at.push(attempt.ended_at);
            columns.names.push(attempt.name.clone());
            columns.errors.push(attempt.error.as_deref().map(clean));
            columns.codes.push(attempt.code.as_deref().map(clean));
        }
        columns
    }
}

pub(super) fn step_row(row: &Row) -> Outcome<StepRow> {
    let number = |column: &str| Ok::<_, tokio_postgres::Error>(row.try_get::<_, i32>(column)? as u32);
    Ok(StepRow {
        run: run_id(row, "run_id")?,
        position: number("position")?,
        rules: Remembered {
            kind: step_kind(row.try_get("kind")?)?,
            name: row.try_get("name")?,
            state: step_state(row.try_get("state")?)?,
            attempts: number("attempts")?,
            begun_at: row.try_get("begun_at")?,
            ended_at: row.try_get("ended_at")?,
            due_at: row.try_get("due_at")?,
            writer: Writer { epoch: epoch(row, "epoch")?, failures: number("failures")? },
        },
        earlier: number("earlier")?,
        worker: row.try_get::<_, Option<Uuid>>("worker_id")?.map(WorkerId),
        output: row.try_get::<_, Option<Vec<u8>>>("output")?.map(Bytes::from),
        error: row.try_get("error")?,
        code: row.try_get("code")?,
        message: row.try_get("message")?,
        child: row.try_get::<_, Option<Uuid>>("child")?.map(RunId),
    })
}

pub(super) fn step_kind(code: i16) -> Outcome<StepKind> {
    StepKind::from_code(code).ok_or_else(|| corrupt("a kind of step"))
}

pub(super) fn step_state(code: i16) -> Outcome<StepState> {
    StepState::from_code(code).ok_or_else(|| corrupt("a state of a step"))
}
