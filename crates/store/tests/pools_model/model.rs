//! A pool in plain words. It shares no rule with the program: what both get wrong in the same way would not be seen.

use baton_core::pools::claim::{ClaimReason, ClaimState};
use baton_core::pools::{Cause, ClaimNo, OrderId, RunnerId, RunnerState, Signal};
use baton_core::{Epoch, Millis};
use baton_store::{NewPoolClaim, PoolNo, RunnerRef};

use crate::steps::{How, Step};

pub const START: Millis = 1_700_000_000_000;
pub const CREATE_MS: Millis = 180_000;
pub const RELEASE_MS: Millis = 60_000;
pub const WAIT_MS: Millis = 60_000;
pub const RUNTIME_MS: Millis = 120_000;
pub const SILENT_MS: Millis = 30_000;
pub const ABANDONED_MS: Millis = 100_000;

/// A step, with what it is about.
#[derive(Clone, Debug)]
pub enum Action {
    Order(OrderId, Vec<RunnerId>),
    Signals(Vec<(RunnerRef, Signal, Option<String>)>),
    Beat(Vec<RunnerId>),
    Open(NewPoolClaim),
    Take,
    Commits(Vec<ClaimNo>),
    Release(ClaimNo),
    Fail(ClaimNo),
    GiveBack(ClaimNo, RunnerRef),
    End(RunnerRef, Cause),
    Gone(RunnerId),
    Expire,
    Pass(Millis),
}

#[derive(Clone, PartialEq, Debug)]
pub struct RunnerView {
    pub id: RunnerId,
    pub state: RunnerState,
    pub epoch: u32,
    pub owner: Option<ClaimNo>,
    pub run_id: Option<String>,
    pub deadline: Option<Millis>,
    pub registered_at: Option<Millis>,
    pub cause: Option<Cause>,
    pub since: Millis,
    pub ordered_at: Millis,
    pub seen_at: Option<Millis>,
    pub uses: u32,
}

#[derive(Clone, PartialEq, Debug)]
pub struct ClaimView {
    pub number: ClaimNo,
    pub run_id: String,
    pub count: u32,
    pub priority: u8,
    pub owner: String,
    pub state: ClaimState,
    pub deadline: Option<Millis>,
    pub ready_at: Option<Millis>,
    pub ended_at: Option<Millis>,
    pub reason: Option<ClaimReason>,
}

pub struct Model {
    pool: PoolNo,
    now: Millis,
    runners: Vec<RunnerView>,
    claims: Vec<ClaimView>,
}

impl RunnerView {
    fn moves(&mut self, state: RunnerState, deadline: Option<Millis>, now: Millis) {
        (self.state, self.deadline, self.since) = (state, deadline, now);
    }

    fn ends(&mut self, cause: Cause, now: Millis) {
        self.moves(RunnerState::Terminating, Some(now), now);
        (self.owner, self.cause, self.epoch) = (None, Some(cause), self.epoch + 1);
    }

    fn goes_back(&mut self, now: Millis) {
        self.moves(RunnerState::Releasing, Some(now + RELEASE_MS), now);
        (self.owner, self.epoch) = (None, self.epoch + 1);
    }

    fn is_late(&self, now: Millis) -> bool {
        self.deadline.is_some_and(|deadline| deadline < now)
    }
}

impl Model {
    pub fn new(pool: PoolNo) -> Model {
        Model { pool, now: START, runners: Vec::new(), claims: Vec::new() }
    }

