//! What a build left behind, wherever it went: out of its group, into a session of its own.
//!
//! Orphans come back to this worker instead of to the first process of the system, so it can find them, and has to bury them.
//! Only builds that are plain processes of this machine need it: sandboxes, containers and machines end with all they hold.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{os, own};

/// How often those that ended by themselves are buried.
pub const BURY_EVERY: Duration = Duration::from_secs(2);
/// How long to wait for processes that were killed.
const KILL_PAUSE: Duration = Duration::from_millis(10);
/// Who cannot be killed for this long hangs in the system.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// The builds of this worker.
#[derive(Clone)]
pub struct Orphanage {
    at_work: Arc<Mutex<usize>>,
}

/// Everything that one build started.
pub struct Family {
    /// What stands in the environment of each of them. It names this worker and this lease, so nobody else has it.
    mark: Vec<u8>,
    orphanage: Orphanage,
}

impl Orphanage {
    /// Orphans come to this process from now on. Those that ended by themselves are buried this often. Needs a runtime.
    pub fn open(bury_every: Duration) -> io::Result<Orphanage> {
        os::adopt_orphans()?;
        tokio::spawn(async move {
            loop {
                sleep(bury_every).await;
                if let Err(error) = tokio::task::spawn_blocking(bury).await {
                    tracing::warn!(%error, "burying orphans fell over");
                }
            }
        });
        Ok(Orphanage { at_work: Arc::default() })
    }

    /// Something begins that has a directory of its own in this variable.
    pub fn family(&self, variable: &str, directory: &Path) -> Family {
        *self.at_work.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let mark = format!("{variable}={}", directory.display()).into_bytes();
        Family { mark, orphanage: self.clone() }
    }
}

impl Family {
    /// Kills whoever is left.
    pub async fn end(&self) {
        let deadline = Instant::now() + KILL_TIMEOUT;
        let mut quiet = 0;
        // Twice: one that was born while we looked may have a number that we had passed already.
        while quiet < 2 {
            let (mark, orphanage) = (self.mark.clone(), self.orphanage.clone());
            match tokio::task::spawn_blocking(move || orphanage.kill(&mark)).await {
                Ok(0) => quiet += 1,
                Ok(left) if Instant::now() >= deadline => {
                    tracing::warn!(left, "processes that a build has left behind cannot be killed");
                    return;
                }
                Ok(_) => {
                    quiet = 0;
                    sleep(KILL_PAUSE).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "looking for what a build has left behind fell over");
                    return;
                }
            }
        }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        *self.orphanage.at_work.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
    }
}

impl Orphanage {
    /// Kills a family once, and says how many of it still lived.
    fn kill(&self, mark: &[u8]) -> usize {
        // Held all the time: a build that begins now could have orphans that would be taken for this one's.
        let at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        let killed = own::all(|own| {
            let is_left = |process: &Process| {
                // Who has lost the mark can only be of this family if there is no other.
                !process.is_dead && (process.is_marked(mark) || (*at_work == 1 && process.is_adopted))
            };
            let left: Vec<Process> = processes(own).filter(is_left).collect();
            for process in &left {
                // It may be gone already.
                let _ = os::signal_process(process.number, libc::SIGKILL);
            }
            left.len()
        });
        bury();
        killed
    }
}

struct Process {
    number: u32,
    /// It is a child of ours that somebody else started.
    is_adopted: bool,
    is_dead: bool,
}

impl Process {
    fn is_marked(&self, mark: &[u8]) -> bool {
        let environment = std::fs::read(format!("/proc/{}/environ", self.number)).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark)
    }
}

/// Takes note of the end of orphans, which the system keeps a place for until then. Never of what this worker started itself:
/// whoever started it waits for it.
fn bury() {
    own::all(|own| {
        let dead = processes(own).filter(|process| process.is_dead && process.is_adopted);
        dead.for_each(|process| os::bury(process.number));
    });
}

/// All processes of this machine; none where the system does not tell. `started` are the children that somebody here waits for.
fn processes(started: &BTreeSet<u32>) -> impl Iterator<Item = Process> {
    let own = std::process::id();
    let us = Standing::of(own);
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(move |number| *number != own).filter_map(move |number| {
        let (us, standing) = (us.as_ref()?, Standing::of(number)?);
        // Whatever else this worker starts stays in its group. An orphan may lead a group in the same session, as shells make them.
        let is_ours = started.contains(&number) || (standing.session == us.session && standing.group == us.group);
        Some(Process { number, is_adopted: standing.parent == own && !is_ours, is_dead: standing.is_dead })
    })
}

struct Standing {
    parent: u32,
    group: u32,
    session: u32,
    is_dead: bool,
}

impl Standing {
    fn of(number: u32) -> Option<Standing> {
        Standing::parse(&std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?)
    }

    fn parse(stat: &str) -> Option<Standing> {
        // The name of the program is in brackets, and may have anything in it.
        let (_, rest) = stat.rsplit_once(')')?;
        let mut words = rest.split_whitespace();
        let is_dead = matches!(words.next()?, "Z" | "X");
        let mut number = || words.next()?.parse().ok();
        Some(Standing { parent: number()?, group: number()?, session: number()?, is_dead })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_have_any_name() {
        let standing = Standing::parse("7 (a) Z 1 (b) S 5 6 7 0 -1").unwrap();
        assert_eq!((standing.parent, standing.group, standing.session, standing.is_dead), (5, 6, 7, false));
        assert!(Standing::parse("7 (a) Z 5 6 7 0").unwrap().is_dead);
        assert!(Standing::parse("").is_none());
    }
}
