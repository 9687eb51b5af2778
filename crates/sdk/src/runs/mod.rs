//! Plain runs: calls about them, and the loop that a program needs to work on them. Durable
//! workflows have a worker of their own, [`crate::Worker`].

mod calls;
mod cancel;
mod event;
mod failure;
mod incarnation;
mod measuring;
mod pause;
mod polls;
mod task;

pub use cancel::{Cancel, Stop};
pub use event::{Report, WorkerEvent};
pub use failure::Failure;

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use baton_otlp::Exporter;
use baton_proto::{CLAIM_WAIT_MS_MAX, ClaimedRun, HealthReport, NAMESPACE_DEFAULT, QUEUE_DEFAULT, RegisterWorker};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::background::Background;
use crate::spans;
use crate::{Client, ClientError};
use incarnation::{End, Incarnation};
use measuring::Measuring;
use pause::Paused;

/// How long to wait before a call is repeated that nobody answered.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Events that wait for whoever watches.
const EVENTS_MAX: usize = 4_096;
/// The name of the worker's own thread.
const THREAD: &str = "baton-worker";

type Handler =
    Arc<dyn Fn(ClaimedRun, Cancel) -> Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send>> + Send + Sync>;
type Watcher = Arc<dyn Fn(WorkerEvent) + Send + Sync>;
type Health = Arc<dyn Fn() -> HealthReport + Send + Sync>;

/// Works on runs: registers, sends heartbeats, claims, calls a handler, reports, and drains when
/// told to stop.
///
/// It outlives the server: whatever gets no answer is repeated. When the server has given it up (it
/// was silent for
/// longer than its leases live), it stops its handlers and registers again.
#[derive(Clone)]
pub struct Worker {
    client: Client,
    registration: RegisterWorker,
    claim_wait: Duration,
    drain_timeout: Duration,
    stop_grace: Duration,
    watcher: Option<Watcher>,
    health: Option<Health>,
    otlp_endpoint: Option<String>,
}

/// What the incarnations of a worker share: with each other, and with the runtime of its handlers.
#[derive(Clone)]
struct Life {
    /// Where handlers run. Everything else happens on the worker's own thread.
    users: Handle,
    handler: Handler,
    /// Told when the worker is to stop.
    drain: CancellationToken,
    /// To whoever watches, if somebody does.
    events: Option<mpsc::Sender<WorkerEvent>>,
    /// Sends spans, if somebody wants them.
    exporter: Option<Exporter>,
    /// A handler of the incarnation before may still have to come to its end.
    slots: Arc<Semaphore>,
    paused: Arc<Paused>,
}

impl Life {
    /// Tells whoever watches. They are called where handlers run: they may take their time, but
    /// events that they have no time for are lost.
    fn tell(&self, event: WorkerEvent) {
        if let Some(Err(error)) = self.events.as_ref().map(|events| events.try_send(event)) {
            tracing::debug!(%error, "nobody has time for an event of the worker");
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("registration", &self.registration).finish_non_exhaustive()
    }
}

impl Worker {
    /// A worker that can do runs of these types. It serves the queue `default`, one run at a time,
    /// unless told
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
            watcher: None,
            health: None,
            otlp_endpoint: None,
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

    /// Finishes what it holds for at most this long when it is told to stop; 30 seconds unless
    /// given.
    pub fn drain_timeout(mut self, timeout: Duration) -> Worker {
        self.drain_timeout = timeout;
        self
    }

    /// Drops a handler that has not returned this long after it was told to stop; 10 seconds unless
    /// given.
    pub fn stop_grace(mut self, grace: Duration) -> Worker {
        self.stop_grace = grace;
        self
    }

    /// Calls `watcher` whenever something happens, where the worker is polled. It must return
    /// quickly: of what happens meanwhile only so much is kept.
    pub fn watch(mut self, watcher: impl Fn(WorkerEvent) + Send + Sync + 'static) -> Worker {
        self.watcher = Some(Arc::new(watcher));
        self
    }

    /// Calls `health` for every heartbeat, on a thread of its own, and sends what it measured. A
    /// heartbeat does not wait for one that takes long.
    pub fn health(mut self, health: impl Fn() -> HealthReport + Send + Sync + 'static) -> Worker {
        self.health = Some(Arc::new(health));
        self
    }

