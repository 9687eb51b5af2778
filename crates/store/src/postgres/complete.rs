//! complete and start: one statement for a batch. Why a lease was not found is only looked up for those that were not.

use std::collections::{BTreeSet, HashMap, HashSet};

use baton_core::{Refused, State};
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::end::Records;
use super::params::params;
use super::pool::{Outcome, Trouble};
use super::rows::{epoch, run_id};
use super::sql;
use crate::decide::{Act, decide};
use crate::{Changes, Completion, LeaseRef, QueueId, Settled, Verdict, Woken};

impl PostgresStore {
    pub(super) async fn complete_runs(&self, done: &[Completion]) -> Outcome<Changes> {
        let mut seen = HashSet::new();
        let mut first: Vec<&Completion> = done.iter().filter(|one| seen.insert(one.lease)).collect();
        // Rows are met in this order most of the time, so that two batches seldom wait for each other in a circle.
        first.sort_by_key(|one| one.lease.run);
        let mut rows = Vec::with_capacity(first.len());
        while !first.is_empty() {
            // A stale lease beside the current one of the same run goes with the next statement.
            let mut last = None;
            let (now, later): (Vec<&Completion>, Vec<&Completion>) =
                first.into_iter().partition(|one| last.replace(one.lease.run) != Some(one.lease.run));
            rows.extend(self.complete_each(&now).await?);
            first = later;
        }
        let mut completed = HashMap::new();
        let mut freed: BTreeSet<(QueueId, String)> = BTreeSet::new();
        let (mut relatives, mut settled) = (false, Vec::with_capacity(rows.len()));
        for row in rows {
            settled.push(settled_by(&row)?);
            let lease = LeaseRef { run: run_id(&row, "run_id")?, epoch: epoch(&row, "epoch")? };
            completed.insert(lease, Verdict::Done { state: State::Completed, cancelling: false });
            relatives |= row.try_get::<_, bool>("has_relatives")?;
            if let (Some(key), true) = (row.try_get("key")?, row.try_get("others_may_wait")?) {
                freed.insert((row.try_get("queue_id")?, key));
            }
        }
        let leases: Vec<LeaseRef> = done.iter().map(|one| one.lease).collect();
        let verdicts = self.verdicts(&leases, completed, &Act::Complete).await?;
        let mut woken = Woken::default();
        if !freed.is_empty() {
            woken = self.unblock_after(&freed.into_iter().collect::<Vec<_>>()).await;
        }
        (woken.relatives, woken.settled) = (relatives, settled);
        Ok(Changes { verdicts, woken })
    }

    /// Completes runs that are all different.
    async fn complete_each(&self, done: &[&Completion]) -> Outcome<Vec<Row>> {
        let runs: Vec<Uuid> = done.iter().map(|one| one.lease.run.0).collect();
        let epochs: Vec<i64> = done.iter().map(|one| one.lease.epoch.code()).collect();
        let outputs: Vec<Option<&[u8]>> = done.iter().map(|one| one.output.as_deref()).collect();
        let now = self.database.fixed_now();
        self.database.query_each(sql::COMPLETE_RUNS, params![now, runs, epochs, outputs], runs.len()).await
    }

    pub(super) async fn start_runs(&self, leases: &[LeaseRef]) -> Outcome<Vec<Verdict>> {
        let mut first: Vec<LeaseRef> = leases.iter().copied().collect::<HashSet<_>>().into_iter().collect();
        first.sort_by_key(|lease| lease.run);
        let runs: Vec<Uuid> = first.iter().map(|lease| lease.run.0).collect();
        let epochs: Vec<i64> = first.iter().map(|lease| lease.epoch.code()).collect();
        let now = self.database.fixed_now();
        let mut started = HashMap::new();
        for row in self.database.query_each(sql::START_RUNS, params![now, runs, epochs], runs.len()).await? {
            let lease = LeaseRef { run: run_id(&row, "run_id")?, epoch: epoch(&row, "epoch")? };
            let cancelling = row.try_get("cancelling")?;
            started.insert(lease, Verdict::Done { state: State::Running, cancelling });
        }
        self.verdicts(leases, started, &Act::Start).await
    }

    /// One verdict for each lease, in order: done for the first mention of those that were done, already done for
    /// further ones, and for all others the reason.
    async fn verdicts(
        &self,
        leases: &[LeaseRef],
        mut done: HashMap<LeaseRef, Verdict>,
        act: &Act<'_>,
    ) -> Outcome<Vec<Verdict>> {
        let missed: Vec<LeaseRef> = leases.iter().filter(|lease| !done.contains_key(lease)).copied().collect();
        let reasons = match missed.is_empty() {
            true => HashMap::new(),
            false => self.explain(&missed, act).await?,
        };
        let verdicts = leases.iter().map(|lease| match (reasons.get(lease), done.get_mut(lease)) {
            (Some(reason), _) => *reason,
            (None, Some(verdict)) => std::mem::replace(verdict, Verdict::Refused(Refused::AlreadyDone)),
            (None, None) => Verdict::Unknown,
        });
        Ok(verdicts.collect())
    }

    async fn explain(&self, leases: &[LeaseRef], act: &Act<'_>) -> Outcome<HashMap<LeaseRef, Verdict>> {
        let session = self.database.direct().await?;
        let records = Records::read(&session, sql::PEEK_RUNS, self.database.fixed_now(), leases).await?;
        let mut reasons = HashMap::new();
        for lease in leases {
            let verdict = match records.live.get(&lease.run) {
                Some(row) => match decide(row, act, *lease, records.past(*lease), records.now, 0.0) {
                    Err(refused) => Verdict::Refused(refused),
                    // The lease has come to life since the statement looked for it.
                    Ok(_) => return Err(Trouble::Conflict("a lease changed while it was looked at".into())),
                },
                None => records.refuse(*lease, act),
            };
            reasons.insert(*lease, verdict);
        }
        Ok(reasons)
    }
}

/// What a row of the statement that completes says of the run.
pub(super) fn settled_by(row: &Row) -> Outcome<Settled> {
    Ok(Settled::completed(row.try_get("lane_id")?, row.try_get("held_ms")?))
}
