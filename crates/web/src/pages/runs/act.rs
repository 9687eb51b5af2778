//! Acting on many runs: on those that were chosen, or on all that match a filter. What it would do is counted first.

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use baton_core::{BulkAction, Millis, RunId, State as RunState};
use baton_proto::{BulkFilter, BulkView, CreateBulk, Time};
use baton_server::service::bulk::{self, Created, THESE_MAX};
use baton_server::service::lists::{self, KeyMatch, ListFilter, Listed, Phase, PhaseCounts, SearchFrom};
use baton_server::{App, Error, Scope};
use http::{StatusCode, Uri};
use jiff::tz::TimeZone;
use maud::{Markup, html};

use super::filter::{Filter, States, kind_of};
use super::{Asked, count_of, kept_fields, row, shown_count, submit};
use crate::format;
use crate::forms::{Form, own_path};
use crate::page::{self, Entry, Page, part};
use crate::pages::{refusal, written};
use crate::parts::{self, Dialog, icon};
use crate::query::Query;
use crate::session::{CSRF_MARK, Visitor};
use crate::view::View;

/// Above so many, the number has to be typed.
const TYPED_ABOVE: u64 = 100;
/// Refused runs that are named.
const REFUSED_MAX: usize = 20;

/// Routes of what lists send.
pub fn forms(router: Router<App>) -> Router<App> {
    router
        .route("/runs/ask", post(ask))
        .route("/runs/act", post(act))
        .route("/runs/submit", post(submit::send))
        .route("/bulk/{id}/stop", post(stop))
        .route("/bulk/{id}/progress", get(progress))
}

/// The bar for what was chosen. Without the script it is always there.
pub fn bar(asked: &Asked, counts: Option<&PhaseCounts>) -> Markup {
    let all = counts.map(|counts| match asked.filter.phases.is_empty() {
        true => count_of(counts, &Phase::ALL),
        false => count_of(counts, &asked.filter.phases),
    });
    html! {
        form.bulk id="chosen" method="post" action="/runs/ask" aria-label="Selected runs" {
            (parts::hidden_csrf())
            input type="hidden" name="next" value=(asked.query.at(asked.path));
            (kept_fields(&asked.query, &["ns", "q", "state"]))
            @if let Some(kind) = asked.filter.kind { input type="hidden" name="kind" value=(super::kind_word(kind)); }
            @if let Some(since) = asked.filter.since { input type="hidden" name="since" value=(since); }
            span { b.b data-count { "0" } " selected" }
            @if asked.typed.words().is_none() {
                label.btn.small.ghost {
                    input type="checkbox" name="all" value="1" data-all;
                    " All " @if let Some(all) = all { (shown_count(all)) " " } "that match"
                }
            }
            span.sep {}
            button.btn.small name="verb" value="cancel" { "Cancel…" }
            button.btn.small name="verb" value="retry" { "Retry…" }
            button.btn.small.ghost.icon type="button" data-do="clear" aria-label="Clear selection" { (icon("x")) }
        }
    }
}

/// The namespace that a form is about.
pub fn namespace_of(form: &Form) -> String {
    let own = form.visitor.caller.namespace.clone();
    let asked = form.get("ns").map(str::to_owned);
    asked.or(own).unwrap_or_else(|| baton_proto::NAMESPACE_DEFAULT.to_owned())
}

fn verb_of(form: &Form) -> Result<BulkAction, Error> {
    let verb = form.get("verb").unwrap_or_default();
    BulkAction::parse(verb).ok_or_else(|| Error::field("verb", "must be cancel or retry"))
}

fn words(verb: BulkAction) -> (&'static str, &'static str) {
    match verb {
        BulkAction::Cancel => ("Cancel", "cancelled"),
        BulkAction::Retry => ("Retry", "retried"),
    }
}

/// What is to be acted on.
enum Chosen {
    /// These runs.
    Runs(Vec<RunId>),
    /// All that match.
    All(Box<BulkFilter>),
}

/// What would be acted on, and how many of them there are of each state.
struct Counted {
    chosen: Chosen,
    /// Phases and numbers.
    counts: Vec<(Phase, u64)>,
    /// The filter in words, where there is one.
    filter: Option<String>,
    /// Runs that were chosen and that the verb does nothing with.
    left_out: u64,
}

impl Counted {
    fn sum(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }
}

