//! Reading bulk operations.

use baton_core::{BulkId, BulkState};
use baton_proto::{BulkError, BulkView, Time};
use baton_store::{BulkOperation, Page, Scope};

use super::visible;
use crate::auth::Caller;
use crate::{App, Error};

/// One operation.
pub async fn get(app: &App, caller: &Caller, id: &str) -> Result<BulkView, Error> {
    view(&visible(app, caller, Scope::Read, id).await?)
}

/// A page of operations, newest first.
pub async fn list(
    app: &App,
    caller: &Caller,
    namespace: Option<&str>,
    state: Option<&str>,
    page: Page<BulkId>,
) -> Result<Vec<BulkView>, Error> {
    caller.has(Scope::Read)?;
    if let Some(namespace) = namespace {
        caller.may(Scope::Read, namespace)?;
    }
    let state = state.map(|word| {
        let states = BulkState::ALL.map(BulkState::as_str).join(", ");
        BulkState::parse(word).ok_or_else(|| Error::field("state", format!("must be one of {states}, not {word:?}")))
    });
    let namespace = namespace.or(caller.namespace.as_deref());
    app.store.bulks(namespace, state.transpose()?, page).await?.iter().map(view).collect()
}

/// An operation as it is shown.
pub(crate) fn view(operation: &BulkOperation) -> Result<BulkView, Error> {
    let progress = &operation.progress;
    let errors: Vec<BulkError> = serde_json::from_str(&progress.errors).map_err(|_| Error::Internal)?;
    // What a newer version has written may have words that this one does not know.
    let filter = serde_json::from_str(&operation.filter).unwrap_or_default();
    Ok(BulkView {
        id: operation.id.to_string(),
        action: operation.action.as_str().into(),
        namespace: operation.namespace.clone(),
        filter,
        state: operation.state.as_str().into(),
        stopping: operation.is_stopping && !operation.state.is_ended(),
        matched: progress.matched,
        done: progress.tally.done,
        skipped: progress.tally.skipped,
        failed: progress.tally.failed,
        errors,
        waits_for: progress.waits_for.clone().filter(|_| !operation.state.is_ended()),
        rate_per_second: operation.per_second,
        reason: operation.reason.clone(),
        created_by: operation.created_by.clone(),
        created_at: Time(operation.created_at),
        ended_at: operation.ended_at.map(Time),
    })
}
