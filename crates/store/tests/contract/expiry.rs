//! Taking runs back from workers that fell.

use baton_core::machine::Options;
use baton_core::{LeaseEnd, Reason, Refused, RetryPolicy, State};
use baton_store::{ClaimSlot, ExpiredRun, LeaseRef, NewRun, Verdict, Woken, WorkerStatus};

use crate::rig::{Rig, START, TTL_MS, claimed_epoch, contract, done, lease, run, slot};
use crate::workflows_rig::begins;

contract!(
    a_lost_workers_runs_come_back,
    a_live_worker_keeps_its_runs_however_long_they_take,
    a_drained_workers_runs_come_back_too_when_it_is_lost,
    the_hold_off_gives_everyone_more_time,
    a_run_that_loses_too_many_workers_is_poison,
    poison_says_how_long_the_worker_was_silent_and_where_the_run_was,
    an_attempt_that_takes_too_long_is_retried_and_then_failed,
    a_lease_of_its_own_expires_although_the_worker_lives,
    a_pass_is_bounded,
    several_reapers_take_each_run_once,
    nothing_expires_without_a_reason,
);

async fn a_lost_workers_runs_come_back(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held(run(lane)).await;
    rig.clock.advance(TTL_MS);
    assert_eq!(rig.store.lose_workers(0, 10).await.unwrap(), [], "the lease includes its last moment");
    rig.clock.advance(1);
    assert_eq!(rig.store.lose_workers(0, 10).await.unwrap(), [worker]);
    let expired = rig.store.expire(0.5, 10).await.unwrap();
    let taken = ExpiredRun {
        run: held.run,
        worker: Some(worker),
        epoch: held.epoch,
        end: LeaseEnd::Lost,
        state: State::Pending,
    };
    assert_eq!((expired.runs, expired.more), (vec![taken], false));
    assert_eq!((expired.woken.lanes, expired.woken.later, expired.woken.relatives), (vec![lane.lane], vec![], false));
    let record = rig.record(held.run).await;
    assert_eq!((record.state, record.losses, record.failures, record.worker), (State::Pending, 1, 0, None));
    assert!(record.error.is_some_and(|error| error.contains("sign of life")));
    let shown = rig.shown(worker).await;
    assert_eq!((shown.status, shown.active, shown.failed), (WorkerStatus::Offline, 0, 0));
    assert!(shown.status_reason.is_some());
    // The next one gets it, and the lost one cannot do it any harm.
    let next = rig.worker("next").await;
    let again = rig.claim(next, lane, 1).await;
    assert_eq!((again[0].run, again[0].epoch, again[0].attempt), (held.run, claimed_epoch(held.epoch.number() + 1), 1));
    assert_eq!(rig.complete(held).await, Verdict::Refused(Refused::StaleLease));
    assert_eq!(rig.complete(lease(&again[0])).await, done(State::Completed));
}

async fn a_live_worker_keeps_its_runs_however_long_they_take(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held(run(lane)).await;
    for _ in 0..50 {
        rig.clock.advance(TTL_MS);
        rig.beat(worker, &[held]).await;
        assert_eq!(rig.reap().await.runs, []);
    }
    assert_eq!(rig.complete(held).await, done(State::Completed));
}

async fn a_drained_workers_runs_come_back_too_when_it_is_lost(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held(run(lane)).await;
    rig.store.set_worker(worker, WorkerStatus::Draining, "upgrade").await.unwrap();
    rig.clock.advance(TTL_MS + 1);
    assert_eq!(rig.reap().await.runs.len(), 1);
    assert_eq!(rig.state(held.run).await, State::Pending);
    assert_eq!(rig.shown(worker).await.status, WorkerStatus::Offline);
}

async fn the_hold_off_gives_everyone_more_time(rig: Rig) {
    let worker = rig.worker("a").await;
    rig.clock.advance(TTL_MS + 10_000);
    assert_eq!(rig.store.lose_workers(10_000, 10).await.unwrap(), []);
    rig.clock.advance(1);
    assert_eq!(rig.store.lose_workers(10_000, 10).await.unwrap(), [worker]);
    assert_eq!(rig.store.lose_workers(0, 10).await.unwrap(), [], "lost once is lost");
}

