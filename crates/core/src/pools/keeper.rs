//! How many machines a pool should create now, and which idle ones it should end: a pure function of what is there.

use super::claim::{Waiting, assign};
use super::{Backoff, Cause, Machine, PoolSpec, RunnerId, Usage};
use crate::{Epoch, Millis};

/// Most machines that are ordered at once.
pub const ORDER_MAX: u32 = 100;

/// A runner that is idle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdleRunner {
    /// Which.
    pub id: RunnerId,
    /// Its epoch as it was seen: a claim in between moves it on, and then it is not ended.
    pub epoch: Epoch,
    /// Since when.
    pub since: Millis,
    /// What it is.
    pub machine: Machine,
}

/// What a pool has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stock {
    /// Idle ones, one by one.
    pub idle: Vec<IdleRunner>,
    /// How many are being created.
    pub creating: u32,
    /// How many were taken and are not handed over yet.
    pub claimed: u32,
    /// How many were handed over.
    pub running: u32,
    /// How many deregister.
    pub releasing: u32,
    /// How many are being ended.
    pub terminating: u32,
}

impl Stock {
    /// Machines that are there or cost already.
    pub fn size(&self) -> u32 {
        let others = self.creating + self.claimed + self.running + self.releasing + self.terminating;
        self.idle.len() as u32 + others
    }
}

/// What is to be done now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Want {
    /// So many machines are to be ordered.
    pub create: u32,
    /// Of this kind.
    pub usage: Usage,
    /// These are to be ended.
    pub end: Vec<(RunnerId, Epoch, Cause)>,
    /// When there may be something else to do, if nothing happens meanwhile.
    pub look_at: Option<Millis>,
    /// What claims still want.
    pub unmet: Unmet,
}

/// What claims that wait still want.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Unmet {
    /// So many machines that are neither idle nor on their way.
    pub lacking: u32,
    /// Idle ones that they take with their next look.
    pub taken: Vec<RunnerId>,
}

/// Says what a pool wants. `waiting` are its claims that wait, in their order; what they lack is counted without what they have taken.
pub fn want(
    spec: &PoolSpec,
    is_deleting: bool,
    stock: &Stock,
    waiting: &[Waiting],
    backoff: &Backoff,
    now: Millis,
) -> Want {
    let usage = backoff.usage(spec, now);
    if is_deleting {
        let end = stock.idle.iter().map(|idle| (idle.id, idle.epoch, Cause::PoolDeleted)).collect();
        return Want { usage, end, ..Want::default() };
    }
    let (min_idle, changes_at) = spec.min_idle_at(now);
    // Idle runners that a claim takes with its next look are as good as taken.
    let machines: Vec<&Machine> = stock.idle.iter().map(|idle| &idle.machine).collect();
    let given = assign(waiting, &machines);
    let mut left: Vec<&IdleRunner> = (0..stock.idle.len())
        .filter(|place| given.iter().all(|(_, given)| given != place))
        .map(|place| &stock.idle[place])
        .collect();
    left.sort_by_key(|idle| (idle.since, idle.id));

    let missing = waiting.iter().map(|claim| claim.missing).fold(0, u32::saturating_add) - given.len() as u32;
    let coming = stock.creating + stock.releasing;
    let lacking = missing.saturating_sub(coming);
    let spare = coming.saturating_sub(missing);
    let short = min_idle.saturating_sub(left.len() as u32).saturating_sub(spare);
    let room = spec.max_size.saturating_sub(stock.size());
    let needed = lacking.saturating_add(short);
    let may_create = backoff.create_after.is_none_or(|after| after <= now);
    let create = if may_create { needed.min(room).min(ORDER_MAX) } else { 0 };

    // What is idle and left over fits no claim that waits, so it only stands in the way of what would.
    let soon = room.saturating_add(stock.terminating);
    let over = stock.size().saturating_sub(stock.terminating).saturating_sub(spec.max_size);
    let surplus = (over.saturating_add(lacking.saturating_sub(soon)) as usize).min(left.len());
    let rest = left.split_off(surplus);
    let mut end: Vec<_> = left.iter().map(|idle| (idle.id, idle.epoch, Cause::Surplus)).collect();
    let spare_idle = rest.len().saturating_sub(min_idle as usize);
    let until = |idle: &IdleRunner| idle.since.saturating_add_unsigned(spec.idle_ms);
    let (old, young) = rest[..spare_idle].split_at(rest[..spare_idle].partition_point(|idle| until(idle) <= now));
    end.extend(old.iter().map(|idle| (idle.id, idle.epoch, Cause::IdleTooLong)));

    let retry_at = backoff.create_after.filter(|after| *after > now && needed > 0);
    let look_at = [changes_at, retry_at, young.first().map(|idle| until(idle))].into_iter().flatten().min();
    let unmet = Unmet { lacking, taken: given.iter().map(|(_, place)| stock.idle[*place].id).collect() };
    Want { create, usage, end, look_at, unmet }
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
