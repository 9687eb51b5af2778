//! `/start`, and `/` while nothing has run: what to type, with this server's address in it. The page goes from step to step by
//! itself, as worker and run appear.

use baton_core::{Millis, State};
use baton_proto::{RunView, WorkerView};
use baton_server::service::lists::Phase;
use baton_server::service::read::RunQuery;
use baton_server::{Error, Page as StorePage, Scope, WorkerFilter, WorkerStatus, service};
use maud::{Markup, html};

use crate::format;
use crate::page::{Entry, Page, part};
use crate::parts::{self, icon, word};
use crate::view::View;

/// The page gives way to the overview when its one run ended this long ago.
const STAYS: Millis = 5 * 60 * 1_000;
/// A run that is older than this is not the one that somebody has just made.
const NEW: Millis = 15 * 60 * 1_000;
/// A namespace with more queues than this has seen work before.
const QUEUES_MAX: usize = 3;

/// What somebody wants to make first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Run,
    Build,
    Workflow,
    Pool,
}

const KINDS: [(Kind, &str, &str, &str, &str); 4] = [
    (Kind::Run, "run", "plain", "A run", "A command for each piece of work"),
    (Kind::Build, "build", "build", "A build", "A directory becomes an artifact"),
    (Kind::Workflow, "workflow", "flow", "A workflow", "A function that survives\u{a0}kill\u{a0}\u{2011}9"),
    (Kind::Pool, "pool", "pool", "A pool", "Warm machines for CI"),
];

/// How far somebody has come.
struct Progress {
    worker: Option<WorkerView>,
    run: Option<RunView>,
    pool: Option<String>,
}

/// This page in the place of the overview, while there is nothing to show there.
pub async fn instead(view: &View) -> Result<Option<Page>, Error> {
    let one = StorePage { after: None, limit: 1 };
    let (_, _, queues) = service::queues::counted(&view.app, &view.caller, Some(&view.namespace), one, 1).await?;
    if queues > QUEUES_MAX {
        return Ok(None);
    }
    let runs = newest(view, 2).await?;
    let is_first = match runs.as_slice() {
        [] => true,
        [one] => one.ended_at.is_none_or(|at| view.now - at.0 < STAYS),
        _ => false,
    };
    if !is_first { Ok(None) } else { shown(view, Entry::Overview, runs.into_iter().next()).await.map(Some) }
}

/// The page.
pub async fn page(view: &View) -> Result<Page, Error> {
    let newest = newest(view, 1).await?.into_iter().next();
    shown(view, Entry::Overview, newest.filter(|run| view.now - run.submitted_at.0 < NEW)).await
}

async fn newest(view: &View, limit: usize) -> Result<Vec<RunView>, Error> {
    let query = RunQuery { namespace: Some(view.namespace.clone()), ..RunQuery::default() };
    let page = StorePage { after: None, limit };
    Ok(service::read::list(&view.app, &view.caller, query, page, false).await?.0)
}

async fn shown(view: &View, entry: Entry, run: Option<RunView>) -> Result<Page, Error> {
    let filter = WorkerFilter {
        namespace: Some(view.namespace.clone()),
        status: Some(WorkerStatus::Online),
        ..WorkerFilter::default()
    };
    let page = StorePage { after: None, limit: 1 };
    let (workers, _) = service::workers::list(&view.app, &view.caller, filter, page, false).await?;
    let page = StorePage { after: None, limit: 1 };
    let pools = service::pools::read::list(&view.app, &view.caller, Some(&view.namespace), page).await?;
    let progress =
        Progress { worker: workers.into_iter().next(), run, pool: pools.into_iter().next().map(|pool| pool.name) };
    let asked = view.query.get("kind").unwrap_or_default();
    let kind = KINDS.iter().find(|(_, name, ..)| *name == asked).map_or(Kind::Run, |(kind, ..)| *kind);
    let main = html! {
        div.first.stack {
            div {
                h2.t24 { (if progress.run.is_some() { "Work is going through." } else { "Nothing has run here yet." }) }
                p.lead { "Baton hands each piece of work to exactly one worker, and reclaims it if that worker dies. This takes a minute." }
            }
            (relay())
            nav.pick aria-label="What do you want to do?" {
                @for (one, name, icon_name, title, words) in KINDS {
                    @let value = if one == Kind::Run { "" } else { name };
                    a href=(view.here_with("kind", value)) aria-current=[(one == kind).then_some("true")] {
                        b { (icon(icon_name)) (title) } (words)
                    }
                }
            }
            (part("steps", &steps(view, kind, &progress)))
            p.hint {
                "Nothing but curl is needed to be a worker: "
                a.link href="/openapi.json" { "the API describes itself" }
                ". This page goes away with the first runs, and stays at " a.link href=(view.href("/start")) { "/start" } "."
            }
        }
    };
    Ok(Page::new(entry, "Start here", main))
}

