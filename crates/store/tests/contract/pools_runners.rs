//! Runners: what their agents say, what ends them, what lasts too long.

use baton_core::pools::claim::{ClaimReason, ClaimState};
use baton_core::pools::{Cause, Refused, RunnerState, Signal};
use baton_store::{Page, RunnerAnswer, RunnerEnd, RunnerNews, RunnerRef, SignalAnswer};

use crate::pools_rig::{CREATE_MS, PoolRig, RELEASE_MS, RUNTIME_MS, WAIT_MS, at, expiry, runner_id, say};
use crate::rig::{Rig, START, contract};

contract!(
    a_signal_for_another_run_is_ignored_and_named,
    a_signal_of_an_older_lease_changes_nothing,
    the_same_signal_again_is_already_done,
    a_hook_that_fails_ends_its_runner,
    heartbeats_tell_agents_where_they_stand,
    whoever_saw_a_runner_idle_cannot_end_it_once_it_is_claimed,
    what_is_in_use_is_not_ended_for_the_pool,
    what_nobody_could_hear_does_not_come_too_late,
    what_lasts_too_long_is_ended,
    a_claim_that_waits_too_long_fails_and_one_that_runs_too_long_loses_its_runners,
    silent_runners_are_ended_and_running_ones_get_more_time,
    a_machine_is_ended_in_two_phases,
    what_is_long_gone_is_forgotten,
);

fn end(runner: RunnerRef, cause: Cause) -> RunnerEnd {
    RunnerEnd { runner, cause, detail: "why".into() }
}

async fn ended(pool: &PoolRig, end: RunnerEnd) -> RunnerAnswer {
    pool.store().end_runners(vec![end]).await.unwrap().remove(0)
}

async fn a_signal_for_another_run_is_ignored_and_named(rig: Rig) {
    let pool = PoolRig::new(rig, 5).await;
    pool.idle(1).await;
    pool.open("mine", 1).await;
    let taken = pool.take().await.taken;
    let runner = taken[0].runner;
    let before = pool.runner(runner.runner).await;
    for signal in [Signal::Registered, Signal::RegisterFailed, Signal::Deregistered, Signal::DeregisterFailed] {
        let other = Some("mine".to_owned());
        assert_eq!(pool.signal(say(runner, signal, Some("yours"))).await, SignalAnswer::OtherRun(other.clone()));
        assert_eq!(pool.signal(say(runner, signal, None)).await, SignalAnswer::OtherRun(other));
    }
    assert_eq!(pool.runner(runner.runner).await, before);
    let nobody = RunnerRef { runner: runner_id(), ..runner };
    assert_eq!(pool.signal(say(nobody, Signal::Registered, Some("mine"))).await, SignalAnswer::Unknown);
}

async fn a_signal_of_an_older_lease_changes_nothing(rig: Rig) {
    let pool = PoolRig::new(rig, 5).await;
    pool.idle(1).await;
    let (claim, runners) = pool.ready("one", 1).await;
    let runner = runners[0];
    pool.store().release_claim(claim.number, RELEASE_MS).await.unwrap();
    let refused = |refused| SignalAnswer::Refused(refused);
    let late = say(runner, Signal::Deregistered, Some("one"));
    assert_eq!(pool.signal(late).await, refused(Refused::Stale), "it speaks of the lease before the release");
    assert_eq!(pool.signal(say(runner, Signal::Registered, Some("one"))).await, refused(Refused::NotHeld));
    assert_eq!(pool.state(runner.runner).await, RunnerState::Releasing);
    pool.deregister(&[at(runner, 2)], "one").await;
    assert_eq!(pool.state(runner.runner).await, RunnerState::Idle);
}

