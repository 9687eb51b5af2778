//! Runner pools. What is decided is in `pool_rules`; here rows are held, which for the one writer is the same as read, and written.

mod claims;
mod machines;
mod rows;
mod sheet;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use async_trait::async_trait;
use baton_core::Millis;
use baton_core::pools::{BackoffRule, ClaimNo, ClaimReason, Limits, OrderId, PoolSpec, RunnerId};
use baton_core::token::Hash;
use rusqlite::params;

use super::connection::Sql;
use super::rows::to_json;
use super::{SqliteStore, statements};
use crate::pool_rules::claims::Ending;
use crate::{
    ClaimFilter, CommitAnswer, EndClaimAnswer, EventFilter, ExpiredPools, JoinAnswer, MachineAnswer, NewMachine,
    NewOrder, NewPool, NewPoolClaim, OpenAnswer, Order, OrderAnswer, Page, PlacedOrder, Pool, PoolAnswer, PoolClaim,
    PoolExpiry, PoolNo, PoolRunner, PoolStats, PoolStock, Pools, RetainedPools, RunnerAnswer, RunnerEnd, RunnerEvent,
    RunnerFilter, RunnerNews, RunnerRef, RunnerSignal, SignalAnswer, StoreResult, TakeAnswer, TakeRules,
};

#[async_trait]
impl Pools for SqliteStore {
    async fn add_pool(&self, pool: NewPool) -> StoreResult<PoolAnswer> {
        self.write(move |sql| {
            let spec = to_json(&pool.spec)?;
            let made = params![sql.now, pool.namespace, pool.name, spec];
            if let Some(made) = sql.row(statements::ADD_POOL, made, rows::pool)? {
                return Ok(PoolAnswer::Made(made));
            }
            sql.one(statements::READ_POOL, params![pool.namespace, pool.name], rows::pool).map(PoolAnswer::Exists)
        })
        .await
    }

    async fn pool(&self, namespace: &str, name: &str) -> StoreResult<Option<Pool>> {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        self.read(move |sql| sql.row(statements::READ_POOL, params![namespace, name], rows::pool)).await
    }

    async fn pools(&self, namespace: Option<&str>, page: Page<(String, String)>) -> StoreResult<Vec<Pool>> {
        let namespace = namespace.map(str::to_owned);
        self.read(move |sql| {
            let (after_namespace, after_name) = page.after.unzip();
            let parameters = params![namespace, after_namespace, after_name, page.limit as i64];
            sql.rows(statements::LIST_POOLS, parameters, rows::pool)
        })
        .await
    }

    async fn change_pool(&self, pool: PoolNo, revision: i64, spec: PoolSpec) -> StoreResult<Option<Pool>> {
        self.write(move |sql| sql.row(statements::CHANGE_POOL, params![pool, revision, to_json(&spec)?], rows::pool))
            .await
    }

    async fn delete_pool(&self, pool: PoolNo) -> StoreResult<Option<Pool>> {
        self.write(move |sql| sql.row(statements::MARK_POOL_DELETED, params![pool, sql.now], rows::pool)).await
    }

    async fn pool_stock(&self, pool: PoolNo) -> StoreResult<Option<PoolStock>> {
        self.read(move |sql| claims::stock(sql, pool)).await
    }

    async fn pool_stats(&self, pool: PoolNo) -> StoreResult<PoolStats> {
        self.read(move |sql| claims::stats(sql, pool)).await
    }

    async fn open_claim(&self, claim: NewPoolClaim) -> StoreResult<OpenAnswer> {
        self.write(move |sql| claims::open(sql, &claim)).await
    }

    async fn pool_claim(&self, pool: PoolNo, run_id: &str) -> StoreResult<Option<PoolClaim>> {
        let run_id = run_id.to_owned();
        self.read(move |sql| sql.row(statements::READ_POOL_CLAIM, params![pool, run_id], rows::claim)).await
    }

    async fn pool_claims(&self, filter: ClaimFilter, page: Page<ClaimNo>) -> StoreResult<Vec<PoolClaim>> {
        self.read(move |sql| {
            let state = filter.state.map(|state| state.code());
            let parameters = params![page.after.unwrap_or(i64::MAX), filter.pool, state, page.limit as i64];
            sql.rows(statements::LIST_POOL_CLAIMS, parameters, rows::claim)
        })
        .await
    }

