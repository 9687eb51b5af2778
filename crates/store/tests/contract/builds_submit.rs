//! Builds taken in with their runs, read and counted.

use std::sync::Arc;

use baton_core::{RunId, State, WorkerId};
use baton_store::{ArtifactOwner, BuildCounts, BuildRefused, NewBuild, NewRun, RunFilter, WorkerStatus};

use crate::builds_rig::{SHA256, SIZE, build_of, git_build, lines, new_file, uuid};
use crate::rig::{Rig, START, TTL_MS, contract, dice, error, keyed, lease, lease_of, once, run};

contract!(
    a_build_is_kept_with_its_run_and_its_files,
    builds_are_read_in_the_order_asked_for,
    a_build_can_be_claimed_as_any_run,
    a_build_with_a_key_takes_its_turn,
    a_repeated_submit_writes_nothing,
    a_key_with_another_body_is_refused,
    concurrent_submits_with_one_key_make_one_build,
    a_build_without_its_files_is_refused_as_a_whole,
    a_known_key_needs_no_files,
    a_file_serves_several_builds,
    builds_are_counted_by_state_and_namespace,
    counts_survive_settling_and_deletion,
    a_silent_build_is_stuck_until_something_is_heard,
    only_held_builds_are_stuck,
    the_first_line_of_a_log_comes_with_its_build,
    a_build_that_waits_is_taken_by_whoever_reports_its_end,
);

async fn a_build_is_kept_with_its_run_and_its_files(rig: Rig) {
    let lane = rig.lane("ios").await;
    let named = baton_store::NewArtifact { name: "certs.zip".into(), ..new_file(ArtifactOwner::Certs) };
    let certs = named.id;
    assert!(rig.store.add_artifact(named).await.unwrap());
    assert!(rig.store.artifact_stored(certs, 5, [9; 32]).await.unwrap());
    rig.clock.advance(1);
    let source = rig.file(ArtifactOwner::Source).await;
    let build = NewBuild { project: Some("shop".into()), key_id: Some("k".into()), ..build_of(source, Some(certs)) };
    let submitted = rig.submit_build(run(lane), build.clone()).await;
    assert!(submitted.is_new);
    assert_eq!(rig.state(submitted.run).await, State::Pending);
    let kept = rig.store.builds(&[submitted.run]).await.unwrap().remove(0).unwrap();
    assert_eq!((kept.run, kept.submitted), (submitted.run, build));
    let files = rig.store.artifacts(submitted.run).await.unwrap();
    assert_eq!(files.iter().map(|file| file.id).collect::<Vec<_>>(), [certs, source]);
    assert_eq!((files[0].name.as_str(), files[0].stored), ("certs.zip", Some((5, [9; 32]))));
    assert_eq!((files[1].stored, files[1].run), (Some((SIZE, SHA256)), Some(submitted.run)));
    assert_eq!((files[1].created_at, files[1].epoch.number()), (START + 1, 0));
}

async fn builds_are_read_in_the_order_asked_for(rig: Rig) {
    let lane = rig.lane("ios").await;
    let plain = rig.submit(run(lane)).await;
    let git = rig.submit_build(run(lane), git_build("default")).await.run;
    let (files, _) = rig.build(run(lane)).await;
    let read = rig.store.builds(&[files, plain, git, RunId::new(1, 1, 1), files]).await.unwrap();
    let runs: Vec<_> = read.iter().map(|build| build.as_ref().map(|build| build.run)).collect();
    assert_eq!(runs, [Some(files), None, Some(git), None, Some(files)]);
    assert_eq!(read[2].as_ref().unwrap().submitted, git_build("default"));
    assert_eq!(rig.store.artifacts(git).await.unwrap(), []);
    assert_eq!(rig.store.builds(&[]).await.unwrap(), []);
}

async fn a_build_can_be_claimed_as_any_run(rig: Rig) {
    let lane = rig.lane("ios").await;
    let worker = rig.worker("a").await;
    // A claim that finds nothing remembers how far it looked.
    assert!(rig.claim(worker, lane, 1).await.is_empty());
    let (build, _) = rig.build(run(lane)).await;
    assert_eq!(rig.claim_ids(worker, lane, 1).await, [build]);
}

