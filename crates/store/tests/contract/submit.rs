//! Taking runs in.

use baton_core::machine::Options;
use baton_core::{Epoch, RetryPolicy, State};
use baton_store::{Due, NewRun, RunFilter, Submission, SubmitRefused, Submitted};
use bytes::Bytes;

use crate::rig::{Rig, START, contract, keyed, once, run, submission};

contract!(
    a_submitted_run_is_pending_and_can_be_read,
    identifiers_sort_in_submission_order,
    payloads_are_kept_byte_by_byte,
    a_due_time_is_never_in_the_past,
    the_same_key_gives_the_same_run,
    the_same_key_with_another_body_is_refused,
    runs_are_found_by_their_keys,
    a_key_is_looked_at_within_one_submission_too,
    a_key_is_looked_at_within_one_batch_too,
    concurrent_submits_with_one_key_make_one_run,
    a_refused_submission_takes_nothing_and_its_neighbours_everything,
    a_key_stays_taken_after_its_run_has_ended,
    nothing_is_a_batch_too,
    submitted_runs_survive_a_restart,
);

async fn a_submitted_run_is_pending_and_can_be_read(rig: Rig) {
    let lane = rig.lane("ios").await;
    let original = rig.submit(run(lane)).await;
    let options = Options {
        retry: RetryPolicy { max_attempts: 7, non_retryable: vec!["out_of_memory".into()], ..RetryPolicy::default() },
        max_losses: 1,
        timeout_ms: Some(60_000),
        run_timeout_ms: Some(90_000),
    };
    let new = NewRun {
        priority: 8,
        affinity: Some("app".into()),
        options: Some(options.clone()),
        retry_of: Some(original),
        input: Bytes::from_static(b"[1]"),
        ..keyed(lane, "team")
    };
    let submitted = rig.try_submit(vec![new]).await.unwrap()[0];
    assert!(submitted.is_new);
    assert_eq!((submitted.submitted_at, submitted.due_at), (START, START));
    let record = rig.record(submitted.run).await;
    assert_eq!(
        (record.state, record.epoch, record.lane, record.priority),
        (State::Pending, Epoch::new(0), lane.lane, 8)
    );
    assert_eq!((record.submitted_at, record.due_at, record.failures, record.losses), (START, START, 0, 0));
    assert_eq!((record.key.as_deref(), record.affinity.as_deref()), (Some("team"), Some("app")));
    assert_eq!((record.options, record.retry_of, &*record.input), (options, Some(original), &b"[1]"[..]));
    assert_eq!((record.worker, record.ended_at, record.reason, record.error, record.output), Default::default());
    assert_eq!(rig.record(original).await.options, Options::default());
}

async fn identifiers_sort_in_submission_order(rig: Rig) {
    let lane = rig.lane("ios").await;
    let mut all = rig.submit_all(vec![run(lane); 20]).await;
    all.push(rig.submit(keyed(lane, "a")).await);
    let batch = vec![submission(vec![run(lane); 3]), submission(vec![keyed(lane, "a"), run(lane)])];
    all.extend(
        rig.store.submit(batch).await.unwrap().into_iter().flat_map(|answer| answer.unwrap()).map(|one| one.run),
    );
    rig.clock.advance(1);
    all.push(rig.submit(run(lane)).await);
    assert!(all.is_sorted(), "{all:?}");
    assert!(all.iter().all(|id| id.submitted_at() == START || *id == all[26]));
    assert_eq!(all.len(), 27);
}

async fn payloads_are_kept_byte_by_byte(rig: Rig) {
    let lane = rig.lane("ios").await;
    let large: Vec<u8> = (0..2 << 20).map(|index: u32| (index % 251) as u8).collect();
    for input in [vec![], vec![0, 255, 0, b'\'', b'"', b'\\'], "ключ 🗝".into(), large] {
        let id = rig.submit(NewRun { input: input.clone().into(), ..run(lane) }).await;
        assert!(rig.record(id).await.input == input, "{} bytes came back otherwise", input.len());
    }
    let odd = "a'b\"c\\d\n🗝";
    let id = rig.submit(NewRun { affinity: Some(odd.into()), ..keyed(lane, odd) }).await;
    let record = rig.record(id).await;
    assert_eq!((record.key.as_deref(), record.affinity.as_deref()), (Some(odd), Some(odd)));
}

