//! /api/v1/statistics

use axum::extract::State;
use axum::response::Response;
use baton_proto::{Problem, Statistics, Time};
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{Auth, Params};
use super::ok;
use crate::service::statistics::{By, Range, Wanted};
use crate::{App, Error, service};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct StatisticsQuery {
    /// The last `hour` by 10 seconds, `day` by a minute, or `month` (31 days) by an hour. [default: hour]
    #[param(value_type = Option<baton_proto::words::StatisticsRange>)]
    range: Option<String>,
    /// From this moment on, instead of a range. The step is the finest that is kept for all of it.
    #[param(value_type = Option<Time>)]
    from: Option<Time>,
    /// Until this moment. [default: now]
    #[param(value_type = Option<Time>)]
    until: Option<Time>,
    /// Of this namespace; all that the key is good for if not given.
    namespace: Option<String>,
    /// Of this queue.
    queue: Option<String>,
    /// Of this runner pool.
    pool: Option<String>,
    /// Of these series, parted by commas: `ready`, or all of a subject: `wait`. [default: all]
    series: Option<String>,
    /// Lists each `queue`, or each `pool`, besides the sums: the deepest, then the busiest.
    #[param(value_type = Option<baton_proto::words::StatisticsBy>)]
    by: Option<String>,
    /// How many of them, 1 to 100; the others are told together. [default: 20]
    limit: Option<usize>,
    /// Steps are made longer until there are at most so many, 2 to 1,500. [default: 1500]
    points: Option<usize>,
}

/// Numbers about queues, workers and pools, as series.
///
/// Counts (`submitted`, `claimed`, `completed`, `failed`, `cancelled`, `retried`, `returned`, `lost`) are what happened in each step.
/// Levels (`ready`, `scheduled`, `running`, `sleeping`, `workers`, `runners`) are means of what was seen in it; `oldest_ms` is the
/// largest. `wait` and `duration` are quantiles, at most 3.2 % off. `null` is a gap, not zero.
#[utoipa::path(get, path = "/api/v1/statistics", tag = "statistics", security(("api_key" = ["read"])), params(StatisticsQuery),
    responses((status = 200, body = Statistics), (status = 422, body = Problem)))]
pub(super) async fn get(
    State(app): State<App>,
    Auth(caller): Auth,
    Params(query): Params<StatisticsQuery>,
) -> Result<Response, Error> {
    let range = query.range.as_deref().map(|name| {
        Range::named(name).ok_or_else(|| Error::field("range", format!("must be hour, day or month, not {name:?}")))
    });
    let by = query.by.as_deref().map(|name| match name {
        "queue" => Ok(By::Queue),
        "pool" => Ok(By::Pool),
        other => Err(Error::field("by", format!("must be queue or pool, not {other:?}"))),
    });
    let wanted = Wanted {
        range: range.transpose()?,
        from: query.from.map(|from| from.0),
        until: query.until.map(|until| until.0),
        namespace: query.namespace,
        queue: query.queue,
        pool: query.pool,
        series: query.series,
        by: by.transpose()?,
        limit: query.limit,
        points: query.points,
    };
    Ok(ok(&service::statistics::get(&app, &caller, wanted).await?))
}
