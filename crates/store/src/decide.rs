//! From a row read under its lock to what is to be written: the rules of `baton-core`, put into a store's words.
//! Both stores read rows, ask here, and write what they are told.

use baton_core::machine::{self, Expiry, Options};
use baton_core::{Failure, LeaseEnd, Millis, Reason, Refused, Run, RunId, State, WorkerId, order};

use crate::{Due, FOR_GOOD, LaneId, LeaseRef, QueueId, Settled, Verdict, Woken};

/// Where a live run is kept: the `place` column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Can be claimed.
    Ready,
    /// Due later.
    Later,
    /// Waits for room under its key's limit.
    Blocked,
    /// A worker holds it.
    Held,
}

impl Place {
    pub(crate) fn code(self) -> i16 {
        match self {
            Place::Ready => 0,
            Place::Later => 1,
            Place::Blocked => 2,
            Place::Held => 3,
        }
    }

    /// The place of a run that waits until `due_at`.
    pub(crate) fn waiting(due_at: Millis, now: Millis) -> Place {
        if due_at > now { Place::Later } else { Place::Ready }
    }
}

/// A row of `live`, with the options from its `runs` row.
#[derive(Clone, Debug)]
pub(crate) struct LiveRow {
    pub run: RunId,
    pub queue: QueueId,
    pub lane: LaneId,
    pub priority: u8,
    pub order_at: Millis,
    pub rules: Run,
    pub worker: Option<WorkerId>,
    pub claimed_at: Option<Millis>,
    pub started_at: Option<Millis>,
    pub key: Option<String>,
    pub options: Options,
}

