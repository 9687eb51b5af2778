//! /api/v1/runs

use axum::extract::State;
use axum::response::Response;
use baton_core::{IdPrefix, IdSuffix, RunId, State as RunStanding};
use baton_proto::{
    Explanation, History, IDEMPOTENCY_KEY_HEADER, PAGE_MAX, RunPage, RunState, RunView, SubmitBatch, SubmitRun,
    SubmittedBatch, SubmittedRun, Time,
};
use baton_store::{Page, Submitted};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{Auth, BatchJson, Params, Path, PayloadJson};
use super::{answer, ok};
use crate::service::read::RunQuery;
use crate::service::{self, run_id, worker_id};
use crate::{App, Error};

/// Entries on a page unless asked otherwise.
pub(super) const PAGE_DEFAULT: usize = 50;

/// Checks the size of a page.
pub(super) fn page_size(limit: Option<usize>) -> Result<usize, Error> {
    match limit.unwrap_or(PAGE_DEFAULT) {
        size if (1..=PAGE_MAX).contains(&size) => Ok(size),
        _ => Err(Error::field("limit", format!("must be 1 to {PAGE_MAX}"))),
    }
}

/// Reads a cursor, which is the identifier of the last entry of the page before.
pub(super) fn cursor<K: std::str::FromStr>(text: Option<&str>) -> Result<Option<K>, Error> {
    let wrong = |_| Error::field("cursor", "must be taken from an earlier page, where it is called next_cursor");
    text.map(|text| text.parse().map_err(|_| ()).map_err(wrong)).transpose()
}

fn submitted(run: Submitted, state: RunStanding, retry_of: Option<RunId>) -> SubmittedRun {
    SubmittedRun {
        id: run.run.to_string(),
        state,
        submitted_at: Time(run.submitted_at),
        due_at: Time(run.due_at),
        created: run.is_new,
        retry_of: retry_of.map(|run| run.to_string()),
    }
}

pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, Error> {
    let plain = |_| Error::field("Idempotency-Key", "must be plain text");
    headers.get(IDEMPOTENCY_KEY_HEADER).map(|key| key.to_str().map_err(plain)).transpose()
}

/// Submit a run.
#[utoipa::path(post, path = "/api/v1/runs", tag = "runs", security(("api_key" = ["submit"])), request_body = SubmitRun,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key with the same body gives the same run")),
    responses((status = 201, body = SubmittedRun), (status = 200, body = SubmittedRun, description = "Submitted before with the same key"),
        (status = 422, body = baton_proto::Problem), (status = 503, body = baton_proto::Problem, description = "The queue is full")))]
pub(super) async fn submit(
    State(app): State<App>,
    Auth(caller): Auth,
    headers: HeaderMap,
    PayloadJson(mut run): PayloadJson<SubmitRun>,
) -> Result<Response, Error> {
    if let Some(key) = idempotency_key(&headers)? {
        run.idempotency_key = Some(key.to_owned());
    }
    let run = service::submit::one(&app, &caller, run).await?;
    let status = if run.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let state = service::read::state_of(&app, &run).await?;
    Ok(answer(status, &submitted(run, state, None)))
}

/// Submit up to 10,000 runs: all of them, or none.
#[utoipa::path(post, path = "/api/v1/runs/batch", tag = "runs", security(("api_key" = ["submit"])), request_body = SubmitBatch,
    responses((status = 201, body = SubmittedBatch), (status = 422, body = baton_proto::Problem)))]
pub(super) async fn submit_batch(
    State(app): State<App>,
    Auth(caller): Auth,
    headers: HeaderMap,
    BatchJson(mut batch): BatchJson<SubmitBatch>,
) -> Result<Response, Error> {
    if let Some(key) = idempotency_key(&headers)? {
        // One key for the call is one for each of its runs, by their order.
        for (index, run) in batch.runs.iter_mut().enumerate().filter(|(_, run)| run.idempotency_key.is_none()) {
            run.idempotency_key = Some(format!("{key}#{index}"));
        }
    }
    let mut runs = Vec::with_capacity(batch.runs.len());
    for run in service::submit::many(&app, &caller, batch.runs).await? {
        let state = service::read::state_of(&app, &run).await?;
        runs.push(submitted(run, state, None));
    }
    Ok(answer(StatusCode::CREATED, &SubmittedBatch { runs }))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListRuns {
    /// Only this namespace.
    namespace: Option<String>,
    /// Only this queue.
    queue: Option<String>,
    /// Only this type.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Only these states: several are separated by commas, or the parameter is repeated.
    #[param(value_type = Option<Vec<baton_proto::words::State>>)]
    state: Option<String>,
    /// Only runs held (now, or at their end) by this worker.
    worker: Option<String>,
    /// Only runs with this key.
    key: Option<String>,
    /// Only runs submitted at this moment or later.
    #[param(value_type = Option<Time>)]
    submitted_after: Option<Time>,
    /// Only runs submitted before this moment.
    #[param(value_type = Option<Time>)]
    submitted_before: Option<Time>,
    /// Only runs whose identifier begins with these 4 to 32 hexadecimal digits, with dashes or without.
    #[param(pattern = "^[0-9A-Fa-f-]{4,36}$")]
    id_prefix: Option<String>,
    /// Only runs whose identifier ends with these 4 to 12 hexadecimal digits, among the newest 1,000,000 runs. No index
    /// serves this: it reads identifiers from the newest on.
    #[param(pattern = "^[0-9A-Fa-f]{4,12}$")]
    id_suffix: Option<String>,
    /// 1 to 1,000. [default: 50]
    limit: Option<usize>,
    /// The next_cursor of the page before.
    cursor: Option<String>,
    /// Count all.
    total: bool,
}

/// The states of a list that is separated by commas.
fn states(text: Option<&str>) -> Result<Vec<RunStanding>, Error> {
    let words = text.into_iter().flat_map(|text| text.split(',')).map(str::trim);
    let state = |word: &str| {
        let wrong = || Error::field("state", format!("must be a state of a run, not {word:?}"));
        RunStanding::parse(word).ok_or_else(wrong)
    };
    words.map(state).collect()
}

/// List runs, newest first.
#[utoipa::path(get, path = "/api/v1/runs", tag = "runs", security(("api_key" = ["read"])), params(ListRuns),
    responses((status = 200, body = RunPage)))]
