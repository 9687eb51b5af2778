//! Leases of a run, when their holders were heard of last, and writes that were refused because theirs was over.

use baton_core::{LateVerb, LeaseEnd, State};
use baton_store::{Due, LateWrite, LeaseRef, NewRefusal, PastLease, REFUSED_MAX, RefusedWrites, WorkerStatus};

use crate::rig::{Rig, START, TTL_MS, claimed_epoch, contract, error, lease, lease_of, run};

const NEVER: i64 = 1 << 50;

contract!(
    a_late_write_is_on_record_with_who_sent_it,
    what_wants_the_same_is_one_row_with_a_count,
    rows_of_a_run_are_limited_whatever_servers_note,
    what_is_no_late_write_is_not_kept,
    what_a_holder_sent_beside_its_own_end_is_not_kept,
    late_writes_outlive_the_server_and_go_with_their_run,
    a_lost_lease_keeps_when_its_holder_was_heard_of_last,
    leases_that_end_well_keep_nothing_of_the_kind,
    a_poisoned_run_keeps_it_with_its_end,
    leases_come_in_pages_newest_first,
);

fn late(lease: LeaseRef, verb: LateVerb) -> LateWrite {
    let name = String::new();
    LateWrite { lease, verb, position: None, name, bytes: 12, times: 1, first_ms_ago: 0, last_ms_ago: 0 }
}

fn step(lease: LeaseRef, position: u32) -> LateWrite {
    LateWrite { position: Some(position), name: "charge".into(), ..late(lease, LateVerb::Step) }
}

async fn noted(rig: &Rig, writes: Vec<LateWrite>) -> Vec<NewRefusal> {
    rig.store.note_refused(writes).await.unwrap()
}

async fn refused(rig: &Rig, lease: LeaseRef) -> RefusedWrites {
    rig.store.refused_writes(lease.run).await.unwrap()
}

async fn past(rig: &Rig, lease: LeaseRef) -> Vec<PastLease> {
    rig.store.past_leases(lease.run, None, 100).await.unwrap()
}

/// A run that its first worker has lost and a second one holds.
async fn handed_over(rig: &Rig) -> (LeaseRef, LeaseRef) {
    let lane = rig.lane("ios").await;
    let (_, first) = rig.held(run(lane)).await;
    rig.clock.advance(TTL_MS + 1);
    rig.reap().await;
    let second = rig.worker("second").await;
    (first, lease(&rig.claim(second, lane, 1).await[0]))
}

async fn a_late_write_is_on_record_with_who_sent_it(rig: Rig) {
    let (first, second) = handed_over(&rig).await;
    let worker = past(&rig, first).await[0].attempt.worker;
    rig.clock.advance(400);
    let write = LateWrite { first_ms_ago: 300, last_ms_ago: 300, ..step(first, 4) };
    let new = noted(&rig, vec![write]).await;
    assert_eq!(new, [NewRefusal { lease: first, verb: LateVerb::Step, worker }]);
    let found = refused(&rig, first).await;
    let [one] = found.writes.as_slice() else { panic!("{found:?}") };
    assert_eq!((one.epoch, one.current_epoch, one.worker), (first.epoch, second.epoch, worker));
    assert_eq!((one.verb, one.position, one.name.as_str(), one.bytes), (LateVerb::Step, Some(4), "charge", 12));
    let at = START + TTL_MS + 1 + 100;
    assert_eq!((one.at, one.last_at, one.times, found.more), (at, at, 1, 0));
    // The run is none the worse for it.
    assert_eq!(rig.complete(second).await, crate::rig::done(State::Completed));
    let new = noted(&rig, vec![late(first, LateVerb::Complete)]).await;
    assert_eq!(new, [NewRefusal { lease: first, verb: LateVerb::Complete, worker }]);
    assert_eq!(refused(&rig, first).await.writes.len(), 2);
}

