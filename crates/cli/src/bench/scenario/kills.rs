//! Kills: `kill -9` of workers and of the server, again and again, and every run is completed exactly once.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use baton::Client;
use baton::runs::{Report as Reported, Worker, WorkerEvent};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;

use crate::bench::drain;
use crate::bench::load::{self, KIND, QUEUE};
use crate::bench::report::{Floor, Report};
use crate::bench::server::{self, Server};
use crate::bench::wire::Target;
use crate::bench::{Store, worker};
use crate::exit::Exit;

const RUNS: usize = 50_000;
const KILLS: usize = 20;
/// Every so many kills it is the server's turn.
const SERVER_EVERY: usize = 4;
const WORKERS: usize = 4;
/// Runs that one worker works on at once.
const SLOTS: u32 = 200;
/// Short, so that the scenario does not spend its time waiting for leases to end.
const SETTINGS: [(&str, &str); 2] = [("BATON_LEASE_TTL_MS", "2000"), ("BATON_HEARTBEAT_INTERVAL_MS", "500")];
/// A run may be among those of several killed workers; that is not what is to be shown here.
const LOSSES_MAX: u32 = 100;
const HELD: usize = 100;
const QUEUED: usize = 100_000;
const LOOK: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(300);
/// A line of a worker: an identifier, an epoch, and what is between them.
const LINE_BYTES: u64 = 36 + 1 + 6 + 1;

/// Plays it on one store.
pub async fn play(store: &Store, report: &mut Report) -> Result<(), Exit> {
    storm(store, report).await?;
    worker_with_held_runs(store, report).await?;
    server_with_queue(store, report).await
}

/// The worker of the storm: works with the SDK, and notes each completion that the server has confirmed.
pub async fn work(client: Client, confirmed: &Path) -> Result<(), Exit> {
    let file = Mutex::new(OpenOptions::new().append(true).create(true).open(confirmed)?);
    let note = move |event| {
        if let WorkerEvent::Reported { run_id, epoch, report: Reported::Complete } = event
            && let Ok(mut file) = file.lock()
        {
            // One write for the whole line, so that a kill leaves all of it or nothing. What cannot be noted is
            // missing from the notes only: the store knows better.
            let _ = file.write_all(format!("{run_id} {epoch:>6}\n").as_bytes());
        }
    };
    Worker::new(client, [KIND])
        .queue(QUEUE)
        .concurrency(SLOTS)
        .watch(note)
        .run(|_, _| async { Ok(Value::Null) }, std::future::pending())
        .await?;
    Ok(())
}

/// Twenty kills while fifty thousand runs are worked on.
async fn storm(store: &Store, report: &mut Report) -> Result<(), Exit> {
    let mut server = Server::start(store, &SETTINGS).await?;
    let directory = tempfile::Builder::new().prefix("baton-bench-kills-").tempdir()?;
    let mut crew =
        Crew { target: server.target.clone(), directory: directory.path().to_owned(), files: vec![], children: vec![] };
    let submitted = tokio::spawn(submit_all(server.target.clone()));
    for _ in 0..WORKERS {
        crew.join()?;
    }
    let deadline = Instant::now() + PATIENCE;
    for kill in 1..=KILLS {
        // Spread over the work, but for its end: killed workers have not noted all that they completed.
        let due = RUNS * 9 / 10 * kill / KILLS;
        while crew.confirmed()? < due as u64 && Instant::now() < deadline {
            tokio::time::sleep(LOOK).await;
        }
        if kill % SERVER_EVERY == 0 {
            server.kill().await?;
            server.start_again().await?;
        } else {
            crew.lose(kill % WORKERS).await?;
        }
    }
    let submitted = submitted.await.map_err(|error| Exit::failed(error.to_string()))??;
    while drain::unfinished(&server.target).await? > 0 && Instant::now() < deadline {
        tokio::time::sleep(LOOK).await;
    }
    let unfinished = drain::unfinished(&server.target).await?;
    crew.children.clear();
    let completed = completed_runs(&server.target).await?;
    let peer = store.peer();
    let lost = submitted.iter().filter(|run| !completed.contains(*run)).count();
    report.check(peer, "kills_unfinished", unfinished as f64, "runs", Floor::AtMost(0.0));
    report.check(peer, "kills_lost", lost as f64, "runs", Floor::AtMost(0.0));
    let beyond = completed.len().abs_diff(RUNS);
    report.check(peer, "kills_more_or_fewer_than_submitted", beyond as f64, "runs", Floor::AtMost(0.0));
    report.check(peer, "kills_completed_twice", crew.completed_twice()? as f64, "runs", Floor::AtMost(0.0));
    Ok(())
}

/// The worker processes, and the notes they leave.
struct Crew {
    target: Target,
    directory: PathBuf,
    files: Vec<PathBuf>,
    children: Vec<Child>,
}

impl Crew {
    fn start(&mut self) -> Result<Child, Exit> {
        let path = self.directory.join(self.files.len().to_string());
        File::create(&path)?;
        let child = server::worker(&self.target, &["--confirmed", &path.to_string_lossy()])?;
        self.files.push(path);
        Ok(child)
    }

    fn join(&mut self) -> Result<(), Exit> {
        let child = self.start()?;
        self.children.push(child);
        Ok(())
    }

    /// Kills one, and has another take its place.
    async fn lose(&mut self, index: usize) -> Result<(), Exit> {
        self.children[index].kill().await?;
        self.children[index] = self.start()?;
        Ok(())
    }

