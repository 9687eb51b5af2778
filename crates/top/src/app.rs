//! The state of the screen, and what keys and answers make of it. Pure: no terminal, no network, no clock.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use baton::proto::{
    Explanation, HistoryEvent, ListedClaim, PoolView, QueueView, RunView, RunnerView, Statistics, WaitReason,
    WorkerView,
};
use baton::{ClientError, RunFilter, State, StepView};
use baton_core::Millis;

use crate::ask::{Answer, Ask, Lane, Named};
use crate::filter::{Filter, Tab, runs_of};
use crate::keys::Command;
use crate::rows;

/// One of the four lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    Queues,
    Runs,
    Workers,
    Pools,
}

impl View {
    pub const ALL: [View; 4] = [View::Queues, View::Runs, View::Workers, View::Pools];

    pub fn name(self) -> &'static str {
        match self {
            View::Queues => "Queues",
            View::Runs => "Runs",
            View::Workers => "Workers",
            View::Pools => "Pools",
        }
    }
}

/// What a row is, and what details are about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Subject {
    Queue(Named),
    Run(String),
    Worker(String),
    Pool(Named),
}

/// Where one is in a list. The row is remembered by what it is, so that it stays chosen when others come and go.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    pub row: usize,
    pub subject: Option<Subject>,
    /// The first row that is shown.
    pub offset: usize,
}

/// What keys mean at the moment.
#[derive(Clone, PartialEq, Debug)]
pub enum Mode {
    Normal,
    /// Somebody types a filter; the one before comes back with Esc.
    Filter {
        before: String,
    },
    /// A question is open.
    Confirm {
        action: Action,
        question: String,
    },
    Help,
}

/// Something that changes the world.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    Cancel(String),
    Retry(String),
    Drain { id: String, name: String },
    Pause(Named),
    Resume(Named),
}

impl Action {
    /// The scope that a key needs for it.
    pub fn scope(&self) -> &'static str {
        match self {
            Action::Cancel(_) | Action::Retry(_) => "submit",
            Action::Drain { .. } | Action::Pause(_) | Action::Resume(_) => "admin",
        }
    }

    /// In the words of `you may not …`.
    pub fn verb(&self) -> &'static str {
        match self {
            Action::Cancel(_) => "cancel runs",
            Action::Retry(_) => "retry runs",
            Action::Drain { .. } => "drain workers",
            Action::Pause(_) => "pause queues",
            Action::Resume(_) => "resume queues",
        }
    }
}

/// What is open instead of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Details {
    pub subject: Subject,
    pub scroll: usize,
    pub pane: Pane,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pane {
    Facts,
    Log,
}

/// How something that was said is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mood {
    Good,
    Bad,
    Note,
}

/// A line at the bottom, for a while.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
    pub mood: Mood,
    pub text: String,
    pub until: Millis,
}

/// How long something that was said stays.
const SAID: Millis = 10_000;
/// Lines of a log that are kept.
pub const LOG_LINES_MAX: usize = 5_000;

/// Whether the server answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Link {
    Live,
    /// Nobody answers since then; the next try comes at `next`.
    Lost {
        since: Millis,
        next: Millis,
        why: String,
    },
    /// It answers, and does not let us in.
    Refused(String),
}

/// The server, and who we are to it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Server {
    pub url: String,
    pub version: Option<String>,
    pub key: String,
    pub scopes: Vec<String>,
    /// The only namespace that is shown.
    pub namespace: Option<String>,
}

/// Why the runs of a lane wait.
#[derive(Clone, PartialEq, Debug)]
pub struct Why {
    pub reason: Option<WaitReason>,
    pub at: Millis,
}

/// What is known of the one thing that is open.
#[derive(Default, Debug)]
pub struct About {
    pub run: Option<RunView>,
    pub explanation: Option<Explanation>,
    pub history: Vec<HistoryEvent>,
    pub steps: Vec<StepView>,
    /// It has no steps: it is not a workflow.
    pub has_no_steps: bool,
    pub worker: Option<WorkerView>,
    pub held: Vec<RunView>,
    pub pool: Option<PoolView>,
    pub claims: Vec<ListedClaim>,
    pub machines: Vec<RunnerView>,
    pub log: Vec<(u64, String)>,
    /// Why there is no log, or nothing at all.
    pub no_log: Option<String>,
    pub gone: Option<String>,
}

