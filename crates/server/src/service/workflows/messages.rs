//! Messages for a workflow whose worker holds it and waits for them.

use std::time::Duration;

use baton_core::LateVerb;
use baton_proto::CLAIM_WAIT_MS_MAX;
use baton_store::{LeaseRef, Message};
use tokio::time::Instant;

use super::super::payloads;
use crate::refusals::LeaseWrite;
use crate::{App, Error};

/// How often messages are looked for when another server may bring them.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Messages beyond those seen, once there are some or the wait is over. The lease must be the live one all the time.
pub async fn wait(app: &App, lease: LeaseRef, seen: i64, wait_ms: u64) -> Result<Vec<Message>, Error> {
    let deadline = Instant::now() + Duration::from_millis(wait_ms.min(CLAIM_WAIT_MS_MAX));
    loop {
        // Watch before looking: a message between the look and the watch would wake nobody.
        let watch = app.inboxes.callers.watch(lease.run);
        let news = watch.notified();
        tokio::pin!(news);
        news.as_mut().enable();
        check_live(app, lease).await?;
        let mut messages = app.store.messages(lease.run, seen).await?;
        if !messages.is_empty() || Instant::now() >= deadline || app.stopping.is_cancelled() {
            payloads::fill_messages(app, &mut messages).await?;
            return Ok(messages);
        }
        let again = if app.store.is_shared() { deadline.min(Instant::now() + LOOK_AGAIN) } else { deadline };
        tokio::select! {
            _ = tokio::time::timeout_at(again, news) => {}
            () = app.stopping.cancelled() => {}
        }
    }
}

/// Refuses a lease that is not the live one.
pub(crate) async fn check_live(app: &App, lease: LeaseRef) -> Result<(), Error> {
    let record = app.store.run(lease.run).await?.ok_or_else(|| Error::no_run(lease.run))?;
    match record.state.is_held() && record.epoch == lease.epoch {
        true => Ok(()),
        false => {
            app.refusals.note(LeaseWrite::new(lease, LateVerb::Read));
            Err(Error::LeaseLost)
        }
    }
}
