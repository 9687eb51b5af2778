//! The audit log: every administrative act, and everything that was refused for want of a better key.

use baton_proto::AuditLine;
use baton_store::{AuditEntry, Page, RunRecord, Scope};

use crate::audit::shown;
use crate::auth::{Caller, refused};
use crate::{App, Error};

/// Writes down what an administrator did.
pub(crate) async fn act(
    app: &App,
    caller: &Caller,
    action: &str,
    subject: &str,
    detail: &str,
    namespace: Option<&str>,
) -> Result<(), Error> {
    write(app, &caller.key_id, action, subject, detail, namespace).await
}

/// Writes down what somebody did who is not known by an API key.
pub(crate) async fn write(
    app: &App,
    actor: &str,
    action: &str,
    subject: &str,
    detail: &str,
    namespace: Option<&str>,
) -> Result<(), Error> {
    let entry = AuditEntry {
        actor: actor.into(),
        action: action.into(),
        subject: subject.into(),
        detail: detail.into(),
        namespace: namespace.map(str::to_owned),
        ..AuditEntry::default()
    };
    Ok(app.audit.write(entry).await?)
}

/// Writes down what somebody did to a run.
pub(crate) async fn of_run(
    app: &App,
    caller: &Caller,
    action: &str,
    record: &RunRecord,
    detail: &str,
) -> Result<(), Error> {
    let lane = app.lanes.name(record.lane).await?.ok_or(Error::Internal)?;
    act(app, caller, action, &record.id.to_string(), detail, Some(&lane.namespace)).await
}

/// A page of the log. Only for administrators of everything: it names all namespaces.
pub async fn list(app: &App, caller: &Caller, page: Page<i64>, oldest_first: bool) -> Result<Vec<AuditLine>, Error> {
    caller.has(Scope::Admin)?;
    if caller.namespace.is_some() {
        return Err(refused("the audit log is for keys that are good for all namespaces".into()));
    }
    Ok(app.store.audit_log(page, oldest_first).await?.into_iter().map(shown).collect())
}
