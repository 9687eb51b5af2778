//! Many leases in one call: each entry is answered by itself, whatever stands beside it.

use baton_core::{Refused, State};
use baton_store::{
    Beat, BeatAnswer, Completion, Due, LeaseRef, StepAnswer, SuspendAnswer, Suspension, Verdict, WorkerStatus,
};
use bytes::Bytes;

use crate::rig::{Rig, contract, done, error, lease, lease_of, run};
use crate::workflows_rig::completed;

contract!(
    completions_are_answered_one_by_one,
    starts_are_answered_one_by_one,
    failures_are_answered_one_by_one,
    returns_are_answered_one_by_one,
    sleeps_are_answered_one_by_one,
    cancelled_runs_are_answered_one_by_one,
    published_words_are_answered_one_by_one,
    steps_are_answered_one_by_one,
    suspensions_are_answered_one_by_one,
    heartbeats_are_answered_one_by_one,
    zombies_beside_many_disturb_nobody,
);

/// A run that was taken from one worker and given to another, twice, and a run that is somebody
/// else's.
struct Mixed {
    stale: LeaseRef,
    current: LeaseRef,
    other: LeaseRef,
    unknown: LeaseRef,
}

impl Mixed {
    async fn new(rig: &Rig) -> Mixed {
        let lane = rig.lane("ios").await;
        let (first, stale) = rig.held(run(lane)).await;
        rig.store.set_worker(first, WorkerStatus::Offline, "gone").await.unwrap();
        let second = rig.worker("second").await;
        let current = lease(&rig.claim(second, lane, 1).await[0]);
        assert_eq!(current.run, stale.run);
        let (_, other) = rig.held(run(lane)).await;
        Mixed { stale, current, other, unknown: lease_of(baton_core::RunId::new(1, 1, 1), 1) }
    }

    /// Stale, current, current again, of another worker, unknown, stale again: the order that a
    /// coalesced batch may have.
    fn batch(&self) -> Vec<LeaseRef> {
        vec![self.stale, self.current, self.current, self.other, self.unknown, self.stale]
    }

    /// What a verb that ends leases says to this batch.
    fn verdicts(state: State, stale: Refused) -> [Verdict; 6] {
        let stale = Verdict::Refused(stale);
        let again = Verdict::Refused(Refused::AlreadyDone);
        [stale, done(state), again, done(state), Verdict::Unknown, stale]
    }
}

async fn completions_are_answered_one_by_one(rig: Rig) {
    let mixed = Mixed::new(&rig).await;
    let output = |index: usize| Some(Bytes::from(format!("{index}")));
    let batch = mixed.batch().into_iter().enumerate();
    let batch: Vec<_> = batch.map(|(index, lease)| Completion { lease, output: output(index) }).collect();
    let verdicts = rig.store.complete(batch).await.unwrap().verdicts;
    // The stale one is looked up after the run has ended.
    assert_eq!(verdicts[1..5], Mixed::verdicts(State::Completed, Refused::Ended)[1..5]);
    for stale in [verdicts[0], verdicts[5]] {
        assert!(matches!(stale, Verdict::Refused(Refused::StaleLease | Refused::Ended)), "{stale:?}");
    }
    assert_eq!(rig.record(mixed.current.run).await.output, output(1), "the holder's output, nobody else's");
    assert_eq!(rig.record(mixed.other.run).await.output, output(3));
}

async fn starts_are_answered_one_by_one(rig: Rig) {
    let mixed = Mixed::new(&rig).await;
    let verdicts = rig.store.start(mixed.batch()).await.unwrap();
    assert_eq!(verdicts, Mixed::verdicts(State::Running, Refused::StaleLease));
}

async fn failures_are_answered_one_by_one(rig: Rig) {
    let mixed = Mixed::new(&rig).await;
    let batch = mixed.batch().into_iter().map(|lease| (lease, error())).collect();
    let verdicts = rig.store.fail(batch, 0.5).await.unwrap().verdicts;
    assert_eq!(verdicts, Mixed::verdicts(State::Pending, Refused::StaleLease));
}

async fn returns_are_answered_one_by_one(rig: Rig) {
    let mixed = Mixed::new(&rig).await;
    let batch = mixed.batch().into_iter().map(|lease| (lease, "full".to_owned())).collect();
    let verdicts = rig.store.give_back(batch).await.unwrap().verdicts;
    // The stale lease was given back, too, when its worker went: for it this is a repetition.
    assert_eq!(verdicts, Mixed::verdicts(State::Pending, Refused::AlreadyDone));
}

async fn sleeps_are_answered_one_by_one(rig: Rig) {
    let mixed = Mixed::new(&rig).await;
    let batch = mixed.batch().into_iter().map(|lease| (lease, Due::After(50))).collect();
    let verdicts = rig.store.sleep(batch).await.unwrap().verdicts;
    assert_eq!(verdicts, Mixed::verdicts(State::Sleeping, Refused::StaleLease));
}

