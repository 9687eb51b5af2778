//! How workflows end besides being done: at their deadline, cancelled by themselves, or to go on as another run.

use baton_core::{LeaseEnd, Reason, Refused, State};
use baton_store::{Due, LeaseRef, MessageAnswer, NewRun, SuspendAnswer, Verdict};

use crate::rig::{Rig, START, contract, done, keyed, once, run};
use crate::workflows_rig::{GRACE_MS, cancel, signal, taking};

contract!(
    a_deadline_ends_a_run_whatever_it_does,
    a_deadline_cancels_a_run_whatever_it_does,
    of_two_deadlines_the_earlier_one_counts,
    a_run_that_has_ended_needs_no_deadline,
    deadlines_that_have_passed_are_carried_out_once_and_some_at_a_time,
    a_workflow_says_that_it_is_cancelled,
    a_run_goes_on_as_another,
    going_on_again_gets_the_same_answer,
    what_nobody_has_taken_goes_along,
    a_deadline_goes_along,
    the_parent_hears_of_the_last_of_a_chain,
    children_of_a_run_that_goes_on_are_not_cancelled,
    going_on_makes_room_for_others_of_the_key,
);

async fn a_deadline_ends_a_run_whatever_it_does(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (worker, held) = rig.held(run(lane)).await;
    let (_, asleep) = rig.held(run(lane)).await;
    rig.wait(asleep, 0).await;
    let pending = rig.submit(run(lane)).await;
    let runs = [held.run, asleep.run, pending];
    rig.store.set_deadlines(runs.map(|run| (run, 1_000, false)).to_vec()).await.unwrap();
    rig.clock.advance(999);
    assert_eq!(rig.store.end_overdue(100).await.unwrap(), Default::default());
    rig.clock.advance(1);
    assert_eq!(rig.store.end_overdue(100).await.unwrap().ended, runs);
    for run in runs {
        let record = rig.record(run).await;
        assert_eq!((record.state, record.reason), (State::Failed, Some(Reason::Timeout)));
        assert_eq!((record.ended_at, record.error.is_some()), (Some(START + 1_000), true));
    }
    assert_eq!(rig.store.lease_end(held).await.unwrap(), Some(LeaseEnd::TimedOut));
    assert_eq!((rig.shown(worker).await.active, rig.complete(held).await), (0, Verdict::Refused(Refused::Ended)));
    assert_eq!(rig.claim_ids(worker, lane, 10).await, []);
}

async fn a_deadline_cancels_a_run_whatever_it_does(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (worker, held) = rig.held(run(lane)).await;
    let pending = rig.submit(run(lane)).await;
    rig.store.set_deadlines(vec![(held.run, 10, true), (pending, 10, true)]).await.unwrap();
    rig.clock.advance(10);
    assert_eq!(rig.store.end_overdue(100).await.unwrap().ended, [held.run, pending]);
    for run in [held.run, pending] {
        let record = rig.record(run).await;
        assert_eq!((record.state, record.reason), (State::Cancelled, Some(Reason::Cancelled)));
    }
    assert_eq!(rig.store.lease_end(held).await.unwrap(), Some(LeaseEnd::Cancelled));
    assert_eq!(rig.shown(worker).await.active, 0);
}

async fn of_two_deadlines_the_earlier_one_counts(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (one, two) = (rig.submit(run(lane)).await, rig.submit(run(lane)).await);
    rig.store
        .set_deadlines(vec![(one, 500, false), (two, 300, false), (one, 400, true), (one, 900, false)])
        .await
        .unwrap();
    rig.store.set_deadlines(vec![(one, 450, false), (two, 200, true)]).await.unwrap();
    rig.clock.advance(200);
    assert_eq!(rig.store.end_overdue(100).await.unwrap().ended, [two]);
    rig.clock.advance(199);
    assert_eq!(rig.store.end_overdue(100).await.unwrap().ended, []);
    rig.clock.advance(1);
    assert_eq!(rig.store.end_overdue(100).await.unwrap().ended, [one]);
    assert_eq!((rig.state(one).await, rig.state(two).await), (State::Cancelled, State::Cancelled));
}

async fn a_run_that_has_ended_needs_no_deadline(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, early) = rig.held(run(lane)).await;
    let (_, late) = rig.held(run(lane)).await;
    rig.complete(early).await;
    rig.store.set_deadlines(vec![(early.run, 10, false), (late.run, 10, false)]).await.unwrap();
    rig.complete(late).await;
    rig.clock.advance(10);
    assert_eq!(rig.store.end_overdue(100).await.unwrap().ended, []);
    assert_eq!((rig.state(early.run).await, rig.state(late.run).await), (State::Completed, State::Completed));
}

