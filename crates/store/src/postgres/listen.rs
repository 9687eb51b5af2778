//! Hints between servers: NOTIFY through the pool, LISTEN on a connection of its own.
//!
//! A hint names lanes and, after a colon, the lowest place that has become claimable there, so that the other
//! server's cursor knows how far to go back. A word that begins with `w` names a worker there is news for,
//! one that begins with `r` a run; `n` says that namespaces were changed, `s`
//! that there is a new generation of the installation's secret, `e` that somebody listens for other events than before,
//! `b` that there is a bulk operation to be looked at.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use baton_core::pools::{ClaimNo, RunnerId};
use baton_core::{Millis, RunId, WorkerId};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio_postgres::AsyncMessage;

use super::connect::Target;
use super::cursor::{Cursor, START};
use super::home::Home;
use super::params::params;
use super::pool::{CONNECT_TIMEOUT, Outcome};
use super::{PostgresStore, sql};
use crate::{Hints, LaneId};

/// PostgreSQL takes less than 8,000 bytes.
const PAYLOAD_BYTES_MAX: usize = 7_900;
/// Hints that wait to be read; more are replaced by "some were missed".
const HINTS_MAX: usize = 1_024;
const RECONNECT_FIRST: Duration = Duration::from_millis(100);
const RECONNECT_LONGEST: Duration = Duration::from_secs(5);

impl PostgresStore {
    pub(super) async fn tell_servers(&self, hints: &Hints) -> Outcome<()> {
        let lanes = hints.lanes.iter().map(|lane| Word::Lane(*lane, self.cursor.take_untold(*lane)));
        let workers = hints.workers.iter().map(|worker| Word::Worker(*worker));
        let runs = hints.runs.iter().map(|run| Word::Run(*run));
        let runners = hints.runners.iter().map(|runner| Word::Runner(*runner));
        let claims = hints.claims.iter().map(|claim| Word::Claim(*claim));
        let changed = [
            hints.namespaces.then_some(Word::Namespaces),
            hints.secrets.then_some(Word::Secrets),
            hints.events.then_some(Word::Events),
            hints.bulk.then_some(Word::Bulk),
        ];
        let changed = changed.into_iter().flatten();
        for payload in payloads(lanes.chain(workers).chain(runs).chain(runners).chain(claims).chain(changed)) {
            self.database.query(sql::NOTIFY_SERVERS, params![payload]).await?;
        }
        Ok(())
    }
}

/// One word of a hint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Word {
    Lane(LaneId, Option<Millis>),
    Worker(WorkerId),
    Run(RunId),
    Runner(RunnerId),
    Claim(ClaimNo),
    Namespaces,
    Secrets,
    Events,
    Bulk,
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Word::Lane(lane, Some(place)) => write!(f, "{lane}:{place}"),
            Word::Lane(lane, None) => write!(f, "{lane}"),
            Word::Worker(worker) => write!(f, "w{worker}"),
            Word::Run(run) => write!(f, "r{run}"),
            Word::Runner(runner) => write!(f, "m{runner}"),
            Word::Claim(claim) => write!(f, "c{claim}"),
            Word::Namespaces => f.write_str("n"),
            Word::Secrets => f.write_str("s"),
            Word::Events => f.write_str("e"),
            Word::Bulk => f.write_str("b"),
        }
    }
}

impl Word {
    fn read(word: &str) -> Option<Word> {
        if let Some(worker) = word.strip_prefix('w') {
            return Some(Word::Worker(worker.parse().ok()?));
        }
        if let Some(run) = word.strip_prefix('r') {
            return Some(Word::Run(run.parse().ok()?));
        }
        if let Some(runner) = word.strip_prefix('m') {
            return Some(Word::Runner(runner.parse().ok()?));
        }
        if let Some(claim) = word.strip_prefix('c') {
            return Some(Word::Claim(claim.parse().ok()?));
        }
        if word == "n" {
            return Some(Word::Namespaces);
        }
        if word == "s" {
            return Some(Word::Secrets);
        }
        if word == "e" {
            return Some(Word::Events);
        }
        if word == "b" {
            return Some(Word::Bulk);
        }
        match word.split_once(':') {
            Some((lane, place)) => Some(Word::Lane(lane.parse().ok()?, Some(place.parse().ok()?))),
            None => Some(Word::Lane(word.parse().ok()?, None)),
        }
    }
}

fn payloads(words: impl Iterator<Item = Word>) -> Vec<String> {
    let mut payloads: Vec<String> = Vec::new();
    for word in words {
        let word = word.to_string();
        match payloads.last_mut() {
            Some(last) if last.len() + 1 + word.len() <= PAYLOAD_BYTES_MAX => {
                last.push(',');
                last.push_str(&word);
            }
            Some(_) | None => payloads.push(word),
        }
    }
    payloads
}

/// Reads a hint; what cannot be read is a newer version's, and means "look at all".
fn parse(payload: &str) -> Option<Vec<Word>> {
    payload.split(',').map(Word::read).collect()
}

/// The listening end.
pub(super) struct Listener {
    target: Arc<Target>,
    cursor: Arc<Cursor>,
    home: Arc<Home>,
    ear: Mutex<Option<Ear>>,
}

