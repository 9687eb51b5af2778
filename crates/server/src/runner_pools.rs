//! What this server knows of runner pools besides what the store does: providers, who waits for what, and bells. Nothing here is truth.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use baton_core::Millis;
use baton_core::pools::{ClaimNo, RunnerId, RunnerState};
use baton_core::token::Hash;
use baton_store::{Pool, PoolNo, RunnerNews, RunnerSignal, SignalAnswer, Store};
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::bell::Bell;
use crate::coalesce::{Coalescer, Item};
use crate::events::Events;
use crate::github::{Github, GithubScope};
use crate::pool_metrics::PoolLabels;
use crate::pool_names::PoolNames;
use crate::providers::{Ended, PoolInfo, Providers};
use crate::service::news::News;
use crate::watch::Watchers;
use crate::{Error, Settings};

/// Heartbeats or signals in one call to the store.
const BATCH: usize = 1_000;
/// Most tokens of agents that are remembered; beyond it the memory starts anew.
const TOKENS_MAX: usize = 100_000;
/// Most calls of a pool's provider at once. One that hangs keeps no other pool waiting.
const PROVIDER_CALLS_MAX: usize = 8;

impl Item for RunnerId {}

impl Item for RunnerSignal {
    fn bytes(&self) -> usize {
        self.detail.len()
    }
}

/// The part of a server that is about runner pools.
#[derive(Debug)]
pub struct RunnerPools {
    /// Who makes machines.
    pub providers: Providers,
    /// Machines that ended by themselves, as providers notice.
    pub(crate) ended: Arc<Ended>,
    /// Where some of them are registered.
    pub(crate) github: Github,
    /// Rung when claims may be filled, or are over.
    pub claims: Bell,
    /// Rung when there may be something to create or to end.
    pub keeper: Arc<Bell>,
    /// Agents that wait for something to do.
    pub runner_news: Watchers<RunnerId>,
    /// Callers that wait for a claim.
    pub claim_news: Watchers<ClaimNo>,
    pub(crate) beats: Coalescer<RunnerId, Option<RunnerNews>>,
    pub(crate) signals: Coalescer<RunnerSignal, SignalAnswer>,
    /// Told when machines were recorded: their agents may join.
    pub(crate) recorded: Notify,
    /// Calls of its provider that may be made now for each pool.
    calls: Mutex<HashMap<PoolNo, Arc<Semaphore>>>,
    /// Since when machines are listed that no row is for.
    pub(crate) strays: Mutex<HashMap<(PoolNo, String), Millis>>,
    /// Since when runners have machines that are not listed.
    pub(crate) missing: Mutex<HashMap<(PoolNo, RunnerId), Millis>>,
    /// When providers were last asked what they have.
    pub(crate) swept_at: Mutex<Option<Millis>>,
    /// Until when pools create nothing, because their last machines came to nothing, as it was last said.
    pub(crate) held_until: Mutex<HashMap<PoolNo, Millis>>,
    /// Pools whose numbers are shown, and under which labels.
    pub(crate) counted: Mutex<BTreeMap<PoolNo, PoolLabels>>,
    store: Arc<dyn Store>,
    news: mpsc::Sender<News>,
    events: Arc<Events>,
    names: Arc<PoolNames>,
    /// A token belongs to its runner for as long as that is known.
    tokens: Mutex<HashMap<Hash, RunnerId>>,
    installation: String,
    url: Option<String>,
    address: OnceLock<SocketAddr>,
}

impl RunnerPools {
    pub(crate) fn new(
        store: &Arc<dyn Store>,
        settings: &Settings,
        installation: &str,
        news: mpsc::Sender<News>,
        events: Arc<Events>,
        names: Arc<PoolNames>,
        gather: Duration,
    ) -> RunnerPools {
        let (beating, signalling) = (store.clone(), store.clone());
        let keeper = Arc::new(Bell::new(store.clock().clone()));
        let ended = Arc::new(Ended::new(keeper.clone()));
        RunnerPools {
            providers: Providers::new(settings, &ended),
            ended,
            github: Github::default(),
            claims: Bell::new(store.clock().clone()),
            keeper,
            runner_news: Watchers::default(),
            claim_news: Watchers::default(),
            // Nobody is in a hurry for the answers of heartbeats.
            beats: Coalescer::start(BATCH, Some(gather), move |runners: Vec<RunnerId>| {
                let store = beating.clone();
                async move { Ok(store.beat_runners(runners).await?) }
            }),
            signals: Coalescer::start(BATCH, None, move |signals: Vec<RunnerSignal>| {
                let store = signalling.clone();
                async move { Ok(store.signal_runners(signals).await?) }
            }),
            recorded: Notify::new(),
            calls: Mutex::default(),
            strays: Mutex::default(),
            missing: Mutex::default(),
            swept_at: Mutex::default(),
            held_until: Mutex::default(),
            counted: Mutex::default(),
            store: store.clone(),
            news,
            events,
            names,
            tokens: Mutex::default(),
            installation: installation.to_owned(),
            url: settings.pool_url.clone(),
            address: OnceLock::new(),
        }
    }

