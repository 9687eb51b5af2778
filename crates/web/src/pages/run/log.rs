//! The log of a build: a window of its lines, search, and what comes next.
//!
//! The page has a window of lines. The script asks for those that come after it (`/runs/{id}/log?after=`) when the foot
//! of the log says that there are more, so that a log that grows by a thousand lines a second is appended to twice a
//! second, and nothing is sent again.

use std::convert::Infallible;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use baton_core::{LeaseEnd, Millis};
use baton_server::service::sheet::{self, Lease, LogEnd, LogRecord, Sheet};
use baton_server::service::{self};
use baton_server::{App, Error};
use futures_util::stream;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, Uri};
use jiff::tz::TimeZone;
use maud::{Markup, PreEscaped, html};

use super::log_search::{self, Searched};
use super::log_text;
use crate::format::{self, Precision};
use crate::parts::{self, icon};
use crate::query::{Query, escape};
use crate::session::Visitor;
use crate::view::View;

/// Lines of a page.
const WINDOW: u64 = 400;
/// Lines before the one that is asked for.
const BEFORE: u64 = 60;
/// Lines of a fragment.
const FRAGMENT_MAX: u64 = 1_000;
/// Bytes of lines that one page or fragment has, roughly.
const BYTES_MAX: usize = 512 << 10;
/// Longest text that is looked for.
const FIND_MAX: usize = 200;
/// Lines of a whole log that are read together.
const RAW_LINES: usize = 5_000;
/// Says the number of the last line of a fragment.
const LAST: HeaderName = HeaderName::from_static("x-log-last");

/// Routes of lines, and of the whole log.
pub fn routes(router: Router<App>) -> Router<App> {
    router.route("/runs/{id}/log", get(fragment)).route("/runs/{id}/log.txt", get(raw))
}

/// What the address asks to see of a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Asked {
    /// Lines that are marked: `?log=428-431`.
    marked: Option<(u64, u64)>,
    /// The first line of the window: `?line=401`.
    first: Option<u64>,
    /// What is looked for: `?find=refund`.
    find: Option<String>,
    /// The first error is wanted: `?log=error`.
    wants_error: bool,
}

impl Asked {
    fn of(query: &Query) -> Asked {
        let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
        let log = query.get("log").unwrap_or_default();
        let marked = match log.split_once('-') {
            Some((first, last)) => number(first).zip(number(last)).map(|(one, two)| (one.min(two), one.max(two))),
            None => number(log).map(|line| (line, line)),
        };
        let find = query.get("find").map(|text| text.chars().take(FIND_MAX).collect());
        Asked { marked, first: query.get("line").and_then(number), find, wants_error: log == "error" }
    }
}

/// The first line of a window on a log with so many lines.
fn first_line(asked: &Asked, lines: u64) -> u64 {
    let tail = (lines + 1).saturating_sub(WINDOW).max(1);
    match (asked.first, asked.marked) {
        (Some(first), _) => first.min(lines.max(1)),
        (None, Some((marked, _))) => marked.saturating_sub(BEFORE).clamp(1, tail),
        (None, None) => tail,
    }
}

