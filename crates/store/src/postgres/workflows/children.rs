//! Starts children.

use std::collections::HashMap;

use baton_core::RunId;
use baton_core::step::Change;
use uuid::Uuid;

use super::super::PostgresStore;
use super::super::end::Records;
use super::super::params::params;
use super::super::pool::{Outcome, Session};
use super::super::rows::{clean, run_id};
use super::super::sql;
use super::super::submit::{Taken, Taker, insert};
use super::memory::Memory;
use crate::decide::Act;
use crate::memory::{self, Refusal, StepRow};
use crate::{ChildAnswer, LeaseRef, NewChild, NewRun, StepKind, StoreError, Submitted, Verdict};

/// What becomes of a child.
enum Fate {
    /// It is the one with this index among the new ones.
    New(usize),
    /// It was started before.
    Known(RunId),
    Answer(ChildAnswer),
}

impl PostgresStore {
    pub(super) async fn take_children(&self, children: &[NewChild]) -> Outcome<Vec<ChildAnswer>> {
        let leases: Vec<LeaseRef> = children.iter().map(|child| child.lease).collect();
        let session = self.database.transaction().await?;
        let records = Records::read(&session, sql::HOLD_RUNS, self.database.fixed_now(), &leases).await?;
        let positions = children.iter().map(|child| (child.lease.run, child.position)).collect();
        let mut memory = Memory::read(&session, positions, Vec::new()).await?;
        let mut fresh: Vec<(&NewChild, StepRow)> = Vec::new();
        let mut fates = Vec::with_capacity(children.len());
        for child in children {
            fates.push(fate(&records, &mut memory, &mut fresh, child));
        }
        let runs: Vec<NewRun> =
            fresh.iter().map(|(child, _)| NewRun { idempotency: None, ..child.run.clone() }).collect();
        let runs: Vec<(&NewRun, u64)> = runs.iter().zip(fresh.iter().map(|(child, _)| child.die)).collect();
        let taken = self.take(&session, &runs).await?;
        let started: Vec<Submitted> = taken.iter().map(|taken| taken.submitted).collect();
        note_relatives(&session, &fresh, &started).await?;
        for ((_, row), submitted) in fresh.iter().zip(&started) {
            memory.set(StepRow { child: Some(submitted.run), ..row.clone() });
        }
        memory.write(&session, records.now).await?;
        let timeouts = fresh
            .iter()
            .zip(&started)
            .filter_map(|((child, _), submitted)| child.timeout_ms.map(|after_ms| (submitted.run, after_ms, false)));
        self.set_deadlines_in(&session, &timeouts.collect::<Vec<_>>()).await?;
        let known = find_submitted(&session, fates.iter().filter_map(Fate::known)).await?;
        session.commit().await?;
        self.note_claimable(&taken, &runs);
        Ok(fates.into_iter().map(|fate| fate.answer(&started, &known)).collect())
    }

    /// Takes runs in, within a transaction.
    pub(super) async fn take(&self, session: &Session<'_>, runs: &[(&NewRun, u64)]) -> Outcome<Vec<Taken>> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let (now, places) = match runs.iter().any(|(run, _)| run.key.is_some()) {
            true => self.fair_places(session, runs).await?,
            false => (self.database.fixed_now(), vec![None; runs.len()]),
        };
        let taken = insert(session, runs, now, &places, &Taker::default()).await?;
        match taken.len() == runs.len() {
            true => Ok(taken),
            false => Err(StoreError::Internal("a run was submitted without an answer".into()).into()),
        }
    }
}

impl Fate {
    fn known(&self) -> Option<RunId> {
        match self {
            Fate::Known(run) => Some(*run),
            Fate::New(_) | Fate::Answer(_) => None,
        }
    }

    fn answer(self, started: &[Submitted], known: &HashMap<RunId, Submitted>) -> ChildAnswer {
        match self {
            Fate::New(index) => started.get(index).map_or(ChildAnswer::Unknown, |one| ChildAnswer::Started(*one)),
            Fate::Known(run) => ChildAnswer::Started(known.get(&run).copied().unwrap_or_else(|| by_id(run))),
            Fate::Answer(answer) => answer,
        }
    }
}

fn fate<'a>(
    records: &Records,
    memory: &mut Memory,
    fresh: &mut Vec<(&'a NewChild, StepRow)>,
    child: &'a NewChild,
) -> Fate {
    let lease = child.lease;
    let Some(row) = records.live.get(&lease.run) else {
        return Fate::Answer(match records.refuse(lease, &Act::Start) {
            Verdict::Refused(refused) => ChildAnswer::Refused(refused),
            Verdict::Unknown | Verdict::Done { .. } => ChildAnswer::Unknown,
        });
    };
    let holder = match memory.hold(row, lease) {
        Ok(holder) => holder,
        Err(refused) => return Fate::Answer(ChildAnswer::Refused(refused)),
    };
    let of_batch = fresh.iter().position(|(_, row)| row.run == lease.run && row.position == child.position);
    let known = of_batch.map(|index| &fresh[index].1).or_else(|| memory.known(lease.run, child.position));
    let (kind, name) = (StepKind::Child, clean(&child.name));
    match memory::place(known, holder, child.position, kind, &name, &Change::Start, records.now) {
        Ok(row) => {
            fresh.push((child, row));
            Fate::New(fresh.len() - 1)
        }
        Err(Refusal::Same(step)) => match (of_batch, step.child) {
            (Some(index), _) => Fate::New(index),
            (None, Some(run)) => Fate::Known(run),
            (None, None) => Fate::Answer(ChildAnswer::Unknown),
        },
        Err(Refusal::Diverged { kind, name }) => Fate::Answer(ChildAnswer::Diverged { kind, name }),
        Err(Refusal::TooMany) => Fate::Answer(ChildAnswer::TooMany),
    }
}

async fn note_relatives(session: &Session<'_>, fresh: &[(&NewChild, StepRow)], started: &[Submitted]) -> Outcome<()> {
    if fresh.is_empty() {
        return Ok(());
    }
    let children: Vec<Uuid> = started.iter().map(|one| one.run.0).collect();
    let parents: Vec<Uuid> = fresh.iter().map(|(child, _)| child.lease.run.0).collect();
    let positions: Vec<i32> = fresh.iter().map(|(child, _)| child.position as i32).collect();
    session.query(sql::SET_PARENTS, params![children, parents, positions]).await?;
    Ok(())
}

/// What was answered when these runs were submitted.
pub(super) async fn find_submitted(
    session: &Session<'_>,
    runs: impl Iterator<Item = RunId>,
) -> Outcome<HashMap<RunId, Submitted>> {
    let runs: Vec<Uuid> = runs.map(|run| run.0).collect();
    let mut found = HashMap::new();
    if runs.is_empty() {
        return Ok(found);
    }
    for row in session.query(sql::FIND_SUBMITTED_RUNS, params![runs]).await? {
        let run = run_id(&row, "run_id")?;
        let (submitted_at, due_at) = (row.try_get("submitted_at")?, row.try_get("due_at")?);
        found.insert(run, Submitted { run, submitted_at, due_at, is_new: false });
    }
    Ok(found)
}

/// What an identifier says of a run that is gone.
pub(super) fn by_id(run: RunId) -> Submitted {
    Submitted { run, submitted_at: run.submitted_at(), due_at: run.submitted_at(), is_new: false }
}