    /// Sends spans of what it executes to this collector over OTLP (`http://collector:4317` for gRPC, otherwise HTTP); where
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` says unless given, and nowhere without that.
    pub fn otlp_endpoint(mut self, endpoint: impl Into<String>) -> Worker {
        self.otlp_endpoint = Some(endpoint.into());
        self
    }

    /// Works until `shutdown` resolves or the server asks the worker to drain; then it finishes
    /// what it holds, gives
    /// back what takes too long, and says goodbye. Fails only when the server refuses the worker
    /// for good.
    ///
    /// Handlers run on the runtime that polls this. Everything else, and with it the leases, has a
    /// thread of its own, so
    /// that a handler that blocks costs no lease. For handlers that do there is
    /// [`Worker::run_blocking`].
    pub async fn run<H, F>(self, handler: H, shutdown: impl Future<Output = ()>) -> Result<(), ClientError>
    where
        H: Fn(ClaimedRun, Cancel) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Value, Failure>> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |run, cancel| Box::pin(handler(run, cancel)));
        let background = Background::start(THREAD)?;
        let (drain, (events, mut told)) = (CancellationToken::new(), mpsc::channel(EVENTS_MAX));
        let life = Life {
            users: Handle::current(),
            handler,
            drain: drain.clone(),
            events: self.watcher.is_some().then_some(events),
            exporter: None,
            slots: Arc::new(Semaphore::new(self.registration.max_concurrent.unwrap_or(1) as usize)),
            paused: Arc::default(),
        };
        let watcher = self.watcher.clone().unwrap_or_else(|| Arc::new(drop));
        let mut living = background.spawn(self.live(life));
        let mut shutdown = pin!(shutdown);
        let mut is_told = false;
        let ended = loop {
            tokio::select! {
                ended = &mut living => break ended,
                Some(event) = told.recv() => watcher(event),
                () = &mut shutdown, if !is_told => {
                    is_told = true;
                    drain.cancel();
                }
            }
        };
        while let Ok(event) = told.try_recv() {
            watcher(event);
        }
        match ended {
            Ok(ended) => ended,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => Err(ClientError::Invalid(format!("the worker's thread has ended: {error}"))),
            },
        }
    }

    /// As [`Worker::run`], with a handler that blocks or computes. Each runs on a thread that may
    /// be blocked, as many at a time as the
    /// [concurrency](Worker::concurrency) says.
    ///
    /// Such a handler cannot be interrupted: it should ask [`Cancel::reason`] now and then, and
    /// return when there is one. One that does not is left
    /// alone after the [grace time](Worker::stop_grace), and what it returns then counts for
    /// nothing.
    pub async fn run_blocking<H>(self, handler: H, shutdown: impl Future<Output = ()>) -> Result<(), ClientError>
    where
        H: Fn(ClaimedRun, Cancel) -> Result<Value, Failure> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        let beside = move |run, cancel| {
            let handler = handler.clone();
            async move {
                match tokio::task::spawn_blocking(move || handler(run, cancel)).await {
                    Ok(ended) => ended,
                    Err(error) => match error.try_into_panic() {
                        // Reported as every other panic of a handler.
                        Ok(panic) => std::panic::resume_unwind(panic),
                        // The runtime is going away, and this with it.
                        Err(_) => std::future::pending().await,
                    },
                }
            }
        };
        self.run(beside, shutdown).await
    }

    /// What happens on the worker's own thread.
    async fn live(self, mut life: Life) -> Result<(), ClientError> {
        life.exporter = spans::exporter(self.otlp_endpoint.as_deref())?;
        let exporter = life.exporter.clone();
        let ended = self.incarnations(life).await;
        spans::flush(exporter.as_ref()).await;
        ended
    }

    async fn incarnations(mut self, life: Life) -> Result<(), ClientError> {
        // Connections are carried by the runtime that opened them. The others' may be blocked.
        self.client = self.client.with_own_connections();
        if self.registration.queues.is_empty() {
            self.registration.queues.push(QUEUE_DEFAULT.into());
        }
        let measuring = self.health.take().map(|health| Arc::new(Measuring::new(health)));
        // It stays true: an incarnation that is forgotten while it drains is the last one.
        let mut shutdown = pin!(life.drain.clone().cancelled_owned());
        loop {
            let incarnation = tokio::select! {
                registered = self.register(&life, measuring.clone()) => Arc::new(registered?),
                () = &mut shutdown => return Ok(()),
            };
            match incarnation.live(shutdown.as_mut()).await {
                End::Forgotten => {}
                End::Drain => return Ok(()),
                End::Fatal(error) => return Err(error),
            }
        }
    }

    async fn register(&self, life: &Life, measuring: Option<Arc<Measuring>>) -> Result<Incarnation, ClientError> {
        // One name for all tries of this registration: should an answer get lost, the next try
        // finds the same worker.
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|error| ClientError::Invalid(format!("the system gives no random numbers: {error}")))?;
        let instance = format!("{:032x}", u128::from_be_bytes(random));
        let registration = RegisterWorker { instance: Some(instance), ..self.registration.clone() };
        loop {
            match self.client.register(&registration).await {
                Ok(registered) => {
                    let worker_id = registered.worker_id.clone();
                    life.tell(WorkerEvent::Registered { worker_id });
                    return Ok(Incarnation::new(self, registered, life.clone(), measuring));
                }
                Err(error) if error.is_transient() => {
                    life.tell(WorkerEvent::Unreachable { call: "register".into(), message: error.to_string() });
                    sleep(RETRY_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}