pub(super) async fn list(
    State(app): State<App>,
    Auth(caller): Auth,
    Params(wanted): Params<ListRuns>,
) -> Result<Response, Error> {
    let limit = page_size(wanted.limit)?;
    let page = Page { after: cursor(wanted.cursor.as_deref())?, limit };
    let suffix = wanted.id_suffix.as_deref().map(|digits| {
        let wrong = || Error::field("id_suffix", "must be 4 to 12 hexadecimal digits");
        IdSuffix::parse(digits).ok_or_else(wrong)
    });
    let prefix = wanted.id_prefix.as_deref().map(|digits| {
        let wrong = || Error::field("id_prefix", "must be 4 to 32 hexadecimal digits");
        IdPrefix::parse(digits).ok_or_else(wrong)
    });
    let query = RunQuery {
        namespace: wanted.namespace,
        queue: wanted.queue,
        kind: wanted.kind,
        states: states(wanted.state.as_deref())?,
        worker: wanted.worker.as_deref().map(worker_id).transpose()?,
        key: wanted.key,
        submitted_after: wanted.submitted_after.map(|at| at.0),
        submitted_before: wanted.submitted_before.map(|at| at.0),
        id_prefix: prefix.transpose()?,
        id_suffix: suffix.transpose()?,
    };
    let (runs, total) = service::read::list(&app, &caller, query, page, wanted.total).await?;
    let next_cursor = if runs.len() == limit { runs.last().map(|run| run.id.clone()) } else { None };
    Ok(ok(&RunPage { runs, next_cursor, total }))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct GetRun {
    /// Answer when the run has ended or this long has passed; 60,000 at most.
    wait_ms: u64,
}

/// Get one run.
#[utoipa::path(get, path = "/api/v1/runs/{id}", tag = "runs", security(("api_key" = ["read"])), params(("id" = String, Path), GetRun),
    responses((status = 200, body = RunView), (status = 404, body = baton_proto::Problem)))]
pub(super) async fn get(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Params(wanted): Params<GetRun>,
) -> Result<Response, Error> {
    let run = run_id(&id)?;
    match wanted.wait_ms {
        0 => Ok(ok(&service::read::get(&app, &caller, run).await?)),
        ms => Ok(ok(&service::read::wait(&app, &caller, run, ms).await?)),
    }
}

/// What happened to a run, oldest first.
#[utoipa::path(get, path = "/api/v1/runs/{id}/history", tag = "runs", security(("api_key" = ["read"])), params(("id" = String, Path)),
    responses((status = 200, body = History), (status = 404, body = baton_proto::Problem)))]
pub(super) async fn history(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let events = service::read::history(&app, &caller, run_id(&id)?).await?;
    Ok(ok(&History { events }))
}

/// Why a run is not running yet, or who holds it.
#[utoipa::path(get, path = "/api/v1/runs/{id}/explain", tag = "runs", security(("api_key" = ["read"])), params(("id" = String, Path)),
    responses((status = 200, body = Explanation), (status = 404, body = baton_proto::Problem)))]
pub(super) async fn explain(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    Ok(ok(&service::explain::one(&app, &caller, run_id(&id)?).await?))
}

/// Cancel a run: at once when nobody holds it, otherwise its worker is told and has a grace time.
#[utoipa::path(post, path = "/api/v1/runs/{id}/cancel", tag = "runs", security(("api_key" = ["submit"])), params(("id" = String, Path)),
    responses((status = 200, body = RunState), (status = 409, body = baton_proto::Problem, description = "It has ended otherwise")))]
pub(super) async fn cancel(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let outcome = service::cancel::one(&app, &caller, run_id(&id)?).await?;
    Ok(ok(&RunState { id, state: outcome.state, cancelling: outcome.cancelling }))
}

/// Submit a run that has ended again, as a new run.
#[utoipa::path(post, path = "/api/v1/runs/{id}/retry", tag = "runs", security(("api_key" = ["submit"])),
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "The same key gives the same new run")),
    responses((status = 201, body = SubmittedRun), (status = 200, body = SubmittedRun, description = "Retried before with the same key"),
        (status = 422, body = baton_proto::Problem, description = "It has not ended")))]
pub(super) async fn retry(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let original = run_id(&id)?;
    let run = service::retry::one(&app, &caller, original, idempotency_key(&headers)?).await?;
    let status = if run.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let state = service::read::state_of(&app, &run).await?;
    Ok(answer(status, &submitted(run, state, Some(original))))
}
