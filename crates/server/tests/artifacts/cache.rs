//! The content-addressed cache.

use std::sync::Arc;

use baton_server::artifacts::{Cache, Cached, Sha256Sum, StorageError};

use crate::on_every_place;
use crate::rig::{Rig, content, entropy, silent_source, source};

on_every_place!(
    files_are_found_by_their_sum,
    each_namespace_has_its_own,
    what_has_another_sum_is_refused,
    the_least_recently_used_goes_first,
    uses_are_remembered_by_the_next_start,
    two_servers_do_each_other_no_harm,
    a_file_larger_than_the_cache_is_refused,
);

/// The file with this sum, in the default namespace.
fn file(sum: Sha256Sum) -> Cached {
    Cached::new("default", sum)
}

fn cache(rig: &Rig, bytes_max: u64, seed: u64) -> Cache {
    Cache::new(rig.again(), bytes_max, &entropy(seed))
}

/// Puts a file of this size and returns its sum.
async fn put(cache: &Cache, size: usize) -> Sha256Sum {
    let content = content(size);
    let sum = Sha256Sum::of(&content);
    cache.put(file(sum), source(&content), Some(size as u64)).await.unwrap();
    sum
}

async fn there(rig: &Rig, sums: &[Sha256Sum]) -> Vec<bool> {
    let mut there = Vec::new();
    for sum in sums {
        // Past the cache, since asking it would be a use.
        there.push(rig.storage.stat(&file(*sum).path()).await.unwrap().is_some());
    }
    there
}

async fn files_are_found_by_their_sum(rig: Rig) {
    let cache = cache(&rig, 1_000_000, 1);
    let sum = Sha256Sum::of(&content(1_000));
    assert_eq!(cache.has(file(sum)).await, Ok(None));
    assert_eq!(put(&cache, 1_000).await, sum);
    assert_eq!(cache.has(file(sum)).await, Ok(Some(1_000)));
    assert!(rig.content(&file(sum).path()).await.unwrap() == content(1_000));
    let text = sum.to_string();
    assert_eq!(file(sum).path().as_str(), format!("cache/{}/{text}", &text[..2]));
    // Known already: the bytes are not even read.
    assert_eq!(cache.put(file(sum), silent_source(b""), None).await.unwrap().size, 1_000);
}

async fn each_namespace_has_its_own(rig: Rig) {
    let cache = cache(&rig, 3_000, 1);
    let (content, sum) = (content(1_000), Sha256Sum::of(&content(1_000)));
    let [alpha, beta] = ["alpha", "beta"].map(|namespace| Cached::new(namespace, sum));
    cache.put(alpha, source(&content), None).await.unwrap();
    assert_eq!((cache.has(beta).await, cache.has(file(sum)).await), (Ok(None), Ok(None)));
    // Whoever does not have the bytes does not get them by their sum.
    let empty = cache.put(beta, source(b""), None).await;
    assert_eq!(empty, Err(StorageError::WrongDigest { announced: sum, received: Sha256Sum::of(b"") }));
    cache.put(beta, source(&content), None).await.unwrap();
    assert!(rig.content(&alpha.path()).await.unwrap() == content && alpha.path() != beta.path());
    // They share the room, and the least recently used goes first, whoever has it.
    cache.has(alpha).await.unwrap();
    put(&cache, 1_500).await;
    assert_eq!((cache.has(alpha).await, cache.has(beta).await), (Ok(Some(1_000)), Ok(None)));
}

async fn what_has_another_sum_is_refused(rig: Rig) {
    let cache = cache(&rig, 1_000_000, 1);
    let sum = Sha256Sum::of(b"wanted");
    let refused = cache.put(file(sum), source(b"sent"), None).await;
    assert_eq!(refused, Err(StorageError::WrongDigest { announced: sum, received: Sha256Sum::of(b"sent") }));
    assert_eq!(cache.has(file(sum)).await, Ok(None));
    rig.expect_files(0).await;
}

async fn the_least_recently_used_goes_first(rig: Rig) {
    let cache = cache(&rig, 4_000, 1);
    let sums = [put(&cache, 1_000).await, put(&cache, 1_001).await, put(&cache, 1_002).await];
    assert_eq!(cache.pass().await.unwrap().files, 0, "everything fits");
    cache.has(file(sums[0])).await.unwrap();
    let newest = put(&cache, 1_500).await;
    let all = [sums[0], sums[1], sums[2], newest];
    assert_eq!(there(&rig, &all).await, [true, false, true, true], "the put made room by itself");
}

async fn uses_are_remembered_by_the_next_start(rig: Rig) {
    let first = cache(&rig, 1_000_000, 1);
    let sums = [put(&first, 1_000).await, put(&first, 1_001).await, put(&first, 1_002).await];
    first.has(file(sums[0])).await.unwrap();
    first.pass().await.unwrap();
    drop(first);
    let second = cache(&rig, 2_200, 2);
    assert_eq!(second.pass().await.unwrap().files, 1);
    assert_eq!(there(&rig, &sums).await, [true, false, true]);
}

async fn two_servers_do_each_other_no_harm(rig: Rig) {
    let (left, right) = (Arc::new(cache(&rig, 10_000, 1)), Arc::new(cache(&rig, 10_000, 2)));
    let work = |cache: Arc<Cache>| async move {
        for size in 1_000..1_012 {
            put(&cache, size).await;
            cache.pass().await.unwrap();
        }
    };
    tokio::join!(work(left.clone()), work(right.clone()));
    let evicted = left.pass().await.unwrap();
    assert!(evicted.bytes <= 10_000 && evicted.bytes >= 1_000, "{evicted:?}");
    assert_eq!(right.pass().await.unwrap().bytes, evicted.bytes);
    let newest = Sha256Sum::of(&content(1_011));
    assert!(rig.content(&file(newest).path()).await.unwrap() == content(1_011));
}

async fn a_file_larger_than_the_cache_is_refused(rig: Rig) {
    let cache = cache(&rig, 1_000, 1);
    let content = content(1_001);
    let sum = Sha256Sum::of(&content);
    let refused = Err(StorageError::TooLarge { limit: 1_000 });
    assert_eq!(cache.put(file(sum), source(&content), None).await, refused);
    assert_eq!(cache.put(file(sum), silent_source(b""), Some(1_001)).await, refused);
    rig.expect_files(0).await;
}