    /// Who a step is about. `None`: there is nobody.
    pub fn resolve(&self, step: &Step) -> Option<Action> {
        let runner = |number: usize| self.runners.get(number.checked_rem(self.runners.len())?);
        // Mostly one that has not ended.
        let claim = |number: usize| {
            let open = self.claims.iter().filter(|claim| number.is_multiple_of(8) || !claim.state.is_ended());
            let open: Vec<ClaimNo> = open.map(|claim| claim.number).collect();
            open.get(number.checked_rem(open.len())?).copied()
        };
        let seen = |one: &RunnerView, how| {
            let behind = u32::from(how == How::Stale);
            RunnerRef { runner: one.id, epoch: Epoch::new(one.epoch.checked_sub(behind).unwrap_or(one.epoch + 1)) }
        };
        let says = |number, how, signal| {
            let one = runner(number)?;
            let run_id = if how == How::OtherRun { Some("another".to_owned()) } else { one.run_id.clone() };
            Some(Action::Signals(vec![(seen(one, how), signal, run_id)]))
        };
        Some(match *step {
            Step::Order { count } => {
                let first = self.runners.len() as u128 + 1;
                let ids = (first..first + count as u128).map(RunnerId::from_random).collect();
                Action::Order(OrderId::from_random(first), ids)
            }
            Step::All { signal } => {
                let from = match signal {
                    Signal::Ready => RunnerState::Creating,
                    Signal::Registered | Signal::RegisterFailed => RunnerState::Claimed,
                    Signal::Deregistered | Signal::DeregisterFailed => RunnerState::Releasing,
                };
                let who = self.runners.iter().filter(|one| one.state == from);
                Action::Signals(who.map(|one| (seen(one, How::Rightly), signal, one.run_id.clone())).collect())
            }
            Step::Ready { runner } => says(runner, How::Rightly, Signal::Ready)?,
            Step::Beat { every } => Action::Beat(self.runners.iter().step_by(every).map(|one| one.id).collect()),
            Step::Open { count, priority, owner } => Action::Open(NewPoolClaim {
                pool: self.pool,
                run_id: format!("run {}", self.claims.len() + 1),
                fingerprint: [1; 16],
                count,
                wanted: Default::default(),
                priority,
                owner: owner.to_string(),
                runtime_ms: RUNTIME_MS,
                wait_ms: WAIT_MS,
                waiting_max: u64::MAX,
            }),
            Step::Take => Action::Take,
            Step::Register { runner, how } => says(runner, how, Signal::Registered)?,
            Step::RegisterFailed { runner, how } => says(runner, how, Signal::RegisterFailed)?,
            Step::Deregister { runner, how } => says(runner, how, Signal::Deregistered)?,
            Step::DeregisterFailed { runner, how } => says(runner, how, Signal::DeregisterFailed)?,
            Step::Commit { claim: number } => Action::Commits(vec![claim(number)?]),
            Step::CommitAll => {
                let waiting = self.claims.iter().filter(|claim| claim.state == ClaimState::Waiting);
                Action::Commits(waiting.map(|claim| claim.number).collect())
            }
            Step::Release { claim: number } => Action::Release(claim(number)?),
            Step::Fail { claim: number } => Action::Fail(claim(number)?),
            Step::GiveBack { runner: number, how } => {
                let one = runner(number)?;
                let owner = one.owner.unwrap_or(1) + i64::from(how == How::OtherRun);
                Action::GiveBack(owner, seen(one, how))
            }
            Step::End { runner: number, cause, how } => Action::End(seen(runner(number)?, how), cause),
            Step::Gone { runner: number } => Action::Gone(runner(number)?.id),
            Step::Expire => Action::Expire,
            Step::Pass { ms } => Action::Pass(ms),
        })
    }

