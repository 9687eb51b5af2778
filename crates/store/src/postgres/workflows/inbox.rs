//! Messages for workflows.

use std::collections::{BTreeSet, HashMap};

use baton_core::{Millis, RunId};
use bytes::Bytes;
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::PostgresStore;
use super::super::end::{Records, Writes};
use super::super::params::params;
use super::super::pool::{Outcome, Session};
use super::super::rows::{clean, corrupt, run_id, state};
use super::super::sql;
use crate::decide::Act;
use crate::memory::{NO_LEASE, next_number};
use crate::{
    LeaseRef, MESSAGE_BYTES_AT_ONCE, MESSAGES_AT_ONCE, Message, MessageAnswer, MessageKind, NewMessage, Woken,
};

impl PostgresStore {
    pub(super) async fn write_messages(&self, messages: &[NewMessage]) -> Outcome<(Vec<MessageAnswer>, Woken)> {
        if messages.is_empty() {
            return Ok(Default::default());
        }
        let leases: Vec<LeaseRef> = messages.iter().map(|one| LeaseRef { run: one.run, epoch: NO_LEASE }).collect();
        let session = self.database.transaction().await?;
        let mut records = Records::read(&session, sql::HOLD_RUNS, self.database.fixed_now(), &leases).await?;
        let wanted = messages.iter().map(|one| (one.run, one.key.as_deref()));
        let mut inboxes = Inboxes::read(&session, wanted).await?;
        let gone = messages.iter().map(|one| one.run).filter(|run| !records.live.contains_key(run));
        let gone = find_continued(&session, gone).await?;
        let mut writes = Writes::default();
        let mut answers = Vec::with_capacity(messages.len());
        for message in messages {
            let key = message.key.as_deref().map(clean);
            if let Some(number) = key.as_ref().and_then(|key| inboxes.with_key(message.run, key)) {
                answers.push(MessageAnswer::Left(number));
                continue;
            }
            if !records.live.contains_key(&message.run) {
                answers.push(match gone.get(&message.run) {
                    Some(Some(next)) => MessageAnswer::Continued(*next),
                    Some(None) => MessageAnswer::Ended,
                    None => MessageAnswer::Unknown,
                });
                continue;
            }
            let letter =
                Letter { kind: message.kind, name: clean(&message.name), key, payload: message.payload.clone() };
            answers.push(match inboxes.put(message.run, letter) {
                Some(number) => {
                    wake(&mut writes, &mut records, message.run);
                    MessageAnswer::Left(number)
                }
                None => MessageAnswer::Full,
            });
        }
        inboxes.write(&session, records.now).await?;
        let woken = self.write(&session, writes, records.now).await?;
        Ok((answers, woken))
    }

    pub(super) async fn list_messages(&self, run: RunId, seen: i64) -> Outcome<Vec<Message>> {
        let session = self.database.direct().await?;
        Ok(list_news(&session, &[(run, seen)]).await?.remove(&run).unwrap_or_default())
    }
}

/// Wakes a run that has got a message. Whoever is awake reads it, and who is held learns of it from the server.
pub(super) fn wake(writes: &mut Writes, records: &mut Records, run: RunId) {
    writes.act(records, LeaseRef { run, epoch: NO_LEASE }, &Act::Wake, 0.0);
}

/// Which of these runs have ended, and which run goes on in their place.
pub(super) async fn find_continued(
    session: &Session<'_>,
    runs: impl Iterator<Item = RunId>,
) -> Outcome<HashMap<RunId, Option<RunId>>> {
    let runs: BTreeSet<Uuid> = runs.map(|run| run.0).collect();
    let runs: Vec<Uuid> = runs.into_iter().collect();
    let mut found = HashMap::new();
    if !runs.is_empty() {
        for row in session.query(sql::FIND_CONTINUED, params![runs]).await? {
            found.insert(run_id(&row, "run_id")?, row.try_get::<_, Option<Uuid>>("next")?.map(RunId));
        }
    }
    Ok(found)
}

/// Messages beyond those seen, of each run.
pub(super) async fn list_news(session: &Session<'_>, seen: &[(RunId, i64)]) -> Outcome<HashMap<RunId, Vec<Message>>> {
    let (runs, seen): (Vec<Uuid>, Vec<i64>) = seen.iter().map(|(run, seen)| (run.0, *seen)).unzip();
    let mut news: HashMap<RunId, Vec<Message>> = HashMap::new();
    let (most, bytes) = (MESSAGES_AT_ONCE as i64, MESSAGE_BYTES_AT_ONCE as i64);
    for row in session.query(sql::LIST_NEWS, params![runs, seen, most, bytes]).await? {
        news.entry(run_id(&row, "run_id")?).or_default().push(message(&row)?);
    }
    Ok(news)
}