    async fn runners_of_claims(&self, claims: Vec<ClaimNo>) -> StoreResult<BTreeMap<ClaimNo, u32>> {
        let claims = to_json(&claims)?;
        self.read(move |sql| {
            let counted = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            Ok(sql.rows(statements::COUNT_RUNNERS_OF_CLAIMS, params![claims], counted)?.into_iter().collect())
        })
        .await
    }

    async fn waiting_pools(&self) -> StoreResult<Vec<PoolNo>> {
        self.read(|sql| sql.rows(statements::LIST_WAITING_POOLS, params![], |row| row.get(0))).await
    }

    async fn take_runners(&self, pool: PoolNo, rules: TakeRules) -> StoreResult<TakeAnswer> {
        self.write(move |sql| claims::take(sql, pool, &rules)).await
    }

    async fn commit_claim(&self, claim: ClaimNo, limits: Limits) -> StoreResult<CommitAnswer> {
        self.write(move |sql| claims::commit(sql, claim, &limits)).await
    }

    async fn give_back_runners(
        &self,
        claim: ClaimNo,
        runners: Vec<RunnerRef>,
        why: &str,
        release_ms: Millis,
    ) -> StoreResult<Vec<RunnerAnswer>> {
        let why = why.to_owned();
        self.write(move |sql| claims::give_back(sql, claim, &runners, &why, release_ms)).await
    }

    async fn release_claim(&self, claim: ClaimNo, release_ms: Millis) -> StoreResult<EndClaimAnswer> {
        self.write(move |sql| Ok(claims::end(sql, claim, Ending::Release, "", release_ms)?.0)).await
    }

    async fn fail_claim(
        &self,
        claim: ClaimNo,
        reason: ClaimReason,
        detail: &str,
        release_ms: Millis,
    ) -> StoreResult<EndClaimAnswer> {
        let detail = detail.to_owned();
        self.write(move |sql| Ok(claims::end(sql, claim, Ending::Fail(reason), &detail, release_ms)?.0)).await
    }

    async fn join_runner(&self, order: OrderId, machine_id: &str, token: Hash) -> StoreResult<JoinAnswer> {
        let machine_id = machine_id.to_owned();
        self.write(move |sql| machines::join(sql, order, &machine_id, &token)).await
    }

    async fn runner_of_token(&self, token: &Hash) -> StoreResult<Option<PoolRunner>> {
        let token = *token;
        self.read(move |sql| sql.row(statements::READ_RUNNER_OF_TOKEN, params![token], rows::runner)).await
    }

    async fn beat_runners(&self, runners: Vec<RunnerId>) -> StoreResult<Vec<Option<RunnerNews>>> {
        self.write(move |sql| {
            let beat = |id: &RunnerId| sql.row(statements::BEAT_RUNNER, params![sql.now, id.0.as_bytes()], rows::news);
            runners.iter().map(beat).collect()
        })
        .await
    }

    async fn signal_runners(&self, signals: Vec<RunnerSignal>) -> StoreResult<Vec<SignalAnswer>> {
        self.write(move |sql| machines::signal(sql, &signals)).await
    }

    async fn order_runners(&self, order: NewOrder) -> StoreResult<OrderAnswer> {
        self.write(move |sql| machines::order(sql, &order)).await
    }

    async fn due_orders(&self, lease_ms: Millis, limit: usize) -> StoreResult<Vec<Order>> {
        self.write(move |sql| {
            sql.execute(statements::CLOSE_ORDERS, params![sql.now])?;
            sql.rows(statements::DUE_ORDERS, params![sql.now, lease_ms, limit as i64], rows::order)
        })
        .await
    }

    async fn order(&self, order: OrderId) -> StoreResult<Option<PlacedOrder>> {
        self.read(move |sql| {
            sql.row(statements::READ_ORDER, params![order.0.as_bytes()], |row| {
                Ok(PlacedOrder { order: rows::order(row)?, is_awaited: row.get("is_awaited")? })
            })
        })
        .await
    }

    async fn record_machines(
        &self,
        order: OrderId,
        machines: Vec<NewMachine>,
    ) -> StoreResult<Option<Vec<MachineAnswer>>> {
        self.write(move |sql| machines::record(sql, order, machines)).await
    }

