//! Who is looking: cookies, and the check that a form comes from one of our pages.

use std::sync::{Arc, Mutex};

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Redirect, Response};
use baton_core::token;
use baton_server::service::sessions::{self, SignedIn};
use baton_server::{App, Caller, Error, face};
use http::header::{ACCEPT, COOKIE, HOST, ORIGIN};
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode};

use crate::query::escape;

/// The cookie that has the session's token. Where the address has a port that stands behind it: browsers send cookies to
/// all ports of a host, and two servers on one machine would sign each other's visitors out.
const SESSION: &str = "baton_session";
/// Begins its name where the connection is encrypted. Browsers take such a cookie from nobody but this very host.
const SECURE: &str = "__Host-";
/// What stands in pages for the session's token of forms, until they are sent: pages are made once for several sessions.
pub const CSRF_MARK: &str = "\u{1}csrf\u{1}";
/// The field of forms, and the header of the script, that have it.
pub const CSRF: &str = "csrf";
/// What browsers say of where a request comes from.
const FETCH_SITE: &str = "sec-fetch-site";
const FETCH_MODE: &str = "sec-fetch-mode";

/// Somebody with a session.
#[derive(Clone, Debug)]
pub struct Visitor {
    /// Who, and what the key may do now.
    pub caller: Arc<Caller>,
    /// What its forms have to show.
    pub csrf: String,
    /// The session.
    pub signed_in: SignedIn,
}

/// A cookie that goes out with the answer, because the session has another token now.
#[derive(Clone, Debug, Default)]
pub struct NewCookie(Arc<Mutex<Option<HeaderValue>>>);

impl NewCookie {
    /// The cookie, if there is one.
    pub fn take(&self) -> Option<HeaderValue> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }

    fn set(&self, cookie: HeaderValue) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(cookie);
    }
}

impl Visitor {
    fn new(signed_in: SignedIn) -> Visitor {
        Visitor { caller: signed_in.caller.clone(), csrf: signed_in.csrf.clone(), signed_in }
    }

    /// Finds the session that the cookie names.
    pub async fn of(app: &App, headers: &HeaderMap, extensions: &Extensions) -> Result<Option<Visitor>, Error> {
        let Some(token) = shown(app, headers, extensions) else { return Ok(None) };
        let Some(signed_in) = sessions::find(app, token, face::address(extensions)).await? else { return Ok(None) };
        if signed_in.is_stale
            && let Some(cookie) = extensions.get::<NewCookie>()
            && let Some(token) = sessions::rotate(app, &signed_in, token).await?
        {
            cookie.set(set_cookie(app, extensions, headers, &token)?);
        }
        Ok(Some(Visitor::new(signed_in)))
    }

    /// The same now; nothing when the session has ended, or may do something else than before.
    pub async fn again(&self, app: &App) -> Result<Option<Visitor>, Error> {
        let now = sessions::again(app, &self.signed_in).await?;
        Ok(now.filter(|now| now.caller == self.caller).map(Visitor::new))
    }

    /// Refuses a form that is not of this session.
    pub fn check(&self, headers: &HeaderMap, shown: Option<&str>) -> Result<(), Error> {
        let is_own = shown.is_some_and(|shown| token::same(&token::hash(shown), &token::hash(&self.csrf)));
        if is_foreign(headers) || !is_own {
            return Err(Error::Forbidden("the form is not of this session; load the page again and repeat it".into()));
        }
        Ok(())
    }
}

impl FromRequestParts<App> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Visitor, Response> {
        match Visitor::of(app, &parts.headers, &parts.extensions).await {
            Ok(Some(visitor)) => {
                face::is_for(&visitor.caller);
                if parts.method == Method::GET {
                    face::may_read(app).await.map_err(|error| refused(&parts.headers, &error))?;
                }
                Ok(visitor)
            }
            Ok(None) => Err(signin(parts)),
            Err(error) => Err(refused(&parts.headers, &error)),
        }
    }
}

/// Why there is no answer, for the caller.
fn refused(headers: &HeaderMap, error: &Error) -> Response {
    if wants_page(headers) { crate::pages::refusal(error) } else { error.clone().into_response() }
}

/// Where one signs in, and comes back from. What a script asks for is no page: it hears that the session has ended.
fn signin(parts: &Parts) -> Response {
    let wanted = parts.uri.path_and_query().map_or("/", |wanted| wanted.as_str());
    match (parts.method == Method::GET && wants_page(&parts.headers), parts.uri.path()) {
        (true, "/") => Redirect::to("/signin").into_response(),
        (true, path) if path != "/live" => Redirect::to(&format!("/signin?next={}", escape(wanted))).into_response(),
        _ => (StatusCode::UNAUTHORIZED, "The session has ended. Sign in again.").into_response(),
    }
}

/// True for a request of a browser that shows the answer as a page.
pub fn wants_page(headers: &HeaderMap) -> bool {
    let says = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match says(FETCH_MODE) {
        Some(mode) => mode == "navigate",
        None => says(ACCEPT.as_str()).is_some_and(|accept| accept.contains("text/html")),
    }
}

