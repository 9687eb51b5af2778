//! The fence: only the holder of the current epoch changes a run.

use baton_core::{Epoch, Refused, RunId, State, mark};
use baton_store::{Completion, Due, LeaseRef, Verdict};

use crate::rig::{DIE, Rig, START, contract, done, error, lease, lease_of, run};

contract!(
    a_started_run_is_running,
    a_stale_lease_is_refused_by_every_verb,
    a_run_nobody_holds_takes_no_verbs,
    an_unknown_run_is_unknown_to_every_verb,
    a_terminal_state_never_changes,
    verdicts_come_in_the_order_of_the_batch,
    concurrent_completions_of_one_lease_complete_it_once,
    a_completion_races_a_cancel_and_one_wins,
);

async fn a_started_run_is_running(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held(run(lane)).await;
    rig.clock.advance(300);
    assert_eq!(rig.start(held).await, done(State::Running));
    let record = rig.record(held.run).await;
    assert_eq!((record.state, record.started_at, record.worker), (State::Running, Some(START + 300), Some(worker)));
    rig.clock.advance(300);
    assert_eq!(rig.start(held).await, Verdict::Refused(Refused::AlreadyDone));
    assert_eq!(rig.record(held.run).await, record);
}

async fn a_stale_lease_is_refused_by_every_verb(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (first, stale) = rig.held(run(lane)).await;
    rig.clock.advance(20_000);
    assert_eq!(rig.reap().await.runs.len(), 1);
    let second = rig.worker("second").await;
    let fresh = lease(&rig.claim(second, lane, 1).await[0]);
    assert_eq!(fresh, lease_of(stale.run, 2));
    let before = rig.record(stale.run).await;
    for (verb, verdict) in all_verbs(&rig, stale).await {
        assert_eq!(verdict, Verdict::Refused(Refused::StaleLease), "{verb}");
    }
    // A lease that was never given out is no better, nor is one with the same number from a
    // database that was restored since.
    let restored = LeaseRef { epoch: fresh.epoch.marked(mark(DIE + 2)), ..fresh };
    for other in [lease_of(stale.run, 3), restored, LeaseRef { epoch: Epoch::new(2), ..fresh }] {
        for (verb, verdict) in all_verbs(&rig, other).await {
            assert_eq!(verdict, Verdict::Refused(Refused::StaleLease), "{verb} with {other:?}");
        }
    }
    assert_eq!(rig.record(stale.run).await, before);
    assert_eq!((rig.shown(first).await.active, rig.shown(second).await.active), (0, 1));
    assert_eq!(rig.complete(fresh).await, done(State::Completed));
}

async fn a_run_nobody_holds_takes_no_verbs(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held(run(lane)).await;
    rig.clock.advance(20_000);
    rig.reap().await;
    let before = rig.record(held.run).await;
    assert_eq!(before.state, State::Pending);
    for (verb, verdict) in all_verbs(&rig, held).await {
        assert_eq!(verdict, Verdict::Refused(Refused::NotHeld), "{verb}");
    }
    assert_eq!(rig.record(held.run).await, before);
}

async fn an_unknown_run_is_unknown_to_every_verb(rig: Rig) {
    let nobody = lease_of(RunId::new(START, 1, 1), 1);
    for (verb, verdict) in all_verbs(&rig, nobody).await {
        assert_eq!(verdict, Verdict::Unknown, "{verb}");
    }
    assert_eq!(rig.cancel(nobody.run, 0).await, Verdict::Unknown);
}

async fn a_terminal_state_never_changes(rig: Rig) {
    let lane = rig.lane("ios").await;
    for state in [State::Completed, State::Failed, State::Cancelled] {
        let (_, held) = rig.held(run(lane)).await;
        let verdict = match state {
            State::Completed => rig.complete(held).await,
            State::Failed => rig.fail(held, baton_core::Failure { retryable: false, ..error() }).await,
            _ => {
                rig.cancel(held.run, 1_000).await;
                rig.clock.advance(2_000);
                rig.reap().await;
                done(rig.state(held.run).await)
            }
        };
        assert_eq!(verdict, done(state));
        let (before, attempts) = (rig.record(held.run).await, rig.store.attempts(held.run).await.unwrap());
        for (verb, verdict) in all_verbs(&rig, held).await {
            let expected = match (verb, state) {
                ("complete", State::Completed) | ("fail", State::Failed) => Refused::AlreadyDone,
                // Stopped on request, the worker says; stopped, the store says.
                ("fail" | "give_back", State::Cancelled) => Refused::AlreadyDone,
                _ => Refused::Ended,
            };
            assert_eq!(verdict, Verdict::Refused(expected), "{verb} of a {} run", state.as_str());
        }
        let expected = if state == State::Cancelled { Refused::AlreadyDone } else { Refused::Ended };
        assert_eq!(rig.cancel(held.run, 0).await, Verdict::Refused(expected));
        rig.clock.advance(60_000);
        rig.reap().await;
        assert_eq!(rig.record(held.run).await, before);
        assert_eq!(rig.store.attempts(held.run).await.unwrap(), attempts);
    }
}

