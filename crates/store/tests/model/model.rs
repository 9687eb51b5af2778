//! The simplest store there could be: vectors, no indexes, and the rules of `baton-core`.

use std::collections::{BTreeSet, HashMap};

use baton_core::machine::{self, Expiry, Options};
use baton_core::{Epoch, Failure, LeaseEnd, Millis, RetryPolicy, Run, order};
use baton_store::{Verdict, WorkerStatus};

use crate::answer::{Answer, Woken};
use crate::steps::{Choice, LANES, Lease, QUEUES, Wish};
use crate::views::{AttemptView, RunView, WorkerView};

/// Where the clock of every history begins.
pub const START: Millis = 1_700_000_000_000;
pub const TTL_MS: Millis = 4_000;
/// The die for every retry.
pub const JITTER: f64 = 0.5;
/// Blocked runs that one lease end frees when their key has no limit any more.
const UNBLOCKED_MAX: usize = 100;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Ready,
    Later,
    Blocked,
    Held,
    Gone,
}

#[derive(Clone, Debug)]
pub struct ModelRun {
    pub lane: usize,
    pub priority: u8,
    pub key: Option<&'static str>,
    pub options: Options,
    pub submitted_at: Millis,
    pub first_due_at: Millis,
    pub rules: Run,
    pub place: Place,
    pub level: i16,
    pub order_at: Millis,
    pub worker: Option<usize>,
    pub claim_no: i64,
    pub claimed_at: Option<Millis>,
    pub started_at: Option<Millis>,
    pub timeout_at: Option<Millis>,
    pub lease_until: Option<Millis>,
    pub ended_at: Option<Millis>,
    pub ended_with_error: bool,
    pub attempts: Vec<AttemptView>,
}

impl ModelRun {
    pub fn queue(&self) -> usize {
        self.lane / 2
    }
}

#[derive(Clone, Debug)]
pub struct ModelWorker {
    pub status: WorkerStatus,
    pub max_concurrent: u32,
    pub active: u32,
    pub completed: u64,
    pub failed: u64,
    pub seen_at: Millis,
    pub unfit: bool,
}