async fn the_same_signal_again_is_already_done(rig: Rig) {
    let pool = PoolRig::new(rig, 5).await;
    let idle = pool.idle(1).await;
    let done = SignalAnswer::Refused(Refused::AlreadyDone);
    assert_eq!(pool.signal(say(idle[0], Signal::Ready, None)).await, done);
    let claim = pool.open("one", 1).await;
    let taken = pool.take().await.taken;
    let registered = say(taken[0].runner, Signal::Registered, Some("one"));
    let both = pool.store().signal_runners(vec![registered.clone(), registered.clone()]).await.unwrap();
    let news = RunnerNews {
        state: RunnerState::Claimed,
        epoch: taken[0].runner.epoch,
        run_id: Some("one".into()),
        deadline: None,
    };
    assert_eq!(both, [SignalAnswer::Noted(news), done.clone()], "also in one call");
    pool.commit(claim.number).await;
    assert_eq!(pool.signal(registered).await, done, "also when it was handed over meanwhile");
    pool.store().release_claim(claim.number, RELEASE_MS).await.unwrap();
    pool.deregister(&[at(taken[0].runner, 2)], "one").await;
    assert_eq!(pool.signal(say(at(taken[0].runner, 2), Signal::Deregistered, Some("one"))).await, done);
}

async fn a_hook_that_fails_ends_its_runner(rig: Rig) {
    let pool = PoolRig::new(rig, 5).await;
    pool.idle(2).await;
    let claim = pool.open("one", 1).await;
    let first = pool.take().await.taken.remove(0);
    let said = baton_store::RunnerSignal {
        detail: "no such label".into(),
        ..say(first.runner, Signal::RegisterFailed, Some("one"))
    };
    assert!(matches!(pool.signal(said).await, SignalAnswer::Noted(_)));
    let runner = pool.runner(first.runner.runner).await;
    assert_eq!((runner.rules.state, runner.rules.cause), (RunnerState::Terminating, Some(Cause::RegisterFailed)));
    assert_eq!((runner.detail.as_str(), runner.rules.owner), ("no such label", None));
    let second = pool.take().await.taken.remove(0);
    assert_ne!(second.runner.runner, first.runner.runner);
    pool.register(std::slice::from_ref(&second)).await;
    pool.commit(claim.number).await;
    pool.store().release_claim(claim.number, RELEASE_MS).await.unwrap();
    pool.signal(say(at(second.runner, 2), Signal::DeregisterFailed, Some("one"))).await;
    assert_eq!(pool.runner(second.runner.runner).await.rules.cause, Some(Cause::ReleaseFailed));
}

async fn heartbeats_tell_agents_where_they_stand(rig: Rig) {
    let pool = PoolRig::new(rig, 5).await;
    let idle = pool.idle(2).await;
    let claim = pool.open("one", 1).await;
    let taken = pool.take().await.taken.remove(0).runner;
    let other = idle.iter().find(|one| one.runner != taken.runner).copied().unwrap();
    pool.later(7_000);
    let ids = vec![other.runner, taken.runner, runner_id(), taken.runner];
    let news = pool.store().beat_runners(ids.clone()).await.unwrap();
    assert_eq!(
        news[0],
        Some(RunnerNews { state: RunnerState::Idle, epoch: other.epoch, run_id: None, deadline: None })
    );
    let claimed = news[1].clone().unwrap();
    assert_eq!(
        (claimed.state, claimed.epoch, claimed.run_id.as_deref()),
        (RunnerState::Claimed, taken.epoch, Some("one"))
    );
    assert_eq!((news[2].clone(), news[3].as_ref()), (None, Some(&claimed)));
    assert_eq!(pool.runner(other.runner).await.seen_at, Some(START + 7_000));
    pool.store().release_claim(claim.number, RELEASE_MS).await.unwrap();
    let news = pool.store().beat_runners(vec![taken.runner]).await.unwrap().remove(0).unwrap();
    assert_eq!((news.state, news.epoch.number(), news.run_id.as_deref()), (RunnerState::Releasing, 2, Some("one")));
    pool.deregister(&[at(taken, 2)], "one").await;
    let news = pool.store().beat_runners(vec![taken.runner]).await.unwrap().remove(0).unwrap();
    assert_eq!((news.state, news.run_id), (RunnerState::Idle, None));
    ended(&pool, end(other, Cause::Asked)).await;
    pool.store().note_gone(vec![other.runner]).await.unwrap();
    assert_eq!(pool.store().beat_runners(vec![other.runner]).await.unwrap(), [None], "who is gone is unknown");
}

