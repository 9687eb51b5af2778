//! Messages for a workflow whose worker holds it and waits for them.

use std::time::Duration;

use baton_core::{LateVerb, RunId};
use baton_proto::CLAIM_WAIT_MS_MAX;
use baton_store::{LeaseRef, MESSAGE_BYTES_AT_ONCE, MESSAGES_AT_ONCE, Message};
use bytes::Bytes;
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

/// Messages beyond those seen, up to about this many bytes. What was read before the store failed is returned too.
pub(crate) async fn read(app: &App, run: RunId, seen: i64, bytes_max: usize) -> Result<Vec<Message>, Error> {
    let (mut all, mut bytes): (Vec<Message>, usize) = (Vec::new(), 0);
    while let Ok(messages) = app.store.messages(run, all.last().map_or(seen, |last| last.number)).await {
        let read: usize = messages.iter().filter_map(|message| message.payload.as_ref()).map(Bytes::len).sum();
        let more = messages.len() >= MESSAGES_AT_ONCE || read >= MESSAGE_BYTES_AT_ONCE;
        all.extend(messages);
        bytes += read;
        if !more || bytes >= bytes_max {
            break;
        }
    }
    payloads::fill_messages(app, &mut all).await?;
    Ok(all)
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
