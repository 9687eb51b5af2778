//! A worker that plays workflows.

mod link;
mod payloads;
mod report;
mod stream;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use baton_proto::v1;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep_until};

use crate::background::Background;
use crate::workflow::handler::{Handler, handler};
use crate::workflow::mailbox::Event;
use crate::workflow::{Context, WorkflowError};
use crate::{Client, ClientError, Tls, grpc, spans};
use link::Link;
use stream::Connection;

/// Runs at once, unless told otherwise.
const MAX_CONCURRENT: u32 = 100;
/// How long a worker that stops finishes what it holds, unless told otherwise.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// How long giving back and saying goodbye may take. Nobody depends on it: the leases run out by themselves.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(5);
/// Most threads for blocking steps: as many as a runtime starts for such things, unless it was told
/// otherwise.
const BLOCKING_THREADS_MAX: usize = 512;
/// The name of the worker's own thread.
const THREAD: &str = "baton-worker";
/// Why runs are given back by a worker that stops.
const STOPPING: &str = "the worker is stopping";

/// Plays workflows: it registers, gets runs pushed, plays their functions, and drains when it is told to stop.
///
/// It outlives the server: a stream that is cut is connected again, and what was not answered is said again. One that the server has given up (it was silent for
/// longer than its leases live) drops what it held, and registers again.
///
/// ```no_run
/// use baton::{Context, Worker, WorkflowError};
/// use serde::{Deserialize, Serialize};
/// use std::time::Duration;
///
/// #[derive(Serialize, Deserialize)]
/// struct Order { id: u64, cents: u64 }
/// #[derive(Serialize, Deserialize)]
/// struct Receipt { charge: String }
///
/// # async fn charge(cents: u64) -> Result<String, std::io::Error> { Ok(cents.to_string()) }
/// # async fn refund(charge: String) -> Result<(), std::io::Error> { Ok(()) }
/// async fn process_order(ctx: Context, order: Order) -> Result<Receipt, WorkflowError> {
///     let charge = ctx
///         .step("charge", || async { Ok(charge(order.cents).await?) })
///         .compensate(|charge| async { Ok(refund(charge).await?) })
///         .await?;
///     ctx.sleep(Duration::from_secs(24 * 3600)).await?;
///     let approved: bool = ctx.signal("approved").await?;
///     match approved {
///         true => Ok(Receipt { charge }),
///         false => Err(WorkflowError::fatal("not approved")),
///     }
/// }
///
/// # async fn example() -> Result<(), baton::ClientError> {
/// let mut worker = Worker::builder("http://localhost:7400", "orders")
///     .namespace("production").max_concurrent(50).version("1.2.3").label("region", "eu")
///     .build().await?;
/// worker.register("process_order", process_order);
/// worker.run_until_signal().await?;
/// # Ok(()) }
/// ```
pub struct Worker {
    client: Client,
    register: v1::RegisterWorkerRequest,
    handlers: HashMap<String, Handler>,
    drain_timeout: Duration,
    blocking_threads: usize,
    otlp_endpoint: Option<String>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types: Vec<&String> = self.handlers.keys().collect();
        f.debug_struct("Worker")
            .field("queue", &self.register.task_queue)
            .field("types", &types)
            .finish_non_exhaustive()
    }
}

/// What a [`Worker`] is made with.
#[must_use = "a worker is made by `build`"]
#[derive(Clone, Debug)]
pub struct WorkerBuilder {
    url: String,
    api_key: Option<String>,
    tls: Option<Tls>,
    register: v1::RegisterWorkerRequest,
    drain_timeout: Duration,
    blocking_threads: usize,
    otlp_endpoint: Option<String>,
}

