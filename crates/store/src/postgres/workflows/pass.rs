//! What passes do: pass on the ends of relatives, and end runs whose time is over. Rows are listed first, then the live rows are locked that they
//! are about, and only what is still there then is carried out: another server may have been faster.

use std::collections::{BTreeSet, HashMap, HashSet};

use baton_core::{Millis, RunId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::PostgresStore;
use super::super::end::{Records, Writes};
use super::super::params::params;
use super::super::pool::{Outcome, Session};
use super::super::rows::run_id;
use super::super::sql;
use super::inbox::{Inboxes, Letter, find_continued, wake};
use crate::decide::Act;
use crate::memory::NO_LEASE;
use crate::{Delivered, LeaseRef, Verdict};

impl PostgresStore {
    pub(super) async fn write_deadlines(&self, deadlines: &[(RunId, Millis, bool)]) -> Outcome<()> {
        let session = self.database.transaction().await?;
        self.set_deadlines_in(&session, deadlines).await?;
        session.commit().await
    }

    pub(super) async fn set_deadlines_in(
        &self,
        session: &Session<'_>,
        deadlines: &[(RunId, Millis, bool)],
    ) -> Outcome<()> {
        if deadlines.is_empty() {
            return Ok(());
        }
        let runs: Vec<Uuid> = deadlines.iter().map(|(run, ..)| run.0).collect();
        let after_ms: Vec<Millis> = deadlines.iter().map(|(_, after_ms, _)| (*after_ms).max(0)).collect();
        let cancels: Vec<bool> = deadlines.iter().map(|(.., cancels)| *cancels).collect();
        let now = self.database.fixed_now();
        session.query(sql::SET_DEADLINES, params![now, runs, after_ms, cancels]).await?;
        Ok(())
    }

    pub(super) async fn end_overdue_runs(&self, limit: usize) -> Outcome<Delivered> {
        let fixed = self.database.fixed_now();
        let mut runs = Vec::new();
        for row in self.database.query_each(sql::LIST_DEADLINES, params![fixed, limit as i64], usize::MAX).await? {
            runs.push(run_id(&row, "run_id")?);
        }
        let mut delivered = Delivered { more: runs.len() >= limit, ..Delivered::default() };
        if runs.is_empty() {
            return Ok(delivered);
        }
        let session = self.database.transaction().await?;
        let mut records = hold(self, &session, runs.iter().copied()).await?;
        let ids: Vec<Uuid> = runs.iter().map(|run| run.0).collect();
        let mut writes = Writes::default();
        for row in session.query(sql::TAKE_DEADLINES, params![fixed, ids]).await? {
            let (run, cancels) = (run_id(&row, "run_id")?, row.try_get("cancels")?);
            // One that has ended by itself needs no deadline any more.
            let Some(live) = records.live.get(&run) else { continue };
            let lease = LeaseRef { run, epoch: live.rules.epoch };
            if let Verdict::Done { .. } = writes.act(&mut records, lease, &Act::TimeOut { cancels }, 0.0) {
                delivered.ended.push(run);
            }
        }
        delivered.ended.sort();
        delivered.woken = self.write(&session, writes, records.now).await?;
        Ok(delivered)
    }

    pub(super) async fn deliver_ends(&self, grace_ms: Millis, limit: usize) -> Outcome<Delivered> {
        let listed = self.database.query_each(sql::LIST_OUTBOX, params![limit as i64], usize::MAX).await?;
        if listed.is_empty() {
            return Ok(Delivered::default());
        }
        let mut pass = Pass::of(&listed)?;
        pass.delivered.more = listed.len() >= limit;
        let session = self.database.transaction().await?;
        pass.list_children(&session, limit).await?;
        let concerned = pass.parents.iter().chain(pass.children.keys()).copied();
        let mut records = hold(self, &session, concerned).await?;
        pass.read(&session, &records).await?;
        let mut writes = Writes::default();
        pass.tell_parents(&mut records, &mut writes);
        pass.cancel_children(&mut records, &mut writes, grace_ms);
        pass.write(self, &session, records.now, grace_ms).await?;
        pass.delivered.woken = self.write(&session, writes, records.now).await?;
        // Children that were cancelled may have children of their own.
        pass.delivered.more |= pass.delivered.woken.relatives;
        Ok(pass.delivered)
    }
}

/// Locks live runs.
async fn hold(store: &PostgresStore, session: &Session<'_>, runs: impl Iterator<Item = RunId>) -> Outcome<Records> {
    let runs: BTreeSet<Uuid> = runs.map(|run| run.0).collect();
    let runs: Vec<Uuid> = runs.into_iter().collect();
    let fixed = store.database.fixed_now();
    let mut records = Records::of(&session.query(sql::HOLD_RUNS, params![fixed, runs]).await?)?;
    if records.live.is_empty() {
        records.now = store.read_now().await?;
    }
    Ok(records)
}

/// A run that has ended, and who is still to hear of it.
struct End {
    run: RunId,
    parent: Option<RunId>,
    position: Option<i32>,
    has_children: bool,
}

/// One round of passing on ends.
struct Pass {
    ended: Vec<RunId>,
    parents: BTreeSet<RunId>,
    with_children: Vec<Uuid>,
    /// Children, and whose.
    children: HashMap<RunId, RunId>,
    /// Whether the children found are all there are.
    are_all: bool,
    ends: Vec<End>,
    inboxes: Inboxes,
    continued: HashMap<RunId, Option<RunId>>,
    /// Parent, number, position, child.
    told: Vec<(Uuid, i64, Option<i32>, Uuid)>,
    orphans: Vec<RunId>,
    stopping: Vec<RunId>,
    delivered: Delivered,
}

impl Pass {
    fn of(listed: &[Row]) -> Outcome<Pass> {
        let mut pass = Pass {
            ended: Vec::with_capacity(listed.len()),
            parents: BTreeSet::new(),
            with_children: Vec::new(),
            children: HashMap::new(),
            are_all: true,
            ends: Vec::new(),
            inboxes: Inboxes::default(),
            continued: HashMap::new(),
            told: Vec::new(),
            orphans: Vec::new(),
            stopping: Vec::new(),
            delivered: Delivered::default(),
        };
        for row in listed {
            let run = run_id(row, "run_id")?;
            pass.ended.push(run);
            pass.parents.extend(row.try_get::<_, Option<Uuid>>("parent")?.map(RunId));
            if row.try_get("has_children")? {
                pass.with_children.push(run.0);
            }
        }
        Ok(pass)
    }

    async fn list_children(&mut self, session: &Session<'_>, limit: usize) -> Outcome<()> {
        if self.with_children.is_empty() {
            return Ok(());
        }
        for row in session.query(sql::LIST_CHILDREN, params![self.with_children, limit as i64]).await? {
            self.children.insert(run_id(&row, "run_id")?, run_id(&row, "parent")?);
        }
        self.are_all = self.children.len() < limit;
        Ok(())
    }

    /// Reads what has to be known now that the live rows are locked.
    async fn read(&mut self, session: &Session<'_>, records: &Records) -> Outcome<()> {
        let ids: Vec<Uuid> = self.ended.iter().map(|run| run.0).collect();
        for row in session.query(sql::LOCK_OUTBOX, params![ids]).await? {
            self.ends.push(End {
                run: run_id(&row, "run_id")?,
                parent: row.try_get::<_, Option<Uuid>>("parent")?.map(RunId),
                position: row.try_get("parent_position")?,
                has_children: row.try_get("has_children")?,
            });
        }
        self.inboxes = Inboxes::read(session, records.live.keys().map(|run| (*run, None))).await?;
        let gone = self.parents.iter().filter(|run| !records.live.contains_key(run)).copied();
        self.continued = find_continued(session, gone).await?;
        Ok(())
    }

    /// Tells parents that have not ended. What is for a run that another one goes on for is left for that one.
    fn tell_parents(&mut self, records: &mut Records, writes: &mut Writes) {
        for end in &mut self.ends {
            let Some(parent) = end.parent else { continue };
            if !self.parents.contains(&parent) {
                // Somebody else has found out meanwhile that another run goes on for it: next time.
                continue;
            }
            end.parent = None;
            if !records.live.contains_key(&parent) {
                end.parent = self.continued.get(&parent).copied().flatten();
                continue;
            }
            let Some(number) = self.inboxes.number(parent, false) else { continue };
            self.told.push((parent.0, number, end.position, end.run.0));
            self.delivered.messaged.push(parent);
            wake(writes, records, parent);
        }
    }

    fn cancel_children(&mut self, records: &mut Records, writes: &mut Writes, grace_ms: Millis) {
        let still: HashSet<RunId> = self.ends.iter().filter(|end| end.has_children).map(|end| end.run).collect();
        let mut children: Vec<RunId> =
            self.children.iter().filter(|(_, parent)| still.contains(parent)).map(|(child, _)| *child).collect();
        children.sort();
        for child in children {
            let Some(row) = records.live.get(&child) else { continue };
            self.orphans.push(child);
            self.delivered.orphaned.push(child);
            if row.rules.epoch == NO_LEASE {
                writes.act(records, LeaseRef { run: child, epoch: NO_LEASE }, &Act::Cancel { grace_ms }, 0.0);
                continue;
            }
            // Whoever has begun may clean up: it is told, and ended when its time is over.
            self.inboxes.put(child, Letter::cancel());
            self.stopping.push(child);
            self.delivered.messaged.push(child);
            wake(writes, records, child);
        }
    }

    async fn write(
        &mut self,
        store: &PostgresStore,
        session: &Session<'_>,
        now: Millis,
        grace_ms: Millis,
    ) -> Outcome<()> {
        let orphans: Vec<Uuid> = self.orphans.iter().map(|run| run.0).collect();
        if !orphans.is_empty() {
            session.query(sql::FORGET_PARENTS, params![orphans]).await?;
        }
        if !self.told.is_empty() {
            let parents: Vec<Uuid> = self.told.iter().map(|(parent, ..)| *parent).collect();
            let numbers: Vec<i64> = self.told.iter().map(|(_, number, ..)| *number).collect();
            let positions: Vec<Option<i32>> = self.told.iter().map(|(_, _, position, _)| *position).collect();
            let children: Vec<Uuid> = self.told.iter().map(|(.., child)| *child).collect();
            session.query(sql::ADD_CHILD_MESSAGES, params![now, parents, numbers, positions, children]).await?;
        }
        self.inboxes.write(session, now).await?;
        let deadlines: Vec<_> = self.stopping.iter().map(|run| (*run, grace_ms, true)).collect();
        store.set_deadlines_in(session, &deadlines).await?;
        let (mut heard, mut left, mut parents, mut has_children) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for end in &self.ends {
            let more_children = end.has_children && !self.are_all;
            match end.parent.is_some() || more_children {
                true => {
                    left.push(end.run.0);
                    parents.push(end.parent.map(|parent| parent.0));
                    has_children.push(more_children);
                }
                false => heard.push(end.run.0),
            }
        }
        self.delivered.more |= !left.is_empty();
        session.query(sql::SETTLE_OUTBOX, params![heard, left, parents, has_children]).await?;
        Ok(())
    }
}
