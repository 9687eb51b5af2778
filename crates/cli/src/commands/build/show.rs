//! How builds look to people.

use baton::proto::{BuildPage, BuildView};

use super::text;
use crate::output::{Column, Look, Table, or_dash};

/// A list of builds.
pub fn page(page: &BuildPage, look: Look) -> Table {
    let mut table = Table::of([
        Column::id("id"),
        Column::name("platform"),
        Column::name("project"),
        Column::state("state"),
        Column::number("priority"),
        Column::number("attempts").extra(),
        Column::age("age"),
        Column::age("ended"),
        Column::id("worker"),
        Column::text("error").extra(),
    ]);
    for build in page.builds.iter().map(|listed| &listed.build) {
        table.row([
            look.id(&build.id),
            build.platform.clone(),
            or_dash(build.project.as_ref()),
            build.status.as_str().to_owned(),
            build.priority.to_string(),
            build.attempts.to_string(),
            look.age(build.submitted_at),
            or_dash(build.completed_at.map(|at| look.age(at))),
            or_dash(build.worker_id.as_ref().map(|worker| look.id(worker))),
            or_dash(build.error_message.as_ref()),
        ]);
    }
    table
}

/// One build with everything that is known of it.
pub fn one(build: &BuildView, look: Look) -> String {
    let mut table = Table::plain();
    table.field("id", Some(&build.id));
    table.field("platform", Some(&build.platform));
    table.field("project", build.project.as_ref());
    table.field("state", Some(build.status.as_str()));
    table.field("error", build.error_message.as_ref());
    table.field("place in the queue", build.queue_position);
    table.field("priority", Some(build.priority));
    table.field("worker", build.worker_id.as_ref());
    table.field("attempts", Some(build.attempts));
    table.field("retry of", build.original_build_id.as_ref());
    table.field("submitted", Some(look.moment(build.submitted_at)));
    table.field("started", build.started_at.map(|at| look.moment(at)));
    table.field("ended", build.completed_at.map(|at| look.moment(at)));
    for file in &build.files {
        table.field(&file.kind, Some(format!("{}, {}, sha-256 {}", file.name, text::bytes(file.size), file.sha256)));
    }
    table.render(look)
}