fn message(row: &Row) -> Outcome<Message> {
    Ok(Message {
        number: row.try_get("number")?,
        kind: MessageKind::from_code(row.try_get("kind")?).ok_or_else(|| corrupt("a kind of message"))?,
        name: row.try_get("name")?,
        payload: row.try_get::<_, Option<Vec<u8>>>("payload")?.map(Bytes::from),
        state: row.try_get::<_, Option<i16>>("state")?.map(state).transpose()?,
        error: row.try_get("error")?,
        position: row.try_get::<_, Option<i32>>("position")?.map(|position| position as u32),
        at: row.try_get("at")?,
    })
}

/// What is to be left in an inbox.
pub(super) struct Letter {
    pub kind: MessageKind,
    pub name: String,
    pub key: Option<String>,
    pub payload: Option<Bytes>,
}

impl Letter {
    /// The request to cancel.
    pub(super) fn cancel() -> Letter {
        Letter { kind: MessageKind::Cancel, name: String::new(), key: None, payload: None }
    }
}

/// Inboxes of some runs, and what is to be left in them.
#[derive(Default)]
pub(super) struct Inboxes {
    last: HashMap<RunId, i64>,
    keys: HashMap<(RunId, String), i64>,
    cancels: HashMap<RunId, i64>,
    letters: Vec<(RunId, i64, Letter)>,
}

impl Inboxes {
    /// Reads what has to be known to leave messages with these keys.
    pub(super) async fn read<'a>(
        session: &Session<'_>,
        wanted: impl Iterator<Item = (RunId, Option<&'a str>)>,
    ) -> Outcome<Inboxes> {
        let (runs, keys): (Vec<Uuid>, Vec<Option<String>>) = wanted.map(|(run, key)| (run.0, key.map(clean))).unzip();
        let mut inboxes = Inboxes::default();
        if runs.is_empty() {
            return Ok(inboxes);
        }
        for row in session.query(sql::FIND_INBOXES, params![runs, keys]).await? {
            let run = run_id(&row, "run_id")?;
            inboxes.last.insert(run, row.try_get::<_, Option<i64>>("last")?.unwrap_or(0));
            if let (Some(key), Some(number)) = (row.try_get("key")?, row.try_get("with_key")?) {
                inboxes.keys.insert((run, key), number);
            }
            if let Some(number) = row.try_get("cancel")? {
                inboxes.cancels.insert(run, number);
            }
        }
        Ok(inboxes)
    }

    fn with_key(&self, run: RunId, key: &str) -> Option<i64> {
        self.keys.get(&(run, key.to_owned())).copied()
    }

    /// Takes the next number of a run's inbox; nothing when it is full.
    pub(super) fn number(&mut self, run: RunId, may_be_refused: bool) -> Option<i64> {
        let last = self.last.entry(run).or_default();
        *last = next_number(*last, may_be_refused)?;
        Some(*last)
    }

    /// Leaves a message. Returns its number, or that of the request to cancel which is there already; nothing when the inbox is full.
    pub(super) fn put(&mut self, run: RunId, letter: Letter) -> Option<i64> {
        if let (MessageKind::Cancel, Some(number)) = (letter.kind, self.cancels.get(&run)) {
            return Some(*number);
        }
        let number = self.number(run, letter.kind == MessageKind::Signal)?;
        if letter.kind == MessageKind::Cancel {
            self.cancels.insert(run, number);
        }
        if let Some(key) = &letter.key {
            self.keys.insert((run, key.clone()), number);
        }
        self.letters.push((run, number, letter));
        Some(number)
    }

    pub(super) async fn write(&self, session: &Session<'_>, now: Millis) -> Outcome<()> {
        if self.letters.is_empty() {
            return Ok(());
        }
        let runs: Vec<Uuid> = self.letters.iter().map(|(run, ..)| run.0).collect();
        let numbers: Vec<i64> = self.letters.iter().map(|(_, number, _)| *number).collect();
        let kinds: Vec<i16> = self.letters.iter().map(|(.., letter)| letter.kind.code()).collect();
        let names: Vec<&str> = self.letters.iter().map(|(.., letter)| letter.name.as_str()).collect();
        let keys: Vec<Option<&str>> = self.letters.iter().map(|(.., letter)| letter.key.as_deref()).collect();
        let payloads: Vec<Option<&[u8]>> = self.letters.iter().map(|(.., letter)| letter.payload.as_deref()).collect();
        session.query(sql::ADD_MESSAGES, params![now, runs, numbers, kinds, names, keys, payloads]).await?;
        Ok(())
    }
}
