//! submit: one statement for a whole batch, unless keys ask for more.
//!
//! Runs with a fairness key need to know where their neighbours stand, and a submission of several runs with
//! idempotency keys must be undone as a whole when one of them is refused. Both take a transaction; everything else
//! does not. A worker that waits may get runs in the same statement.

use std::collections::{HashMap, HashSet};

use baton_core::trace::RunTrace;
use baton_core::{Epoch, Millis, RunId, order, payload};
use uuid::Uuid;

use super::PostgresStore;
use super::cursor::Cursor;
use super::params::params;
use super::pool::{Outcome, Session, Trouble, retried};
use super::rows::{run_id, to_json};
use super::sql;
use crate::{
    ClaimAnswer, ClaimRequest, ClaimSlot, Claimed, Due, Idempotency, LaneId, NewRun, QueueId, StoreError, Submission,
    SubmitAnswer, SubmitRefused, Submitted,
};

impl PostgresStore {
    pub(super) async fn submit_all(&self, submissions: &[Submission]) -> Outcome<Vec<SubmitAnswer>> {
        let mut answers = Vec::with_capacity(submissions.len());
        // Groups are taken in order, so that the numbers in run identifiers follow the order of the submissions.
        for group in groups(submissions) {
            answers.extend(retried!(self.submit_group(group, &Taker::default()))?.0);
        }
        Ok(answers)
    }

    pub(super) async fn submit_to_worker(
        &self,
        submissions: &[Submission],
        request: &ClaimRequest,
    ) -> Outcome<(Vec<SubmitAnswer>, Option<ClaimAnswer>)> {
        let taker = match (request.slots.as_slice(), groups(submissions).count()) {
            ([slot], 1) => Taker::new(submissions, request, slot, &self.cursor),
            _ => None,
        };
        let Some(taker) = taker else { return Ok((self.submit_all(submissions).await?, None)) };
        let (answers, taken) = retried!(self.submit_group(submissions, &taker))?;
        let claimed = taken.into_iter().enumerate().filter(|(_, one)| one.is_taken);
        let runs: Vec<&NewRun> = submissions.iter().flat_map(|one| &one.runs).collect();
        let epoch = Epoch::from_code(1 | taker.mark);
        let claimed: Vec<Claimed> = claimed.map(|(index, taken)| taken.claimed(epoch, runs[index])).collect();
        let answer = ClaimAnswer { claimed, ..ClaimAnswer::default() };
        Ok((answers, (!answer.claimed.is_empty()).then_some(answer)))
    }

    async fn submit_group(&self, group: &[Submission], taker: &Taker) -> Outcome<(Vec<SubmitAnswer>, Vec<Taken>)> {
        let runs: Vec<(&NewRun, u64)> =
            group.iter().flat_map(|one| one.runs.iter().zip(one.dice.iter().copied())).collect();
        if group.iter().any(|one| one.dice.len() != one.runs.len()) {
            return Err(StoreError::Internal("a submission needs one die for each of its runs".into()).into());
        }
        if runs.is_empty() {
            return Ok((group.iter().map(|_| Ok(Vec::new())).collect(), Vec::new()));
        }
        let undoable = group.iter().any(can_be_refused_in_part);
        let keyed = runs.iter().any(|(run, _)| run.key.is_some());
        // Whoever lost to an earlier key may find it gone when it looks, and everybody goes in again: then nobody may be in.
        let once = runs.iter().any(|(run, _)| run.idempotency.is_some());
        // Their spans are noted beside them.
        let recorded = runs.iter().any(|(run, _)| is_recorded(run));
        let session = match undoable || keyed || once || recorded {
            true => self.database.transaction().await?,
            false => self.database.direct().await?,
        };
        let (now, places) = match keyed {
            true => self.fair_places(&session, &runs).await?,
            false => (self.database.fixed_now(), vec![None; runs.len()]),
        };
        let taken = insert(&session, &runs, now, &places, taker).await?;
        let answers = answer(&session, group, &taken).await?;
        if undoable && answers.iter().any(Result::is_err) {
            session.roll_back().await?;
            return Ok((answers, Vec::new()));
        }
        session.commit().await?;
        self.note_claimable(&taken, &runs);
        Ok((answers, taken))
    }

