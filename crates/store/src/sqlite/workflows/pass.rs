//! What passes do: pass on the ends of relatives, and end runs whose time is over.

use baton_core::{Millis, RunId, State};
use bytes::Bytes;
use rusqlite::params;

use super::super::connection::Sql;
use super::super::end::Batch;
use super::super::{rows, statements};
use super::inbox::{self, Inbox, Letter};
use crate::decide::Act;
use crate::memory::NO_LEASE;
use crate::{Delivered, LeaseRef, MessageKind, StoreResult};

pub(super) fn set_deadline(sql: &Sql<'_>, run: RunId, after_ms: Millis, cancels: bool) -> StoreResult<()> {
    let at = sql.now.saturating_add(after_ms.max(0));
    sql.execute(statements::SET_DEADLINE, params![run.0.as_bytes(), at, cancels])?;
    Ok(())
}

pub(super) fn overdue(sql: &Sql<'_>, limit: usize) -> StoreResult<Vec<(RunId, bool)>> {
    let parameters = params![sql.now, limit as i64];
    sql.rows(statements::LIST_DEADLINES, parameters, |row| Ok((rows::run_id(row, 0)?, row.get(1)?)))
}

pub(super) fn end_overdue(sql: &Sql<'_>, limit: usize) -> StoreResult<Delivered> {
    let mut batch = Batch::new(sql, 0.0);
    let mut delivered = Delivered::default();
    let due = overdue(sql, limit)?;
    delivered.more = due.len() >= limit;
    for (run, cancels) in due {
        sql.execute(statements::DELETE_DEADLINE, params![run.0.as_bytes()])?;
        // One that has ended by itself needs no deadline any more.
        let Some(row) = rows::live(sql, run)? else { continue };
        let lease = LeaseRef { run, epoch: row.rules.epoch };
        if batch.carry_out(&row, &Act::TimeOut { cancels }, lease)?.is_ok() {
            delivered.ended.push(run);
        }
    }
    delivered.woken = batch.finish()?;
    Ok(delivered)
}

/// A run that has ended, and who is to hear of it.
pub(super) struct End {
    run: RunId,
    parent: Option<RunId>,
    position: Option<u32>,
    has_children: bool,
    state: State,
    error: Option<String>,
    output: Option<Bytes>,
}

pub(super) fn outbox(sql: &Sql<'_>, limit: usize) -> StoreResult<Vec<End>> {
    sql.rows(statements::LIST_OUTBOX, params![limit as i64], |row| {
        Ok(End {
            run: rows::run_id(row, 0)?,
            parent: rows::maybe(row, 1, rows::run_id)?,
            position: row.get(2)?,
            has_children: row.get(3)?,
            state: rows::state(row, 4)?,
            error: row.get(5)?,
            output: rows::maybe(row, 6, rows::bytes)?,
        })
    })
}

pub(super) fn deliver(sql: &Sql<'_>, grace_ms: Millis, limit: usize) -> StoreResult<Delivered> {
    let mut batch = Batch::new(sql, 0.0);
    let mut delivered = Delivered::default();
    let ends = outbox(sql, limit)?;
    delivered.more = ends.len() >= limit;
    let mut room = limit;
    for end in ends {
        let parent = tell_parent(sql, &mut batch, &end, &mut delivered)?;
        let has_children =
            end.has_children && cancel_children(sql, &mut batch, &end, grace_ms, &mut room, &mut delivered)?;
        let id = end.run.0.as_bytes();
        match parent.is_some() || has_children {
            true => {
                delivered.more = true;
                let parent = parent.map(|parent| *parent.0.as_bytes());
                sql.execute(statements::UPDATE_OUTBOX, params![id, parent, has_children])?
            }
            false => sql.execute(statements::DELETE_OUTBOX, params![id])?,
        };
    }
    delivered.woken = batch.finish()?;
    // Children that were cancelled may have children of their own.
    delivered.more |= delivered.woken.relatives;
    Ok(delivered)
}

/// Tells the parent, if it has not ended. Returns the run that goes on in its place and still has to hear of it.
fn tell_parent(
    sql: &Sql<'_>,
    batch: &mut Batch<'_, '_>,
    end: &End,
    delivered: &mut Delivered,
) -> StoreResult<Option<RunId>> {
    let Some(parent) = end.parent else { return Ok(None) };
    let Some(row) = rows::live(sql, parent)? else { return inbox::continued(sql, parent) };
    let name = end.run.to_string();
    let letter = Letter {
        kind: MessageKind::Child,
        name: &name,
        key: None,
        payload: end.output.clone(),
        state: Some(end.state),
        error: end.error.as_deref(),
        position: end.position,
    };
    inbox::put(sql, batch, &row, &Inbox::read(sql, parent, None)?, &letter)?;
    delivered.messaged.push(parent);
    Ok(None)
}

/// Cancels the children that are left, as far as there is room. True when there may be more of them.
fn cancel_children(
    sql: &Sql<'_>,
    batch: &mut Batch<'_, '_>,
    end: &End,
    grace_ms: Millis,
    room: &mut usize,
    delivered: &mut Delivered,
) -> StoreResult<bool> {
    let parameters = params![end.run.0.as_bytes(), *room as i64];
    let children = sql.rows(statements::LIST_CHILDREN, parameters, |row| rows::run_id(row, 0))?;
    *room -= children.len();
    for child in children {
        let Some(row) = rows::live(sql, child)? else { continue };
        // Its parent is not there to hear of its end.
        sql.execute(statements::FORGET_RELATIVES, params![child.0.as_bytes(), true])?;
        delivered.orphaned.push(child);
        if row.rules.epoch == NO_LEASE {
            let _ = batch.carry_out(&row, &Act::Cancel { grace_ms }, LeaseRef { run: child, epoch: NO_LEASE })?;
            continue;
        }
        // Whoever has begun may clean up: it is told, and ended when its time is over.
        let letter = Letter {
            kind: MessageKind::Cancel,
            name: "",
            key: None,
            payload: None,
            state: None,
            error: None,
            position: None,
        };
        inbox::put(sql, batch, &row, &Inbox::read(sql, child, None)?, &letter)?;
        set_deadline(sql, child, grace_ms, true)?;
        delivered.messaged.push(child);
    }
    Ok(*room == 0)
}