/// True for a request that a page of somebody else has made.
pub fn is_foreign(headers: &HeaderMap) -> bool {
    let says = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    match (says(FETCH_SITE), says(ORIGIN.as_str())) {
        (Some(site), _) => site != "same-origin" && site != "none",
        // Browsers say so over encrypted connections only.
        (None, Some(origin)) => origin.split_once("://").map(|(_, host)| host) != says(HOST.as_str()),
        (None, None) => false,
    }
}

/// The value of a cookie.
pub fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(COOKIE).into_iter().filter_map(|header| header.to_str().ok());
    let mut parts = cookies.flat_map(|cookies| cookies.split(';'));
    parts.find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('=')).filter(|value| !value.is_empty())
}

/// The token that a browser shows.
pub fn shown<'a>(app: &App, headers: &'a HeaderMap, extensions: &Extensions) -> Option<&'a str> {
    cookie(headers, &cookie_name(face::is_encrypted(app, headers, extensions), headers))
}

fn cookie_name(is_encrypted: bool, headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    let port = port.map_or_else(String::new, |port| format!("_{port}"));
    format!("{}{SESSION}{port}", if is_encrypted { SECURE } else { "" })
}

/// The cookie for a session.
pub fn set_cookie(app: &App, extensions: &Extensions, headers: &HeaderMap, token: &str) -> Result<HeaderValue, Error> {
    written(face::is_encrypted(app, headers, extensions), headers, token, app.current().session_max_ms / 1_000)
}

/// What removes the cookie.
pub fn no_cookie(app: &App, extensions: &Extensions, headers: &HeaderMap) -> Result<HeaderValue, Error> {
    written(face::is_encrypted(app, headers, extensions), headers, "", 0)
}

/// `Lax`: a link to a run in a chat opens that run, and nobody else's page can send a form.
fn written(is_encrypted: bool, headers: &HeaderMap, token: &str, seconds: u64) -> Result<HeaderValue, Error> {
    let secure = if is_encrypted { "; Secure" } else { "" };
    let name = cookie_name(is_encrypted, headers);
    let text = format!("{name}={token}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
    let mut value = HeaderValue::try_from(text).map_err(|_| Error::Internal)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn cookies_are_found_by_their_whole_name() {
        let headers =
            headers(&[("cookie", "baton_session_old=a; x=1"), ("cookie", "baton_theme=dark; baton_session=b=c")]);
        assert_eq!(cookie(&headers, "baton_session"), Some("b=c"));
        assert_eq!(cookie(&headers, "baton_theme"), Some("dark"));
        assert_eq!(cookie(&headers, "theme"), None);
    }

    #[test]
    fn cookies_say_who_may_have_them() {
        for (host, is_encrypted, written_as) in [
            ("baton.example", false, "baton_session=t; Path=/; HttpOnly; SameSite=Lax; Max-Age=60"),
            ("127.0.0.1:7400", false, "baton_session_7400=t; Path=/; HttpOnly; SameSite=Lax; Max-Age=60"),
            ("[::1]:7400", false, "baton_session_7400=t; Path=/; HttpOnly; SameSite=Lax; Max-Age=60"),
            ("[::1]", false, "baton_session=t; Path=/; HttpOnly; SameSite=Lax; Max-Age=60"),
            ("baton.example", true, "__Host-baton_session=t; Path=/; HttpOnly; SameSite=Lax; Max-Age=60; Secure"),
            ("a:7400", true, "__Host-baton_session_7400=t; Path=/; HttpOnly; SameSite=Lax; Max-Age=60; Secure"),
        ] {
            let value = written(is_encrypted, &headers(&[("host", host)]), "t", 60).unwrap();
            assert_eq!(value.to_str().unwrap(), written_as);
        }
    }

    #[test]
    fn requests_of_other_pages_are_known() {
        let own = ("host", "baton.example:7400");
        for (pairs, foreign) in [
            (&[own][..], false),
            (&[own, ("sec-fetch-site", "same-origin")], false),
            (&[own, ("sec-fetch-site", "none")], false),
            (&[own, ("sec-fetch-site", "same-site")], true),
            (&[own, ("sec-fetch-site", "cross-site"), ("origin", "http://baton.example:7400")], true),
            (&[own, ("origin", "http://baton.example:7400")], false),
            (&[own, ("origin", "http://baton.example")], true),
            (&[own, ("origin", "null")], true),
            (&[("host", "10.0.0.2:7400"), ("sec-fetch-site", "same-origin"), ("origin", "https://b.example")], false),
        ] {
            assert_eq!(is_foreign(&headers(pairs)), foreign, "{pairs:?}");
        }
    }

    #[test]
    fn browsers_want_pages_and_scripts_do_not() {
        for (pairs, page) in [
            (&[("accept", "text/html,application/xhtml+xml")][..], true),
            (&[("accept", "text/html"), ("sec-fetch-mode", "navigate")], true),
            (&[("accept", "*/*"), ("sec-fetch-mode", "cors")], false),
            (&[("accept", "text/html"), ("sec-fetch-mode", "cors")], false),
            (&[("accept", "application/json")], false),
            (&[], false),
        ] {
            assert_eq!(wants_page(&headers(pairs)), page, "{pairs:?}");
        }
    }
}