    /// Runs that were taken can be claimed from now on: claims have to begin to read where they stand.
    pub(super) fn note_claimable(&self, taken: &[Taken], runs: &[(&NewRun, u64)]) {
        for (taken, (run, _)) in taken.iter().zip(runs) {
            let is_claimable = taken.submitted.due_at <= taken.submitted.submitted_at && !taken.is_taken;
            if taken.submitted.is_new && is_claimable {
                self.cursor.lower(run.lane.lane, order::level(run.priority, false), taken.order_at);
            }
        }
    }

    pub(super) async fn find_by_keys(&self, keys: &[Idempotency]) -> Outcome<Vec<Option<(Submitted, bool)>>> {
        let session = self.database.direct().await?;
        let known = find_submitted(&session, keys.iter()).await?;
        let same = |key: &Idempotency| {
            let known = known.get(&key.key)?;
            Some((known.submitted, known.fingerprint == key.fingerprint))
        };
        Ok(keys.iter().map(same).collect())
    }

    /// The time, and the place of each run: reckoned one after the other, as if they had come one by one.
    pub(super) async fn fair_places(
        &self,
        session: &Session<'_>,
        runs: &[(&NewRun, u64)],
    ) -> Outcome<(Option<Millis>, Vec<Option<Millis>>)> {
        let keyed: Vec<(&NewRun, &str, i16)> = runs
            .iter()
            .filter_map(|(run, _)| Some((*run, run.key.as_deref()?, order::level(run.priority, false))))
            .collect();
        let queues: Vec<i32> = keyed.iter().map(|(run, ..)| run.lane.queue).collect();
        let lanes: Vec<i32> = keyed.iter().map(|(run, ..)| run.lane.lane).collect();
        let levels: Vec<i16> = keyed.iter().map(|(.., level)| *level).collect();
        let keys: Vec<&str> = keyed.iter().map(|(_, key, _)| *key).collect();
        let from: Vec<Millis> =
            keyed.iter().map(|(run, _, level)| self.cursor.level_start(run.lane.lane, *level)).collect();
        let fixed = self.database.fixed_now();
        let rows = session.query(sql::FIND_TURNS, params![fixed, queues, lanes, levels, keys, from]).await?;
        let mut now = 0;
        let (mut heads, mut tails) = (HashMap::new(), HashMap::new());
        for (row, (run, key, level)) in rows.iter().zip(&keyed) {
            now = row.try_get("now")?;
            heads.insert((run.lane.lane, *level), row.try_get::<_, Option<Millis>>("head")?);
            tails.insert((run.lane.queue, *key, *level), row.try_get::<_, Option<Millis>>("last_of_key")?);
        }
        let known = find_submitted(session, runs.iter().filter_map(|(run, _)| run.idempotency.as_ref())).await?;
        let mut seen: HashSet<&str> = known.keys().map(String::as_str).collect();
        let places = runs
            .iter()
            .map(|(run, _)| {
                // A run that is there already takes no place.
                if run.idempotency.as_ref().is_some_and(|idempotency| !seen.insert(&idempotency.key)) {
                    return None;
                }
                let (due_at, level) = (run.due.at(now), order::level(run.priority, false));
                let head = heads.get(&(run.lane.lane, level)).copied().flatten();
                let place = match run.key.as_deref() {
                    None => order::place(due_at, now),
                    Some(key) => {
                        let tail = tails.entry((run.lane.queue, key, level)).or_insert(None);
                        let place = order::fair_place(due_at, now, head, *tail);
                        if due_at <= now {
                            *tail = Some(tail.map_or(place, |tail| tail.max(place)));
                        }
                        place
                    }
                };
                if due_at <= now {
                    heads.insert((run.lane.lane, level), Some(head.map_or(place, |head| head.min(place))));
                }
                Some(place)
            })
            .collect();
        Ok((Some(now), places))
    }
}

fn is_recorded(run: &NewRun) -> bool {
    run.trace.as_ref().is_some_and(|trace| trace.is_recorded)
}

/// A submission of several runs of which some may be refused: it has to be undone as a whole.
fn can_be_refused_in_part(submission: &Submission) -> bool {
    submission.runs.len() > 1 && submission.runs.iter().any(|run| run.idempotency.is_some())
}

/// Splits the batch into groups that go in together: each submission that may have to be undone is alone.
fn groups(submissions: &[Submission]) -> impl Iterator<Item = &[Submission]> {
    submissions.chunk_by(|left, right| !can_be_refused_in_part(left) && !can_be_refused_in_part(right))
}

pub(super) struct Taken {
    pub(super) submitted: Submitted,
    order_at: Millis,
    is_taken: bool,
    timeout_at: Option<Millis>,
}

