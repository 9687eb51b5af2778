//! Chaos: workers and the server are killed at random while 3,000 runs are worked on.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use baton::proto::SubmitRun;
use baton_core::State;
use baton_testkit::Process;

use crate::on_both_stores;
use crate::site::{Leases, Site, Store, job, submit};
use crate::verdict::{assert_completed_once, count};
use crate::wait::PATIENCE;

const RUNS: usize = 3_000;
const WORKERS: usize = 4;
const CONCURRENCY: u32 = 8;
const KILLS: usize = 12;
const PAUSE: Duration = Duration::from_millis(300);
const SEED: u64 = 0x5eed_0012;

/// Numbers that the seed decides (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) % sides as u64) as usize
    }
}

/// Completions that a worker says the server took, by run, with the epochs they were made under.
fn note_completions(worker: &Process, completions: &mut HashMap<String, HashSet<String>>) {
    for line in worker.output().lines().filter(|line| line.contains("report=Complete") && line.contains("reported")) {
        let field = |name: &str| {
            let value = line.split_whitespace().find_map(|word| word.strip_prefix(name));
            value.unwrap_or_else(|| panic!("no {name} in {line}")).to_owned()
        };
        completions.entry(field("run_id=")).or_default().insert(field("epoch="));
    }
}

async fn nothing_is_lost_or_completed_twice_in_chaos(store: Store) {
    println!("seed {SEED:#x}");
    let mut dice = Dice(SEED);
    let mut site = Site::start(store, Leases::of_ms(1_500, 300)).await;
    let client = site.client();
    let effects = site.home.path().join("effects");
    // One short line to the end of a file is written as a whole, whoever else writes. The work takes a moment, so that it
    // outlasts the kills on the fastest machine.
    let command = format!("sleep 0.05; echo \"$BATON_RUN_ID $BATON_EPOCH\" >> '{}'", effects.display());
    // No run is given up as poison here: what is killed is chance, not the run's fault.
    let ids = submit(&client, vec![SubmitRun { max_losses: Some(100), ..job() }; RUNS]).await;
    let mut workers: Vec<Process> = (0..WORKERS).map(|_| site.worker(CONCURRENCY, &command)).collect();
    let mut fallen = Vec::new();
    let mut server_kills = 0;
    for _ in 0..KILLS {
        tokio::time::sleep(PAUSE).await;
        match dice.roll(WORKERS + 1) {
            WORKERS => {
                site.server.kill9();
                site.server.restart().await;
                server_kills += 1;
            }
            victim => {
                workers[victim].sigkill();
                let next = site.worker(CONCURRENCY, &command);
                fallen.push(std::mem::replace(&mut workers[victim], next));
            }
        }
    }
    let left = RUNS as u64 - count(&client, Some(State::Completed)).await;
    assert!(left > 0, "everything was done before the last kill");
    println!("{} workers and {server_kills} servers killed, {left} runs left after the last kill", fallen.len());

    let until = tokio::time::Instant::now() + PATIENCE;
    while count(&client, Some(State::Completed)).await < RUNS as u64 {
        let outputs = || workers.iter().map(Process::output).collect::<Vec<_>>().join("\n---\n");
        assert!(tokio::time::Instant::now() < until, "runs are stuck; the workers printed:\n{}", outputs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for worker in &mut workers {
        assert_eq!(worker.sigterm_and_wait(PATIENCE).await.code(), Some(0), "{}", worker.output());
    }

    let ended = assert_completed_once(&client, &ids).await;
    let mut completions = HashMap::new();
    fallen.iter().chain(&workers).for_each(|worker| note_completions(worker, &mut completions));
    let effects = std::fs::read_to_string(&effects).unwrap();
    let executed: HashSet<&str> = effects.lines().collect();
    let mut taken_over = 0;
    for ended in &ended {
        let run = &ended.run;
        taken_over += usize::from(run.epoch > 1);
        assert!(executed.contains(format!("{} {}", run.id, run.epoch).as_str()), "nobody did the work of {ended:?}");
        // A worker may die between the completion and the news of it, so some runs have no line.
        if let Some(epochs) = completions.get(&run.id) {
            assert_eq!(*epochs, HashSet::from([run.epoch.to_string()]), "completed twice, or by nobody: {ended:?}");
        }
    }
    assert!(taken_over > 0, "no kill hit a worker with runs in its hands");
    println!("{} executions, {taken_over} runs taken over", effects.lines().count());
}

on_both_stores!(nothing_is_lost_or_completed_twice_in_chaos);
