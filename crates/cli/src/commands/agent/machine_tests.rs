use baton::proto::Time;

use super::*;

const PATIENCE: Patience = Patience { overtime_ms: 60_000, unreachable_ms: 600_000 };

fn order(action: RunnerAction, epoch: u32, remaining_ms: Option<u64>) -> RunnerOrder {
    let run_id = match action {
        RunnerAction::Register | RunnerAction::Keep | RunnerAction::Deregister => Some("ci-17".to_owned()),
        RunnerAction::Start | RunnerAction::Idle | RunnerAction::End => None,
    };
    RunnerOrder { serial: String::new(), action, epoch, run_id, deadline: None, remaining_ms }
}

fn start() -> Input {
    Input::Order(order(RunnerAction::Start, 0, Some(180_000)))
}

fn idle(epoch: u32) -> Input {
    Input::Order(order(RunnerAction::Idle, epoch, None))
}

fn register(epoch: u32) -> Input {
    Input::Order(order(RunnerAction::Register, epoch, Some(10_000)))
}

fn keep(epoch: u32, remaining_ms: Option<u64>) -> Input {
    Input::Order(order(RunnerAction::Keep, epoch, remaining_ms))
}

fn deregister(epoch: u32) -> Input {
    Input::Order(order(RunnerAction::Deregister, epoch, Some(30_000)))
}

fn end() -> Input {
    Input::Order(order(RunnerAction::End, 99, Some(0)))
}

fn worked(hook: Hook) -> Input {
    Input::Hook(hook, Ok(()))
}

fn failed(hook: Hook) -> Input {
    Input::Hook(hook, Err("no".into()))
}

/// An action in a word or two, with the epoch it is about.
fn short(action: &Action) -> String {
    match action {
        Action::Register(job) => format!("register {}", job.epoch),
        Action::Deregister(job) => format!("deregister {}", job.epoch),
        Action::Clean => "clean".into(),
        Action::Say(signal) => {
            assert_eq!(signal.run_id.is_some(), signal.signal.is_about_run(), "{signal:?}");
            format!("{} {}", signal.signal.as_str(), signal.epoch)
        }
        Action::End(why) => format!("end: {why:?}"),
    }
}

/// Tells an agent that joined at 0 all of this, a second apart, and returns what it did about each.
fn told(inputs: &[Input]) -> (Agent, Vec<String>) {
    let (mut agent, first) = Agent::joined(PATIENCE, &order(RunnerAction::Start, 0, Some(180_000)), 0);
    assert_eq!(first.iter().map(short).collect::<Vec<_>>(), ["UD_OK 0"]);
    let said = inputs.iter().enumerate().map(|(second, input)| {
        let actions = agent.hear(input.clone(), second as Millis * 1_000);
        actions.iter().map(short).collect::<Vec<_>>().join(", ")
    });
    let said = said.collect();
    (agent, said)
}

/// Each line: what the agent hears, and what it does about it.
#[track_caller]
fn check(story: &[(Input, &str)]) {
    let inputs: Vec<Input> = story.iter().map(|(input, _)| input.clone()).collect();
    let expected: Vec<&str> = story.iter().map(|(_, does)| *does).collect();
    assert_eq!(told(&inputs).1, expected);
}

#[test]
fn a_machine_goes_around_again_and_again() {
    let mut story = vec![(start(), ""), (idle(0), "")];
    for epoch in [1, 3, 5] {
        story.extend(
            [
                (register(epoch), format!("register {epoch}")),
                (register(epoch), String::new()),
                (worked(Hook::Register), format!("UD_REG_OK {epoch}")),
                (register(epoch), String::new()),
                (keep(epoch, None), String::new()),
                (keep(epoch, Some(3_600_000)), String::new()),
                (deregister(epoch + 1), format!("deregister {}", epoch + 1)),
                (deregister(epoch + 1), String::new()),
                (worked(Hook::Deregister), "clean".into()),
                (deregister(epoch + 1), String::new()),
                (Input::Cleaned(Ok(())), format!("UD_REMOVE_REG_OK {}", epoch + 1)),
                (deregister(epoch + 1), String::new()),
                (idle(epoch + 1), String::new()),
            ]
            .map(|(input, does)| (input, &*does.leak())),
        );
    }
    check(&story);
}

