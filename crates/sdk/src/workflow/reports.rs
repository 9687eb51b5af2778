//! What a driver reports, and when.

use std::time::Duration;

use baton_proto::v1::{self, report};
use bytes::Bytes;
use tokio::time::Instant;

use super::WorkflowError;
use super::answers::Flight;
use super::driver::{Driver, Finished, Stage, Turn};
use super::state::{Fatal, Outgoing, Purpose, State, bounded, cut};
use super::time::duration;

/// Between two writes whose order matters. The times of writing are in milliseconds.
const SPACING: Duration = Duration::from_millis(1);
/// Longest text that the server keeps of an error.
const ERROR_BYTES_MAX: usize = 16 * 1024;
/// Longest time that an attempt may be put off.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);
/// The position of reports that are about no position.
const NOWHERE: u32 = u32::MAX;

impl Driver {
    pub(super) fn number(&mut self) -> u64 {
        self.sent += 1;
        self.sent
    }

    pub(super) fn publication(&self, value: Bytes) -> Outgoing {
        let (run_id, lease) = (self.shared.info.run_id.clone(), self.shared.info.lease.clone());
        let what = report::What::Publish(v1::PublishRequest { run_id, lease, value });
        Outgoing { position: NOWHERE, purpose: Purpose::Published, what }
    }

    /// When the reports may be sent, if not now. Outcomes of things that were there when another outcome was delivered have to be written down
    /// visibly later than that: otherwise nobody could say which was first.
    pub(super) fn spaced(&self, state: &State) -> Option<Instant> {
        let later = self.answered + SPACING;
        let matters =
            state.outgoing.iter().any(|outgoing| outgoing.purpose.delivers() && outgoing.position < self.horizon);
        (matters && Instant::now() < later).then_some(later)
    }

    pub(super) fn send(&mut self, state: &mut State) {
        // Written, answered and delivered in the order of their positions.
        state.outgoing.sort_by_key(|outgoing| outgoing.position);
        // The start of a child is written down in another place than steps; one that is waited for goes alone, to have its time.
        let alone = |outgoing: &Outgoing| matches!(outgoing.purpose, Purpose::Started { awaited: true });
        let batch = match state.outgoing.iter().position(alone) {
            Some(0) => state.outgoing.drain(..1).collect(),
            Some(first) => state.outgoing.drain(..first).collect(),
            None => std::mem::take(&mut state.outgoing),
        };
        let first = self.sent + 1;
        let mut reports = Vec::with_capacity(batch.len());
        let batch: Vec<_> = batch
            .into_iter()
            .map(|Outgoing { position, purpose, what }| {
                reports.push((self.number(), what));
                ((position, purpose), None)
            })
            .collect();
        self.flight = Some(Flight::Batch { first, missing: batch.len(), batch });
        self.outbox.send(&self.mailbox, reports);
    }

    pub(super) fn end(&mut self, what: report::What, finished: Finished) {
        let number = self.number();
        self.flight = Some(Flight::Ending { number, finished });
        self.outbox.send(&self.mailbox, vec![(number, what)]);
    }

    pub(super) fn give_back(&mut self, reason: String) {
        let (run_id, lease) = (self.shared.info.run_id.clone(), self.shared.info.lease.clone());
        let report = v1::GiveBackWorkflowRequest { run_id, lease, reason: fit(reason) };
        self.end(report::What::GiveBack(report), Finished::GivenBack);
    }

    pub(super) fn finish(&mut self) -> Turn {
        let result = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Done(result) => result,
            stage => {
                self.stage = stage;
                return Turn::Wait;
            }
        };
        let (run_id, lease) = (self.shared.info.run_id.clone(), self.shared.info.lease.clone());
        let told = self.shared.lock().told;
        match result {
            Ok(output) => {
                // Should the output be refused, there is still a failure to report.
                self.stage = Stage::Done(Ok(Bytes::new()));
                let report = v1::CompleteWorkflowRequest { run_id, lease, output };
                self.end(report::What::CompleteWorkflow(report), Finished::Completed);
            }
            Err(error) if told => {
                let report = v1::CancelledWorkflowRequest { run_id, lease, message: fit(error.to_string()) };
                self.end(report::What::CancelledWorkflow(report), Finished::Failed);
            }
            Err(WorkflowError::ContinueAsNew(next)) => {
                self.stage = Stage::Done(Ok(Bytes::new()));
                let report = v1::ContinueAsNewRequest { run_id, lease, input: next.0 };
                self.end(report::What::ContinueAsNew(report), Finished::Completed);
            }
            Err(error) => {
                let report = v1::FailWorkflowRequest {
                    run_id,
                    lease,
                    error: fit(error.to_string()),
                    code: fit_code(error.code()),
                    non_retryable: self.undone || !error.is_retryable(),
                    not_before: error.retry_after().map(|after| duration(fit_retry(after))),
                };
                self.end(report::What::FailWorkflow(report), Finished::Failed);
            }
        }
        Turn::Wait
    }

    pub(super) fn fail_for_good(&mut self, fatal: Fatal) {
        self.drop_stage();
        let report = v1::FailWorkflowRequest {
            run_id: self.shared.info.run_id.clone(),
            lease: self.shared.info.lease.clone(),
            error: fit(fatal.message),
            code: fatal.code.into(),
            non_retryable: true,
            not_before: None,
        };
        self.end(report::What::FailWorkflow(report), Finished::Failed);
    }
}

// A failure that the server refuses could not be reported at all: the run would be given back and tried again for ever. So whatever a
// workflow says of its error is made to fit.

/// What the server keeps of a text.
pub(super) fn fit(text: String) -> String {
    cut(text, ERROR_BYTES_MAX)
}

/// A code that the server takes.
pub(super) fn fit_code(code: &str) -> String {
    bounded(code.chars().filter(|letter| !letter.is_control()).collect())
}

/// A pause that the server grants.
pub(super) fn fit_retry(after: Duration) -> Duration {
    after.min(RETRY_AFTER_MAX)
}
