//! Ends a run, and goes on as another.

use baton_core::{Refused, RunId, State};

use super::super::PostgresStore;
use super::super::complete::settled_by;
use super::super::end::Records;
use super::super::params::params;
use super::super::pool::{Outcome, Trouble};
use super::super::sql;
use super::children::{by_id, find_submitted};
use super::inbox::find_continued;
use crate::decide::{Act, decide};
use crate::{ContinueAnswer, LeaseRef, NewRun, QueueId, StoreError, Submitted, Verdict, Woken};

impl PostgresStore {
    pub(super) async fn take_again(&self, from: RunId, run: &NewRun, die: u64) -> Outcome<Submitted> {
        let session = self.database.transaction().await?;
        let runs = [(run, die)];
        let taken = self.take(&session, &runs).await?;
        let Some(submitted) = taken.first().map(|taken| taken.submitted) else {
            return Err(StoreError::Internal("a run was submitted without an answer".into()).into());
        };
        if !submitted.is_new {
            // Somebody was here before, with the same idempotency key.
            session.roll_back().await?;
            let known = self.find_by_keys(run.idempotency.as_slice()).await?.pop().flatten();
            let (earlier, _) = known.ok_or_else(|| Trouble::Conflict("a run is gone that was just there".into()))?;
            return Ok(earlier);
        }
        session.query(sql::COPY_STEPS, params![from.0, submitted.run.0]).await?;
        session.query(sql::SET_REMEMBERS, params![submitted.run.0]).await?;
        session.commit().await?;
        self.note_claimable(&taken, &runs);
        Ok(submitted)
    }

    pub(super) async fn go_on(&self, lease: LeaseRef, next: &NewRun, die: u64) -> Outcome<ContinueAnswer> {
        let session = self.database.transaction().await?;
        let records = Records::read(&session, sql::HOLD_RUNS, self.database.fixed_now(), &[lease]).await?;
        let refused = match records.live.get(&lease.run) {
            Some(row) => {
                decide(row, &Act::Complete, lease, records.past(lease), records.now, 0.0).err().map(Verdict::Refused)
            }
            None => Some(records.refuse(lease, &Act::Complete)),
        };
        if let Some(verdict) = refused {
            let mut next = None;
            if verdict == Verdict::Refused(Refused::AlreadyDone) {
                next = find_continued(&session, std::iter::once(lease.run)).await?.remove(&lease.run).flatten();
            }
            let known = find_submitted(&session, next.into_iter()).await?;
            session.commit().await?;
            let next = next.map(|run| known.get(&run).copied().unwrap_or_else(|| by_id(run)));
            return Ok(ContinueAnswer { verdict, next, woken: Woken::default() });
        }
        let runs = [(next, die)];
        let taken = self.take(&session, &runs).await?;
        let Some(submitted) = taken.first().map(|taken| taken.submitted) else {
            return Err(StoreError::Internal("a run was submitted without an answer".into()).into());
        };
        let (from, to) = (lease.run.0, submitted.run.0);
        session.query(sql::CONTINUE_RUN, params![from, to]).await?;
        let moved = session.query(sql::MOVE_MESSAGES, params![from, to]).await?;
        if !moved.is_empty() {
            // The first claim brings them: a request to cancel must not wait until the workflow does.
            session.query(sql::SET_REMEMBERS, params![to]).await?;
        }
        let (runs_done, epochs, outputs) = (vec![from], vec![lease.epoch.code()], vec![None::<&[u8]>]);
        let done = session.query(sql::COMPLETE_RUNS, params![records.now, runs_done, epochs, outputs]).await?;
        session.commit().await?;
        self.note_claimable(&taken, &runs);
        let mut woken = Woken::default();
        for row in &done {
            let settled = settled_by(row)?;
            if let (Some(key), true) = (row.try_get("key")?, row.try_get("others_may_wait")?) {
                let freed: (QueueId, String) = (row.try_get("queue_id")?, key);
                woken = self.unblock_after(&[freed]).await;
            }
            woken.settled.push(settled);
        }
        match submitted.due_at > submitted.submitted_at {
            true => woken.later(next.lane.lane, submitted.due_at - submitted.submitted_at),
            false => woken.now(next.lane.lane),
        }
        let verdict = Verdict::Done { state: State::Completed, cancelling: false };
        Ok(ContinueAnswer { verdict, next: Some(submitted), woken })
    }
}
