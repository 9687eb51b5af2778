//! Claims: opened once, filled in their order, verified, handed over all or not at all, given back.

use baton_core::pools::claim::{ClaimReason, ClaimRefused, ClaimState};
use baton_core::pools::{Cause, RunnerState, Signal, Usage, Verdict, Wanted};
use baton_store::{
    ClaimFilter, CommitAnswer, EndClaimAnswer, EventFilter, NewPool, NewPoolClaim, OpenAnswer, Page, PoolAnswer,
    RunnerAnswer, RunnerEnd, TakeRules, pool_total,
};

use crate::pools_rig::{PoolRig, RELEASE_MS, RUNTIME_MS, WAIT_MS, expiry, machine, new_claim, rules, say};
use crate::rig::{Rig, START, contract};

contract!(
    a_claim_is_opened_once_for_each_run,
    a_crowded_pool_takes_no_more_claims,
    claims_are_listed_newest_first,
    a_claim_takes_idle_runners_and_gets_all_of_them_at_once,
    a_claim_with_a_runner_that_failed_gets_nothing_until_it_is_replaced,
    only_what_fits_is_taken,
    claims_are_served_by_priority_and_in_turns,
    whoever_is_first_takes_all_and_what_comes_later,
    a_lower_priority_yields_when_nothing_else_helps,
    a_failed_claim_gives_back_what_it_took_and_says_why,
    a_released_runner_is_claimable_only_when_it_has_deregistered,
    a_claim_that_gives_back_a_runner_goes_on,
    a_claim_ends_with_the_last_of_its_runners,
    the_history_and_the_sums_tell_what_happened,
);

async fn a_claim_is_opened_once_for_each_run(rig: Rig) {
    let pool = PoolRig::new(rig, 5).await;
    let new = NewPoolClaim {
        wanted: Wanted { cpu: Some(4), memory_mib: Some(1), types: vec!["m*".into()], usage: Some(Usage::Spot) },
        priority: 7,
        owner: "me".into(),
        ..new_claim(pool.number(), "run 1", 3)
    };
    let claim = pool.open_with(new.clone()).await;
    assert_eq!((claim.run_id.as_str(), claim.count, &claim.wanted), ("run 1", 3, &new.wanted));
    assert_eq!((claim.priority, claim.owner.as_str(), claim.runtime_ms), (7, "me", RUNTIME_MS));
    assert_eq!((claim.state, claim.opened_at, claim.deadline), (ClaimState::Waiting, START, Some(START + WAIT_MS)));
    pool.later(1_000);
    assert_eq!(pool.store().open_claim(new.clone()).await.unwrap(), OpenAnswer::Known(claim.clone()));
    let other = NewPoolClaim { fingerprint: [8; 16], ..new.clone() };
    assert_eq!(pool.store().open_claim(other).await.unwrap(), OpenAnswer::Conflict(claim.clone()));
    let nowhere = NewPoolClaim { pool: 4_711, ..new };
    assert_eq!(pool.store().open_claim(nowhere).await.unwrap(), OpenAnswer::NoPool);
    assert_eq!(pool.store().pool_claim(pool.number(), "run 1").await.unwrap(), Some(claim));
    assert_eq!(pool.store().pool_claim(pool.number(), "run 2").await.unwrap(), None);
}

