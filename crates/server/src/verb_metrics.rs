//! What is counted of a verb: calls to the store, runs it was carried out on, refusals by their
//! code, and how long it took.

use std::time::Instant;

use baton_store::{StoreResult, Verdict};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use crate::Error;
use crate::metrics::{Book, Label, seconds};

/// The verbs, in the order of a run's life. The name of a verb is the name of its metrics.
pub const VERBS: [&str; 14] = [
    "submit",
    "claim",
    "start",
    "renew",
    "complete",
    "fail",
    "give_back",
    "sleep",
    "cancel",
    "expire",
    "retry",
    "write_steps",
    "suspend",
    "message",
];

/// A verb.
#[derive(Debug)]
pub struct Verb {
    /// Calls to the store: a batch is one.
    pub calls: Counter,
    /// Runs it was carried out on. What was refused, or done before, is not among them.
    pub runs: Counter,
    refused: Family<[Label; 1], Counter>,
    seconds: Histogram,
    store_seconds: Histogram,
}

impl Verb {
    pub(crate) fn register(name: &'static str, store_seconds: Histogram, book: &mut Book<'_>) -> Verb {
        debug_assert!(VERBS.contains(&name));
        let verb = Verb {
            calls: Counter::default(),
            runs: Counter::default(),
            refused: Family::default(),
            seconds: seconds(),
            store_seconds,
        };
        book.add_of_verb(name, "", &[], verb.runs.clone());
        book.add_of_verb(name, "_calls", &[], verb.calls.clone());
        book.add_of_verb(name, "_refused", &["code"], verb.refused.clone());
        book.add_of_verb(name, "_duration_seconds", &[], verb.seconds.clone());
        verb
    }

    /// Counts the runs that the store carried it out on.
    pub(crate) fn did(&self, verdicts: &[Verdict]) {
        let done = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Done { .. })).count();
        self.runs.inc_by(done as u64);
    }

    /// Counts and times a call to the store.
    pub(crate) async fn at_store<T>(&self, call: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        self.calls.inc();
        let begun = Instant::now();
        let answer = call.await;
        self.store_seconds.observe(begun.elapsed().as_secs_f64());
        answer
    }

    /// Notes how long it took, for a verb that is not timed as a whole because it waits.
    pub(crate) fn took(&self, begun: Instant) {
        self.seconds.observe(begun.elapsed().as_secs_f64());
    }

    /// Shows refusals with these codes from the start, as none: whoever looks for a change misses the first one of a
    /// series that begins with it.
    pub(crate) fn may_be_refused(&self, codes: &[&'static str]) {
        codes.iter().for_each(|code| drop(self.refused.get_or_create(&[("code", (*code).into())])));
    }

    /// Counts a refusal.
    pub(crate) fn refused(&self, error: &Error) {
        self.refused.get_or_create(&[("code", error.code().into())]).inc();
    }

    /// Notes how long a call took, and counts it when it was refused.
    pub(crate) fn ended<T>(&self, begun: Instant, answer: Result<T, Error>) -> Result<T, Error> {
        self.took(begun);
        answer.inspect_err(|error| self.refused(error))
    }

    /// As [`Verb::ended`], for a call with an answer for each of several runs.
    pub(crate) fn each_ended<T>(
        &self,
        begun: Instant,
        answers: Result<Vec<Result<T, Error>>, Error>,
    ) -> Result<Vec<Result<T, Error>>, Error> {
        let answers = self.ended(begun, answers)?;
        answers.iter().filter_map(|answer| answer.as_ref().err()).for_each(|error| self.refused(error));
        Ok(answers)
    }
}

/// Times a call of a verb, and counts it when it is refused. Not a function: that would move the
/// call's future, which has kilobytes.
macro_rules! timed {
    ($verb:expr, $call:expr) => {{
        let begun = std::time::Instant::now();
        let answer = $call.await;
        $verb.ended(begun, answer)
    }};
}

/// As `timed`, for a call with an answer for each of several runs.
macro_rules! timed_each {
    ($verb:expr, $call:expr) => {{
        let begun = std::time::Instant::now();
        let answers = $call.await;
        $verb.each_ended(begun, answers)
    }};
}

pub(crate) use {timed, timed_each};
