//! Custody: which leases a run had, and which writes were refused because their lease was over.
//!
//! Refusals are noted beside the calls that were refused, in batches. What wants the same under the same lease is one row with
//! a count, and a run has at most [`REFUSED_MAX`] rows: a caller that repeats a refused write fills no disk.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use baton_core::custody::is_kept;
use baton_core::{Epoch, LateVerb, LeaseEnd, Millis, RunId, WorkerId};

use crate::{Attempt, LeaseRef, StoreResult};

/// Most rows of refused writes that a run has; what comes on top is only counted.
pub const REFUSED_MAX: usize = 100;
/// Most refused writes in one call.
pub const REFUSED_BATCH_MAX: usize = 256;
/// Stands for no position.
const NO_POSITION: i32 = -1;

/// A write that was refused because its lease was over; or several that wanted the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LateWrite {
    /// The lease that it showed.
    pub lease: LeaseRef,
    /// What it wanted.
    pub verb: LateVerb,
    /// Where in a workflow, if it was about a position.
    pub position: Option<u32>,
    /// The name of a step or of a file; empty for other verbs.
    pub name: String,
    /// The size of the largest payload.
    pub bytes: u64,
    /// How often it came.
    pub times: u64,
    /// How long ago the first one came.
    pub first_ms_ago: Millis,
    /// How long ago the last one came.
    pub last_ms_ago: Millis,
}

/// A refused write that was not on record before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewRefusal {
    /// The lease that it showed.
    pub lease: LeaseRef,
    /// What it wanted.
    pub verb: LateVerb,
    /// Who had that lease.
    pub worker: Option<WorkerId>,
}

/// A refused write that is on record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedWrite {
    /// The epoch that it showed.
    pub epoch: Epoch,
    /// The newest epoch of the run when the first one came.
    pub current_epoch: Epoch,
    /// What it wanted.
    pub verb: LateVerb,
    /// Where in a workflow.
    pub position: Option<u32>,
    /// The name of a step or of a file; empty for other verbs.
    pub name: String,
    /// Who had that lease.
    pub worker: Option<WorkerId>,
    /// When the first one came.
    pub at: Millis,
    /// When the last one came.
    pub last_at: Millis,
    /// How often it came.
    pub times: u64,
    /// The size of the largest payload.
    pub bytes: u64,
}

/// What was refused under old leases of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RefusedWrites {
    /// Those on record, oldest first.
    pub writes: Vec<RefusedWrite>,
    /// How many more there were.
    pub more: u64,
}

/// A lease that has ended, with what is only known of custody.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PastLease {
    /// The lease.
    pub attempt: Attempt,
    /// When its holder was heard of last; of leases that were taken away.
    pub seen_at: Option<Millis>,
    /// What its holder is called, while that is known.
    pub worker_name: Option<String>,
}

/// The verbs of custody. Every [`crate::Store`] has them.
#[async_trait]
pub trait Custody: Send + Sync {
    /// Notes refused writes, at most [`REFUSED_BATCH_MAX`]. Returns those that were not on record before.
    async fn note_refused(&self, writes: Vec<LateWrite>) -> StoreResult<Vec<NewRefusal>>;
    /// The refused writes of a run.
    async fn refused_writes(&self, run: RunId) -> StoreResult<RefusedWrites>;
    /// The leases of a run that have ended and whose number is below `before`, newest first, at most `limit`.
    async fn past_leases(&self, run: RunId, before: Option<u32>, limit: usize) -> StoreResult<Vec<PastLease>>;
    /// How many leases of a run have ended.
    async fn count_past_leases(&self, run: RunId) -> StoreResult<u64>;
}

/// What a store knows of a lease under which a write was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KnownLease {
    pub current: Epoch,
    pub is_held: bool,
    pub end: Option<LeaseEnd>,
    pub worker: Option<WorkerId>,
}

/// What tells rows of a run apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key {
    pub run: RunId,
    pub epoch: i64,
    pub verb: i16,
    pub position: i32,
}

impl Key {
    fn of(write: &LateWrite) -> Key {
        let position = write.position.map_or(NO_POSITION, |position| i32::try_from(position).unwrap_or(i32::MAX));
        Key { run: write.lease.run, epoch: write.lease.epoch.code(), verb: write.verb.code(), position }
    }

    /// The row that counts what has no row of its own.
    fn rest(run: RunId) -> Key {
        Key { run, epoch: 0, verb: 0, position: NO_POSITION }
    }
}

/// A row to be written, or added to the one that is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub key: Key,
    pub current: Epoch,
    pub worker: Option<WorkerId>,
    pub name: String,
    pub bytes: u64,
    pub times: u64,
    pub first_ms_ago: Millis,
    pub last_ms_ago: Millis,
}

/// Those writes that are worth a record, with what is known of their leases.
pub(crate) fn worth_keeping(
    writes: Vec<LateWrite>,
    known: &HashMap<LeaseRef, KnownLease>,
) -> Vec<(LateWrite, KnownLease)> {
    let kept = |write: LateWrite| {
        let known = *known.get(&write.lease)?;
        (!known.is_held && is_kept(write.verb, known.end)).then_some((write, known))
    };
    writes.into_iter().filter_map(kept).collect()
}

