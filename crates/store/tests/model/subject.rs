//! A real store that acts out a history and answers in numbers.

use std::collections::HashMap;
use std::sync::Arc;

use baton_core::{Epoch, Failure, RunId, WorkerId, mark};
use baton_store::{
    Beat, BeatAnswer, Changes, ClaimRequest, ClaimSlot, Claimed, Clock, Completion, Due, Health, Idempotency, Lane,
    LaneName, LeaseRef, NewRun, NewWorker, Page, QueueChange, RunFilter, Store, Submission, SubmitRefused, WorkerInfo,
};

use crate::answer::{self, Answer, Claim, Depth, Expiry, Woken};
use crate::model::{JITTER, START, TTL_MS, options};
use crate::steps::{Action, LANES, Lease, QUEUES, Slot, Wish};
use crate::views::{RunView, WorkerView};

/// The random bits of every claim.
const DIE: u32 = 7;

/// A claim of the model is several of the store, so its number is not one of a worker's.
fn own_number(claim_no: i64) -> i64 {
    -1 - claim_no
}

pub struct Subject {
    pub store: Arc<dyn Store>,
    clock: Clock,
    lanes: Vec<Lane>,
    runs: Vec<RunId>,
    workers: Vec<WorkerId>,
    numbers: HashMap<RunId, usize>,
}

impl Subject {
    pub async fn new(store: Arc<dyn Store>, clock: Clock) -> Subject {
        let name = |lane: usize| LaneName {
            namespace: "default".into(),
            queue: format!("q{}", lane / 2),
            kind: format!("k{lane}"),
        };
        let lanes = store.lanes(&(0..LANES).map(name).collect::<Vec<_>>()).await.unwrap();
        Subject { store, clock, lanes, runs: Vec::new(), workers: Vec::new(), numbers: HashMap::new() }
    }

    pub async fn act(&mut self, action: &Action) -> Answer {
        let store = Arc::clone(&self.store);
        let leases = |leases: &[Lease]| leases.iter().map(|lease| self.lease(*lease)).collect::<Vec<_>>();
        match action {
            Action::Submit(wishes) => self.submit(wishes).await,
            Action::Claim { queue, slots, limit, claim_no } => self.claim(*queue, slots, *limit, *claim_no).await,
            Action::Claimed { worker, claim_no } => {
                let claimed = store.claimed(self.workers[*worker], claim_no.map(own_number)).await.unwrap();
                Answer::Claimed(claimed.iter().map(|claimed| self.claim_view(claimed)).collect())
            }
            Action::Start(given) => Answer::Verdicts(store.start(leases(given)).await.unwrap()),
            Action::Complete(given) => {
                let done = |lease| Completion { lease, output: None };
                self.changes(store.complete(leases(given).into_iter().map(done).collect()).await.unwrap())
            }
            Action::Fail(given) => {
                let failed = |(lease, failure): &(Lease, Failure)| (self.lease(*lease), failure.clone());
                self.changes(store.fail(given.iter().map(failed).collect(), JITTER).await.unwrap())
            }
            Action::GiveBack(given) => {
                let given_back = |lease| (lease, "no room".to_owned());
                self.changes(store.give_back(leases(given).into_iter().map(given_back).collect()).await.unwrap())
            }
            Action::Sleep(given) => {
                let slept = |(lease, ms): &(Lease, i64)| (self.lease(*lease), Due::After(*ms));
                self.changes(store.sleep(given.iter().map(slept).collect()).await.unwrap())
            }
            Action::Cancel(runs, grace_ms) => {
                let runs = runs.iter().map(|number| self.runs[*number]).collect();
                self.changes(store.cancel(runs, *grace_ms).await.unwrap())
            }
            Action::Register { max_concurrent } => self.register(*max_concurrent).await,
            Action::Renew { worker, leases: given, unfit } => {
                let beat = Beat {
                    worker: self.workers[*worker],
                    health: unfit.map(|_| Health::default()),
                    unfit: unfit.filter(|unfit| *unfit).map(|_| "disk".into()),
                    ttl_ms: None,
                    leases: leases(given),
                };
                self.beat(store.renew(vec![beat]).await.unwrap().remove(0))
            }
            Action::SetWorker(worker, status) => {
                let change = store.set_worker(self.workers[*worker], *status, "because").await.unwrap().unwrap();
                Answer::Worker(change.given_back, self.woken(&change.woken))
            }
            Action::Lose => {
                let lost = store.lose_workers(0, 1_000).await.unwrap();
                Answer::Lost(sorted(lost.into_iter().map(|worker| self.worker(worker)).collect()))
            }
            Action::Expire => {
                let expired = store.expire(JITTER, 1_000).await.unwrap();
                let mut runs: Vec<_> = expired.runs.iter().map(|run| self.expiry(run)).collect();
                runs.sort_by_key(|run| run.lease);
                Answer::Expired(runs, self.woken(&expired.woken))
            }
            Action::Unblock => Answer::Woken(self.woken(&store.unblock(1_000).await.unwrap())),
            Action::Advance(ms) => {
                self.clock.advance(*ms);
                Answer::Done
            }
            Action::Pause(queue, ms) => {
                let paused_until = Some(ms.map(|ms| self.clock.local() + ms));
                self.set_queue(*queue, QueueChange { paused_until, ..QueueChange::default() }).await
            }
            Action::KeyLimit(queue, limit) => {
                self.set_queue(*queue, QueueChange { key_limit: Some(*limit), ..QueueChange::default() }).await
            }
            Action::Look(lanes) => {
                let lanes: Vec<_> = lanes.iter().map(|lane| self.lanes[*lane].lane).collect();
                let look = store.look(&lanes).await.unwrap();
                let ready = sorted(look.ready.iter().map(|lane| self.lane(*lane)).collect());
                let later = sorted(look.later.iter().map(|(lane, ms)| (self.lane(*lane), *ms)).collect());
                Answer::Look { ready, later }
            }
            Action::Depths => {
                let queues: Vec<_> = (0..QUEUES).map(|queue| self.lanes[2 * queue].queue).collect();
                let depths = store.depths(&queues, 1_000).await.unwrap();
                Answer::Depths(depths.iter().map(depth).collect())
            }
        }
    }