async fn verdicts_come_in_the_order_of_the_batch(rig: Rig) {
    let lane = rig.lane("ios").await;
    rig.submit_all(vec![run(lane); 5]).await;
    let worker = rig.worker("a").await;
    let held: Vec<_> = rig.claim(worker, lane, 4).await.iter().map(lease).collect();
    rig.complete(held[3]).await;
    let pending = rig.store.runs(&Default::default(), baton_store::Page { after: None, limit: 1 }).await.unwrap()[0].id;
    let batch = [held[2], lease_of(held[0].run, 9), held[1], lease_of(pending, 0), held[3], held[2]];
    let done_with = |lease| Completion { lease, output: Some("ok".into()) };
    let changes = rig.store.complete(batch.map(done_with).to_vec()).await.unwrap();
    let refused = Verdict::Refused;
    assert_eq!(
        changes.verdicts,
        [
            done(State::Completed),
            refused(Refused::StaleLease),
            done(State::Completed),
            refused(Refused::NotHeld),
            refused(Refused::AlreadyDone),
            // The second time within one batch is a repetition like any other.
            refused(Refused::AlreadyDone),
        ]
    );
    let starts = rig.store.start(vec![held[0], held[0], held[1]]).await.unwrap();
    assert_eq!(starts, [done(State::Running), refused(Refused::AlreadyDone), refused(Refused::Ended)]);
    assert_eq!(rig.shown(worker).await.active, 1);
    assert_eq!(rig.store.complete(vec![]).await.unwrap(), Default::default());
}

async fn concurrent_completions_of_one_lease_complete_it_once(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held(run(lane)).await;
    let mut tasks = Vec::new();
    for (index, store) in rig.servers(2).await.into_iter().cycle().take(10).enumerate() {
        let output = Some(vec![index as u8].into());
        tasks.push(tokio::spawn(async move {
            store.complete(vec![Completion { lease: held, output }]).await.unwrap().verdicts[0]
        }));
    }
    let mut winners = Vec::new();
    for (index, task) in tasks.into_iter().enumerate() {
        match task.await.unwrap() {
            verdict if verdict == done(State::Completed) => winners.push(index),
            verdict => assert_eq!(verdict, Verdict::Refused(Refused::AlreadyDone)),
        }
    }
    assert_eq!(winners.len(), 1);
    assert_eq!(rig.record(held.run).await.output.as_deref(), Some(&[winners[0] as u8][..]));
    assert_eq!((rig.shown(worker).await.active, rig.shown(worker).await.completed), (0, 1));
}

async fn a_completion_races_a_cancel_and_one_wins(rig: Rig) {
    let lane = rig.lane("ios").await;
    let servers = rig.servers(2).await;
    for _ in 0..20 {
        let (worker, held) = rig.held(run(lane)).await;
        // A request to cancel without grace, whose reaper runs at the same moment as the completion.
        rig.cancel(held.run, -1).await;
        let (reaper, finisher) = (servers[1].clone(), servers[0].clone());
        let reap = tokio::spawn(async move { reaper.expire(0.5, 100).await.unwrap().runs.len() });
        let finish = finisher.complete(vec![Completion { lease: held, output: None }]).await.unwrap().verdicts[0];
        let reaped = reap.await.unwrap();
        match rig.state(held.run).await {
            State::Completed => assert_eq!((finish, reaped), (done(State::Completed), 0)),
            State::Cancelled => assert_eq!((finish, reaped), (Verdict::Refused(Refused::Ended), 1)),
            other => panic!("{}", other.as_str()),
        }
        assert_eq!(rig.shown(worker).await.active, 0);
    }
}

/// Every verb a worker can call, none of which should do anything.
async fn all_verbs(rig: &Rig, lease: LeaseRef) -> [(&'static str, Verdict); 5] {
    [
        ("start", rig.start(lease).await),
        ("complete", rig.complete(lease).await),
        ("fail", rig.fail(lease, error()).await),
        ("give_back", rig.give_back(lease).await),
        ("sleep", rig.sleep(lease, Due::After(5)).await),
    ]
}