/// The filter of the list that the form was sent from, as it was at this moment.
fn filter_of(form: &Form, moment: Millis) -> ListFilter {
    let mut filter = ListFilter { namespace: namespace_of(form), ..ListFilter::default() };
    let typed = Filter::parse(form.get("q").unwrap_or_default());
    typed.fill(&mut filter, moment, &TimeZone::UTC);
    filter.kind = form.get("kind").and_then(kind_of).or(filter.kind);
    if let Some(states) = form.get("state").and_then(States::parse) {
        filter.phases = states.phases().to_vec();
    }
    // As it was read in the reader's zone.
    filter.since = form.get("since").and_then(|since| since.parse().ok()).or(filter.since);
    filter.before = Some(moment);
    filter
}

/// The phases of a filter that a verb acts on.
fn phases_for(verb: BulkAction, phases: &[Phase]) -> Vec<Phase> {
    let acts_on = |phase: &Phase| phase.is_ended() == matches!(verb, BulkAction::Retry);
    match (phases.is_empty(), verb) {
        (true, BulkAction::Retry) => vec![Phase::Failed],
        (true, BulkAction::Cancel) => Phase::ALL.into_iter().filter(acts_on).collect(),
        (false, _) => phases.iter().copied().filter(acts_on).collect(),
    }
}

/// The states of the kernel that these phases are, where they are all of them.
fn whole_states(phases: &[Phase], is_none: impl Fn(Phase) -> bool) -> Option<Vec<RunState>> {
    let made_of: [(RunState, &[Phase]); 7] = [
        (RunState::Pending, &[Phase::Waiting, Phase::Later]),
        (RunState::Assigned, &[Phase::Starting, Phase::Cancelling]),
        (RunState::Running, &[Phase::Running, Phase::Cancelling]),
        (RunState::Sleeping, &[Phase::Sleeping]),
        (RunState::Completed, &[Phase::Completed]),
        (RunState::Failed, &[Phase::Failed]),
        (RunState::Cancelled, &[Phase::Cancelled]),
    ];
    let mut states = Vec::new();
    for (state, all) in made_of {
        if !all.iter().any(|phase| phases.contains(phase)) {
            continue;
        }
        if !all.iter().all(|phase| phases.contains(phase) || is_none(*phase)) {
            return None;
        }
        states.push(state);
    }
    Some(states)
}

/// The filter as bulk operations know it, where they do.
async fn bulk_filter(app: &App, form: &Form, filter: &ListFilter) -> Result<Option<BulkFilter>, Error> {
    let caller = &form.visitor.caller;
    let is_plain = filter.kind.is_none()
        && filter.error.is_none()
        && filter.reason.is_none()
        && filter.why.is_none()
        && filter.queues.len() <= 1
        && filter.types.len() <= 1
        && filter.workers.len() <= 1
        && !filter.types.iter().any(|kind| kind.ends_with('*'))
        && !filter.workers.iter().any(|worker| worker.parse::<baton_core::WorkerId>().is_err())
        && !matches!(filter.key, Some(KeyMatch::Prefix(_)));
    if !is_plain {
        return Ok(None);
    }
    // A workflow's type stands for all of its versions, which bulk operations do not know.
    let lanes = lists::lanes(app, caller, &filter.namespace).await?;
    if filter.types.iter().any(|kind| !lanes.iter().any(|lane| lane.name.kind == *kind)) {
        return Ok(None);
    }
    let mut none = Vec::new();
    for phase in [Phase::Waiting, Phase::Later].into_iter().filter(|phase| !filter.phases.contains(phase)) {
        let others = ListFilter { phases: vec![phase], ..filter.clone() };
        if lists::page(app, caller, &others, SearchFrom::Newest, 1).await?.runs.is_empty() {
            none.push(phase);
        }
    }
    let Some(states) = whole_states(&filter.phases, |phase| none.contains(&phase)) else { return Ok(None) };
    Ok(Some(BulkFilter {
        namespace: Some(filter.namespace.clone()),
        queue: filter.queues.first().cloned(),
        kind: filter.types.first().cloned(),
        state: states.into_iter().map(|state| state.as_str().to_owned()).collect(),
        worker: filter.workers.first().cloned(),
        key: match &filter.key {
            Some(KeyMatch::Exactly(key)) => Some(key.clone()),
            Some(KeyMatch::Prefix(_)) | None => None,
        },
        submitted_after: filter.since.map(Time),
        submitted_before: filter.before.map(Time),
        id_suffix: None,
    }))
}

