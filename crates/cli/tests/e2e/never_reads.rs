//! A client that asks for a great deal over one connection and never reads an answer.

use std::io::ErrorKind;
use std::time::Duration;

use baton_testkit::http2;
use tokio::io::AsyncWriteExt;
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
/// Connections of a thousand streams each without a window, and what they may cost: they ask for 4
/// GB.
const NO_WINDOW_CLIENTS: usize = 4;
const NO_WINDOW_MEMORY_MAX: u64 = 256 << 20;

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

/// HTTP/2 lets a client ask a thousand times on one connection, and take nothing of any answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_opens_no_window_costs_little() {
    let home = tempfile::tempdir().unwrap();
    let server = serve_with(home.path(), None, Leases::LONG, &[]).await;
    let client = client(&server.url());
    let input = serde_json::value::to_raw_value(&"x".repeat(2_000_000)).expect("text is JSON");
    let run = client.submit(&baton::proto::SubmitRun { queue: "large".into(), input: Some(input), ..job() }).await;
    let run = run.expect("it fits").id;
    let before = memory(server.pid());
    let mut greedy = Vec::new();
    for connection in 0..NO_WINDOW_CLIENTS {
        let mut stream = TcpStream::connect(address(&server.url())).await.expect("the server takes it");
        stream.write_all(&http2::preface(0)).await.expect("it is open");
        for number in 0..1_000 {
            // Those without a key get what is for anybody; one speaks gRPC.
            let asked = match connection % 4 {
                0 => http2::call("GetWorkflowRun", &run, API_KEY, 2 * number + 1),
                1 => http2::get("/openapi.json", "", 2 * number + 1),
                _ => http2::get(&format!("/api/v1/runs/{run}"), API_KEY, 2 * number + 1),
            };
            stream.write_all(&asked).await.expect("it is open");
        }
        greedy.push(stream);
    }
    // Others are served meanwhile.
    let ids = submit(&client, vec![job(); 100]).await;
    let hands = Hands::register(&client, 100).await;
    let held = hands.claim_all(ids.len()).await;
    hands.complete(&held).await;
    assert_completed_once(&client, &ids).await;
    eventually("answers without room are refused", async || {
        let metrics = client.metrics().await.expect("the server answers");
        let refused = metrics.lines().find(|line| line.contains("/api/v1/runs/{id}\",status=\"503\""))?;
        (refused.rsplit_once(' ')?.1.parse::<usize>().ok()? > 500).then_some(())
    })
    .await;
    let grown = peak(server.pid()).saturating_sub(before);
    assert!(grown < NO_WINDOW_MEMORY_MAX, "the server took {} MiB more", grown >> 20);
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
