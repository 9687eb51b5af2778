//! Asks every verb about every state and compares the answers with docs/state_machine.md, so that the document is
//! always true. After a change of the rules: `UPDATE_DOCS=1 cargo test -p baton-core`, then read the difference.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use baton_core::machine::{self, Expiry, Options};
use baton_core::{Epoch, Failure, LeaseEnd, Millis, Reason, Refused, RetryPolicy, Run, State};

const NOW: Millis = 1_000_000;
const CURRENT: Epoch = Epoch::new(2);
const STALE: Epoch = Epoch::new(1);

/// One row of the document: a verb, and the circumstance that decides what it does.
struct Case {
    verb: &'static str,
    when: &'static str,
    /// False for verbs that come from no worker, and so carry no lease.
    has_lease: bool,
    /// Changes the run to fit the circumstance.
    prepare: fn(&mut Run),
    ask: fn(&Run, Epoch, Option<LeaseEnd>) -> Result<Run, Refused>,
}

fn options() -> Options {
    let retry = RetryPolicy { max_attempts: 3, non_retryable: vec!["listed".into()], ..RetryPolicy::default() };
    Options { retry, max_losses: 3, timeout_ms: Some(60_000), ..Options::default() }
}

fn failure() -> Failure {
    Failure { reason: Reason::Error, code: None, message: "it broke".into(), retryable: true, not_before: None }
}

fn fail(run: &Run, lease: Epoch, past: Option<LeaseEnd>, failure: &Failure) -> Result<Run, Refused> {
    machine::fail(run, lease, past, failure, &options().retry, NOW, 0.5)
}

fn expire(run: &Run, what: Expiry) -> Result<Run, Refused> {
    machine::expire(run, what, &options(), NOW, 0.5)
}

const AS_IT_IS: fn(&mut Run) = |_| {};
const NO_TRIES_LEFT: fn(&mut Run) = |run| run.failures = 2;

/// Every verb in every circumstance, in the order of a run's life.
#[rustfmt::skip]
fn cases() -> Vec<Case> {
    let of_worker = |verb, when, prepare, ask| Case { verb, when, has_lease: true, prepare, ask };
    let of_others = |verb, when, prepare, ask| Case { verb, when, has_lease: false, prepare, ask };
    vec![
        of_others("claim", "due", AS_IT_IS, |run, _, _| machine::claim(run, NOW)),
        of_others("claim", "not due yet", |run| run.due_at = NOW + 1, |run, _, _| machine::claim(run, NOW)),
        of_worker("start", "", AS_IT_IS, |run, lease, _| machine::start(run, lease)),
        of_worker("complete", "", AS_IT_IS, machine::complete),
        of_worker("fail", "tries left", AS_IT_IS, |run, lease, past| fail(run, lease, past, &failure())),
        of_worker("fail", "no tries left", NO_TRIES_LEFT, |run, lease, past| fail(run, lease, past, &failure())),
        of_worker("fail", "not retryable", AS_IT_IS, |run, lease, past| {
            fail(run, lease, past, &Failure { retryable: false, ..failure() })
        }),
        of_worker("fail", "code is listed as not retryable", AS_IT_IS, |run, lease, past| {
            fail(run, lease, past, &Failure { code: Some("listed".into()), ..failure() })
        }),
        of_worker("fail", "rejected", AS_IT_IS, |run, lease, past| {
            fail(run, lease, past, &Failure { reason: Reason::Rejected, ..failure() })
        }),
        of_worker("give_back", "", AS_IT_IS, |run, lease, past| machine::give_back(run, lease, past, NOW)),
        of_worker("sleep", "", AS_IT_IS, |run, lease, past| machine::sleep(run, lease, past, NOW + 1)),
        of_others("wake", "not due yet", |run| run.due_at = NOW + 1, |run, _, _| machine::wake(run, NOW)),
        of_others("wake", "due", AS_IT_IS, |run, _, _| machine::wake(run, NOW)),
        of_worker("cancelled", "", AS_IT_IS, machine::cancelled),
        of_others("cancel", "", AS_IT_IS, |run, _, _| machine::cancel(run, NOW + 30_000)),
        of_others("expire", "lease", AS_IT_IS, |run, _, _| expire(run, Expiry::Lease)),
        of_others("expire", "lease, no losses left", |run| run.losses = 3, |run, _, _| expire(run, Expiry::Lease)),
        of_others("expire", "timeout, tries left", AS_IT_IS, |run, _, _| expire(run, Expiry::Timeout)),
        of_others("expire", "timeout, no tries left", NO_TRIES_LEFT, |run, _, _| expire(run, Expiry::Timeout)),
        of_others("expire", "grace time to cancel", AS_IT_IS, |run, _, _| expire(run, Expiry::CancelGrace)),
        of_others("time_out", "", AS_IT_IS, |run, _, _| machine::time_out(run)),
    ]
}

