//! What a random history is made of.
//!
//! A [`Step`] is what the generator dreams up and shrinks: it says "the third of the held leases". An [`Action`] is what
//! that means in the history so far: it says "run 7, epoch 2". Only the model can turn one into the other.

use baton_core::{Failure, Millis, Reason};
use baton_store::WorkerStatus;
use proptest::prelude::*;
use proptest::sample::Index;

/// Queues in a history; each has two lanes: 0 and 1, 2 and 3.
pub const QUEUES: usize = 2;
pub const LANES: usize = 2 * QUEUES;

/// A run to submit.
#[derive(Clone, Debug)]
pub struct Wish {
    pub lane: usize,
    pub priority: u8,
    pub delay_ms: Millis,
    pub key: Option<&'static str>,
    /// Idempotency key, and the body that comes with it.
    pub once: Option<(&'static str, u8)>,
    pub options: Choice,
}

/// Which options a run has.
#[derive(Clone, Copy, Debug)]
pub enum Choice {
    Default,
    /// Two attempts and one loss.
    Short,
    /// Attempts of at most three seconds.
    Timed,
}

/// A lease to act on.
#[derive(Clone, Debug)]
pub enum Pick {
    /// One that is held now.
    Held(Index),
    /// Any run, with an epoch that is so far from its current one.
    Any(Index, i32),
}

#[derive(Clone, Debug)]
pub struct Seat {
    pub worker: Index,
    pub both_lanes: bool,
    pub room: u32,
    pub start: bool,
    pub lease_ms: Option<Millis>,
}

#[derive(Clone, Debug)]
pub enum Step {
    Submit(Vec<Wish>),
    Claim { queue: usize, lane: usize, seats: Vec<Seat>, limit: usize },
    Claimed { worker: Index, by_number: bool },
    Start(Vec<Pick>),
    Complete(Vec<Pick>),
    Fail(Vec<(Pick, Failure)>),
    GiveBack(Vec<Pick>),
    Sleep(Vec<(Pick, Millis)>),
    Cancel(Vec<Index>, Millis),
    Register { max_concurrent: u32 },
    Renew { worker: Index, leases: Vec<Pick>, unfit: Option<bool> },
    SetWorker(Index, WorkerStatus),
    Lose,
    Expire,
    Unblock,
    Advance(Millis),
    Pause(usize, Option<Millis>),
    KeyLimit(usize, Option<u32>),
    Look,
    Depths,
}

/// A run by its number, and an epoch.
pub type Lease = (usize, u32);

#[derive(Clone, Debug)]
pub struct Slot {
    pub worker: usize,
    pub lanes: Vec<usize>,
    pub room: u32,
    pub start: bool,
    pub lease_ms: Option<Millis>,
}

#[derive(Clone, Debug)]
pub enum Action {
    Submit(Vec<Wish>),
    Claim {
        queue: usize,
        slots: Vec<Slot>,
        limit: usize,
        claim_no: i64,
    },
    Claimed {
        worker: usize,
        claim_no: Option<i64>,
    },
    Start(Vec<Lease>),
    Complete(Vec<Lease>),
    Fail(Vec<(Lease, Failure)>),
    GiveBack(Vec<Lease>),
    Sleep(Vec<(Lease, Millis)>),
    Cancel(Vec<usize>, Millis),
    Register {
        max_concurrent: u32,
    },
    Renew {
        worker: usize,
        leases: Vec<Lease>,
        unfit: Option<bool>,
    },
    SetWorker(usize, WorkerStatus),
    Lose,
    Expire,
    Unblock,
    Advance(Millis),
    Pause(usize, Option<Millis>),
    KeyLimit(usize, Option<u32>),
    /// At these lanes, whose queues are not paused.
    Look(Vec<usize>),
    Depths,
}

fn wish() -> impl Strategy<Value = Wish> {
    let delay = prop_oneof![6 => Just(0), 1 => 1..3_000i64];
    let key = prop_oneof![2 => Just(None), 3 => Just(Some("red")), 1 => Just(Some("blue"))];
    let once = prop_oneof![
        5 => Just(None),
        1 => (prop_oneof![Just("x"), Just("y"), Just("z")], 0..2u8).prop_map(Some),
    ];
    let options = prop_oneof![3 => Just(Choice::Default), 1 => Just(Choice::Short), 1 => Just(Choice::Timed)];
    // Most of it happens on one queue, so that runs meet.
    let lane = prop_oneof![4 => 0..2usize, 1 => 0..LANES];
    (lane, prop_oneof![5 => Just(5u8), 1 => 4..7u8], delay, key, once, options).prop_map(
        |(lane, priority, delay_ms, key, once, options)| Wish { lane, priority, delay_ms, key, once, options },
    )
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![5 => any::<Index>().prop_map(Pick::Held), 1 => (any::<Index>(), -1..2i32).prop_map(|(run, off)| Pick::Any(run, off))]
}

fn picks() -> impl Strategy<Value = Vec<Pick>> {
    prop::collection::vec(pick(), 1..4)
}

fn failure() -> impl Strategy<Value = Failure> {
    let reason = prop_oneof![5 => Just(Reason::Error), 1 => Just(Reason::Rejected)];
    let not_before = prop_oneof![4 => Just(None), 1 => (0..9_000i64).prop_map(Some)];
    (reason, prop::bool::weighted(0.8), not_before).prop_map(|(reason, retryable, not_before)| Failure {
        reason,
        code: None,
        message: "it broke".into(),
        retryable,
        // Counted from the beginning of the history, where every clock starts.
        not_before: not_before.map(|ms| crate::model::START + ms),
    })
}

fn seat() -> impl Strategy<Value = Seat> {
    let lease_ms = prop_oneof![2 => Just(None), 1 => (1..1_500i64).prop_map(Some)];
    (any::<Index>(), any::<bool>(), 1..4u32, prop::bool::weighted(0.3), lease_ms)
        .prop_map(|(worker, both_lanes, room, start, lease_ms)| Seat { worker, both_lanes, room, start, lease_ms })
}

fn status() -> impl Strategy<Value = WorkerStatus> {
    prop_oneof![Just(WorkerStatus::Online), Just(WorkerStatus::Draining), Just(WorkerStatus::Offline)]
}

pub fn step() -> impl Strategy<Value = Step> {
    let short_wait = prop_oneof![1 => Just(0i64), 3 => 1..2_000i64];
    prop_oneof![
        8 => prop::collection::vec(wish(), 1..4).prop_map(Step::Submit),
        12 => (prop_oneof![4 => Just(0), 1 => 0..QUEUES], 0..2usize, prop::collection::vec(seat(), 1..4), 1..7usize)
            .prop_map(|(queue, lane, seats, limit)| Step::Claim { queue, lane, seats, limit }),
        1 => (any::<Index>(), any::<bool>()).prop_map(|(worker, by_number)| Step::Claimed { worker, by_number }),
        2 => picks().prop_map(Step::Start),
        4 => picks().prop_map(Step::Complete),
        4 => prop::collection::vec((pick(), failure()), 1..4).prop_map(Step::Fail),
        5 => picks().prop_map(Step::GiveBack),
        3 => prop::collection::vec((pick(), short_wait), 1..4).prop_map(Step::Sleep),
        3 => (prop::collection::vec(any::<Index>(), 1..3), prop_oneof![Just(0i64), Just(1_500)])
            .prop_map(|(runs, grace)| Step::Cancel(runs, grace)),
        2 => (0..6u32).prop_map(|max_concurrent| Step::Register { max_concurrent }),
        5 => (any::<Index>(), prop::collection::vec(pick(), 0..3), prop_oneof![3 => Just(None), 1 => any::<bool>().prop_map(Some)])
            .prop_map(|(worker, leases, unfit)| Step::Renew { worker, leases, unfit }),
        1 => (any::<Index>(), status()).prop_map(|(worker, status)| Step::SetWorker(worker, status)),
        2 => Just(Step::Lose),
        4 => Just(Step::Expire),
        1 => Just(Step::Unblock),
        7 => prop_oneof![3 => 1..700i64, 1 => 700..4_000i64].prop_map(Step::Advance),
        1 => (0..QUEUES, prop_oneof![2 => Just(None), 1 => (0..2_000i64).prop_map(Some)])
            .prop_map(|(queue, ms)| Step::Pause(queue, ms)),
        3 => (prop_oneof![4 => Just(0), 1 => 0..QUEUES], prop_oneof![1 => Just(None), 4 => (1..3u32).prop_map(Some)])
            .prop_map(|(queue, limit)| Step::KeyLimit(queue, limit)),
        1 => Just(Step::Look),
        1 => Just(Step::Depths),
    ]
}
