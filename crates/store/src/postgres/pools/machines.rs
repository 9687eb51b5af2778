//! Orders, machines, agents, and what has lasted too long.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::pools::{BackoffRule, ClaimNo, OrderId, RunnerId};
use baton_core::token::Hash;
use uuid::Uuid;

use super::super::params::params;
use super::super::pool::{Outcome, Session, retried};
use super::super::rows::{clean, to_json};
use super::super::{PostgresStore, sql};
use super::{rows, sheet};
use crate::pool_rules::claims::{Ending, LOST};
use crate::pool_rules::{Sheet, claims, orders, runners};
use crate::{
    EndClaimAnswer, ExpiredPools, JoinAnswer, MachineAnswer, NewMachine, NewOrder, Order, OrderAnswer, Pool,
    PoolExpiry, PoolRunner, RunnerAnswer, RunnerEnd, RunnerNews, RunnerSignal, SignalAnswer, pool_total,
};

impl PostgresStore {
    pub(super) async fn place_order(&self, new: &NewOrder) -> Outcome<OrderAnswer> {
        let session = self.database.transaction().await?;
        let view = self.view_pool(&session, sql::LOCK_POOL, new.pool).await?;
        if let Some(known) = hold_order(&session, new.order).await? {
            session.roll_back().await?;
            return Ok(OrderAnswer::Known(known));
        }
        let Some(view) = view.filter(|view| view.pool.deleting_at.is_none()) else {
            session.roll_back().await?;
            return Ok(OrderAnswer::NoPool);
        };
        let now = self.time_in(&session).await?;
        let Some((order, places)) = orders::place(new, &view.pool, view.size(), now) else {
            session.roll_back().await?;
            return Ok(OrderAnswer::Full);
        };
        let (count, usage, asked) = (order.count as i32, order.usage.code(), order.asked as i32);
        let types = to_json(&order.types)?;
        let (ordered_at, ask_at) = (order.ordered_at, order.ask_at);
        session
            .query(sql::ADD_ORDER, params![order.id.0, order.pool, count, usage, ordered_at, ask_at, asked, types])
            .await?;
        let ids: Vec<Uuid> = places.iter().map(|row| row.id.0).collect();
        let deadline = now.saturating_add(new.create_ms);
        let (cpu, memory) = (view.pool.spec.cpu as i32, view.pool.spec.memory_mib as i64);
        session
            .query(sql::ADD_RUNNERS, params![now, order.pool, order.id.0, deadline, usage, cpu, memory, ids])
            .await?;
        let mut placed = Sheet::new(now, Vec::new());
        placed.events.extend(places.iter().map(orders::ordered));
        placed.add(order.pool, pool_total::ORDERED, i64::from(order.count));
        sheet::commit(&session, &placed).await?;
        Ok(OrderAnswer::Ordered(order))
    }

    /// Locks the runners of an order and puts them on a sheet.
    async fn hold_places(&self, session: &Session<'_>, order: OrderId) -> Outcome<Sheet> {
        let found = session.query(sql::HOLD_ORDER_RUNNERS, params![order.0]).await?;
        let found = found.iter().map(rows::runner).collect::<Outcome<_>>()?;
        Ok(Sheet::new(self.time_in(session).await?, found))
    }

    pub(super) async fn bind_machines(
        &self,
        order: OrderId,
        machines: &[NewMachine],
    ) -> Outcome<Option<Vec<MachineAnswer>>> {
        let session = self.database.transaction().await?;
        let (pool, known) = hold_order_of_pool(&session, order).await?;
        if known.is_none() {
            session.roll_back().await?;
            return Ok(None);
        }
        let mut held = self.hold_places(&session, order).await?;
        let (answers, is_settled) = orders::record(&mut held, machines.to_vec());
        if is_settled {
            session.query(sql::CLOSE_ORDER, params![order.0, held.now, None::<&str>]).await?;
        }
        if let Some(pool) = pool.filter(|_| !machines.is_empty()) {
            set_backoff(&session, &Pool { backoff: pool.backoff.succeeded(), error: None, ..pool }).await?;
        }
        sheet::commit(&session, &held).await?;
        Ok(Some(answers))
    }

