//! `/runs`, `/builds` and `/workflows`: which runs, and what is each of them doing?

mod act;
mod chosen;
pub mod filter;
mod operation;
pub mod row;
pub mod submit;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use baton_core::RunId;
use baton_server::service::lists::{self, ListFilter, ListPage, Listed, ListedKind, Phase, PhaseCounts, SearchFrom};
use baton_server::{Error, Scope, face};
use maud::{Markup, html};

use self::filter::{Filter, States, kind_of, kind_word};
use crate::format;
use crate::page::{Entry, Page, part};
use crate::parts::{self, icon};
use crate::query::Query;
use crate::view::View;

pub use act::forms;
pub use operation::page as operation;

/// Rows of a page.
const ROWS: usize = 100;
/// Tokens of which one is left out to see which excludes most.
const TRIED_MAX: usize = 6;
/// Newer runs that are counted.
const NEWER_MAX: usize = 1_000;
/// The parameter of a followed page that has the rows it was loaded with.
const SHOWN: &str = "shown";
/// Counts that are kept, and how long at least.
const COUNTS_MAX: usize = 256;
const COUNTS_FRESH: Duration = Duration::from_secs(2);
/// How long a page waits for its counts.
const COUNTS_PATIENCE: Duration = Duration::from_millis(60);
/// And how many times as long as counting has taken.
const COUNTS_FACTOR: u32 = 50;

/// What a list is asked for.
pub struct Asked {
    /// The address without what only a followed page has.
    pub query: Query,
    /// The path: it says the kind where there is no choice.
    pub path: &'static str,
    /// The kind that is shown.
    pub kind: Option<ListedKind>,
    /// The tab.
    pub states: Option<States>,
    /// The filter as it was read.
    pub typed: Filter,
    /// The same for the service.
    pub filter: ListFilter,
    /// Where the page begins.
    pub from: SearchFrom,
    /// The rows that a followed page was loaded with.
    pub shown: Option<Vec<RunId>>,
}

impl Asked {
    /// Reads an address.
    pub fn of(view: &View, entry: Entry) -> Asked {
        let (path, fixed) = match entry {
            Entry::Builds => ("/builds", Some(ListedKind::Build)),
            Entry::Workflows => ("/workflows/runs", Some(ListedKind::Workflow)),
            _ => ("/runs", None),
        };
        // Tokens are fields of their own where a form has sent them.
        let text = view.query.all("q").collect::<Vec<_>>().join(" ");
        let query = view.query.without(SHOWN).without("page").with("q", text.trim());
        let id = |name: &str| query.get(name).and_then(|text| text.parse::<RunId>().ok());
        let from = match (id("after"), id("before")) {
            (Some(after), _) => SearchFrom::Older(after),
            (None, Some(before)) => SearchFrom::Newer(before),
            (None, None) => SearchFrom::Newest,
        };
        let kind = fixed.or_else(|| query.get("kind").and_then(kind_of));
        let states = query.get("state").and_then(States::parse);
        let typed = Filter::parse(query.get("q").unwrap_or_default());
        let filter = Asked::filter(view, kind, states, &typed);
        let shown = view.query.get(SHOWN).map(|text| text.split('.').filter_map(|id| id.parse().ok()).collect());
        Asked { query, path, kind, states, typed, filter, from, shown }
    }

    fn filter(view: &View, kind: Option<ListedKind>, states: Option<States>, typed: &Filter) -> ListFilter {
        let mut filter = ListFilter { namespace: view.namespace.clone(), ..ListFilter::default() };
        typed.fill(&mut filter, view.now, &view.zone);
        filter.kind = kind.or(filter.kind);
        if let Some(states) = states {
            filter.phases = states.phases().to_vec();
        }
        filter
    }

    /// The address with another value of a parameter, from its beginning.
    pub fn with(&self, name: &str, value: &str) -> String {
        self.query.without("after").without("before").with(name, value).at(self.path)
    }