fn counted(rows: &[Listed]) -> Vec<(Phase, u64)> {
    let of = |phase: Phase| rows.iter().filter(|row| row.phase == phase).count() as u64;
    Phase::ALL.into_iter().map(|phase| (phase, of(phase))).filter(|(_, count)| *count > 0).collect()
}

async fn count(app: &App, form: &Form, verb: BulkAction) -> Result<Counted, Error> {
    let caller = &form.visitor.caller;
    let namespace = namespace_of(form);
    caller.may(Scope::Submit, &namespace)?;
    if form.get("all").is_none() {
        let mut ids: Vec<RunId> = form.fields.all("id").filter_map(|id| id.parse().ok()).collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() {
            return Err(Error::Invalid("nothing is selected; select runs first".into()));
        }
        let found = lists::those(app, caller, &namespace, &ids).await?;
        let acts_on = |row: &&Listed| verb.acts_on(row.run.record.state);
        let runs: Vec<Listed> = found.iter().filter(acts_on).cloned().collect();
        let left_out = (found.len() - runs.len()) as u64;
        let chosen = Chosen::Runs(runs.iter().map(|row| row.run.record.id).collect());
        return Ok(Counted { chosen, counts: counted(&runs), filter: None, left_out });
    }
    // What comes later was not meant.
    let moment = app.time.now().await? + 1;
    let mut filter = filter_of(form, moment);
    filter.phases = phases_for(verb, &filter.phases);
    let text = form.get("q").map(str::to_owned);
    if filter.phases.is_empty() {
        let what = words(verb).1;
        return Err(Error::Invalid(format!("none of them can be {what} in the state that is shown")));
    }
    match bulk_filter(app, form, &filter).await? {
        Some(own) => {
            let mut counts = Vec::new();
            for word in &own.state {
                let Some(state) = RunState::parse(word) else { continue };
                let one = BulkFilter { state: vec![word.clone()], ..own.clone() };
                let dry = CreateBulk { dry_run: true, ..CreateBulk::new(verb.as_str(), one) };
                if let Created::Counted(found) = bulk::create(app, caller, dry, None).await?
                    && found.matched > 0
                {
                    counts.push((phase_of(state), found.matched));
                }
            }
            Ok(Counted { chosen: Chosen::All(Box::new(own)), counts, filter: text, left_out: 0 })
        }
        None => {
            let found = lists::page(app, caller, &filter, SearchFrom::Newest, THESE_MAX).await?;
            if found.has_more || found.looked_to.is_some() {
                return Err(Error::Invalid(format!(
                    "more than {THESE_MAX} runs may match, and a bulk operation knows only state, queue, type, key, worker and \
                     time; narrow the filter, or leave other tokens out"
                )));
            }
            let runs = found.runs.iter().map(|row| row.run.record.id).collect();
            Ok(Counted { chosen: Chosen::Runs(runs), counts: counted(&found.runs), filter: text, left_out: 0 })
        }
    }
}

fn phase_of(state: RunState) -> Phase {
    match state {
        RunState::Pending => Phase::Waiting,
        RunState::Assigned => Phase::Starting,
        RunState::Running => Phase::Running,
        RunState::Sleeping => Phase::Sleeping,
        RunState::Completed => Phase::Completed,
        RunState::Failed => Phase::Failed,
        RunState::Cancelled => Phase::Cancelled,
    }
}

/// Counts what would be done, and asks.
async fn ask(State(app): State<App>, form: Form) -> Response {
    let asked = async {
        let verb = verb_of(&form)?;
        let counted = count(&app, &form, verb).await?;
        if counted.sum() == 0 {
            return Err(Error::Invalid(format!("none of them can be {}", words(verb).1)));
        }
        let once = format!("{:016x}", app.entropy.bits());
        Ok(question(&form, verb, &counted, &once))
    };
    match asked.await {
        Ok((title, body, confirm, is_dangerous)) => {
            let action = "/runs/act";
            if form.is_scripted {
                let asked = Dialog { id: "asked", title: &title, action, body, confirm: &confirm, is_dangerous };
                return html_answer(&form, &parts::dialog(&asked));
            }
            let class = if is_dangerous { "btn danger primary" } else { "btn primary" };
            alone(
                &form,
                &title,
                &html! {
                    form.panel.stack method="post" action=(action) {
                        (parts::hidden_csrf())
                        h1 { (title) }
                        (body)
                        p { button class=(class) { (confirm) } " " a.btn href=(own_path(form.get("next").unwrap_or("/runs"))) { "Leave it" } }
                    }
                },
            )
        }
        Err(error) => form.refused(&error),
    }
}

