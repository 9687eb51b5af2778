//! Whether the disks that the server itself writes to have room: those of an SQLite store and of
//! artifact directories.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::Settings;

/// How long a look is believed: anybody may ask.
const FRESH: Duration = Duration::from_secs(1);
/// A disk with less than this is full: the next write fails, or the one after it.
const FREE_BYTES_MIN: u64 = 1 << 20;

/// The disks.
#[derive(Debug)]
pub struct Disks {
    /// What each is used for, and a directory on it.
    all: Vec<(&'static str, PathBuf)>,
    last: Mutex<Option<(Instant, Option<&'static str>)>>,
}

impl Disks {
    /// Those that the settings name.
    pub fn new(settings: &Settings) -> Disks {
        let database = settings.sqlite_path().and_then(|path| Some(("database", path.parent()?.to_owned())));
        let directory = |url: String| match url.strip_prefix("file://") {
            Some(path) => Some(PathBuf::from(path)),
            None if url.contains("://") => None,
            None => Some(PathBuf::from(url)),
        };
        let storages = std::iter::once(settings.storage()).chain(settings.storage_mirror_url.clone());
        let storages = storages.filter_map(directory).map(|path| ("artifacts", path));
        Disks { all: database.into_iter().chain(storages).collect(), last: Mutex::default() }
    }

    /// What the disk that is full is used for, if one is.
    pub async fn full(&self) -> Option<&'static str> {
        let mut last = self.last.lock().await;
        if let Some((_, full)) = last.filter(|(at, _)| at.elapsed() < FRESH) {
            return full;
        }
        let all = self.all.clone();
        // On another thread: the disk of a directory may be far away.
        let full =
            tokio::task::spawn_blocking(move || all.iter().find(|(_, path)| is_full(path)).map(|(used, _)| *used));
        let full = full.await.unwrap_or_default();
        *last = Some((Instant::now(), full));
        full
    }
}

/// A directory that cannot be looked at is not a full one: others find out what is wrong with it.
fn is_full(directory: &PathBuf) -> bool {
    rustix::fs::statvfs(directory).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < FREE_BYTES_MIN)
}
