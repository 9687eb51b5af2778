//! What pages send: forms, which say where to go on afterwards, and how it went.

use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Redirect, Response};
use baton_proto::NAMESPACE_DEFAULT;
use baton_server::{App, Caller, Error, face};
use http::header::ACCEPT;
use http::{Extensions, HeaderMap};

use crate::query::{Query, escape};
use crate::session::{CSRF, Visitor};

/// A form of somebody with a session. Comes after nothing: it authenticates before it reads the body.
pub struct Form {
    /// Who sent it.
    pub visitor: Visitor,
    /// Its fields.
    pub fields: Query,
    /// The head of its request.
    pub headers: HeaderMap,
    /// What the server knows of the request.
    pub extensions: Extensions,
    /// True when the script sent it: it wants to hear how it went instead of going somewhere.
    pub is_scripted: bool,
}

impl FromRequest<App> for Form {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Form, Response> {
        let (mut parts, body) = request.into_parts();
        let visitor = <Visitor as axum::extract::FromRequestParts<App>>::from_request_parts(&mut parts, app).await?;
        let (headers, extensions) = (parts.headers.clone(), parts.extensions.clone());
        let bytes = face::body(app, Request::from_parts(parts, body)).await.map_err(IntoResponse::into_response)?;
        let fields = Query::parse(&String::from_utf8_lossy(&bytes));
        visitor.check(&headers, fields.get(CSRF)).map_err(IntoResponse::into_response)?;
        let is_scripted = is_scripted(&headers);
        Ok(Form { visitor, fields, headers, extensions, is_scripted })
    }
}

/// What a form is about, and who sent it.
pub struct About<'a> {
    /// Who.
    pub caller: &'a Caller,
    /// The namespace of what it is about.
    pub namespace: &'a str,
    /// Where one goes on.
    pub next: String,
}

/// True for a request of the script, which wants JSON.
pub fn is_scripted(headers: &HeaderMap) -> bool {
    headers.get(ACCEPT).is_some_and(|accept| accept == "application/json")
}

impl Form {
    /// A field, if it is not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.get(name)
    }

    /// The namespace that it is about: the one it names, or the caller's own.
    pub fn namespace(&self) -> &str {
        self.get("ns").or(self.visitor.caller.namespace.as_deref()).unwrap_or(NAMESPACE_DEFAULT)
    }

    /// What it is about, when one goes on at this path of its namespace.
    pub fn about(&self, path: &str) -> About<'_> {
        let caller = &*self.visitor.caller;
        let (namespace, own) = (self.namespace(), caller.namespace.as_deref().unwrap_or(NAMESPACE_DEFAULT));
        let next = if namespace == own { path.to_owned() } else { format!("{path}?ns={}", escape(namespace)) };
        About { caller, namespace, next }
    }

    /// How it went: a sentence for the script, or the page where one goes on.
    pub fn done(&self, next: &str, said: &str) -> Response {
        match self.is_scripted {
            true => axum::Json(serde_json::json!({ "said": said, "next": next })).into_response(),
            false => Redirect::to(&own_path(next)).into_response(),
        }
    }

    /// As [`Form::done`], where the script goes on to the next page, too.
    pub fn go(&self, next: &str, said: &str) -> Response {
        match self.is_scripted {
            true => axum::Json(serde_json::json!({ "said": said, "go": own_path(next) })).into_response(),
            false => Redirect::to(&own_path(next)).into_response(),
        }
    }

    /// Why it did not go, for the script; a page that says so otherwise.
    pub fn refused(&self, error: &Error) -> Response {
        let status = error.clone().into_response().status();
        match self.is_scripted {
            true => {
                let field = match error {
                    Error::InvalidField { field, .. } => Some(field.as_ref()),
                    _ => None,
                };
                (status, axum::Json(serde_json::json!({ "error": error.to_string(), "field": field }))).into_response()
            }
            false => crate::pages::refusal(error),
        }
    }

    /// [`Form::done`] or [`Form::refused`].
    pub fn answer(&self, result: Result<String, Error>, next: &str) -> Response {
        match result {
            Ok(said) => self.done(next, &said),
            Err(error) => self.refused(&error),
        }
    }
}

/// A path of this server, whatever was asked for: nobody is sent elsewhere.
pub fn own_path(path: &str) -> String {
    let is_own = path.starts_with('/') && !path.starts_with("//") && !path.contains('\\');
    let is_own = is_own && path.bytes().all(|byte| byte.is_ascii_graphic());
    if is_own { path.to_owned() } else { "/".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_elsewhere() {
        for (asked, sent) in [
            ("/runs?q=a", "/runs?q=a"),
            ("//evil", "/"),
            ("https://evil", "/"),
            ("/\\evil", "/"),
            ("", "/"),
            ("/\t/evil", "/"),
            ("/a\nb", "/"),
            ("javascript:x", "/"),
            ("/ä", "/"),
            ("/%C3%A4", "/%C3%A4"),
        ] {
            assert_eq!(own_path(asked), sent);
        }
    }
}