/// What is to be done to a live run.
#[derive(Clone, Debug)]
pub(crate) enum Act<'a> {
    Start,
    Complete,
    Fail(&'a Failure),
    GiveBack(&'a str),
    Sleep(Due),
    /// Something has happened that a sleeping run waits for.
    Wake,
    /// The holder has heard of the request to cancel, and says these words.
    Cancelled(&'a str),
    Cancel {
        grace_ms: Millis,
    },
    /// Something has passed; with what is known of it besides.
    Expire(Expiry, Option<&'a LastSigns>),
    /// The deadline of the whole run has passed: it is cancelled, or has failed.
    TimeOut {
        cancels: bool,
    },
}

/// What is known of a run that has lost its worker once too often. A person has to find out why.
#[derive(Clone, Debug)]
pub(crate) struct LastSigns {
    pub is_workflow: bool,
    /// When the worker was last heard of.
    pub seen_at: Option<Millis>,
    /// The step that was begun last, as far as anybody has said.
    pub step: Option<LastStep>,
}

/// The last step of a workflow that is on record.
#[derive(Clone, Debug)]
pub(crate) struct LastStep {
    pub name: String,
    pub position: u32,
    /// Begun and not ended. Workers need not say that a step begins: without it, the run was lost
    /// after this step.
    pub is_begun: bool,
}

impl LastSigns {
    fn poison_message(&self, losses: u32, now: Millis) -> String {
        let silence = match self.seen_at {
            Some(seen_at) => {
                let ms = now.saturating_sub(seen_at).max(0);
                format!("the last one gave no sign of life for {}.{} s", ms / 1_000, ms % 1_000 / 100)
            }
            None => "the last one gave no sign of life for longer than its lease".to_owned(),
        };
        let place = match &self.step {
            Some(LastStep { name, position, is_begun: true }) => {
                format!(", and the last step begun was {name:?} (position {position})")
            }
            Some(LastStep { name, position, is_begun: false }) => {
                format!(", in what comes after the step {name:?} (position {position}), the last on record")
            }
            None if self.is_workflow => ", before any step was on record".to_owned(),
            None => String::new(),
        };
        let plural = if losses == 1 { "" } else { "s" };
        format!(
            "the run has lost {losses} worker{plural}; {silence}{place}. Find out what it does to its workers, then retry it"
        )
    }
}

/// True when this expiry makes the run poison, so that its last signs are worth looking for.
pub(crate) fn is_poisoned_by(row: &LiveRow, what: Expiry, now: Millis) -> bool {
    machine::expire(&row.rules, what, &row.options, now, 0.0).is_ok_and(|next| next.reason == Some(Reason::Poison))
}

/// What is to be written.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    /// The run afterwards.
    pub next: Run,
    /// How the lease ended, if this ended one.
    pub end: Option<LeaseEnd>,
    /// What was said about it.
    pub error: Option<String>,
    /// Where the live row goes, for a run that still lives.
    pub place: Place,
    pub level: i16,
    pub order_at: Millis,
}

impl Decision {
    pub(crate) fn verdict(&self) -> Verdict {
        Verdict::Done {
            state: self.next.state,
            cancelling: self.next.cancel_by.is_some() && !self.next.state.is_ended(),
        }
    }

    /// Notes who is to be woken for this change of a row, and what it was.
    pub(crate) fn wake(&self, row: &LiveRow, now: Millis, woken: &mut Woken) {
        let is_ended = self.next.state.is_ended();
        if is_ended || self.end.is_some() {
            woken.settled.push(Settled {
                lane: row.lane,
                state: self.next.state,
                end: self.end,
                reason: self.next.reason.filter(|_| is_ended),
                held_ms: row.claimed_at.filter(|_| self.end.is_some()).map(|claimed_at| now - claimed_at),
            });
        }
        if is_ended {
            return;
        }
        match self.place {
            Place::Ready => woken.now(row.lane),
            Place::Later if self.next.due_at >= FOR_GOOD => {}
            Place::Later => woken.later(row.lane, self.next.due_at - now),
            Place::Blocked | Place::Held => {}
        }
    }
}

impl Woken {
    /// Notes a lane that can be claimed from now.
    pub(crate) fn now(&mut self, lane: LaneId) {
        if !self.lanes.contains(&lane) {
            self.lanes.push(lane);
        }
    }

    /// Notes a lane with a run due in `ms`.
    pub(crate) fn later(&mut self, lane: LaneId, ms: Millis) {
        match self.later.iter_mut().find(|(other, _)| *other == lane) {
            Some((_, soonest)) => *soonest = ms.min(*soonest),
            None => self.later.push((lane, ms)),
        }
    }
}

/// Applies the rule. `past` is how the lease ended, if the caller knows; a refusal without it may be turned into
/// [`Refused::AlreadyDone`] by asking again with it.
pub(crate) fn decide(
    row: &LiveRow,
    act: &Act<'_>,
    lease: LeaseRef,
    past: Option<LeaseEnd>,
    now: Millis,
    jitter: f64,
) -> Result<Decision, Refused> {
    let (next, end, error) = rule(row, act, lease, past, now, jitter)?;
    let place = match next.state {
        State::Assigned | State::Running => Place::Held,
        State::Pending | State::Sleeping => Place::waiting(next.due_at, now),
        State::Completed | State::Failed | State::Cancelled => Place::Held, // the row goes away
    };
    // What comes back unfinished keeps its place in the line; everything else lines up at its due time.
    let order_at = if next.returned { row.order_at } else { order::place(next.due_at, now) };
    Ok(Decision {
        end: end.map(|end| machine::lease_end(end, &next)),
        error,
        place,
        level: order::level(row.priority, next.returned),
        order_at,
        next,
    })
}

/// The run afterwards, how its lease ended if this ended one, and what was said about it.
fn rule(
    row: &LiveRow,
    act: &Act<'_>,
    lease: LeaseRef,
    past: Option<LeaseEnd>,
    now: Millis,
    jitter: f64,
) -> Result<(Run, Option<LeaseEnd>, Option<String>), Refused> {
    let run = &row.rules;
    Ok(match act {
        Act::Start => (machine::start(run, lease.epoch)?, None, None),
        Act::Complete => (machine::complete(run, lease.epoch, past)?, Some(LeaseEnd::Completed), None),
        Act::Fail(failure) => (
            machine::fail(run, lease.epoch, past, failure, &row.options.retry, now, jitter)?,
            Some(LeaseEnd::Failed),
            Some(failure.message.clone()),
        ),
        Act::GiveBack(why) => (
            machine::give_back(run, lease.epoch, past, now)?,
            Some(LeaseEnd::GivenBack),
            (!why.is_empty()).then(|| (*why).to_owned()),
        ),
        Act::Sleep(due) => (machine::sleep(run, lease.epoch, past, due.at(now))?, Some(LeaseEnd::Slept), None),
        Act::Wake => (machine::wake(run, now)?, None, None),
        Act::Cancelled(words) => (
            machine::cancelled(run, lease.epoch, past)?,
            Some(LeaseEnd::Cancelled),
            (!words.is_empty()).then(|| (*words).to_owned()),
        ),
        Act::Cancel { grace_ms } => {
            let next = machine::cancel(run, now.saturating_add(*grace_ms))?;
            (next, None, None)
        }
        Act::Expire(what, signs) => {
            let next = machine::expire(run, *what, &row.options, now, jitter)?;
            let message = match signs {
                Some(signs) if next.reason == Some(Reason::Poison) => signs.poison_message(next.losses, now),
                Some(_) | None => expiry_message(*what, &row.options),
            };
            (next, Some(what.lease_end()), Some(message))
        }
        Act::TimeOut { cancels } => {
            let next = match (*cancels, run.state.is_held()) {
                (true, true) => machine::expire(run, Expiry::CancelGrace, &row.options, now, jitter)?,
                (true, false) => machine::cancel(run, now)?,
                (false, _) => machine::time_out(run)?,
            };
            let words = if *cancels { GRACE_IS_OVER } else { TIME_IS_OVER };
            (next, run.state.is_held().then_some(LeaseEnd::TimedOut), Some(words.to_owned()))
        }
    })
}

/// The answer to a verb on a run that has left the live table.
pub(crate) fn refuse_ended(act: &Act<'_>, state: State, past: Option<LeaseEnd>) -> Refused {
    let repeats = |end| past.is_some_and(|past| machine::is_repeat(past, end));
    let same = match act {
        Act::Complete => repeats(LeaseEnd::Completed),
        Act::Fail(_) => repeats(LeaseEnd::Failed),
        Act::GiveBack(_) => repeats(LeaseEnd::GivenBack),
        Act::Sleep(_) => repeats(LeaseEnd::Slept),
        Act::Cancelled(_) => repeats(LeaseEnd::Cancelled),
        Act::Cancel { .. } => state == State::Cancelled,
        Act::Start | Act::Wake | Act::Expire(..) | Act::TimeOut { .. } => false,
    };
    if same { Refused::AlreadyDone } else { Refused::Ended }
}

/// What is said of a run whose deadline has passed.
const TIME_IS_OVER: &str = "the run took longer than its timeout";
/// What is said of a run that was to stop and had its time to do so.
const GRACE_IS_OVER: &str = "the run did not stop within the grace time after the request to cancel";

/// Checks a lease for a write under it. True when the write is the first sign of work.
pub(crate) fn holds(row: &LiveRow, lease: LeaseRef) -> Result<bool, Refused> {
    match machine::start(&row.rules, lease.epoch) {
        Ok(_) => Ok(true),
        Err(Refused::AlreadyDone) => Ok(false),
        Err(refused) => Err(refused),
    }
}

fn expiry_message(what: Expiry, options: &Options) -> String {
    match what {
        Expiry::Lease => "the worker gave no sign of life for longer than its lease".into(),
        Expiry::Timeout => {
            format!("the attempt took longer than its timeout of {} ms", options.timeout_ms.unwrap_or_default())
        }
        Expiry::CancelGrace => "the worker did not stop within the grace time after the request to cancel".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::Epoch;

    fn held() -> LiveRow {
        let rules = machine::claim(&Run::submitted(100), 100).unwrap();
        LiveRow {
            run: RunId::new(100, 1, 1),
            queue: 1,
            lane: 1,
            priority: 5,
            order_at: 100,
            rules,
            worker: None,
            claimed_at: Some(100),
            started_at: None,
            key: None,
            options: Options::default(),
        }
    }

    fn act(act: Act<'_>) -> Decision {
        let row = held();
        decide(&row, &act, LeaseRef { run: row.run, epoch: Epoch::new(1) }, None, 5_000, 0.5).unwrap()
    }

    #[test]
    fn what_comes_back_unfinished_keeps_its_place_in_the_line() {
        for decision in [act(Act::GiveBack("")), act(Act::Expire(Expiry::Lease, None))] {
            assert_eq!((decision.place, decision.order_at), (Place::Ready, 100));
            assert!(decision.level < order::level(5, false));
        }
    }

    #[test]
    fn a_retry_lines_up_at_its_due_time() {
        let decision = act(Act::Expire(Expiry::Timeout, None));
        assert_eq!((decision.place, decision.order_at), (Place::Later, 6_000));
        assert_eq!(decision.end, Some(LeaseEnd::TimedOut));
        let mut woken = Woken::default();
        decision.wake(&LiveRow { lane: 7, ..held() }, 5_000, &mut woken);
        assert_eq!((woken.lanes, woken.later), (vec![], vec![(7, 1_000)]));
        let settled = Settled { lane: 7, state: State::Pending, end: decision.end, reason: None, held_ms: Some(4_900) };
        assert_eq!(woken.settled, [settled]);
    }

    #[test]
    fn a_repeated_give_back_of_a_cancelled_run_was_done_before_but_a_complete_was_not() {
        let past = Some(LeaseEnd::Cancelled);
        assert_eq!(refuse_ended(&Act::GiveBack(""), State::Cancelled, past), Refused::AlreadyDone);
        assert_eq!(refuse_ended(&Act::Complete, State::Cancelled, past), Refused::Ended);
        assert_eq!(refuse_ended(&Act::GiveBack(""), State::Cancelled, None), Refused::Ended);
    }
}