#[test]
fn a_claim_that_is_given_up_is_let_go_of_wherever_the_agent_is() {
    // Before it has heard of it: nothing is registered, so no hook is run.
    check(&[(deregister(2), "UD_REMOVE_REG_OK 2"), (deregister(2), ""), (idle(2), ""), (register(3), "register 3")]);
    // While the hook runs; its end is of no interest then.
    check(&[
        (register(1), "register 1"),
        (deregister(2), "deregister 2"),
        (failed(Hook::Register), ""),
        (worked(Hook::Deregister), "clean"),
        (Input::Cleaned(Ok(())), "UD_REMOVE_REG_OK 2"),
    ]);
    // When the hook has failed, and the server has not heard of it in time.
    check(&[
        (register(1), "register 1"),
        (failed(Hook::Register), "UD_REG_FAILED 1"),
        (deregister(2), "UD_REMOVE_REG_FAILED 2"),
        (deregister(2), ""),
        (end(), "deregister 2"),
        (worked(Hook::Deregister), "end: Told"),
    ]);
}

#[test]
fn a_hook_that_fails_is_told_and_the_machine_is_not_used_again() {
    check(&[
        (register(1), "register 1"),
        (failed(Hook::Register), "UD_REG_FAILED 1"),
        (register(1), ""),
        (end(), "deregister 1"),
        (failed(Hook::Deregister), "end: Told"),
    ]);
    let released = [(register(1), "register 1"), (worked(Hook::Register), "UD_REG_OK 1")];
    let hook_failed =
        [(deregister(2), "deregister 2"), (failed(Hook::Deregister), "UD_REMOVE_REG_FAILED 2"), (end(), "end: Told")];
    check(&[released.clone().as_slice(), &hook_failed].concat());
    let not_clean = [
        (deregister(2), "deregister 2"),
        (worked(Hook::Deregister), "clean"),
        (Input::Cleaned(Err("busy".into())), "UD_REMOVE_REG_FAILED 2"),
        (deregister(2), ""),
        (end(), "end: Told"),
    ];
    check(&[released.as_slice(), &not_clean].concat());
}

#[test]
fn why_a_hook_failed_is_said() {
    let (mut agent, _) = told(&[register(1)]);
    let said = agent.hear(Input::Hook(Hook::Register, Err("no such runner".into())), 2_000);
    let (signal, run_id) = (Signal::RegisterFailed, Some("ci-17".to_owned()));
    assert_eq!(said, [Action::Say(SignalRunner { signal, epoch: 1, run_id, detail: "no such runner".into() })]);
}

/// Every place an agent can be in, with what it has heard until then, whether the end has to wait for the hook that deregisters, and whether that has begun.
fn places() -> Vec<(&'static str, Vec<Input>, bool, bool)> {
    let registered = vec![register(1), worked(Hook::Register)];
    let more = |last: &[Input]| [registered.as_slice(), last].concat();
    vec![
        ("new", vec![], false, false),
        ("idle", vec![idle(0)], false, false),
        ("registering", vec![register(1)], true, false),
        ("registered", registered.clone(), true, false),
        ("running", more(&[keep(1, Some(3_600_000))]), true, false),
        ("register failed", vec![register(1), failed(Hook::Register)], true, false),
        ("deregistering", more(&[deregister(2)]), true, true),
        ("cleaning", more(&[deregister(2), worked(Hook::Deregister)]), false, false),
        ("deregister failed", more(&[deregister(2), failed(Hook::Deregister)]), false, false),
        ("idle again", more(&[deregister(2), worked(Hook::Deregister), Input::Cleaned(Ok(())), idle(2)]), false, false),
    ]
}

