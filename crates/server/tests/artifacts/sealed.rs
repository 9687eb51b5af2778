//! Files that are encrypted where they lie.

use baton_server::artifacts::{SEALED_BYTES_MAX, Seal, Sha256Sum, StorageError, Terms};
use futures_util::StreamExt;

use crate::on_every_place;
use crate::rig::{LIMIT, Rig, content, cut_source, entropy, path, source};

on_every_place!(
    sealed_files_open_to_what_they_were,
    what_lies_there_says_nothing,
    every_change_is_noticed,
    a_file_opens_only_at_its_place_and_with_its_secret,
    a_file_from_before_there_were_generations_opens_with_generation_0,
    refused_ones_leave_nothing,
);

const CHUNK: usize = 64 << 10;

fn seal() -> Seal {
    Seal::new(1, &[7; 32], entropy(1))
}

async fn put(rig: &Rig, seal: &Seal, name: &str, content: &[u8]) {
    let stored = rig.storage.put_sealed(seal, &path(name), source(content), Terms::up_to(LIMIT)).await.unwrap();
    assert_eq!((stored.size, stored.sha256), (content.len() as u64, Sha256Sum::of(content)));
}

async fn sealed_files_open_to_what_they_were(rig: Rig) {
    let seal = seal();
    for size in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, (6 << 20) + 3] {
        let content = content(size);
        put(&rig, &seal, "certs", &content).await;
        assert!(rig.storage.open_sealed(&seal, &path("certs")).await.unwrap() == content, "{size} bytes");
        // A new start derives the same key.
        let again = Seal::new(1, &[7; 32], entropy(2));
        assert!(rig.again().open_sealed(&again, &path("certs")).await.unwrap() == content);
    }
}

async fn what_lies_there_says_nothing(rig: Rig) {
    let seal = seal();
    let content = b"a certificate and its password".repeat(100);
    put(&rig, &seal, "one", &content).await;
    put(&rig, &seal, "two", &content).await;
    let (one, two) = (rig.content(&path("one")).await.unwrap(), rig.content(&path("two")).await.unwrap());
    assert!(!one.windows(11).any(|window| window == b"certificate"));
    assert!(one[20..] != two[20..], "each file has a key of its own");
}

async fn every_change_is_noticed(rig: Rig) {
    let seal = seal();
    put(&rig, &seal, "certs", &content(2 * CHUNK + 100)).await;
    let sealed = rig.content(&path("certs")).await.unwrap();
    let head = sealed.len() - (2 * CHUNK + 100 + 3 * 16);
    let mut changes: Vec<Vec<u8>> = Vec::new();
    for at in [0, 20, 50, head - 1, head, head + CHUNK, sealed.len() - 1] {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        changes.push(changed);
    }
    // Cut off: inside of a chunk, exactly after one, after the head, inside of it.
    for size in [sealed.len() - 1, head + 2 * (CHUNK + 16), head + CHUNK + 16, head, head - 1, 0] {
        changes.push(sealed[..size].to_vec());
    }
    // Two chunks in the other's place.
    let (first, second) = (head..head + CHUNK + 16, head + CHUNK + 16..head + 2 * (CHUNK + 16));
    changes.push([&sealed[..head], &sealed[second.clone()], &sealed[first], &sealed[second.end..]].concat());
    changes.push([&sealed[..], b"x"].concat());
    for (number, changed) in changes.iter().enumerate() {
        rig.put(&path("certs"), changed).await;
        let opened = rig.storage.open_sealed(&seal, &path("certs")).await;
        assert!(
            matches!(opened, Err(StorageError::Damaged(_))),
            "change {number}: {:?}",
            opened.map(|bytes| bytes.len())
        );
    }
    rig.put(&path("certs"), &sealed).await;
    assert!(rig.storage.open_sealed(&seal, &path("certs")).await.is_ok());
}

async fn a_file_opens_only_at_its_place_and_with_its_secret(rig: Rig) {
    let seal = seal();
    put(&rig, &seal, "certs", b"secret").await;
    let sealed = rig.content(&path("certs")).await.unwrap();
    rig.put(&path("elsewhere"), &sealed).await;
    assert!(matches!(rig.storage.open_sealed(&seal, &path("elsewhere")).await, Err(StorageError::Damaged(_))));
    let other = Seal::new(1, &[8; 32], entropy(1));
    assert!(matches!(rig.storage.open_sealed(&other, &path("certs")).await, Err(StorageError::Damaged(_))));
    assert_eq!(rig.storage.open_sealed(&seal, &path("nothing")).await, Err(StorageError::NotFound));
}

async fn a_file_from_before_there_were_generations_opens_with_generation_0(rig: Rig) {
    let (before, seal) = (Seal::new(0, &[7; 32], entropy(1)), Seal::new(1, &[7; 32], entropy(1)));
    put(&rig, &before, "old", b"secret").await;
    put(&rig, &seal, "new", b"secret").await;
    assert!(rig.content(&path("old")).await.unwrap().starts_with(b"baton-sealed-1\n"));
    assert!(rig.content(&path("new")).await.unwrap().starts_with(b"baton-sealed-2\n\0\0\0\x01"));
    assert_eq!(rig.storage.open_sealed(&before, &path("old")).await.unwrap(), &b"secret"[..]);
    for (seal, name) in [(&before, "new"), (&seal, "old")] {
        assert!(matches!(rig.storage.open_sealed(seal, &path(name)).await, Err(StorageError::Damaged(_))), "{name}");
    }
}

async fn refused_ones_leave_nothing(rig: Rig) {
    let (seal, certs) = (seal(), path("certs"));
    let put = async |source, terms| rig.storage.put_sealed(&seal, &certs, source, terms).await;
    let any = Terms::up_to(LIMIT);
    let large = content(1 << 20);
    let endless = futures_util::stream::repeat_with(|| Ok(bytes::Bytes::from_static(&[0; 60_000]))).boxed();
    assert_eq!(put(endless, any).await, Err(StorageError::TooLarge { limit: SEALED_BYTES_MAX }));
    assert_eq!(put(source(&large), Terms::up_to(10)).await, Err(StorageError::TooLarge { limit: 10 }));
    assert!(matches!(put(cut_source(&large), any).await, Err(StorageError::Source(_))));
    let wrong = Terms { sha256: Some(Sha256Sum::of(b"other")), ..any };
    assert!(matches!(put(source(&large), wrong).await, Err(StorageError::WrongDigest { .. })));
    rig.expect_files(0).await;
}
