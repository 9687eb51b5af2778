//! Lets runs sleep until something happens.

use baton_core::Refused;
use baton_core::step::Change;

use super::super::connection::Sql;
use super::super::end::{self, Batch};
use super::super::rows;
use super::{inbox, steps};
use crate::decide::{self, Act};
use crate::memory::{self, Holder, Refusal, StepRow, sleeps_until};
use crate::{Due, StepKind, StepState, StoreResult, SuspendAnswer, Suspension, Verdict, Woken};

pub(super) fn suspend(sql: &Sql<'_>, suspensions: &[Suspension]) -> StoreResult<(Vec<SuspendAnswer>, Woken)> {
    let mut batch = Batch::new(sql, 0.0);
    let answers = suspensions.iter().map(|one| suspend_one(sql, &mut batch, one)).collect::<StoreResult<_>>()?;
    Ok((answers, batch.finish()?))
}

fn suspend_one(sql: &Sql<'_>, batch: &mut Batch<'_, '_>, suspension: &Suspension) -> StoreResult<SuspendAnswer> {
    let (lease, sleep) = (suspension.lease, Act::Sleep(Due::Now));
    let Some(row) = rows::live(sql, lease.run)? else {
        return refuse(sql, suspension, end::not_live(sql, &sleep, lease)?);
    };
    if let Err(refused) = decide::decide(&row, &sleep, lease, None, sql.now, 0.0) {
        let refused = end::explain(sql, &row, &sleep, lease, refused)?;
        return refuse(sql, suspension, Verdict::Refused(refused));
    }
    let mut fresh: Vec<StepRow> = Vec::new();
    let mut dues = Vec::with_capacity(suspension.sleeps.len());
    for (position, name, due) in &suspension.sleeps {
        let known = steps::known(sql, lease.run, *position)?;
        let known = fresh.iter().find(|row| row.position == *position).or(known.as_ref());
        let change = Change::Sleep { until: due.at(sql.now) };
        match memory::place(known, Holder::of(&row), *position, StepKind::Sleep, name, &change, sql.now) {
            Ok(row) => {
                dues.push(row.rules.due_at);
                fresh.push(row);
            }
            Err(Refusal::Same(step)) => dues.push(step.due_at.filter(|_| step.state == StepState::Begun)),
            Err(Refusal::Diverged { kind, name }) => {
                return Ok(SuspendAnswer::Diverged { position: *position, kind, name });
            }
            Err(Refusal::TooMany) => return Ok(SuspendAnswer::TooMany),
        }
    }
    for row in &fresh {
        steps::set(sql, row)?;
    }
    let news = inbox::messages(sql, lease.run, suspension.seen)?;
    if !news.is_empty() {
        return Ok(SuspendAnswer::News(news));
    }
    let until = sleeps_until(dues.into_iter(), suspension.wake_at);
    Ok(match batch.carry_out(&row, &Act::Sleep(Due::At(until)), lease)? {
        Ok(_) => SuspendAnswer::Suspended { until },
        Err(refused) => SuspendAnswer::Refused(refused),
    })
}

/// The answer when the lease is not the live one: a repeated call gets what it got before.
fn refuse(sql: &Sql<'_>, suspension: &Suspension, verdict: Verdict) -> StoreResult<SuspendAnswer> {
    match verdict {
        Verdict::Refused(Refused::AlreadyDone) => {}
        Verdict::Refused(refused) => return Ok(SuspendAnswer::Refused(refused)),
        Verdict::Unknown | Verdict::Done { .. } => return Ok(SuspendAnswer::Unknown),
    }
    let mut dues = Vec::with_capacity(suspension.sleeps.len());
    for (position, _, due) in &suspension.sleeps {
        let known = steps::known(sql, suspension.lease.run, *position)?;
        dues.push(known.map_or(Some(due.at(sql.now)), |known| known.rules.due_at));
    }
    Ok(SuspendAnswer::Suspended { until: sleeps_until(dues.into_iter(), suspension.wake_at) })
}