/// The panel.
pub async fn section(view: &View, sheet: &Sheet, leases: &[Lease], end: LogEnd) -> Result<Markup, Error> {
    let mut asked = Asked::of(&view.query);
    let searched = match (&asked.find, asked.wants_error) {
        (None, false) => None,
        (find, _) => Some(log_search::look(&view.app, sheet, find.as_deref(), end.lines).await?),
    };
    if asked.wants_error {
        asked.marked = searched.as_ref().and_then(|searched| searched.first_error).map(|line| (line, line));
    }
    // Somebody who looks for something is taken to the first that is found.
    if let (Some(searched), None, None) =
        (searched.as_ref().filter(|_| asked.find.is_some()), asked.marked, asked.first)
    {
        asked.marked = searched.lines.first().map(|line| (*line, *line));
    }
    let first = first_line(&asked, end.lines);
    // The script has the lines, and asks for more by itself.
    let lines = if view.is_again { vec![] } else { read(view, sheet, first, WINDOW).await? };
    let last = lines.last().map_or(first - 1, |line| line.number);
    let is_live = !sheet.record.state.is_ended();
    let is_tail = asked.marked.is_none() && asked.first.is_none();
    Ok(html! {
        section.panel.logs id="log" aria-label="Log" {
            (tools(view, sheet, &asked, searched.as_ref(), is_live && is_tail))
            ol.log id="log-lines" tabindex="0" aria-label="Lines of the log" data-keep="" data-last=(last)
                data-lines=(format!("/runs/{}/log?{}", sheet.run(), fragment_query(view, &asked))) {
                @if !view.is_again {
                    @if first > 1 {
                        li.more { a href=(window(view, first.saturating_sub(WINDOW).max(1))) {
                            (format::counted(first - 1, "earlier line", "earlier lines"))
                        } }
                    }
                    (written(view, sheet, leases, &asked, lines))
                    @if last < end.lines && !(is_live && is_tail) {
                        li.more { a href=(window(view, last + 1)) {
                            (format::counted(end.lines - last, "later line", "later lines"))
                        } }
                    }
                }
            }
            (crate::page::part("log-end", &foot(sheet, leases, end)))
        }
    })
}

/// The page with another window on the log.
fn window(view: &View, first: u64) -> String {
    let query = view.query.without("log").with("line", first.to_string());
    format!("{}#log", query.at(&view.path))
}

/// The page with a line marked.
fn marked(view: &View, line: u64) -> String {
    let query = view.query.without("line").with("log", line.to_string());
    format!("{}#L{line}", query.at(&view.path))
}

fn fragment_query(view: &View, asked: &Asked) -> Query {
    let query = Query::default().with("find", asked.find.clone().unwrap_or_default());
    match view.query.get("ns") {
        Some(namespace) => query.with("ns", namespace),
        None => query,
    }
}

fn tools(view: &View, sheet: &Sheet, asked: &Asked, searched: Option<&Searched>, follows: bool) -> Markup {
    let at = asked.marked.map(|(line, _)| line);
    html! {
        div.log-tools {
            form.find method="get" action={ (view.path) "#log" } role="search" {
                @if let Some(namespace) = view.query.get("ns") { input type="hidden" name="ns" value=(namespace); }
                (icon("find"))
                input type="search" name="find" value=[asked.find.as_deref()] maxlength=(FIND_MAX) autocomplete="off"
                    placeholder="Find in the log" aria-label="Find in the log" dir="auto" data-log="find";
                @if let (Some(find), Some(searched)) = (&asked.find, searched) {
                    (crate::page::part("log-found", &found(find, searched, at)))
                    (step(view, searched.before(at), "Previous match", "N", "i flipv"))
                    (step(view, searched.after(at), "Next match", "n", "i"))
                }
            }
            a.btn.small data-key="e" href={ (view.query.without("line").with("log", "error").at(&view.path)) "#log" } { "First error" }
            @if asked.wants_error && at.is_none() { span.dim.sm { "none found" } }
            span.push {}
            button.btn.small.ghost.hide-s type="button" data-log="times" aria-pressed="true" { "Times" }
            button.btn.small.ghost.hide-s type="button" data-log="wrap" aria-pressed="true" { "Wrap" }
            a.btn.small.ghost href=(view.href(&format!("/runs/{}/log.txt", sheet.run()))) { "Raw" }
            @if !sheet.record.state.is_ended() {
                button.btn.small type="button" data-log="follow" aria-pressed=(follows) {
                    (icon("get")) "Follow" kbd.hide-s { "f" }
                }
            } @else if asked.marked.is_some() || asked.first.is_some() {
                a.btn.small href={ (view.query.without("line").without("log").without("find").at(&view.path)) "#log" } { "End" }
            }
        }
    }
}