async fn a_due_time_is_never_in_the_past(rig: Rig) {
    let lane = rig.lane("ios").await;
    let dues = [Due::Now, Due::After(500), Due::After(-500), Due::At(START + 70), Due::At(START - 70)];
    let answer = rig.try_submit(dues.map(|due| NewRun { due, ..run(lane) }).to_vec()).await.unwrap();
    let due_in: Vec<_> = answer.iter().map(|submitted| submitted.due_at - START).collect();
    assert_eq!(due_in, [0, 500, 0, 70, 0]);
    for submitted in answer {
        assert_eq!(rig.record(submitted.run).await.due_at, submitted.due_at);
    }
}

async fn the_same_key_gives_the_same_run(rig: Rig) {
    let lane = rig.lane("ios").await;
    let later = NewRun { due: Due::After(900), ..once(lane, "k", 1) };
    let first = rig.try_submit(vec![later.clone()]).await.unwrap()[0];
    rig.clock.advance(5_000);
    let second = rig.try_submit(vec![later]).await.unwrap()[0];
    assert!(first.is_new && !second.is_new);
    assert_eq!((second.run, second.submitted_at, second.due_at), (first.run, START, START + 900));
    assert_eq!(count(&rig).await, 1);
}

async fn the_same_key_with_another_body_is_refused(rig: Rig) {
    let lane = rig.lane("ios").await;
    let first = rig.submit(once(lane, "k", 1)).await;
    assert_eq!(rig.try_submit(vec![once(lane, "k", 2)]).await, Err(SubmitRefused::KeyReused(0)));
    assert_eq!(rig.try_submit(vec![once(lane, "other", 2)]).await.map(|runs| runs[0].is_new), Ok(true));
    assert_eq!(rig.submit(once(lane, "k", 1)).await, first);
    assert_eq!(count(&rig).await, 2);
}

async fn runs_are_found_by_their_keys(rig: Rig) {
    let lane = rig.lane("ios").await;
    let first = rig.try_submit(vec![once(lane, "k", 1)]).await.unwrap()[0];
    let keys = [("other", 1), ("k", 1), ("k", 2)];
    let keys = keys.map(|(key, body)| once(lane, key, body).idempotency.unwrap()).to_vec();
    let known = Submitted { is_new: false, ..first };
    assert_eq!(rig.store.submitted(keys).await.unwrap(), [None, Some((known, true)), Some((known, false))]);
    assert_eq!(rig.store.submitted(vec![]).await.unwrap(), []);
}

