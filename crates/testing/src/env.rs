//! A whole Baton for one test.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton::{Client, ResultError, StartWorkflow, WorkflowHandle};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::AbortHandle;

use crate::TestWorker;
use crate::crash::Crashes;
use crate::site::Site;

/// Where clocks begin unless told otherwise: the first of January 2024, a Monday, at midnight UTC.
const BEGINNING: Duration = Duration::from_secs(1_704_067_200);

/// A whole Baton for one test: server, store, clock and workers. It is gone when it is dropped.
///
/// Time stands still, except while the test waits for something through this: [`run`](TestEnv::run) and [`result`](TestEnv::result) let pass what it takes,
/// [`skip_time`](TestEnv::skip_time) as much as it is told. So a test may look at a workflow that waits, and send it a signal, without being late.
pub struct TestEnv {
    parts: Arc<Parts>,
    /// Lets the workers fall when it is time.
    undertaker: AbortHandle,
}

struct Parts {
    site: Site,
    workers: Mutex<Vec<TestWorker>>,
    /// Held by whoever starts workers or lets them fall: several tasks of a test may wait at once.
    changing: tokio::sync::Mutex<()>,
    crashes: Arc<Crashes>,
}

impl fmt::Debug for TestEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestEnv").field("url", &self.url()).finish_non_exhaustive()
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        self.undertaker.abort();
        for worker in self.parts.workers() {
            worker.stop();
        }
    }
}

impl TestEnv {
    /// Starts one. Its clock shows midnight of the first of January 2024, UTC.
    pub async fn start() -> TestEnv {
        TestEnv::make(UNIX_EPOCH + BEGINNING, Crashes::default()).await
    }

    /// Starts one whose clock shows this moment.
    pub async fn start_at(moment: SystemTime) -> TestEnv {
        TestEnv::make(moment, Crashes::default()).await
    }

    pub(crate) async fn that_crashes_at(turn: Option<u64>) -> TestEnv {
        TestEnv::make(UNIX_EPOCH + BEGINNING, Crashes::at(turn)).await
    }

    async fn make(moment: SystemTime, crashes: Crashes) -> TestEnv {
        let site = Site::start(moment).await;
        let parts = Arc::new(Parts {
            site,
            workers: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            crashes: Arc::new(crashes),
        });
        let undertaker = tokio::spawn({
            let parts = parts.clone();
            async move {
                loop {
                    parts.crashes.struck().await;
                    parts.crash().await;
                }
            }
        });
        TestEnv { parts, undertaker: undertaker.abort_handle() }
    }

    /// Where the server listens.
    pub fn url(&self) -> &str {
        &self.parts.site.url
    }

    /// An API key that may do everything.
    pub fn api_key(&self) -> &str {
        self.parts.site.api_key()
    }

    /// A client of the server.
    pub fn client(&self) -> Client {
        self.parts.site.client.clone()
    }

    /// What the clock shows. [`baton::Context::now`] goes by it.
    pub fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(u64::try_from(self.parts.site.now()).unwrap_or(0))
    }

    // ---- workers

    /// Adds a worker that serves this queue; tell it what to [play](TestWorker::register).
    pub fn worker(&self, queue: impl Into<String>) -> TestWorker {
        let mut workers = self.parts.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let worker =
            TestWorker::new(workers.len() + 1, queue.into(), self.parts.crashes.clone(), self.parts.site.clock.clone());
        workers.push(worker.clone());
        worker
    }

    /// Lets all workers fall, as with `kill -9`, and starts new ones. What was under way is begun again from what was written down.
    pub async fn crash_workers(&self) {
        self.parts.crash().await;
    }

    pub(crate) async fn begin_workers(&self) {
        self.parts.begin_workers().await;
    }

    pub(crate) fn is_falling(&self) -> bool {
        self.parts.crashes.is_falling()
    }

    pub(crate) fn turns(&self) -> u64 {
        self.parts.crashes.turns()
    }

    pub(crate) fn site(&self) -> &Site {
        &self.parts.site
    }

    // ---- workflows

    /// Starts a workflow, as [`Client::start`] does, on the queue and in the namespace of the worker that plays its type.
    pub fn begin(&self, workflow_type: &str, input: &impl Serialize) -> StartWorkflow {
        let start = self.parts.site.client.start(workflow_type, input);
        let home = self.parts.workers().iter().find_map(|worker| worker.home_of(workflow_type));
        match home {
            Some((namespace, queue)) => start.namespace(namespace).queue(queue),
            None => start,
        }
    }

    /// Starts a workflow and lets pass what time it takes to come to its result.
    ///
    /// # Panics
    /// When it will never end, because it waits for what nobody sends.
    pub async fn run<T: DeserializeOwned>(
        &self,
        workflow_type: &str,
        input: &impl Serialize,
    ) -> Result<T, ResultError> {
        let handle = self.begin(workflow_type, input).await?;
        self.result(&handle).await
    }

    /// Lets pass what time it takes the workflow to come to its result. One that continues as new is followed.
    ///
    /// # Panics
    /// When it will never end, because it waits for what nobody sends.
    pub async fn result<T: DeserializeOwned>(&self, handle: &WorkflowHandle) -> Result<T, ResultError> {
        self.skip_time_until_ended(handle).await?;
        handle.result().await
    }
}

impl Parts {
    fn workers(&self) -> Vec<TestWorker> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn begin_workers(&self) {
        let _changing = self.changing.lock().await;
        for worker in self.workers() {
            worker.begin(&self.site).await;
        }
    }

    async fn crash(&self) {
        let _changing = self.changing.lock().await;
        self.crashes.down();
        for worker in self.workers() {
            worker.fall(&self.site).await;
        }
        // Before the new ones begin: their functions may go on.
        self.crashes.up();
        for worker in self.workers() {
            worker.begin(&self.site).await;
        }
    }
}
