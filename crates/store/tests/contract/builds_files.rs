//! Files: never lost while somebody needs them, never left behind when nobody does.

use std::collections::HashSet;
use std::sync::Arc;

use baton_store::{ArtifactKind, ArtifactOwner, BuildRefused, Completion, Due, LeaseRef, NewArtifact};
use uuid::Uuid;

use crate::builds_rig::{SHA256, SIZE, build_of, git_build, new_file, uuid};
use crate::rig::{Rig, contract, dice, lease, lease_of, run};

const AGE: i64 = 1_000;
const NEVER: i64 = 1 << 50;
const NONE: [Uuid; 0] = [];

contract!(
    a_result_is_only_begun_under_the_live_lease,
    a_result_is_only_stored_under_the_live_lease,
    storing_again_is_harmless,
    a_file_is_noted_once,
    a_file_is_found_until_it_is_given_up,
    results_of_all_leases_are_shown_once_they_are_there,
    what_was_submitted_and_never_taken_goes_when_it_is_old,
    what_a_build_took_stays,
    the_result_that_completed_a_build_stays_and_others_go,
    of_several_results_of_one_lease_the_named_one_stays,
    of_several_results_of_one_lease_the_newest_stays_when_none_is_named,
    results_of_a_build_that_did_not_complete_go,
    results_of_lost_leases_go_when_they_are_old,
    files_of_deleted_builds_go,
    a_shared_file_goes_with_its_last_build,
    what_was_given_up_is_found_until_it_is_forgotten,
    what_was_given_up_can_be_neither_stored_nor_taken,
    a_file_in_use_is_not_forgotten,
    bytes_are_counted_by_namespace,
    a_file_is_stored_or_given_up_but_not_both,
    a_file_is_taken_or_given_up_but_not_both,
    a_draft_becomes_the_result_of_a_live_lease_once,
    a_draft_that_nobody_binds_goes_when_it_is_old,
    a_file_that_still_comes_is_not_old,
);

async fn a_result_is_only_begun_under_the_live_lease(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    let begin = async |lease| rig.store.add_artifact(new_file(ArtifactOwner::Result(lease))).await.unwrap();
    assert!(begin(held).await);
    assert!(!begin(lease_of(held.run, 0)).await);
    assert!(!begin(lease_of(held.run, 2)).await);
    rig.sleep(held, Due::Now).await;
    assert!(!begin(held).await, "nobody holds it");
    let worker = rig.worker("b").await;
    let next = lease(&rig.claim(worker, lane, 1).await[0]);
    assert!(!begin(held).await);
    assert!(begin(next).await);
    rig.complete(next).await;
    assert!(!begin(next).await);
}

async fn a_result_is_only_stored_under_the_live_lease(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    let (early, late) = (rig.begun_file(ArtifactOwner::Result(held)).await, ArtifactOwner::Result(held));
    let late = rig.begun_file(late).await;
    assert!(rig.store.artifact_stored(early, SIZE, SHA256).await.unwrap());
    rig.give_back(held).await;
    assert!(!rig.store.artifact_stored(late, SIZE, SHA256).await.unwrap());
    let shown = rig.store.artifacts(held.run).await.unwrap();
    assert!(shown.iter().all(|file| file.id != late));
    assert_eq!(rig.store.artifact_bytes(None).await.unwrap(), 2 * SIZE, "the source and one result");
}

async fn storing_again_is_harmless(rig: Rig) {
    let file = rig.begun_file(ArtifactOwner::Source).await;
    for _ in 0..2 {
        assert!(rig.store.artifact_stored(file, SIZE, SHA256).await.unwrap());
    }
    assert!(!rig.store.artifact_stored(file, SIZE, [8; 32]).await.unwrap(), "something else was stored");
    assert!(!rig.store.artifact_stored(uuid(), SIZE, SHA256).await.unwrap());
    assert_eq!(rig.store.artifact_bytes(None).await.unwrap(), SIZE);
}

async fn a_file_is_noted_once(rig: Rig) {
    let lane = rig.lane("ios").await;
    let file = new_file(ArtifactOwner::Source);
    assert!(rig.store.add_artifact(file.clone()).await.unwrap());
    assert!(rig.store.artifact_stored(file.id, SIZE, SHA256).await.unwrap());
    assert!(rig.store.add_artifact(file.clone()).await.unwrap(), "the answer was lost");
    rig.submit_build(run(lane), build_of(file.id, None)).await;
}

