//! Runner pools. What is decided is in `pool_rules`; here rows are held and written.
//!
//! Locks are taken in this order: a pool, claims, orders, runners by their identifiers, sums.

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
use uuid::Uuid;

use super::params::params;
use super::pool::{Outcome, retried};
use super::rows::{clean, to_json};
use super::{PostgresStore, sql};
use crate::pool_rules::claims::Ending;
use crate::{
    ClaimFilter, CommitAnswer, EndClaimAnswer, EventFilter, ExpiredPools, JoinAnswer, MachineAnswer, NewMachine,
    NewOrder, NewPool, NewPoolClaim, OpenAnswer, Order, OrderAnswer, Page, PlacedOrder, Pool, PoolAnswer, PoolClaim,
    PoolExpiry, PoolNo, PoolRunner, PoolStats, PoolStock, Pools, RetainedPools, RunnerAnswer, RunnerEnd, RunnerEvent,
    RunnerFilter, RunnerNews, RunnerRef, RunnerSignal, SignalAnswer, StoreError, StoreResult, TakeAnswer, TakeRules,
};

#[async_trait]
impl Pools for PostgresStore {
    async fn add_pool(&self, pool: NewPool) -> StoreResult<PoolAnswer> {
        self.database.within(self.insert_pool(&pool)).await
    }

    async fn pool(&self, namespace: &str, name: &str) -> StoreResult<Option<Pool>> {
        self.database.again(|| self.read_pool(namespace, name)).await
    }

    async fn pools(&self, namespace: Option<&str>, page: Page<(String, String)>) -> StoreResult<Vec<Pool>> {
        let listed = async {
            let (after_namespace, after_name) = page.after.unzip();
            self.database
                .query(sql::LIST_POOLS, params![namespace, after_namespace, after_name, page.limit as i64])
                .await?
                .iter()
                .map(rows::pool)
                .collect()
        };
        self.database.within(listed).await
    }

    async fn change_pool(&self, pool: PoolNo, revision: i64, spec: PoolSpec) -> StoreResult<Option<Pool>> {
        let changed = async {
            self.database
                .query(sql::CHANGE_POOL, params![pool, revision, to_json(&spec)?])
                .await?
                .first()
                .map(rows::pool)
                .transpose()
        };
        self.database.within(changed).await
    }

    async fn delete_pool(&self, pool: PoolNo) -> StoreResult<Option<Pool>> {
        let marked = async {
            let now = self.read_now().await?;
            let marked = self.database.query(sql::MARK_POOL_DELETED, params![pool, now]).await?;
            marked.first().map(rows::pool).transpose()
        };
        self.database.within(marked).await
    }

    async fn pool_stock(&self, pool: PoolNo) -> StoreResult<Option<PoolStock>> {
        self.database.again(|| self.read_pool_stock(pool)).await
    }

    async fn pool_stats(&self, pool: PoolNo) -> StoreResult<PoolStats> {
        self.database.again(|| self.read_pool_stats(pool)).await
    }

    async fn open_claim(&self, claim: NewPoolClaim) -> StoreResult<OpenAnswer> {
        self.database.within(async { retried!(self.open_pool_claim(&claim)) }).await
    }

    async fn pool_claim(&self, pool: PoolNo, run_id: &str) -> StoreResult<Option<PoolClaim>> {
        self.database.again(|| self.read_pool_claim(pool, run_id)).await
    }

    async fn pool_claims(&self, filter: ClaimFilter, page: Page<ClaimNo>) -> StoreResult<Vec<PoolClaim>> {
        let listed = async {
            let state = filter.state.map(|state| state.code());
            self.database
                .query(
                    sql::LIST_POOL_CLAIMS,
                    params![page.after.unwrap_or(i64::MAX), filter.pool, state, page.limit as i64],
                )
                .await?
                .iter()
                .map(rows::claim)
                .collect()
        };
        self.database.within(listed).await
    }

    async fn runners_of_claims(&self, claims: Vec<ClaimNo>) -> StoreResult<BTreeMap<ClaimNo, u32>> {
        let counted = async {
            let found = self.database.query(sql::COUNT_RUNNERS_OF_CLAIMS, params![claims]).await?;
            let count = |row: &tokio_postgres::Row| {
                Ok((row.try_get(0)?, u32::try_from(row.try_get::<_, i64>(1)?).unwrap_or(u32::MAX)))
            };
            found.iter().map(count).collect()
        };
        self.database.within(counted).await
    }

