//! What a face outside of this crate needs to treat requests as those here do.

use std::net::IpAddr;
use std::sync::Arc;

use ::http::{Extensions, HeaderMap, Method};
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;

use crate::answers::Answer;
use crate::http::{Peer, ThroughProxy, whole_body};
use crate::service::builds::Reader;
use crate::{App, Caller, Error, proxies};

/// Tells servers of one process apart, for memories that a face keeps beside them.
pub fn server_mark(app: &App) -> usize {
    Arc::as_ptr(&app.store).cast::<()>() as usize
}

/// True when other servers may change what this one shows.
pub fn is_store_shared(app: &App) -> bool {
    app.store.is_shared()
}

/// Where a request comes from: the other end of the connection, or what a trusted proxy says.
pub fn address(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<Peer>().map(|peer| peer.0)
}

/// True when what is sent here cannot be read on its way: over TLS, to this server or to a trusted proxy.
pub fn is_encrypted(app: &App, headers: &HeaderMap, extensions: &Extensions) -> bool {
    app.tls.get().is_some() || extensions.get::<ThroughProxy>().is_some() && proxies::says_https(headers)
}

/// What is said where no route is.
pub fn no_route(headers: &HeaderMap) -> Response {
    crate::http::no_route(headers)
}

/// Notes who is calling, for the log and for the room that answers may take.
pub fn is_for(caller: &Arc<Caller>) {
    Answer::is_for(caller);
}

/// Waits for the caller's turn to read.
pub async fn may_read(app: &App) -> Result<(), Error> {
    app.answers.may_read().await
}

/// A file of a build, `source` or `result`, whole or in part.
pub async fn build_file(
    app: &App,
    caller: &Caller,
    id: &str,
    which: &str,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Response, Error> {
    crate::http::build_file(app, &Reader::Key(caller), id, which, method, headers).await
}

/// The whole body of a request, within the server's limits in size and time.
pub async fn body(app: &App, request: Request) -> Result<Bytes, Error> {
    whole_body(request, app, app.settings.body_bytes_max).await
}
