//! Idle: a thousand workers that wait for work and send heartbeats, and nothing to do.

use std::io;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::bench::Store;
use crate::bench::database;
use crate::bench::load;
use crate::bench::report::{Floor, Report};
use crate::bench::server::Server;
use crate::bench::wire::Target;
use crate::bench::worker;
use crate::exit::Exit;

const WORKERS: usize = 1_000;
/// Registrations at a time.
const REGISTER_IN_FLIGHT: usize = 16;
const POLL_WAIT_MS: u64 = 60_000;
/// Share of one core, in percent.
const CPU_MAX: f64 = 5.0;
const STATEMENTS_MAX: f64 = 25.0;
const LOOK: Duration = Duration::from_millis(100);
/// PostgreSQL counts the transactions of an idle connection only after ten seconds; those of the registrations are not
/// of interest here.
const SETTLED_AFTER: Duration = Duration::from_secs(12);
const PARK_PATIENCE: Duration = Duration::from_secs(60);
/// What Linux counts processor time in, on every platform it runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Plays it on one store.
pub async fn play(store: &Store, seconds: u64, report: &mut Report) -> Result<(), Exit> {
    let server = Server::start(store, &[]).await?;
    let target = server.target.clone();
    let crowd = tokio::spawn(load::on_one_thread(crowd(target.clone())));
    let deadline = Instant::now() + PARK_PATIENCE;
    while metric(&target, "baton_polls_waiting").await? < WORKERS as f64 {
        if crowd.is_finished() {
            let ended = crowd.await.map_err(|error| Exit::failed(error.to_string()))?;
            return Err(ended.map_or_else(Exit::from, |()| Exit::failed("the workers ended")));
        }
        if Instant::now() > deadline {
            return Err(Exit::failed(format!("{WORKERS} polls did not come to wait in time")));
        }
        tokio::time::sleep(LOOK).await;
    }
    tokio::time::sleep(SETTLED_AFTER).await;
    let (begun, before) = (Instant::now(), Usage::of(&server).await?);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (time, after) = (begun.elapsed().as_secs_f64(), Usage::of(&server).await?);
    let waiting = metric(&target, "baton_polls_waiting").await?;
    let peer = store.peer();
    let cpu = 100.0 * (after.cpu_seconds - before.cpu_seconds) / time;
    report.check(peer, "idle_polls_waiting", waiting, "polls", Floor::AtLeast(0.99 * WORKERS as f64));
    report.check(peer, "idle_cpu", cpu, "% of a core", Floor::AtMost(CPU_MAX));
    let statements = (after.statements - before.statements) / time;
    report.check(peer, "idle_statements", statements, "1/s", Floor::AtMost(STATEMENTS_MAX));
    if let (Some(before), Some(after)) = (before.transactions, after.transactions) {
        let rate = (after - before) as f64 / time;
        report.add(peer, "idle_transactions", rate, "1/s", "as PostgreSQL counts them, our own looks included");
    }
    crowd.abort();
    Ok(())
}

struct Usage {
    cpu_seconds: f64,
    statements: f64,
    transactions: Option<i64>,
}

impl Usage {
    async fn of(server: &Server) -> Result<Usage, Exit> {
        let transactions = match &server.database {
            Some(database) => {
                let sql = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()";
                Some(database::number(&database.connect().await?, sql).await?)
            }
            None => None,
        };
        Ok(Usage {
            cpu_seconds: cpu_seconds(server.pid())?,
            statements: metric(&server.target, "baton_store_statements_total").await?,
            transactions,
        })
    }
}

/// Processor time that a process has used so far.
pub(super) fn cpu_seconds(pid: u32) -> io::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may hold anything; behind it are plain fields, of which 12 and 13 are the times.
    let fields = text.rsplit_once(')').map(|(_, after)| after.split_whitespace().skip(11).take(2));
    let ticks: f64 = fields.into_iter().flatten().filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / TICKS_PER_SECOND)
}

/// The value of a metric of the server.
pub(super) async fn metric(target: &Target, name: &str) -> Result<f64, Exit> {
    let text = target.once("GET", "/metrics", "").await?;
    let text = String::from_utf8_lossy(&text);
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.ok_or_else(|| Exit::failed(format!("the server does not count {name}")))
}

/// A thousand workers: each waits on one connection and sends heartbeats on another.
async fn crowd(target: Target) -> io::Result<()> {
    let mut joining = JoinSet::new();
    let mut workers = Vec::with_capacity(WORKERS);
    for _ in 0..WORKERS {
        if joining.len() == REGISTER_IN_FLIGHT {
            workers.extend(joining.join_next().await);
        }
        let target = target.clone();
        joining.spawn(async move { worker::register(&target).await });
    }
    workers.extend(joining.join_all().await.into_iter().map(Ok));
    let mut busy: JoinSet<io::Result<()>> = JoinSet::new();
    for (index, worker) in workers.into_iter().enumerate() {
        let worker = worker.map_err(io::Error::other)??;
        let stagger = Duration::from_millis(worker.heartbeat_interval_ms) * index as u32 / WORKERS as u32;
        busy.spawn(wait_for_work(target.clone(), worker.clone()));
        let target = target.clone();
        busy.spawn(async move {
            // As in life: they did not all start in the same moment.
            tokio::time::sleep(stagger).await;
            worker::beat(target, worker).await
        });
    }
    // None of them ends while all is well.
    match busy.join_next().await {
        Some(ended) => ended.map_err(io::Error::other)?,
        None => Ok(()),
    }
}

async fn wait_for_work(target: Target, worker: baton::proto::RegisteredWorker) -> io::Result<()> {
    let mut wire = target.connect().await?;
    for number in 1.. {
        wire.call(&worker::claim(&target, &worker, number, 1, POLL_WAIT_MS)).await?;
    }
    Ok(())
}
