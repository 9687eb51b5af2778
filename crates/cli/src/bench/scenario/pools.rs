//! Pools: warm machines are handed over in a moment, and machines that wait cost next to nothing.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use baton::proto::{CreatePool, JoinRunner, NAMESPACE_DEFAULT, OpenClaim, SignalRunner};
use baton::{Client, ClientError};
use baton_core::pools::{ClaimState, Signal};
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::idle::cpu_seconds;
use crate::bench::Store;
use crate::bench::pickup::Latencies;
use crate::bench::report::{Floor, Report};
use crate::bench::server::Server;
use crate::exit::Exit;

/// Claims that are timed, unless told otherwise.
pub const ROUNDS: usize = 100;
/// Machines of each claim.
const MACHINES: u32 = 10;
/// The median of a claim of warm machines.
const CLAIM_MS_MAX: f64 = 1_000.0;
/// Agents that wait and send heartbeats.
const AGENTS: u32 = 500;
/// Share of one core, in percent.
const CPU_MAX: f64 = 10.0;
const POOL: &str = "bench";
const LOOK: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a question about the next order waits on the server, as agents do it.
const LISTEN: Duration = Duration::from_secs(30);
/// Until whatever their coming has left to be done is done.
const SETTLED_AFTER: Duration = Duration::from_secs(12);
/// Agents of a server that was killed do not stay for long.
const SETTINGS: [(&str, &str); 1] = [("BATON_POOL_ABANDON_MS", "60000")];

/// Plays it on one store.
pub async fn play(store: &Store, rounds: usize, seconds: u64, report: &mut Report) -> Result<(), Exit> {
    claims(store, rounds, report).await?;
    waiting(store, Duration::from_secs(seconds), report).await
}

fn client(server: &Server) -> Result<Client, Exit> {
    Ok(server.target.client()?)
}

/// Machines of the provider `local`, claimed and released again and again.
async fn claims(store: &Store, rounds: usize, report: &mut Report) -> Result<(), Exit> {
    let mut server = Server::start(store, &SETTINGS).await?;
    let client = client(&server)?;
    let mut pool = CreatePool { min_idle: MACHINES, max_size: Some(MACHINES), ..CreatePool::new(POOL) };
    pool.options.insert("agent.register_hook".into(), "true".into());
    client.create_pool(&pool).await?;
    let mut waits = Vec::with_capacity(rounds);
    for round in 0..rounds {
        until_idle(&client, MACHINES).await?;
        let begun = Instant::now();
        let run_id = format!("round-{round}");
        client.open_pool_claim(NAMESPACE_DEFAULT, POOL, &OpenClaim::new(&run_id, MACHINES)).await?;
        let claim = client.wait_for_pool_claim(NAMESPACE_DEFAULT, POOL, &run_id, LISTEN).await?;
        if claim.state != ClaimState::Ready {
            return Err(Exit::failed(format!("the claim of {run_id} is {}", claim.state.as_str())));
        }
        waits.push(begun.elapsed().as_secs_f64() * 1e3);
        client.release_pool_claim(NAMESPACE_DEFAULT, POOL, &run_id).await?;
    }
    let waits = Latencies::of(waits);
    let peer = store.peer();
    report.check(peer, "pools_claim_p50", waits.quantile(0.5), "ms", Floor::AtMost(CLAIM_MS_MAX));
    let settings = format!("{MACHINES} warm local machines, {rounds} times, a registration hook that does nothing");
    report.add(peer, "pools_claim_p99", waits.quantile(0.99), "ms", settings);
    // Its machines are processes that outlive the server.
    client.delete_pool(NAMESPACE_DEFAULT, POOL).await?;
    until("the end of the machines", async || match client.pool(NAMESPACE_DEFAULT, POOL).await {
        Err(ClientError::Refused { status: 404, .. }) => Ok(true),
        other => other.map(|_| false),
    })
    .await?;
    server.stop().await;
    Ok(())
}

/// Agents in this process, of machines that a script makes up.
async fn waiting(store: &Store, time: Duration, report: &mut Report) -> Result<(), Exit> {
    let directory = tempfile::Builder::new().prefix("baton-bench-").tempdir()?;
    write_script(directory.path())?;
    let scripts = directory.path().display().to_string();
    let mut server = Server::start(store, &[("BATON_POOL_COMMAND_DIRECTORY", &scripts)]).await?;
    let client = client(&server)?;
    let mut pool = CreatePool { min_idle: AGENTS, max_size: Some(AGENTS), ..CreatePool::new(POOL) };
    pool.provider = Some("command".into());
    pool.options.insert("script".into(), "script".into());
    client.create_pool(&pool).await?;
    // Agents have no key.
    let keyless = server.target.client_with("")?;
    let mut agents = JoinSet::new();
    let mut started = 0;
    let deadline = Instant::now() + PATIENCE;
    // Machines may be ordered in several parts.
    while started < AGENTS {
        for asked in orders(directory.path())? {
            for number in 0..asked.count {
                let (client, token) = (keyless.clone(), asked.environment.join_token.clone());
                let machine_id = format!("{}-{number}", asked.token);
                let stagger = Duration::from_secs(5) * started / AGENTS;
                agents.spawn(async move { agent(&client, &token, machine_id, stagger).await });
                started += 1;
            }
        }
        if Instant::now() > deadline {
            return Err(Exit::failed(format!("{started} of {AGENTS} machines were asked for")));
        }
        sleep(LOOK).await;
    }
    while_all_live(&mut agents, until_idle(&client, AGENTS)).await??;
    while_all_live(&mut agents, sleep(SETTLED_AFTER)).await?;
    let (begun, before) = (Instant::now(), cpu_seconds(server.pid())?);
    while_all_live(&mut agents, sleep(time)).await?;
    let cpu = 100.0 * (cpu_seconds(server.pid())? - before) / begun.elapsed().as_secs_f64();
    let idle = idle(&client).await?;
    let peer = store.peer();
    report.check(peer, "pools_agents_idle", idle as f64, "agents", Floor::AtLeast(f64::from(AGENTS)));
    report.check(peer, "pools_agents_cpu", cpu, "% of a core", Floor::AtMost(CPU_MAX));
    agents.abort_all();
    server.stop().await;
    Ok(())
}

