//! The looker: on a store that other servers use too, looks once a second at what polls here are waiting for, so that a lost hint costs
//! at most a second; and listens for the hints.

use std::time::Duration;

use baton_store::Hints;
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
    app.dispatcher.ask_for_new().await?;
    Ok(format!("{} of {} lanes have work", look.ready.len(), lanes.len()))
}

/// Takes over settings that another server changed.
pub(super) async fn settings(app: &App) -> Result<String, Error> {
    if !app.store.is_shared() {
        return Ok("nobody else uses this store".into());
    }
    Ok(match app.refresh_settings().await? {
        true => "settings were changed",
        false => "as they were",
    }
    .into())
}

/// Notices that a newer program has changed the schema under this one.
pub(super) async fn schema(app: &App) -> Result<String, Error> {
    let newer = app.store.newer_schema().await?;
    let was = std::mem::replace(&mut *app.newer_schema.lock().expect("nobody panics while holding it"), newer);
    if let (Some((version, known)), None) = (newer, was) {
        tracing::error!(
            version,
            known,
            "a newer version of Baton has changed the database; stop this one and start the newer"
        );
    }
    Ok(newer.map_or("as it was".into(), |(version, _)| format!("a newer program made version {version}")))
}

/// Takes over namespaces that another server changed.
pub(super) async fn namespaces(app: &App) -> Result<String, Error> {
    if !app.store.is_shared() {
        return Ok("nobody else uses this store".into());
    }
    Ok(format!("{} were enabled or disabled", app.refresh_namespaces().await?))
}

/// Takes over generations of the secret that another server has made.
pub(super) async fn secrets(app: &App) -> Result<String, Error> {
    if !app.store.is_shared() {
        return Ok("nobody else uses this store".into());
    }
    Ok(if app.secrets.refresh().await? { "there is a new one" } else { "as they were" }.into())
}

/// Notices that the installation's files are in another storage by now, or that one which could not
/// be reached is not the right one.
pub(super) async fn storage(app: &App) -> Result<String, Error> {
    crate::storage_owner::look(&*app.store, &app.storage).await.map(str::to_owned)
}

/// Wakes polls when another server says that it has work for them.
pub(super) async fn listen(app: App, stop: CancellationToken) {
    loop {
        let heard = tokio::select! {
            () = stop.cancelled() => return,
            heard = app.store.listen() => heard,
        };
        match heard {
            Ok(hints) if hints.is_empty() => {
                app.inboxes.missed();
                app.pools.missed();
                let _ = app.refresh_namespaces().await;
                let _ = app.secrets.refresh().await;
                let _ = app.events.look().await;
                app.bulk.bell.ring();
                app.webhooks.signals.changed();
                let look = pass(&app).await;
                tracing::debug!(?look, "some hints may have been missed");
            }
            Ok(Hints { lanes, workers, runs, runners, claims, namespaces, secrets, events, bulk }) => {
                app.pools.heard(&runners, &claims);
                if namespaces {
                    // They are also looked at now and then.
                    let _ = app.refresh_namespaces().await;
                }
                if secrets {
                    let _ = app.secrets.refresh().await;
                }
                if events {
                    // Looked for now and then, too.
                    let _ = app.events.look().await;
                    app.webhooks.signals.changed();
                }
                if bulk {
                    app.bulk.bell.ring();
                }
                runs.into_iter().for_each(|run| app.inboxes.news(run));
                workers.into_iter().for_each(|worker| app.workers.tell(worker));
                for lane in &lanes {
                    // A lane made by another server since: its name is read when its runs are handed out.
                    if app.lanes.queue_of(*lane).is_none() {
                        let _ = app.lanes.name(*lane).await;
                    }
                }
                app.dispatcher.wake(&baton_store::Woken { lanes, ..Default::default() });
            }
            Err(error) => {
                tracing::debug!(%error, "cannot listen for other servers now");
                tokio::time::sleep(LISTEN_PAUSE).await;
            }
        }
    }
}
