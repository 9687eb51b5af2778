//! `/runs/{id}`: why is it not done, and what has happened? Plain runs, builds and workflows have one page.

mod actions;
mod build;
mod custody;
mod explain;
mod facts;
mod history;
mod io;
mod journal;
mod log;
mod log_search;
mod log_text;
mod rows;
mod scale;
mod timeline;

use axum::Router;
use baton_core::RunId;
use baton_server::service::lists::Phase;
use baton_server::service::sheet::{self, LogEnd, Nature, Sheet};
use baton_server::service::{self};
use baton_server::{App, Error};
use maud::{Markup, html};
use std::time::Duration;

use crate::format;
use crate::page::{Entry, Page, part};
use crate::parts::{self, icon};
use crate::view::View;

/// How often the page of a build that is worked on is looked at again.
const LOG_QUIET: Duration = Duration::from_secs(1);

/// Routes of what the page sends and loads.
pub fn forms(router: Router<App>) -> Router<App> {
    timeline::routes(log::routes(build::downloads(io::downloads(actions::forms(router)))))
}

/// The page of a run.
pub async fn page(view: &View, id: &str) -> Result<Page, Error> {
    let found = match service::run_id(id) {
        Ok(run) => sheet::one(&view.app, &view.caller, run).await,
        Err(error) => Err(error),
    };
    match found {
        Ok(sheet) => shown(view, &sheet).await,
        Err(Error::NotFound { .. }) => Ok(gone(view)),
        Err(error) => Err(error),
    }
}

/// What stands where there is no such run, or not for this key.
fn gone(view: &View) -> Page {
    let days = view.app.current().retention_runs_ms.div_ceil(86_400_000);
    let kept = format::counted(days, "day", "days");
    let main = html! {
        section.panel {
            (parts::empty("find", "Not here.", html! {
                p.soft { "It may have been removed after " (kept) " (retention)." }
                p { a.btn href=(view.href("/runs")) { "All runs" } }
            }))
        }
    };
    Page::new(Entry::Runs, "No such run", main).below("Runs", view.href("/runs"))
}

async fn shown(view: &View, sheet: &Sheet) -> Result<Page, Error> {
    // Whatever namespace the address says: links and rights are those of the run's own.
    let view = &View { namespace: sheet.lane.namespace.clone(), ..view.clone() };
    let leases = sheet.leases(&view.app).await?;
    let explained = explain::section(view, sheet).await?;
    let log_end = sheet.log_end(&view.app).await?;
    let steps = match sheet.relations() {
        Some(_) => Some(sheet.outlines(&view.app).await?),
        None => None,
    };
    let chosen = match view.query.get("step").and_then(|text| text.parse().ok()).filter(|_| steps.is_some()) {
        Some(position) => journal::chosen(view, sheet, position).await?,
        None => None,
    };
    let main = html! {
        (part("run-head", &head(view, sheet)))
        div.stack {
            (part("run-why", &explained))
            @if sheet.build().is_some() { (part("phases", &build::phase_bar(view, sheet, &leases).await?)) }
            (part("run-facts", &facts::section(view, sheet, &leases)))
        }
        (part("run-tabs", &tabs(sheet, log_end, steps.as_ref().map(Vec::len))))
        div.stack {
            @if let Some(steps) = &steps {
                div class=[chosen.as_ref().map(|_| "split")] id="flow" {
                    (part("timeline", &timeline::section(view, sheet, &leases, steps).await?))
                    @if let Some(chosen) = &chosen { (part("step", chosen)) }
                }
                (part("custody", &custody::section(view, sheet.record.id).await?))
                (part("journal", &journal::section(view, sheet, steps.len()).await?))
            }
            @if let Some(found) = sheet.build() {
                div.split {
                    (log::section(view, sheet, &leases, log_end).await?)
                    (build::aside(view, sheet, found).await?)
                }
            }
            @if steps.is_none() { (part("custody", &custody::section(view, sheet.record.id).await?)) }
            (part("payload", &io::section(view, sheet).await?))
            (part("history", &history::section(view, sheet, &leases).await?))
        }
    };
    let (entry, list, path) = match sheet.nature {
        Nature::Plain => (Entry::Runs, "Runs", "/runs"),
        Nature::Build(_) => (Entry::Builds, "Builds", "/builds"),
        Nature::Workflow(_) => (Entry::Workflows, "Workflows", "/workflows"),
    };
    let (kind, _) = sheet.kind();
    let same = parts::runs(view, &[("type", kind)]);
    let page = Page::new(entry, name(sheet), main).below(list, view.href(path)).below(kind, same);
    // Nothing tells pages of new lines, so a log that grows is looked at more often.
    let quiet = if sheet.build().is_some() && sheet.record.state.is_held() { LOG_QUIET } else { page.quiet };
    Ok(Page { quiet, ..page })
}

/// What people know a run by.
fn name(sheet: &Sheet) -> String {
    sheet.record.key.clone().unwrap_or_else(|| format::short_id(&sheet.record.id.to_string()))
}

/// The state as it is shown.
fn state(view: &View, sheet: &Sheet) -> Phase {
    let record = &sheet.record;
    Phase::at(record.state, record.due_at, record.cancel_by, view.now)
}

/// The address of a run.
fn address(view: &View, run: RunId) -> String {
    view.href(&format!("/runs/{run}"))
}

/// A link to a run by the end of its identifier.
fn run_link(view: &View, run: RunId) -> Markup {
    html! { a.link.id href=(address(view, run)) title=(run) { (format::short_id(&run.to_string())) } }
}

fn head(view: &View, sheet: &Sheet) -> Markup {
    let id = sheet.record.id.to_string();
    let (kind, version) = sheet.kind();
    let (glyph, what) = match sheet.nature {
        Nature::Plain => ("plain", "run"),
        Nature::Build(_) => ("build", "build"),
        Nature::Workflow(_) => ("flow", "workflow"),
    };
    let title = sheet.build().and_then(|build| build.submitted.project.as_deref()).unwrap_or(kind);
    html! {
        div.page-head id="run-head" {
            (parts::kind_icon(glyph, what))
            h2.t18.cut dir="auto" { (format::visible(title)) }
            @if title != kind { span.soft dir="auto" { (format::visible(kind)) } }
            @if let Some(version) = version { span.soft dir="auto" { "version " (format::visible(version)) } }
            (parts::state_badge(state(view, sheet)))
            @if let Some(key) = sheet.record.key.as_deref().filter(|key| *key != title) { span.tag.cut dir="auto" { (format::visible(key)) } }
            span.row {
                span.id title=(id) { (format::title_id(&id)) }
                button.btn.small.icon.ghost type="button" data-do="copy" data-text=(id) aria-label="Copy the id" {
                    (icon("copy"))
                }
            }
            (actions::bar(view, sheet))
        }
    }
}

fn tabs(sheet: &Sheet, log_end: LogEnd, steps: Option<usize>) -> Markup {
    html! {
        nav.tabs.stick id="run-tabs" aria-label="On this page" {
            @if let Some(steps) = steps {
                a href="#timeline" { "Timeline" }
                a href="#custody" { "Custody" }
                a href="#journal" { "Journal " span.n { (format::number(steps as u64)) } }
            }
            @if sheet.build().is_some() {
                a href="#log" { "Log " span.n { (format::counted(log_end.lines, "line", "lines")) } }
                a href="#artifacts" { "Artifacts" }
            }
            @if steps.is_none() { a href="#custody" { "Custody" } }
            a href="#payload" { "Input and output" }
            a href="#history" { "History" }
        }
    }
}
