//! Callers that wait for a run to end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use baton_core::RunId;
use tokio::sync::Notify;

/// Who waits for which run in this process.
#[derive(Debug, Default)]
pub struct Watchers {
    waiting: Mutex<HashMap<RunId, Arc<Notify>>>,
}

impl Watchers {
    /// Something to wait on; keep it alive while waiting.
    pub fn watch(&self, run: RunId) -> Arc<Notify> {
        let mut waiting = self.waiting.lock().expect("nobody panics while holding it");
        // Those nobody waits on any more are only held by the map.
        if waiting.len() > 1_000 {
            waiting.retain(|_, notify| Arc::strong_count(notify) > 1);
        }
        waiting.entry(run).or_default().clone()
    }

    /// Wakes those who wait for news of this run; there will be more.
    pub fn changed(&self, run: RunId) {
        let waiting = self.waiting.lock().expect("nobody panics while holding it");
        if let Some(notify) = waiting.get(&run) {
            notify.notify_waiters();
        }
    }

    /// Wakes those who wait for this run.
    pub fn ended(&self, runs: impl Iterator<Item = RunId>) {
        let mut waiting = self.waiting.lock().expect("nobody panics while holding it");
        if waiting.is_empty() {
            return;
        }
        for run in runs {
            if let Some(notify) = waiting.remove(&run) {
                notify.notify_waiters();
            }
        }
    }
}