struct Ear {
    hints: mpsc::Receiver<Hints>,
    task: JoinHandle<()>,
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listener {
    pub(super) fn new(target: Target, cursor: Arc<Cursor>, home: Arc<Home>) -> Listener {
        Listener { target: Arc::new(target), cursor, home, ear: Mutex::new(None) }
    }

    /// The next hint. The connection is made when somebody first asks.
    pub(super) async fn next(&self) -> Hints {
        let mut ear = self.ear.lock().await;
        let ear = ear.get_or_insert_with(|| {
            let (sender, hints) = mpsc::channel(HINTS_MAX);
            let (cursor, home) = (Arc::clone(&self.cursor), Arc::clone(&self.home));
            let task = tokio::spawn(keep_listening(Arc::clone(&self.target), cursor, home, sender));
            Ear { hints, task }
        });
        match ear.hints.recv().await {
            Some(hints) => hints,
            // The task only ends with the runtime.
            None => std::future::pending().await,
        }
    }

    pub(super) async fn close(&self) {
        // Somebody who waits for a hint holds the lock; then the task ends with the store.
        if let Ok(mut ear) = self.ear.try_lock() {
            *ear = None;
        }
    }
}

async fn keep_listening(target: Arc<Target>, cursor: Arc<Cursor>, home: Arc<Home>, sender: mpsc::Sender<Hints>) {
    let mut pause = RECONNECT_FIRST;
    while !sender.is_closed() {
        match listen_once(&target, &cursor, &home, &sender).await {
            Ok(()) => pause = RECONNECT_FIRST,
            Err(error) => tracing::warn!(%error, "cannot listen for other servers; trying again"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RECONNECT_LONGEST);
    }
}

/// Listens until the connection ends. Fails when it could not be made.
async fn listen_once(
    target: &Target,
    cursor: &Cursor,
    home: &Home,
    sender: &mpsc::Sender<Hints>,
) -> Result<(), String> {
    let (client, mut connection) = target.connect().await.map_err(|error| error.to_string())?;
    let (told, mut notices) = mpsc::channel(HINTS_MAX);
    let reader = tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notice) = message
                && told.send(notice.payload().to_owned()).await.is_err()
            {
                break;
            }
        }
    });
    let _reader = AbortOnDrop(reader);
    let listen = async {
        home.check(&client).await?;
        client.batch_execute("listen baton").await.map_err(|error| error.to_string())
    };
    match tokio::time::timeout(CONNECT_TIMEOUT, listen).await {
        Ok(listening) => listening?,
        Err(_) => return Ok(()),
    }
    // Whatever was said before this connection stood has been missed.
    let mut missed = true;
    loop {
        if missed && sender.try_send(Hints::default()).is_ok() {
            missed = false;
        }
        let Some(payload) = notices.recv().await else { return Ok(()) };
        match parse(&payload) {
            Some(words) => {
                let mut hints = Hints::default();
                for word in words {
                    match word {
                        Word::Lane(lane, place) => {
                            cursor.lower_all(lane, place.unwrap_or(START));
                            hints.lanes.push(lane);
                        }
                        Word::Worker(worker) => hints.workers.push(worker),
                        Word::Run(run) => hints.runs.push(run),
                        Word::Runner(runner) => hints.runners.push(runner),
                        Word::Claim(claim) => hints.claims.push(claim),
                        Word::Namespaces => hints.namespaces = true,
                        Word::Secrets => hints.secrets = true,
                        Word::Events => hints.events = true,
                        Word::Bulk => hints.bulk = true,
                    }
                }
                missed |= sender.try_send(hints).is_err();
            }
            None => missed = true,
        }
    }
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_read_as_they_were_written() {
        let (worker, run, runner) = (WorkerId::from_random(7), RunId::new(1, 2, 3), RunnerId::from_random(9));
        let words = vec![
            Word::Lane(1, None),
            Word::Lane(2, Some(1_700_000_000_000)),
            Word::Worker(worker),
            Word::Run(run),
            Word::Lane(3, Some(0)),
            Word::Runner(runner),
            Word::Claim(12),
            Word::Namespaces,
            Word::Secrets,
            Word::Events,
            Word::Bulk,
        ];
        let written = payloads(words.iter().copied());
        assert_eq!(written, [format!("1,2:1700000000000,w{worker},r{run},3:0,m{runner},c12,n,s,e,b")]);
        assert_eq!(parse(&written[0]), Some(words));
    }

    #[test]
    fn a_hint_that_cannot_be_read_is_not_half_read() {
        assert_eq!(parse("1,what:ever"), None);
        assert_eq!(parse("1,else"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn many_lanes_are_told_in_several_hints() {
        let parts = payloads((0..5_000).map(|lane| Word::Lane(lane, Some(1_700_000_000_000))));
        assert!(parts.len() > 1 && parts.iter().all(|part| part.len() <= PAYLOAD_BYTES_MAX));
        assert_eq!(parts.iter().filter_map(|part| parse(part)).flatten().count(), 5_000);
    }
}
