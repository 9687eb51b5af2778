//! Claims: who takes what, when all of it is handed over, and what is given back.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::Millis;
use baton_core::pools::claim::{self, ClaimRefused, Taken, Waiting, assign, in_order, yields};
use baton_core::pools::keeper::{ComingRunner, IdleRunner, Stock};
use baton_core::pools::verify::{Seen, register_by, verify};
use baton_core::pools::{ClaimNo, ClaimReason, ClaimState, Limits, Machine, RunnerId, RunnerState, Verdict, runner};

use super::Sheet;
use crate::{
    CommitAnswer, EndClaimAnswer, NewPoolClaim, OpenAnswer, Pool, PoolClaim, PoolRunner, PoolStock, RunnerAnswer,
    RunnerRef, TakeAnswer, TakeRules, TakenRunner, pool_total,
};

/// A pool as it is looked at when its claims take runners.
pub(crate) struct PoolView {
    pub pool: Pool,
    /// Claims that wait.
    pub claims: Vec<PoolClaim>,
    /// What they have taken.
    pub held: Vec<PoolRunner>,
    /// What they may take, best first.
    pub idle: Vec<PoolRunner>,
    /// Runners by state.
    pub counts: BTreeMap<RunnerState, u64>,
}

impl PoolView {
    /// How many runners are in one of these states.
    pub fn count(&self, states: &[RunnerState]) -> u32 {
        let counted: u64 = states.iter().filter_map(|state| self.counts.get(state)).sum();
        u32::try_from(counted).unwrap_or(u32::MAX)
    }

    /// Machines that are there or cost already.
    pub fn size(&self) -> u32 {
        let live: Vec<_> = RunnerState::ALL.into_iter().filter(|state| *state != RunnerState::Gone).collect();
        self.count(&live)
    }

    /// What the keeper looks at.
    pub fn stock(self, coming: Vec<ComingRunner>, now: Millis) -> PoolStock {
        let idle = |runner: &PoolRunner| IdleRunner {
            id: runner.id,
            epoch: runner.rules.epoch,
            since: runner.since,
            machine: runner.machine.clone(),
        };
        let stock = Stock {
            idle: self.idle.iter().map(idle).collect(),
            coming,
            creating: self.count(&[RunnerState::Creating]),
            claimed: self.count(&[RunnerState::Claimed]),
            running: self.count(&[RunnerState::Running]),
            releasing: self.count(&[RunnerState::Releasing]),
            terminating: self.count(&[RunnerState::Terminating]),
        };
        let waiting = self.waiting();
        PoolStock { now, pool: self.pool, stock, waiting }
    }

    /// What to answer when nobody takes anything.
    pub fn nothing_taken(&self) -> TakeAnswer {
        let holders = self.held.iter().filter_map(|runner| runner.rules.owner).collect();
        TakeAnswer { holders, waiting: self.claims.clone(), ..TakeAnswer::default() }
    }

    /// The claims that wait, in their order, with what each lacks.
    pub fn waiting(&self) -> Vec<Waiting> {
        let lacks = |claim: &PoolClaim| {
            let held = self.held.iter().filter(|runner| runner.rules.owner == Some(claim.number)).count();
            claim.count.saturating_sub(held as u32)
        };
        let waiting = self.claims.iter().map(|claim| Waiting {
            claim: claim.number,
            priority: claim.priority,
            owner: claim.owner.clone(),
            missing: lacks(claim),
            wanted: claim.wanted.clone(),
        });
        in_order(waiting.collect())
    }
}

/// What to say of a claim that was opened for this run before.
pub(crate) fn known(known: PoolClaim, new: &NewPoolClaim) -> OpenAnswer {
    match known.fingerprint == new.fingerprint {
        true => OpenAnswer::Known(known),
        false => OpenAnswer::Conflict(known),
    }
}

/// How many claims may wait, for a statement.
pub(crate) fn most_waiting(new: &NewPoolClaim) -> i64 {
    i64::try_from(new.waiting_max).unwrap_or(i64::MAX)
}

/// Why a claim was not opened that nobody had opened before.
pub(crate) fn not_opened(pool: Option<&Pool>) -> OpenAnswer {
    match pool {
        Some(pool) if pool.deleting_at.is_none() => OpenAnswer::Full,
        Some(_) | None => OpenAnswer::NoPool,
    }
}

/// What is to be taken, and what is to be given back for it.
#[derive(Default)]
pub(crate) struct Choice {
    pub taken: Vec<(ClaimNo, RunnerRef)>,
    pub yielded: Vec<(ClaimNo, RunnerRef)>,
}

