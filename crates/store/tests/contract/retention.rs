//! Deleting what is old.

use baton_core::State;
use baton_store::{AuditEntry, Due, NewRun, Page, Retained, RunFilter, WorkerFilter, WorkerStatus};

use crate::rig::{Rig, TTL_MS, contract, error, lease, once, run};

const NEVER: i64 = 1 << 50;

contract!(
    old_runs_go_with_all_that_belongs_to_them,
    live_runs_stay_however_old,
    what_ended_late_stays_although_submitted_early,
    a_pass_deletes_no_more_than_its_limit,
    offline_workers_and_audit_lines_go_in_their_time,
);

async fn old_runs_go_with_all_that_belongs_to_them(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, first) = rig.held(once(lane, "k", 1)).await;
    rig.fail(first, error()).await;
    rig.clock.advance(2_000);
    let second = lease(&rig.claim(worker, lane, 1).await[0]);
    rig.complete(second).await;
    let cancelled = rig.submit(run(lane)).await;
    rig.cancel(cancelled, 0).await;
    rig.clock.advance(1_000);
    assert_eq!(rig.store.retain(1_000, NEVER, NEVER, 100).await.unwrap(), Retained::default());
    rig.clock.advance(1);
    let gone = rig.store.retain(1_000, NEVER, NEVER, 100).await.unwrap();
    assert_eq!(gone, Retained { runs: 2, workers: 0, audit: 0 });
    for id in [first.run, cancelled] {
        assert_eq!(rig.store.run(id).await.unwrap(), None);
        assert_eq!(rig.store.attempts(id).await.unwrap(), []);
    }
    assert_eq!(rig.store.lease_end(first).await.unwrap(), None);
    assert_eq!(rig.store.count_runs(&RunFilter::default()).await.unwrap(), 0);
    assert_eq!(rig.complete(second).await, baton_store::Verdict::Unknown);
    // Its idempotency key is free again.
    assert!(rig.try_submit(vec![once(lane, "k", 2)]).await.unwrap()[0].is_new);
}

async fn live_runs_stay_however_old(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, asleep) = rig.held(run(lane)).await;
    rig.sleep(asleep, Due::After(NEVER)).await;
    let (_, held) = rig.held(run(lane)).await;
    let (_, retried) = rig.held(run(lane)).await;
    rig.fail(retried, error()).await;
    let waiting = rig.submit(NewRun { due: Due::After(NEVER), ..run(lane) }).await;
    rig.clock.advance(1 << 40);
    assert_eq!(rig.store.retain(0, NEVER, NEVER, 100).await.unwrap(), Retained::default());
    for id in [asleep.run, held.run, retried.run, waiting] {
        assert!(!rig.state(id).await.is_ended());
    }
    assert_eq!(rig.store.attempts(retried.run).await.unwrap().len(), 1);
    assert_eq!(rig.shown(worker).await.active, 0);
}

async fn what_ended_late_stays_although_submitted_early(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held(run(lane)).await;
    rig.clock.advance(10_000);
    rig.beat(worker, &[held]).await;
    rig.complete(held).await;
    rig.clock.advance(500);
    assert_eq!(rig.store.retain(1_000, NEVER, NEVER, 100).await.unwrap().runs, 0);
    assert_eq!(rig.state(held.run).await, State::Completed);
    rig.clock.advance(501);
    assert_eq!(rig.store.retain(1_000, NEVER, NEVER, 100).await.unwrap().runs, 1);
}

async fn a_pass_deletes_no_more_than_its_limit(rig: Rig) {
    let lane = rig.lane("ios").await;
    // Old live runs stand before the ended ones and must not use up the limit for ever.
    rig.submit_all(vec![NewRun { due: Due::After(NEVER), ..run(lane) }; 10]).await;
    let ids = rig.submit_all(vec![run(lane); 10]).await;
    rig.store.cancel(ids, 0).await.unwrap();
    rig.clock.advance(1_000);
    let mut gone = Vec::new();
    for _ in 0..4 {
        gone.push(rig.store.retain(100, NEVER, NEVER, 4).await.unwrap().runs);
    }
    assert_eq!(gone, [4, 4, 2, 0]);
    assert_eq!(rig.store.count_runs(&RunFilter::default()).await.unwrap(), 10);
}

async fn offline_workers_and_audit_lines_go_in_their_time(rig: Rig) {
    let (gone, lost, alive) = (rig.worker("a").await, rig.worker("b").await, rig.worker("c").await);
    rig.store.set_worker(gone, WorkerStatus::Offline, "bye").await.unwrap();
    let line = AuditEntry { actor: "a".into(), action: "b".into(), ..AuditEntry::default() };
    rig.store.audit(vec![line.clone(), line.clone()]).await.unwrap();
    rig.clock.advance(TTL_MS + 1);
    rig.beat(alive, &[]).await;
    // The third one's beat came too late only if somebody had looked before.
    assert_eq!(rig.store.lose_workers(0, 10).await.unwrap(), [lost]);
    rig.store.audit(vec![line]).await.unwrap();
    let went = rig.store.retain(NEVER, 1_000, 1_000, 100).await.unwrap();
    assert_eq!(went, Retained { runs: 0, workers: 1, audit: 2 });
    assert_eq!(rig.store.worker(gone).await.unwrap(), None);
    assert_eq!(rig.store.worker(gone).await.unwrap(), None);
    assert_eq!(rig.store.worker(lost).await.unwrap().map(|worker| worker.status), Some(WorkerStatus::Offline));
    rig.clock.advance(1_001);
    assert_eq!(rig.store.retain(NEVER, 1_000, NEVER, 100).await.unwrap().workers, 1);
    assert_eq!(rig.store.count_workers(&WorkerFilter::default()).await.unwrap(), 1);
    assert_eq!(rig.store.audit_log(Page { after: None, limit: 10 }, false).await.unwrap().len(), 1);
}
