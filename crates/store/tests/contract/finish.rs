//! Completing, giving back and sleeping.

use baton_core::{LeaseEnd, State};
use baton_store::{Completion, Due};

use crate::rig::{Rig, START, claimed_epoch, contract, done, lease, run};

contract!(
    a_completed_run_keeps_its_output_and_its_history,
    a_run_given_back_waits_at_the_front_and_costs_no_budget,
    a_sleeping_run_is_claimable_exactly_when_due,
    a_nap_that_is_over_at_once_wakes_its_lane,
    work_done_is_counted_for_its_worker,
);

async fn a_completed_run_keeps_its_output_and_its_history(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held(run(lane)).await;
    rig.clock.advance(100);
    rig.start(held).await;
    rig.clock.advance(100);
    let output = vec![0, 255, 7];
    let done_with = Completion { lease: held, output: Some(output.clone().into()) };
    let changes = rig.store.complete(vec![done_with]).await.unwrap();
    assert_eq!(changes.verdicts, [done(State::Completed)]);
    assert_eq!((changes.woken.lanes, changes.woken.later), (vec![], vec![]));
    let record = rig.record(held.run).await;
    assert_eq!((record.state, record.ended_at, record.reason), (State::Completed, Some(START + 200), None));
    assert_eq!((record.worker, record.epoch, record.error), (Some(worker), held.epoch, None));
    assert_eq!((record.claimed_at, record.started_at), (Some(START), Some(START + 100)));
    assert_eq!(record.output.as_deref(), Some(&output[..]));
    let attempts = rig.store.attempts(held.run).await.unwrap();
    assert_eq!(attempts.len(), 1);
    assert_eq!(
        (attempts[0].epoch, attempts[0].worker, attempts[0].end),
        (held.epoch, Some(worker), LeaseEnd::Completed)
    );
    assert_eq!((attempts[0].claimed_at, attempts[0].started_at), (START, Some(START + 100)));
    assert_eq!(attempts[0].ended_at, START + 200);
    assert_eq!(rig.store.lease_end(held).await.unwrap(), Some(LeaseEnd::Completed));
}

async fn a_run_given_back_waits_at_the_front_and_costs_no_budget(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held(run(lane)).await;
    let behind = rig.submit(run(lane)).await;
    rig.clock.advance(100);
    let changes = rig.store.give_back(vec![(held, "no disk left".into())]).await.unwrap();
    assert_eq!(changes.verdicts, [done(State::Pending)]);
    assert_eq!((changes.woken.lanes, changes.woken.later, changes.woken.relatives), (vec![lane.lane], vec![], false));
    let record = rig.record(held.run).await;
    assert_eq!((record.state, record.failures, record.losses, record.worker), (State::Pending, 0, 0, None));
    assert_eq!((record.claimed_at, record.started_at, record.timeout_at), (None, None, None));
    assert_eq!(record.error.as_deref(), Some("no disk left"));
    assert_eq!(rig.shown(worker).await.active, 0);
    let again = rig.claim(worker, lane, 5).await;
    assert_eq!(again.iter().map(|one| (one.run, one.attempt)).collect::<Vec<_>>(), [(held.run, 1), (behind, 1)]);
    assert_eq!(again[0].epoch, claimed_epoch(held.epoch.number() + 1));
    let attempts = rig.store.attempts(held.run).await.unwrap();
    assert_eq!((attempts.len(), attempts[0].end), (1, LeaseEnd::GivenBack));
    assert_eq!(attempts[0].error.as_deref(), Some("no disk left"));
}

async fn a_sleeping_run_is_claimable_exactly_when_due(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held(run(lane)).await;
    let changes = rig.store.sleep(vec![(held, Due::After(700))]).await.unwrap();
    assert_eq!(changes.verdicts, [done(State::Sleeping)]);
    assert_eq!(
        (changes.woken.lanes, changes.woken.later, changes.woken.relatives),
        (vec![], vec![(lane.lane, 700)], false)
    );
    let record = rig.record(held.run).await;
    assert_eq!((record.state, record.due_at, record.worker), (State::Sleeping, START + 700, None));
    assert_eq!(rig.shown(worker).await.active, 0);
    rig.clock.advance(699);
    assert_eq!(rig.claim(worker, lane, 1).await, []);
    rig.clock.advance(1);
    let again = rig.claim(worker, lane, 1).await;
    assert_eq!((again[0].run, again[0].epoch, again[0].attempt), (held.run, claimed_epoch(held.epoch.number() + 1), 1));
    assert_eq!(rig.store.lease_end(held).await.unwrap(), Some(LeaseEnd::Slept));
    assert_eq!(rig.complete(lease(&again[0])).await, done(State::Completed));
}

async fn a_nap_that_is_over_at_once_wakes_its_lane(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held(run(lane)).await;
    let changes = rig.store.sleep(vec![(held, Due::At(START - 5))]).await.unwrap();
    assert_eq!(changes.verdicts, [done(State::Sleeping)]);
    assert_eq!((changes.woken.lanes, changes.woken.later, changes.woken.relatives), (vec![lane.lane], vec![], false));
    assert_eq!(rig.claim_ids(worker, lane, 1).await, [held.run]);
}

async fn work_done_is_counted_for_its_worker(rig: Rig) {
    let lane = rig.lane("ios").await;
    let worker = rig.worker("a").await;
    rig.submit_all(vec![run(lane); 6]).await;
    let held: Vec<_> = rig.claim(worker, lane, 6).await.iter().map(lease).collect();
    rig.complete(held[0]).await;
    rig.complete(held[1]).await;
    rig.complete(held[1]).await;
    rig.fail(held[2], crate::rig::error()).await;
    rig.give_back(held[3]).await;
    rig.sleep(held[4], Due::After(10)).await;
    let shown = rig.shown(worker).await;
    assert_eq!((shown.active, shown.completed, shown.failed), (1, 2, 1));
    let filter = baton_store::RunFilter { worker: Some(worker), states: vec![State::Assigned], ..Default::default() };
    assert_eq!(rig.store.count_runs(&filter).await.unwrap(), u64::from(shown.active));
    let filter = baton_store::RunFilter { states: vec![State::Completed], ..filter };
    assert_eq!(rig.store.count_runs(&filter).await.unwrap(), shown.completed);
}
