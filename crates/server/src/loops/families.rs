//! Passes on the ends of workflows to their relatives, and ends those whose time is over.

use std::time::Duration;

use baton_core::Millis;
use baton_store::Delivered;

use crate::{App, Error};

/// Ends in one call.
const DELIVER_MAX: usize = 1_000;
/// Calls in one pass, so that a pass ends.
const ROUNDS_MAX: usize = 100;
/// Pause after a pass that found nothing. Every end of a run rings, and nearly all runs have no relatives: so they cost fifty looks a
/// second at most.
const PAUSE: Duration = Duration::from_millis(20);

/// Tells parents of their children's ends, and children that their parents have ended.
pub(super) async fn deliver(app: &App) -> Result<String, Error> {
    let (mut messaged, mut orphaned) = (0, 0);
    for _ in 0..ROUNDS_MAX {
        let grace_ms = app.current().cancel_grace_ms as Millis;
        let delivered = app.store.deliver(grace_ms, DELIVER_MAX).await?;
        messaged += delivered.messaged.len();
        orphaned += delivered.orphaned.len();
        if !delivered.orphaned.is_empty() {
            app.deadlines.ring_in(grace_ms);
        }
        tell(app, &delivered);
        if !delivered.more {
            break;
        }
    }
    if messaged + orphaned == 0 {
        tokio::time::sleep(PAUSE).await;
    }
    Ok(format!("{messaged} parents were told of an end, {orphaned} children have lost theirs"))
}

/// Ends runs whose deadline has passed.
pub(crate) async fn end_overdue(app: &App) -> Result<String, Error> {
    let mut ended = 0;
    for _ in 0..ROUNDS_MAX {
        let delivered = app.store.end_overdue(DELIVER_MAX).await?;
        ended += delivered.ended.len();
        tell(app, &delivered);
        if !delivered.more {
            break;
        }
    }
    Ok(format!("{ended} runs ended because their time was over"))
}

fn tell(app: &App, delivered: &Delivered) {
    let after = app.after();
    after.wake(&delivered.woken);
    // Whoever holds one of them hears of messages, or that its lease is over.
    for run in delivered.messaged.iter().chain(&delivered.orphaned).chain(&delivered.ended) {
        after.messages(*run);
    }
    app.events.changed(delivered.ended.iter().chain(&delivered.orphaned).map(|run| (*run, None, None)));
    app.watchers.ended(delivered.ended.iter().chain(&delivered.orphaned).copied());
    if !delivered.ended.is_empty() || !delivered.orphaned.is_empty() {
        app.ends.ring();
    }
}
