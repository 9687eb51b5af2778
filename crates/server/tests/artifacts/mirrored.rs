//! Two storages as one: what is in both, what is in one of them, and what happens when one fails.

use baton_core::{Millis, RunId};
use baton_server::artifacts::{
    ArtifactPath, Folder, Piece, Segment, Sha256Sum, Storage, StorageError, Terms, UploadId, UploadLimits, Uploads,
};

use crate::rig::{LIMIT, Rig, content, content_of, entropy, path, source};

const ANY: Terms = Terms { bytes_max: LIMIT, length: None, sha256: None };
const ME: &str = "key-1";
const NOW: Millis = 1_000;

fn of(run: u64, name: &str) -> ArtifactPath {
    ArtifactPath::of_run(RunId::floor(run as i64), &Segment::new(name).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_have_what_is_written_and_one_is_enough_to_read() {
    let rig = Rig::directory_and_s3();
    let (first, mirror) = (rig.alone(0), rig.alone(1));
    rig.put(&of(1, "both"), b"both").await;
    for alone in [&first, &mirror] {
        assert_eq!(content_of(alone, &of(1, "both")).await.unwrap(), b"both");
    }
    first.put(&of(1, "first"), source(b"first"), ANY).await.unwrap();
    mirror.put(&of(1, "mirror"), source(b"mirror"), ANY).await.unwrap();
    mirror.put(&of(2, "mirror"), source(b"x"), ANY).await.unwrap();
    for name in ["both", "first", "mirror"] {
        assert_eq!(rig.content(&of(1, name)).await.unwrap(), name.as_bytes());
    }
    let folder = Folder::of_run(RunId::floor(1));
    let mut listed: Vec<_> = rig.storage.list(&folder).await.unwrap().into_iter().map(|entry| entry.name).collect();
    listed.sort();
    assert_eq!(listed, ["both", "first", "mirror"]);
    assert_eq!(rig.storage.runs_with_files(None, 9).await.unwrap(), [RunId::floor(1), RunId::floor(2)]);
    rig.storage.delete(&of(1, "mirror")).await.unwrap();
    assert_eq!(rig.content(&of(1, "mirror")).await, Err(StorageError::NotFound));
    rig.storage.delete_folder(&folder).await.unwrap();
    rig.storage.delete(&of(2, "mirror")).await.unwrap();
    rig.expect_files(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_needs_both_and_names_the_one_that_failed() {
    let (first, mirror) = (Rig::directory(), Rig::directory());
    let roots = [first.root().to_owned(), mirror.root().to_owned()];
    let rig = Rig::mirrored(first, mirror);
    rig.put(&path("file"), b"before").await;
    for (gone, other) in [(&roots[0], &roots[1]), (&roots[1], &roots[0])] {
        let aside = gone.with_extension("aside");
        std::fs::rename(gone, &aside).unwrap();
        let refused = rig.storage.put(&path("new"), source(b"new"), ANY).await.unwrap_err();
        let StorageError::Unavailable(why) = &refused else { panic!("{refused:?}") };
        assert!(why.contains(gone.to_str().unwrap()) && !why.contains(other.to_str().unwrap()), "{why}");
        assert_eq!(rig.content(&path("file")).await.unwrap(), b"before", "one of them has it");
        // Nobody knows whether the one that is gone has it. Who is told that it is lost gives it
        // up.
        assert!(matches!(rig.content(&path("other")).await, Err(StorageError::Unavailable(_))));
        assert!(matches!(rig.storage.delete(&path("file")).await, Err(StorageError::Unavailable(_))));
        std::fs::rename(&aside, gone).unwrap();
        rig.put(&path("file"), b"before").await;
    }
    let same = Storage::mirrored(rig.alone(0), rig.alone(0)).unwrap_err();
    assert!(same.contains("the same"), "{same}");
}

/// Uploads of one client, as it finds them at whichever server it asks.
struct Client {
    content: Vec<u8>,
    sent: usize,
    id: UploadId,
}

impl Client {
    async fn begin(storage: Storage, size: usize) -> Client {
        let id = uploads(storage, size as u64).create(ME, size as u64, "", NOW).await.unwrap().id;
        Client { content: content(size), sent: 0, id }
    }

    /// Sends the next so many bytes.
    async fn send(&mut self, storage: Storage, size: usize) {
        let (begin, end) = (self.sent, self.sent + size);
        let piece = Piece { offset: begin as u64, ..Piece::default() };
        let uploads = uploads(storage, end as u64);
        let sent = uploads.append(self.id, ME, piece, source(&self.content[begin..end]), NOW).await.unwrap();
        assert_eq!(sent.offset, end as u64);
        self.sent = end;
    }
}

fn uploads(storage: Storage, seed: u64) -> Uploads {
    Uploads::new(storage, UploadLimits { bytes_max: LIMIT, expires_after_ms: 1_000 }, entropy(seed))
}

/// As in a rolling restart: servers with and without the mirror, and then with the two the other
/// way round.
async fn an_upload_goes_on_at_every_server(rig: Rig) {
    const PIECE: usize = 70_000;
    let swapped: Vec<String> = rig.urls.iter().rev().cloned().collect();
    let (both, swapped) = (|| rig.again(), || crate::rig::open(&swapped));
    let mut client = Client::begin(rig.alone(0), 6 * PIECE).await;
    client.send(rig.alone(0), PIECE).await;
    client.send(both(), PIECE).await;
    client.send(rig.alone(0), PIECE).await;
    client.send(both(), PIECE).await;
    client.send(swapped(), PIECE).await;
    client.send(both(), PIECE).await;
    let mut idle = Client::begin(rig.alone(0), PIECE).await;
    idle.send(rig.alone(0), PIECE).await;
    for (client, name) in [(client, "result"), (idle, "idle")] {
        let uploads = uploads(swapped(), 1);
        for _ in 0..2 {
            let stored = uploads.finish(client.id, ME, &path(name), ANY, NOW).await.unwrap();
            assert_eq!(stored.sha256, Sha256Sum::of(&client.content));
        }
        uploads.forget(client.id).await.unwrap();
        for number in [0, 1] {
            assert!(content_of(&rig.alone(number), &path(name)).await.unwrap() == client.content);
        }
    }
    rig.expect_files(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_goes_on_at_every_server_with_a_directory_and_a_bucket() {
    an_upload_goes_on_at_every_server(Rig::directory_and_s3()).await;
    an_upload_goes_on_at_every_server(Rig::mirrored(Rig::s3(), Rig::directory())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_goes_on_at_every_server_with_two_of_a_kind() {
    an_upload_goes_on_at_every_server(Rig::mirrored(Rig::directory(), Rig::directory())).await;
    an_upload_goes_on_at_every_server(Rig::mirrored(Rig::s3(), Rig::s3())).await;
}
