//! Plain runs: calls about them, and the loop that a program needs to work on them. Durable workflows have a worker of their own, [`crate::Worker`].

mod calls;
mod cancel;
mod event;
mod failure;
mod incarnation;
mod pause;
mod task;

pub use cancel::{Cancel, Stop};
pub use event::{Report, WorkerEvent};
pub use failure::Failure;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use baton_proto::{CLAIM_WAIT_MS_MAX, ClaimedRun, HealthReport, NAMESPACE_DEFAULT, QUEUE_DEFAULT, RegisterWorker};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::{Client, ClientError};
use incarnation::{End, Incarnation};
use pause::Paused;

/// How long to wait before a call is repeated that nobody answered.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

type Handler =
    Arc<dyn Fn(ClaimedRun, Cancel) -> Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send>> + Send + Sync>;
type Watcher = Arc<dyn Fn(WorkerEvent) + Send + Sync>;
type Health = Arc<dyn Fn() -> HealthReport + Send + Sync>;

/// Works on runs: registers, sends heartbeats, claims, calls a handler, reports, and drains when told to stop.
///
/// It outlives the server: whatever gets no answer is repeated. When the server has given it up (it was silent for
/// longer than its leases live), it stops its handlers and registers again.
#[derive(Clone)]
pub struct Worker {
    client: Client,
    registration: RegisterWorker,
    claim_wait: Duration,
    drain_timeout: Duration,
    stop_grace: Duration,
    watcher: Watcher,
    health: Option<Health>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("registration", &self.registration).finish_non_exhaustive()
    }
}

impl Worker {
    /// A worker that can do runs of these types. It serves the queue `default`, one run at a time, unless told
    /// otherwise.
    pub fn new<T: Into<String>>(client: Client, types: impl IntoIterator<Item = T>) -> Worker {
        let registration = RegisterWorker {
            namespace: NAMESPACE_DEFAULT.into(),
            name: None,
            queues: Vec::new(),
            types: types.into_iter().map(Into::into).collect(),
            hostname: None,
            pid: Some(std::process::id()),
            version: None,
            labels: Default::default(),
            max_concurrent: Some(1),
            instance: None,
        };
        Worker {
            client,
            registration,
            claim_wait: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(30),
            stop_grace: Duration::from_secs(10),
            watcher: Arc::new(drop),
            health: None,
        }
    }

    /// Works in this namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Worker {
        self.registration.namespace = namespace.into();
        self
    }

    /// Serves this queue, too.
    pub fn queue(mut self, queue: impl Into<String>) -> Worker {
        self.registration.queues.push(queue.into());
        self
    }

    /// Goes by this name, which survives restarts.
    pub fn name(mut self, name: impl Into<String>) -> Worker {
        self.registration.name = Some(name.into());
        self
    }

    /// Runs on this host.
    pub fn hostname(mut self, hostname: impl Into<String>) -> Worker {
        self.registration.hostname = Some(hostname.into());
        self
    }

    /// Is of this version.
    pub fn version(mut self, version: impl Into<String>) -> Worker {
        self.registration.version = Some(version.into());
        self
    }

    /// Carries this label.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Worker {
        self.registration.labels.insert(name.into(), value.into());
        self
    }

    /// Works on this many runs at once.
    pub fn concurrency(mut self, runs: u32) -> Worker {
        self.registration.max_concurrent = Some(runs.max(1));
        self
    }

    /// Waits this long for work before it asks again; 30 seconds unless given.
    pub fn claim_wait(mut self, wait: Duration) -> Worker {
        self.claim_wait = wait.min(Duration::from_millis(CLAIM_WAIT_MS_MAX));
        self
    }

    /// Finishes what it holds for at most this long when it is told to stop; 30 seconds unless given.
    pub fn drain_timeout(mut self, timeout: Duration) -> Worker {
        self.drain_timeout = timeout;
        self
    }

    /// Drops a handler that has not returned this long after it was told to stop; 10 seconds unless given.
    pub fn stop_grace(mut self, grace: Duration) -> Worker {
        self.stop_grace = grace;
        self
    }

    /// Calls `watcher` whenever something happens. It must return quickly.
    pub fn watch(mut self, watcher: impl Fn(WorkerEvent) + Send + Sync + 'static) -> Worker {
        self.watcher = Arc::new(watcher);
        self
    }

    /// Calls `health` for every heartbeat and sends what it measured. It must return quickly.
    pub fn health(mut self, health: impl Fn() -> HealthReport + Send + Sync + 'static) -> Worker {
        self.health = Some(Arc::new(health));
        self
    }

    /// Works until `shutdown` resolves or the server asks the worker to drain; then it finishes what it holds, gives
    /// back what takes too long, and says goodbye. Fails only when the server refuses the worker for good.
    pub async fn run<H, F>(mut self, handler: H, shutdown: impl Future<Output = ()>) -> Result<(), ClientError>
    where
        H: Fn(ClaimedRun, Cancel) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Value, Failure>> + Send + 'static,
    {
        if self.registration.queues.is_empty() {
            self.registration.queues.push(QUEUE_DEFAULT.into());
        }
        let handler: Handler = Arc::new(move |run, cancel| Box::pin(handler(run, cancel)));
        // Shared by all incarnations: a handler of the one before may still have to come to its end.
        let slots = Arc::new(Semaphore::new(self.registration.max_concurrent.unwrap_or(1) as usize));
        let paused = Arc::new(Paused::default());
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let incarnation = tokio::select! {
                registered = self.register(handler.clone(), slots.clone(), paused.clone()) => Arc::new(registered?),
                () = &mut shutdown => return Ok(()),
            };
            match incarnation.live(shutdown.as_mut()).await {
                End::Forgotten => {}
                End::Drain => return Ok(()),
                End::Fatal(error) => return Err(error),
            }
        }
    }

    async fn register(
        &self,
        handler: Handler,
        slots: Arc<Semaphore>,
        paused: Arc<Paused>,
    ) -> Result<Incarnation, ClientError> {
        // One name for all tries of this registration: should an answer get lost, the next try finds the same worker.
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|error| ClientError::Invalid(format!("the system gives no random numbers: {error}")))?;
        let instance = format!("{:032x}", u128::from_be_bytes(random));
        let registration = RegisterWorker { instance: Some(instance), ..self.registration.clone() };
        loop {
            match self.client.register(&registration).await {
                Ok(registered) => {
                    let worker_id = registered.worker_id.clone();
                    (self.watcher)(WorkerEvent::Registered { worker_id });
                    return Ok(Incarnation::new(self, registered, handler, slots, paused));
                }
                Err(error) if error.is_transient() => {
                    (self.watcher)(WorkerEvent::Unreachable { call: "register".into(), message: error.to_string() });
                    sleep(RETRY_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}
