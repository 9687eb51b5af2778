//! Messages for workflows.

use baton_core::{RunId, State};
use bytes::Bytes;
use rusqlite::{Result, Row, params};

use super::super::connection::Sql;
use super::super::end::Batch;
use super::super::{rows, statements};
use crate::decide::{Act, LiveRow};
use crate::memory::{NO_LEASE, next_number};
use crate::{
    LeaseRef, MESSAGE_BYTES_AT_ONCE, MESSAGES_AT_ONCE, Message, MessageAnswer, MessageKind, NewMessage, StoreError,
    StoreResult, Woken,
};

pub(super) fn leave(sql: &Sql<'_>, messages: &[NewMessage]) -> StoreResult<(Vec<MessageAnswer>, Woken)> {
    let mut batch = Batch::new(sql, 0.0);
    let answers = messages.iter().map(|message| one(sql, &mut batch, message)).collect::<StoreResult<_>>()?;
    Ok((answers, batch.finish()?))
}

fn one(sql: &Sql<'_>, batch: &mut Batch<'_, '_>, message: &NewMessage) -> StoreResult<MessageAnswer> {
    let inbox = Inbox::read(sql, message.run, message.key.as_deref())?;
    if let Some(number) = inbox.with_key {
        return Ok(MessageAnswer::Left(number));
    }
    let Some(row) = rows::live(sql, message.run)? else { return not_live(sql, message.run) };
    let letter = Letter {
        kind: message.kind,
        name: &message.name,
        key: message.key.as_deref(),
        payload: message.payload.clone(),
        state: None,
        error: None,
        position: None,
    };
    Ok(put(sql, batch, &row, &inbox, &letter)?.map_or(MessageAnswer::Full, MessageAnswer::Left))
}

fn not_live(sql: &Sql<'_>, run: RunId) -> StoreResult<MessageAnswer> {
    let id = params![run.0.as_bytes()];
    if let Some(next) = continued(sql, run)? {
        return Ok(MessageAnswer::Continued(next));
    }
    let ended = sql.row(statements::READ_ENDED_STATE, id, |_| Ok(()))?;
    Ok(ended.map_or(MessageAnswer::Unknown, |()| MessageAnswer::Ended))
}

/// The run that goes on in the place of this one.
pub(super) fn continued(sql: &Sql<'_>, run: RunId) -> StoreResult<Option<RunId>> {
    sql.row(statements::READ_CONTINUED, params![run.0.as_bytes()], |row| rows::run_id(row, 0))
}

/// What is to be left in an inbox.
pub(super) struct Letter<'a> {
    pub kind: MessageKind,
    pub name: &'a str,
    pub key: Option<&'a str>,
    pub payload: Option<Bytes>,
    pub state: Option<State>,
    pub error: Option<&'a str>,
    pub position: Option<u32>,
}

/// What has to be known of an inbox to leave something in it.
pub(super) struct Inbox {
    last: i64,
    with_key: Option<i64>,
    cancel: Option<i64>,
}

impl Inbox {
    pub(super) fn read(sql: &Sql<'_>, run: RunId, key: Option<&str>) -> StoreResult<Inbox> {
        sql.one(statements::READ_INBOX, params![run.0.as_bytes(), key], |row| {
            Ok(Inbox { last: row.get::<_, Option<i64>>(0)?.unwrap_or(0), with_key: row.get(1)?, cancel: row.get(2)? })
        })
    }
}

/// Leaves a message, and wakes the run when it sleeps. Returns its number, or that of the request to cancel which is there already; nothing when
/// the inbox is full.
pub(super) fn put(
    sql: &Sql<'_>,
    batch: &mut Batch<'_, '_>,
    row: &LiveRow,
    inbox: &Inbox,
    letter: &Letter<'_>,
) -> StoreResult<Option<i64>> {
    if let (MessageKind::Cancel, Some(number)) = (letter.kind, inbox.cancel) {
        return Ok(Some(number));
    }
    let Some(number) = next_number(inbox.last, letter.kind == MessageKind::Signal) else { return Ok(None) };
    sql.execute(
        statements::INSERT_MESSAGE,
        params![
            row.run.0.as_bytes(),
            number,
            letter.kind.code(),
            sql.now,
            letter.state.map(State::code),
            letter.position,
            letter.name,
            letter.key,
            letter.error,
            letter.payload.as_deref(),
        ],
    )?;
    // Whoever is awake reads it, and who is held learns of it from the server.
    let _ = batch.carry_out(row, &Act::Wake, LeaseRef { run: row.run, epoch: NO_LEASE })?;
    Ok(Some(number))
}

pub(super) fn messages(sql: &Sql<'_>, run: RunId, seen: i64) -> StoreResult<Vec<Message>> {
    let (most, bytes) = (MESSAGES_AT_ONCE as i64, MESSAGE_BYTES_AT_ONCE as i64);
    sql.rows(statements::LIST_MESSAGES, params![run.0.as_bytes(), seen, most, bytes], message)
}

fn message(row: &Row<'_>) -> Result<Message> {
    Ok(Message {
        number: row.get(0)?,
        kind: rows::coded(row, 1, MessageKind::from_code)?,
        name: row.get(2)?,
        payload: rows::maybe(row, 3, rows::bytes)?,
        state: rows::maybe(row, 4, rows::state)?,
        error: row.get(5)?,
        position: row.get(6)?,
        at: row.get(7)?,
    })
}

/// Moves the signals that nobody has taken, and the request to cancel, to the run that goes on, whose first claim brings them.
pub(super) fn move_untaken(sql: &Sql<'_>, from: RunId, to: RunId) -> StoreResult<()> {
    let numbers: Vec<i64> = sql.rows(statements::LIST_UNTAKEN, params![from.0.as_bytes()], |row| row.get(0))?;
    if !numbers.is_empty() {
        sql.execute(statements::SET_REMEMBERS, params![to.0.as_bytes()])?;
    }
    for (index, number) in numbers.into_iter().enumerate() {
        let next = i64::try_from(index).map_err(|error| StoreError::Internal(error.to_string()))? + 1;
        sql.execute(statements::MOVE_MESSAGE, params![from.0.as_bytes(), number, to.0.as_bytes(), next])?;
    }
    Ok(())
}
