//! The server's parts, put together. Store, settings and randomness come from outside.

use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use baton_core::{RunId, WorkerId};
use baton_store::{
    Beat, BeatAnswer, Completion, LeaseRef, StepAnswer, StepWrite, Store, Submission, SuspendAnswer, Suspension,
    Verdict,
};
use tokio_util::sync::CancellationToken;

use crate::answers::Answers;
use crate::artifacts::{Cache, Storage, UploadLimits, Uploads};
use crate::audit::Audit;
use crate::auth::Keys;
use crate::backlog::Backlogs;
use crate::bell::Bell;
use crate::bodies::Bodies;
use crate::bulk_turns::BulkTurns;
use crate::coalesce::Coalescer;
use crate::disks::Disks;
use crate::dispatch::Dispatcher;
use crate::entropy::Entropy;
use crate::events::{Changes, Events, Names};
use crate::hearing::Hearing;
use crate::inboxes::Inboxes;
use crate::lanes::Lanes;
use crate::loops::LoopReports;
use crate::metrics::Metrics;
use crate::namespaces::KnownNamespaces;
use crate::polls::Polls;
use crate::pool_names::PoolNames;
use crate::proxies::Proxies;
use crate::refusals::Refusals;
use crate::runner_pools::RunnerPools;
use crate::secrets::{MasterKeySource, Secrets};
use crate::settings::LiveSettings;
use crate::statistics::Statistics;
use crate::store_time::StoreTime;
use crate::tls::Tls;
use crate::traces::RunTraces;
use crate::watch::Watchers;
use crate::webhooks::{WebhookSignals, Webhooks};
use crate::workers::Workers;
use crate::{Error, Settings, service};

/// Runs in one merged submit; larger submissions go alone.
pub(crate) const SUBMIT_BATCH: usize = 512;
/// Leases in one merged batch of results.
pub(crate) const RESULT_BATCH: usize = 1_000;
/// Heartbeats in one merged renewal.
const RENEW_BATCH: usize = 2_000;
/// How long claims that waited for nothing gather. Their workers are not in the line meanwhile.
const EMPTY_GATHER: Duration = Duration::from_millis(50);
/// How long heartbeats gather: nobody is in a hurry for their answers.
const RENEW_GATHER: Duration = Duration::from_millis(200);

/// Everything a service verb needs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct App(Arc<Parts>);

impl Deref for App {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// Routes of the dashboard, which is a crate of its own.
pub type Dashboard = fn() -> axum::Router<App>;

/// The parts of a server.
#[derive(Debug)]
#[allow(missing_docs, reason = "each field is named as its type, which is documented")]
pub struct Parts {
    pub store: Arc<dyn Store>,
    /// What the server was started with. What can be changed while it runs is read with [`Parts::current`].
    pub settings: Settings,
    pub live: Arc<LiveSettings>,
    pub polls: Polls,
    pub entropy: Arc<dyn Entropy>,
    pub metrics: Arc<Metrics>,
    pub lanes: Arc<Lanes>,
    pub workers: Arc<Workers>,
    pub namespaces: Arc<KnownNamespaces>,
    pub dispatcher: Arc<Dispatcher>,
    /// The schema's version and the last one known, if a newer program has changed it.
    pub newer_schema: Mutex<Option<(i32, i32)>>,
    pub backlogs: Backlogs,
    pub keys: Keys,
    /// Sessions of the dashboard that were seen lately.
    pub sessions: service::sessions::KnownSessions,
    pub audit: Arc<Audit>,
    pub bodies: Bodies,
    /// Room for answers on their way out.
    pub answers: Answers,
    pub disks: Disks,
    /// Who is believed when it says whom it speaks for.
    pub proxies: Proxies,
    /// Whose pages may call the API from a browser.
    pub(crate) cors: crate::http::Origins,
    /// How connections are encrypted, if they are.
    pub tls: OnceLock<Arc<Tls>>,
    /// The pages for people, when the program has them.
    pub(crate) dashboard: OnceLock<Dashboard>,
    /// Grows with what happens here, so that pages know when to look again.
    pub changes: Arc<Changes>,
    pub storage: Storage,
    pub cache: Cache,
    pub uploads: Uploads,
    pub counted: service::builds::overview::Counted,
    pub key_workers: service::builds::git::KeyWorkers,
    /// What needed somebody a moment ago.
    pub(crate) attention: service::attention::Looked,
    /// Who waits for lines of a build's log.
    pub log_news: Watchers,
    pub watchers: Arc<Watchers>,
    /// Who waits for messages of workflows.
    pub inboxes: Arc<Inboxes>,
    /// Rung when runs have ended: their relatives are to be told.
    pub ends: Arc<Bell>,
    /// Rung when a schedule is to be looked at.
    pub schedules: Bell,
    /// Rung when a deadline of a run has come.
    pub deadlines: Bell,
    /// What this server remembers of bulk operations.
    pub bulk: BulkTurns,
    /// What happens, for those who listen.
    pub events: Arc<Events>,
    /// Writes that were refused because their lease was over.
    pub(crate) refusals: Refusals,
    /// The traces that runs are part of.
    pub traces: Arc<RunTraces>,
    /// Numbers about queues, workers and pools, as series.
    pub statistics: Statistics,
    /// Events that are told by calls.
    pub webhooks: Webhooks,
    /// What this server knows of runner pools.
    pub pools: RunnerPools,
    pub time: StoreTime,
    /// Cancelled when the server stops: streams end.
    pub stopping: CancellationToken,
    pub hearing: Hearing,
    pub loops: LoopReports,
    /// The installation's secret, from which tokens and seals are derived.
    pub secrets: Secrets,
    pub run_lanes: service::payloads::RunLanes,
    pub(crate) submits: Coalescer<Submission, service::submit::Answered>,
    pub(crate) starts: Coalescer<LeaseRef, Verdict>,
    pub(crate) completions: Coalescer<Completion, Verdict>,
    pub(crate) renewals: Coalescer<Beat, BeatAnswer>,
    /// Claims that found nothing at once, and those that waited for nothing and are in no hurry
    /// now.
    pub(crate) empty_claims: Coalescer<(WorkerId, i64), bool>,
    pub(crate) empty_waits: Coalescer<(WorkerId, i64), bool>,
    pub(crate) step_writes: Coalescer<StepWrite, StepAnswer>,
    pub(crate) suspensions: Coalescer<Suspension, SuspendAnswer>,
    /// Workflows that somebody reads or waits for.
    pub(crate) reads: Coalescer<RunId, service::workflows::read::Known>,
    /// What other servers are to be told.
    pub(crate) news: tokio::sync::mpsc::Sender<service::news::News>,
}

impl Parts {
    /// The settings as they are now.
    pub fn current(&self) -> Arc<Settings> {
        self.live.get()
    }

