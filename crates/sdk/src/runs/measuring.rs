//! What a worker measures of its machine, beside its heartbeats: they do not wait for it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_proto::HealthReport;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use super::Health;

/// How long a heartbeat waits for what is measured. It goes without it then, and the next one takes
/// what came of it.
const PATIENCE: Duration = Duration::from_millis(200);

/// Calls a function of the user's that may take its time.
pub(super) struct Measuring {
    health: Health,
    /// One at a time: a disk that hangs must not use up threads.
    under_way: Mutex<Option<JoinHandle<HealthReport>>>,
}

impl Measuring {
    pub(super) fn new(health: Health) -> Measuring {
        Measuring { health, under_way: Mutex::default() }
    }

    /// What was measured, if that was quick.
    pub(super) async fn measure(&self) -> Option<HealthReport> {
        let before = self.under_way.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut measured = before.unwrap_or_else(|| {
            let health: Health = Arc::clone(&self.health);
            spawn_blocking(move || health())
        });
        match timeout(PATIENCE, &mut measured).await {
            Ok(Ok(measured)) => Some(measured),
            Ok(Err(error)) => {
                tracing::warn!(%error, "what measures this machine fell over");
                None
            }
            Err(_) => {
                *self.under_way.lock().unwrap_or_else(PoisonError::into_inner) = Some(measured);
                None
            }
        }
    }
}
