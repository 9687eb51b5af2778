//! How many machines a pool should create now, and which idle ones it should end: a pure function of what is there.

use super::claim::{Waiting, assign};
use super::spec::{covers, is_like};
use super::{Backoff, Cause, Machine, PoolSpec, RunnerId, Usage, Wanted};
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

/// A runner that is being created, or that deregisters: it will be idle.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ComingRunner {
    /// How its machine is paid for.
    pub usage: Usage,
    /// The type of its machine; empty until its provider has named it.
    pub kind: String,
    /// The types that it was ordered with, as patterns. None: whatever the pool may have.
    pub types: Vec<String>,
}

impl ComingRunner {
    /// Whether a claim can use it, as far as an order can see to that: how large machines are is
    /// the pool's business.
    fn serves(&self, wanted: &Wanted, spec: &PoolSpec) -> bool {
        let pays = match wanted.usage {
            Some(Usage::OnDemand) => self.usage == Usage::OnDemand,
            Some(Usage::Spot) | None => true,
        };
        let is_wanted = |kind: &String| wanted.types.iter().any(|pattern| covers(pattern, kind));
        let is_like_it = wanted.types.iter().any(|pattern| is_like(pattern, &self.kind));
        let is_type = match (self.types.is_empty(), self.kind.as_str()) {
            // Whatever came of it: another one, ordered at once, would be the same, and the next
            // one waits until this is known to be of no use.
            (false, _) => is_like_it || self.types.iter().all(is_wanted),
            (true, "") => !spec.types.is_empty() && spec.types.iter().all(is_wanted),
            (true, _) => is_like_it,
        };
        pays && (wanted.types.is_empty() || is_type)
    }
}

/// What a pool has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stock {
    /// Idle ones, one by one.
    pub idle: Vec<IdleRunner>,
    /// Those that are being created or deregister, one by one.
    pub coming: Vec<ComingRunner>,
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

/// Machines that are to be ordered together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wish {
    /// So many.
    pub count: u32,
    /// How they are paid for.
    pub usage: Usage,
    /// Of these types, as patterns, besides being of the pool's. None: any of those.
    pub types: Vec<String>,
}

/// What is to be done now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Want {
    /// What is to be ordered, each with an order of its own.
    pub create: Vec<Wish>,
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
    /// So many others are idle because `min_idle` asks for them.
    pub kept: u32,
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
    if is_deleting {
        let end = stock.idle.iter().map(|idle| (idle.id, idle.epoch, Cause::PoolDeleted)).collect();
        return Want { end, ..Want::default() };
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

    let lacks = |who: usize| waiting[who].missing - given.iter().filter(|(to, _)| *to == who).count() as u32;
    let usage = backoff.usage(spec, now);
    let mut coming: Vec<&ComingRunner> = stock.coming.iter().collect();
    let mut wishes: Vec<Wish> = Vec::new();
    for (who, claim) in waiting.iter().enumerate() {
        let wish = wish_of(&claim.wanted, usage);
        let count = lacks(who) - expect(&mut coming, lacks(who), &wish, &claim.wanted, spec);
        add(&mut wishes, Wish { count, ..wish });
    }
    let lacking = wishes.iter().map(|wish| wish.count).fold(0, u32::saturating_add);
    let short = min_idle.saturating_sub(left.len() as u32).saturating_sub(coming.len() as u32);
    add(&mut wishes, Wish { count: short, usage, types: Vec::new() });
    let is_needed = lacking > 0 || short > 0;
    let room = spec.max_size.saturating_sub(stock.size());
    let may_create = backoff.create_after.is_none_or(|after| after <= now);
    let create = if may_create { within(room.min(ORDER_MAX), wishes) } else { Vec::new() };

    // What is idle beyond min_idle and fits no claim that waits makes room for what would. What
    // min_idle asks for stays: others will claim it, and whether there ever is a machine for that
    // claim nobody knows.
    let soon = room.saturating_add(stock.terminating);
    let over = stock.size().saturating_sub(stock.terminating).saturating_sub(spec.max_size);
    let mut rest = left.split_off((over as usize).min(left.len()));
    let spare = rest.len().saturating_sub(min_idle as usize);
    let in_the_way = if may_create { (lacking.saturating_sub(soon) as usize).min(spare) } else { 0 };
    // The newest of them: it was made last, perhaps for that very claim, and in vain.
    left.extend(rest.split_off(rest.len() - in_the_way));
    let mut end: Vec<_> = left.iter().map(|idle| (idle.id, idle.epoch, Cause::Surplus)).collect();
    let spare_idle = rest.len().saturating_sub(min_idle as usize);
    let until = |idle: &IdleRunner| idle.since.saturating_add_unsigned(spec.idle_ms);
    let (old, young) = rest[..spare_idle].split_at(rest[..spare_idle].partition_point(|idle| until(idle) <= now));
    end.extend(old.iter().map(|idle| (idle.id, idle.epoch, Cause::IdleTooLong)));

    let retry_at = backoff.create_after.filter(|after| *after > now && is_needed);
    let look_at = [changes_at, retry_at, young.first().map(|idle| until(idle))].into_iter().flatten().min();
    let taken = given.iter().map(|(_, place)| stock.idle[*place].id).collect();
    let kept = min_idle.min(rest.len() as u32);
    Want { create, end, look_at, unmet: Unmet { lacking, taken, kept } }
}

/// The order that brings a claim one of its machines.
fn wish_of(wanted: &Wanted, usage: Usage) -> Wish {
    let usage = match wanted.usage {
        Some(Usage::OnDemand) => Usage::OnDemand,
        Some(Usage::Spot) | None => usage,
    };
    Wish { count: 0, usage, types: wanted.types.clone() }
}

/// Takes up to so many of what is coming for a claim, and says how many: what was ordered like this
/// first, so that a claim does not take what was ordered for one that can use less, then spot
/// machines.
fn expect(coming: &mut Vec<&ComingRunner>, most: u32, wish: &Wish, wanted: &Wanted, spec: &PoolSpec) -> u32 {
    let mut fitting: Vec<usize> = (0..coming.len()).filter(|place| coming[*place].serves(wanted, spec)).collect();
    fitting.sort_by_key(|place| {
        let one = coming[*place];
        ((one.usage, &one.types) != (wish.usage, &wish.types), one.usage != Usage::Spot)
    });
    fitting.truncate(most as usize);
    fitting.sort_unstable();
    for place in fitting.iter().rev() {
        coming.remove(*place);
    }
    fitting.len() as u32
}

/// Adds a wish to those of the same kind.
fn add(wishes: &mut Vec<Wish>, new: Wish) {
    match wishes.iter_mut().find(|wish| wish.usage == new.usage && wish.types == new.types) {
        Some(same) => same.count = same.count.saturating_add(new.count),
        None => wishes.push(new),
    }
}

/// The first of these, as many as there is room for.
fn within(mut room: u32, wishes: Vec<Wish>) -> Vec<Wish> {
    let fitted = wishes.into_iter().map(|wish| {
        let count = wish.count.min(room);
        room -= count;
        Wish { count, ..wish }
    });
    fitted.filter(|wish| wish.count > 0).collect()
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
