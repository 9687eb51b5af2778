//! Carries a bulk operation's verb out on a few runs, by what the single verb for their kind does: plain runs, builds and
//! workflows. Whoever died in the middle may have done some of it before: each verb does no harm when it is repeated.

use std::collections::{HashMap, HashSet};

use baton_core::bulk::Tally;
use baton_core::{BulkAction, BulkId, Millis, Refused, RunId, State};
use baton_store::{LaneId, MessageAnswer, MessageKind, NewMessage, RunFacts, RunRecord, Scope, Verdict};

use super::super::builds::{self, Reader};
use super::super::workflows::{self, never_begun};
use super::super::{cancel, retry};
use crate::auth::Caller;
use crate::{App, Error};

/// Inputs of runs that are submitted again together, in bytes.
const AGAIN_BYTES_MAX: usize = 4 << 20;

/// On whose behalf the verb is carried out, and on which runs.
#[derive(Debug)]
pub(crate) struct Errand<'a> {
    pub(crate) operation: BulkId,
    pub(crate) action: BulkAction,
    /// The states that are meant. What has left them since it was found is left alone.
    pub(crate) states: &'a [State],
    /// Whoever made the operation.
    pub(crate) caller: Caller,
}

impl Errand<'_> {
    /// A caller who may do what an operation on the runs of this namespace does.
    pub(crate) fn caller(key_id: &str, namespace: Option<&str>) -> Caller {
        Caller { key_id: key_id.to_owned(), scopes: vec![Scope::Submit], namespace: namespace.map(str::to_owned) }
    }
}

/// What became of a run.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Fate {
    Done,
    /// There was nothing to do. Where that is not plain to see, it is said why.
    Skipped(Option<Error>),
    Failed(Error),
}

/// What became of runs, from the first on.
#[derive(Debug, Default)]
pub(crate) struct Acted {
    pub(crate) fates: Vec<(RunId, Fate)>,
    /// Why it did not get to the end; the same again may go better.
    pub(crate) stopped: Option<Error>,
}

impl Acted {
    pub(crate) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for (_, fate) in &self.fates {
            match fate {
                Fate::Done => tally.done += 1,
                Fate::Skipped(_) => tally.skipped += 1,
                Fate::Failed(_) => tally.failed += 1,
            }
        }
        tally
    }

    /// Notes what became of a run. False when it has to be tried again, so that nothing more can be done now.
    fn note(&mut self, run: RunId, outcome: Result<Fate, Error>) -> bool {
        match outcome.or_else(fate) {
            Ok(fate) => self.fates.push((run, fate)),
            Err(error) => self.stopped = Some(error),
        }
        self.stopped.is_none()
    }
}

/// What a refusal says of a run; an error again where the same may go better later.
fn fate(error: Error) -> Result<Fate, Error> {
    match error {
        Error::NotFound { what: "run" | "build", .. } | Error::Ended(_) => Ok(Fate::Skipped(None)),
        // It cannot be retried as it is, which its single verb says, too.
        Error::Conflict(_) => Ok(Fate::Skipped(Some(error))),
        Error::Unavailable
        | Error::StorageUnavailable
        | Error::DiskFull
        | Error::Overloaded
        | Error::Stopping
        | Error::NotYet(_)
        | Error::TooMany { .. }
        | Error::QueueFull { .. }
        | Error::NamespaceLimit { .. }
        | Error::NamespaceDisabled(_) => Err(error),
        other => Ok(Fate::Failed(other)),
    }
}

/// Carries out the verb on these runs.
pub(crate) async fn on(app: &App, errand: &Errand<'_>, runs: &[RunId]) -> Acted {
    let acted = async {
        let facts = app.store.run_facts(runs).await?;
        let found: Vec<(RunId, Option<RunFacts>)> = runs.iter().copied().zip(facts).collect();
        match errand.action {
            BulkAction::Cancel => cancel_all(app, errand, found).await,
            BulkAction::Retry => retry_all(app, errand, found).await,
        }
    };
    acted.await.unwrap_or_else(|error| Acted { fates: vec![], stopped: Some(error) })
}

/// The lanes of workflows among those of these runs: asked for once, not for each run.
async fn workflow_lanes(app: &App, found: &[(RunId, Option<RunFacts>)]) -> Result<HashSet<LaneId>, Error> {
    let lanes = found.iter().filter_map(|(_, facts)| Some(facts.as_ref()?.lane)).collect();
    Ok(app.lanes.workflows_among(lanes).await?)
}

// ---- cancel

