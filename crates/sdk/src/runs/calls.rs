//! Calls about runs.

use std::time::Duration;

use baton_proto::{
    Batch, CompleteRun, Explanation, FailRun, GiveBackRun, History, Outcomes, RunPage, RunState, RunView, SleepRun,
    StartRun, SubmitBatch, SubmitRun, SubmittedBatch, SubmittedRun,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::Call;
use crate::filter::{Query, encode};
use crate::{Client, ClientError, RunFilter};

fn path(id: &str, verb: &str) -> String {
    format!("/api/v1/runs/{}{verb}", encode(id))
}

impl Client {
    /// Submits a run. With an idempotency key the call may be repeated without harm.
    pub async fn submit(&self, run: &SubmitRun) -> Result<SubmittedRun, ClientError> {
        self.json(Call::post("/api/v1/runs").body(run)?).await
    }

    /// Submits a run with the idempotency key in the header instead of the body.
    pub async fn submit_once(&self, run: &SubmitRun, idempotency_key: &str) -> Result<SubmittedRun, ClientError> {
        self.json(Call::post("/api/v1/runs").body(run)?.idempotency_key(Some(idempotency_key))?).await
    }

    /// Submits many runs: all of them, or none.
    pub async fn submit_batch(&self, batch: &SubmitBatch) -> Result<SubmittedBatch, ClientError> {
        self.json(Call::post("/api/v1/runs/batch").body(batch)?).await
    }

    /// A page of runs, newest first.
    pub async fn runs(&self, filter: &RunFilter) -> Result<RunPage, ClientError> {
        self.json(Call::get(filter.path())).await
    }

    /// One run, with its input and output.
    pub async fn run(&self, id: &str) -> Result<RunView, ClientError> {
        self.json(Call::get(path(id, ""))).await
    }

    /// One run, as soon as it has ended or `wait` is over.
    pub async fn wait_for_run(&self, id: &str, wait: Duration) -> Result<RunView, ClientError> {
        let path = Query::new(path(id, "")).add("wait_ms", Some(&wait.as_millis().to_string())).path;
        self.json(Call::get(path).waits(wait)).await
    }

    /// What happened to a run.
    pub async fn history(&self, id: &str) -> Result<History, ClientError> {
        self.json(Call::get(path(id, "/history"))).await
    }

    /// Why a run is where it is.
    pub async fn explain(&self, id: &str) -> Result<Explanation, ClientError> {
        self.json(Call::get(path(id, "/explain"))).await
    }

    /// Cancels a run: at once when nobody holds it, otherwise its worker is told.
    pub async fn cancel(&self, id: &str) -> Result<RunState, ClientError> {
        self.json(Call::post(path(id, "/cancel"))).await
    }

    /// Submits a run again that has ended.
    pub async fn retry(&self, id: &str) -> Result<SubmittedRun, ClientError> {
        self.json(Call::post(path(id, "/retry"))).await
    }

    /// Says that the work has begun.
    pub async fn start_run(&self, id: &str, start: &StartRun) -> Result<RunState, ClientError> {
        self.report(path(id, "/start"), start).await
    }

    /// Says that the work is done.
    pub async fn complete(&self, id: &str, done: &CompleteRun) -> Result<RunState, ClientError> {
        self.report(path(id, "/complete"), done).await
    }

    /// Says that the attempt failed.
    pub async fn fail(&self, id: &str, failed: &FailRun) -> Result<RunState, ClientError> {
        self.report(path(id, "/fail"), failed).await
    }

    /// Gives a run back unfinished.
    pub async fn give_back(&self, id: &str, back: &GiveBackRun) -> Result<RunState, ClientError> {
        self.report(path(id, "/give_back"), back).await
    }

    /// Puts a run to sleep.
    pub async fn sleep(&self, id: &str, sleep: &SleepRun) -> Result<RunState, ClientError> {
        self.report(path(id, "/sleep"), sleep).await
    }

    /// Says of many runs that the work has begun.
    pub async fn start_batch(&self, batch: &Batch<StartRun>) -> Result<Outcomes, ClientError> {
        self.report("/api/v1/runs/start".into(), batch).await
    }

    /// Says of many runs that the work is done.
    pub async fn complete_batch(&self, batch: &Batch<CompleteRun>) -> Result<Outcomes, ClientError> {
        self.report("/api/v1/runs/complete".into(), batch).await
    }

    /// Says of many runs that the attempt failed.
    pub async fn fail_batch(&self, batch: &Batch<FailRun>) -> Result<Outcomes, ClientError> {
        self.report("/api/v1/runs/fail".into(), batch).await
    }

    /// Gives many runs back unfinished.
    pub async fn give_back_batch(&self, batch: &Batch<GiveBackRun>) -> Result<Outcomes, ClientError> {
        self.report("/api/v1/runs/give_back".into(), batch).await
    }

    async fn report<T: DeserializeOwned>(&self, path: String, report: &impl Serialize) -> Result<T, ClientError> {
        self.json(Call::post(path).body(report)?).await
    }
}
