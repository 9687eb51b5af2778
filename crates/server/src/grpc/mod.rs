//! The gRPC face: package `baton.v1`, reflection and health checks, on the same port as everything else, and in gRPC-Web's words for
//! browsers. A face decodes, authenticates, makes one service call, and encodes.

mod convert;
mod error;
mod layer;
mod namespaces;
mod open;
mod runs;
mod schedules;
mod steps;
mod work;
mod workers;
mod workflows;

pub(crate) use self::error::code_name;

use axum::Router;
use axum::middleware;
use axum::response::Response;
use baton_proto::v1::DESCRIPTORS;
use baton_proto::v1::namespace_service_server::NamespaceServiceServer;
use baton_proto::v1::schedule_service_server::ScheduleServiceServer;
use baton_proto::v1::workflow_service_server::WorkflowServiceServer;
use tonic::Status;
use tonic::service::Routes;
use tonic_web::GrpcWebLayer;
use tower::ServiceExt;

use self::namespaces::Namespaces;
use self::schedules::Schedules;
use self::workflows::Workflows;
use crate::App;

/// All gRPC services, to be served on the same port as everything else.
pub async fn router(app: App) -> Router {
    let (reporter, health) = tonic_health::server::health_reporter();
    // The empty name stands for the whole server.
    reporter.set_service_status("", tonic_health::ServingStatus::Serving).await;
    reporter.set_serving::<WorkflowServiceServer<Workflows>>().await;
    reporter.set_serving::<ScheduleServiceServer<Schedules>>().await;
    reporter.set_serving::<NamespaceServiceServer<Namespaces>>().await;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    // Open to all, as /openapi.json is: they say what there is, not what it holds.
    let open = Routes::new(health)
        .add_service(reflection().build_v1().expect("the descriptors are built in"))
        .add_service(reflection().build_v1alpha().expect("the descriptors are built in"));
    let open = open::limited(open.into_axum_router().reset_fallback(), &app);
    open.merge(ours(app)).layer(GrpcWebLayer::new())
}

/// The services of package `baton.v1`, which need a key.
fn ours(app: App) -> Router {
    let limit = app.settings.body_bytes_max;
    // The layer before knows which calls may be that large.
    let payload_limit = app.settings.payload_body_bytes_max();
    let stream_limit = app.settings.payload_batch_bytes_max();
    let workflows = WorkflowServiceServer::new(Workflows::new(app.clone()));
    let schedules = ScheduleServiceServer::new(Schedules { app: app.clone() });
    let namespaces = NamespaceServiceServer::new(Namespaces { app: app.clone() });
    let routes = Routes::new(workflows.clone().max_decoding_message_size(payload_limit))
        .add_service(schedules.max_decoding_message_size(limit))
        .add_service(namespaces.max_decoding_message_size(limit))
        .into_axum_router()
        .reset_fallback();
    // A message of the stream is a batch, and may be as large as one.
    let stream = workflows.max_decoding_message_size(stream_limit);
    let stream = stream.map_request(|request: http::Request<axum::body::Body>| request.map(tonic::body::Body::new));
    routes.route_service(layer::STREAM, stream).layer(middleware::from_fn_with_state(app, layer::call))
}

/// True for a call that expects its answer in gRPC's words.
pub fn is_call(headers: &http::HeaderMap) -> bool {
    headers.get(http::header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// The answer to a method that does not exist.
pub fn unimplemented() -> Response {
    Status::unimplemented("there is no such method on this server").into_http()
}

/// The answer to a call that is refused before it is looked at.
pub fn refused(error: &crate::Error) -> Response {
    layer::failed(error)
}
