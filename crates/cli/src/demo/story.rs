//! What happens in the demo: runs are submitted, one worker is killed, another is frozen until others have its runs.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton::Client;
use baton::proto::{RunView, SubmitBatch, SubmitRun};
use baton::runs::WorkerEvent;
use baton_core::{Millis, State};
use serde_json::value::to_raw_value;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::board::{Board, Fate};
use super::children::WorkerProcess;
use super::screen::Screen;
use super::worker::DemoInput;
use super::{Pace, QUEUE, RUN_TYPE};
use crate::commands::open;
use crate::exit::Exit;

/// Which worker is killed, and which is frozen.
const VICTIM: usize = 1;
const ZOMBIE: usize = 2;
/// How often the server is asked what it has noticed.
const LOOK: Duration = Duration::from_millis(50);
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// A worker that went silent, and what became of its runs.
#[derive(Debug)]
pub struct Outage {
    /// Which worker.
    pub worker: usize,
    /// The incarnation that went silent.
    pub worker_id: String,
    at: Instant,
    at_clock: Millis,
    /// When the server noticed.
    pub noticed: Option<Duration>,
    /// What it held.
    pub runs: Vec<String>,
    /// When the last of them was completed elsewhere.
    pub recovered: Option<Duration>,
    /// How many of them were completed under another epoch. The rest it had reported in the very moment in which it
    /// went silent.
    lost: usize,
}

/// The demo while it goes on.
pub struct Story {
    pub client: Client,
    pub workers: Vec<WorkerProcess>,
    pub events: mpsc::UnboundedReceiver<(usize, WorkerEvent)>,
    pub board: Board,
    pub screen: Screen,
    pub pace: Pace,
    /// Identifiers of the runs, in the order of submission.
    pub runs: Vec<String>,
    pub outages: Vec<Outage>,
}

