//! What a server leaves that ended badly is swept away, and what others are writing is not.

use std::time::Duration;

use baton_server::artifacts::Terms;

use crate::on_every_place;
use crate::rig::{LIMIT, Rig, content, open, path, silent_source};

on_every_place!(what_a_dead_server_left_is_swept, what_is_being_written_is_not_swept);

const LARGE: usize = 11 << 20;

async fn what_a_dead_server_left_is_swept(rig: Rig) {
    let urls = rig.urls.clone();
    // A runtime that is given up in the middle of a file: nothing of it runs any more, not even what tidies up.
    let server = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    server.spawn(async move {
        let storage = open(&urls);
        storage.put(&path("file"), silent_source(&content(LARGE)), Terms::up_to(LIMIT)).await
    });
    // A draft in a directory, or a part of a multipart upload.
    let left = |name: &String| name.starts_with("drafts/") || name.starts_with(".upload_id-");
    rig.until(|files| files.iter().any(left)).await;
    tokio::task::spawn_blocking(move || server.shutdown_timeout(Duration::from_millis(200))).await.unwrap();
    rig.storage.sweep(Duration::ZERO).await.unwrap();
    rig.expect_files(0).await;
    rig.put(&path("file"), b"anew").await;
    assert_eq!(rig.storage.sweep(Duration::ZERO).await, Ok(0), "what was published is no leftover");
    assert_eq!(rig.content(&path("file")).await.unwrap(), b"anew");
}

async fn what_is_being_written_is_not_swept(rig: Rig) {
    let storage = rig.storage.clone();
    let (whole, (sender, rest)) = (content(LARGE), tokio::sync::oneshot::channel());
    let mut rest = Some(rest);
    let first = bytes::Bytes::copy_from_slice(&whole[..LARGE - 1]);
    let mut first = Some(first);
    let slow = futures_util::stream::poll_fn(move |context| {
        if let Some(first) = first.take() {
            return std::task::Poll::Ready(Some(Ok(first)));
        }
        let Some(waiting) = &mut rest else { return std::task::Poll::Ready(None) };
        let last: Result<bytes::Bytes, _> = std::task::ready!(Future::poll(std::pin::Pin::new(waiting), context));
        rest = None;
        std::task::Poll::Ready(last.ok().map(Ok))
    });
    let putting = tokio::spawn(async move { storage.put(&path("file"), Box::pin(slow), Terms::up_to(LIMIT)).await });
    rig.until(|files| !files.is_empty()).await;
    assert_eq!(rig.storage.sweep(Duration::from_secs(3_600)).await, Ok(0));
    sender.send(bytes::Bytes::copy_from_slice(&whole[LARGE - 1..])).unwrap();
    putting.await.unwrap().unwrap();
    assert!(rig.content(&path("file")).await.unwrap() == whole);
}
