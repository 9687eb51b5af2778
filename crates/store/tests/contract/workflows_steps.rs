//! What workflows remember, written under a lease.

use baton_core::{Refused, State};
use baton_store::{
    ChildAnswer, Due, POSITIONS_MAX, StepAnswer, StepChange, StepKind, StepState, StepWrite, SuspendAnswer, Verdict,
};
use bytes::Bytes;

use crate::rig::{Rig, START, contract, done, error, lease, lease_of, run};
use crate::workflows_rig::{begins, child, completed, fails, found, nap, shape, written};

contract!(
    the_first_write_of_a_lease_starts_the_run_and_is_remembered,
    a_repeated_write_gets_what_is_remembered,
    another_name_or_kind_at_a_position_diverges,
    a_stale_lease_can_write_nothing,
    the_lease_of_an_ended_run_can_write_nothing,
    several_writes_of_one_run_in_one_batch_are_applied_in_order,
    a_step_is_tried_again_by_its_policy_and_its_attempts_are_kept,
    a_step_that_failed_for_good_is_forgotten_when_the_run_is_retried,
    attempts_that_cannot_be_counted_break_nothing,
    an_attempt_that_was_lost_with_its_lease_stays_visible,
    positions_have_a_limit,
    a_large_batch_of_many_runs_is_written_at_once,
    of_many_who_write_at_one_position_one_wins,
    a_step_takes_as_long_as_the_stores_clock_says,
);

async fn the_first_write_of_a_lease_starts_the_run_and_is_remembered(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (worker, lease) = rig.held(run(lane)).await;
    rig.clock.advance(100);
    let step = rig.step(lease, 0, "pay", "receipt").await;
    assert_eq!(
        (step.position, step.kind, step.name.as_str(), step.state),
        (0, StepKind::Step, "pay", StepState::Completed)
    );
    assert_eq!((step.output, step.attempts, step.begun_at), (Some(Bytes::from_static(b"receipt")), 1, START + 60));
    assert_eq!((step.ended_at, step.due_at, step.message, step.child), (Some(START + 100), None, None, None));
    let record = rig.record(lease.run).await;
    assert_eq!((record.state, record.started_at), (State::Running, Some(START + 100)));
    rig.clock.advance(50);
    rig.step(lease, 1, "ship", "").await;
    assert_eq!(rig.record(lease.run).await.started_at, Some(START + 100), "it started once");
    let names: Vec<_> = rig.steps(lease.run).await.into_iter().map(|step| step.name).collect();
    assert_eq!(names, ["pay", "ship"]);
    let attempts = rig.step_attempts(lease.run, Some(0)).await;
    assert_eq!(shape(&attempts), [(0, 1, StepState::Completed)]);
    assert_eq!((attempts[0].worker, attempts[0].epoch), (Some(worker), lease.epoch));
}

async fn a_repeated_write_gets_what_is_remembered(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    let first = rig.step(lease, 3, "pay", "receipt").await;
    rig.clock.advance(1_000);
    assert_eq!(found(rig.write(completed(lease, 3, "pay", "another receipt")).await), first);
    assert_eq!(found(rig.write(begins(lease, 3, "pay")).await), first);
    assert_eq!(found(rig.write(fails(lease, 3, "pay", 1, 3)).await), first);
    rig.give_back(lease).await;
    let later = rig.claim_again(lane).await;
    assert_eq!(found(rig.write(completed(later, 3, "pay", "another receipt")).await), first);
    assert_eq!(shape(&rig.step_attempts(lease.run, None).await), [(3, 1, StepState::Completed)]);
}

async fn another_name_or_kind_at_a_position_diverges(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    rig.step(lease, 0, "pay", "").await;
    let diverged = StepAnswer::Diverged { kind: StepKind::Step, name: "pay".into() };
    assert_eq!(rig.write(completed(lease, 0, "ship", "")).await, diverged);
    assert_eq!(rig.write(begins(lease, 0, "ship")).await, diverged);
    let fact = StepWrite { kind: StepKind::Fact, ..completed(lease, 0, "pay", "") };
    assert_eq!(rig.write(fact).await, diverged);
    let child = rig.start_child(lease, 0, "pay", lane).await;
    assert_eq!(child, ChildAnswer::Diverged { kind: StepKind::Step, name: "pay".into() });
    let asleep = rig.suspend(nap(lease, 0, Due::After(10))).await;
    assert_eq!(asleep, SuspendAnswer::Diverged { position: 0, kind: StepKind::Step, name: "pay".into() });
    assert_eq!((rig.state(lease.run).await, rig.steps(lease.run).await.len()), (State::Running, 1));
}