fn run_in(state: State) -> Run {
    Run { state, epoch: CURRENT, failures: 1, losses: 1, ..Run::submitted(NOW) }
}

fn cancelling(state: State) -> Run {
    Run { cancel_by: Some(NOW + 10_000), ..run_in(state) }
}

impl Case {
    fn name(&self) -> String {
        if self.when.is_empty() { self.verb.to_owned() } else { format!("{}: {}", self.verb, self.when) }
    }

    fn answer(&self, mut run: Run, lease: Epoch) -> Result<Run, Refused> {
        (self.prepare)(&mut run);
        (self.ask)(&run, lease, None)
    }
}

fn refusal(refused: Refused) -> &'static str {
    match refused {
        Refused::StaleLease => "stale lease",
        Refused::AlreadyDone => "already done",
        Refused::Ended => "ended",
        Refused::NotHeld => "not held",
        Refused::Held => "held",
        Refused::NotDue => "not due",
        Refused::Cancelling => "cancelling",
    }
}

fn cell(before: &Run, answer: Result<Run, Refused>) -> String {
    let next = match answer {
        Err(refused) => return refusal(refused).to_owned(),
        Ok(next) => next,
    };
    let mut text = format!("**→ {}**", next.state.as_str());
    if let Some(reason) = next.reason.filter(|reason| next.state == State::Failed || *reason != Reason::Cancelled) {
        let _ = write!(text, " ({})", reason.as_str());
    }
    if before.cancel_by.is_none() && next.cancel_by.is_some() {
        text.push_str(" (asked to stop)");
    }
    if next.returned && !before.returned {
        text.push_str(" (at the front)");
    }
    text
}

/// A table with a row for each case and a column for each state.
fn table(cases: &[Case], states: &[State], lease: Epoch, run_in: fn(State) -> Run) -> String {
    let mut text = String::from("| verb |");
    states.iter().for_each(|state| text.push_str(&format!(" {} |", state.as_str())));
    text.push_str(&format!("\n|{}\n", " --- |".repeat(states.len() + 1)));
    for case in cases {
        let _ = write!(text, "| {} |", case.name());
        for state in states {
            let run = run_in(*state);
            let _ = write!(text, " {} |", cell(&run, case.answer(run, lease)));
        }
        text.push('\n');
    }
    text
}

/// True when a verb that ends a lease is answered with "already done" after that lease has ended. `None` when that
/// depends on what has become of the run since.
fn repeat(case: &Case, past: LeaseEnd) -> Option<bool> {
    let mut repeats =
        State::ALL.into_iter().map(|state| (case.ask)(&run_in(state), STALE, Some(past)) == Err(Refused::AlreadyDone));
    let first = repeats.next()?;
    repeats.all(|same| same == first).then_some(first)
}

fn repeats(cases: &[Case]) -> String {
    let mut text = String::from("| repeated verb |");
    LeaseEnd::ALL.iter().for_each(|end| text.push_str(&format!(" {} |", end.as_str())));
    text.push_str(&format!("\n|{}\n", " --- |".repeat(LeaseEnd::ALL.len() + 1)));
    for case in cases.iter().filter(|case| case.has_lease && case.verb != "start") {
        let _ = write!(text, "| {} |", case.name());
        for past in LeaseEnd::ALL {
            let same = repeat(case, past).unwrap_or_else(|| panic!("{} depends on the state", case.name()));
            text.push_str(if same { " already done |" } else { " |" });
        }
        text.push('\n');
    }
    text
}

