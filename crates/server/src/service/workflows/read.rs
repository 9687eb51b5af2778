//! Reading workflows: one, many, what they remember.

use std::sync::Arc;
use std::time::Duration;

use baton_core::{RunId, State};
use baton_proto::CLAIM_WAIT_MS_MAX;
use baton_store::{LaneName, Page, Relations, RunFilter, RunRecord, Scope, Step, StepAttempt, Store};
use bytes::Bytes;
use tokio::time::Instant;

use super::super::{open_lease, payloads, visible};
use super::messages::check_live;
use crate::answers::Answer;
use crate::auth::Caller;
use crate::coalesce::Coalescer;
use crate::{App, Error};

/// How often a waiting caller's run is looked at when another server may end it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A workflow as it is shown.
#[derive(Clone, Debug)]
pub struct Workflow {
    /// Its run.
    pub record: RunRecord,
    /// Namespace, queue and type.
    pub lane: Arc<LaneName>,
    /// Its relatives.
    pub relations: Relations,
}

/// Which workflows to list.
#[derive(Clone, Debug, Default)]
pub struct WorkflowQuery {
    /// Namespace.
    pub namespace: Option<String>,
    /// Queue.
    pub queue: Option<String>,
    /// Type.
    pub kind: Option<String>,
    /// State.
    pub state: Option<State>,
}

/// What is known of a run: nothing, when there is none.
pub(crate) type Known = Option<(RunRecord, Relations)>;

/// Most runs that are read together: their inputs and outputs are in memory at once.
pub(crate) const READ_BATCH: usize = 32;

pub(crate) fn coalescer(store: Arc<dyn Store>) -> Coalescer<RunId, Known> {
    Coalescer::start(READ_BATCH, None, move |runs: Vec<RunId>| {
        let store = store.clone();
        async move { Ok(store.workflows(&runs).await?) }
    })
}

/// One workflow.
pub async fn get(app: &App, caller: &Caller, run: RunId) -> Result<Workflow, Error> {
    let (record, relations) = look(app, caller, run).await?;
    shown(app, record, relations).await
}

/// A workflow that the caller may see, as it is in the store.
async fn look(app: &App, caller: &Caller, run: RunId) -> Result<(RunRecord, Relations), Error> {
    caller.has(Scope::Read)?;
    let (record, relations) = app.reads.call_one(run).await?.ok_or_else(|| Error::no_run(run))?;
    let lane = app.lanes.name(record.lane).await?.ok_or(Error::Internal)?;
    match caller.sees(&lane.namespace) {
        true => Ok((record, relations)),
        false => Err(Error::no_run(run)),
    }
}

/// One workflow, once it has ended or the wait is over. One that continued as another is followed.
pub async fn wait(app: &App, caller: &Caller, run: RunId, wait_ms: u64) -> Result<Workflow, Error> {
    let deadline = Instant::now() + Duration::from_millis(wait_ms.min(CLAIM_WAIT_MS_MAX));
    let mut run = run;
    loop {
        // Watch before looking: an end between the look and the watch would wake nobody.
        let watch = app.watchers.watch(run);
        let ended = watch.notified();
        tokio::pin!(ended);
        ended.as_mut().enable();
        app.answers.may_read().await?;
        let (record, relations) = look(app, caller, run).await?;
        let over = Instant::now() >= deadline || app.stopping.is_cancelled();
        if record.state.is_ended() || over {
            match relations.continued_to {
                Some(next) => run = next,
                None => return shown(app, record, relations).await,
            }
            continue;
        }
        let again = if app.store.is_shared() { deadline.min(Instant::now() + LOOK_AGAIN) } else { deadline };
        drop((record, relations));
        Answer::pause();
        tokio::select! {
            _ = tokio::time::timeout_at(again, ended) => {}
            () = app.stopping.cancelled() => {}
        }
    }
}