async fn cancelled_runs_are_answered_one_by_one(rig: Rig) {
    let mixed = Mixed::new(&rig).await;
    let batch = mixed.batch().into_iter().map(|lease| (lease, "by itself".to_owned())).collect();
    let verdicts = rig.store.cancelled(batch).await.unwrap().verdicts;
    assert_eq!(verdicts[1], done(State::Cancelled));
    assert_eq!((verdicts[3], verdicts[4]), (done(State::Cancelled), Verdict::Unknown));
    assert!([0, 2, 5].iter().all(|index| matches!(verdicts[*index], Verdict::Refused(_))), "{verdicts:?}");
}

async fn published_words_are_answered_one_by_one(rig: Rig) {
    let mixed = Mixed::new(&rig).await;
    let word = |index: usize| Bytes::from(format!("\"{index}\""));
    let batch = mixed.batch().into_iter().enumerate().map(|(index, lease)| (lease, word(index))).collect();
    let verdicts = rig.store.publish(batch).await.unwrap();
    let is_done = |verdict: &Verdict| matches!(verdict, Verdict::Done { .. });
    assert_eq!(verdicts.iter().map(is_done).collect::<Vec<_>>(), [false, true, true, true, false, false]);
    let (said, _) = rig.store.published(mixed.current.run).await.unwrap().unwrap();
    assert!([word(1), word(2)].contains(&said), "{said:?}");
    assert_eq!(rig.store.published(mixed.other.run).await.unwrap().unwrap().0, word(3));
}

async fn steps_are_answered_one_by_one(rig: Rig) {
    let mixed = Mixed::new(&rig).await;
    let batch = mixed.batch().into_iter().enumerate();
    let batch = batch.map(|(index, lease)| completed(lease, 0, "pay", &format!("{index}"))).collect();
    let answers = rig.store.write_steps(batch).await.unwrap();
    let output = |answer: &StepAnswer| match answer {
        StepAnswer::Remembered { step, existed } => Some((step.output.clone().unwrap(), *existed)),
        _ => None,
    };
    let outputs: Vec<_> = answers.iter().map(output).collect();
    let written = |text: &str, existed| Some((Bytes::from(text.to_owned()), existed));
    assert_eq!(outputs, [None, written("1", false), written("1", true), written("3", false), None, None]);
}

async fn suspensions_are_answered_one_by_one(rig: Rig) {
    let mixed = Mixed::new(&rig).await;
    let nap = |lease| Suspension { lease, sleeps: vec![], wake_at: None, seen: 0 };
    let (answers, _) = rig.store.suspend(mixed.batch().into_iter().map(nap).collect()).await.unwrap();
    let sleeps: Vec<_> = answers.iter().map(|answer| matches!(answer, SuspendAnswer::Suspended { .. })).collect();
    assert_eq!(sleeps, [false, true, true, true, false, false], "{answers:?}");
}

async fn heartbeats_are_answered_one_by_one(rig: Rig) {
    let mixed = Mixed::new(&rig).await;
    let (zombie, holder) = (rig.worker("zombie").await, rig.record(mixed.current.run).await.worker.unwrap());
    let beat = |worker| Beat { worker, health: None, unfit: None, ttl_ms: None, leases: mixed.batch() };
    let answers = rig.store.renew(vec![beat(zombie), beat(holder), beat(zombie)]).await.unwrap();
    let lost = |answer: &BeatAnswer| match answer {
        BeatAnswer::Alive { lost, .. } => lost.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(lost(&answers[0]), mixed.batch(), "it holds none of them");
    assert_eq!(lost(&answers[1]), [mixed.stale, mixed.other, mixed.unknown, mixed.stale]);
    assert_eq!(lost(&answers[2]), mixed.batch());
}

async fn zombies_beside_many_disturb_nobody(rig: Rig) {
    let lane = rig.lane("ios").await;
    let mixed = Mixed::new(&rig).await;
    let worker = rig.worker("busy").await;
    rig.submit_all(vec![run(lane); 60]).await;
    let held = rig.claim(worker, lane, 60).await;
    let mut batch: Vec<LeaseRef> = held.iter().map(lease).collect();
    batch.splice(20..20, [mixed.current, mixed.stale]);
    batch.splice(40..40, [mixed.stale, mixed.unknown]);
    let batch = batch.into_iter().map(|lease| Completion { lease, output: None }).collect();
    let verdicts = rig.store.complete(batch).await.unwrap().verdicts;
    assert_eq!(verdicts.iter().filter(|verdict| **verdict == done(State::Completed)).count(), 61);
    assert_eq!(rig.shown(worker).await.active, 0);
}
