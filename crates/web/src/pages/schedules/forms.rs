//! What is done to schedules: made, changed, paused, run, made up for, removed.

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use baton_core::Millis;
use baton_core::cron::Cron;
use baton_core::schedule::Overlap;
use baton_proto::{ChangeSchedule, CreateSchedule, ScheduleView, ScheduledRun};
use baton_server::service::schedules::{self, by_hand, control, read};
use baton_server::{App, Error, Scope};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde_json::value::RawValue;

use crate::ask::{self, Asking};
use crate::format::{self, Precision};
use crate::forms::Form;
use crate::page::Entry;
use crate::parts::{self, Dialog};
use crate::query::escape;
use crate::view::View;

/// Fires that a preview shows.
const PREVIEWED: usize = 5;
/// From so many fires on, their number has to be typed before they are made up for.
const TYPED_FROM: usize = 100;
/// What happens to a fire while the run before it lives.
const OVERLAPS: [(&str, Overlap, &str); 4] = [
    ("allow", Overlap::Allow, "start beside it"),
    ("skip", Overlap::Skip, "leave it out"),
    ("buffer_one", Overlap::BufferOne, "let one wait for its end"),
    ("cancel_previous", Overlap::CancelPrevious, "cancel the run before"),
];

/// Forms about schedules.
pub fn forms(router: Router<App>) -> Router<App> {
    router
        .route("/form/schedules/new", get(ask_new).post(create))
        .route("/form/schedules/preview", get(preview))
        .route("/form/schedules/{id}/edit", get(ask_edit).post(edit))
        .route("/form/schedules/{id}/pause", post(pause))
        .route("/form/schedules/{id}/resume", post(resume))
        .route("/form/schedules/{id}/run", get(ask_run).post(run))
        .route("/form/schedules/{id}/backfill", get(ask_backfill).post(backfill))
        .route("/form/schedules/{id}/remove", get(ask_remove).post(remove))
}

/// The words for what happens to overlapping fires.
pub fn overlap_words(overlap: Overlap) -> &'static str {
    OVERLAPS.iter().find(|(_, known, _)| *known == overlap).map_or("", |(_, _, words)| words)
}

fn path_of(id: &str) -> String {
    format!("/schedules/{}", escape(id))
}

/// Shows the form of a schedule that is there.
async fn about(
    asking: &Asking,
    id: &str,
    verb: &str,
    dialog: impl FnOnce(&ScheduleView) -> Dialog<'static>,
) -> Response {
    let view = &asking.view;
    let known = read::get(&view.app, &view.caller, &view.namespace, id);
    let action = format!("/form{}/{verb}", path_of(id));
    let from = view.href("/schedules");
    asking.about(Entry::Schedules, ("Schedules", &from), &action, Scope::Submit, known, dialog).await
}

// ---- make and change

fn fields(view: &View, known: Option<&ScheduleView>) -> Markup {
    let cron = known.map_or("0 3 * * *", |known| known.cron.as_str());
    let own_zone = view.zone.iana_name().unwrap_or("UTC");
    let zone = known.map_or(own_zone, |known| known.time_zone.as_str());
    let run = known.map(|known| &known.run);
    let input = run.and_then(|run| run.input.as_deref()).map_or("", RawValue::get);
    let overlap = known.map_or(Overlap::Allow, |known| known.overlap);
    let jitter = known.map_or(0, |known| known.jitter_ms);
    html! {
        @if known.is_none() { (parts::text_field("id", "Name", "Unique in its namespace.", "", true)) }
        div.two {
            (parts::field("field-cron", "When", "Minute, hour, day of month, month, day of week. With six, a second first.", html! {
                input.input.mono id="field-cron" name="cron" value=(cron) required autocomplete="off" data-preview="/form/schedules/preview";
            }))
            (parts::field("field-zone", "In the time zone", "An IANA name, like Europe/Berlin.", html! {
                input.input id="field-zone" name="time_zone" value=(zone) required autocomplete="off" data-preview="/form/schedules/preview";
            }))
        }
        div.preview aria-live="polite" { (previewed(view, cron, zone)) }
        div.two {
            (parts::text_field("type", "Starts runs of the type", "", run.map_or("", |run| &run.kind), true))
            (parts::text_field("queue", "On the queue", "", run.map_or("default", |run| &run.queue), true))
        }
        div.checks { label { input type="checkbox" name="workflow" value="1" checked[run.is_some_and(|run| run.workflow)]; "It is a workflow" } }
        (parts::field("field-input", "Input", "JSON; empty for none.", html! {
            textarea.input.mono id="field-input" name="input" rows="3" { (input) }
        }))
        div.two {
            (parts::field("field-overlap", "While the run before lives", "", html! {
                select.input id="field-overlap" name="overlap" {
                    @for (word, value, words) in OVERLAPS { option value=(word) selected[value == overlap] { (words) } }
                }
            }))
            (parts::text_field("jitter_ms", "Late by chance, at most", "Spreads what fires together: 30s, 5m. 0: never late.",
                &if jitter == 0 { "0".to_owned() } else { format!("{jitter}ms") }, false))
        }
        (parts::text_field("note", "Note", "", known.map_or("", |known| &known.note), false))
    }
}

