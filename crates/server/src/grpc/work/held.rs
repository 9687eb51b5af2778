//! The runs in the hands of a stream's worker, as far as the server knows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use baton_core::{Epoch, RunId};
use baton_proto::v1;
use baton_store::{LaneId, LeaseRef, Message};

use super::super::convert::{message, run_id};
use super::reports::Opened;
use crate::auth::Caller;
use crate::inboxes::{Inboxes, Mailbox, News};
use crate::service::open_lease_at_once;
use crate::service::workflows::claim::Taken;
use crate::{App, Error};

#[derive(Debug)]
struct Held {
    epoch: Epoch,
    lease: String,
    lane: Option<LaneId>,
    /// The last message that was sent.
    seen: i64,
    /// A report that ends the lease is on its way.
    ending: bool,
}

/// All of them. News of them comes to the mailbox.
#[derive(Debug)]
pub(super) struct Hands {
    inboxes: Arc<Inboxes>,
    mailbox: Arc<Mailbox>,
    runs: HashMap<RunId, Held>,
}

impl Hands {
    /// With what the worker holds when its stream begins.
    pub(super) fn new(inboxes: Arc<Inboxes>, mailbox: Arc<Mailbox>, held: Vec<(LeaseRef, String)>) -> Hands {
        inboxes.hold(held.iter().map(|(lease, _)| lease.run), &mailbox);
        let held = held
            .into_iter()
            .map(|(LeaseRef { run, epoch }, lease)| (run, Held { epoch, lease, lane: None, seen: 0, ending: false }));
        Hands { inboxes, mailbox, runs: held.collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    /// The run that was claimed is the worker's from now on.
    pub(super) fn take(&mut self, taken: &Taken) {
        let seen = taken.journal.messages.last().map_or(0, |last| last.number);
        let LeaseRef { run, epoch } = lease_of(taken);
        let (lease, lane) = (taken.lease.clone(), Some(taken.claimed.lane));
        self.runs.insert(run, Held { epoch, lease, lane, seen, ending: false });
    }

    /// True when a report that lets go of this run has not been answered yet.
    pub(super) fn is_ending(&self, run: RunId) -> bool {
        self.runs.get(&run).is_some_and(|held| held.ending)
    }

    /// Reads the lease of a report. One that this stream has handed out itself, or was told of when
    /// it began, needs no proof.
    pub(super) fn open(&self, app: &App, caller: &Caller, run: &str, lease: &str) -> Result<Opened, Error> {
        let run = run_id(run)?;
        match self.runs.get(&run).filter(|held| held.lease == lease) {
            Some(held) => Ok((LeaseRef { run, epoch: held.epoch }, held.lane)),
            None => Ok((open_lease_at_once(app, caller, run, lease)?, None)),
        }
    }

    fn of(&mut self, lease: LeaseRef) -> Option<&mut Held> {
        self.runs.get_mut(&lease.run).filter(|held| held.epoch == lease.epoch)
    }

    /// A report that ends this lease is on its way.
    pub(super) fn note_ending(&mut self, lease: LeaseRef) {
        if let Some(held) = self.of(lease) {
            held.ending = true;
        }
    }

    /// Notes what became of such reports. True when some leases are over.
    pub(super) fn settle(&mut self, ends: Vec<(LeaseRef, bool)>) -> bool {
        let mut gone = Vec::new();
        for (lease, is_over) in ends {
            let Some(held) = self.of(lease) else { continue };
            held.ending = false;
            if is_over {
                gone.extend(self.let_go(lease.run));
            }
        }
        let any = !gone.is_empty();
        self.inboxes.let_go(gone.into_iter().map(|lease| lease.run), &self.mailbox);
        any
    }

    fn let_go(&mut self, run: RunId) -> Option<LeaseRef> {
        self.runs.remove(&run).map(|held| LeaseRef { run, epoch: held.epoch })
    }

    /// Takes back runs that were not sent after all.
    pub(super) fn take_back(&mut self, unsent: &[v1::PollActivityResponse]) -> Vec<LeaseRef> {
        let runs = unsent.iter().filter_map(|run| run_id(&run.run_id).ok());
        let leases: Vec<_> = runs.filter_map(|run| self.let_go(run)).collect();
        self.inboxes.let_go(leases.iter().map(|lease| lease.run), &self.mailbox);
        leases
    }

    /// Messages up to this one went with an answer.
    pub(super) fn note_seen(&mut self, lease: LeaseRef, last: i64) {
        if let Some(held) = self.of(lease) {
            held.seen = held.seen.max(last);
        }
    }

    /// What is new to the worker of messages that were read.
    pub(super) fn unseen(&mut self, lease: LeaseRef, messages: Vec<Message>) -> Option<v1::RunMessages> {
        let held = self.of(lease)?;
        let before = held.seen;
        held.seen = before.max(messages.last()?.number);
        let new: Vec<_> = messages.into_iter().filter(|message| message.number > before).map(message).collect();
        (!new.is_empty()).then(|| v1::RunMessages { run_id: lease.run.to_string(), messages: new })
    }

    /// The leases that there is news of, and the last message each has seen.
    pub(super) fn with_news(&self, news: &News) -> Vec<(LeaseRef, i64)> {
        let lease = |(run, held): (&RunId, &Held)| (LeaseRef { run: *run, epoch: held.epoch }, held.seen);
        match news.all {
            true => self.runs.iter().map(lease).collect(),
            false => news.runs.iter().filter_map(|run| self.runs.get_key_value(run)).map(lease).collect(),
        }
    }

    /// Leaves out of the news what is old: a lease that was held when it was asked for and has ended since in another way. Its run may be
    /// the worker's again, under a new lease.
    pub(super) fn current(
        &self,
        mut news: v1::WorkerHeartbeatResponse,
        asked: &[LeaseRef],
    ) -> v1::WorkerHeartbeatResponse {
        if !news.lost.is_empty() || !news.cancelled.is_empty() {
            let ended = |lease: &&LeaseRef| self.runs.get(&lease.run).is_none_or(|held| held.epoch != lease.epoch);
            let ended: HashSet<_> = asked.iter().filter(ended).map(|lease| lease.run.to_string()).collect();
            news.lost.retain(|run| !ended.contains(run));
            news.cancelled.retain(|run| !ended.contains(run));
        }
        news
    }

    /// All leases.
    pub(super) fn leases(&self) -> Vec<LeaseRef> {
        self.runs.iter().map(|(run, held)| LeaseRef { run: *run, epoch: held.epoch }).collect()
    }

    /// Runs that came again are this stream's, also when an answer has just let go of them.
    pub(super) fn keep(&self, runs: impl Iterator<Item = RunId>) {
        self.inboxes.hold(runs, &self.mailbox);
    }

    /// Hears no more news.
    pub(super) fn close(&self) {
        self.inboxes.let_go(self.runs.keys().copied(), &self.mailbox);
    }
}

/// The lease of a run that was claimed.
pub(super) fn lease_of(taken: &Taken) -> LeaseRef {
    LeaseRef { run: taken.claimed.run, epoch: taken.claimed.epoch }
}