async fn deadlines_that_have_passed_are_carried_out_once_and_some_at_a_time(rig: Rig) {
    let lane = rig.lane("flow").await;
    let runs = rig.submit_all(vec![run(lane); 25]).await;
    rig.store.set_deadlines(runs.iter().map(|run| (*run, 10, false)).collect()).await.unwrap();
    rig.clock.advance(10);
    let some = rig.store.end_overdue(10).await.unwrap();
    assert_eq!((some.ended.len(), some.more), (10, true));
    let mut ending = tokio::task::JoinSet::new();
    for server in rig.servers(4).await {
        ending.spawn(async move {
            let mut ended = Vec::new();
            loop {
                let some = server.end_overdue(4).await.unwrap();
                ended.extend(some.ended);
                if !some.more {
                    return ended;
                }
            }
        });
    }
    let mut all: Vec<_> = ending.join_all().await.into_iter().flatten().chain(some.ended).collect();
    all.sort();
    assert_eq!(all, runs);
}

async fn a_workflow_says_that_it_is_cancelled(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (worker, lease) = rig.held(run(lane)).await;
    rig.leave(cancel(lease.run)).await;
    let cancelled = || rig.store.cancelled(vec![(lease, "refunded\0".into())]);
    assert_eq!(cancelled().await.unwrap().verdicts, [done(State::Cancelled)]);
    let record = rig.record(lease.run).await;
    assert_eq!((record.state, record.reason), (State::Cancelled, Some(Reason::Cancelled)));
    assert!(record.error.is_some_and(|words| words.starts_with("refunded")));
    assert_eq!(cancelled().await.unwrap().verdicts, [Verdict::Refused(Refused::AlreadyDone)]);
    assert_eq!((rig.shown(worker).await.active, rig.shown(worker).await.failed), (0, 0));
    assert_eq!(rig.complete(lease).await, Verdict::Refused(Refused::Ended));
}

async fn go_on(rig: &Rig, lease: LeaseRef, next: NewRun) -> baton_store::Submitted {
    let answer = rig.store.continue_as_new(lease, next, crate::rig::dice()).await.unwrap();
    assert_eq!(answer.verdict, done(State::Completed));
    answer.next.unwrap()
}

async fn a_run_goes_on_as_another(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (worker, lease) = rig.held(run(lane)).await;
    rig.step(lease, 0, "pay", "").await;
    let next = NewRun { input: "round two".into(), ..once(lane, "a key of somebody else", 1) };
    let answer = rig.store.continue_as_new(lease, next.clone(), 7).await.unwrap();
    assert_eq!((answer.verdict, &answer.woken.lanes), (done(State::Completed), &vec![lane.lane]));
    assert!(!answer.woken.relatives);
    let submitted = answer.next.unwrap();
    assert!(submitted.is_new);
    let (before, after) = (rig.record(lease.run).await, rig.record(submitted.run).await);
    assert_eq!(
        (before.state, after.state, after.input.as_ref()),
        (State::Completed, State::Pending, &b"round two"[..])
    );
    assert_eq!((rig.shown(worker).await.active, rig.shown(worker).await.completed), (0, 1));
    assert_eq!(rig.claim_ids(worker, lane, 10).await, [submitted.run]);
    assert_eq!(rig.steps(submitted.run).await, [], "it begins at the beginning");
    assert_eq!(rig.signal(lease.run, "go").await, MessageAnswer::Continued(submitted.run));
    let relations = rig.store.relations(&[submitted.run, lease.run]).await.unwrap();
    assert_eq!(relations.iter().map(|one| one.continued_to).collect::<Vec<_>>(), [None, Some(submitted.run)]);
    let later = NewRun { due: Due::After(500), ..run(lane) };
    let (_, second) = rig.held(run(lane)).await;
    let answer = rig.store.continue_as_new(second, later, 8).await.unwrap();
    assert_eq!((answer.woken.lanes, answer.woken.later), (vec![], vec![(lane.lane, 500)]));
}

async fn going_on_again_gets_the_same_answer(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (worker, lease) = rig.held(run(lane)).await;
    let first = go_on(&rig, lease, run(lane)).await;
    rig.clock.advance(100);
    let again = rig.store.continue_as_new(lease, run(lane), 9).await.unwrap();
    assert_eq!(again.verdict, Verdict::Refused(Refused::AlreadyDone));
    assert_eq!(again.next, Some(baton_store::Submitted { is_new: false, ..first }));
    assert_eq!(rig.claim_ids(worker, lane, 10).await, [first.run]);
    // Whoever was completed without going on did not go on.
    let (_, plain) = rig.held(run(lane)).await;
    rig.complete(plain).await;
    let late = rig.store.continue_as_new(plain, run(lane), 10).await.unwrap();
    assert_eq!((late.verdict, late.next), (Verdict::Refused(Refused::AlreadyDone), None));
}