async fn a_crowded_pool_takes_no_more_claims(rig: Rig) {
    let pool = PoolRig::new(rig, 5).await;
    let bounded = |run_id: &str| NewPoolClaim { waiting_max: 2, ..new_claim(pool.number(), run_id, 1) };
    let open = async |new: NewPoolClaim| pool.store().open_claim(new).await.unwrap();
    pool.idle(1).await;
    let filled = pool.ready("filled", 1).await.0;
    let first = pool.open_with(bounded("first")).await;
    pool.open_with(bounded("second")).await;
    let before = pool.store().pool_stats(pool.number()).await.unwrap();
    assert_eq!(before.waiting, 2, "one that is filled does not wait");
    assert_eq!(open(bounded("third")).await, OpenAnswer::Full);
    assert_eq!(pool.store().pool_claim(pool.number(), "third").await.unwrap(), None);
    assert_eq!(pool.store().pool_stats(pool.number()).await.unwrap(), before, "nothing has changed");

    assert_eq!(open(bounded("first")).await, OpenAnswer::Known(first.clone()), "a repeated call gets its answer");
    assert_eq!(open(bounded("filled")).await, OpenAnswer::Known(filled));
    let other = NewPoolClaim { fingerprint: [8; 16], ..bounded("first") };
    assert_eq!(open(other).await, OpenAnswer::Conflict(first.clone()));
    let elsewhere = NewPool { namespace: "default".into(), name: "mac".into(), spec: pool.pool.spec.clone() };
    let PoolAnswer::Made(elsewhere) = pool.store().add_pool(elsewhere).await.unwrap() else { panic!("not made") };
    pool.open_with(NewPoolClaim { pool: elsewhere.number, ..bounded("third") }).await;

    pool.store().release_claim(first.number, RELEASE_MS).await.unwrap();
    pool.open_with(bounded("third")).await;
    assert_eq!(open(bounded("fourth")).await, OpenAnswer::Full);
    pool.store().delete_pool(pool.number()).await.unwrap();
    assert_eq!(open(bounded("fourth")).await, OpenAnswer::NoPool, "it would not help to wait");
}

async fn claims_are_listed_newest_first(rig: Rig) {
    let pool = PoolRig::new(rig, 5).await;
    for run in ["a", "b", "c"] {
        pool.open(run, 1).await;
    }
    let claim = pool.store().pool_claim(pool.number(), "b").await.unwrap().unwrap();
    pool.store().release_claim(claim.number, RELEASE_MS).await.unwrap();
    let list = |filter: ClaimFilter, after, limit| {
        let store = pool.store().clone();
        async move {
            let found = store.pool_claims(filter, Page { after, limit }).await.unwrap();
            found.into_iter().map(|claim| claim.run_id).collect::<Vec<_>>()
        }
    };
    assert_eq!(list(ClaimFilter::default(), None, 2).await, ["c", "b"]);
    assert_eq!(list(ClaimFilter::default(), Some(claim.number), 2).await, ["a"]);
    let waiting = ClaimFilter { pool: Some(pool.number()), state: Some(ClaimState::Waiting) };
    assert_eq!(list(waiting, None, 9).await, ["c", "a"]);
    assert_eq!(pool.store().waiting_pools().await.unwrap(), [pool.number()]);
    let all: Vec<_> = pool.take().await.waiting.into_iter().map(|claim| claim.run_id).collect();
    assert_eq!(all, ["a", "c"], "oldest first");
    assert_eq!(list(ClaimFilter { pool: Some(pool.number() + 1), state: None }, None, 9).await, [""; 0]);
}

async fn a_claim_takes_idle_runners_and_gets_all_of_them_at_once(rig: Rig) {
    let pool = PoolRig::new(rig, 5).await;
    pool.idle(4).await;
    assert!(pool.take().await.holders.is_empty(), "nobody wants anything");
    let claim = pool.open("one", 3).await;
    let wanted = Wanted { cpu: Some(4_000), ..Wanted::default() };
    pool.open_with(NewPoolClaim { wanted, ..new_claim(pool.number(), "nothing fits", 1) }).await;
    let held = TakeRules { is_held: true, ..rules() };
    let nothing = pool.store().take_runners(pool.number(), held).await.unwrap();
    assert_eq!((nothing.taken.len(), nothing.holders.len()), (0, 0), "nobody takes anything while that is so");
    let first = pool.take().await;
    let taken = first.taken;
    assert_eq!(taken.len(), 3);
    assert!(taken.iter().all(|one| one.claim == claim.number && one.run_id == "one" && one.runner.epoch.number() == 1));
    let second = pool.take().await;
    assert_eq!(second.taken, [], "it has what it wants");
    assert_eq!((first.holders, second.holders), ([claim.number].into(), [claim.number].into()));
    let runner = pool.runner(taken[0].runner.runner).await;
    assert_eq!((runner.rules.state, runner.rules.owner, runner.uses), (RunnerState::Claimed, Some(claim.number), 1));
    assert_eq!(runner.rules.deadline, Some(START + 180_000), "a new machine has three minutes from its order");

    pool.register(&taken[..2]).await;
    let CommitAnswer::NotYet { verdicts, missing } = pool.commit(claim.number).await else { panic!("one is missing") };
    let waits = verdicts.iter().filter(|(_, verdict)| *verdict == Verdict::Waits).map(|(runner, _)| *runner);
    assert_eq!((waits.collect::<Vec<_>>(), missing), (vec![taken[2].runner], 0));
    let counted = async |claims| pool.store().runners_of_claims(claims).await.unwrap();
    assert_eq!(counted(vec![claim.number, claim.number + 1, 4_711]).await, [(claim.number, 3)].into());
    assert_eq!(counted(vec![]).await, [].into());
    assert_eq!(pool.count_in(RunnerState::Running).await, 0, "all or nothing");
    pool.later(5_000);
    pool.register(&taken[2..]).await;
    let CommitAnswer::Ready(ready) = pool.commit(claim.number).await else { panic!("all are there") };
    let (now, until) = (pool.rig.now(), pool.rig.now() + RUNTIME_MS);
    assert_eq!((ready.state, ready.ready_at, ready.deadline), (ClaimState::Ready, Some(now), Some(until)));
    let running = pool.runners_in(RunnerState::Running).await;
    assert_eq!(running.len(), 3);
    assert!(running.iter().all(|one| one.rules.deadline == Some(until) && one.run_id.as_deref() == Some("one")));
    assert_eq!(pool.commit(claim.number).await, CommitAnswer::Refused(ClaimRefused::AlreadyDone, ready.clone()));
    let again = pool.store().open_claim(new_claim(pool.number(), "one", 3)).await.unwrap();
    assert_eq!(again, OpenAnswer::Known(ready), "the same call again shows what came of it");
    assert_eq!(pool.commit(4_711).await, CommitAnswer::Unknown);
}

