//! The service verbs, one file each. A face decodes, authenticates, calls one of these, and encodes.

pub mod attention;
pub mod audit;
pub mod builds;
pub mod bulk;
pub mod cancel;
pub mod claim;
pub mod complete;
pub mod coverage;
pub mod custody;
pub mod events;
pub mod explain;
pub mod fail;
pub mod give_back;
pub mod health;
pub mod keys;
pub mod lists;
pub(crate) mod metrics;
pub mod namespaces;
pub mod news;
pub mod payloads;
pub mod pools;
pub mod queues;
pub mod read;
pub mod register;
pub mod renew;
pub mod retry;
pub mod schedules;
pub mod secrets;
pub mod sessions;
pub mod settings;
pub mod sheet;
pub mod sleep;
pub mod start;
pub mod statistics;
pub mod submit;
pub mod webhooks;
pub mod workers;
pub mod workflows;

use std::sync::Arc;

use baton_core::token::{self, Tenant};
use baton_core::{Failure, LateVerb, Refused, RunId, State, WorkerId};
use baton_store::{Changes, Completion, LeaseRef, Page, RunRecord, Scope, Verdict, Woken};
use bytes::Bytes;
use tokio::sync::mpsc;

use self::news::News;
use crate::auth::Caller;
use crate::bell::Bell;
use crate::dispatch::Dispatcher;
use crate::error::refused;
use crate::events::Events;
use crate::inboxes::Inboxes;
use crate::metrics::Metrics;
use crate::refusals::LeaseWrite;
use crate::watch::Watchers;
use crate::workers::Workers;
use crate::{App, Error};

/// Longest name of a namespace, queue, type, key or worker, in bytes.
pub const NAME_BYTES_MAX: usize = 200;
/// Longest message a worker may leave, in bytes; the rest is cut off.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024;

/// What is to be done after a commit: effects are data until then.
#[derive(Clone, Debug)]
pub struct After {
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) news: mpsc::Sender<News>,
    pub(crate) inboxes: Arc<Inboxes>,
    pub(crate) ends: Arc<Bell>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) events: Arc<Events>,
}

impl After {
    /// Wakes whoever waits for these lanes, here and on other servers, and counts what became of runs.
    pub fn wake(&self, woken: &Woken) {
        self.metrics.series.settled(&woken.settled);
        self.dispatcher.wake(woken);
        let later = woken.later.iter().map(|(lane, _)| lane);
        for lane in woken.lanes.iter().chain(later) {
            // Only a hint: when the channel is full, the other servers find the work with their next look.
            let _ = self.news.try_send(News::Lane(*lane));
        }
    }

    /// There is news for this worker: wakes its heartbeat that waits, here or on another server.
    pub fn tell(&self, worker: WorkerId) {
        self.workers.tell(worker);
        // Only a hint: when the channel is full, the worker hears of it with its next heartbeat.
        let _ = self.news.try_send(News::Worker(worker));
    }

    /// There is news of this run: tells whoever holds it, here or on another server.
    pub fn messages(&self, run: RunId) {
        self.inboxes.news(run);
        // Only a hint: when the channel is full, the worker hears of it when it suspends the run.
        let _ = self.news.try_send(News::Run(run));
    }

    /// Tells those who wait for a run that it has ended, and the loop that passes ends on to relatives.
    pub fn ended<'a>(&self, runs: impl Iterator<Item = (RunId, &'a Verdict)>) {
        let ended = runs.filter(|(_, verdict)| matches!(verdict, Verdict::Done { state, .. } if state.is_ended()));
        let mut ended = ended.map(|(run, _)| run).peekable();
        if ended.peek().is_some() {
            self.watchers.ended(ended);
            self.ends.ring();
        }
    }

    /// Both, for the changes of one verb; and those who listen hear of them.
    pub fn changed(&self, runs: impl Iterator<Item = RunId> + Clone, changes: &Changes) {
        self.wake(&changes.woken);
        for (run, verdict) in runs.clone().zip(&changes.verdicts) {
            if let Verdict::Done { state, .. } = verdict
                && !state.is_held()
            {
                self.metrics.queues.let_go(run, state.is_ended());
            }
        }
        self.events.settled(runs.clone().zip(&changes.verdicts));
        self.ended(runs.zip(&changes.verdicts));
    }
}

/// The state of a run after a verb, for a caller that may have called before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Its state.
    pub state: State,
    /// True when somebody wants it cancelled.
    pub cancelling: bool,
}

/// Turns a verdict on a write under a lease into an answer. A repeated call gets what it got before.
pub(crate) async fn settle(app: &App, write: LeaseWrite<'_>, verdict: Verdict) -> Result<Outcome, Error> {
    note_stale(app, write, verdict);
    settle_any(app, write.lease.run, verdict).await
}

/// Notes a write whose lease is no longer good. A run that has ended has no lease, whatever it
/// ended as.
pub(crate) fn note_stale(app: &App, write: LeaseWrite<'_>, verdict: Verdict) {
    if let Verdict::Refused(Refused::StaleLease | Refused::NotHeld | Refused::Ended) = verdict {
        app.refusals.note(write);
    }
}

