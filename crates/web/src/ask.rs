//! Forms that are asked for: a dialog over the page where there is the script, a page of its own without it.

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use baton_server::{App, Error, Scope};
use http::StatusCode;
use http::request::Parts;
use maud::{Markup, html};

use crate::forms::{Form, is_scripted};
use crate::page::{self, Entry, Page};
use crate::pages::{refusal, written};
use crate::parts::{self, Dialog};
use crate::session::{CSRF_MARK, Visitor};
use crate::view::View;

/// Somebody who asks for a form.
pub struct Asking {
    /// What it is asked for on.
    pub view: View,
    csrf: String,
    is_scripted: bool,
}

impl FromRequestParts<App> for Asking {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Asking, Response> {
        let visitor = <Visitor as FromRequestParts<App>>::from_request_parts(parts, app).await?;
        let view = View::of(app, &visitor, &parts.headers, &parts.uri).await.map_err(IntoResponse::into_response)?;
        Ok(Asking { view, csrf: visitor.csrf, is_scripted: is_scripted(&parts.headers) })
    }
}

impl Asking {
    /// The form, or why there is none. `from` is the page that one comes from: its name and address.
    pub fn answer(&self, entry: Entry, from: (&str, &str), asked: Result<Dialog<'_>, Error>) -> Response {
        match asked {
            Ok(dialog) if self.is_scripted => self.fragment(&parts::dialog(&dialog)),
            Ok(dialog) => self.whole(entry, from, &dialog),
            Err(error) if self.is_scripted => {
                let status = error.clone().into_response().status();
                (status, axum::Json(serde_json::json!({ "error": error.to_string() }))).into_response()
            }
            Err(error) => refusal(&error),
        }
    }

    /// The form about something that is there, once the caller may use it and it was read. It names the namespace.
    pub async fn about<T>(
        &self,
        entry: Entry,
        from: (&str, &str),
        action: &str,
        scope: Scope,
        read: impl Future<Output = Result<T, Error>>,
        dialog: impl FnOnce(&T) -> Dialog<'static>,
    ) -> Response {
        let known = match self.view.caller.may(scope, &self.view.namespace) {
            Ok(()) => read.await,
            Err(error) => Err(error),
        };
        let asked = known.as_ref().map_err(Clone::clone).map(|known| {
            let dialog = dialog(known);
            let body = html! { (parts::hidden_namespace(&self.view)) (dialog.body) };
            Dialog { action, body, ..dialog }
        });
        self.answer(entry, from, asked)
    }

    fn fragment(&self, dialog: &Markup) -> Response {
        axum::Json(serde_json::json!({ "html": dialog.0.replace(CSRF_MARK, &self.csrf) })).into_response()
    }

    fn whole(&self, entry: Entry, (name, address): (&str, &str), dialog: &Dialog<'_>) -> Response {
        let main = html! {
            form.panel.ask method="post" action=(dialog.action) data-plain="" {
                (parts::hidden_csrf())
                div.body.stack { (dialog.body) }
                footer.row {
                    button class=(if dialog.is_dangerous { "btn danger primary" } else { "btn primary" }) { (dialog.confirm) }
                    a.btn href=(address) { "Leave it" }
                }
            }
        };
        let page = Page::new(entry, dialog.title, main).below(name, address);
        let app = page::app(&self.view, &page).0.replace("<!--part ", "<!--");
        let document = page::document(&self.view, &page, &app).0.replace(CSRF_MARK, &self.csrf);
        // A form is not followed: what somebody types is theirs.
        written(StatusCode::OK, document.replacen(" data-live=", " data-form=", 1))
    }
}

/// A link that opens a form over the page.
pub fn link(view: &View, class: &str, address: &str, label: &str) -> Markup {
    html! { a class={ "btn " (class) } href=(view.href(address)) data-do="ask" { (label) "…" } }
}

/// What is shown once: in a dialog that does not close by itself, or a page that is not kept.
pub fn once(is_scripted: bool, title: &str, body: &Markup, next: &str) -> Response {
    if is_scripted {
        let dialog = html! {
            dialog id="once" aria-labelledby="once-title" data-stays="1" {
                header id="once-title" { (title) }
                div.body.stack { (body) }
                footer { button.btn.primary type="button" data-do="close" { "I have kept it" } }
            }
        };
        return axum::Json(serde_json::json!({ "html": dialog.0 })).into_response();
    }
    let main = html! {
        div.panel.stack {
            h1 { (title) }
            (body)
            a.btn.primary.wide href=(crate::forms::own_path(next)) { "I have kept it" }
        }
    };
    written(StatusCode::OK, page::plain(title, None, &main).0)
}

/// A further question, which a form was answered with: how many, before something is done to them.
pub fn further(form: &Form, dialog: &Dialog<'_>, next: &str) -> Response {
    let own = |html: &Markup| html.0.replace(CSRF_MARK, &form.visitor.csrf);
    if form.is_scripted {
        return axum::Json(serde_json::json!({ "html": own(&parts::dialog(dialog)) })).into_response();
    }
    let main = html! {
        form.panel.stack method="post" action=(dialog.action) {
            h1 { (dialog.title) }
            (parts::hidden_csrf())
            (dialog.body)
            button.btn.primary.wide { (dialog.confirm) }
            p { a.link href=(crate::forms::own_path(next)) { "Leave it" } }
        }
    };
    written(StatusCode::OK, own(&page::plain(dialog.title, None, &main)))
}
