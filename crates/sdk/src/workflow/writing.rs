//! What a workflow does is put into words here, to be written down by the server.

use std::time::Duration;

use baton_proto::v1::{self, StepKind, report};
use bytes::Bytes;

use super::StepError;
use super::reports::{fit, fit_code, fit_retry};
use super::state::{Outgoing, Phase, Purpose, Shared, State};
use super::time::duration;

impl Shared {
    pub(crate) fn completed(&self, position: u32, name: &str, output: Bytes, attempt: u32, took: Duration) {
        self.executed_step(position, name, attempt, took, None);
        let what = report::What::CompleteStep(v1::CompleteStepRequest {
            took: Some(duration(took)),
            ..self.complete_request(position, StepKind::Step, name, output)
        });
        self.report(Outgoing { position, purpose: Purpose::Completed { attempt }, what });
    }

    pub(crate) fn failed(
        &self,
        position: u32,
        name: &str,
        error: StepError,
        attempt: u32,
        retry: Option<v1::RetryPolicy>,
        took: Duration,
    ) {
        self.executed_step(position, name, attempt, took, Some(&error));
        let mut outgoing = self.failure(position, name, error, attempt);
        if let report::What::FailStep(failure) = &mut outgoing.what {
            failure.retry = retry;
            failure.took = Some(duration(took));
        }
        self.report(outgoing);
    }

    /// The report of an attempt that failed.
    pub(crate) fn failure(&self, position: u32, name: &str, error: StepError, attempt: u32) -> Outgoing {
        let StepError { message, code, retryable, retry_after } = error;
        let (message, code) = (fit(message), fit_code(&code));
        let what = report::What::FailStep(v1::FailStepRequest {
            error: message.clone(),
            code: code.clone(),
            non_retryable: !retryable,
            not_before: retry_after.map(|after| duration(fit_retry(after))),
            ..self.fail_request(position, name, attempt)
        });
        Outgoing { position, purpose: Purpose::Failed { message, code, attempts: attempt }, what }
    }

    /// Sends the span of an attempt of a step.
    fn executed_step(&self, position: u32, name: &str, attempt: u32, took: Duration, error: Option<&StepError>) {
        let Some(spans) = &self.info.spans else { return };
        let end = self.clock.now();
        let begin = end.saturating_sub(took.as_millis() as i64);
        let code = error.map(|error| if error.code.is_empty() { "error".to_owned() } else { fit_code(&error.code) });
        spans.step(position, name, attempt, (begin, end), code);
    }

    fn report(&self, outgoing: Outgoing) {
        let mut state = self.lock();
        if let Some(operation) = state.operations.get_mut(&outgoing.position) {
            operation.phase = Phase::Reported;
        }
        state.outgoing.push(outgoing);
        state.wake_driver();
    }

    pub(crate) fn complete_request(
        &self,
        position: u32,
        kind: StepKind,
        name: &str,
        output: Bytes,
    ) -> v1::CompleteStepRequest {
        v1::CompleteStepRequest {
            run_id: self.info.run_id.clone(),
            lease: self.info.lease.clone(),
            position,
            name: name.to_owned(),
            output,
            kind: kind.into(),
            message: 0,
            took: None,
        }
    }

    pub(crate) fn fail_request(&self, position: u32, name: &str, attempt: u32) -> v1::FailStepRequest {
        v1::FailStepRequest {
            run_id: self.info.run_id.clone(),
            lease: self.info.lease.clone(),
            position,
            name: name.to_owned(),
            attempt,
            ..Default::default()
        }
    }

    // ---- facts

    /// What was decided at this position, now or before. Facts are not waited for; nothing that could depend on them begins before they are written down.
    pub(crate) fn fact(&self, name: &str, decide: impl FnOnce() -> Bytes) -> Bytes {
        let position = self.positions(1);
        let mut state = self.lock();
        match state.journal.take(position, StepKind::Fact, name) {
            Ok(Some(step)) => step.output,
            Ok(None) => {
                let output = decide();
                self.write_fact(&mut state, position, name, output.clone());
                output
            }
            Err(divergence) => {
                state.fail("diverged", || divergence.message(&self.info.workflow_type));
                decide()
            }
        }
    }

    pub(crate) fn write_fact(&self, state: &mut State, position: u32, name: &str, output: Bytes) {
        state.facts_unwritten += 1;
        let what = report::What::CompleteStep(self.complete_request(position, StepKind::Fact, name, output));
        state.outgoing.push(Outgoing { position, purpose: Purpose::Fact, what });
        state.wake_driver();
    }
}