/// As [`settle`], for whoever needs no lease.
pub(crate) async fn settle_any(app: &App, run: RunId, verdict: Verdict) -> Result<Outcome, Error> {
    match verdict {
        Verdict::Done { state, cancelling } => Ok(Outcome { state, cancelling }),
        Verdict::Unknown => Err(Error::no_run(run)),
        Verdict::Refused(why) => {
            let state = app.store.run(run).await?.map_or(State::Cancelled, |record| record.state);
            match why {
                Refused::AlreadyDone => Ok(Outcome { state, cancelling: false }),
                why => Err(refused(why, state)),
            }
        }
    }
}

/// What a worker reports of a run under its lease.
pub(crate) trait Report {
    /// The lease, and the size of what is said.
    fn under(&self) -> (LeaseRef, usize);
}

impl Report for LeaseRef {
    fn under(&self) -> (LeaseRef, usize) {
        (*self, 0)
    }
}

impl Report for Completion {
    fn under(&self) -> (LeaseRef, usize) {
        (self.lease, self.output.as_ref().map_or(0, Bytes::len))
    }
}

impl Report for (LeaseRef, Failure) {
    fn under(&self) -> (LeaseRef, usize) {
        (self.0, self.1.message.len())
    }
}

impl Report for (LeaseRef, String) {
    fn under(&self) -> (LeaseRef, usize) {
        (self.0, self.1.len())
    }
}

/// Carries out a verb on several runs. Each gets an answer of its own; those whose lease is no lease never get to the
/// store.
pub(crate) async fn each<T: Report, Fut>(
    app: &App,
    verb: LateVerb,
    reports: Vec<(RunId, Result<T, Error>)>,
    act: impl FnOnce(Vec<T>) -> Fut,
) -> Result<Vec<Result<Outcome, Error>>, Error>
where
    Fut: Future<Output = Result<Vec<Verdict>, Error>>,
{
    let (mut answers, mut good, mut items) = (Vec::with_capacity(reports.len()), Vec::new(), Vec::new());
    for (index, (_, report)) in reports.into_iter().enumerate() {
        match report {
            Ok(item) => {
                let (lease, bytes) = item.under();
                good.push((index, LeaseWrite::new(lease, verb).with_bytes(bytes)));
                items.push(item);
                answers.push(Err(Error::Internal));
            }
            Err(error) => answers.push(Err(error)),
        }
    }
    if !items.is_empty() {
        let verdicts = act(items).await?;
        for ((index, write), verdict) in good.into_iter().zip(verdicts) {
            answers[index] = settle(app, write, verdict).await;
        }
    }
    Ok(answers)
}

/// Reads a lease token. Whoever has it may act on the run, with a key of the run's namespace. One of
/// a foreign run is answered as one that was made up.
pub(crate) async fn open_lease(app: &App, caller: &Caller, run: RunId, lease: &str) -> Result<LeaseRef, Error> {
    caller.has(Scope::Worker)?;
    let mut opened = open_lease_at_once(app, caller, run, lease);
    if opened == Err(Unopened::Unknown) {
        // Another server may have made it a moment ago.
        app.secrets.ring_for(lease).await?;
        opened = open_lease_at_once(app, caller, run, lease);
    }
    match opened {
        // From before tokens said whose run it is.
        Err(Unopened::Unsure(lease)) => match visible(app, caller, Scope::Worker, run).await {
            Ok(_) => Ok(lease),
            Err(Error::NotFound { .. }) => Err(Unopened::Wrong.into()),
            Err(other) => Err(other),
        },
        other => Ok(other?),
    }
}

/// Why a lease token was not opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unopened {
    /// It is not of this run, or not of the caller's namespace.
    Wrong,
    /// It does not say whose run it is, and the caller's key is not good for all.
    Unsure(LeaseRef),
    /// It is of a generation of the secret whose time is over.
    Over,
    /// It is of a generation of the secret that this server does not know, if anybody does.
    Unknown,
}

impl From<Unopened> for Error {
    fn from(why: Unopened) -> Error {
        match why {
            Unopened::Over => Error::LeaseLost,
            Unopened::Wrong | Unopened::Unsure(_) | Unopened::Unknown => {
                Error::Forbidden("the lease does not belong to this run; send the one the claim gave".into())
            }
        }
    }
}

/// As [`open_lease`], as far as the token itself tells.
pub(crate) fn open_lease_at_once(app: &App, caller: &Caller, run: RunId, lease: &str) -> Result<LeaseRef, Unopened> {
    let (ring, number) = (app.secrets.ring(), token::generation_of(lease));
    let Some(generation) = ring.get(number) else {
        return Err(if ring.lacks(number) { Unopened::Unknown } else { Unopened::Wrong });
    };
    let (epoch, tenant) = token::open_lease(&generation.tokens, run, lease).ok_or(Unopened::Wrong)?;
    if !generation.are_tokens_good() {
        return Err(Unopened::Over);
    }
    let lease = LeaseRef { run, epoch };
    match (&caller.namespace, tenant) {
        (None, _) => Ok(lease),
        (Some(own), Some(tenant)) if Tenant::of(&generation.tokens, own) == tenant => Ok(lease),
        (Some(_), Some(_)) => Err(Unopened::Wrong),
        (Some(_), None) => Err(Unopened::Unsure(lease)),
    }
}

