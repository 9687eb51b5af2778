//! How bulk operations look to people.

use baton::proto::{BulkFilter, BulkPage, BulkView};

use crate::output::{Column, Look, Table, or_dash};

/// A list of operations.
pub fn page(page: &BulkPage, look: Look) -> Table {
    let mut table = Table::of([
        Column::id("id"),
        Column::namespace(page.operations.iter().map(|one| one.namespace.as_deref().unwrap_or("*"))),
        Column::name("action"),
        Column::state("state"),
        Column::number("matched"),
        Column::number("done"),
        Column::number("skipped"),
        Column::number("failed"),
        Column::age("age"),
        Column::text("filter"),
        Column::name("by").extra(),
        Column::text("reason").extra(),
    ]);
    for one in &page.operations {
        table.row([
            look.id(&one.id),
            one.namespace.clone().unwrap_or_else(|| "*".into()),
            one.action.clone(),
            state(one),
            or_dash(one.matched),
            one.done.to_string(),
            one.skipped.to_string(),
            one.failed.to_string(),
            look.age(one.created_at),
            filter(&one.filter),
            one.created_by.clone(),
            or_dash(one.reason.as_ref()),
        ]);
    }
    table
}

fn state(operation: &BulkView) -> String {
    if operation.stopping { "stopping".into() } else { operation.state.clone() }
}

/// One operation with everything that is known of it.
pub fn operation(operation: &BulkView, look: Look) -> String {
    let mut table = Table::plain();
    table.field("id", Some(&operation.id));
    table.field("action", Some(&operation.action));
    table.field("namespace", Some(operation.namespace.as_deref().unwrap_or("all")));
    table.field("filter", Some(filter(&operation.filter)));
    table.field("state", Some(state(operation)));
    table.field("waits for", operation.waits_for.as_ref());
    table.field("matched", operation.matched);
    table.field("done", Some(operation.done));
    table.field("skipped", Some(operation.skipped));
    table.field("failed", Some(operation.failed));
    table.field("rate", Some(format!("at most {} a second", operation.rate_per_second)));
    table.field("reason", operation.reason.as_ref());
    table.field("created by", Some(&operation.created_by));
    table.field("created", Some(look.moment(operation.created_at)));
    table.field("ended", operation.ended_at.map(|at| look.moment(at)));
    let mut text = table.render(look);
    for error in &operation.errors {
        text.push_str(&format!("\n{} {}: {}", error.run_id, error.code, error.error));
    }
    text
}

/// Which runs, in few words.
pub fn filter(filter: &BulkFilter) -> String {
    let words = [
        ("namespace", filter.namespace.clone()),
        ("queue", filter.queue.clone()),
        ("type", filter.kind.clone()),
        ("state", Some(filter.state.join(",")).filter(|states| !states.is_empty())),
        ("worker", filter.worker.clone()),
        ("key", filter.key.clone()),
        ("submitted after", filter.submitted_after.map(|at| at.to_string())),
        ("submitted before", filter.submitted_before.map(|at| at.to_string())),
        ("id ends with", filter.id_suffix.clone()),
    ];
    let said = words.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", value?)));
    said.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_said_in_the_words_of_its_flags() {
        let some = BulkFilter {
            queue: Some("mail".into()),
            state: vec!["pending".into(), "sleeping".into()],
            ..BulkFilter::default()
        };
        assert_eq!(filter(&some), "queue mail, state pending,sleeping");
        assert_eq!(filter(&BulkFilter::default()), "");
    }
}