    /// True when agents of runners could not be heard until a moment ago: what they have not said in time proves nothing.
    pub fn is_deaf_to_agents(&self) -> bool {
        let settings = self.current();
        let heard_ms = settings.pool_heartbeat_timeout_ms.max(settings.pool_new_heartbeat_timeout_ms);
        !self.hearing.has_heard_for(&settings, heard_ms)
    }
}

impl App {
    /// Puts a server together. It serves nothing yet; its loops are started by [`crate::serve`].
    pub async fn build(
        store: Arc<dyn Store>,
        storage: Storage,
        settings: Settings,
        entropy: Arc<dyn Entropy>,
    ) -> Result<App, Error> {
        let secrets = Secrets::open(store.clone(), MasterKeySource::of(&settings), entropy.clone()).await?;
        let metrics = Arc::new(Metrics::new(store.kind()));
        // Where the store's clock is moved by hand nobody's time is saved by waiting.
        let gather = store.clock().fixed().is_none().then_some(RENEW_GATHER);
        let lanes = Arc::new(Lanes::load(store.clone()).await?);
        metrics.queues.use_names(lanes.clone());
        let statistics = Statistics::start(store.clone(), lanes.clone(), metrics.clone(), &*entropy).await?;
        let workers = Arc::new(Workers::new(store.clone()));
        let namespaces = Arc::new(KnownNamespaces::load(store.clone()).await?);
        let news = service::news::start(store.clone());
        let pool_names = Arc::new(PoolNames::new(store.clone()));
        let names = Names { lanes: lanes.clone(), pools: pool_names.clone() };
        // A database that was restored must not give out positions again that somebody has seen.
        store.skip_events().await?;
        let traces = RunTraces::start(&settings, store.clone(), lanes.clone(), workers.clone(), entropy.clone());
        let signals = Arc::new(WebhookSignals::new(store.clock().clone()));
        let events = Arc::new(Events::start(
            store.clone(),
            names,
            &*entropy,
            news.clone(),
            traces.clone(),
            signals.clone(),
            metrics.clone(),
        ));
        let changes = events.changes();
        let dispatcher = Arc::new(Dispatcher::new(
            store.clone(),
            lanes.clone(),
            namespaces.clone(),
            entropy.clone(),
            metrics.clone(),
            events.clone(),
        ));
        let watchers = Arc::new(Watchers::default());
        let inboxes = Arc::new(Inboxes::default());
        let ends = Arc::new(Bell::new(store.clock().clone()));
        let after = service::After {
            dispatcher: dispatcher.clone(),
            watchers: watchers.clone(),
            workers: workers.clone(),
            news: news.clone(),
            inboxes: inboxes.clone(),
            ends: ends.clone(),
            metrics: metrics.clone(),
            events: events.clone(),
        };
        let live = Arc::new(LiveSettings::new(settings.clone()));
        live.take(store.settings().await?);
        let sink = settings.audit_sink.as_deref().and_then(|sink| sink.parse().ok());
        let audit = Arc::new(Audit::new(store.clone(), sink, metrics.clone()));
        let keys = Keys::new(store.clone(), audit.clone(), &settings, live.clone());
        let backlogs = Backlogs::new(store.clone(), live.clone());
        let app = App(Arc::new(Parts {
            submits: service::submit::coalescer(
                store.clone(),
                dispatcher.clone(),
                metrics.clone(),
                events.clone(),
                SUBMIT_BATCH,
            ),
            starts: service::start::coalescer(store.clone(), metrics.clone(), RESULT_BATCH),
            step_writes: service::workflows::steps::coalescer(store.clone(), metrics.clone(), RESULT_BATCH),
            suspensions: service::workflows::suspend::coalescer(
                store.clone(),
                metrics.clone(),
                after.clone(),
                RESULT_BATCH,
            ),
            reads: service::workflows::read::coalescer(store.clone()),
            completions: service::complete::coalescer(store.clone(), metrics.clone(), after, RESULT_BATCH),
            renewals: service::renew::coalescer(store.clone(), metrics.clone(), RENEW_BATCH, gather),
            empty_claims: service::claim::coalescer(store.clone(), RENEW_BATCH, None),
            empty_waits: service::claim::coalescer(store.clone(), RENEW_BATCH, gather.map(|_| EMPTY_GATHER)),
            bodies: Bodies::new(settings.bodies_bytes_max),
            answers: Answers::new(&settings),
            disks: Disks::new(&settings),
            proxies: Proxies::parse(&settings.trusted_proxies).unwrap_or_default(),
            cors: crate::http::Origins::parse(&settings.cors_origins).unwrap_or_default(),
            tls: OnceLock::new(),
            dashboard: OnceLock::new(),
            changes,
            cache: Cache::new(storage.clone(), settings.cache_bytes_max, &entropy),
            uploads: Uploads::new(storage.clone(), upload_limits(&settings), entropy.clone()),
            counted: service::builds::overview::Counted::default(),
            key_workers: service::builds::git::KeyWorkers::default(),
            attention: service::attention::Looked::default(),
            log_news: Watchers::default(),
            refusals: Refusals::start(store.clone(), events.clone(), metrics.clone()),
            events: events.clone(),
            traces,
            statistics,
            webhooks: Webhooks::new(signals),
            pools: RunnerPools::new(
                &store,
                &settings,
                secrets.installation(),
                news.clone(),
                events.clone(),
                pool_names,
                RENEW_GATHER,
            ),
            storage,
            hearing: Hearing::new(store.clock().clone()),
            schedules: Bell::new(store.clock().clone()),
            deadlines: Bell::new(store.clock().clone()),
            bulk: BulkTurns::new(store.clock().clone()),
            time: StoreTime::new(store.clone()),
            loops: LoopReports::default(),
            store,
            settings,
            live,
            polls: Polls::default(),
            entropy,
            metrics,
            lanes,
            workers,
            namespaces,
            dispatcher,
            newer_schema: Mutex::default(),
            backlogs,
            keys,
            sessions: service::sessions::KnownSessions::default(),
            audit,
            watchers,
            inboxes,
            ends,
            stopping: CancellationToken::new(),
            secrets,
            run_lanes: service::payloads::RunLanes::default(),
            news,
        }));
        app.webhooks.start(&app).await?;
        Ok(app)
    }