async fn a_build_with_a_key_takes_its_turn(rig: Rig) {
    let lane = rig.lane("ios").await;
    let mut busy = Vec::new();
    for _ in 0..3 {
        busy.push(rig.build(keyed(lane, "busy")).await.0);
    }
    let (other, _) = rig.build(keyed(lane, "other")).await;
    let worker = rig.worker("a").await;
    let order = rig.claim_ids(worker, lane, 10).await;
    assert_eq!(order.len(), 4);
    let place = |run| order.iter().position(|other| *other == run).unwrap();
    assert!(place(other) < place(busy[2]), "{order:?}");
}

async fn a_repeated_submit_writes_nothing(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (first, again) = (rig.file(ArtifactOwner::Source).await, rig.file(ArtifactOwner::Source).await);
    let one = rig.submit_build(once(lane, "k", 1), build_of(first, None)).await;
    let two = rig.submit_build(once(lane, "k", 1), build_of(again, None)).await;
    assert_eq!((one.run, one.is_new, two.is_new), (two.run, true, false));
    assert_eq!(rig.store.count_runs(&RunFilter::default()).await.unwrap(), 1);
    let files = rig.store.artifacts(one.run).await.unwrap();
    assert_eq!(files.iter().map(|file| file.id).collect::<Vec<_>>(), [first]);
    rig.clock.advance(1_001);
    assert_eq!(rig.orphan_ids(1_000).await, [again]);
}

async fn a_key_with_another_body_is_refused(rig: Rig) {
    let lane = rig.lane("ios").await;
    rig.submit_build(once(lane, "k", 1), git_build("default")).await;
    let refused = rig.store.submit_build(once(lane, "k", 2), dice(), git_build("default"), None).await.unwrap();
    assert_eq!(refused, Err(BuildRefused::KeyReused));
    assert_eq!(rig.store.count_builds(None, 0).await.unwrap().pending, 1);
}

async fn concurrent_submits_with_one_key_make_one_build(rig: Rig) {
    let lane = rig.lane("ios").await;
    let servers = rig.servers(2).await;
    for round in 0..5 {
        let mut tasks = Vec::new();
        for store in servers.iter().cycle().take(6) {
            let store = Arc::clone(store);
            let (source, key) = (rig.file(ArtifactOwner::Source).await, format!("round {round}"));
            tasks.push(tokio::spawn(async move {
                store.submit_build(once(lane, &key, 1), dice(), build_of(source, None), None).await
            }));
        }
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(task.await.unwrap().unwrap().unwrap());
        }
        assert!(answers.iter().all(|answer| answer.run == answers[0].run));
        assert_eq!(answers.iter().filter(|answer| answer.is_new).count(), 1);
        assert_eq!(rig.store.artifacts(answers[0].run).await.unwrap().len(), 1);
    }
    assert_eq!(rig.store.count_builds(None, 0).await.unwrap().pending, 5);
    rig.clock.advance(1_001);
    assert_eq!(rig.orphan_ids(1_000).await.len(), 25, "one file of each round was taken");
}

async fn a_build_without_its_files_is_refused_as_a_whole(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (source, certs) = (rig.file(ArtifactOwner::Source).await, rig.file(ArtifactOwner::Certs).await);
    let unknown = uuid();
    let begun = rig.begun_file(ArtifactOwner::Source).await;
    let elsewhere = NewBuild { namespace: "other".into(), ..build_of(source, None) };
    for (build, missing) in [
        (build_of(unknown, None), unknown),
        (build_of(begun, None), begun),
        (build_of(source, Some(unknown)), unknown),
        (build_of(certs, None), certs),
        (build_of(source, Some(source)), source),
        (elsewhere, source),
    ] {
        let answer = rig.store.submit_build(once(lane, "k", 1), dice(), build, None).await.unwrap();
        assert_eq!(answer, Err(BuildRefused::FileMissing(missing)));
    }
    assert_eq!(rig.store.count_runs(&RunFilter::default()).await.unwrap(), 0);
    assert_eq!(rig.store.count_builds(None, 0).await.unwrap(), BuildCounts::default());
    // Neither the key nor the files were used up.
    assert!(rig.submit_build(once(lane, "k", 1), build_of(source, Some(certs))).await.is_new);
}

