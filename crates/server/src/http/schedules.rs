//! /api/v1/schedules

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use baton_proto::{
    BackfillSchedule, BackfilledSchedule, ChangeSchedule, CreateSchedule, NextFires, PauseSchedule, Problem,
    ScheduleFires, SchedulePage, ScheduleView, TriggerSchedule, TriggeredSchedule,
};
use baton_store::Page;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{Auth, Json, Params, Path};
use super::queues::InNamespace;
use super::runs::{cursor, idempotency_key, page_size};
use super::{answer, name_cursor, ok};
use crate::service::schedules;
use crate::{App, Error};

/// Fires that are shown unless somebody asks for more.
const NEXT_DEFAULT: usize = 10;

/// Make a schedule. The same again, after a lost answer, does no harm.
#[utoipa::path(post, path = "/api/v1/schedules", tag = "schedules", security(("api_key" = ["submit"])), request_body = CreateSchedule,
    responses((status = 201, body = ScheduleView), (status = 200, body = ScheduleView, description = "It was made before, the same"),
        (status = 409, body = Problem), (status = 422, body = Problem), (status = 429, body = Problem)))]
pub(super) async fn create(
    State(app): State<App>,
    Auth(caller): Auth,
    Json(wanted): Json<CreateSchedule>,
) -> Result<Response, Error> {
    let (made, is_new) = schedules::create(&app, &caller, wanted).await?;
    Ok(answer(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &made))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListSchedules {
    /// Only this namespace.
    namespace: Option<String>,
    /// 1 to 1,000. [default: 50]
    limit: Option<usize>,
    /// The next_cursor of the page before.
    cursor: Option<String>,
    /// Count all.
    total: bool,
}

/// List schedules by namespace and id, paused ones among them.
#[utoipa::path(get, path = "/api/v1/schedules", tag = "schedules", security(("api_key" = ["read"])), params(ListSchedules),
    responses((status = 200, body = SchedulePage)))]
pub(super) async fn list(
    State(app): State<App>,
    Auth(caller): Auth,
    Params(wanted): Params<ListSchedules>,
) -> Result<Response, Error> {
    let limit = page_size(wanted.limit)?;
    let page = name_cursor::page(wanted.cursor.as_deref(), limit)?;
    let (mut found, total) =
        schedules::read::list(&app, &caller, wanted.namespace.as_deref(), page, wanted.total).await?;
    let next_cursor = name_cursor::next(&mut found, limit, |schedule| (&schedule.namespace, &schedule.id));
    Ok(ok(&SchedulePage { schedules: found, next_cursor, total }))
}

/// Get one schedule.
#[utoipa::path(get, path = "/api/v1/schedules/{id}", tag = "schedules", security(("api_key" = ["read"])), params(("id" = String, Path), InNamespace),
    responses((status = 200, body = ScheduleView), (status = 404, body = Problem)))]
pub(super) async fn get(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Params(within): Params<InNamespace>,
) -> Result<Response, Error> {
    Ok(ok(&schedules::read::get(&app, &caller, within.name(), &id).await?))
}

/// Change a schedule. A new rule holds from now on.
#[utoipa::path(patch, path = "/api/v1/schedules/{id}", tag = "schedules", security(("api_key" = ["submit"])), params(("id" = String, Path), InNamespace),
    request_body = ChangeSchedule,
    responses((status = 200, body = ScheduleView), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn change(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Params(within): Params<InNamespace>,
    Json(wanted): Json<ChangeSchedule>,
) -> Result<Response, Error> {
    Ok(ok(&schedules::change(&app, &caller, within.name(), &id, wanted).await?))
}

/// Delete a schedule. Its runs stay.
#[utoipa::path(delete, path = "/api/v1/schedules/{id}", tag = "schedules", security(("api_key" = ["submit"])), params(("id" = String, Path), InNamespace),
    responses((status = 204), (status = 404, body = Problem)))]
pub(super) async fn delete(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Params(within): Params<InNamespace>,
) -> Result<Response, Error> {
    schedules::delete(&app, &caller, within.name(), &id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Let a schedule wait. Fires that it misses are not made up for.
#[utoipa::path(post, path = "/api/v1/schedules/{id}/pause", tag = "schedules", security(("api_key" = ["submit"])), params(("id" = String, Path), InNamespace),
    request_body = PauseSchedule, responses((status = 200, body = ScheduleView), (status = 404, body = Problem)))]
