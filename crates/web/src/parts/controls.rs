//! Buttons, dialogs, chips and what stands where there is nothing.

use baton_server::Error;
use maud::{Markup, html};

use crate::format;
use crate::session::{CSRF, CSRF_MARK};
use crate::view::View;

/// An icon of the sheet at the beginning of each page.
pub fn icon(name: &str) -> Markup {
    html! { svg.i aria-hidden="true" { use href={ "#i-" (name) } {} } }
}

/// Why something waits: a chip with the tone `bad`, `warn`, `sleep` or none.
pub fn chip(tone: &str, icon_name: &str, text: &str) -> Markup {
    let class = if tone.is_empty() { "chip".to_owned() } else { format!("chip {tone}") };
    html! { span class=(class) { (icon(icon_name)) span { (text) } } }
}

/// The field that shows that a form is of this session.
pub fn hidden_csrf() -> Markup {
    html! { input type="hidden" name=(CSRF) value=(CSRF_MARK); }
}

/// The field that says which namespace a form is about.
pub fn hidden_namespace(view: &View) -> Markup {
    html! { input type="hidden" name="ns" value=(view.namespace); }
}

/// A command to copy.
pub fn command(text: &str) -> Markup {
    let shown = format::visible(text);
    html! {
        div.cmd {
            code.code { (unbroken(&shown)) }
            button.btn.small.icon.ghost type="button" data-do="copy" data-text=[(shown != text).then_some(text)] aria-label="Copy" { (icon("copy")) }
        }
    }
}

/// A command whose options are broken between lines only before them: `--` and `data` would read as two words.
fn unbroken(text: &str) -> Markup {
    html! {
        @for (index, piece) in text.split(' ').enumerate() {
            @if index > 0 { " " }
            @if piece.starts_with('-') { span.nowrap { (piece) } } @else { (piece) }
        }
    }
}

/// A short text as code, with control characters shown.
pub fn code(text: &str) -> Markup {
    html! { code dir="auto" { (format::visible(text)) } }
}

/// A dialog with a form.
pub struct Dialog<'a> {
    /// Its id, at which buttons point.
    pub id: &'a str,
    /// What it asks.
    pub title: &'a str,
    /// Where the form goes.
    pub action: &'a str,
    /// What happens then.
    pub body: Markup,
    /// What the button says.
    pub confirm: &'a str,
    /// Whether the button ends something for good.
    pub is_dangerous: bool,
}

/// A dialog, closed until a button opens it.
pub fn dialog(dialog: &Dialog<'_>) -> Markup {
    let title_id = format!("{}-title", dialog.id);
    let class = if dialog.is_dangerous { "btn danger primary" } else { "btn primary" };
    html! {
        dialog id=(dialog.id) aria-labelledby=(title_id) {
            form method="post" action=(dialog.action) {
                (hidden_csrf())
                header id=(title_id) { (dialog.title) }
                div.body.stack { (dialog.body) }
                footer {
                    button.btn type="button" data-do="close" { "Leave it" }
                    button class=(class) { (dialog.confirm) }
                }
            }
        }
    }
}

/// A button that opens a dialog which asks first, and the dialog.
pub fn confirm(label: &str, class: &str, asked: &Dialog<'_>) -> Markup {
    html! {
        button class={ "btn " (class) } type="button" data-do="open" data-what={ "#" (asked.id) } { (label) "…" }
        (dialog(asked))
    }
}

/// What stands where there is nothing.
pub fn empty(icon_name: &str, title: &str, more: Markup) -> Markup {
    html! {
        div.body.empty {
            (icon(icon_name))
            p.b { (title) }
            (more)
        }
    }
}

/// A panel whose content could not be loaded; the rest of the page stays.
pub fn panel_error(error: &Error) -> Markup {
    let request = baton_server::current_request_id();
    html! {
        div.body.empty {
            span.c-bad { (icon("bad")) }
            p.b { "This could not be loaded." }
            p.soft {
                (error.to_string()) "."
                @if let Some(id) = request { " Request " code { (id) } "." }
            }
            a.btn href="" { "Try again" }
        }
    }
}
