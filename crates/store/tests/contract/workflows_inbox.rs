//! Messages for workflows, and sleeping until one comes.

use baton_core::{Refused, State};
use baton_store::{
    Due, FOR_GOOD, MESSAGE_BYTES_AT_ONCE, MESSAGES_MAX, Message, MessageAnswer, MessageKind, NewMessage, StepAnswer,
    StepKind, StepState, SuspendAnswer, Suspension,
};
use bytes::Bytes;

use crate::rig::{Rig, START, claimed_epoch, contract, lease_of, run};
use crate::workflows_rig::{cancel, completed, found, nap, signal, taking, written};

contract!(
    messages_are_numbered_and_the_same_key_is_the_same_message,
    a_signal_is_taken_once,
    a_message_wakes_a_run_that_sleeps,
    a_message_that_came_before_is_the_answer_to_a_suspension,
    of_a_message_and_a_suspension_at_the_same_time_neither_is_missed,
    a_run_that_only_a_message_can_wake_sleeps_for_good,
    a_sleep_ends_when_it_was_to_end_however_often_it_is_begun,
    a_suspension_ends_with_the_first_of_its_sleeps,
    a_repeated_suspension_gets_the_same_answer,
    a_suspension_that_diverges_writes_nothing,
    a_run_that_is_being_cancelled_is_not_suspended,
    there_is_one_request_to_cancel,
    messages_for_runs_that_are_gone_are_not_left,
    an_inbox_has_room_for_so_many_signals_and_for_a_request_to_cancel,
    large_messages_come_a_few_at_a_time,
    waking_a_run_lowers_where_claims_begin_to_read,
);