/// The agent ends for this reason, after it has deregistered where it has to, and does nothing after that.
#[track_caller]
fn check_ends(
    place: &str,
    agent: &mut Agent,
    actions: &[Action],
    why: Why,
    has_hook: bool,
    is_begun: bool,
    now: Millis,
) {
    match (has_hook, is_begun) {
        (true, true) => assert_eq!(actions, [], "{place}"),
        (true, false) => assert!(matches!(actions, [Action::Deregister(_)]), "{place}: {actions:?}"),
        (false, _) => assert_eq!(actions, [Action::End(why.clone())], "{place}"),
    }
    assert_eq!(agent.wake_at(), None, "{place}");
    if has_hook {
        // Whatever is said meanwhile, also that it was all a mistake.
        for input in [idle(100), register(101), keep(101, None), deregister(102), end(), Input::Stop, Input::Time] {
            assert_eq!(agent.hear(input.clone(), now), [], "{place}: {input:?}");
        }
        assert_eq!(agent.hear(failed(Hook::Register), now), [], "{place}");
        assert_eq!(agent.hear(worked(Hook::Deregister), now), [Action::End(why)], "{place}");
    }
    for input in [register(200), end(), worked(Hook::Deregister), Input::Cleaned(Ok(())), Input::Stop, Input::Time] {
        assert_eq!(agent.hear(input, now), [], "{place}");
    }
}

#[test]
fn the_end_comes_from_everywhere_and_is_the_end() {
    let causes = [
        (end(), Why::Told),
        // As a server says it that has forgotten the runner.
        (Input::Order(order(RunnerAction::End, 0, None)), Why::Told),
        (Input::Stop, Why::Stopped),
        (Input::Disowned("unknown".into()), Why::Disowned("unknown".into())),
    ];
    for (place, before, has_hook, is_begun) in places() {
        for (input, why) in &causes {
            let (mut agent, _) = told(&before);
            let actions = agent.hear(input.clone(), 20_000);
            check_ends(place, &mut agent, &actions, why.clone(), has_hook, is_begun, 20_000);
        }
    }
}

#[test]
fn an_agent_that_reaches_nobody_for_too_long_ends_its_machine() {
    for (place, before, has_hook, is_begun) in places() {
        let (mut agent, _) = told(&before);
        // No deadline is to come first.
        let patience = Patience { overtime_ms: 100_000_000, ..PATIENCE };
        agent.patience = patience;
        let alone_at = agent.wake_at().unwrap();
        assert_eq!(alone_at, agent.reached + PATIENCE.unreachable_ms + 1, "{place}");
        assert_eq!(agent.hear(Input::Time, alone_at - 1), [], "{place}");
        let actions = agent.hear(Input::Time, alone_at);
        check_ends(place, &mut agent, &actions, Why::Unreachable, has_hook, is_begun, alone_at);
    }
}

#[test]
fn any_answer_of_the_server_is_a_sign_of_life() {
    let (mut agent, _) = told(&[]);
    assert_eq!(agent.hear(idle(0), 599_000), []);
    assert_eq!(agent.hear(Input::Time, 1_199_000), []);
    // Old news are news of a living server.
    assert_eq!(agent.hear(register(5), 1_199_000).len(), 1);
    assert_eq!(agent.hear(worked(Hook::Register), 1_199_000).len(), 1);
    assert_eq!(agent.hear(idle(4), 1_700_000), []);
    assert_eq!(agent.hear(Input::Time, 2_300_000), []);
    assert_eq!(agent.hear(Input::Time, 2_300_001).len(), 1);
}

#[test]
fn a_minute_after_its_deadline_a_machine_ends_although_the_server_is_there() {
    // Place, what was heard, and when its minute is over: orders come a second apart, with the time that is left.
    let registered = [register(1), worked(Hook::Register)];
    let cases: [(&str, Vec<Input>, Option<Millis>); 6] = [
        ("new", vec![start()], None),
        ("registering", vec![register(1)], Some(70_000)),
        ("registered", registered.to_vec(), None),
        ("not handed over", [registered.as_slice(), &[keep(1, None)]].concat(), None),
        ("running", [registered.as_slice(), &[keep(1, None), keep(1, Some(100_000))]].concat(), Some(163_000)),
        ("releasing", [registered.as_slice(), &[deregister(2)]].concat(), Some(92_000)),
    ];
    for (place, before, over_at) in cases {
        let (mut agent, _) = told(&before);
        assert_eq!(agent.overtime_at(), over_at, "{place}");
        let Some(over_at) = over_at else { continue };
        assert_eq!(agent.wake_at(), Some(over_at + 1), "{place}");
        assert_eq!(agent.hear(Input::Time, over_at), [], "{place}");
        agent.hear(Input::Time, over_at + 1);
        assert_eq!(agent.stage, Stage::Ending(Why::Overtime), "{place}");
    }
}

