//! sleep: the run waits without a worker.

use baton_core::{LateVerb, Millis, RunId, retry};
use baton_proto::SleepRun;
use baton_store::{Due, Scope};

use super::submit::DUE_AT_MAX;
use super::{Outcome, open_lease, settle};
use crate::auth::Caller;
use crate::refusals::LeaseWrite;
use crate::verb_metrics::timed;
use crate::{App, Error};

/// Puts one run to sleep.
pub async fn one(app: &App, caller: &Caller, run: RunId, report: SleepRun) -> Result<Outcome, Error> {
    timed!(app.metrics.sleep, held(app, caller, run, report))
}

async fn held(app: &App, caller: &Caller, run: RunId, report: SleepRun) -> Result<Outcome, Error> {
    caller.has(Scope::Worker)?;
    let lease = open_lease(app, caller, run, &report.lease).await?;
    let due = match (report.ms, report.until) {
        (Some(ms), None) if ms <= 100 * retry::INTERVAL_MS_MAX => Due::After(ms as Millis),
        (None, Some(at)) if at.0 <= DUE_AT_MAX => Due::At(at.0),
        (Some(_), None) | (None, Some(_)) => return Err(Error::Invalid("a run can sleep at most 100 years".into())),
        (Some(_), Some(_)) | (None, None) => return Err(Error::Invalid("give ms or until: one of them".into())),
    };
    let changes = app.metrics.sleep.at_store(app.store.sleep(vec![(lease, due)])).await?;
    app.metrics.sleep.did(&changes.verdicts);
    app.after().changed([run].into_iter(), &changes);
    settle(app, LeaseWrite::new(lease, LateVerb::Sleep), changes.verdicts[0]).await
}