impl WorkerBuilder {
    /// The API key; what the environment variable `BATON_API_KEY` says unless given.
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(key.into());
        self
    }

    /// Which servers are believed over `https://`; what the [environment](Tls::from_environment) says unless given.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Works in this namespace; in `default` unless given.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.register.namespace_id = namespace.into();
        self
    }

    /// Holds so many runs at once; 100 unless given. Runs that sleep are not held.
    pub fn max_concurrent(mut self, runs: u32) -> Self {
        self.register.max_concurrent = runs.max(1);
        self
    }

    /// Is of this version: it gets runs that are pinned to it, besides those that are not pinned.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.register.version = version.into();
        self
    }

    /// Carries this label.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.register.labels.insert(name.into(), value.into());
        self
    }

    /// Goes by this name, which survives restarts.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.register.name = name.into();
        self
    }

    /// Runs on this host; what the environment variable `HOSTNAME` says unless given.
    pub fn hostname(mut self, hostname: impl Into<String>) -> Self {
        self.register.hostname = hostname.into();
        self
    }

    /// Finishes what it holds for at most this long when it is told to stop; 30 seconds unless given.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = timeout;
        self
    }

    /// Executes so many [blocking steps](Context::step_blocking) at once, of all its runs together;
    /// as many as the machine has cores unless given.
    pub fn blocking_threads(mut self, threads: usize) -> Self {
        self.blocking_threads = threads.clamp(1, BLOCKING_THREADS_MAX);
        self
    }

    /// Sends spans of what it executes to this collector over OTLP (`http://collector:4317` for gRPC, otherwise HTTP); where
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` says unless given, and nowhere without that. The other variables of OpenTelemetry count,
    /// too.
    pub fn otlp_endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.otlp_endpoint = Some(endpoint.into());
        self
    }

    /// Makes the worker. Fails when the server cannot be reached or does not know the key.
    pub async fn build(self) -> Result<Worker, ClientError> {
        let mut connect = Client::connect(&self.url);
        if let Some(key) = self.api_key {
            connect = connect.api_key(key);
        }
        if let Some(tls) = self.tls {
            connect = connect.tls(tls);
        }
        Ok(Worker {
            client: connect.await?,
            register: self.register,
            handlers: HashMap::new(),
            drain_timeout: self.drain_timeout,
            blocking_threads: self.blocking_threads,
            otlp_endpoint: self.otlp_endpoint,
        })
    }
}

impl Worker {
    /// A worker of the server at this address that serves this queue.
    pub fn builder(url: impl Into<String>, queue: impl Into<String>) -> WorkerBuilder {
        let register = v1::RegisterWorkerRequest {
            namespace_id: baton_proto::NAMESPACE_DEFAULT.into(),
            task_queue: queue.into(),
            hostname: std::env::var("HOSTNAME").unwrap_or_default(),
            pid: std::process::id(),
            max_concurrent: MAX_CONCURRENT,
            ..Default::default()
        };
        WorkerBuilder {
            url: url.into(),
            api_key: None,
            tls: None,
            register,
            drain_timeout: DRAIN_TIMEOUT,
            blocking_threads: std::thread::available_parallelism().map_or(1, usize::from),
            otlp_endpoint: None,
        }
    }

    /// Plays workflows of this type with this function. Its input and output are whatever serde can read and write.
    pub fn register<I, O, E, F, R>(&mut self, workflow_type: impl Into<String>, function: F) -> &mut Self
    where
        F: Fn(Context, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, E>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize,
        E: Into<WorkflowError>,
    {
        self.handlers.insert(workflow_type.into(), handler(function));
        self
    }

    /// Works until the process is told to stop (SIGTERM, or Ctrl-C); see [`Worker::run_until`]. A second signal stops at once.
    pub async fn run_until_signal(self) -> Result<(), ClientError> {
        let background = Background::start(THREAD)?;
        let (asked, insisted) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let signals = {
            // Heard on the worker's own thread: the others may be blocked.
            let _here = background.enter();
            signals(asked.clone(), insisted.clone())?
        };
        background.spawn(signals);
        self.run_on(background, asked, insisted, std::future::pending()).await
    }

    /// Works until `shutdown` resolves or the server asks the worker to drain. Then it takes no more runs, finishes what it holds, gives back what takes longer
    /// than the drain timeout, and says goodbye. Fails only when the server refuses the worker for good.
    ///
    /// Workflows are played on the runtime that polls this. The stream to the server, and with it
    /// the leases, have a thread of their own, so that code that blocks costs no lease; it ends
    /// when this does or is dropped.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<(), ClientError> {
        let never = Arc::new(Notify::new());
        self.run_on(Background::start(THREAD)?, Arc::new(Notify::new()), never, shutdown).await
    }

    async fn run_on(
        self,
        background: Background,
        drain: Arc<Notify>,
        stop_now: Arc<Notify>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ClientError> {
        if self.handlers.is_empty() {
            return Err(ClientError::Invalid("a worker needs a workflow: call `register` first".into()));
        }
        let link = Arc::new(Link::new(self.register.max_concurrent));
        // Dropped before the thread is.
        let _holds = Holds(link.clone());
        let life = Life {
            users: Handle::current(),
            link,
            drain: drain.clone(),
            stop_now,
            worker: Worker { client: self.client.with_own_connections(), ..self },
        };
        let mut living = background.spawn(life.live());
        let ended = tokio::select! {
            ended = &mut living => ended,
            () = shutdown => {
                drain.notify_one();
                living.await
            }
        };
        match ended {
            Ok(ended) => ended,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => Err(ClientError::Invalid(format!("the worker's thread has ended: {error}"))),
            },
        }
    }
}

/// What happens on the worker's own thread.
struct Life {
    worker: Worker,
    users: Handle,
    link: Arc<Link>,
    drain: Arc<Notify>,
    stop_now: Arc<Notify>,
}

impl Life {
    async fn live(self) -> Result<(), ClientError> {
        let Life { worker, users, link, drain, stop_now } = self;
        let worker_id = Arc::new(std::sync::Mutex::new(String::new()));
        let mut register = worker.register;
        register.workflow_types = worker.handlers.keys().cloned().collect();
        register.workflow_types.sort_unstable();
        // One name for all tries of this registration: should an answer get lost, the next try finds the same worker.
        register.instance = format!("{:016x}{:016x}", random()?, random()?);
        let exporter = spans::exporter(worker.otlp_endpoint.as_deref())?;
        let connection = Connection {
            endpoint: grpc::endpoint(worker.client.url())?,
            connector: worker.client.grpc_connector(),
            key: worker.client.key(),
            register,
            handlers: worker.handlers,
            link: link.clone(),
            calls: worker.client.workflows_service()?,
            users,
            blocking: Arc::new(Semaphore::new(worker.blocking_threads)),
            exporter: exporter.clone(),
            drain: drain.clone(),
            worker_id: worker_id.clone(),
        };
        let draining = async {
            drain.notified().await;
            comes_to_an_end(&link, worker.drain_timeout).await;
        };
        let served = tokio::select! {
            error = connection.serve() => Err(error),
            () = draining => Ok(()),
            () = link.is_orphaned() => {
                tracing::warn!("the runtime of the workflows has been shut down; the worker stops");
                Ok(())
            }
            () = stop_now.notified() => return Ok(()),
            () = link.watch() => unreachable!("watching has no end"),
        };
        link.over();
        let worker_id = worker_id.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        if !worker_id.is_empty() && served.is_ok() {
            // Also gives back what could not be given back before.
            let goodbye = v1::DeregisterWorkerRequest { worker_id, drain: false };
            let mut workflows = worker.client.workflows_service()?;
            if let Ok(Err(status)) = tokio::time::timeout(GOODBYE_TIMEOUT, workflows.deregister_worker(goodbye)).await {
                tracing::debug!(error = status.message(), "the server did not hear the goodbye");
            }
        }
        spans::flush(exporter.as_ref()).await;
        served
    }
}

/// Lets go of all runs when it is dropped: also when somebody drops the worker in the middle, and nobody would ever answer what plays them.
struct Holds(Arc<Link>);

impl Drop for Holds {
    fn drop(&mut self) {
        self.0.over();
    }
}

/// Takes no more runs, and comes to an end with those that are held.
async fn comes_to_an_end(link: &Link, timeout: Duration) {
    tracing::info!("draining");
    link.drain();
    tokio::select! {
        () = link.empty() => return,
        () = sleep_until(Instant::now() + timeout) => {}
    }
    link.tell_all(|| Event::GiveBack(STOPPING));
    let _ = tokio::time::timeout(GOODBYE_TIMEOUT, link.empty()).await;
}

fn random() -> Result<u64, ClientError> {
    getrandom::u64().map_err(|error| ClientError::Invalid(format!("the system gives no random numbers: {error}")))
}

/// Notifies `asked` at the first signal to stop and `insisted` at the second. Never returns.
fn signals(asked: Arc<Notify>, insisted: Arc<Notify>) -> Result<impl Future<Output = ()>, ClientError> {
    #[cfg(unix)]
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .map_err(|error| ClientError::Invalid(format!("signals cannot be waited for: {error}")))?;
    let mut next = async move || {
        #[cfg(unix)]
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
    };
    Ok(async move {
        next().await;
        asked.notify_one();
        next().await;
        insisted.notify_one();
        std::future::pending().await
    })
}