#[test]
fn a_deadline_that_has_passed_stays_where_it_was_and_another_one_counts() {
    let (mut agent, _) = told(&[register(1), worked(Hook::Register), keep(1, Some(100_000))]);
    assert_eq!(agent.overtime_at(), Some(162_000));
    for second in [3, 50, 102, 107, 160] {
        let left = 102_000_u64.saturating_sub(second * 1_000);
        assert_eq!(agent.hear(keep(1, Some(left)), second as Millis * 1_000), [], "{second}");
        assert_eq!(agent.overtime_at(), Some(162_000), "{second}");
    }
    let later = RunnerOrder { deadline: Some(Time(1)), ..order(RunnerAction::Keep, 1, Some(500_000)) };
    assert_eq!(agent.hear(Input::Order(later), 161_000), []);
    assert_eq!(agent.overtime_at(), Some(721_000));
}

#[test]
fn an_answer_that_was_overtaken_changes_nothing() {
    let registered = [register(3), worked(Hook::Register), keep(3, Some(3_600_000))];
    let released = [deregister(4), worked(Hook::Deregister), Input::Cleaned(Ok(()))];
    for late in [start(), idle(0), idle(2), register(1), keep(1, Some(1)), deregister(2)] {
        for before in [registered.to_vec(), [registered.as_slice(), &released].concat()] {
            let (mut agent, _) = told(&before);
            let stage = agent.stage.clone();
            assert_eq!(agent.hear(late.clone(), 10_000), [], "{late:?}");
            assert_eq!(agent.stage, stage, "{late:?}");
        }
    }
    // The time for registering is not the time for running.
    let (mut agent, _) = told(&registered);
    let over_at = agent.overtime_at();
    assert_eq!(agent.hear(register(3), 10_000), []);
    assert_eq!(agent.overtime_at(), over_at);
}

#[test]
fn a_machine_whose_server_takes_it_for_another_is_not_handed_to_anybody() {
    let registered = [register(3), worked(Hook::Register)];
    let cases: [(&str, &[Input], Input); 7] = [
        ("idle while it is registered", &registered, idle(4)),
        ("for another run", &registered, register(5)),
        ("another run keeps it", &registered, keep(5, None)),
        ("a run keeps it that it never registered for", &[], keep(1, None)),
        ("idle while it registers", &[register(3)], idle(4)),
        ("registered while it registers", &[register(3)], keep(3, None)),
        ("released twice", &[register(3), deregister(4)], deregister(6)),
    ];
    for (what, before, input) in cases {
        let (mut agent, _) = told(before);
        let actions = agent.hear(input, 10_000);
        let is_ending = matches!(agent.stage, Stage::Ending(Why::Confused)) || actions == [Action::End(Why::Confused)];
        assert!(is_ending, "{what}: {actions:?}");
    }
}

#[test]
fn whoever_joins_late_does_what_is_wanted_now() {
    let first = |action, epoch| {
        let (_, actions) = Agent::joined(PATIENCE, &order(action, epoch, Some(10_000)), 0);
        actions.iter().map(short).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(first(RunnerAction::Start, 0), "UD_OK 0");
    assert_eq!(first(RunnerAction::Idle, 0), "");
    assert_eq!(first(RunnerAction::Register, 1), "register 1");
    assert_eq!(first(RunnerAction::Deregister, 2), "UD_REMOVE_REG_OK 2");
    assert_eq!(first(RunnerAction::Keep, 1), "end: Confused");
    assert_eq!(first(RunnerAction::End, 1), "end: Told");
}