/// The run that a form describes. What the form does not have stays as it is.
fn run_of(form: &Form, known: Option<ScheduledRun>) -> Result<ScheduledRun, Error> {
    let kind = form.get("type").unwrap_or_default().trim().to_owned();
    let queue = form.get("queue").unwrap_or("default").trim().to_owned();
    let input = match form.get("input").map(str::trim).filter(|text| !text.is_empty()) {
        Some(text) => {
            let read = RawValue::from_string(text.to_owned());
            Some(read.map_err(|error| Error::field("input", format!("must be JSON: {error}")))?)
        }
        None => None,
    };
    let workflow = form.get("workflow").is_some();
    Ok(ScheduledRun { queue, kind, input, workflow, ..known.unwrap_or_else(|| ScheduledRun::new("", "")) })
}

fn jitter_of(form: &Form) -> Result<u64, Error> {
    match form.get("jitter_ms").map(str::trim).unwrap_or("0") {
        "0" => Ok(0),
        text => {
            let read = baton_core::span::parse(text).ok().and_then(|span| u64::try_from(span.as_millis()).ok());
            read.ok_or_else(|| Error::field("jitter_ms", "must be 0, or a span like 30s or 5m"))
        }
    }
}

fn overlap_of(form: &Form) -> Overlap {
    let word = form.get("overlap").unwrap_or_default();
    OVERLAPS.iter().find(|(known, _, _)| *known == word).map_or(Overlap::Allow, |(_, overlap, _)| *overlap)
}

/// Errors at the fields of this form, which has those of the run beside the others.
fn at_fields(error: Error) -> Error {
    match error {
        Error::InvalidField { field, why } => {
            let field = field.strip_prefix("run.").map(str::to_owned).unwrap_or_else(|| field.into_owned());
            Error::field(field, why)
        }
        other => other,
    }
}

async fn ask_new(asking: Asking) -> Response {
    let view = &asking.view;
    let asked = view.caller.may(Scope::Submit, &view.namespace).map(|()| Dialog {
        id: "new-schedule",
        title: "New schedule",
        action: "/form/schedules/new",
        body: html! { (parts::hidden_namespace(view)) (fields(view, None)) },
        confirm: "Make it",
        is_dangerous: false,
    });
    asking.answer(Entry::Schedules, ("Schedules", &view.href("/schedules")), asked)
}

async fn create(State(app): State<App>, form: Form) -> Response {
    let id = form.get("id").unwrap_or_default().trim();
    let of = form.about(&path_of(id));
    let made = async {
        let wanted = CreateSchedule {
            namespace: of.namespace.to_owned(),
            time_zone: form.get("time_zone").map(|zone| zone.trim().to_owned()),
            jitter_ms: Some(jitter_of(&form)?),
            overlap: Some(overlap_of(&form)),
            note: form.get("note").unwrap_or_default().to_owned(),
            ..CreateSchedule::new(id, form.get("cron").unwrap_or_default(), run_of(&form, None)?)
        };
        schedules::create(&app, of.caller, wanted).await.map_err(at_fields)
    };
    let said = made.await.map(|(made, is_new)| match is_new {
        true => format!("The schedule {} is there.", made.id),
        false => format!("The schedule {} was there already, the same.", made.id),
    });
    form.answer(said, &of.next)
}

async fn ask_edit(asking: Asking, Path(id): Path<String>) -> Response {
    about(&asking, &id, "edit", |known| Dialog {
        id: "edit-schedule",
        title: "Edit the schedule",
        action: "",
        body: html! { p { bdi.b { (format::visible(&known.id)) } } (fields(&asking.view, Some(known))) },
        confirm: "Save",
        is_dangerous: false,
    })
    .await
}

