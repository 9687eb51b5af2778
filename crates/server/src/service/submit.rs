//! submit: takes runs in.

use std::sync::Arc;

use baton_core::machine::Options;
use baton_core::order::{PRIORITY_DEFAULT, PRIORITY_MAX};
use baton_core::trace::TraceContext;
use baton_core::{Millis, RunId, retry};
use baton_proto::{BATCH_RUNS_MAX, SubmitRun};
use baton_store::{
    Due, Idempotency, LaneId, LaneName, NewRun, QueueId, Scope, Store, Submission, SubmitAnswer, SubmitRefused,
    Submitted, Woken,
};
use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::{check_name, check_text, payloads};
use crate::allowance::Admission;
use crate::app::SUBMIT_BATCH;
use crate::auth::Caller;
use crate::coalesce::Coalescer;
use crate::dispatch::{Dispatcher, Offer};
use crate::events::Events;
use crate::metrics::Metrics;
use crate::verb_metrics::timed;
use crate::{App, Error};

/// Largest batch of which runs are handed out on the way to the store. A larger one would keep its submitters waiting for it.
const HANDED_OUT_MAX: usize = 64;
/// Latest due time: the year 9999, which is as far as RFC 3339 goes.
pub(crate) const DUE_AT_MAX: Millis = 253_402_300_799_999;

pub(crate) fn coalescer(
    store: Arc<dyn Store>,
    dispatcher: Arc<Dispatcher>,
    metrics: Arc<Metrics>,
    events: Arc<Events>,
    batch_max: usize,
) -> Coalescer<Submission, Answered> {
    Coalescer::start(batch_max, None, move |submissions| {
        let (store, dispatcher) = (store.clone(), dispatcher.clone());
        let (metrics, events) = (metrics.clone(), events.clone());
        async move { to_store(&*store, &dispatcher, &metrics, &events, submissions).await }
    })
}

/// What became of a submission, and which of its runs were handed out on the way: nobody needs to be woken for those.
#[derive(Debug)]
pub(crate) struct Answered {
    answer: SubmitAnswer,
    handed_out: Vec<RunId>,
}

async fn to_store(
    store: &dyn Store,
    dispatcher: &Dispatcher,
    metrics: &Metrics,
    events: &Events,
    submissions: Vec<Submission>,
) -> Result<Vec<Answered>, Error> {
    let lanes = Lanes::of(&submissions);
    let runs: usize = submissions.iter().map(|submission| submission.runs.len()).sum();
    let offer = match runs <= HANDED_OUT_MAX {
        true => lane_to_offer(&submissions).and_then(|lane| dispatcher.offer(lane)),
        false => None,
    };
    let (answers, handed_out) = match offer {
        Some(offer) => with_offer(store, metrics, events, submissions, offer, &lanes).await?,
        None => {
            let answers = metrics.submit.at_store(store.submit(submissions)).await?;
            lanes.tell(metrics, events, &answers);
            (answers, vec![])
        }
    };
    let taken = answers.iter().flatten().flatten().filter(|submitted| submitted.is_new).count();
    metrics.submit.runs.inc_by(taken as u64);
    let answered = |answer: SubmitAnswer| {
        let own = answer.iter().flatten().map(|submitted| submitted.run).filter(|run| handed_out.contains(run));
        Answered { handed_out: own.collect(), answer }
    };
    Ok(answers.into_iter().map(answered).collect())
}

/// The lanes of the runs of each submission, for those who count and those who listen.
struct Lanes {
    lanes: Vec<LaneId>,
    /// How many of them each submission has.
    counts: Vec<usize>,
}

impl Lanes {
    fn of(submissions: &[Submission]) -> Lanes {
        let runs = submissions.iter().flat_map(|submission| &submission.runs);
        Lanes {
            lanes: runs.map(|run| run.lane.lane).collect(),
            counts: submissions.iter().map(|submission| submission.runs.len()).collect(),
        }
    }

    /// Runs that were taken in, and were not there before.
    fn of_new_runs<'a>(&'a self, answers: &'a [SubmitAnswer]) -> impl Iterator<Item = (RunId, LaneId)> + 'a {
        let mut rest = self.lanes.as_slice();
        let each = answers.iter().zip(&self.counts).flat_map(move |(answer, count)| {
            let (own, others) = rest.split_at(*count);
            rest = others;
            answer.iter().flatten().zip(own)
        });
        each.filter(|(submitted, _)| submitted.is_new).map(|(submitted, lane)| (submitted.run, *lane))
    }

