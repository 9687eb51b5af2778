//! A client that asks for a great deal over one connection and never reads an answer.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::balancer::address;
use crate::hands::Hands;
use crate::site::{API_KEY, Leases, QUEUE, client, job, serve_with, submit};
use crate::verdict::assert_completed_once;
use crate::wait::{PATIENCE, eventually};

/// How long a client may take nothing, in this test.
const WRITE_TIMEOUT: Duration = Duration::from_secs(3);
/// Clients that do not read, and what each asks for at least: each answer has some 100 KiB.
const CLIENTS: usize = 20;
const REQUESTS: usize = 1_000;
/// What the server may keep for all of them: far more than it needs, and a small part of what they ask for.
const MEMORY_MAX: u64 = 100 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_costs_little_and_is_cut_off() {
    let home = tempfile::tempdir().unwrap();
    let limit = WRITE_TIMEOUT.as_millis().to_string();
    let server = serve_with(home.path(), None, Leases::LONG, &[("BATON_WRITE_TIMEOUT_MS", &limit)]).await;
    let client = client(&server.url());
    let ids = submit(&client, vec![job(); 500]).await;
    let hands = Hands::register(&client, 500).await;

    let path = format!("/api/v1/runs?queue={QUEUE}&limit=500");
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {API_KEY}\r\n\r\n");
    let before = memory(server.pid());
    let begun = Instant::now();
    let mut greedy = Vec::new();
    for _ in 0..CLIENTS {
        let stream = TcpStream::connect(address(&server.url())).await.expect("the server takes it");
        greedy.push(tokio::spawn(ask_and_never_read(stream, request.repeat(REQUESTS).into_bytes())));
    }
    // Others are served meanwhile, without a pause.
    let held = hands.claim_all(ids.len()).await;
    hands.complete(&held).await;
    assert_completed_once(&client, &ids).await;
    for greedy in greedy {
        let sent = tokio::time::timeout(PATIENCE, greedy).await.expect("it is not cut off").unwrap();
        assert!(sent > REQUESTS * request.len(), "it asked for {} answers only", sent / request.len());
    }
    assert!(begun.elapsed() >= WRITE_TIMEOUT, "cut off after {:?}", begun.elapsed());
    let grown = peak(server.pid()).saturating_sub(before);
    assert!(grown < MEMORY_MAX, "the server took {} MiB more", grown >> 20);
    // A client sees its connection closed a little before the server has forgotten it.
    eventually("few open connections", async || {
        let metrics = client.metrics().await.expect("the server answers");
        let open = metrics.lines().find_map(|line| line.strip_prefix("baton_connections ")).expect("the metric");
        (open.parse::<usize>().unwrap() < CLIENTS).then_some(())
    })
    .await;
}

/// Sends the same over and over until the server closes the connection, and returns how many bytes went off.
async fn ask_and_never_read(stream: TcpStream, bytes: Vec<u8>) -> usize {
    let mut sent = 0;
    loop {
        let Ok(()) = stream.writable().await else { return sent };
        match stream.try_write(&bytes[sent % bytes.len()..]) {
            Ok(more) => sent += more,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return sent,
        }
    }
}

/// Bytes of memory that a process has now.
fn memory(pid: u32) -> u64 {
    status(pid, "VmRSS:")
}

/// Most bytes of memory that a process ever had.
fn peak(pid: u32) -> u64 {
    status(pid, "VmHWM:")
}

fn status(pid: u32, what: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a running process");
    let line = status.lines().find_map(|line| line.strip_prefix(what)).expect("a figure in KiB");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}
