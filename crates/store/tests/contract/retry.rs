//! What happens after a failed attempt.

use baton_core::machine::Options;
use baton_core::{Failure, LeaseEnd, Reason, RetryPolicy, State};
use baton_store::NewRun;

use crate::rig::{Rig, START, claimed_epoch, contract, done, error, lease, run};

contract!(
    a_failed_attempt_is_retried_with_backoff_until_the_budget_is_used_up,
    an_error_may_say_not_before,
    what_is_not_retryable_fails_at_once,
    a_retry_lines_up_behind_those_who_waited,
    jitter_is_the_callers,
);

fn policy(max_attempts: u32) -> RetryPolicy {
    RetryPolicy { max_attempts, jitter: 0.0, non_retryable: vec!["bad_input".into()], ..RetryPolicy::default() }
}

fn retried(lane: baton_store::Lane, max_attempts: u32) -> NewRun {
    NewRun { options: Some(Options { retry: policy(max_attempts), ..Options::default() }), ..run(lane) }
}

async fn a_failed_attempt_is_retried_with_backoff_until_the_budget_is_used_up(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, first) = rig.held(retried(lane, 3)).await;
    let changes = rig.store.fail(vec![(first, error())], 0.5).await.unwrap();
    assert_eq!(changes.verdicts, [done(State::Pending)]);
    assert_eq!(
        (changes.woken.lanes, changes.woken.later, changes.woken.relatives),
        (vec![], vec![(lane.lane, 1_000)], false)
    );
    let record = rig.record(first.run).await;
    assert_eq!((record.state, record.failures, record.due_at), (State::Pending, 1, START + 1_000));
    assert_eq!((record.error.as_deref(), record.reason), (Some("it broke"), None));

    rig.clock.advance(999);
    assert_eq!(rig.claim(worker, lane, 1).await, []);
    rig.clock.advance(1);
    let second = rig.claim(worker, lane, 1).await;
    assert_eq!(
        (second[0].run, second[0].attempt, second[0].epoch),
        (first.run, 2, claimed_epoch(first.epoch.number() + 1))
    );
    assert_eq!(rig.fail(lease(&second[0]), error()).await, done(State::Pending));

    rig.clock.advance(1_999);
    assert_eq!(rig.claim(worker, lane, 1).await, []);
    rig.clock.advance(1);
    let third = rig.claim(worker, lane, 1).await;
    assert_eq!(third[0].attempt, 3);
    let last = Failure { message: "for good".into(), ..error() };
    assert_eq!(rig.fail(lease(&third[0]), last).await, done(State::Failed));
    let record = rig.record(first.run).await;
    assert_eq!((record.state, record.reason, record.failures), (State::Failed, Some(Reason::Error), 3));
    assert_eq!((record.error.as_deref(), record.ended_at), (Some("for good"), Some(START + 3_000)));
    let ends: Vec<_> =
        rig.store.attempts(first.run).await.unwrap().into_iter().map(|one| (one.end, one.error)).collect();
    let ended = |message: &str| (LeaseEnd::Failed, Some(message.to_owned()));
    assert_eq!(ends, [ended("it broke"), ended("it broke"), ended("for good")]);
    assert_eq!((rig.shown(worker).await.failed, rig.shown(worker).await.active), (3, 0));
}

async fn an_error_may_say_not_before(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held(retried(lane, 5)).await;
    let wait = Failure { not_before: Some(START + 40_000), ..error() };
    assert_eq!(rig.fail(held, wait).await, done(State::Pending));
    assert_eq!(rig.record(held.run).await.due_at, START + 40_000);
    // It only ever makes the wait longer.
    let (_, held) = rig.held(retried(lane, 5)).await;
    let past = Failure { not_before: Some(START + 1), ..error() };
    assert_eq!(rig.fail(held, past).await, done(State::Pending));
    assert_eq!(rig.record(held.run).await.due_at, START + 1_000);
}

async fn what_is_not_retryable_fails_at_once(rig: Rig) {
    let lane = rig.lane("ios").await;
    let failures = [
        (Failure { retryable: false, ..error() }, Reason::Error),
        (Failure { code: Some("bad_input".into()), ..error() }, Reason::Error),
        (Failure { reason: Reason::Rejected, ..error() }, Reason::Rejected),
    ];
    for (failure, reason) in failures {
        let (_, held) = rig.held(retried(lane, 5)).await;
        assert_eq!(rig.fail(held, failure).await, done(State::Failed));
        let record = rig.record(held.run).await;
        assert_eq!((record.reason, record.failures, record.error.as_deref()), (Some(reason), 1, Some("it broke")));
    }
    let (_, held) = rig.held(retried(lane, 5)).await;
    assert_eq!(rig.fail(held, Failure { code: Some("network".into()), ..error() }).await, done(State::Pending));
}

async fn a_retry_lines_up_behind_those_who_waited(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held(retried(lane, 5)).await;
    rig.fail(held, error()).await;
    rig.clock.advance(500);
    let waiting = rig.submit(run(lane)).await;
    rig.clock.advance(1_000);
    let newer = rig.submit(run(lane)).await;
    // Due at 1,000: after the one that came at 500, before the one that came at 1,500.
    assert_eq!(rig.claim_ids(worker, lane, 5).await, [waiting, held.run, newer]);
}

async fn jitter_is_the_callers(rig: Rig) {
    let lane = rig.lane("ios").await;
    let retry = RetryPolicy { jitter: 0.5, ..policy(5) };
    for (dice, wait) in [(0.0, 500), (0.5, 1_000), (1.0, 1_500)] {
        let options = Some(Options { retry: retry.clone(), ..Options::default() });
        let (_, held) = rig.held(NewRun { options, ..run(lane) }).await;
        rig.store.fail(vec![(held, error())], dice).await.unwrap();
        assert_eq!(rig.record(held.run).await.due_at, START + wait);
    }
}
