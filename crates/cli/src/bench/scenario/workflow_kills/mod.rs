//! Workflow kills: `kill -9` of workers and of the server while three-step workflows are played. Every step is remembered
//! once, every result follows from what is remembered, and no step is executed again without a fallen worker.

pub mod three_steps;
mod verdict;

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use baton::Client;
use baton::proto::{RunView, SubmitRun};
use tokio::process::Child;
use tokio::time::{Instant, sleep, sleep_until};

use super::kills::completed_runs;
use crate::bench::dice::Dice;
use crate::bench::load::{KIND, QUEUE};
use crate::bench::report::{Floor, Report};
use crate::bench::server::{self, Server};
use crate::bench::wire::Target;
use crate::bench::{Store, drain};
use crate::exit::Exit;
use three_steps::{SLOTS, STEPS};
use verdict::{Effects, Remembered, Shown, judge};

/// Workflows, unless told otherwise.
pub const WORKFLOWS: usize = 1_000;
const WORKERS: usize = 4;
/// One worker falls for so many workflows, and at least so many fall.
const WORKFLOWS_A_WORKER: usize = 10;
const WORKER_KILLS_MIN: usize = 8;
/// The same for the server.
const WORKFLOWS_A_SERVER: usize = 33;
const SERVER_KILLS_MIN: usize = 3;
/// A workflow is started each so often. The kills fall into the time in which they are started.
const EVERY: Duration = Duration::from_millis(60);
/// Short, so that workers that fell are missed while others still fall.
const SETTINGS: [(&str, &str); 2] = [("BATON_LEASE_TTL_MS", "1500"), ("BATON_HEARTBEAT_INTERVAL_MS", "300")];
/// A run may be among those of several killed workers; that is not what is to be shown here.
const LOSSES_MAX: u32 = 100;
const LOOK: Duration = Duration::from_millis(20);
/// How long all may take after the last kill.
const PATIENCE: Duration = Duration::from_secs(120);
/// Complaints that are printed.
const COMPLAINTS_SHOWN: usize = 20;

/// Plays it on one store. The seed decides who falls and when; the machine decides what is under way just then.
pub async fn play(store: &Store, workflows: usize, seed: u64, report: &mut Report) -> Result<(), Exit> {
    let mut server = Server::start(store, &SETTINGS).await?;
    let directory = tempfile::Builder::new().prefix("baton-bench-workflows-").tempdir()?;
    let effects = directory.path().join("effects");
    File::create(&effects)?;
    let plan = Plan::of(workflows, seed);
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        workers.push(worker(&server.target, &effects)?);
    }
    let started = tokio::spawn(start_all(server.target.clone(), workflows));
    let begun = Instant::now();
    for (after, victim) in &plan.kills {
        sleep_until(begun + *after).await;
        match victim {
            Victim::Server => {
                server.kill().await?;
                server.start_again().await?;
            }
            Victim::Worker(index) => {
                if let Some(status) = workers[*index].try_wait()? {
                    return Err(Exit::failed(format!("a worker ended by itself ({status})")));
                }
                workers[*index].kill().await?;
                workers[*index] = worker(&server.target, &effects)?;
            }
        }
    }
    let runs = started.await.map_err(|error| Exit::failed(error.to_string()))??;
    let deadline = Instant::now() + PATIENCE;
    while drain::unfinished(&server.target).await? > 0 && Instant::now() < deadline {
        sleep(LOOK).await;
    }
    // Nobody executes anything any more when the effects are read.
    for worker in &mut workers {
        worker.kill().await?;
    }
    let effects = Effects::read(&std::fs::read_to_string(&effects)?).map_err(Exit::failed)?;
    tell(store.peer(), &plan, &server.target, &runs, &effects, report).await
}

