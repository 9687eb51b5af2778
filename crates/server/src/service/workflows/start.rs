//! start: submits a workflow.

use baton_core::machine::{LOSSES_DEFAULT, Options};
use baton_core::order::{PRIORITY_DEFAULT, PRIORITY_MAX};
use baton_core::retry::{INTERVAL_MS_MAX, RetryPolicy};
use baton_core::trace::TraceContext;
use baton_core::{Millis, RunId};
pub use baton_store::Due;
use baton_store::{Idempotency, Lane, LaneName, NewRun, Scope, Submitted};
use bytes::Bytes;
use serde::de::IgnoredAny;

use super::super::{check_text, payloads, submit};
use super::{VERSION_MARK, check_field, in_field, invalid, pinned};
use crate::auth::Caller;
use crate::verb_metrics::timed;
use crate::{App, Error};

/// Longest span of a workflow: a hundred years.
const SPAN_MS_MAX: Millis = 100 * INTERVAL_MS_MAX as Millis;

/// A workflow to be started.
#[derive(Clone, Debug)]
pub struct Start {
    /// Its namespace.
    pub namespace: String,
    /// Its queue.
    pub queue: String,
    /// Its type, without a version.
    pub kind: String,
    /// Only workers of this version may take it.
    pub version: Option<String>,
    /// JSON, or nothing.
    pub input: Bytes,
    /// The same key again is the same workflow.
    pub idempotency_key: Option<String>,
    /// A hash of everything the caller said.
    pub fingerprint: [u8; 16],
    /// 0 to 9.
    pub priority: Option<u32>,
    /// When.
    pub due: Due,
    /// For the run as a whole; tried once unless given.
    pub retry: Option<RetryPolicy>,
    /// From its due time to its end.
    pub timeout_ms: Option<Millis>,
    /// For limits and fair turns.
    pub key: Option<String>,
    /// The trace that it is part of, if the caller says so.
    pub trace: Option<TraceContext>,
}

/// Starts a workflow.
pub async fn one(app: &App, caller: &Caller, start: Start) -> Result<Submitted, Error> {
    timed!(app.metrics.submit, taken_in(app, caller, start))
}

async fn taken_in(app: &App, caller: &Caller, start: Start) -> Result<Submitted, Error> {
    caller.has(Scope::Submit)?;
    check(app, &start)?;
    caller.may(Scope::Submit, &start.namespace)?;
    let timeout_ms = start.timeout_ms;
    let idempotency = start
        .idempotency_key
        .as_ref()
        .map(|key| Idempotency { key: format!("{}\u{1f}{key}", start.namespace), fingerprint: start.fingerprint });
    let trace = app.traces.begin(start.trace.clone());
    let run = NewRun { idempotency, trace, ..new_run(app, start).await? };
    let submitted = submit::take_in(app, vec![run]).await?.pop().ok_or(Error::Internal)?;
    if let Some(timeout_ms) = timeout_ms {
        // Again for a repeated call: the first may have ended before it came to this. Of two deadlines the earlier one counts.
        time_out(app, &submitted, timeout_ms).await?;
    }
    Ok(submitted)
}

/// Gives a run its deadline.
async fn time_out(app: &App, submitted: &Submitted, timeout_ms: Millis) -> Result<(), Error> {
    let after_ms = timeout_ms.saturating_add((submitted.due_at - submitted.submitted_at).max(0));
    set_deadline(app, submitted.run, after_ms, false).await
}

/// Ends a run that has not ended after this long: as cancelled, or as failed.
pub(crate) async fn set_deadline(app: &App, run: RunId, after_ms: Millis, cancels: bool) -> Result<(), Error> {
    app.store.set_deadlines(vec![(run, after_ms, cancels)]).await?;
    app.deadlines.ring_in(after_ms);
    Ok(())
}

/// The run of a workflow, with its lane found. Idempotency and trace are the caller's.
pub(super) async fn new_run(app: &App, start: Start) -> Result<NewRun, Error> {
    let kind = pinned(&start.kind, start.version.as_deref());
    let name = LaneName { namespace: start.namespace, queue: start.queue, kind };
    let lane: Lane = app.lanes.get(vec![name]).await?.pop().ok_or(Error::Internal)?;
    app.lanes.mark_workflows(&[lane]).await?;
    Ok(NewRun {
        lane,
        priority: start.priority.map_or(PRIORITY_DEFAULT, |priority| priority as u8),
        due: start.due,
        key: start.key,
        affinity: None,
        idempotency: None,
        options: Some(Options {
            retry: start.retry.unwrap_or(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }),
            max_losses: LOSSES_DEFAULT,
            timeout_ms: None,
            run_timeout_ms: start.timeout_ms.and_then(|ms| u64::try_from(ms).ok()),
        }),
        retry_of: None,
        trace: None,
        input: start.input,
    })
}

/// Checks everything that somebody said about a workflow.
pub(super) fn check(app: &App, start: &Start) -> Result<(), Error> {
    // Before anything is written: a queue is made with the first workflow that it gets.
    app.namespaces.check("", &start.namespace).map_err(|error| in_field("namespace_id", error))?;
    check_field("task_queue", &start.queue)?;
    check_field("workflow_type", &start.kind)?;
    if start.kind.contains(VERSION_MARK) {
        return Err(invalid("workflow_type", "must not contain '@'; a version goes into pin_version"));
    }
    let version = start.version.as_deref().unwrap_or_default();
    check_text("", version).map_err(|error| in_field("pin_version", error))?;
    if version.len() + start.kind.len() + 1 > super::super::NAME_BYTES_MAX {
        return Err(invalid("pin_version", "is too long: a type and its version have 200 bytes together"));
    }
    for (field, text) in [("key", &start.key), ("idempotency_key", &start.idempotency_key)] {
        text.as_deref().map_or(Ok(()), |text| check_field(field, text))?;
    }
    if start.priority.is_some_and(|priority| priority > u32::from(PRIORITY_MAX)) {
        return Err(invalid("priority", format!("must be 0 to {PRIORITY_MAX}")));
    }
    let far = match start.due {
        Due::Now => false,
        Due::After(ms) => ms > SPAN_MS_MAX,
        Due::At(at) => at > submit::DUE_AT_MAX,
    };
    if far {
        return Err(invalid("start_at", "must be at most 100 years from now"));
    }
    if start.timeout_ms.is_some_and(|ms| !(1..=SPAN_MS_MAX).contains(&ms)) {
        return Err(invalid("timeout", "must be more than nothing and at most 100 years"));
    }
    if let Some(retry) = &start.retry {
        check_retry(retry)?;
    }
    payloads::check(app, &start.input)?;
    match start.input.is_empty() || serde_json::from_slice::<IgnoredAny>(&start.input).is_ok() {
        true => Ok(()),
        false => Err(invalid("input", "must be JSON")),
    }
}

/// Checks a retry policy.
pub(super) fn check_retry(retry: &RetryPolicy) -> Result<(), Error> {
    retry.check().map_err(|why| invalid("retry", format!("is wrong: {why}")))?;
    retry.non_retryable.iter().try_for_each(|code| check_field("retry.non_retryable", code))
}