fn found(find: &str, searched: &Searched, at: Option<u64>) -> Markup {
    let count = searched.lines.len();
    let place = at.and_then(|at| searched.lines.binary_search(&at).ok());
    html! {
        span.dim.sm.nowrap id="log-found" role="status" title={ "lines with " (format::visible(find)) } {
            @match (place, count) {
                (_, 0) if searched.is_whole => "nothing",
                (Some(place), _) => { (format::number(place as u64 + 1)) " of " (format::number(count as u64)) },
                (None, _) => (format::counted(count as u64, "line", "lines")),
            }
            @if searched.is_capped { "+" }
            @if !searched.is_whole { ", as far as line " (format::number(searched.upto)) }
        }
    }
}

fn step(view: &View, line: Option<u64>, label: &str, key: &str, class: &str) -> Markup {
    let glyph = html! { svg class=(class) aria-hidden="true" { use href="#i-down" {} } };
    html! {
        @match line {
            Some(line) => a.btn.small.icon.ghost href=(marked(view, line)) data-key=(key) aria-label=(label) { (glyph) },
            None => button.btn.small.icon.ghost type="button" disabled aria-label=(label) { (glyph) },
        }
    }
}

fn foot(sheet: &Sheet, leases: &[Lease], end: LogEnd) -> Markup {
    let is_live = !sheet.record.state.is_ended();
    html! {
        div.log-foot id="log-end" data-end=(end.lines) {
            button.btn.small type="button" data-log="news" hidden {}
            span {
                @match end.lines {
                    0 if is_live => "Nothing was said yet.",
                    0 => "Nothing was said.",
                    lines => { "line " (format::number(lines)) " · " (format::bytes(end.bytes)) },
                }
                @if end.is_full { " · the log is full" }
            }
            @if leases.len() > 1 {
                span.push.hide-s { "an orange edge: lines of an earlier epoch than " (parts::epoch(sheet.record.epoch.number())) }
            }
        }
    }
}

/// Lines from a number on, fewer where they are large.
async fn read(view: &View, sheet: &Sheet, first: u64, count: u64) -> Result<Vec<LogRecord>, Error> {
    let mut lines = sheet.log_lines(&view.app, first - 1, usize::try_from(count).unwrap_or(usize::MAX)).await?;
    let mut bytes = 0;
    let fitting = lines.iter().take_while(|line| {
        let fits = bytes < BYTES_MAX;
        bytes += line.message.len().min(log_text::SHOWN_MAX);
        fits
    });
    let fitting = fitting.count();
    lines.truncate(fitting);
    Ok(lines)
}

/// The epoch under which a line came: that of the newest lease that was claimed before.
fn epoch_at(leases: &[Lease], arrived_at: Millis) -> u32 {
    let after = leases.partition_point(|lease| lease.claimed_at <= arrived_at);
    after.checked_sub(1).map_or(0, |index| leases[index].epoch)
}

/// What is open while lines are written.
struct Writing<'a> {
    view: &'a View,
    leases: &'a [Lease],
    asked: &'a Asked,
    find: Option<String>,
    newest: u32,
    folds: bool,
    out: String,
}

/// Lines as elements of the list, with a line where a lease was handed over, and sections that fold.
fn written(view: &View, sheet: &Sheet, leases: &[Lease], asked: &Asked, lines: Vec<LogRecord>) -> Markup {
    let mut writing = Writing {
        view,
        leases,
        asked,
        find: asked.find.as_ref().map(|find| find.to_ascii_lowercase()),
        newest: sheet.record.epoch.number(),
        folds: sheet.record.state == baton_core::State::Completed,
        out: String::with_capacity(lines.len() * 160),
    };
    let mut before: Option<u32> = None;
    let mut section: Option<(log_text::Section, Vec<LogRecord>)> = None;
    for line in lines {
        let epoch = epoch_at(leases, line.arrived_at);
        let is_handed_over = before.is_some_and(|before| before != epoch && before > 0);
        let begins = log_text::section(&line.message);
        if is_handed_over || begins.is_some() {
            writing.section(section.take());
        }
        if is_handed_over {
            writing.handed_over(epoch);
        }
        before = Some(epoch);
        match (begins, &mut section) {
            (Some(log_text::Mark::Begin(begun)), _) => section = Some((begun, vec![line])),
            (Some(log_text::Mark::End), _) => {}
            (None, Some((_, inside))) => inside.push(line),
            (None, None) => writing.line(&line),
        }
    }
    writing.section(section);
    PreEscaped(writing.out)
}

