//! What a write at a position of a workflow means: a table of cases, and promises that hold in every history of a position.

use baton_core::step::{Change, Remembered, Unchanged, Writer, write};
use baton_core::{Epoch, Millis, RetryPolicy, StepKind, StepState};
use proptest::prelude::*;

const NOW: Millis = 1_000_000;
const FIRST: Writer = Writer { epoch: Epoch::new(1), failures: 0 };
/// Another worker, after the first was lost.
const SECOND: Writer = Writer { epoch: Epoch::new(2), failures: 0 };
/// After the run failed and is tried again.
const RETRIED: Writer = Writer { epoch: Epoch::new(3), failures: 1 };

fn policy() -> RetryPolicy {
    RetryPolicy { max_attempts: 3, jitter: 0.0, non_retryable: vec!["hopeless".into()], ..RetryPolicy::default() }
}

fn fail(policy: &RetryPolicy, attempt: u32) -> Change<'_> {
    Change::Fail { attempt, code: None, retryable: true, not_before: None, policy, jitter: 0.5, took_ms: 10 }
}

const DONE: Change<'static> = Change::Complete { took_ms: 10 };

/// A step after these changes by these writers, at NOW and a second later each.
fn after(changes: &[(Writer, &Change<'_>)]) -> Remembered {
    let mut known = None;
    for (index, (writer, change)) in changes.iter().enumerate() {
        let now = NOW + 1_000 * index as Millis;
        known = Some(write(known.as_ref(), *writer, StepKind::Step, "pay", change, now).expect("this is written"));
    }
    known.expect("there is a change")
}

fn next(known: &Remembered, writer: Writer, change: &Change<'_>) -> Result<Remembered, Unchanged> {
    write(Some(known), writer, StepKind::Step, "pay", change, NOW + 60_000)
}

#[test]
fn a_step_that_is_done_stays_as_it_is() {
    let (policy, done) = (policy(), after(&[(FIRST, &DONE)]));
    assert_eq!(
        (done.state, done.attempts, done.begun_at, done.ended_at),
        (StepState::Completed, 1, NOW - 10, Some(NOW))
    );
    for writer in [FIRST, SECOND, RETRIED] {
        for change in [Change::Begin, DONE, fail(&policy, 1), fail(&policy, 2)] {
            assert_eq!(next(&done, writer, &change), Err(Unchanged::Repeat), "{change:?}");
        }
    }
}

#[test]
fn another_name_or_kind_diverges_unless_it_is_forgotten() {
    let (policy, done) = (policy(), after(&[(FIRST, &DONE)]));
    let at = |known: &Remembered, writer, kind, name| {
        write(Some(known), writer, kind, name, &DONE, NOW).map(|next| next.name)
    };
    assert_eq!(at(&done, FIRST, StepKind::Step, "ship"), Err(Unchanged::Diverged));
    assert_eq!(at(&done, FIRST, StepKind::Fact, "pay"), Err(Unchanged::Diverged));
    let once = RetryPolicy { max_attempts: 1, ..policy };
    let failed = after(&[(FIRST, &fail(&once, 1))]);
    assert_eq!(failed.state, StepState::Failed);
    assert_eq!(at(&failed, SECOND, StepKind::Step, "ship"), Err(Unchanged::Diverged));
    assert_eq!(at(&failed, RETRIED, StepKind::Step, "ship"), Ok("ship".into()));
}

#[test]
fn a_failed_step_is_remembered_for_the_attempt_of_the_run_it_failed_in() {
    let once = RetryPolicy { max_attempts: 1, ..policy() };
    let failed = after(&[(FIRST, &fail(&once, 1))]);
    assert!(!failed.is_forgotten(SECOND.failures) && failed.is_forgotten(RETRIED.failures));
    assert_eq!(next(&failed, SECOND, &DONE), Err(Unchanged::Repeat));
    let again = next(&failed, RETRIED, &DONE).unwrap();
    assert_eq!((again.state, again.attempts), (StepState::Completed, 1), "attempts are counted anew");
}

#[test]
fn the_policy_says_when_the_next_attempt_is_due_and_when_there_is_none() {
    let policy = policy();
    let first = after(&[(FIRST, &fail(&policy, 1))]);
    assert_eq!((first.state, first.attempts, first.due_at), (StepState::Begun, 1, Some(NOW + 1_000)));
    let second = after(&[(FIRST, &fail(&policy, 1)), (FIRST, &fail(&policy, 2))]);
    assert_eq!((second.attempts, second.due_at), (2, Some(NOW + 1_000 + 2_000)));
    let third = after(&[(FIRST, &fail(&policy, 1)), (FIRST, &fail(&policy, 2)), (FIRST, &fail(&policy, 3))]);
    assert_eq!((third.state, third.attempts, third.due_at), (StepState::Failed, 3, None));
    let late = Change::Fail {
        attempt: 1,
        code: None,
        retryable: true,
        not_before: Some(NOW + 9_000),
        policy: &policy,
        jitter: 0.5,
        took_ms: 0,
    };
    assert_eq!(after(&[(FIRST, &late)]).due_at, Some(NOW + 9_000));
    for (code, retryable) in [(Some("hopeless"), true), (None, false)] {
        let last =
            Change::Fail { attempt: 1, code, retryable, not_before: None, policy: &policy, jitter: 0.5, took_ms: 0 };
        assert_eq!(after(&[(FIRST, &last)]).state, StepState::Failed);
    }
}

#[test]
fn the_same_failure_again_changes_nothing_and_the_next_one_does() {
    let policy = policy();
    let waits = after(&[(FIRST, &fail(&policy, 1))]);
    assert_eq!(next(&waits, FIRST, &fail(&policy, 1)), Err(Unchanged::Repeat));
    assert_eq!(next(&waits, FIRST, &fail(&policy, 2)).unwrap().attempts, 2);
    let begun = after(&[(FIRST, &fail(&policy, 1)), (FIRST, &Change::Begin)]);
    assert_eq!((begun.attempts, begun.due_at), (2, None));
    assert_eq!(next(&begun, FIRST, &fail(&policy, 1)), Err(Unchanged::Repeat));
    assert_eq!(next(&begun, FIRST, &fail(&policy, 2)).unwrap().attempts, 2);
}

#[test]
fn an_attempt_that_was_begun_ends_as_the_one_it_is_unless_its_lease_is_gone() {
    let begun = after(&[(FIRST, &Change::Begin)]);
    assert!(begun.is_in_attempt());
    assert_eq!(next(&begun, FIRST, &Change::Begin), Err(Unchanged::Repeat));
    let done = next(&begun, FIRST, &DONE).unwrap();
    assert_eq!((done.attempts, done.begun_at), (1, NOW), "it is known when it began");
    let taken_over = next(&begun, SECOND, &Change::Begin).unwrap();
    assert_eq!((taken_over.attempts, taken_over.begun_at), (2, NOW + 60_000));
    let done = next(&begun, SECOND, &DONE).unwrap();
    assert_eq!((done.attempts, done.begun_at), (2, NOW + 60_000 - 10));
}

#[test]
fn a_sleep_ends_when_it_was_to_end() {
    let sleep = |known: Option<&Remembered>, writer, until| {
        write(known, writer, StepKind::Sleep, "nap", &Change::Sleep { until }, NOW)
    };
    let begun = sleep(None, FIRST, NOW + 500).unwrap();
    assert_eq!((begun.state, begun.due_at), (StepState::Begun, Some(NOW + 500)));
    assert_eq!(sleep(Some(&begun), SECOND, NOW + 900), Err(Unchanged::Repeat));
    let over = write(Some(&begun), SECOND, StepKind::Sleep, "nap", &DONE, NOW + 600).unwrap();
    assert_eq!(
        (over.state, over.attempts, over.begun_at, over.due_at),
        (StepState::Completed, 1, NOW, Some(NOW + 500))
    );
}

#[test]
fn a_child_is_started_once_and_fails_once() {
    let policy = policy();
    let start = |known: Option<&Remembered>, writer| write(known, writer, StepKind::Child, "ship", &Change::Start, NOW);
    let begun = start(None, FIRST).unwrap();
    assert_eq!(start(Some(&begun), SECOND), Err(Unchanged::Repeat));
    let failed = write(Some(&begun), SECOND, StepKind::Child, "ship", &fail(&policy, 1), NOW).unwrap();
    assert_eq!(failed.state, StepState::Failed, "the child has a policy of its own");
    assert!(start(Some(&failed), RETRIED).is_ok(), "and is started again with the run");
}

#[derive(Clone, Debug)]
enum Verb {
    Begin,
    Complete,
    Fail { attempt: u32, retryable: bool },
}

/// A write: by how much later an epoch, after how many more failures of the run.
fn verbs() -> impl Strategy<Value = Vec<(Verb, bool, bool)>> {
    let verb = prop_oneof![
        3 => Just(Verb::Begin),
        1 => Just(Verb::Complete),
        5 => (0..5u32, prop::bool::weighted(0.9)).prop_map(|(attempt, retryable)| Verb::Fail { attempt, retryable }),
    ];
    prop::collection::vec((verb, prop::bool::weighted(0.2), prop::bool::weighted(0.1)), 1..40)
}

proptest! {
    #[test]
    fn what_is_remembered_only_goes_forward(verbs in verbs(), max_attempts in 1..5u32) {
        let policy = RetryPolicy { max_attempts, jitter: 0.0, ..RetryPolicy::default() };
        let (mut known, mut writer, mut now) = (None::<Remembered>, FIRST, NOW);
        for (verb, is_lost, is_retried) in verbs {
            writer.epoch = Epoch::new(writer.epoch.number() + u32::from(is_lost || is_retried));
            writer.failures += u32::from(is_retried);
            now += 100;
            let change = match verb {
                Verb::Begin => Change::Begin,
                Verb::Complete => DONE,
                Verb::Fail { attempt, retryable } => {
                    Change::Fail { attempt, code: None, retryable, not_before: None, policy: &policy, jitter: 0.5, took_ms: 5 }
                }
            };
            let ask = |known: Option<&Remembered>| write(known, writer, StepKind::Step, "pay", &change, now);
            let before = known.as_ref().filter(|known| !known.is_forgotten(writer.failures));
            match ask(known.as_ref()) {
                Ok(after) => {
                    prop_assert!(before.is_none_or(|before| before.state == StepState::Begun), "{before:?}");
                    prop_assert!(before.is_none_or(|before| before.attempts <= after.attempts), "{after:?}");
                    prop_assert!(after.attempts > 0 && after.begun_at <= now);
                    prop_assert_eq!(after.ended_at.is_some(), after.state != StepState::Begun);
                    prop_assert!(after.due_at.is_none_or(|at| at > now && after.attempts < max_attempts), "{after:?}");
                    // The answer was lost, and the same is written again.
                    prop_assert_eq!(ask(Some(&after)), Err(Unchanged::Repeat), "{:?}", after);
                    known = Some(after);
                }
                Err(unchanged) => {
                    prop_assert_eq!(unchanged, Unchanged::Repeat);
                    prop_assert!(before.is_some(), "nothing was there to be repeated");
                }
            }
        }
    }
}