impl Choice {
    /// The runners that it is about.
    pub fn runners(&self) -> Vec<RunnerId> {
        let ids: BTreeSet<_> = self.taken.iter().chain(&self.yielded).map(|(_, runner)| runner.runner).collect();
        ids.into_iter().collect()
    }

    /// The claims that it is about, oldest first.
    pub fn claims(&self) -> Vec<ClaimNo> {
        let claims: BTreeSet<_> = self.taken.iter().chain(&self.yielded).map(|(claim, _)| *claim).collect();
        claims.into_iter().collect()
    }

    /// Those it wants to take and that are not as they were seen.
    pub fn collisions(&self, sheet: &Sheet) -> Vec<RunnerId> {
        let is_there = |runner: &RunnerRef| sheet.get(runner.runner).is_some_and(|row| row.reference() == *runner);
        self.taken.iter().map(|(_, runner)| runner).filter(|one| !is_there(one)).map(|one| one.runner).collect()
    }
}

/// Chooses which idle runners go to which claims.
pub(crate) fn choose(view: &PoolView, rules: &TakeRules) -> Choice {
    if view.pool.deleting_at.is_some() || rules.is_held {
        return Choice::default();
    }
    let mut waiting = view.waiting();
    let idle: Vec<&Machine> = view.idle.iter().map(|runner| &runner.machine).collect();
    let mut choice = Choice::default();
    for (who, place) in assign(&waiting, &idle) {
        choice.taken.push((waiting[who].claim, view.idle[place].reference()));
    }
    for claim in &mut waiting {
        let given = choice.taken.iter().filter(|(to, _)| *to == claim.claim).count();
        claim.missing -= given as u32;
    }
    let owned = |runner: &PoolRunner| runner.rules.owner.is_some();
    let held: Vec<&PoolRunner> = view.held.iter().filter(|runner| owned(runner)).collect();
    let taken: Vec<Taken<'_>> = held
        .iter()
        .map(|runner| Taken { owner: runner.rules.owner.unwrap_or_default(), machine: &runner.machine })
        .collect();
    let room = view.pool.spec.max_size.saturating_sub(view.size());
    let coming = view.count(&[RunnerState::Creating, RunnerState::Releasing]);
    for place in yields(&waiting, &taken, room, coming) {
        choice.yielded.push((taken[place].owner, held[place].reference()));
    }
    choice
}

/// Takes what was chosen, as far as it is still as it was seen.
pub(crate) fn take(sheet: &mut Sheet, view: &PoolView, choice: &Choice, rules: &TakeRules) -> TakeAnswer {
    let now = sheet.now;
    let mut answer = view.nothing_taken();
    for (claim_no, seen) in &choice.taken {
        let Some(claim) = view.claims.iter().find(|claim| claim.number == *claim_no) else { continue };
        let Some(row) = sheet.get(seen.runner) else { continue };
        let by = register_by(&rules.limits, row.uses == 0, row.ordered_at, now);
        let Ok(next) = runner::take(&row.rules, seen.epoch, *claim_no, by) else { continue };
        sheet.set(seen.runner, next, "");
        sheet.note(seen.runner, |row| {
            row.run_id = Some(claim.run_id.clone());
            row.uses += 1;
        });
        let runner = RunnerRef { runner: seen.runner, epoch: next.epoch };
        answer.holders.insert(*claim_no);
        answer.taken.push(TakenRunner { claim: *claim_no, run_id: claim.run_id.clone(), runner });
    }
    let yielded: Vec<_> = choice.yielded.iter().map(|(claim, runner)| (*claim, *runner)).collect();
    for (claim, seen) in yielded {
        if let RunnerAnswer::Moved(_, epoch) = give_back(sheet, claim, seen, rules.release_ms, "a claim goes before") {
            answer.yielded.push(RunnerRef { runner: seen.runner, epoch });
        }
    }
    answer
}

/// Gives back a runner of a claim that is as it was seen.
pub(crate) fn give_back(
    sheet: &mut Sheet,
    claim: ClaimNo,
    seen: RunnerRef,
    release_ms: Millis,
    why: &str,
) -> RunnerAnswer {
    let Some(row) = sheet.get(seen.runner) else { return RunnerAnswer::Unknown };
    if row.rules.epoch != seen.epoch {
        return RunnerAnswer::Refused(runner::Refused::Stale);
    }
    match runner::release(&row.rules, claim, sheet.now.saturating_add(release_ms)) {
        Ok(next) => {
            sheet.set(seen.runner, next, why);
            RunnerAnswer::Moved(next.state, next.epoch)
        }
        Err(refused) => RunnerAnswer::Refused(refused),
    }
}

