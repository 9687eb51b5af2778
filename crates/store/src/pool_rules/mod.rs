//! What a verb of pools makes of the rows that a store holds for it: the same decisions for both stores. The rules themselves are `baton_core::pools`.
//!
//! A store holds rows, puts them on a [`Sheet`], has a function of this module write on it, and writes what has changed.

pub(crate) mod claims;
pub(crate) mod orders;
pub(crate) mod runners;
#[cfg(test)]
pub(crate) mod sample;

use std::collections::BTreeMap;

use baton_core::Millis;
use baton_core::pools::{Runner, RunnerId, RunnerState};

use crate::{PoolClaim, PoolNo, PoolRunner, RunnerEvent, RunnerNews, pool_total};

/// Rows that are held, and what is to be written.
pub(crate) struct Sheet {
    /// When all of this happens.
    pub now: Millis,
    lines: BTreeMap<RunnerId, Line>,
    /// Claims as they are to be.
    pub claims: Vec<PoolClaim>,
    /// Moves to be kept. Their numbers are the store's.
    pub events: Vec<RunnerEvent>,
    /// What is added to sums.
    pub totals: BTreeMap<(PoolNo, String), i64>,
}

struct Line {
    before: PoolRunner,
    after: PoolRunner,
}

impl Sheet {
    pub fn new(now: Millis, rows: Vec<PoolRunner>) -> Sheet {
        let lines = rows.into_iter().map(|row| (row.id, Line { before: row.clone(), after: row })).collect();
        Sheet { now, lines, claims: Vec::new(), events: Vec::new(), totals: BTreeMap::new() }
    }

    /// A runner as it is by now, if it is held.
    pub fn get(&self, id: RunnerId) -> Option<&PoolRunner> {
        self.lines.get(&id).map(|line| &line.after)
    }

    /// All runners that are held, as they are by now.
    pub fn all(&self) -> impl Iterator<Item = &PoolRunner> {
        self.lines.values().map(|line| &line.after)
    }

    /// Runners that have changed: as they were, and as they are to be.
    pub fn changed(&self) -> impl Iterator<Item = (&PoolRunner, &PoolRunner)> {
        self.lines.values().map(|line| (&line.before, &line.after)).filter(|(before, after)| before != after)
    }

    /// Changes what is known of a runner; not where it stands.
    pub fn note(&mut self, id: RunnerId, change: impl FnOnce(&mut PoolRunner)) {
        if let Some(line) = self.lines.get_mut(&id) {
            change(&mut line.after);
        }
    }

    /// Moves a runner, keeps the move, and counts.
    pub fn set(&mut self, id: RunnerId, next: Runner, detail: &str) {
        let now = self.now;
        let Some(line) = self.lines.get_mut(&id) else { return };
        let row = &mut line.after;
        let was = std::mem::replace(&mut row.rules, next);
        let (pool, spent_ms) = (row.pool, now.saturating_sub(row.since).max(0));
        if !detail.is_empty() {
            detail.clone_into(&mut row.detail);
        } else if next.state == RunnerState::Idle {
            // Why it was given back is over, and no reason for whatever ends it.
            row.detail.clear();
        }
        if was.state != next.state {
            row.since = now;
        }
        self.events.push(RunnerEvent {
            number: 0,
            at: now,
            pool,
            runner: id,
            claim: was.owner.or(next.owner),
            from: Some(was.state),
            to: next.state,
            cause: next.cause,
            detail: detail.to_owned(),
        });
        match was.state {
            RunnerState::Idle if next.state != was.state => self.add(pool, pool_total::IDLE_MS, spent_ms),
            RunnerState::Running if next.state != was.state => self.add(pool, pool_total::USED_MS, spent_ms),
            _ => {}
        }
        if let (RunnerState::Terminating, Some(cause)) = (next.state, next.cause) {
            self.add(pool, &format!("{}{}", pool_total::ENDED, cause.as_str()), 1);
        }
    }

    /// Writes a claim down that has moved, and counts.
    pub fn put_claim(&mut self, claim: PoolClaim) {
        self.add(claim.pool, &format!("{}{}", pool_total::CLAIMS, claim.state.as_str()), 1);
        if let Some(reason) = claim.reason {
            self.add(claim.pool, &format!("{}{}", pool_total::CLAIMS_ENDED, reason.as_str()), 1);
        }
        self.claims.push(claim);
    }

    /// Adds to a sum.
    pub fn add(&mut self, pool: PoolNo, what: &str, much: i64) {
        *self.totals.entry((pool, what.to_owned())).or_default() += much;
    }
}

/// What an agent is told of its runner.
pub(crate) fn news(rules: &Runner, run_id: Option<&str>) -> RunnerNews {
    let is_for_run = matches!(rules.state, RunnerState::Claimed | RunnerState::Running | RunnerState::Releasing);
    RunnerNews {
        state: rules.state,
        epoch: rules.epoch,
        run_id: run_id.filter(|_| is_for_run).map(str::to_owned),
        deadline: rules.deadline,
    }
}