async fn what_wants_the_same_is_one_row_with_a_count(rig: Rig) {
    let (first, _) = handed_over(&rig).await;
    assert_eq!(noted(&rig, vec![step(first, 1), step(first, 2)]).await.len(), 2);
    rig.clock.advance(50);
    let again = LateWrite { times: 3, bytes: 99, ..step(first, 1) };
    assert_eq!(noted(&rig, vec![again]).await, []);
    let found = refused(&rig, first).await.writes;
    let told: Vec<_> = found.iter().map(|one| (one.position, one.times, one.bytes, one.last_at - one.at)).collect();
    assert_eq!(told, [(Some(1), 4, 99, 50), (Some(2), 1, 12, 0)]);
}

async fn rows_of_a_run_are_limited_whatever_servers_note(rig: Rig) {
    let (first, _) = handed_over(&rig).await;
    let servers = rig.servers(2).await;
    let note = |server: usize| {
        let store = servers[server].clone();
        let writes = (0..200).map(|position| step(first, server as u32 * 200 + position)).collect();
        async move { store.note_refused(writes).await.unwrap().len() }
    };
    let (one, other) = tokio::join!(note(0), note(1));
    assert_eq!(one + other, REFUSED_MAX);
    let found = refused(&rig, first).await;
    assert_eq!((found.writes.len(), found.more), (REFUSED_MAX, 300));
    // What has a row goes on being counted there.
    let known = found.writes[0].position.unwrap();
    noted(&rig, vec![step(first, known), late(first, LateVerb::Complete)]).await;
    let found = refused(&rig, first).await;
    assert_eq!((found.writes.len(), found.writes[0].times, found.more), (REFUSED_MAX, 2, 301));
}

async fn what_is_no_late_write_is_not_kept(rig: Rig) {
    let (_, second) = handed_over(&rig).await;
    assert_eq!(noted(&rig, vec![late(second, LateVerb::Complete)]).await, [], "the lease is good");
    let unknown = lease_of(baton_core::RunId::new(1, 1, 1), 1);
    assert_eq!(noted(&rig, vec![late(unknown, LateVerb::Complete)]).await, []);
    assert_eq!(refused(&rig, unknown).await, RefusedWrites::default());
    assert_eq!(refused(&rig, second).await, RefusedWrites::default());
    // A lease that the database knows nothing of: it was restored.
    let restored = LeaseRef { run: second.run, epoch: claimed_epoch(9) };
    assert_eq!(noted(&rig, vec![late(restored, LateVerb::Renew)]).await.len(), 1);
}

async fn what_a_holder_sent_beside_its_own_end_is_not_kept(rig: Rig) {
    let (first, _) = handed_over(&rig).await;
    assert_eq!(noted(&rig, vec![late(first, LateVerb::Renew)]).await.len(), 1, "this one was taken away");
    let lane = rig.lane("ios").await;
    let (_, done) = rig.held(run(lane)).await;
    rig.complete(done).await;
    let (_, back) = rig.held(run(lane)).await;
    rig.give_back(back).await;
    for lease in [done, back] {
        let chatter = [LateVerb::Renew, LateVerb::Log, LateVerb::Measure, LateVerb::Start, LateVerb::Read];
        assert_eq!(noted(&rig, chatter.map(|verb| late(lease, verb)).to_vec()).await, []);
        assert_eq!(noted(&rig, vec![late(lease, LateVerb::Fail)]).await.len(), 1);
    }
}

async fn late_writes_outlive_the_server_and_go_with_their_run(rig: Rig) {
    let (first, second) = handed_over(&rig).await;
    noted(&rig, vec![step(first, 1)]).await;
    let rig = rig.reopen().await;
    assert_eq!(refused(&rig, first).await.writes.len(), 1);
    rig.complete(second).await;
    rig.clock.advance(10);
    assert_eq!(rig.store.retain(5, NEVER, NEVER, 100).await.unwrap().runs, 1);
    assert_eq!(refused(&rig, first).await, RefusedWrites::default());
    assert_eq!((past(&rig, first).await, rig.store.count_past_leases(first.run).await.unwrap()), (vec![], 0));
    assert_eq!(noted(&rig, vec![step(first, 1)]).await, [], "nothing is written for a run that is gone");
    assert_eq!(refused(&rig, first).await, RefusedWrites::default());
}

