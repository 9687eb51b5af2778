//! Writes down what verbs noted: gathered, with the names that people know, and in batches.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use baton_core::pools::{RunnerId, RunnerState};
use baton_core::{Millis, RunId, State};
use baton_proto::{Event, Time};
use baton_store::{LaneId, RunFacts, Store, StoreError, StoreResult};
use bytes::Bytes;
use tokio::sync::mpsc;

use super::hub::{Hub, NOT_RECORDED};
use super::{Kind, Names, Note, Switch};
use crate::store_time::StoreTime;

/// How long notes gather.
const GATHER: Duration = Duration::from_millis(50);
/// Events in one batch.
const BATCH_EVENTS_MAX: usize = 1_024;
/// Pause after a write that failed.
const PAUSE: Duration = Duration::from_millis(200);
/// A batch that cannot be written for so long is lost.
const TRIES_MAX: u32 = 50;
/// How long a server that stops waits for what is still to be written.
const DRAIN: Duration = Duration::from_secs(2);
/// Begins a line that says that something was not written.
pub(super) const MARK: u8 = b'!';

struct Recorder {
    store: Arc<dyn Store>,
    names: Names,
    time: StoreTime,
    switch: Arc<Switch>,
    hub: Arc<Hub>,
}

/// Writes notes until nobody is left to make them.
pub(super) async fn record(
    store: Arc<dyn Store>,
    names: Names,
    switch: Arc<Switch>,
    hub: Arc<Hub>,
    mut notes: mpsc::Receiver<(Instant, Vec<Note>)>,
) {
    let noted = |(at, notes): (Instant, Vec<Note>)| notes.into_iter().map(move |note| (at, note));
    let recorder = Recorder { time: StoreTime::new(store.clone()), store, names, switch, hub };
    while let Some(first) = notes.recv().await {
        let mut waiting: Vec<(Instant, Note)> = noted(first).collect();
        tokio::time::sleep(GATHER).await;
        while let Ok(more) = notes.try_recv() {
            waiting.extend(noted(more));
        }
        let count = waiting.len();
        for batch in waiting.chunks(BATCH_EVENTS_MAX) {
            recorder.write(batch).await;
        }
        recorder.switch.pending.fetch_sub(count, Ordering::Relaxed);
    }
}

/// Waits until everything that was noted is written, within limits.
pub(super) async fn drain(switch: &Switch) {
    let begun = Instant::now();
    while switch.pending.load(Ordering::Relaxed) > 0 && begun.elapsed() < DRAIN {
        tokio::time::sleep(GATHER / 5).await;
    }
}

/// A batch that says that events of these kinds were not written for a while.
pub(super) fn mark(kinds: u32, reason: &str) -> Bytes {
    format!("!{kinds} {reason}\n").into()
}

impl Recorder {
    async fn write(&self, notes: &[(Instant, Note)]) {
        for _ in 0..TRIES_MAX {
            match self.try_write(notes).await {
                Ok(()) => return,
                Err(StoreError::Internal(error)) => {
                    tracing::error!(error, "events could not be written");
                    break;
                }
                Err(error) => tracing::debug!(%error, "events cannot be written now; trying again"),
            }
            tokio::time::sleep(PAUSE).await;
        }
        self.switch.lost.store(true, Ordering::Relaxed);
        self.hub.metrics.events_lost.inc_by(notes.len() as u64);
    }

    async fn try_write(&self, notes: &[(Instant, Note)]) -> StoreResult<()> {
        if self.switch.lost.load(Ordering::Relaxed) {
            self.store.write_events(1, mark(Kind::all(), NOT_RECORDED)).await?;
            self.switch.lost.store(false, Ordering::Relaxed);
        }
        let (mut body, mut count) = (Vec::new(), 0);
        for event in self.events(notes).await? {
            let line = serde_json::to_vec(&event).map_err(|error| StoreError::Internal(error.to_string()))?;
            body.extend(line);
            body.push(b'\n');
            count += 1;
        }
        if count > 0 {
            self.store.write_events(count, body.into()).await?;
            self.hub.metrics.events_written.inc_by(count as u64);
            self.hub.written();
        }
        Ok(())
    }

    /// When something was noted, by the store's clock, which shows `now`.
    fn moment(&self, now: Millis, noted: Instant) -> Millis {
        match self.store.clock().fixed() {
            Some(_) => now,
            None => now - noted.elapsed().as_millis() as Millis,
        }
    }

