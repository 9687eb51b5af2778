//! The shell around each page: navigation, the bar at the top, and what is the same everywhere.

use std::time::Duration;

use baton_proto::NAMESPACE_DEFAULT;
use baton_server::Scope;
use baton_server::service::health;
use http::StatusCode;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::assets;
use crate::format;
use crate::parts::icon;
use crate::query::Query;
use crate::session::CSRF_MARK;
use crate::view::View;

/// How often a page is looked at again although nothing happened here: leases are renewed, clocks go on.
pub const QUIET: Duration = Duration::from_secs(5);

/// What stands before and behind a part of a page that changes by itself. No text of a user has either: `<` is escaped.
const PART: (&str, &str, &str) = ("<!--part ", "-->", "<!--/part-->");

/// A page, without the shell.
pub struct Page {
    /// What the browser's tab says, and the last crumb.
    pub title: String,
    /// Where one comes from: names and addresses.
    pub crumbs: Vec<(String, String)>,
    /// The entry of the navigation that it belongs to.
    pub entry: Entry,
    /// What stands in the bar at the top beside the title.
    pub tools: Markup,
    /// The page itself.
    pub main: Markup,
    /// How often it is looked at again while nothing happens.
    pub quiet: Duration,
    /// What its answer says: a page that says why there is none is no success.
    pub status: StatusCode,
    /// The address at which it is followed, where that is not its own.
    pub followed: Option<String>,
}

impl Page {
    /// A page with a title and a body.
    pub fn new(entry: Entry, title: impl Into<String>, main: Markup) -> Page {
        Page {
            title: title.into(),
            crumbs: Vec::new(),
            entry,
            tools: html! {},
            main,
            quiet: QUIET,
            status: StatusCode::OK,
            followed: None,
        }
    }

    /// The same below another page.
    #[must_use]
    pub fn below(mut self, name: impl Into<String>, address: impl Into<String>) -> Page {
        self.crumbs.push((name.into(), address.into()));
        self
    }

    /// The same, followed at another address than its own: one that says what it was loaded with.
    #[must_use]
    pub fn followed_at(self, address: String) -> Page {
        Page { followed: Some(address), ..self }
    }

    /// The same with something in the bar at the top.
    #[must_use]
    pub fn with_tools(self, tools: Markup) -> Page {
        Page { tools, ..self }
    }
}

/// A part of a page that is sent again by itself when it changes. `content` has one element around it, with this id.
pub fn part(id: &str, content: &Markup) -> Markup {
    PreEscaped(format!("{}{id}{}{}{}", PART.0, PART.1, content.0, PART.2))
}

/// A page as it is sent: what stands around its parts, and the parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Everything, with each part left out.
    pub frame: String,
    /// Ids and contents, in their order.
    pub parts: Vec<(String, String)>,
}

impl Split {
    /// Takes a page apart.
    pub fn of(html: &str) -> Split {
        let (mut frame, mut parts, mut rest) = (String::with_capacity(html.len() / 4), Vec::new(), html);
        while let Some((before, after)) = rest.split_once(PART.0) {
            frame.push_str(before);
            frame.push_str(PART.0);
            let Some((id, after)) = after.split_once(PART.1) else { break };
            let Some((content, after)) = after.split_once(PART.2) else { break };
            parts.push((id.to_owned(), content.to_owned()));
            rest = after;
        }
        frame.push_str(rest);
        Split { frame, parts }
    }

    /// The page as the browser gets it.
    pub fn whole(&self) -> String {
        let mut parts = self.parts.iter();
        let mut html = String::new();
        for (index, piece) in self.frame.split(PART.0).enumerate() {
            if index > 0 {
                html.push_str(parts.next().map_or("", |(_, content)| content));
            }
            html.push_str(piece);
        }
        html
    }
}

/// Entries of the navigation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// Overview.
    Overview,
    /// Runs.
    Runs,
    /// Builds.
    Builds,
    /// Workflows.
    Workflows,
    /// Schedules.
    Schedules,
    /// Queues.
    Queues,
    /// Workers.
    Workers,
    /// Pools.
    Pools,
    /// Namespaces.
    Namespaces,
    /// Keys.
    Keys,
    /// Audit.
    Audit,
    /// Settings.
    Settings,
    /// Webhooks.
    Webhooks,
    /// The rest, on a phone.
    More,
}

struct Link {
    entry: Entry,
    name: &'static str,
    path: &'static str,
    icon: &'static str,
    key: &'static str,
    /// Stands in the bar at the bottom of a phone.
    is_first: bool,
}

const fn link(entry: Entry, name: &'static str, path: &'static str, icon: &'static str, key: &'static str) -> Link {
    Link {
        entry,
        name,
        path,
        icon,
        key,
        is_first: matches!(entry, Entry::Overview | Entry::Runs | Entry::Queues | Entry::Pools),
    }
}

