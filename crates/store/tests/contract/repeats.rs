//! A lost answer: the same call again does no harm and learns what happened.

use baton_core::machine::Options;
use baton_core::{LeaseEnd, Refused, State};
use baton_store::{Completion, Due, NewRun, Verdict};

use crate::rig::{Rig, contract, done, error, lease, run};

const ALREADY_DONE: Verdict = Verdict::Refused(Refused::AlreadyDone);

contract!(
    a_repeated_complete_keeps_the_first_output,
    a_repeated_fail_is_known_also_after_the_next_claim,
    a_repeated_give_back_is_known_also_after_the_next_claim,
    a_repeated_sleep_is_known_also_after_the_next_claim,
    another_verb_on_an_ended_lease_is_no_repetition,
    a_repeated_last_fail_is_known,
    how_a_lease_ended_can_be_asked,
);

async fn a_repeated_complete_keeps_the_first_output(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held(run(lane)).await;
    for (output, verdict) in [("one", done(State::Completed)), ("two", ALREADY_DONE)] {
        let done_with = Completion { lease: held, output: Some(output.into()) };
        assert_eq!(rig.store.complete(vec![done_with]).await.unwrap().verdicts, [verdict]);
    }
    assert_eq!(rig.record(held.run).await.output.as_deref(), Some(&b"one"[..]));
    assert_eq!((rig.shown(worker).await.active, rig.shown(worker).await.completed), (0, 1));
}

async fn a_repeated_fail_is_known_also_after_the_next_claim(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held(run(lane)).await;
    assert_eq!(rig.fail(held, error()).await, done(State::Pending));
    let before = rig.record(held.run).await;
    assert_eq!(rig.fail(held, error()).await, ALREADY_DONE);
    assert_eq!(rig.record(held.run).await, before);
    rig.clock.advance(2_000);
    let next = lease(&rig.claim(worker, lane, 1).await[0]);
    assert_eq!(rig.fail(held, error()).await, ALREADY_DONE);
    assert_eq!(rig.record(held.run).await.failures, 1);
    assert_eq!(rig.complete(next).await, done(State::Completed));
    assert_eq!(rig.fail(held, error()).await, Verdict::Refused(Refused::AlreadyDone));
    assert_eq!(rig.shown(worker).await.failed, 1);
}

async fn a_repeated_give_back_is_known_also_after_the_next_claim(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held(run(lane)).await;
    assert_eq!(rig.give_back(held).await, done(State::Pending));
    assert_eq!(rig.give_back(held).await, ALREADY_DONE);
    assert_eq!(rig.claim_ids(worker, lane, 1).await, [held.run]);
    assert_eq!(rig.give_back(held).await, ALREADY_DONE);
    assert_eq!((rig.state(held.run).await, rig.shown(worker).await.active), (State::Assigned, 1));
}

async fn a_repeated_sleep_is_known_also_after_the_next_claim(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held(run(lane)).await;
    assert_eq!(rig.sleep(held, Due::After(100)).await, done(State::Sleeping));
    assert_eq!(rig.sleep(held, Due::After(900)).await, ALREADY_DONE);
    rig.clock.advance(100);
    assert_eq!(rig.claim_ids(worker, lane, 1).await, [held.run]);
    assert_eq!(rig.sleep(held, Due::After(900)).await, ALREADY_DONE);
    assert_eq!(rig.state(held.run).await, State::Assigned);
}

async fn another_verb_on_an_ended_lease_is_no_repetition(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held(run(lane)).await;
    rig.give_back(held).await;
    assert_eq!(rig.complete(held).await, Verdict::Refused(Refused::NotHeld));
    let worker = rig.worker("b").await;
    assert_eq!(rig.claim_ids(worker, lane, 1).await, [held.run]);
    assert_eq!(rig.complete(held).await, Verdict::Refused(Refused::StaleLease));
    assert_eq!(rig.state(held.run).await, State::Assigned);
}

async fn a_repeated_last_fail_is_known(rig: Rig) {
    let lane = rig.lane("ios").await;
    let retry = baton_core::RetryPolicy { max_attempts: 1, ..Default::default() };
    let options = Some(Options { retry, ..Options::default() });
    let (worker, held) = rig.held(NewRun { options, ..run(lane) }).await;
    assert_eq!(rig.fail(held, error()).await, done(State::Failed));
    assert_eq!(rig.fail(held, error()).await, ALREADY_DONE);
    assert_eq!(rig.complete(held).await, Verdict::Refused(Refused::Ended));
    assert_eq!((rig.shown(worker).await.failed, rig.shown(worker).await.active), (1, 0));
}

async fn how_a_lease_ended_can_be_asked(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, first) = rig.held(run(lane)).await;
    assert_eq!(rig.store.lease_end(first).await.unwrap(), None);
    rig.give_back(first).await;
    let second = lease(&rig.claim(worker, lane, 1).await[0]);
    assert_eq!(rig.store.lease_end(second).await.unwrap(), None);
    rig.clock.advance(60_000);
    rig.reap().await;
    let third_worker = rig.worker("c").await;
    let third = lease(&rig.claim(third_worker, lane, 1).await[0]);
    rig.complete(third).await;
    let ends = [first, second, third, crate::rig::lease_of(first.run, 4)];
    let expected = [Some(LeaseEnd::GivenBack), Some(LeaseEnd::Lost), Some(LeaseEnd::Completed), None];
    for (lease, end) in ends.into_iter().zip(expected) {
        assert_eq!(rig.store.lease_end(lease).await.unwrap(), end, "epoch {}", lease.epoch);
    }
    let attempts = rig.store.attempts(first.run).await.unwrap();
    let epochs: Vec<_> = attempts.iter().map(|attempt| attempt.epoch).collect();
    assert_eq!(epochs, [first.epoch, second.epoch, third.epoch]);
}
