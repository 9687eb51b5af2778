//! Promises that hold in every history of a run: random verbs, with right and wrong leases, at random times.
//!
//! That a refused verb changes nothing needs no test here: the rules get the run by shared reference and return a
//! new one or a refusal, never both. What is tested instead is who gets refused.

use std::collections::{BTreeMap, HashSet};

use baton_core::machine::{self, Expiry, Options};
use baton_core::{Epoch, Failure, LeaseEnd, Millis, Reason, Refused, RetryPolicy, Run, State};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};

const START: Millis = 1_000_000;
const GRACE_MS: Millis = 500;

#[derive(Clone, Debug)]
enum Verb {
    Claim,
    Start,
    Complete,
    Fail(Failure),
    GiveBack,
    Sleep { ms: Millis },
    Wake,
    Cancelled,
    Cancel,
    Expire(Expiry),
    TimeOut,
}

impl Verb {
    /// How a lease ends with this verb, for the verbs of workers that end one.
    fn ends_lease(&self) -> Option<LeaseEnd> {
        match self {
            Verb::Complete => Some(LeaseEnd::Completed),
            Verb::Fail(_) => Some(LeaseEnd::Failed),
            Verb::GiveBack => Some(LeaseEnd::GivenBack),
            Verb::Sleep { .. } => Some(LeaseEnd::Slept),
            Verb::Cancelled => Some(LeaseEnd::Cancelled),
            Verb::Claim | Verb::Start | Verb::Wake | Verb::Cancel | Verb::Expire(_) | Verb::TimeOut => None,
        }
    }

    fn has_lease(&self) -> bool {
        self.ends_lease().is_some() || matches!(self, Verb::Start)
    }
}

/// A verb, after a pause.
#[derive(Clone, Debug)]
struct Step {
    pause_ms: Millis,
    verb: Verb,
    /// How far the caller's epoch is from the current one; 0 is the holder's.
    off_by: i32,
    jitter: f64,
}