async fn what_nobody_has_taken_goes_along(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    for (name, key) in [("a", None), ("b", None), ("c", Some("key")), ("d", None)] {
        rig.leave(signal(lease.run, name, key)).await;
    }
    rig.leave(cancel(lease.run)).await;
    rig.store.write_steps(vec![taking(lease, 0, 1), taking(lease, 1, 4)]).await.unwrap();
    let next = go_on(&rig, lease, run(lane)).await.run;
    let names = |names: &[&str]| {
        names.iter().enumerate().map(|(at, name)| (at as i64 + 1, (*name).to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(rig.message_names(next).await, names(&["b", "c", ""]));
    assert_eq!(rig.message_names(lease.run).await, [(1, "a".to_owned()), (4, "d".to_owned())]);
    assert!(rig.store.relations(&[next]).await.unwrap()[0].cancel_requested);
    // A repeated call finds its message where it is now.
    assert_eq!(rig.leave(signal(lease.run, "c", Some("key"))).await, MessageAnswer::Continued(next));
    assert_eq!(rig.leave(signal(next, "c", Some("key"))).await, MessageAnswer::Left(2));
    assert_eq!(rig.leave(signal(next, "e", None)).await, MessageAnswer::Left(4));
    let held = rig.claim_again(lane).await;
    assert!(matches!(rig.wait(held, 0).await, SuspendAnswer::News(news) if news.len() == 4));
}

async fn a_deadline_goes_along(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    rig.store.set_deadlines(vec![(lease.run, 1_000, false)]).await.unwrap();
    rig.clock.advance(900);
    let next = go_on(&rig, lease, run(lane)).await.run;
    rig.clock.advance(100);
    assert_eq!(rig.store.end_overdue(100).await.unwrap().ended, [next]);
    assert_eq!((rig.state(lease.run).await, rig.state(next).await), (State::Completed, State::Failed));
}

async fn the_parent_hears_of_the_last_of_a_chain(rig: Rig) {
    let (parents, lane) = (rig.lane("parent").await, rig.lane("child").await);
    let (_, parent) = rig.held(run(parents)).await;
    let first = rig.child(parent, 3, lane).await;
    let second = go_on(&rig, rig.claim_again(lane).await, run(lane)).await.run;
    let third = go_on(&rig, rig.claim_again(lane).await, run(lane)).await.run;
    assert_eq!(rig.deliver().await, Default::default(), "for its parent it has not ended");
    assert_eq!(rig.steps(parent.run).await[0].child, Some(first));
    let parents_of = rig.store.relations(&[first, second, third]).await.unwrap();
    assert!(parents_of.iter().all(|one| one.parent == Some(parent.run)), "{parents_of:?}");
    rig.complete(rig.claim_again(lane).await).await;
    rig.deliver().await;
    let messages = rig.store.messages(parent.run, 0).await.unwrap();
    let ends: Vec<_> = messages.into_iter().map(|one| (one.name, one.position)).collect();
    assert_eq!(ends, [(third.to_string(), Some(3))]);
}

async fn children_of_a_run_that_goes_on_are_not_cancelled(rig: Rig) {
    let (parents, lane) = (rig.lane("parent").await, rig.lane("child").await);
    let (_, parent) = rig.held(run(parents)).await;
    let (one, two) = (rig.child(parent, 0, lane).await, rig.child(parent, 1, lane).await);
    // One has ended, and its end is on the way; the other one ends with whoever goes on.
    rig.cancel(one, 0).await;
    let next = go_on(&rig, parent, run(parents)).await.run;
    let delivered = rig.deliver().await;
    assert_eq!((delivered.messaged, delivered.orphaned), (vec![next], vec![]));
    let message = rig.store.messages(next, 0).await.unwrap().remove(0);
    assert_eq!((message.name, message.position), (one.to_string(), None), "it was started nowhere in this run");
    rig.complete(rig.claim_again(parents).await).await;
    assert_eq!(rig.deliver().await.orphaned, [two]);
    rig.clock.advance(GRACE_MS);
    assert_eq!(rig.state(two).await, State::Cancelled);
}

async fn going_on_makes_room_for_others_of_the_key(rig: Rig) {
    let lane = rig.lane("flow").await;
    let change = baton_store::QueueChange { key_limit: Some(Some(1)), ..Default::default() };
    rig.store.set_queue("default", "builds", change).await.unwrap();
    let (worker, lease) = rig.held(keyed(lane, "customer")).await;
    let waiting = rig.submit(keyed(lane, "customer")).await;
    assert_eq!(rig.claim_ids(worker, lane, 10).await, []);
    go_on(&rig, lease, keyed(lane, "customer")).await;
    assert_eq!(rig.claim_ids(worker, lane, 10).await, [waiting]);
}
