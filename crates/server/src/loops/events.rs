//! Finds out who listens for which events, at any server, and forgets events that are old.

use baton_core::Millis;

use crate::{App, Error};

/// How long events are kept for those who were cut off.
const KEPT_MS: Millis = 600_000;
/// How many are kept.
const KEPT_MAX: i64 = 1_000_000;
/// Batches deleted in one call.
const DELETE_MAX: usize = 500;
/// Calls in one pass, so that a pass ends.
const ROUNDS_MAX: usize = 100;

/// One pass.
pub(super) async fn pass(app: &App) -> Result<String, Error> {
    let kinds = app.events.look().await?.count_ones();
    Ok(if kinds == 0 { "nobody listens".into() } else { format!("{kinds} kinds of events are written") })
}

/// Deletes events that are old, or too many.
pub(super) async fn forget(app: &App) -> Result<u64, Error> {
    let mut forgotten = 0;
    for _ in 0..ROUNDS_MAX {
        let gone = app.store.forget_events(KEPT_MS, KEPT_MAX, DELETE_MAX).await?;
        forgotten += gone;
        if gone < DELETE_MAX as u64 {
            break;
        }
    }
    Ok(forgotten)
}