/// What the server has said.
#[derive(Default, Debug)]
pub struct Facts {
    pub queues: Option<Vec<QueueView>>,
    pub runs: Option<(RunFilter, Vec<RunView>)>,
    /// The cursor of the page after this one.
    pub next: Option<String>,
    /// By status, so that each is replaced as it comes.
    pub workers: BTreeMap<&'static str, Vec<WorkerView>>,
    pub pools: Option<Vec<PoolView>>,
    pub numbers: Option<Statistics>,
    /// Why there are none.
    pub no_numbers: Option<String>,
    pub why: HashMap<Lane, Why>,
    /// The whole explanation of the run that is chosen.
    pub chosen: Option<Explanation>,
    /// Types that wait, by queue.
    pub types: HashMap<Named, BTreeSet<String>>,
    pub about: About,
}

impl Facts {
    pub fn worker(&self, id: &str) -> Option<&WorkerView> {
        self.workers.values().flatten().find(|worker| worker.id == id)
    }

    /// The newest worker of this name that is not gone, or else the newest.
    pub fn worker_named(&self, name: &str) -> Option<&WorkerView> {
        ["ONLINE", "DRAINING", "OFFLINE"]
            .into_iter()
            .filter_map(|status| self.workers.get(status))
            .flatten()
            .find(|worker| worker.name == name)
    }
}

/// All of it.
#[derive(Debug)]
pub struct App {
    pub server: Server,
    pub view: View,
    pub places: [Place; 4],
    pub filters: [String; 4],
    pub tab: Tab,
    /// The cursors of the pages of runs up to the one that is shown.
    pub pages: Vec<String>,
    pub mode: Mode,
    pub details: Vec<Details>,
    pub said: Option<Said>,
    pub link: Link,
    pub facts: Facts,
    /// When the screen was drawn last, on the server's clock.
    pub drawn_at: Millis,
    /// The server's clock is so far ahead of ours.
    pub ahead: Millis,
    /// Rows of the list that fit, and lines of the details; the drawing says so.
    pub rows_shown: usize,
    /// Lines that the details have.
    pub lines: usize,
    /// The log stays at its end.
    pub follows: bool,
}

impl App {
    pub fn new(server: Server, view: View) -> App {
        App {
            server,
            view,
            places: Default::default(),
            filters: Default::default(),
            tab: Tab::All,
            pages: Vec::new(),
            mode: Mode::Normal,
            details: Vec::new(),
            said: None,
            link: Link::Live,
            facts: Facts::default(),
            drawn_at: 0,
            ahead: 0,
            rows_shown: 10,
            lines: 0,
            follows: true,
        }
    }

    pub fn place(&self) -> &Place {
        &self.places[self.view as usize]
    }

    pub fn place_mut(&mut self) -> &mut Place {
        &mut self.places[self.view as usize]
    }

    /// What was typed for this list.
    pub fn filter_text(&self) -> &str {
        &self.filters[self.view as usize]
    }

    pub fn filter_text_mut(&mut self) -> &mut String {
        &mut self.filters[self.view as usize]
    }

    /// The filter of this list, or why it cannot be read.
    pub fn filter(&self) -> Result<Filter, String> {
        self.filter_of(self.view)
    }

    fn filter_of(&self, view: View) -> Result<Filter, String> {
        let worker = |name: &str| self.facts.worker_named(name).map(|worker| worker.id.clone());
        Filter::parse(&self.filters[view as usize], worker)
    }

    /// The runs that are to be shown. A filter that cannot be read shows what it showed before.
    pub fn wanted_runs(&self) -> Option<RunFilter> {
        let filter = self.filter_of(View::Runs).ok()?;
        Some(runs_of(&filter, self.tab, self.server.namespace.as_deref(), self.pages.last().map(String::as_str)))
    }

    /// Details that are on the screen.
    pub fn open(&self) -> Option<&Details> {
        self.details.last()
    }

    /// The thing that an action is about: what is open, or the chosen row.
    pub fn subject(&self) -> Option<Subject> {
        match self.open() {
            Some(details) => Some(details.subject.clone()),
            None => rows::subjects(self).get(self.place().row).cloned(),
        }
    }

    /// What to ask the server for, most important first.
    pub fn wants(&self, now: Millis) -> Vec<Ask> {
        let mut asks = Vec::new();
        match self.open() {
            Some(details) => self.wants_of(&details.subject, details.pane, &mut asks),
            None => self.wants_of_list(now, &mut asks),
        }
        asks.push(Ask::Numbers);
        // Totals and names: everywhere.
        for ask in [Ask::Queues, Ask::Workers("ONLINE"), Ask::Workers("DRAINING")] {
            if !asks.contains(&ask) {
                asks.push(ask);
            }
        }
        asks
    }

