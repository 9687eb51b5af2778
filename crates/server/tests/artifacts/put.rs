//! Storing files: whole or not at all.

use baton_core::RunId;
use baton_server::Error;
use baton_server::artifacts::{ArtifactPath, Folder, Segment, Sha256Sum, StorageError, Terms};

use crate::on_every_place;
use crate::rig::{LIMIT, Rig, content, cut_source, path, silent_source, source};

/// More than two parts of a multipart upload.
const LARGE: usize = (11 << 20) + 17;

on_every_place!(
    files_of_all_sizes_come_back_as_they_were,
    a_file_replaces_the_one_before,
    other_bytes_than_announced_leave_nothing,
    too_many_bytes_leave_nothing,
    a_cut_connection_leaves_nothing,
    a_caller_who_gives_up_leaves_nothing,
    a_refused_file_leaves_the_one_before,
    deleting_is_harmless_and_complete,
    runs_with_files_are_found_in_order,
);

async fn files_of_all_sizes_come_back_as_they_were(rig: Rig) {
    for size in [0, 1, 60_000, (1 << 20) - 1, 1 << 20, 5 << 20, LARGE] {
        let (path, content) = (path(&format!("file-{size}")), content(size));
        rig.put(&path, &content).await;
        assert!(rig.content(&path).await.unwrap() == content, "{size} bytes");
        assert_eq!(rig.storage.stat(&path).await.unwrap().unwrap().size, size as u64);
    }
    assert_eq!(rig.files().len(), 7, "{:?}", rig.files());
}

async fn a_file_replaces_the_one_before(rig: Rig) {
    rig.put(&path("file"), &content(LARGE)).await;
    rig.put(&path("file"), b"short").await;
    assert_eq!(rig.content(&path("file")).await.unwrap(), b"short");
    assert_eq!(rig.files().len(), 1);
}

async fn other_bytes_than_announced_leave_nothing(rig: Rig) {
    for size in [10, LARGE] {
        let content = content(size);
        let right = Sha256Sum::of(&content);
        let wrong = Sha256Sum::of(b"something else");
        let terms = Terms { sha256: Some(wrong), ..Terms::up_to(LIMIT) };
        let refusal = rig.storage.put(&path("file"), source(&content), terms).await;
        assert_eq!(refusal, Err(StorageError::WrongDigest { announced: wrong, received: right }));
        for (length, sent) in [(size as u64 + 1, size as u64), (size as u64 - 1, size as u64)] {
            let terms = Terms { length: Some(length), ..Terms::up_to(LIMIT) };
            let refusal = rig.storage.put(&path("file"), source(&content), terms).await;
            assert_eq!(refusal, Err(StorageError::WrongLength { announced: length, received: sent }));
        }
        rig.expect_files(0).await;
        assert_eq!(rig.storage.stat(&path("file")).await, Ok(None));
        let terms = Terms { sha256: Some(right), length: Some(size as u64), bytes_max: size as u64 };
        assert_eq!(rig.storage.put(&path("good"), source(&content), terms).await.unwrap().sha256, right);
        rig.storage.delete(&path("good")).await.unwrap();
    }
}

async fn too_many_bytes_leave_nothing(rig: Rig) {
    for size in [10, LARGE] {
        let limit = size as u64 - 1;
        let refusal = rig.storage.put(&path("file"), source(&content(size)), Terms::up_to(limit)).await;
        assert_eq!(refusal, Err(StorageError::TooLarge { limit }));
        rig.expect_files(0).await;
    }
    // Announced ones are refused before a byte is read.
    let terms = Terms { length: Some(11), ..Terms::up_to(10) };
    let refusal = rig.storage.put(&path("file"), silent_source(b""), terms).await;
    assert_eq!(refusal, Err(StorageError::TooLarge { limit: 10 }));
}

async fn a_cut_connection_leaves_nothing(rig: Rig) {
    for size in [10, LARGE] {
        let refusal = rig.storage.put(&path("file"), cut_source(&content(size)), Terms::up_to(LIMIT)).await;
        assert_eq!(refusal, Err(StorageError::Source(Error::TooSlow)));
        rig.expect_files(0).await;
    }
}

async fn a_caller_who_gives_up_leaves_nothing(rig: Rig) {
    for size in [10, LARGE] {
        let storage = rig.storage.clone();
        let (file, silent) = (path("file"), silent_source(&content(size)));
        let putting = tokio::spawn(async move { storage.put(&file, silent, Terms::up_to(LIMIT)).await });
        if size == LARGE {
            // Until something is there to be left behind.
            rig.until(|files| !files.is_empty()).await;
        }
        putting.abort();
        assert!(putting.await.unwrap_err().is_cancelled());
        rig.expect_files(0).await;
    }
}

async fn a_refused_file_leaves_the_one_before(rig: Rig) {
    rig.put(&path("file"), b"before").await;
    let refusal = rig.storage.put(&path("file"), cut_source(&content(LARGE)), Terms::up_to(LIMIT)).await;
    assert!(refusal.is_err());
    assert_eq!(rig.content(&path("file")).await.unwrap(), b"before");
    rig.expect_files(1).await;
}

async fn deleting_is_harmless_and_complete(rig: Rig) {
    let (run, other) = (RunId::floor(1), RunId::floor(2));
    let of = |run, name| ArtifactPath::of_run(run, &Segment::new(name).unwrap());
    rig.storage.delete(&of(run, "source")).await.unwrap();
    rig.storage.delete_folder(&Folder::of_run(run)).await.unwrap();
    for name in ["source", "result", "logs"] {
        rig.put(&of(run, name), b"x").await;
    }
    rig.put(&of(other, "source"), b"y").await;
    rig.storage.delete(&of(run, "logs")).await.unwrap();
    assert_eq!(rig.content(&of(run, "logs")).await, Err(StorageError::NotFound));
    let mut listed: Vec<String> =
        rig.storage.list(&Folder::of_run(run)).await.unwrap().into_iter().map(|entry| entry.name).collect();
    listed.sort();
    assert_eq!(listed, ["result", "source"]);
    rig.storage.delete_folder(&Folder::of_run(run)).await.unwrap();
    assert_eq!(rig.storage.list(&Folder::of_run(run)).await.unwrap(), []);
    assert_eq!(rig.content(&of(other, "source")).await.unwrap(), b"y", "a neighbour stays");
}

async fn runs_with_files_are_found_in_order(rig: Rig) {
    let runs: Vec<RunId> = (1..=5).map(RunId::floor).collect();
    for run in &runs {
        rig.put(&ArtifactPath::of_run(*run, &Segment::new("source").unwrap()), b"x").await;
    }
    assert_eq!(rig.storage.runs_with_files(None, 3).await.unwrap(), runs[..3]);
    assert_eq!(rig.storage.runs_with_files(Some(runs[2]), 3).await.unwrap(), runs[3..]);
}
