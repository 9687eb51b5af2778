//! /api/v1/bulk

mod acting;
mod operations;
mod taken_over;

use std::collections::BTreeMap;

use baton::RunFilter;
use baton::proto::{BulkFilter, BulkView, CreateBulk, SubmitBatch, SubmitRun};
use baton_core::State;
use serde_json::json;

use crate::harness::{On, Server, eventually, fail, started_claim};

fn filter(queue: &str) -> BulkFilter {
    BulkFilter { queue: Some(queue.into()), ..BulkFilter::default() }
}

fn cancel(queue: &str) -> CreateBulk {
    CreateBulk::new("cancel", filter(queue))
}

fn retry(queue: &str) -> CreateBulk {
    CreateBulk::new("retry", filter(queue))
}

fn on_queue(queue: &str) -> SubmitRun {
    SubmitRun::new(queue, "send")
}

impl Server {
    /// A server whose operations have no reason to wait.
    async fn unhurried(on: On) -> Server {
        Server::with(on, |settings| {
            settings.bulk_rate = 1_000_000.0;
            settings.bulk_rate_max = 1_000_000.0;
        })
        .await
    }

    async fn submit_many(&self, count: usize, run: &SubmitRun) -> Vec<String> {
        let mut ids = Vec::with_capacity(count);
        for begin in (0..count).step_by(1_000) {
            let batch = SubmitBatch { runs: vec![run.clone(); (count - begin).min(1_000)] };
            let submitted = self.client.submit_batch(&batch).await.unwrap();
            ids.extend(submitted.runs.into_iter().map(|run| run.id));
        }
        ids
    }

    /// Submits runs, and lets each fail for good.
    async fn submit_failed(&self, count: usize, queue: &str) -> Vec<String> {
        let retry = Some(baton_core::RetryPolicy { max_attempts: 1, ..Default::default() });
        let ids = self.submit_many(count, &SubmitRun { retry, ..on_queue(queue) }).await;
        let worker = json!({"name": "fails", "queues": [queue], "types": ["send"], "max_concurrent": count});
        let worker = self.client.register(&serde_json::from_value(worker).unwrap()).await.unwrap().worker_id;
        let claim = baton::proto::Claim { max: Some(count as u32), ..started_claim() };
        for held in self.claims(&worker, &claim).await {
            self.client.fail(&held.run_id, &fail(&held.lease)).await.unwrap();
        }
        ids
    }

    async fn begin(&self, wanted: &CreateBulk) -> BulkView {
        self.client.bulk_start(wanted, None).await.unwrap()
    }

    async fn ended(&self, id: &str) -> BulkView {
        let mut view = None;
        eventually("the operation ends", async || {
            let found = self.client.bulk(id).await.unwrap();
            let has_ended = found.is_ended();
            view = Some(found);
            has_ended
        })
        .await;
        view.unwrap()
    }

    /// Waits until an operation has acted on so many runs, and nobody looks at it before the clock moves.
    async fn waits(&self, id: &str, done: u64) -> baton_store::BulkOperation {
        let mut found = None;
        eventually("the operation waits for its rate", async || {
            let looked = self.app.store.bulk(id.parse().unwrap()).await.unwrap().unwrap();
            assert!(looked.progress.tally.done <= done, "faster than its rate: {looked:?}");
            let is_so = looked.progress.tally.done == done && looked.due_at > self.clock.local();
            found = Some(looked);
            is_so
        })
        .await;
        found.unwrap()
    }

    async fn carried_out(&self, wanted: &CreateBulk) -> BulkView {
        self.ended(&self.begin(wanted).await.id).await
    }

    /// How many runs of a queue are in each state.
    async fn standing(&self, queue: &str) -> BTreeMap<&'static str, u64> {
        let mut all = BTreeMap::new();
        for state in State::ALL {
            let filter =
                RunFilter { queue: Some(queue.into()), states: vec![state], total: true, ..RunFilter::default() };
            let count = self.client.runs(&filter).await.unwrap().total.unwrap();
            if count > 0 {
                all.insert(state.as_str(), count);
            }
        }
        all
    }
}

fn tally(view: &BulkView) -> (u64, u64, u64) {
    (view.done, view.skipped, view.failed)
}