async fn a_run_that_loses_too_many_workers_is_poison(rig: Rig) {
    let lane = rig.lane("ios").await;
    let options = Some(Options { max_losses: 2, ..Options::default() });
    let id = rig.submit(NewRun { options, ..run(lane) }).await;
    for losses in 1..=3 {
        let worker = rig.worker("victim").await;
        let claimed = rig.claim(worker, lane, 1).await;
        assert_eq!((claimed[0].run, claimed[0].attempt), (id, 1), "a loss uses up no attempt");
        rig.clock.advance(TTL_MS + 1);
        let expired = rig.reap().await;
        let state = if losses == 3 { State::Failed } else { State::Pending };
        assert_eq!(expired.runs.iter().map(|one| (one.end, one.state)).collect::<Vec<_>>(), [(LeaseEnd::Lost, state)]);
        assert_eq!(rig.record(id).await.losses, losses);
    }
    let record = rig.record(id).await;
    assert_eq!((record.reason, record.failures), (Some(Reason::Poison), 0));
    assert_eq!(rig.store.attempts(id).await.unwrap().len(), 3);
}

async fn poison_says_how_long_the_worker_was_silent_and_where_the_run_was(rig: Rig) {
    let lane = rig.lane("flow").await;
    let options = Some(Options { max_losses: 0, ..Options::default() });
    let plain_lane = rig.lane("ios").await;
    rig.store.mark_workflow_lanes(&[lane.lane]).await.unwrap();
    let (_, plain) = rig.held(NewRun { options: options.clone(), ..run(plain_lane) }).await;
    let (_, first) = rig.held(NewRun { options: options.clone(), ..run(lane) }).await;
    let (_, after) = rig.held(NewRun { options: options.clone(), ..run(lane) }).await;
    let (_, inside) = rig.held(NewRun { options, ..run(lane) }).await;
    rig.step(after, 0, "charge", "1").await;
    rig.step(after, 2, "pack", "2").await;
    // A worker that says when a step begins. Another one of the same moment is done.
    rig.write(begins(inside, 0, "render")).await;
    rig.step(inside, 1, "thumbnail", "3").await;
    rig.clock.advance(TTL_MS + 1_250);
    assert_eq!(rig.reap().await.runs.len(), 4);
    let said = async |lease: LeaseRef| {
        let record = rig.record(lease.run).await;
        assert_eq!(record.reason, Some(Reason::Poison));
        record.error.unwrap()
    };
    let silence =
        format!("the run has lost 1 worker; the last one gave no sign of life for {}.2 s", TTL_MS / 1_000 + 1);
    let advice = ". Find out what it does to its workers, then retry it";
    assert_eq!(said(plain).await, format!("{silence}{advice}"));
    assert_eq!(said(first).await, format!("{silence}, before any step was on record{advice}"));
    let place = ", in what comes after the step \"pack\" (position 2), the last on record";
    assert_eq!(said(after).await, format!("{silence}{place}{advice}"));
    let place = ", and the last step begun was \"render\" (position 0)";
    assert_eq!(said(inside).await, format!("{silence}{place}{advice}"));
}

async fn an_attempt_that_takes_too_long_is_retried_and_then_failed(rig: Rig) {
    let lane = rig.lane("ios").await;
    let retry = RetryPolicy { max_attempts: 2, jitter: 0.0, ..RetryPolicy::default() };
    let options = Some(Options { retry, timeout_ms: Some(4_000), ..Options::default() });
    let (worker, held) = rig.held(NewRun { options, ..run(lane) }).await;
    rig.start(held).await;
    rig.clock.advance(3_999);
    assert_eq!(rig.reap().await.runs, []);
    rig.clock.advance(1);
    let expired = rig.reap().await;
    assert_eq!((expired.runs[0].end, expired.runs[0].state), (LeaseEnd::TimedOut, State::Pending));
    assert_eq!(
        (expired.woken.lanes, expired.woken.later, expired.woken.relatives),
        (vec![], vec![(lane.lane, 1_000)], false)
    );
    let record = rig.record(held.run).await;
    assert_eq!((record.failures, record.losses, record.due_at), (1, 0, START + 5_000));
    let shown = rig.shown(worker).await;
    assert_eq!((shown.status, shown.active, shown.failed), (WorkerStatus::Online, 0, 1));
    rig.clock.advance(1_000);
    let again = rig.claim(worker, lane, 1).await;
    assert_eq!((again[0].attempt, again[0].timeout_at), (2, Some(START + 9_000)));
    rig.clock.advance(4_000);
    let expired = rig.reap().await;
    assert_eq!((expired.runs[0].end, expired.runs[0].state), (LeaseEnd::TimedOut, State::Failed));
    let record = rig.record(held.run).await;
    assert_eq!((record.reason, record.failures), (Some(Reason::Timeout), 2));
    assert!(record.error.is_some_and(|error| error.contains("4000 ms")));
}

