//! Files on their way from one storage to another.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use baton_core::RunId;
use baton_server::artifacts::{
    ArtifactPath, Cache, Cached, Move, MoveError, Moved, Seal, Segment, Sha256Sum, Storage, StorageError, Terms,
    UploadLimits, Uploads,
};

use crate::rig::{LIMIT, Rig, content, content_of, entropy, open, source};

const ANY: Terms = Terms { bytes_max: LIMIT, length: None, sha256: None };
const MOVE: Move = Move { only_look: false, verify: false, prune: false, at_once: 4, patience: Duration::ZERO };
const LOOK: Move = Move { only_look: true, ..MOVE };
const VERIFY: Move = Move { verify: true, ..MOVE };

fn of(run: i64, name: &str) -> ArtifactPath {
    ArtifactPath::of_run(RunId::floor(run), &Segment::new(name).unwrap())
}

fn report(day: &str) -> ArtifactPath {
    ArtifactPath::diagnostics(&Segment::new("mac").unwrap(), &Segment::new(day).unwrap())
}

async fn moves(from: &Storage, to: &Storage, terms: Move) -> Moved {
    from.copy_to(to, terms, &|_| {}).await.unwrap()
}

/// A file of each kind, sealed ones included.
async fn fill(storage: &Storage) -> Vec<(ArtifactPath, Vec<u8>)> {
    let seal = Seal::new(1, &[7; 32], entropy(1));
    storage.put_sealed(&seal, &of(1, "certs"), source(b"secret"), ANY).await.unwrap();
    let payload = ArtifactPath::payload(uuid::Uuid::from_u128(5));
    let plain = [(of(1, "source"), (6 << 20) + 3), (of(2, "result"), 0), (payload, 9_000), (report("2026-01-01"), 70)];
    for (path, size) in &plain {
        storage.put(path, source(&content(*size)), ANY).await.unwrap();
    }
    let cache = Cache::new(storage.clone(), LIMIT, &entropy(2));
    let cached = Cached::new("alpha", Sha256Sum::of(&content(1_000)));
    cache.put(cached, source(&content(1_000)), None).await.unwrap();
    let mut files = Vec::new();
    for path in plain.into_iter().map(|(path, _)| path).chain([of(1, "certs"), cached.path()]) {
        files.push((path.clone(), content_of(storage, &path).await.unwrap()));
    }
    files
}

fn to_strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

