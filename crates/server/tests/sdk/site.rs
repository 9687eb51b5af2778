//! A server on the real clock, with workers of the Rust crate.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use baton::{Client, ClientError, State, Worker, WorkerBuilder, WorkflowHandle};
use serde::Serialize;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::harness::{KEY, On, PATIENCE, Server};

pub const QUEUE: &str = "orders";

pub struct Site {
    pub server: Server,
    pub client: Client,
}

impl Site {
    pub async fn start(on: On) -> Site {
        Site::of(Server::real(on, |_| {}).await).await
    }

    pub async fn of(server: Server) -> Site {
        let client = Client::connect(format!("http://{}", server.address)).api_key(KEY).await.unwrap();
        Site { server, client }
    }

    /// A worker of this server's, or of the one behind a proxy.
    pub async fn worker_at(&self, address: std::net::SocketAddr) -> Worker {
        self.builder(address).build().await.unwrap()
    }

    pub fn builder(&self, address: std::net::SocketAddr) -> WorkerBuilder {
        let builder = Worker::builder(format!("http://{address}"), QUEUE).api_key(KEY);
        builder.max_concurrent(20).version("1.2.3").label("region", "eu")
    }

    pub async fn worker(&self) -> Worker {
        self.worker_at(self.server.address).await
    }

    pub async fn begin(&self, workflow_type: &str, input: &impl Serialize) -> WorkflowHandle {
        self.client.start(workflow_type, input).queue(QUEUE).await.unwrap()
    }
}

/// A worker at work, until it is told to stop.
pub struct Working {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), ClientError>>,
}

impl Working {
    pub fn begin(worker: Worker) -> Working {
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(worker.run_until(async move {
            let _ = stopped.await;
        }));
        Working { stop: Some(stop), task }
    }

    pub fn tell_to_stop(&mut self) {
        self.stop.take();
    }

    pub async fn stop(mut self) {
        self.tell_to_stop();
        self.stopped().await;
    }

    pub async fn stopped(self) {
        within(self.task).await.unwrap().unwrap();
    }

    /// As kill -9 does.
    pub fn kill(self) {
        self.task.abort();
    }
}

pub async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("it takes too long")
}

/// Waits until the run is in this state.
pub async fn until(handle: &WorkflowHandle, state: State) {
    within(async {
        while handle.get().await.unwrap().state != state {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Waits until something is true.
pub async fn until_true(is: impl Fn() -> bool) {
    within(async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[derive(Clone, Default)]
pub struct Counter(Arc<AtomicU32>);

impl Counter {
    pub fn up(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub fn get(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}
