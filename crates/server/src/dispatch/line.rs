//! The polls that wait at one queue, and the one claimer that serves them.

mod claimer;

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_core::Millis;
use baton_store::{Asked, ClaimAnswer, ClaimSlot, LaneId, QueueId, Store, StoreResult};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use self::claimer::Looked;
use super::offer::Offer;
use super::waiting::{Answer, Handed, Parked, Waiting};
use crate::Error;
use crate::entropy::Entropy;
use crate::events::Events;
use crate::metrics::Metrics;

/// What a poll is told that may have got runs which the server does not know of: its next claim finds them.
const UNSURE: Error = Error::Unavailable;
/// A poll that waits for less is gone before the looker passes, so it looks for itself where others use the store, too.
const LOOKER_SEES: Duration = Duration::from_secs(1);

/// The line of one queue.
#[derive(Debug)]
pub(super) struct Line {
    queue: QueueId,
    namespace: String,
    store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
    metrics: Arc<Metrics>,
    events: Arc<Events>,
    waiting: Mutex<Waiting>,
    bell: Notify,
    /// True when the last claim brought few runs and left none.
    trickles: AtomicBool,
    begun: Instant,
}

impl Line {
    pub(super) fn new(
        queue: QueueId,
        namespace: String,
        store: Arc<dyn Store>,
        entropy: Arc<dyn Entropy>,
        metrics: Arc<Metrics>,
        events: Arc<Events>,
    ) -> Line {
        let (waiting, bell, trickles) = (Mutex::default(), Notify::new(), AtomicBool::new(false));
        Line { queue, namespace, store, entropy, metrics, events, waiting, bell, trickles, begun: Instant::now() }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Waiting) -> T) -> T {
        change(&mut self.waiting.lock().expect("nobody panics while holding it"))
    }

    pub(super) async fn poll(&self, slot: ClaimSlot, deadline: Instant, in_turn: bool) -> Answer {
        let (answer, mut answered) = oneshot::channel();
        let number = self.with(|waiting| {
            if waiting.closed {
                return Err(Ok(Handed::default()));
            }
            if waiting.disabled {
                return Err(Err(Error::NamespaceDisabled(self.namespace.clone())));
            }
            if self.store.is_shared() && deadline < Instant::now() + LOOKER_SEES {
                for lane in &slot.lanes {
                    waiting.clean.remove(lane);
                }
            }
            // Park before looking: a submit between the look and the park would wake nobody.
            let look = slot.lanes.iter().any(|lane| !waiting.clean.contains(lane));
            let number = waiting.park(slot, answer, in_turn, self.now());
            if look {
                self.bell.notify_one();
            }
            Ok(number)
        });
        let number = match number {
            Ok(number) => number,
            Err(answer) => return answer,
        };
        let mut leaving = Leaving { line: self, number: Some(number) };
        let result = match tokio::time::timeout_at(deadline, &mut answered).await {
            Ok(result) => result,
            Err(_) => {
                self.leave(number);
                // At the store this very moment, or about to be: what that brings is ours, and it comes soon.
                let result = answered.await;
                // It may have been answered before it was noted as overdue; then nobody else takes the note away.
                self.with(|waiting| waiting.overdue.remove(&number));
                result
            }
        };
        leaving.number = None;
        result.unwrap_or(Err(Error::Stopping))
    }

    /// Answers a poll whose time is over. One that is at the store, or about to be, is answered
    /// when it comes back; and so is one that came while the claimer looks for others, who may
    /// leave something. However short its wait was, nobody goes away empty without a look.
    fn leave(&self, number: u64) {
        self.with(|waiting| {
            let place = waiting.parked.iter().position(|parked| parked.number == number);
            match place.filter(|index| waiting.is_settled(&waiting.parked[*index])) {
                Some(index) => waiting.parked.remove(index).into_iter().for_each(|parked| parked.dismiss(UNSURE)),
                None => drop(waiting.overdue.insert(number)),
            }
        });
    }

    pub(super) fn wake(&self, lane: LaneId) {
        let anybody = self.with(|waiting| {
            waiting.clean.remove(&lane);
            !waiting.parked.is_empty()
        });
        if anybody {
            self.bell.notify_one();
        }
    }

    pub(super) fn wake_all(&self) {
        self.with(|waiting| waiting.clean.clear());
        self.bell.notify_one();
    }

    pub(super) fn wake_in(&self, ms: Millis) {
        let at = self.now().saturating_add(ms.max(0));
        let sooner = self.with(|waiting| {
            let sooner = waiting.next_due.is_none_or(|due| at < due);
            if sooner {
                waiting.next_due = Some(at);
            }
            sooner
        });
        if sooner {
            self.bell.notify_one();
        }
    }

    pub(super) fn waited_for(&self) -> Vec<LaneId> {
        self.with(|waiting| waiting.parked.iter().flat_map(|parked| parked.slot.lanes.iter().copied()).collect())
    }

    pub(super) fn waiting(&self) -> usize {
        self.with(|waiting| waiting.parked.len())
    }

    pub(super) fn queue(&self) -> QueueId {
        self.queue
    }

    /// The namespace of its queue.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Sends everybody away and lets nobody wait while the namespace is disabled. Who is at the store this moment may still get runs.
    pub(super) fn turn(&self, disabled: bool) {
        self.with(|waiting| {
            waiting.disabled = disabled;
            if disabled {
                waiting.parked.drain(..).for_each(|parked| parked.dismiss(UNSURE));
            }
        });
    }

    pub(super) fn close(&self) {
        self.with(|waiting| {
            waiting.closed = true;
            waiting.parked.drain(..).for_each(|parked| parked.dismiss(Error::Stopping));
        });
        self.bell.notify_one();
    }

    /// The time on the store's clock where that one is moved by hand, otherwise on a monotonic one.
    fn now(&self) -> Millis {
        self.store.clock().fixed().unwrap_or_else(|| self.begun.elapsed().as_millis() as Millis)
    }

    /// What has to be found out about a poll, once: whether one of the others that use the store
    /// has answered its claim.
    fn asked(&self, parked: &Parked) -> Option<Asked> {
        let ClaimSlot { worker, claim_no, start, .. } = parked.slot;
        let can_be_repeated = claim_no > 0 || claim_no == 0 && !start;
        let is_open = parked.looks == 0 && !parked.checked || parked.must_look;
        let is_asked = self.store.is_shared() && can_be_repeated && is_open;
        is_asked.then(|| Asked { worker, claim_no, ms_ago: (self.now() - parked.since).max(0) })
    }

    /// Random bits for one claim.
    pub(super) fn die(&self) -> u32 {
        self.entropy.bits() as u32
    }

    /// Polls that parked without a look, by their number, and what has to be found out about them.
    pub(super) fn unasked(&self) -> Vec<(u64, Asked)> {
        self.with(|waiting| {
            let open = waiting.parked.iter().filter(|parked| !parked.must_look);
            open.filter_map(|parked| Some((parked.number, self.asked(parked)?))).collect()
        })
    }

    /// Says what was found out about polls, by their numbers: one whose claim was answered goes to
    /// the store for what it was given.
    pub(super) fn found(&self, are_answered: &HashMap<u64, bool>) {
        self.with(|waiting| {
            for parked in &mut waiting.parked {
                if let Some(is_answered) = are_answered.get(&parked.number) {
                    parked.checked = true;
                    parked.must_look = *is_answered;
                }
            }
        });
        if are_answered.values().any(|is_answered| *is_answered) {
            self.bell.notify_one();
        }
    }

    /// Takes a poll out of the line for runs of this lane that are about to be submitted, if one waits and nothing else is
    /// known to wait for it.
    pub(super) fn offer(self: &Arc<Self>, lane: LaneId) -> Option<Offer> {
        let (parked, since) = self.with(|waiting| {
            let Waiting { parked, clean, closed, next_number, .. } = waiting;
            let fits = |parked: &Parked| {
                let lanes = &parked.slot.lanes;
                let free = !parked.unsure && !parked.must_look && !parked.answer.is_closed();
                free && lanes.contains(&lane) && lanes.iter().all(|lane| clean.contains(lane))
            };
            let index = parked.iter().position(fits).filter(|_| !*closed)?;
            Some((parked.remove(index)?, *next_number))
        })?;
        Some(Offer::new(self.clone(), parked, since))
    }

    /// Takes a poll back that was offered, with what it got on the way.
    pub(super) fn take_back(self: &Arc<Self>, parked: Parked, since: u64, answer: StoreResult<ClaimAnswer>) {
        let loose = self.hand_out(vec![parked], since, answer, Looked::OnTheWay);
        // Somebody may have woken its lanes while it was away.
        self.bell.notify_one();
        if !loose.orphans.is_empty() || !loose.unsure.is_empty() {
            let line = self.clone();
            tokio::spawn(async move { line.tie_up(loose).await });
        }
    }
}

/// Takes a poll out of the line when its caller goes away.
struct Leaving<'a> {
    line: &'a Line,
    number: Option<u64>,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.line.with(|waiting| {
                waiting.parked.retain(|parked| parked.number != number);
                waiting.overdue.remove(&number);
            });
        }
    }
}