/// All moves that were found, drawn: one arrow for each pair of states, with the verbs that make it.
fn diagram(cases: &[Case]) -> String {
    let order = |state: State| State::ALL.iter().position(|other| *other == state);
    let mut moves = BTreeMap::<_, (State, State, Vec<&str>)>::new();
    for state in State::ALL {
        let runs = if state.is_held() { vec![run_in(state), cancelling(state)] } else { vec![run_in(state)] };
        for (case, run) in cases.iter().flat_map(|case| runs.iter().map(move |run| (case, run))) {
            let Ok(next) = case.answer(*run, CURRENT) else { continue };
            let (.., verbs) = moves.entry((order(state), order(next.state))).or_insert((state, next.state, Vec::new()));
            if !verbs.contains(&case.verb) {
                verbs.push(case.verb);
            }
        }
    }
    let mut text = String::from("```mermaid\nstateDiagram-v2\n    [*] --> pending: submit\n");
    for (from, to, verbs) in moves.values() {
        let _ = writeln!(text, "    {} --> {}: {}", from.as_str(), to.as_str(), verbs.join(", "));
    }
    for state in State::ALL.into_iter().filter(|state| state.is_ended()) {
        let _ = writeln!(text, "    {} --> [*]", state.as_str());
    }
    text + "```\n"
}

fn document() -> String {
    let cases = cases();
    let held: Vec<_> = State::ALL.into_iter().filter(|state| state.is_held()).collect();
    let of_worker: Vec<_> = self::cases().into_iter().filter(|case| case.has_lease).collect();
    format!(
        "\
# The state machine

What each verb does to a run in each state. This page is written by a test, crates/core/tests/state_machine.rs,
which asks the rules in crates/core/src/machine.rs. Do not edit it: change the rules, run
`UPDATE_DOCS=1 cargo test -p baton-core`, and read the difference.

A bold cell is a move. Any other cell is a refusal: nothing changes.

## All moves

{diagram}
## With the current lease

Verbs of workers (start, complete, fail, give_back, sleep, cancelled) carry the lease of the newest claim. The others carry none.

{current}
## With an older lease

Somebody else holds the run by now, or nobody does. The answers are the same while somebody wants it cancelled.

{stale}
## While somebody wants the run cancelled

Only a held run can be in this condition. A run nobody holds is cancelled at once, and every end of the lease but
`complete` cancels the run.

{cancelling}
## The same call again

The answer to a call may get lost, and the caller calls again. The column says how the caller's lease ended. \"Already
done\" gives the caller the answer of the first call, whatever has happened to the run since. An empty cell means: as in
the tables above.

A lease that ended because the run was cancelled ended as a `fail`, `give_back` or `cancelled` would have ended it,
so these are \"already done\", too. A `complete` is not: its result was not taken.

{repeats}",
        diagram = diagram(&cases),
        current = table(&cases, &State::ALL, CURRENT, run_in),
        stale = table(&of_worker, &State::ALL, STALE, run_in),
        cancelling = table(&cases, &held, CURRENT, cancelling),
        repeats = repeats(&cases),
    )
}

#[test]
fn the_document_shows_what_the_rules_do() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/state_machine.md");
    let found = document();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &found).expect("docs/state_machine.md can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some((line, (is, was))) = found.lines().zip(written.lines()).enumerate().find(|(_, (is, was))| is != was) {
        panic!(
            "docs/state_machine.md is out of date, line {}:\n  rules: {is}\n  page:  {was}\n{HOW_TO_UPDATE}",
            line + 1
        );
    }
    assert!(found == written, "docs/state_machine.md has another length than the rules give it. {HOW_TO_UPDATE}");
}

const HOW_TO_UPDATE: &str = "If the rules are right, run: UPDATE_DOCS=1 cargo test -p baton-core";

#[test]
fn an_older_lease_gets_the_same_answers_while_cancel_is_requested() {
    for case in cases().iter().filter(|case| case.has_lease) {
        for state in State::ALL {
            let (plain, asked) = (case.answer(run_in(state), STALE), case.answer(cancelling(state), STALE));
            assert_eq!(plain, asked, "{} in {}", case.name(), state.as_str());
            assert!(plain.is_err(), "{} in {} was carried out for an older lease", case.name(), state.as_str());
        }
    }
}