    pub fn act(&mut self, action: &Action) {
        let now = self.now;
        match action {
            Action::Order(_, ids) => self.runners.extend(ids.iter().map(|id| RunnerView {
                id: *id,
                state: RunnerState::Creating,
                epoch: 0,
                owner: None,
                run_id: None,
                deadline: Some(now + CREATE_MS),
                registered_at: None,
                cause: None,
                since: now,
                ordered_at: now,
                seen_at: None,
                uses: 0,
            })),
            Action::Signals(said) => {
                said.iter().for_each(|(runner, signal, run_id)| self.hears(*runner, *signal, run_id.as_deref()));
            }
            Action::Beat(ids) => {
                let alive = |one: &&mut RunnerView| ids.contains(&one.id) && one.state != RunnerState::Gone;
                self.runners.iter_mut().filter(alive).for_each(|one| one.seen_at = Some(now));
            }
            Action::Open(new) => self.claims.push(ClaimView {
                number: self.claims.len() as ClaimNo + 1,
                run_id: new.run_id.clone(),
                count: new.count,
                priority: new.priority,
                owner: new.owner.clone(),
                state: ClaimState::Waiting,
                deadline: Some(now + WAIT_MS),
                ready_at: None,
                ended_at: None,
                reason: None,
            }),
            Action::Take => self.take(),
            Action::Commits(claims) => claims.iter().for_each(|claim| self.commit(*claim)),
            Action::Release(claim) => match self.claim(*claim).state {
                ClaimState::Waiting => self.end_claim(*claim, ClaimState::Released, ClaimReason::Cancelled),
                ClaimState::Ready => self.end_claim(*claim, ClaimState::Released, ClaimReason::Done),
                ClaimState::Released | ClaimState::Failed => {}
            },
            Action::Fail(claim) => {
                if self.claim(*claim).state == ClaimState::Waiting {
                    self.end_claim(*claim, ClaimState::Failed, ClaimReason::Impossible);
                }
            }
            Action::GiveBack(claim, seen) => {
                let one = self.runner(seen.runner);
                if one.epoch == seen.epoch.number() && one.owner == Some(*claim) {
                    one.goes_back(now);
                }
            }
            Action::End(seen, cause) => {
                let one = self.runner(seen.runner);
                use RunnerState::*;
                let may = match cause {
                    Cause::IdleTooLong => one.state == Idle,
                    Cause::Surplus => [Creating, Idle].contains(&one.state),
                    Cause::Silent => [Idle, Claimed, Releasing].contains(&one.state),
                    Cause::RuntimeOver => one.state == Running,
                    _ => ![Terminating, Gone].contains(&one.state),
                };
                if may && one.epoch == seen.epoch.number() {
                    one.ends(*cause, now);
                }
            }
            Action::Gone(id) => {
                let one = self.runner(*id);
                if one.state == RunnerState::Terminating {
                    one.moves(RunnerState::Gone, None, now);
                }
            }
            Action::Expire => self.expire(),
            Action::Pass(ms) => self.now += ms,
        }
    }

    fn runner(&mut self, id: RunnerId) -> &mut RunnerView {
        self.runners.iter_mut().find(|one| one.id == id).expect("a runner that was ordered")
    }

    fn claim(&mut self, number: ClaimNo) -> &mut ClaimView {
        &mut self.claims[number as usize - 1]
    }

    fn hears(&mut self, seen: RunnerRef, signal: Signal, run_id: Option<&str>) {
        let now = self.now;
        let one = self.runner(seen.runner);
        let is_meant = one.epoch == seen.epoch.number() && one.run_id.as_deref() == run_id;
        match (signal, one.state) {
            (Signal::Ready, RunnerState::Creating) if !one.is_late(now) => one.moves(RunnerState::Idle, None, now),
            (Signal::Registered, RunnerState::Claimed)
                if is_meant && one.registered_at.is_none() && !one.is_late(now) =>
            {
                (one.registered_at, one.deadline) = (Some(now), None);
            }
            (Signal::RegisterFailed, RunnerState::Claimed) if is_meant => one.ends(Cause::RegisterFailed, now),
            (Signal::Deregistered, RunnerState::Releasing) if is_meant && !one.is_late(now) => {
                one.moves(RunnerState::Idle, None, now);
                one.registered_at = None;
            }
            (Signal::DeregisterFailed, RunnerState::Releasing) if is_meant => one.ends(Cause::ReleaseFailed, now),
            _ => return,
        }
        one.seen_at = Some(now);
    }

    fn take(&mut self) {
        let now = self.now;
        let mut waiting: Vec<ClaimView> =
            self.claims.iter().filter(|claim| claim.state == ClaimState::Waiting).cloned().collect();
        let turn = |claim: &ClaimView, all: &[ClaimView]| {
            let same = |one: &&ClaimView| one.owner == claim.owner && one.priority == claim.priority;
            all.iter().filter(same).filter(|one| one.number < claim.number).count()
        };
        let all = waiting.clone();
        waiting.sort_by_key(|claim| (10 - claim.priority, turn(claim, &all), claim.number));
        for claim in waiting {
            let held = self.runners.iter().filter(|one| one.owner == Some(claim.number)).count();
            let mut idle: Vec<usize> =
                (0..self.runners.len()).filter(|place| self.runners[*place].state == RunnerState::Idle).collect();
            idle.sort_by_key(|place| (-self.runners[*place].since, self.runners[*place].id));
            for place in idle.into_iter().take((claim.count as usize).saturating_sub(held)) {
                let one = &mut self.runners[place];
                let warm = now + 10_000;
                let by = if one.uses == 0 { warm.max(one.ordered_at + 180_000) } else { warm };
                one.moves(RunnerState::Claimed, Some(by), now);
                (one.owner, one.run_id, one.registered_at) = (Some(claim.number), Some(claim.run_id.clone()), None);
                (one.uses, one.epoch) = (one.uses + 1, one.epoch + 1);
            }
        }
    }