    async fn waiting_pools(&self) -> StoreResult<Vec<PoolNo>> {
        let listed = async {
            let found = self.database.query(sql::LIST_WAITING_POOLS, &[]).await?;
            found.iter().map(|row| Ok(row.try_get(0)?)).collect()
        };
        self.database.within(listed).await
    }

    async fn take_runners(&self, pool: PoolNo, rules: TakeRules) -> StoreResult<TakeAnswer> {
        self.database.within(async { retried!(self.take_for_claims(pool, &rules)) }).await
    }

    async fn commit_claim(&self, claim: ClaimNo, limits: Limits) -> StoreResult<CommitAnswer> {
        self.database.within(async { retried!(self.commit_pool_claim(claim, &limits)) }).await
    }

    async fn give_back_runners(
        &self,
        claim: ClaimNo,
        runners: Vec<RunnerRef>,
        why: &str,
        release_ms: Millis,
    ) -> StoreResult<Vec<RunnerAnswer>> {
        self.database.within(async { retried!(self.give_back_held(claim, &runners, why, release_ms)) }).await
    }

    async fn release_claim(&self, claim: ClaimNo, release_ms: Millis) -> StoreResult<EndClaimAnswer> {
        self.database.within(async { retried!(self.end_pool_claim(claim, Ending::Release, "", release_ms)) }).await
    }

    async fn fail_claim(
        &self,
        claim: ClaimNo,
        reason: ClaimReason,
        detail: &str,
        release_ms: Millis,
    ) -> StoreResult<EndClaimAnswer> {
        let ending = Ending::Fail(reason);
        self.database.within(async { retried!(self.end_pool_claim(claim, ending, detail, release_ms)) }).await
    }

    async fn join_runner(&self, order: OrderId, machine_id: &str, token: Hash) -> StoreResult<JoinAnswer> {
        self.database.within(async { retried!(self.join_agent(order, machine_id, &token)) }).await
    }

    async fn runner_of_token(&self, token: &Hash) -> StoreResult<Option<PoolRunner>> {
        let found = async {
            let rows = self.database.query(sql::READ_RUNNER_OF_TOKEN, params![token.as_slice()]).await?;
            rows.first().map(rows::runner).transpose()
        };
        self.database.within(found).await
    }

    async fn beat_runners(&self, runners: Vec<RunnerId>) -> StoreResult<Vec<Option<RunnerNews>>> {
        self.database.within(async { retried!(self.note_beats(&runners)) }).await
    }

    async fn signal_runners(&self, signals: Vec<RunnerSignal>) -> StoreResult<Vec<SignalAnswer>> {
        self.database.within(async { retried!(self.note_signals(&signals)) }).await
    }

    async fn order_runners(&self, order: NewOrder) -> StoreResult<OrderAnswer> {
        self.database.within(async { retried!(self.place_order(&order)) }).await
    }

    async fn due_orders(&self, lease_ms: Millis, limit: usize) -> StoreResult<Vec<Order>> {
        let due = async {
            let now = self.read_now().await?;
            self.database.query(sql::CLOSE_ORDERS, params![now]).await?;
            self.database
                .query(sql::DUE_ORDERS, params![now, lease_ms, limit as i64])
                .await?
                .iter()
                .map(rows::order)
                .collect()
        };
        self.database.within(due).await
    }

    async fn order(&self, order: OrderId) -> StoreResult<Option<PlacedOrder>> {
        let found = async {
            let Some(row) = self.database.query(sql::READ_ORDER, params![order.0]).await?.pop() else {
                return Ok(None);
            };
            Ok(Some(PlacedOrder { order: rows::order(&row)?, is_awaited: row.try_get("is_awaited")? }))
        };
        self.database.within(found).await
    }

    async fn record_machines(
        &self,
        order: OrderId,
        machines: Vec<NewMachine>,
    ) -> StoreResult<Option<Vec<MachineAnswer>>> {
        self.database.within(async { retried!(self.bind_machines(order, &machines)) }).await
    }

    async fn fail_order(&self, order: OrderId, error: &str, rule: BackoffRule, jitter: f64) -> StoreResult<bool> {
        self.database.within(async { retried!(self.refuse_order(order, error, &rule, jitter)) }).await
    }

    async fn note_pool_error(&self, pool: PoolNo, error: &str) -> StoreResult<()> {
        let noted = async { self.database.query(sql::SET_POOL_ERROR, params![pool, clean(error)]).await.map(|_| ()) };
        self.database.within(noted).await
    }

