//! The claimer of a line: takes waiting polls to the store, and hands out what it brings.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use baton_core::Millis;
use baton_store::{
    ClaimAnswer, ClaimRequest, ClaimSlot, Claimed, Clock, LaneId, LeaseRef, SlotRefused, StoreError, StoreResult,
};
use futures_util::FutureExt;

use super::{Line, UNSURE};
use crate::Error;
use crate::dispatch::waiting::{Answer, Handed, Parked};

/// Most polls offered to the store in one claim.
const CLAIM_SLOTS_MAX: usize = 256;
/// What a lone poll claims when the claim before it brought fewer. A store knows shorter ways for few.
const FEW: usize = 64;
/// Pause after a claim that the store could not carry out.
const STORE_PAUSE: Duration = Duration::from_millis(200);
/// A poll whose time is over looks so often at most: where others are always faster, it is sent
/// away in the end.
const LOOKS_MAX: u32 = 8;

impl Line {
    /// The claimer: sleeps until there is a reason to look and somebody to look for.
    pub(in crate::dispatch) async fn serve(self: Arc<Self>) {
        loop {
            let rung = self.bell.notified();
            match self.next() {
                Next::Stop => return,
                Next::Claim(offered, since) => self.claim(offered, since).await,
                Next::Wait(None) => rung.await,
                Next::Wait(Some(due)) => tokio::select! {
                    () = rung => {}
                    () = self.until(due) => self.with(|waiting| {
                        waiting.next_due = None;
                        waiting.clean.clear();
                    }),
                },
            }
        }
    }

    async fn until(&self, due: Millis) {
        match self.store.clock() {
            // One more, because elapsed milliseconds are rounded down.
            Clock::Real => {
                tokio::time::sleep(Duration::from_millis((due - self.now()).max(0) as u64 + 1)).await;
            }
            Clock::Manual(now) => {
                // The sender lives as long as the clock, so this only ends when the time has come.
                let _ = now.subscribe().wait_for(|now| *now >= due).await;
            }
        }
    }

    fn next(&self) -> Next {
        self.with(|waiting| {
            // The claim this poll waited for may have been dropped with its connection.
            waiting.parked.retain(|parked| !parked.answer.is_closed());
            if waiting.closed {
                return Next::Stop;
            }
            let mut offered = Vec::new();
            let (mut index, mut had_theirs) = (0, HashSet::new());
            while index < waiting.parked.len() && offered.len() < CLAIM_SLOTS_MAX {
                let parked = &waiting.parked[index];
                if waiting.is_eager(parked) && (!parked.in_turn || had_theirs.insert(parked.slot.worker)) {
                    offered.extend(waiting.parked.remove(index));
                } else {
                    index += 1;
                }
            }
            if offered.is_empty() {
                return Next::Wait(waiting.next_due);
            }
            // Clean from here on: a wake-up while we are at the store makes them dirty again.
            for lane in offered.iter().flat_map(|parked| &parked.slot.lanes) {
                waiting.clean.insert(*lane);
                waiting.looked_at.insert(*lane);
            }
            Next::Claim(offered, waiting.next_number)
        })
    }

    async fn claim(self: &Arc<Self>, offered: Vec<Parked>, since: u64) {
        let slots: Vec<_> = offered.iter().map(|parked| self.asking(parked)).collect();
        let most = match self.trickles.load(Ordering::Relaxed) && slots.len() == 1 {
            true => FEW,
            false => baton_store::CLAIM_RUNS_MAX,
        };
        let limit = slots.iter().map(|slot| slot.room as usize).sum::<usize>().min(most);
        // A panic must not be the end of the queue's only claimer.
        let request = ClaimRequest { queue: self.queue, slots, limit, die: self.die() };
        let begun = std::time::Instant::now();
        let claim = AssertUnwindSafe(self.metrics.claim.at_store(self.store.claim(request))).catch_unwind();
        let answer = claim.await.unwrap_or_else(|_| Err(StoreError::Internal("a claim panicked".into())));
        self.metrics.claim.took(begun);
        if let Ok(answer) = &answer {
            self.trickles.store(!answer.more && answer.claimed.len() < FEW, Ordering::Relaxed);
        }
        let failed = answer.is_err();
        let loose = self.hand_out(offered, since, answer, Looked::Everywhere);
        self.tie_up(loose).await;
        if failed {
            tokio::time::sleep(STORE_PAUSE).await;
        }
    }