async fn a_known_key_needs_no_files(rig: Rig) {
    let lane = rig.lane("ios").await;
    let source = rig.file(ArtifactOwner::Source).await;
    let first = rig.submit_build(once(lane, "k", 1), build_of(source, None)).await;
    let again = rig.submit_build(once(lane, "k", 1), build_of(uuid(), None)).await;
    assert_eq!((again.run, again.is_new), (first.run, false));
}

async fn a_file_serves_several_builds(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (first, source) = rig.build(run(lane)).await;
    let retry = NewRun { retry_of: Some(first), ..run(lane) };
    let second = rig.submit_build(retry, build_of(source, None)).await.run;
    for run in [first, second] {
        let files = rig.store.artifacts(run).await.unwrap();
        assert_eq!(files.iter().map(|file| (file.id, file.run)).collect::<Vec<_>>(), [(source, Some(first))]);
    }
}

async fn builds_are_counted_by_state_and_namespace(rig: Rig) {
    let lane = rig.lane("ios").await;
    assert_eq!(rig.store.count_builds(None, 0).await.unwrap(), BuildCounts::default());
    // What is no build does not count, whatever its lane.
    rig.submit(NewRun { priority: 0, ..run(lane) }).await;
    let (_, completed) = rig.held_build(run(lane)).await;
    rig.complete(completed).await;
    let (_, building) = rig.held_build(run(lane)).await;
    rig.start(building).await;
    rig.held_build(run(lane)).await;
    let (_, retried) = rig.held_build(run(lane)).await;
    rig.fail(retried, error()).await;
    rig.clock.advance(100);
    let since = rig.now();
    let (cancelled, _) = rig.build(NewRun { priority: 1, ..run(lane) }).await;
    rig.cancel(cancelled, 0).await;
    rig.submit_build(NewRun { priority: 1, ..run(lane) }, git_build("other")).await;
    let here = BuildCounts { pending: 1, assigned: 1, building: 1, completed: 1, failed: 0, cancelled: 1, since: 1 };
    assert_eq!(rig.store.count_builds(Some("default"), since).await.unwrap(), here);
    let other = BuildCounts { pending: 1, since: 1, ..BuildCounts::default() };
    assert_eq!(rig.store.count_builds(Some("other"), since).await.unwrap(), other);
    let all = BuildCounts { pending: 2, since: 6, ..here };
    assert_eq!(rig.store.count_builds(None, START).await.unwrap(), all);
    assert_eq!(rig.store.count_builds(None, since + 1).await.unwrap().since, 0);
}

async fn counts_survive_settling_and_deletion(rig: Rig) {
    const NEVER: i64 = 1 << 50;
    let lane = rig.lane("ios").await;
    for _ in 0..3 {
        let (_, held) = rig.held_build(run(lane)).await;
        rig.complete(held).await;
    }
    let retry = baton_core::RetryPolicy { max_attempts: 1, ..Default::default() };
    let options = Some(baton_core::machine::Options { retry, ..Default::default() });
    let (_, failed) = rig.held_build(NewRun { options, ..run(lane) }).await;
    rig.fail(failed, error()).await;
    let (waiting, _) = rig.build(run(lane)).await;
    let expected = BuildCounts { pending: 1, completed: 3, failed: 1, since: 5, ..BuildCounts::default() };
    assert_eq!(rig.store.count_builds(None, START).await.unwrap(), expected);
    for _ in 0..2 {
        assert_eq!(rig.store.retain(NEVER, NEVER, NEVER, 100).await.unwrap().runs, 0);
        assert_eq!(rig.store.count_builds(None, START).await.unwrap(), expected);
    }
    rig.clock.advance(10_000);
    assert_eq!(rig.store.retain(1_000, NEVER, NEVER, 100).await.unwrap().runs, 4);
    let after = BuildCounts { since: 1, ..expected };
    assert_eq!(rig.store.count_builds(Some("default"), START).await.unwrap(), after);
    rig.cancel(waiting, 0).await;
    let rig = rig.reopen().await;
    let end = BuildCounts { pending: 0, cancelled: 1, ..after };
    assert_eq!(rig.store.count_builds(None, START).await.unwrap(), end);
}

