//! What submitters send: runs one by one, and in bulk.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::wire::{Target, Wire};

/// The queue of all measurements.
pub const QUEUE: &str = "bench";
/// The type of all runs.
pub const KIND: &str = "noop";
/// Calls in flight when runs are submitted one by one.
pub const IN_FLIGHT: usize = 32;
/// Runs in one bulk call.
pub const BULK_RUNS: usize = 1_000;
/// Bulk calls in flight.
pub const BULK_IN_FLIGHT: usize = 4;

/// About 100 bytes of JSON, the same as the peers get.
pub fn run(id: i64) -> String {
    let note = "x".repeat(44);
    format!(
        r#"{{"queue":"{QUEUE}","type":"{KIND}","input":{{"id":{id},"tenant":"acme","kind":"noop","note":"{note}"}}}}"#
    )
}

/// The body of a bulk submit.
pub fn batch(runs: impl IntoIterator<Item = String>) -> String {
    let runs: Vec<String> = runs.into_iter().collect();
    format!(r#"{{"runs":[{}]}}"#, runs.join(","))
}

/// Submits runs one by one and returns how long all of it took.
pub async fn one_by_one(target: &Target, runs: usize) -> io::Result<Duration> {
    let request: Arc<[u8]> = target.request("POST", "/api/v1/runs", &run(1)).into();
    send(target, IN_FLIGHT, vec![request; runs]).await
}

/// Submits runs in bulk and returns how long all of it took.
pub async fn bulk(target: &Target, runs: usize) -> io::Result<Duration> {
    let request = |runs: usize| -> Arc<[u8]> {
        target.request("POST", "/api/v1/runs/batch", &batch((0..runs as i64).map(run))).into()
    };
    let full = request(BULK_RUNS);
    let mut requests = vec![full; runs / BULK_RUNS];
    if !runs.is_multiple_of(BULK_RUNS) {
        requests.push(request(runs % BULK_RUNS));
    }
    send(target, BULK_IN_FLIGHT, requests).await
}

/// Sends all requests, so many at a time, from one thread: the other processor is the server's.
async fn send(target: &Target, in_flight: usize, requests: Vec<Arc<[u8]>>) -> io::Result<Duration> {
    let target = target.clone();
    on_one_thread(async move {
        let (requests, next) = (Arc::new(requests), Arc::new(AtomicUsize::new(0)));
        let mut wires = Vec::new();
        for _ in 0..in_flight.min(requests.len()) {
            wires.push(target.connect().await?);
        }
        let begun = Instant::now();
        let mut slots: JoinSet<_> = wires.into_iter().map(|wire| slot(wire, requests.clone(), next.clone())).collect();
        while let Some(ended) = slots.join_next().await {
            ended.map_err(io::Error::other)??;
        }
        Ok(begun.elapsed())
    })
    .await
}

async fn slot(mut wire: Wire, requests: Arc<Vec<Arc<[u8]>>>, next: Arc<AtomicUsize>) -> io::Result<()> {
    while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
        wire.call(request).await?;
    }
    Ok(())
}

/// Runs a load on a thread of its own, with no other thread to wake.
pub async fn on_one_thread<T: Send + 'static>(
    load: impl Future<Output = io::Result<T>> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(load)
    })
    .await
    .map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_submitted_is_what_the_server_takes() {
        let batch: baton::proto::SubmitBatch = serde_json::from_str(&batch([run(1), run(-2)])).unwrap();
        let input = batch.runs[1].input.as_ref().unwrap().get();
        assert_eq!((batch.runs.len(), batch.runs[1].kind.as_str()), (2, KIND));
        assert!((90..=100).contains(&input.len()), "{}", input.len());
    }
}