enum Never {}

/// Waits for something, unless an agent gives up before.
async fn while_all_live<T>(
    agents: &mut JoinSet<Result<Never, ClientError>>,
    waiting: impl Future<Output = T>,
) -> Result<T, Exit> {
    tokio::select! {
        done = waiting => Ok(done),
        Some(ended) = agents.join_next() => {
            let ended = ended.map_err(|error| Exit::failed(error.to_string()))?;
            Err(ended.map_or_else(Exit::from, |never| match never {}))
        }
    }
}

/// An agent of a machine that nobody claims.
async fn agent(client: &Client, token: &str, machine_id: String, stagger: Duration) -> Result<Never, ClientError> {
    // As in life: they did not all start in the same moment.
    sleep(stagger).await;
    let joined = client.join_runner(token, &JoinRunner { machine_id, nonce: "0".repeat(32) }).await?;
    let (runner, token) = (joined.runner_id.as_str(), joined.token.as_str());
    let ready = SignalRunner { signal: Signal::Ready, epoch: joined.order.epoch, run_id: None, detail: String::new() };
    let mut serial = client.signal_runner(runner, token, &ready).await?.order.serial;
    let listening = async {
        loop {
            serial = client.next_runner_order(runner, token, &serial, LISTEN).await?.serial;
        }
    };
    let beating = async {
        let mut beats = tokio::time::interval(Duration::from_millis(joined.heartbeat_ms));
        loop {
            beats.tick().await;
            client.beat_runner(runner, token).await?;
        }
    };
    tokio::select! {
        ended = listening => ended,
        ended = beating => ended,
    }
}

/// Notes what it is asked for, and answers as if it had been done.
const SCRIPT: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
input=$(cat)
made='*'
if [ "$1" = create ]; then
    made=$(printf '%s' "$input" | sed -n 's/.*"token":"\([^"]*\)".*/\1/p')
    count=$(printf '%s' "$input" | sed -n 's/.*"count":\([0-9]*\).*/\1/p')
    seq 0 $((count - 1)) | sed "s/.*/{\"id\":\"$made-&\",\"token\":\"$made\"}/" | paste -sd, >"$made.made"
    [ -e "$made.taken" ] || { printf '%s' "$input" >"$made.draft" && mv "$made.draft" "$made.order"; }
fi
[ "$1" = terminate ] || printf '{"machines":[%s]}' "$(cat ./$made.made 2>/dev/null | paste -sd,)"
"#;

fn write_script(directory: &Path) -> io::Result<()> {
    let path = directory.join("script");
    std::fs::write(&path, SCRIPT)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))
}

#[derive(Deserialize)]
struct Asked {
    token: String,
    count: u32,
    environment: Environment,
}

#[derive(Deserialize)]
struct Environment {
    #[serde(rename = "BATON_JOIN_TOKEN")]
    join_token: String,
}

/// Orders that the script was given since the last look.
fn orders(directory: &Path) -> io::Result<Vec<Asked>> {
    let mut orders = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "order") {
            orders.push(serde_json::from_slice(&std::fs::read(&path)?)?);
            std::fs::rename(&path, path.with_extension("taken"))?;
        }
    }
    Ok(orders)
}

async fn idle(client: &Client) -> Result<u64, ClientError> {
    let pool = client.pool(NAMESPACE_DEFAULT, POOL).await?;
    Ok(pool.runners.get("idle").copied().unwrap_or(0))
}

async fn until_idle(client: &Client, machines: u32) -> Result<(), Exit> {
    let what = format!("{machines} idle machines");
    until(&what, async || Ok(idle(client).await? == u64::from(machines))).await
}

async fn until(what: &str, look: impl AsyncFn() -> Result<bool, ClientError>) -> Result<(), Exit> {
    let deadline = Instant::now() + PATIENCE;
    while !look().await? {
        if Instant::now() > deadline {
            return Err(Exit::failed(format!("not within {PATIENCE:?}: {what}")));
        }
        sleep(LOOK).await;
    }
    Ok(())
}
