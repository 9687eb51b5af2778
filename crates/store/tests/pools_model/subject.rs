//! A store that is told a history of a pool.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_core::pools::{ClaimReason, Limits, PoolSpec, Usage};
use baton_store::{
    ClaimFilter, Clock, EventFilter, NewOrder, NewPool, Page, PoolAnswer, PoolExpiry, PoolNo, RunnerEnd, RunnerFilter,
    RunnerSignal, Store, TakeRules,
};

use crate::model::{ABANDONED_MS, Action, CREATE_MS, ClaimView, RELEASE_MS, RunnerView, SILENT_MS};

pub struct Subject {
    pub store: Arc<dyn Store>,
    pub pool: PoolNo,
    clock: Clock,
}

impl Subject {
    pub async fn new(store: Arc<dyn Store>, clock: Clock) -> Subject {
        let spec = PoolSpec {
            provider: "local".into(),
            options: BTreeMap::new(),
            cpu: 1,
            memory_mib: 1,
            types: vec![],
            usage: Usage::OnDemand,
            spot_fallback: false,
            min_idle: 0,
            min_idle_rules: vec![],
            // With room to create, no claim has to yield.
            max_size: 10_000,
            idle_ms: 1,
            runtime_ms: 1,
        };
        let new = NewPool { namespace: "default".into(), name: "linux".into(), spec };
        let PoolAnswer::Made(pool) = store.add_pool(new).await.unwrap() else { panic!("there is a pool") };
        Subject { store, pool: pool.number, clock }
    }

    /// Does it, and says in words what the answer was.
    pub async fn act(&self, action: &Action) -> String {
        let store = &self.store;
        match action.clone() {
            Action::Order(order, runners) => {
                let usage = Usage::OnDemand;
                let (create_ms, ask_ms) = (CREATE_MS, 60_000);
                let new = NewOrder { pool: self.pool, order, runners, usage, types: Vec::new(), create_ms, ask_ms };
                format!("{:?}", store.order_runners(new).await.unwrap())
            }
            Action::Signals(said) => {
                let said = said.into_iter().map(|(runner, signal, run_id)| RunnerSignal {
                    runner,
                    signal,
                    run_id,
                    detail: "said".into(),
                    was_unheard: false,
                });
                format!("{:?}", store.signal_runners(said.collect()).await.unwrap())
            }
            Action::Beat(runners) => format!("{:?}", store.beat_runners(runners).await.unwrap()),
            Action::Open(claim) => format!("{:?}", store.open_claim(claim).await.unwrap()),
            Action::Take => {
                let rules = TakeRules { limits: Limits::default(), release_ms: RELEASE_MS, is_held: false };
                format!("{:?}", store.take_runners(self.pool, rules).await.unwrap())
            }
            Action::Commits(claims) => {
                let mut answers = Vec::new();
                for claim in claims {
                    answers.push(store.commit_claim(claim, Limits::default()).await.unwrap());
                }
                format!("{answers:?}")
            }
            Action::Release(claim) => format!("{:?}", store.release_claim(claim, RELEASE_MS).await.unwrap()),
            Action::Fail(claim) => {
                let reason = ClaimReason::Impossible;
                format!("{:?}", store.fail_claim(claim, reason, "why", RELEASE_MS).await.unwrap())
            }
            Action::GiveBack(claim, runner) => {
                format!("{:?}", store.give_back_runners(claim, vec![runner], "", RELEASE_MS).await.unwrap())
            }
            Action::End(runner, cause) => {
                let end = RunnerEnd { runner, cause, detail: "ended".into() };
                format!("{:?}", store.end_runners(vec![end]).await.unwrap())
            }
            Action::Gone(runner) => format!("{:?}", store.note_gone(vec![runner]).await.unwrap()),
            Action::Expire => {
                let (silent_ms, abandoned_ms) = (SILENT_MS, ABANDONED_MS);
                let expiry =
                    PoolExpiry { release_ms: RELEASE_MS, silent_ms, abandoned_ms, is_deaf: false, limit: 1_000 };
                format!("{:?}", store.expire_pools(expiry).await.unwrap())
            }
            Action::Pass(ms) => {
                self.clock.advance(ms);
                String::new()
            }
        }
    }

    pub async fn runners(&self) -> Vec<RunnerView> {
        let page = Page { after: None, limit: 10_000 };
        let found = self.store.runners(RunnerFilter::default(), page).await.unwrap();
        let view = |one: &baton_store::PoolRunner| RunnerView {
            id: one.id,
            state: one.rules.state,
            epoch: one.rules.epoch.number(),
            owner: one.rules.owner,
            run_id: one.run_id.clone(),
            deadline: one.rules.deadline,
            registered_at: one.rules.registered_at,
            cause: one.rules.cause,
            since: one.since,
            ordered_at: one.ordered_at,
            seen_at: one.seen_at,
            uses: one.uses,
        };
        found.iter().map(view).collect()
    }

    pub async fn claims(&self) -> Vec<ClaimView> {
        let page = Page { after: None, limit: 10_000 };
        let found = self.store.pool_claims(ClaimFilter::default(), page).await.unwrap();
        let view = |one: baton_store::PoolClaim| ClaimView {
            number: one.number,
            run_id: one.run_id,
            count: one.count,
            priority: one.priority,
            owner: one.owner,
            state: one.state,
            deadline: one.deadline,
            ready_at: one.ready_at,
            ended_at: one.ended_at,
            reason: one.reason,
        };
        found.into_iter().map(view).collect()
    }

    /// Everything that is kept of what happened, in words.
    pub async fn past(&self) -> String {
        let page = Page { after: None, limit: 10_000 };
        let events = self.store.runner_events(EventFilter::default(), page).await.unwrap();
        let stats = self.store.pool_stats(self.pool).await.unwrap();
        let stock = self.store.pool_stock(self.pool).await.unwrap();
        format!("{events:?}\n{stats:?}\n{stock:?}")
    }
}
