//! Whether the storages answer, for whoever asks how the server is. Anybody may ask, so it is
//! looked at once in a while, and a storage that hangs keeps nobody waiting.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::error::StorageError;
use super::guarded::GuardedPlace;
use super::place::Place;

/// How long an answer is told again before the storage is asked anew.
const FRESH: Duration = Duration::from_secs(1);
/// How long a storage may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// As `PATIENCE`, for one that has just failed.
const IMPATIENCE: Duration = Duration::from_millis(250);

/// How a storage is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StorageHealth {
    /// `storage`, or `mirror` for the second one.
    pub role: &'static str,
    /// `directory` or `s3`.
    pub kind: &'static str,
    /// Where it is, without credentials. For administrators only.
    pub url: Arc<str>,
    /// Why it cannot be used, if so. For administrators only.
    pub error: Option<String>,
}

/// A storage that is looked at.
#[derive(Debug)]
pub(super) struct Watched {
    pub name: Arc<str>,
    pub place: Arc<GuardedPlace>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When it answered or did not, and why not.
    last: Option<(Instant, Option<String>)>,
    /// A look that has not ended. There is never a second one: a disk that hangs would take a
    /// thread each time.
    looking: Option<JoinHandle<Result<(), StorageError>>>,
}

impl Watched {
    pub fn new(name: Arc<str>, place: Arc<GuardedPlace>) -> Watched {
        Watched { name, place, state: Mutex::default() }
    }

    pub async fn health(&self, role: &'static str) -> StorageHealth {
        StorageHealth { role, kind: self.place.kind(), url: self.name.clone(), error: self.error().await }
    }

    /// Why it cannot be used, as it was a moment ago.
    async fn error(&self) -> Option<String> {
        let mut state = self.state.lock().await;
        if let Some((_, error)) = state.last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return error.clone();
        }
        // Of one that failed the last time it is enough to hear soon; it may hang for long.
        let failure = state.last.as_ref().and_then(|(_, error)| error.clone());
        let patience = if failure.is_some() { IMPATIENCE } else { PATIENCE };
        let place = self.place.clone();
        let looking = state.looking.get_or_insert_with(|| tokio::spawn(async move { place.check().await }));
        let error = match tokio::time::timeout(patience, looking).await {
            Ok(looked) => {
                state.looking = None;
                looked.map_err(StorageError::from).flatten().err().map(StorageError::why)
            }
            Err(_) => failure.or_else(|| Some(format!("{}: no answer within {} s", self.name, PATIENCE.as_secs()))),
        };
        state.last = Some((Instant::now(), error.clone()));
        error
    }
}

#[cfg(test)]
mod tests {
    use crate::artifacts::Storage;

    #[tokio::test]
    async fn a_directory_that_is_gone_is_named_and_found_again() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("artifacts");
        let storage = Storage::open(root.to_str().unwrap(), std::iter::empty(), 0).unwrap();
        let look = async || {
            // Not as it was a moment ago, but as it is.
            for watched in storage.watched.iter() {
                watched.state.lock().await.last = None;
            }
            storage.health().await.remove(0)
        };
        let healthy = look().await;
        assert_eq!((healthy.role, healthy.kind, healthy.error), ("storage", "directory", None));
        let elsewhere = home.path().join("elsewhere");
        std::fs::rename(&root, &elsewhere).unwrap();
        let error = look().await.error.unwrap();
        assert!(error.contains(root.to_str().unwrap()) && error.contains("gone, or not mounted"), "{error}");
        std::fs::rename(&elsewhere, &root).unwrap();
        assert_eq!(look().await.error, None);
    }
}