async fn whoever_saw_a_runner_idle_cannot_end_it_once_it_is_claimed(rig: Rig) {
    let pool = PoolRig::new(rig, 5).await;
    let idle = pool.idle(1).await;
    let (claim, runners) = pool.ready("one", 1).await;
    for cause in [Cause::IdleTooLong, Cause::Surplus, Cause::Asked, Cause::Lost] {
        assert_eq!(ended(&pool, end(idle[0], cause)).await, RunnerAnswer::Refused(Refused::Stale));
    }
    // And not after it came back, either: it is another lease.
    pool.store().release_claim(claim.number, RELEASE_MS).await.unwrap();
    pool.deregister(&[at(runners[0], 2)], "one").await;
    assert_eq!(ended(&pool, end(idle[0], Cause::IdleTooLong)).await, RunnerAnswer::Refused(Refused::Stale));
    let moved = ended(&pool, end(at(idle[0], 2), Cause::IdleTooLong)).await;
    assert!(matches!(moved, RunnerAnswer::Moved(RunnerState::Terminating, epoch) if epoch.number() == 3), "{moved:?}");
    pool.open("two", 1).await;
    assert_eq!(pool.take().await.taken, [], "what is being ended is not handed out");
}

async fn what_is_in_use_is_not_ended_for_the_pool(rig: Rig) {
    let pool = PoolRig::new(rig, 5).await;
    pool.idle(2).await;
    let (_, runners) = pool.ready("one", 1).await;
    pool.open("two", 1).await;
    let claimed = pool.take().await.taken[0].runner;
    for runner in [runners[0], claimed] {
        for cause in [Cause::IdleTooLong, Cause::Surplus, Cause::PoolDeleted] {
            assert_eq!(ended(&pool, end(runner, cause)).await, RunnerAnswer::Refused(Refused::InUse));
        }
    }
    let unknown = RunnerRef { runner: runner_id(), ..claimed };
    assert_eq!(ended(&pool, end(unknown, Cause::Asked)).await, RunnerAnswer::Unknown);
    assert!(matches!(ended(&pool, end(runners[0], Cause::Lost)).await, RunnerAnswer::Moved(..)));
}

async fn what_nobody_could_hear_does_not_come_too_late(rig: Rig) {
    let pool = PoolRig::new(rig, 9).await;
    pool.idle(1).await;
    let claim = pool.open("one", 1).await;
    let taken = pool.take().await.taken[0].clone();
    pool.later(CREATE_MS + 1);
    let registered = say(taken.runner, Signal::Registered, Some("one"));
    assert_eq!(pool.signal(registered.clone()).await, SignalAnswer::Refused(Refused::TooLate));
    let unheard = baton_store::RunnerSignal { was_unheard: true, ..registered };
    assert!(matches!(pool.signal(unheard).await, SignalAnswer::Noted(_)));
    assert!(matches!(pool.commit(claim.number).await, baton_store::CommitAnswer::Ready(_)));
    pool.store().release_claim(claim.number, RELEASE_MS).await.unwrap();
    pool.later(RELEASE_MS + 1);
    let runner = pool.runner(taken.runner.runner).await.reference();
    let removed = say(runner, Signal::Deregistered, Some("one"));
    assert_eq!(pool.signal(removed.clone()).await, SignalAnswer::Refused(Refused::TooLate));
    let unheard = baton_store::RunnerSignal { was_unheard: true, ..removed };
    assert!(matches!(pool.signal(unheard).await, SignalAnswer::Noted(_)));
    assert_eq!(pool.state(runner.runner).await, RunnerState::Idle);
}