async fn results_of_all_leases_are_shown_once_they_are_there(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, first) = rig.held_build(run(lane)).await;
    let one = rig.file(ArtifactOwner::Result(first)).await;
    rig.begun_file(ArtifactOwner::Result(first)).await;
    rig.give_back(first).await;
    rig.clock.advance(1);
    let second = lease(&rig.claim(worker, lane, 1).await[0]);
    let two = rig.file(ArtifactOwner::Result(second)).await;
    let shown = rig.store.artifacts(first.run).await.unwrap();
    let results: Vec<_> = shown.iter().filter(|file| file.kind == ArtifactKind::Result).collect();
    assert_eq!(shown.len(), 3);
    assert_eq!(
        results.iter().map(|file| (file.id, file.epoch)).collect::<Vec<_>>(),
        [(one, first.epoch), (two, second.epoch)]
    );
}

/// The server fell after it noted the file, in the middle of it, after all of it, or before the build was taken.
async fn what_was_submitted_and_never_taken_goes_when_it_is_old(rig: Rig) {
    let begun = rig.begun_file(ArtifactOwner::Source).await;
    rig.clock.advance(1);
    let stored = rig.file(ArtifactOwner::Certs).await;
    rig.clock.advance(AGE - 1);
    assert_eq!(rig.orphan_ids(AGE).await, NONE);
    rig.clock.advance(1);
    assert_eq!(rig.orphan_ids(AGE).await, [begun]);
    rig.clock.advance(1);
    let found = rig.store.orphans(AGE, 10).await.unwrap();
    assert_eq!(found.iter().map(|file| file.id).collect::<Vec<_>>(), [begun, stored]);
    assert_eq!((found[0].stored, found[1].stored), (None, Some((SIZE, SHA256))));
    assert_eq!(found[0].path, format!("files/{begun}"));
    assert_eq!(rig.store.orphans(AGE, 1).await.unwrap().len(), 1);
}

async fn what_a_build_took_stays(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    // Still being written, by the holder of the live lease: however long that takes.
    rig.begun_file(ArtifactOwner::Result(held)).await;
    rig.file(ArtifactOwner::Result(held)).await;
    rig.clock.advance(1 << 40);
    assert_eq!(rig.orphan_ids(0).await, NONE);
    assert_eq!(rig.store.artifacts(held.run).await.unwrap().len(), 2);
}

async fn the_result_that_completed_a_build_stays_and_others_go(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, first) = rig.held_build(run(lane)).await;
    let lost = rig.file(ArtifactOwner::Result(first)).await;
    rig.give_back(first).await;
    rig.clock.advance(1);
    let second = lease(&rig.claim(worker, lane, 1).await[0]);
    let cut_off = rig.begun_file(ArtifactOwner::Result(second)).await;
    rig.clock.advance(1);
    let good = rig.file(ArtifactOwner::Result(second)).await;
    assert_eq!(rig.orphan_ids(NEVER).await, NONE);
    rig.complete(second).await;
    assert_eq!(rig.orphan_ids(NEVER).await, [lost, cut_off]);
    rig.store.forget_artifacts(&[lost, cut_off]).await.unwrap();
    rig.clock.advance(1 << 40);
    assert_eq!(rig.orphan_ids(0).await, NONE);
    let left: Vec<_> = rig.store.artifacts(first.run).await.unwrap().iter().map(|file| file.id).collect();
    assert!(left.contains(&good) && left.len() == 2, "{left:?}");
}

/// A lease that had to repeat itself, because the server fell, has stored its result more than once.
async fn several_results(rig: &Rig, held: LeaseRef) -> Vec<Uuid> {
    let mut files = Vec::new();
    for sum in 1..=3 {
        rig.clock.advance(1);
        let file = rig.begun_file(ArtifactOwner::Result(held)).await;
        assert!(rig.store.artifact_stored(file, SIZE, [sum; 32]).await.unwrap());
        files.push(file);
    }
    files
}

