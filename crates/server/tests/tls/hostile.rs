//! Clients that are slow, or speak something else.

use std::time::{Duration, Instant};

use baton_testkit::http2::{END_HEADERS, END_STREAM, HEADERS, RST_STREAM, frame, headers, preface};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::rig::{NAMES, PATIENCE, Rig, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_handshakes_end_and_keep_nobody_waiting() {
    let short = |settings: &mut baton_server::Settings, _: &std::path::Path| settings.tls_handshake_timeout_ms = 1_500;
    let rig = Rig::with(|authority| authority.server(&NAMES), short).await;
    let mut slow = Vec::new();
    for begins in 0..200 {
        let mut stream = rig.connect().await;
        // Nothing at all, or the beginning of a handshake that never goes on.
        if begins % 2 == 0 {
            stream.write_all(&[0x16, 3, 1, 2, 0, 1]).await.unwrap();
        }
        slow.push(stream);
    }
    let begun = Instant::now();
    for _ in 0..20 {
        rig.client().healthz().await.unwrap();
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "others waited {:?}", begun.elapsed());
    for mut stream in slow {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "a handshake without an end");
    }
    assert!(rig.app.metrics.tls_handshakes_failed.get() >= 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_handshake_is_cut_off_and_delays_its_sender() {
    let rig = Rig::start().await;
    let begun = Instant::now();
    // Ten are forgiven, and most of those that follow wait a second each.
    for _ in 0..7 {
        let mut stream = rig.connect().await;
        // A record that is none.
        stream.write_all(&[0x16, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0]).await.unwrap();
        let mut rest = Vec::new();
        tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("garbage is kept").ok();
        let mut stream = rig.connect().await;
        stream.write_all(&[0, 1, 2, 3]).await.unwrap();
        tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("garbage is kept").ok();
    }
    assert!(begun.elapsed() >= Duration::from_secs(1), "whoever sends garbage without end does not wait");
    // Those who behave are served.
    rig.client().healthz().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_in_a_handshake_count_for_their_address_and_make_room() {
    let few = |settings: &mut baton_server::Settings, _: &std::path::Path| settings.connections_per_address_max = 5;
    let rig = Rig::with(|authority| authority.server(&NAMES), few).await;
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(rig.connect().await);
    }
    // There is no room left, and those in the middle of a handshake are idle.
    rig.client().healthz().await.unwrap();
    let mut rest = Vec::new();
    let oldest = tokio::time::timeout(Duration::from_secs(5), waiting[0].read_to_end(&mut rest)).await;
    assert!(oldest.is_ok(), "the oldest has not made room");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rapid_resets_are_cut_off_over_tls_as_well() {
    let rig = Rig::start().await;
    let mut stream = rig.dial().await;
    stream.write_all(&preface(65_535)).await.unwrap();
    let head = headers(&[(":method", "GET"), (":scheme", "https"), (":path", "/api/v1/queues"), (":authority", "x")]);
    let attack = async {
        for number in 0..50_000_u32 {
            let id = 2 * number + 1;
            let mut bytes = frame(HEADERS, END_HEADERS | END_STREAM, id, &head);
            bytes.extend(frame(RST_STREAM, 0, id, &8_u32.to_be_bytes()));
            if stream.write_all(&bytes).await.is_err() || stream.flush().await.is_err() {
                return true;
            }
        }
        false
    };
    let is_cut = tokio::time::timeout(PATIENCE, attack).await.expect("the server takes nothing more");
    assert!(is_cut, "fifty thousand resets were borne");
    eventually("the connection is gone", async || rig.app.metrics.connections.get() == 0).await;
}