    pub(super) async fn refuse_order(
        &self,
        order: OrderId,
        error: &str,
        rule: &BackoffRule,
        jitter: f64,
    ) -> Outcome<bool> {
        let session = self.database.transaction().await?;
        let (pool, known) = hold_order_of_pool(&session, order).await?;
        let Some(known) = known.filter(|known| known.closed_at.is_none()) else {
            session.roll_back().await?;
            return Ok(false);
        };
        let mut held = self.hold_places(&session, order).await?;
        session.query(sql::CLOSE_ORDER, params![order.0, held.now, Some(clean(error))]).await?;
        orders::fail(&mut held, error);
        held.add(known.pool, pool_total::ORDERS_FAILED, 1);
        if let Some(pool) = pool {
            let backoff = pool.backoff.failed(rule, &pool.spec, known.usage, held.now, jitter);
            set_backoff(&session, &Pool { backoff, error: Some(error.to_owned()), ..pool }).await?;
        }
        sheet::commit(&session, &held).await?;
        Ok(true)
    }

    pub(super) async fn join_agent(&self, order: OrderId, machine_id: &str, token: &Hash) -> Outcome<JoinAnswer> {
        let session = self.database.transaction().await?;
        let mut held = self.hold_places(&session, order).await?;
        let answer = orders::join(&mut held, machine_id, token);
        sheet::commit(&session, &held).await?;
        Ok(answer)
    }

    pub(super) async fn note_beats(&self, ids: &[RunnerId]) -> Outcome<Vec<Option<RunnerNews>>> {
        let wanted: Vec<Uuid> = ids.iter().map(|id| id.0).collect::<BTreeSet<_>>().into_iter().collect();
        let now = self.read_now().await?;
        let mut news = BTreeMap::new();
        for row in self.database.query_each(sql::BEAT_RUNNERS, params![now, wanted], usize::MAX).await? {
            news.insert(rows::runner_id(&row)?, rows::news(&row)?);
        }
        Ok(ids.iter().map(|id| news.get(id).cloned()).collect())
    }

    pub(super) async fn note_signals(&self, signals: &[RunnerSignal]) -> Outcome<Vec<SignalAnswer>> {
        let session = self.database.transaction().await?;
        let ids = signals.iter().map(|said| said.runner.runner);
        let mut held = self.hold_sheet(&session, sql::HOLD_RUNNERS, ids).await?;
        let answers = signals.iter().map(|said| runners::signal(&mut held, said)).collect();
        sheet::commit(&session, &held).await?;
        Ok(answers)
    }

    pub(super) async fn begin_ends(&self, ends: &[RunnerEnd]) -> Outcome<Vec<RunnerAnswer>> {
        let session = self.database.transaction().await?;
        let ids = ends.iter().map(|end| end.runner.runner);
        let mut held = self.hold_sheet(&session, sql::HOLD_RUNNERS, ids).await?;
        let answers = ends.iter().map(|end| runners::end(&mut held, end)).collect();
        sheet::commit(&session, &held).await?;
        Ok(answers)
    }

    pub(super) async fn forget_machines(&self, ids: &[RunnerId]) -> Outcome<Vec<RunnerAnswer>> {
        let session = self.database.transaction().await?;
        let mut held = self.hold_sheet(&session, sql::HOLD_RUNNERS, ids.iter().copied()).await?;
        let answers = ids.iter().map(|id| runners::gone(&mut held, *id)).collect();
        sheet::commit(&session, &held).await?;
        Ok(answers)
    }