    /// True when something narrows the list.
    fn is_narrowed(&self) -> bool {
        self.states.is_some() || !self.typed.tokens.is_empty()
    }
}

/// The page.
pub async fn page(view: &View, entry: Entry) -> Result<Page, Error> {
    let asked = Asked::of(view, entry);
    let may_act = view.may(Scope::Submit);
    let found = find(view, &asked).await?;
    let newest = found.runs.first().map(|row| row.run.record.id);
    let newer = match (&asked.shown, newest, asked.typed.words()) {
        (Some(_), Some(newest), None) if asked.from == SearchFrom::Newest => {
            lists::count_newer(&view.app, &view.caller, &asked.filter, newest, NEWER_MAX).await?
        }
        (Some(_), None, None) => lists::page(&view.app, &view.caller, &asked.filter, asked.from, 1).await?.runs.len(),
        _ => 0,
    };
    let counts = counts(view, &asked.filter).await?;
    let excludes = match found.runs.is_empty() {
        true => excludes_most(view, &asked).await?,
        false => None,
    };
    let main = html! {
        (head(view, &asked, entry, may_act))
        section.panel aria-label=(title(entry)) {
            (part("tabs", &tabs(&asked, counts.as_deref())))
            (filters(&asked))
            (part("news", &news(&asked, newer)))
            @if found.runs.is_empty() {
                (nothing(view, &asked, &found, excludes))
            } @else {
                (table(view, &found.runs, may_act))
            }
            (pager(&asked, &found))
        }
        @if may_act && !found.runs.is_empty() { (act::bar(&asked, counts.as_deref())) }
    };
    let mut page = Page::new(entry, title(entry), main);
    if asked.shown.is_none() && !found.runs.is_empty() {
        let ids: Vec<String> = found.runs.iter().map(|row| row.run.record.id.0.simple().to_string()).collect();
        // What is followed are these rows: new ones are counted, and never push. Where there is none yet, the first
        // ones come by themselves.
        page = page.followed_at(asked.query.with(SHOWN, ids.join(".")).at(&view.path));
    }
    Ok(page)
}

fn title(entry: Entry) -> &'static str {
    match entry {
        Entry::Builds => "Builds",
        Entry::Workflows => "Workflows",
        _ => "Runs",
    }
}

async fn find(view: &View, asked: &Asked) -> Result<ListPage, Error> {
    let (app, caller) = (&view.app, &view.caller);
    if let Some(shown) = &asked.shown {
        let runs = lists::those(app, caller, &view.namespace, shown).await?;
        let has_more = runs.len() >= ROWS;
        return Ok(ListPage { runs, has_more, looked_to: None });
    }
    match asked.typed.words() {
        Some(words) => lists::anywhere(app, caller, &asked.filter, words, ROWS, true).await,
        None => lists::page(app, caller, &asked.filter, asked.from, ROWS).await,
    }
}

/// What was counted for a tab, and when.
struct Kept {
    at: Instant,
    took: Duration,
    counts: Option<Arc<PhaseCounts>>,
    /// Somebody counts again.
    is_counting: bool,
}

/// Counts by what they are counted for.
static KEPT: Mutex<Option<HashMap<String, Kept>>> = Mutex::new(None);