async fn a_lost_lease_keeps_when_its_holder_was_heard_of_last(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, first) = rig.held(run(lane)).await;
    rig.clock.advance(4_000);
    rig.beat(worker, &[first]).await;
    let heard_at = rig.now();
    rig.clock.advance(TTL_MS + 1);
    rig.reap().await;
    // A beat that comes too late changes nothing of it, and neither does what becomes of the worker.
    rig.beat(worker, &[first]).await;
    let lost = &past(&rig, first).await[0];
    assert_eq!((lost.attempt.end, lost.seen_at), (LeaseEnd::Lost, Some(heard_at)));
    assert_eq!((lost.attempt.ended_at, lost.worker_name.as_deref()), (heard_at + TTL_MS + 1, Some("holder")));
    rig.store.retain(NEVER, 0, NEVER, 100).await.unwrap();
    rig.clock.advance(1);
    rig.store.retain(NEVER, 0, NEVER, 100).await.unwrap();
    let lost = &past(&rig, first).await[0];
    assert_eq!((lost.seen_at, lost.worker_name.as_deref()), (Some(heard_at), None));
}

async fn leases_that_end_well_keep_nothing_of_the_kind(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, first) = rig.held(run(lane)).await;
    rig.sleep(first, Due::Now).await;
    let second = lease(&rig.claim(worker, lane, 1).await[0]);
    rig.fail(second, error()).await;
    rig.clock.advance(2_000);
    let third = lease(&rig.claim(worker, lane, 1).await[0]);
    rig.store.set_worker(worker, WorkerStatus::Offline, "stopped").await.unwrap();
    let other = rig.worker("other").await;
    let fourth = lease(&rig.claim(other, lane, 1).await[0]);
    rig.complete(fourth).await;
    let leases = past(&rig, first).await;
    let told: Vec<_> = leases.iter().map(|past| (past.attempt.epoch, past.attempt.end, past.seen_at)).collect();
    let ended = [
        (fourth, LeaseEnd::Completed),
        (third, LeaseEnd::GivenBack),
        (second, LeaseEnd::Failed),
        (first, LeaseEnd::Slept),
    ];
    assert_eq!(told, ended.map(|(lease, end)| (lease.epoch, end, None)));
}

async fn a_poisoned_run_keeps_it_with_its_end(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, mut newest) = rig.held(run(lane)).await;
    let mut heard_at = rig.now();
    for _ in 0..20 {
        rig.clock.advance(TTL_MS + 1);
        rig.reap().await;
        if rig.state(newest.run).await.is_ended() {
            break;
        }
        heard_at = rig.now();
        let worker = rig.worker("next").await;
        newest = lease(&rig.claim(worker, lane, 1).await[0]);
    }
    assert_eq!(rig.state(newest.run).await, State::Failed);
    let last = &past(&rig, newest).await[0];
    assert_eq!((last.attempt.epoch, last.attempt.end, last.seen_at), (newest.epoch, LeaseEnd::Lost, Some(heard_at)));
    // A cancel whose grace time passes takes a lease away, too.
    let (_, stubborn) = rig.held(run(lane)).await;
    let heard_at = rig.now();
    rig.cancel(stubborn.run, 100).await;
    rig.clock.advance(101);
    rig.reap().await;
    let last = &past(&rig, stubborn).await[0];
    assert_eq!((last.attempt.end, last.seen_at), (LeaseEnd::Cancelled, Some(heard_at)));
}

async fn leases_come_in_pages_newest_first(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, mut newest) = rig.held(run(lane)).await;
    for _ in 1..12 {
        rig.give_back(newest).await;
        newest = lease(&rig.claim(worker, lane, 1).await[0]);
    }
    rig.complete(newest).await;
    assert_eq!(rig.store.count_past_leases(newest.run).await.unwrap(), 12);
    let page = async |before| {
        let leases = rig.store.past_leases(newest.run, before, 5).await.unwrap();
        leases.iter().map(|past| past.attempt.epoch.number()).collect::<Vec<_>>()
    };
    assert_eq!(page(None).await, [12, 11, 10, 9, 8]);
    assert_eq!(page(Some(8)).await, [7, 6, 5, 4, 3]);
    assert_eq!(page(Some(3)).await, [2, 1]);
    assert!(page(Some(1)).await.is_empty());
}