    /// The slot of a poll that goes to the store.
    fn asking(&self, parked: &Parked) -> ClaimSlot {
        ClaimSlot { asked_ms_ago: self.asked(parked).map(|asked| asked.ms_ago), ..parked.slot.clone() }
    }

    /// What is left to do after polls were answered: runs nobody knows of, and claims of which nobody knows what came of them.
    pub(super) async fn tie_up(self: &Arc<Self>, loose: Loose) {
        if !loose.unsure.is_empty() {
            let line = self.clone();
            tokio::spawn(async move { line.find_out(loose.unsure).await });
        }
        if !loose.orphans.is_empty() {
            // Their polls are gone, so nobody knows of these claims: put the runs back rather than
            // let them wait. A worker that asked again, here or at another server, may have heard of them
            // by now; those stay.
            let orphans: Vec<_> = loose.orphans.iter().map(|lease| lease.run).collect();
            if let Ok(woken) = self.store.give_back_unheard(loose.orphans, "its poll was gone").await {
                self.events.changed(orphans.into_iter().map(|run| (run, None, Some("given_back"))));
                self.metrics.series.settled(&woken.settled);
                woken.lanes.iter().for_each(|lane| self.wake(*lane));
            }
        }
    }

    /// A claim that failed may have been carried out all the same: its answer was lost. A poll that got runs by it hears of them
    /// as soon as the store can be asked; the others go on waiting.
    async fn find_out(&self, mut unsure: Vec<ClaimSlot>) {
        while !unsure.is_empty() {
            tokio::time::sleep(STORE_PAUSE).await;
            // Those that have left find out themselves, with their next claim.
            self.with(|waiting| unsure.retain(|slot| waiting.same_claim(slot, 0).is_some()));
            while let Some(slot) = unsure.last() {
                let Ok(held) = self.store.repeat_claim(slot.worker, Some(slot.claim_no)).await else { break };
                self.with(|waiting| {
                    let Some(mut parked) = waiting.take_same_claim(slot, 0) else { return };
                    if held.is_empty() {
                        parked.unsure = false;
                        waiting.parked.push_front(parked);
                    } else {
                        parked.hand(held);
                    }
                });
                unsure.pop();
            }
            self.bell.notify_one();
        }
    }

    /// Counts what a claim brought, but for what an earlier call of it was given already.
    fn count(&self, offered: &[Parked], answer: &ClaimAnswer) {
        let new = answer.claimed.iter().filter(|run| !answer.again.contains(&run.slot));
        let starts = |run: &&Claimed| offered.get(run.slot).is_some_and(|parked| parked.slot.start);
        self.metrics.claim.runs.inc_by(new.clone().count() as u64);
        self.metrics.start.runs.inc_by(new.clone().filter(starts).count() as u64);
        self.metrics.series.claimed(new.clone());
        self.metrics.queues.claimed(new);
    }

    /// Tells listeners who got what. What a repeated claim got again they have heard of.
    fn note(&self, offered: &[Parked], answer: &ClaimAnswer) {
        let new = answer.claimed.iter().filter(|claimed| !answer.again.contains(&claimed.slot));
        self.events.claimed(
            new.filter_map(|claimed| Some((claimed.run, claimed.lane, offered.get(claimed.slot)?.slot.worker))),
        );
    }

