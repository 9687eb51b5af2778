//! fire: the overlap policy, the runs, the history and the schedule itself, in one transaction.
//!
//! The schedule's row is locked first, so that of several servers one decides. Runs that are submitted are new rows, which nobody waits
//! for: the order of locks is kept.

use baton_core::Millis;
use baton_core::schedule::plan;
use uuid::Uuid;

use super::super::params::params;
use super::super::pool::{Outcome, Session};
use super::super::submit::{Taken, Taker, answer, insert};
use super::super::{PostgresStore, sql};
use super::schedule;
use crate::{Fire, FireAnswer, FireKind, FireRun, Missed, NewRun, Schedule, ScheduleNo, Submission, Submitted};

/// Fires that were started in a transaction that is still open.
struct Started<'a> {
    runs: Vec<(&'a NewRun, u64)>,
    taken: Vec<Taken>,
    /// In the order of the fires, without those whose key somebody took for another run.
    submitted: Vec<(Millis, Submitted)>,
}

/// A schedule whose row is locked.
struct Held {
    schedule: Schedule,
    previous_lives: bool,
    now: Millis,
}

impl PostgresStore {
    pub(super) async fn fire_schedule(&self, fire: &Fire) -> Outcome<FireAnswer> {
        let session = self.database.transaction().await?;
        let held = self.hold_schedule(&session, fire.schedule).await?;
        let Some(held) = held.filter(|held| held.schedule.revision == fire.revision && !held.schedule.is_paused) else {
            session.roll_back().await?;
            return Ok(FireAnswer::Stale);
        };
        let buffered_at = held.schedule.buffered_at;
        let fresh: Vec<Millis> = fire.fires.iter().map(|one| one.at).filter(|at| Some(*at) != buffered_at).collect();
        let plan = plan(fire.overlap, &fresh, held.previous_lives, buffered_at);
        let chosen: Vec<&FireRun> = fire.fires.iter().filter(|one| plan.start.contains(&one.at)).collect();
        let started = self.start_fires(&session, &chosen).await?;
        let refused = plan.start.iter().filter(|at| started.submitted.iter().all(|(started, _)| started != *at));
        let left_out = plan.left_out.iter().chain(refused);
        let mut lines: Vec<_> = left_out.map(|at| (*at, FireKind::Skipped, None)).collect();
        let left_out = lines.len() as i64;
        let new = started.submitted.iter().filter(|(_, submitted)| submitted.is_new);
        lines.extend(new.map(|(at, submitted)| (*at, FireKind::Started, Some(submitted.run.0))));
        let fired = lines.len() as i64 - left_out;
        note(&session, fire.schedule, held.now, &lines, fire.missed).await?;
        let left_out = left_out + fire.missed.map_or(0, |missed| missed.count as i64);
        let (last_fire, last_run) = started.submitted.last().map(|(at, submitted)| (*at, submitted.run.0)).unzip();
        let moved =
            params![fire.schedule, fire.last_at, fire.next_at, plan.buffered, last_fire, last_run, fired, left_out,];
        session.query(sql::SET_FIRED, moved).await?;
        session.commit().await?;
        self.note_claimable(&started.taken, &started.runs);
        Ok(FireAnswer::Fired(started.submitted))
    }

    pub(super) async fn fire_schedule_by_hand(
        &self,
        number: ScheduleNo,
        kind: FireKind,
        fires: &[FireRun],
    ) -> Outcome<Option<Vec<Submitted>>> {
        let session = self.database.transaction().await?;
        let Some(held) = self.hold_schedule(&session, number).await? else {
            session.roll_back().await?;
            return Ok(None);
        };
        let started = self.start_fires(&session, &fires.iter().collect::<Vec<_>>()).await?;
        let new = started.submitted.iter().filter(|(_, submitted)| submitted.is_new);
        let lines: Vec<_> = new.map(|(at, submitted)| (*at, kind, Some(submitted.run.0))).collect();
        note(&session, number, held.now, &lines, None).await?;
        session.query(sql::COUNT_FIRED, params![number, lines.len() as i64]).await?;
        session.commit().await?;
        self.note_claimable(&started.taken, &started.runs);
        Ok(Some(started.submitted.into_iter().map(|(_, submitted)| submitted).collect()))
    }

    async fn hold_schedule(&self, session: &Session<'_>, number: ScheduleNo) -> Outcome<Option<Held>> {
        let rows = session.query(sql::HOLD_SCHEDULE, params![number, self.database.fixed_now()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(Held {
            schedule: schedule(row)?,
            previous_lives: row.try_get("previous_lives")?,
            now: row.try_get("now")?,
        }))
    }

    async fn start_fires<'a>(&self, session: &Session<'_>, fires: &[&'a FireRun]) -> Outcome<Started<'a>> {
        let runs: Vec<(&NewRun, u64)> = fires.iter().map(|fire| (&fire.run, fire.die)).collect();
        if runs.is_empty() {
            return Ok(Started { runs, taken: vec![], submitted: vec![] });
        }
        let (now, places) = match runs.iter().any(|(run, _)| run.key.is_some()) {
            true => self.fair_places(session, &runs).await?,
            false => (self.database.fixed_now(), vec![None; runs.len()]),
        };
        let taken = insert(session, &runs, now, &places, &Taker::default()).await?;
        let alone = |fire: &&FireRun| Submission { runs: vec![fire.run.clone()], dice: vec![fire.die] };
        let submissions: Vec<Submission> = fires.iter().map(alone).collect();
        let answers = answer(session, &submissions, &taken).await?;
        let mut submitted = Vec::with_capacity(fires.len());
        let (mut limited, mut until) = (Vec::<Uuid>::new(), Vec::<Millis>::new());
        for (fire, answer) in fires.iter().zip(answers) {
            let Some(run) = answer.into_iter().flatten().next() else { continue };
            if let Some(ms) = fire.timeout_ms.filter(|_| run.is_new) {
                limited.push(run.run.0);
                until.push(run.due_at.saturating_add(ms));
            }
            submitted.push((fire.at, run));
        }
        if !limited.is_empty() {
            session.query(sql::ADD_FIRE_DEADLINES, params![limited, until]).await?;
        }
        Ok(Started { runs, taken, submitted })
    }
}

async fn note(
    session: &Session<'_>,
    number: ScheduleNo,
    now: Millis,
    lines: &[(Millis, FireKind, Option<Uuid>)],
    missed: Option<Missed>,
) -> Outcome<()> {
    let missed = missed.map(|missed| (missed.at, FireKind::Skipped, None, Some(missed.count as i64)));
    let lines = missed.into_iter().chain(lines.iter().map(|(at, kind, run)| (*at, *kind, *run, None)));
    let lines: Vec<(Millis, FireKind, Option<Uuid>, Option<i64>)> = lines.collect();
    if lines.is_empty() {
        return Ok(());
    }
    let fires: Vec<Millis> = lines.iter().map(|(at, ..)| *at).collect();
    let kinds: Vec<i16> = lines.iter().map(|(_, kind, ..)| kind.code()).collect();
    let runs: Vec<Option<Uuid>> = lines.iter().map(|(_, _, run, _)| *run).collect();
    let missed: Vec<Option<i64>> = lines.iter().map(|(.., missed)| *missed).collect();
    session.query(sql::ADD_FIRES, params![number, now, fires, kinds, runs, missed]).await?;
    Ok(())
}
