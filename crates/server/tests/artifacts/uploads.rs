//! Uploads that survive a cut connection: what counts, and what does not.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use baton_core::Millis;
use baton_server::Error;
use baton_server::artifacts::{
    Checksum, Piece, Sha256Sum, Source, Storage, StorageError, Terms, Upload, UploadError, UploadId, UploadLimits,
    Uploads,
};
use futures_util::{StreamExt, stream};

use crate::on_every_place;
use crate::rig::{LIMIT, Rig, content, cut_source, entropy, path, silent_source, source};

on_every_place!(
    pieces_become_a_file,
    an_empty_upload_becomes_an_empty_file,
    what_came_before_a_cut_counts,
    what_was_not_committed_does_not_count,
    an_upload_goes_on_after_a_restart,
    a_silent_piece_makes_way_for_the_next,
    asking_stops_a_silent_piece,
    a_piece_goes_where_the_upload_ends,
    a_piece_with_a_wrong_sum_does_not_count,
    more_bytes_than_announced_are_refused,
    an_incomplete_or_wrong_upload_does_not_become_a_file,
    somebody_elses_upload_is_not_there,
    expired_uploads_are_gone_and_swept,
    a_deleted_upload_leaves_nothing,
);

const LIMITS: UploadLimits = UploadLimits { bytes_max: 64 << 20, expires_after_ms: 1_000 };
const ME: &str = "key-1";
const NOW: Millis = 1_000_000;
const SIZE: usize = (7 << 20) + 5;

fn uploads(storage: Storage, seed: u64) -> Uploads {
    Uploads::new(storage, LIMITS, entropy(seed))
}

async fn create(uploads: &Uploads, length: usize) -> UploadId {
    uploads.create(ME, length as u64, "", NOW).await.unwrap().id
}

fn at(offset: usize) -> Piece {
    Piece { offset: offset as u64, ..Piece::default() }
}

async fn append(uploads: &Uploads, id: UploadId, offset: usize, source: Source<'_>) -> Result<Upload, UploadError> {
    uploads.append(id, ME, at(offset), source, NOW).await
}

async fn finish(uploads: &Uploads, id: UploadId) -> Result<Sha256Sum, UploadError> {
    let stored = uploads.finish(id, ME, &path("result"), Terms::up_to(LIMIT), NOW).await?;
    Ok(stored.sha256)
}

/// Sends the rest in two pieces, and checks the file it becomes.
async fn complete(rig: &Rig, uploads: &Uploads, id: UploadId, offset: usize, content: &[u8]) {
    let middle = offset + (content.len() - offset) / 2;
    assert_eq!(append(uploads, id, offset, source(&content[offset..middle])).await.unwrap().offset, middle as u64);
    let upload = append(uploads, id, middle, source(&content[middle..])).await.unwrap();
    assert!(upload.is_complete());
    for _ in 0..2 {
        assert_eq!(finish(uploads, id).await.unwrap(), Sha256Sum::of(content), "also when the first answer was lost");
        assert!(rig.content(&path("result")).await.unwrap() == content);
    }
    uploads.forget(id).await.unwrap();
    assert_eq!(uploads.get(id, ME, NOW).await, Err(UploadError::NotFound));
    rig.expect_files(1).await;
}

async fn pieces_become_a_file(rig: Rig) {
    let uploads = uploads(rig.storage.clone(), 1);
    let id = create(&uploads, SIZE).await;
    assert_eq!(uploads.get(id, ME, NOW).await.unwrap().offset, 0);
    complete(&rig, &uploads, id, 0, &content(SIZE)).await;
}

async fn an_empty_upload_becomes_an_empty_file(rig: Rig) {
    let uploads = uploads(rig.storage.clone(), 1);
    let id = create(&uploads, 0).await;
    assert_eq!(finish(&uploads, id).await.unwrap(), Sha256Sum::of(b""));
    assert_eq!(rig.content(&path("result")).await.unwrap(), b"");
}

async fn what_came_before_a_cut_counts(rig: Rig) {
    let uploads = uploads(rig.storage.clone(), 1);
    let (id, content) = (create(&uploads, SIZE).await, content(SIZE));
    let cut = append(&uploads, id, 0, cut_source(&content[..1_000_001])).await;
    assert_eq!(cut, Err(UploadError::Storage(StorageError::Source(Error::TooSlow))));
    assert_eq!(uploads.get(id, ME, NOW).await.unwrap().offset, 1_000_001);
    complete(&rig, &uploads, id, 1_000_001, &content).await;
}

