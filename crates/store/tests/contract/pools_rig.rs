//! A pool on a store, and the agents of its machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_core::pools::{ClaimNo, Limits, Machine, OrderId, PoolSpec, RunnerId, RunnerState, Signal, Usage, Wanted};
use baton_core::token::hash;
use baton_core::{Epoch, Millis};
use baton_store::{
    CommitAnswer, JoinAnswer, MachineAnswer, NewMachine, NewOrder, NewPool, NewPoolClaim, OpenAnswer, OrderAnswer,
    Pool, PoolAnswer, PoolClaim, PoolExpiry, PoolNo, PoolRunner, RunnerFilter, RunnerRef, RunnerSignal, SignalAnswer,
    Store, TakeAnswer, TakeRules, TakenRunner,
};

use crate::rig::{Rig, dice};

pub const RELEASE_MS: Millis = 60_000;
pub const CREATE_MS: Millis = 180_000;
pub const ASK_MS: Millis = 30_000;
pub const WAIT_MS: Millis = 300_000;
pub const RUNTIME_MS: Millis = 3_600_000;

pub fn rules() -> TakeRules {
    TakeRules { limits: Limits::default(), release_ms: RELEASE_MS, is_held: false }
}

pub fn expiry() -> PoolExpiry {
    PoolExpiry { release_ms: RELEASE_MS, silent_ms: 30_000, abandoned_ms: 600_000, is_deaf: false, limit: 1_000 }
}

pub fn spec(max_size: u32) -> PoolSpec {
    PoolSpec {
        provider: "local".into(),
        options: BTreeMap::from([("image".into(), "it's".into())]),
        cpu: 4,
        memory_mib: 8_192,
        types: vec!["m*".into()],
        usage: Usage::OnDemand,
        spot_fallback: false,
        min_idle: 0,
        min_idle_rules: vec![],
        max_size,
        idle_ms: 600_000,
        runtime_ms: RUNTIME_MS as u64,
    }
}

pub fn machine(kind: &str, usage: Usage) -> Machine {
    Machine { kind: kind.into(), usage, cpu: 4, memory_mib: 8_192 }
}

pub fn runner_id() -> RunnerId {
    RunnerId::from_random(u128::from(dice()) << 64 | u128::from(dice()))
}

pub fn order_id() -> OrderId {
    OrderId::from_random(u128::from(dice()) << 64 | u128::from(dice()))
}

pub fn new_order(pool: PoolNo, count: usize) -> NewOrder {
    NewOrder {
        pool,
        order: order_id(),
        runners: (0..count).map(|_| runner_id()).collect(),
        usage: Usage::OnDemand,
        types: Vec::new(),
        create_ms: CREATE_MS,
        ask_ms: ASK_MS,
    }
}

pub fn new_claim(pool: PoolNo, run_id: &str, count: u32) -> NewPoolClaim {
    NewPoolClaim {
        pool,
        run_id: run_id.into(),
        fingerprint: [7; 16],
        count,
        wanted: Wanted::default(),
        priority: 5,
        owner: run_id.into(),
        runtime_ms: RUNTIME_MS,
        wait_ms: WAIT_MS,
        waiting_max: 1_000,
    }
}

/// What an agent that has heard of this state says.
pub fn say(runner: RunnerRef, signal: Signal, run_id: Option<&str>) -> RunnerSignal {
    RunnerSignal { runner, signal, run_id: run_id.map(str::to_owned), detail: String::new(), was_unheard: false }
}

/// A pool under test.
pub struct PoolRig {
    pub rig: Rig,
    pub pool: Pool,
}

impl PoolRig {
    pub async fn new(rig: Rig, max_size: u32) -> PoolRig {
        PoolRig::with(rig, spec(max_size)).await
    }

    pub async fn with(rig: Rig, spec: PoolSpec) -> PoolRig {
        let new = NewPool { namespace: "default".into(), name: "linux".into(), spec };
        match rig.store.add_pool(new).await.unwrap() {
            PoolAnswer::Made(pool) => PoolRig { rig, pool },
            PoolAnswer::Exists(pool) => panic!("there already: {pool:?}"),
        }
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.rig.store
    }

    pub fn number(&self) -> PoolNo {
        self.pool.number
    }

    pub fn later(&self, ms: Millis) {
        self.rig.clock.advance(ms);
    }

    /// Orders machines, which nobody has made yet.
    pub async fn ordered(&self, count: usize) -> NewOrder {
        let new = new_order(self.number(), count);
        match self.store().order_runners(new.clone()).await.unwrap() {
            OrderAnswer::Ordered(order) => assert_eq!((order.id, order.count as usize), (new.order, count)),
            other => panic!("not ordered: {other:?}"),
        }
        new
    }

