//! Writes at positions. Nearly all are results of steps that nobody has written before: those go in with one statement. All
//! others are looked at one by one, under the locks of their runs.

use std::collections::{HashMap, HashSet};

use baton_core::step::{Remembered, Writer};
use baton_core::{Millis, RunId, State};
use bytes::Bytes;
use futures_util::future::join;
use uuid::Uuid;

use super::super::PostgresStore;
use super::super::end::Records;
use super::super::params::params;
use super::super::pool::{Outcome, retried};
use super::super::rows::{clean, run_id};
use super::super::sql;
use super::memory::Memory;
use crate::decide::Act;
use crate::memory::{self, Besides, StepRow};
use crate::{LeaseRef, POSITIONS_MAX, StepAnswer, StepChange, StepState, StepWrite, Verdict};

/// A position of a run.
type Place = (RunId, u32);

impl PostgresStore {
    pub(super) async fn remember_all(&self, mut writes: Vec<StepWrite>) -> Outcome<Vec<StepAnswer>> {
        for write in writes.iter_mut().filter(|write| write.name.contains('\0')) {
            write.name = clean(&write.name);
        }
        let usual = usual(&writes);
        let written = match usual.is_empty() {
            true => HashMap::new(),
            false => retried!(self.write_usual(&writes, &usual))?,
        };
        let is_written = |index: usize| usual.contains(&index) && written.contains_key(&place(&writes[index]));
        let others: Vec<&StepWrite> =
            writes.iter().enumerate().filter(|(index, _)| !is_written(*index)).map(|(_, write)| write).collect();
        let mut answers = match others.is_empty() {
            true => Vec::new(),
            false => retried!(self.write_others(&others))?,
        }
        .into_iter();
        let all = writes.iter().enumerate().map(|(index, write)| match written.get(&place(write)) {
            Some(times) if usual.contains(&index) => Some(remembered(write, *times)),
            Some(_) | None => answers.next(),
        });
        // Each write is among one of the two.
        Ok(all.map(|answer| answer.unwrap_or(StepAnswer::Unknown)).collect())
    }

    /// Returns when those began and ended that were written.
    async fn write_usual(
        &self,
        writes: &[StepWrite],
        usual: &HashSet<usize>,
    ) -> Outcome<HashMap<Place, (Millis, Millis)>> {
        let mut given: Vec<Usual<'_>> = (0..writes.len())
            .filter(|index| usual.contains(index))
            .filter_map(|index| Usual::of(&writes[index]))
            .collect();
        // Rows are met in this order most of the time, so that two batches seldom wait for each other in a circle.
        given.sort_by_key(|one| one.write.lease.run);
        let runs: Vec<Uuid> = given.iter().map(|one| one.write.lease.run.0).collect();
        let epochs: Vec<i64> = given.iter().map(|one| one.write.lease.epoch.code()).collect();
        let positions: Vec<i32> = given.iter().map(|one| one.write.position as i32).collect();
        let kinds: Vec<i16> = given.iter().map(|one| one.write.kind.code()).collect();
        let names: Vec<&str> = given.iter().map(|one| one.write.name.as_str()).collect();
        let outputs: Vec<&[u8]> = given.iter().map(|one| one.output).collect();
        let messages: Vec<Option<i64>> = given.iter().map(|one| one.message).collect();
        let took_ms: Vec<Millis> = given.iter().map(|one| one.took_ms.max(0)).collect();
        let now = self.database.fixed_now();
        let params = params![now, runs, epochs, positions, kinds, names, outputs, messages, took_ms];
        let mut written = HashMap::with_capacity(given.len());
        for row in self.database.query_each(sql::WRITE_STEPS, params, runs.len()).await? {
            let place = (run_id(&row, "run_id")?, row.try_get::<_, i32>("position")? as u32);
            written.insert(place, (row.try_get("begun_at")?, row.try_get("ended_at")?));
        }
        Ok(written)
    }

    async fn write_others(&self, writes: &[&StepWrite]) -> Outcome<Vec<StepAnswer>> {
        let leases: Vec<LeaseRef> = writes.iter().map(|write| write.lease).collect();
        let session = self.database.transaction().await?;
        let records = Records::read(&session, sql::HOLD_RUNS, self.database.fixed_now(), &leases).await?;
        let places: Vec<Place> = writes.iter().map(|write| place(write)).collect();
        let messages = writes.iter().filter_map(|write| Some((write.lease.run, message(&write.what)?)));
        let mut memory = Memory::read(&session, places, messages.collect()).await?;
        let counted = writes.iter().filter(|write| write.journal_bytes_max.is_some());
        memory.count(&session, counted.map(|write| write.lease.run).collect()).await?;
        let answers = writes.iter().map(|write| write_one(&records, &mut memory, write)).collect();
        memory.write(&session, records.now).await?;
        session.commit().await?;
        Ok(answers)
    }

