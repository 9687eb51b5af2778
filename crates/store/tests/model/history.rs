//! From dreamed-up steps to actions, and the model's answer to each.

use proptest::sample::Index;

use crate::answer::Answer;
use crate::model::{Model, Verb};
use crate::steps::{Action, Lease, Pick, Slot, Step};

/// What a step means now. `None` when it means nothing: there is no run or worker to do it with.
pub fn resolve(model: &mut Model, step: &Step) -> Option<Action> {
    let leases = |picks: &[Pick]| some(picks.iter().filter_map(|pick| lease(model, pick)).collect());
    Some(match step {
        Step::Submit(wishes) => Action::Submit(wishes.clone()),
        Step::Claim { queue, lane, seats, limit } => {
            // With a limit on keys, a claim takes one lane, and no more than its workers can hold: how far a store reads
            // ahead is its own affair, and decides which runs it passes over before it finds a slot refused.
            let limited = model.queues[*queue].key_limit.is_some();
            let mut slots: Vec<Slot> = Vec::new();
            for seat in seats {
                let worker = number(model.workers.len(), &seat.worker)?;
                let lanes = match seat.both_lanes && !limited {
                    true => vec![2 * queue, 2 * queue + 1],
                    false => vec![2 * queue + lane],
                };
                let room = if limited { seat.room.min(model.workers[worker].room()) } else { seat.room };
                if room > 0 && slots.iter().all(|slot| slot.worker != worker) {
                    slots.push(Slot { worker, lanes, room, start: seat.start, lease_ms: seat.lease_ms });
                }
            }
            let slots = some(slots)?;
            model.claims += 1;
            Action::Claim { queue: *queue, slots, limit: *limit, claim_no: model.claims }
        }
        Step::Claimed { worker, by_number } => {
            let claim_no = by_number.then_some(model.claims);
            Action::Claimed { worker: number(model.workers.len(), worker)?, claim_no }
        }
        Step::Start(picks) => Action::Start(leases(picks)?),
        Step::Complete(picks) => {
            // A store may complete all that it can before it asks why it could not complete the rest, so that two
            // leases of one run, one of them stale, have no order within a batch.
            let mut chosen: Vec<Lease> = Vec::new();
            for lease in leases(picks)? {
                if chosen.iter().all(|(run, epoch)| *run != lease.0 || *epoch == lease.1) {
                    chosen.push(lease);
                }
            }
            Action::Complete(chosen)
        }
        Step::Fail(picks) => Action::Fail(some(
            picks.iter().filter_map(|(pick, why)| Some((lease(model, pick)?, why.clone()))).collect(),
        )?),
        Step::GiveBack(picks) => Action::GiveBack(leases(picks)?),
        Step::Sleep(picks) => {
            Action::Sleep(some(picks.iter().filter_map(|(pick, ms)| Some((lease(model, pick)?, *ms))).collect())?)
        }
        Step::Cancel(picks, grace_ms) => {
            let runs = picks.iter().filter_map(|pick| number(model.runs.len(), pick)).collect();
            Action::Cancel(some(runs)?, *grace_ms)
        }
        Step::Register { max_concurrent } => Action::Register { max_concurrent: *max_concurrent },
        Step::Renew { worker, leases: picks, unfit } => {
            let leases = leases(picks).unwrap_or_default();
            Action::Renew { worker: number(model.workers.len(), worker)?, leases, unfit: *unfit }
        }
        Step::SetWorker(worker, status) => Action::SetWorker(number(model.workers.len(), worker)?, *status),
        Step::Lose => Action::Lose,
        Step::Expire => Action::Expire,
        Step::Unblock => Action::Unblock,
        Step::Advance(ms) => Action::Advance(*ms),
        Step::Pause(queue, ms) => Action::Pause(*queue, *ms),
        Step::KeyLimit(queue, limit) => Action::KeyLimit(*queue, *limit),
        Step::Look => Action::Look(model.unpaused_lanes()),
        Step::Depths => Action::Depths,
    })
}

fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

fn number(count: usize, index: &Index) -> Option<usize> {
    (count > 0).then(|| index.index(count))
}

fn lease(model: &Model, pick: &Pick) -> Option<Lease> {
    match pick {
        Pick::Held(index) => {
            let held = model.held();
            Some(held[number(held.len(), index)?])
        }
        Pick::Any(index, offset) => {
            let run = number(model.runs.len(), index)?;
            Some((run, model.runs[run].rules.epoch.number().saturating_add_signed(*offset)))
        }
    }
}

/// The model's answer.
pub fn act(model: &mut Model, action: &Action) -> Answer {
    match action {
        Action::Submit(wishes) => model.submit(wishes),
        Action::Claim { queue, slots, limit, claim_no } => model.claim(*queue, slots, *limit, *claim_no),
        Action::Claimed { worker, claim_no } => model.claimed(*worker, *claim_no),
        Action::Start(leases) => {
            let mut batch = Default::default();
            Answer::Verdicts(leases.iter().map(|lease| model.act(*lease, &Verb::Start, &mut batch)).collect())
        }
        Action::Complete(leases) => model.changes(leases.iter().map(|lease| (*lease, Verb::Complete))),
        Action::Fail(failed) => model.changes(failed.iter().map(|(lease, why)| (*lease, Verb::Fail(why)))),
        Action::GiveBack(leases) => model.changes(leases.iter().map(|lease| (*lease, Verb::GiveBack))),
        Action::Sleep(leases) => model.changes(leases.iter().map(|(lease, ms)| (*lease, Verb::Sleep(*ms)))),
        Action::Cancel(runs, grace_ms) => model.changes(runs.iter().map(|run| ((*run, 0), Verb::Cancel(*grace_ms)))),
        Action::Register { max_concurrent } => {
            model.register(*max_concurrent);
            Answer::Done
        }
        Action::Renew { worker, leases, unfit } => model.renew(*worker, leases, *unfit),
        Action::SetWorker(worker, status) => model.set_worker(*worker, *status),
        Action::Lose => model.lose_workers(),
        Action::Expire => model.expire(),
        Action::Unblock => Answer::Woken(model.unblock()),
        Action::Advance(ms) => {
            model.now += ms;
            Answer::Done
        }
        Action::Pause(queue, ms) => {
            model.queues[*queue].paused_until = ms.map(|ms| model.now + ms);
            Answer::Done
        }
        Action::KeyLimit(queue, limit) => {
            model.queues[*queue].key_limit = *limit;
            Answer::Done
        }
        Action::Look(lanes) => model.look(lanes),
        Action::Depths => model.depths(),
    }
}

/// What must be true of the model whatever happens; a model that lies would vouch for stores that do.
pub fn check(model: &Model) {
    for (number, worker) in model.workers.iter().enumerate() {
        let held = model.held().iter().filter(|(run, _)| model.runs[*run].worker == Some(number)).count();
        assert_eq!(held, worker.active as usize, "worker {number} is miscounted");
        assert!(worker.active <= worker.max_concurrent, "worker {number} holds too many runs");
    }
    for run in &model.runs {
        assert!(run.attempts.is_sorted_by(|left, right| left.epoch < right.epoch));
        assert_eq!(run.rules.state.is_ended(), run.ended_at.is_some());
    }
}
