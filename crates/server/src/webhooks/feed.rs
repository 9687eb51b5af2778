//! Reads the events, and keeps what is for each webhook as deliveries. Every server does; of several, one moves a webhook on.

use std::sync::Arc;

use baton_core::Millis;
use baton_core::webhooks::room;
use baton_proto::{Event, Time};
use baton_store::{EventPage, NewDelivery, Webhook, WebhookMove};

use super::{LiveWebhook, Seen, message};
use crate::events::{Entry, SETTLES, forgotten, is_begun, missed, read_batch};
use crate::{App, Error, crash};

/// Batches in one read.
const BATCHES_MAX: usize = 16;
/// Reads in one pass, so that a pass ends.
const ROUNDS_MAX: usize = 64;
/// How long the store may not know that events were looked at which were for nobody. A server that starts looks at them again,
/// as long as they are there.
const BEHIND_MS: Millis = 30_000;
/// Why events are missed: so many waited that there was no room.
const SLOW_RECEIVER: &str = "slow_reader";

/// Feeds webhooks with what has happened. Returns how many deliveries there are more.
pub(super) async fn feed(app: &App, live: &mut [LiveWebhook]) -> Result<usize, Error> {
    let mut new = 0;
    let mut open: Vec<&mut LiveWebhook> = live.iter_mut().collect();
    for _ in 0..ROUNDS_MAX {
        let Some(from) = open.iter().map(|webhook| position(app, webhook)).min() else { return Ok(new) };
        let page = app.store.events_after(from, BATCHES_MAX).await?;
        let is_all = page.batches.len() < BATCHES_MAX;
        let (entries, last) = entries(&page, from, is_all);
        let now = app.time.now().await?;
        let mut left = Vec::with_capacity(open.len());
        for webhook in open {
            let fed = match page.last < webhook.row.position {
                // The clock of events was put back: it is told that it may have missed something.
                true => feed_one(app, webhook, &[forgotten(page.last)], page.last, now).await?,
                false => feed_one(app, webhook, &entries, last, now).await?,
            };
            // What another server was faster with is looked at in the next pass, as it is then.
            if let Some(more) = fed {
                new += more;
                left.push(webhook);
            }
        }
        open = left;
        if is_all {
            return Ok(new);
        }
    }
    // There is more, and others want to pass, too.
    app.webhooks.signals.changed();
    Ok(new)
}

/// Everything up to here was looked at for a webhook.
fn position(app: &App, webhook: &LiveWebhook) -> i64 {
    let row = &webhook.row;
    let seen = app.webhooks.with_seen(|seen| seen.get(&row.id).copied());
    let seen = seen.filter(|seen| seen.revision == row.revision);
    seen.map_or(row.position, |seen| seen.position.max(row.position))
}

/// What a page says, with what should be there and is not; and up to where.
fn entries(page: &EventPage, from: i64, is_all: bool) -> (Vec<Entry>, i64) {
    let (mut entries, mut last) = (Vec::new(), from);
    for batch in &page.batches {
        if batch.first > last + 1 {
            entries.push(forgotten(batch.first - 1));
        }
        entries.extend(read_batch(batch, None).into_iter().filter(|entry| entry.id() > last));
        last = batch.last;
    }
    // A crash of the database has emptied the table.
    if is_all && page.last > last {
        entries.push(forgotten(page.last));
        last = page.last;
    }
    (entries, last)
}

/// What an entry says to a webhook.
fn heard(webhook: &LiveWebhook, entry: &Entry, now: Millis, is_shared: bool) -> Option<Arc<Event>> {
    match entry {
        Entry::Event(event) => webhook.filter.matches(event).then(|| event.clone()),
        Entry::Gap { kinds, .. } if kinds & webhook.filter.kinds() == 0 => None,
        // This server writes what a webhook wants before that is active. Others begin a moment later.
        Entry::Gap { reason, .. }
            if is_begun(reason) && (!is_shared || now - webhook.row.since < SETTLES.as_millis() as Millis) =>
        {
            None
        }
        Entry::Gap { id, reason, .. } => Some(missed(*id, Time(now), reason, None)),
    }
}

