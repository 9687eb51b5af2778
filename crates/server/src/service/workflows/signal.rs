//! signal: leaves a message in a workflow's inbox.

use baton_core::RunId;
use baton_store::{MESSAGES_MAX, MessageAnswer, MessageKind, NewMessage, Scope};
use bytes::Bytes;

use super::super::{payloads, visible};
use super::check_field;
use crate::auth::Caller;
use crate::verb_metrics::timed;
use crate::{App, Error};

/// Successors that are followed in one call.
pub(super) const SUCCESSORS_MAX: usize = 1_000;

/// Signals a workflow. The same key again is the same signal. Returns the number in the inbox.
pub async fn one(
    app: &App,
    caller: &Caller,
    run: RunId,
    name: String,
    payload: Bytes,
    key: Option<String>,
) -> Result<i64, Error> {
    timed!(app.metrics.message, checked(app, caller, run, name, payload, key))
}

async fn checked(
    app: &App,
    caller: &Caller,
    run: RunId,
    name: String,
    payload: Bytes,
    key: Option<String>,
) -> Result<i64, Error> {
    check_field("name", &name)?;
    key.as_deref().map_or(Ok(()), |key| check_field("idempotency_key", key))?;
    payloads::check(app, &payload)?;
    let lane = visible(app, caller, Scope::Submit, run).await?.lane;
    let payload = match payload.is_empty() {
        true => None,
        false => Some(payloads::keep(app, payloads::Of::Lane(lane), payload).await?),
    };
    let (left, _) = leave(app, NewMessage { run, kind: MessageKind::Signal, name, payload, key }).await?;
    match left {
        Some(number) => Ok(number),
        None => Err(ended(app, run).await?),
    }
}

/// Leaves a message, with the run that goes on in the place of another if need be. No number: the run has ended.
pub(super) async fn leave(app: &App, mut message: NewMessage) -> Result<(Option<i64>, RunId), Error> {
    for _ in 0..SUCCESSORS_MAX {
        let run = message.run;
        match leave_all(app, vec![message.clone()]).await?.pop().ok_or(Error::Internal)? {
            MessageAnswer::Left(number) => return Ok((Some(number), run)),
            MessageAnswer::Continued(next) => message.run = next,
            MessageAnswer::Ended => return Ok((None, run)),
            MessageAnswer::Full => return Err(Error::InboxFull { limit: MESSAGES_MAX as u64 }),
            MessageAnswer::Unknown => return Err(Error::no_run(run)),
        }
    }
    Err(too_fast())
}

/// Leaves messages with these runs, and wakes and tells those that have got theirs.
pub(crate) async fn leave_all(app: &App, messages: Vec<NewMessage>) -> Result<Vec<MessageAnswer>, Error> {
    let runs: Vec<RunId> = messages.iter().map(|message| message.run).collect();
    let (answers, woken) = app.metrics.message.at_store(app.store.leave_messages(messages)).await?;
    let after = app.after();
    after.wake(&woken);
    for (run, answer) in runs.into_iter().zip(&answers) {
        if let MessageAnswer::Left(_) = answer {
            app.metrics.message.runs.inc();
            after.messages(run);
        }
    }
    Ok(answers)
}

/// The error for a workflow that cannot be followed.
pub(super) fn too_fast() -> Error {
    Error::Conflict("the workflow goes on as a new run faster than a message can follow it; try again".into())
}

/// The error for a run that has ended.
async fn ended(app: &App, run: RunId) -> Result<Error, Error> {
    let record = app.store.run(run).await?.ok_or_else(|| Error::no_run(run))?;
    Ok(Error::Ended(record.state))
}