const WORK: [Link; 5] = [
    link(Entry::Overview, "Overview", "/", "home", "o"),
    link(Entry::Runs, "Runs", "/runs", "list", "r"),
    link(Entry::Builds, "Builds", "/builds", "build", "b"),
    link(Entry::Workflows, "Workflows", "/workflows", "flow", "w"),
    link(Entry::Schedules, "Schedules", "/schedules", "cal", "s"),
];
const CAPACITY: [Link; 3] = [
    link(Entry::Queues, "Queues", "/queues", "queue", "q"),
    link(Entry::Workers, "Workers", "/workers", "worker", "k"),
    link(Entry::Pools, "Pools", "/pools", "pool", "p"),
];
const INSTALLATION: [Link; 5] = [
    link(Entry::Namespaces, "Namespaces", "/namespaces", "ns", "n"),
    link(Entry::Keys, "Keys", "/keys", "key", ""),
    link(Entry::Webhooks, "Webhooks", "/webhooks", "signal", ""),
    link(Entry::Audit, "Audit", "/audit", "audit", ""),
    link(Entry::Settings, "Settings", "/settings", "gear", ""),
];

/// Everything between `<body>` and the dialogs: what is sent again when a page changes.
pub fn app(view: &View, page: &Page) -> Markup {
    html! {
        div.app id="app" {
            (navigation(view, page.entry))
            div {
                (top(view, page))
                main id="main" tabindex="-1" { (page.main) }
            }
        }
    }
}

fn navigation(view: &View, entry: Entry) -> Markup {
    let is_administrator = view.caller.can(Scope::Admin);
    html! {
        nav.nav aria-label="Pages" {
            a.brand.extra href=(view.href("/")) { (logo()) "Baton" }
            (namespaces(view))
            h2 { "Work" }
            @for link in &WORK { (entry_link(view, link, entry)) }
            h2 { "Capacity" }
            @for link in &CAPACITY { (entry_link(view, link, entry)) }
            @if is_administrator {
                h2 { "Installation" }
                @for link in INSTALLATION.iter().filter(|link| is_for(view, link)) { (entry_link(view, link, entry)) }
            }
            a.nav-more href=(view.href("/more")) aria-current=[is_below_more(entry).then_some("page")] { (icon("menu")) "More" }
            footer {
                span.cut { (view.app.settings.listen) } br;
                (env!("CARGO_PKG_VERSION")) " · " (if health::store_kind(&view.app) == "sqlite" { "SQLite" } else { "PostgreSQL" })
                br; a.link href="/openapi.json" { "API" }
                form.inline method="post" action="/signout" { (crate::parts::hidden_csrf()) button.linkish { "Sign out" } }
            }
        }
    }
}

/// True for pages that a phone's bar has no room for.
fn is_below_more(entry: Entry) -> bool {
    !WORK.iter().chain(&CAPACITY).any(|link| link.is_first && link.entry == entry)
}

/// What concerns all namespaces is for keys that are good for all of them.
fn is_for(view: &View, link: &Link) -> bool {
    !matches!(link.entry, Entry::Audit | Entry::Settings) || view.caller.is_administrator()
}

fn entry_link(view: &View, link: &Link, entry: Entry) -> Markup {
    html! {
        a.extra[!link.is_first] href=(view.href(link.path)) data-key=[Some(link.key).filter(|key| !key.is_empty())]
            aria-current=[(link.entry == entry).then_some("page")] { (icon(link.icon)) (link.name) }
    }
}

/// The pages that the one who looks may see: name, path and icon.
pub fn links(view: &View) -> Vec<(&'static str, &'static str, &'static str)> {
    let is_administrator = view.caller.can(Scope::Admin);
    let installation = INSTALLATION.iter().filter(|link| is_administrator && is_for(view, link));
    let all = WORK.iter().chain(&CAPACITY).chain(installation);
    all.map(|link| (link.name, link.path, link.icon)).collect()
}

/// All pages, for phones, whose bar has room for five.
pub fn all_pages(view: &View) -> Markup {
    let is_administrator = view.caller.can(Scope::Admin);
    let installation = INSTALLATION.iter().filter(|link| is_administrator && is_for(view, link));
    html! {
        section.panel aria-label="Pages" {
            ul.menu {
                @for link in WORK.iter().chain(&CAPACITY).chain(installation) {
                    li { a href=(view.href(link.path)) { (icon(link.icon)) (link.name) } }
                }
            }
        }
        form.stack method="post" action="/signout" { (crate::parts::hidden_csrf()) button.btn { "Sign out" } }
    }
}

/// Which namespace is shown, and a way to another one.
fn namespaces(view: &View) -> Markup {
    html! {
        @if view.caller.namespace.is_some() {
            span.ns { (icon("ns")) span.cut dir="auto" { (format::visible(&view.namespace)) } }
        } @else {
            a.ns href=(view.href("/namespaces/choose")) title="Show another namespace" {
                (icon("ns")) span.cut dir="auto" { (format::visible(&view.namespace)) } (icon("down"))
            }
        }
    }
}