    /// Has connections encrypted. To be called before [`crate::serve`].
    pub fn use_tls(&self, tls: Arc<Tls>) {
        let _ = self.tls.set(tls);
    }

    /// Has the dashboard served beside the API. To be called before [`crate::serve`].
    pub fn use_dashboard(&self, dashboard: Dashboard) {
        let _ = self.dashboard.set(dashboard);
    }

    /// Takes over settings that were changed, here or by another server.
    pub(crate) async fn refresh_settings(&self) -> Result<bool, Error> {
        let changed = self.live.take(self.store.settings().await?);
        if changed {
            self.backlogs.forget_all();
        }
        Ok(changed)
    }

    /// Takes over namespaces that were changed, here or by another server.
    pub(crate) async fn refresh_namespaces(&self) -> Result<usize, Error> {
        let turned = self.namespaces.refresh().await?;
        turned.iter().for_each(|name| self.dispatcher.turn(name));
        Ok(turned.len())
    }

    /// What is to be done after a commit.
    pub(crate) fn after(&self) -> service::After {
        service::After {
            dispatcher: self.dispatcher.clone(),
            watchers: self.watchers.clone(),
            workers: self.workers.clone(),
            news: self.news.clone(),
            inboxes: self.inboxes.clone(),
            ends: self.ends.clone(),
            metrics: self.metrics.clone(),
            events: self.events.clone(),
        }
    }
}

fn upload_limits(settings: &Settings) -> UploadLimits {
    UploadLimits { bytes_max: settings.artifact_bytes_max, expires_after_ms: settings.upload_expiry_ms as i64 }
}