/// The question: title, body, what the button says, and whether it ends something.
fn question(form: &Form, verb: BulkAction, counted: &Counted, once: &str) -> (String, Markup, String, bool) {
    let sum = counted.sum();
    let runs = format::counted(sum, "run", "runs");
    let label = format!("{} {runs}", words(verb).0);
    let body = html! {
        @if let Some(filter) = &counted.filter {
            p { "All runs that match " (parts::code(filter)) " and were submitted before now." }
        }
        ul { @for (phase, count) in &counted.counts { li { (parts::state(row::shown(*phase))) " " (format::number(*count)) ": " (what_happens(verb, *phase)) } } }
        @if counted.left_out > 0 {
            p { (format::counted(counted.left_out, "other one", "other ones")) " cannot be " (words(verb).1) " and " (if counted.left_out == 1 { "is" } else { "are" }) " left alone." }
        }
        p { (match verb {
            BulkAction::Cancel => "This cannot be undone; a cancelled run can be retried as a new one.",
            BulkAction::Retry => "Each is submitted again as a new run with the same input.",
        }) }
        input type="hidden" name="verb" value=(verb.as_str());
        input type="hidden" name="once" value=(once);
        (kept_fields(&form.fields, &["ns", "next"]))
        @match &counted.chosen {
            Chosen::Runs(ids) => @for id in ids { input type="hidden" name="id" value=(id); },
            Chosen::All(filter) => input type="hidden" name="filter" value=(serde_json::to_string(filter).unwrap_or_default());,
        }
        @if sum > TYPED_ABOVE {
            input type="hidden" name="count" value=(sum);
            div.field {
                label for="typed" { "Type " (format::number(sum)) " to go on" }
                input.input.n id="typed" name="typed" inputmode="numeric" autocomplete="off" required data-type-this=(sum);
            }
        }
    };
    (format!("{label}?"), body, label, verb == BulkAction::Cancel)
}

fn what_happens(verb: BulkAction, phase: Phase) -> &'static str {
    match (verb, phase) {
        (BulkAction::Retry, _) => "submitted again",
        (BulkAction::Cancel, Phase::Waiting | Phase::Later) => "end at once",
        (BulkAction::Cancel, Phase::Sleeping) => "may clean up, then end",
        (BulkAction::Cancel, _) => "their workers are asked to stop",
    }
}

/// Does it.
async fn act(State(app): State<App>, form: Form) -> Response {
    let next = own_path(form.get("next").unwrap_or("/runs"));
    let acted = async {
        let verb = verb_of(&form)?;
        let caller = &form.visitor.caller;
        if let Some(count) = form.get("count") {
            let digits: String = form.get("typed").unwrap_or_default().chars().filter(char::is_ascii_digit).collect();
            if digits != count {
                return Err(Error::field("typed", format!("must be {count}, the number of runs; nothing was done")));
            }
        }
        if let Some(filter) = form.get("filter") {
            let filter: BulkFilter =
                serde_json::from_str(filter).map_err(|_| Error::Malformed("the form cannot be read".into()))?;
            let create = CreateBulk::new(verb.as_str(), filter);
            let once = form.get("once").unwrap_or_default();
            let Created::Begun(begun) = bulk::create(&app, caller, create, Some(once)).await? else {
                return Err(Error::Internal);
            };
            return Ok(Done::Begun(begun.id));
        }
        let ids: Vec<RunId> = form.fields.all("id").filter_map(|id| id.parse().ok()).collect();
        Ok(Done::Each(verb, bulk::these(&app, caller, verb, &ids).await?))
    };
    match acted.await {
        Err(error) => form.refused(&error),
        Ok(Done::Begun(id)) => {
            let address = Query::default().with("ns", form.get("ns").unwrap_or_default()).at(&format!("/bulk/{id}"));
            if !form.is_scripted {
                return Redirect::to(&address).into_response();
            }
            let ns = form.get("ns").unwrap_or_default();
            match progress_of(&app, &form.visitor, ns, &id).await {
                Ok(told) => axum::Json(told).into_response(),
                Err(error) => form.refused(&error),
            }
        }
        Ok(Done::Each(verb, fates)) => {
            let done = fates.iter().filter(|(_, why)| why.is_none()).count() as u64;
            let said = format!("{} {}.", format::counted(done, "run", "runs"), words(verb).1);
            let refused: Vec<_> = fates.into_iter().filter_map(|(run, why)| Some((run, why?))).collect();
            if refused.is_empty() {
                return form.done(&next, &said);
            }
            let body = html! {
                p { (said) }
                p.b { (format::counted(refused.len() as u64, "was refused", "were refused")) ":" }
                ul {
                    @for (run, why) in refused.iter().take(REFUSED_MAX) {
                        li { a.link.id href={ "/runs/" (run) } { (format::short_id(&run.to_string())) } " " (format::visible(why)) }
                    }
                    @if refused.len() > REFUSED_MAX { li { "and " (format::number((refused.len() - REFUSED_MAX) as u64)) " more" } }
                }
            };
            if form.is_scripted {
                let dialog = html! {
                    dialog id="refused" aria-labelledby="refused-title" {
                        header id="refused-title" { "Not all could be " (words(verb).1) }
                        div.body.stack { (body) }
                        footer { button.btn type="button" data-do="close" { "Close" } }
                    }
                };
                return html_answer(&form, &dialog);
            }
            alone(
                &form,
                "Done",
                &html! { div.panel.stack { h1 { "Not all could be " (words(verb).1) } (body) p { a.link href=(next) { "Back" } } } },
            )
        }
    }
}

