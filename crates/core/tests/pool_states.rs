//! Every verb of runner pools in every state, asked of the rules and written down in docs/pool_states.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use baton_core::pools::claim::{self, ClaimReason, ClaimRefused, ClaimState};
use baton_core::pools::{Cause, ClaimNo, Refused, Runner, RunnerState, runner};
use baton_core::{Epoch, Millis};

const NOW: Millis = 1_000_000;
const CURRENT: Epoch = Epoch::new(4);
const OWNER: ClaimNo = 7;

/// One row of the document: a verb, and the circumstance that decides what it does.
struct Case {
    verb: &'static str,
    when: &'static str,
    ask: fn(&Runner) -> Result<Runner, Refused>,
}

fn late(runner: &Runner) -> Runner {
    Runner { deadline: runner.deadline.map(|_| NOW - 1), ..*runner }
}

fn registered(runner: &Runner) -> Runner {
    Runner { registered_at: Some(NOW - 10), deadline: None, ..*runner }
}

/// Every verb in every circumstance, in the order of a runner's life.
#[rustfmt::skip]
fn cases() -> Vec<Case> {
    let case = |verb, when, ask| Case { verb, when, ask };
    vec![
        case("ready", "in time", |runner| runner::ready(runner, NOW)),
        case("ready", "too late", |runner| runner::ready(&late(runner), NOW)),
        case("take", "as it was seen", |runner| runner::take(runner, CURRENT, OWNER, NOW + 1)),
        case("take", "it has moved on", |runner| runner::take(runner, Epoch::new(3), OWNER, NOW + 1)),
        case("registered", "for its claim, in time", |runner| runner::registered(runner, CURRENT, NOW)),
        case("registered", "for its claim, too late", |runner| runner::registered(&late(runner), CURRENT, NOW)),
        case("registered", "for its claim, again", |runner| runner::registered(&registered(runner), CURRENT, NOW)),
        case("registered", "for another claim", |runner| runner::registered(runner, Epoch::new(3), NOW)),
        case("register_failed", "for its claim", |runner| runner::register_failed(runner, CURRENT, NOW)),
        case("register_failed", "for another claim", |runner| runner::register_failed(runner, Epoch::new(3), NOW)),
        case("commit", "by its claim, registered", |runner| runner::commit(&registered(runner), OWNER, NOW + 1)),
        case("commit", "by its claim, not registered", |runner| runner::commit(runner, OWNER, NOW + 1)),
        case("commit", "by another claim", |runner| runner::commit(&registered(runner), 8, NOW + 1)),
        case("release", "by its claim", |runner| runner::release(runner, OWNER, NOW + 1)),
        case("release", "by another claim", |runner| runner::release(runner, 8, NOW + 1)),
        case("deregistered", "after this release, in time", |runner| runner::deregistered(runner, CURRENT, NOW)),
        case("deregistered", "after this release, too late", |runner| runner::deregistered(&late(runner), CURRENT, NOW)),
        case("deregistered", "after an earlier release", |runner| runner::deregistered(runner, Epoch::new(3), NOW)),
        case("deregister_failed", "after this release", |runner| runner::deregister_failed(runner, CURRENT, NOW)),
        case("deregister_failed", "after an earlier release", |runner| runner::deregister_failed(runner, Epoch::new(3), NOW)),
        case("end", "it has moved on", |runner| runner::end(runner, Epoch::new(3), Cause::Asked, NOW)),
        case("expire", "its deadline has passed", |runner| runner::expire(&late(runner), NOW)),
        case("expire", "its deadline has not passed", |runner| runner::expire(runner, NOW)),
        case("gone", "", runner::gone),
    ]
}

/// A runner as it usually is in this state.
fn runner_in(state: RunnerState) -> Runner {
    let is_held = matches!(state, RunnerState::Claimed | RunnerState::Running);
    let has_deadline = !matches!(state, RunnerState::Idle | RunnerState::Gone);
    let is_ended = matches!(state, RunnerState::Terminating | RunnerState::Gone);
    Runner {
        state,
        epoch: CURRENT,
        owner: is_held.then_some(OWNER),
        deadline: has_deadline.then_some(NOW + 10),
        registered_at: (state == RunnerState::Running).then_some(NOW - 10),
        cause: is_ended.then_some(Cause::Asked),
    }
}