async fn a_stale_lease_can_write_nothing(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, stale) = rig.held(run(lane)).await;
    rig.give_back(stale).await;
    let current = rig.claim_again(lane).await;
    let refused = Refused::StaleLease;
    assert_eq!(rig.write(completed(stale, 0, "pay", "")).await, StepAnswer::Refused(refused));
    assert_eq!(rig.write(begins(stale, 0, "pay")).await, StepAnswer::Refused(refused));
    assert_eq!(rig.write(fails(stale, 0, "pay", 1, 3)).await, StepAnswer::Refused(refused));
    assert_eq!(rig.suspend(nap(stale, 0, Due::After(10))).await, SuspendAnswer::Refused(refused));
    assert_eq!(rig.start_child(stale, 0, "child", lane).await, ChildAnswer::Refused(refused));
    let published = rig.store.publish(vec![(stale, Bytes::from_static(b"here"))]).await.unwrap();
    assert_eq!(published, [Verdict::Refused(refused)]);
    let cancelled = rig.store.cancelled(vec![(stale, "stopped".into())]).await.unwrap();
    assert_eq!(cancelled.verdicts, [Verdict::Refused(refused)]);
    let continued = rig.store.continue_as_new(stale, run(lane), 1).await.unwrap();
    assert_eq!((continued.verdict, continued.next), (Verdict::Refused(refused), None));
    assert_eq!((rig.steps(stale.run).await, rig.store.published(stale.run).await.unwrap()), (vec![], None));
    assert_eq!(rig.state(stale.run).await, State::Assigned, "nothing of it started the run");
    // The two in one batch: one is written, the other is not.
    let both = vec![completed(stale, 0, "pay", "stale"), completed(current, 0, "pay", "current")];
    let answers = rig.store.write_steps(both).await.unwrap();
    assert_eq!(answers[0], StepAnswer::Refused(refused));
    assert_eq!(written(answers[1].clone()).output, Some(Bytes::from_static(b"current")));
}

async fn the_lease_of_an_ended_run_can_write_nothing(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, ended) = rig.held(run(lane)).await;
    rig.complete(ended).await;
    let nobody = lease_of(baton_core::RunId::new(START, 1, 1), 1);
    for (lease, is_known) in [(ended, true), (nobody, false)] {
        let refused = is_known.then_some(Refused::Ended);
        assert_eq!(
            rig.write(completed(lease, 0, "pay", "")).await,
            refused.map_or(StepAnswer::Unknown, StepAnswer::Refused)
        );
        let asleep = rig.suspend(nap(lease, 0, Due::After(10))).await;
        assert_eq!(asleep, refused.map_or(SuspendAnswer::Unknown, SuspendAnswer::Refused));
        let child = rig.start_child(lease, 0, "child", lane).await;
        assert_eq!(child, refused.map_or(ChildAnswer::Unknown, ChildAnswer::Refused));
        let verdict = refused.map_or(Verdict::Unknown, Verdict::Refused);
        assert_eq!(rig.store.publish(vec![(lease, Bytes::new())]).await.unwrap(), [verdict]);
        assert_eq!(rig.store.cancelled(vec![(lease, String::new())]).await.unwrap().verdicts, [verdict]);
        assert_eq!(rig.steps(lease.run).await, []);
    }
}

async fn several_writes_of_one_run_in_one_batch_are_applied_in_order(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, one) = rig.held(run(lane)).await;
    let (_, two) = rig.held(run(lane)).await;
    let writes = vec![
        begins(one, 0, "pay"),
        completed(two, 0, "look", "first"),
        fails(one, 0, "pay", 1, 3),
        completed(one, 1, "ship", "shipped"),
        completed(one, 0, "pay", "paid"),
        completed(two, 0, "look", "second"),
        completed(two, 0, "listen", "third"),
    ];
    let answers = rig.store.write_steps(writes).await.unwrap();
    let states: Vec<_> =
        answers[..5].iter().cloned().map(written).map(|step| (step.position, step.state, step.attempts)).collect();
    let (begun, done) = (StepState::Begun, StepState::Completed);
    assert_eq!(states, [(0, begun, 1), (0, done, 1), (0, begun, 1), (1, done, 1), (0, done, 2)]);
    assert_eq!(found(answers[5].clone()).output, Some(Bytes::from_static(b"first")));
    assert_eq!(answers[6], StepAnswer::Diverged { kind: StepKind::Step, name: "look".into() });
    let expected = [(0, 1, StepState::Failed), (0, 2, done), (1, 1, done)];
    assert_eq!(shape(&rig.step_attempts(one.run, None).await), expected);
}

