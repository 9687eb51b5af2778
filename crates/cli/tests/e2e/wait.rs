//! Waiting for conditions, and repeating calls that got no answer.

use std::time::Duration;

use baton::ClientError;
use tokio::time::{Instant, sleep};

/// Longer than anything here takes on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two looks.
pub const LOOK: Duration = Duration::from_millis(10);

/// Looks until `look` finds something, and returns it.
///
/// # Panics
/// When it has found nothing for too long; `what` says what was missing.
pub async fn eventually<T, F>(what: &str, look: impl Fn() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < until, "not within {PATIENCE:?}: {what}");
        sleep(LOOK).await;
    }
}

/// Repeats a call, as every client may, until the server has carried it out or refused it for good.
pub async fn until_answered<T, F>(call: impl Fn() -> F) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let until = Instant::now() + PATIENCE;
    loop {
        match call().await {
            Err(error) if error.is_transient() => {
                assert!(Instant::now() < until, "no answer within {PATIENCE:?}: {error}");
                sleep(LOOK).await;
            }
            answer => return answer,
        }
    }
}
