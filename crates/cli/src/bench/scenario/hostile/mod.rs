//! Hostile clients: what each costs the server in memory, and everybody else in time.
//!
//! The attackers come from an address of their own (127.0.0.2), on one thread with the lowest
//! priority: they share the processors with what is measured, and what they take themselves is not
//! the server's fault. Others are served at a steady pace that leaves the processors room, each
//! call on a connection that stays or on a new one, in turn.

mod attacks;
mod frames;

use std::io;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::oneshot;

use self::attacks::Attack;
use crate::bench::Store;
use crate::bench::load;
use crate::bench::pickup::Latencies;
use crate::bench::report::{Floor, Report};
use crate::bench::server::Server;
use crate::bench::wire::Target;
use crate::exit::Exit;
use crate::os;

/// What an attack may cost, in MiB.
const MEMORY_MAX: f64 = 256.0;
/// How many times longer others may wait.
const SLOWER_MAX: f64 = 2.0;
/// Below this many milliseconds the 99th percentile says more of the machine than of the server.
const NOISE_MS: f64 = 5.0;
/// Bytes of the input that is read over and over.
const INPUT_BYTES: usize = 2_000_000;
const CALL_EVERY: Duration = Duration::from_millis(4);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Until an attack is at its full strength.
const RAMP: Duration = Duration::from_secs(1);
const LOWEST_PRIORITY: i32 = 19;

/// Plays it on one store: each attack for so many seconds, against a server of its own.
pub async fn play(store: &Store, seconds: u64, report: &mut Report) -> Result<(), Exit> {
    for attack in Attack::all() {
        one(store, attack, Duration::from_secs(seconds), report).await?;
    }
    Ok(())
}

async fn one(store: &Store, attack: Attack, time: Duration, report: &mut Report) -> Result<(), Exit> {
    let mut server = Server::start(store, &[]).await?;
    let target = server.target.clone();
    let run = prepare(&target).await?;
    others(&target, Duration::from_secs(1)).await?;
    let before = others(&target, time).await?;
    let idle = memory(server.pid())?;
    let attacker = Attacker::begin(attack, target.clone(), run);
    tokio::time::sleep(RAMP).await;
    let watching = tokio::spawn(peak(server.pid(), time));
    let during = others(&target, time).await?;
    let grown = watching.await.map_err(|error| Exit::failed(error.to_string()))??.saturating_sub(idle);
    attacker.end()?;
    let (peer, name) = (store.peer(), attack.to_string());
    let (quiet, busy) = (before.quantile(0.99), during.quantile(0.99));
    report.check(peer, &format!("{name}_memory"), (grown >> 20) as f64, "MiB over idle", Floor::AtMost(MEMORY_MAX));
    report.add(peer, &format!("{name}_p99_before"), quiet, "ms", format!("p50 {:.2} ms", before.quantile(0.5)));
    report.add(peer, &format!("{name}_p50"), during.quantile(0.5), "ms", "of others, during the attack");
    let floor = Floor::AtMost((SLOWER_MAX * quiet).max(NOISE_MS));
    report.check(peer, &format!("{name}_p99"), busy, "ms", floor);
    server.kill().await
}

/// Leaves a run with a large input, and returns its identifier.
async fn prepare(target: &Target) -> Result<String, Exit> {
    let body = format!(r#"{{"queue":"large","type":"noop","input":"{}"}}"#, "x".repeat(INPUT_BYTES));
    let answer = target.once("POST", "/api/v1/runs", &body).await?;
    let run: Value = serde_json::from_slice(&answer).map_err(io::Error::from)?;
    Ok(run["id"].as_str().unwrap_or_default().to_owned())
}

/// A thread that attacks.
struct Attacker {
    thread: JoinHandle<io::Result<()>>,
    stop: oneshot::Sender<()>,
}

impl Attacker {
    fn begin(attack: Attack, target: Target, run: String) -> Attacker {
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            os::lower_priority_of_this_thread(LOWEST_PRIORITY)?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async move {
                tokio::select! {
                    ended = attack.play(&target, &run) => ended,
                    _ = stopped => Ok(()),
                }
            })
        });
        Attacker { thread, stop }
    }

    fn end(self) -> Result<(), Exit> {
        // Whoever has ended already hears nothing.
        let _ = self.stop.send(());
        let ended = self.thread.join().map_err(|_| Exit::failed("an attacker panicked"))?;
        Ok(ended?)
    }
}

/// What others do meanwhile: they submit and read, and now and then one is new.
async fn others(target: &Target, time: Duration) -> Result<Latencies, Exit> {
    let target = target.clone();
    let measured = load::on_one_thread(async move {
        let mut wire = target.connect().await?;
        let requests =
            [target.request("POST", "/api/v1/runs", &load::run(1)), target.request("GET", "/api/v1/runs?limit=1", "")];
        let (begun, mut waits) = (Instant::now(), Vec::new());
        let mut ticks = tokio::time::interval(CALL_EVERY);
        for number in 0.. {
            ticks.tick().await;
            if begun.elapsed() >= time {
                break;
            }
            let asked = Instant::now();
            let request = &requests[number % 2];
            match number % 4 {
                3 => drop(target.connect().await?.call(request).await?.len()),
                _ => drop(wire.call(request).await?.len()),
            }
            waits.push(asked.elapsed().as_secs_f64() * 1e3);
        }
        Ok::<_, io::Error>(Latencies::of(waits))
    });
    Ok(measured.await?)
}

/// The most memory that a process has during this time.
async fn peak(pid: u32, time: Duration) -> io::Result<u64> {
    let (begun, mut most) = (Instant::now(), 0);
    while begun.elapsed() < time {
        most = most.max(memory(pid)?);
        tokio::time::sleep(LOOK_EVERY).await;
    }
    // What came and went between two looks, and before the first.
    Ok(most.max(status(pid, "VmHWM:")?))
}

fn memory(pid: u32) -> io::Result<u64> {
    status(pid, "VmRSS:")
}

fn status(pid: u32, what: &str) -> io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(what)).unwrap_or_default();
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().map_err(io::Error::other)?;
    Ok(kib << 10)
}
