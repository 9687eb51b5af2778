//! `/workers/{id}`: one worker, what it holds, what it was handed and what it lost.

use baton_core::State;
use baton_proto::{RunView, WorkerView};
use baton_server::service::lists::Phase;
use baton_server::service::{self, read::RunQuery, worker_id};
use baton_server::{Error, Health, Heard, Page as StorePage, Scope};
use maud::{Markup, html};

use super::row::{Standing, beats, drain, health, is_lost, lease, path, standing, state};
use crate::format::{self, MISSING, Precision};
use crate::page::{Entry, Page, part};
use crate::parts::{self, Tone, hidden_csrf};
use crate::query::escape;
use crate::view::View;

/// Leases that are listed.
const LEASES_MAX: usize = 100;

/// The page.
pub async fn page(view: &View, id: &str) -> Result<Page, Error> {
    let id = worker_id(id)?;
    let worker = service::workers::get(&view.app, &view.caller, id).await?;
    if worker.namespace != view.namespace && view.query.has("ns") {
        return Err(Error::NotFound { what: "worker", id: worker.id });
    }
    let query = RunQuery {
        namespace: Some(worker.namespace.clone()),
        worker: Some(id),
        states: vec![State::Assigned, State::Running],
        ..RunQuery::default()
    };
    let page = StorePage { after: None, limit: LEASES_MAX };
    let (held, _) = service::read::list(&view.app, &view.caller, query, page, false).await?;
    let heard = service::workers::heard(&view.app, &view.caller, &worker)?;
    let standing = standing(view, &worker);
    let main = html! {
        div.stack {
            (part("why", &banner(view, standing, &worker)))
            div.split {
                (part("leases", &leases(view, &worker, &held)))
                div.stack {
                    (part("about", &about(view, standing, &worker, &heard)))
                    (part("serves", &serves(view, &worker)))
                }
            }
        }
    };
    Ok(Page::new(Entry::Workers, worker.name.clone(), main).below("Workers", "/workers"))
}

fn banner(view: &View, standing: Standing, worker: &WorkerView) -> Markup {
    let class = match standing {
        Standing::Silent | Standing::Unfit => "explain warn",
        Standing::Draining | Standing::Online => "explain run",
        Standing::Offline => "explain",
    };
    let may = view.may(Scope::Admin);
    html! {
        section class=(class) id="why" aria-label="State" {
            (parts::icon(if standing == Standing::Online { "ok" } else { "worker" }))
            p { (told(view, standing, worker)) }
            @if may && standing != Standing::Offline {
                div.btns {
                    @if standing != Standing::Draining { (drain(view, worker)) " " }
                    form.inline method="post" action={ (path(worker)) "/offline" } {
                        (hidden_csrf())
                        input type="hidden" name="next" value=(view.href(&view.path));
                        button.btn.small.danger { "Take offline…" }
                    }
                }
            }
        }
    }
}

/// How it stands, as a sentence.
fn told(view: &View, standing: Standing, worker: &WorkerView) -> Markup {
    let held = format::counted(u64::from(worker.active), "run", "runs");
    match standing {
        Standing::Silent => html! {
            "Silent for " (parts::span(view, worker.seen_at.0, None)) ". It holds " (held) "; they are handed over in "
            (lease(view, standing, worker)) " unless it is heard of before."
        },
        Standing::Unfit => html! {
            "It takes nothing new: " span dir="auto" { (format::visible(worker.unfit.as_deref().unwrap_or_default())) } ". It holds " (held) "."
        },
        Standing::Draining => html! {
            "It drains: it takes nothing new, finishes " (held) ", and ends."
            @if let Some(why) = &worker.status_reason { " Why: " span dir="auto" { (format::visible(why)) } "." }
        },
        Standing::Online => html! {
            "Online, and holds " (held) " of " (worker.max_concurrent) " that it can hold at once."
        },
        Standing::Offline => html! {
            "Offline; last heard of " (parts::clock(view, worker.seen_at.0, Precision::Seconds)) "."
            @if is_lost(worker) { " Its lease ended without a word from it; what it held was handed over." }
            @else if let Some(why) = &worker.status_reason { " Why: " span dir="auto" { (format::visible(why)) } "." }
        },
    }
}

fn leases(view: &View, worker: &WorkerView, held: &[RunView]) -> Markup {
    let all = parts::runs(view, &[("worker", &worker.id)]);
    html! {
        section.panel id="leases" {
            header { h2 { "Leases now" } span.count { (worker.active) } a.end.link.sm href=(all) { "All runs of it" } }
            @if held.is_empty() {
                (parts::empty("run", "It holds nothing.", html! {
                    p.soft { "It was handed " (format::counted(worker.completed + worker.failed, "run", "runs")) " that ended with it." }
                }))
            } @else {
                div.scroll-x { table {
                    thead { tr {
                        th { "Run" } th { "Type" } th { "Queue" } th { "State" } th { "Epoch" } th { "Lease" } th.num { "For" }
                    } }
                    tbody { @for run in held { (lease_line(view, worker, run)) } }
                } }
                @if held.len() < worker.active as usize { footer { "The newest " (held.len()) " are listed." } }
            }
        }
    }
}

