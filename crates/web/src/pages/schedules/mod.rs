//! `/schedules`: what starts runs by itself, how that went, and when it is next. `/schedules/{name}` is one of them.

mod calendar;
mod forms;
mod one;

use baton_proto::{ScheduleFire, ScheduleView};
use baton_server::service::lists::Phase;
use baton_server::service::schedules::read::{self, PastFire};
use baton_server::{Error, Page as Rows, Scope};
use maud::{Markup, html};

use crate::ask;
use crate::format::{self, Precision};
use crate::page::{Entry, Page, part};
use crate::parts::{self, icon};
use crate::query::escape;
use crate::view::View;

pub use forms::forms;
pub use one::page as one;

/// How many schedules a page has.
const SCHEDULES_MAX: usize = 50;
/// How many fires a row shows.
const FIRES_SHOWN: usize = 30;

/// The page.
pub async fn page(view: &View) -> Result<Page, Error> {
    let after = view.query.get("after").map(|id| (view.namespace.clone(), id.to_owned()));
    let rows = Rows { after, limit: SCHEDULES_MAX };
    let shown = read::list_with_fires(&view.app, &view.caller, &view.namespace, rows, FIRES_SHOWN).await?;
    let next = shown.last().filter(|_| shown.len() == SCHEDULES_MAX).map(|(last, _)| last.id.as_str());
    let main = html! {
        div.stack {
            div.page-head {
                p.lead { (said(view, &shown)) }
                @if view.may(Scope::Submit) {
                    div.end { (ask::link(view, "primary", "/form/schedules/new", "New schedule")) }
                }
            }
            section.panel aria-label="Schedules" {
                (part("schedules-list", &list(view, &shown)))
                (parts::pager(view, next))
            }
            @if !shown.is_empty() { (part("schedules-week", &calendar::week(view, &shown))) }
        }
    };
    Ok(Page::new(Entry::Schedules, "Schedules", main))
}

fn said(view: &View, shown: &[(ScheduleView, Vec<PastFire>)]) -> Markup {
    let paused = shown.iter().filter(|(schedule, _)| schedule.paused).count();
    let failed =
        shown.iter().filter(|(_, fires)| fires.first().is_some_and(|last| outcome(&last.fire) == Outcome::Failed));
    let next = shown.iter().filter_map(|(schedule, _)| Some((schedule.next_fires.first()?.0, &schedule.id))).min();
    let failed: Vec<&ScheduleView> = failed.map(|(schedule, _)| schedule).collect();
    html! {
        @match failed.as_slice() {
            [] => {}
            [one] => { "The last run of " a.b href=(address(view, &one.id)) dir="auto" { (format::visible(&one.id)) } " failed. " }
            many => { b.b { "The last runs of " (many.len()) " schedules failed. " } }
        }
        @if let Some((at, id)) = next {
            "Next is " a href=(address(view, id)) dir="auto" { (format::visible(id)) } ", " (parts::ago(view, at)) ". "
        } @else if shown.is_empty() {
            "Nothing starts runs by itself here."
        }
        @if paused > 0 { (paused) " of " (shown.len()) (if paused == 1 { " is" } else { " are" }) " paused." }
    }
}

/// The address of a schedule.
fn address(view: &View, id: &str) -> String {
    view.href(&format!("/schedules/{}", escape(id)))
}

fn list(view: &View, shown: &[(ScheduleView, Vec<PastFire>)]) -> Markup {
    html! {
        div.scroll-x id="schedules-list" {
            @if shown.is_empty() {
                (parts::empty("cal", "No schedule yet.", html! {
                    p.soft { "A schedule starts a run at each of its times, once, whatever fails meanwhile." }
                    (parts::command(&view.command("schedule create nightly --cron '0 3 * * *' --type report", true)))
                }))
            } @else {
                table {
                    thead { tr { th { "Schedule" } th { "When" } th { "Last " (FIRES_SHOWN) " fires" } th { "Next" } th { span.sr { "Actions" } } } }
                    tbody { @for (schedule, fires) in shown { (row(view, schedule, fires)) } }
                }
            }
        }
    }
}

fn row(view: &View, schedule: &ScheduleView, fires: &[PastFire]) -> Markup {
    html! {
        tr data-row data-key=(schedule.id) {
            td {
                a.b.cut dir="auto" href=(address(view, &schedule.id)) { (format::visible(&schedule.id)) }
                div.sm.soft.cut { (target(schedule)) }
            }
            td { (rule(schedule)) }
            td { (strip(view, fires)) }
            td { (upcoming(view, schedule)) }
            td { (actions(view, schedule)) }
        }
    }
}

/// What a schedule starts.
fn target(schedule: &ScheduleView) -> Markup {
    html! {
        (if schedule.run.workflow { "workflow " } else { "" })
        bdi { (format::visible(&schedule.run.kind)) } " on " bdi { (format::visible(&schedule.run.queue)) }
    }
}

/// A rule: in words, and as it is written.
fn rule(schedule: &ScheduleView) -> Markup {
    html! {
        div { (in_words(&schedule.cron).unwrap_or_else(|| "by its rule".into())) }
        div.sm.soft { code { (format::visible(&schedule.cron)) } " " (format::visible(&schedule.time_zone)) }
    }
}