/// A page of workflows without input and output, newest first, and how many there are in all.
pub async fn list(
    app: &App,
    caller: &Caller,
    query: WorkflowQuery,
    page: Page<RunId>,
) -> Result<(Vec<Workflow>, u64), Error> {
    caller.has(Scope::Read)?;
    if let Some(namespace) = &query.namespace {
        caller.may(Scope::Read, namespace)?;
    }
    let namespace = query.namespace.as_deref().or(caller.namespace.as_deref());
    let lanes = app.lanes.find_workflows(namespace, query.queue.as_deref(), query.kind.as_deref()).await?;
    let states = query.state.into_iter().collect();
    let filter = RunFilter { lanes: Some(lanes), states, ..RunFilter::default() };
    let records = app.store.runs(&filter, page).await?;
    let total = app.store.count_runs(&filter).await?;
    let runs: Vec<_> = records.iter().map(|record| record.id).collect();
    let relations = app.store.relations(&runs).await?;
    let mut workflows = Vec::with_capacity(records.len());
    for (record, relations) in records.into_iter().zip(relations) {
        workflows.push(shown(app, record, relations).await?);
    }
    Ok((workflows, total))
}

async fn shown(app: &App, mut record: RunRecord, relations: Relations) -> Result<Workflow, Error> {
    payloads::fill(app, std::iter::once(&mut record.input).chain(record.output.as_mut()).collect()).await?;
    let lane = app.lanes.name(record.lane).await?.ok_or(Error::Internal)?;
    Ok(Workflow { record, lane, relations })
}

/// Steps that are read together at first; then twice as many, and so on. Nobody knows how large they are before they are read.
const STEPS_FIRST: usize = 8;
/// Bytes of outputs after which a page of steps ends.
const STEP_BYTES_MAX: usize = 8 << 20;

/// What a workflow remembers, by position, and whether there may be more; large outputs by their size alone.
pub async fn steps(app: &App, caller: &Caller, run: RunId, page: Page<u32>) -> Result<(Vec<Step>, bool), Error> {
    visible(app, caller, Scope::Read, run).await?;
    let (mut found, mut bytes, mut together): (Vec<Step>, usize, usize) = (Vec::new(), 0, STEPS_FIRST);
    loop {
        let after = found.last().map_or(page.after, |last| Some(last.position));
        let limit = together.min(page.limit - found.len());
        let some = app.store.steps(run, Page { after, limit }).await?;
        let all = some.len() < limit;
        bytes += some.iter().filter_map(|step| step.output.as_ref()).map(Bytes::len).sum::<usize>();
        found.extend(some);
        if all || found.len() >= page.limit || bytes >= STEP_BYTES_MAX {
            payloads::open(app, found.iter_mut().filter_map(|step| step.output.as_mut())).await?;
            return Ok((found, !all));
        }
        together *= 2;
    }
}

/// A payload of a workflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// The output of the step at this position.
    Output(u32),
    /// The payload of the message with this number.
    Message(i64),
}

/// One payload of a workflow, however large: for the worker that holds it, or whoever may read it.
pub async fn payload(
    app: &App,
    caller: &Caller,
    run: RunId,
    lease: Option<&str>,
    which: Which,
) -> Result<Bytes, Error> {
    match lease {
        Some(lease) => {
            caller.has(Scope::Worker)?;
            check_live(app, open_lease(app, caller, run, lease).await?).await?;
        }
        None => drop(visible(app, caller, Scope::Read, run).await?),
    }
    let found = match which {
        Which::Output(position) => {
            let page = Page { after: position.checked_sub(1), limit: 1 };
            let step = app.store.steps(run, page).await?.pop().filter(|step| step.position == position);
            step.and_then(|step| step.output)
        }
        Which::Message(number) => {
            let messages = app.store.messages(run, number.saturating_sub(1)).await?;
            messages.into_iter().find(|message| message.number == number).and_then(|message| message.payload)
        }
    };
    let id = || match which {
        Which::Output(position) => format!("at position {position}"),
        Which::Message(number) => format!("of message {number}"),
    };
    let mut found = found.ok_or_else(|| Error::NotFound { what: "payload", id: id() })?;
    payloads::fill(app, vec![&mut found]).await?;
    Ok(found)
}

/// Attempts of a workflow's steps, or of one step.
pub async fn step_attempts(
    app: &App,
    caller: &Caller,
    run: RunId,
    position: Option<u32>,
    page: Page<(u32, u32)>,
) -> Result<Vec<StepAttempt>, Error> {
    visible(app, caller, Scope::Read, run).await?;
    Ok(app.store.step_attempts(run, position, page).await?)
}