async fn a_claim_with_a_runner_that_failed_gets_nothing_until_it_is_replaced(rig: Rig) {
    let pool = PoolRig::new(rig, 5).await;
    pool.idle(4).await;
    let claim = pool.open("one", 3).await;
    let taken = pool.take().await.taken;
    pool.register(&taken).await;
    pool.later(15_001);
    let alive: Vec<_> = taken[1..].iter().map(|one| one.runner.runner).collect();
    pool.store().beat_runners(alive).await.unwrap();
    let CommitAnswer::NotYet { verdicts, missing } = pool.commit(claim.number).await else { panic!("one is silent") };
    let failed: Vec<_> = verdicts.iter().filter(|(_, verdict)| *verdict != Verdict::Passed).collect();
    assert_eq!((failed, missing), (vec![&(taken[0].runner, Verdict::Failed(Cause::Silent))], 0));
    assert_eq!(pool.count_in(RunnerState::Claimed).await, 3);

    let end = baton_store::RunnerEnd { runner: taken[0].runner, cause: Cause::Silent, detail: "no heartbeat".into() };
    let ended = pool.store().end_runners(vec![end]).await.unwrap();
    assert!(matches!(ended[0], RunnerAnswer::Moved(RunnerState::Terminating, _)), "{ended:?}");
    let CommitAnswer::NotYet { missing, .. } = pool.commit(claim.number).await else { panic!("one is missing") };
    assert_eq!(missing, 1);
    let next = pool.take().await.taken;
    assert_eq!(next.len(), 1);
    pool.register(&next).await;
    assert!(matches!(pool.commit(claim.number).await, CommitAnswer::Ready(_)));
    assert_eq!(pool.state(taken[0].runner.runner).await, RunnerState::Terminating);
}

