//! Which claims were answered: each number once, whichever server is asked. The worker's row says
//! so, and a claim that hands out runs compares and changes it under the row's lock.

use std::collections::HashSet;

use baton_core::{Answered, Millis, RunId, WorkerId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::deal::Deal;
use super::params::params;
use super::pool::{Outcome, Session, retried};
use super::rows::{epoch, run_id};
use super::sql;
use crate::decide::Act;
use crate::{Asked, ClaimSlot, Claimed, LeaseRef, Woken};

pub(super) fn answered_of(row: &Row) -> Outcome<Answered> {
    Ok(Answered { last: row.try_get("answered_no")?, bits: row.try_get("answered_bits")? })
}

impl PostgresStore {
    /// Finds what earlier calls of these slots' claims were given.
    pub(super) async fn repeat_answered(
        &self,
        deal: &mut Deal<'_>,
        is_open: impl Fn(usize, &ClaimSlot) -> bool,
    ) -> Outcome<()> {
        let (indexes, asked): (Vec<usize>, Vec<Asked>) = deal.unanswered(is_open).into_iter().unzip();
        if asked.is_empty() {
            return Ok(());
        }
        let found = self.ask(&self.database.direct().await?, &asked).await?;
        self.repeat(deal, found.into_iter().map(|index| indexes[index]).collect()).await
    }

    pub(super) async fn list_answered(&self, asked: &[Asked]) -> Outcome<Vec<bool>> {
        let mut answered = vec![false; asked.len()];
        self.ask(&self.database.direct().await?, asked).await?.into_iter().for_each(|index| answered[index] = true);
        Ok(answered)
    }

    /// Which of these were answered, by their index.
    async fn ask(&self, session: &Session<'_>, asked: &[Asked]) -> Outcome<Vec<usize>> {
        let workers: Vec<Uuid> = asked.iter().map(|one| one.worker.0).collect();
        let numbers: Vec<i64> = asked.iter().map(|one| one.claim_no).collect();
        let ages: Vec<Millis> = asked.iter().map(|one| one.ms_ago).collect();
        let now = self.database.fixed_now();
        let params = params![now, workers, numbers, ages];
        let found = session.query_often(sql::FIND_ANSWERED, params, asked.len()).await?;
        found.iter().map(|row| Ok(row.try_get::<_, i64>(0)? as usize - 1)).collect()
    }

    /// Finds what these slots were given before. They get nothing else.
    pub(super) async fn repeat(&self, deal: &mut Deal<'_>, slots: Vec<usize>) -> Outcome<()> {
        for index in slots {
            let slot = &deal.request.slots[index];
            let number = (slot.claim_no > 0).then_some(slot.claim_no);
            let age = slot.asked_ms_ago.unwrap_or(0);
            let held = self.claimed_again(slot.worker.0, number, age, index).await?;
            deal.repeat(index, held);
        }
        Ok(())
    }

    /// What a claim brought and its worker still holds, to be told again.
    pub(super) async fn claimed_again(
        &self,
        worker: Uuid,
        number: Option<i64>,
        age_ms: Millis,
        slot: usize,
    ) -> Outcome<Vec<Claimed>> {
        let mut held = self.list_claimed(worker, number, age_ms, slot).await?;
        if !held.is_empty() {
            let runs: Vec<Uuid> = held.iter().map(|one| one.run.0).collect();
            let epochs: Vec<i64> = held.iter().map(|one| one.epoch.code()).collect();
            let told = retried!(self.database.query(sql::TELL_RUNS, params![runs, epochs]))?;
            let told = told.iter().map(|row| run_id(row, "run_id")).collect::<Outcome<HashSet<RunId>>>()?;
            held.retain(|one| told.contains(&one.run));
        }
        Ok(held)
    }

    pub(super) async fn give_back_untold(&self, leases: &[LeaseRef], why: &str) -> Outcome<Woken> {
        let runs: Vec<Uuid> = leases.iter().map(|lease| lease.run.0).collect();
        let epochs: Vec<i64> = leases.iter().map(|lease| lease.epoch.code()).collect();
        let session = self.database.transaction().await?;
        let untold = session.query(sql::HOLD_UNTOLD, params![runs, epochs]).await?;
        let lease = |row| Ok(LeaseRef { run: run_id(row, "run_id")?, epoch: epoch(row, "epoch")? });
        let untold = untold.iter().map(lease).collect::<Outcome<Vec<LeaseRef>>>()?;
        let acts: Vec<_> = untold.into_iter().map(|lease| (lease, Act::GiveBack(why))).collect();
        Ok(self.act_within(&session, &acts, 0.0).await?.woken)
    }

    pub(super) async fn note_answered(&self, claims: &[(WorkerId, i64)]) -> Outcome<Vec<bool>> {
        let mut fresh = vec![false; claims.len()];
        let mut left: Vec<usize> = (0..claims.len()).collect();
        // A statement changes a row once, so each worker goes in once.
        while !left.is_empty() {
            let mut seen = HashSet::new();
            let (now, later): (Vec<usize>, Vec<usize>) = left.iter().partition(|index| seen.insert(claims[**index].0));
            let workers: Vec<Uuid> = now.iter().map(|index| claims[*index].0.0).collect();
            let numbers: Vec<i64> = now.iter().map(|index| claims[*index].1).collect();
            for row in retried!(self.database.query(sql::ANSWER_CLAIMS, params![workers, numbers]))? {
                fresh[now[row.try_get::<_, i64>(0)? as usize - 1]] = true;
            }
            left = later;
        }
        Ok(fresh)
    }

    pub(super) async fn unanswer(&self, worker: WorkerId, number: i64, only_old: bool) -> Outcome<Vec<Claimed>> {
        let session = self.database.transaction().await?;
        // Whoever is about to answer the claim has the row locked; what that brings is seen by the
        // next statement.
        let found = session.query(sql::READ_ANSWERED, params![worker.0]).await?;
        let before = found.first().map(answered_of).transpose()?.unwrap_or_default();
        let is_held =
            !session.query(sql::LIST_CLAIMED, params![worker.0, Some(number), None::<Millis>, 0_i64]).await?.is_empty();
        if !is_held && before.may_reopen(number, only_old) {
            let Answered { last, bits } = before.without(number);
            session.query(sql::SET_ANSWERED, params![worker.0, last, bits]).await?;
        }
        session.commit().await?;
        match is_held {
            true => self.claimed_again(worker.0, Some(number), 0, 0).await,
            false => Ok(Vec::new()),
        }
    }
}
