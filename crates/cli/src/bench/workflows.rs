//! Workflows: started and waited for, so many at a time, by the process that also plays them, as the drivers of the peers do.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use baton::{Client, Context, Worker, WorkflowError};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::load::{KIND, QUEUE, on_one_thread};
use super::wire::Target;

/// Workflows in flight when there are many.
pub const IN_FLIGHT: usize = 128;
/// Workflows started before the clock runs.
const WARM_UP: usize = 50;
/// Runs that a worker holds at once.
pub const MAX_CONCURRENT: u32 = 4_096;

/// Plays so many workflows with so many steps each, and returns how long that took.
pub async fn measure(target: &Target, workflows: usize, steps: u32, in_flight: usize) -> io::Result<Duration> {
    let target = target.clone();
    on_one_thread(async move {
        let mut worker = worker(&target, MAX_CONCURRENT).await?;
        worker.register(KIND, move |ctx: Context, id: u64| count_up(ctx, id, steps));
        let working = tokio::spawn(worker.run_until(std::future::pending()));
        let client = target.connected().await;
        let client = client.map_err(io::Error::other)?;
        play(&client, WARM_UP, steps, in_flight).await?;
        let begun = Instant::now();
        play(&client, workflows, steps, in_flight).await?;
        let took = begun.elapsed();
        working.abort();
        Ok(took)
    })
    .await
}

/// One after the other, each adding one.
async fn count_up(ctx: Context, id: u64, steps: u32) -> Result<u64, WorkflowError> {
    let mut sum = id;
    for step in 0..steps {
        sum = ctx.step(format!("s{step}"), || async move { Ok(sum + 1) }).await?;
    }
    Ok(sum)
}

async fn play(client: &Client, workflows: usize, steps: u32, in_flight: usize) -> io::Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut slots = JoinSet::new();
    for _ in 0..in_flight.min(workflows) {
        let (client, next) = (client.clone(), next.clone());
        slots.spawn(async move {
            loop {
                let id = next.fetch_add(1, Ordering::Relaxed) as u64;
                if id >= workflows as u64 {
                    return Ok(());
                }
                let handle = client.start(KIND, &id).queue(QUEUE).await.map_err(io::Error::other)?;
                let sum: u64 = handle.result().await.map_err(io::Error::other)?;
                if sum != id + u64::from(steps) {
                    return Err(io::Error::other(format!("workflow {id} came to {sum}")));
                }
            }
        });
    }
    while let Some(ended) = slots.join_next().await {
        ended.map_err(io::Error::other)??;
    }
    Ok(())
}

/// Completes runs that come over the stream until there have been enough, and returns how many there were.
pub async fn drain(target: &Target, enough: usize, slots: u32) -> io::Result<usize> {
    let mut worker = worker(target, slots).await?;
    let (played, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let seen = (played.clone(), over.clone());
    worker.register(KIND, move |_: Context, _: serde::de::IgnoredAny| {
        let (played, over) = seen.clone();
        async move {
            if played.fetch_add(1, Ordering::Relaxed) + 1 >= enough {
                over.notify_one();
            }
            Ok::<(), WorkflowError>(())
        }
    });
    // Stopping waits until everything is answered.
    worker.run_until(async move { over.notified().await }).await.map_err(io::Error::other)?;
    Ok(played.load(Ordering::Relaxed))
}

/// A worker of the benchmark's queue that holds so many runs at once.
pub async fn worker(target: &Target, slots: u32) -> io::Result<Worker> {
    worker_with_threads(target, slots, 1).await
}

/// The same, with so many threads for blocking steps.
pub async fn worker_with_threads(target: &Target, slots: u32, threads: usize) -> io::Result<Worker> {
    let worker = Worker::builder(target.url(), QUEUE).api_key(&target.api_key).tls(target.tls());
    worker.max_concurrent(slots).blocking_threads(threads).build().await.map_err(io::Error::other)
}