async fn a_step_is_tried_again_by_its_policy_and_its_attempts_are_kept(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    let first = written(rig.write(fails(lease, 0, "pay", 1, 3)).await);
    assert_eq!((first.state, first.attempts, first.due_at), (StepState::Begun, 1, Some(START + 1_000)));
    assert_eq!((first.error.as_deref(), first.code.as_deref()), (Some("attempt 1 broke"), Some("broken")));
    rig.clock.advance(1_000);
    assert_eq!(found(rig.write(fails(lease, 0, "pay", 1, 3)).await), first, "the answer was lost");
    let second = written(rig.write(fails(lease, 0, "pay", 2, 3)).await);
    assert_eq!((second.attempts, second.due_at), (2, Some(START + 3_000)));
    rig.clock.advance(2_000);
    let third = written(rig.write(fails(lease, 0, "pay", 3, 3)).await);
    assert_eq!((third.state, third.due_at, third.ended_at), (StepState::Failed, None, Some(START + 3_000)));
    let attempts = rig.step_attempts(lease.run, Some(0)).await;
    let times: Vec<_> = attempts.iter().map(|one| (one.attempt, one.begun_at, one.ended_at)).collect();
    let ended = [START, START + 1_000, START + 3_000];
    assert_eq!(times, [1, 2, 3].map(|n| (n, ended[n as usize - 1] - 40, Some(ended[n as usize - 1]))));
    assert_eq!(attempts[1].error.as_deref(), Some("attempt 2 broke"));
    assert_eq!(rig.state(lease.run).await, State::Running, "what the workflow makes of it is its own matter");
}

async fn a_step_that_failed_for_good_is_forgotten_when_the_run_is_retried(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    rig.step(lease, 0, "look", "seen").await;
    let failed = written(rig.write(fails(lease, 1, "pay", 1, 1)).await);
    assert_eq!(failed.state, StepState::Failed);
    // A worker that is lost is no failure of the run: whoever goes on comes to the same end.
    rig.give_back(lease).await;
    let second = rig.claim_again(lane).await;
    assert_eq!(rig.store.journals(&[lease.run], u64::MAX).await.unwrap()[0].steps.len(), 2);
    assert_eq!(found(rig.write(completed(second, 1, "pay", "paid")).await), failed);
    assert_eq!(rig.fail(second, error()).await, done(State::Pending));
    rig.clock.advance(10_000);
    let third = rig.claim_again(lane).await;
    let journal = rig.store.journals(&[lease.run], u64::MAX).await.unwrap().remove(0);
    assert_eq!(journal.steps.iter().map(|step| step.position).collect::<Vec<_>>(), [0]);
    let again = written(rig.write(fails(third, 1, "pay", 1, 2)).await);
    assert_eq!((again.state, again.attempts), (StepState::Begun, 1), "attempts are counted anew");
    let paid = rig.step(third, 1, "pay", "paid").await;
    assert_eq!((paid.state, paid.attempts), (StepState::Completed, 2));
    let attempts = rig.step_attempts(lease.run, Some(1)).await;
    assert_eq!(shape(&attempts), [(1, 1, StepState::Failed), (1, 2, StepState::Failed), (1, 3, StepState::Completed)]);
}

async fn attempts_that_cannot_be_counted_break_nothing(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    written(rig.write(fails(lease, 0, "pay", u32::MAX, 1)).await);
    assert_eq!(rig.fail(lease, error()).await, done(State::Pending));
    rig.clock.advance(10_000);
    let second = rig.claim_again(lane).await;
    let again = written(rig.write(fails(second, 0, "pay", 1, 1)).await);
    assert_eq!((again.state, again.attempts), (StepState::Failed, 1));
}