fn lease_line(view: &View, worker: &WorkerView, run: &RunView) -> Markup {
    let cancel_by = run.cancel_by.map(|at| at.0);
    html! {
        tr data-row data-key=(run.id) {
            td.nowrap {
                a.b href=(view.href(&format!("/runs/{}", run.id))) { span.id { (format::short_id(&run.id)) } }
                @if let Some(key) = &run.key { " " span.soft.cut.name dir="auto" { (format::visible(key)) } }
            }
            td { span.cut.name dir="auto" { (format::visible(&run.kind)) } }
            td { a.cut.name href=(view.href(&parts::queue_path(&run.queue))) dir="auto" { (format::visible(&run.queue)) } }
            td { (parts::state(Phase::at(run.state, run.due_at.0, cancel_by, view.now))) }
            td { (parts::epoch(run.epoch)) }
            td.nowrap { (parts::lease(view, worker.lease_until.0, super::row::ttl(worker))) }
            td.num.soft.nowrap { @if let Some(at) = run.claimed_at { (parts::span(view, at.0, None)) } @else { (MISSING) } }
        }
    }
}

fn about(view: &View, standing: Standing, worker: &WorkerView, heard: &Heard) -> Markup {
    let ended = worker.completed + worker.failed;
    html! {
        section.panel id="about" {
            header { h2 { "About" } span.end { (state(view, standing, worker)) } }
            div.body.stack {
                dl.kv {
                    dt { "Identifier" } dd { code { (worker.id) } }
                    dt { "Heartbeats" } dd { (beats(view.now, heard)) " " span.soft { "last " (parts::ago(view, worker.seen_at.0)) } }
                    dt { "Lease" } dd { (lease(view, standing, worker)) }
                    dt { "Health" } dd { (health(worker)) }
                    @if heard.measured.len() > 1 { dt { "Over 10 min" } dd { (measured(heard)) } }
                    dt { "Was handed" } dd {
                        (format::counted(ended, "run", "runs")) " that ended: "
                        (format::number(worker.completed)) " completed, "
                        span.c-bad[worker.failed > 0] { (format::number(worker.failed)) " attempts failed" }
                    }
                    dt { "Since" } dd { (parts::clock(view, worker.registered_at.0, Precision::Seconds)) }
                    dt { "Runs on" } dd dir="auto" {
                        @if worker.hostname.is_empty() { (MISSING) } @else { (format::visible(&worker.hostname)) }
                        @if let Some(pid) = worker.pid { " (process " (pid) ")" }
                    }
                    dt { "Version" } dd dir="auto" { @if worker.version.is_empty() { (MISSING) } @else { (format::visible(&worker.version)) } }
                    @for (name, value) in &worker.labels {
                        dt.cut dir="auto" { (format::visible(name)) } dd dir="auto" { (format::visible(value)) }
                    }
                }
            }
        }
    }
}

fn measured(heard: &Heard) -> Markup {
    let of =
        |share: fn(&Health) -> Option<f64>| heard.measured.iter().map(|(_, health)| share(health)).collect::<Vec<_>>();
    let (cpu, memory) = (of(|health| health.cpu), of(|health| health.memory));
    html! {
        @if cpu.iter().any(Option::is_some) { span.row.sm { span.nowrap { "CPU" } (parts::spark(&cpu, Tone::Run, 96, 20)) } }
        @if memory.iter().any(Option::is_some) { span.row.sm { span.nowrap { "memory" } (parts::spark(&memory, Tone::Plain, 96, 20)) } }
    }
}

fn serves(view: &View, worker: &WorkerView) -> Markup {
    html! {
        section.panel id="serves" {
            header { h2 { "Serves" } span.count { (worker.types.len()) } }
            div.body.stack {
                p {
                    "Queues: "
                    @for (index, queue) in worker.queues.iter().take(50).enumerate() {
                        @if index > 0 { ", " }
                        a href=(view.href(&format!("/queues/{}", escape(queue)))) dir="auto" { (format::visible(queue)) }
                    }
                }
                p.wrap {
                    @for kind in worker.types.iter().take(100) { span.tag dir="auto" { (format::visible(kind)) } " " }
                    @if worker.types.len() > 100 { "and " (worker.types.len() - 100) " more" }
                }
            }
        }
    }
}
