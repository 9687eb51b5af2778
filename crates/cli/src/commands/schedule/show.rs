//! Schedules and their fires as tables.

use baton::proto::{NextFires, ScheduleFires, SchedulePage, ScheduleView};
use baton_core::schedule::Overlap;

use crate::duration;
use crate::output::{Column, Look, Table, or_dash};

fn overlap(overlap: Overlap) -> &'static str {
    match overlap {
        Overlap::Allow => "allow",
        Overlap::Skip => "skip",
        Overlap::BufferOne => "buffer-one",
        Overlap::CancelPrevious => "cancel-previous",
    }
}

pub(super) fn page(page: &SchedulePage, look: Look) -> Table {
    let mut table = Table::of([
        Column::namespace(page.schedules.iter().map(|schedule| schedule.namespace.as_str())),
        Column::key("schedule"),
        Column::text("cron"),
        Column::name("zone"),
        Column::name("type"),
        Column::name("queue").extra(),
        Column::state("state"),
        Column::age("last"),
        Column::age("next"),
        Column::number("fired").extra(),
        Column::number("left out").extra(),
        Column::text("note").extra(),
    ]);
    for schedule in &page.schedules {
        table.row([
            schedule.namespace.clone(),
            schedule.id.clone(),
            schedule.cron.clone(),
            schedule.time_zone.clone(),
            schedule.run.kind.clone(),
            schedule.run.queue.clone(),
            if schedule.paused { "paused" } else { "active" }.to_owned(),
            or_dash(schedule.last_fire.map(|at| look.age(at))),
            or_dash(schedule.next_fires.first().map(|at| look.now.ahead(*at))),
            schedule.fired.to_string(),
            schedule.left_out.to_string(),
            schedule.note.clone(),
        ]);
    }
    table
}

pub(super) fn one(schedule: &ScheduleView, look: Look) -> String {
    let mut table = Table::plain();
    table.field("schedule", Some(&schedule.id));
    table.field("namespace", Some(&schedule.namespace));
    table.field("cron", Some(&schedule.cron));
    table.field("zone", Some(&schedule.time_zone));
    table.field("paused", Some(if schedule.paused { "yes" } else { "no" }));
    table.field("note", Some(&schedule.note).filter(|note| !note.is_empty()));
    table.field(if schedule.run.workflow { "workflow" } else { "type" }, Some(&schedule.run.kind));
    table.field("queue", Some(&schedule.run.queue));
    table.field("input", schedule.run.input.as_ref().map(|input| input.get()));
    table.field("overlap", Some(overlap(schedule.overlap)));
    table.field("jitter", Some(schedule.jitter_ms).filter(|ms| *ms > 0).map(duration::show));
    table.field("max catchup", Some(schedule.max_catchup));
    table.field("created", Some(look.moment(schedule.created_at)));
    table.field("last fire", schedule.last_fire.map(|at| look.moment(at)));
    table.field("last run", schedule.last_run.as_ref());
    table.field("waits", schedule.waiting_fire.map(|at| look.moment(at)));
    table.field("fired", Some(schedule.fired));
    table.field("left out", Some(schedule.left_out));
    for (index, fire) in schedule.next_fires.iter().enumerate() {
        table.field(if index == 0 { "next" } else { "" }, Some(look.moment(*fire)));
    }
    table.render(look)
}

pub(super) fn fires(page: &ScheduleFires, look: Look) -> Table {
    let mut table = Table::of([
        Column::name("fire"),
        Column::text("what"),
        Column::id("run"),
        Column::state("state"),
        Column::age("carried out"),
    ]);
    for fire in &page.fires {
        table.row([
            fire.fire_at.to_string(),
            match fire.missed {
                Some(1) | None => fire.what.clone(),
                Some(count) => format!("{} ({count} up to then)", fire.what),
            },
            or_dash(fire.run_id.as_ref().map(|run| look.id(run))),
            or_dash(fire.state.map(|state| state.as_str())),
            look.age(fire.at),
        ]);
    }
    table
}

/// One moment a line, as other programs take it.
pub(super) fn next(next: &NextFires, _: Look) -> Table {
    let mut table = Table::plain();
    next.fires.iter().for_each(|fire| table.row([fire]));
    table
}
