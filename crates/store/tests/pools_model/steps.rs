//! What may happen next, before it is known to whom.

use baton_core::Millis;
use baton_core::pools::{Cause, Signal};
use proptest::prelude::*;

/// A step of a history. Numbers choose among what is there by then.
#[derive(Clone, Debug)]
pub enum Step {
    Order {
        count: usize,
    },
    Ready {
        runner: usize,
    },
    /// All that can say this say it: without such steps few histories get far.
    All {
        signal: Signal,
    },
    Beat {
        every: usize,
    },
    Open {
        count: u32,
        priority: u8,
        owner: u8,
    },
    Take,
    Register {
        runner: usize,
        how: How,
    },
    RegisterFailed {
        runner: usize,
        how: How,
    },
    Commit {
        claim: usize,
    },
    CommitAll,
    Release {
        claim: usize,
    },
    Fail {
        claim: usize,
    },
    GiveBack {
        runner: usize,
        how: How,
    },
    Deregister {
        runner: usize,
        how: How,
    },
    DeregisterFailed {
        runner: usize,
        how: How,
    },
    End {
        runner: usize,
        cause: Cause,
        how: How,
    },
    Gone {
        runner: usize,
    },
    Expire,
    Pass {
        ms: Millis,
    },
}

/// Who says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// Whoever has seen the runner as it is.
    Rightly,
    /// Somebody who has seen it before it moved on.
    Stale,
    /// Somebody who means another run.
    OtherRun,
}

fn how() -> impl Strategy<Value = How> {
    prop_oneof![8 => Just(How::Rightly), 1 => Just(How::Stale), 1 => Just(How::OtherRun)]
}

/// A step, or several that belong together: by chance alone, hardly any claim would be filled.
pub fn phrase() -> impl Strategy<Value = Vec<Step>> {
    let fill = [Step::Take, Step::All { signal: Signal::Registered }, Step::Beat { every: 1 }, Step::CommitAll];
    let back = |claim| vec![Step::Release { claim }, Step::All { signal: Signal::Deregistered }];
    prop_oneof![
        16 => step().prop_map(|step| vec![step]),
        3 => Just(fill.to_vec()),
        1 => (0..64usize).prop_map(back),
        1 => proptest::sample::select(vec![60_001, 120_001])
            .prop_map(|ms| vec![Step::Pass { ms }, Step::Beat { every: 1 }, Step::Expire]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let one = || 0..64usize;
    let about = || (one(), how());
    let causes = vec![Cause::IdleTooLong, Cause::Surplus, Cause::Silent, Cause::Lost, Cause::RuntimeOver];
    let spans = vec![0, 1, 1_000, 1_000, 5_000, 5_000, 10_000, 10_001, 15_001, 30_001, 60_000, 120_001];
    let common = vec![Signal::Ready, Signal::Registered, Signal::Registered, Signal::Deregistered];
    prop_oneof![
        2 => (1..4usize).prop_map(|count| Step::Order { count }),
        3 => one().prop_map(|runner| Step::Ready { runner }),
        16 => proptest::sample::select(common).prop_map(|signal| Step::All { signal }),
        8 => (1..3usize).prop_map(|every| Step::Beat { every }),
        5 => (1..4u32, 4..7u8, 0..2u8).prop_map(|(count, priority, owner)| Step::Open { count, priority, owner }),
        8 => Just(Step::Take),
        5 => about().prop_map(|(runner, how)| Step::Register { runner, how }),
        1 => about().prop_map(|(runner, how)| Step::RegisterFailed { runner, how }),
        8 => one().prop_map(|claim| Step::Commit { claim }),
        4 => one().prop_map(|claim| Step::Release { claim }),
        1 => one().prop_map(|claim| Step::Fail { claim }),
        1 => about().prop_map(|(runner, how)| Step::GiveBack { runner, how }),
        4 => about().prop_map(|(runner, how)| Step::Deregister { runner, how }),
        1 => about().prop_map(|(runner, how)| Step::DeregisterFailed { runner, how }),
        3 => (about(), proptest::sample::select(causes))
            .prop_map(|((runner, how), cause)| Step::End { runner, cause, how }),
        3 => one().prop_map(|runner| Step::Gone { runner }),
        3 => Just(Step::Expire),
        5 => proptest::sample::select(spans).prop_map(|ms| Step::Pass { ms }),
    ]
}
