//! The audit log: every administrative act, and everything that was refused for want of a better key.

use baton_core::Millis;
use baton_proto::AuditLine;
use baton_store::{AuditEntry, AuditRecord, Page, RunRecord, Scope};

use crate::audit::shown;
use crate::auth::{Caller, refused};
use crate::{App, Error};

/// How many lines a look for some goes through before it ends.
pub const LINES_LOOKED_AT_MAX: usize = 10_000;
/// How many of them are read at once.
const LINES_AT_ONCE: usize = 1_000;

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
    app.audit.write(entry).await?;
    // Open pages show the change.
    app.changes.add();
    Ok(())
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
    may_read(caller)?;
    Ok(app.store.audit_log(page, oldest_first).await?.into_iter().map(shown).collect())
}

fn may_read(caller: &Caller) -> Result<(), Error> {
    caller.has(Scope::Admin)?;
    match &caller.namespace {
        Some(_) => Err(refused("the audit log is for keys that are good for all namespaces".into())),
        None => Ok(()),
    }
}

/// Which lines are looked for. What is none does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// The id of the key that acted.
    pub actor: Option<String>,
    /// What was done: `key.create`, all of a subject (`key`), or all of one kind (`create`).
    pub action: Option<String>,
    /// A part of what it was done to, or of the details, in whatever case.
    pub text: Option<String>,
    /// The namespace it belongs to.
    pub namespace: Option<String>,
    /// Not before this moment.
    pub since: Option<Millis>,
}

impl AuditFilter {
    fn fits(&self, line: &AuditRecord) -> bool {
        let entry = &line.entry;
        let is_of = |wanted: &str| {
            let (subject, act) = entry.action.split_once('.').unwrap_or((&entry.action, ""));
            [&*entry.action, subject, act].contains(&wanted)
        };
        let has = |text: &str| {
            let text = text.to_lowercase();
            [&entry.subject, &entry.detail].iter().any(|own| own.to_lowercase().contains(&text))
        };
        self.actor.as_ref().is_none_or(|actor| entry.actor == *actor)
            && self.action.as_deref().is_none_or(is_of)
            && self.namespace.as_ref().is_none_or(|namespace| entry.namespace.as_ref() == Some(namespace))
            && self.text.as_deref().is_none_or(has)
    }
}

/// Lines that were found, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLines {
    /// The lines.
    pub lines: Vec<AuditLine>,
    /// Where to look further, if there may be more.
    pub next: Option<i64>,
    /// True when the look ended because it had become long, not because there were enough lines.
    pub is_cut: bool,
}

/// Looks for lines, newest first. A look ends after [`LINES_LOOKED_AT_MAX`] lines, so that it takes a moment and not longer,
/// however long the log is.
pub async fn find(app: &App, caller: &Caller, filter: &AuditFilter, page: Page<i64>) -> Result<FoundLines, Error> {
    may_read(caller)?;
    let mut found = FoundLines { lines: Vec::new(), next: page.after, is_cut: false };
    for _ in 0..LINES_LOOKED_AT_MAX / LINES_AT_ONCE {
        let read = app.store.audit_log(Page { after: found.next, limit: LINES_AT_ONCE }, false).await?;
        let is_last = read.len() < LINES_AT_ONCE;
        for line in read {
            if filter.since.is_some_and(|since| line.at < since) {
                return Ok(FoundLines { next: None, ..found });
            }
            found.next = Some(line.id);
            if filter.fits(&line) {
                found.lines.push(shown(line));
            }
            if found.lines.len() == page.limit {
                return Ok(found);
            }
        }
        if is_last {
            return Ok(FoundLines { next: None, ..found });
        }
    }
    Ok(FoundLines { is_cut: true, ..found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_every_part_of_them() {
        let line = AuditRecord {
            id: 1,
            at: 5,
            entry: AuditEntry {
                actor: "key_1".into(),
                action: "namespace.disable".into(),
                subject: "Team".into(),
                detail: "moving to another ONE".into(),
                namespace: Some("team".into()),
                ..AuditEntry::default()
            },
        };
        let is_found = |filter: AuditFilter| filter.fits(&line);
        let text = |text: &str| AuditFilter { text: Some(text.into()), ..AuditFilter::default() };
        let action = |action: &str| AuditFilter { action: Some(action.into()), ..AuditFilter::default() };
        assert!(is_found(AuditFilter::default()));
        assert!(is_found(text("tEAM")) && is_found(text("another one")) && !is_found(text("key_1")));
        assert!(is_found(action("namespace")) && is_found(action("namespace.disable")) && is_found(action("disable")));
        assert!(!is_found(action("name")) && !is_found(action("namespace.")));
        assert!(!is_found(AuditFilter { actor: Some("key_".into()), ..AuditFilter::default() }));
        assert!(is_found(AuditFilter { namespace: Some("team".into()), ..AuditFilter::default() }));
        assert!(!is_found(AuditFilter { namespace: Some("default".into()), ..AuditFilter::default() }));
    }
}
