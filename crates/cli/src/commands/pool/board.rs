//! What somebody sees who waits for machines: on a terminal a table that lives, otherwise a line for every change.

use std::io::IsTerminal;
use std::time::Duration;

use baton::proto::{ClaimFailure, ClaimPhase, ClaimView};
use baton_core::pools::ClaimState;
use indicatif::{ProgressBar, ProgressStyle};

use super::show::cause_and_gist;
use crate::commands::build::text::printable;
use crate::output::Table;

const SPIN: Duration = Duration::from_millis(100);
/// How long one question waits on the server: as long as a table may be out of date.
const LOOK_LIVE: Duration = Duration::from_millis(300);
const LOOK: Duration = Duration::from_secs(2);
/// Machines that the table shows.
const ROWS_MAX: usize = 20;

/// All of it goes to the error output: the standard output is for the machines.
pub struct Board {
    live: Option<ProgressBar>,
    told: String,
    /// How many discarded machines were told of.
    discarded: u64,
}

impl Board {
    pub fn new() -> Board {
        let live = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner:.cyan} {prefix} {elapsed:.dim}\n{msg}");
            let bar = ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(SPIN);
            bar
        });
        Board { live, told: String::new(), discarded: 0 }
    }

    /// How long to wait for news before the next look.
    pub fn look(&self) -> Duration {
        if self.live.is_some() { LOOK_LIVE } else { LOOK }
    }

    /// Shows a claim as it is now.
    pub fn show(&mut self, claim: &ClaimView) {
        for line in self.news(claim) {
            match &self.live {
                Some(bar) => bar.suspend(|| eprintln!("{line}")),
                None => eprintln!("{line}"),
            }
        }
        let headline = headline(claim);
        match &self.live {
            Some(bar) => {
                bar.set_prefix(headline);
                bar.set_message(table(claim));
            }
            None if headline != self.told => {
                eprintln!("{headline}");
                self.told = headline;
            }
            None => {}
        }
    }

    /// Machines that were discarded since the last look, oldest first.
    fn news(&mut self, claim: &ClaimView) -> Vec<String> {
        let new = usize::try_from(claim.discarded.saturating_sub(self.discarded)).unwrap_or(usize::MAX);
        self.discarded = claim.discarded;
        let shown = new.min(claim.failures.len());
        let line = |(why, failures): (String, Vec<&ClaimFailure>)| match &failures[..] {
            [one] => format!("discarded {}: {why}", one.runner_id),
            several => format!("discarded {} machines: {why}", several.len()),
        };
        let unseen = (new > shown).then(|| format!("discarded {} more machines before", new - shown));
        unseen.into_iter().chain(grouped(claim.failures[..shown].iter().rev()).into_iter().map(line)).collect()
    }

    /// Takes the table away.
    pub fn close(self) {
        if let Some(bar) = &self.live {
            bar.finish_and_clear();
        }
    }
}

/// Failures by what was said of them, in the order in which that was first said.
pub(super) fn grouped<'a>(failures: impl Iterator<Item = &'a ClaimFailure>) -> Vec<(String, Vec<&'a ClaimFailure>)> {
    let mut groups: Vec<(String, Vec<&ClaimFailure>)> = Vec::new();
    for failure in failures {
        let why = printable(&cause_and_gist(Some(failure.cause), &failure.detail));
        match groups.iter_mut().find(|(known, _)| *known == why) {
            Some((_, same)) => same.push(failure),
            None => groups.push((why, vec![failure])),
        }
    }
    groups
}

fn count(claim: &ClaimView, phase: ClaimPhase) -> usize {
    claim.runners.iter().filter(|runner| runner.phase == phase).count()
}

/// How many machines it has less than it wants.
pub(super) fn missing(claim: &ClaimView) -> usize {
    (claim.count as usize).saturating_sub(claim.runners.len())
}

pub(super) fn headline(claim: &ClaimView) -> String {
    let (registering, registered, running) = (
        count(claim, ClaimPhase::Registering),
        count(claim, ClaimPhase::Registered),
        count(claim, ClaimPhase::Running),
    );
    let missing = missing(claim);
    // Nothing comes any more once it was filled, or has ended.
    let (to_come, lost) = match claim.state {
        ClaimState::Waiting => (missing, None),
        ClaimState::Ready => (0, (missing > 0).then(|| format!("{missing} of {} lost", claim.count))),
        ClaimState::Released | ClaimState::Failed => (0, None),
    };
    let parts =
        [(running, "handed over"), (registered, "registered"), (registering, "registering"), (to_come, "to come")];
    let parts = parts.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}"));
    let parts: Vec<String> = parts.chain(lost).collect();
    let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    // While it waits, that is what keeps it waiting.
    let why = match claim.state {
        ClaimState::Waiting if !claim.detail.is_empty() => format!(" ({})", printable(&claim.detail)),
        ClaimState::Waiting | ClaimState::Ready | ClaimState::Released | ClaimState::Failed => String::new(),
    };
    format!("{} of {}, {}{parts}{why}", claim.run_id, claim.pool, claim.state.as_str())
}