/// Feeds one webhook, and says with how many deliveries; with nothing, where somebody else was faster.
async fn feed_one(
    app: &App,
    webhook: &mut LiveWebhook,
    entries: &[Entry],
    last: i64,
    now: Millis,
) -> Result<Option<usize>, Error> {
    let is_back = last < webhook.row.position;
    let from = if is_back { last - 1 } else { position(app, webhook) };
    if last < from {
        // Somebody else at this server has looked further meanwhile.
        return Ok(Some(0));
    }
    let is_new = |entry: &&Entry| entry.id() > from;
    let is_shared = app.store.is_shared();
    let found: Vec<Arc<Event>> =
        entries.iter().filter(is_new).filter_map(|entry| heard(webhook, entry, now, is_shared)).collect();
    let row = &mut webhook.row;
    let (taken, is_told) = room(row.waiting, row.missed, found.len() as u64);
    let left = (if is_told { 0 } else { row.missed }) + found.len() as u64 - taken;
    if found.is_empty() && !is_told && !must_write(app, row, last, now) {
        return Ok(Some(0));
    }
    let mut deliveries = Vec::with_capacity(found.len() + 1);
    let told = is_told.then(|| missed(from, Time(now), SLOW_RECEIVER, Some(row.missed)));
    for event in told.iter().chain(found.iter().take(taken as usize)) {
        deliveries.push(new_delivery(app, event, now));
    }
    let (new, more_missed) = (deliveries.len(), found.len() as u64 - taken);
    let moved =
        WebhookMove { webhook: row.id, revision: row.revision, from: row.position, to: last, deliveries, missed: left };
    if !app.store.move_webhook(moved).await? {
        // Another server was faster, or somebody has changed it: the next look knows.
        app.webhooks.signals.changed();
        return Ok(None);
    }
    if new > 0 {
        crash::point("webhook.moved");
    }
    app.metrics.webhook_missed.inc_by(more_missed);
    (row.position, row.missed) = (last, left);
    row.waiting += new as u64;
    app.webhooks.with_seen(|seen| seen.remove(&row.id));
    Ok(Some(new))
}

/// The delivery of an event that is due now.
pub(crate) fn new_delivery(app: &App, event: &Event, now: Millis) -> NewDelivery {
    message::delivery(event, now, app.entropy.bits(), app.secrets.installation())
}

/// Whether the store is to know how far a webhook is, although there was nothing for it.
fn must_write(app: &App, row: &Webhook, to: i64, now: Millis) -> bool {
    if to == row.position {
        app.webhooks.with_seen(|seen| seen.remove(&row.id));
        return false;
    }
    let since = app.webhooks.with_seen(|all| {
        let seen = all.entry(row.id).or_insert(Seen { revision: row.revision, position: to, behind_since: now });
        (seen.revision, seen.position) = (row.revision, to);
        seen.behind_since
    });
    if now - since < BEHIND_MS {
        app.webhooks.signals.wait_until(since + BEHIND_MS, now);
        return false;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_store::EventBatch;

    fn batch(first: i64, last: i64) -> EventBatch {
        let line = "{\"kind\":\"run.ended\",\"at\":\"2023-11-14T22:13:20Z\"}\n";
        EventBatch { first, last, body: line.repeat((last - first + 1) as usize).into() }
    }

    #[test]
    fn what_is_missing_in_a_page_is_noticed() {
        let of = |batches: &[(i64, i64)], page_last, from, is_all| {
            let batches = batches.iter().map(|(first, last)| batch(*first, *last)).collect();
            let (entries, last) = entries(&EventPage { batches, last: page_last }, from, is_all);
            let shown = entries.iter().map(|entry| match entry {
                Entry::Event(event) => event.id,
                Entry::Gap { id, .. } => -id,
            });
            (shown.collect::<Vec<_>>(), last)
        };
        assert_eq!(of(&[(1, 2), (3, 3)], 3, 0, true), (vec![1, 2, 3], 3));
        assert_eq!(of(&[(1, 3)], 3, 2, true), (vec![3], 3));
        assert_eq!(of(&[], 3, 3, true), (vec![], 3));
        assert_eq!(of(&[(5, 6)], 6, 2, true), (vec![-4, 5, 6], 6), "the oldest were forgotten");
        assert_eq!(of(&[(1, 1), (4, 4)], 4, 0, true), (vec![1, -3, 4], 4), "a crash of the database");
        assert_eq!(of(&[], 9, 3, true), (vec![-9], 9), "all were forgotten");
        assert_eq!(of(&[], 2, 7, true), (vec![], 7), "another history, of which nothing is told here");
        assert_eq!(of(&[(1, 5)], 3, 0, true), (vec![1, 2, 3, 4, 5], 5), "more were written since");
        assert_eq!(of(&[(1, 5)], 9, 0, false), (vec![1, 2, 3, 4, 5], 5), "the rest is read next");
    }
}
