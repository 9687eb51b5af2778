//! How builds look to people.

use baton::proto::{BuildPage, BuildView};

use super::text;
use crate::output::{Table, or_dash};

/// A list of builds.
pub fn page(page: &BuildPage) -> String {
    let mut table = Table::new(&["id", "platform", "project", "status", "priority", "submitted", "ended", "worker"]);
    for build in page.builds.iter().map(|listed| &listed.build) {
        table.row([
            build.id.clone(),
            build.platform.clone(),
            or_dash(build.project.as_ref()),
            build.status.as_str().to_owned(),
            build.priority.to_string(),
            build.submitted_at.to_string(),
            or_dash(build.completed_at),
            or_dash(build.worker_id.as_ref()),
        ]);
    }
    let mut text = format!("{table}\n{} of {}\n", page.builds.len(), page.total);
    if let Some(cursor) = &page.next_cursor {
        text.push_str(&format!("\nmore: --cursor {cursor}\n"));
    }
    text
}

/// One build with everything that is known of it.
pub fn one(build: &BuildView) -> String {
    let mut table = Table::plain();
    table.field("id", Some(&build.id));
    table.field("platform", Some(&build.platform));
    table.field("project", build.project.as_ref());
    table.field("status", Some(build.status.as_str()));
    table.field("error", build.error_message.as_ref());
    table.field("place in the queue", build.queue_position);
    table.field("priority", Some(build.priority));
    table.field("worker", build.worker_id.as_ref());
    table.field("attempts", Some(build.attempts));
    table.field("retry of", build.original_build_id.as_ref());
    table.field("submitted", Some(build.submitted_at));
    table.field("started", build.started_at);
    table.field("ended", build.completed_at);
    for file in &build.files {
        table.field(&file.kind, Some(format!("{}, {}, sha-256 {}", file.name, text::bytes(file.size), file.sha256)));
    }
    table.to_string()
}
