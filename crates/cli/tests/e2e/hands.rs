//! A worker inside the test, for exact control of what it claims and when it reports.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton::proto::{Batch, Claim, ClaimedRun, CompleteRun, Heartbeat, LeaseOf, RegisterWorker, RegisteredWorker};
use baton::{Client, ClientError};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::site::{KIND, QUEUE};
use crate::wait::until_answered;

/// A worker that does nothing by itself but give signs of life. Dropping it lets it fall silent.
pub struct Hands {
    state: Arc<State>,
    claims_made: AtomicU64,
    beats: JoinHandle<()>,
}

struct State {
    worker: RegisteredWorker,
    client: Mutex<Client>,
    held: Mutex<Vec<LeaseOf>>,
    /// What the server said of its runs or of itself that it should not have.
    complaints: Mutex<Vec<String>>,
}

impl Hands {
    /// Registers a worker that can hold this many runs.
    pub async fn register(client: &Client, concurrency: u32) -> Hands {
        let registration = RegisterWorker {
            queues: vec![QUEUE.into()],
            max_concurrent: Some(concurrency),
            // Repeating the call with the same value is harmless; the address of a fresh allocation is unique enough.
            instance: Some(format!("hands-{}", baton_testkit_number())),
            ..blank_registration()
        };
        let worker = until_answered(|| client.register(&registration)).await.expect("a good registration");
        let state = Arc::new(State {
            worker,
            client: Mutex::new(client.clone()),
            held: Mutex::default(),
            complaints: Mutex::default(),
        });
        let beats = tokio::spawn(beat(state.clone()));
        Hands { state, claims_made: AtomicU64::new(0), beats }
    }
}
