//! How much one workflow may remember, and how much is read of what several remember.

use baton_core::RunId;
use baton_store::{LeaseRef, STEPS_AT_ONCE, StepAnswer, StepChange, StepWrite};

use crate::rig::{Rig, contract, run};
use crate::workflows_rig::{begins, completed, fails, found, written};

contract!(
    a_journal_takes_as_many_bytes_as_the_write_allows,
    who_does_not_ask_is_not_refused,
    writes_of_one_batch_are_counted_one_after_the_other,
    errors_are_counted_as_outputs_are,
    a_journal_that_is_too_large_already_takes_what_makes_it_no_longer,
    journals_end_where_there_is_no_room_for_the_next,
    journals_end_where_there_are_too_many_steps,
);

/// A write of so many bytes into a journal that may have so many.
fn counted(lease: LeaseRef, position: u32, bytes: usize, bytes_max: u64) -> StepWrite {
    StepWrite { journal_bytes_max: Some(bytes_max), ..completed(lease, position, "step", &"x".repeat(bytes)) }
}

async fn a_journal_takes_as_many_bytes_as_the_write_allows(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    let (_, other) = rig.held(run(lane)).await;
    written(rig.write(counted(lease, 0, 40, 100)).await);
    written(rig.write(counted(lease, 1, 40, 100)).await);
    written(rig.write(counted(other, 0, 100, 100)).await);
    assert_eq!(rig.write(counted(lease, 2, 21, 100)).await, StepAnswer::JournalFull { bytes: 101 });
    assert_eq!(rig.steps(lease.run).await.len(), 2, "what was refused is not there");
    written(rig.write(counted(lease, 2, 20, 100)).await);
    assert_eq!(rig.write(counted(lease, 3, 1, 100)).await, StepAnswer::JournalFull { bytes: 101 });
    for position in 0..3 {
        found(rig.write(counted(lease, position, 40, 1)).await);
    }
}

async fn who_does_not_ask_is_not_refused(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    written(rig.write(counted(lease, 0, 100, 100)).await);
    rig.step(lease, 1, "step", "more").await;
    assert_eq!(rig.write(counted(lease, 2, 1, 100)).await, StepAnswer::JournalFull { bytes: 105 });
}

async fn writes_of_one_batch_are_counted_one_after_the_other(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    let (_, other) = rig.held(run(lane)).await;
    let writes = vec![
        counted(lease, 0, 40, 100),
        counted(other, 0, 90, 100),
        counted(lease, 1, 40, 100),
        counted(lease, 2, 40, 100),
        counted(lease, 3, 20, 100),
    ];
    let mut answers = rig.store.write_steps(writes).await.unwrap();
    assert_eq!(answers.remove(3), StepAnswer::JournalFull { bytes: 120 });
    answers.into_iter().for_each(|answer| drop(written(answer)));
    assert_eq!(rig.steps(lease.run).await.len(), 3);
}

async fn errors_are_counted_as_outputs_are(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    let failing = |attempt, bytes: usize| {
        let mut write = StepWrite { journal_bytes_max: Some(100), ..fails(lease, 1, "pay", attempt, 10) };
        if let StepChange::Fail { error, .. } = &mut write.what {
            *error = "x".repeat(bytes);
        }
        write
    };
    written(rig.write(counted(lease, 0, 40, 100)).await);
    written(rig.write(failing(1, 60)).await);
    assert_eq!(rig.write(counted(lease, 2, 1, 100)).await, StepAnswer::JournalFull { bytes: 101 });
    written(rig.write(failing(2, 50)).await);
    written(rig.write(counted(lease, 2, 10, 100)).await);
    assert_eq!(
        rig.write(failing(3, 51)).await,
        StepAnswer::JournalFull { bytes: 101 },
        "what it replaces is not counted"
    );
}

async fn a_journal_that_is_too_large_already_takes_what_makes_it_no_longer(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    rig.step(lease, 0, "step", &"x".repeat(100)).await;
    written(rig.write(StepWrite { journal_bytes_max: Some(10), ..begins(lease, 1, "begun") }).await);
    written(rig.write(counted(lease, 2, 0, 10)).await);
    assert_eq!(rig.write(counted(lease, 3, 1, 10)).await, StepAnswer::JournalFull { bytes: 101 });
}

async fn journals_end_where_there_is_no_room_for_the_next(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, one) = rig.held(run(lane)).await;
    let (_, two) = rig.held(run(lane)).await;
    let empty = rig.submit(run(lane)).await;
    for lease in [one, two] {
        rig.step(lease, 0, "step", &"x".repeat(30)).await;
        rig.step(lease, 1, "step", &"x".repeat(10)).await;
        rig.step(lease, 2, "step", "").await;
    }
    let read = async |runs: &[RunId], bytes_max| {
        let journals = rig.store.journals(runs, bytes_max).await.unwrap();
        journals.iter().map(|journal| journal.steps.len()).collect::<Vec<_>>()
    };
    let runs = [empty, two.run, one.run, empty];
    assert_eq!(read(&runs, 80).await, [0, 3, 3, 0]);
    assert_eq!(read(&runs, 79).await, [0, 3]);
    assert_eq!(read(&runs, 69).await, [0, 3]);
    assert_eq!(read(&runs, 40).await, [0, 3]);
    assert_eq!(read(&runs, 39).await, [0]);
    assert_eq!(read(&runs, 0).await, [0]);
    assert_eq!(read(&[one.run], 39).await, [] as [usize; 0]);
}

async fn journals_end_where_there_are_too_many_steps(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, one) = rig.held(run(lane)).await;
    let (_, two) = rig.held(run(lane)).await;
    let half = STEPS_AT_ONCE / 2;
    let remember = async |lease: LeaseRef, positions: std::ops::Range<u32>| {
        let writes = positions.map(|position| completed(lease, position, "step", ""));
        rig.store.write_steps(writes.collect()).await.unwrap();
    };
    remember(one, 0..half).await;
    remember(two, 0..half).await;
    assert_eq!(rig.store.journals(&[one.run, two.run], 0).await.unwrap().len(), 2);
    remember(one, half..half + 1).await;
    for runs in [[one.run, two.run], [two.run, one.run]] {
        assert_eq!(rig.store.journals(&runs, 0).await.unwrap().len(), 1);
    }
}
