//! Stopping runs on request.

use baton_core::{LeaseEnd, Reason, Refused, State};
use baton_store::{BeatAnswer, Due, NewRun, Verdict, WorkerStatus};

use crate::rig::{Rig, START, contract, done, error, run};

contract!(
    a_run_nobody_holds_is_cancelled_at_once,
    a_held_run_gets_time_to_stop_and_is_told_with_the_heartbeat,
    a_run_that_does_not_stop_in_time_is_cancelled_for_good,
    done_is_done_even_after_a_request_to_cancel,
    a_worker_that_stops_on_request_cancels_the_run,
    a_run_being_cancelled_does_not_go_to_sleep,
    cancelling_twice_is_harmless,
);

async fn a_run_nobody_holds_is_cancelled_at_once(rig: Rig) {
    let lane = rig.lane("ios").await;
    let pending = rig.submit(run(lane)).await;
    let later = rig.submit(NewRun { due: Due::After(1_000), ..run(lane) }).await;
    rig.clock.advance(10);
    let changes = rig.store.cancel(vec![pending, later], 5_000).await.unwrap();
    assert_eq!(changes.verdicts, [done(State::Cancelled); 2]);
    for id in [pending, later] {
        let record = rig.record(id).await;
        assert_eq!((record.state, record.reason), (State::Cancelled, Some(Reason::Cancelled)));
        assert_eq!((record.ended_at, record.worker), (Some(START + 10), None));
        assert_eq!(rig.store.attempts(id).await.unwrap(), []);
    }
    let (worker, held) = rig.held(run(lane)).await;
    rig.sleep(held, Due::After(1_000)).await;
    assert_eq!(rig.cancel(held.run, 5_000).await, done(State::Cancelled));
    rig.clock.advance(5_000);
    assert_eq!(rig.claim(worker, lane, 9).await, []);
    assert_eq!(rig.store.lease_end(held).await.unwrap(), Some(LeaseEnd::Slept));
}

async fn a_held_run_gets_time_to_stop_and_is_told_with_the_heartbeat(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held(run(lane)).await;
    assert_eq!(rig.cancel(held.run, 5_000).await, Verdict::Done { state: State::Assigned, cancelling: true });
    assert_eq!(rig.record(held.run).await.cancel_by, Some(START + 5_000));
    assert_eq!(rig.start(held).await, Verdict::Done { state: State::Running, cancelling: true });
    // Told whether it names the lease or not.
    for leases in [&[held][..], &[]] {
        let BeatAnswer::Alive { status, lost, cancelling, .. } = rig.beat(worker, leases).await else {
            panic!("the worker is alive")
        };
        assert_eq!((status, lost, cancelling), (WorkerStatus::Online, vec![], vec![held]));
    }
    let (other, _) = rig.held(run(lane)).await;
    let BeatAnswer::Alive { cancelling, .. } = rig.beat(other, &[]).await else { panic!("the worker is alive") };
    assert_eq!(cancelling, []);
}

async fn a_run_that_does_not_stop_in_time_is_cancelled_for_good(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held(run(lane)).await;
    rig.start(held).await;
    rig.cancel(held.run, 5_000).await;
    rig.clock.advance(4_999);
    assert_eq!(rig.reap().await.runs, []);
    rig.clock.advance(1);
    let expired = rig.reap().await;
    assert_eq!(expired.runs.len(), 1);
    let one = expired.runs[0];
    assert_eq!((one.run, one.worker, one.epoch), (held.run, Some(worker), held.epoch));
    assert_eq!((one.end, one.state), (LeaseEnd::Cancelled, State::Cancelled));
    let record = rig.record(held.run).await;
    assert_eq!((record.state, record.reason), (State::Cancelled, Some(Reason::Cancelled)));
    assert_eq!(rig.complete(held).await, Verdict::Refused(Refused::Ended));
    let shown = rig.shown(worker).await;
    assert_eq!((shown.active, shown.completed, shown.failed), (0, 0, 0));
}

async fn done_is_done_even_after_a_request_to_cancel(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held(run(lane)).await;
    rig.cancel(held.run, 5_000).await;
    assert_eq!(rig.complete(held).await, done(State::Completed));
    assert_eq!(rig.record(held.run).await.reason, None);
    assert_eq!(rig.shown(worker).await.completed, 1);
}

async fn a_worker_that_stops_on_request_cancels_the_run(rig: Rig) {
    let lane = rig.lane("ios").await;
    for verb in ["fail", "give back", "deregister", "lost"] {
        let (worker, held) = rig.held(run(lane)).await;
        rig.cancel(held.run, 60_000).await;
        match verb {
            "fail" => assert_eq!(rig.fail(held, error()).await, done(State::Cancelled)),
            "give back" => assert_eq!(rig.give_back(held).await, done(State::Cancelled)),
            "deregister" => {
                rig.store.set_worker(worker, WorkerStatus::Offline, "bye").await.unwrap();
            }
            _ => {
                rig.clock.advance(20_000);
                rig.reap().await;
            }
        }
        let record = rig.record(held.run).await;
        assert_eq!((record.state, record.reason), (State::Cancelled, Some(Reason::Cancelled)), "{verb}");
        assert_eq!(rig.store.lease_end(held).await.unwrap(), Some(LeaseEnd::Cancelled), "{verb}");
        assert_eq!(rig.shown(worker).await.active, 0, "{verb}");
    }
}

async fn a_run_being_cancelled_does_not_go_to_sleep(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held(run(lane)).await;
    rig.cancel(held.run, 5_000).await;
    assert_eq!(rig.sleep(held, Due::After(10)).await, Verdict::Refused(Refused::Cancelling));
    assert_eq!(rig.state(held.run).await, State::Assigned);
}

async fn cancelling_twice_is_harmless(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held(run(lane)).await;
    rig.cancel(held.run, 5_000).await;
    rig.clock.advance(1_000);
    assert_eq!(rig.cancel(held.run, 5_000).await, Verdict::Refused(Refused::AlreadyDone));
    assert_eq!(rig.record(held.run).await.cancel_by, Some(START + 5_000), "asking again does not give more time");
    let pending = rig.submit(run(lane)).await;
    let changes = rig.store.cancel(vec![pending, pending], 0).await.unwrap();
    assert_eq!(changes.verdicts, [done(State::Cancelled), Verdict::Refused(Refused::AlreadyDone)]);
}