/// A rule in words, beginning with a capital.
fn in_words(cron: &str) -> Option<String> {
    let said = baton_core::cron_words::words(cron).ok()?;
    let mut letters = said.chars();
    let first = letters.next()?.to_uppercase();
    Some(first.chain(letters).collect())
}

/// The next fires of a schedule: the first in full, the others when somebody points at it.
fn upcoming(view: &View, schedule: &ScheduleView) -> Markup {
    html! {
        @match schedule.next_fires.as_slice() {
            _ if schedule.paused => span.st.held { (icon("pause")) "paused" },
            [] => span.dim { "never again" },
            [first, rest @ ..] => {
                div { (parts::ago(view, first.0)) @if schedule.waiting_fire.is_some() { span.chip { span { "one waits" } } } }
                div.sm.soft {
                    @for (index, at) in rest.iter().enumerate() {
                        @if index > 0 { ", " }
                        (parts::clock(view, at.0, Precision::Minutes))
                    }
                }
            },
        }
    }
}

fn actions(view: &View, schedule: &ScheduleView) -> Markup {
    let form = format!("/form/schedules/{}", escape(&schedule.id));
    let turn = if schedule.paused { "resume" } else { "pause" };
    html! {
        @if view.may(Scope::Submit) {
            div.actions {
                (ask::link(view, "small", &format!("{form}/run"), "Run now"))
                form method="post" action={ (form) "/" (turn) } {
                    (parts::hidden_csrf())
                    input type="hidden" name="ns" value=(view.namespace);
                    button.btn.small { (if schedule.paused { "Resume" } else { "Pause" }) }
                }
            }
        }
    }
}

/// What became of a fire, as a bar shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Completed,
    Failed,
    Cancelled,
    Live,
    LeftOut,
    Gone,
}

fn outcome(fire: &ScheduleFire) -> Outcome {
    use baton_core::State;
    match (fire.state, fire.what.as_str()) {
        (_, "skipped" | "missed") => Outcome::LeftOut,
        (Some(State::Completed), _) => Outcome::Completed,
        (Some(State::Failed), _) => Outcome::Failed,
        (Some(State::Cancelled), _) => Outcome::Cancelled,
        (Some(State::Pending | State::Assigned | State::Running | State::Sleeping), _) => Outcome::Live,
        (None, _) => Outcome::Gone,
    }
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Outcome::Completed => "completed",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
            Outcome::Live => "under way",
            Outcome::LeftOut => "left out",
            Outcome::Gone => "not kept any more",
        }
    }

    fn icon(self) -> &'static str {
        match self {
            Outcome::Completed => parts::state_icon(Phase::Completed),
            Outcome::Failed => parts::state_icon(Phase::Failed),
            Outcome::Cancelled => parts::state_icon(Phase::Cancelled),
            Outcome::Live => parts::state_icon(Phase::Running),
            Outcome::LeftOut => "stop",
            Outcome::Gone => "plain",
        }
    }

    fn class(self) -> &'static str {
        match self {
            Outcome::Completed => "ok",
            Outcome::Failed => "bad",
            Outcome::Live => "run",
            Outcome::Cancelled | Outcome::LeftOut | Outcome::Gone => "wait",
        }
    }
}

/// How long the run of a fire took, or has taken.
fn took(view: &View, past: &PastFire) -> Option<i64> {
    let from = past.claimed_at?;
    Some((past.ended_at.unwrap_or(view.now) - from).max(0))
}

/// Width of a bar, and of the step from one to the next.
const BAR: usize = 5;
const STEP: usize = 7;
const HEIGHT: i64 = 26;

/// What a strip of bars shows, as a sentence.
fn bars_label(newest_first: &[PastFire]) -> String {
    let count = |wanted: Outcome| newest_first.iter().filter(|past| outcome(&past.fire) == wanted).count();
    format!(
        "{} fires: {} completed, {} failed, {} left out",
        newest_first.len(),
        count(Outcome::Completed),
        count(Outcome::Failed),
        count(Outcome::LeftOut)
    )
}

fn longest(view: &View, fires: &[PastFire]) -> i64 {
    fires.iter().filter_map(|past| took(view, past)).max().unwrap_or(0).max(1)
}

/// How high the bar of a fire is.
fn height(view: &View, past: &PastFire, longest: i64) -> i64 {
    4 + took(view, past).unwrap_or(0).saturating_mul(HEIGHT - 5) / longest
}