/// As [`open_lease`], for the reports of a batch.
pub(crate) async fn open_leases<T>(
    app: &App,
    caller: &Caller,
    reports: Vec<(RunId, T)>,
    lease: impl Fn(&T) -> &str,
) -> Vec<(RunId, Result<(LeaseRef, T), Error>)> {
    let mut opened = Vec::with_capacity(reports.len());
    for (run, report) in reports {
        let lease = open_lease(app, caller, run, lease(&report)).await;
        opened.push((run, lease.map(|lease| (lease, report))));
    }
    opened
}

/// Reads a run's identifier. One that is malformed names no run.
pub fn run_id(text: &str) -> Result<RunId, Error> {
    text.parse().map_err(|_| Error::no_run(text))
}

/// Reads a worker's identifier. One that is malformed names no worker.
pub fn worker_id(text: &str) -> Result<WorkerId, Error> {
    text.parse().map_err(|_| Error::no_worker(text))
}

/// The run, if the caller may see it with this scope. One in a foreign namespace is unknown to it.
pub(crate) async fn visible(app: &App, caller: &Caller, scope: Scope, run: RunId) -> Result<RunRecord, Error> {
    caller.has(scope)?;
    let record = app.store.run(run).await?.ok_or_else(|| Error::no_run(run))?;
    let lane = app.lanes.name(record.lane).await?.ok_or(Error::Internal)?;
    match caller.sees(&lane.namespace) {
        true => Ok(record),
        false => Err(Error::no_run(run)),
    }
}

/// A page of a list that is short enough to be read whole, and the key of its last entry if there are more.
pub(crate) fn page_of<T, K: PartialEq>(
    list: Vec<T>,
    page: Page<K>,
    key: impl Fn(&T) -> K,
) -> Result<(Vec<T>, Option<K>), Error> {
    let unknown = || Error::field("cursor", "must be taken from an earlier page, where it is called next_cursor");
    let begin = match page.after {
        Some(after) => list.iter().position(|entry| key(entry) == after).ok_or_else(unknown)? + 1,
        None => 0,
    };
    let is_last = list.len() <= begin + page.limit;
    let entries: Vec<T> = list.into_iter().skip(begin).take(page.limit).collect();
    let next = entries.last().map(key).filter(|_| !is_last);
    Ok((entries, next))
}

/// Checks a name that a person chose.
pub(crate) fn check_name(what: &str, name: &str) -> Result<(), Error> {
    if name.is_empty() {
        return Err(Error::field(what.to_owned(), "must not be empty"));
    }
    check_text(what, name)
}

/// Checks a name that a person chose and that stands in addresses, in labels of metrics and in lists.
pub(crate) fn check_plain_name(what: &str, name: &str) -> Result<(), Error> {
    check_name(what, name)?;
    if name.contains('/') {
        return Err(Error::field(what.to_owned(), format!("must not contain /, which parts addresses: {name:?}")));
    }
    if name.trim() != name {
        return Err(Error::field(what.to_owned(), format!("must not begin or end with white space: {name:?}")));
    }
    Ok(())
}

/// Checks a short text that may be empty.
pub(crate) fn check_text(what: &str, text: &str) -> Result<(), Error> {
    if text.len() > NAME_BYTES_MAX {
        return Err(Error::field(what.to_owned(), format!("must be at most {NAME_BYTES_MAX} bytes long")));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::field(what.to_owned(), "must not contain control characters"));
    }
    Ok(())
}

/// Makes a worker's message fit to be kept: bounded, and without the NUL bytes that PostgreSQL refuses.
pub(crate) fn message(text: &str) -> String {
    let mut end = text.len().min(MESSAGE_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let cut = if end < text.len() { " [cut]" } else { "" };
    format!("{}{cut}", text[..end].replace('\0', "\u{fffd}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_bounded_and_free_of_nul() {
        assert_eq!(message("a\0b"), "a\u{fffd}b");
        let long = message(&"ä".repeat(MESSAGE_BYTES_MAX));
        assert!(long.ends_with(" [cut]") && long.len() <= MESSAGE_BYTES_MAX + 6);
    }

    #[test]
    fn names_are_checked() {
        assert!(check_name("queue", "builds/ios").is_ok());
        for wrong in ["", "a\nb", "\0", &"x".repeat(201)] {
            assert!(check_name("queue", wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn plain_names_have_nothing_in_them_that_is_not_seen_or_parts_addresses() {
        for good in ["linux", "two words", "größer", "a.b-c_d:e"] {
            assert_eq!(check_plain_name("name", good), Ok(()), "{good:?}");
        }
        for wrong in ["", "a\tb", "a/b", "/", " a", "a ", "\u{a0}a", "a\u{2003}", " ", &"x".repeat(201)] {
            let refused = check_plain_name("name", wrong).unwrap_err();
            assert!(refused.to_string().starts_with("name must "), "{refused}");
        }
    }
}