enum Done {
    Begun(String),
    Each(BulkAction, Vec<(RunId, Option<String>)>),
}

/// HTML for the script.
pub fn html_answer(form: &Form, html: &Markup) -> Response {
    let html = html.0.replace(CSRF_MARK, &form.visitor.csrf);
    axum::Json(serde_json::json!({ "html": html })).into_response()
}

/// A page of its own, for those without the script.
pub fn alone(form: &Form, title: &str, main: &Markup) -> Response {
    let document = page::plain(title, None, main).0.replace(CSRF_MARK, &form.visitor.csrf);
    written(StatusCode::OK, document)
}

async fn stop(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    let stopped = bulk::stop(&app, &form.visitor.caller, &id).await;
    let next = Query::default().with("ns", form.get("ns").unwrap_or_default()).at(&format!("/bulk/{id}"));
    match stopped {
        Ok(_) => form.done(&next, "It stops with the runs that are under way."),
        Err(error) if form.is_scripted => form.refused(&error),
        Err(error) => refusal(&error),
    }
}

/// How far an operation has come, for the script.
async fn progress(State(app): State<App>, visitor: Visitor, Path(id): Path<String>, uri: Uri) -> Response {
    let query = Query::parse(uri.query().unwrap_or_default());
    match progress_of(&app, &visitor, query.get("ns").unwrap_or_default(), &id).await {
        Ok(told) => axum::Json(told).into_response(),
        Err(error) => error.into_response(),
    }
}

async fn progress_of(app: &App, visitor: &Visitor, ns: &str, id: &str) -> Result<serde_json::Value, Error> {
    let operation = bulk::get(app, &visitor.caller, id).await?;
    let at = |path: String| Query::default().with("ns", ns).at(&path);
    let looked = operation.done + operation.skipped + operation.failed;
    let matched = operation.matched.unwrap_or(looked).max(looked);
    let is_over = operation.ended_at.is_some();
    let html = html! {
        div.toast id={ "watch-" (id) } role="status" {
            @if !is_over { span.c-run { (icon("start")) } }
            @else if operation.failed > 0 { span.c-bad { (icon("bad")) } }
            @else { span.c-ok { (icon("ok")) } }
            span { (title_of(&operation)) }
            @if !is_over { (progress_bar(looked, matched)) }
            span.soft.nowrap { (format::number(operation.done)) " of " (format::number(matched)) }
            a.btn.small href=(at(format!("/bulk/{id}"))) { "Show" }
            @if !is_over && !operation.stopping {
                form.inline method="post" action={ "/bulk/" (id) "/stop" } {
                    (parts::hidden_csrf())
                    @if !ns.is_empty() { input type="hidden" name="ns" value=(ns); }
                    button.btn.small { "Stop" }
                }
            }
        }
    };
    let html = html.0.replace(CSRF_MARK, &visitor.csrf);
    Ok(serde_json::json!({ "toast": html, "watch": at(format!("/bulk/{id}/progress")), "over": is_over }))
}