async fn cancel_all(app: &App, errand: &Errand<'_>, found: Vec<(RunId, Option<RunFacts>)>) -> Result<Acted, Error> {
    let grace_ms = app.current().cancel_grace_ms as Millis;
    let mut fates: HashMap<RunId, Result<Fate, Error>> = HashMap::new();
    let (mut at_once, mut begun, mut one_by_one) = (Vec::new(), Vec::new(), Vec::new());
    let workflows = workflow_lanes(app, &found).await?;
    for (run, facts) in &found {
        let Some(facts) = facts else {
            fates.insert(*run, Ok(Fate::Skipped(None)));
            continue;
        };
        let is_workflow = workflows.contains(&facts.lane);
        if !facts.state.is_ended() && !errand.states.contains(&facts.state) {
            fates.insert(*run, Ok(Fate::Skipped(None)));
        } else if !is_workflow || (never_begun(facts.state, facts.epoch) && grace_ms > 0) {
            at_once.push((*run, facts, is_workflow));
        } else if facts.state.is_ended() || grace_ms <= 0 {
            one_by_one.push(*run);
        } else {
            begun.push(*run);
        }
    }
    if !at_once.is_empty() {
        let runs: Vec<RunId> = at_once.iter().map(|(run, ..)| *run).collect();
        let changes = cancel::in_store(app, runs.clone(), grace_ms).await?;
        let mut held = Vec::new();
        for ((run, facts, is_workflow), verdict) in at_once.into_iter().zip(changes.verdicts.iter().copied()) {
            match verdict {
                // Somebody has taken it in the very moment: it is told as any other workflow that has begun.
                Verdict::Done { state, .. } if is_workflow && !state.is_ended() => begun.push(run),
                Verdict::Done { state, .. } if !state.is_ended() => held.push(run),
                Verdict::Done { state: State::Cancelled, .. } if is_build_lane(app, facts) => {
                    builds::control::note_cancelled(app, run).await?;
                }
                Verdict::Done { .. } | Verdict::Refused(_) | Verdict::Unknown => {}
            }
            fates.insert(run, Ok(fate_of(verdict)));
        }
        // After the logs of builds have their last line.
        app.after().changed(runs.into_iter(), &changes);
        cancel::tell_holders(app, &held).await?;
    }
    one_by_one.extend(ask(app, begun, grace_ms, &mut fates).await?);
    for run in one_by_one {
        let cancelled = workflows::cancel::unaudited(app, &errand.caller, run, None).await;
        fates.insert(run, cancelled.map(|_| Fate::Done));
    }
    let mut acted = Acted::default();
    for (run, _) in found {
        let outcome = fates.remove(&run).unwrap_or(Err(Error::Internal));
        if !acted.note(run, outcome) {
            break;
        }
    }
    Ok(acted)
}

fn fate_of(verdict: Verdict) -> Fate {
    match verdict {
        Verdict::Done { .. } | Verdict::Refused(Refused::AlreadyDone) => Fate::Done,
        Verdict::Unknown | Verdict::Refused(Refused::Ended) => Fate::Skipped(None),
        Verdict::Refused(refused) => Fate::Failed(Error::Conflict(refused.to_string())),
    }
}

/// Asks workflows that have begun to stop. Returns those for which that takes more than one message.
async fn ask(
    app: &App,
    runs: Vec<RunId>,
    grace_ms: Millis,
    fates: &mut HashMap<RunId, Result<Fate, Error>>,
) -> Result<Vec<RunId>, Error> {
    if runs.is_empty() {
        return Ok(runs);
    }
    let message = |run: &RunId| NewMessage {
        run: *run,
        kind: MessageKind::Cancel,
        name: String::new(),
        payload: None,
        key: None,
    };
    let answers = workflows::signal::leave_all(app, runs.iter().map(message).collect()).await?;
    let (mut asked, mut others) = (Vec::new(), Vec::new());
    for (run, answer) in runs.into_iter().zip(answers) {
        match answer {
            MessageAnswer::Left(_) => asked.push(run),
            MessageAnswer::Ended | MessageAnswer::Continued(_) | MessageAnswer::Full | MessageAnswer::Unknown => {
                others.push(run);
            }
        }
    }
    // After the messages: a repeated call finds them and sets the deadlines that a crash has left out.
    app.store.set_deadlines(asked.iter().map(|run| (*run, grace_ms, true)).collect()).await?;
    if !asked.is_empty() {
        app.deadlines.ring_in(grace_ms);
    }
    fates.extend(asked.into_iter().map(|run| (run, Ok(Fate::Done))));
    Ok(others)
}

fn is_build_lane(app: &App, facts: &RunFacts) -> bool {
    app.lanes.known_name(facts.lane).is_some_and(|lane| lane.queue == builds::QUEUE)
}

// ---- retry

/// What kind of run it is, as far as retrying goes.
enum Kind {
    Plain,
    Build,
    Workflow,
}

