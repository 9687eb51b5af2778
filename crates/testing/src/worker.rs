//! Workers of a test: written down first, started when the test begins to wait, and started anew when they fall.

use std::future::{Future, pending};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton::{ClientError, Context, Worker, WorkerFilter, WorkflowError};
use baton_store::Clock;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use crate::crash::{Crashes, Watched};
use crate::site::Site;

/// Most workers of one page.
const PAGE: usize = 1_000;

type Register = Arc<dyn Fn(&mut Worker) + Send + Sync>;

/// A worker of a test, made by [`TestEnv::worker`](crate::TestEnv::worker). It begins to work when the test first waits for something.
#[derive(Clone)]
pub struct TestWorker {
    plan: Arc<Mutex<Plan>>,
    crashes: Arc<Crashes>,
    clock: Clock,
}

/// What a worker is made with, and the one that was.
struct Plan {
    number: usize,
    queue: String,
    namespace: String,
    version: String,
    max_concurrent: Option<u32>,
    workflows: Vec<(String, Register)>,
    working: Option<JoinHandle<Result<(), ClientError>>>,
}

impl std::fmt::Debug for TestWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plan = self.lock();
        let types: Vec<&String> = plan.workflows.iter().map(|(name, _)| name).collect();
        f.debug_struct("TestWorker").field("queue", &plan.queue).field("types", &types).finish_non_exhaustive()
    }
}

impl TestWorker {
    pub(crate) fn new(number: usize, queue: String, crashes: Arc<Crashes>, clock: Clock) -> TestWorker {
        let plan = Plan {
            number,
            queue,
            namespace: "default".into(),
            version: String::new(),
            max_concurrent: None,
            workflows: Vec::new(),
            working: None,
        };
        TestWorker { plan: Arc::new(Mutex::new(plan)), crashes, clock }
    }

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Plan)) -> &Self {
        let mut plan = self.lock();
        assert!(plan.working.is_none(), "a worker is described before the test waits for anything: it works already");
        change(&mut plan);
        drop(plan);
        self
    }

    /// Plays workflows of this type with this function, as [`baton::Worker::register`] does.
    pub fn register<I, O, E, F, R>(&self, workflow_type: impl Into<String>, function: F) -> &Self
    where
        F: Fn(Context, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, E>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        E: Into<WorkflowError> + 'static,
    {
        let (workflow_type, function) = (workflow_type.into(), Arc::new(function));
        let (name, crashes, clock) = (workflow_type.clone(), self.crashes.clone(), self.clock.clone());
        let register: Register = Arc::new(move |worker| {
            let (function, crashes, clock) = (function.clone(), crashes.clone(), clock.clone());
            worker.register(name.clone(), move |ctx: Context, input: I| {
                Watched::new(function(ctx, input), crashes.clone(), clock.clone())
            });
        });
        self.change(|plan| plan.workflows.push((workflow_type, register)))
    }

    /// Works in this namespace; in `default` unless given.
    pub fn namespace(&self, namespace: impl Into<String>) -> &Self {
        self.change(|plan| plan.namespace = namespace.into())
    }

    /// Holds so many runs at once.
    pub fn max_concurrent(&self, runs: u32) -> &Self {
        self.change(|plan| plan.max_concurrent = Some(runs))
    }

    /// Is of this version.
    pub fn version(&self, version: impl Into<String>) -> &Self {
        self.change(|plan| plan.version = version.into())
    }

    /// The namespace and the queue, if it plays workflows of this type.
    pub(crate) fn home_of(&self, workflow_type: &str) -> Option<(String, String)> {
        let plan = self.lock();
        let plays = plan.workflows.iter().any(|(name, _)| name == workflow_type);
        plays.then(|| (plan.namespace.clone(), plan.queue.clone()))
    }

    /// Begins to work, unless it does already or has nothing to work on.
    pub(crate) async fn begin(&self, site: &Site) {
        let (builder, workflows) = {
            let plan = self.lock();
            if plan.working.is_some() || plan.workflows.is_empty() {
                return;
            }
            let mut builder = Worker::builder(&site.url, &plan.queue)
                .api_key(site.api_key())
                .namespace(&plan.namespace)
                .version(&plan.version)
                .name(name(plan.number));
            if let Some(runs) = plan.max_concurrent {
                builder = builder.max_concurrent(runs);
            }
            (builder, plan.workflows.clone())
        };
        let mut worker = builder.build().await.expect("the server of a test can be reached");
        for (_, register) in workflows {
            register(&mut worker);
        }
        self.lock().working = Some(tokio::spawn(worker.run_until(pending())));
    }

    /// Stops at once. Nobody asks any more.
    pub(crate) fn stop(&self) {
        if let Some(working) = self.lock().working.take() {
            working.abort();
        }
    }

    /// Falls, as with `kill -9`: nothing is said, nothing is finished. What it held goes to others.
    pub(crate) async fn fall(&self, site: &Site) {
        let (number, working) = {
            let mut plan = self.lock();
            (plan.number, plan.working.take())
        };
        let Some(working) = working else { return };
        working.abort();
        let _ = working.await;
        // In production its leases would run out.
        let filter = WorkerFilter { status: Some("ONLINE".into()), limit: Some(PAGE), ..WorkerFilter::default() };
        let workers = site.client.workers(&filter).await.expect("the server of a test can be reached").workers;
        for worker in workers.iter().filter(|worker| worker.name == name(number)) {
            site.client.force_offline(&worker.id).await.expect("the server of a test can be reached");
        }
    }
}

fn name(number: usize) -> String {
    format!("test worker {number}")
}
