//! One run in the hands of a worker: the handler runs, and its result is reported until the server answers.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use baton_core::trace::TraceContext;
use baton_proto::{ClaimedRun, CompleteRun, GiveBackRun, RunState};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::incarnation::Incarnation;
use super::polls::{Polls, Watched};
use super::{Cancel, Failure, Report, Stop, WorkerEvent};
use crate::ClientError;
use crate::spans::AttemptSpans;
use crate::workflow::time::millis_of;

const REPORT_RETRY_FIRST: Duration = Duration::from_millis(100);
const REPORT_RETRY_LONGEST: Duration = Duration::from_secs(2);

/// What became of a handler.
enum Outcome {
    Done(Value),
    Failed(Failure),
    /// It was told to stop and did not, so it was dropped.
    Dropped,
}

impl Outcome {
    /// The kind of error, for traces.
    fn failure(&self) -> Option<String> {
        match self {
            Outcome::Done(_) => None,
            Outcome::Failed(failure) => Some(failure.kind().to_owned()),
            Outcome::Dropped => Some("stopped".to_owned()),
        }
    }
}

/// Works on one run from its claim to its report.
pub(super) async fn work(incarnation: Arc<Incarnation>, run: ClaimedRun) {
    let (run_id, lease, epoch) = (run.run_id.clone(), run.lease.clone(), run.epoch);
    let (cancel, polls) = incarnation.hold(&run);
    incarnation.tell(WorkerEvent::Claimed { run_id: run_id.clone(), epoch });
    let task = Task { incarnation: &incarnation, run_id, lease, epoch };
    match incarnation.life.paused.why() {
        // It came with a claim that was waiting when the pause began.
        Some(why) => task.give_back(&why).await,
        None => {
            let spans = spans(&incarnation, &run);
            let outcome = handle(&incarnation, run, cancel.clone(), polls).await;
            if let Some((spans, kind, begun_at)) = spans {
                spans.executed(&kind, begun_at, millis_of(SystemTime::now()), outcome.failure());
            }
            task.report(outcome, cancel.reason()).await;
        }
    }
    incarnation.release(&task.lease);
}

/// What sends the span of a run, its type, and when it begins; nothing where nobody wants it.
fn spans(incarnation: &Incarnation, run: &ClaimedRun) -> Option<(AttemptSpans, String, i64)> {
    let exporter = incarnation.life.exporter.as_ref()?;
    let context = TraceContext::parse(run.traceparent.as_deref()?, run.tracestate.as_deref());
    let spans = AttemptSpans::new(Some(exporter), context.as_ref(), &run.run_id, Some(run.epoch))?;
    Some((spans, run.kind.clone(), millis_of(SystemTime::now())))
}

async fn handle(incarnation: &Incarnation, run: ClaimedRun, cancel: Cancel, polls: Arc<Polls>) -> Outcome {
    let (handler, told) = (incarnation.life.handler.clone(), cancel.clone());
    let (run_id, kind) = (run.run_id.clone(), run.kind.clone());
    // Nothing of it is called here: this is the worker's own thread.
    let handling = Watched::new(async move { handler(run, told).await }, run_id, kind, polls);
    let mut handler = DropToAbort(incarnation.life.users.spawn(handling));
    let too_long = async {
        cancel.stopped().await;
        sleep(incarnation.stop_grace).await;
    };
    let joined = tokio::select! {
        joined = &mut handler.0 => joined,
        () = too_long => return Outcome::Dropped,
    };
    match joined {
        Ok(Ok(output)) => Outcome::Done(output),
        Ok(Err(failure)) => Outcome::Failed(failure),
        Err(error) if error.is_cancelled() => {
            // Nobody cancels a handler that is waited for. Its runtime has been shut down, and
            // would drop every other one, too.
            incarnation.life.drain.cancel();
            Outcome::Dropped
        }
        Err(error) => Outcome::Failed(Failure::new(format!("the handler fell over: {error}")).code("panic")),
    }
}

struct DropToAbort<T>(JoinHandle<T>);

impl<T> Drop for DropToAbort<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Task<'a> {
    incarnation: &'a Incarnation,
    run_id: String,
    lease: String,
    epoch: u32,
}

impl Task<'_> {
    async fn report(&self, outcome: Outcome, stopped: Option<Stop>) {
        match (outcome, stopped) {
            // Done is done. Whether it still counts is for the server to say: it alone knows the epoch.
            (Outcome::Done(output), _) => self.complete(output).await,
            (Outcome::Failed(_) | Outcome::Dropped, Some(Stop::LeaseLost)) => {}
            (Outcome::Failed(_), Some(Stop::Shutdown)) | (Outcome::Dropped, _) => self.stopped(stopped).await,
            (Outcome::Failed(failure), Some(Stop::Cancelled)) => self.fail(failure).await,
            (Outcome::Failed(failure), None) => match failure.pause() {
                Some(pause) => {
                    // Before it is given back: it would come back at once.
                    self.incarnation.life.paused.begin(pause, failure.message());
                    self.give_back(failure.message()).await;
                }
                None => self.fail(failure).await,
            },
        }
    }

    async fn complete(&self, output: Value) {
        // A value always can be written as JSON.
        let output = serde_json::value::to_raw_value(&output).ok();
        let report = CompleteRun { run_id: None, lease: self.lease.clone(), output };
        self.until_answered(Report::Complete, || self.incarnation.client.complete(&self.run_id, &report)).await;
    }

    async fn fail(&self, failure: Failure) {
        let report = failure.into_report(self.lease.clone());
        self.until_answered(Report::Fail, || self.incarnation.client.fail(&self.run_id, &report)).await;
    }

    async fn stopped(&self, why: Option<Stop>) {
        self.give_back(match why {
            Some(Stop::Cancelled) => "the handler did not stop in time after the cancellation",
            Some(Stop::Shutdown | Stop::LeaseLost) | None => "the worker is stopping",
        })
        .await;
    }

    async fn give_back(&self, reason: &str) {
        let report = GiveBackRun { run_id: None, lease: self.lease.clone(), reason: reason.into() };
        self.until_answered(Report::GiveBack, || self.incarnation.client.give_back(&self.run_id, &report)).await;
    }

    /// Repeats the call until the server has answered: the same lease again does no harm.
    async fn until_answered<F>(&self, report: Report, call: impl Fn() -> F)
    where
        F: Future<Output = Result<RunState, ClientError>>,
    {
        let mut pause = REPORT_RETRY_FIRST;
        loop {
            let error = match call().await {
                Ok(_) => {
                    let (run_id, epoch) = (self.run_id.clone(), self.epoch);
                    return self.incarnation.tell(WorkerEvent::Reported { run_id, epoch, report });
                }
                Err(error) => error,
            };
            if !error.is_transient() && !matches!(error, ClientError::Untrusted(_)) {
                return self.incarnation.tell(WorkerEvent::Refused {
                    run_id: self.run_id.clone(),
                    epoch: self.epoch,
                    report,
                    code: error.code().unwrap_or("no_answer").into(),
                    message: error.to_string(),
                });
            }
            self.incarnation.tell(WorkerEvent::Unreachable { call: "report".into(), message: error.to_string() });
            sleep(pause).await;
            pause = (pause * 2).min(REPORT_RETRY_LONGEST);
        }
    }
}