    pub(super) async fn expire_all_pools(&self, expiry: &PoolExpiry) -> Outcome<ExpiredPools> {
        // Read first: a store that stands still hears nobody, and must not find everybody silent afterwards.
        let now = self.read_now().await?;
        let limit = expiry.limit as i64;
        let mut claims = Vec::new();
        let mut moved: BTreeMap<RunnerId, PoolRunner> = BTreeMap::new();
        for row in self.database.query(sql::LIST_OVERDUE_CLAIMS, params![now, limit]).await? {
            let claim = row.try_get(0)?;
            // Overdue or not, whoever waits for a pool that is being deleted waits in vain; the list has nobody else.
            let ending = Ending::Expire { is_pool_deleted: true };
            let (answer, runners) = retried!(self.end_held_claim(claim, ending, "", expiry.release_ms))?;
            if let EndClaimAnswer::Ended(claim, _) = answer {
                claims.push(claim);
                moved.extend(runners.into_iter().map(|runner| (runner.id, runner)));
            }
        }
        let overdue = self.database.query(sql::LIST_OVERDUE_RUNNERS, params![now, limit]).await?;
        let ended = retried!(self.end_found(&overdue, |sheet, id| runners::expire(sheet, id, expiry)))?;
        moved.extend(ended.into_iter().map(|runner| (runner.id, runner)));
        let stranded = self.database.query(sql::LIST_STRANDED_RUNNERS, params![limit]).await?;
        let given_back = retried!(self.give_back_stranded(&stranded, expiry))?;
        moved.extend(given_back.into_iter().map(|runner| (runner.id, runner)));
        let (silent_at, abandoned_at) = (now.saturating_sub(expiry.silent_ms), now.saturating_sub(expiry.abandoned_ms));
        let silent = self.database.query(sql::LIST_SILENT_RUNNERS, params![silent_at, abandoned_at, limit]).await?;
        let ended = retried!(self.end_found(&silent, |sheet, id| runners::silence(sheet, id, expiry, now)))?;
        moved.extend(ended.into_iter().map(|runner| (runner.id, runner)));
        // Last: whoever has just lost its last runner has nothing to keep.
        for row in self.database.query(sql::LIST_BARREN_CLAIMS, params![limit]).await? {
            let claim = row.try_get(0)?;
            let (answer, _) = retried!(self.end_held_claim(claim, Ending::Lose, LOST, expiry.release_ms))?;
            if let EndClaimAnswer::Ended(claim, _) = answer {
                claims.push(claim);
            }
        }
        Ok(ExpiredPools { claims, runners: moved.into_values().collect() })
    }

    /// Gives back runners of claims that have ended: nobody else would, and most of them have no deadline.
    async fn give_back_stranded(&self, found: &[tokio_postgres::Row], expiry: &PoolExpiry) -> Outcome<Vec<PoolRunner>> {
        let mut owners: BTreeMap<RunnerId, ClaimNo> = BTreeMap::new();
        for row in found {
            owners.insert(rows::runner_id(row)?, row.try_get(1)?);
        }
        self.end_found(found, |sheet, id| match owners.get(&id) {
            Some(owner) => claims::give_back_stranded(sheet, *owner, id, expiry.release_ms),
            None => RunnerAnswer::Unknown,
        })
        .await
    }

    /// Ends runners that were found, as far as nobody else holds them and they are still to be ended.
    async fn end_found(
        &self,
        found: &[tokio_postgres::Row],
        end: impl Fn(&mut Sheet, RunnerId) -> RunnerAnswer,
    ) -> Outcome<Vec<PoolRunner>> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<RunnerId> = found.iter().map(rows::runner_id).collect::<Outcome<_>>()?;
        let session = self.database.transaction().await?;
        let mut held = self.hold_sheet(&session, sql::HOLD_FREE_RUNNERS, ids.iter().copied()).await?;
        let moved: Vec<RunnerId> =
            ids.into_iter().filter(|id| matches!(end(&mut held, *id), RunnerAnswer::Moved(..))).collect();
        sheet::commit(&session, &held).await?;
        Ok(moved.into_iter().filter_map(|id| held.get(id).cloned()).collect())
    }
}

async fn hold_order(session: &Session<'_>, order: OrderId) -> Outcome<Option<Order>> {
    session.query(sql::HOLD_ORDER, params![order.0]).await?.first().map(rows::order).transpose()
}

/// Locks the pool of an order, and then the order: the same way round as whoever makes one.
async fn hold_order_of_pool(session: &Session<'_>, order: OrderId) -> Outcome<(Option<Pool>, Option<Order>)> {
    let pool = session.query(sql::LOCK_POOL_OF_ORDER, params![order.0]).await?;
    let pool = pool.first().map(rows::pool).transpose()?;
    Ok((pool, hold_order(session, order).await?))
}

async fn set_backoff(session: &Session<'_>, pool: &Pool) -> Outcome<()> {
    let backoff = &pool.backoff;
    let error = pool.error.as_deref().map(clean);
    let failures = backoff.failures as i32;
    session
        .query(sql::SET_POOL_BACKOFF, params![pool.number, failures, backoff.create_after, backoff.spot_after, error])
        .await?;
    Ok(())
}