async fn a_silent_build_is_stuck_until_something_is_heard(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, lease) = rig.held_build(run(lane)).await;
    let stuck = async || rig.store.stuck_builds(1_000, 10).await.unwrap();
    rig.clock.advance(1_000);
    assert_eq!(stuck().await, []);
    rig.clock.advance(1);
    assert_eq!(stuck().await, [lease.run]);
    rig.say(lease.run, Some(lease), &["here"]).await;
    assert_eq!(stuck().await, []);
    rig.clock.advance(1_001);
    assert_eq!(stuck().await, [lease.run]);
    assert!(rig.store.machine_seen(lease, false, None).await.unwrap());
    assert_eq!(stuck().await, []);
    rig.clock.advance(1_001);
    assert_eq!(stuck().await, [lease.run]);
    rig.beat(worker, &[]).await;
    assert_eq!(stuck().await, []);
}

async fn only_held_builds_are_stuck(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, completed) = rig.held_build(run(lane)).await;
    rig.complete(completed).await;
    let (_, first) = rig.held_build(run(lane)).await;
    let (_, second) = rig.held_build(run(lane)).await;
    let (_, plain) = rig.held(run(lane)).await;
    rig.build(run(lane)).await;
    rig.clock.advance(TTL_MS - 1);
    assert_eq!(rig.store.stuck_builds(1_000, 10).await.unwrap(), [first.run, second.run]);
    assert_eq!(rig.store.stuck_builds(1_000, 1).await.unwrap(), [first.run]);
    assert!(!rig.state(plain.run).await.is_ended());
    rig.clock.advance(2);
    rig.reap().await;
    assert_eq!(rig.store.stuck_builds(1_000, 10).await.unwrap(), []);
}

async fn the_first_line_of_a_log_comes_with_its_build(rig: Rig) {
    let lane = rig.lane("linux").await;
    let line = || Some(lines(&["submitted"]).remove(0));
    let submit = async || {
        let run = once(lane, "first line", 1);
        rig.store.submit_build(run, dice(), git_build("default"), line()).await.unwrap().unwrap().run
    };
    let build = submit().await;
    assert_eq!(submit().await, build, "a repetition");
    rig.say(build, None, &["more"]).await;
    let log = rig.log(build, 10).await;
    let shown: Vec<_> = log.iter().map(|line| (line.number, line.message.as_str(), line.at)).collect();
    assert_eq!(shown, [(1, "submitted", START), (2, "more", START)]);
}

async fn a_build_that_waits_is_taken_by_whoever_reports_its_end(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held_build(run(lane)).await;
    let take = async |run, worker| rig.store.take_build(run, worker, 7).await.unwrap();
    assert_eq!(take(held.run, worker).await, None, "somebody has it");
    let (waiting, _) = rig.build(run(lane)).await;
    assert_eq!(take(waiting, WorkerId::from_random(9)).await, None, "nobody knows this worker");
    let taken = take(waiting, worker).await.expect("it waits, and the worker is online");
    assert_eq!(taken, lease_of(waiting, 1));
    assert_eq!(take(waiting, worker).await, None, "it has it");
    assert_eq!(rig.store.worker(worker).await.unwrap().unwrap().active, 2);
    rig.complete(taken).await;
    rig.complete(held).await;
    assert_eq!(rig.store.worker(worker).await.unwrap().unwrap().active, 0);
    assert_eq!(take(waiting, worker).await, None, "it has ended");
    let (returned, _) = rig.build(run(lane)).await;
    rig.give_back(lease(&rig.claim(worker, lane, 1).await[0])).await;
    assert_eq!(take(returned, worker).await, None, "it was handed out before: whoever had it may still be at work");
    rig.complete(lease(&rig.claim(worker, lane, 1).await[0])).await;
    let (gone, _) = rig.build(run(lane)).await;
    rig.store.set_worker(worker, WorkerStatus::Offline, "it left").await.unwrap();
    assert_eq!(take(gone, worker).await, None, "the worker is offline");
    let plain = rig.submit(run(lane)).await;
    let other = rig.worker("other").await;
    assert_eq!(take(plain, other).await, None, "no build");
}