async fn what_lasts_too_long_is_ended(rig: Rig) {
    let pool = PoolRig::new(rig, 9).await;
    pool.idle(2).await;
    let (claim, _) = pool.ready("one", 1).await;
    pool.later(CREATE_MS + 1);
    let order = pool.ordered(1).await;
    pool.open("two", 1).await;
    pool.beat_all().await;
    let claimed = pool.take().await.taken[0].runner.runner;
    pool.store().release_claim(claim.number, RELEASE_MS).await.unwrap();
    let quiet = baton_store::PoolExpiry { silent_ms: WAIT_MS * 10, abandoned_ms: WAIT_MS * 10, ..expiry() };
    let expire = || async { pool.store().expire_pools(quiet).await.unwrap() };
    let causes = |expired: baton_store::ExpiredPools| {
        expired.runners.iter().map(|runner| runner.rules.cause).collect::<Vec<_>>()
    };
    pool.later(10_000);
    assert_eq!(causes(expire().await), [], "in time is in time");
    pool.later(1);
    let deaf = baton_store::PoolExpiry { is_deaf: true, ..quiet };
    assert_eq!(causes(pool.store().expire_pools(deaf).await.unwrap()), [], "nobody could hear it");
    let expired = expire().await;
    assert_eq!(expired.runners[0].id, claimed);
    assert_eq!(causes(expired), [Some(Cause::RegisterTimeout)]);
    pool.later(RELEASE_MS - 10_000);
    assert_eq!(causes(expire().await), [Some(Cause::ReleaseTimeout)]);
    pool.later(CREATE_MS);
    let expired = expire().await;
    assert_eq!(expired.runners[0].id, order.runners[0]);
    assert_eq!(causes(expired), [Some(Cause::CreateTimeout)]);
    assert_eq!(causes(expire().await), []);
}

async fn a_claim_that_waits_too_long_fails_and_one_that_runs_too_long_loses_its_runners(rig: Rig) {
    let pool = PoolRig::new(rig, 9).await;
    pool.idle(3).await;
    let (running, runners) = pool.ready("runs", 1).await;
    let waiting = pool.open("waits", 3).await;
    let taken = pool.take().await.taken;
    pool.register(&taken).await;
    let quiet = baton_store::PoolExpiry { silent_ms: RUNTIME_MS * 2, abandoned_ms: RUNTIME_MS * 2, ..expiry() };
    pool.later(WAIT_MS);
    assert_eq!(pool.store().expire_pools(quiet).await.unwrap().claims, []);
    pool.later(1);
    let expired = pool.store().expire_pools(quiet).await.unwrap();
    let told: Vec<_> = expired.claims.iter().map(|claim| (claim.number, claim.state, claim.reason)).collect();
    assert_eq!(told, [(waiting.number, ClaimState::Failed, Some(ClaimReason::WaitOver))]);
    assert_eq!(expired.runners.len(), 2);
    assert!(expired.runners.iter().all(|runner| runner.rules.state == RunnerState::Releasing), "they are given back");

    pool.later(RUNTIME_MS);
    let deaf = baton_store::PoolExpiry { is_deaf: true, ..quiet };
    let expired = pool.store().expire_pools(deaf).await.unwrap();
    let told: Vec<_> = expired.claims.iter().map(|claim| (claim.number, claim.state, claim.reason)).collect();
    assert_eq!(told, [(running.number, ClaimState::Released, Some(ClaimReason::RuntimeOver))]);
    let runner = pool.runner(runners[0].runner).await;
    let over = (RunnerState::Terminating, Some(Cause::RuntimeOver));
    assert_eq!((runner.rules.state, runner.rules.cause), over, "whether anybody was heard or not");
}

