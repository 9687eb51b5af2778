//! Calls of workers and about workers.

use std::time::Duration;

use baton_proto::{
    Claim, ClaimedRuns, Deregistered, Heartbeat, HeartbeatAnswer, RegisterWorker, RegisteredWorker, WorkerPage,
    WorkerView,
};

use crate::client::Call;
use crate::filter::encode;
use crate::{Client, ClientError, WorkerFilter};

fn path(id: &str, verb: &str) -> String {
    format!("/api/v1/workers/{}{verb}", encode(id))
}

impl Client {
    /// Registers a worker: a new incarnation, unless the same `instance` has registered before.
    pub async fn register(&self, worker: &RegisterWorker) -> Result<RegisteredWorker, ClientError> {
        self.json(Call::post("/api/v1/workers").body(worker)?).await
    }

    /// Tells the server that the worker lives, which renews all its leases, and waits for news as long as the heartbeat says.
    pub async fn heartbeat(&self, id: &str, heartbeat: &Heartbeat) -> Result<HeartbeatAnswer, ClientError> {
        let call = Call::post(path(id, "/heartbeat")).body(heartbeat)?;
        let waits = heartbeat.wait_ms.map(Duration::from_millis);
        self.json(match waits {
            Some(wait) => call.waits(wait),
            None => call,
        })
        .await
    }

    /// Asks for work, and waits for it as long as the claim says.
    pub async fn claim(&self, id: &str, claim: &Claim) -> Result<ClaimedRuns, ClientError> {
        let wait = Duration::from_millis(claim.wait_ms.unwrap_or(0));
        self.json(Call::post(path(id, "/claim")).body(claim)?.waits(wait)).await
    }

    /// Says goodbye: what the worker holds goes to others at once.
    pub async fn deregister(&self, id: &str) -> Result<Deregistered, ClientError> {
        self.json(Call::post(path(id, "/deregister"))).await
    }

    /// A page of workers, newest first.
    pub async fn workers(&self, filter: &WorkerFilter) -> Result<WorkerPage, ClientError> {
        self.json(Call::get(filter.path())).await
    }

    /// One worker.
    pub async fn worker(&self, id: &str) -> Result<WorkerView, ClientError> {
        self.json(Call::get(path(id, ""))).await
    }

    /// Asks a worker to take no new work, finish what it holds and go.
    pub async fn drain(&self, id: &str) -> Result<WorkerView, ClientError> {
        self.json(Call::post(path(id, "/drain"))).await
    }

    /// Takes everything away from a worker, now.
    pub async fn force_offline(&self, id: &str) -> Result<Deregistered, ClientError> {
        self.json(Call::post(path(id, "/offline"))).await
    }
}
