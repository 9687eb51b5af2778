//! Claims of runners, and what a pool has.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::Millis;
use baton_core::pools::{ClaimNo, Limits, RunnerState};

use super::super::params::params;
use super::super::pool::{Outcome, Session};
use super::super::rows::{clean, to_json};
use super::super::{PostgresStore, sql};
use super::{rows, sheet};
use crate::pool_rules::Sheet;
use crate::pool_rules::claims::{self as claim_rules, Choice, Ending, PoolView};
use crate::pools::{COMING_LOOK_MAX, IDLE_LOOK_MAX, WAITS_MAX};
use crate::{
    CommitAnswer, EndClaimAnswer, NewPoolClaim, OpenAnswer, PoolClaim, PoolNo, PoolRunner, PoolStats, PoolStock,
    RunnerAnswer, RunnerRef, TakeAnswer, TakeRules,
};

/// How often a choice is made anew because somebody else was faster with one of its runners.
const CHOICES_MAX: u32 = 8;

/// What became of a choice.
enum Held {
    Enough(TakeAnswer),
    /// Somebody else had some of it. Nothing has changed.
    TooFew(TakeAnswer),
}

impl PostgresStore {
    pub(super) async fn open_pool_claim(&self, new: &NewPoolClaim) -> Outcome<OpenAnswer> {
        if let Some(known) = self.read_pool_claim(new.pool, &new.run_id).await? {
            return Ok(claim_rules::known(known, new));
        }
        let session = self.database.transaction().await?;
        let now = self.time_in(&session).await?;
        // Claims that are opened at the same moment do not see each other, so a few more than may can come to wait: one for each connection at most.
        // With the pool locked that would not be so, but every claim would wait for every look for runners.
        let opened = session
            .query(
                sql::OPEN_POOL_CLAIM,
                params![
                    now,
                    new.pool,
                    new.run_id,
                    new.fingerprint.as_slice(),
                    new.count as i32,
                    to_json(&new.wanted)?,
                    i16::from(new.priority),
                    clean(&new.owner),
                    new.runtime_ms,
                    new.wait_ms,
                    claim_rules::most_waiting(new)
                ],
            )
            .await?;
        let Some(row) = opened.first() else {
            session.roll_back().await?;
            // Somebody else has opened the claim meanwhile, or it is refused.
            if let Some(known) = self.read_pool_claim(new.pool, &new.run_id).await? {
                return Ok(claim_rules::known(known, new));
            }
            let found = self.database.query(sql::READ_POOL_OF_NUMBER, params![new.pool]).await?;
            return Ok(claim_rules::not_opened(found.first().map(rows::pool).transpose()?.as_ref()));
        };
        let claim = rows::claim(row)?;
        let mut opened = Sheet::new(now, Vec::new());
        opened.put_claim(claim.clone());
        sheet::commit(&session, &opened).await?;
        Ok(OpenAnswer::Opened(claim))
    }

    pub(super) async fn read_pool_claim(&self, pool: PoolNo, run_id: &str) -> Outcome<Option<PoolClaim>> {
        let found = self.database.query(sql::READ_POOL_CLAIM, params![pool, run_id]).await?;
        found.first().map(rows::claim).transpose()
    }

    /// A pool and what its claims look at. With `lock_pool` nobody else fills it or creates machines for it meanwhile.
    pub(super) async fn view_pool(
        &self,
        session: &Session<'_>,
        statement: &str,
        pool: PoolNo,
    ) -> Outcome<Option<PoolView>> {
        let found = session.query(statement, params![pool]).await?;
        let Some(row) = found.first() else { return Ok(None) };
        let claims = session.query(sql::LIST_WAITING_CLAIMS, params![pool]).await?;
        let held = session.query(sql::LIST_TAKEN_RUNNERS, params![pool]).await?;
        let idle = session.query(sql::LIST_IDLE_RUNNERS, params![pool, IDLE_LOOK_MAX]).await?;
        let counts = session.query(sql::COUNT_RUNNERS, params![pool]).await?;
        Ok(Some(PoolView {
            pool: rows::pool(row)?,
            claims: claims.iter().map(rows::claim).collect::<Outcome<_>>()?,
            held: held.iter().map(rows::runner).collect::<Outcome<_>>()?,
            idle: idle.iter().map(rows::runner).collect::<Outcome<_>>()?,
            counts: counts.iter().map(rows::count).collect::<Outcome<_>>()?,
        }))
    }

