//! continue_as_new: a workflow ends, and another run goes on in its place with a new input and an empty memory.

use baton_core::{LateVerb, State};
use baton_store::{Due, Lane, LeaseRef, NewRun, Submitted};
use bytes::Bytes;

use super::super::payloads;
use super::children::note;
use super::settle_lease;
use crate::refusals::LeaseWrite;
use crate::{App, Error};

/// Ends the run and submits the one that goes on.
pub async fn one(app: &App, lease: LeaseRef, input: Bytes) -> Result<Submitted, Error> {
    payloads::check(app, &input)?;
    let (run, bytes) = (lease.run, input.len());
    let record = app.store.run(run).await?.ok_or_else(|| Error::no_run(run))?;
    // The queue of a lane is known once its name is.
    app.lanes.name(record.lane).await?.ok_or(Error::Internal)?;
    let lane = Lane { lane: record.lane, queue: app.lanes.queue_of(record.lane).ok_or(Error::Internal)? };
    let input = payloads::keep(app, payloads::Of::Lane(record.lane), input).await?;
    let next = NewRun {
        lane,
        priority: record.priority,
        due: Due::Now,
        key: record.key,
        affinity: record.affinity,
        idempotency: None,
        options: Some(record.options),
        retry_of: None,
        trace: app.traces.follow(run, record.trace.as_ref(), false),
        input,
    };
    let continuing = app.store.continue_as_new(lease, next, app.entropy.bits());
    let mut answer = app.metrics.complete.at_store(continuing).await?;
    let Some(next) = answer.next else {
        let write = LeaseWrite::new(lease, LateVerb::ContinueAsNew).with_bytes(bytes);
        settle_lease(app, write, answer.verdict).await?;
        return Err(Error::LeaseLost);
    };
    if next.is_new {
        app.metrics.complete.runs.inc();
        app.metrics.submit.runs.inc();
        app.metrics.series.submitted(std::iter::once(lane.lane));
        app.metrics.queues.let_go(run, true);
        note(&mut answer.woken, lane.lane, &next);
    }
    let after = app.after();
    after.wake(&answer.woken);
    if next.is_new {
        app.events.changed([(run, Some(State::Completed), None)].into_iter());
        app.events.submitted([(next.run, lane.lane)].into_iter());
    }
    // Those who wait for the run follow it to its successor.
    app.watchers.ended([run].into_iter());
    app.ends.ring();
    Ok(next)
}
