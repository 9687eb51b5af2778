//! The routes, and the document that describes them. Every route is made here or in `builds`, together with its description.

use axum::Router;
use baton_proto::Problem;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};
use utoipa::openapi::{ContentBuilder, PathItem, Ref, RefOr, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{
    builds, events, keys, leases, namespaces, operations, pools, queues, runs, schedules, secrets, settings, workers,
};
use crate::App;

#[derive(OpenApi)]
#[openapi(
    info(title = "Baton", description = "Hands each piece of work to exactly one worker, and takes it back when that worker falls."),
    components(schemas(Problem)),
    tags(
        (name = "runs", description = "Submit and follow pieces of work"),
        (name = "leases", description = "What the holder of a run reports"),
        (name = "workers", description = "Register, claim, and administer workers"),
        (name = "schedules", description = "Rules that start runs"),
        (name = "pools", description = "Warm machines that are claimed for runs, verified before they are handed over"),
        (name = "runners", description = "What the agents on machines of pools say and hear, with a token that joining gives them"),
        (name = "namespaces", description = "Parts of the installation that see nothing of each other"),
        (name = "queues", description = "Depth, pause and limits"),
        (name = "events", description = "What happens, as it happens"),
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

/// Names of credentials, and the headers that carry them.
const CREDENTIALS: [(&str, &str); 8] = [
    ("api_key", "X-API-Key"),
    ("build_token", "X-Build-Token"),
    ("worker_token", "X-Worker-Token"),
    ("worker_id", "X-Worker-Id"),
    ("vm_token", "X-VM-Token"),
    ("lease", "X-Lease"),
    ("join_token", "Authorization"),
    ("runner_token", "Authorization"),
];

/// All routes but that of the document itself, and the document.
pub(super) fn documented() -> (Router<App>, utoipa::openapi::OpenApi) {
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
        .routes(routes!(namespaces::create, namespaces::list))
        .routes(routes!(namespaces::get, namespaces::change))
        .routes(routes!(namespaces::disable))
        .routes(routes!(namespaces::enable))
        .routes(routes!(keys::create, keys::list))
        .routes(routes!(keys::revoke))
        .routes(routes!(keys::rotate))
        .routes(routes!(keys::audit))
        .routes(routes!(secrets::status))
        .routes(routes!(secrets::rotate))
        .routes(routes!(settings::list, settings::change))
        .routes(routes!(operations::healthz))
        .routes(routes!(operations::readyz))
        .routes(routes!(operations::metrics))
        .merge(pools::routes())
        .merge(builds::routes())
        .split_for_parts();
    let components = document.components.get_or_insert_default();
    for (name, header) in CREDENTIALS {
        components.add_security_scheme(name, SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new(header))));
    }
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations_of(item) {
            operation.operation_id = Some(operation_id(method, path));
            add_refusals(operation);
        }
    }
    (router, document)
}

/// The document behind `/openapi.json`.
pub fn openapi() -> utoipa::openapi::OpenApi {
    documented().1
}

/// The operations of a path, with their methods.
fn operations_of(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let PathItem { get, put, post, delete, options, head, patch, .. } = item;
    let all = [
        ("get", get),
        ("put", put),
        ("post", post),
        ("delete", delete),
        ("options", options),
        ("head", head),
        ("patch", patch),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// Adds the refusals that every operation of its kind knows, where its description does not have
/// them in words of its own.
fn add_refusals(operation: &mut Operation) {
    let is_secured = operation.security.as_ref().is_some_and(|security| !security.is_empty());
    let parameters = operation.parameters.as_deref().unwrap_or_default();
    let is_in = |parameter: &RefOr<Parameter>, place: &ParameterIn| match parameter {
        RefOr::T(parameter) => parameter.parameter_in == *place,
        RefOr::Ref(_) => false,
    };
    let has = |place: ParameterIn| parameters.iter().any(|parameter| is_in(parameter, &place));
    let (has_path, has_query, has_body) =
        (has(ParameterIn::Path), has(ParameterIn::Query), operation.request_body.is_some());
    let kinds = [
        ("400", has_path || has_body, "It cannot be read"),
        ("401", is_secured, "No credential was shown"),
        ("403", is_secured, "The credential is not good, or not for this"),
        ("404", has_path || has_query, "There is no such thing, or none the caller may see"),
        ("408", has_body, "The body did not arrive in time"),
        ("413", has_body, "The body is too large"),
        ("422", has_path || has_query || has_body, "It can be read, but makes no sense"),
        ("429", true, "Too many requests; Retry-After says when to come back"),
        ("500", true, "A bug; the server's log says what"),
        (
            "503",
            true,
            "The store cannot be reached, or the server is busy or stopping; Retry-After says when to come back",
        ),
        ("507", has_body, "The disk is full"),
    ];
    for (status, _, words) in kinds.into_iter().filter(|(_, applies, _)| *applies) {
        let refusal = || {
            let problem = Ref::from_schema_name("Problem");
            let content = ContentBuilder::new().schema(Some(problem)).build();
            ResponseBuilder::new().description(words).content("application/json", content).build()
        };
        operation.responses.responses.entry(status.to_owned()).or_insert_with(|| refusal().into());
    }
}

/// A name of its own for each operation, for those who generate clients: handlers of different routes are called alike.
fn operation_id(method: &str, path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.fold(method.to_owned(), |id, word| format!("{id}_{word}"))
}
