//! The gRPC face. Today it answers health checks; the services of package `baton.v1` join it here.

use axum::Router;
use tonic::service::Routes;

/// All gRPC services, to be served on the same port as everything else.
pub async fn router() -> Router {
    let (reporter, health) = tonic_health::server::health_reporter();
    // The empty name stands for the whole server.
    reporter.set_service_status("", tonic_health::ServingStatus::Serving).await;
    Routes::new(health).into_axum_router()
}
