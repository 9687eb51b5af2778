//! The state of the screen, and what keys and answers make of it. Pure: no terminal, no network, no clock.

mod answers;
mod wants;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use baton::proto::{
    Explanation, HistoryEvent, ListedClaim, PoolView, QueueView, RunView, RunnerView, Statistics, WaitReason,
    WorkerView,
};
use baton::{ClientError, RunFilter, StepView};
use baton_core::Millis;

use crate::ask::{Lane, Named};
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

    /// A run that is on the screen.
    pub fn run(&self, id: &str) -> Option<&RunView> {
        let open = self.facts.about.run.iter();
        let listed = self.facts.runs.iter().flat_map(|(_, runs)| runs);
        open.chain(listed).find(|run| run.id == id)
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