/// As when the server is killed in the middle of a piece.
async fn what_was_not_committed_does_not_count(rig: Rig) {
    let (storage, content) = (rig.storage.clone(), content(SIZE));
    let first = uploads(storage.clone(), 1);
    let id = create(&first, SIZE).await;
    append(&first, id, 0, source(&content[..1_000])).await.unwrap();
    // Other bytes than will be sent later, to see that nothing of them stays.
    let before = rig.files();
    let wrong = silent_source(&vec![9; 6 << 20]);
    let sending = tokio::spawn(async move { append(&first, id, 1_000, wrong).await });
    let written = |files: &[String]| match rig.storage.kind() {
        "s3" => files.len() > before.len(),
        _ => std::fs::metadata(rig.root().join(format!("uploads/{id}/data"))).is_ok_and(|data| data.len() > 1_000_000),
    };
    rig.until(written).await;
    sending.abort();
    assert!(sending.await.unwrap_err().is_cancelled());
    let second = uploads(rig.again(), 2);
    assert_eq!(second.get(id, ME, NOW).await.unwrap().offset, 1_000);
    complete(&rig, &second, id, 1_000, &content).await;
}

async fn an_upload_goes_on_after_a_restart(rig: Rig) {
    let content = content(SIZE);
    let first = uploads(rig.storage.clone(), 1);
    let id = create(&first, SIZE).await;
    append(&first, id, 0, source(&content[..3_000_000])).await.unwrap();
    drop(first);
    let second = uploads(rig.again(), 2);
    assert_eq!(second.get(id, ME, NOW).await.unwrap().offset, 3_000_000);
    complete(&rig, &second, id, 3_000_000, &content).await;
}

async fn a_silent_piece_makes_way_for_the_next(rig: Rig) {
    let uploads = uploads(rig.storage.clone(), 1);
    let (id, content) = (create(&uploads, SIZE).await, content(SIZE));
    let (sent, all_sent) = tokio::sync::oneshot::channel();
    let silence = stream::once(async move {
        sent.send(()).unwrap();
        std::future::pending().await
    });
    let silent = append(&uploads, id, 0, source(&content[..100_000]).chain(silence).boxed());
    let next = async {
        all_sent.await.unwrap();
        append(&uploads, id, 100_000, source(&content[100_000..])).await
    };
    let (silent, next) = tokio::join!(biased; silent, next);
    assert_eq!(silent, Err(UploadError::Overtaken));
    assert!(next.unwrap().is_complete());
    assert_eq!(finish(&uploads, id).await.unwrap(), Sha256Sum::of(&content));
}

async fn asking_stops_a_silent_piece(rig: Rig) {
    let uploads = uploads(rig.storage.clone(), 1);
    let (id, content) = (create(&uploads, SIZE).await, content(SIZE));
    let silent = append(&uploads, id, 0, silent_source(&content[..100_000]));
    let (silent, asked) = tokio::join!(biased; silent, uploads.get(id, ME, NOW));
    assert_eq!(silent, Err(UploadError::Overtaken));
    let offset = asked.unwrap().offset as usize;
    complete(&rig, &uploads, id, offset, &content).await;
}

async fn a_piece_goes_where_the_upload_ends(rig: Rig) {
    let uploads = uploads(rig.storage.clone(), 1);
    let id = create(&uploads, 10).await;
    append(&uploads, id, 0, source(b"12345")).await.unwrap();
    for offset in [0, 4, 6, 10] {
        let refused = append(&uploads, id, offset, source(b"x")).await;
        assert_eq!(refused, Err(UploadError::WrongOffset { offset: 5 }), "{offset}");
    }
    append(&uploads, id, 5, source(b"67890")).await.unwrap();
    assert_eq!(finish(&uploads, id).await.unwrap(), Sha256Sum::of(b"1234567890"));
}

async fn a_piece_with_a_wrong_sum_does_not_count(rig: Rig) {
    let uploads = uploads(rig.storage.clone(), 1);
    let (id, content) = (create(&uploads, SIZE).await, content(SIZE));
    let checksum = Checksum::parse(&format!("sha256 {}", BASE64.encode(Sha256Sum::of(&content).0)));
    let mut wrong = content.clone();
    wrong[SIZE - 1] ^= 1;
    let send = async |source| uploads.append(id, ME, Piece { checksum: checksum.clone(), ..at(0) }, source, NOW).await;
    assert_eq!(send(source(&wrong)).await, Err(UploadError::WrongChecksum));
    assert_eq!(uploads.get(id, ME, NOW).await.unwrap().offset, 0);
    assert!(matches!(send(cut_source(&content[..6 << 20])).await, Err(UploadError::Storage(_))));
    assert_eq!(uploads.get(id, ME, NOW).await.unwrap().offset, 0, "part of a piece with a sum proves nothing");
    assert!(send(source(&content)).await.unwrap().is_complete());
    assert_eq!(finish(&uploads, id).await.unwrap(), Sha256Sum::of(&content));
    uploads.forget(id).await.unwrap();
    rig.expect_files(1).await;
}

