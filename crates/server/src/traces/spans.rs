//! The spans of a run, made of what the store has of it: the same rows make the same spans, whoever asks.

use std::collections::HashMap;
use std::sync::Arc;

use baton_core::trace::{Part, RunTrace};
use baton_core::{Epoch, LeaseEnd, Millis, State, StepKind, StepState, WorkerId};
use baton_otlp::{Kind, Span, bounded, nanos};
use baton_store::{Attempt, LaneName, Pause, StepAttempt, TraceFacts};

/// What the spans are made of.
#[derive(Clone, Debug)]
pub(super) struct Story {
    pub(super) facts: TraceFacts,
    /// Leases up to this number were sent.
    pub(super) told: u32,
    pub(super) lane: Arc<LaneName>,
    /// Leases that have ended, oldest first.
    pub(super) attempts: Vec<Attempt>,
    pub(super) steps: Vec<StepAttempt>,
    pub(super) pauses: Vec<Pause>,
    /// Names of workers.
    pub(super) workers: HashMap<WorkerId, String>,
}

/// Spans, and what was sent of the run with them.
#[derive(Debug)]
pub(super) struct RunSpans {
    pub(super) spans: Vec<Span>,
    pub(super) told: u32,
    pub(super) has_ended: bool,
}

impl Story {
    pub(super) fn spans(&self) -> RunSpans {
        let mut spans = Vec::new();
        let mut told = self.told;
        let mut before = (self.facts.submitted_at, None);
        for attempt in &self.attempts {
            let number = attempt.epoch.number();
            if number > self.told {
                spans.push(self.wait(before, attempt));
                spans.push(self.attempt(attempt));
                spans.extend(self.steps_of(attempt));
                told = told.max(number);
            }
            before = (attempt.ended_at, Some(attempt.end));
        }
        if let Some(ended_at) = self.facts.ended_at {
            spans.extend(self.pauses.iter().map(|pause| self.pause(pause, ended_at)));
            spans.push(self.root(ended_at));
        }
        RunSpans { spans, told, has_ended: self.facts.ended_at.is_some() }
    }

    fn trace(&self) -> &RunTrace {
        &self.facts.trace
    }

    /// A span with what is said of every span of the run.
    fn part(&self, part: Part, name: String, begin: Millis, end: Millis) -> Span {
        let trace = self.trace();
        let parent = match part {
            Part::Root => trace.parent,
            Part::Wait(_) | Part::Attempt(_) | Part::Step { .. } | Part::Pause { .. } => {
                Some(trace.root(self.facts.run))
            }
        };
        Span {
            trace_id: trace.trace_id,
            span_id: trace.span(self.facts.run, part),
            parent,
            state: trace.state.clone(),
            name: bounded(&name),
            kind: Kind::Internal,
            begin: nanos(begin),
            end: nanos(end.max(begin)),
            attributes: vec![],
            links: vec![],
            error: None,
        }
        .with("baton.run.id", self.facts.run.to_string())
    }

    /// The run, from its submit to its end.
    fn root(&self, ended_at: Millis) -> Span {
        let TraceFacts { run, trace, state, reason, error, .. } = &self.facts;
        let name = format!("run {}", self.lane.kind);
        let span = self.part(Part::Root, name, self.facts.submitted_at, ended_at);
        let failed = *state == State::Failed;
        Span {
            links: trace.link.into_iter().collect(),
            error: failed.then(|| error.as_deref().map(bounded).unwrap_or_default()),
            ..span
        }
        .with("messaging.system", "baton")
        .with("messaging.destination.name", self.lane.queue.as_str())
        .with("messaging.message.id", run.to_string())
        .with("baton.namespace", self.lane.namespace.as_str())
        .with("baton.queue", self.lane.queue.as_str())
        .with("baton.type", self.lane.kind.as_str())
        .with("baton.priority", i64::from(self.facts.priority))
        .with("baton.state", state.as_str())
        .with("baton.epoch", i64::from(self.facts.epoch.number()))
        .with_some("baton.reason", reason.map(|reason| reason.as_str()))
        .with_some("baton.retry_of", self.facts.retry_of.map(|run| run.to_string()))
        .with_some("baton.due_at", Some(self.facts.due_at).filter(|due_at| *due_at > self.facts.submitted_at))
        .with_some("error.type", reason.filter(|_| failed).map(|reason| reason.as_str()))
    }

    /// The time until a claim: in the queue, until the next try, or asleep.
    fn wait(&self, (since, end): (Millis, Option<LeaseEnd>), attempt: &Attempt) -> Span {
        let name = if end == Some(LeaseEnd::Slept) { "sleep" } else { "wait" };
        self.part(Part::Wait(attempt.epoch), name.into(), since, attempt.claimed_at)
            .with("baton.queue", self.lane.queue.as_str())
            .with("baton.epoch", i64::from(attempt.epoch.number()))
            .with_some("baton.reason", end.map(LeaseEnd::as_str))
    }

