//! events: tells a caller what happens, as it happens.

use std::sync::Arc;
use std::time::Duration;

use baton_core::Millis;
use baton_proto::{Event, Time};
use baton_store::{EventPage, Scope};
use futures_util::FutureExt;
use tokio::time::{Instant, MissedTickBehavior};

use crate::auth::Caller;
use crate::events::{EventFilter, LISTENERS_MAX, LISTENERS_PER_KEY_MAX, Listener, forgotten, is_start, read_batch};
use crate::{App, Error};

/// A sign of life is sent when nothing else was for so long.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often it is looked at whether the caller's key is still good.
const CHECK_KEY: Duration = Duration::from_secs(5);
/// Batches in one read of what was missed while nobody listened. Few: each is a moment's work of all servers.
const REPLAY_BATCHES_MAX: usize = 4;
/// When somebody whom a crowd keeps out is to come back.
const CROWDED_RETRY_MS: u64 = 5_000;

/// How somebody wants to listen.
#[derive(Debug, Default)]
pub struct Listen {
    /// What for.
    pub filter: EventFilter,
    /// After the event with this id; from now on if not given.
    pub after: Option<i64>,
    /// For so long; until the caller has enough if not given.
    pub wait_ms: Option<u64>,
    /// The caller's key, which is looked at now and then.
    pub credential: Option<String>,
}

/// What a listener hears next.
#[derive(Debug)]
pub struct Heard {
    /// The events, oldest first. None are a sign of life.
    pub events: Vec<Arc<Event>>,
    /// Everything up to here was heard.
    pub position: i64,
}

/// Somebody who listens. Gone when it is dropped.
#[derive(Debug)]
pub struct Listening {
    app: App,
    listener: Arc<Listener>,
    credential: Option<String>,
    /// What is still to be read of the past: after the first position, up to the second.
    replay: Option<(i64, i64)>,
    position: i64,
    until: Option<Instant>,
    check: tokio::time::Interval,
    silent_since: Instant,
}

/// Begins to listen. Whatever happens on this server after this returns is heard.
pub async fn listen(app: &App, caller: &Caller, mut listen: Listen) -> Result<Listening, Error> {
    caller.has(Scope::Read)?;
    match (&listen.filter.namespace, &caller.namespace) {
        (Some(wanted), _) => caller.may(Scope::Read, wanted)?,
        (None, own) => listen.filter.namespace = own.clone(),
    }
    if listen.after.is_some_and(|after| after < 0) {
        return Err(Error::field("after", "must be the id of an event"));
    }
    let (all, own) = app.events.listeners(&caller.key_id);
    if all >= LISTENERS_MAX || own >= LISTENERS_PER_KEY_MAX {
        return Err(Error::TooMany { retry_after_ms: CROWDED_RETRY_MS });
    }
    app.events.want(listen.filter.kinds()).await?;
    let listener = Arc::new(Listener::new(listen.filter, caller.key_id.clone(), listen.after.is_none()));
    let mut check = tokio::time::interval(CHECK_KEY);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut listening = Listening {
        app: app.clone(),
        listener,
        credential: listen.credential,
        replay: None,
        position: 0,
        until: listen.wait_ms.map(|ms| Instant::now() + Duration::from_millis(ms)),
        check,
        silent_since: Instant::now(),
    };
    let position = app.events.attach(&listening.listener, listen.after).await?;
    listening.position = listen.after.unwrap_or(position);
    listening.replay = listen.after.map(|after| (after, position));
    Ok(listening)
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.app.events.detach(&self.listener);
        let (app, kinds) = (self.app.clone(), self.listener.filter.kinds());
        tokio::spawn(async move { app.events.want_no_longer(kinds).await });
    }
}

impl Listening {
    /// Everything up to here was heard.
    pub fn position(&self) -> i64 {
        self.position
    }

    /// What is heard next, or a sign of life when that takes long. `None` when it is over: the server stops, the caller's
    /// key is no longer good, or its time is over.
    pub async fn next(&mut self) -> Option<Heard> {
        if self.is_over().await {
            return None;
        }
        let heard = match self.replay {
            Some((after, until)) => self.past(after, until).await,
            None => self.present().await,
        }?;
        self.position = heard.position;
        self.silent_since = Instant::now();
        Some(heard)
    }

    /// Reads what happened before it was attached. Only a few do so at a time: the past of all tenants is looked through.
    async fn past(&mut self, after: i64, until: i64) -> Option<Heard> {
        let turn = self.app.events.replay_turn().await;
        let page = match self.app.store.events_after(after, REPLAY_BATCHES_MAX).await {
            Ok(page) => page,
            Err(error) => {
                // It comes back, and goes on where it is.
                tracing::debug!(%error, "events of the past cannot be read now");
                return None;
            }
        };
        let (listener, at) = (self.listener.clone(), Time(self.app.store.clock().local()));
        let looking = tokio::task::spawn_blocking(move || looked_through(&listener, &page, after, until, at));
        let (heard, is_last) = looking.await.ok()?;
        drop(turn);
        self.replay = (!is_last).then_some((heard.position, until));
        Some(heard)
    }