fn steps(view: &View, kind: Kind, progress: &Progress) -> Markup {
    html! {
        section.panel id="steps" aria-label="Steps" {
            ol.steps {
                li.done { div {
                    h3 { "Server " span.dim { "listens on " (format::visible(&view.base)) } }
                    @if view.is_here() {
                        p.soft { "The commands below find your key by themselves when they are run on the machine of the server." }
                    } @else {
                        p.soft { "Tell your terminal about it once; it asks for an API key:" }
                        (parts::command(&format!("baton login {}", word(&view.base))))
                    }
                } }
                @match kind {
                    Kind::Run => (run_steps(view, progress)),
                    Kind::Build => (build_steps(view, progress)),
                    Kind::Workflow => (workflow_steps(view, progress)),
                    Kind::Pool => (pool_steps(view, progress)),
                }
            }
        }
    }
}

fn run_steps(view: &View, progress: &Progress) -> Markup {
    let work =
        view.command("worker run --queue mail --type greet --exec 'read input; echo \"{\\\"said\\\": $input}\"'", true);
    let submit = view.command("run submit greet --queue mail --input '\"hello\"' --wait", true);
    html! {
        (worker_step(view, "Start a worker, in another terminal", &work, progress))
        (run_step(view, "Give it work", &submit, progress))
        (unplug())
    }
}

fn build_steps(view: &View, progress: &Progress) -> Markup {
    let work = view.command("worker build --platform linux --recipe 'cp hello.txt \"$BATON_OUTPUT_DIR\"'", true);
    let submit = format!(
        "mkdir -p hello && cd hello && echo hello > hello.txt && {}",
        view.command("submit --platform linux --output ../built.txt", true)
    );
    html! {
        (worker_step(view, "Start a worker that builds, in another terminal", &work, progress))
        (run_step(view, "Give it a directory", &submit, progress))
        (unplug())
    }
}

fn workflow_steps(view: &View, progress: &Progress) -> Markup {
    let data = view.app.settings.data.join("admin.key");
    let key = match view.is_here() && view.may(Scope::Admin) {
        true => format!("$(cat {})", word(&data.display().to_string())),
        false => "bk_…".to_owned(),
    };
    let example = format!("BATON_URL={} BATON_API_KEY={key} cargo run -p baton --example hello", word(&view.base));
    html! {
        (run_step(view, "Run an example, in a checkout of Baton: it is worker and caller in one", &example, progress))
        li { div {
            h3 { "Write your own" }
            p.soft { "A workflow is an async function. What it has done is remembered step by step, and another worker goes on where one stopped." }
            (parts::command("cargo add baton --path crates/sdk"))
        } }
    }
}

fn pool_steps(view: &View, progress: &Progress) -> Markup {
    let create = view.command("pool create linux --provider local --min-idle 1 --max-size 2", true);
    let claim = view.command("pool claim linux --run-id ci-1 --count 1", true);
    let release = view.command("pool release linux --run-id ci-1", true);
    html! {
        li.done[progress.pool.is_some()] aria-current=[progress.pool.is_none().then_some("step")] { div {
            h3 { "Make a pool that keeps a machine ready" }
            (parts::command(&create))
            @match &progress.pool {
                Some(name) => p.soft { "There is " a.link href=(view.href(&format!("/pools/{}", crate::query::escape(name)))) dir="auto" { (format::visible(name)) } "." },
                None => (waits("waiting for a pool")),
            }
        } }
        li aria-current=[progress.pool.is_some().then_some("step")] { div {
            h3 { "Claim a machine, and give it back" }
            (parts::command(&claim))
            (parts::command(&release))
            p.soft { "With the provider " code { "local" } " a machine is a process on this server; " code { "ec2" } " and " code { "command" } " make real ones." }
        } }
    }
}