async fn messages_are_numbered_and_the_same_key_is_the_same_message(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (one, two) = (rig.submit(run(lane)).await, rig.submit(run(lane)).await);
    let batch = vec![
        signal(one, "a", None),
        signal(two, "b", Some("key")),
        signal(one, "c", Some("key")),
        signal(two, "d", Some("key")),
        signal(one, "e", None),
    ];
    let (answers, woken) = rig.store.leave_messages(batch).await.unwrap();
    assert_eq!(answers, [1, 1, 2, 1, 3].map(MessageAnswer::Left));
    assert_eq!(woken, Default::default(), "nobody sleeps");
    assert_eq!(rig.leave(signal(one, "f", Some("key"))).await, MessageAnswer::Left(2));
    let names = |names: &[&str]| {
        names.iter().enumerate().map(|(at, name)| (at as i64 + 1, (*name).to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(rig.message_names(one).await, names(&["a", "c", "e"]));
    assert_eq!(rig.message_names(two).await, names(&["b"]));
    let beyond = rig.store.messages(one, 2).await.unwrap();
    assert_eq!(beyond.len(), 1);
    let last = &beyond[0];
    assert_eq!((last.number, last.kind, last.at), (3, MessageKind::Signal, START));
    assert_eq!(
        (last.payload.clone(), last.state, last.position),
        (Some(Bytes::from_static(b"payload of e")), None, None)
    );
}

async fn large_messages_come_a_few_at_a_time(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (one, two) = (rig.submit(run(lane)).await, rig.submit(run(lane)).await);
    let large = |run| NewMessage {
        payload: Some(Bytes::from(vec![b'1'; MESSAGE_BYTES_AT_ONCE / 2])),
        ..signal(run, "large", None)
    };
    for _ in 0..5 {
        rig.leave(large(one)).await;
        rig.leave(large(two)).await;
    }
    let numbers = |messages: &[Message]| messages.iter().map(|message| message.number).collect::<Vec<_>>();
    // Two are enough, and the next one begins where they end.
    assert_eq!(numbers(&rig.store.messages(one, 0).await.unwrap()), [1, 2]);
    assert_eq!(numbers(&rig.store.messages(one, 2).await.unwrap()), [3, 4]);
    assert_eq!(numbers(&rig.store.messages(one, 4).await.unwrap()), [5]);
    let journals = rig.store.journals(&[one, two], u64::MAX).await.unwrap();
    assert!(journals.iter().all(|journal| numbers(&journal.messages) == [1, 2]));
}

async fn a_signal_is_taken_once(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    rig.signal(lease.run, "go").await;
    rig.signal(lease.run, "go").await;
    let batch = vec![taking(lease, 0, 1), taking(lease, 1, 1), taking(lease, 1, 2)];
    let answers = rig.store.write_steps(batch).await.unwrap();
    assert_eq!(written(answers[0].clone()).message, Some(1));
    assert_eq!(answers[1], StepAnswer::Taken { position: 0 });
    assert_eq!(written(answers[2].clone()).message, Some(2));
    assert_eq!(rig.write(taking(lease, 2, 2)).await, StepAnswer::Taken { position: 1 });
    assert_eq!(found(rig.write(taking(lease, 0, 1)).await).message, Some(1));
    rig.give_back(lease).await;
    let later = rig.claim_again(lane).await;
    assert_eq!(rig.write(taking(later, 5, 1)).await, StepAnswer::Taken { position: 0 });
    assert_eq!(rig.steps(lease.run).await.len(), 2);
}

async fn a_message_wakes_a_run_that_sleeps(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (worker, lease) = rig.held(run(lane)).await;
    let asleep = rig.suspend(nap(lease, 0, Due::After(60_000))).await;
    assert_eq!(asleep, SuspendAnswer::Suspended { until: START + 60_000 });
    assert_eq!((rig.state(lease.run).await, rig.shown(worker).await.active), (State::Sleeping, 0));
    assert_eq!(rig.claim_ids(worker, lane, 1).await, []);
    rig.clock.advance(1_000);
    let (answers, woken) = rig.store.leave_messages(vec![signal(lease.run, "go", None)]).await.unwrap();
    assert_eq!((answers, woken.lanes), (vec![MessageAnswer::Left(1)], vec![lane.lane]));
    let (_, woken) = rig.store.leave_messages(vec![signal(lease.run, "go", None)]).await.unwrap();
    assert_eq!(woken, Default::default(), "it is awake already");
    let later = rig.claim_again(lane).await;
    assert_eq!((later.run, later.epoch), (lease.run, claimed_epoch(lease.epoch.number() + 1)));
    let journal = rig.store.journals(&[lease.run], u64::MAX).await.unwrap().remove(0);
    assert_eq!((journal.messages.len(), journal.steps.len()), (2, 1));
    assert_eq!((journal.steps[0].state, journal.steps[0].due_at), (StepState::Begun, Some(START + 60_000)));
}

async fn a_message_that_came_before_is_the_answer_to_a_suspension(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    rig.signal(lease.run, "one").await;
    rig.signal(lease.run, "two").await;
    let news = |answer| match answer {
        SuspendAnswer::News(messages) => messages.into_iter().map(|message| message.number).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(news(rig.suspend(nap(lease, 0, Due::After(500))).await), [1, 2]);
    assert_eq!(rig.steps(lease.run).await[0].due_at, Some(START + 500), "the sleep has begun");
    assert_eq!(news(rig.wait(lease, 1).await), [2]);
    let twice = [1, 0].map(|seen| Suspension { lease, sleeps: vec![], wake_at: None, seen }).to_vec();
    let answers = rig.store.suspend(twice).await.unwrap().0;
    assert_eq!(answers.into_iter().map(news).collect::<Vec<_>>(), [vec![2], vec![1, 2]]);
    rig.step(lease, 1, "go on", "").await;
    assert_eq!(rig.wait(lease, 2).await, SuspendAnswer::Suspended { until: FOR_GOOD });
}

async fn of_a_message_and_a_suspension_at_the_same_time_neither_is_missed(rig: Rig) {
    let lane = rig.lane("flow").await;
    let servers = rig.servers(2).await;
    let (_, mut lease) = rig.held(run(lane)).await;
    let (mut slept, mut told) = (0, 0);
    for seen in 0..40 {
        let (sleeper, sender) = (servers[0].clone(), servers[1].clone());
        let suspension = Suspension { lease, sleeps: vec![], wake_at: None, seen };
        let asleep = tokio::spawn(async move { sleeper.suspend(vec![suspension]).await.unwrap().0.remove(0) });
        let sent =
            tokio::spawn(async move { sender.leave_messages(vec![signal(lease.run, "go", None)]).await.unwrap().0 });
        assert_eq!(sent.await.unwrap(), [MessageAnswer::Left(seen + 1)]);
        match asleep.await.unwrap() {
            SuspendAnswer::News(news) => {
                told += 1;
                assert_eq!(news.len(), 1);
            }
            SuspendAnswer::Suspended { .. } => {
                slept += 1;
                lease = rig.claim_again(lane).await;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(slept + told, 40);
}

async fn a_run_that_only_a_message_can_wake_sleeps_for_good(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (worker, lease) = rig.held(run(lane)).await;
    let suspension = Suspension { lease, sleeps: vec![], wake_at: None, seen: 0 };
    let (answers, woken) = rig.store.suspend(vec![suspension]).await.unwrap();
    assert_eq!(answers, [SuspendAnswer::Suspended { until: FOR_GOOD }]);
    assert!(woken.lanes.is_empty() && woken.later.is_empty(), "no clock has to be set: {woken:?}");
    rig.clock.advance(365 * 24 * 3_600_000);
    rig.beat(worker, &[]).await;
    assert_eq!((rig.claim_ids(worker, lane, 1).await, rig.state(lease.run).await), (vec![], State::Sleeping));
    rig.signal(lease.run, "go").await;
    assert_eq!(rig.claim_again(lane).await.run, lease.run);
}

async fn a_sleep_ends_when_it_was_to_end_however_often_it_is_begun(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    rig.suspend(nap(lease, 0, Due::After(1_000))).await;
    rig.signal(lease.run, "go").await;
    rig.clock.advance(400);
    let second = rig.claim_again(lane).await;
    let again = Suspension { seen: 1, ..nap(second, 0, Due::After(1_000)) };
    assert_eq!(rig.suspend(again).await, SuspendAnswer::Suspended { until: START + 1_000 });
    rig.clock.advance(600);
    let third = rig.claim_again(lane).await;
    // It is over, and says so: then it holds nobody up.
    let over = baton_store::StepWrite { kind: StepKind::Sleep, ..completed(third, 0, "nap", "") };
    assert_eq!(written(rig.write(over).await).state, StepState::Completed);
    let beside = Suspension { seen: 1, ..nap(third, 0, Due::After(1_000)) };
    assert_eq!(rig.suspend(beside).await, SuspendAnswer::Suspended { until: FOR_GOOD });
}

async fn a_suspension_ends_with_the_first_of_its_sleeps(rig: Rig) {
    let lane = rig.lane("flow").await;
    let sleeps = vec![(0, "long".to_owned(), Due::After(9_000)), (1, "short".to_owned(), Due::At(START + 3_000))];
    for (wake_at, until) in
        [(None, START + 3_000), (Some(START + 2_000), START + 2_000), (Some(START + 5_000), START + 3_000)]
    {
        let (_, lease) = rig.held(run(lane)).await;
        let suspension = Suspension { lease, sleeps: sleeps.clone(), wake_at, seen: 0 };
        let (answers, woken) = rig.store.suspend(vec![suspension]).await.unwrap();
        assert_eq!(answers, [SuspendAnswer::Suspended { until }]);
        assert_eq!(woken.later, [(lane.lane, until - START)]);
    }
}

async fn a_repeated_suspension_gets_the_same_answer(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    let suspension = nap(lease, 0, Due::After(1_000));
    let answer = rig.suspend(suspension.clone()).await;
    rig.clock.advance(100);
    assert_eq!(rig.suspend(suspension.clone()).await, answer);
    rig.signal(lease.run, "go").await;
    assert_eq!(rig.suspend(suspension.clone()).await, answer, "also after it was woken");
    let later = rig.claim_again(lane).await;
    assert_eq!(rig.suspend(suspension.clone()).await, answer, "and claimed");
    rig.complete(later).await;
    assert_eq!(rig.suspend(suspension).await, answer, "and completed");
}

async fn a_suspension_that_diverges_writes_nothing(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    rig.step(lease, 1, "pay", "").await;
    let sleeps = vec![(0, "nap".to_owned(), Due::After(10)), (1, "nap".to_owned(), Due::After(10))];
    let answer = rig.suspend(Suspension { lease, sleeps, wake_at: None, seen: 0 }).await;
    assert_eq!(answer, SuspendAnswer::Diverged { position: 1, kind: StepKind::Step, name: "pay".into() });
    assert_eq!((rig.steps(lease.run).await.len(), rig.state(lease.run).await), (1, State::Running));
}

async fn a_run_that_is_being_cancelled_is_not_suspended(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    rig.cancel(lease.run, 1_000).await;
    assert_eq!(rig.wait(lease, 0).await, SuspendAnswer::Refused(Refused::Cancelling));
    rig.step(lease, 0, "clean up", "").await;
}

async fn there_is_one_request_to_cancel(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    assert!(!rig.store.relations(&[lease.run]).await.unwrap()[0].cancel_requested);
    rig.signal(lease.run, "go").await;
    rig.wait(lease, 1).await;
    let (answers, woken) = rig.store.leave_messages(vec![cancel(lease.run), cancel(lease.run)]).await.unwrap();
    assert_eq!((answers, woken.lanes), (vec![MessageAnswer::Left(2); 2], vec![lane.lane]));
    assert_eq!(rig.leave(cancel(lease.run)).await, MessageAnswer::Left(2));
    assert!(rig.store.relations(&[lease.run]).await.unwrap()[0].cancel_requested);
    assert_eq!(rig.store.messages(lease.run, 1).await.unwrap()[0].kind, MessageKind::Cancel);
    assert_eq!(rig.state(lease.run).await, State::Sleeping, "the workflow says when it has stopped");
}

async fn messages_for_runs_that_are_gone_are_not_left(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    assert_eq!(rig.leave(signal(lease.run, "go", Some("key"))).await, MessageAnswer::Left(1));
    rig.complete(lease).await;
    assert_eq!(rig.signal(lease.run, "go").await, MessageAnswer::Ended);
    assert_eq!(rig.leave(cancel(lease.run)).await, MessageAnswer::Ended);
    assert_eq!(rig.leave(signal(lease.run, "go", Some("key"))).await, MessageAnswer::Left(1), "the answer was lost");
    let nobody = lease_of(baton_core::RunId::new(START, 1, 1), 1).run;
    assert_eq!(rig.signal(nobody, "go").await, MessageAnswer::Unknown);
    assert_eq!(rig.message_names(lease.run).await.len(), 1);
}

async fn an_inbox_has_room_for_so_many_signals_and_for_a_request_to_cancel(rig: Rig) {
    let lane = rig.lane("flow").await;
    let id = rig.submit(run(lane)).await;
    let many = (0..MESSAGES_MAX + 1).map(|_| signal(id, "go", None)).collect();
    let (answers, _) = rig.store.leave_messages(many).await.unwrap();
    assert_eq!(answers[answers.len() - 2..], [MessageAnswer::Left(MESSAGES_MAX), MessageAnswer::Full]);
    assert_eq!(rig.signal(id, "go").await, MessageAnswer::Full);
    assert_eq!(rig.leave(cancel(id)).await, MessageAnswer::Left(MESSAGES_MAX + 1));
    let (mut seen, mut read) = (0, 0);
    while let Some(last) = rig.store.messages(id, seen).await.unwrap().last() {
        (seen, read) = (last.number, read + 1);
    }
    assert_eq!((seen, read), (MESSAGES_MAX + 1, 11), "a thousand at once");
}

async fn waking_a_run_lowers_where_claims_begin_to_read(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (worker, asleep) = rig.held(run(lane)).await;
    rig.wait(asleep, 0).await;
    // Claims of other runs move on to where those stand.
    for _ in 0..3 {
        rig.clock.advance(10);
        let other = rig.submit(run(lane)).await;
        assert_eq!(rig.claim_ids(worker, lane, 1).await, [other]);
    }
    rig.signal(asleep.run, "go").await;
    assert_eq!(rig.claim_ids(worker, lane, 1).await, [asleep.run]);
}