/// The machines that a claim has.
pub(super) fn table(claim: &ClaimView) -> String {
    let mut table = Table::new(&["machine", "type", "phase"]);
    for runner in claim.runners.iter().take(ROWS_MAX) {
        let phase = match runner.phase {
            ClaimPhase::Registering => "registering",
            ClaimPhase::Registered => "registered",
            ClaimPhase::Running => "handed over",
        };
        table.row([runner.machine_id.as_deref().unwrap_or(&runner.id), runner.kind.as_str(), phase]);
    }
    match claim.runners.len().saturating_sub(ROWS_MAX) {
        0 => table.to_string(),
        more => format!("{table}and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use baton::proto::{ClaimRunner, Time};
    use baton_core::pools::{Cause, Usage};

    use super::*;

    fn waiting(phases: &[ClaimPhase], failures: &[&str]) -> ClaimView {
        let runner = |phase: &ClaimPhase| ClaimRunner {
            id: "r".into(),
            machine_id: Some("m-1".into()),
            phase: *phase,
            kind: "local".into(),
            usage: Usage::OnDemand,
            cpu: 1,
            memory_mib: 1,
        };
        let failure = |detail: &&str| ClaimFailure {
            runner_id: "r".into(),
            at: Time(0),
            cause: Cause::Silent,
            detail: (*detail).into(),
        };
        ClaimView {
            run_id: "ci-17".into(),
            pool: "linux".into(),
            namespace: "default".into(),
            state: ClaimState::Waiting,
            count: 4,
            priority: 5,
            opened_at: Time(0),
            deadline: None,
            ready_at: None,
            ended_at: None,
            reason: None,
            detail: String::new(),
            runners: phases.iter().map(runner).collect(),
            failures: failures.iter().map(failure).collect(),
            discarded: failures.len() as u64,
        }
    }

    #[test]
    fn the_headline_counts_and_the_table_names() {
        let claim = waiting(&[ClaimPhase::Registered, ClaimPhase::Registering], &[]);
        assert_eq!(headline(&claim), "ci-17 of linux, waiting: 1 registered, 1 registering, 2 to come");
        assert_eq!(table(&claim), "MACHINE  TYPE   PHASE\nm-1      local  registered\nm-1      local  registering\n");
        let ready = ClaimView { state: ClaimState::Ready, ..waiting(&[ClaimPhase::Running; 3], &[]) };
        assert_eq!(headline(&ready), "ci-17 of linux, ready: 3 handed over, 1 of 4 lost", "nobody comes in its place");
        let failed = ClaimView { state: ClaimState::Failed, ..waiting(&[], &[]) };
        assert_eq!(headline(&failed), "ci-17 of linux, failed");
        let many = waiting(&[ClaimPhase::Running; 23], &[]);
        assert!(table(&many).ends_with("and 3 more"));
    }

    #[test]
    fn each_discarded_machine_is_told_of_once() {
        let mut board = Board { live: None, told: String::new(), discarded: 0 };
        assert_eq!(board.news(&waiting(&[], &["first"])), ["discarded r: silent: first"]);
        assert_eq!(board.news(&waiting(&[], &["first"])), [""; 0]);
        let news = board.news(&waiting(&[], &["third\nline", "second", "first"]));
        assert_eq!(news, ["discarded r: silent: second", "discarded r: silent: third: line"]);
    }

    #[test]
    fn what_is_said_of_many_is_said_once_and_beyond_what_is_shown_too() {
        let mut board = Board { live: None, told: String::new(), discarded: 0 };
        assert_eq!(
            board.news(&waiting(&[], &["same", "same", "other"])),
            ["discarded r: silent: other", "discarded 2 machines: silent: same"]
        );
        let more = ClaimView { discarded: 250, ..waiting(&[], &["same"; 100]) };
        assert_eq!(board.news(&more), ["discarded 147 more machines before", "discarded 100 machines: silent: same"]);
        assert_eq!(board.news(&more), [""; 0]);
        let last = ClaimView { discarded: 251, ..more };
        assert_eq!(board.news(&last), ["discarded r: silent: same"], "the list is as long as before");
    }
}
