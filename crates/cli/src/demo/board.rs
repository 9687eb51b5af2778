//! What the demo knows from its workers: who holds what, what was done, what was refused.

use std::collections::{BTreeMap, HashMap};

use baton::runs::{Report, WorkerEvent};

/// What the demo has done to a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Nothing.
    Alive,
    /// Killed with SIGKILL.
    Killed,
    /// Stopped with SIGSTOP: it does not know that time passes.
    Frozen,
    /// Stopped, and going on since.
    Thawed,
}

/// One worker.
#[derive(Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Its process.
    pub pid: u32,
    /// Its incarnation.
    pub worker_id: Option<String>,
    /// What was done to it.
    pub fate: Fate,
    /// Runs it believes to hold, with their epochs.
    pub held: BTreeMap<String, u32>,
    /// Runs whose completion the server took from it.
    pub completed: u32,
    /// Reports the server refused.
    pub refused: u32,
}

/// A report that the server refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Which worker sent it.
    pub worker: usize,
    /// The run.
    pub run_id: String,
    /// The epoch of the stale lease.
    pub epoch: u32,
    /// The server's word for why.
    pub code: String,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Board {
    /// The workers.
    pub rows: Vec<Row>,
    /// What the demo calls each run.
    pub names: HashMap<String, String>,
    /// For each run, how many completions the server took.
    pub accepted: HashMap<String, u32>,
    /// Late completions that the server refused.
    pub refusals: Vec<Refusal>,
}

impl Board {
    /// What the demo calls a run.
    pub fn name<'a>(&'a self, run_id: &'a str) -> &'a str {
        self.names.get(run_id).map_or(run_id, String::as_str)
    }

    /// Runs of this list by name, for people.
    pub fn names_of<'a>(&self, runs: impl IntoIterator<Item = &'a String>) -> String {
        let mut names: Vec<&str> = runs.into_iter().map(|run| self.name(run)).collect();
        names.sort_unstable();
        names.join(", ")
    }

    /// Notes an event. Returns a line for the log when it belongs to the story.
    pub fn note(&mut self, worker: usize, event: WorkerEvent) -> Option<String> {
        let who = self.rows[worker].name;
        match event {
            WorkerEvent::Registered { worker_id } => {
                let again = self.rows[worker].worker_id.replace(worker_id).is_some();
                again.then(|| format!("{who} registers again, as a new incarnation"))
            }
            WorkerEvent::Claimed { run_id, epoch } => {
                let name = self.name(&run_id).to_owned();
                self.rows[worker].held.insert(run_id, epoch);
                (epoch > 1).then(|| format!("{who} gets {name}: its epoch moves on to {epoch}"))
            }
            WorkerEvent::Reported { run_id, epoch, report } => {
                self.rows[worker].held.remove(&run_id);
                if report != Report::Complete {
                    return Some(format!("{who} {report:?} {}", self.name(&run_id)));
                }
                self.rows[worker].completed += 1;
                let name = self.name(&run_id).to_owned();
                *self.accepted.entry(run_id).or_default() += 1;
                (epoch > 1).then(|| format!("{who} completes {name} under epoch {epoch}"))
            }
            WorkerEvent::Refused { run_id, epoch, report, code, .. } => {
                let row = &mut self.rows[worker];
                row.held.remove(&run_id);
                row.refused += 1;
                let line =
                    format!("{who} reports {} as done under epoch {epoch}: REFUSED ({code})", self.name(&run_id));
                if report == Report::Complete {
                    self.refusals.push(Refusal { worker, run_id, epoch, code });
                }
                Some(line)
            }
            WorkerEvent::Forgotten { .. } => Some(format!("{who} learns that the server has given it up")),
            WorkerEvent::Unreachable { call, message } => Some(format!("{who} tries again ({call}): {message}")),
            _ => None,
        }
    }

    /// How many completions the server took in all.
    pub fn completions(&self) -> u32 {
        self.accepted.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_board_tells_held_from_completed_from_refused() {
        let row = Row {
            name: "otter",
            pid: 1,
            worker_id: None,
            fate: Fate::Alive,
            held: BTreeMap::new(),
            completed: 0,
            refused: 0,
        };
        let mut board = Board { rows: vec![row], ..Board::default() };
        let claimed = |epoch| WorkerEvent::Claimed { run_id: "a".into(), epoch };
        assert_eq!(board.note(0, claimed(1)), None);
        assert_eq!(board.rows[0].held.len(), 1);
        let refused = WorkerEvent::Refused {
            run_id: "a".into(),
            epoch: 1,
            report: Report::Complete,
            code: "lease_lost".into(),
            message: String::new(),
        };
        assert!(board.note(0, refused).unwrap().contains("REFUSED (lease_lost)"));
        assert!(board.rows[0].held.is_empty());
        assert!(board.note(0, claimed(2)).unwrap().contains("moves on to 2"));
        board.note(0, WorkerEvent::Reported { run_id: "a".into(), epoch: 2, report: Report::Complete });
        assert_eq!((board.completions(), board.refusals.len()), (1, 1));
    }
}
