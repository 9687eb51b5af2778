//! Pickup: one run each 50 ms, from the start of the submit call to the handler, in the same process.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::load::{on_one_thread, run};
use super::wire::Target;
use super::worker;

const EVERY: Duration = Duration::from_millis(50);
/// Runs that are not counted: the first ones open connections and fill caches.
const WARM_UP: i64 = 5;
const PATIENCE: Duration = Duration::from_secs(15);
const WAIT_MS: u64 = 30_000;
/// Runs in one claim.
const CLAIM_RUNS: usize = 10;

/// Latencies in milliseconds, sorted.
#[derive(Debug)]
pub struct Latencies(Vec<f64>);

impl Latencies {
    /// These, in whatever order they came.
    pub fn of(mut latencies: Vec<f64>) -> Latencies {
        latencies.sort_by(f64::total_cmp);
        Latencies(latencies)
    }

    /// The smallest latency that this share of all runs did not exceed.
    pub fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
    }
}

type Submitted = Arc<Mutex<HashMap<i64, Instant>>>;

/// Submits `runs` runs to a worker that waits for them.
pub async fn measure(target: &Target, runs: usize) -> io::Result<Latencies> {
    let target = target.clone();
    on_one_thread(async move {
        let submitted = Submitted::default();
        let (seen, mut latencies) = mpsc::unbounded_channel();
        let worker = worker::register(&target).await?;
        tokio::spawn(worker::beat(target.clone(), worker.clone()));
        tokio::spawn(handle(target.clone(), worker, submitted.clone(), seen));
        let mut wire = target.connect().await?;
        let mut ticks = tokio::time::interval(EVERY);
        for id in -WARM_UP..runs as i64 {
            ticks.tick().await;
            let request = target.request("POST", "/api/v1/runs", &run(id));
            submitted.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Instant::now());
            wire.call(&request).await?;
        }
        let mut counted = Vec::with_capacity(runs);
        while counted.len() < runs {
            match tokio::time::timeout(PATIENCE, latencies.recv()).await {
                Ok(Some((id, latency))) if id >= 0 => counted.push(latency),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => {
                    return Err(io::Error::other(format!("only {} of {runs} runs were picked up", counted.len())));
                }
            }
        }
        Ok(Latencies::of(counted))
    })
    .await
}

/// Claims and tells when each run arrived; completes on a second connection, so that the next claim already waits.
async fn handle(
    target: Target,
    worker: baton::proto::RegisteredWorker,
    submitted: Submitted,
    seen: mpsc::UnboundedSender<(i64, f64)>,
) -> io::Result<()> {
    let mut polls = target.connect().await?;
    let (done, mut to_complete) = mpsc::unbounded_channel::<Vec<u8>>();
    let mut reports = target.connect().await?;
    tokio::spawn(async move {
        while let Some(request) = to_complete.recv().await {
            reports.call(&request).await?;
        }
        io::Result::Ok(())
    });
    for number in 1.. {
        let claim = worker::claim(&target, &worker, number, CLAIM_RUNS, WAIT_MS);
        let held = worker::held(polls.call(&claim).await?)?;
        let now = Instant::now();
        for run in &held {
            let begun = submitted.lock().unwrap_or_else(PoisonError::into_inner).remove(&run.input.id);
            if let Some(begun) = begun {
                // Nobody listens any more when the measurement is over.
                let _ = seen.send((run.input.id, (now - begun).as_secs_f64() * 1e3));
            }
        }
        if !held.is_empty() {
            let _ = done.send(worker::complete(&target, &held));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_latency_that_was_seen() {
        let latencies = Latencies((1..=200).map(f64::from).collect());
        assert_eq!((latencies.quantile(0.5), latencies.quantile(0.99), latencies.quantile(1.0)), (100.0, 198.0, 200.0));
        assert!(Latencies(vec![]).quantile(0.5).is_nan());
    }
}