fn refusal(refused: Refused) -> &'static str {
    match refused {
        Refused::AlreadyDone => "already done",
        Refused::Stale => "stale",
        Refused::NotReady => "not ready",
        Refused::InUse => "in use",
        Refused::NotHeld => "not held",
        Refused::NotOwner => "not owner",
        Refused::NotRegistered => "not registered",
        Refused::TooLate => "too late",
        Refused::NotDue => "not due",
        Refused::NotEnding => "not ending",
        Refused::Ending => "ending",
        Refused::Gone => "gone",
    }
}

fn cell(before: &Runner, answer: Result<Runner, Refused>) -> String {
    let next = match answer {
        Err(refused) => return refusal(refused).to_owned(),
        Ok(next) => next,
    };
    let mut text = format!("**→ {}**", next.state.as_str());
    if let Some(cause) = next.cause.filter(|_| before.cause.is_none()) {
        let _ = write!(text, " ({})", cause.as_str());
    }
    if next.registered_at.is_some() && before.registered_at.is_none() && next.state == before.state {
        text.push_str(" (registered)");
    }
    text
}

fn header(first: &str, words: impl Iterator<Item = &'static str>) -> String {
    let mut text = format!("| {first} |");
    let mut columns = 1;
    for word in words {
        let _ = write!(text, " {word} |");
        columns += 1;
    }
    text + &format!("\n|{}\n", " --- |".repeat(columns))
}

fn moves(cases: &[Case]) -> String {
    let mut text = header("verb", RunnerState::ALL.into_iter().map(RunnerState::as_str));
    for case in cases {
        let name = if case.when.is_empty() { case.verb.to_owned() } else { format!("{}: {}", case.verb, case.when) };
        let _ = write!(text, "| {name} |");
        for state in RunnerState::ALL {
            let runner = runner_in(state);
            let _ = write!(text, " {} |", cell(&runner, (case.ask)(&runner)));
        }
        text.push('\n');
    }
    text
}

fn causes() -> String {
    let mut text = header("end: for this cause", RunnerState::ALL.into_iter().map(RunnerState::as_str));
    for cause in Cause::ALL {
        let _ = write!(text, "| {} |", cause.as_str());
        for state in RunnerState::ALL {
            let runner = runner_in(state);
            let answer = match runner::end(&runner, CURRENT, cause, NOW) {
                Ok(_) => "**ends**",
                Err(refused) => refusal(refused),
            };
            let _ = write!(text, " {answer} |");
        }
        text.push('\n');
    }
    text
}

/// All moves that were found, drawn: one arrow for each pair of states, with the verbs that make it.
fn diagram(cases: &[Case]) -> String {
    let mut moves = BTreeMap::<(RunnerState, RunnerState), Vec<&str>>::new();
    for state in RunnerState::ALL {
        let runner = runner_in(state);
        let by_cases = cases.iter().map(|case| (case.verb, (case.ask)(&runner)));
        let by_causes = Cause::ALL.into_iter().map(|cause| ("end", runner::end(&runner, CURRENT, cause, NOW)));
        for (verb, answer) in by_cases.chain(by_causes) {
            let Ok(next) = answer else { continue };
            let verbs = moves.entry((state, next.state)).or_default();
            if !verbs.contains(&verb) {
                verbs.push(verb);
            }
        }
    }
    let mut text = String::from("```mermaid\nstateDiagram-v2\n    [*] --> creating: order\n");
    for ((from, to), verbs) in moves {
        let _ = writeln!(text, "    {} --> {}: {}", from.as_str(), to.as_str(), verbs.join(", "));
    }
    text + "    gone --> [*]\n```\n"
}