/// Fires as a small picture, the newest at the right: one shape for each outcome, so that a list of many stays small.
fn strip(view: &View, newest_first: &[PastFire]) -> Markup {
    const SHAPES: [(Outcome, &str); 6] = [
        (Outcome::Completed, "ok"),
        (Outcome::Failed, "bad"),
        (Outcome::Live, "live"),
        (Outcome::Cancelled, "off"),
        (Outcome::LeftOut, "out"),
        (Outcome::Gone, "gone"),
    ];
    let longest = longest(view, newest_first);
    let (mut shapes, mut crosses) = (vec![String::new(); SHAPES.len()], String::new());
    for (index, past) in newest_first.iter().take(FIRES_SHOWN).enumerate() {
        let (outcome, x) = (outcome(&past.fire), (FIRES_SHOWN - 1 - index) * STEP);
        let height = match outcome {
            Outcome::LeftOut | Outcome::Gone => 3,
            _ => height(view, past, longest),
        };
        let place = SHAPES.iter().position(|(known, _)| *known == outcome).unwrap_or_default();
        shapes[place].push_str(&format!("M{x} {}h{BAR}v{height}h-{BAR}z", HEIGHT - height));
        if outcome == Outcome::Failed {
            crosses.push_str(&format!("M{x} {}l{BAR} {BAR}m0-{BAR}l-{BAR} {BAR}", (HEIGHT - height).max(1) - 1));
        }
    }
    let label = bars_label(newest_first);
    html! {
        @if newest_first.is_empty() { span.dim { "none yet" } } @else {
            svg.fires role="img" aria-label=(label) width=(FIRES_SHOWN * STEP) height=(HEIGHT) viewBox={ "0 0 " (FIRES_SHOWN * STEP) " " (HEIGHT) } {
                title { (label) }
                @for ((_, class), shape) in SHAPES.iter().zip(&shapes) { @if !shape.is_empty() { path class=(class) d=(shape) {} } }
                @if !crosses.is_empty() { path.x d=(crosses) {} }
            }
        }
    }
}

/// Fires as bars, the newest at the right: height is duration, shape is outcome. Failed ones are crossed, those left out are
/// hollow, those under way are pale. Each leads to its run.
fn bars(view: &View, newest_first: &[PastFire]) -> Markup {
    let longest = longest(view, newest_first);
    let label = bars_label(newest_first);
    html! {
        @if newest_first.is_empty() { span.dim { "none yet" } } @else {
            svg.fires role="group" aria-label=(label) width=(FIRES_SHOWN * STEP) height=(HEIGHT) viewBox={ "0 0 " (FIRES_SHOWN * STEP) " " (HEIGHT) } {
                @for (index, past) in newest_first.iter().take(FIRES_SHOWN).enumerate() {
                    (bar(view, past, (FIRES_SHOWN - 1 - index) * STEP, longest))
                }
            }
        }
    }
}

fn bar(view: &View, past: &PastFire, x: usize, longest: i64) -> Markup {
    let outcome = outcome(&past.fire);
    let ms = took(view, past);
    let height = height(view, past, longest);
    let y = HEIGHT - height;
    let when = format::clock(past.fire.fire_at.0, view.now, &view.zone, Precision::Seconds);
    let title = match (outcome, past.ended_at, ms) {
        (Outcome::Live, _, _) | (_, None, _) | (_, _, None) => format!("{when}: {}", outcome.word()),
        (_, Some(_), Some(ms)) => format!("{when}: {} after {}", outcome.word(), format::duration(ms)),
    };
    let shape = html! {
        title { (title) }
        @match outcome {
            Outcome::Completed => rect.ok x=(x) y=(y) width=(BAR) height=(height) {},
            Outcome::Failed => { rect.bad x=(x) y=(y) width=(BAR) height=(height) {} path.x d={ "M" (x) " " (y.max(1) - 1) "l5 5m0-5l-5 5" } {} },
            Outcome::Live => rect.live x=(x) y=(y) width=(BAR) height=(height) {},
            Outcome::Cancelled => rect.off x=(x) y=(y) width=(BAR) height=(height) {},
            Outcome::LeftOut => circle.out cx=(x as f64 + 2.5) cy=(HEIGHT - 4) r="2" {},
            Outcome::Gone => rect.gone x=(x) y=(HEIGHT - 3) width=(BAR) height="3" {},
        }
    };
    match &past.fire.run_id {
        Some(run) => html! { a href=(view.href(&format!("/runs/{run}"))) aria-label=(title) { (shape) } },
        None => html! { g { (shape) } },
    }
}

#[cfg(test)]
mod tests {
    use baton_core::State;
    use baton_proto::Time;

    use super::*;

    #[test]
    fn outcomes_are_told_by_state_and_by_what_became_of_the_fire() {
        let fire = |what: &str, state| ScheduleFire {
            fire_at: Time(0),
            at: Time(0),
            what: what.into(),
            run_id: None,
            state,
            missed: None,
        };
        let table = [
            (fire("started", Some(State::Completed)), Outcome::Completed),
            (fire("triggered", Some(State::Failed)), Outcome::Failed),
            (fire("backfilled", Some(State::Sleeping)), Outcome::Live),
            (fire("missed", None), Outcome::LeftOut),
            (fire("skipped", None), Outcome::LeftOut),
            (fire("started", None), Outcome::Gone),
        ];
        for (fire, expected) in table {
            assert_eq!(outcome(&fire), expected, "{fire:?}");
        }
    }

    #[test]
    fn rules_begin_with_a_capital() {
        assert_eq!(in_words("*/5 * * * *").as_deref(), Some("Every 5 minutes"));
        assert_eq!(in_words("nonsense"), None);
    }
}
