//! Baton's dashboard: pages that the server draws, on the same port as everything else. A face like the others: it
//! authenticates, calls the service, and writes what it hears as HTML. `ARCHITECTURE.md` has the walk of a page.

mod ask;
mod assets;
mod compress;
mod format;
mod forms;
mod live;
mod page;
mod pages;
mod parts;
mod query;
mod session;
mod view;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use baton_server::App;
use http::HeaderValue;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};

use crate::session::NewCookie;

/// Nothing from elsewhere, no inline script and no inline style; nobody frames a page.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The routes of the dashboard.
pub fn dashboard() -> Router<App> {
    let mut router = Router::new()
        .route("/assets/{version}/{file}", get(assets::file))
        .route("/live", get(live::follow))
        .route("/signin", get(pages::signin::form).post(pages::signin::submit))
        .route("/signin/once/{token}", get(pages::signin::once_form).post(pages::signin::once))
        .route("/signout", post(pages::signin::out));
    for path in pages::PATHS {
        router = router.route(path, shown());
    }
    pages::forms(router).layer(middleware::from_fn(guard)).fallback(pages::not_found)
}

fn shown() -> MethodRouter<App> {
    get(pages::show)
}

/// Sets what keeps a page to itself, and sends a session's new token.
async fn guard(mut request: Request, next: Next) -> Response {
    // HTTP/2 has no such header. Everything here looks for the host in it.
    let authority = request.uri().authority().and_then(|host| HeaderValue::try_from(host.as_str()).ok());
    if let Some(host) = authority.filter(|_| !request.headers().contains_key(HOST)) {
        request.headers_mut().insert(HOST, host);
    }
    let cookie = NewCookie::default();
    request.extensions_mut().insert(cookie.clone());
    let accepts = compress::accepts(request.headers());
    let mut response = next.run(request).await;
    if let Some(cookie) = cookie.take()
        && !response.headers().contains_key(SET_COOKIE)
    {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    let response = if accepts { compress::compressed(response).await } else { response };
    guarded(response)
}

/// An answer that nobody frames, and that loads nothing from elsewhere.
fn guarded(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let set = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_FRAME_OPTIONS, "DENY"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in set {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(REFERRER_POLICY).or_insert(HeaderValue::from_static("same-origin"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
