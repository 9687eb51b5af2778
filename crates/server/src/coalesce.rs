//! Merges concurrent calls into batches with no added delay: while one batch is at the store, the next gathers.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use baton_core::{RunId, WorkerId};
use baton_store::{Beat, Completion, LeaseRef, Submission};
use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot};

use crate::Error;

/// Calls waiting for their batch.
const WAITING_MAX: usize = 16_384;
/// Bytes of one batch; the call that goes beyond is its last.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// Something that is put into batches.
pub trait Item {
    /// About how many bytes it holds besides itself.
    fn bytes(&self) -> usize {
        0
    }
}

impl Item for LeaseRef {}

impl Item for RunId {}

impl Item for Beat {}

impl Item for (WorkerId, i64) {}

impl Item for Completion {
    fn bytes(&self) -> usize {
        self.output.as_ref().map_or(0, Bytes::len)
    }
}

impl Item for Submission {
    fn bytes(&self) -> usize {
        self.runs.iter().map(|run| run.input.len()).sum()
    }
}

type Answer<R> = oneshot::Sender<Result<Vec<R>, Error>>;

struct Call<T, R> {
    items: Vec<T>,
    answer: Answer<R>,
}

/// A verb whose concurrent calls are merged. Each call brings some items and gets one answer for each.
#[derive(Debug)]
pub struct Coalescer<T, R> {
    calls: mpsc::Sender<Call<T, R>>,
}

