//! What runner pools need of a store. docs/adr/0016 says how they are kept, docs/pool_states.md what each verb does in each state.

use std::collections::BTreeMap;

use async_trait::async_trait;
use baton_core::Millis;
use baton_core::pools::spec::SIZE_MAX;
use baton_core::pools::{BackoffRule, ClaimNo, ClaimReason, Limits, OrderId, PoolSpec, RunnerId};
use baton_core::token::Hash;

use crate::{
    ClaimFilter, CommitAnswer, EndClaimAnswer, EventFilter, ExpiredPools, JoinAnswer, MachineAnswer, NewMachine,
    NewOrder, NewPool, NewPoolClaim, OpenAnswer, Order, OrderAnswer, Page, PlacedOrder, Pool, PoolAnswer, PoolClaim,
    PoolExpiry, PoolNo, PoolRunner, PoolStats, PoolStock, RetainedPools, RunnerAnswer, RunnerEnd, RunnerEvent,
    RunnerFilter, RunnerNews, RunnerRef, RunnerSignal, SignalAnswer, StoreResult, TakeAnswer, TakeRules,
};

/// Most idle runners that one look of waiting claims considers, and that the keeper sees. Those that were used last come first.
pub(crate) const IDLE_LOOK_MAX: i64 = 2_000;
/// Most runners on their way that the keeper sees: as many as a pool may have.
pub(crate) const COMING_LOOK_MAX: i64 = SIZE_MAX as i64;
/// How many waits of claims [`Pools::pool_stats`] has.
pub(crate) const WAITS_MAX: i64 = 1_000;

/// The verbs of runner pools. Every [`crate::Store`] has them. All of them are safe on every server at once, and harmless when repeated.
#[async_trait]
pub trait Pools: Send + Sync {
    // ---- pools

    /// Makes a pool, if there is none of its name.
    async fn add_pool(&self, pool: NewPool) -> StoreResult<PoolAnswer>;
    /// One pool.
    async fn pool(&self, namespace: &str, name: &str) -> StoreResult<Option<Pool>>;
    /// The pools of a namespace (all when `None`), by namespace and name.
    async fn pools(&self, namespace: Option<&str>, page: Page<(String, String)>) -> StoreResult<Vec<Pool>>;
    /// Changes what a pool is to be, unless somebody has changed it since it had this revision (then: `None`).
    async fn change_pool(&self, pool: PoolNo, revision: i64, spec: PoolSpec) -> StoreResult<Option<Pool>>;
    /// Begins to delete a pool. `None` when it is gone already.
    async fn delete_pool(&self, pool: PoolNo) -> StoreResult<Option<Pool>>;
    /// What the keeper of a pool looks at, all of one moment.
    async fn pool_stock(&self, pool: PoolNo) -> StoreResult<Option<PoolStock>>;
    /// Numbers about a pool.
    async fn pool_stats(&self, pool: PoolNo) -> StoreResult<PoolStats>;

    // ---- claims

    /// Opens a claim, once for each pool and run, unless as many wait as may. On a store that servers share, those that are opened at the same moment may
    /// exceed that by a few.
    async fn open_claim(&self, claim: NewPoolClaim) -> StoreResult<OpenAnswer>;
    /// The claim of a run.
    async fn pool_claim(&self, pool: PoolNo, run_id: &str) -> StoreResult<Option<PoolClaim>>;
    /// Claims, newest first.
    async fn pool_claims(&self, filter: ClaimFilter, page: Page<ClaimNo>) -> StoreResult<Vec<PoolClaim>>;
    /// How many runners each of these claims has now. Those that have none are left out.
    async fn runners_of_claims(&self, claims: Vec<ClaimNo>) -> StoreResult<BTreeMap<ClaimNo, u32>>;
    /// Pools that claims wait for.
    async fn waiting_pools(&self) -> StoreResult<Vec<PoolNo>>;
    /// Gives idle runners to the claims of a pool that wait, in their order.
    async fn take_runners(&self, pool: PoolNo, rules: TakeRules) -> StoreResult<TakeAnswer>;
    /// Hands the runners of a claim over, all or none: when it has as many as it wants, and all are alive and registered.
    async fn commit_claim(&self, claim: ClaimNo, limits: Limits) -> StoreResult<CommitAnswer>;
    /// Gives back some of the runners of a claim, which goes on. Why is kept with their moves.
    async fn give_back_runners(
        &self,
        claim: ClaimNo,
        runners: Vec<RunnerRef>,
        why: &str,
        release_ms: Millis,
    ) -> StoreResult<Vec<RunnerAnswer>>;
    /// Ends a claim because its owner wants it no more, and gives back what it has.
    async fn release_claim(&self, claim: ClaimNo, release_ms: Millis) -> StoreResult<EndClaimAnswer>;
    /// Ends a claim that cannot be filled, and gives back what it took.
    async fn fail_claim(
        &self,
        claim: ClaimNo,
        reason: ClaimReason,
        detail: &str,
        release_ms: Millis,
    ) -> StoreResult<EndClaimAnswer>;