    fn tell(&self, metrics: &Metrics, events: &Events, answers: &[SubmitAnswer]) {
        metrics.series.submitted(self.of_new_runs(answers).map(|(_, lane)| lane));
        events.submitted(self.of_new_runs(answers));
    }
}

/// The lane whose runs can go to whoever waits for them first. Where a key has a limit or a worker a warm cache, all who wait have
/// to be compared, which is the claimer's work.
fn lane_to_offer(submissions: &[Submission]) -> Option<LaneId> {
    let mut runs = submissions.iter().flat_map(|submission| &submission.runs);
    if runs.clone().any(|run| run.key.is_some() || run.affinity.is_some()) {
        return None;
    }
    runs.find(|run| run.due == Due::Now).map(|run| run.lane.lane)
}

/// Submits, and hands over to a poll that waits, in one trip to the store.
async fn with_offer(
    store: &dyn Store,
    metrics: &Metrics,
    events: &Events,
    submissions: Vec<Submission>,
    offer: Offer,
    lanes: &Lanes,
) -> Result<(Vec<SubmitAnswer>, Vec<RunId>), Error> {
    metrics.claim.calls.inc();
    let runs = submissions.iter().map(|submission| submission.runs.len()).sum();
    match metrics.submit.at_store(store.submit_and_claim(submissions, offer.request(runs))).await {
        Ok((answers, claimed)) => {
            let claimed = claimed.unwrap_or_default();
            // Before the claim is: nobody hears of a run that was claimed before it was submitted.
            lanes.tell(metrics, events, &answers);
            let handed_out = claimed.claimed.iter().map(|claimed| claimed.run).collect();
            offer.settle(Ok(claimed));
            Ok((answers, handed_out))
        }
        Err(error) => {
            offer.settle(Err(error.clone()));
            Err(error.into())
        }
    }
}

/// Takes in one run.
pub async fn one(app: &App, caller: &Caller, run: SubmitRun) -> Result<Submitted, Error> {
    many(app, caller, vec![run]).await?.pop().ok_or(Error::Internal)
}

/// Takes in many runs: all, or none.
pub async fn many(app: &App, caller: &Caller, runs: Vec<SubmitRun>) -> Result<Vec<Submitted>, Error> {
    timed!(app.metrics.submit, all_or_none(app, caller, runs))
}

async fn all_or_none(app: &App, caller: &Caller, runs: Vec<SubmitRun>) -> Result<Vec<Submitted>, Error> {
    caller.has(Scope::Submit)?;
    if runs.is_empty() || runs.len() > BATCH_RUNS_MAX {
        return Err(Error::Invalid(format!("a batch has 1 to {BATCH_RUNS_MAX} runs, not {}", runs.len())));
    }
    let several = runs.len() > 1;
    for (index, run) in runs.iter().enumerate() {
        check(app, caller, run).map_err(|error| match error {
            error if several => error.within(&format!("runs[{index}]")),
            error => error,
        })?;
    }
    let names = runs.iter().map(lane_name).collect();
    let lanes = app.lanes.get(names).await?;
    let runs = runs.into_iter().zip(lanes).map(|(run, lane)| new_run(app, run, lane)).collect();
    take_in(app, runs).await
}

/// Puts runs into the store, with room taken in their queues, and wakes whoever waits for them.
pub(crate) async fn take_in(app: &App, mut runs: Vec<NewRun>) -> Result<Vec<Submitted>, Error> {
    key_fingerprints(app, &mut runs).await?;
    match make_room(app, &runs).await? {
        Room::Answered(submitted) => Ok(submitted),
        Room::Taken(admission) => match keep_inputs(app, &mut runs).await? {
            Some(submitted) => Ok(submitted),
            None => put_in(app, runs, admission).await,
        },
    }
}

/// As [`take_in`], for runs whose inputs were read from the store.
pub(crate) async fn take_in_again(app: &App, runs: Vec<NewRun>) -> Result<Vec<Submitted>, Error> {
    for run in &runs {
        payloads::reuse(app, &run.input).await?;
    }
    match make_room(app, &runs).await? {
        Room::Answered(submitted) => Ok(submitted),
        Room::Taken(admission) => put_in(app, runs, admission).await,
    }
}

