//! Tells other servers of new work, merged, and outside of every transaction.

use std::sync::Arc;
use std::time::Duration;

use baton_store::{LaneId, Store};
use tokio::sync::mpsc;

/// Lanes waiting to be told; more are dropped, for this is only a hint.
const WAITING_MAX: usize = 10_000;
/// Pause before each message: polls of this server go first, and what else happens meanwhile is merged.
const GATHER: Duration = Duration::from_millis(3);
/// Pause after each message.
const PAUSE: Duration = Duration::from_millis(20);

/// Starts the task that tells, and returns where to put the lanes.
pub fn start(store: Arc<dyn Store>) -> mpsc::Sender<LaneId> {
    let (sender, mut receiver) = mpsc::channel(WAITING_MAX);
    tokio::spawn(async move {
        let mut lanes = Vec::new();
        while receiver.recv_many(&mut lanes, WAITING_MAX).await > 0 {
            if store.is_shared() {
                tokio::time::sleep(GATHER).await;
                while let Ok(lane) = receiver.try_recv() {
                    lanes.push(lane);
                }
                lanes.sort_unstable();
                lanes.dedup();
                if let Err(error) = store.notify(&lanes).await {
                    tracing::debug!(%error, "other servers were not told; they will look by themselves");
                }
                tokio::time::sleep(PAUSE).await;
            }
            lanes.clear();
        }
    });
    sender
}