fn title_of(operation: &BulkView) -> &'static str {
    match (operation.state.as_str(), operation.action.as_str()) {
        ("running", "cancel") => "Cancelling runs",
        ("running", _) => "Retrying runs",
        ("completed", "cancel") => "Runs cancelled",
        ("completed", _) => "Runs retried",
        ("stopped", _) => "Stopped",
        _ => "Could not go on",
    }
}

fn progress_bar(looked: u64, matched: u64) -> Markup {
    let share = looked as f64 * 100.0 / matched.max(1) as f64;
    html! {
        svg.bar aria-hidden="true" {
            rect.bg width="100%" height="8" {}
            rect.fill-run x="0%" width={ (format!("{share:.1}")) "%" } height="8" {}
        }
    }
}

/// `/bulk/{id}`: how far an operation has come.
pub async fn operation(view: &View, id: &str) -> Result<Page, Error> {
    let operation = bulk::get(&view.app, &view.caller, id).await?;
    let verb = BulkAction::parse(&operation.action).unwrap_or(BulkAction::Cancel);
    let looked = operation.done + operation.skipped + operation.failed;
    let is_over = operation.ended_at.is_some();
    let matched = operation.matched.unwrap_or(looked).max(looked).max(1);
    let title = title_of(&operation);
    let filter = serde_json::to_string(&operation.filter).unwrap_or_default();
    let progress = html! {
        div.body.stack id="progress" {
            p.t18 {
                (format::number(operation.done)) " " (words(verb).1)
                @if operation.skipped > 0 { ", " (format::number(operation.skipped)) " left alone" }
                @if operation.failed > 0 { ", " span.c-bad { (format::number(operation.failed)) " refused" } }
                @if let Some(matched) = operation.matched { span.dim { " of " (format::number(matched)) } }
            }
            (progress_bar(looked, matched))
            @if let Some(waits) = &operation.waits_for { p.c-warn { "It waits: " (format::visible(waits)) } }
            @if operation.stopping { p.soft { "It stops with the runs that are under way." } }
            @if !operation.errors.is_empty() {
                h2 { "Refused" }
                table {
                    thead { tr { th { "Run" } th { "Why" } } }
                    tbody {
                        @for error in &operation.errors {
                            tr { td.id { a.link href=(view.href(&format!("/runs/{}", error.run_id))) { (format::short_id(&error.run_id)) } }
                                td dir="auto" { (format::visible(&error.error)) } }
                        }
                    }
                }
            }
        }
    };
    let main = html! {
        section.panel aria-label="Operation" {
            (part("progress", &progress))
            footer {
                "Runs that match " (parts::code(&filter)) ", at most " (format::amount(operation.rate_per_second)) " a second, by key "
                (format::visible(&operation.created_by)) ", " (parts::ago(view, operation.created_at.0))
            }
        }
        p.row {
            a.btn href=(view.href("/runs")) { "To the runs" }
            @if !is_over && !operation.stopping && view.may(Scope::Submit) {
                form.inline method="post" action={ "/bulk/" (id) "/stop" } {
                    (parts::hidden_csrf())
                    (kept_fields(&view.query, &["ns"]))
                    button.btn { "Stop" }
                }
            }
        }
    };
    Ok(Page::new(Entry::Runs, title, main).below("Runs", view.href("/runs")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_of_phases_is_one_of_states_where_nothing_else_is_meant() {
        let all = |_| false;
        assert_eq!(whole_states(&[Phase::Waiting], all), None, "what is due later was not meant");
        assert_eq!(whole_states(&[Phase::Waiting], |phase| phase == Phase::Later), Some(vec![RunState::Pending]));
        let held = [Phase::Starting, Phase::Running, Phase::Cancelling];
        assert_eq!(whole_states(&held, all), Some(vec![RunState::Assigned, RunState::Running]));
        assert_eq!(whole_states(&[Phase::Failed], all), Some(vec![RunState::Failed]));
    }

    #[test]
    fn a_verb_acts_on_the_states_it_can() {
        assert_eq!(phases_for(BulkAction::Retry, &[]), [Phase::Failed]);
        assert_eq!(phases_for(BulkAction::Retry, &[Phase::Waiting]), []);
        assert_eq!(phases_for(BulkAction::Retry, &[Phase::Completed]), [Phase::Completed]);
        assert!(phases_for(BulkAction::Cancel, &[]).iter().all(|phase| !phase.is_ended()));
    }
}
