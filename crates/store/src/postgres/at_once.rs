//! A claim for one waiting worker in one round trip: the usual case of a worker that waits and a run that comes.

use std::collections::HashSet;

use baton_core::Millis;
use baton_core::order::LEVELS;
use futures_util::future::join;
use uuid::Uuid;

use super::PostgresStore;
use super::deal::{Deal, Place, raise};
use super::params::params;
use super::pool::Outcome;
use super::{rows, sql};
use crate::{CLAIM_BYTES_MAX, ClaimAnswer};

/// Most runs that are claimed in this way: the statement's plan is made for few.
const ROOM_MAX: usize = 64;

impl PostgresStore {
    /// Claims at once, or returns `None` when something asks for more than that; then nothing has changed.
    pub(super) async fn claim_at_once(&self, deal: &Deal<'_>) -> Outcome<Option<ClaimAnswer>> {
        let [slot] = deal.request.slots.as_slice() else { return Ok(None) };
        let room = deal.limit.min(slot.room as usize);
        if room == 0 || room > ROOM_MAX {
            return Ok(None);
        }
        let session = self.database.transaction_often(room).await?;
        let reading = self.cursor.read(&deal.lanes);
        let (now, queue, lanes) = (self.database.fixed_now(), deal.request.queue, deal.lanes.clone());
        let from = self.cursor.starts(&lanes);
        let (levels, most, bytes) = (i32::from(LEVELS), room as i32, CLAIM_BYTES_MAX as i64);
        let (worker, claim_no, start, lease_ms) = (slot.worker.0, slot.claim_no, slot.start, slot.lease_ms);
        let (is_unnumbered, mark) = (slot.claim_no == 0 && slot.asked_ms_ago.is_some(), deal.request.mark());
        let params = params![
            now,
            queue,
            lanes,
            worker,
            most,
            from,
            levels,
            claim_no,
            start,
            lease_ms,
            bytes,
            is_unnumbered,
            mark
        ];
        let claim = session.query_often(sql::CLAIM_AT_ONCE, params, room);
        let (found, committed) = join(claim, session.commit()).await;
        let found = found?;
        committed?;
        let Some(first) = found.first() else { return Ok(None) };
        let now: Millis = first.try_get("now")?;
        let next_due_at: Option<Millis> = first.try_get("next_due_at")?;
        let mut claimed = Vec::with_capacity(found.len());
        let (mut head, mut gone, mut contended, mut size) = (Vec::new(), HashSet::new(), false, 0);
        for row in &found {
            let Some(run) = row.try_get::<_, Option<Uuid>>("run_id")? else { break };
            head.push(Place {
                lane: row.try_get("lane_id")?,
                level: row.try_get("level")?,
                order_at: row.try_get("order_at")?,
                run,
            });
            size += row.try_get::<_, i32>("size")?.max(0) as u64;
            if row.try_get("is_ours")? {
                gone.insert(run);
                claimed.push(rows::claimed(row, 0)?);
            } else {
                contended = true;
            }
        }
        raise(&reading, &head, &gone);
        drop(reading);
        // Somebody else is at work on the head of the line: the longer way reads past it.
        if contended && claimed.is_empty() {
            return Ok(None);
        }
        Ok(Some(ClaimAnswer {
            more: contended && claimed.len() < room
                || head.len() == room && room < slot.room as usize
                || head.len() < room && size >= CLAIM_BYTES_MAX,
            claimed,
            again: Vec::new(),
            refused: Vec::new(),
            next_in_ms: next_due_at.map(|due_at| due_at - now),
        }))
    }
}
