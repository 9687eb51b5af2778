//! Children: workflows that a workflow starts, under its lease.

use baton_core::{LateVerb, Millis};
use baton_store::{ChildAnswer, Due, LaneId, LeaseRef, NewChild, NewRun, Page, Scope, StepKind, Submitted, Woken};

use super::super::{payloads, submit};
use super::start::{Start, check, new_run};
use super::{check_field, diverged, invalid, refused, too_many};
use crate::allowance::Admission;
use crate::auth::Caller;
use crate::refusals::LeaseWrite;
use crate::{App, Error};

/// A child to be started.
#[derive(Clone, Debug)]
pub struct StartChild {
    /// The parent's lease.
    pub lease: LeaseRef,
    /// The parent's lane, if it is known.
    pub lane: Option<LaneId>,
    /// Where in the parent.
    pub position: u32,
    /// The name that is remembered there.
    pub name: String,
    /// The child; without namespace or queue those of the parent.
    pub start: Start,
}

/// Starts children; one answer for each.
pub async fn many(
    app: &App,
    caller: &Caller,
    children: Vec<StartChild>,
) -> Result<Vec<Result<Submitted, Error>>, Error> {
    let (mut answers, mut good, mut new) = (Vec::with_capacity(children.len()), Vec::new(), Vec::new());
    // Room in the queues is taken until the children are in the store.
    let mut admissions = Vec::new();
    for (index, child) in children.into_iter().enumerate() {
        let (lease, position, name) = (child.lease, child.position, child.name.clone());
        let timeout = child.start.timeout_ms.is_some();
        match prepared(app, caller, child).await {
            Ok((mut child, own)) => match admitted(app, &mut child, own).await {
                Ok(admission) => {
                    admissions.push(admission);
                    good.push((
                        index,
                        lease,
                        position,
                        name,
                        child.run.lane.lane,
                        child.timeout_ms.filter(|_| timeout),
                    ));
                    new.push(child);
                    answers.push(Err(Error::Internal));
                }
                Err(error) => answers.push(Err(error)),
            },
            Err(error) => answers.push(Err(error)),
        }
    }
    if new.is_empty() {
        return Ok(answers);
    }
    let outcomes = app.metrics.submit.at_store(app.store.start_children(new)).await?;
    drop(admissions);
    let mut woken = Woken::default();
    for ((index, lease, position, name, lane, timeout_ms), outcome) in good.into_iter().zip(outcomes) {
        answers[index] = match outcome {
            ChildAnswer::Started(child) => {
                if child.is_new {
                    app.metrics.submit.runs.inc();
                    app.metrics.series.submitted(std::iter::once(lane));
                    note(&mut woken, lane, &child);
                    app.events.submitted([(child.run, lane)].into_iter());
                }
                timeout_ms.inspect(|ms| app.deadlines.ring_in(*ms));
                Ok(child)
            }
            ChildAnswer::Diverged { kind, name: remembered } => {
                Err(diverged(position, (kind, &remembered), (StepKind::Child, &name)))
            }
            ChildAnswer::TooMany => Err(too_many()),
            ChildAnswer::Refused(why) => {
                let verb = LateVerb::Child;
                let write = LeaseWrite { lease, verb, position: Some(position), name: &name, bytes: 0 };
                Err(refused(app, write, why))
            }
            ChildAnswer::Unknown => Err(Error::no_run(lease.run)),
        };
    }
    app.after().wake(&woken);
    Ok(answers)
}

/// Takes room for a child, and puts a large input into the storage.
async fn admitted(app: &App, child: &mut NewChild, own: bool) -> Result<Admission, Error> {
    let admission = admit(app, child, own).await?;
    let of = payloads::Of::Lane(child.run.lane.lane);
    child.run.input = payloads::keep(app, of, std::mem::take(&mut child.run.input)).await?;
    Ok(admission)
}

/// Notes whom a new run wakes.
pub(super) fn note(woken: &mut Woken, lane: LaneId, new: &Submitted) {
    let wait = new.due_at - new.submitted_at;
    if wait > 0 {
        woken.later.push((lane, wait));
    } else if !woken.lanes.contains(&lane) {
        woken.lanes.push(lane);
    }
}

/// Takes room for a child. In the namespace of its parent it is always taken: parents that wait for room would keep what they wait for. Anywhere
/// else one that is there already needs none.
async fn admit(app: &App, child: &NewChild, own: bool) -> Result<Admission, Error> {
    if own {
        return Ok(Admission::default());
    }
    let refused = match submit::admit_one(app, &child.run).await {
        Ok(admission) => return Ok(admission),
        Err(refused) => refused,
    };
    let here = Page { after: child.position.checked_sub(1), limit: 1 };
    let found = app.store.steps(child.lease.run, here).await?;
    match found.first().is_some_and(|step| step.position == child.position && step.child.is_some()) {
        true => Ok(Admission::default()),
        false => Err(refused),
    }
}

/// The child, and whether it is in its parent's namespace.
async fn prepared(app: &App, caller: &Caller, child: StartChild) -> Result<(NewChild, bool), Error> {
    let StartChild { lease, lane, position, name, mut start } = child;
    check_field("name", &name)?;
    if start.idempotency_key.is_some() {
        return Err(invalid("start.idempotency_key", "is not allowed: the position is the child's key"));
    }
    let lane = match lane {
        Some(lane) => lane,
        None => app.store.run(lease.run).await?.ok_or_else(|| Error::no_run(lease.run))?.lane,
    };
    let parent = app.lanes.name(lane).await?.ok_or(Error::Internal)?;
    for (given, own) in [(&mut start.namespace, &parent.namespace), (&mut start.queue, &parent.queue)] {
        if given.is_empty() {
            given.clone_from(own);
        }
    }
    check(app, &start)?;
    let trace = app.traces.child_of(lease.run, lease.epoch, start.trace.take()).await?;
    let own = start.namespace == parent.namespace;
    if !own {
        // In its own namespace the lease is enough.
        caller.may(Scope::Submit, &start.namespace)?;
    }
    let delay_ms: Millis = match start.due {
        Due::Now => 0,
        Due::After(ms) => ms,
        Due::At(at) => (at - app.time.now().await?).max(0),
    };
    let timeout_ms = start.timeout_ms.map(|ms| ms.saturating_add(delay_ms));
    let run = NewRun { trace, ..new_run(app, start).await? };
    Ok((NewChild { lease, position, name, run, die: app.entropy.bits(), timeout_ms }, own))
}