async fn silent_runners_are_ended_and_running_ones_get_more_time(rig: Rig) {
    let pool = PoolRig::new(rig, 9).await;
    pool.idle(3).await;
    let (_, running) = pool.ready("one", 1).await;
    let alive = pool.runners_in(RunnerState::Idle).await[0].id;
    pool.later(30_000);
    assert_eq!(pool.store().expire_pools(expiry()).await.unwrap().runners, []);
    pool.store().beat_runners(vec![alive]).await.unwrap();
    pool.later(1);
    let expired = pool.store().expire_pools(expiry()).await.unwrap();
    assert_eq!(expired.runners.iter().map(|runner| runner.rules.cause).collect::<Vec<_>>(), [Some(Cause::Silent)]);
    assert_eq!(pool.state(alive).await, RunnerState::Idle);
    assert_eq!(pool.state(running[0].runner).await, RunnerState::Running);
    pool.later(600_000 - 30_000);
    pool.store().beat_runners(vec![alive]).await.unwrap();
    let expired = pool.store().expire_pools(expiry()).await.unwrap();
    let told: Vec<_> = expired.runners.iter().map(|runner| (runner.id, runner.rules.cause)).collect();
    assert_eq!(told, [(running[0].runner, Some(Cause::Abandoned))]);
}

async fn a_machine_is_ended_in_two_phases(rig: Rig) {
    let pool = PoolRig::new(rig, 9).await;
    let idle = pool.idle(2).await;
    let gone = |runner: RunnerRef| {
        let store = pool.store().clone();
        async move { store.note_gone(vec![runner.runner]).await.unwrap().remove(0) }
    };
    assert_eq!(gone(idle[0]).await, RunnerAnswer::Refused(Refused::NotEnding), "nobody forgets what was not ended");
    ended(&pool, end(idle[0], Cause::Surplus)).await;
    assert_eq!(ended(&pool, end(idle[0], Cause::Surplus)).await, RunnerAnswer::Refused(Refused::Ending));
    let due = pool.store().due_endings(20_000, 10).await.unwrap();
    assert_eq!(due.iter().map(|runner| runner.id).collect::<Vec<_>>(), [idle[0].runner]);
    assert!(due[0].machine_id.is_some());
    assert_eq!(pool.store().due_endings(20_000, 10).await.unwrap(), [], "somebody asks already");
    pool.later(20_000);
    assert_eq!(pool.store().due_endings(20_000, 10).await.unwrap().len(), 1, "whoever asked may have fallen");
    assert!(matches!(gone(idle[0]).await, RunnerAnswer::Moved(RunnerState::Gone, _)));
    assert_eq!(gone(idle[0]).await, RunnerAnswer::Refused(Refused::AlreadyDone));
    pool.later(20_000);
    assert_eq!(pool.store().due_endings(20_000, 10).await.unwrap(), []);
    assert_eq!(gone(RunnerRef { runner: runner_id(), ..idle[0] }).await, RunnerAnswer::Unknown);
}

async fn what_is_long_gone_is_forgotten(rig: Rig) {
    let pool = PoolRig::new(rig, 9).await;
    let idle = pool.idle(2).await;
    let claim = pool.open("one", 5).await;
    pool.store().fail_claim(claim.number, ClaimReason::Impossible, "", RELEASE_MS).await.unwrap();
    ended(&pool, end(idle[0], Cause::Surplus)).await;
    pool.store().note_gone(vec![idle[0].runner]).await.unwrap();
    pool.later(1_000);
    let nothing = pool.store().retain_pools(1_000, 100).await.unwrap();
    assert_eq!(nothing, baton_store::RetainedPools::default());
    pool.later(1);
    let few = pool.store().retain_pools(1_000, 1).await.unwrap();
    assert_eq!((few.runners, few.claims, few.events, few.orders), (1, 1, 1, 1));
    let rest = pool.store().retain_pools(1_000, 100).await.unwrap();
    assert_eq!((rest.runners, rest.claims, rest.orders, rest.pools), (0, 0, 0, 0));
    assert_eq!(rest.events, 5, "two were ordered, two became idle, one ended and went");
    assert_eq!(pool.store().runner(idle[0].runner).await.unwrap(), None);
    assert_eq!(pool.state(idle[1].runner).await, RunnerState::Idle);
    assert_eq!(pool.store().pool_claim(pool.number(), "one").await.unwrap(), None);
    let page = Page { after: None, limit: 10 };
    assert_eq!(pool.store().runner_events(baton_store::EventFilter::default(), page).await.unwrap(), []);
    pool.open("one", 1).await;
}
