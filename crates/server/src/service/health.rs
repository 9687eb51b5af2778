//! Whether this server can do its work, and what its store says of itself.

use baton_core::Millis;

use crate::{App, Error};

/// What stands in the way of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Readiness {
    /// Nothing does.
    Ready,
    /// The disk that is used for this is full.
    DiskFull(&'static str),
    /// A newer program has changed the database.
    NewerSchema {
        /// The version that the database has.
        version: i32,
        /// The last version that this program knows.
        known: i32,
    },
}

/// Looks at the store, its schema and the disks. A store that cannot be reached is an error.
pub async fn readiness(app: &App) -> Result<Readiness, Error> {
    app.store.now().await?;
    if let Some(used) = app.disks.full().await {
        return Ok(Readiness::DiskFull(used));
    }
    let newer = *app.newer_schema.lock().expect("nobody panics while holding it");
    Ok(newer.map_or(Readiness::Ready, |(version, known)| Readiness::NewerSchema { version, known }))
}

/// True while the store can be reached and the server is not about to stop.
pub async fn is_serving(app: &App) -> bool {
    app.store.now().await.is_ok() && !app.stopping.is_cancelled()
}

/// The store's clock, asked now: for moments that are kept and compared with it later.
pub async fn store_now(app: &App) -> Result<Millis, Error> {
    Ok(app.store.now().await?)
}

/// `sqlite` or `postgres`.
pub fn store_kind(app: &App) -> &'static str {
    app.store.kind()
}
