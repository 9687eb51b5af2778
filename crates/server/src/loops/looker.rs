//! The looker: on a store that other servers use too, looks once a second at what polls here are waiting for, so that a lost hint costs
//! at most a second; and listens for the hints.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::{App, Error};

/// Pause after listening failed.
const LISTEN_PAUSE: Duration = Duration::from_secs(1);

/// One pass: one statement for all lanes somebody waits for here.
pub(super) async fn pass(app: &App) -> Result<String, Error> {
    if !app.store.is_shared() {
        return Ok("nobody else uses this store".into());
    }
    // Also when nobody waits now: the store takes its hints back with every look.
    let lanes = app.dispatcher.waited_for();
    let look = app.store.look(&lanes).await?;
    app.dispatcher.looked(&look);
    Ok(format!("{} of {} lanes have work", look.ready.len(), lanes.len()))
}

/// Wakes polls when another server says that it has work for them.
pub(super) async fn listen(app: App, stop: CancellationToken) {
    loop {
        let heard = tokio::select! {
            () = stop.cancelled() => return,
            heard = app.store.listen() => heard,
        };
        match heard {
            Ok(lanes) if lanes.is_empty() => {
                let look = pass(&app).await;
                tracing::debug!(?look, "some hints may have been missed");
            }
            Ok(lanes) => {
                for lane in &lanes {
                    // A lane made by another server since: its name is read when its runs are handed out.
                    if app.lanes.queue_of(*lane).is_none() {
                        let _ = app.lanes.name(*lane).await;
                    }
                }
                app.dispatcher.wake(&baton_store::Woken { lanes, later: vec![] });
            }
            Err(error) => {
                tracing::debug!(%error, "cannot listen for other servers now");
                tokio::time::sleep(LISTEN_PAUSE).await;
            }
        }
    }
}