    /// All runs and workers as they stand.
    pub async fn views(&self) -> (Vec<RunView>, Vec<WorkerView>) {
        let mut records = self.store.runs(&RunFilter::default(), Page { after: None, limit: 10_000 }).await.unwrap();
        records.reverse();
        let mut runs = Vec::new();
        for record in &records {
            let attempts = self.store.attempts(record.id).await.unwrap();
            let worker = |worker| self.worker(worker);
            runs.push(RunView::of_store(record, &attempts, self.numbers[&record.id], self.lane(record.lane), worker));
        }
        let mut workers = Vec::new();
        for worker in &self.workers {
            workers.push(WorkerView::of_store(&self.store.worker(*worker).await.unwrap().unwrap()));
        }
        (runs, workers)
    }

    async fn submit(&mut self, wishes: &[Wish]) -> Answer {
        let runs = wishes.iter().map(|wish| self.new_run(wish)).collect();
        let dice = wishes.iter().enumerate().map(|(index, _)| index as u64).collect();
        let answer = self.store.submit(vec![Submission { runs, dice }]).await.unwrap().remove(0);
        Answer::Submitted(match answer {
            Err(SubmitRefused::KeyReused(index)) => Err(index),
            Ok(submitted) => Ok(submitted
                .into_iter()
                .map(|one| {
                    let next = self.numbers.len();
                    let number = *self.numbers.entry(one.run).or_insert(next);
                    if number == self.runs.len() {
                        self.runs.push(one.run);
                    }
                    (number, one.submitted_at, one.due_at, one.is_new)
                })
                .collect()),
        })
    }

    fn new_run(&self, wish: &Wish) -> NewRun {
        let once = |(key, body): (&str, u8)| Idempotency { key: key.into(), fingerprint: [body; 16] };
        NewRun {
            lane: self.lanes[wish.lane],
            priority: wish.priority,
            due: Due::After(wish.delay_ms),
            key: wish.key.map(str::to_owned),
            affinity: None,
            idempotency: wish.once.map(once),
            options: Some(options(wish.options)),
            retry_of: None,
            trace: None,
            input: "{}".into(),
        }
    }

    /// Claims until all slots are full, the limit is reached or the store says that nothing is left.
    async fn claim(&self, queue: usize, slots: &[Slot], limit: usize, claim_no: i64) -> Answer {
        let mut open: Vec<_> = slots.iter().map(|slot| self.slot(slot, claim_no)).collect();
        let (mut claimed, mut refused) = (Vec::new(), Vec::new());
        loop {
            let left = limit - claimed.len();
            let request =
                ClaimRequest { queue: self.lanes[2 * queue].queue, slots: open.clone(), limit: left, die: DIE };
            let answer = self.store.claim(request).await.unwrap();
            for one in &answer.claimed {
                open[one.slot].room -= 1;
                claimed.push(self.claim_view(one));
            }
            for (slot, why) in answer.refused {
                open[slot].room = 0;
                refused.push((slot, why));
            }
            let is_waiting = claimed.len() < limit && open.iter().any(|slot| slot.room > 0);
            if !(answer.more && is_waiting) {
                refused.sort_by_key(|(slot, _)| *slot);
                return Answer::Claim { claimed, refused, next_in_ms: is_waiting.then_some(answer.next_in_ms) };
            }
        }
    }