pub(super) async fn pause(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Params(within): Params<InNamespace>,
    Json(wanted): Json<PauseSchedule>,
) -> Result<Response, Error> {
    Ok(ok(&schedules::control::pause(&app, &caller, within.name(), &id, wanted.note.as_deref()).await?))
}

/// Let a schedule fire again, from now on.
#[utoipa::path(post, path = "/api/v1/schedules/{id}/resume", tag = "schedules", security(("api_key" = ["submit"])), params(("id" = String, Path), InNamespace),
    responses((status = 200, body = ScheduleView), (status = 404, body = Problem)))]
pub(super) async fn resume(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Params(within): Params<InNamespace>,
) -> Result<Response, Error> {
    Ok(ok(&schedules::control::resume(&app, &caller, within.name(), &id).await?))
}

/// Start a run of a schedule now, whatever its rule says, also while it is paused.
#[utoipa::path(post, path = "/api/v1/schedules/{id}/trigger", tag = "schedules", security(("api_key" = ["submit"])), params(("id" = String, Path), InNamespace,
        ("Idempotency-Key" = Option<String>, Header, description = "The same key gives the same run; wins over the one in the body")),
    request_body = TriggerSchedule, responses((status = 201, body = TriggeredSchedule), (status = 404, body = Problem)))]
pub(super) async fn trigger(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Params(within): Params<InNamespace>,
    headers: HeaderMap,
    Json(wanted): Json<TriggerSchedule>,
) -> Result<Response, Error> {
    let key = idempotency_key(&headers)?.or(wanted.idempotency_key.as_deref());
    let triggered = schedules::by_hand::trigger(&app, &caller, within.name(), &id, key).await?;
    Ok(answer(StatusCode::CREATED, &triggered))
}

/// Start the runs of a range that has passed. Each fire is started once, however often it is asked for.
#[utoipa::path(post, path = "/api/v1/schedules/{id}/backfill", tag = "schedules", security(("api_key" = ["submit"])), params(("id" = String, Path), InNamespace),
    request_body = BackfillSchedule,
    responses((status = 200, body = BackfilledSchedule), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn backfill(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Params(within): Params<InNamespace>,
    Json(range): Json<BackfillSchedule>,
) -> Result<Response, Error> {
    let (from, to) = (range.from.0, range.to.0);
    Ok(ok(&schedules::by_hand::backfill(&app, &caller, within.name(), &id, from, to).await?))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListFires {
    /// The namespace; `default` unless given.
    namespace: Option<String>,
    /// 1 to 1,000. [default: 50]
    limit: Option<usize>,
    /// The next_cursor of the page before.
    cursor: Option<String>,
}

/// List what became of a schedule's fires, newest first: the runs it started, and the fires it left out.
#[utoipa::path(get, path = "/api/v1/schedules/{id}/runs", tag = "schedules", security(("api_key" = ["read"])), params(("id" = String, Path), ListFires),
    responses((status = 200, body = ScheduleFires), (status = 404, body = Problem)))]
pub(super) async fn runs(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Params(wanted): Params<ListFires>,
) -> Result<Response, Error> {
    let page = Page { after: cursor(wanted.cursor.as_deref())?, limit: page_size(wanted.limit)? };
    let namespace = wanted.namespace.as_deref().unwrap_or(baton_proto::NAMESPACE_DEFAULT);
    let (fires, next) = schedules::read::fires(&app, &caller, namespace, &id, page).await?;
    Ok(ok(&ScheduleFires { fires, next_cursor: next.map(|number| number.to_string()) }))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListNext {
    /// The namespace; `default` unless given.
    namespace: Option<String>,
    /// 1 to 1,000; 10 unless given.
    count: Option<usize>,
}

/// Say when a schedule fires next, whether it is paused or not.
#[utoipa::path(get, path = "/api/v1/schedules/{id}/next", tag = "schedules", security(("api_key" = ["read"])), params(("id" = String, Path), ListNext),
    responses((status = 200, body = NextFires), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn next(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Params(wanted): Params<ListNext>,
) -> Result<Response, Error> {
    let namespace = wanted.namespace.as_deref().unwrap_or(baton_proto::NAMESPACE_DEFAULT);
    let count = wanted.count.unwrap_or(NEXT_DEFAULT);
    Ok(ok(&NextFires { fires: schedules::read::next(&app, &caller, namespace, &id, count).await? }))
}