impl ModelWorker {
    /// How many more runs it can get.
    pub fn room(&self) -> u32 {
        match self.status {
            WorkerStatus::Online if !self.unfit => self.max_concurrent - self.active,
            WorkerStatus::Online | WorkerStatus::Draining | WorkerStatus::Offline => 0,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct ModelQueue {
    pub paused_until: Option<Millis>,
    pub key_limit: Option<u32>,
}

#[derive(Clone, Debug)]
pub struct Model {
    pub now: Millis,
    pub runs: Vec<ModelRun>,
    pub workers: Vec<ModelWorker>,
    pub queues: [ModelQueue; QUEUES],
    pub claims: i64,
    once: HashMap<&'static str, (u8, usize)>,
}

/// What is done to a run.
#[derive(Clone, Debug)]
pub enum Verb<'a> {
    Start,
    Complete,
    Fail(&'a Failure),
    GiveBack,
    Sleep(Millis),
    Cancel(Millis),
    Expire(Expiry),
}

/// What the verbs of one call leave to be done at its end.
#[derive(Default)]
pub struct Batch {
    keys: BTreeSet<(usize, &'static str)>,
    woken: Woken,
}

impl Model {
    pub fn new() -> Model {
        let queues = [ModelQueue::default(); QUEUES];
        Model { now: START, runs: Vec::new(), workers: Vec::new(), queues, claims: 0, once: HashMap::new() }
    }

    pub fn is_paused(&self, queue: usize) -> bool {
        self.queues[queue].paused_until.is_some_and(|until| until > self.now)
    }

    /// The runs in these places, in the order in which they are claimed.
    pub fn line(&self, wanted: impl Fn(&ModelRun) -> bool) -> Vec<usize> {
        let mut line: Vec<usize> = (0..self.runs.len()).filter(|number| wanted(&self.runs[*number])).collect();
        line.sort_by_key(|number| (self.runs[*number].level, self.runs[*number].order_at, *number));
        line
    }

    pub fn submit(&mut self, wishes: &[Wish]) -> Answer {
        let before = self.clone();
        let mut answer = Vec::new();
        for (index, wish) in wishes.iter().enumerate() {
            let known = wish.once.and_then(|(key, body)| Some((body, *self.once.get(key)?)));
            match known {
                Some((body, (same, number))) if body == same => answer.push((number, false)),
                Some(_) => {
                    *self = before;
                    return Answer::Submitted(Err(index));
                }
                None => answer.push((self.take_in(wish), true)),
            }
        }
        let tell = |(number, is_new): (usize, bool)| {
            let run = &self.runs[number];
            (number, run.submitted_at, run.first_due_at, is_new)
        };
        Answer::Submitted(Ok(answer.into_iter().map(tell).collect()))
    }

    fn take_in(&mut self, wish: &Wish) -> usize {
        let (now, number) = (self.now, self.runs.len());
        let (due_at, level) = (now + wish.delay_ms, order::level(wish.priority, false));
        let ready = self.runs.iter().filter(|run| run.level == level && run.place == Place::Ready);
        let head = ready.filter(|run| run.lane == wish.lane).map(|run| run.order_at).min();
        let waiting = self.runs.iter().filter(|run| matches!(run.place, Place::Ready | Place::Blocked));
        let of_key = waiting.filter(|run| run.level == level && run.queue() == wish.lane / 2 && run.key == wish.key);
        let last_of_key = of_key.map(|run| run.order_at).max();
        let order_at = match wish.key {
            Some(_) => order::fair_place(due_at, now, head, last_of_key),
            None => order::place(due_at, now),
        };
        self.runs.push(ModelRun {
            lane: wish.lane,
            priority: wish.priority,
            key: wish.key,
            options: options(wish.options),
            submitted_at: now,
            first_due_at: due_at,
            rules: Run::submitted(due_at),
            place: if due_at > now { Place::Later } else { Place::Ready },
            level,
            order_at,
            worker: None,
            claim_no: 0,
            claimed_at: None,
            started_at: None,
            timeout_at: None,
            lease_until: None,
            ended_at: None,
            ended_with_error: false,
            attempts: Vec::new(),
        });
        if let Some((key, body)) = wish.once {
            self.once.insert(key, (body, number));
        }
        number
    }

    /// Applies a verb to one run.
    pub fn act(&mut self, (number, epoch): Lease, verb: &Verb<'_>, batch: &mut Batch) -> Verdict {
        let (now, run, epoch) = (self.now, &mut self.runs[number], Epoch::new(epoch));
        let past = run.attempts.iter().find(|attempt| attempt.epoch == epoch.number()).map(|attempt| attempt.end);
        let (rules, retry) = (&run.rules, &run.options.retry);
        let (next, end) = match verb {
            Verb::Start => (machine::start(rules, epoch), None),
            Verb::Complete => (machine::complete(rules, epoch, past), Some(LeaseEnd::Completed)),
            Verb::Fail(why) => (machine::fail(rules, epoch, past, why, retry, now, JITTER), Some(LeaseEnd::Failed)),
            Verb::GiveBack => (machine::give_back(rules, epoch, past, now), Some(LeaseEnd::GivenBack)),
            Verb::Sleep(ms) => (machine::sleep(rules, epoch, past, now + ms), Some(LeaseEnd::Slept)),
            Verb::Cancel(grace_ms) => (machine::cancel(rules, now + grace_ms), None),
            Verb::Expire(what) => (machine::expire(rules, *what, &run.options, now, JITTER), Some(what.lease_end())),
        };
        let next = match next {
            Ok(next) => next,
            Err(refused) => return Verdict::Refused(refused),
        };
        run.rules = next;
        match (verb, end) {
            (Verb::Start, _) => run.started_at = Some(now),
            (_, None) if !next.state.is_ended() => {}
            (_, end) => self.leave(number, end.map(|end| machine::lease_end(end, &next)), verb, batch),
        }
        let cancelling = next.cancel_by.is_some() && !next.state.is_ended();
        Verdict::Done { state: next.state, cancelling }
    }

    /// The run leaves its holder's hands, or the store's live ones.
    fn leave(&mut self, number: usize, end: Option<LeaseEnd>, verb: &Verb<'_>, batch: &mut Batch) {
        let (now, run) = (self.now, &mut self.runs[number]);
        let has_error = matches!(verb, Verb::Fail(_) | Verb::GiveBack | Verb::Expire(_));
        if let Some(end) = end {
            run.attempts.push(AttemptView {
                epoch: run.rules.epoch.number(),
                worker: run.worker,
                claimed_at: run.claimed_at.unwrap(),
                started_at: run.started_at,
                ended_at: now,
                end,
                has_error,
            });
            let worker = &mut self.workers[run.worker.unwrap()];
            worker.active -= 1;
            worker.completed += u64::from(matches!(verb, Verb::Complete));
            worker.failed += u64::from(matches!(verb, Verb::Fail(_) | Verb::Expire(Expiry::Timeout)));
            batch.keys.extend(run.key.map(|key| (run.lane / 2, key)));
        }
        (run.timeout_at, run.lease_until) = (None, None);
        if run.rules.state.is_ended() {
            (run.place, run.ended_at, run.ended_with_error) = (Place::Gone, Some(now), end.is_some() && has_error);
            return;
        }
        (run.worker, run.claimed_at, run.started_at) = (None, None, None);
        run.level = order::level(run.priority, run.rules.returned);
        if !run.rules.returned {
            run.order_at = order::place(run.rules.due_at, now);
        }
        match run.rules.due_at > now {
            true => {
                run.place = Place::Later;
                batch.woken.later(run.lane, run.rules.due_at - now);
            }
            false => {
                run.place = Place::Ready;
                batch.woken.now(run.lane);
            }
        }
    }

    /// What is left to do when all verbs of a call are done.
    pub fn finish(&mut self, batch: Batch) -> Woken {
        let mut woken = batch.woken;
        for (queue, key) in batch.keys {
            self.make_room(queue, key, UNBLOCKED_MAX, &mut woken);
        }
        woken
    }

    pub fn key_held(&self, queue: usize, key: &str) -> u32 {
        let held = self.runs.iter().filter(|run| run.place == Place::Held && run.queue() == queue);
        held.filter(|run| run.key == Some(key)).count() as u32
    }

    fn make_room(&mut self, queue: usize, key: &'static str, most_without_limit: usize, woken: &mut Woken) {
        let limit = self.queues[queue].key_limit;
        let room = limit.map(|limit| limit.saturating_sub(self.key_held(queue, key)) as usize);
        let blocked = self.line(|run| run.place == Place::Blocked && run.queue() == queue && run.key == Some(key));
        for number in blocked.into_iter().take(room.unwrap_or(most_without_limit)) {
            self.runs[number].place = Place::Ready;
            woken.now(self.runs[number].lane);
        }
    }

    pub fn unblock(&mut self) -> Woken {
        let blocked = self.runs.iter().filter(|run| run.place == Place::Blocked);
        let keys: BTreeSet<_> = blocked.filter_map(|run| Some((run.queue(), run.key?))).collect();
        let mut woken = Woken::default();
        for (queue, key) in keys {
            self.make_room(queue, key, usize::MAX, &mut woken);
        }
        woken
    }

    pub fn changes<'a>(&mut self, acts: impl Iterator<Item = (Lease, Verb<'a>)>) -> Answer {
        let mut batch = Batch::default();
        let verdicts = acts.map(|(lease, verb)| self.act(lease, &verb, &mut batch)).collect();
        Answer::Changes(verdicts, self.finish(batch))
    }

    /// Every lease that is held, by run.
    pub fn held(&self) -> Vec<Lease> {
        let held = self.runs.iter().enumerate().filter(|(_, run)| run.place == Place::Held);
        held.map(|(number, run)| (number, run.rules.epoch.number())).collect()
    }

    pub fn run_views(&self) -> Vec<RunView> {
        self.runs.iter().enumerate().map(|(number, run)| RunView::of_model(number, run)).collect()
    }

    pub fn worker_views(&self) -> Vec<WorkerView> {
        self.workers.iter().map(WorkerView::of_model).collect()
    }

    pub fn unpaused_lanes(&self) -> Vec<usize> {
        (0..LANES).filter(|lane| !self.is_paused(lane / 2)).collect()
    }
}

pub fn options(choice: Choice) -> Options {
    let retry = RetryPolicy { max_attempts: 2, first_interval_ms: 400, ..RetryPolicy::default() };
    match choice {
        Choice::Default => Options::default(),
        Choice::Short => Options { retry, max_losses: 1, ..Options::default() },
        Choice::Timed => Options { retry, timeout_ms: Some(3_000), ..Options::default() },
    }
}