    // ---- telling

    /// These runners are in this state now. Their agents, here or on other servers, have something else to do.
    pub(crate) fn tell(&self, state: RunnerState, runners: impl IntoIterator<Item = RunnerId>) {
        let runners: Vec<RunnerId> = runners.into_iter().collect();
        self.events.runners(state, &runners);
        self.tell_agents(runners);
    }

    /// The agents of these runners, here or on other servers, have something else to do.
    pub(crate) fn tell_agents(&self, runners: impl IntoIterator<Item = RunnerId>) {
        for runner in runners {
            self.runner_news.changed(runner);
            // Only a hint: an agent hears of it with its next heartbeat in any case.
            let _ = self.news.try_send(News::Runner(runner));
        }
    }

    /// This claim has moved.
    pub(crate) fn moved(&self, claim: ClaimNo) {
        self.claim_news.changed(claim);
        // Only a hint: whoever waits elsewhere looks now and then.
        let _ = self.news.try_send(News::Claim(claim));
    }

    /// Another server says so.
    pub(crate) fn heard(&self, runners: &[RunnerId], claims: &[ClaimNo]) {
        runners.iter().for_each(|runner| self.runner_news.changed(*runner));
        claims.iter().for_each(|claim| self.claim_news.changed(*claim));
    }

    /// Some of what other servers said may have been missed.
    pub(crate) fn missed(&self) {
        self.runner_news.changed_all();
        self.claim_news.changed_all();
        self.claims.ring();
        self.keeper.ring();
    }

    // ---- remembering

    /// Calls of its provider that may be made now for a pool.
    pub(crate) fn calls(&self, pool: PoolNo) -> Arc<Semaphore> {
        let mut calls = self.calls.lock().expect("nobody panics while holding it");
        calls.entry(pool).or_insert_with(|| Arc::new(Semaphore::new(PROVIDER_CALLS_MAX))).clone()
    }

    /// How many machines are listed now that no row is for.
    pub fn strays_seen(&self) -> usize {
        self.strays.lock().expect("nobody panics while holding it").len()
    }

    /// How many runners have machines that are not listed now.
    pub fn missing_seen(&self) -> usize {
        self.missing.lock().expect("nobody panics while holding it").len()
    }

    /// All pools. Their names are remembered.
    pub(crate) async fn all(&self) -> Result<Vec<Pool>, Error> {
        let pools = self.names.all().await?;
        let numbers: HashSet<PoolNo> = pools.iter().map(|pool| pool.number).collect();
        // A call for a pool that is no more has its permits in hand.
        self.calls.lock().expect("nobody panics while holding it").retain(|pool, _| numbers.contains(pool));
        Ok(pools)
    }

    /// Namespace and name of a pool.
    pub(crate) async fn name(&self, pool: PoolNo) -> Result<(String, String), Error> {
        self.names.name(pool).await?.ok_or(Error::Internal)
    }

    /// The runner whose agent has the token with this hash.
    pub(crate) async fn runner_of(&self, token: &Hash) -> Result<Option<RunnerId>, Error> {
        let known = self.tokens.lock().expect("nobody panics while holding it").get(token).copied();
        if known.is_some() {
            return Ok(known);
        }
        let Some(runner) = self.store.runner_of_token(token).await? else { return Ok(None) };
        let mut tokens = self.tokens.lock().expect("nobody panics while holding it");
        if tokens.len() >= TOKENS_MAX {
            tokens.clear();
        }
        tokens.insert(*token, runner.id);
        Ok(Some(runner.id))
    }

    // ---- what providers and agents are told

    /// A pool, as providers see it.
    pub(crate) fn info(&self, pool: &Pool) -> PoolInfo {
        let mut spec = pool.spec.clone();
        GithubScope::strip(&mut spec.options);
        PoolInfo {
            // Numbers of pools are never used again, so a new pool of an old name does not get its machines.
            tag: format!("{}-{}", self.installation, pool.number),
            namespace: pool.namespace.clone(),
            name: pool.name.clone(),
            spec,
        }
    }

    /// Notes where this server listens.
    pub(crate) fn listens_on(&self, address: SocketAddr) {
        let _ = self.address.set(address);
    }

    /// The address of this server, as agents are told of it when nothing else is said.
    pub(crate) fn address(&self, settings: &Settings) -> Option<IpAddr> {
        let said = self.address.get().copied().or_else(|| settings.listen.parse().ok())?;
        Some(if said.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { said.ip() })
    }

    /// Where agents reach a server.
    pub(crate) fn url(&self, settings: &Settings) -> String {
        if let Some(url) = &self.url {
            return url.clone();
        }
        let said = self.address.get().copied().or_else(|| settings.listen.parse().ok());
        match said {
            Some(mut address) => {
                if address.ip().is_unspecified() {
                    address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
                }
                format!("{}://{address}", settings.scheme())
            }
            None => format!("{}://{}", settings.scheme(), settings.listen),
        }
    }
}
