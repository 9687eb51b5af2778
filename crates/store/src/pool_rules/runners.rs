//! Runners: what their agents say, what ends them, and what has lasted too long.

use baton_core::Millis;
use baton_core::pools::{Cause, Refused, Runner, RunnerId, RunnerState, runner};

use super::{Sheet, news};
use crate::{PoolExpiry, RunnerAnswer, RunnerEnd, RunnerSignal, SignalAnswer};

/// Notes a signal.
pub(crate) fn signal(sheet: &mut Sheet, said: &RunnerSignal) -> SignalAnswer {
    let id = said.runner.runner;
    let Some(row) = sheet.get(id) else { return SignalAnswer::Unknown };
    if said.signal.is_about_run() && row.run_id != said.run_id {
        return SignalAnswer::OtherRun(row.run_id.clone());
    }
    let rules = match said.was_unheard {
        true => Runner { deadline: None, ..row.rules },
        false => row.rules,
    };
    match said.signal.apply(&rules, said.runner.epoch, sheet.now) {
        Ok(next) => {
            let now = sheet.now;
            let run_id = row.run_id.clone();
            sheet.set(id, next, &said.detail);
            sheet.note(id, |row| row.seen_at = Some(now));
            SignalAnswer::Noted(news(&next, run_id.as_deref()))
        }
        Err(refused) => SignalAnswer::Refused(refused),
    }
}

/// Begins to end a runner that is as it was seen.
pub(crate) fn end(sheet: &mut Sheet, end: &RunnerEnd) -> RunnerAnswer {
    let now = sheet.now;
    moved(sheet, end.runner.runner, &end.detail, |rules| runner::end(rules, end.runner.epoch, end.cause, now))
}

/// Forgets a runner whose machine is no more.
pub(crate) fn gone(sheet: &mut Sheet, id: RunnerId) -> RunnerAnswer {
    moved(sheet, id, "", runner::gone)
}

/// Ends a runner whose deadline has passed.
pub(crate) fn expire(sheet: &mut Sheet, id: RunnerId, expiry: &PoolExpiry) -> RunnerAnswer {
    let now = sheet.now;
    moved(sheet, id, "", |rules| match expiry.is_deaf && rules.state != RunnerState::Running {
        true => Err(Refused::NotDue),
        false => runner::expire(rules, now),
    })
}

/// Ends a runner whose agent has been silent for too long, counted back from `called_at`.
pub(crate) fn silence(sheet: &mut Sheet, id: RunnerId, expiry: &PoolExpiry, called_at: Millis) -> RunnerAnswer {
    let now = sheet.now;
    let heard_at = sheet.get(id).map(|row| row.seen_at.unwrap_or(row.since));
    moved(sheet, id, "no sign of life", |rules| {
        let (cause, most) = match rules.state == RunnerState::Running {
            true => (Cause::Abandoned, expiry.abandoned_ms),
            false => (Cause::Silent, expiry.silent_ms),
        };
        match heard_at.is_some_and(|at| at < called_at.saturating_sub(most)) {
            true => runner::end(rules, rules.epoch, cause, now),
            // It has spoken since it was found.
            false => Err(Refused::NotDue),
        }
    })
}

pub(super) fn moved(
    sheet: &mut Sheet,
    id: RunnerId,
    detail: &str,
    ask: impl FnOnce(&Runner) -> Result<Runner, Refused>,
) -> RunnerAnswer {
    let Some(row) = sheet.get(id) else { return RunnerAnswer::Unknown };
    match ask(&row.rules) {
        Ok(next) => {
            sheet.set(id, next, detail);
            RunnerAnswer::Moved(next.state, next.epoch)
        }
        Err(refused) => RunnerAnswer::Refused(refused),
    }
}
