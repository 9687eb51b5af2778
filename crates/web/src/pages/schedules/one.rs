//! `/schedules/{name}`: one schedule, what became of its fires, and what it will do.

use baton_proto::{ScheduleFire, ScheduleView};
use baton_server::service::schedules::read::{self, PastFire};
use baton_server::{Error, Page as Rows, Scope};
use maud::{Markup, html};

use super::forms::overlap_words;
use super::{FIRES_SHOWN, Outcome, actions, bars, in_words, outcome, target, took};
use crate::ask;
use crate::format::{self, Precision};
use crate::page::{Entry, Page, part};
use crate::parts::{self, ROWS_MAX, icon};
use crate::query::escape;
use crate::view::View;

/// The page.
pub async fn page(view: &View, id: &str) -> Result<Page, Error> {
    let schedule = read::get(&view.app, &view.caller, &view.namespace, id).await?;
    let after = view.query.get("after").and_then(|after| after.parse().ok());
    let rows = Rows { after, limit: ROWS_MAX };
    let fires = read::past_fires(&view.app, &view.caller, &view.namespace, id, rows).await?;
    let next = fires.last().filter(|_| fires.len() == ROWS_MAX).map(|last| last.number.to_string());
    let main = html! {
        div.stack {
            div.page-head {
                (part("schedule-said", &html! { p.lead id="schedule-said" { (said(view, &schedule, &fires)) } }))
                @if view.may(Scope::Submit) { div.end { (head_actions(view, &schedule)) } }
            }
            div.split {
                section.panel aria-label="Fires" {
                    header { h2 { "Fires" } span.count { (format::number(schedule.fired)) " started, " (format::number(schedule.left_out)) " left out" } }
                    (part("schedule-fires", &table(view, &fires)))
                    (parts::pager(view, next.as_deref()))
                }
                (part("schedule-facts", &facts(view, &schedule, &fires)))
            }
        }
    };
    Ok(Page::new(Entry::Schedules, schedule.id.clone(), main).below("Schedules", view.href("/schedules")))
}

fn head_actions(view: &View, schedule: &ScheduleView) -> Markup {
    let form = format!("/form/schedules/{}", escape(&schedule.id));
    html! {
        (actions(view, schedule))
        (ask::link(view, "small", &format!("{form}/backfill"), "Make up for fires"))
        (ask::link(view, "small", &format!("{form}/edit"), "Edit"))
        (ask::link(view, "small danger", &format!("{form}/remove"), "Remove"))
    }
}

fn said(view: &View, schedule: &ScheduleView, fires: &[PastFire]) -> Markup {
    let failed = fires.iter().take_while(|past| outcome(&past.fire) == Outcome::Failed).count();
    html! {
        span.b { (in_words(&schedule.cron).unwrap_or_default()) } ", " (format::visible(&schedule.time_zone)) ". "
        @if schedule.paused { "It is paused, and starts nothing until somebody resumes it. " }
        @else if let Some(next) = schedule.next_fires.first() { "Next " (parts::ago(view, next.0)) ". " }
        @else { "It fires no more. " }
        @match failed {
            0 => {}
            1 => span.c-bad { "Its last run failed. " },
            many => span.c-bad { "Its last " (many) " runs failed. " },
        }
        @if let Some(at) = schedule.waiting_fire { "The fire of " (parts::clock(view, at.0, Precision::Seconds)) " waits for the end of the run before it. " }
    }
}

fn facts(view: &View, schedule: &ScheduleView, fires: &[PastFire]) -> Markup {
    let run = &schedule.run;
    html! {
        aside.panel id="schedule-facts" aria-label="Schedule" {
            header { h2 { "Schedule" } }
            div.body.stack {
                (bars(view, &fires[..fires.len().min(FIRES_SHOWN)]))
                dl.kv {
                    dt { "Rule" } dd { code { (format::visible(&schedule.cron)) } }
                    dt { "Starts" } dd { (target(schedule)) }
                    dt { "Overlap" } dd { "while the run before lives: " (overlap_words(schedule.overlap)) }
                    dt { "Catches up" } dd { "with " (format::counted(u64::from(schedule.max_catchup), "fire", "fires")) " at most, after a downtime" }
                    @if schedule.jitter_ms > 0 { dt { "Late by" } dd { "at most " (format::duration(i64::try_from(schedule.jitter_ms).unwrap_or(i64::MAX))) } }
                    @if let Some(priority) = run.priority { dt { "Priority" } dd { (priority) } }
                    @if let Some(key) = &run.key { dt { "Key" } dd dir="auto" { (format::visible(key)) } }
                    dt { "Made" } dd { (parts::ago(view, schedule.created_at.0)) }
                    @if !schedule.note.is_empty() { dt { "Note" } dd dir="auto" { (format::visible(&schedule.note)) } }
                }
                @if !schedule.next_fires.is_empty() {
                    div {
                        h3 { "Next" }
                        ol { @for at in &schedule.next_fires { li { (parts::clock(view, at.0, Precision::Seconds)) } } }
                    }
                }
                @if let Some(input) = &run.input { div { h3 { "Input" } (parts::json_block(input.get())) } }
            }
        }
    }
}

fn table(view: &View, fires: &[PastFire]) -> Markup {
    html! {
        div.scroll-x id="schedule-fires" {
            @if fires.is_empty() {
                (parts::empty("cal", "It has not fired yet.", html! { p.soft { "Run it now, or wait for its time." } }))
            } @else {
                table {
                    thead { tr { th { "Fire" } th { "Run" } th { "Became" } th.num { "Late by" } th.num { "Took" } } }
                    tbody { @for past in fires { (row(view, past)) } }
                }
            }
        }
    }
}

fn row(view: &View, past: &PastFire) -> Markup {
    let fire = &past.fire;
    let outcome = outcome(fire);
    let late = (fire.at.0 - fire.fire_at.0).max(0);
    html! {
        tr data-row data-key=(past.number) {
            td.nowrap { (parts::clock(view, fire.fire_at.0, Precision::Seconds)) (kind(fire)) }
            td {
                @match &fire.run_id {
                    Some(run) => a.id href=(view.href(&format!("/runs/{run}"))) title=(run) { (format::short_id(run)) },
                    None => span.dim { (format::MISSING) },
                }
            }
            td { span class={ "st " (outcome.class()) } { (icon(outcome.icon())) (became(fire, outcome)) } }
            td.num.soft { @if fire.what == "started" && late >= 1_000 { (format::duration(late)) } @else { span.dim { (format::MISSING) } } }
            td.num { @if let Some(ms) = took(view, past) { (format::duration(ms)) } @else { span.dim { (format::MISSING) } } }
        }
    }
}

/// How a fire came about, where that was not the rule.
fn kind(fire: &ScheduleFire) -> Markup {
    html! {
        @match fire.what.as_str() {
            "triggered" => { " " span.chip { span { "by hand" } } },
            "backfilled" => { " " span.chip { span { "made up for" } } },
            _ => {},
        }
    }
}

fn became(fire: &ScheduleFire, outcome: Outcome) -> String {
    match (fire.what.as_str(), fire.missed) {
        ("missed", Some(count)) if count > 1 => format!("{} missed, this the newest", format::number(count)),
        ("missed", _) => "missed: no server ran".to_owned(),
        ("skipped", _) => "left out: the run before lived".to_owned(),
        _ => outcome.word().to_owned(),
    }
}