async fn a_lease_of_its_own_expires_although_the_worker_lives(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (id, worker) = (rig.submit(run(lane)).await, rig.worker("a").await);
    let slots = vec![ClaimSlot { start: true, lease_ms: Some(2_000), ..slot(worker, &[lane], 1) }];
    rig.claim_for(slots, lane).await;
    rig.clock.advance(1_999);
    assert_eq!(rig.reap().await.runs, []);
    rig.clock.advance(1);
    let expired = rig.reap().await;
    assert_eq!((expired.runs[0].run, expired.runs[0].end), (id, LeaseEnd::Lost));
    let record = rig.record(id).await;
    assert_eq!((record.state, record.losses, record.lease_until), (State::Pending, 1, None));
    assert_eq!(rig.shown(worker).await.status, WorkerStatus::Online);
}

async fn a_pass_is_bounded(rig: Rig) {
    let lane = rig.lane("ios").await;
    rig.submit_all(vec![run(lane); 7]).await;
    let worker = rig.worker("a").await;
    assert_eq!(rig.claim(worker, lane, 7).await.len(), 7);
    for _ in 0..3 {
        rig.worker("b").await;
    }
    rig.clock.advance(TTL_MS + 1);
    let mut lost = Vec::new();
    for expected in [3, 1, 0] {
        let some = rig.store.lose_workers(0, 3).await.unwrap();
        assert_eq!(some.len(), expected);
        lost.extend(some);
    }
    assert!(lost.contains(&worker));
    let mut taken = Vec::new();
    let mut passes = 0;
    loop {
        let expired = rig.store.expire(0.5, 3).await.unwrap();
        assert!(expired.runs.len() <= 3);
        taken.extend(expired.runs.iter().map(|one| one.run));
        passes += 1;
        if !expired.more {
            break;
        }
        assert_eq!(expired.runs.len(), 3);
    }
    taken.sort();
    taken.dedup();
    assert_eq!((taken.len(), passes), (7, 3));
    assert_eq!(rig.shown(worker).await.active, 0);
}

async fn several_reapers_take_each_run_once(rig: Rig) {
    let lane = rig.lane("ios").await;
    let ids = rig.submit_all(vec![run(lane); 40]).await;
    let workers = [rig.worker("a").await, rig.worker("b").await];
    for worker in workers {
        assert_eq!(rig.claim(worker, lane, 20).await.len(), 20);
    }
    rig.clock.advance(TTL_MS + 1);
    let mut tasks = Vec::new();
    for store in rig.servers(3).await.into_iter().cycle().take(6) {
        tasks.push(tokio::spawn(async move {
            let lost = store.lose_workers(0, 10).await.unwrap();
            (lost, store.expire(0.5, 100).await.unwrap().runs)
        }));
    }
    let (mut lost, mut taken) = (Vec::new(), Vec::new());
    for task in tasks {
        let (some_lost, some_taken) = task.await.unwrap();
        lost.extend(some_lost);
        taken.extend(some_taken.into_iter().map(|one| one.run));
    }
    // A reaper that came while another held the rows left them to it.
    taken.extend(rig.reap().await.runs.into_iter().map(|one| one.run));
    taken.sort();
    assert_eq!(lost.len(), 2);
    assert_eq!(taken, ids);
    for id in ids {
        assert_eq!(rig.record(id).await.losses, 1);
    }
    for worker in workers {
        assert_eq!(rig.shown(worker).await.active, 0);
    }
}

async fn nothing_expires_without_a_reason(rig: Rig) {
    let lane = rig.lane("ios").await;
    rig.submit(run(lane)).await;
    let (_, held) = {
        let worker = rig.worker("a").await;
        (worker, lease(&rig.claim(worker, lane, 1).await[0]))
    };
    rig.clock.advance(TTL_MS);
    let expired = rig.reap().await;
    assert_eq!((expired.runs, expired.more), (vec![], false));
    assert_eq!(expired.woken, Woken::default());
    assert_eq!(rig.state(held.run).await, State::Assigned);
}