/// Seals inputs, and puts large ones into the storage. A call that was carried out before gets its answer instead: nothing is stored twice.
async fn keep_inputs(app: &App, runs: &mut [NewRun]) -> Result<Option<Vec<Submitted>>, Error> {
    let any_large = runs.iter().any(|run| payloads::is_large(app, &run.input));
    if !any_large && !app.namespaces.any_seals() {
        return Ok(None);
    }
    if any_large && let Some(submitted) = submitted_before(app, runs).await? {
        return Ok(Some(submitted));
    }
    for run in runs {
        let of = payloads::Of::Lane(run.lane.lane);
        run.input = payloads::keep(app, of, std::mem::take(&mut run.input)).await?;
    }
    Ok(None)
}

/// Where inputs are sealed, what is kept of them to compare with says nothing of them either.
async fn key_fingerprints(app: &App, runs: &mut [NewRun]) -> Result<(), Error> {
    if !app.namespaces.any_seals() {
        return Ok(());
    }
    for run in runs {
        let Some(idempotency) = &mut run.idempotency else { continue };
        let lane = app.lanes.name(run.lane.lane).await?.ok_or(Error::Internal)?;
        if app.namespaces.seals(&lane.namespace) {
            idempotency.fingerprint = app.secrets.ring().keyed_fingerprint(idempotency.fingerprint);
        }
    }
    Ok(())
}

enum Room {
    Taken(Admission),
    /// None is needed: the call was carried out before.
    Answered(Vec<Submitted>),
}

async fn make_room(app: &App, runs: &[NewRun]) -> Result<Room, Error> {
    let mut wanted: Vec<(QueueId, u64)> = Vec::new();
    for run in runs {
        match wanted.iter_mut().find(|(queue, _)| *queue == run.lane.queue) {
            Some((_, count)) => *count += 1,
            None => wanted.push((run.lane.queue, 1)),
        }
    }
    match admit(app, runs, &wanted).await {
        Ok(admission) => Ok(Room::Taken(admission)),
        // A repeated call takes no room: it gets the answer it got before, however full the queue or the namespace is by now.
        Err(full @ (Error::QueueFull { .. } | Error::NamespaceLimit { .. })) => {
            submitted_before(app, runs).await?.map(Room::Answered).ok_or(full)
        }
        Err(other) => Err(other),
    }
}

async fn put_in(app: &App, runs: Vec<NewRun>, admission: Admission) -> Result<Vec<Submitted>, Error> {
    let lanes: Vec<_> = runs.iter().map(|run| run.lane.lane).collect();
    let dice = dice(app, runs.len());
    let alone = runs.len() > SUBMIT_BATCH / 4;
    let submission = Submission { runs, dice };
    let answered = match alone {
        true => {
            let answered = to_store(&*app.store, &app.dispatcher, &app.metrics, &app.events, vec![submission]).await?;
            answered.into_iter().next().ok_or(Error::Internal)?
        }
        false => app.submits.call_one(submission).await?,
    };
    drop(admission);
    let Answered { answer, handed_out } = answered;
    let submitted = answer.map_err(|SubmitRefused::KeyReused(_)| Error::KeyReused)?;
    let mut woken = Woken::default();
    let waits = |submitted: &Submitted| submitted.is_new && !handed_out.contains(&submitted.run);
    for (lane, submitted) in lanes.iter().zip(&submitted).filter(|(_, submitted)| waits(submitted)) {
        let wait = submitted.due_at - submitted.submitted_at;
        if wait > 0 {
            woken.later.push((*lane, wait));
        } else if !woken.lanes.contains(lane) {
            woken.lanes.push(*lane);
        }
    }
    app.after().wake(&woken);
    Ok(submitted)
}

/// Takes room in the queue and the namespace of one run.
pub(crate) async fn admit_one(app: &App, run: &NewRun) -> Result<Admission, Error> {
    admit(app, std::slice::from_ref(run), &[(run.lane.queue, 1)]).await
}

/// Takes room in the queues and namespaces of these runs.
async fn admit(app: &App, runs: &[NewRun], wanted: &[(QueueId, u64)]) -> Result<Admission, Error> {
    let mut admission = Admission::default();
    for (queue, count) in wanted {
        let lane = runs.iter().find(|run| run.lane.queue == *queue).ok_or(Error::Internal)?.lane.lane;
        let lane = app.lanes.name(lane).await?.ok_or(Error::Internal)?;
        admission.add(app.namespaces.admit(&lane.namespace, *count).await?);
    }
    admission.add(app.backlogs.admit(wanted).await?);
    Ok(admission)
}