    pub(super) async fn write_published(&self, published: &[(LeaseRef, Bytes)]) -> Outcome<Vec<Verdict>> {
        let leases: Vec<LeaseRef> = published.iter().map(|(lease, _)| *lease).collect();
        let session = self.database.transaction().await?;
        let records = Records::read(&session, sql::HOLD_RUNS, self.database.fixed_now(), &leases).await?;
        let mut memory = Memory::default();
        let mut last: HashMap<RunId, &[u8]> = HashMap::new();
        let mut verdicts = Vec::with_capacity(published.len());
        for (lease, payload) in published {
            let Some(row) = records.live.get(&lease.run) else {
                verdicts.push(records.refuse(*lease, &Act::Start));
                continue;
            };
            verdicts.push(match memory.hold(row, *lease) {
                Ok(_) => {
                    last.insert(lease.run, payload);
                    Verdict::Done { state: State::Running, cancelling: row.rules.cancel_by.is_some() }
                }
                Err(refused) => Verdict::Refused(refused),
            });
        }
        memory.write(&session, records.now).await?;
        let (runs, payloads): (Vec<Uuid>, Vec<&[u8]>) = last.into_iter().map(|(run, payload)| (run.0, payload)).unzip();
        let params = params![records.now, runs, payloads];
        let (written, committed) = join(session.query(sql::SET_PUBLISHED, params), session.commit()).await;
        written?;
        committed?;
        Ok(verdicts)
    }
}

fn place(write: &StepWrite) -> Place {
    (write.lease.run, write.position)
}

fn message(change: &StepChange) -> Option<i64> {
    match change {
        StepChange::Complete { message, .. } => *message,
        StepChange::Begin | StepChange::Fail { .. } => None,
    }
}

/// A step that is done.
struct Usual<'a> {
    write: &'a StepWrite,
    output: &'a [u8],
    message: Option<i64>,
    took_ms: Millis,
}

impl Usual<'_> {
    fn of(write: &StepWrite) -> Option<Usual<'_>> {
        match &write.what {
            StepChange::Complete { output, message, took_ms } => {
                Some(Usual { write, output, message: *message, took_ms: *took_ms })
            }
            StepChange::Begin | StepChange::Fail { .. } => None,
        }
    }
}

/// Which writes may be the first at their place and are the last word about it, and need not be looked at otherwise. What comes after another write at the same place is not: writes
/// are carried out in order.
fn usual(writes: &[StepWrite]) -> HashSet<usize> {
    let mut met = HashSet::new();
    let each = writes.iter().enumerate();
    let usual = each.filter(|(_, write)| {
        let is_first = met.insert(place(write));
        is_first && write.position < POSITIONS_MAX && write.journal_bytes_max.is_none() && Usual::of(write).is_some()
    });
    usual.map(|(index, _)| index).collect()
}

/// The answer to a write that was the first at its place.
fn remembered(write: &StepWrite, (begun_at, ended_at): (Millis, Millis)) -> StepAnswer {
    let (output, message) = match &write.what {
        StepChange::Complete { output, message, .. } => (Some(output.clone()), *message),
        StepChange::Begin | StepChange::Fail { .. } => (None, None),
    };
    let row = StepRow {
        run: write.lease.run,
        position: write.position,
        rules: Remembered {
            kind: write.kind,
            name: write.name.clone(),
            state: StepState::Completed,
            attempts: 1,
            begun_at,
            ended_at: Some(ended_at),
            due_at: None,
            writer: Writer { epoch: write.lease.epoch, failures: 0 },
        },
        earlier: 0,
        worker: None,
        output,
        error: None,
        code: None,
        message,
        child: None,
    };
    StepAnswer::Remembered { step: row.step(), existed: false }
}

fn write_one(records: &Records, memory: &mut Memory, write: &StepWrite) -> StepAnswer {
    let lease = write.lease;
    let Some(row) = records.live.get(&lease.run) else {
        return match records.refuse(lease, &Act::Start) {
            Verdict::Refused(refused) => StepAnswer::Refused(refused),
            Verdict::Unknown | Verdict::Done { .. } => StepAnswer::Unknown,
        };
    };
    let holder = match memory.hold(row, lease) {
        Ok(holder) => holder,
        Err(refused) => return StepAnswer::Refused(refused),
    };
    let taken_at = message(&write.what).and_then(|message| memory.taken_at(lease.run, message));
    let besides = Besides { taken_at, bytes: memory.bytes(lease.run) };
    match memory::write(memory.known(lease.run, write.position), holder, write, besides, records.now) {
        Ok(written) => {
            let step = written.row.step();
            memory.keep_attempts(lease.run, written.attempts);
            memory.set(written.row);
            StepAnswer::Remembered { step, existed: false }
        }
        Err(answer) => *answer,
    }
}
