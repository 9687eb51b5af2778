//! What every test asks at its end: is every run completed, exactly once, and is none lost?

use std::collections::HashSet;

use baton::proto::{HistoryEvent, RunView};
use baton::{Client, RunFilter};
use baton_core::State;
use tokio::task::JoinSet;

use crate::site::QUEUE;
use crate::wait::eventually;

/// Questions asked at once.
const QUESTIONS: usize = 16;

/// A run at the end of a test.
#[derive(Debug)]
pub struct Ended {
    pub run: RunView,
    pub events: Vec<HistoryEvent>,
}

impl Ended {
    /// When it was claimed under this epoch, on the store's clock in milliseconds.
    pub fn claimed_at(&self, epoch: u32) -> i64 {
        let claim = self.events.iter().find(|event| event.event == "claimed" && event.epoch == Some(epoch));
        claim.unwrap_or_else(|| panic!("never claimed under epoch {epoch}: {self:?}")).at.0
    }
}

/// Demands of the server that these runs, and no others, are on the queue, and that each was completed exactly once.
pub async fn assert_completed_once(client: &Client, ids: &[String]) -> Vec<Ended> {
    let distinct: HashSet<&String> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "a run was submitted under two names");
    assert_eq!(count(client, None).await, ids.len() as u64, "runs on the queue");
    each_completed_once(client, ids).await
}

/// Demands of the server that each of these runs was completed exactly once.
pub async fn each_completed_once(client: &Client, ids: &[String]) -> Vec<Ended> {
    let mut questions = JoinSet::new();
    for part in ids.chunks(ids.len().div_ceil(QUESTIONS).max(1)) {
        let (client, part) = (client.clone(), part.to_vec());
        questions.spawn(async move {
            let mut ended = Vec::with_capacity(part.len());
            for id in part {
                ended.push(ask(&client, &id).await);
            }
            ended
        });
    }
    let mut ended: Vec<Ended> = questions.join_all().await.into_iter().flatten().collect();
    ended.sort_by(|left, right| left.run.id.cmp(&right.run.id));
    ended
}

async fn ask(client: &Client, id: &str) -> Ended {
    let run = client.run(id).await.unwrap_or_else(|error| panic!("the run {id} is lost: {error}"));
    let events = client.history(id).await.expect("a run has a history").events;
    let ended = Ended { run, events };
    assert_eq!(ended.run.state, State::Completed, "{ended:?}");
    let completions = ended.events.iter().filter(|event| event.event == "completed").count();
    let leases = ended.events.iter().filter(|event| event.reason.as_deref() == Some("completed")).count();
    assert_eq!((completions, leases), (1, 1), "completed, and leases that completed it: {ended:?}");
    // The fence never stands still and never jumps: one claim for each epoch.
    let epochs: Vec<u32> =
        ended.events.iter().filter(|event| event.event == "claimed").filter_map(|event| event.epoch).collect();
    assert_eq!(epochs, (1..=ended.run.epoch).collect::<Vec<_>>(), "{ended:?}");
    ended
}

/// How many runs of the queue are in this state, or in all.
pub async fn count(client: &Client, state: Option<State>) -> u64 {
    let filter = RunFilter { queue: Some(QUEUE.into()), state, limit: Some(1), total: true, ..RunFilter::default() };
    client.runs(&filter).await.expect("the server answers").total.expect("it was asked for")
}

/// Waits until this many runs of the queue are in this state.
pub async fn wait_for_count(client: &Client, state: State, wanted: u64) {
    let what = format!("{wanted} runs that are {}", state.as_str());
    eventually(&what, async || (count(client, Some(state)).await == wanted).then_some(())).await;
}