    // ---- agents

    /// Binds an agent to the runner of its machine. The same token again gets the same answer.
    async fn join_runner(&self, order: OrderId, machine_id: &str, token: Hash) -> StoreResult<JoinAnswer>;
    /// The runner whose agent has the token with this hash.
    async fn runner_of_token(&self, token: &Hash) -> StoreResult<Option<PoolRunner>>;
    /// Notes signs of life, and says where each runner stands. One that is gone is unknown.
    async fn beat_runners(&self, runners: Vec<RunnerId>) -> StoreResult<Vec<Option<RunnerNews>>>;
    /// Notes signals, in this order.
    async fn signal_runners(&self, signals: Vec<RunnerSignal>) -> StoreResult<Vec<SignalAnswer>>;

    // ---- machines

    /// Writes down that machines are to be created, as many as the pool has room for. Only then is the provider asked.
    async fn order_runners(&self, order: NewOrder) -> StoreResult<OrderAnswer>;
    /// Orders that the provider is to be asked for (again). Nobody else gets them for `lease_ms`.
    async fn due_orders(&self, lease_ms: Millis, limit: usize) -> StoreResult<Vec<Order>>;
    /// An order, as it is now.
    async fn order(&self, order: OrderId) -> StoreResult<Option<PlacedOrder>>;
    /// Binds machines to the runners of their order. `None`: there is no such order.
    async fn record_machines(
        &self,
        order: OrderId,
        machines: Vec<NewMachine>,
    ) -> StoreResult<Option<Vec<MachineAnswer>>>;
    /// The provider has refused an order: its runners without a machine are gone, and the pool backs off. False when it is settled already.
    async fn fail_order(&self, order: OrderId, error: &str, rule: BackoffRule, jitter: f64) -> StoreResult<bool>;
    /// Notes what the provider said last that has not settled anything, or, when that is empty, that it is over. The next machines that come clear
    /// it, too.
    async fn note_pool_error(&self, pool: PoolNo, error: &str) -> StoreResult<()>;
    /// Begins to end runners that are as they were seen.
    async fn end_runners(&self, ends: Vec<RunnerEnd>) -> StoreResult<Vec<RunnerAnswer>>;
    /// Terminating runners whose machines the provider is to be asked to end (again). Nobody else gets them for `lease_ms`.
    async fn due_endings(&self, lease_ms: Millis, limit: usize) -> StoreResult<Vec<PoolRunner>>;
    /// The machines of these terminating runners are no more.
    async fn note_gone(&self, runners: Vec<RunnerId>) -> StoreResult<Vec<RunnerAnswer>>;

    // ---- looking, and time

    /// One runner.
    async fn runner(&self, runner: RunnerId) -> StoreResult<Option<PoolRunner>>;
    /// Runners, by identifier.
    async fn runners(&self, filter: RunnerFilter, page: Page<RunnerId>) -> StoreResult<Vec<PoolRunner>>;
    /// Moves of runners, newest first.
    async fn runner_events(&self, filter: EventFilter, page: Page<i64>) -> StoreResult<Vec<RunnerEvent>>;
    /// Ends claims and runners whose time is over.
    async fn expire_pools(&self, expiry: PoolExpiry) -> StoreResult<ExpiredPools>;
    /// Forgets runners that were gone, claims that had ended, orders that were settled and moves that were made before `now - age_ms`, and pools that
    /// are being deleted and have nothing left: at most `limit` of each.
    async fn retain_pools(&self, age_ms: Millis, limit: usize) -> StoreResult<RetainedPools>;
}

/// Names of the sums that [`PoolStats::totals`] has.
pub mod pool_total {
    /// Runners handed over that were there before their claim was opened.
    pub const HITS_WARM: &str = "hits_warm";
    /// Runners handed over that were ordered after it.
    pub const HITS_COLD: &str = "hits_cold";
    /// Milliseconds that machines were idle.
    pub const IDLE_MS: &str = "idle_ms";
    /// Milliseconds that machines were handed over.
    pub const USED_MS: &str = "used_ms";
    /// Machines that were ordered.
    pub const ORDERED: &str = "ordered";
    /// Orders that the provider refused.
    pub const ORDERS_FAILED: &str = "orders_failed";
    /// Runners that were ended for a cause, whose word follows.
    pub const ENDED: &str = "ended.";
    /// Claims that are in a state, whose word follows, or were.
    pub const CLAIMS: &str = "claims.";
    /// Claims that ended for a reason, whose word follows.
    pub const CLAIMS_ENDED: &str = "claims_ended.";
}