async fn an_attempt_that_was_lost_with_its_lease_stays_visible(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (worker, lease) = rig.held(run(lane)).await;
    written(rig.write(begins(lease, 0, "pay")).await);
    let running = rig.step_attempts(lease.run, None).await;
    assert_eq!((shape(&running), running[0].ended_at), (vec![(0, 1, StepState::Begun)], None));
    rig.give_back(lease).await;
    let later = rig.claim_again(lane).await;
    assert_eq!(rig.step(later, 0, "pay", "paid").await.attempts, 2);
    let attempts = rig.step_attempts(lease.run, None).await;
    assert_eq!(shape(&attempts), [(0, 1, StepState::Begun), (0, 2, StepState::Completed)]);
    assert_eq!((attempts[0].worker, attempts[0].epoch, attempts[1].epoch), (Some(worker), lease.epoch, later.epoch));
}

async fn positions_have_a_limit(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    rig.step(lease, POSITIONS_MAX - 1, "last", "").await;
    for position in [POSITIONS_MAX, u32::MAX] {
        assert_eq!(rig.write(completed(lease, position, "more", "")).await, StepAnswer::TooMany);
        assert_eq!(rig.write(begins(lease, position, "more")).await, StepAnswer::TooMany);
        assert_eq!(rig.suspend(nap(lease, position, Due::After(10))).await, SuspendAnswer::TooMany);
        let answer = rig.store.start_children(vec![child(lease, position, "more", lane)]).await.unwrap();
        assert_eq!(answer, [ChildAnswer::TooMany]);
    }
}

async fn a_large_batch_of_many_runs_is_written_at_once(rig: Rig) {
    let lane = rig.lane("flow").await;
    rig.submit_all(vec![run(lane); 100]).await;
    let leases: Vec<_> = rig.claim(rig.worker("many").await, lane, 100).await.iter().map(lease).collect();
    let writes =
        (0..10).flat_map(|position| leases.iter().map(move |lease| completed(*lease, position, "step", "out")));
    let answers = rig.store.write_steps(writes.collect()).await.unwrap();
    assert_eq!(answers.len(), 1_000);
    answers
        .into_iter()
        .enumerate()
        .for_each(|(index, answer)| assert_eq!(written(answer).position, index as u32 / 100));
    for lease in &leases {
        assert_eq!((rig.steps(lease.run).await.len(), rig.state(lease.run).await), (10, State::Running));
    }
}

async fn of_many_who_write_at_one_position_one_wins(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    let servers = rig.servers(4).await;
    for round in 0..10 {
        let mut writing = tokio::task::JoinSet::new();
        for (number, server) in servers.iter().cloned().enumerate() {
            // Positions in another order on each, and the one that all have in common.
            let mut writes = vec![completed(lease, round * 10, "pay", &number.to_string())];
            writes.push(completed(lease, round * 10 + 1 + number as u32, "own", ""));
            if number % 2 == 0 {
                writes.reverse();
            }
            writing.spawn(async move { server.write_steps(writes).await.unwrap() });
        }
        let answers: Vec<_> = writing.join_all().await.into_iter().flatten().collect();
        let of_all: Vec<_> = answers
            .iter()
            .filter_map(|answer| match answer {
                StepAnswer::Remembered { step, existed } if step.name == "pay" => Some((step.output.clone(), *existed)),
                _ => None,
            })
            .collect();
        assert_eq!(of_all.len(), 4);
        assert_eq!(of_all.iter().filter(|(_, existed)| !existed).count(), 1);
        assert!(of_all.iter().all(|(output, _)| *output == of_all[0].0), "{of_all:?}");
    }
}

async fn a_step_takes_as_long_as_the_stores_clock_says(rig: Rig) {
    let rig = rig.on_its_own_clock().await;
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    let before = rig.store.now().await.unwrap();
    let quick = rig.step(lease, 0, "quick", "").await;
    let odd = StepChange::Complete { output: Bytes::new(), message: None, took_ms: -5 };
    let odd = written(rig.write(StepWrite { what: odd, ..completed(lease, 1, "odd", "") }).await);
    let after = rig.store.now().await.unwrap();
    assert!(quick.ended_at.is_some_and(|at| (before..=after).contains(&at) && quick.begun_at == at - 40), "{quick:?}");
    assert_eq!(odd.ended_at, Some(odd.begun_at));
}