async fn a_key_is_looked_at_within_one_submission_too(rig: Rig) {
    let lane = rig.lane("ios").await;
    let answer = rig.try_submit(vec![once(lane, "k", 1), run(lane), once(lane, "k", 1)]).await.unwrap();
    assert_eq!(answer[0].run, answer[2].run);
    assert_eq!(answer.iter().map(|one| one.is_new).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(count(&rig).await, 2);
    let refused = rig.try_submit(vec![run(lane), once(lane, "l", 1), once(lane, "l", 2)]).await;
    assert_eq!(refused, Err(SubmitRefused::KeyReused(2)));
    assert_eq!(count(&rig).await, 2);
}

async fn a_key_is_looked_at_within_one_batch_too(rig: Rig) {
    let lane = rig.lane("ios").await;
    let batch = [once(lane, "k", 1), once(lane, "k", 1), once(lane, "k", 2), once(lane, "l", 2)];
    let answers = rig.store.submit(batch.map(|run| submission(vec![run])).to_vec()).await.unwrap();
    assert_eq!(answers[0].as_ref().unwrap()[0].run, answers[1].as_ref().unwrap()[0].run);
    assert!(!answers[1].as_ref().unwrap()[0].is_new);
    assert_eq!(answers[2], Err(SubmitRefused::KeyReused(0)));
    assert!(answers[3].as_ref().unwrap()[0].is_new);
    assert_eq!(count(&rig).await, 2);
}

async fn concurrent_submits_with_one_key_make_one_run(rig: Rig) {
    let lane = rig.lane("ios").await;
    for round in 0..10 {
        let mut tasks = Vec::new();
        for store in rig.servers(2).await.into_iter().cycle().take(10) {
            let key = format!("round {round}");
            tasks.push(tokio::spawn(async move { store.submit(vec![submission(vec![once(lane, &key, 1)])]).await }));
        }
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(task.await.unwrap().unwrap().remove(0).unwrap()[0]);
        }
        assert!(answers.iter().all(|answer| answer.run == answers[0].run));
        assert_eq!(answers.iter().filter(|answer| answer.is_new).count(), 1);
    }
    assert_eq!(count(&rig).await, 10);
}

async fn a_refused_submission_takes_nothing_and_its_neighbours_everything(rig: Rig) {
    let lane = rig.lane("ios").await;
    rig.submit(once(lane, "taken", 1)).await;
    let batch = vec![
        submission(vec![run(lane), run(lane)]),
        submission(vec![run(lane), once(lane, "free", 1), once(lane, "taken", 2), run(lane)]),
        submission(vec![once(lane, "free", 3)]),
    ];
    let answers = rig.store.submit(batch).await.unwrap();
    assert!(answers[0].is_ok());
    assert_eq!(answers[1], Err(SubmitRefused::KeyReused(2)));
    // Nothing of the refused one was taken, its other key included.
    assert!(answers[2].as_ref().unwrap()[0].is_new);
    assert_eq!(count(&rig).await, 4);
    let worker = rig.worker("a").await;
    assert_eq!(rig.claim(worker, lane, 50).await.len(), 4);
}

async fn a_key_stays_taken_after_its_run_has_ended(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, lease) = rig.held(once(lane, "k", 1)).await;
    rig.complete(lease).await;
    let again = rig.try_submit(vec![once(lane, "k", 1)]).await.unwrap()[0];
    assert_eq!((again.run, again.is_new), (lease.run, false));
    assert_eq!(rig.try_submit(vec![once(lane, "k", 2)]).await, Err(SubmitRefused::KeyReused(0)));
    assert_eq!(rig.state(lease.run).await, State::Completed);
}

async fn nothing_is_a_batch_too(rig: Rig) {
    assert_eq!(rig.store.submit(vec![]).await.unwrap(), []);
    let lane = rig.lane("ios").await;
    let empty = Submission { runs: vec![], dice: vec![] };
    let answers = rig.store.submit(vec![empty, submission(vec![run(lane)])]).await.unwrap();
    assert_eq!(answers[0], Ok(vec![]));
    assert_eq!(answers[1].as_ref().unwrap().len(), 1);
}

async fn submitted_runs_survive_a_restart(rig: Rig) {
    let lane = rig.lane("ios").await;
    let before = rig.submit_all(vec![run(lane), keyed(lane, "a"), once(lane, "k", 1)]).await;
    let rig = rig.reopen().await;
    assert_eq!(rig.lane("ios").await, lane);
    for id in &before {
        assert_eq!(rig.state(*id).await, State::Pending);
    }
    assert_eq!(rig.submit(once(lane, "k", 1)).await, before[2]);
    // The counter behind the identifiers goes on where it stood.
    assert!(rig.submit(run(lane)).await > before[2]);
}

async fn count(rig: &Rig) -> u64 {
    rig.store.count_runs(&RunFilter::default()).await.unwrap()
}
