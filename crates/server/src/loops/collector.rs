//! Removes files that nobody can read any more, and looks after builds that stand still.

use std::time::Duration;

use baton_core::Millis;

use crate::artifacts::{StorageError, UploadError};
use crate::service::builds::files;
use crate::service::payloads;
use crate::{App, Error, crash};

/// Files removed in one pass.
const FILES_MAX: usize = 200;
/// Payloads looked at in one call: a look costs a few lookups for each.
const PAYLOADS_MAX: usize = 500;
/// Builds that are told of in one pass.
const STUCK_MAX: usize = 20;

/// Removes what a crash, a lost lease or retention left.
pub(crate) async fn collect(app: &App) -> Result<String, Error> {
    let mut removed = 0;
    loop {
        let orphans = app.store.orphans(app.settings.collect_age_ms as Millis, FILES_MAX).await?;
        let count = orphans.len();
        if count > 0 {
            crash::point("collect.doomed");
        }
        let mut gone = Vec::with_capacity(count);
        for file in orphans {
            match app.storage.delete(&files::path_of(file.id, file.kind)).await {
                Ok(()) | Err(StorageError::NotFound) => gone.push(file.id),
                Err(error) => tracing::warn!(%error, file = %file.id, "a file could not be removed; it is tried again"),
            }
        }
        if !gone.is_empty() {
            crash::point("collect.deleted");
            app.store.forget_artifacts(&gone).await?;
            crash::point("collect.forgotten");
        }
        removed += gone.len();
        if count < FILES_MAX || gone.is_empty() {
            break;
        }
    }
    let payloads = payloads::collect(app, PAYLOADS_MAX).await?;
    Ok(format!("{removed} files and {payloads} payloads removed"))
}

/// Removes drafts and uploads that nobody goes on with, and what the cache has not used for the longest. Reads the storage's
/// directory, so it is not done often.
pub(crate) async fn sweep(app: &App) -> Result<String, Error> {
    let drafts = app.storage.sweep(Duration::from_millis(app.settings.draft_age_ms)).await?;
    crash::point("sweep.drafts");
    let now = app.store.now().await?;
    let uploads = app.uploads.sweep(now).await.map_err(|error| {
        tracing::warn!(%error, "uploads that have expired could not be removed");
        match error {
            UploadError::Storage(error) => error.into(),
            _ => Error::Internal,
        }
    })?;
    let evicted = app.cache.pass().await?;
    Ok(format!("{drafts} drafts and {uploads} uploads removed, {} files left the cache", evicted.files))
}

/// Says which builds have been silent for long. Nothing is done to them: their builders live, or the reaper would know.
pub(super) async fn look_for_stuck(app: &App) -> Result<String, Error> {
    let stuck = app.store.stuck_builds(app.current().build_stuck_ms as Millis, STUCK_MAX).await?;
    for run in &stuck {
        tracing::warn!(build = %run, "a build has been silent for long");
    }
    app.metrics.builds_stuck.set(stuck.len() as i64);
    Ok(format!("{} builds are silent", stuck.len()))
}
