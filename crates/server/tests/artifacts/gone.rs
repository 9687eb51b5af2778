//! A storage that is gone says so, with its name, and nobody takes its silence for the absence of a
//! file.

use std::time::{Duration, Instant};

use baton_core::RunId;
use baton_server::Error;
use baton_server::artifacts::{Folder, StorageError, Terms};

use crate::rig::{LIMIT, Rig, open, path, source};

#[tokio::test]
async fn a_directory_that_is_gone_has_not_lost_its_files() {
    let rig = Rig::directory();
    rig.put(&path("file"), b"x").await;
    let aside = rig.root().with_extension("aside");
    std::fs::rename(rig.root(), &aside).unwrap();
    // As a mount point without its disk.
    std::fs::create_dir(rig.root()).unwrap();
    let storage = &rig.storage;
    let named = |error: StorageError| {
        assert!(matches!(&error, StorageError::Unavailable(why) if why.contains(&rig.urls[0])), "{error:?}");
        assert_eq!(Error::from(error).code(), "storage_unavailable");
    };
    named(storage.stat(&path("file")).await.unwrap_err());
    named(storage.read(&path("file"), 0..1).await.map(drop).unwrap_err());
    named(storage.put(&path("new"), source(b"x"), Terms::up_to(LIMIT)).await.unwrap_err());
    named(storage.delete(&path("file")).await.unwrap_err());
    named(storage.list(&Folder::of_run(RunId::floor(1))).await.unwrap_err());
    named(storage.runs_with_files(None, 1).await.unwrap_err());
    named(storage.sweep(Duration::ZERO).await.unwrap_err());
    std::fs::remove_dir(rig.root()).unwrap();
    std::fs::rename(aside, rig.root()).unwrap();
    assert_eq!(rig.content(&path("file")).await.unwrap(), b"x");
}

#[tokio::test]
async fn a_bucket_that_does_not_answer_is_noticed_soon() {
    // One that refuses, and one that hangs.
    let hanging = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for address in [format!("127.0.0.1:{}", baton_testkit::free_port()), hanging.local_addr().unwrap().to_string()] {
        let storage = open(&[format!("s3://bucket/prefix?endpoint=http://{address}&region=us-east-1")]);
        let begun = Instant::now();
        for _ in 0..100 {
            let error = storage.health().await.remove(0).error.unwrap();
            assert!(error.contains(&format!("s3://bucket/prefix?endpoint=http://{address}")), "{error}");
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "it was asked again and again");
    }
    assert_eq!(Rig::s3().storage.health().await[0].error, None);
}
