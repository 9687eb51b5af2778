//! Pollers: builders of the polling protocols get builds as fast as they ask, and none is sent away
//! while one is left.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::bench::Store;
use crate::bench::pickup::Latencies;
use crate::bench::report::{Floor, Report};
use crate::bench::server::Server;
use crate::bench::wire::{Target, Wire};
use crate::exit::Exit;

/// Builds that wait for one builder, unless told otherwise.
pub const BUILDS: usize = 1_000;
/// Builders that ask at the same moment, and how often they do.
const CROWD: usize = 200;
const ROUNDS: usize = 20;
/// Workers whose first poll is timed.
const FIRST_POLLS: usize = 100;
/// The median of one poll that brings a build, in milliseconds: without a name, and the first of a
/// worker.
const PENDING_MS_MAX: f64 = 5.0;
const FIRST_MS_MAX: f64 = 10.0;
const PENDING: &str = "/api/v1/builds/pending";
const BOUNDARY: &str = "----------baton";

/// Plays it on one store.
pub async fn play(store: &Store, builds: usize, report: &mut Report) -> Result<(), Exit> {
    let mut server = Server::start(store, &[]).await?;
    let peer = store.peer();
    one_builder(&server.target, peer, builds.min(BUILDS), floor_per_second(store), report).await?;
    first_polls(&server.target, peer, report).await?;
    crowds(&server.target, peer, report).await?;
    server.stop().await;
    Ok(())
}

fn floor_per_second(store: &Store) -> f64 {
    match store {
        Store::Sqlite => 500.0,
        Store::Postgres { .. } => 200.0,
    }
}

/// One builder empties the queue, one build after the other.
async fn one_builder(
    target: &Target,
    peer: &str,
    builds: usize,
    per_second: f64,
    report: &mut Report,
) -> Result<(), Exit> {
    submit_repositories(target, builds).await?;
    let (mut wire, ask) = (target.connect().await?, target.request("GET", PENDING, ""));
    let (mut got, mut waits) = (BTreeSet::new(), Vec::with_capacity(builds));
    let begun = Instant::now();
    for _ in 0..builds {
        let asked = Instant::now();
        got.extend(build_id(wire.call(&ask).await?));
        waits.push(asked.elapsed().as_secs_f64() * 1e3);
    }
    let rate = builds as f64 / begun.elapsed().as_secs_f64();
    let waits = Latencies::of(waits);
    report.check(peer, "pending_distinct", got.len() as f64, "builds", Floor::AtLeast(builds as f64));
    report.check(peer, "pending_rate", rate, "builds/s", Floor::AtLeast(per_second));
    report.check(peer, "pending_p50", waits.quantile(0.5), "ms", Floor::AtMost(PENDING_MS_MAX));
    report.add(
        peer,
        "pending_p99",
        waits.quantile(0.99),
        "ms",
        format!("one builder in a loop, {builds} builds waiting"),
    );
    Ok(())
}

/// Workers that have just registered ask for their first build.
async fn first_polls(target: &Target, peer: &str, report: &mut Report) -> Result<(), Exit> {
    let mut wire = target.connect().await?;
    let mut waits = Vec::new();
    for number in 0..FIRST_POLLS {
        let worker = register(target, &mut wire, number).await?;
        submit_file(target, &mut wire).await?;
        let asked = Instant::now();
        let polled = wire.call(&poll(target, &worker)).await?;
        waits.push(asked.elapsed().as_secs_f64() * 1e3);
        let Some(build) = job_id(polled) else { return Err(Exit::failed("a first poll brought nothing")) };
        fail(target, &mut wire, &worker, &build).await?;
    }
    let waits = Latencies::of(waits);
    report.check(peer, "first_poll_p50", waits.quantile(0.5), "ms", Floor::AtMost(FIRST_MS_MAX));
    report.add(peer, "first_poll_p99", waits.quantile(0.99), "ms", format!("{FIRST_POLLS} new workers"));
    Ok(())
}

