//! Many submitters at once, each sending one run after the other and repeating what got no answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use baton::proto::SubmitRun;
use baton::{Client, ClientError};
use tokio::task::JoinSet;

use crate::site::job;
use crate::wait::{eventually, until_answered};

/// A run that was acknowledged.
#[derive(Debug)]
pub struct Acknowledged {
    pub id: String,
    /// When it was first sent.
    sent: Instant,
    /// When it was acknowledged.
    at: Instant,
}

/// A stream of submits that goes on while things fall.
pub struct Stream {
    submitters: JoinSet<Vec<Acknowledged>>,
    total: usize,
    progress: Arc<Progress>,
}

#[derive(Default)]
struct Progress {
    acknowledged: AtomicUsize,
    unavailable: AtomicUsize,
}

impl Stream {
    /// Begins to submit, `each` runs by each of the submitters.
    pub fn start(client: &Client, submitters: usize, each: usize) -> Stream {
        let progress = Arc::<Progress>::default();
        let (total, mut tasks) = (submitters * each, JoinSet::new());
        for submitter in 0..submitters {
            let (client, progress) = (client.clone(), progress.clone());
            tasks.spawn(async move {
                let mut runs = Vec::with_capacity(each);
                for number in 0..each {
                    runs.push(submit(&client, &format!("{submitter}-{number}"), &progress).await);
                }
                runs
            });
        }
        Stream { submitters: tasks, total, progress }
    }

    /// Waits until a third of the runs are acknowledged. The stream is then in full flow.
    pub async fn flows(&self) {
        self.reaches(self.total / 3).await;
    }

    /// Waits until more runs are acknowledged than now.
    pub async fn flows_again(&self) {
        self.reaches(self.progress.acknowledged.load(Ordering::SeqCst) + 1).await;
    }

    async fn reaches(&self, wanted: usize) {
        let what = format!("{wanted} acknowledged submits");
        let acknowledged = &self.progress.acknowledged;
        eventually(&what, async || (acknowledged.load(Ordering::SeqCst) >= wanted).then_some(())).await;
    }

    /// Demands that the stream was cut in the middle: some submits are still to come.
    pub fn assert_unfinished(&self) {
        let acknowledged = self.progress.acknowledged.load(Ordering::SeqCst);
        assert!(acknowledged < self.total, "all {acknowledged} submits went through before anything fell");
    }

    /// Waits until the server has answered a submit with 503.
    pub async fn is_told_to_wait(&self) {
        let unavailable = &self.progress.unavailable;
        eventually("an answer 503", async || (unavailable.load(Ordering::SeqCst) > 0).then_some(())).await;
    }

    /// Waits until everything is acknowledged.
    pub async fn finish(self) -> Vec<Acknowledged> {
        self.submitters.join_all().await.into_iter().flatten().collect()
    }
}

async fn submit(client: &Client, key: &str, progress: &Progress) -> Acknowledged {
    let run = SubmitRun { idempotency_key: Some(key.into()), ..job() };
    let sent = Instant::now();
    let submitted = until_answered(async || {
        let answer = client.submit(&run).await;
        if let Err(ClientError::Refused { status: 503, .. }) = &answer {
            progress.unavailable.fetch_add(1, Ordering::SeqCst);
        }
        answer
    });
    let submitted = submitted.await.expect("a good submit");
    progress.acknowledged.fetch_add(1, Ordering::SeqCst);
    Acknowledged { id: submitted.id, sent, at: Instant::now() }
}

/// Identifiers of the runs.
pub fn ids(runs: &[Acknowledged]) -> Vec<String> {
    runs.iter().map(|run| run.id.clone()).collect()
}

/// Demands that no run was claimed before one that had been acknowledged before it was sent.
pub fn assert_first_in_first_out<'a>(runs: &[Acknowledged], claimed: impl Iterator<Item = &'a str>) {
    let by_id: HashMap<&str, &Acknowledged> = runs.iter().map(|run| (run.id.as_str(), run)).collect();
    let order: Vec<&Acknowledged> = claimed.map(|id| by_id[id]).collect();
    for (place, run) in order.iter().enumerate() {
        if let Some(late) = order[place + 1..].iter().find(|later| later.at < run.sent) {
            panic!("{} was claimed before {}, which had been acknowledged before it was sent", run.id, late.id);
        }
    }
}