impl<T: Item + Send + 'static, R: Send + 'static> Coalescer<T, R> {
    /// Starts the task that carries out batches of about `batch_max` items with `run`. With `gather`, a batch waits that long for
    /// company: only for verbs whose callers are in no hurry.
    pub fn start<F, Fut>(batch_max: usize, gather: Option<Duration>, run: F) -> Coalescer<T, R>
    where
        F: Fn(Vec<T>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Vec<R>, Error>> + Send,
    {
        let (sender, mut receiver) = mpsc::channel::<Call<T, R>>(WAITING_MAX);
        tokio::spawn(async move {
            let mut held_over: Option<Call<T, R>> = None;
            loop {
                let first = match held_over.take() {
                    Some(call) => call,
                    None => match receiver.recv().await {
                        Some(call) => call,
                        None => return,
                    },
                };
                if let Some(gather) = gather {
                    tokio::time::sleep(gather).await;
                }
                let (mut items, mut shares) = (first.items, vec![]);
                shares.push((items.len(), first.answer));
                let mut bytes: usize = items.iter().map(Item::bytes).sum();
                while items.len() < batch_max && bytes < BATCH_BYTES_MAX {
                    let Ok(next) = receiver.try_recv() else { break };
                    if items.len() + next.items.len() > batch_max {
                        held_over = Some(next);
                        break;
                    }
                    bytes += next.items.iter().map(Item::bytes).sum::<usize>();
                    shares.push((next.items.len(), next.answer));
                    items.extend(next.items);
                }
                // A panic is the end of this batch, not of the verb: whoever calls later is served all the same.
                let result = AssertUnwindSafe(run(items)).catch_unwind().await;
                answer(result.unwrap_or(Err(Error::Internal)), shares);
            }
        });
        Coalescer { calls: sender }
    }

    /// Takes part in the next batch.
    pub async fn call(&self, items: Vec<T>) -> Result<Vec<R>, Error> {
        let (answer, answered) = oneshot::channel();
        self.calls.send(Call { items, answer }).await.map_err(|_| Error::Stopping)?;
        // The task drops the answer only when the runtime goes down.
        answered.await.unwrap_or(Err(Error::Internal))
    }

    /// As [`Coalescer::call`], for one item.
    pub async fn call_one(&self, item: T) -> Result<R, Error> {
        self.call(vec![item]).await?.pop().ok_or(Error::Internal)
    }
}

fn answer<R>(result: Result<Vec<R>, Error>, shares: Vec<(usize, Answer<R>)>) {
    match result {
        Ok(results) => {
            let mut results = results.into_iter();
            for (count, answer) in shares {
                // A caller that went away does not need its answer.
                let _ = answer.send(Ok(results.by_ref().take(count).collect()));
            }
        }
        Err(error) => shares.into_iter().for_each(|(_, answer)| {
            let _ = answer.send(Err(error.clone()));
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Semaphore;

    impl Item for u32 {}

    impl Item for () {}

    impl Item for Vec<u8> {
        fn bytes(&self) -> usize {
            self.len()
        }
    }

    #[tokio::test]
    async fn calls_gather_while_a_batch_is_at_the_store() {
        let (batches, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let gate = Arc::new(Semaphore::new(0));
        let coalescer = Arc::new(Coalescer::start(1_000, None, {
            let (batches, gate) = (batches.clone(), gate.clone());
            move |items: Vec<u32>| {
                let (batches, gate) = (batches.clone(), gate.clone());
                async move {
                    batches.fetch_add(1, Ordering::SeqCst);
                    gate.acquire().await.unwrap().forget();
                    Ok(items.into_iter().map(|item| item * 2).collect())
                }
            }
        }));
        let calls: Vec<_> = (0..100)
            .map(|number| {
                let (coalescer, asked) = (coalescer.clone(), asked.clone());
                tokio::spawn(async move {
                    asked.fetch_add(1, Ordering::SeqCst);
                    coalescer.call(vec![number, number + 1]).await
                })
            })
            .collect();
        // All hundred are waiting or in the first batch before anything is let through.
        while batches.load(Ordering::SeqCst) == 0 || asked.load(Ordering::SeqCst) < 100 {
            tokio::task::yield_now().await;
        }
        gate.add_permits(100);
        for (number, call) in calls.into_iter().enumerate() {
            let number = number as u32;
            assert_eq!(call.await.unwrap(), Ok(vec![number * 2, number * 2 + 2]));
        }
        assert!(batches.load(Ordering::SeqCst) <= 3, "{batches:?} batches for 100 concurrent calls");
    }

    #[tokio::test]
    async fn large_calls_do_not_share_a_batch() {
        let largest = Arc::new(AtomicUsize::new(0));
        let coalescer = Arc::new(Coalescer::start(1_000, None, {
            let largest = largest.clone();
            move |items: Vec<Vec<u8>>| {
                largest.fetch_max(items.iter().map(Vec::len).sum(), Ordering::SeqCst);
                async move {
                    // Everybody who has called is waiting when the next batch is put together.
                    tokio::task::yield_now().await;
                    Ok(items.iter().map(Vec::len).collect())
                }
            }
        }));
        let call = BATCH_BYTES_MAX / 2 + 1;
        let calls = (0..10).map(|_| coalescer.call_one(vec![0; call]));
        for answer in futures_util::future::join_all(calls).await {
            assert_eq!(answer, Ok(call));
        }
        assert_eq!(largest.load(Ordering::SeqCst), 2 * call, "two, and then it was enough");
    }

    #[tokio::test]
    async fn an_error_reaches_every_caller_of_the_batch() {
        let coalescer = Coalescer::start(10, None, |_: Vec<()>| async { Err::<Vec<()>, _>(Error::DiskFull) });
        let (one, two) = tokio::join!(coalescer.call_one(()), coalescer.call_one(()));
        assert_eq!((one, two), (Err(Error::DiskFull), Err(Error::DiskFull)));
    }

    #[tokio::test]
    async fn a_panic_ends_its_batch_and_not_the_verb() {
        let coalescer = Coalescer::start(10, None, |items: Vec<u32>| async move {
            assert_ne!(items, [13], "unlucky");
            Ok(items)
        });
        assert_eq!(coalescer.call_one(13).await, Err(Error::Internal));
        assert_eq!(coalescer.call_one(1).await, Ok(1));
    }
}