fn verbs() -> impl Strategy<Value = Verb> {
    let failure = (prop_oneof![4 => Just(Reason::Error), 1 => Just(Reason::Rejected)], prop::bool::weighted(0.8))
        .prop_flat_map(|(reason, retryable)| {
            let (code, not_before) = (prop::option::of("[ab]"), prop::option::of(START..START + 20_000));
            (code, not_before).prop_map(move |(code, not_before)| {
                Verb::Fail(Failure { reason, code, message: String::new(), retryable, not_before })
            })
        });
    let expiry = prop_oneof![3 => Just(Expiry::Lease), 2 => Just(Expiry::Timeout), 1 => Just(Expiry::CancelGrace)];
    prop_oneof![
        12 => Just(Verb::Claim),
        4 => Just(Verb::Start),
        1 => Just(Verb::Complete),
        4 => failure,
        3 => Just(Verb::GiveBack),
        3 => (0..2_000i64).prop_map(|ms| Verb::Sleep { ms }),
        2 => Just(Verb::Wake),
        1 => Just(Verb::Cancel),
        1 => prop_oneof![Just(Verb::Cancelled), Just(Verb::TimeOut)],
        4 => expiry.prop_map(Verb::Expire),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let off_by = prop_oneof![6 => Just(0), 2 => -3..0i32, 1 => 1..3i32];
    let step = (0..4_000i64, verbs(), off_by, 0.0..=1.0f64).prop_map(|(pause_ms, verb, off_by, jitter)| Step {
        pause_ms,
        verb,
        off_by,
        jitter,
    });
    prop::collection::vec(step, 1..60)
}

fn options() -> impl Strategy<Value = Options> {
    (1..5u32, 0..4u32, prop::collection::vec("[ab]", 0..2)).prop_map(|(max_attempts, max_losses, non_retryable)| {
        let retry = RetryPolicy { max_attempts, non_retryable, max_interval_ms: 5_000, ..RetryPolicy::default() };
        Options { retry, max_losses, ..Options::default() }
    })
}

/// A run and all its leases that have ended, as a store remembers them.
struct History {
    run: Run,
    now: Millis,
    options: Options,
    ends: BTreeMap<u32, LeaseEnd>,
}

/// What one step did.
struct Outcome {
    before: Run,
    lease: Epoch,
    answer: Result<Run, Refused>,
}

impl History {
    fn ask(&self, verb: &Verb, lease: Epoch, jitter: f64) -> Result<Run, Refused> {
        let (run, past) = (&self.run, self.ends.get(&lease.number()).copied());
        match verb {
            Verb::Claim => machine::claim(run, self.now),
            Verb::Start => machine::start(run, lease),
            Verb::Complete => machine::complete(run, lease, past),
            Verb::Fail(failure) => machine::fail(run, lease, past, failure, &self.options.retry, self.now, jitter),
            Verb::GiveBack => machine::give_back(run, lease, past, self.now),
            Verb::Sleep { ms } => machine::sleep(run, lease, past, self.now + ms),
            Verb::Wake => machine::wake(run, self.now),
            Verb::Cancelled => machine::cancelled(run, lease, past),
            Verb::TimeOut => machine::time_out(run),
            Verb::Cancel => machine::cancel(run, self.now + GRACE_MS),
            Verb::Expire(what) => machine::expire(run, *what, &self.options, self.now, jitter),
        }
    }

    fn take(&mut self, step: &Step) -> Outcome {
        self.now += step.pause_ms;
        let before = self.run;
        let lease = Epoch::new(before.epoch.number().saturating_add_signed(step.off_by));
        let answer = self.ask(&step.verb, lease, step.jitter);
        if let Ok(next) = answer {
            if before.state.is_held() && !next.state.is_held() {
                let what = match &step.verb {
                    Verb::Expire(what) => what.lease_end(),
                    Verb::TimeOut => LeaseEnd::TimedOut,
                    verb => {
                        verb.ends_lease().expect("only these verbs, expire and time_out take a run from its holder")
                    }
                };
                self.ends.insert(before.epoch.number(), machine::lease_end(what, &next));
            }
            self.run = next;
        }
        Outcome { before, lease, answer }
    }
}

/// Walks through a history and shows each step, with the history after it, to `look`.
fn walk(
    options: Options,
    steps: &[Step],
    mut look: impl FnMut(&Step, &Outcome, &History) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut history = History { run: Run::submitted(START), now: START, options, ends: BTreeMap::new() };
    for step in steps {
        let outcome = history.take(step);
        look(step, &outcome, &history)?;
    }
    Ok(())
}

/// A file of failed cases beside this one, so that each is tried again first.
fn config() -> Config {
    let beside = FileFailurePersistence::WithSource("regressions");
    Config { failure_persistence: Some(Box::new(beside)), ..Config::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_terminal_state_never_changes(options in options(), steps in steps()) {
        walk(options, &steps, |_, outcome, _| {
            prop_assert!(!outcome.before.state.is_ended() || outcome.answer.is_err(), "{:?}", outcome.answer);
            Ok(())
        })?;
    }

    #[test]
    fn the_epoch_grows_by_one_with_a_claim_and_never_otherwise(options in options(), steps in steps()) {
        walk(options, &steps, |step, outcome, history| {
            let claimed = u32::from(matches!(step.verb, Verb::Claim) && outcome.answer.is_ok());
            prop_assert_eq!(history.run.epoch.number(), outcome.before.epoch.number() + claimed);
            Ok(())
        })?;
    }

    #[test]
    fn only_the_current_lease_is_heard_and_it_always_is(options in options(), steps in steps()) {
        walk(options, &steps, |step, Outcome { before, lease, answer }, _| {
            if !step.verb.has_lease() {
                return Ok(());
            }
            if !before.state.is_held() || *lease != before.epoch {
                prop_assert!(answer.is_err(), "{:?} was carried out for {lease} in {before:?}", step.verb);
                return Ok(());
            }
            match answer {
                Ok(_) => {}
                Err(Refused::AlreadyDone) => {
                    prop_assert!(matches!(step.verb, Verb::Start) && before.state == State::Running)
                }
                Err(Refused::Cancelling) => {
                    let sleeps = matches!(step.verb, Verb::Sleep { .. });
                    prop_assert!(sleeps && before.cancel_by.is_some(), "{:?} in {before:?}", step.verb)
                }
                Err(refused) => prop_assert!(false, "{:?} of the holder was refused: {refused}", step.verb),
            }
            Ok(())
        })?;
    }

    #[test]
    fn only_one_lease_can_ever_complete_a_run(options in options(), steps in steps()) {
        let mut completed = None;
        walk(options, &steps, |step, outcome, history| {
            if matches!(step.verb, Verb::Complete) && outcome.answer.is_ok() {
                prop_assert_eq!(completed.replace(outcome.lease), None);
            }
            prop_assert_eq!(completed.is_some(), history.run.state == State::Completed);
            // Nobody is told that its work counted, but the one whose work did.
            for epoch in 0..=history.run.epoch.number() + 1 {
                let told = history.ask(&Verb::Complete, Epoch::new(epoch), 0.5) == Err(Refused::AlreadyDone);
                prop_assert_eq!(told, completed == Some(Epoch::new(epoch)));
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_repeated_ending_is_already_done_whatever_happened_since(options in options(), steps in steps()) {
        let mut done = Vec::new();
        walk(options, &steps, |step, outcome, history| {
            if step.verb.ends_lease().is_some() && outcome.answer.is_ok() {
                done.push((step.verb.clone(), outcome.lease));
            }
            for (verb, lease) in &done {
                prop_assert_eq!(history.ask(verb, *lease, 0.5), Err(Refused::AlreadyDone), "{:?} of {}", verb, lease);
            }
            Ok(())
        })?;
    }

    #[test]
    fn budgets_are_never_exceeded(options in options(), steps in steps()) {
        walk(options, &steps, |_, _, History { run, options, .. }| {
            prop_assert!(run.failures <= options.retry.max_attempts, "{run:?}");
            prop_assert!(run.losses <= options.max_losses + 1, "{run:?}");
            let can_go_on = run.failures < options.retry.max_attempts && run.losses <= options.max_losses;
            prop_assert!(run.state.is_ended() || can_go_on, "{run:?} waits or works beyond its budget");
            prop_assert_eq!(run.reason == Some(Reason::Poison), run.losses > options.max_losses);
            Ok(())
        })?;
    }

    #[test]
    fn a_run_is_not_claimed_before_it_is_due(options in options(), steps in steps()) {
        walk(options, &steps, |step, outcome, history| {
            let (before, claimed) = (outcome.before, outcome.answer.is_ok());
            match &step.verb {
                Verb::Wake if claimed => {
                    prop_assert!(before.state == State::Sleeping && before.due_at > history.now);
                    prop_assert_eq!(history.run, Run { due_at: history.now, ..before })
                }
                Verb::Claim if !before.state.is_held() && !before.state.is_ended() => {
                    prop_assert_eq!(claimed, before.due_at <= history.now)
                }
                Verb::Fail(Failure { not_before: Some(at), .. }) if history.run.state == State::Pending && claimed => {
                    prop_assert!(history.run.due_at >= *at)
                }
                _ => {}
            }
            Ok(())
        })?;
    }

    #[test]
    fn what_is_known_of_a_run_fits_its_state(options in options(), steps in steps()) {
        walk(options, &steps, |_, _, History { run, .. }| {
            prop_assert_eq!(run.reason.is_some(), matches!(run.state, State::Failed | State::Cancelled));
            prop_assert_eq!(run.reason == Some(Reason::Cancelled), run.state == State::Cancelled);
            let waits = matches!(run.state, State::Pending | State::Sleeping);
            prop_assert!(!waits || run.cancel_by.is_none(), "a run waits that should be cancelled: {run:?}");
            Ok(())
        })?;
    }
}

#[test]
fn the_random_histories_reach_every_state_and_every_end_of_a_lease() {
    let mut runner = TestRunner::deterministic();
    let (mut states, mut ends) = (HashSet::new(), HashSet::new());
    for _ in 0..500 {
        let (options, steps) = (options(), steps()).new_tree(&mut runner).expect("the strategy makes values").current();
        walk(options, &steps, |_, _, history| {
            states.insert(history.run.state);
            ends.extend(history.ends.values().map(|end| end.code()));
            Ok(())
        })
        .expect("this walk demands nothing");
    }
    assert_eq!((states.len(), ends.len()), (State::ALL.len(), LeaseEnd::ALL.len()));
}
