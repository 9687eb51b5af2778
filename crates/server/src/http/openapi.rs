//! The routes, and the document that describes them. Every route is made here or in `builds`, together with its description.

mod complete;
mod examples;
mod ids;

use axum::Router;
use baton_proto::words::{StatisticsBy, StatisticsRange};
use baton_proto::{Event, Problem, ProblemDetails};
use utoipa::OpenApi;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{
    attention, builds, bulk, events, keys, leases, namespaces, operations, pools, queues, runs, schedules, secrets,
    settings, statistics, webhooks, workers,
};
use crate::App;

#[derive(OpenApi)]
#[openapi(
    info(title = "Baton", description = "Hands each piece of work to exactly one worker, and reclaims it if that worker dies."),
    servers((url = "/", description = "The server that answers with this document")),
    components(schemas(Event, Problem, ProblemDetails, StatisticsBy, StatisticsRange)),
    tags(
        (name = "runs", description = "Submit and follow pieces of work"),
        (name = "leases", description = "What the holder of a run reports"),
        (name = "workers", description = "Register, claim, and administer workers"),
        (name = "schedules", description = "Rules that start runs"),
        (name = "pools", description = "Warm machines that are claimed for runs, verified before they are handed over"),
        (name = "runners", description = "What the agents on machines of pools say and hear, with a token that joining gives them"),
        (name = "namespaces", description = "Parts of the installation that see nothing of each other"),
        (name = "queues", description = "Depth, pause and limits"),
        (name = "bulk", description = "One verb on all runs that a filter finds"),
        (name = "events", description = "What happens, as it happens"),
        (name = "statistics", description = "Numbers as series, for charts"),
        (name = "webhooks", description = "Events that are told by calls"),
        (name = "keys", description = "API keys and the audit log"),
        (name = "settings", description = "Settings that are changed while the servers run"),
        (name = "builds", description = "Builds of source archives, for their submitters: the protocol of Expo Free Agent, and what Baton adds to it"),
        (name = "builders", description = "Workers of the protocol of Expo Free Agent, which poll with a token that changes"),
        (name = "machines", description = "Virtual machines that build for a worker"),
        (name = "polling builders", description = "Builds from repositories, and workers that poll with nothing but an API key"),
        (name = "uploads", description = "Files in pieces, so that a cut connection does not start over (tus 1.0)"),
        (name = "cache", description = "Files by their sum, for base images and dependencies"),
        (name = "overview", description = "Numbers about builds, and what builders report of themselves"),
        (name = "operations", description = "Health and metrics")
    )
)]
struct Document;

/// Credentials that have a header of their own.
const HEADERS: [(&str, &str); 6] = [
    ("api_key", "X-API-Key"),
    ("build_token", "X-Build-Token"),
    ("worker_token", "X-Worker-Token"),
    ("worker_id", "X-Worker-Id"),
    ("vm_token", "X-VM-Token"),
    ("lease", "X-Lease"),
];

/// Credentials that come as `Authorization: Bearer`.
const BEARERS: [(&str, &str); 3] = [
    ("bearer", "An API key"),
    ("join_token", "What a provider gives the agent of a new machine"),
    ("runner_token", "What joining gives an agent"),
];

/// All routes but that of the document itself, and the document.
pub(super) fn documented() -> (Router<App>, serde_json::Value) {
    let (router, mut document) = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(runs::submit, runs::list))
        .routes(routes!(runs::submit_batch))
        .routes(routes!(runs::get))
        .routes(routes!(runs::history))
        .routes(routes!(runs::explain))
        .routes(routes!(runs::cancel))
        .routes(routes!(runs::retry))
        .routes(routes!(leases::start))
        .routes(routes!(leases::start_batch))
        .routes(routes!(leases::complete))
        .routes(routes!(leases::complete_batch))
        .routes(routes!(leases::fail))
        .routes(routes!(leases::fail_batch))
        .routes(routes!(leases::give_back))
        .routes(routes!(leases::give_back_batch))
        .routes(routes!(leases::sleep))
        .routes(routes!(workers::register, workers::list))
        .routes(routes!(workers::get))
        .routes(routes!(workers::heartbeat))
        .routes(routes!(workers::claim))
        .routes(routes!(workers::deregister))
        .routes(routes!(workers::drain))
        .routes(routes!(workers::force_offline))
        .routes(routes!(queues::list))
        .routes(routes!(queues::get, queues::limit))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(schedules::create, schedules::list))
        .routes(routes!(schedules::get, schedules::change, schedules::delete))
        .routes(routes!(schedules::pause))
        .routes(routes!(schedules::resume))
        .routes(routes!(schedules::trigger))
        .routes(routes!(schedules::backfill))
        .routes(routes!(schedules::runs))
        .routes(routes!(schedules::next))
        .routes(routes!(events::listen))
        .routes(routes!(bulk::create, bulk::list))
        .routes(routes!(bulk::get))
        .routes(routes!(bulk::stop))
        .routes(routes!(statistics::get))
        .routes(routes!(attention::get))
        .routes(routes!(namespaces::create, namespaces::list))
        .routes(routes!(namespaces::get, namespaces::change))
        .routes(routes!(namespaces::disable))
        .routes(routes!(namespaces::enable))
        .routes(routes!(keys::create, keys::list))
        .routes(routes!(keys::revoke))
        .routes(routes!(keys::rotate))
        .routes(routes!(keys::end_sessions))
        .routes(routes!(keys::create_link))
        .routes(routes!(keys::whoami))
        .routes(routes!(keys::audit))
        .routes(routes!(secrets::status))
        .routes(routes!(secrets::rotate))
        .routes(routes!(settings::list, settings::change))
        .routes(routes!(operations::healthz))
        .routes(routes!(operations::readyz))
        .routes(routes!(operations::metrics))
        .routes(routes!(operations::errors))
        .merge(webhooks::routes())
        .merge(pools::routes())
        .merge(builds::routes())
        .split_for_parts();
    let components = document.components.get_or_insert_default();
    for (name, header) in HEADERS {
        components.add_security_scheme(name, SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new(header))));
    }
    for (name, about) in BEARERS {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(about));
        components.add_security_scheme(name, SecurityScheme::Http(scheme.build()));
    }
    let document = serde_json::to_value(&document).expect("the document is plain data");
    (router, complete::complete(document))
}

/// The document behind `/openapi.json`.
pub fn openapi() -> serde_json::Value {
    documented().1
}