async fn edit(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    let of = form.about(&path_of(&id));
    let changed = async {
        let known = read::get(&app, of.caller, of.namespace, &id).await?;
        let wanted = ChangeSchedule {
            cron: form.get("cron").map(str::to_owned),
            time_zone: form.get("time_zone").map(|zone| zone.trim().to_owned()),
            jitter_ms: Some(jitter_of(&form)?),
            overlap: Some(overlap_of(&form)),
            run: Some(run_of(&form, Some(known.run))?),
            note: Some(form.get("note").unwrap_or_default().to_owned()),
            max_catchup: None,
        };
        schedules::change(&app, of.caller, of.namespace, &id, wanted).await.map_err(at_fields)
    };
    form.answer(changed.await.map(|_| format!("The schedule {id} is changed.")), &of.next)
}

/// What a rule means: for somebody who types one.
async fn preview(asking: Asking) -> Response {
    let view = &asking.view;
    let get = |name: &str| view.query.get(name).unwrap_or_default();
    Html(previewed(view, get("cron"), get("time_zone")).0).into_response()
}

fn previewed(view: &View, cron: &str, zone: &str) -> Markup {
    match Cron::parse(cron, zone.trim()) {
        Ok(rule) => {
            let next = rule.upcoming(view.now, PREVIEWED);
            html! {
                p { span.b { (super::in_words(cron).unwrap_or_default()) } }
                p.sm.soft {
                    @if next.is_empty() { "It would never fire." } @else { "Next: " }
                    @for (index, at) in next.iter().enumerate() {
                        @if index > 0 { ", " }
                        (format::clock(*at, view.now, &view.zone, Precision::Seconds))
                    }
                    @if !next.is_empty() { " in your time zone" }
                }
            }
        }
        Err(error) => html! { p.wrong { (error.to_string()) } },
    }
}

// ---- pause, resume, run, remove

async fn pause(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    let of = form.about(&path_of(&id));
    let paused = control::pause(&app, of.caller, of.namespace, &id, None).await;
    form.answer(paused.map(|_| format!("The schedule {id} is paused.")), &of.next)
}

async fn resume(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    let of = form.about(&path_of(&id));
    let resumed = control::resume(&app, of.caller, of.namespace, &id).await;
    form.answer(resumed.map(|_| format!("The schedule {id} fires again, from now on.")), &of.next)
}

async fn ask_run(asking: Asking, Path(id): Path<String>) -> Response {
    // A form that is sent twice starts one run.
    let key = format!("form:{}:{:016x}", asking.view.now, asking.view.app.entropy.bits());
    about(&asking, &id, "run", |known| Dialog {
        id: "run-schedule",
        title: "Run it now?",
        action: "",
        body: html! {
            input type="hidden" name="key" value=(key);
            p { "Starts a run of " bdi.b { (format::visible(&known.run.kind)) } " on " bdi.b { (format::visible(&known.run.queue)) }
                ", beside the fires of " bdi { (format::visible(&known.id)) } " and whether or not one lives." }
        },
        confirm: "Run it now",
        is_dangerous: false,
    })
    .await
}

async fn run(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    let of = form.about(&path_of(&id));
    let started = by_hand::trigger(&app, of.caller, of.namespace, &id, form.get("key")).await;
    let said = started.map(|started| format!("The run {} is submitted.", format::short_id(&started.run_id)));
    form.answer(said, &of.next)
}

async fn ask_remove(asking: Asking, Path(id): Path<String>) -> Response {
    about(&asking, &id, "remove", |known| Dialog {
        id: "remove-schedule",
        title: "Remove the schedule?",
        action: "",
        body: html! {
            p { bdi.b { (format::visible(&known.id)) } " fires no more, and what is known of its fires goes with it. Its "
                (format::counted(known.fired, "run stays", "runs stay")) "." }
        },
        confirm: "Remove it",
        is_dangerous: true,
    })
    .await
}

async fn remove(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    let of = form.about("/schedules");
    let removed = schedules::delete(&app, of.caller, of.namespace, &id).await;
    form.answer(removed.map(|()| format!("The schedule {id} is removed.")), &of.next)
}

// ---- backfill

