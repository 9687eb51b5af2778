//! What the holder of a run reports: /api/v1/runs/{id}/start and its kin, and the same in batches. The API key must be a worker's;
//! the lease proves that the run is the caller's.

use axum::extract::State;
use axum::response::Response;
use baton_core::RunId;
use baton_proto::{
    BATCH_LEASES_MAX, Batch, CompleteRun, FailRun, GiveBackRun, Outcome, Outcomes, Problem, RunState, SleepRun,
    StartRun,
};

use super::extract::{Auth, BatchJson, Json, Path, PayloadJson};
use super::ok;
use crate::service::{self, run_id};
use crate::{App, Error};

type Answers = Vec<Result<service::Outcome, Error>>;

fn one(id: String, outcome: service::Outcome) -> Response {
    ok(&RunState { id, state: outcome.state, cancelling: outcome.cancelling })
}

/// The run of a report in a batch.
trait Report {
    fn run(&self) -> Option<&str>;
}

macro_rules! reports {
    ($($name:ident),*) => {$(
        impl Report for $name {
            fn run(&self) -> Option<&str> {
                self.run_id.as_deref()
            }
        }
    )*};
}
reports!(StartRun, CompleteRun, FailRun, GiveBackRun);

/// The run of a report about one: the one in the path, and no other.
fn in_path(id: &str, report: &impl Report) -> Result<RunId, Error> {
    match report.run() {
        Some(other) if other != id => Err(Error::field("run_id", "differs from the run in the path")),
        Some(_) | None => run_id(id),
    }
}

/// The reports of a batch with their runs.
fn in_batch<T: Report>(batch: Batch<T>) -> Result<Vec<(RunId, T)>, Error> {
    if batch.runs.len() > BATCH_LEASES_MAX {
        return Err(Error::Invalid(format!("a batch has at most {BATCH_LEASES_MAX} runs")));
    }
    let run = |(index, report): (usize, T)| {
        let id = report.run().ok_or_else(|| Error::field(format!("runs[{index}].run_id"), "is missing"))?;
        Ok((
            run_id(id).map_err(|_| {
                Error::field(format!("runs[{index}].run_id"), format!("{id:?} is not a run's identifier"))
            })?,
            report,
        ))
    };
    batch.runs.into_iter().enumerate().map(run).collect()
}

fn all(runs: &[RunId], answers: Answers) -> Response {
    let outcome = |(run, answer): (&RunId, Result<service::Outcome, Error>)| match answer {
        Ok(outcome) => Outcome { run_id: run.to_string(), state: Some(outcome.state), error: None, code: None },
        Err(error) => Outcome {
            run_id: run.to_string(),
            state: None,
            error: Some(error.to_string()),
            code: Some(error.code().into()),
        },
    };
    ok(&Outcomes { runs: runs.iter().zip(answers).map(outcome).collect() })
}

fn ids<T>(reports: &[(RunId, T)]) -> Vec<RunId> {
    reports.iter().map(|(run, _)| *run).collect()
}

/// The work has begun.
#[utoipa::path(post, path = "/api/v1/runs/{id}/start", tag = "leases", security(("api_key" = ["worker"])), params(("id" = String, Path)),
    request_body = StartRun, responses((status = 200, body = RunState), (status = 409, body = Problem, description = "The lease is lost")))]
pub(super) async fn start(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Json(report): Json<StartRun>,
) -> Result<Response, Error> {
    Ok(one(id.clone(), service::start::one(&app, &caller, in_path(&id, &report)?, &report.lease).await?))
}

/// Work on several runs has begun.
#[utoipa::path(post, path = "/api/v1/runs/start", tag = "leases", security(("api_key" = ["worker"])), request_body = Batch<StartRun>,
    responses((status = 200, body = Outcomes)))]
pub(super) async fn start_batch(
    State(app): State<App>,
    Auth(caller): Auth,
    BatchJson(batch): BatchJson<Batch<StartRun>>,
) -> Result<Response, Error> {
    let reports: Vec<_> = in_batch(batch)?.into_iter().map(|(run, report)| (run, report.lease)).collect();
    Ok(all(&ids(&reports), service::start::many(&app, &caller, reports).await?))
}