async fn only_what_fits_is_taken(rig: Rig) {
    let pool = PoolRig::new(rig, 9).await;
    let spot = pool.idle_of(2, machine("m7.large", Usage::Spot)).await;
    let small = pool.idle_of(1, machine("m6.small", Usage::OnDemand)).await;
    let large = pool.idle_of(1, machine("m7.large", Usage::OnDemand)).await;
    let wants =
        |run_id: &str, wanted: Wanted, count: u32| NewPoolClaim { wanted, ..new_claim(pool.number(), run_id, count) };
    let stays = Wanted { usage: Some(Usage::OnDemand), types: vec!["m7*".into()], ..Wanted::default() };
    pool.open_with(wants("stays", stays, 2)).await;
    pool.open_with(wants("impossible", Wanted { cpu: Some(64), ..Wanted::default() }, 1)).await;
    pool.open_with(wants("small", Wanted { types: vec!["*.small".into()], ..Wanted::default() }, 1)).await;
    pool.open_with(wants("any", Wanted::default(), 1)).await;
    let mut taken: Vec<_> = pool.take().await.taken.into_iter().map(|one| (one.run_id, one.runner.runner)).collect();
    taken.sort();
    let any = taken.iter().find(|(run, _)| run == "any").map(|(_, runner)| *runner).unwrap();
    assert!(spot.iter().any(|one| one.runner == any));
    let others: Vec<_> = taken.into_iter().filter(|(run, _)| run != "any").collect();
    assert_eq!(others, [("small".to_owned(), small[0].runner), ("stays".to_owned(), large[0].runner)]);
    let stock = pool.store().pool_stock(pool.number()).await.unwrap().unwrap();
    let lacks: Vec<_> = stock.waiting.iter().filter(|claim| claim.missing > 0).map(|claim| claim.missing).collect();
    assert_eq!((stock.stock.idle.len(), stock.stock.claimed, lacks), (1, 3, vec![1, 1]));
}

async fn claims_are_served_by_priority_and_in_turns(rig: Rig) {
    let pool = PoolRig::new(rig, 9).await;
    let owned = |run_id: &str, owner: &str, priority| NewPoolClaim {
        owner: owner.into(),
        priority,
        ..new_claim(pool.number(), run_id, 1)
    };
    for (run_id, owner, priority) in
        [("many 1", "many", 5), ("many 2", "many", 5), ("many 3", "many", 5), ("few", "few", 5), ("late", "late", 9)]
    {
        pool.open_with(owned(run_id, owner, priority)).await;
    }
    let mut served = Vec::new();
    for _ in 0..5 {
        pool.idle(1).await;
        served.extend(pool.take().await.taken.into_iter().map(|one| one.run_id));
    }
    assert_eq!(served, ["late", "many 1", "few", "many 2", "many 3"]);
}

async fn whoever_is_first_takes_all_and_what_comes_later(rig: Rig) {
    let pool = PoolRig::new(rig, 9).await;
    pool.idle(4).await;
    let first = pool.open("first", 6).await;
    let second = pool.open("second", 2).await;
    let by = |answer: baton_store::TakeAnswer| answer.taken.iter().map(|one| one.claim).collect::<Vec<_>>();
    assert_eq!(by(pool.take().await), [first.number; 4]);
    pool.idle(3).await;
    assert_eq!(by(pool.take().await), [first.number, first.number, second.number]);
}

async fn a_lower_priority_yields_when_nothing_else_helps(rig: Rig) {
    let pool = PoolRig::new(rig, 4).await;
    pool.idle(3).await;
    let low = pool.open_with(NewPoolClaim { priority: 1, ..new_claim(pool.number(), "low", 4) }).await;
    assert_eq!(pool.take().await.taken.len(), 3);
    let high = pool.open_with(NewPoolClaim { priority: 9, ..new_claim(pool.number(), "high", 3) }).await;
    let answer = pool.take().await;
    assert_eq!((answer.taken.len(), answer.yielded.len()), (0, 2), "one more can be created");
    let yielded = pool.runner(answer.yielded[0].runner).await;
    assert_eq!((yielded.rules.state, yielded.reference()), (RunnerState::Releasing, answer.yielded[0]));
    assert_eq!(pool.take().await.yielded, [], "two are on their way");
    pool.deregister(&answer.yielded, "low").await;
    let taken = pool.take().await.taken;
    assert_eq!(taken.iter().map(|one| one.claim).collect::<Vec<_>>(), [high.number; 2]);
    let held = pool.runners_in(RunnerState::Claimed).await;
    assert_eq!(held.iter().filter(|runner| runner.rules.owner == Some(low.number)).count(), 1);
}