async fn ask_backfill(asking: Asking, Path(id): Path<String>) -> Response {
    let view = &asking.view;
    let day_ago = view.now - 86_400_000;
    about(&asking, &id, "backfill", |known| Dialog {
        id: "backfill-schedule",
        title: "Make up for fires",
        action: "",
        body: html! {
            input type="hidden" name="zone" value=(view.zone.iana_name().unwrap_or("UTC"));
            p { "Starts the runs of " bdi.b { (format::visible(&known.id)) } " for a range that has passed. A fire that has started a run before does not start another." }
            div.two {
                (parts::field("field-from", "From", "", html! { input.input id="field-from" type="datetime-local" name="from" value=(local(day_ago, &view.zone)) required; }))
                (parts::field("field-to", "To", "", html! { input.input id="field-to" type="datetime-local" name="to" value=(local(view.now, &view.zone)) required; }))
            }
            p.hint { "In your time zone. The next step says how many fires that are." }
        },
        confirm: "Count them",
        is_dangerous: false,
    })
    .await
}

/// A moment as the field of a form has it.
fn local(at: Millis, zone: &TimeZone) -> String {
    let at = jiff::Timestamp::from_millisecond(at).ok().map(|at| at.to_zoned(zone.clone()));
    at.map_or_else(String::new, |at| at.strftime("%Y-%m-%dT%H:%M").to_string())
}

/// A moment of a form: in milliseconds, or as a browser writes it, in this zone.
fn moment(form: &Form, name: &'static str, zone: &TimeZone) -> Result<Millis, Error> {
    let text = form.get(name).unwrap_or_default();
    if let Ok(ms) = text.parse::<Millis>() {
        return Ok(ms);
    }
    let at = text.parse::<DateTime>().ok().and_then(|at| zone.to_zoned(at).ok());
    at.map(|at| at.timestamp().as_millisecond()).ok_or_else(|| Error::field(name, "must be a date and a time"))
}

async fn backfill(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    let of = form.about(&path_of(&id));
    let zone = form.get("zone").and_then(|name| TimeZone::get(name).ok()).unwrap_or(TimeZone::UTC);
    let counted = async {
        let (from, to) = (moment(&form, "from", &zone)?, moment(&form, "to", &zone)?);
        let fires = by_hand::would_backfill(&app, of.caller, of.namespace, &id, from, to).await?;
        Ok((from, to, fires))
    };
    let (from, to, fires) = match counted.await {
        Ok(counted) => counted,
        Err(error) => return form.refused(&error),
    };
    let typed = form.get("typed").unwrap_or_default().replace(|c: char| !c.is_ascii_digit(), "");
    let is_sure = form.get("sure").is_some() && (fires.len() < TYPED_FROM || typed == fires.len().to_string());
    if is_sure {
        let done = by_hand::backfill(&app, of.caller, of.namespace, &id, from, to).await;
        let said = done.map(|done| {
            format!(
                "{} submitted; {} had one before.",
                format::counted(done.started, "run is", "runs are"),
                done.existed
            )
        });
        return form.answer(said, &of.next);
    }
    let (Some(first), Some(last)) = (fires.first(), fires.last()) else {
        return form.refused(&Error::field("from", "begins a range without any fire of this schedule"));
    };
    let clock = |at: Millis| format::clock(at, to, &zone, Precision::Minutes);
    let count = fires.len();
    let action = format!("/form{}/backfill", path_of(&id));
    let dialog = Dialog {
        id: "backfill-sure",
        title: &format!("Make up for {}?", format::counted(count as u64, "fire", "fires")),
        action: &action,
        body: html! {
            input type="hidden" name="ns" value=(of.namespace);
            input type="hidden" name="sure" value="1";
            input type="hidden" name="zone" value=(zone.iana_name().unwrap_or("UTC"));
            input type="hidden" name="from" value=(from);
            input type="hidden" name="to" value=(to);
            p { "The first is of " b.b { (clock(*first)) } ", the last of " b.b { (clock(*last)) } "." }
            p.soft { "Those that have started a run before are left as they are." }
            @if count >= TYPED_FROM {
                (parts::field("field-typed", &format!("Type {count} to go on"), "", html! {
                    input.input id="field-typed" name="typed" inputmode="numeric" autocomplete="off" data-type-this=(count) required;
                }))
            }
        },
        confirm: "Start the runs",
        is_dangerous: false,
    };
    ask::further(&form, &dialog, &of.next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_words() {
        for overlap in [Overlap::Allow, Overlap::Skip, Overlap::BufferOne, Overlap::CancelPrevious] {
            assert!(!overlap_words(overlap).is_empty());
        }
    }

    #[test]
    fn moments_are_written_in_the_readers_zone() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        assert_eq!(local(1_699_444_800_000, &berlin), "2023-11-08T13:00");
    }
}
