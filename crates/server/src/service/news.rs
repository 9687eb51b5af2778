//! Tells other servers of new work and of news for workers, merged, and outside of every transaction.

use std::sync::Arc;
use std::time::Duration;

use baton_core::pools::{ClaimNo, RunnerId};
use baton_core::{RunId, WorkerId};
use baton_store::{Hints, LaneId, Store};
use tokio::sync::mpsc;

/// Hints waiting to be told; more are dropped, for they are only hints.
const WAITING_MAX: usize = 10_000;
/// Pause before each message: polls of this server go first, and what else happens meanwhile is merged.
const GATHER: Duration = Duration::from_millis(3);
/// Pause after each message.
const PAUSE: Duration = Duration::from_millis(20);

/// What other servers are to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// This lane has work.
    Lane(LaneId),
    /// There is news for this worker.
    Worker(WorkerId),
    /// There is news of this run: messages, or its end.
    Run(RunId),
    /// There is news for the agent of this runner.
    Runner(RunnerId),
    /// This claim of a runner pool has moved.
    Claim(ClaimNo),
    /// Namespaces were changed.
    Namespaces,
    /// There is a new generation of the installation's secret.
    Secrets,
    /// Somebody listens for other events than before.
    Events,
    /// There is a bulk operation to be looked at.
    Bulk,
}

/// Starts the task that tells, and returns where to put the news.
pub fn start(store: Arc<dyn Store>) -> mpsc::Sender<News> {
    let (sender, mut receiver) = mpsc::channel(WAITING_MAX);
    tokio::spawn(async move {
        let mut waiting = Vec::new();
        while receiver.recv_many(&mut waiting, WAITING_MAX).await > 0 {
            if store.is_shared() {
                tokio::time::sleep(GATHER).await;
                while let Ok(news) = receiver.try_recv() {
                    waiting.push(news);
                }
                if let Err(error) = store.notify(&merged(&waiting)).await {
                    tracing::debug!(%error, "other servers were not told; they will look by themselves");
                }
                tokio::time::sleep(PAUSE).await;
            }
            waiting.clear();
        }
    });
    sender
}

fn merged(all: &[News]) -> Hints {
    let mut hints = Hints::default();
    for news in all {
        match news {
            News::Lane(lane) => hints.lanes.push(*lane),
            News::Worker(worker) => hints.workers.push(*worker),
            News::Run(run) => hints.runs.push(*run),
            News::Runner(runner) => hints.runners.push(*runner),
            News::Claim(claim) => hints.claims.push(*claim),
            News::Namespaces => hints.namespaces = true,
            News::Secrets => hints.secrets = true,
            News::Events => hints.events = true,
            News::Bulk => hints.bulk = true,
        }
    }
    hints.lanes.sort_unstable();
    hints.lanes.dedup();
    hints.workers.sort_unstable();
    hints.workers.dedup();
    hints.runs.sort_unstable();
    hints.runs.dedup();
    hints.runners.sort_unstable();
    hints.runners.dedup();
    hints.claims.sort_unstable();
    hints.claims.dedup();
    hints
}
