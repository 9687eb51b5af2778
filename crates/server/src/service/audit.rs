//! The audit log: every administrative act, and every refused credential.

use baton_proto::{AuditLine, Time};
use baton_store::{AuditEntry, Page, Scope};

use crate::auth::Caller;
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
    let entry = AuditEntry {
        actor: caller.key_id.clone(),
        action: action.into(),
        subject: subject.into(),
        detail: detail.into(),
        namespace: namespace.map(str::to_owned),
    };
    Ok(app.store.audit(vec![entry]).await?)
}

/// A page of the log, newest first. Only for administrators of everything: it names all namespaces.
pub async fn list(app: &App, caller: &Caller, page: Page<i64>) -> Result<Vec<AuditLine>, Error> {
    caller.has(Scope::Admin)?;
    if caller.namespace.is_some() {
        return Err(Error::Forbidden("the audit log is for keys that are good for all namespaces".into()));
    }
    let records = app.store.audit_log(page).await?;
    Ok(records
        .into_iter()
        .map(|record| AuditLine {
            id: record.id,
            at: Time(record.at),
            actor: record.entry.actor,
            action: record.entry.action,
            subject: record.entry.subject,
            detail: record.entry.detail,
            namespace: record.entry.namespace,
        })
        .collect())
}