impl Taken {
    /// The first lease of a run that a worker got on the way.
    fn claimed(self, epoch: Epoch, run: &NewRun) -> Claimed {
        Claimed {
            slot: 0,
            run: self.submitted.run,
            lane: run.lane.lane,
            epoch,
            attempt: 1,
            priority: run.priority,
            submitted_at: self.submitted.submitted_at,
            waited_ms: 0,
            timeout_at: self.timeout_at,
            key: None,
            trace: run.trace.clone(),
            input: run.input.clone(),
        }
    }
}

/// A worker that waits for some of the runs that are submitted; nobody unless said otherwise.
#[derive(Default)]
pub(super) struct Taker {
    /// Which of the runs are meant for it; empty for none.
    meant: Vec<bool>,
    queue: Option<QueueId>,
    worker: Option<Uuid>,
    claim_no: i64,
    /// Upper half of its leases' epochs.
    mark: i64,
    start: bool,
    lease_ms: Option<Millis>,
    lanes: Vec<LaneId>,
    /// Where claims begin to read in these lanes.
    from: Vec<Millis>,
}

impl Taker {
    /// `None` when nothing is there for it, or when a key asks for more than one statement can do.
    fn new(submissions: &[Submission], request: &ClaimRequest, slot: &ClaimSlot, cursor: &Cursor) -> Option<Taker> {
        let runs: Vec<&NewRun> = submissions.iter().flat_map(|one| &one.runs).collect();
        if runs.iter().any(|run| run.key.is_some()) {
            return None;
        }
        let fits = |run: &NewRun| run.due == Due::Now && slot.lanes.contains(&run.lane.lane);
        let mut fitting: Vec<usize> = (0..runs.len()).filter(|index| fits(runs[*index])).collect();
        fitting.sort_by_key(|index| order::level(runs[*index].priority, false));
        fitting.truncate(request.limit.min(slot.room as usize));
        let mut meant = vec![false; runs.len()];
        fitting.iter().for_each(|index| meant[*index] = true);
        (!fitting.is_empty()).then(|| Taker {
            meant,
            queue: Some(request.queue),
            worker: Some(slot.worker.0),
            claim_no: slot.claim_no,
            mark: request.mark(),
            start: slot.start,
            lease_ms: slot.lease_ms,
            lanes: slot.lanes.clone(),
            from: cursor.starts(&slot.lanes),
        })
    }
}

pub(super) async fn insert(
    session: &Session<'_>,
    runs: &[(&NewRun, u64)],
    now: Option<Millis>,
    places: &[Option<Millis>],
    taker: &Taker,
) -> Outcome<Vec<Taken>> {
    let each = || runs.iter().map(|(run, _)| *run);
    let queues: Vec<i32> = each().map(|run| run.lane.queue).collect();
    let lanes: Vec<i32> = each().map(|run| run.lane.lane).collect();
    let priorities: Vec<i16> = each().map(|run| i16::from(run.priority)).collect();
    let levels: Vec<i16> = each().map(|run| order::level(run.priority, false)).collect();
    let due: Vec<(Option<Millis>, Option<Millis>)> = each()
        .map(|run| match run.due {
            Due::Now => (Some(0), None),
            Due::After(ms) => (Some(ms.max(0)), None),
            Due::At(at) => (None, Some(at)),
        })
        .collect();
    let due_after: Vec<Option<Millis>> = due.iter().map(|(after, _)| *after).collect();
    let due_at: Vec<Option<Millis>> = due.iter().map(|(_, at)| *at).collect();
    let places = places.to_vec();
    let keys: Vec<Option<&str>> = each().map(|run| run.key.as_deref()).collect();
    let affinities: Vec<Option<&str>> = each().map(|run| run.affinity.as_deref()).collect();
    let idempotency = || each().map(|run| run.idempotency.as_ref());
    let idempotency_keys: Vec<Option<&str>> = idempotency().map(|one| one.map(|one| one.key.as_str())).collect();
    let fingerprints: Vec<Option<&[u8]>> = idempotency().map(|one| one.map(|one| one.fingerprint.as_slice())).collect();
    let options: Vec<Option<String>> =
        each().map(|run| run.options.as_ref().map(to_json).transpose()).collect::<Outcome<_>>()?;
    let retry_of: Vec<Option<Uuid>> = each().map(|run| run.retry_of.map(|run| run.0)).collect();
    // Where no run is part of a trace there is nothing to say.
    let traces: Vec<Option<String>> = match each().any(|run| run.trace.is_some()) {
        true => each().map(|run| run.trace.as_ref().map(RunTrace::to_text)).collect(),
        false => vec![],
    };
    let inputs: Vec<&[u8]> = each().map(|run| run.input.as_ref()).collect();
    let size = |run: &NewRun| i32::try_from(payload::size(&run.input)).unwrap_or(i32::MAX);
    let sizes: Vec<i32> = each().map(size).collect();
    let dice: Vec<i64> = runs.iter().map(|(_, dice)| (dice & 0xffff_ffff_ffff) as i64).collect();
    let levels_all = i32::from(order::LEVELS);
    let rows = session
        .query_often(
            sql::SUBMIT_RUNS,
            params![
                now,
                queues,
                lanes,
                priorities,
                levels,
                due_after,
                due_at,
                places,
                keys,
                affinities,
                idempotency_keys,
                fingerprints,
                options,
                retry_of,
                inputs,
                dice,
                taker.meant,
                taker.queue,
                taker.worker,
                taker.claim_no,
                taker.start,
                taker.lease_ms,
                taker.lanes,
                taker.from,
                levels_all,
                sizes,
                taker.mark,
                traces
            ],
            runs.len(),
        )
        .await?;
    let taken: Outcome<Vec<Taken>> = rows
        .iter()
        .map(|row| {
            Ok(Taken {
                submitted: Submitted {
                    run: run_id(row, "run_id")?,
                    submitted_at: row.try_get("now")?,
                    due_at: row.try_get("due_at")?,
                    is_new: row.try_get("is_new")?,
                },
                order_at: row.try_get("order_at")?,
                is_taken: row.try_get("is_taken")?,
                timeout_at: row.try_get("timeout_at")?,
            })
        })
        .collect();
    let taken = taken?;
    let recorded = runs.iter().zip(&taken).filter(|((run, _), taken)| is_recorded(run) && taken.submitted.is_new);
    let recorded: Vec<Uuid> = recorded.map(|(_, taken)| taken.submitted.run.0).collect();
    if !recorded.is_empty() {
        session.query(sql::OPEN_TRACES, params![recorded]).await?;
    }
    Ok(taken)
}