    fn commit(&mut self, number: ClaimNo) {
        let now = self.now;
        let claim = self.claim(number).clone();
        let passes = |one: &RunnerView| {
            let is_alive = one.seen_at.is_some_and(|at| now - at <= 15_000);
            one.owner == Some(number) && one.registered_at.is_some() && is_alive
        };
        let passed = self.runners.iter().filter(|one| passes(one)).count();
        if claim.state != ClaimState::Waiting || passed < claim.count as usize {
            return;
        }
        let until = Some(now + RUNTIME_MS);
        self.runners.iter_mut().filter(|one| passes(one)).for_each(|one| one.moves(RunnerState::Running, until, now));
        let claim = self.claim(number);
        (claim.state, claim.ready_at, claim.deadline) = (ClaimState::Ready, Some(now), until);
    }

    fn end_claim(&mut self, number: ClaimNo, state: ClaimState, reason: ClaimReason) {
        let now = self.now;
        for one in self.runners.iter_mut().filter(|one| one.owner == Some(number)) {
            match reason == ClaimReason::RuntimeOver {
                true => one.ends(Cause::RuntimeOver, now),
                false => one.goes_back(now),
            }
        }
        let claim = self.claim(number);
        (claim.state, claim.reason, claim.deadline, claim.ended_at) = (state, Some(reason), None, Some(now));
    }

    fn expire(&mut self) {
        let now = self.now;
        for claim in self.claims.clone() {
            match claim.state {
                _ if claim.deadline.is_none_or(|deadline| deadline >= now) => {}
                ClaimState::Waiting => self.end_claim(claim.number, ClaimState::Failed, ClaimReason::WaitOver),
                ClaimState::Ready => self.end_claim(claim.number, ClaimState::Released, ClaimReason::RuntimeOver),
                ClaimState::Released | ClaimState::Failed => {}
            }
        }
        for one in &mut self.runners {
            let (timeout, silence) = match one.state {
                RunnerState::Creating => (Some(Cause::CreateTimeout), None),
                RunnerState::Idle => (None, Some((Cause::Silent, SILENT_MS))),
                RunnerState::Claimed => (Some(Cause::RegisterTimeout), Some((Cause::Silent, SILENT_MS))),
                RunnerState::Running => (Some(Cause::RuntimeOver), Some((Cause::Abandoned, ABANDONED_MS))),
                RunnerState::Releasing => (Some(Cause::ReleaseTimeout), Some((Cause::Silent, SILENT_MS))),
                RunnerState::Terminating | RunnerState::Gone => (None, None),
            };
            let heard_at = one.seen_at.unwrap_or(one.since);
            match (timeout, silence) {
                (Some(cause), _) if one.is_late(now) => one.ends(cause, now),
                (_, Some((cause, most))) if heard_at < now - most => one.ends(cause, now),
                _ => {}
            }
        }
        for claim in self.claims.clone() {
            let has_some = self.runners.iter().any(|one| one.owner == Some(claim.number));
            if claim.state == ClaimState::Ready && !has_some {
                self.end_claim(claim.number, ClaimState::Released, ClaimReason::RunnersLost);
            }
        }
    }

    /// What must be true whatever happened.
    pub fn check(&self) {
        for claim in &self.claims {
            let held: Vec<_> = self.runners.iter().filter(|one| one.owner == Some(claim.number)).collect();
            assert!(held.len() <= claim.count as usize, "{claim:?} has too many: {held:?}");
            let expected = match claim.state {
                ClaimState::Waiting => RunnerState::Claimed,
                ClaimState::Ready => RunnerState::Running,
                ClaimState::Released | ClaimState::Failed => {
                    assert!(held.is_empty(), "{claim:?} has ended and holds {held:?}");
                    continue;
                }
            };
            assert!(held.iter().all(|one| one.state == expected), "{claim:?} holds {held:?}");
        }
    }

    pub fn runner_views(&self) -> Vec<RunnerView> {
        let mut views = self.runners.clone();
        views.sort_by_key(|one| one.id);
        views
    }

    pub fn claim_views(&self) -> Vec<ClaimView> {
        self.claims.iter().rev().cloned().collect()
    }
}