fn with_kept<T>(act: impl FnOnce(&mut HashMap<String, Kept>) -> T) -> T {
    act(KEPT.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// Counts, which are the same for all who look at the same for a while. Nobody waits long for them: a page has the last
/// ones or none, and gets new ones while it is followed.
async fn counts(view: &View, filter: &ListFilter) -> Result<Option<Arc<PhaseCounts>>, Error> {
    // Before the caller hears what another one has counted.
    view.caller.may(Scope::Read, &view.namespace)?;
    // A moment that moves on all the time would never be the same.
    let since = filter.since.map(|since| since / 60_000 * 60_000);
    let all = ListFilter { phases: Vec::new(), since, ..filter.clone() };
    let key = format!("{} {all:?}", face::server_mark(&view.app));
    let (last, is_due) = with_kept(|kept| {
        if kept.len() >= COUNTS_MAX && !kept.contains_key(&key) {
            kept.clear();
        }
        let is_new = !kept.contains_key(&key);
        let own = kept.entry(key.clone()).or_insert_with(|| Kept {
            at: Instant::now(),
            took: Duration::ZERO,
            counts: None,
            is_counting: false,
        });
        let is_old = own.at.elapsed() >= COUNTS_FRESH.max(own.took * COUNTS_FACTOR);
        let is_due = !own.is_counting && (is_new || is_old);
        own.is_counting |= is_due;
        (own.counts.clone(), is_due)
    });
    if !is_due {
        return Ok(last);
    }
    let (app, caller) = (view.app.clone(), view.caller.clone());
    let counting = tokio::spawn(async move {
        let began = Instant::now();
        let counted = lists::counts(&app, &caller, &all).await;
        with_kept(|kept| {
            let own = kept.get_mut(&key);
            let counts = counted.inspect_err(|error| tracing::debug!(%error, "tabs are not counted now"));
            let counts = counts.ok().flatten().map(Arc::new);
            if let Some(own) = own {
                *own = Kept { at: Instant::now(), took: began.elapsed(), counts: counts.clone(), is_counting: false };
            }
            counts
        })
    });
    match tokio::time::timeout(COUNTS_PATIENCE, counting).await {
        Ok(Ok(counts)) => Ok(counts),
        Ok(Err(_)) | Err(_) => Ok(last),
    }
}

fn head(view: &View, asked: &Asked, entry: Entry, may_act: bool) -> Markup {
    let kinds = [
        (None, "All", ""),
        (Some(ListedKind::Run), "Runs", "plain"),
        (Some(ListedKind::Build), "Builds", "build"),
        (Some(ListedKind::Workflow), "Workflows", "flow"),
    ];
    html! {
        div.page-head {
            @if entry == Entry::Runs {
                nav.seg aria-label="Kind" {
                    @for (kind, name, icon_name) in kinds {
                        a href=(asked.with("kind", kind.map_or("", kind_word))) aria-current=[(asked.kind == kind).then_some("true")] {
                            @if !icon_name.is_empty() { (icon(icon_name)) } (name)
                        }
                    }
                }
            } @else if entry == Entry::Workflows {
                nav.seg aria-label="View" {
                    a href=(view.href("/workflows")) { "Types" }
                    a href=(view.href("/workflows/runs")) aria-current="true" { "Runs" }
                }
            }
            @if may_act { div.end { (submit::button(view, entry)) } }
        }
    }
}

/// How many runs the phases of a tab have, and whether there may be more.
fn count_of(counts: &PhaseCounts, phases: &[Phase]) -> (u64, bool) {
    let of = |phase: &Phase| Phase::ALL.iter().position(|other| other == phase).unwrap_or_default();
    let sum = phases.iter().map(|phase| counts.counts[of(phase)]).sum();
    (sum, phases.iter().any(|phase| counts.is_capped[of(phase)]))
}

fn shown_count((count, is_capped): (u64, bool)) -> String {
    format!("{}{}", format::short_number(count), if is_capped { "+" } else { "" })
}

fn tabs(asked: &Asked, counts: Option<&PhaseCounts>) -> Markup {
    let count = |phases: &[Phase]| counts.map(|counts| count_of(counts, phases));
    html! {
        nav.tabs id="tabs" aria-label="State" {
            a href=(asked.with("state", "")) aria-current=[asked.states.is_none().then_some("true")] {
                "all" @if let Some(count) = count(&Phase::ALL) { span.n { (shown_count(count)) } }
            }
            @for states in States::ALL {
                a href=(asked.with("state", states.word())) aria-current=[(asked.states == Some(states)).then_some("true")] {
                    (icon(tab_icon(states))) (states.shown())
                    @if let Some(count) = count(states.phases()) { span.n { (shown_count(count)) } }
                }
            }
        }
    }
}

fn tab_icon(states: States) -> &'static str {
    match states {
        States::Waiting => "wait",
        States::Later => "later",
        States::Running => "run",
        States::Sleeping => "sleep",
        States::Failed => "bad",
        States::Completed => "ok",
        States::Cancelled => "off",
    }
}

/// Fields that keep the rest of an address when a form of it is sent.
fn kept_fields(query: &Query, names: &[&str]) -> Markup {
    html! {
        @for name in names {
            @if let Some(value) = query.get(name) { input type="hidden" name=(name) value=(value); }
        }
    }
}

fn filters(asked: &Asked) -> Markup {
    let is_plain = asked.typed.wrong.is_empty();
    let words = asked.typed.tokens.iter().find(|token| matches!(token, filter::Token::Words(_)));
    let words = words.map(ToString::to_string).unwrap_or_default();
    let tokens =
        || asked.typed.tokens.iter().enumerate().filter(|(_, token)| !matches!(token, filter::Token::Words(_)));
    let text = if is_plain { words } else { asked.query.get("q").unwrap_or_default().to_owned() };
    let has_tokens = is_plain && tokens().next().is_some();
    html! {
        form.filters method="get" action=(asked.path) role="search" {
            (kept_fields(&asked.query, &["ns", "state", "kind"]))
            div.q {
                (icon("find"))
                @if has_tokens {
                    @for (index, token) in tokens() {
                        @let text = token.to_string();
                        span.token dir="auto" {
                            (format::visible(&text))
                            input type="hidden" name="q" value=(text);
                            a.x href=(asked.with("q", &asked.typed.without(index).to_string())) aria-label={ "Remove " (format::visible(&text)) } { "×" }
                        }
                    }
                }
                input id="q" type="search" name="q" value=(text) aria-label="Filter" dir="auto" autocomplete="off"
                    placeholder="id, key, queue:, type:, worker:, why:, error text" aria-describedby=[(!is_plain).then_some("q-wrong")];
            }
            button.btn.hide-s { "Filter" }
            @if asked.is_narrowed() { a.btn.ghost.hide-s href=(asked.query.without("q").without("state").without("after").without("before").at(asked.path)) { "Clear" } }
            @if !is_plain { p.c-bad.sm id="q-wrong" role="alert" { (format::visible(&asked.typed.wrong.join(" "))) } }
        }
    }
}

fn news(asked: &Asked, newer: usize) -> Markup {
    html! {
        div id="news" class=[(newer > 0).then_some("news")] {
            @if newer > 0 {
                a href=(asked.query.without("after").without("before").at(asked.path)) {
                    @if newer >= NEWER_MAX { "Over " (format::number(NEWER_MAX as u64)) " newer runs" }
                    @else { (format::counted(newer as u64, "newer run", "newer runs")) }
                }
            }
        }
    }
}

/// The table of some rows.
pub fn table(view: &View, runs: &[Listed], may_select: bool) -> Markup {
    html! {
        div.scroll-x {
            table.fixed.cards {
                thead {
                    tr {
                        @if may_select { th.w-check { input type="checkbox" aria-label="Select all shown"; } }
                        th.w-st { "State" } th.w-name { "Run" } th.w-s2 { "Id" } th.w-q { "Queue" } th.w-now { "Now" }
                        th.w-s.num { "Try" } th.w-m.num { "Took" } th.w-m.num aria-sort="descending" { "Age" }
                    }
                }
                tbody {
                    @for run in runs { (part(&format!("r-{}", run.run.record.id), &row::row(view, run, may_select))) }
                }
            }
        }
    }
}

/// The token without which there are the most runs, and how many.
async fn excludes_most(view: &View, asked: &Asked) -> Result<Option<(usize, usize)>, Error> {
    let tokens = asked.typed.tokens.len();
    if tokens == 0 || tokens > TRIED_MAX || asked.typed.words().is_some() {
        return Ok(None);
    }
    let mut best = None;
    for index in 0..tokens {
        let filter = Asked::filter(view, asked.kind, asked.states, &asked.typed.without(index));
        let count = lists::count_newer(&view.app, &view.caller, &filter, RunId::floor(0), NEWER_MAX).await?;
        if count > best.map_or(0, |(_, most)| most) {
            best = Some((index, count));
        }
    }
    Ok(best)
}

fn nothing(view: &View, asked: &Asked, found: &ListPage, excludes: Option<(usize, usize)>) -> Markup {
    let tokens = || asked.typed.tokens.iter().enumerate();
    html! {
        @if found.looked_to.is_some() {
            (parts::empty("find", "Nothing among the runs that were looked at.", html! { p.soft { "Go on to look at older ones." } }))
        } @else if asked.is_narrowed() || asked.from != SearchFrom::Newest {
            (parts::empty("find", "No run matches.", html! {
                @if let Some((index, count)) = excludes {
                    p.soft {
                        "Without " (token_link(asked, index)) " there " (if count == 1 { "is " } else { "are " })
                        @if count >= NEWER_MAX { "over " } (format::number(count as u64)) "."
                    }
                } @else if tokens().next().is_some() {
                    p.soft { "Look without " @for (index, _) in tokens() { (token_link(asked, index)) " " } }
                } @else { p.soft { a.link href=(asked.query.without("state").without("after").without("before").at(asked.path)) { "Show all" } } }
            }))
        } @else {
            (submit::teach(view, asked.kind))
        }
    }
}

/// A token, as a link to the list without it.
fn token_link(asked: &Asked, index: usize) -> Markup {
    let text = asked.typed.tokens.get(index).map(ToString::to_string).unwrap_or_default();
    html! {
        a.token dir="auto" href=(asked.with("q", &asked.typed.without(index).to_string())) { (format::visible(&text)) " ×" }
    }
}

fn pager(asked: &Asked, found: &ListPage) -> Markup {
    let (first, last) = (found.runs.first(), found.runs.last());
    let turn = |name: &str, id: RunId| {
        let other = if name == "after" { "before" } else { "after" };
        asked.query.without(other).with(name, id.to_string()).at(asked.path)
    };
    let is_up = matches!(asked.from, SearchFrom::Newer(_));
    let has_words = asked.typed.words().is_some();
    let newer = first.filter(|_| asked.from != SearchFrom::Newest && (!is_up || found.has_more) && !has_words);
    let older = last.filter(|_| (found.has_more || is_up) && !has_words);
    let looked = found.looked_to.filter(|_| !has_words);
    html! {
        footer.pager hidden[found.runs.is_empty() && newer.is_none() && looked.is_none()] {
            span {
                @if has_words {
                    (format::counted(found.runs.len() as u64, "run", "runs")) " by id, key or message"
                    @if found.looked_to.is_some() { ". Messages of the newest " (format::number(20_000)) " failed and cancelled runs were looked at" }
                } @else if looked.is_some() {
                    (format::counted(found.runs.len() as u64, "run", "runs")) " among those that were looked at so far"
                } @else {
                    (format::counted(found.runs.len() as u64, "run", "runs")) " on this page"
                }
            }
            span.push {}
            @if let Some(first) = newer {
                a.btn.small rel="prev" href=(turn("before", first.run.record.id)) { span.flip { (icon("right")) } "Newer" }
            }
            @if let Some(edge) = looked {
                a.btn.small rel="next" href=(turn(if is_up { "before" } else { "after" }, edge)) { "Go on" (icon("right")) }
            } @else if let Some(last) = older {
                a.btn.small rel="next" href=(turn("after", last.run.record.id)) { "Older" (icon("right")) }
            }
        }
    }
}