struct Known {
    fingerprint: Vec<u8>,
    submitted: Submitted,
}

async fn find_submitted<'a>(
    session: &Session<'_>,
    keys: impl Iterator<Item = &'a Idempotency>,
) -> Outcome<HashMap<String, Known>> {
    let keys: Vec<&str> = keys.map(|one| one.key.as_str()).collect();
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let mut known = HashMap::new();
    for row in session.query(sql::FIND_SUBMITTED, params![keys]).await? {
        let submitted = Submitted {
            run: RunId(row.try_get("run_id")?),
            submitted_at: row.try_get("submitted_at")?,
            due_at: row.try_get("due_at")?,
            is_new: false,
        };
        let fingerprint = row.try_get::<_, Option<Vec<u8>>>("fingerprint")?.unwrap_or_default();
        known.insert(row.try_get("idempotency_key")?, Known { fingerprint, submitted });
    }
    Ok(known)
}

/// Turns what was taken into answers; runs that lost to an earlier one with their idempotency key are looked up.
pub(super) async fn answer(session: &Session<'_>, group: &[Submission], taken: &[Taken]) -> Outcome<Vec<SubmitAnswer>> {
    let runs = group.iter().flat_map(|one| &one.runs);
    let lost =
        runs.zip(taken).filter(|(_, taken)| !taken.submitted.is_new).filter_map(|(run, _)| run.idempotency.as_ref());
    let known = find_submitted(session, lost).await?;
    let mut taken = taken.iter();
    group
        .iter()
        .map(|submission| {
            let mut submitted = Vec::with_capacity(submission.runs.len());
            let mut refused = None;
            for (index, (run, taken)) in submission.runs.iter().zip(taken.by_ref()).enumerate() {
                if taken.submitted.is_new {
                    submitted.push(taken.submitted);
                    continue;
                }
                let found = run.idempotency.as_ref().and_then(|one| Some((one, known.get(&one.key)?)));
                // Retention may have deleted the winner since; then there is room for this one.
                let Some((idempotency, found)) = found else {
                    return Err(Trouble::Conflict("a run with the same idempotency key was deleted meanwhile".into()));
                };
                if found.fingerprint != idempotency.fingerprint {
                    refused = refused.or(Some(SubmitRefused::KeyReused(index)));
                }
                submitted.push(found.submitted);
            }
            Ok(refused.map_or(Ok(submitted), Err))
        })
        .collect()
}