fn top(view: &View, page: &Page) -> Markup {
    html! {
        header.top {
            nav.crumbs aria-label="You are here" {
                ol {
                    @for (name, address) in &page.crumbs {
                        li { a.cut href=(view.href(address)) dir="auto" { (format::visible(name)) } }
                    }
                    li aria-current="page" { h1.cut dir="auto" { (format::visible(&page.title)) } }
                }
            }
            (page.tools)
            button.find type="button" data-do="open" data-what="#palette" {
                (icon("find")) span { "Find a run, key, worker, or command" } kbd { "/" }
            }
            span.live id="live" role="status" { span { "Live" } }
            button.btn.ghost.icon type="button" data-do="theme" title="Light or dark" aria-label="Light or dark" { (icon("theme")) }
        }
    }
}

fn logo() -> Markup {
    html! {
        svg viewBox="0 0 20 20" aria-hidden="true" {
            path.m2 d="M3.2 13.1 9 7.3l3.6 3.6-5.8 5.8a2.55 2.55 0 0 1-3.6-3.6z" {}
            path.m1 d="m10.2 6.1 3-3a2.55 2.55 0 0 1 3.6 3.6l-3 3z" {}
        }
    }
}

/// A whole document around the content of a page.
pub fn document(view: &View, page: &Page, app: &str) -> Markup {
    let live = page.followed.clone().unwrap_or_else(|| view.query.without("page").at(&view.path));
    html! {
        (DOCTYPE)
        html lang="en" data-theme=[view.theme] {
            (head(&page.title))
            body data-live=(live) data-now=(view.now) data-csrf=(CSRF_MARK) {
                (PreEscaped(assets::icons()))
                a.skip href="#main" { "To the content" }
                (PreEscaped(app))
                (palette(view))
                (keys())
                div.toasts id="toasts" {}
            }
        }
    }
}

/// A document for those who have not signed in.
pub fn plain(title: &str, theme: Option<&str>, main: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" data-theme=[theme] {
            (head(title))
            body {
                (PreEscaped(assets::icons()))
                main.center id="main" {
                    div.card {
                        div.brand { (logo()) "Baton" }
                        (main)
                    }
                }
            }
        }
    }
}

fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            title { (format::visible(title)) " · Baton" }
            link rel="stylesheet" href=(assets::address("baton.css"));
            link rel="icon" type="image/svg+xml" href=(assets::address("favicon.svg"));
            script src=(assets::address("baton.js")) defer {}
        }
    }
}

/// The field that finds anything. It is a form, so that it works without script, too.
fn palette(view: &View) -> Markup {
    let namespace = (view.namespace != NAMESPACE_DEFAULT).then_some(&view.namespace);
    html! {
        dialog.palette id="palette" aria-label="Find" {
            form method="get" action="/runs" {
                @if let Some(namespace) = namespace { input type="hidden" name="ns" value=(namespace); }
                input type="search" name="q" placeholder="Find a run, key, worker, or command" aria-label="Find"
                    autocomplete="off" data-find=(Query::default().with("ns", view.namespace.as_str()).at("/find"));
            }
            div id="found" {}
            footer.sm.dim { kbd { "↑" } kbd { "↓" } " move " kbd { "↵" } " open " kbd { "esc" } " close" }
        }
    }
}

fn keys() -> Markup {
    const KEYS: [(&[&str], &str); 12] = [
        (&["/"], "find anything"),
        (&["j", "k"], "next and previous row"),
        (&["↵"], "open"),
        (&["x"], "select"),
        (&["X"], "select all that match"),
        (&["g", "then", "r"], "go to runs (o, b, w, s, q, k, p, n)"),
        (&["f"], "follow the log"),
        (&["n", "N"], "next and previous match"),
        (&["e"], "first error"),
        (&["[", "]"], "previous and next run of the list"),
        (&["t"], "time as age or as clock"),
        (&["esc"], "close, then clear the selection"),
    ];
    html! {
        dialog id="keys" aria-labelledby="keys-title" {
            header id="keys-title" { "Keyboard" }
            div.body.keys {
                @for (keys, what) in KEYS {
                    span { @for key in keys { @if *key == "then" { " then " } @else { kbd { (key) } " " } } }
                    (what)
                }
            }
            footer { button.btn type="button" data-do="close" { "Close" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_taken_apart_and_put_together() {
        let one = html! { p id="one" { "<!--/part-->" } };
        let two = html! { p id="two" { "b" } };
        let page = html! { div { (part("one", &one)) hr; (part("two", &two)) } };
        let split = Split::of(&page.0);
        assert_eq!(split.parts, [("one".to_owned(), one.0.clone()), ("two".to_owned(), two.0.clone())]);
        assert_eq!(split.whole(), html! { div { (one) hr; (two) } }.0);
        assert_eq!(split.frame, "<div><!--part <hr><!--part </div>");
    }
}
