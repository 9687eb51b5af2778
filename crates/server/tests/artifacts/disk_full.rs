//! A full disk. The storage is on a small file system of its own, which only a copy of this test program can see.

use std::path::PathBuf;
use std::process::Command;

use baton_server::artifacts::{Piece, Sha256Sum, Storage, StorageError, Terms, UploadError, UploadLimits, Uploads};

use crate::rig::{content, entropy, path, silent_source, source};

const DISK: &str = "BATON_TEST_SMALL_DISK";
const DISK_BYTES: usize = 16 << 20;
const ANY: Terms = Terms { bytes_max: u64::MAX, length: None, sha256: None };

/// Runs one of the tests below with a small disk. Without the right to mount, the kernel may still give a user one in a
/// namespace of their own.
fn on_a_small_disk(test: &str) {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.arg("--mount");
    if Command::new("id").arg("-u").output().unwrap().stdout != b"0\n" {
        command.arg("--map-root-user");
    }
    let script = r#"mount -t tmpfs -o size=16m tmpfs "$1" && exec "$2" --exact "$3" --ignored --nocapture"#;
    command.args(["sh", "-c", script, "sh"]).arg(home.path()).arg(std::env::current_exe().unwrap()).arg(test);
    let output = command.env(DISK, home.path()).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn small_disk() -> PathBuf {
    std::env::var_os(DISK).expect("started by the test of the same name, on a small disk").into()
}

fn storage(free_bytes_min: u64) -> Storage {
    let directory = small_disk().join("artifacts");
    Storage::open(directory.to_str().unwrap(), std::iter::empty(), free_bytes_min).unwrap()
}

fn drafts() -> usize {
    std::fs::read_dir(small_disk().join("artifacts/drafts")).unwrap().count()
}

#[test]
fn a_full_disk_is_told_and_leaves_nothing() {
    on_a_small_disk("disk_full::inner_a_full_disk_is_told_and_leaves_nothing");
}

#[tokio::test]
#[ignore = "runs on a small disk, started by the test of the same name"]
async fn inner_a_full_disk_is_told_and_leaves_nothing() {
    let storage = storage(0);
    let before = content(4 << 20);
    storage.put(&path("file"), source(&before), ANY).await.unwrap();
    let refused = storage.put(&path("file"), source(&content(2 * DISK_BYTES)), ANY).await;
    assert_eq!(refused, Err(StorageError::DiskFull));
    let begun = std::time::Instant::now();
    while drafts() > 0 {
        assert!(begun.elapsed().as_secs() < 20, "a draft stays");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(storage.stat(&path("file")).await.unwrap().unwrap().size, 4 << 20, "the one before is still there");
    storage.put(&path("other"), source(&content(8 << 20)), ANY).await.expect("what was half written is gone");
}

#[test]
fn a_disk_that_gets_too_full_refuses_early() {
    on_a_small_disk("disk_full::inner_a_disk_that_gets_too_full_refuses_early");
}

#[tokio::test]
#[ignore = "runs on a small disk, started by the test of the same name"]
async fn inner_a_disk_that_gets_too_full_refuses_early() {
    let storage = storage(8 << 20);
    let announced = Terms { length: Some(10 << 20), ..ANY };
    // The source says nothing: it is refused before a byte is read.
    assert_eq!(storage.put(&path("file"), silent_source(b""), announced).await, Err(StorageError::DiskFull));
    assert_eq!(storage.check_room(4 << 20).await, Ok(()));
    storage.put(&path("file"), source(&content(6 << 20)), ANY).await.unwrap();
    assert_eq!(storage.check_room(4 << 20).await, Err(StorageError::DiskFull));
    storage.delete(&path("file")).await.unwrap();
    assert_eq!(storage.check_room(4 << 20).await, Ok(()));
}

#[test]
fn an_upload_goes_on_when_there_is_room_again() {
    on_a_small_disk("disk_full::inner_an_upload_goes_on_when_there_is_room_again");
}

#[tokio::test]
#[ignore = "runs on a small disk, started by the test of the same name"]
async fn inner_an_upload_goes_on_when_there_is_room_again() {
    let storage = storage(0);
    let limits = UploadLimits { bytes_max: u64::MAX, expires_after_ms: 1_000 };
    let uploads = Uploads::new(storage.clone(), limits, entropy(1));
    let whole = content(10 << 20);
    let id = uploads.create("me", whole.len() as u64, "", 0).await.unwrap().id;
    // Announced as short, so that it is not refused before it begins.
    let piece = async |offset: usize, content: &[u8]| {
        let piece = Piece { offset: offset as u64, length: Some(1), checksum: None };
        uploads.append(id, "me", piece, source(content), 0).await
    };
    piece(0, &whole[..1_000]).await.unwrap();
    let ballast = small_disk().join("ballast");
    std::fs::write(&ballast, content(12 << 20)).unwrap();
    assert_eq!(piece(1_000, &whole[1_000..]).await, Err(UploadError::Storage(StorageError::DiskFull)));
    assert_eq!(uploads.get(id, "me", 0).await.unwrap().offset, 1_000, "what counted before still counts");
    std::fs::remove_file(ballast).unwrap();
    assert!(piece(1_000, &whole[1_000..]).await.unwrap().is_complete());
    let stored = uploads.finish(id, "me", &path("result"), ANY, 0).await.unwrap();
    assert_eq!(stored.sha256, Sha256Sum::of(&whole));
}