    /// A lease, from its claim to its end.
    fn attempt(&self, attempt: &Attempt) -> Span {
        let epoch = attempt.epoch;
        let name = format!("process {}", self.lane.queue);
        let span = self.part(Part::Attempt(epoch), name, attempt.claimed_at, attempt.ended_at);
        let kind = error_type(attempt.end);
        let worker = attempt.worker.and_then(|worker| self.workers.get(&worker)).map(String::as_str);
        Span {
            kind: Kind::Consumer,
            error: kind.map(|_| attempt.error.as_deref().map(bounded).unwrap_or_default()),
            ..span
        }
        .with("messaging.system", "baton")
        .with("messaging.operation.type", "process")
        .with("messaging.operation.name", "process")
        .with("messaging.destination.name", self.lane.queue.as_str())
        .with("messaging.message.id", self.facts.run.to_string())
        .with_some("messaging.client.id", worker)
        .with("baton.namespace", self.lane.namespace.as_str())
        .with("baton.queue", self.lane.queue.as_str())
        .with("baton.type", self.lane.kind.as_str())
        .with("baton.epoch", i64::from(epoch.number()))
        .with("baton.attempt", i64::from(self.number_of(epoch)))
        .with_some("baton.worker.id", attempt.worker.map(|worker| worker.to_string()))
        .with_some("baton.worker.name", worker)
        .with_some("baton.started_at", attempt.started_at)
        .with("baton.reason", kind.unwrap_or(attempt.end.as_str()))
        .with_some("error.type", kind)
    }

    /// Which attempt this is: leases that failed before it, and one.
    fn number_of(&self, epoch: Epoch) -> u32 {
        let earlier = self.attempts.iter().take_while(|attempt| attempt.epoch.number() < epoch.number());
        1 + earlier.filter(|attempt| matches!(attempt.end, LeaseEnd::Failed | LeaseEnd::TimedOut)).count() as u32
    }

    /// The attempts of steps that were made under a lease. Those of a run that this one repeats are not among them.
    fn steps_of(&self, attempt: &Attempt) -> impl Iterator<Item = Span> {
        let own = self.steps.iter().filter(move |step| step.epoch == attempt.epoch);
        own.filter(|step| step.begun_at >= self.facts.submitted_at).map(|step| self.step(step, attempt))
    }

    fn step(&self, step: &StepAttempt, attempt: &Attempt) -> Span {
        let part = Part::Step { position: step.position, attempt: step.attempt };
        let end = step.ended_at.unwrap_or(attempt.ended_at);
        let span = self.part(part, format!("step {}", step.name), step.begun_at, end);
        let failed = step.state == StepState::Failed;
        // It was begun, and its lease ended before it did.
        let lost = (step.state == StepState::Begun && step.error.is_none()).then_some(attempt.end);
        let kind = match (failed || step.error.is_some(), lost) {
            (true, _) => Some(step.code.clone().unwrap_or_else(|| "error".into())),
            (false, Some(end)) => error_type(end).map(str::to_owned),
            (false, None) => None,
        };
        Span {
            parent: Some(self.trace().span(self.facts.run, Part::Attempt(attempt.epoch))),
            error: kind.as_ref().map(|_| step.error.as_deref().map(bounded).unwrap_or_default()),
            ..span
        }
        .with("baton.step.name", step.name.as_str())
        .with("baton.step.position", i64::from(step.position))
        .with("baton.step.attempt", i64::from(step.attempt))
        .with("baton.epoch", i64::from(step.epoch.number()))
        .with_some("error.type", kind)
    }

    /// A sleep, a signal or a child that the workflow waited for.
    fn pause(&self, pause: &Pause, run_ended_at: Millis) -> Span {
        let word = match pause.kind {
            StepKind::Sleep => "sleep",
            StepKind::Signal => "signal",
            StepKind::Child => "child",
            StepKind::Step | StepKind::Fact => "step",
        };
        let name = format!("{word} {}", pause.name);
        let end = pause.ended_at.unwrap_or(run_ended_at).min(run_ended_at);
        let span = self.part(Part::Pause { position: pause.position }, name, pause.begun_at, end);
        let failed = pause.state == StepState::Failed;
        Span { error: failed.then(|| pause.error.as_deref().map(bounded).unwrap_or_default()), ..span }
            .with("baton.step.name", pause.name.as_str())
            .with("baton.step.kind", word)
            .with("baton.step.position", i64::from(pause.position))
            .with_some("baton.child.run.id", pause.child.map(|child| child.to_string()))
            .with_some("error.type", failed.then_some("error"))
    }
}

/// What is wrong with an attempt that ended like this, in the words of failures.
fn error_type(end: LeaseEnd) -> Option<&'static str> {
    match end {
        LeaseEnd::Failed => Some("error"),
        LeaseEnd::Lost => Some("worker_lost"),
        LeaseEnd::TimedOut => Some("timeout"),
        LeaseEnd::Completed | LeaseEnd::GivenBack | LeaseEnd::Slept | LeaseEnd::Cancelled => None,
    }
}
