//! The server's parts, put together. Store, settings and randomness come from outside.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use baton_store::{Beat, BeatAnswer, Completion, LeaseRef, Store, Submission, Verdict};

use crate::artifacts::{Cache, Seal, Storage, UploadLimits, Uploads};
use crate::auth::Keys;
use crate::backlog::Backlogs;
use crate::bodies::Bodies;
use crate::coalesce::Coalescer;
use crate::dispatch::Dispatcher;
use crate::entropy::Entropy;
use crate::hearing::Hearing;
use crate::lanes::Lanes;
use crate::loops::LoopReports;
use crate::metrics::Metrics;
use crate::watch::Watchers;
use crate::workers::Workers;
use crate::{Error, Settings, service};

/// Runs in one merged submit; larger submissions go alone.
pub(crate) const SUBMIT_BATCH: usize = 512;
/// Leases in one merged batch of results.
pub(crate) const RESULT_BATCH: usize = 1_000;
/// Heartbeats in one merged renewal.
const RENEW_BATCH: usize = 2_000;
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

/// The parts of a server.
#[derive(Debug)]
#[allow(missing_docs, reason = "each field is named as its type, which is documented")]
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub settings: Settings,
    pub entropy: Arc<dyn Entropy>,
    pub metrics: Arc<Metrics>,
    pub lanes: Arc<Lanes>,
    pub workers: Arc<Workers>,
    pub dispatcher: Arc<Dispatcher>,
    pub backlogs: Backlogs,
    pub keys: Keys,
    pub bodies: Bodies,
    pub storage: Storage,
    pub seal: Seal,
    pub cache: Cache,
    pub uploads: Uploads,
    pub counted: service::builds::overview::Counted,
    /// Who waits for lines of a build's log.
    pub log_news: Watchers,
    pub watchers: Arc<Watchers>,
    pub hearing: Hearing,
    pub loops: LoopReports,
    /// The installation's secret, from which lease tokens are derived.
    pub secret: [u8; 32],
    pub(crate) submits: Coalescer<Submission, service::submit::Answered>,
    pub(crate) starts: Coalescer<LeaseRef, Verdict>,
    pub(crate) completions: Coalescer<Completion, Verdict>,
    pub(crate) renewals: Coalescer<Beat, BeatAnswer>,
    /// Lanes other servers are to be told of.
    pub(crate) news: tokio::sync::mpsc::Sender<baton_store::LaneId>,
}

impl App {
    /// Puts a server together. It serves nothing yet; its loops are started by [`crate::serve`].
    pub async fn build(
        store: Arc<dyn Store>,
        storage: Storage,
        settings: Settings,
        entropy: Arc<dyn Entropy>,
    ) -> Result<App, Error> {
        let mut fresh = [0; 32];
        entropy.fill(&mut fresh);
        let secret = store.secret(fresh).await?;
        let metrics = Arc::new(Metrics::new());
        let lanes = Arc::new(Lanes::load(store.clone()).await?);
        let workers = Arc::new(Workers::new(store.clone()));
        let dispatcher = Arc::new(Dispatcher::new(store.clone(), lanes.clone(), metrics.clone()));
        let watchers = Arc::new(Watchers::default());
        let news = service::news::start(store.clone());
        let after = service::After { dispatcher: dispatcher.clone(), watchers: watchers.clone(), news: news.clone() };
        let keys = Keys::new(store.clone(), &settings);
        let backlogs = Backlogs::new(store.clone(), settings.backlog_max);
        Ok(App(Arc::new(Parts {
            submits: service::submit::coalescer(store.clone(), dispatcher.clone(), metrics.clone(), SUBMIT_BATCH),
            starts: service::start::coalescer(store.clone(), metrics.clone(), RESULT_BATCH),
            completions: service::complete::coalescer(store.clone(), metrics.clone(), after, RESULT_BATCH),
            renewals: service::renew::coalescer(store.clone(), metrics.clone(), RENEW_BATCH, RENEW_GATHER),
            bodies: Bodies::new(settings.bodies_bytes_max),
            seal: Seal::new(&secret, entropy.clone()),
            cache: Cache::new(storage.clone(), settings.cache_bytes_max, &entropy),
            uploads: Uploads::new(storage.clone(), upload_limits(&settings), entropy.clone()),
            counted: service::builds::overview::Counted::default(),
            log_news: Watchers::default(),
            storage,
            hearing: Hearing::new(store.clock().clone()),
            loops: LoopReports::default(),
            store,
            settings,
            entropy,
            metrics,
            lanes,
            workers,
            dispatcher,
            backlogs,
            keys,
            watchers,
            secret,
            news,
        })))
    }

    /// What is to be done after a commit.
    pub(crate) fn after(&self) -> service::After {
        service::After { dispatcher: self.dispatcher.clone(), watchers: self.watchers.clone(), news: self.news.clone() }
    }
}

fn upload_limits(settings: &Settings) -> UploadLimits {
    UploadLimits { bytes_max: settings.artifact_bytes_max, expires_after_ms: settings.upload_expiry_ms as i64 }
}
