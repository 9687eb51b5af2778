//! Sends the spans of runs that were given back or have ended, and notes in the store which were sent.
//!
//! What a server has not noted when it dies another one sends again: the same spans, made of the same rows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use baton_core::{RunId, WorkerId};
use baton_otlp::Exporter;
use baton_store::{Attempt, Page, Pause, StepAttempt, Store, StoreResult, TraceFacts};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};

use super::Note;
use super::spans::{RunSpans, Story};
use crate::lanes::Lanes;
use crate::workers::Workers;

/// How long notes gather.
const GATHER: Duration = Duration::from_millis(100);
/// Runs that are looked up at once.
const RUNS_MAX: usize = 256;
/// Most steps of a run that have spans, and most of what it waited for.
const STEPS_MAX: usize = 1_000;
/// Runs whose spans are on their way; more are left to the loop that looks for open traces.
const SENDING_MAX: usize = 20_000;
/// How long a server that stops waits for the collector.
const FLUSH_TIME: Duration = Duration::from_secs(3);

struct Recorder {
    store: Arc<dyn Store>,
    lanes: Arc<Lanes>,
    workers: Arc<Workers>,
    exporter: Exporter,
    /// What was sent of runs, and may not be noted yet: leases up to this number, and the end.
    sending: HashMap<RunId, Sent>,
    /// Each ends with what can be noted.
    deliveries: FuturesUnordered<BoxFuture<'static, (RunId, Sent)>>,
}

/// What was sent of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Sent {
    has_ended: bool,
    told: u32,
}

pub(super) async fn record(
    store: Arc<dyn Store>,
    lanes: Arc<Lanes>,
    workers: Arc<Workers>,
    exporter: Exporter,
    mut notes: mpsc::Receiver<Note>,
) {
    let (sending, deliveries) = (HashMap::new(), FuturesUnordered::new());
    let mut recorder = Recorder { store, lanes, workers, exporter, sending, deliveries };
    loop {
        tokio::select! {
            note = notes.recv() => {
                let Some(note) = note else { return };
                let (mut runs, mut stopped) = (HashSet::new(), None);
                take(note, &mut runs, &mut stopped);
                if stopped.is_none() {
                    tokio::time::sleep(GATHER).await;
                }
                while let Ok(note) = notes.try_recv() {
                    take(note, &mut runs, &mut stopped);
                }
                recorder.send(runs.into_iter().collect()).await;
                if let Some(stopped) = stopped {
                    recorder.finish().await;
                    let _ = stopped.send(());
                }
            }
            Some(first) = recorder.deliveries.next() => recorder.note_delivered(first).await,
        }
    }
}

fn take(note: Note, runs: &mut HashSet<RunId>, stopped: &mut Option<oneshot::Sender<()>>) {
    match note {
        Note::Changed(more) => runs.extend(more),
        Note::Stop(done) => *stopped = Some(done),
    }
}

impl Recorder {
    async fn send(&mut self, runs: Vec<RunId>) {
        for some in runs.chunks(RUNS_MAX) {
            if self.sending.len() >= SENDING_MAX {
                return;
            }
            if let Err(error) = self.try_send(some).await {
                // The loop that looks for open traces finds them again.
                tracing::debug!(%error, "spans could not be made now");
            }
        }
    }

    async fn try_send(&mut self, runs: &[RunId]) -> StoreResult<()> {
        for facts in self.store.trace_facts(runs).await? {
            let run = facts.run;
            let sending = self.sending.get(&run).copied();
            if sending.is_some_and(|sent| sent.has_ended) {
                continue;
            }
            let told = facts.told.max(sending.map_or(0, |sent| sent.told));
            let Some(story) = self.story(facts, told).await? else { continue };
            let RunSpans { spans, told, has_ended } = story.spans();
            if spans.is_empty() {
                continue;
            }
            let sent = Sent { has_ended, told };
            self.sending.insert(run, sent);
            let delivery = self.exporter.send(spans);
            self.deliveries.push(Box::pin(async move {
                // Spans that were dropped are lost: they are counted, and not made again.
                let _ = delivery.await;
                (run, sent)
            }));
        }
        Ok(())
    }

    /// Everything that the spans are made of; nothing for a run of which there is nothing new to say.
    async fn story(&mut self, facts: TraceFacts, told: u32) -> StoreResult<Option<Story>> {
        let run = facts.run;
        // One that nobody held at its end may have been held before.
        let held = u32::from(facts.last.is_some());
        let has_earlier = facts.epoch.number() > held || facts.ended_at.is_none();
        let attempts: Vec<Attempt> = match has_earlier {
            true => self.store.attempts(run).await?,
            false => facts.last.iter().cloned().collect(),
        };
        if facts.ended_at.is_none() && attempts.iter().all(|attempt| attempt.epoch.number() <= told) {
            return Ok(None);
        }
        let (mut steps, mut pauses): (Vec<StepAttempt>, Vec<Pause>) = Default::default();
        if facts.is_workflow {
            steps = self.store.step_attempts(run, None, Page { after: None, limit: STEPS_MAX }).await?;
            if facts.ended_at.is_some() {
                pauses = self.store.pauses(run, STEPS_MAX).await?;
            }
        }
        let Some(lane) = self.lanes.name(facts.lane).await.ok().flatten() else { return Ok(None) };
        let mut workers: HashMap<WorkerId, String> = HashMap::new();
        for worker in attempts.iter().filter_map(|attempt| attempt.worker) {
            if !workers.contains_key(&worker)
                && let Ok(Some(known)) = self.workers.get(worker).await
            {
                workers.insert(worker, known.name.clone());
            }
        }
        Ok(Some(Story { facts, told, lane, attempts, steps, pauses, workers }))
    }

    /// Notes what was delivered, together with all that was by now.
    async fn note_delivered(&mut self, first: (RunId, Sent)) {
        let mut delivered: HashMap<RunId, Sent> = HashMap::from([first]);
        while let Some(Some((run, sent))) = futures_util::FutureExt::now_or_never(self.deliveries.next()) {
            let known = delivered.entry(run).or_insert(sent);
            *known = sent.max(*known);
        }
        let mut told = Vec::new();
        let mut ended = Vec::new();
        for (run, sent) in &delivered {
            match sent.has_ended {
                true => ended.push(*run),
                false => told.push((*run, sent.told)),
            }
        }
        let told_ok = told.is_empty() || self.store.tell_traces(told).await.is_ok();
        let ended_ok = ended.is_empty() || self.store.close_traces(ended).await.is_ok();
        if !(told_ok && ended_ok) {
            tracing::debug!("what was sent of traces could not be noted; it will be sent again");
        }
        // What was sent since is still on its way.
        self.sending.retain(|run, sent| delivered.get(run).is_none_or(|delivered| delivered < sent));
    }

    /// Sends what is left, and notes it.
    async fn finish(&mut self) {
        self.exporter.flush(FLUSH_TIME).await;
        while let Some(Some(first)) = futures_util::FutureExt::now_or_never(self.deliveries.next()) {
            self.note_delivered(first).await;
        }
    }
}
