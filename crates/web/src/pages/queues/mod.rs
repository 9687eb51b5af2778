//! `/queues`: is work flowing, and what limits it?

mod detail;
mod forms;
mod row;

use baton_proto::QueueView;
use baton_server::service::coverage::{self, COUNTED_MAX, Coverage, Flow};
use baton_server::service::statistics::{self, By, Wanted};
use baton_server::{Error, Page as StorePage, service};
use maud::{Markup, html};

pub use self::detail::page as one;
pub use self::forms::forms;
use self::row::table;
pub use self::row::{Row, flow_chip, oldest, since};
use crate::format;
use crate::page::{Entry, Page, part};
use crate::parts;
use crate::view::View;

/// Queues on a page.
const PAGE_QUEUES: usize = 100;

/// The page.
pub async fn page(view: &View) -> Result<Page, Error> {
    let after = view.query.get("after").and_then(|after| after.parse().ok());
    let page = StorePage { after, limit: PAGE_QUEUES };
    let (queues, next, total) =
        service::queues::counted(&view.app, &view.caller, Some(&view.namespace), page, COUNTED_MAX).await?;
    if queues.is_empty() {
        return Ok(Page::new(Entry::Queues, "Queues", part("queues", &nothing(view))));
    }
    let rows = rows(view, queues).await?;
    let next = next.map(|id| id.to_string());
    let chosen = rows.iter().find(|row| row.is_trouble());
    let main = html! {
        (part("head", &html! {
            div.page-head id="head" {
                span.soft {
                    (format::counted(total as u64, "queue", "queues")) " of " b.b dir="auto" { (format::visible(&view.namespace)) }
                }
            }
        }))
        div.stack {
            (part("queues", &html! {
                section.panel id="queues" aria-label="Queues" {
                    (table(view, &rows, chosen.map(|row| row.queue.name.as_str())))
                    (parts::pager(view, next.as_deref()))
                    @if view.may(baton_server::Scope::Admin) {
                        footer {
                            "Numbers with a dashed line can be changed in place: Enter saves, Esc leaves, and the audit log has who did it."
                        }
                    }
                }
            }))
            @if let Some(row) = chosen { (detail::below(view, row).await?) }
        }
    };
    Ok(Page::new(Entry::Queues, "Queues", main).with_tools(parts::ranges(view)))
}

/// Queues with what is known of them besides.
pub async fn rows(view: &View, queues: Vec<QueueView>) -> Result<Vec<Row>, Error> {
    let names: Vec<String> = queues.iter().map(|queue| queue.name.clone()).collect();
    let mut coverage = coverage::of(&view.app, &view.caller, &view.namespace, &names).await?;
    let wanted = Wanted {
        namespace: Some(view.namespace.clone()),
        series: Some("ready".into()),
        by: Some(By::Queue),
        limit: Some(statistics::LIMIT_MAX),
        range: Some(parts::chosen_range(view).range),
        points: Some(parts::chosen_range(view).points),
        ..Wanted::default()
    };
    let mut depths = statistics::get(&view.app, &view.caller, wanted).await?.series;
    let rows = queues.into_iter().map(|mut queue| {
        let coverage = coverage.remove(&queue.name).unwrap_or_else(Coverage::default);
        let flow = Flow::in_namespace(&view.app, &queue, &coverage);
        let is_it = |series: &&mut baton_proto::Series| series.queue.as_deref() == Some(queue.name.as_str());
        let depth = depths.iter_mut().find(is_it).map(|series| std::mem::take(&mut series.values));
        let depth: Vec<Option<f64>> = depth.unwrap_or_default();
        if queue.ready >= COUNTED_MAX {
            // Nobody counts on for a page: the last look at all queues has.
            let last = depth.iter().rev().flatten().next().copied().unwrap_or_default();
            queue.ready = queue.ready.max(last as u64);
        }
        Row { queue, coverage, flow, depth }
    });
    Ok(rows.collect())
}

fn nothing(view: &View) -> Markup {
    let more = html! {
        p.soft { "A queue is made by its first run. Give one something to do:" }
        (parts::command(&view.command("run submit greet --queue mail --input '\"hello\"'", true)))
        p.soft { "and start somebody who does it, in another terminal:" }
        (parts::command(&view.command("worker run --queue mail --type greet --exec 'cat'", true)))
    };
    html! { section.panel id="queues" { (parts::empty("queue", "There are no queues yet.", more)) } }
}
