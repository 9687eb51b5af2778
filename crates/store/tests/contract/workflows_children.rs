//! Children: started once, their ends heard of once, and ended with their parents.

use baton_core::machine::Options;
use baton_core::{Failure, Reason, RunId, State, WorkerId};
use baton_store::{
    ChildAnswer, Completion, Due, Lane, LeaseRef, MessageKind, NewChild, NewRun, StepKind, StepState, WorkerStatus,
};
use bytes::Bytes;

use crate::rig::{Rig, START, TTL_MS, contract, done, error, lease, run};
use crate::workflows_rig::{GRACE_MS, child};

contract!(
    a_child_is_started_once,
    the_same_child_twice_in_one_batch_is_one,
    the_end_of_a_child_is_heard_of_once,
    however_a_child_ends_its_parent_hears_of_it,
    an_end_wakes_a_parent_that_sleeps,
    of_many_who_pass_ends_on_each_is_passed_on_once,
    a_parent_that_has_ended_hears_nothing,
    children_end_with_their_parent,
    children_end_with_a_parent_that_was_lost,
    grandchildren_end_too,
    many_children_are_cancelled_some_at_a_time,
    a_child_has_a_timeout_of_its_own,
    runs_without_relatives_leave_nothing_to_be_passed_on,
);

/// A parent that is held, and the lane of its children.
async fn family(rig: &Rig) -> (LeaseRef, Lane, Lane) {
    let (parents, children) = (rig.lane("parent").await, rig.lane("child").await);
    let (_, lease) = rig.held(run(parents)).await;
    (lease, parents, children)
}

async fn hold(rig: &Rig, lane: Lane) -> (WorkerId, LeaseRef) {
    let worker = rig.worker("of children").await;
    let claimed = rig.claim(worker, lane, 1).await;
    (worker, lease(&claimed[0]))
}

async fn a_child_is_started_once(rig: Rig) {
    let (parent, parents, lane) = family(&rig).await;
    let ChildAnswer::Started(first) = rig.start_child(parent, 2, "child", lane).await else { panic!("it is started") };
    assert!(first.is_new);
    assert_eq!((rig.state(parent.run).await, rig.state(first.run).await), (State::Running, State::Pending));
    let step = rig.steps(parent.run).await.remove(0);
    assert_eq!(
        (step.position, step.kind, step.state, step.child),
        (2, StepKind::Child, StepState::Begun, Some(first.run))
    );
    rig.clock.advance(5);
    let again = ChildAnswer::Started(baton_store::Submitted { is_new: false, ..first });
    assert_eq!(rig.start_child(parent, 2, "child", lane).await, again);
    rig.give_back(parent).await;
    let later = rig.claim_again(parents).await;
    assert_eq!(rig.start_child(later, 2, "child", lane).await, again);
    let diverged = ChildAnswer::Diverged { kind: StepKind::Child, name: "child".into() };
    assert_eq!(rig.start_child(later, 2, "other", lane).await, diverged);
    let relations = rig.store.relations(&[parent.run, first.run]).await.unwrap();
    assert_eq!(relations.iter().map(|one| one.parent).collect::<Vec<_>>(), [None, Some(parent.run)]);
}