async fn assert_only_result(rig: &Rig, held: LeaseRef, kept: Uuid, gone: &[Uuid]) {
    assert_eq!(rig.orphan_ids(NEVER).await, gone);
    rig.store.forget_artifacts(gone).await.unwrap();
    rig.clock.advance(1 << 40);
    assert_eq!(rig.orphan_ids(0).await, NONE);
    let left = rig.store.artifacts(held.run).await.unwrap();
    let results: Vec<_> = left.iter().filter(|file| file.kind == ArtifactKind::Result).map(|file| file.id).collect();
    assert_eq!(results, [kept]);
    assert_eq!(rig.store.artifact_bytes(None).await.unwrap(), 2 * SIZE, "the source and one result");
}

async fn of_several_results_of_one_lease_the_named_one_stays(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    let files = several_results(&rig, held).await;
    assert_eq!(rig.orphan_ids(0).await, NONE, "nobody knows yet which will count");
    let output = format!("{{\"sha256\":\"{}\"}}", "02".repeat(32));
    rig.store.complete(vec![Completion { lease: held, output: Some(output.into()) }]).await.unwrap();
    assert_only_result(&rig, held, files[1], &[files[0], files[2]]).await;
}

async fn of_several_results_of_one_lease_the_newest_stays_when_none_is_named(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    let files = several_results(&rig, held).await;
    rig.complete(held).await;
    assert_only_result(&rig, held, files[2], &files[..2]).await;
}

async fn a_file_is_found_until_it_is_given_up(rig: Rig) {
    let file = rig.begun_file(ArtifactOwner::Source).await;
    let found = rig.store.artifact(file).await.unwrap().unwrap();
    assert_eq!((found.id, found.stored, found.run), (file, None, None));
    assert!(rig.store.artifact_stored(file, SIZE, SHA256).await.unwrap());
    assert_eq!(rig.store.artifact(file).await.unwrap().unwrap().stored, Some((SIZE, SHA256)));
    rig.clock.advance(AGE + 1);
    assert_eq!(rig.orphan_ids(AGE).await, [file]);
    assert_eq!(rig.store.artifact(file).await.unwrap(), None);
    assert_eq!(rig.store.artifact(uuid()).await.unwrap(), None);
}

async fn results_of_a_build_that_did_not_complete_go(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    let result = rig.file(ArtifactOwner::Result(held)).await;
    rig.cancel(held.run, 0).await;
    rig.clock.advance(1);
    rig.reap().await;
    assert_eq!(rig.state(held.run).await, baton_core::State::Cancelled);
    assert_eq!(rig.orphan_ids(NEVER).await, [result]);
    assert_eq!(rig.store.artifacts(held.run).await.unwrap().len(), 1, "what was submitted stays with its build");
}

async fn results_of_lost_leases_go_when_they_are_old(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    let begun = rig.begun_file(ArtifactOwner::Result(held)).await;
    rig.give_back(held).await;
    rig.clock.advance(AGE);
    assert_eq!(rig.orphan_ids(AGE).await, NONE);
    rig.clock.advance(1);
    assert_eq!(rig.orphan_ids(AGE).await, [begun]);
}

async fn files_of_deleted_builds_go(rig: Rig) {
    let lane = rig.lane("ios").await;
    // One build whose result the collector has seen and one that it has not.
    let mut files = HashSet::new();
    for seen in [true, false] {
        let (_, held) = rig.held_build(run(lane)).await;
        files.insert(rig.file(ArtifactOwner::Result(held)).await);
        rig.complete(held).await;
        files.extend(rig.store.artifacts(held.run).await.unwrap().iter().map(|file| file.id));
        if seen {
            assert_eq!(rig.orphan_ids(NEVER).await, NONE);
        }
    }
    assert_eq!(files.len(), 4);
    rig.clock.advance(AGE);
    assert_eq!(rig.store.retain(10, NEVER, NEVER, 100).await.unwrap().runs, 2);
    assert_eq!(rig.store.artifact_bytes(None).await.unwrap(), 4 * SIZE, "they are there until they are removed");
    let found: HashSet<_> = rig.orphan_ids(NEVER).await.into_iter().collect();
    assert_eq!(found, files);
    rig.store.forget_artifacts(&found.into_iter().collect::<Vec<_>>()).await.unwrap();
    assert_eq!(rig.store.artifact_bytes(None).await.unwrap(), 0);
}