/// Looks at everything and reports it.
async fn tell(
    peer: &str,
    plan: &Plan,
    target: &Target,
    runs: &[String],
    effects: &Effects,
    report: &mut Report,
) -> Result<(), Exit> {
    let (mut complaints, mut wrong, mut losses) = (Vec::new(), 0, 0);
    let client = client(target).await?;
    for (id, run) in runs.iter().enumerate() {
        let shown = show(&client, run, id as u64).await?;
        losses += shown.losses;
        let found = judge(&shown, effects);
        wrong += usize::from(!found.is_empty());
        complaints.extend(found.into_iter().map(|what| format!("the workflow {run} {what}")));
    }
    for complaint in complaints.iter().take(COMPLAINTS_SHOWN) {
        eprintln!("baton: {complaint}");
    }
    let expected: HashSet<String> = runs.iter().cloned().collect();
    let beyond = completed_runs(target).await?.symmetric_difference(&expected).count();
    let again = effects.count() as f64 - (runs.len() * STEPS.len()) as f64;
    let settings = format!("of {}; --seed {}", runs.len(), plan.seed);
    report.add(peer, "workflow_kills_workers", plan.workers as f64, "kill -9", settings.clone());
    report.add(peer, "workflow_kills_servers", plan.servers as f64, "kill -9", settings);
    report.check(peer, "workflow_kills_wrong", wrong as f64, "workflows", Floor::AtMost(0.0));
    report.check(peer, "workflow_kills_lost_or_too_many", beyond as f64, "workflows", Floor::AtMost(0.0));
    // Otherwise nothing was shown.
    report.check(peer, "workflow_kills_taken_over", losses.into(), "times", Floor::AtLeast(plan.workers as f64 / 4.0));
    let explained = losses.min(plan.workers as u32 * SLOTS);
    report.check(peer, "workflow_kills_executed_again", again, "steps", Floor::AtMost(explained.into()));
    Ok(())
}

/// Who is killed, and when.
struct Plan {
    seed: u64,
    workers: usize,
    servers: usize,
    kills: Vec<(Duration, Victim)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Victim {
    Worker(usize),
    Server,
}

impl Plan {
    fn of(workflows: usize, seed: u64) -> Plan {
        let workers = (workflows / WORKFLOWS_A_WORKER).max(WORKER_KILLS_MIN);
        let servers = (workflows / WORKFLOWS_A_SERVER).max(SERVER_KILLS_MIN);
        let (mut dice, time) = (Dice::new(seed), EVERY * workflows as u32);
        let mut kills = Vec::with_capacity(workers + servers);
        for index in 0..workers + servers {
            let after = Duration::from_millis(dice.roll(time.as_millis() as u64));
            let victim = dice.roll(WORKERS as u64) as usize;
            kills.push((after, if index < workers { Victim::Worker(victim) } else { Victim::Server }));
        }
        kills.sort_unstable();
        Plan { seed, workers, servers, kills }
    }
}

fn worker(target: &Target, effects: &Path) -> Result<Child, Exit> {
    server::worker(target, &["--effects", &effects.to_string_lossy()])
}

async fn client(target: &Target) -> Result<Client, Exit> {
    Ok(target.connected().await?)
}

/// Starts one workflow after the other and returns their runs. Each has an idempotency key, so that a call whose answer was lost
/// can be repeated.
async fn start_all(target: Target, workflows: usize) -> Result<Vec<String>, Exit> {
    let client = target.client()?;
    let mut ticks = tokio::time::interval(EVERY);
    let mut runs = Vec::with_capacity(workflows);
    for id in 0..workflows {
        ticks.tick().await;
        let input = serde_json::value::to_raw_value(&id).map_err(|error| Exit::failed(error.to_string()))?;
        let run = SubmitRun {
            input: Some(input),
            idempotency_key: Some(id.to_string()),
            max_losses: Some(LOSSES_MAX),
            ..SubmitRun::new(QUEUE, KIND)
        };
        runs.push(loop {
            match client.submit(&run).await {
                Ok(submitted) => break submitted.id,
                // The server is being killed; it comes back.
                Err(error) if error.is_transient() => sleep(LOOK).await,
                Err(error) => return Err(error.into()),
            }
        });
    }
    Ok(runs)
}

async fn show(client: &Client, run: &str, id: u64) -> Result<Shown, Exit> {
    let RunView { state, losses, output, .. } = client.run(run).await?;
    let memory = client.workflow(run).steps().await?.into_iter().map(|step| Remembered {
        kind: step.kind,
        name: step.name,
        state: step.state,
        made: serde_json::from_slice(&step.output).ok(),
    });
    let output = output.and_then(|output| serde_json::from_str(output.get()).ok());
    Ok(Shown { run: run.to_owned(), id, state, losses, output, memory: memory.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_who_falls_and_when() {
        let (one, same, other) = (Plan::of(1_000, 7), Plan::of(1_000, 7), Plan::of(1_000, 8));
        assert_eq!(one.kills, same.kills);
        assert_ne!(one.kills, other.kills);
        let servers = one.kills.iter().filter(|(_, victim)| *victim == Victim::Server).count();
        assert_eq!((one.kills.len() - servers, servers), (100, 30));
        assert!(one.kills.iter().all(|(after, _)| *after < EVERY * 1_000));
        assert_eq!(Plan::of(60, 7).kills.len(), WORKER_KILLS_MIN + SERVER_KILLS_MIN);
    }
}
