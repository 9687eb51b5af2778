//! Between the words of the wire and our own.

use baton_core::retry::RetryPolicy;
use baton_core::{Millis, RunId, State, WorkerId};
use baton_proto::v1;
use baton_store::{Due, Message, MessageKind, Page, Step, StepKind, StepState};
use prost_types::{Duration, Timestamp};

use crate::Error;
use crate::service::payloads;
use crate::service::workflows::invalid;

/// Entries on a page of a list that does not say how many.
const PAGE_DEFAULT: usize = 100;

/// A run's identifier.
pub(super) fn run_id(text: &str) -> Result<RunId, Error> {
    text.parse().map_err(|_| invalid("run_id", "must be the identifier of a run"))
}

/// A worker's identifier.
pub(super) fn worker_id(text: &str) -> Result<WorkerId, Error> {
    text.parse().map_err(|_| invalid("worker_id", "must be the identifier of a worker"))
}

/// A text, unless it is empty.
pub(super) fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// A moment.
pub(super) fn timestamp(at: Millis) -> Timestamp {
    Timestamp { seconds: at.div_euclid(1_000), nanos: (at.rem_euclid(1_000) * 1_000_000) as i32 }
}

/// A span.
pub(super) fn duration(ms: Millis) -> Duration {
    Duration { seconds: ms / 1_000, nanos: ((ms % 1_000) * 1_000_000) as i32 }
}

/// A moment that was sent.
pub(super) fn moment(field: &'static str, at: Timestamp) -> Result<Millis, Error> {
    let ms = at.seconds.checked_mul(1_000).and_then(|ms| ms.checked_add(Millis::from(at.nanos.div_euclid(1_000_000))));
    ms.filter(|ms| *ms >= 0).ok_or_else(|| invalid(field, "must be a moment after 1970"))
}

/// A span that was sent, in whole milliseconds. What is more than nothing is at least one.
pub(super) fn span(field: &'static str, span: Duration) -> Result<Millis, Error> {
    let wrong = || invalid(field, "must not be negative, nor longer than can be counted");
    if span.seconds < 0 || span.nanos < 0 {
        return Err(wrong());
    }
    let ms = span.seconds.checked_mul(1_000).ok_or_else(wrong)?;
    let part = Millis::from(span.nanos).div_euclid(1_000_000) + Millis::from(span.nanos % 1_000_000 > 0);
    ms.checked_add(part).ok_or_else(wrong)
}

/// A span that was sent, or nothing.
pub(super) fn optional_span(field: &'static str, given: Option<Duration>) -> Result<Option<Millis>, Error> {
    given.map(|given| span(field, given)).transpose()
}

/// After a span, or at a moment.
pub(super) fn due(
    fields: (&'static str, &'static str),
    after: Option<Duration>,
    at: Option<Timestamp>,
) -> Result<Option<Due>, Error> {
    match (after, at) {
        (Some(_), Some(_)) => Err(invalid(fields.0, format!("and {} do not go together: give one of them", fields.1))),
        (Some(after), None) => Ok(Some(Due::After(span(fields.0, after)?))),
        (None, Some(at)) => Ok(Some(Due::At(moment(fields.1, at)?))),
        (None, None) => Ok(None),
    }
}

/// A retry policy. What is left out is as everywhere.
pub(super) fn retry(policy: v1::RetryPolicy) -> Result<RetryPolicy, Error> {
    let default = RetryPolicy::default();
    let ms = |field, given: Option<Duration>| Ok::<_, Error>(optional_span(field, given)?.map(|ms| ms as u64));
    let (first_interval_ms, max_interval_ms) = RetryPolicy::intervals(
        ms("retry.first_interval", policy.first_interval)?,
        ms("retry.longest_interval", policy.longest_interval)?,
    );
    Ok(RetryPolicy {
        max_attempts: if policy.max_attempts == 0 { default.max_attempts } else { policy.max_attempts },
        first_interval_ms,
        factor: if policy.factor == 0.0 { default.factor } else { policy.factor },
        max_interval_ms,
        jitter: policy.jitter.unwrap_or(default.jitter),
        non_retryable: policy.non_retryable,
    })
}

/// How many entries a page has.
pub(super) fn page_size(asked: u32) -> Result<usize, Error> {
    match asked as usize {
        0 => Ok(PAGE_DEFAULT),
        size if size <= baton_proto::PAGE_MAX => Ok(size),
        _ => Err(invalid("page_size", format!("must be 1 to {}", baton_proto::PAGE_MAX))),
    }
}

/// The page a token and a size ask for.
pub(super) fn page<K>(size: u32, token: &str, read: impl Fn(&str) -> Option<K>) -> Result<Page<K>, Error> {
    let after = match token {
        "" => None,
        token => {
            Some(read(token).ok_or_else(|| invalid("page_token", "must be the next_page_token of the page before"))?)
        }
    };
    Ok(Page { after, limit: page_size(size)? })
}

