//! How runs and workers look from outside, by number: what is compared at the end of a history.

use baton_core::{LeaseEnd, Millis, Reason, State, WorkerId};
use baton_store::{Attempt, RunRecord, Worker, WorkerStatus};

use crate::model::{ModelRun, ModelWorker, Place, TTL_MS};

#[derive(Clone, PartialEq, Debug)]
pub struct RunView {
    pub run: usize,
    pub lane: usize,
    pub state: State,
    pub epoch: u32,
    pub priority: u8,
    pub failures: u32,
    pub losses: u32,
    pub submitted_at: Millis,
    pub due_at: Millis,
    pub key: Option<String>,
    pub worker: Option<usize>,
    pub claimed_at: Option<Millis>,
    pub started_at: Option<Millis>,
    pub timeout_at: Option<Millis>,
    pub lease_until: Option<Millis>,
    pub cancel_by: Option<Millis>,
    pub blocked: bool,
    pub ended_at: Option<Millis>,
    pub reason: Option<Reason>,
    pub has_error: bool,
    pub attempts: Vec<AttemptView>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct AttemptView {
    pub epoch: u32,
    pub worker: Option<usize>,
    pub claimed_at: Millis,
    pub started_at: Option<Millis>,
    pub ended_at: Millis,
    pub end: LeaseEnd,
    pub has_error: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub struct WorkerView {
    pub status: WorkerStatus,
    pub active: u32,
    pub completed: u64,
    pub failed: u64,
    pub seen_at: Millis,
    pub lease_until: Millis,
    pub unfit: bool,
}

impl RunView {
    pub fn of_model(number: usize, run: &ModelRun) -> RunView {
        let ended = run.rules.state.is_ended();
        RunView {
            run: number,
            lane: run.lane,
            state: run.rules.state,
            epoch: run.rules.epoch.number(),
            priority: run.priority,
            failures: run.rules.failures,
            losses: run.rules.losses,
            submitted_at: run.submitted_at,
            due_at: if ended { run.first_due_at } else { run.rules.due_at },
            key: run.key.map(str::to_owned),
            worker: run.worker,
            claimed_at: run.claimed_at,
            started_at: run.started_at,
            timeout_at: run.timeout_at,
            lease_until: run.lease_until,
            cancel_by: run.rules.cancel_by.filter(|_| !ended),
            blocked: run.place == Place::Blocked,
            ended_at: run.ended_at,
            reason: run.rules.reason,
            has_error: match ended {
                true => run.ended_with_error,
                false => run.attempts.last().is_some_and(|attempt| attempt.has_error),
            },
            attempts: run.attempts.clone(),
        }
    }

    pub fn of_store(
        record: &RunRecord,
        attempts: &[Attempt],
        run: usize,
        lane: usize,
        worker: impl Fn(WorkerId) -> usize,
    ) -> RunView {
        RunView {
            run,
            lane,
            state: record.state,
            epoch: record.epoch.number(),
            priority: record.priority,
            failures: record.failures,
            losses: record.losses,
            submitted_at: record.submitted_at,
            due_at: record.due_at,
            key: record.key.clone(),
            worker: record.worker.map(&worker),
            claimed_at: record.claimed_at,
            started_at: record.started_at,
            timeout_at: record.timeout_at,
            lease_until: record.lease_until,
            cancel_by: record.cancel_by,
            blocked: record.blocked,
            ended_at: record.ended_at,
            reason: record.reason,
            has_error: record.error.is_some(),
            attempts: attempts.iter().map(|attempt| AttemptView::of_store(attempt, &worker)).collect(),
        }
    }
}

impl AttemptView {
    fn of_store(attempt: &Attempt, worker: impl Fn(WorkerId) -> usize) -> AttemptView {
        AttemptView {
            epoch: attempt.epoch.number(),
            worker: attempt.worker.map(worker),
            claimed_at: attempt.claimed_at,
            started_at: attempt.started_at,
            ended_at: attempt.ended_at,
            end: attempt.end,
            has_error: attempt.error.is_some(),
        }
    }
}

impl WorkerView {
    pub fn of_model(worker: &ModelWorker) -> WorkerView {
        WorkerView {
            status: worker.status,
            active: worker.active,
            completed: worker.completed,
            failed: worker.failed,
            seen_at: worker.seen_at,
            lease_until: worker.seen_at + TTL_MS,
            unfit: worker.unfit,
        }
    }

    pub fn of_store(worker: &Worker) -> WorkerView {
        WorkerView {
            status: worker.status,
            active: worker.active,
            completed: worker.completed,
            failed: worker.failed,
            seen_at: worker.seen_at,
            lease_until: worker.lease_until,
            unfit: worker.unfit.is_some(),
        }
    }
}
