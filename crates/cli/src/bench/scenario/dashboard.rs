//! Dashboard: pages are made in a moment beside a million runs, and those that are kept open cost next to nothing.

use std::io;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::flat::{self, DRAINED, FILLING, middle, timed_drain};
use super::idle::cpu_seconds;
use crate::bench::pickup::Latencies;
use crate::bench::report::{Floor, Report};
use crate::bench::server::Server;
use crate::bench::wire::Target;
use crate::bench::{Store, drain, load};
use crate::exit::Exit;

/// Pages that are asked for; what is in braces is found out first.
const PAGES: [&str; 15] = [
    "/",
    "/?t=month",
    "/runs",
    "/runs?state=waiting",
    "/runs?state=completed",
    "/runs?state=failed",
    "/runs?q=type:noop",
    "/runs?q=nothing-has-this-key",
    "/runs/{run}",
    "/builds",
    "/workflows",
    "/queues",
    "/queues/bench",
    "/workers",
    "/schedules",
];
/// How often each.
const TIMES: usize = 40;
const PAGE_MS_MAX: f64 = 200.0;
const FIRST_LOAD_MAX: f64 = 150_000.0;
/// Pages that are kept open, and which.
const OPEN: usize = 20;
const KEPT_OPEN: [&str; 5] = ["/", "/runs", "/queues", "/workers", "/runs?state=waiting"];
/// Share of one core, in percent.
const CPU_MAX: f64 = 5.0;
const SLOWER_MAX: f64 = 1.05;
const DRAINS: usize = 5;
const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// Plays it on one store.
pub async fn play(store: &Store, seconds: u64, report: &mut Report) -> Result<(), Exit> {
    let peer = store.peer();
    let mut server = Server::start(store, &[]).await?;
    flat::fill(&mut server).await?;
    let target = server.target.clone();
    let cookie = sign_in(&target).await?;
    let mut slowest = 0_f64;
    for page in PAGES {
        let path = match page.contains("{run}") {
            true => page.replace("{run}", &some_run(&target).await?),
            false => page.to_owned(),
        };
        let p95 = timed(&target, &cookie, &path).await?;
        report.add(peer, "page_p95", p95, "ms", page);
        slowest = slowest.max(p95);
    }
    report.check(peer, "slowest_page_p95", slowest, "ms", Floor::AtMost(PAGE_MS_MAX));
    let bytes = first_load(&target, &cookie).await?;
    report.check(peer, "first_load", bytes as f64, "bytes", Floor::AtMost(FIRST_LOAD_MAX));

    let open = open(&target, &cookie).await?;
    tokio::time::sleep(SETTLED_AFTER).await;
    let (begun, before) = (Instant::now(), cpu_seconds(server.pid())?);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let cpu = 100.0 * (cpu_seconds(server.pid())? - before) / begun.elapsed().as_secs_f64();
    report.check(peer, "open_pages_cpu", cpu, "% of a core", Floor::AtMost(CPU_MAX));
    drop(open);

    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..DRAINS {
        load::bulk(&target, DRAINED).await?;
        drain::settle(server.database.as_ref()).await?;
        without.push(timed_drain(&target).await?);
        load::bulk(&target, DRAINED).await?;
        drain::settle(server.database.as_ref()).await?;
        let _open = self::open(&target, &cookie).await?;
        with.push(timed_drain(&target).await?);
    }
    let settings = format!("{} finished, {} waiting", FILLING.finished, FILLING.waiting);
    let (without, with) = (middle(without), middle(with));
    report.add(peer, "drain_beside_pages", DRAINED as f64 / with, "jobs/s", settings);
    report.check(peer, "drain_slowed", with / without, "times", Floor::AtMost(SLOWER_MAX));
    Ok(())
}

/// Signs in with the server's first key, and returns the cookie.
async fn sign_in(target: &Target) -> Result<String, Exit> {
    let body = format!("key={}", target.api_key);
    let request = format!(
        "POST /signin HTTP/1.1\r\nhost: {}\r\ncontent-type: application/x-www-form-urlencoded\r\n\
         content-length: {}\r\n\r\n{body}",
        target.address,
        body.len()
    );
    let mut wire = target.connect().await?;
    let (status, head, _) = wire.exchange(request.as_bytes()).await?;
    let set = head.lines().filter_map(|line| line.split_once(':'));
    let cookie = set.filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")).find_map(|(_, value)| {
        let cookie = value.split(';').next()?.trim();
        cookie.starts_with("baton_session").then(|| cookie.to_owned())
    });
    cookie.ok_or_else(|| Exit::failed(format!("signing in was answered with {status} and no session")))
}

fn request(target: &Target, cookie: &str, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: {}\r\ncookie: {cookie}\r\n\r\n", target.address).into_bytes()
}

/// The identifier of a run that has ended.
async fn some_run(target: &Target) -> Result<String, Exit> {
    let answer = target.once("GET", "/api/v1/runs?state=completed&limit=1", "").await?;
    let page: serde_json::Value = serde_json::from_slice(&answer).map_err(|error| Exit::failed(error.to_string()))?;
    let id = page["runs"][0]["id"].as_str();
    Ok(id.ok_or_else(|| Exit::failed("no run has ended"))?.to_owned())
}

/// The 95th percentile of the time until all of a page is there, in milliseconds.
async fn timed(target: &Target, cookie: &str, path: &str) -> Result<f64, Exit> {
    let (request, mut wire) = (request(target, cookie, path), target.connect().await?);
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let begun = Instant::now();
        let (status, ..) = wire.exchange(&request).await?;
        if status != 200 {
            return Err(Exit::failed(format!("{path} was answered with {status}")));
        }
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(Latencies::of(times).quantile(0.95))
}

/// Bytes of the first page and of what it loads.
async fn first_load(target: &Target, cookie: &str) -> Result<usize, Exit> {
    let mut wire = target.connect().await?;
    let page = wire.exchange(&request(target, cookie, "/")).await?.2.to_vec();
    let text = String::from_utf8_lossy(&page);
    let assets = text.split('"').filter(|part| part.starts_with("/assets/"));
    let mut bytes = page.len();
    for asset in assets {
        bytes += wire.exchange(&request(target, cookie, asset)).await?.2.len();
    }
    Ok(bytes)
}

/// Keeps pages open until it is dropped.
async fn open(target: &Target, cookie: &str) -> Result<JoinSet<io::Result<()>>, Exit> {
    let mut open = JoinSet::new();
    for page in KEPT_OPEN.iter().cycle().take(OPEN) {
        let address = page.replace('?', "%3F").replace('=', "%3D");
        let mut wire = target.connect().await?;
        wire.follow(&request(target, cookie, &format!("/live?at={address}"))).await?;
        open.spawn(wire.read_on());
    }
    Ok(open)
}