impl Writing<'_> {
    fn section(&mut self, section: Option<(log_text::Section, Vec<LogRecord>)>) {
        let Some((section, lines)) = section else { return };
        let is_marked = |line: &LogRecord| {
            self.asked.marked.is_some_and(|(first, last)| (first..=last).contains(&line.number))
                || self.find.as_ref().is_some_and(|find| line.message.to_ascii_lowercase().contains(find.as_str()))
        };
        let is_open = !self.folds || lines.iter().any(|line| is_marked(line) || log_search::is_error(line));
        let took = lines.last().map_or(0, |last| last.at - lines[0].at);
        let open = if is_open { " open" } else { "" };
        let head = html! { (section.name) span.du { (format::duration(took)) } };
        self.out
            .push_str(&format!("<li class=\"fold\"><details{open}><summary class=\"sec\">{}</summary><ol>", head.0));
        for line in &lines {
            self.line(line);
        }
        self.out.push_str("</ol></details></li>");
    }

    fn handed_over(&mut self, epoch: u32) {
        let Some(index) = self.leases.iter().position(|lease| lease.epoch == epoch) else { return };
        let (lease, before) = (&self.leases[index], index.checked_sub(1).and_then(|index| self.leases.get(index)));
        let ended = before.and_then(|before| Some((Writing::name(before), before.ended?)));
        let content = html! {
            li.hand {
                (icon("hand"))
                span dir="auto" {
                    @if let Some((name, (at, end))) = ended {
                        (format::visible(&name)) " " (ended_how(end)) ". "
                        b { (format::visible(&Writing::name(lease))) } " took over with epoch " (epoch) " at "
                        (self.clock(lease.claimed_at)) ", " (format::duration(lease.claimed_at - at)) " later."
                    } @else {
                        b { (format::visible(&Writing::name(lease))) } " took over with epoch " (epoch) " at "
                        (self.clock(lease.claimed_at)) "."
                    }
                }
            }
        };
        self.out.push_str(&content.0);
    }

    fn name(lease: &Lease) -> String {
        lease.worker_name.clone().unwrap_or_else(|| "a worker that is gone".into())
    }

    fn clock(&self, at: Millis) -> String {
        tenths(at, &self.view.zone)
    }

    fn line(&mut self, line: &LogRecord) {
        let number = line.number;
        let is_on = self.asked.marked.is_some_and(|(first, last)| (first..=last).contains(&number));
        let epoch = epoch_at(self.leases, line.arrived_at);
        let is_earlier = (1..self.newest).contains(&epoch);
        let class = match (is_on, is_earlier) {
            (false, false) => "",
            (true, false) => " class=\"on\"",
            (false, true) => " class=\"earlier\"",
            (true, true) => " class=\"on earlier\"",
        };
        let namespace = match self.view.query.get("ns") {
            Some(namespace) => format!("&amp;ns={}", escape(namespace)),
            None => String::new(),
        };
        let current = is_on && self.find.is_some();
        let text = log_text::html(&line.message, &line.level, self.find.as_deref(), current);
        self.out.push_str(&format!(
            "<li id=\"L{number}\"{class}><a href=\"?log={number}{namespace}#L{number}\">{number}</a><time>{}</time>\
             <span class=\"t\" dir=\"auto\">{text}</span></li>\n",
            self.clock(line.at)
        ));
    }
}

fn ended_how(end: LeaseEnd) -> &'static str {
    match end {
        LeaseEnd::Completed => "completed it",
        LeaseEnd::Failed => "said that the try failed",
        LeaseEnd::GivenBack => "gave it back",
        LeaseEnd::Slept => "put it to sleep",
        LeaseEnd::Lost => "fell silent",
        LeaseEnd::TimedOut => "took too long",
        LeaseEnd::Cancelled => "was cancelled",
    }
}

