//! What the model says about its queues.

use baton_core::State;

use crate::answer::{Answer, Depth};
use crate::model::{Model, ModelRun, Place};
use crate::steps::QUEUES;

impl Model {
    pub fn look(&self, lanes: &[usize]) -> Answer {
        let (mut ready, mut later) = (Vec::new(), Vec::new());
        for lane in lanes {
            let waiting = self.runs.iter().filter(|run| run.lane == *lane && run.place == Place::Later);
            let due_in: Vec<_> = waiting.map(|run| run.rules.due_at - self.now).collect();
            let any_ready = self.runs.iter().any(|run| run.lane == *lane && run.place == Place::Ready);
            if any_ready || due_in.iter().any(|ms| *ms <= 0) {
                ready.push(*lane);
            }
            later.extend(due_in.into_iter().filter(|ms| *ms > 0).min().map(|ms| (*lane, ms)));
        }
        Answer::Look { ready, later }
    }

    pub fn depths(&self) -> Answer {
        let depth = |queue| {
            let all = || self.runs.iter().filter(move |run| run.queue() == queue);
            let is_later = |run: &&ModelRun| run.place == Place::Later && run.rules.due_at > self.now;
            let later = |state| all().filter(is_later).filter(|run| run.rules.state == state).count() as u64;
            let is_ready = |run: &&ModelRun| !matches!(run.place, Place::Held | Place::Gone) && !is_later(run);
            Depth {
                ready: all().filter(is_ready).count() as u64,
                scheduled: later(State::Pending),
                held: all().filter(|run| run.place == Place::Held).count() as u64,
                sleeping: later(State::Sleeping),
                oldest_ms: all().filter(is_ready).map(|run| self.now - run.rules.due_at).max(),
            }
        };
        Answer::Depths((0..QUEUES).map(depth).collect())
    }
}
