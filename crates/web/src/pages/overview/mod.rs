//! `/`: is anything wrong, and where do I go?

mod attention;
mod causes;
mod first;
mod numbers;
mod panels;

use baton_server::service::coverage::COUNTED_MAX;
use baton_server::service::statistics::{self, By, Wanted};
use baton_server::{Error, Page as StorePage, service};
use maud::html;

pub use self::first::page as start;
use crate::page::{Entry, Page, part};
use crate::pages::queues;
use crate::parts;
use crate::view::View;

/// Queues that are read, and those that are shown.
const QUEUES_READ: usize = 100;
const QUEUES_SHOWN: usize = 8;
/// Queues with a line of their own.
const LINES: usize = 3;

/// The page.
pub async fn page(view: &View) -> Result<Page, Error> {
    if let Some(first) = first::instead(view).await? {
        return Ok(first);
    }
    let range = parts::chosen_range(view);
    let attention = service::attention::get(&view.app, &view.caller, Some(&view.namespace)).await?;
    let wanted = Wanted {
        range: Some(range.range),
        points: Some(range.points),
        namespace: Some(view.namespace.clone()),
        series: Some("ready,running,completed,failed,cancelled,lost,wait.p50_ms,wait.p95_ms,workers".into()),
        by: Some(By::Queue),
        limit: Some(LINES),
        ..Wanted::default()
    };
    let found = statistics::get(&view.app, &view.caller, wanted).await?;
    let page = StorePage { after: None, limit: QUEUES_READ };
    let (all, _, total) =
        service::queues::counted(&view.app, &view.caller, Some(&view.namespace), page, COUNTED_MAX).await?;
    let mut rows = queues::rows(view, all).await?;
    let level = numbers::Level::of(&rows, total, &found);
    rows.sort_by_key(|row| (!row.is_trouble(), std::cmp::Reverse((row.queue.ready, row.queue.held))));
    rows.truncate(QUEUES_SHOWN);
    let main = html! {
        div.stack {
            (part("wrong", &attention::panel(view, &attention)))
            (part("numbers", &numbers::panel(view, &found, &level)))
            div.grid.g2 {
                (part("ended", &numbers::ended(view, &found)))
                (part("waiting", &numbers::waiting(view, &found)))
            }
            div.split {
                (part("queues", &panels::queues(view, &rows, total)))
                (part("causes", &panels::causes(view, &found).await?))
            }
            div.grid.g2 {
                (part("workers", &panels::workers(view).await?))
                (part("pools", &panels::pools(view).await?))
            }
        }
    };
    Ok(Page::new(Entry::Overview, "Overview", main).with_tools(parts::ranges(view)))
}