    /// Answers the polls that got something or never will; parks the others again, in front.
    pub(super) fn hand_out(
        &self,
        offered: Vec<Parked>,
        since: u64,
        answer: StoreResult<ClaimAnswer>,
        looked: Looked,
    ) -> Loose {
        let failed = answer.is_err();
        let answer = answer.unwrap_or_else(|error| {
            // The polls keep waiting: their callers would only come back at once.
            tracing::warn!(%error, queue = self.queue, "a claim failed; trying again");
            self.with(|waiting| waiting.clean.clear());
            ClaimAnswer::default()
        });
        self.count(&offered, &answer);
        self.note(&offered, &answer);
        let mut shares: HashMap<usize, Vec<Claimed>> = HashMap::new();
        for claimed in answer.claimed {
            shares.entry(claimed.slot).or_default().push(claimed);
        }
        let refused: HashMap<usize, SlotRefused> = answer.refused.into_iter().collect();
        let repeated: HashSet<usize> = answer.again.into_iter().collect();
        let mut loose = Loose::default();
        let mut unfilled: HashSet<LaneId> = HashSet::new();
        let mut wanted: HashSet<LaneId> = HashSet::new();
        self.with(|waiting| {
            for (index, parked) in offered.into_iter().enumerate().rev() {
                wanted.extend(parked.slot.lanes.iter().copied());
                let share = shares.remove(&index).unwrap_or_default();
                let mut overdue = waiting.overdue.remove(&parked.number);
                let mut parked = parked;
                if let Some(again) = waiting.take_same_claim(&parked.slot, since) {
                    // Its caller lost its connection meanwhile and asks again.
                    parked.give_way_to(again);
                    overdue = waiting.overdue.remove(&parked.number);
                }
                parked.unsure |= failed;
                if !refused.contains_key(&index) && share.len() < parked.slot.room as usize {
                    unfilled.extend(parked.slot.lanes.iter().copied());
                }
                match refused.get(&index) {
                    _ if !share.is_empty() => {
                        let again = repeated.contains(&index);
                        let handed = Handed { runs: share, again, displaced: false };
                        // What an earlier call was given its worker may know of, even if nobody hears of
                        // this one.
                        if let (Err(Ok(handed)), false) = (parked.answer.send(Ok(handed)), again) {
                            let lease = |run: &Claimed| LeaseRef { run: run.run, epoch: run.epoch };
                            loose.orphans.extend(handed.runs.iter().map(lease));
                        }
                    }
                    Some(refused) => drop(parked.answer.send(refusal(*refused))),
                    None if waiting.closed => parked.dismiss(Error::Stopping),
                    // Without a number it cannot be found out what its claim brought, only what its worker has not started.
                    None if failed && (overdue || parked.slot.claim_no == 0) => parked.dismiss(UNSURE),
                    None if overdue && parked.looks >= LOOKS_MAX => parked.dismiss(UNSURE),
                    None => {
                        loose.unsure.extend(failed.then(|| parked.slot.clone()));
                        if looked == Looked::Everywhere {
                            parked.looks += 1;
                            parked.must_look = false;
                        }
                        if overdue {
                            waiting.overdue.insert(parked.number);
                        }
                        waiting.parked.push_front(parked);
                    }
                }
            }
            // Where every poll was filled there may be more; where one was not, there is not.
            if looked == Looked::Everywhere {
                waiting.looked_at.clear();
                for lane in wanted.iter().filter(|lane| answer.more || !unfilled.contains(lane)) {
                    waiting.clean.remove(lane);
                }
            }
            waiting.dismiss_overdue(&UNSURE);
        });
        if let Some(ms) = answer.next_in_ms {
            self.wake_in(ms);
        }
        loose
    }
}

/// What a claim tells of its lanes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Looked {
    /// Whether there is more in them.
    Everywhere,
    /// Nothing: it took what was just submitted, and its submitter wakes the lanes for the rest.
    OnTheWay,
}

/// Loose ends of a claim.
#[derive(Default)]
pub(super) struct Loose {
    /// Leases whose polls are gone.
    pub(super) orphans: Vec<LeaseRef>,
    /// Polls whose claim failed, and may have been carried out all the same.
    pub(super) unsure: Vec<ClaimSlot>,
}

enum Next {
    Stop,
    Wait(Option<Millis>),
    /// These polls, taken out of the line when this number was the next.
    Claim(Vec<Parked>, u64),
}

fn refusal(refused: SlotRefused) -> Answer {
    Err(match refused {
        SlotRefused::Unknown => Error::no_worker("with this id any more; register again"),
        SlotRefused::Draining => Error::WorkerDraining,
        SlotRefused::Offline => Error::WorkerOffline,
        SlotRefused::Full => Error::WorkerFull,
        SlotRefused::Unfit => {
            Error::WorkerUnfit("its health is under a floor; see its entry in the list of workers".into())
        }
        SlotRefused::Answered => return Ok(Handed::default()),
    })
}