    async fn end_runners(&self, ends: Vec<RunnerEnd>) -> StoreResult<Vec<RunnerAnswer>> {
        self.database.within(async { retried!(self.begin_ends(&ends)) }).await
    }

    async fn due_endings(&self, lease_ms: Millis, limit: usize) -> StoreResult<Vec<PoolRunner>> {
        let due = async {
            self.database
                .query(sql::DUE_ENDINGS, params![self.read_now().await?, lease_ms, limit as i64])
                .await?
                .iter()
                .map(rows::runner)
                .collect()
        };
        self.database.within(due).await
    }

    async fn note_gone(&self, runners: Vec<RunnerId>) -> StoreResult<Vec<RunnerAnswer>> {
        self.database.within(async { retried!(self.forget_machines(&runners)) }).await
    }

    async fn runner(&self, runner: RunnerId) -> StoreResult<Option<PoolRunner>> {
        let found = async {
            let rows = self.database.query(sql::READ_RUNNER, params![runner.0]).await?;
            rows.first().map(rows::runner).transpose()
        };
        self.database.within(found).await
    }

    async fn runners(&self, filter: RunnerFilter, page: Page<RunnerId>) -> StoreResult<Vec<PoolRunner>> {
        let listed = async {
            let after: Option<Uuid> = page.after.map(|id| id.0);
            let state = filter.state.map(|state| state.code());
            let not_state = filter.not_state.map(|state| state.code());
            self.database
                .query(
                    sql::LIST_RUNNERS,
                    params![after, filter.pool, state, filter.claim, page.limit as i64, not_state],
                )
                .await?
                .iter()
                .map(rows::runner)
                .collect()
        };
        self.database.within(listed).await
    }

    async fn runner_events(&self, filter: EventFilter, page: Page<i64>) -> StoreResult<Vec<RunnerEvent>> {
        let listed = async {
            let runner: Option<Uuid> = filter.runner.map(|id| id.0);
            let after = page.after.unwrap_or(i64::MAX);
            self.database
                .query(sql::LIST_RUNNER_EVENTS, params![after, filter.pool, runner, filter.claim, page.limit as i64])
                .await?
                .iter()
                .map(rows::event)
                .collect()
        };
        self.database.within(listed).await
    }

    async fn expire_pools(&self, expiry: PoolExpiry) -> StoreResult<ExpiredPools> {
        self.database.within(self.expire_all_pools(&expiry)).await
    }

    async fn retain_pools(&self, age_ms: Millis, limit: usize) -> StoreResult<RetainedPools> {
        self.database.within(self.forget_old_pools(age_ms, limit as i64)).await
    }
}

impl PostgresStore {
    async fn insert_pool(&self, new: &NewPool) -> Outcome<PoolAnswer> {
        let spec = to_json(&new.spec)?;
        if let Some(row) = self
            .database
            .query(sql::ADD_POOL, params![self.read_now().await?, new.namespace, new.name, spec])
            .await?
            .first()
        {
            return Ok(PoolAnswer::Made(rows::pool(row)?));
        }
        match self.read_pool(&new.namespace, &new.name).await? {
            Some(known) => Ok(PoolAnswer::Exists(known)),
            None => Err(StoreError::Unavailable("the pool was deleted while it was made".into()).into()),
        }
    }

    async fn read_pool(&self, namespace: &str, name: &str) -> Outcome<Option<Pool>> {
        self.database.query(sql::READ_POOL, params![namespace, name]).await?.first().map(rows::pool).transpose()
    }

    async fn forget_old_pools(&self, age_ms: Millis, limit: i64) -> Outcome<RetainedPools> {
        let before = self.read_now().await?.saturating_sub(age_ms);
        let session = self.database.transaction().await?;
        let pools = session.query(sql::DELETE_POOLS, params![limit]).await?;
        for row in &pools {
            session.query(sql::DELETE_POOL_TOTALS, params![row.try_get::<_, PoolNo>(0)?]).await?;
        }
        let mut gone = [0; 4];
        let statements =
            [sql::DELETE_RUNNERS, sql::DELETE_POOL_CLAIMS, sql::DELETE_RUNNER_EVENTS, sql::DELETE_RUNNER_ORDERS];
        for (gone, statement) in gone.iter_mut().zip(statements) {
            *gone = session.query(statement, params![before, limit]).await?.len() as u64;
        }
        session.commit().await?;
        let [runners, claims, events, orders] = gone;
        Ok(RetainedPools { runners, claims, events, orders, pools: pools.len() as u64 })
    }
}