    fn slot(&self, slot: &Slot, claim_no: i64) -> ClaimSlot {
        ClaimSlot {
            worker: self.workers[slot.worker],
            name: format!("w{}", slot.worker),
            lanes: sorted(slot.lanes.iter().map(|lane| self.lanes[*lane].lane).collect()),
            room: slot.room,
            claim_no: own_number(claim_no),
            start: slot.start,
            lease_ms: slot.lease_ms,
            asked_ms_ago: None,
        }
    }

    async fn register(&mut self, max_concurrent: u32) -> Answer {
        let id = WorkerId::from_random(START as u128 + self.workers.len() as u128);
        let worker = NewWorker {
            id,
            instance: None,
            namespace: "default".into(),
            name: format!("w{}", self.workers.len()),
            info: WorkerInfo::default(),
            max_concurrent,
            ttl_ms: TTL_MS,
            key_id: None,
        };
        self.store.register(worker).await.unwrap();
        self.workers.push(id);
        Answer::Done
    }

    async fn set_queue(&self, queue: usize, change: QueueChange) -> Answer {
        self.store.set_queue("default", &format!("q{queue}"), change).await.unwrap();
        Answer::Done
    }

    fn beat(&self, answer: BeatAnswer) -> Answer {
        Answer::Beat(match answer {
            BeatAnswer::Alive { status, lease_until, lost, cancelling, .. } => {
                let numbered = |leases: Vec<LeaseRef>| {
                    let mut leases = sorted(leases.iter().map(|lease| self.numbered(*lease)).collect());
                    leases.dedup();
                    leases
                };
                answer::Beat::Alive { status, lease_until, lost: numbered(lost), cancelling: numbered(cancelling) }
            }
            BeatAnswer::Offline => answer::Beat::Offline,
            BeatAnswer::Unknown => panic!("every worker of a history is known"),
        })
    }

    fn changes(&self, changes: Changes) -> Answer {
        Answer::Changes(changes.verdicts, self.woken(&changes.woken))
    }

    fn woken(&self, woken: &baton_store::Woken) -> Woken {
        let mut answer = Woken::default();
        woken.lanes.iter().for_each(|lane| answer.now(self.lane(*lane)));
        woken.later.iter().for_each(|(lane, ms)| answer.later(self.lane(*lane), *ms));
        answer
    }

    fn expiry(&self, run: &baton_store::ExpiredRun) -> Expiry {
        let lease = self.numbered(LeaseRef { run: run.run, epoch: run.epoch });
        Expiry { lease, worker: run.worker.map(|worker| self.worker(worker)), end: run.end, state: run.state }
    }

    fn claim_view(&self, claimed: &Claimed) -> Claim {
        Claim {
            slot: claimed.slot,
            lease: self.numbered(LeaseRef { run: claimed.run, epoch: claimed.epoch }),
            lane: self.lane(claimed.lane),
            attempt: claimed.attempt,
            priority: claimed.priority,
            submitted_at: claimed.submitted_at,
            timeout_at: claimed.timeout_at,
            key: claimed.key.clone(),
        }
    }

    fn lease(&self, (number, epoch): Lease) -> LeaseRef {
        // No claim has epoch 0.
        let mark = if epoch == 0 { 0 } else { mark(DIE) };
        LeaseRef { run: self.runs[number], epoch: Epoch::new(epoch).marked(mark) }
    }

    fn numbered(&self, lease: LeaseRef) -> Lease {
        (self.numbers[&lease.run], lease.epoch.number())
    }

    fn lane(&self, id: i32) -> usize {
        self.lanes.iter().position(|lane| lane.lane == id).expect("a lane of this history")
    }

    fn worker(&self, id: WorkerId) -> usize {
        self.workers.iter().position(|worker| *worker == id).expect("a worker of this history")
    }
}

fn depth(depth: &baton_store::Depth) -> Depth {
    Depth {
        ready: depth.ready,
        scheduled: depth.scheduled,
        held: depth.held,
        sleeping: depth.sleeping,
        oldest_ms: depth.oldest_ms,
    }
}

fn sorted<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort();
    list
}
