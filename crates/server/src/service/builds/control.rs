//! cancel and retry of builds.

use baton_core::{Millis, RunId, State};
use baton_proto::{CancelledBuild, SubmittedBuild};
use baton_store::{Idempotency, Scope, Verdict};

use super::submit::{Wanted, take_in};
use super::{Reader, logs, status_of, visible};
use crate::service::cancel::{self, tell_holder};
use crate::service::{audit, check_name, settle_any};
use crate::verb_metrics::timed;
use crate::{App, Error};

/// Cancels a build: at once when nobody has it, otherwise its builder is told and has a grace time.
pub async fn cancel(app: &App, reader: &Reader<'_>, id: &str) -> Result<CancelledBuild, Error> {
    timed!(app.metrics.cancel, cancel_visible(app, reader, id))
}

async fn cancel_visible(app: &App, reader: &Reader<'_>, id: &str) -> Result<CancelledBuild, Error> {
    let found = visible(app, reader, Scope::Submit, id).await?;
    let run = found.record.id;
    let changes = cancel::in_store(app, vec![run], app.current().cancel_grace_ms as Millis).await?;
    if let Verdict::Done { state: State::Cancelled, .. } = changes.verdicts[0] {
        say_cancelled(app, run).await;
    }
    app.after().changed([run].into_iter(), &changes);
    let outcome = settle_any(app, run, changes.verdicts[0]).await?;
    tell_holder(app, run, outcome).await?;
    let namespace = &found.build.submitted.namespace;
    audit::write(app, reader.actor(), "build.cancel", id, outcome.state.as_str(), Some(namespace)).await?;
    Ok(CancelledBuild { success: true, status: status_of(outcome.state) })
}

async fn say_cancelled(app: &App, run: RunId) {
    logs::note(app, run, "Build cancelled".into()).await;
}

/// Says in the log of a build that it was cancelled with others. The run may be none: anybody may submit to the queue.
pub(crate) async fn note_cancelled(app: &App, run: RunId) -> Result<(), Error> {
    if app.store.builds(&[run]).await?.pop().flatten().is_some() {
        say_cancelled(app, run).await;
    }
    Ok(())
}

/// Makes a new build of the same source. The old one stays as it is.
pub async fn retry(app: &App, reader: &Reader<'_>, id: &str, key: Option<&str>) -> Result<SubmittedBuild, Error> {
    let checked = key.map_or(Ok(()), |key| check_name("Idempotency-Key", key));
    checked.inspect_err(|error| app.metrics.retry.refused(error))?;
    let (submitted, namespace) = retry_unaudited(app, reader, id, key).await?;
    let detail = format!("as {}", submitted.id);
    audit::write(app, reader.actor(), "build.retry", id, &detail, Some(&namespace)).await?;
    Ok(submitted)
}

/// As [`retry`], for what is on record already. Returns the namespace, too.
pub(crate) async fn retry_unaudited(
    app: &App,
    reader: &Reader<'_>,
    id: &str,
    key: Option<&str>,
) -> Result<(SubmittedBuild, String), Error> {
    timed!(app.metrics.retry, retry_visible(app, reader, id, key))
}

async fn retry_visible(
    app: &App,
    reader: &Reader<'_>,
    id: &str,
    key: Option<&str>,
) -> Result<(SubmittedBuild, String), Error> {
    let found = visible(app, reader, Scope::Submit, id).await?;
    let (run, namespace) = (found.record.id, found.build.submitted.namespace.clone());
    let wanted = Wanted {
        build: found.build.submitted,
        priority: Some(found.record.priority),
        // The build is all there is to say, and it is part of the key.
        idempotency: key.map(|key| Idempotency { key: format!("retry\u{1f}{run}\u{1f}{key}"), fingerprint: [0; 16] }),
        input: String::from_utf8_lossy(&found.record.input).into_owned(),
        retry_of: Some(run),
    };
    let submitted = take_in(app, wanted).await?;
    logs::note(app, run, format!("Retried as build {}", submitted.id)).await;
    Ok((submitted, namespace))
}