    async fn present(&mut self) -> Option<Heard> {
        loop {
            let heartbeat = self.silent_since + HEARTBEAT;
            let until = self.until;
            let over = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.app.stopping.cancelled() => return None,
                () = self.listener.news() => return Some(self.take()),
                () = tokio::time::sleep_until(heartbeat) => return Some(self.take()),
                () = over => return None,
                _ = self.check.tick() => {
                    if !self.is_welcome().await {
                        return None;
                    }
                }
            }
        }
    }

    fn take(&self) -> Heard {
        let at: Millis = self.app.store.clock().local();
        let (events, position) = self.listener.take(Time(at));
        Heard { events, position }
    }

    /// True when the server stops, or the caller's key is no longer good. That is looked at now and then.
    async fn is_over(&mut self) -> bool {
        self.app.stopping.is_cancelled() || (self.check.tick().now_or_never().is_some() && !self.is_welcome().await)
    }

    /// True unless the caller's key is known to be no longer good.
    async fn is_welcome(&self) -> bool {
        !matches!(self.app.keys.is_still_good(self.credential.as_deref()).await, Ok(false))
    }
}

/// What a listener hears of a page of the past, after a position and up to another, and whether that was all.
fn looked_through(listener: &Listener, page: &EventPage, after: i64, until: i64, at: Time) -> (Heard, bool) {
    let (mut events, mut position) = (Vec::new(), after);
    if after > page.last {
        // The id is of another installation.
        events.extend(listener.heard(&forgotten(until), at));
        position = until;
    }
    if let Some(start) = page.batches.first().filter(|batch| is_start(batch) && after >= batch.first) {
        // The id is of a time that a restore has undone.
        events.extend(listener.heard(&forgotten(start.last.min(until)), at));
        position = start.last.min(until);
    }
    for batch in page.batches.iter().take_while(|batch| batch.first <= until) {
        if batch.first > position + 1 {
            events.extend(listener.heard(&forgotten(batch.first - 1), at));
        }
        let entries = read_batch(batch, listener.filter.namespace.as_deref());
        let open = entries.iter().filter(|entry| (position + 1..=until).contains(&entry.id()));
        events.extend(open.filter_map(|entry| listener.heard(entry, at)));
        position = batch.last.min(until);
    }
    let is_last = page.batches.len() < REPLAY_BATCHES_MAX || position >= until;
    if is_last && position < until {
        events.extend(listener.heard(&forgotten(until), at));
        position = until;
    }
    (Heard { events, position }, is_last)
}

#[cfg(test)]
mod tests {
    use baton_store::EventBatch;

    use super::*;

    #[test]
    fn an_id_that_a_restore_has_undone_is_said_to_be_missed() {
        let line = |id| {
            let event = Event { id, namespace: Some("a".into()), ..Event::new("run.ended", Time(1)) };
            serde_json::to_string(&event).unwrap()
        };
        // Ten events, a start that leaves out everything up to 1,000, and one more event.
        let batches = [
            EventBatch { first: 10, last: 10, body: line(10).into() },
            EventBatch { first: 11, last: 1_000, body: "".into() },
            EventBatch { first: 1_001, last: 1_001, body: line(1_001).into() },
        ];
        let heard = |after: i64| {
            let batches = batches.iter().filter(|batch| batch.last > after).cloned().collect();
            let listener = Listener::new(EventFilter::default(), "key".into(), false);
            let page = EventPage { batches, last: 1_001 };
            let (heard, is_last) = looked_through(&listener, &page, after, 1_001, Time(2));
            assert!(is_last);
            assert_eq!(heard.position, 1_001, "after {after}");
            heard.events.iter().map(|event| (event.kind.clone(), event.id)).collect::<Vec<_>>()
        };
        let (ended, missed) = (|id| ("run.ended".to_owned(), id), |id| ("missed".to_owned(), id));
        assert_eq!(heard(9), [ended(10), ended(1_001)]);
        assert_eq!(heard(10), [ended(1_001)], "nothing was lost in a restart");
        for undone in [11, 500, 999] {
            assert_eq!(heard(undone), [missed(1_000), ended(1_001)], "after {undone}");
        }
        assert_eq!(heard(1_000), [ended(1_001)]);
        assert_eq!(heard(1_001), []);
        assert_eq!(heard(5_000), [missed(1_001)], "of another installation");
    }
}