    fn wants_of_list(&self, now: Millis, asks: &mut Vec<Ask>) {
        match self.view {
            View::Queues => {
                asks.push(Ask::Queues);
                asks.push(Ask::Workers("ONLINE"));
                asks.extend(rows::queues_to_sample(self).into_iter().map(Ask::Types));
            }
            View::Runs => {
                asks.extend(self.wanted_runs().map(Ask::Runs));
                if let Some(Subject::Run(id)) = self.subject()
                    && self.run(&id).is_some_and(|run| run.state == State::Pending)
                {
                    asks.push(Ask::Why(id));
                }
                asks.extend(rows::lanes_to_explain(self, now).into_iter().map(|(lane, id)| Ask::WhyLane(lane, id)));
            }
            View::Workers => {
                asks.extend(["ONLINE", "DRAINING", "OFFLINE"].map(Ask::Workers));
            }
            View::Pools => asks.push(Ask::Pools),
        }
    }

    fn wants_of(&self, subject: &Subject, pane: Pane, asks: &mut Vec<Ask>) {
        match subject {
            Subject::Run(id) if pane == Pane::Log => {
                asks.push(Ask::Run(id.clone()));
                if self.facts.about.no_log.is_none() {
                    let last = self.facts.about.log.last().map_or(0, |(number, _)| *number);
                    asks.push(Ask::Log(id.clone(), last));
                }
            }
            Subject::Run(id) => {
                asks.extend([Ask::Run(id.clone()), Ask::Why(id.clone()), Ask::History(id.clone())]);
                if !self.facts.about.has_no_steps {
                    asks.push(Ask::Steps(id.clone()));
                }
            }
            Subject::Worker(id) => asks.extend([Ask::Worker(id.clone()), Ask::HeldBy(id.clone())]),
            Subject::Queue(queue) => asks.extend([Ask::Queues, Ask::Types(queue.clone())]),
            Subject::Pool(pool) => {
                asks.extend([Ask::Pool(pool.clone()), Ask::Claims(pool.clone()), Ask::Machines(pool.clone())]);
            }
        }
    }

    /// A run that is on the screen.
    pub fn run(&self, id: &str) -> Option<&RunView> {
        let open = self.facts.about.run.iter();
        let listed = self.facts.runs.iter().flat_map(|(_, runs)| runs);
        open.chain(listed).find(|run| run.id == id)
    }

    /// Takes in what the server has said.
    pub fn take(&mut self, ask: Ask, answer: Result<Answer, ClientError>, now: Millis) {
        match answer {
            Ok(answer) => {
                self.link = Link::Live;
                self.take_answer(ask, answer, now);
                rows::keep_place(self);
            }
            Err(error) => self.take_refusal(&ask, &error, now),
        }
    }

    fn is_open(&self, subject: &Subject) -> bool {
        self.open().is_some_and(|details| details.subject == *subject)
    }

    fn take_answer(&mut self, ask: Ask, answer: Answer, now: Millis) {
        let facts = &mut self.facts;
        match (ask, answer) {
            (_, Answer::Numbers(numbers)) => {
                facts.numbers = Some(numbers);
                facts.no_numbers = None;
            }
            (_, Answer::Queues(queues)) => facts.queues = Some(queues),
            (Ask::Runs(filter), Answer::Runs(page)) => {
                if self.wanted_runs().as_ref() == Some(&filter) {
                    self.facts.next = page.next_cursor;
                    self.facts.runs = Some((filter, page.runs));
                }
            }
            (Ask::Workers(status), Answer::Workers(page)) => {
                facts.workers.insert(status, page.workers);
            }
            (_, Answer::Pools(page)) => facts.pools = Some(page.pools),
            (Ask::WhyLane(lane, _), Answer::Why(why)) => {
                let reason = why.reasons.into_iter().next();
                facts.why.insert(lane, Why { reason, at: now });
            }
            (Ask::Why(id), Answer::Why(why)) => {
                if self.is_open(&Subject::Run(id)) {
                    self.facts.about.explanation = Some(why);
                } else {
                    self.facts.chosen = Some(why);
                }
            }
            (Ask::Types(queue), Answer::Types(page)) => {
                // What is due later need not be served yet.
                let due = page.runs.into_iter().filter(|run| run.due_at.0 <= now);
                facts.types.insert(queue, due.map(|run| run.kind).collect());
            }
            (Ask::Log(id, after), Answer::Log(lines)) => {
                let log = &mut self.facts.about.log;
                // An answer that comes twice adds nothing.
                let last = log.last().map_or(0, |(number, _)| *number);
                if self.details.last().is_some_and(|open| open.subject == Subject::Run(id)) && after == last {
                    log.extend(lines);
                    let over = log.len().saturating_sub(LOG_LINES_MAX);
                    log.drain(..over);
                }
            }
            (ask, answer) => {
                if ask.subject().is_some_and(|subject| self.is_open(&subject)) {
                    self.take_about(answer);
                }
            }
        }
    }