async fn more_bytes_than_announced_are_refused(rig: Rig) {
    let uploads = uploads(rig.storage.clone(), 1);
    let too_large = UploadError::Storage(StorageError::TooLarge { limit: LIMITS.bytes_max });
    assert_eq!(uploads.create(ME, LIMITS.bytes_max + 1, "", NOW).await, Err(too_large));
    let id = create(&uploads, 10).await;
    let too_large = Err(UploadError::Storage(StorageError::TooLarge { limit: 10 }));
    assert_eq!(append(&uploads, id, 0, source(b"12345678901")).await, too_large);
    let piece = Piece { length: Some(11), ..at(0) };
    assert_eq!(uploads.append(id, ME, piece, silent_source(b""), NOW).await, too_large);
    append(&uploads, id, 0, source(b"1234567890")).await.unwrap();
    assert_eq!(finish(&uploads, id).await.unwrap(), Sha256Sum::of(b"1234567890"));
}

async fn an_incomplete_or_wrong_upload_does_not_become_a_file(rig: Rig) {
    let uploads = uploads(rig.storage.clone(), 1);
    let id = create(&uploads, 10).await;
    append(&uploads, id, 0, source(b"12345")).await.unwrap();
    assert_eq!(finish(&uploads, id).await, Err(UploadError::Incomplete { offset: 5, length: 10 }));
    append(&uploads, id, 5, source(b"67890")).await.unwrap();
    let terms = Terms { sha256: Some(Sha256Sum::of(b"other")), ..Terms::up_to(LIMIT) };
    let refused = uploads.finish(id, ME, &path("result"), terms, NOW).await;
    assert!(matches!(refused, Err(UploadError::Storage(StorageError::WrongDigest { .. }))), "{refused:?}");
    assert_eq!(rig.storage.stat(&path("result")).await, Ok(None));
    assert_eq!(finish(&uploads, id).await.unwrap(), Sha256Sum::of(b"1234567890"), "it can still be finished");
}

async fn somebody_elses_upload_is_not_there(rig: Rig) {
    let uploads = uploads(rig.storage.clone(), 1);
    let id = create(&uploads, 10).await;
    let other = "key-2";
    assert_eq!(uploads.get(id, other, NOW).await, Err(UploadError::NotFound));
    assert_eq!(uploads.delete(id, other, NOW).await, Err(UploadError::NotFound));
    let piece = uploads.append(id, other, at(0), source(b"x"), NOW).await;
    assert_eq!(piece, Err(UploadError::NotFound));
    assert_eq!(uploads.get(id, ME, NOW).await.unwrap().offset, 0);
}

async fn expired_uploads_are_gone_and_swept(rig: Rig) {
    let uploads = uploads(rig.storage.clone(), 1);
    let (old, kept) = (create(&uploads, 10).await, create(&uploads, 10).await);
    append(&uploads, old, 0, source(b"12345")).await.unwrap();
    let later = NOW + LIMITS.expires_after_ms;
    // Each piece prolongs it.
    uploads.append(kept, ME, at(0), source(b"1"), later - 1).await.unwrap();
    assert_eq!(uploads.get(old, ME, later - 1).await.unwrap().offset, 5);
    assert_eq!(uploads.get(old, ME, later).await, Err(UploadError::Expired));
    assert_eq!(uploads.sweep(later).await, Ok(1));
    assert_eq!(uploads.get(old, ME, later).await, Err(UploadError::NotFound));
    assert_eq!(uploads.get(kept, ME, later).await.unwrap().offset, 1);
    assert_eq!(uploads.sweep(later).await, Ok(0));
}

async fn a_deleted_upload_leaves_nothing(rig: Rig) {
    let uploads = uploads(rig.storage.clone(), 1);
    let id = create(&uploads, SIZE).await;
    append(&uploads, id, 0, source(&content(6 << 20))).await.unwrap();
    uploads.delete(id, ME, NOW).await.unwrap();
    assert_eq!(uploads.get(id, ME, NOW).await, Err(UploadError::NotFound));
    rig.expect_files(0).await;
}