async fn retry_all(app: &App, errand: &Errand<'_>, found: Vec<(RunId, Option<RunFacts>)>) -> Result<Acted, Error> {
    // One key for the operation; what is retried is part of the key of each run.
    let key = format!("bulk\u{1f}{}", errand.operation);
    let mut acted = Acted::default();
    let mut group = Group::default();
    let workflows = workflow_lanes(app, &found).await?;
    for (run, facts) in found {
        let facts = facts.filter(|facts| errand.states.contains(&facts.state));
        let record = match &facts {
            Some(_) => app.store.run(run).await?,
            None => None,
        };
        let (Some(facts), Some(record)) = (facts, record) else {
            if !group.flush(app, &key, &mut acted).await || !acted.note(run, Ok(Fate::Skipped(None))) {
                return Ok(acted);
            }
            continue;
        };
        let kind = kind_of(app, run, &facts, workflows.contains(&facts.lane)).await?;
        if let Kind::Plain = kind {
            group.add(record);
            if group.bytes > AGAIN_BYTES_MAX && !group.flush(app, &key, &mut acted).await {
                return Ok(acted);
            }
            continue;
        }
        // What became of runs is noted in their order.
        if !group.flush(app, &key, &mut acted).await {
            return Ok(acted);
        }
        let retried = match kind {
            Kind::Plain => Ok(()),
            Kind::Build => {
                let reader = Reader::Key(&errand.caller);
                builds::control::retry_unaudited(app, &reader, &run.to_string(), Some(&key)).await.map(drop)
            }
            Kind::Workflow => workflows::retry::unaudited(app, record, Some(&key)).await.map(drop),
        };
        if !acted.note(run, retried.map(|()| Fate::Done)) {
            return Ok(acted);
        }
    }
    group.flush(app, &key, &mut acted).await;
    Ok(acted)
}

async fn kind_of(app: &App, run: RunId, facts: &RunFacts, is_workflow: bool) -> Result<Kind, Error> {
    if is_workflow {
        return Ok(Kind::Workflow);
    }
    // The name is asked for where the lane is not known here yet.
    app.lanes.name(facts.lane).await?;
    let is_build = is_build_lane(app, facts) && app.store.builds(&[run]).await?.pop().flatten().is_some();
    Ok(if is_build { Kind::Build } else { Kind::Plain })
}

/// Plain runs that are submitted again together.
#[derive(Default)]
struct Group {
    records: Vec<RunRecord>,
    bytes: usize,
}

impl Group {
    fn add(&mut self, record: RunRecord) {
        self.bytes += record.input.len();
        self.records.push(record);
    }

    /// Submits them again: together, or one by one where one of them is in the way of the others. False when nothing more
    /// can be done now.
    async fn flush(&mut self, app: &App, key: &str, acted: &mut Acted) -> bool {
        self.bytes = 0;
        let records = std::mem::take(&mut self.records);
        if records.is_empty() {
            return true;
        }
        let runs: Vec<RunId> = records.iter().map(|record| record.id).collect();
        if records.len() > 1 && retry::plain(app, records.clone(), Some(key)).await.is_ok() {
            return runs.into_iter().all(|run| acted.note(run, Ok(Fate::Done)));
        }
        for record in records {
            let run = record.id;
            let retried = retry::plain(app, vec![record], Some(key)).await;
            if !acted.note(run, retried.map(|_| Fate::Done)) {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_that_passes_is_no_fate() {
        let full = Error::QueueFull { queue: "mail".into(), limit: 3 };
        for passing in [Error::Unavailable, Error::DiskFull, Error::Stopping, full] {
            assert_eq!(fate(passing.clone()), Err(passing));
        }
        for (lasting, expected) in [
            (Error::no_run(1), Fate::Skipped(None)),
            (Error::Ended(State::Completed), Fate::Skipped(None)),
            (Error::Conflict("undone".into()), Fate::Skipped(Some(Error::Conflict("undone".into())))),
            (Error::PayloadLost, Fate::Failed(Error::PayloadLost)),
            (Error::Internal, Fate::Failed(Error::Internal)),
        ] {
            assert_eq!(fate(lasting), Ok(expected));
        }
    }

    #[test]
    fn what_cannot_be_done_now_ends_the_list() {
        let (one, two) = (RunId::new(1, 1, 1), RunId::new(1, 2, 1));
        let mut acted = Acted::default();
        assert!(acted.note(one, Ok(Fate::Done)));
        assert!(acted.note(two, Err(Error::no_run(two))));
        assert!(!acted.note(two, Err(Error::Unavailable)));
        assert_eq!(acted.tally(), Tally { done: 1, skipped: 1, failed: 0 });
        assert_eq!(acted.stopped, Some(Error::Unavailable));
    }
}