/// The token of the next page, if there may be one.
pub(super) fn next_token<T>(page: &[T], limit: usize, token: impl Fn(&T) -> String) -> String {
    page.last().filter(|_| page.len() == limit).map(token).unwrap_or_default()
}

/// A state of a run.
pub(super) fn run_state(state: State) -> v1::RunState {
    match state {
        State::Pending => v1::RunState::Pending,
        State::Assigned => v1::RunState::Assigned,
        State::Running => v1::RunState::Running,
        State::Sleeping => v1::RunState::Sleeping,
        State::Completed => v1::RunState::Completed,
        State::Failed => v1::RunState::Failed,
        State::Cancelled => v1::RunState::Cancelled,
    }
}

/// A state that was sent to filter by; unspecified is none.
pub(super) fn state_filter(state: i32) -> Result<Option<State>, Error> {
    match v1::RunState::try_from(state) {
        Ok(v1::RunState::Unspecified) => Ok(None),
        Ok(v1::RunState::Pending) => Ok(Some(State::Pending)),
        Ok(v1::RunState::Assigned) => Ok(Some(State::Assigned)),
        Ok(v1::RunState::Running) => Ok(Some(State::Running)),
        Ok(v1::RunState::Sleeping) => Ok(Some(State::Sleeping)),
        Ok(v1::RunState::Completed) => Ok(Some(State::Completed)),
        Ok(v1::RunState::Failed) => Ok(Some(State::Failed)),
        Ok(v1::RunState::Cancelled) => Ok(Some(State::Cancelled)),
        Err(_) => Err(invalid("state", "is no state of a run")),
    }
}

/// The kind of a step that was sent; a step unless given.
pub(super) fn step_kind(kind: i32) -> Result<StepKind, Error> {
    match v1::StepKind::try_from(kind) {
        Ok(v1::StepKind::Unspecified | v1::StepKind::Step) => Ok(StepKind::Step),
        Ok(v1::StepKind::Sleep) => Ok(StepKind::Sleep),
        Ok(v1::StepKind::Signal) => Ok(StepKind::Signal),
        Ok(v1::StepKind::Child) => Ok(StepKind::Child),
        Ok(v1::StepKind::Fact) => Ok(StepKind::Fact),
        Err(_) => Err(invalid("kind", "is no kind of a step")),
    }
}

/// How far a step is.
pub(super) fn step_state(state: StepState) -> v1::StepState {
    match state {
        StepState::Begun => v1::StepState::Begun,
        StepState::Completed => v1::StepState::Completed,
        StepState::Failed => v1::StepState::Failed,
    }
}

/// A remembered position.
pub(super) fn step(step: Step) -> v1::Step {
    let kind = match step.kind {
        StepKind::Step => v1::StepKind::Step,
        StepKind::Sleep => v1::StepKind::Sleep,
        StepKind::Signal => v1::StepKind::Signal,
        StepKind::Child => v1::StepKind::Child,
        StepKind::Fact => v1::StepKind::Fact,
    };
    let (output, output_bytes) = payloads::shown(step.output);
    v1::Step {
        position: step.position,
        kind: kind.into(),
        name: step.name,
        state: step_state(step.state).into(),
        output,
        output_bytes,
        error: step.error.unwrap_or_default(),
        code: step.code.unwrap_or_default(),
        attempts: step.attempts,
        begun_at: Some(timestamp(step.begun_at)),
        ended_at: step.ended_at.map(timestamp),
        due_at: step.due_at.map(timestamp),
        message: step.message.map_or(0, |number| number as u64),
        child_run_id: step.child.map(|run| run.to_string()).unwrap_or_default(),
    }
}

/// A message of an inbox.
pub(super) fn message(message: Message) -> v1::Message {
    let kind = match message.kind {
        MessageKind::Signal => v1::MessageKind::Signal,
        MessageKind::Child => v1::MessageKind::Child,
        MessageKind::Cancel => v1::MessageKind::Cancel,
    };
    let (payload, payload_bytes) = payloads::shown(message.payload);
    v1::Message {
        number: message.number as u64,
        kind: kind.into(),
        name: message.name,
        payload,
        payload_bytes,
        state: message.state.map_or(v1::RunState::Unspecified, run_state).into(),
        error: message.error.unwrap_or_default(),
        position: message.position.unwrap_or(0),
        at: Some(timestamp(message.at)),
    }
}

/// The number of the last message that was seen.
pub(super) fn seen(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_there_and_back() {
        for at in [0, 1, 999, 1_000, 1_700_000_000_123] {
            assert_eq!(moment("at", timestamp(at)), Ok(at));
            assert_eq!(span("for", duration(at)), Ok(at));
        }
        assert_eq!(span("for", Duration { seconds: 0, nanos: 1 }), Ok(1));
        for wrong in [Duration { seconds: -1, nanos: 0 }, Duration { seconds: i64::MAX, nanos: 0 }] {
            assert!(span("for", wrong).is_err());
        }
        assert!(moment("at", Timestamp { seconds: i64::MAX, nanos: 0 }).is_err());
    }
}