    /// Completions that workers have noted.
    fn confirmed(&self) -> Result<u64, Exit> {
        let mut bytes = 0;
        for file in &self.files {
            bytes += std::fs::metadata(file)?.len();
        }
        Ok(bytes / LINE_BYTES)
    }

    /// Runs whose completion was confirmed under two epochs.
    fn completed_twice(&self) -> Result<usize, Exit> {
        let mut epochs: HashMap<String, HashSet<String>> = HashMap::new();
        for file in &self.files {
            for line in std::fs::read_to_string(file)?.lines() {
                if let Some((run, epoch)) = line.split_once(' ') {
                    epochs.entry(run.to_owned()).or_default().insert(epoch.trim().to_owned());
                }
            }
        }
        Ok(epochs.values().filter(|epochs| epochs.len() > 1).count())
    }
}

/// Submits all runs and returns those that the server has acknowledged. Each has an idempotency key, so that a call
/// whose answer was lost can be repeated.
async fn submit_all(target: Target) -> Result<Vec<String>, Exit> {
    let client = target.client()?;
    let mut submitted = Vec::with_capacity(RUNS);
    for batch in 0..RUNS / load::BULK_RUNS {
        let mut runs = Vec::with_capacity(load::BULK_RUNS);
        for index in 0..load::BULK_RUNS {
            let mut run: baton::proto::SubmitRun =
                serde_json::from_str(&load::run(index as i64)).map_err(|error| Exit::failed(error.to_string()))?;
            run.idempotency_key = Some(format!("{batch}-{index}"));
            run.max_losses = Some(LOSSES_MAX);
            runs.push(run);
        }
        let batch = baton::proto::SubmitBatch { runs };
        let answer = loop {
            match client.submit_batch(&batch).await {
                Ok(answer) => break answer,
                // The server is being killed; it comes back.
                Err(error) if error.is_transient() => tokio::time::sleep(LOOK).await,
                Err(error) => return Err(error.into()),
            }
        };
        submitted.extend(answer.runs.into_iter().map(|run| run.id));
    }
    Ok(submitted)
}

/// All runs that are completed, read page by page.
pub(super) async fn completed_runs(target: &Target) -> Result<HashSet<String>, Exit> {
    let mut completed = HashSet::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/api/v1/runs?queue={QUEUE}&state=completed&limit={}{cursor}", baton::proto::PAGE_MAX);
        let answer = target.once("GET", &path, "").await?;
        let page: baton::proto::RunPage =
            serde_json::from_slice(&answer).map_err(|error| Exit::failed(error.to_string()))?;
        completed.extend(page.runs.into_iter().map(|run| run.id));
        match page.next_cursor {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(completed),
        }
    }
}

/// A worker dies with runs in its hands: how long until the last of them can be claimed again.
async fn worker_with_held_runs(store: &Store, report: &mut Report) -> Result<(), Exit> {
    let server = Server::start(store, &[]).await?;
    let target = &server.target;
    load::bulk(target, HELD).await?;
    let mut holder = server::worker(target, &["--hold", &HELD.to_string()])?;
    let gone = || Exit::failed("the worker that was to hold runs ended");
    let mut lines = BufReader::new(holder.stdout.take().ok_or_else(gone)?).lines();
    let held = lines.next_line().await?.ok_or_else(gone)?;
    if held != HELD.to_string() {
        return Err(Exit::failed(format!("the worker was to hold {HELD} runs and holds {held}")));
    }
    let heir = worker::register(target).await?;
    let beats = tokio::spawn(worker::beat(target.clone(), heir.clone()));
    holder.kill().await?;
    let killed = Instant::now();
    let mut wire = target.connect().await?;
    let (mut claimed, mut number) = (0, 1);
    while claimed < HELD && killed.elapsed() < PATIENCE {
        claimed += worker::held(wire.call(&worker::claim(target, &heir, number, HELD, 1_000)).await?)?.len();
        number += 1;
    }
    let time = killed.elapsed().as_secs_f64();
    beats.abort();
    let floor = Floor::AtMost(heir.lease_ttl_ms as f64 / 1e3 + 1.0);
    report.check(store.peer(), "kills_held_runs_claimed_again", time, "s", floor);
    Ok(())
}

/// The server dies with a long queue: how long from its new start to the first claim.
async fn server_with_queue(store: &Store, report: &mut Report) -> Result<(), Exit> {
    let mut server = Server::start(store, &[]).await?;
    load::bulk(&server.target, QUEUED).await?;
    let worker = worker::register(&server.target).await?;
    server.kill().await?;
    let begun = Instant::now();
    server.start_again().await?;
    let mut wire = server.target.connect().await?;
    let claim = worker::claim(&server.target, &worker, 1, 1, 10_000);
    let claimed = worker::held(wire.call(&claim).await?)?.len();
    let time = if claimed == 1 { begun.elapsed().as_secs_f64() } else { f64::NAN };
    report.check(store.peer(), "kills_first_claim_after_restart", time, "s", Floor::AtMost(2.0));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_under_two_epochs_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let notes = ["a      1\nb      1\nb      1\n", "c      1\na      2\n"];
        let files: Vec<PathBuf> = (0..2).map(|index| directory.path().join(index.to_string())).collect();
        files.iter().zip(notes).for_each(|(path, notes)| std::fs::write(path, notes).unwrap());
        let target = Target::new("http://h:1", "k", baton::Tls::new()).unwrap();
        let crew = Crew { target, directory: directory.path().to_owned(), files, children: vec![] };
        assert_eq!(crew.completed_twice().unwrap(), 1, "confirming the same epoch again is harmless");
    }
}