/// As many ask at the same moment as there are builds, again and again, in both protocols.
async fn crowds(target: &Target, peer: &str, report: &mut Report) -> Result<(), Exit> {
    let mut wire = target.connect().await?;
    let mut workers = Vec::new();
    for number in 0..CROWD {
        workers.push(register(target, &mut wire, 1_000 + number).await?);
    }
    let (mut nameless, mut named) = (Tally::default(), Tally::default());
    for _ in 0..ROUNDS {
        submit_repositories(target, CROWD).await?;
        let asks = vec![target.request("GET", PENDING, ""); CROWD];
        nameless.add(&at_once(target, asks, build_id).await?);

        for _ in 0..CROWD {
            submit_file(target, &mut wire).await?;
        }
        let asks = workers.iter().map(|worker| poll(target, worker)).collect();
        let got = at_once(target, asks, job_id).await?;
        named.add(&got);
        for (worker, build) in workers.iter().zip(&got) {
            if let Some(build) = build {
                fail(target, &mut wire, worker, build).await?;
            }
        }
    }
    for (what, tally) in [("crowd_pending", nameless), ("crowd_polls", named)] {
        let distinct = Floor::AtLeast((CROWD * ROUNDS) as f64);
        report.check(peer, &format!("{what}_distinct"), tally.distinct as f64, "builds", distinct);
        report.check(peer, &format!("{what}_empty"), tally.empty as f64, "answers", Floor::AtMost(0.0));
    }
    Ok(())
}

/// What the first answers of some rounds brought.
#[derive(Default)]
struct Tally {
    distinct: usize,
    empty: usize,
}

impl Tally {
    fn add(&mut self, round: &[Option<String>]) {
        self.distinct += round.iter().flatten().collect::<BTreeSet<_>>().len();
        self.empty += round.iter().filter(|build| build.is_none()).count();
    }
}

/// Sends all requests at the same moment, each on a connection of its own, and returns what they
/// brought, in their order.
async fn at_once(
    target: &Target,
    requests: Vec<Vec<u8>>,
    read: fn(&[u8]) -> Option<String>,
) -> Result<Vec<Option<String>>, Exit> {
    let start = Arc::new(Barrier::new(requests.len()));
    let mut asking = JoinSet::new();
    let mut answers = vec![None; requests.len()];
    for (index, request) in requests.into_iter().enumerate() {
        let (mut wire, start) = (target.connect().await?, start.clone());
        asking.spawn(async move {
            start.wait().await;
            Ok::<_, io::Error>((index, read(wire.call(&request).await?)))
        });
    }
    while let Some(answered) = asking.join_next().await {
        let (index, build) = answered.map_err(|error| Exit::failed(error.to_string()))??;
        answers[index] = build;
    }
    Ok(answers)
}

async fn submit_repositories(target: &Target, builds: usize) -> Result<(), Exit> {
    let build = json!({
        "project_slug": "bench", "version": "1", "source_url": "https://git.example/bench.git", "ref": "main",
        "docker_image": "none",
    });
    let (mut wire, submit) = (target.connect().await?, target.request("POST", "/api/v1/builds", &build.to_string()));
    for _ in 0..builds {
        wire.call(&submit).await?;
    }
    Ok(())
}

async fn submit_file(target: &Target, wire: &mut Wire) -> Result<(), Exit> {
    let body = format!(
        "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"platform\"\r\n\r\nlinux\r\n\
         --{BOUNDARY}\r\ncontent-disposition: form-data; name=\"source\"; filename=\"a.zip\"\r\n\r\nsource\r\n\
         --{BOUNDARY}--\r\n"
    );
    let request = target.request("POST", "/api/builds", &body);
    let kind = format!("multipart/form-data; boundary={BOUNDARY}");
    let request = String::from_utf8_lossy(&request).replacen("application/json", &kind, 1);
    wire.call(request.as_bytes()).await?;
    Ok(())
}

async fn register(target: &Target, wire: &mut Wire, number: usize) -> Result<String, Exit> {
    let worker = json!({"name": format!("bench {number}"), "capabilities": {"platforms": ["linux"]}});
    let answer = wire.call(&target.request("POST", "/api/workers/register", &worker.to_string())).await?;
    let registered: Registered = serde_json::from_slice(answer).map_err(io::Error::from)?;
    Ok(registered.id)
}

#[derive(Deserialize)]
struct Registered {
    id: String,
}

fn poll(target: &Target, worker: &str) -> Vec<u8> {
    target.request("GET", &format!("/api/workers/poll?worker_id={worker}"), "")
}

async fn fail(target: &Target, wire: &mut Wire, worker: &str, build: &str) -> Result<(), Exit> {
    let failed = json!({"build_id": build, "worker_id": worker, "error": "only a benchmark"});
    wire.call(&target.request("POST", "/api/workers/fail", &failed.to_string())).await?;
    Ok(())
}

fn build_id(answer: &[u8]) -> Option<String> {
    serde_json::from_slice::<Value>(answer).ok()?["id"].as_str().map(str::to_owned)
}

fn job_id(answer: &[u8]) -> Option<String> {
    serde_json::from_slice::<Value>(answer).ok()?["job"]["id"].as_str().map(str::to_owned)
}
