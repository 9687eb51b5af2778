//! Lets runs sleep until something happens.

use std::collections::HashMap;

use baton_core::step::Change;
use baton_core::{Refused, RunId};

use super::super::PostgresStore;
use super::super::end::{Records, Writes};
use super::super::pool::Outcome;
use super::super::rows::clean;
use super::super::sql;
use super::inbox::list_news;
use super::memory::Memory;
use crate::decide::{Act, decide};
use crate::memory::{self, Holder, Refusal, StepRow, sleeps_until};
use crate::{Due, LeaseRef, Message, StepKind, StepState, SuspendAnswer, Suspension, Verdict, Woken};

impl PostgresStore {
    pub(super) async fn suspend_runs(&self, suspensions: &[Suspension]) -> Outcome<(Vec<SuspendAnswer>, Woken)> {
        if suspensions.is_empty() {
            return Ok(Default::default());
        }
        let leases: Vec<LeaseRef> = suspensions.iter().map(|one| one.lease).collect();
        let session = self.database.transaction().await?;
        let mut records = Records::read(&session, sql::HOLD_RUNS, self.database.fixed_now(), &leases).await?;
        let mut positions = Vec::new();
        for one in suspensions {
            positions.extend(one.sleeps.iter().map(|(position, ..)| (one.lease.run, *position)));
        }
        let mut memory = Memory::read(&session, positions, Vec::new()).await?;
        // The lock was there first: what is not among the news now finds the run asleep, and wakes it.
        let mut seen: HashMap<RunId, i64> = HashMap::new();
        for one in suspensions {
            let least = seen.entry(one.lease.run).or_insert(one.seen);
            *least = one.seen.min(*least);
        }
        let news = list_news(&session, &seen.into_iter().collect::<Vec<_>>()).await?;
        let mut writes = Writes::default();
        let mut answers = Vec::with_capacity(suspensions.len());
        for suspension in suspensions {
            answers.push(suspend_one(&mut records, &mut memory, &news, &mut writes, suspension));
        }
        memory.write(&session, records.now).await?;
        let woken = self.write(&session, writes, records.now).await?;
        Ok((answers, woken))
    }
}

fn suspend_one(
    records: &mut Records,
    memory: &mut Memory,
    news: &HashMap<RunId, Vec<Message>>,
    writes: &mut Writes,
    suspension: &Suspension,
) -> SuspendAnswer {
    let (lease, sleep, now) = (suspension.lease, Act::Sleep(Due::Now), records.now);
    let Some(row) = records.live.get(&lease.run) else {
        return refuse(memory, suspension, records.refuse(lease, &sleep), now);
    };
    if let Err(refused) = decide(row, &sleep, lease, records.past(lease), now, 0.0) {
        return refuse(memory, suspension, Verdict::Refused(refused), now);
    }
    let mut fresh: Vec<StepRow> = Vec::new();
    let mut dues = Vec::with_capacity(suspension.sleeps.len());
    for (position, name, due) in &suspension.sleeps {
        let known = fresh.iter().find(|row| row.position == *position);
        let known = known.or_else(|| memory.known(lease.run, *position));
        let change = Change::Sleep { until: due.at(now) };
        match memory::place(known, Holder::of(row), *position, StepKind::Sleep, &clean(name), &change, now) {
            Ok(row) => {
                dues.push(row.rules.due_at);
                fresh.push(row);
            }
            Err(Refusal::Same(step)) => dues.push(step.due_at.filter(|_| step.state == StepState::Begun)),
            Err(Refusal::Diverged { kind, name }) => {
                return SuspendAnswer::Diverged { position: *position, kind, name };
            }
            Err(Refusal::TooMany) => return SuspendAnswer::TooMany,
        }
    }
    fresh.into_iter().for_each(|row| memory.set(row));
    let news = news.get(&lease.run).into_iter().flatten().filter(|message| message.number > suspension.seen);
    let news: Vec<Message> = news.cloned().collect();
    if !news.is_empty() {
        return SuspendAnswer::News(news);
    }
    let until = sleeps_until(dues.into_iter(), suspension.wake_at);
    match writes.act(records, lease, &Act::Sleep(Due::At(until)), 0.0) {
        Verdict::Done { .. } => SuspendAnswer::Suspended { until },
        Verdict::Refused(refused) => SuspendAnswer::Refused(refused),
        Verdict::Unknown => SuspendAnswer::Unknown,
    }
}

/// The answer when the lease is not the live one: a repeated call gets what it got before.
fn refuse(memory: &Memory, suspension: &Suspension, verdict: Verdict, now: i64) -> SuspendAnswer {
    match verdict {
        Verdict::Refused(Refused::AlreadyDone) => {}
        Verdict::Refused(refused) => return SuspendAnswer::Refused(refused),
        Verdict::Unknown | Verdict::Done { .. } => return SuspendAnswer::Unknown,
    }
    let dues = suspension.sleeps.iter().map(|(position, _, due)| {
        let known = memory.known(suspension.lease.run, *position);
        known.map_or(Some(due.at(now)), |known| known.rules.due_at)
    });
    SuspendAnswer::Suspended { until: sleeps_until(dues, suspension.wake_at) }
}
