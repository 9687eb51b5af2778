//! Steps whose code blocks or computes: executed beside the runtime, so many at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::StepError;
use super::step::{said, timed_out};

/// Executes code on a thread that may be blocked, when one of the slots is free. Returns when it
/// began, and what it came to.
///
/// Code cannot be interrupted. What takes longer than the timeout goes on for nobody, and keeps its
/// slot until it is over: there are never more threads than slots.
pub(super) async fn execute<T: Send + 'static>(
    slots: Arc<Semaphore>,
    timeout: Option<Duration>,
    work: impl FnOnce() -> Result<T, StepError> + Send + 'static,
) -> (Instant, Result<T, StepError>) {
    // Waiting for a slot is not the attempt's fault. Nobody closes the semaphore.
    let slot = slots.acquire_owned().await;
    let begun = Instant::now();
    let executing = tokio::task::spawn_blocking(move || {
        let done = work();
        drop(slot);
        done
    });
    let joined = match timeout {
        Some(timeout) => match tokio::time::timeout(timeout, executing).await {
            Ok(joined) => joined,
            Err(_) => return (begun, Err(timed_out(timeout))),
        },
        None => executing.await,
    };
    let result = match joined {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => Err(StepError::new(said(&*panic)).code("panic")),
            // The runtime is going away, and the workflow with it: nobody is told that the code
            // failed, because it did not.
            Err(_) => std::future::pending().await,
        },
    };
    (begun, result)
}