async fn the_same_child_twice_in_one_batch_is_one(rig: Rig) {
    let (parent, _, lane) = family(&rig).await;
    let batch = vec![child(parent, 0, "a", lane), child(parent, 1, "b", lane), child(parent, 0, "a", lane)];
    let answers = rig.store.start_children(batch).await.unwrap();
    let runs: Vec<RunId> = answers
        .iter()
        .map(|answer| match answer {
            ChildAnswer::Started(submitted) => submitted.run,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(runs[0], runs[2]);
    assert_ne!(runs[0], runs[1]);
    let worker = rig.worker("of children").await;
    assert_eq!(rig.claim_ids(worker, lane, 10).await, runs[..2]);
}

async fn the_end_of_a_child_is_heard_of_once(rig: Rig) {
    let (parent, _, lane) = family(&rig).await;
    let child = rig.child(parent, 7, lane).await;
    let (_, lease) = hold(&rig, lane).await;
    assert_eq!(rig.deliver().await.messaged, []);
    let output = Some(Bytes::from_static(b"the result"));
    let changes = rig.store.complete(vec![Completion { lease, output: output.clone() }]).await.unwrap();
    assert!(changes.woken.relatives);
    rig.clock.advance(10);
    assert_eq!(rig.deliver().await.messaged, [parent.run]);
    assert_eq!(rig.deliver().await, Default::default());
    let messages = rig.store.messages(parent.run, 0).await.unwrap();
    assert_eq!(messages.len(), 1);
    let message = &messages[0];
    assert_eq!((message.kind, message.name.as_str()), (MessageKind::Child, child.to_string().as_str()));
    assert_eq!((message.state, message.payload.clone(), message.position), (Some(State::Completed), output, Some(7)));
    assert_eq!((message.number, message.at, message.error.as_deref()), (1, START + 10, None));
    assert_eq!(rig.store.relations(&[child]).await.unwrap()[0].parent, Some(parent.run), "also when it has ended");
}

async fn however_a_child_ends_its_parent_hears_of_it(rig: Rig) {
    let lane = rig.lane("child").await;
    let (of_parent, parent) = rig.held(run(rig.lane("parent").await)).await;
    let poison = NewRun { options: Some(Options { max_losses: 0, ..Options::default() }), ..run(lane) };
    let mut heard = 0;
    for (position, how) in
        ["failed", "cancelled", "given back", "lost", "grace", "offline", "stopped", "timeout"].into_iter().enumerate()
    {
        let new = NewChild { run: poison.clone(), ..child(parent, position as u32, how, lane) };
        let ChildAnswer::Started(started) = rig.store.start_children(vec![new]).await.unwrap().remove(0) else {
            panic!("it is started")
        };
        let id = started.run;
        let mut expected = (State::Cancelled, true);
        match how {
            "failed" => {
                let (_, lease) = hold(&rig, lane).await;
                rig.fail(lease, Failure { retryable: false, ..error() }).await;
                expected = (State::Failed, true);
            }
            "cancelled" => {
                rig.cancel(id, 1).await;
                expected = (State::Cancelled, false);
            }
            "given back" => {
                let (_, lease) = hold(&rig, lane).await;
                rig.cancel(id, 60_000).await;
                rig.give_back(lease).await;
            }
            "lost" => {
                let (worker, _) = hold(&rig, lane).await;
                rig.clock.advance(TTL_MS - 1);
                rig.beat(of_parent, &[]).await;
                rig.clock.advance(2);
                let reaped = rig.reap().await;
                assert!(reaped.woken.relatives && reaped.runs.iter().any(|one| one.worker == Some(worker)));
                expected = (State::Failed, true);
            }
            "grace" => {
                hold(&rig, lane).await;
                rig.cancel(id, 10).await;
                rig.clock.advance(11);
                rig.reap().await;
            }
            "offline" => {
                let (worker, _) = hold(&rig, lane).await;
                rig.cancel(id, 60_000).await;
                rig.store.set_worker(worker, WorkerStatus::Offline, "gone").await.unwrap();
            }
            "stopped" => {
                let (_, lease) = hold(&rig, lane).await;
                rig.store.cancelled(vec![(lease, "cleaned up".into())]).await.unwrap();
            }
            _ => {
                rig.store.set_deadlines(vec![(id, 10, false)]).await.unwrap();
                rig.clock.advance(11);
                assert_eq!(rig.store.end_overdue(100).await.unwrap().ended, [id]);
                expected = (State::Failed, true);
            }
        }
        rig.deliver().await;
        let messages = rig.store.messages(parent.run, heard).await.unwrap();
        let ends: Vec<_> = messages.iter().map(|one| (one.name.clone(), one.state, one.position)).collect();
        assert_eq!(ends, [(id.to_string(), Some(expected.0), Some(position as u32))], "{how}");
        assert_eq!(messages[0].error.is_some(), expected.1, "{how}: {:?}", messages[0].error);
        heard = messages[0].number;
    }
}

async fn an_end_wakes_a_parent_that_sleeps(rig: Rig) {
    let (parent, parents, lane) = family(&rig).await;
    rig.child(parent, 0, lane).await;
    rig.wait(parent, 0).await;
    let (_, lease) = hold(&rig, lane).await;
    rig.complete(lease).await;
    let delivered = rig.deliver().await;
    assert_eq!((delivered.messaged, delivered.woken.lanes), (vec![parent.run], vec![parents.lane]));
    assert_eq!(rig.claim_again(parents).await.run, parent.run);
}

async fn of_many_who_pass_ends_on_each_is_passed_on_once(rig: Rig) {
    let (parent, _, lane) = family(&rig).await;
    let batch = (0..30).map(|position| child(parent, position, "child", lane)).collect();
    rig.store.start_children(batch).await.unwrap();
    let worker = rig.worker("of children").await;
    let held: Vec<_> = rig.claim(worker, lane, 30).await.iter().map(lease).collect();
    let done = held.iter().map(|lease| Completion { lease: *lease, output: None }).collect();
    rig.store.complete(done).await.unwrap();
    let mut passing = tokio::task::JoinSet::new();
    for server in rig.servers(4).await {
        passing.spawn(async move { while server.deliver(GRACE_MS, 7).await.unwrap().more {} });
    }
    passing.join_all().await;
    rig.deliver().await;
    let mut names: Vec<_> = rig.message_names(parent.run).await.into_iter().map(|(_, name)| name).collect();
    names.sort();
    let mut expected: Vec<_> = held.iter().map(|lease| lease.run.to_string()).collect();
    expected.sort();
    assert_eq!(names, expected);
}

async fn a_parent_that_has_ended_hears_nothing(rig: Rig) {
    let (parent, _, lane) = family(&rig).await;
    rig.child(parent, 0, lane).await;
    let (_, lease) = hold(&rig, lane).await;
    rig.complete(lease).await;
    rig.complete(parent).await;
    let delivered = rig.deliver().await;
    assert_eq!((delivered.messaged, delivered.orphaned), (vec![], vec![]));
    assert_eq!(rig.message_names(parent.run).await, []);
}

async fn children_end_with_their_parent(rig: Rig) {
    let (parent, _, lane) = family(&rig).await;
    let children = [rig.child(parent, 0, lane).await, rig.child(parent, 1, lane).await];
    let asleep = rig.child(parent, 2, lane).await;
    let worker = rig.worker("of children").await;
    let held: Vec<_> = rig.claim(worker, lane, 3).await.iter().map(lease).collect();
    rig.wait(held[2], 0).await;
    let fresh = rig.child(parent, 3, lane).await;
    let changes = rig
        .store
        .complete(vec![Completion { lease: parent, output: None }, Completion { lease: held[0], output: None }]);
    assert!(changes.await.unwrap().woken.relatives);
    let delivered = rig.deliver().await;
    assert_eq!(delivered.orphaned, [children[1], asleep, fresh]);
    assert_eq!(delivered.messaged, [children[1], asleep], "whoever has begun is told");
    let states = [rig.state(fresh).await, rig.state(children[1]).await, rig.state(asleep).await];
    assert_eq!(states, [State::Cancelled, State::Assigned, State::Sleeping]);
    let relations = rig.store.relations(&[children[1], asleep, fresh]).await.unwrap();
    assert_eq!(relations.iter().map(|one| one.cancel_requested).collect::<Vec<_>>(), [true, true, false]);
    // One cleans up and says so, the other one is ended.
    let stopped = rig.store.cancelled(vec![(held[1], "cleaned up".into())]).await.unwrap();
    assert_eq!((stopped.verdicts, stopped.woken.relatives), (vec![done(State::Cancelled)], false));
    rig.clock.advance(GRACE_MS);
    assert_eq!(rig.store.end_overdue(100).await.unwrap().ended, [asleep]);
    let record = rig.record(asleep).await;
    assert_eq!((record.state, record.reason), (State::Cancelled, Some(Reason::Cancelled)));
}

async fn children_end_with_a_parent_that_was_lost(rig: Rig) {
    let (parents, lane) = (rig.lane("parent").await, rig.lane("child").await);
    let options = Some(Options { max_losses: 0, ..Options::default() });
    let (_, parent) = rig.held(NewRun { options, ..run(parents) }).await;
    let child = rig.child(parent, 0, lane).await;
    rig.clock.advance(TTL_MS + 1);
    assert!(rig.reap().await.woken.relatives);
    assert_eq!(rig.deliver().await.orphaned, [child]);
    assert_eq!((rig.state(parent.run).await, rig.state(child).await), (State::Failed, State::Cancelled));
}

async fn grandchildren_end_too(rig: Rig) {
    let (parent, _, lane) = family(&rig).await;
    let child = rig.child(parent, 0, lane).await;
    let (_, held) = hold(&rig, lane).await;
    let grandchild = rig.child(held, 0, rig.lane("grandchild").await).await;
    rig.sleep(held, Due::After(60_000)).await;
    rig.complete(parent).await;
    assert_eq!(rig.deliver().await.orphaned, [child]);
    rig.clock.advance(GRACE_MS);
    assert!(rig.store.end_overdue(100).await.unwrap().woken.relatives);
    assert_eq!(rig.deliver().await.orphaned, [grandchild]);
    assert_eq!(rig.state(grandchild).await, State::Cancelled);
}

async fn many_children_are_cancelled_some_at_a_time(rig: Rig) {
    let (parent, _, lane) = family(&rig).await;
    let batch = (0..25).map(|position| child(parent, position, "child", lane)).collect();
    rig.store.start_children(batch).await.unwrap();
    rig.complete(parent).await;
    let mut orphaned = 0;
    for round in 0..10 {
        let some = rig.store.deliver(GRACE_MS, 10).await.unwrap();
        assert!(some.orphaned.len() <= 10, "{} at once", some.orphaned.len());
        orphaned += some.orphaned.len();
        if !some.more {
            break;
        }
        assert!(round < 9, "it does not come to an end");
    }
    assert_eq!(orphaned, 25);
    let worker = rig.worker("of children").await;
    assert_eq!(rig.claim_ids(worker, lane, 100).await, []);
}

async fn a_child_has_a_timeout_of_its_own(rig: Rig) {
    let (parent, _, lane) = family(&rig).await;
    let new = NewChild { timeout_ms: Some(500), ..child(parent, 0, "child", lane) };
    rig.store.start_children(vec![new]).await.unwrap();
    rig.clock.advance(499);
    assert_eq!(rig.store.end_overdue(100).await.unwrap().ended, []);
    rig.clock.advance(1);
    let ended = rig.store.end_overdue(100).await.unwrap();
    assert_eq!((ended.ended.len(), ended.woken.relatives), (1, true));
    assert_eq!(rig.record(ended.ended[0]).await.reason, Some(Reason::Timeout));
    assert_eq!(rig.deliver().await.messaged, [parent.run]);
}

async fn runs_without_relatives_leave_nothing_to_be_passed_on(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, one) = rig.held(run(lane)).await;
    let (_, two) = rig.held(run(lane)).await;
    let three = rig.submit(run(lane)).await;
    let done = rig.store.complete(vec![Completion { lease: one, output: None }]).await.unwrap();
    let failed = rig.store.fail(vec![(two, Failure { retryable: false, ..error() })], 0.5).await.unwrap();
    let cancelled = rig.store.cancel(vec![three], 0).await.unwrap();
    assert!(![done, failed, cancelled].iter().any(|changes| changes.woken.relatives));
    assert_eq!(rig.deliver().await, Default::default());
}
