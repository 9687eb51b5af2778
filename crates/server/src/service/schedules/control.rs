//! Pause and resume.

use baton_proto::ScheduleView;
use baton_store::ScheduleChange;

use super::set;
use super::spec::Spec;
use crate::auth::Caller;
use crate::service::{audit, message};
use crate::{App, Error};

/// Lets a schedule wait. A fire that waits for the end of a run is left out.
pub async fn pause(
    app: &App,
    caller: &Caller,
    namespace: &str,
    id: &str,
    note: Option<&str>,
) -> Result<ScheduleView, Error> {
    let note = note.map(message);
    let paused = set(app, caller, namespace, id, |seen, _| {
        let change = ScheduleChange {
            is_paused: true,
            next_at: None,
            buffered_at: None,
            note: note.clone().unwrap_or_else(|| seen.note.clone()),
            ..ScheduleChange::of(seen)
        };
        Ok((change != ScheduleChange::of(seen)).then_some(change))
    });
    let paused = paused.await?;
    audit::act(app, caller, "schedule.pause", id, note.as_deref().unwrap_or_default(), Some(namespace)).await?;
    Ok(paused)
}

/// Lets a schedule fire again, from now on: what it missed is not made up for.
pub async fn resume(app: &App, caller: &Caller, namespace: &str, id: &str) -> Result<ScheduleView, Error> {
    let resumed = set(app, caller, namespace, id, |seen, now| {
        if !seen.is_paused {
            return Ok(None);
        }
        let last_at = now.max(seen.last_at);
        let next_at = Spec::read(app, seen)?.rule()?.next(last_at);
        Ok(Some(ScheduleChange { is_paused: false, last_at, next_at, ..ScheduleChange::of(seen) }))
    });
    let resumed = resumed.await?;
    audit::act(app, caller, "schedule.resume", id, "", Some(namespace)).await?;
    Ok(resumed)
}
