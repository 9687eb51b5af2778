//! The gRPC face. Today it answers health checks; the services of package `baton.v1` join it here.

use axum::Router;
use axum::response::Response;
use tonic::Status;
use tonic::service::Routes;

/// All gRPC services, to be served on the same port as everything else.
pub async fn router() -> Router {
    let (reporter, health) = tonic_health::server::health_reporter();
    // The empty name stands for the whole server.
    reporter.set_service_status("", tonic_health::ServingStatus::Serving).await;
    // Unknown methods are answered by the one fallback of the port; see `unimplemented`.
    Routes::new(health).into_axum_router().reset_fallback()
}

/// True for a call that expects its answer in gRPC's words.
pub fn is_call(headers: &http::HeaderMap) -> bool {
    headers.get(http::header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// The answer to a method that does not exist.
pub fn unimplemented() -> Response {
    Status::unimplemented("there is no such method on this server").into_http()
}