/// The time of day with tenths; days are not worth their room in a log.
fn tenths(at: Millis, zone: &TimeZone) -> String {
    format::clock(at, at, zone, Precision::Tenths)
}

/// Lines for the script: those after a number, at most so many, or those before one.
async fn fragment(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Error> {
    let mut view = View::of(&app, &visitor, &headers, &uri).await?;
    let sheet = sheet::one(&app, &visitor.caller, service::run_id(&id)?).await?;
    view.namespace.clone_from(&sheet.lane.namespace);
    let leases = sheet.leases(&app).await?;
    let number = |name: &str| view.query.get(name).and_then(|text| text.parse::<u64>().ok());
    // One line before those asked for says whether a lease was handed over in between.
    let after = number("after").unwrap_or(0);
    let lines = read(&view, &sheet, after + 1, FRAGMENT_MAX).await?;
    let last = lines.last().map_or(after, |line| line.number);
    let asked = Asked { find: Asked::of(&view.query).find, ..Asked::default() };
    let written = written(&view, &sheet, &leases, &asked, lines);
    let headers = [(CONTENT_TYPE, "text/html; charset=utf-8".to_owned()), (LAST, last.to_string())];
    Ok((headers, written.0).into_response())
}

/// The whole log as text.
async fn raw(State(app): State<App>, visitor: Visitor, Path(id): Path<String>) -> Result<Response, Error> {
    let sheet = sheet::one(&app, &visitor.caller, service::run_id(&id)?).await?;
    if sheet.build().is_none() {
        return Err(Error::NotFound { what: "log", id });
    }
    let name = format!("inline; filename=\"{}.log\"", sheet.run());
    let text = stream::unfold((app, sheet, 0), |(app, sheet, after)| async move {
        // What cannot be read any more ends the text: its beginning has gone out.
        let lines = sheet.log_lines(&app, after, RAW_LINES).await.unwrap_or_default();
        let last = lines.last()?.number;
        let text: String = lines.iter().flat_map(|line| [line.message.as_str(), "\n"]).collect();
        Some((Ok::<_, Infallible>(text), (app, sheet, last)))
    });
    let headers = [(CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()), (CONTENT_DISPOSITION, name)];
    Ok((headers, Body::from_stream(text)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_asked_for_in_the_address() {
        let asked = |query: &str| Asked::of(&Query::parse(query));
        assert_eq!(asked("log=428").marked, Some((428, 428)));
        assert_eq!(asked("log=431-428").marked, Some((428, 431)));
        assert_eq!(asked("log=0").marked, None);
        assert_eq!(asked("log=x-1").marked, None);
        assert!(asked("log=error").wants_error);
        assert_eq!(asked("line=7&find=a+b"), Asked { first: Some(7), find: Some("a b".into()), ..Asked::default() });
    }

    #[test]
    fn a_window_is_within_the_log() {
        let first = |query: &str, lines| first_line(&Asked::of(&Query::parse(query)), lines);
        assert_eq!(first("", 0), 1);
        assert_eq!(first("", 400), 1);
        assert_eq!(first("", 1_000), 601);
        assert_eq!(first("log=10", 1_000), 1);
        assert_eq!(first("log=500-600", 1_000), 440);
        assert_eq!(first("log=999", 1_000), 601);
        assert_eq!(first("log=99999", 1_000), 601);
        assert_eq!(first("line=99999", 1_000), 1_000);
        assert_eq!(first("line=5", 0), 1);
    }

    #[test]
    fn a_line_is_of_the_lease_under_which_it_came() {
        let lease = |epoch, claimed_at| Lease {
            epoch,
            worker: None,
            worker_name: None,
            claimed_at,
            started_at: None,
            ended: None,
            error: None,
        };
        let leases = [lease(1, 100), lease(2, 200)];
        for (at, epoch) in [(99, 0), (100, 1), (199, 1), (200, 2), (900, 2)] {
            assert_eq!(epoch_at(&leases, at), epoch);
        }
        assert_eq!(epoch_at(&[], 5), 0);
    }
}