impl Story {
    /// Plays from beginning to end. It ends when all is well, or when it has taken too long.
    pub async fn play(&mut self) -> Result<(), Exit> {
        let started = Instant::now() + START_TIMEOUT;
        let registered = |board: &Board| board.rows.iter().all(|row| row.worker_id.is_some());
        if !self.pump(started, registered).await {
            return Err(Exit::failed("the demo's workers did not register in time"));
        }
        let end = Instant::now() + self.pace.longest;
        self.submit().await?;
        self.pump(Instant::now() + self.pace.quiet, |_| false).await;
        if let Some(look) = self.pace.look {
            self.open(VICTIM, end).await?;
            self.pump(Instant::now() + look, |_| false).await;
        }
        self.silence(VICTIM, Fate::Killed, libc::SIGKILL, end).await?;
        self.silence(ZOMBIE, Fate::Frozen, libc::SIGSTOP, end).await?;
        while !self.is_over() && Instant::now() < end {
            self.pump(Instant::now() + LOOK, |_| false).await;
            for outage in 0..self.outages.len() {
                self.look_at(outage).await?;
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let recovered = self.outages.iter().all(|outage| outage.recovered.is_some());
        let refused = self.board.refusals.iter().filter(|refusal| refusal.worker == ZOMBIE).count();
        // Long work is given up when the zombie hears that its lease is over: then it may report what was done by then, and no more.
        let expected = |outage: &Outage| if self.pace.look.is_some() { outage.lost.min(1) } else { outage.lost };
        let zombie_spoke = self.outages.iter().any(|outage| outage.worker == ZOMBIE && refused >= expected(outage));
        // A worker that was killed may have taken the news of its last completion with it, so that one is not counted.
        recovered && zombie_spoke && self.board.rows.iter().all(|row| row.fate == Fate::Killed || row.held.is_empty())
    }

    async fn submit(&mut self) -> Result<(), Exit> {
        let (least, spread) = self.pace.work_ms;
        let run = |number: usize| {
            let name = format!("run-{number:02}");
            // Not all alike, so that the workers do not march in step.
            let input = DemoInput { name: name.clone(), work_ms: least + (number as u64 * 170) % spread };
            let input = to_raw_value(&input).map_err(|error| Exit::failed(error.to_string()))?;
            Ok((name, SubmitRun { input: Some(input), ..SubmitRun::new(QUEUE, RUN_TYPE) }))
        };
        let (names, runs): (Vec<String>, Vec<SubmitRun>) =
            (1..=self.pace.runs).map(run).collect::<Result<Vec<_>, Exit>>()?.into_iter().unzip();
        let submitted = self.client.submit_batch(&SubmitBatch { runs }).await?;
        self.runs = submitted.runs.into_iter().map(|run| run.id).collect();
        self.board.names = self.runs.iter().cloned().zip(names).collect();
        self.screen.log(format!("{} runs submitted, {} workers at work", self.pace.runs, self.workers.len()));
        Ok(())
    }

    /// Opens the page of a run that this worker holds, or says where it is.
    async fn open(&mut self, worker: usize, end: Instant) -> Result<(), Exit> {
        if !self.pump(end, |board| !board.rows[worker].held.is_empty()).await {
            return Err(Exit::failed("a worker of the demo got no runs"));
        }
        let row = &self.board.rows[worker];
        let Some(run) = row.held.keys().next().cloned() else { return Ok(()) };
        let (name, held) = (row.name, self.board.name(&run).to_owned());
        let url = open::signed_in(&self.client, &format!("/runs/{run}")).await?;
        match open::in_browser(&url).await {
            true => self.screen.log(format!("your browser shows {held}, which {name} holds: watch its lease")),
            false => {
                self.screen.log(format!("open this, which signs in once, to see {held} of {name}:\n\n    {url}\n"))
            }
        }
        Ok(())
    }

    /// Waits until the worker has just got a run, which it will hold for most of its time, and sends it the signal.
    async fn silence(&mut self, worker: usize, fate: Fate, signal: i32, end: Instant) -> Result<(), Exit> {
        // Where somebody looks at one, it is that which has to be lost.
        let is_watched = self.pace.look.is_some() && fate == Fate::Killed;
        let before = if is_watched { BTreeMap::new() } else { self.board.rows[worker].held.clone() };
        let got_one = move |board: &Board| board.rows[worker].held.keys().any(|run| !before.contains_key(run));
        if !self.pump(end, got_one).await {
            return Err(Exit::failed("a worker of the demo got no runs"));
        }
        self.workers[worker].signal(signal)?;
        let (at, at_clock) = (Instant::now(), clock());
        let row = &mut self.board.rows[worker];
        row.fate = fate;
        let worker_id = row.worker_id.clone().unwrap_or_default();
        let (name, pid) = (row.name, row.pid);
        let what = if fate == Fate::Killed { "kill -KILL" } else { "kill -STOP" };
        let held = self.board.names_of(self.board.rows[worker].held.keys());
        self.screen.log(format!("{what} {pid}: {name} falls silent with {held} in its hands"));
        self.outages.push(Outage {
            worker,
            worker_id,
            at,
            at_clock,
            noticed: None,
            runs: Vec::new(),
            recovered: None,
            lost: 0,
        });
        Ok(())
    }

    /// Asks the server what has become of a worker that went silent, and of its runs.
    async fn look_at(&mut self, index: usize) -> Result<(), Exit> {
        let outage = &mut self.outages[index];
        let row = &self.board.rows[outage.worker];
        if outage.noticed.is_none() {
            if self.client.worker(&outage.worker_id).await?.status == "OFFLINE" {
                let after = outage.at.elapsed();
                outage.noticed = Some(after);
                // By now everything it said before has been read, so what is left is what it really held.
                outage.runs = row.held.keys().cloned().collect();
                let (name, held) = (row.name, self.board.names_of(&outage.runs));
                self.screen
                    .log(format!("the server notices {name} after {} ms and takes back {held}", after.as_millis()));
            }
            return Ok(());
        }
        if outage.recovered.is_some() {
            return Ok(());
        }
        let mut runs = Vec::with_capacity(outage.runs.len());
        for run in &outage.runs {
            runs.push(self.client.run(run).await?);
        }
        if row.fate == Fate::Frozen
            && let Some(run) = runs.iter().find(|run| run.epoch > 1 && run.state != State::Pending)
        {
            let line = format!(
                "kill -CONT {}: {} goes on as if nothing had happened, but {} has moved on to epoch {}",
                row.pid,
                row.name,
                self.board.name(&run.id),
                run.epoch
            );
            self.screen.log(line);
            self.workers[outage.worker].signal(libc::SIGCONT)?;
            self.board.rows[outage.worker].fate = Fate::Thawed;
        }
        if let Some(last) = all_completed(&runs) {
            let after = Duration::from_millis((last - outage.at_clock).max(0) as u64);
            outage.recovered = Some(after);
            outage.lost = runs.iter().filter(|run| run.epoch > 1).count();
            let name = self.board.rows[outage.worker].name;
            self.screen.log(format!(
                "all runs of {name} are completed elsewhere, {} ms after it went silent",
                after.as_millis()
            ));
        }
        Ok(())
    }

    /// Takes in what the workers say until `done` or the deadline; says which it was.
    pub async fn pump(&mut self, deadline: Instant, done: impl Fn(&Board) -> bool) -> bool {
        loop {
            self.screen.show(&self.board, self.pace.runs);
            if done(&self.board) {
                return true;
            }
            match timeout_at(deadline, self.events.recv()).await {
                Ok(Some((worker, event))) => {
                    if let Some(line) = self.board.note(worker, event) {
                        self.screen.log(line);
                    }
                }
                Ok(None) | Err(_) => return false,
            }
        }
    }
}

/// When the last of these runs was completed, once all are.
fn all_completed(runs: &[RunView]) -> Option<Millis> {
    if runs.iter().any(|run| run.state != State::Completed) {
        return None;
    }
    runs.iter().filter_map(|run| run.ended_at).map(|at| at.0).max()
}

/// The server of the demo runs on this machine, so its store's clock is this one.
fn clock() -> Millis {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as Millis)
}
