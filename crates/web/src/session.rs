//! Who is looking: cookies, and the check that a form comes from one of our pages.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Redirect, Response};
use baton_server::{App, Caller, Error, face};
use http::header::COOKIE;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use sha2::{Digest, Sha256};

use crate::query::escape;

/// The cookie that has the session's token.
pub const SESSION: &str = "baton_session";
/// What stands in pages for the session's token of forms, until they are sent: pages are made once for several sessions.
pub const CSRF_MARK: &str = "\u{1}csrf\u{1}";
/// The field of forms, and the header of the script, that have it.
pub const CSRF: &str = "csrf";

/// Somebody with a session.
#[derive(Clone, Debug)]
pub struct Visitor {
    /// Who, and what the key may do now.
    pub caller: Arc<Caller>,
    /// The session.
    pub token: String,
    /// What its forms have to show.
    pub csrf: String,
}

impl Visitor {
    /// Finds the session that the cookie names.
    pub async fn of(app: &App, headers: &HeaderMap) -> Result<Option<Visitor>, Error> {
        let Some(token) = cookie(headers, SESSION) else { return Ok(None) };
        let Ok(caller) = app.keys.check(Some(token), None).await else { return Ok(None) };
        let csrf = Sha256::digest(format!("csrf:{token}")).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Some(Visitor { caller, token: token.to_owned(), csrf }))
    }

    /// Refuses a form that is not of this session.
    pub fn check(&self, headers: &HeaderMap, shown: Option<&str>) -> Result<(), Error> {
        let elsewhere = headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none");
        let is_own = shown.is_some_and(|shown| shown == self.csrf);
        if elsewhere || !is_own {
            return Err(Error::Forbidden("the form is not of this session; load the page again and repeat it".into()));
        }
        Ok(())
    }
}

impl FromRequestParts<App> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Visitor, Response> {
        match Visitor::of(app, &parts.headers).await {
            Ok(Some(visitor)) => {
                face::is_for(&visitor.caller);
                if parts.method == Method::GET {
                    face::may_read(app).await.map_err(IntoResponse::into_response)?;
                }
                Ok(visitor)
            }
            Ok(None) => Err(signin(parts)),
            Err(error) => Err(error.into_response()),
        }
    }
}

/// Where one signs in, and comes back from.
fn signin(parts: &Parts) -> Response {
    let wanted = parts.uri.path_and_query().map_or("/", |wanted| wanted.as_str());
    match (parts.method == Method::GET, parts.uri.path()) {
        (true, "/") => Redirect::to("/signin").into_response(),
        (true, path) if path != "/live" => Redirect::to(&format!("/signin?next={}", escape(wanted))).into_response(),
        _ => (StatusCode::UNAUTHORIZED, "The session has ended. Sign in again.").into_response(),
    }
}

/// The value of a cookie.
pub fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(COOKIE).into_iter().filter_map(|header| header.to_str().ok());
    let mut parts = cookies.flat_map(|cookies| cookies.split(';'));
    parts.find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('=')).filter(|value| !value.is_empty())
}

/// The cookie for a session; an empty token removes it.
pub fn set_cookie(app: &App, token: &str, seconds: u64) -> Result<HeaderValue, Error> {
    let secure = if app.tls.get().is_some() { "; Secure" } else { "" };
    let text = format!("{SESSION}={token}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
    let mut value = HeaderValue::try_from(text).map_err(|_| Error::Internal)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_found_by_their_whole_name() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, HeaderValue::from_static("baton_session_old=a; x=1"));
        headers.append(COOKIE, HeaderValue::from_static("baton_theme=dark; baton_session=b=c"));
        assert_eq!(cookie(&headers, "baton_session"), Some("b=c"));
        assert_eq!(cookie(&headers, "baton_theme"), Some("dark"));
        assert_eq!(cookie(&headers, "theme"), None);
    }
}