    pub(super) async fn read_pool_stock(&self, pool: PoolNo) -> Outcome<Option<PoolStock>> {
        let session = self.database.transaction().await?;
        // All of one moment: a runner that moves in between would be counted twice, or not at all.
        session.query(sql::FREEZE_VIEW, &[]).await?;
        let view = self.view_pool(&session, sql::READ_POOL_OF_NUMBER, pool).await?;
        let coming = session.query(sql::LIST_COMING_RUNNERS, params![pool, COMING_LOOK_MAX]).await?;
        let coming = coming.iter().map(rows::coming).collect::<Outcome<_>>()?;
        let now = self.time_in(&session).await?;
        session.commit().await?;
        Ok(view.map(|view| view.stock(coming, now)))
    }

    pub(super) async fn read_pool_stats(&self, pool: PoolNo) -> Outcome<PoolStats> {
        let session = self.database.direct().await?;
        let counts = session.query(sql::COUNT_RUNNERS, params![pool]).await?;
        let waiting = session.query(sql::LIST_WAITING_CLAIMS, params![pool]).await?.len() as u64;
        let mut totals = BTreeMap::new();
        for row in session.query(sql::LIST_POOL_TOTALS, params![pool]).await? {
            totals.insert(row.try_get(0)?, row.try_get(1)?);
        }
        let mut waits_ms: Vec<Millis> = Vec::new();
        for row in session.query(sql::LIST_CLAIM_WAITS, params![pool, WAITS_MAX]).await? {
            waits_ms.push(row.try_get(0)?);
        }
        let runners: BTreeMap<RunnerState, u64> = counts.iter().map(rows::count).collect::<Outcome<_>>()?;
        Ok(PoolStats { runners, waiting, totals, waits_ms })
    }

    pub(super) async fn take_for_claims(&self, pool: PoolNo, rules: &TakeRules) -> Outcome<TakeAnswer> {
        // At first nobody is waited for: a removal has the row, or a heartbeat, and there may be another runner that fits. When there is none, it
        // is worth to wait: heartbeats lock many rows at once, and let go of them soon.
        match self.take_held(pool, rules, sql::HOLD_FREE_RUNNERS).await? {
            Held::Enough(answer) => Ok(answer),
            Held::TooFew(..) => match self.take_held(pool, rules, sql::HOLD_RUNNERS).await? {
                Held::Enough(answer) | Held::TooFew(answer) => Ok(answer),
            },
        }
    }

    /// Takes runners that `hold` gets hold of.
    async fn take_held(&self, pool: PoolNo, rules: &TakeRules, hold: &str) -> Outcome<Held> {
        let session = self.database.transaction().await?;
        let Some(mut view) = self.view_pool(&session, sql::LOCK_POOL, pool).await? else {
            session.roll_back().await?;
            return Ok(Held::Enough(TakeAnswer::default()));
        };
        let mut choice = choose_held(&session, &mut view, rules).await?;
        let wanted = choice.taken.len();
        for _ in 0..CHOICES_MAX {
            if choice.taken.len() < wanted && hold == sql::HOLD_FREE_RUNNERS {
                break;
            }
            if choice.runners().is_empty() {
                session.roll_back().await?;
                return Ok(Held::Enough(view.nothing_taken()));
            }
            let mut held = self.hold_sheet(&session, hold, choice.runners()).await?;
            let lost = choice.collisions(&held);
            if !lost.is_empty() {
                view.idle.retain(|runner| !lost.contains(&runner.id));
                choice = choose_held(&session, &mut view, rules).await?;
                continue;
            }
            let answer = claim_rules::take(&mut held, &view, &choice, rules);
            sheet::commit(&session, &held).await?;
            return Ok(Held::Enough(answer));
        }
        session.roll_back().await?;
        Ok(Held::TooFew(view.nothing_taken()))
    }