/// The rows that these writes make where those `there` are on record, each key once; and which of the writes are new.
pub(crate) fn rows(writes: Vec<(LateWrite, KnownLease)>, there: &[Key]) -> (Vec<Row>, Vec<NewRefusal>) {
    let mut count: HashMap<RunId, usize> = HashMap::new();
    for key in there.iter().filter(|key| **key != Key::rest(key.run)) {
        *count.entry(key.run).or_default() += 1;
    }
    let mut known: HashSet<Key> = there.iter().copied().collect();
    let (mut rows, mut new): (HashMap<Key, Row>, Vec<NewRefusal>) = (HashMap::new(), Vec::new());
    for (write, lease) in writes {
        let mut key = Key::of(&write);
        let mut is_counted_only = false;
        if !known.contains(&key) {
            let count = count.entry(key.run).or_default();
            is_counted_only = *count >= REFUSED_MAX;
            if is_counted_only {
                key = Key::rest(key.run);
            } else {
                *count += 1;
                known.insert(key);
                new.push(NewRefusal { lease: write.lease, verb: write.verb, worker: lease.worker });
            }
        }
        let row = rows.entry(key).or_insert_with(|| Row {
            key,
            current: if is_counted_only { Epoch::new(0) } else { lease.current },
            worker: lease.worker.filter(|_| !is_counted_only),
            name: if is_counted_only { String::new() } else { write.name.clone() },
            bytes: 0,
            times: 0,
            first_ms_ago: write.first_ms_ago,
            last_ms_ago: write.last_ms_ago,
        });
        row.bytes = row.bytes.max(write.bytes);
        row.times += write.times;
        row.first_ms_ago = row.first_ms_ago.max(write.first_ms_ago);
        row.last_ms_ago = row.last_ms_ago.min(write.last_ms_ago);
    }
    let mut rows: Vec<Row> = rows.into_values().collect();
    rows.sort_by_key(|row| (row.key.run, row.key.epoch, row.key.verb, row.key.position));
    (rows, new)
}

/// A row as it is read; nothing where it cannot be: a newer version has written it.
pub(crate) struct ReadRow {
    pub epoch: Epoch,
    pub verb: i16,
    pub position: i32,
    pub current_epoch: Epoch,
    pub worker: Option<WorkerId>,
    pub name: String,
    pub at: Millis,
    pub last_at: Millis,
    pub times: i64,
    pub bytes: i64,
}

/// What was refused, from the rows of a run. What a newer version wrote and this one cannot name is only counted.
pub(crate) fn read(rows: Vec<ReadRow>) -> RefusedWrites {
    let mut refused = RefusedWrites::default();
    for row in rows {
        let times = row.times.max(0) as u64;
        let verb = LateVerb::from_code(row.verb).filter(|_| row.epoch != Epoch::new(0));
        let Some(verb) = verb else {
            refused.more += times;
            continue;
        };
        refused.writes.push(RefusedWrite {
            epoch: row.epoch,
            current_epoch: row.current_epoch,
            verb,
            position: u32::try_from(row.position).ok(),
            name: row.name,
            worker: row.worker,
            at: row.at,
            last_at: row.last_at,
            times,
            bytes: row.bytes.max(0) as u64,
        });
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(epoch: u32, verb: LateVerb, position: Option<u32>) -> (LateWrite, KnownLease) {
        let lease = LeaseRef { run: RunId::new(1, 1, 1), epoch: Epoch::new(epoch) };
        let name = String::from("charge");
        let write = LateWrite { lease, verb, position, name, bytes: 5, times: 1, first_ms_ago: 9, last_ms_ago: 9 };
        (write, KnownLease { current: Epoch::new(9), is_held: false, end: Some(LeaseEnd::Lost), worker: None })
    }

    #[test]
    fn what_wants_the_same_is_one_row() {
        let mut again = late(1, LateVerb::Step, Some(3));
        (again.0.bytes, again.0.last_ms_ago) = (70, 2);
        let (rows, new) = rows(vec![late(1, LateVerb::Step, Some(3)), again, late(1, LateVerb::Step, Some(4))], &[]);
        assert_eq!((rows.len(), new.len()), (2, 2));
        assert_eq!((rows[0].times, rows[0].bytes, rows[0].first_ms_ago, rows[0].last_ms_ago), (2, 70, 9, 2));
    }

    #[test]
    fn rows_of_a_run_are_limited_and_the_rest_is_counted() {
        let many = (0..250).map(|position| late(1, LateVerb::Step, Some(position))).collect();
        let (first, new) = rows(many, &[]);
        assert_eq!((first.len(), new.len()), (REFUSED_MAX + 1, REFUSED_MAX));
        let there: Vec<Key> = first.iter().map(|row| row.key).collect();
        let more = vec![late(1, LateVerb::Step, Some(7)), late(2, LateVerb::Complete, None)];
        let (second, new) = rows(more, &there);
        assert_eq!((second.len(), new.len()), (2, 0));
        let rest = second.iter().find(|row| row.key == Key::rest(row.key.run)).unwrap();
        assert_eq!((rest.times, rest.name.as_str()), (1, ""));
    }
}