async fn everything_arrives(from: Rig, to: Rig) {
    let files = fill(&from.storage).await;
    let uploads =
        Uploads::new(from.storage.clone(), UploadLimits { bytes_max: LIMIT, expires_after_ms: 9 }, entropy(3));
    uploads.create("me", 5, "", 0).await.unwrap();
    let bytes = files.iter().map(|(_, content)| content.len() as u64).sum();
    let (from, target) = (from.again(), to.again());
    let missing = moves(&from, &target, LOOK).await;
    assert_eq!((missing.missing.files, missing.missing.bytes, missing.uploads_left), (6, bytes, 1));
    let mut names: Vec<_> = files.iter().map(|(path, _)| path.as_str()).collect();
    names.sort_unstable();
    assert_eq!((missing.missing.names, missing.differs.files, missing.copied), (to_strings(&names), 0, 0));
    to.expect_files(0).await;
    // Cut off somewhere, as by kill -9: what is there is not copied again.
    target.put(&files[0].0, source(&files[0].1), ANY).await.unwrap();
    let moved = moves(&from, &target, MOVE).await;
    assert_eq!((moved.copied, moved.present, moved.vanished, moved.failed), (5, 1, 0, 0), "{moved:?}");
    for (path, content) in &files {
        assert!(content_of(&target, path).await.unwrap() == *content, "{path:?}");
    }
    let seal = Seal::new(1, &[7; 32], entropy(9));
    assert_eq!(target.open_sealed(&seal, &of(1, "certs")).await.unwrap(), &b"secret"[..]);
    assert_eq!(moves(&from, &target, LOOK).await.present, 6);
    // The same size is no proof to those who ask for one.
    target.put(&files[0].0, source(&content(files[0].1.len() + 1)[1..]), ANY).await.unwrap();
    assert_eq!(moves(&from, &target, MOVE).await.copied, 0);
    assert_eq!(moves(&from, &target, LOOK).await.differs.files, 0);
    let damaged = moves(&from, &target, Move { only_look: true, ..VERIFY }).await;
    assert_eq!((damaged.differs.files, damaged.missing.files, damaged.present), (1, 0, 5));
    assert_eq!(damaged.differs.names, to_strings(&[files[0].0.as_str()]));
    assert_eq!(moves(&from, &target, VERIFY).await.copied, 1);
    assert!(content_of(&target, &files[0].0).await.unwrap() == files[0].1);
    to.expect_files(6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_moves_to_a_bucket_and_to_a_directory() {
    everything_arrives(Rig::directory(), Rig::s3()).await;
    everything_arrives(Rig::s3(), Rig::directory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_moves_between_two_of_a_kind() {
    everything_arrives(Rig::directory(), Rig::directory()).await;
    everything_arrives(Rig::s3(), Rig::s3()).await;
}

#[tokio::test]
async fn a_damaged_file_of_the_cache_is_named_and_not_spread() {
    let (from, to) = (Rig::directory(), Rig::directory());
    let files = fill(&from.storage).await;
    let (cached, _) = files.last().unwrap();
    std::fs::write(from.root().join(cached.as_str()), content(999)).unwrap();
    let moved = moves(&from.storage, &to.storage, MOVE).await;
    assert_eq!((moved.copied, moved.failed), (5, 1));
    assert!(moved.failures[0].contains(cached.as_str()), "{moved:?}");
    assert_eq!(to.storage.stat(cached).await, Ok(None));
}

#[tokio::test]
async fn what_only_the_target_has_is_removed_when_asked_for_and_old() {
    let (from, to) = (Rig::directory(), Rig::directory());
    fill(&from.storage).await;
    for name in ["old", "young"] {
        to.put(&of(3, name), b"left behind").await;
    }
    let old = std::fs::File::open(to.root().join(of(3, "old").as_str())).unwrap();
    old.set_modified(SystemTime::now() - Duration::from_secs(7_200)).unwrap();
    assert_eq!(moves(&from.storage, &to.storage, MOVE).await.pruned, 0);
    assert_eq!(moves(&from.storage, &to.storage, Move { prune: true, ..MOVE }).await.pruned, 1);
    assert_eq!(to.storage.stat(&of(3, "old")).await, Ok(None));
    assert!(to.storage.stat(&of(3, "young")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_source_without_files_prunes_nothing() {
    let (from, to) = (Rig::directory(), Rig::directory());
    fill(&to.storage).await;
    let refused = from.storage.copy_to(&to.storage, Move { prune: true, ..MOVE }, &|_| {}).await.unwrap_err();
    assert_eq!(refused, MoveError::EmptySource { from: from.urls[0].clone() });
    to.expect_files(6).await;
}

#[tokio::test]
async fn a_file_of_another_size_differs_and_is_not_missing() {
    let (from, to) = (Rig::directory(), Rig::directory());
    from.put(&of(1, "source"), b"all of it").await;
    to.put(&of(1, "source"), b"half").await;
    let found = moves(&from.storage, &to.storage, LOOK).await;
    assert_eq!((found.differs.files, found.differs.bytes, found.missing.files), (1, 9, 0));
}

#[tokio::test]
async fn a_storage_that_is_gone_ends_it() {
    let (from, to) = (Rig::directory(), Rig::directory());
    fill(&from.storage).await;
    std::fs::remove_dir_all(from.root()).unwrap();
    let stopped = from.storage.copy_to(&to.storage, MOVE, &|_| {}).await.unwrap_err();
    assert!(
        matches!(&stopped, MoveError::Storage(StorageError::Unavailable(why)) if why.contains(&from.urls[0])),
        "{stopped:?}"
    );
}

/// Copies a large file, and lets a server with both storages do something about it in the middle.
async fn in_the_middle(rig: &Rig, path: &ArtifactPath, act: impl AsyncFnOnce(Storage)) {
    rig.alone(0).put(path, source(&content(64 << 20)), ANY).await.unwrap();
    let (from, to, drafts) = (rig.alone(0), rig.alone(1), Path::new(&rig.urls[1]).join("drafts"));
    let moving = tokio::spawn(async move { moves(&from, &to, MOVE).await });
    while std::fs::read_dir(&drafts).unwrap().count() == 0 && !moving.is_finished() {
        tokio::task::yield_now().await;
    }
    act(rig.again()).await;
    assert_eq!(moving.await.unwrap().failed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_deleted_or_replaced_while_it_is_copied_does_not_come_back() {
    let rig = Rig::mirrored(Rig::directory(), Rig::directory());
    let file = of(1, "source");
    in_the_middle(&rig, &file, async |server| server.delete(&file).await.unwrap()).await;
    let day = report("2026-01-01");
    in_the_middle(&rig, &day, async |server| _ = server.put(&day, source(b"new"), ANY).await.unwrap()).await;
    for number in [0, 1] {
        assert_eq!(rig.alone(number).stat(&file).await, Ok(None));
        assert!(content_of(&rig.alone(number), &day).await.unwrap() == b"new", "the one before is there again");
    }
}

/// Servers delete, replace and add while files are copied, over and over. In the end both have the
/// same, without another move.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_write_meanwhile_and_a_move_agree() {
    const FILES: i64 = 40;
    let rig = Rig::directory_and_s3();
    let (first, mirror) = (rig.alone(0), rig.alone(1));
    for run in 0..FILES {
        first.put(&of(run, "source"), source(&content(500 + run as usize)), ANY).await.unwrap();
    }
    let done = Arc::new(AtomicBool::new(false));
    let mover = tokio::spawn({
        let (from, to, done) = (rig.alone(0), rig.alone(1), done.clone());
        async move {
            // The last one ends after the last write, and may have begun before it.
            loop {
                moves(&from, &to, MOVE).await;
                if done.load(Ordering::Acquire) {
                    return;
                }
            }
        }
    });
    let server = rig.again();
    for run in 0..FILES {
        let day = report(&format!("2026-01-{:02}", run % 4));
        server.put(&day, source(format!("report {run:02}").as_bytes()), ANY).await.unwrap();
        if run % 2 == 0 {
            server.delete(&of(run, "source")).await.unwrap();
        }
        server.put(&of(run, "result"), source(&content(100)), ANY).await.unwrap();
    }
    done.store(true, Ordering::Release);
    mover.await.unwrap();
    let names = |storage: Storage| async move {
        let mut names = storage.runs_with_files(None, 1_000).await.unwrap();
        names.sort();
        names
    };
    assert_eq!(names(rig.alone(0)).await, names(open(&rig.urls[1..])).await);
    for run in 0..FILES {
        let there = run % 2 != 0;
        for storage in [&first, &mirror] {
            assert_eq!(storage.stat(&of(run, "source")).await.unwrap().is_some(), there, "{run}");
            assert!(storage.stat(&of(run, "result")).await.unwrap().is_some(), "{run}");
        }
    }
    for day in 0..4 {
        let day = report(&format!("2026-01-{day:02}"));
        assert_eq!(content_of(&first, &day).await.unwrap(), content_of(&mirror, &day).await.unwrap());
    }
}