    /// Locks a claim and its runners.
    async fn hold_claim(&self, session: &Session<'_>, claim: ClaimNo) -> Outcome<Option<(PoolClaim, Sheet)>> {
        let found = session.query(sql::HOLD_POOL_CLAIM, params![claim]).await?;
        let Some(row) = found.first() else { return Ok(None) };
        let runners = session.query(sql::HOLD_CLAIM_RUNNERS, params![claim]).await?;
        let runners = runners.iter().map(rows::runner).collect::<Outcome<_>>()?;
        Ok(Some((rows::claim(row)?, Sheet::new(self.time_in(session).await?, runners))))
    }

    pub(super) async fn commit_pool_claim(&self, claim: ClaimNo, limits: &Limits) -> Outcome<CommitAnswer> {
        let session = self.database.transaction().await?;
        let Some((claim, mut held)) = self.hold_claim(&session, claim).await? else {
            session.roll_back().await?;
            return Ok(CommitAnswer::Unknown);
        };
        let answer = claim_rules::commit(&mut held, claim, limits);
        sheet::commit(&session, &held).await?;
        Ok(answer)
    }

    pub(super) async fn end_pool_claim(
        &self,
        claim: ClaimNo,
        ending: Ending,
        detail: &str,
        release_ms: Millis,
    ) -> Outcome<EndClaimAnswer> {
        Ok(self.end_held_claim(claim, ending, detail, release_ms).await?.0)
    }

    /// Ends a claim, and says what has become of its runners.
    pub(super) async fn end_held_claim(
        &self,
        claim: ClaimNo,
        ending: Ending,
        detail: &str,
        release_ms: Millis,
    ) -> Outcome<(EndClaimAnswer, Vec<PoolRunner>)> {
        let session = self.database.transaction().await?;
        let Some((claim, mut held)) = self.hold_claim(&session, claim).await? else {
            session.roll_back().await?;
            return Ok((EndClaimAnswer::Unknown, Vec::new()));
        };
        let answer = claim_rules::end(&mut held, claim, ending, detail, release_ms);
        sheet::commit(&session, &held).await?;
        Ok((answer, held.changed().map(|(_, after)| after.clone()).collect()))
    }

    pub(super) async fn give_back_held(
        &self,
        claim: ClaimNo,
        runners: &[RunnerRef],
        why: &str,
        release_ms: Millis,
    ) -> Outcome<Vec<RunnerAnswer>> {
        let session = self.database.transaction().await?;
        let ids = runners.iter().map(|runner| runner.runner);
        let mut held = self.hold_sheet(&session, sql::HOLD_RUNNERS, ids).await?;
        let answers =
            runners.iter().map(|seen| claim_rules::give_back(&mut held, claim, *seen, release_ms, why)).collect();
        sheet::commit(&session, &held).await?;
        Ok(answers)
    }
}

/// Chooses, and locks the claims that the choice is about. One that has ended since it was read, or was filled, would take runners that nobody gives
/// back for it, or give back what it was handed over: it is left out, and the choice made anew. With the pool locked nobody else locks several claims
/// of it, so the order in which that happens over several choices does not matter.
async fn choose_held(session: &Session<'_>, view: &mut PoolView, rules: &TakeRules) -> Outcome<Choice> {
    loop {
        let choice = claim_rules::choose(view, rules);
        let claims = choice.claims();
        if claims.is_empty() {
            return Ok(choice);
        }
        let mut waiting = BTreeSet::new();
        for row in session.query(sql::HOLD_WAITING_CLAIMS, params![claims]).await? {
            waiting.insert(row.try_get::<_, ClaimNo>(0)?);
        }
        if claims.iter().all(|claim| waiting.contains(claim)) {
            return Ok(choice);
        }
        view.claims.retain(|claim| waiting.contains(&claim.number) || !claims.contains(&claim.number));
    }
}