    /// Machines that are idle: ordered, made, joined, up.
    pub async fn idle_of(&self, count: usize, machine: Machine) -> Vec<RunnerRef> {
        let order = self.ordered(count).await;
        let made: Vec<NewMachine> = (0..count)
            .map(|number| NewMachine { id: format!("{}-{number}", order.order), machine: machine.clone() })
            .collect();
        let names: Vec<String> = made.iter().map(|made| made.id.clone()).collect();
        let bound = self.store().record_machines(order.order, made).await.unwrap().unwrap();
        assert!(bound.iter().all(|answer| matches!(answer, MachineAnswer::Bound(_))), "{bound:?}");
        let mut idle = Vec::new();
        for name in names {
            let joined = self.store().join_runner(order.order, &name, hash(&name)).await.unwrap();
            let JoinAnswer::Joined(runner) = joined else { panic!("not joined: {joined:?}") };
            let answer = self.signal(say(runner.reference(), Signal::Ready, None)).await;
            assert!(matches!(answer, SignalAnswer::Noted(_)), "{answer:?}");
            idle.push(runner.reference());
        }
        idle
    }

    pub async fn idle(&self, count: usize) -> Vec<RunnerRef> {
        self.idle_of(count, machine("m7.large", Usage::OnDemand)).await
    }

    pub async fn signal(&self, signal: RunnerSignal) -> SignalAnswer {
        self.store().signal_runners(vec![signal]).await.unwrap().remove(0)
    }

    pub async fn runner(&self, id: RunnerId) -> PoolRunner {
        self.store().runner(id).await.unwrap().unwrap_or_else(|| panic!("{id} is forgotten"))
    }

    pub async fn state(&self, id: RunnerId) -> RunnerState {
        self.runner(id).await.rules.state
    }

    pub async fn runners_in(&self, state: RunnerState) -> Vec<PoolRunner> {
        let filter = RunnerFilter { pool: Some(self.number()), state: Some(state), ..RunnerFilter::default() };
        self.store().runners(filter, baton_store::Page { after: None, limit: 1_000 }).await.unwrap()
    }

    pub async fn count_in(&self, state: RunnerState) -> usize {
        self.runners_in(state).await.len()
    }

    pub async fn open_with(&self, new: NewPoolClaim) -> PoolClaim {
        match self.store().open_claim(new).await.unwrap() {
            OpenAnswer::Opened(claim) => claim,
            other => panic!("not opened: {other:?}"),
        }
    }

    pub async fn open(&self, run_id: &str, count: u32) -> PoolClaim {
        self.open_with(new_claim(self.number(), run_id, count)).await
    }

    pub async fn take(&self) -> TakeAnswer {
        self.store().take_runners(self.number(), rules()).await.unwrap()
    }

    /// The agents of taken runners register, and send a heartbeat.
    pub async fn register(&self, taken: &[TakenRunner]) {
        let signals = taken.iter().map(|one| say(one.runner, Signal::Registered, Some(&one.run_id))).collect();
        for answer in self.store().signal_runners(signals).await.unwrap() {
            assert!(matches!(answer, SignalAnswer::Noted(_)), "{answer:?}");
        }
    }

    pub async fn beat_all(&self) {
        let filter = RunnerFilter { pool: Some(self.number()), ..RunnerFilter::default() };
        let page = baton_store::Page { after: None, limit: 1_000 };
        let all = self.store().runners(filter, page).await.unwrap().iter().map(|runner| runner.id).collect();
        self.store().beat_runners(all).await.unwrap();
    }

    pub async fn commit(&self, claim: ClaimNo) -> CommitAnswer {
        self.store().commit_claim(claim, Limits::default()).await.unwrap()
    }

    /// A claim that is ready, with the runners it has.
    pub async fn ready(&self, run_id: &str, count: u32) -> (PoolClaim, Vec<RunnerRef>) {
        let claim = self.open(run_id, count).await;
        self.beat_all().await;
        let taken = self.take().await.taken;
        assert_eq!(taken.len(), count as usize);
        self.register(&taken).await;
        match self.commit(claim.number).await {
            CommitAnswer::Ready(claim) => (claim, taken.iter().map(|one| one.runner).collect()),
            other => panic!("not ready: {other:?}"),
        }
    }

    /// The agents of releasing runners deregister.
    pub async fn deregister(&self, runners: &[RunnerRef], run_id: &str) {
        for runner in runners {
            let answer = self.signal(say(*runner, Signal::Deregistered, Some(run_id))).await;
            assert!(matches!(answer, SignalAnswer::Noted(_)), "{answer:?}");
        }
    }
}

pub fn at(runner: RunnerRef, epoch: u32) -> RunnerRef {
    RunnerRef { epoch: Epoch::new(epoch), ..runner }
}