async fn a_shared_file_goes_with_its_last_build(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (first, source) = rig.build(run(lane)).await;
    let second = rig.submit_build(run(lane), build_of(source, None)).await.run;
    rig.cancel(first, 0).await;
    rig.clock.advance(AGE);
    assert_eq!(rig.store.retain(10, NEVER, NEVER, 100).await.unwrap().runs, 1);
    assert_eq!(rig.orphan_ids(0).await, NONE);
    assert_eq!(rig.store.artifacts(second).await.unwrap().len(), 1);
    rig.cancel(second, 0).await;
    rig.clock.advance(AGE);
    assert_eq!(rig.store.retain(10, NEVER, NEVER, 100).await.unwrap().runs, 1);
    assert_eq!(rig.orphan_ids(NEVER).await, [source]);
}

async fn what_was_given_up_is_found_until_it_is_forgotten(rig: Rig) {
    let file = rig.file(ArtifactOwner::Source).await;
    rig.clock.advance(AGE + 1);
    assert_eq!(rig.orphan_ids(AGE).await, [file]);
    // The collector fell; the next one may be more patient.
    let rig = rig.reopen().await;
    assert_eq!(rig.orphan_ids(NEVER).await, [file]);
    rig.store.forget_artifacts(&[file, uuid()]).await.unwrap();
    assert_eq!(rig.orphan_ids(0).await, NONE);
    rig.store.forget_artifacts(&[file]).await.unwrap();
    rig.store.forget_artifacts(&[]).await.unwrap();
}

async fn what_was_given_up_can_be_neither_stored_nor_taken(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (begun, stored) = (rig.begun_file(ArtifactOwner::Source).await, rig.file(ArtifactOwner::Source).await);
    rig.clock.advance(AGE + 1);
    assert_eq!(rig.orphan_ids(AGE).await.len(), 2);
    assert!(!rig.store.artifact_stored(begun, SIZE, SHA256).await.unwrap());
    assert!(!rig.store.artifact_stored(stored, SIZE, SHA256).await.unwrap());
    let refused = rig.store.submit_build(run(lane), dice(), build_of(stored, None), None).await.unwrap();
    assert_eq!(refused, Err(BuildRefused::FileMissing(stored)));
}

async fn a_file_in_use_is_not_forgotten(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (build, source) = rig.build(run(lane)).await;
    rig.store.forget_artifacts(&[source]).await.unwrap();
    assert_eq!(rig.store.artifacts(build).await.unwrap().len(), 1);
    assert_eq!(rig.store.artifact_bytes(None).await.unwrap(), SIZE);
}

async fn bytes_are_counted_by_namespace(rig: Rig) {
    assert_eq!(rig.store.artifact_bytes(None).await.unwrap(), 0);
    let elsewhere = NewArtifact { namespace: "other".into(), ..new_file(ArtifactOwner::Source) };
    assert!(rig.store.add_artifact(elsewhere.clone()).await.unwrap());
    assert!(rig.store.artifact_stored(elsewhere.id, 1 << 40, SHA256).await.unwrap());
    let here = rig.file(ArtifactOwner::Source).await;
    rig.file(ArtifactOwner::Source).await;
    let bytes = async |namespace| rig.store.artifact_bytes(namespace).await.unwrap();
    assert_eq!(bytes(Some("default")).await, 2 * SIZE);
    assert_eq!((bytes(Some("other")).await, bytes(Some("none")).await), (1 << 40, 0));
    assert_eq!(bytes(None).await, (1 << 40) + 2 * SIZE);
    rig.store.forget_artifacts(&[here, elsewhere.id]).await.unwrap();
    assert_eq!((bytes(Some("default")).await, bytes(Some("other")).await), (SIZE, 0));
}

async fn a_file_is_stored_or_given_up_but_not_both(rig: Rig) {
    let servers = rig.servers(2).await;
    for _ in 0..20 {
        let file = rig.begun_file(ArtifactOwner::Source).await;
        rig.clock.advance(AGE + 1);
        let (here, there) = (Arc::clone(&servers[0]), Arc::clone(&servers[1]));
        let collector = tokio::spawn(async move { here.orphans(AGE, 10).await.unwrap() });
        let stored = tokio::spawn(async move { there.artifact_stored(file, SIZE, SHA256).await.unwrap() });
        let (found, stored) = (collector.await.unwrap(), stored.await.unwrap());
        // Old and untaken, it may have been stored before it was given up; what was given up unfinished stays so.
        let unfinished = found.iter().any(|found| found.id == file && found.stored.is_none());
        assert!(!(unfinished && stored), "what was given up was stored");
        rig.orphan_ids(AGE).await;
        rig.store.forget_artifacts(&[file]).await.unwrap();
    }
}