    /// Events as they are told, of those kinds that are wanted.
    async fn events(&self, notes: &[(Instant, Note)]) -> StoreResult<Vec<Event>> {
        let clock = self.time.now().await?;
        let facts = self.facts(notes).await?;
        let written = self.switch.written.load(Ordering::Relaxed);
        let mut events = Vec::with_capacity(notes.len());
        for (noted, note) in notes {
            let now = self.moment(clock, *noted);
            let made = match note {
                Note::Submitted { run, lane } => {
                    let event = Event::new(Kind::RunSubmitted.as_str(), Time(now));
                    self.of_lane(event, *run, *lane).await?.map(|event| (Kind::RunSubmitted, event))
                }
                Note::Claimed { run, lane, worker } => {
                    let event = Event::new(Kind::RunClaimed.as_str(), Time(now));
                    let event = Event { worker_id: Some(worker.to_string()), ..event };
                    self.of_lane(event, *run, *lane).await?.map(|event| (Kind::RunClaimed, event))
                }
                Note::Changed { run, state, cancelling, why } => match facts.get(run) {
                    Some(facts) => self.changed(*run, facts, *state, *cancelling, *why, now).await?,
                    None => None,
                },
                Note::Refused { run, worker, verb } => match facts.get(run) {
                    Some(facts) => {
                        let event = Event {
                            reason: Some(verb.as_str().to_owned()),
                            worker_id: worker.map(|worker| worker.to_string()),
                            ..Event::new(Kind::RunWriteRefused.as_str(), Time(now))
                        };
                        self.of_lane(event, *run, facts.lane).await?.map(|event| (Kind::RunWriteRefused, event))
                    }
                    None => None,
                },
                Note::Worker { kind, worker, reason } => {
                    let found = self.store.worker(*worker).await?;
                    found.map(|found| {
                        let event = Event {
                            namespace: Some(found.namespace),
                            worker_id: Some(worker.to_string()),
                            worker_name: Some(found.name),
                            reason: reason.clone(),
                            ..Event::new(kind.as_str(), Time(now))
                        };
                        (*kind, event)
                    })
                }
                Note::Runner { runner, state } => {
                    let event = self.runner(*runner, *state, now).await?;
                    event.map(|event| (Kind::RunnerChanged, event))
                }
                Note::Plain { kind, event } => Some((*kind, Event { at: Time(now), ..Event::clone(event) })),
            };
            events.extend(made.filter(|(kind, _)| written & kind.bit() != 0).map(|(_, event)| event));
        }
        Ok(events)
    }

    /// What the store knows of the runs that have changed: with one call for all.
    async fn facts(&self, notes: &[(Instant, Note)]) -> StoreResult<HashMap<RunId, RunFacts>> {
        let changed = notes.iter().filter_map(|(_, note)| match note {
            Note::Changed { run, .. } | Note::Refused { run, .. } => Some(*run),
            Note::Submitted { .. }
            | Note::Claimed { .. }
            | Note::Worker { .. }
            | Note::Runner { .. }
            | Note::Plain { .. } => None,
        });
        let mut runs: Vec<RunId> = changed.collect();
        runs.sort_unstable();
        runs.dedup();
        if runs.is_empty() {
            return Ok(HashMap::new());
        }
        let facts = self.store.run_facts(&runs).await?;
        Ok(runs.into_iter().zip(facts).filter_map(|(run, facts)| Some((run, facts?))).collect())
    }

    async fn of_lane(&self, event: Event, run: RunId, lane: LaneId) -> StoreResult<Option<Event>> {
        let Some(lane) = self.names.lanes.name(lane).await? else { return Ok(None) };
        Ok(Some(Event {
            namespace: Some(lane.namespace.clone()),
            queue: Some(lane.queue.clone()),
            run_type: Some(lane.kind.clone()),
            run_id: Some(run.to_string()),
            ..event
        }))
    }

    async fn runner(&self, runner: RunnerId, state: RunnerState, now: Millis) -> StoreResult<Option<Event>> {
        let Some(found) = self.store.runner(runner).await? else { return Ok(None) };
        let Some((namespace, pool)) = self.names.pools.name(found.pool).await? else { return Ok(None) };
        let is_over = matches!(state, RunnerState::Terminating | RunnerState::Gone);
        Ok(Some(Event {
            namespace: Some(namespace),
            pool: Some(pool),
            runner_id: Some(runner.to_string()),
            run_id: found.run_id,
            state: Some(state.as_str().to_owned()),
            reason: found.rules.cause.filter(|_| is_over).map(|cause| cause.as_str().to_owned()),
            ..Event::new(Kind::RunnerChanged.as_str(), Time(now))
        }))
    }

    async fn changed(
        &self,
        run: RunId,
        facts: &RunFacts,
        state: Option<State>,
        cancelling: bool,
        why: Option<&'static str>,
        now: Millis,
    ) -> StoreResult<Option<(Kind, Event)>> {
        let state = state.unwrap_or(facts.state);
        let kind = match state {
            State::Completed | State::Failed | State::Cancelled => Kind::RunEnded,
            State::Pending => Kind::RunReturned,
            State::Sleeping => Kind::RunSuspended,
            State::Assigned | State::Running if cancelling || facts.cancelling => Kind::RunCancelRequested,
            State::Assigned | State::Running => return Ok(None),
        };
        let ended = kind == Kind::RunEnded;
        // Never before what was noted of the run earlier.
        let at = facts.ended_at.filter(|_| ended).map_or(now, |at| at.max(now));
        let event = Event {
            state: Some(state.as_str().to_owned()),
            reason: match ended {
                true => facts.reason.map(|reason| reason.as_str().to_owned()),
                false => why.map(str::to_owned),
            },
            worker_id: facts.worker.map(|worker| worker.to_string()),
            ..Event::new(kind.as_str(), Time(at))
        };
        Ok(self.of_lane(event, run, facts.lane).await?.map(|event| (kind, event)))
    }
}
