//! The model's workers: their signs of life, and what becomes of their runs when they go.

use std::collections::BTreeSet;

use baton_core::machine::Expiry;
use baton_core::{Millis, State};
use baton_store::WorkerStatus;

use crate::answer::{self, Answer, Beat, Woken};
use crate::model::{Batch, Model, ModelWorker, Place, TTL_MS, Verb};
use crate::steps::Lease;

impl Model {
    pub fn register(&mut self, max_concurrent: u32) {
        let (status, seen_at) = (WorkerStatus::Online, self.now);
        let counts = ModelWorker { status, max_concurrent, active: 0, completed: 0, failed: 0, seen_at, unfit: false };
        self.workers.push(counts);
    }

    pub fn renew(&mut self, number: usize, leases: &[Lease], unfit: Option<bool>) -> Answer {
        let (now, worker) = (self.now, &mut self.workers[number]);
        if worker.status == WorkerStatus::Offline {
            return Answer::Beat(Beat::Offline);
        }
        worker.seen_at = now;
        worker.unfit = unfit.unwrap_or(worker.unfit);
        let status = worker.status;
        let mut lost = BTreeSet::new();
        for (run, epoch) in leases {
            let held = &mut self.runs[*run];
            if held.place != Place::Held || held.worker != Some(number) || held.rules.epoch.number() != *epoch {
                lost.insert((*run, *epoch));
            } else if held.rules.state == State::Assigned {
                held.rules.state = State::Running;
                held.started_at = Some(now);
            }
        }
        let held = self.held().into_iter().filter(|(run, _)| self.runs[*run].worker == Some(number));
        let cancelling = held.filter(|(run, _)| self.runs[*run].rules.cancel_by.is_some()).collect();
        let lost = lost.into_iter().collect();
        Answer::Beat(Beat::Alive { status, lease_until: now + TTL_MS, lost, cancelling })
    }

    pub fn set_worker(&mut self, number: usize, status: WorkerStatus) -> Answer {
        let worker = &mut self.workers[number];
        if worker.status == WorkerStatus::Offline {
            return Answer::Worker(0, Woken::default());
        }
        worker.status = status;
        if status != WorkerStatus::Offline {
            return Answer::Worker(0, Woken::default());
        }
        let mut held = self.held();
        held.retain(|(run, _)| self.runs[*run].worker == Some(number));
        let (mut batch, given_back) = (Batch::default(), held.len() as u64);
        for lease in held {
            self.act(lease, &Verb::GiveBack, &mut batch);
        }
        Answer::Worker(given_back, self.finish(batch))
    }

    pub fn lose_workers(&mut self) -> Answer {
        let mut lost = Vec::new();
        for (number, worker) in self.workers.iter_mut().enumerate() {
            if worker.status != WorkerStatus::Offline && worker.seen_at + TTL_MS < self.now {
                worker.status = WorkerStatus::Offline;
                lost.push(number);
            }
        }
        Answer::Lost(lost)
    }

    pub fn expire(&mut self) -> Answer {
        let (mut batch, mut expired) = (Batch::default(), Vec::new());
        for lease in self.held() {
            let run = &self.runs[lease.0];
            let worker = run.worker;
            let passed = |deadline: Option<Millis>| deadline.is_some_and(|at| at <= self.now);
            let what = if worker.is_some_and(|worker| self.workers[worker].status == WorkerStatus::Offline) {
                Expiry::Lease
            } else if passed(run.rules.cancel_by) {
                Expiry::CancelGrace
            } else if passed(run.timeout_at) {
                Expiry::Timeout
            } else if passed(run.lease_until) {
                Expiry::Lease
            } else {
                continue;
            };
            self.act(lease, &Verb::Expire(what), &mut batch);
            let run = &self.runs[lease.0];
            let end = run.attempts.last().unwrap().end;
            expired.push(answer::Expiry { lease, worker, end, state: run.rules.state });
        }
        Answer::Expired(expired, self.finish(batch))
    }
}