    async fn fail_order(&self, order: OrderId, error: &str, rule: BackoffRule, jitter: f64) -> StoreResult<bool> {
        let error = error.to_owned();
        self.write(move |sql| machines::fail(sql, order, &error, &rule, jitter)).await
    }

    async fn note_pool_error(&self, pool: PoolNo, error: &str) -> StoreResult<()> {
        let error = error.to_owned();
        self.write(move |sql| sql.execute(statements::SET_POOL_ERROR, params![pool, error]).map(|_| ())).await
    }

    async fn end_runners(&self, ends: Vec<RunnerEnd>) -> StoreResult<Vec<RunnerAnswer>> {
        self.write(move |sql| machines::end(sql, &ends)).await
    }

    async fn due_endings(&self, lease_ms: Millis, limit: usize) -> StoreResult<Vec<PoolRunner>> {
        self.write(move |sql| sql.rows(statements::DUE_ENDINGS, params![sql.now, lease_ms, limit as i64], rows::runner))
            .await
    }

    async fn note_gone(&self, runners: Vec<RunnerId>) -> StoreResult<Vec<RunnerAnswer>> {
        self.write(move |sql| machines::gone(sql, &runners)).await
    }

    async fn runner(&self, runner: RunnerId) -> StoreResult<Option<PoolRunner>> {
        self.read(move |sql| sql.row(statements::READ_RUNNER, params![runner.0.as_bytes()], rows::runner)).await
    }

    async fn runners(&self, filter: RunnerFilter, page: Page<RunnerId>) -> StoreResult<Vec<PoolRunner>> {
        self.read(move |sql| {
            let after = page.after.map(|id| *id.0.as_bytes());
            let state = filter.state.map(|state| state.code());
            let not_state = filter.not_state.map(|state| state.code());
            let parameters = params![after, filter.pool, state, filter.claim, page.limit as i64, not_state];
            sql.rows(statements::LIST_RUNNERS, parameters, rows::runner)
        })
        .await
    }

    async fn runner_events(&self, filter: EventFilter, page: Page<i64>) -> StoreResult<Vec<RunnerEvent>> {
        self.read(move |sql| {
            let runner = filter.runner.map(|id| *id.0.as_bytes());
            let (after, limit) = (page.after.unwrap_or(i64::MAX), page.limit as i64);
            // Each by the index that finds the fewest: SQLite does not choose one for a filter that may be missing.
            let statement = match filter {
                EventFilter { claim: Some(_), .. } => statements::LIST_EVENTS_OF_CLAIM,
                EventFilter { runner: Some(_), .. } => statements::LIST_EVENTS_OF_RUNNER,
                EventFilter { pool: Some(_), .. } => statements::LIST_EVENTS_OF_POOL,
                EventFilter { pool: None, runner: None, claim: None } => {
                    return sql.rows(statements::LIST_RUNNER_EVENTS, params![after, limit], rows::event);
                }
            };
            sql.rows(statement, params![after, filter.pool, runner, filter.claim, limit], rows::event)
        })
        .await
    }

    async fn expire_pools(&self, expiry: PoolExpiry) -> StoreResult<ExpiredPools> {
        // A store that stands still hears nobody, and must not find everybody silent afterwards.
        let called_at = self.clock.local();
        self.write(move |sql| machines::expire(sql, &expiry, called_at)).await
    }

    async fn retain_pools(&self, age_ms: Millis, limit: usize) -> StoreResult<RetainedPools> {
        self.write(move |sql| retain(sql, age_ms, limit)).await
    }
}

fn retain(sql: &Sql<'_>, age_ms: Millis, limit: usize) -> StoreResult<RetainedPools> {
    let (before, limit) = (sql.now.saturating_sub(age_ms), limit as i64);
    let delete = |statement| Ok::<_, crate::StoreError>(sql.execute(statement, params![before, limit])? as u64);
    let pools: Vec<PoolNo> = sql.rows(statements::DELETE_POOLS, params![limit], |row| row.get(0))?;
    for pool in &pools {
        sql.execute(statements::DELETE_POOL_TOTALS, params![pool])?;
    }
    Ok(RetainedPools {
        runners: delete(statements::DELETE_RUNNERS)?,
        claims: delete(statements::DELETE_POOL_CLAIMS)?,
        events: delete(statements::DELETE_RUNNER_EVENTS)?,
        orders: delete(statements::DELETE_RUNNER_ORDERS)?,
        pools: pools.len() as u64,
    })
}