/// Gives back a runner whose claim has ended.
pub(crate) fn give_back_stranded(sheet: &mut Sheet, claim: ClaimNo, id: RunnerId, release_ms: Millis) -> RunnerAnswer {
    let Some(seen) = sheet.get(id).map(PoolRunner::reference) else { return RunnerAnswer::Unknown };
    give_back(sheet, claim, seen, release_ms, "its claim has ended")
}

/// Hands the runners of a claim over, all or none.
pub(crate) fn commit(sheet: &mut Sheet, claim: PoolClaim, limits: &Limits) -> CommitAnswer {
    let state = match claim::fill(claim.state) {
        Ok(state) => state,
        Err(refused) => return CommitAnswer::Refused(refused, claim),
    };
    let now = sheet.now;
    let owned = sheet.all().filter(|row| row.rules.owner == Some(claim.number));
    let looked: Vec<(RunnerRef, Verdict, Millis)> = owned
        .map(|row| {
            let seen = Seen { runner: row.rules, is_new: row.uses <= 1, seen_at: row.seen_at };
            (row.reference(), verify(&seen, limits, now), row.ordered_at)
        })
        .collect();
    let passed: Vec<_> = looked.iter().filter(|(_, verdict, _)| *verdict == Verdict::Passed).collect();
    if passed.len() < claim.count as usize {
        let missing = claim.count.saturating_sub(looked.len() as u32);
        let verdicts = looked.into_iter().map(|(runner, verdict, _)| (runner, verdict)).collect();
        return CommitAnswer::NotYet { verdicts, missing };
    }
    let until = now.saturating_add(claim.runtime_ms);
    for (seen, _, ordered_at) in passed {
        let Some(Ok(next)) = sheet.get(seen.runner).map(|row| runner::commit(&row.rules, claim.number, until)) else {
            continue;
        };
        sheet.set(seen.runner, next, "");
        let hit = if *ordered_at < claim.opened_at { pool_total::HITS_WARM } else { pool_total::HITS_COLD };
        sheet.add(claim.pool, hit, 1);
    }
    let claim = PoolClaim { state, ready_at: Some(now), deadline: Some(until), ..claim };
    sheet.put_claim(claim.clone());
    CommitAnswer::Ready(claim)
}

/// What is said of a claim that has no runners left.
pub(crate) const LOST: &str = "the last of its runners has ended";

/// How a claim is to end.
#[derive(Clone, Copy)]
pub(crate) enum Ending {
    /// Its owner wants it no more.
    Release,
    /// It cannot be filled.
    Fail(ClaimReason),
    /// Its time is over, or its pool is being deleted while it waits.
    Expire { is_pool_deleted: bool },
    /// It was filled, and has no runners left.
    Lose,
}

/// Ends a claim and gives back what it has.
pub(crate) fn end(
    sheet: &mut Sheet,
    claim: PoolClaim,
    ending: Ending,
    detail: &str,
    release_ms: Millis,
) -> EndClaimAnswer {
    let now = sheet.now;
    let ended: Result<(ClaimState, ClaimReason), ClaimRefused> = match ending {
        Ending::Release => claim::release(claim.state),
        Ending::Fail(reason) => claim::fail(claim.state, reason),
        Ending::Expire { is_pool_deleted } => match claim::expire(claim.state, claim.deadline, now) {
            Err(ClaimRefused::NotDue) if is_pool_deleted && claim.state == ClaimState::Waiting => {
                claim::fail(claim.state, ClaimReason::PoolDeleted)
            }
            other => other,
        },
        Ending::Lose if sheet.all().any(|row| row.rules.owner == Some(claim.number)) => Err(ClaimRefused::NotDue),
        Ending::Lose => claim::lose(claim.state),
    };
    let (state, reason) = match ended {
        Ok(ended) => ended,
        Err(refused) => return EndClaimAnswer::Refused(refused, claim),
    };
    let owned = sheet.all().filter(|row| row.rules.owner == Some(claim.number));
    let owned: Vec<RunnerRef> = owned.map(PoolRunner::reference).collect();
    let mut releasing = Vec::new();
    for seen in owned {
        // Whoever kept its runners for too long may still use them: they are not given to anybody else.
        let over = sheet.get(seen.runner).and_then(|row| runner::expire(&row.rules, now).ok());
        if let (Some(next), ClaimReason::RuntimeOver) = (over, reason) {
            sheet.set(seen.runner, next, "");
        } else if let RunnerAnswer::Moved(_, epoch) = give_back(sheet, claim.number, seen, release_ms, "") {
            releasing.push(RunnerRef { runner: seen.runner, epoch });
        }
    }
    let claim = PoolClaim {
        state,
        reason: Some(reason),
        ended_at: Some(now),
        deadline: None,
        detail: detail.to_owned(),
        ..claim
    };
    sheet.put_claim(claim.clone());
    EndClaimAnswer::Ended(claim, releasing)
}
