//! Takes runs in.

use std::collections::HashMap;

use baton_core::trace::RunTrace;
use baton_core::{Millis, RunId, order, payload};
use rusqlite::params;

use super::connection::Sql;
use super::{rows, statements};
use crate::decide::Place;
use crate::{Idempotency, NewRun, StoreResult, Submission, SubmitAnswer, SubmitRefused, Submitted};

pub(super) fn submit(sql: &Sql<'_>, submissions: &[Submission]) -> StoreResult<Vec<SubmitAnswer>> {
    let wanted: usize = submissions.iter().map(|submission| submission.runs.len()).sum();
    let mut number = 0;
    if wanted > 0 {
        // The numbers of runs that turn out to be known already are lost, which hurts nobody.
        let last = sql.one(statements::TAKE_RUN_NUMBERS, params![wanted as i64], rows::count)?;
        number = last - wanted as u64;
    }
    let mut answers = Vec::with_capacity(submissions.len());
    for submission in submissions {
        answers.push(one(sql, submission, &mut number)?);
    }
    Ok(answers)
}

/// What is known of a run before it is written.
enum Known {
    /// Nothing: it is new.
    New,
    /// An earlier call made it.
    Earlier(Submitted),
    /// It is the same as the one with this index.
    SameAs(usize),
}

/// Settles all idempotency keys before anything is written: a submission that is refused then has nothing to undo.
fn one(sql: &Sql<'_>, submission: &Submission, number: &mut u64) -> StoreResult<SubmitAnswer> {
    let known = match known(sql, &submission.runs)? {
        Ok(known) => known,
        Err(refused) => return Ok(Err(refused)),
    };
    let mut answer: Vec<Submitted> = Vec::with_capacity(known.len());
    for (index, (run, known)) in submission.runs.iter().zip(known).enumerate() {
        let submitted = match known {
            Known::Earlier(submitted) => submitted,
            Known::SameAs(first) => Submitted { is_new: false, ..answer[first] },
            Known::New => {
                *number += 1;
                let dice = submission.dice.get(index).copied().unwrap_or_default();
                insert(sql, RunId::new(sql.now, *number, dice), run)?
            }
        };
        answer.push(submitted);
    }
    Ok(Ok(answer))
}

fn known(sql: &Sql<'_>, runs: &[NewRun]) -> StoreResult<Result<Vec<Known>, SubmitRefused>> {
    let mut here: HashMap<&str, usize> = HashMap::new();
    let mut known = Vec::with_capacity(runs.len());
    for (index, run) in runs.iter().enumerate() {
        let Some(idempotency) = &run.idempotency else {
            known.push(Known::New);
            continue;
        };
        let earlier = earlier(sql, idempotency)?;
        let (found, fingerprint) = match (earlier, here.get(idempotency.key.as_str())) {
            (Some((submitted, fingerprint)), _) => (Known::Earlier(submitted), Some(fingerprint)),
            (None, Some(first)) => {
                let fingerprint = runs[*first].idempotency.as_ref().map(|first| first.fingerprint);
                (Known::SameAs(*first), fingerprint)
            }
            (None, None) => {
                here.insert(&idempotency.key, index);
                (Known::New, None)
            }
        };
        if fingerprint.is_some_and(|fingerprint| fingerprint != idempotency.fingerprint) {
            return Ok(Err(SubmitRefused::KeyReused(index)));
        }
        known.push(found);
    }
    Ok(Ok(known))
}

fn earlier(sql: &Sql<'_>, idempotency: &Idempotency) -> StoreResult<Option<(Submitted, [u8; 16])>> {
    sql.row(statements::READ_IDEMPOTENT_RUN, params![idempotency.key], |row| {
        let submitted =
            Submitted { run: rows::run_id(row, 0)?, submitted_at: row.get(1)?, due_at: row.get(2)?, is_new: false };
        Ok((submitted, row.get::<_, [u8; 16]>(3)?))
    })
}

pub(super) fn submitted(sql: &Sql<'_>, keys: &[Idempotency]) -> StoreResult<Vec<Option<(Submitted, bool)>>> {
    let same = |key: &Idempotency| {
        Ok(earlier(sql, key)?.map(|(submitted, fingerprint)| (submitted, fingerprint == key.fingerprint)))
    };
    keys.iter().map(same).collect()
}

fn insert(sql: &Sql<'_>, id: RunId, run: &NewRun) -> StoreResult<Submitted> {
    let now = sql.now;
    let due_at = run.due.at(now);
    let level = order::level(run.priority, false);
    let options = run.options.as_ref().map(rows::to_json).transpose()?;
    sql.execute(
        statements::INSERT_RUN,
        params![
            id.0.as_bytes(),
            run.lane.lane,
            run.priority,
            now,
            due_at,
            run.key,
            run.affinity,
            run.idempotency.as_ref().map(|idempotency| &idempotency.key),
            run.idempotency.as_ref().map(|idempotency| idempotency.fingerprint),
            options,
            run.retry_of.map(|run| *run.0.as_bytes()),
            run.input.as_ref(),
            run.trace.as_ref().map(RunTrace::to_text),
        ],
    )?;
    if run.trace.as_ref().is_some_and(|trace| trace.is_recorded) {
        sql.execute(statements::OPEN_TRACE, params![id.0.as_bytes()])?;
    }
    let order_at = match &run.key {
        Some(key) if due_at <= now => fair_place(sql, run, key, level, due_at)?,
        Some(_) | None => order::place(due_at, now),
    };
    sql.execute(
        statements::INSERT_LIVE,
        params![
            id.0.as_bytes(),
            run.lane.queue,
            run.lane.lane,
            Place::waiting(due_at, now).code(),
            level,
            run.priority,
            order_at,
            due_at,
            run.key,
            run.affinity,
            payload::size(&run.input) as i64,
        ],
    )?;
    Ok(Submitted { run: id, submitted_at: now, due_at, is_new: true })
}

fn fair_place(sql: &Sql<'_>, run: &NewRun, key: &str, level: i16, due_at: Millis) -> StoreResult<Millis> {
    let head = sql.row(statements::READ_LANE_HEAD, params![run.lane.lane, level], |row| row.get(0))?;
    let last_of_key = sql.one(statements::READ_KEY_TAIL, params![run.lane.queue, key, level], rows::maybe_moment)?;
    Ok(order::fair_place(due_at, sql.now, head, last_of_key))
}
