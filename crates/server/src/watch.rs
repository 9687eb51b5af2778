//! Callers that wait for a run to end, or for news of a runner or a claim of a pool.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use baton_core::RunId;
use tokio::sync::Notify;

/// Who waits for which run (or whatever else has a name) in this process.
#[derive(Debug)]
pub struct Watchers<K = RunId> {
    waiting: Mutex<HashMap<K, Arc<Notify>>>,
}

impl<K> Default for Watchers<K> {
    fn default() -> Watchers<K> {
        Watchers { waiting: Mutex::default() }
    }
}

impl<K: Eq + Hash> Watchers<K> {
    /// Something to wait on; keep it alive while waiting.
    pub fn watch(&self, run: K) -> Arc<Notify> {
        let mut waiting = self.waiting.lock().expect("nobody panics while holding it");
        // Those nobody waits on any more are only held by the map.
        if waiting.len() > 1_000 {
            waiting.retain(|_, notify| Arc::strong_count(notify) > 1);
        }
        waiting.entry(run).or_default().clone()
    }

    /// Wakes those who wait for news of this run; there will be more.
    pub fn changed(&self, run: K) {
        let waiting = self.waiting.lock().expect("nobody panics while holding it");
        if let Some(notify) = waiting.get(&run) {
            notify.notify_waiters();
        }
    }

    /// Wakes those who wait for this run.
    pub fn ended(&self, runs: impl Iterator<Item = K>) {
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

    /// Wakes everybody: something may have been missed.
    pub fn changed_all(&self) {
        let waiting = self.waiting.lock().expect("nobody panics while holding it");
        waiting.values().for_each(|notify| notify.notify_waiters());
    }
}