/// The answer to a call that was carried out before, if all of its runs are there.
async fn submitted_before(app: &App, runs: &[NewRun]) -> Result<Option<Vec<Submitted>>, Error> {
    let Some(keys) = runs.iter().map(|run| run.idempotency.clone()).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let Some(found) = app.store.submitted(keys).await?.into_iter().collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    match found.iter().all(|(_, same)| *same) {
        true => Ok(Some(found.into_iter().map(|(submitted, _)| submitted).collect())),
        false => Err(Error::KeyReused),
    }
}

/// A die for each run.
fn dice(app: &App, count: usize) -> Vec<u64> {
    (0..count).map(|_| app.entropy.bits()).collect()
}

fn check(app: &App, caller: &Caller, run: &SubmitRun) -> Result<(), Error> {
    check_name("namespace", &run.namespace)?;
    caller.may(Scope::Submit, &run.namespace)?;
    // Before anything is written: a queue is made with the first run that it gets.
    app.namespaces.check("namespace", &run.namespace)?;
    check_run(app, run)
}

/// Checks everything that somebody said about a run, apart from its namespace.
pub(crate) fn check_run(app: &App, run: &SubmitRun) -> Result<(), Error> {
    check_name("queue", &run.queue)?;
    check_name("type", &run.kind)?;
    for (what, text) in [("key", &run.key), ("affinity", &run.affinity), ("idempotency_key", &run.idempotency_key)] {
        text.as_deref().map_or(Ok(()), |text| check_name(what, text).and_then(|()| check_text(what, text)))?;
    }
    if run.priority.is_some_and(|priority| priority > PRIORITY_MAX) {
        return Err(Error::field("priority", format!("must be 0 to {PRIORITY_MAX}")));
    }
    if run.delay_ms.is_some() && run.due_at.is_some() {
        return Err(Error::Invalid("give delay_ms or due_at, not both".into()));
    }
    if run.delay_ms.is_some_and(|ms| ms > 100 * retry::INTERVAL_MS_MAX)
        || run.due_at.is_some_and(|at| at.0 > DUE_AT_MAX)
    {
        return Err(Error::Invalid("a run can be due at most 100 years from now".into()));
    }
    options(run).map_or(Ok(()), |options| options.check().map_err(Error::by_rule))?;
    let mut codes = run.retry.iter().flat_map(|policy| &policy.non_retryable);
    // Checked as the code of a failure is. A NUL in one would also make every claim of its queue fail in PostgreSQL.
    codes.try_for_each(|code| check_name("retry.non_retryable", code))?;
    run.input.as_ref().map_or(Ok(()), |input| payloads::check(app, input.get().as_bytes()))
}

fn lane_name(run: &SubmitRun) -> LaneName {
    LaneName { namespace: run.namespace.clone(), queue: run.queue.clone(), kind: run.kind.clone() }
}

fn options(run: &SubmitRun) -> Option<Options> {
    let options = Options {
        retry: run.retry.clone().unwrap_or_default(),
        max_losses: run.max_losses.unwrap_or(baton_core::machine::LOSSES_DEFAULT),
        timeout_ms: run.timeout_ms,
        run_timeout_ms: None,
    };
    (options != Options::default()).then_some(options)
}

fn new_run(app: &App, mut run: SubmitRun, lane: baton_store::Lane) -> NewRun {
    // Not part of what is compared with an earlier call: each call may have a trace of its own.
    let (parent, state) = (run.traceparent.take(), run.tracestate.take());
    let said = parent.and_then(|parent| TraceContext::parse(&parent, state.as_deref()));
    let idempotency = run
        .idempotency_key
        .as_ref()
        .map(|key| Idempotency { key: format!("{}\u{1f}{key}", run.namespace), fingerprint: fingerprint(&run) });
    NewRun {
        lane,
        priority: run.priority.unwrap_or(PRIORITY_DEFAULT),
        due: match (run.delay_ms, run.due_at) {
            (Some(ms), _) => Due::After(ms as Millis),
            (None, Some(at)) => Due::At(at.0),
            (None, None) => Due::Now,
        },
        options: options(&run),
        key: run.key,
        affinity: run.affinity,
        idempotency,
        retry_of: None,
        trace: app.traces.begin(said),
        input: run.input.map_or_else(Bytes::new, |input| Bytes::from(String::from(Box::<str>::from(input)))),
    }
}

/// A hash of everything the submitter said. Two bodies that differ only in white space outside of the input are the same.
fn fingerprint(run: &SubmitRun) -> [u8; 16] {
    let said = serde_json::to_vec(run).unwrap_or_default();
    let mut short = [0; 16];
    short.copy_from_slice(&Sha256::digest(said)[..16]);
    short
}
