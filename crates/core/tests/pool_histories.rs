//! Promises that hold in every history of a runner: random verbs, by the right and the wrong caller, at random times.

use baton_core::pools::{Cause, ClaimNo, Refused, Runner, RunnerState, runner};
use baton_core::{Epoch, Millis};
use proptest::prelude::*;

const START: Millis = 1_000_000;

#[derive(Clone, Copy, Debug)]
enum Verb {
    Ready,
    Take(ClaimNo),
    Registered,
    RegisterFailed,
    Commit(ClaimNo),
    Release(ClaimNo),
    Deregistered,
    DeregisterFailed,
    End(Cause),
    Expire,
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    verb: Verb,
    pause_ms: Millis,
    /// How far behind the caller's epoch is; 0 is the current one.
    behind: u32,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let claim = 1..4i64;
    let verb = prop_oneof![
        2 => Just(Verb::Ready),
        4 => claim.clone().prop_map(Verb::Take),
        4 => Just(Verb::Registered),
        1 => Just(Verb::RegisterFailed),
        4 => claim.clone().prop_map(Verb::Commit),
        3 => claim.prop_map(Verb::Release),
        4 => Just(Verb::Deregistered),
        1 => Just(Verb::DeregisterFailed),
        2 => proptest::sample::select(Cause::ALL.to_vec()).prop_map(Verb::End),
        1 => Just(Verb::Expire),
        1 => Just(Verb::Gone),
    ];
    let behind = prop_oneof![4 => Just(0u32), 1 => 1..3u32];
    let step = (verb, 0..40i64, behind).prop_map(|(verb, pause_ms, behind)| Step { verb, pause_ms, behind });
    proptest::collection::vec(step, 1..60)
}

fn ask(step: &Step, runner: &Runner, now: Millis) -> Result<Runner, Refused> {
    let seen = Epoch::new(runner.epoch.number().saturating_sub(step.behind));
    match step.verb {
        Verb::Ready => runner::ready(runner, now),
        Verb::Take(claim) => runner::take(runner, seen, claim, now + 100),
        Verb::Registered => runner::registered(runner, seen, now),
        Verb::RegisterFailed => runner::register_failed(runner, seen, now),
        Verb::Commit(claim) => runner::commit(runner, claim, now + 200),
        Verb::Release(claim) => runner::release(runner, claim, now + 100),
        Verb::Deregistered => runner::deregistered(runner, seen, now),
        Verb::DeregisterFailed => runner::deregister_failed(runner, seen, now),
        Verb::End(cause) => runner::end(runner, seen, cause, now),
        Verb::Expire => runner::expire(runner, now),
        Verb::Gone => runner::gone(runner),
    }
}

/// What must be true of a runner in any state.
fn is_sound(runner: &Runner) -> bool {
    let is_held = matches!(runner.state, RunnerState::Claimed | RunnerState::Running);
    let is_ended = matches!(runner.state, RunnerState::Terminating | RunnerState::Gone);
    let has_deadline = match runner.state {
        RunnerState::Idle | RunnerState::Gone => runner.deadline.is_none(),
        RunnerState::Claimed => runner.deadline.is_some() != runner.registered_at.is_some(),
        RunnerState::Creating | RunnerState::Running | RunnerState::Releasing | RunnerState::Terminating => {
            runner.deadline.is_some()
        }
    };
    let is_registered = runner.state != RunnerState::Running || runner.registered_at.is_some();
    runner.owner.is_some() == is_held && runner.cause.is_some() == is_ended && has_deadline && is_registered
}

proptest! {
    #[test]
    fn histories_keep_their_promises(steps in steps()) {
        let (mut now, mut runner) = (START, Runner::ordered(START + 100));
        for step in &steps {
            now += step.pause_ms;
            let Ok(next) = ask(step, &runner, now) else { continue };
            prop_assert!(is_sound(&next), "{runner:?} {step:?} {next:?}");
            prop_assert!(next.epoch >= runner.epoch, "the fence never goes back");
            let changes_owner = next.owner != runner.owner;
            prop_assert!(!changes_owner || next.epoch > runner.epoch || next.state == RunnerState::Idle);
            // Idle is reached only from a machine that said it is up, or from one that said it is clean.
            if next.state == RunnerState::Idle {
                prop_assert!(matches!(runner.state, RunnerState::Creating | RunnerState::Releasing));
            }
            // Nobody but an idle runner is claimed, and nobody is running who has not registered for this very claim.
            if next.state == RunnerState::Claimed && runner.state != RunnerState::Claimed {
                prop_assert_eq!(runner.state, RunnerState::Idle);
            }
            if next.state == RunnerState::Running {
                prop_assert!(runner.state == RunnerState::Claimed && runner.registered_at.is_some());
            }
            // What ends, ends.
            match runner.state {
                RunnerState::Terminating => prop_assert_eq!(next.state, RunnerState::Gone),
                RunnerState::Gone => prop_assert!(false, "something happened to a runner that is gone"),
                _ => prop_assert_ne!(next.state, RunnerState::Gone, "forgotten before it was ended"),
            }
            runner = next;
        }
    }

    #[test]
    fn whoever_saw_an_older_epoch_changes_nothing(steps in steps(), last: Fenced) {
        let (mut now, mut runner) = (START, Runner::ordered(START + 100));
        for step in &steps {
            now += step.pause_ms;
            if let Ok(next) = ask(&Step { behind: 0, ..*step }, &runner, now) {
                runner = next;
            }
        }
        if runner.epoch.number() > 0 {
            let late = Step { verb: last.0, pause_ms: 0, behind: 1 };
            prop_assert!(ask(&late, &runner, now).is_err(), "{runner:?} {late:?}");
        }
    }
}

/// A verb that names an epoch.
#[derive(Clone, Copy, Debug)]
struct Fenced(Verb);

impl Arbitrary for Fenced {
    type Parameters = ();
    type Strategy = BoxedStrategy<Fenced>;

    fn arbitrary_with((): ()) -> BoxedStrategy<Fenced> {
        let fenced =
            [Verb::Take(1), Verb::Registered, Verb::RegisterFailed, Verb::Deregistered, Verb::DeregisterFailed];
        let ends = Cause::ALL.into_iter().map(Verb::End);
        proptest::sample::select(fenced.into_iter().chain(ends).collect::<Vec<_>>()).prop_map(Fenced).boxed()
    }
}