fn worker_step(view: &View, title: &str, command: &str, progress: &Progress) -> Markup {
    let is_done = progress.worker.is_some() || progress.run.as_ref().is_some_and(|run| run.claimed_at.is_some());
    html! {
        li.done[is_done] aria-current=[(!is_done).then_some("step")] { div {
            h3 { (title) }
            (parts::command(command))
            @match &progress.worker {
                Some(worker) => p.soft.row {
                    span.c-ok { (icon("ok")) }
                    span { a.link href=(view.href(&format!("/workers/{}", worker.id))) dir="auto" { (format::visible(&worker.name)) } " is online." }
                },
                None if is_done => {}
                None => (waits("waiting for a worker to say hello")),
            }
        } }
    }
}

fn run_step(view: &View, title: &str, command: &str, progress: &Progress) -> Markup {
    let has_ended = progress.run.as_ref().is_some_and(|run| run.ended_at.is_some());
    html! {
        li.done[has_ended] aria-current=[(!has_ended && progress.worker.is_some()).then_some("step")] { div {
            h3 { (title) }
            (parts::command(command))
            @match &progress.run {
                Some(run) => (arrived(view, run)),
                None if progress.worker.is_some() => (waits("waiting for a run")),
                None => {}
            }
        } }
    }
}

/// The run that somebody has made, and the way to it.
fn arrived(view: &View, run: &RunView) -> Markup {
    let address = view.href(&format!("/runs/{}", run.id));
    let shown = Phase::at(run.state, run.due_at.0, run.cancel_by.map(|at| at.0), view.now);
    html! {
        p.row {
            (parts::state(shown))
            span dir="auto" { (format::visible(&run.kind)) }
            @if let Some(ended) = run.ended_at { span.soft { "in " (format::duration(ended.0 - run.submitted_at.0)) } }
            a.btn.primary[run.ended_at.is_some()] href=(address) { "See this run" }
        }
        @if run.state == State::Failed { p.soft { "Its page says why." } }
    }
}

fn waits(words: &str) -> Markup {
    html! { p.soft.row { svg.i.spin.c-run aria-hidden="true" { use href="#i-start" {} } (words) } }
}

fn unplug() -> Markup {
    html! {
        li { div {
            h3 { "Now pull the plug" }
            p.soft { "Kill the worker with Ctrl-\\ while it works, and watch its run: the countdown, the hand-over, the next epoch. Or have it all played to you:" }
            (parts::command("baton demo --open"))
        } }
    }
}

/// The drawing of what Baton does.
fn relay() -> Markup {
    html! {
        section.panel.hide-s { div.body {
            svg.relay viewBox="0 0 640 150" role="img"
                aria-label="You submit a run, Baton keeps it, one worker holds it under a lease; when the worker dies, another one takes over with the next epoch" {
                rect x="1" y="50" width="120" height="50" rx="8" {}
                text.t x="61" y="72" text-anchor="middle" { "you" } text x="61" y="89" text-anchor="middle" { "submit a run" }
                path d="M121 75h76m-6-5 6 5-6 5" {}
                rect x="200" y="50" width="140" height="50" rx="8" {}
                text.t x="270" y="72" text-anchor="middle" { "Baton" } text x="270" y="89" text-anchor="middle" { "keeps it, in order" }
                path d="M340 66C385 66 390 30 426 30m-6-5 6 5-6 5" {} path.brandl d="M340 84C385 84 390 120 426 120m-6-5 6 5-6 5" {}
                rect x="430" y="5" width="209" height="50" rx="8" stroke-dasharray="4 3" {}
                text.t x="446" y="27" { "worker one, epoch 1" } text x="446" y="44" { "dies: its lease ends after 15 s" }
                rect x="430" y="95" width="209" height="50" rx="8" {}
                text.t x="446" y="117" { "worker two, epoch 2" } text x="446" y="134" { "goes on and completes it, once" }
                text.brandt x="318" y="125" { "hand-over" }
            }
        } }
    }
}
