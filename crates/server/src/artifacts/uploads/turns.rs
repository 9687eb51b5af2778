//! One at a time for each upload, and the one who came last goes on.
//!
//! A client whose connection was cut comes back before the server has noticed the cut, so whoever holds the turn is asked to
//! stop when somebody else wants it: it keeps what it has and makes way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, watch};
use uuid::Uuid;

/// Who writes to which upload, in this process.
#[derive(Debug, Default)]
pub(super) struct Turns(Arc<Mutex<HashMap<Uuid, Arc<Line>>>>);

#[derive(Debug)]
struct Line {
    holder: Arc<AsyncMutex<()>>,
    /// How many have come.
    tickets: watch::Sender<u64>,
}

impl Turns {
    /// Waits for the turn.
    pub async fn take(&self, upload: Uuid) -> Turn {
        let line = {
            let mut lines = self.0.lock().expect("nobody panics while holding it");
            let new = || Arc::new(Line { holder: Arc::default(), tickets: watch::Sender::new(0) });
            lines.entry(upload).or_insert_with(new).clone()
        };
        let mut ticket = 0;
        line.tickets.send_modify(|tickets| {
            *tickets += 1;
            ticket = *tickets;
        });
        // Made before the wait, so that a caller who gives up waiting leaves no line behind.
        let mut turn = Turn { upload, line, ticket, lines: self.0.clone(), held: None };
        turn.held = Some(turn.line.holder.clone().lock_owned().await);
        turn
    }
}

/// The right to write to an upload until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    upload: Uuid,
    line: Arc<Line>,
    ticket: u64,
    lines: Arc<Mutex<HashMap<Uuid, Arc<Line>>>>,
    held: Option<OwnedMutexGuard<()>>,
}

impl Turn {
    /// Ends when somebody who came later wants the turn.
    pub fn wanted(&self) -> impl Future<Output = ()> + Send + 'static {
        let (mut tickets, ticket) = (self.line.tickets.subscribe(), self.ticket);
        async move {
            if tickets.wait_for(|tickets| *tickets > ticket).await.is_err() {
                // Nobody can come any more.
                std::future::pending::<()>().await;
            }
        }
    }

    /// True when somebody who came later wants the turn.
    pub fn is_wanted(&self) -> bool {
        *self.line.tickets.borrow() > self.ticket
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.held = None;
        let mut lines = self.lines.lock().expect("nobody panics while holding it");
        // The map's and ours: nobody waits, and nobody can come while the map is locked.
        if Arc::strong_count(&self.line) == 2 {
            lines.remove(&self.upload);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_holder_is_told_when_somebody_waits_and_lines_are_forgotten() {
        let turns = Turns::default();
        let first = turns.take(Uuid::nil()).await;
        assert!(!first.is_wanted());
        let mut second = Box::pin(turns.take(Uuid::nil()));
        assert!(futures_util::poll!(&mut second).is_pending());
        first.wanted().await;
        assert!(first.is_wanted());
        drop(first);
        let second = second.await;
        assert!(!second.is_wanted());
        let mut gave_up = Box::pin(turns.take(Uuid::nil()));
        assert!(futures_util::poll!(&mut gave_up).is_pending());
        drop(gave_up);
        drop(second);
        assert!(turns.0.lock().unwrap().is_empty());
    }
}
