//! `/`: is anything wrong, and where do I go?

use baton_server::Error;
use maud::html;

use crate::page::{Entry, Page, part};
use crate::view::View;

/// The page.
pub async fn page(view: &View) -> Result<Page, Error> {
    let main = html! { div.stack { (part("wrong", &html! { section.panel id="wrong" { (view.now) } })) } };
    Ok(Page::new(Entry::Overview, "Overview", main))
}