fn claims() -> String {
    type Answer = Result<(ClaimState, Option<ClaimReason>), ClaimRefused>;
    type Ask = fn(ClaimState) -> Answer;
    let cases: [(&str, Ask); 6] = [
        ("fill", |state| claim::fill(state).map(|state| (state, None))),
        ("release", |state| claim::release(state).map(|(state, reason)| (state, Some(reason)))),
        ("fail", |state| claim::fail(state, ClaimReason::Impossible).map(|(state, _)| (state, None))),
        ("expire: its deadline has passed", |state| {
            claim::expire(state, Some(NOW - 1), NOW).map(|(state, reason)| (state, Some(reason)))
        }),
        ("expire: its deadline has not passed", |state| {
            claim::expire(state, Some(NOW), NOW).map(|(state, reason)| (state, Some(reason)))
        }),
        ("lose: it has no runners left", |state| claim::lose(state).map(|(state, reason)| (state, Some(reason)))),
    ];
    let mut text = header("verb", ClaimState::ALL.into_iter().map(ClaimState::as_str));
    for (name, ask) in cases {
        let _ = write!(text, "| {name} |");
        for state in ClaimState::ALL {
            let answer = match ask(state) {
                Ok((next, None)) => format!("**→ {}**", next.as_str()),
                Ok((next, Some(reason))) => format!("**→ {}** ({})", next.as_str(), reason.as_str()),
                Err(ClaimRefused::AlreadyDone) => "already done".into(),
                Err(ClaimRefused::Filled) => "filled".into(),
                Err(ClaimRefused::Ended) => "ended".into(),
                Err(ClaimRefused::NotDue) => "not due".into(),
            };
            let _ = write!(text, " {answer} |");
        }
        text.push('\n');
    }
    text
}

fn document() -> String {
    let cases = cases();
    format!(
        "\
# The states of runners and claims

What each verb does to a runner of a pool in each state. This page is written by a test, crates/core/tests/pool_states.rs, which asks the rules in
crates/core/src/pools. Do not edit it: change the rules, run `UPDATE_DOCS=1 cargo test -p baton-core`, and read the difference.

A bold cell is a move. Any other cell is a refusal: nothing changes.

## All moves of a runner

{diagram}
## Runners

`ready` is the agent's signal `UD_OK`, `registered` and `register_failed` are `UD_REG_OK` and `UD_REG_FAILED`, `deregistered` and `deregister_failed` are `UD_REMOVE_REG_OK` and
`UD_REMOVE_REG_FAILED`. A signal carries the epoch that the agent was told with its run.

{moves}
## What may end a runner

Whoever ends a runner names the epoch it has seen and a cause. What is in use (claimed, running) cannot be ended because the pool would rather have fewer machines.

{causes}
## Claims

{claims}",
        diagram = diagram(&cases),
        moves = moves(&cases),
        causes = causes(),
        claims = claims(),
    )
}

#[test]
fn the_document_shows_what_the_rules_do() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/pool_states.md");
    let found = document();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &found).expect("docs/pool_states.md can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some((line, (is, was))) = found.lines().zip(written.lines()).enumerate().find(|(_, (is, was))| is != was) {
        panic!(
            "docs/pool_states.md is out of date, line {}:\n  rules: {is}\n  page:  {was}\n{HOW_TO_UPDATE}",
            line + 1
        );
    }
    assert!(found == written, "docs/pool_states.md has another length than the rules give it. {HOW_TO_UPDATE}");
}

const HOW_TO_UPDATE: &str = "If the rules are right, run: UPDATE_DOCS=1 cargo test -p baton-core";

#[test]
fn words_and_numbers_are_read_back() {
    for state in RunnerState::ALL {
        assert_eq!(RunnerState::from_code(state.code()), Some(state));
        assert_eq!(RunnerState::parse(state.as_str()), Some(state));
    }
    for cause in Cause::ALL {
        assert_eq!(Cause::from_code(cause.code()), Some(cause));
    }
}

#[test]
fn a_runner_in_use_is_not_ended_for_the_sake_of_the_pool() {
    for cause in [Cause::IdleTooLong, Cause::Surplus, Cause::PoolDeleted] {
        for state in [RunnerState::Claimed, RunnerState::Running, RunnerState::Releasing] {
            assert!(runner::end(&runner_in(state), CURRENT, cause, NOW).is_err(), "{cause:?} in {state:?}");
        }
    }
}