async fn a_failed_claim_gives_back_what_it_took_and_says_why(rig: Rig) {
    let pool = PoolRig::new(rig, 5).await;
    pool.idle(2).await;
    let claim = pool.open("one", 3).await;
    assert_eq!(pool.take().await.taken.len(), 2);
    let answer =
        pool.store().fail_claim(claim.number, ClaimReason::Impossible, "no such type", RELEASE_MS).await.unwrap();
    let EndClaimAnswer::Ended(ended, releasing) = answer else { panic!("not ended: {answer:?}") };
    assert_eq!((ended.state, ended.reason), (ClaimState::Failed, Some(ClaimReason::Impossible)));
    assert_eq!((ended.detail.as_str(), ended.ended_at, ended.deadline), ("no such type", Some(START), None));
    assert_eq!((releasing.len(), pool.count_in(RunnerState::Releasing).await), (2, 2));
    let again = pool.store().fail_claim(claim.number, ClaimReason::Impossible, "", RELEASE_MS).await.unwrap();
    assert_eq!(again, EndClaimAnswer::Refused(ClaimRefused::AlreadyDone, ended.clone()));
    let released = pool.store().release_claim(claim.number, RELEASE_MS).await.unwrap();
    assert_eq!(released, EndClaimAnswer::Refused(ClaimRefused::Ended, ended.clone()));
    assert_eq!(pool.commit(claim.number).await, CommitAnswer::Refused(ClaimRefused::Ended, ended));
    assert_eq!(pool.take().await.taken, []);
    assert_eq!(pool.store().release_claim(4_711, 1).await.unwrap(), EndClaimAnswer::Unknown);
}

async fn a_released_runner_is_claimable_only_when_it_has_deregistered(rig: Rig) {
    let pool = PoolRig::new(rig, 5).await;
    pool.idle(1).await;
    let (claim, runners) = pool.ready("one", 1).await;
    pool.later(60_000);
    let answer = pool.store().release_claim(claim.number, RELEASE_MS).await.unwrap();
    let EndClaimAnswer::Ended(ended, releasing) = answer else { panic!("not ended: {answer:?}") };
    assert_eq!((ended.state, ended.reason), (ClaimState::Released, Some(ClaimReason::Done)));
    assert_eq!(releasing[0].runner, runners[0].runner);
    let runner = pool.runner(runners[0].runner).await;
    assert_eq!((runner.rules.owner, runner.rules.deadline), (None, Some(START + 60_000 + RELEASE_MS)));
    let again = pool.store().release_claim(claim.number, RELEASE_MS).await.unwrap();
    assert_eq!(again, EndClaimAnswer::Refused(ClaimRefused::AlreadyDone, ended));

    pool.open("two", 1).await;
    assert_eq!(pool.take().await.taken, [], "it still deregisters");
    pool.deregister(&releasing, "one").await;
    let taken = pool.take().await.taken;
    assert_eq!((taken.len(), taken[0].run_id.as_str()), (1, "two"));
    let runner = pool.runner(runners[0].runner).await;
    assert_eq!((runner.uses, runner.rules.registered_at), (2, None));
    assert_eq!(runner.rules.deadline, Some(pool.rig.now() + 10_000), "it is warm");
}

async fn a_claim_that_gives_back_a_runner_goes_on(rig: Rig) {
    let pool = PoolRig::new(rig, 5).await;
    pool.idle(2).await;
    let claim = pool.open("one", 2).await;
    let taken = pool.take().await.taken;
    let (one, other) = (taken[0].runner, taken[1].runner);
    let stale = crate::pools_rig::at(other, 0);
    let back = |claim, runners| {
        let store = pool.store().clone();
        async move { store.give_back_runners(claim, runners, "GitHub is away", RELEASE_MS).await.unwrap() }
    };
    let answers = back(claim.number, vec![one, stale]).await;
    assert!(
        matches!(answers[0], RunnerAnswer::Moved(RunnerState::Releasing, epoch) if epoch.number() == 2),
        "{answers:?}"
    );
    assert_eq!(answers[1], RunnerAnswer::Refused(baton_core::pools::Refused::Stale));
    let foreign = back(claim.number + 1, vec![other]).await;
    assert_eq!(foreign, [RunnerAnswer::Refused(baton_core::pools::Refused::NotOwner)]);
    assert_eq!(back(claim.number, vec![crate::pools_rig::at(one, 9)]).await.len(), 1);
    let CommitAnswer::NotYet { missing, .. } = pool.commit(claim.number).await else { panic!("one is missing") };
    assert_eq!(missing, 1);
    let filter = EventFilter { runner: Some(one.runner), ..EventFilter::default() };
    let moves = pool.store().runner_events(filter, Page { after: None, limit: 1 }).await.unwrap();
    assert_eq!((moves[0].to, moves[0].detail.as_str()), (RunnerState::Releasing, "GitHub is away"));
    assert_eq!(pool.runner(one.runner).await.detail, "GitHub is away");
}