async fn a_file_is_taken_or_given_up_but_not_both(rig: Rig) {
    let lane = rig.lane("ios").await;
    let servers = rig.servers(2).await;
    let mut taken = 0;
    for _ in 0..20 {
        let file = rig.file(ArtifactOwner::Source).await;
        rig.clock.advance(AGE + 1);
        let (here, there) = (Arc::clone(&servers[0]), Arc::clone(&servers[1]));
        let collector = tokio::spawn(async move { here.orphans(AGE, 10).await.unwrap() });
        let submit =
            tokio::spawn(
                async move { there.submit_build(run(lane), dice(), build_of(file, None), None).await.unwrap() },
            );
        let (found, submitted) = (collector.await.unwrap(), submit.await.unwrap());
        let given_up = found.iter().any(|found| found.id == file);
        assert_ne!(given_up, submitted.is_ok(), "{submitted:?}");
        taken += u64::from(submitted.is_ok());
        rig.store.forget_artifacts(&[file]).await.unwrap();
    }
    assert_eq!(rig.store.artifact_bytes(None).await.unwrap(), taken * SIZE);
    rig.submit_build(run(lane), git_build("default")).await;
    assert_eq!(rig.store.count_builds(None, 0).await.unwrap().pending, taken + 1);
}

async fn a_draft_becomes_the_result_of_a_live_lease_once(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, first) = rig.held_build(run(lane)).await;
    let bind = async |draft, lease| rig.store.bind_draft(draft, lease).await.unwrap();
    let begun = rig.begun_file(ArtifactOwner::Draft).await;
    assert!(!bind(begun, first).await, "it is not all there");
    rig.give_back(first).await;
    let held = lease(&rig.claim(worker, lane, 1).await[0]);
    let draft = rig.file(ArtifactOwner::Draft).await;
    assert!(!bind(draft, first).await, "the lease is lost");
    assert!(!bind(rig.file(ArtifactOwner::Source).await, held).await, "no draft");
    assert_eq!(rig.store.artifacts(held.run).await.unwrap().len(), 1, "the source alone");
    assert!(bind(draft, held).await);
    assert!(!bind(draft, held).await, "it is bound");
    let shown = rig.store.artifacts(held.run).await.unwrap();
    let result = shown.iter().find(|file| file.id == draft).unwrap();
    assert_eq!((result.kind, result.run, result.epoch), (ArtifactKind::Result, Some(held.run), held.epoch));
    rig.complete(held).await;
    rig.clock.advance(NEVER);
    assert!(!rig.orphan_ids(AGE).await.contains(&draft), "it is the result that counts");
    let late = rig.file(ArtifactOwner::Draft).await;
    assert!(!bind(late, held).await, "the build has ended");
}

async fn a_draft_that_nobody_binds_goes_when_it_is_old(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    let draft = rig.file(ArtifactOwner::Draft).await;
    rig.clock.advance(AGE);
    assert_eq!(rig.orphan_ids(AGE).await, NONE, "its sender may still be talking");
    rig.clock.advance(1);
    assert_eq!(rig.orphan_ids(AGE).await, [draft]);
    assert!(!rig.store.bind_draft(draft, held).await.unwrap(), "it was given up");
}

async fn a_file_that_still_comes_is_not_old(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    let (draft, source) = (rig.begun_file(ArtifactOwner::Draft).await, rig.begun_file(ArtifactOwner::Source).await);
    for _ in 0..3 {
        rig.clock.advance(AGE);
        rig.store.touch_artifact(draft).await.unwrap();
        rig.store.touch_artifact(source).await.unwrap();
        assert_eq!(rig.orphan_ids(AGE).await, NONE);
    }
    rig.clock.advance(AGE);
    assert!(rig.store.artifact_stored(draft, SIZE, SHA256).await.unwrap());
    rig.clock.advance(AGE);
    assert_eq!(rig.orphan_ids(AGE).await, [source], "the other one has only just been stored");
    rig.store.touch_artifact(source).await.unwrap();
    rig.store.touch_artifact(uuid()).await.unwrap();
    assert_eq!(rig.orphan_ids(AGE).await, [source], "what was given up stays so");
    assert!(rig.store.bind_draft(draft, held).await.unwrap());
}
