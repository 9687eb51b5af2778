//! Certificates that are replaced while the server runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use baton::proto::SubmitRun;

use crate::rig::{NAMES, Rig, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_is_replaced_under_load_costs_no_request() {
    let rig = Rig::start().await;
    let before = rig.shown().await;
    let (over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let load: Vec<_> = (0..4)
        .map(|index| {
            let (over, answered, mut client) = (over.clone(), answered.clone(), rig.client());
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    // Half of them with a new connection for each.
                    if index % 2 == 0 {
                        client = client.with_own_connections();
                    }
                    client.submit(&SubmitRun::new("q", "t")).await.unwrap();
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for _ in 0..2 {
        let next = rig.authority.server(&NAMES);
        rig.replace(&next);
        let expected = baton_server::tls::look(&rig.path("server.crt")).unwrap().fingerprint;
        eventually("the new certificate is shown", async || rig.shown().await == expected).await;
        assert_ne!(expected, before);
        let so_far = answered.load(Ordering::Relaxed);
        eventually("requests go on", async || answered.load(Ordering::Relaxed) > so_far + 20).await;
    }
    over.store(true, Ordering::Relaxed);
    for slot in load {
        slot.await.expect("no request is lost");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_file_changes_nothing_until_it_is_good() {
    let rig = Rig::start().await;
    let before = rig.shown().await;
    // No certificate at all, one whose key is another's, and one whose time is over.
    std::fs::write(rig.path("server.crt"), "-----BEGIN CERTIFICATE-----\nnonsense\n").unwrap();
    std::fs::write(rig.path("server.key"), rig.authority.server(&NAMES).key).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
    assert_eq!(rig.shown().await, before);
    rig.replace(&rig.authority.expired(&NAMES));
    tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
    assert_eq!(rig.shown().await, before);
    rig.replace(&rig.authority.server(&NAMES));
    let expected = baton_server::tls::look(&rig.path("server.crt")).unwrap().fingerprint;
    eventually("the good certificate is shown", async || rig.shown().await == expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_it_ends_is_counted() {
    let rig = Rig::start().await;
    let text = rig.client().metrics().await.unwrap();
    let line = "baton_tls_certificate_expiry_timestamp_seconds{source=\"files\"} 64060588800";
    assert!(text.contains(line), "{text}");
}