async fn a_claim_ends_with_the_last_of_its_runners(rig: Rig) {
    let pool = PoolRig::new(rig, 5).await;
    pool.idle(2).await;
    let (claim, runners) = pool.ready("one", 2).await;
    let waiting = pool.open("two", 1).await;
    let lose = |runner| {
        let store = pool.store().clone();
        let end = RunnerEnd { runner, cause: Cause::Lost, detail: String::new() };
        async move {
            assert!(matches!(store.end_runners(vec![end]).await.unwrap()[0], RunnerAnswer::Moved(..)));
            store.expire_pools(expiry()).await.unwrap().claims
        }
    };
    assert_eq!(lose(runners[0]).await, [], "it may go on with what it has");
    let left = pool.store().runners_of_claims(vec![claim.number, waiting.number]).await.unwrap();
    assert_eq!(left, [(claim.number, 1)].into());
    let ended = lose(runners[1]).await;
    assert_eq!(ended.iter().map(|claim| claim.number).collect::<Vec<_>>(), [claim.number]);
    assert_eq!((ended[0].state, ended[0].reason), (ClaimState::Released, Some(ClaimReason::RunnersLost)));
    let known = pool.store().pool_claim(pool.number(), "two").await.unwrap();
    assert_eq!(known, Some(waiting), "whoever waits goes on waiting");
    let again = pool.store().release_claim(claim.number, RELEASE_MS).await.unwrap();
    assert!(matches!(again, EndClaimAnswer::Refused(ClaimRefused::AlreadyDone, _)), "{again:?}");
}

async fn the_history_and_the_sums_tell_what_happened(rig: Rig) {
    let pool = PoolRig::new(rig, 5).await;
    pool.idle(1).await;
    pool.later(1_000);
    let (claim, runners) = pool.ready("one", 1).await;
    pool.later(2_000);
    pool.store().release_claim(claim.number, RELEASE_MS).await.unwrap();
    let failed = say(crate::pools_rig::at(runners[0], 2), Signal::DeregisterFailed, Some("one"));
    pool.signal(baton_store::RunnerSignal { detail: "exit 1\0".into(), ..failed }).await;
    let filter = EventFilter { pool: Some(pool.number()), runner: Some(runners[0].runner), claim: None };
    let events = pool.store().runner_events(filter, Page { after: None, limit: 100 }).await.unwrap();
    let moves: Vec<_> = events.iter().rev().map(|event| (event.from, event.to, event.cause)).collect();
    use RunnerState::*;
    let expected = [
        (None, Creating, None),
        (Some(Creating), Idle, None),
        (Some(Idle), Claimed, None),
        (Some(Claimed), Claimed, None),
        (Some(Claimed), Running, None),
        (Some(Running), Releasing, None),
        (Some(Releasing), Terminating, Some(Cause::ReleaseFailed)),
    ];
    assert_eq!(moves, expected);
    assert!(events[0].detail.starts_with("exit 1"));
    let of_claim = EventFilter { claim: Some(claim.number), ..EventFilter::default() };
    let events = pool.store().runner_events(of_claim, Page { after: None, limit: 2 }).await.unwrap();
    assert_eq!(events.iter().map(|event| event.to).collect::<Vec<_>>(), [Releasing, Running]);
    let rest = Page { after: Some(events[1].number), limit: 100 };
    assert_eq!(pool.store().runner_events(of_claim, rest).await.unwrap().len(), 2);

    let stats = pool.store().pool_stats(pool.number()).await.unwrap();
    let total = |name: &str| stats.totals.get(name).copied().unwrap_or_default();
    assert_eq!((total(pool_total::IDLE_MS), total(pool_total::USED_MS)), (1_000, 2_000));
    assert_eq!((total(pool_total::HITS_WARM), total(pool_total::HITS_COLD), total(pool_total::ORDERED)), (1, 0, 1));
    assert_eq!(total("ended.release_failed"), 1);
    assert_eq!((total("claims.waiting"), total("claims.ready"), total("claims_ended.done")), (1, 1, 1));
    assert_eq!(stats.runners.get(&Terminating), Some(&1));
    assert_eq!((stats.waits_ms, stats.waiting), (vec![0], 0));
}