/// The work is done.
#[utoipa::path(post, path = "/api/v1/runs/{id}/complete", tag = "leases", security(("api_key" = ["worker"])), params(("id" = String, Path)),
    request_body = CompleteRun, responses((status = 200, body = RunState), (status = 409, body = Problem, description = "The lease is lost")))]
pub(super) async fn complete(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    PayloadJson(report): PayloadJson<CompleteRun>,
) -> Result<Response, Error> {
    Ok(one(id.clone(), service::complete::one(&app, &caller, in_path(&id, &report)?, report).await?))
}

/// Several runs are done. Each is completed or refused on its own.
#[utoipa::path(post, path = "/api/v1/runs/complete", tag = "leases", security(("api_key" = ["worker"])), request_body = Batch<CompleteRun>,
    responses((status = 200, body = Outcomes)))]
pub(super) async fn complete_batch(
    State(app): State<App>,
    Auth(caller): Auth,
    BatchJson(batch): BatchJson<Batch<CompleteRun>>,
) -> Result<Response, Error> {
    let reports = in_batch(batch)?;
    Ok(all(&ids(&reports), service::complete::many(&app, &caller, reports).await?))
}

/// The attempt failed: the run is tried again by its policy, or ends.
#[utoipa::path(post, path = "/api/v1/runs/{id}/fail", tag = "leases", security(("api_key" = ["worker"])), params(("id" = String, Path)),
    request_body = FailRun, responses((status = 200, body = RunState), (status = 409, body = Problem, description = "The lease is lost")))]
pub(super) async fn fail(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Json(report): Json<FailRun>,
) -> Result<Response, Error> {
    Ok(one(id.clone(), service::fail::one(&app, &caller, in_path(&id, &report)?, report).await?))
}

/// Several attempts failed.
#[utoipa::path(post, path = "/api/v1/runs/fail", tag = "leases", security(("api_key" = ["worker"])), request_body = Batch<FailRun>,
    responses((status = 200, body = Outcomes)))]
pub(super) async fn fail_batch(
    State(app): State<App>,
    Auth(caller): Auth,
    BatchJson(batch): BatchJson<Batch<FailRun>>,
) -> Result<Response, Error> {
    let reports = in_batch(batch)?;
    Ok(all(&ids(&reports), service::fail::many(&app, &caller, reports).await?))
}

/// The worker cannot go on: the run waits again, at the front.
#[utoipa::path(post, path = "/api/v1/runs/{id}/give_back", tag = "leases", security(("api_key" = ["worker"])), params(("id" = String, Path)),
    request_body = GiveBackRun, responses((status = 200, body = RunState), (status = 409, body = Problem, description = "The lease is lost")))]
pub(super) async fn give_back(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Json(report): Json<GiveBackRun>,
) -> Result<Response, Error> {
    Ok(one(id.clone(), service::give_back::one(&app, &caller, in_path(&id, &report)?, report).await?))
}

/// The worker cannot go on with several runs.
#[utoipa::path(post, path = "/api/v1/runs/give_back", tag = "leases", security(("api_key" = ["worker"])), request_body = Batch<GiveBackRun>,
    responses((status = 200, body = Outcomes)))]
pub(super) async fn give_back_batch(
    State(app): State<App>,
    Auth(caller): Auth,
    BatchJson(batch): BatchJson<Batch<GiveBackRun>>,
) -> Result<Response, Error> {
    let reports = in_batch(batch)?;
    Ok(all(&ids(&reports), service::give_back::many(&app, &caller, reports).await?))
}

/// The run waits without a worker, for a time or until a moment.
#[utoipa::path(post, path = "/api/v1/runs/{id}/sleep", tag = "leases", security(("api_key" = ["worker"])), params(("id" = String, Path)),
    request_body = SleepRun, responses((status = 200, body = RunState), (status = 409, body = Problem, description = "The lease is lost")))]
pub(super) async fn sleep(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Json(report): Json<SleepRun>,
) -> Result<Response, Error> {
    let run = run_id(&id)?;
    Ok(one(id, service::sleep::one(&app, &caller, run, report).await?))
}
