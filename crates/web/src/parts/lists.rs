//! What lists have in common: a way to the next page, and fields to filter by.

use maud::{Markup, html};

use crate::format;
use crate::query::Query;
use crate::view::View;

/// How many rows a page of a list has.
pub const ROWS_MAX: usize = 100;

/// The way to the next page of a list, and back to its beginning.
pub fn pager(view: &View, next: Option<&str>) -> Markup {
    let is_first = view.query.get("after").is_none();
    html! {
        @if next.is_some() || !is_first {
            footer.pager {
                @if !is_first { a.btn.small href=(view.query.without("after").at(&view.path)) { "First page" } }
                @if let Some(next) = next { a.btn.small href=(view.here_with("after", next)) rel="next" { "Next page" } }
            }
        }
    }
}

/// A filter of a list: a form whose fields are in the address.
pub fn filters(view: &View, fields: &[&str], content: Markup) -> Markup {
    let asked = fields.iter().any(|field| view.query.get(field).is_some());
    let cleared = fields.iter().fold(view.query.without("after"), |query, field| query.without(field));
    html! {
        form.filters method="get" action=(view.path) role="search" {
            @if let Some(namespace) = view.query.get("ns") { input type="hidden" name="ns" value=(namespace); }
            (content)
            button.btn { "Filter" }
            @if asked { a.btn.ghost href=(cleared.at(&view.path)) { "Clear" } }
        }
    }
}

/// A field of a filter.
pub fn filter_text(query: &Query, name: &str, label: &str) -> Markup {
    html! {
        input.input type="search" name=(name) value=(query.get(name).unwrap_or_default()) placeholder=(label)
            aria-label=(label) dir="auto";
    }
}

/// A choice of a filter: values and what they are called. The first one is no filter.
pub fn filter_choice(query: &Query, name: &str, label: &str, choices: &[(&str, &str)]) -> Markup {
    let chosen = query.get(name).unwrap_or_default();
    html! {
        select.input name=(name) aria-label=(label) {
            @for (value, word) in choices { option value=(value) selected[*value == chosen] { (format::visible(word)) } }
        }
    }
}

/// A field of a form: its label, the input, which has this id, and a hint.
pub fn field(id: &str, label: &str, hint: &str, input: Markup) -> Markup {
    html! {
        div.field {
            label for=(id) { (label) }
            (input)
            @if !hint.is_empty() { p.hint { (hint) } }
        }
    }
}

/// A field for a short text.
pub fn text_field(name: &str, label: &str, hint: &str, value: &str, is_required: bool) -> Markup {
    let id = format!("field-{name}");
    let input =
        html! { input.input id=(id) name=(name) value=(value) required[is_required] dir="auto" autocomplete="off"; };
    field(&id, label, hint, input)
}