    fn take_about(&mut self, answer: Answer) {
        let about = &mut self.facts.about;
        match answer {
            Answer::Run(run) => about.run = Some(*run),
            Answer::History(history) => about.history = history.events,
            Answer::Steps(steps) => about.steps = steps,
            Answer::Worker(worker) => about.worker = Some(*worker),
            Answer::HeldBy(page) => about.held = page.runs,
            Answer::Pool(pool) => about.pool = Some(*pool),
            Answer::Claims(page) => about.claims = page.claims,
            Answer::Machines(page) => about.machines = page.runners,
            Answer::Numbers(_)
            | Answer::Queues(_)
            | Answer::Runs(_)
            | Answer::Workers(_)
            | Answer::Pools(_)
            | Answer::Why(_)
            | Answer::Types(_)
            | Answer::Log(_) => {}
        }
    }

    fn take_refusal(&mut self, ask: &Ask, error: &ClientError, now: Millis) {
        let is_open = ask.subject().is_some_and(|subject| self.is_open(&subject));
        let status = match error {
            ClientError::Refused { status, .. } => Some(*status),
            ClientError::Unreachable(_)
            | ClientError::Untrusted(_)
            | ClientError::Decode(_)
            | ClientError::Invalid(_) => None,
        };
        match (ask, status) {
            // It is no workflow, or the server keeps gRPC to itself: there is nothing to show, and no reason to complain.
            (Ask::Steps(_), _) => self.facts.about.has_no_steps |= is_open,
            (Ask::Log(..), Some(404)) if is_open => {
                self.facts.about.no_log = Some("This run has no log: only builds have one.".into());
            }
            (Ask::Numbers, Some(404)) => {
                self.facts.no_numbers = Some("this server is too old to know rates".into());
            }
            (Ask::Why(_) | Ask::WhyLane(..) | Ask::Types(_), Some(404)) => {}
            (_, Some(404)) if is_open => self.facts.about.gone = Some(error.to_string()),
            (_, Some(401)) | (_, Some(403)) if error.code() != Some("forbidden") => {
                self.link = Link::Refused(error.to_string());
            }
            (Ask::Runs(_), Some(400..=422)) => self.say(Mood::Bad, error.to_string(), now),
            (Ask::Numbers, _) => self.facts.no_numbers = Some(error.to_string()),
            _ => self.say(Mood::Bad, error.to_string(), now),
        }
    }

    /// Nobody answers, and the next try comes after `pause`.
    pub fn lost(&mut self, error: &ClientError, now: Millis, pause: Millis) {
        let since = match &self.link {
            Link::Lost { since, .. } => *since,
            Link::Live | Link::Refused(_) => now,
        };
        self.link = Link::Lost { since, next: now + pause, why: error.to_string() };
    }

    /// Says something at the bottom.
    pub fn say(&mut self, mood: Mood, text: impl Into<String>, now: Millis) {
        self.said = Some(Said { mood, text: text.into(), until: now + SAID });
    }

    /// What became of an action.
    pub fn done(&mut self, outcome: Result<String, ClientError>, now: Millis) -> Command {
        match outcome {
            Ok(text) => self.say(Mood::Good, text, now),
            Err(error) => self.say(Mood::Bad, error.to_string(), now),
        }
        Command::Refresh
    }
}

impl Ask {
    /// What an answer tells about, when it is about one thing.
    pub fn subject(&self) -> Option<Subject> {
        match self {
            Ask::Run(id) | Ask::History(id) | Ask::Steps(id) | Ask::Log(id, _) | Ask::Why(id) => {
                Some(Subject::Run(id.clone()))
            }
            Ask::Worker(id) | Ask::HeldBy(id) => Some(Subject::Worker(id.clone())),
            Ask::Pool(pool) | Ask::Claims(pool) | Ask::Machines(pool) => Some(Subject::Pool(pool.clone())),
            Ask::Types(queue) => Some(Subject::Queue(queue.clone())),
            Ask::Numbers | Ask::Queues | Ask::Runs(_) | Ask::Workers(_) | Ask::Pools | Ask::WhyLane(..) => None,
        }
    }
}
