//! Fires: each starts one run, whoever carries it out and however often; the overlap policies; by hand; the history.

use baton_core::schedule::Overlap;
use baton_core::{Millis, RunId, State};
use baton_store::{
    Due, Fire, FireAnswer, FireKind, FireRun, Idempotency, Missed, NewRun, NewSchedule, Page, Schedule, ScheduleChange,
};

use crate::rig::{Rig, START, contract, done, lease, once, run};
use crate::schedules::{made, new_schedule};

contract!(
    fires_start_runs_and_move_the_schedule_on,
    a_schedule_that_is_not_as_it_was_seen_does_not_fire,
    of_many_servers_one_fires,
    skipped_fires_wait_for_nobody,
    one_fire_waits_for_the_end_of_the_run_before_it,
    a_run_that_continues_as_another_is_still_the_run_before,
    a_fire_that_cancels_overtakes_those_before_it,
    runs_with_keys_of_their_own_are_placed_fairly,
    a_run_with_a_timeout_has_a_deadline,
    a_key_that_somebody_took_leaves_the_fire_out,
    missed_fires_are_one_line_and_all_counted,
    fires_by_hand_start_what_is_not_there_yet,
    history_is_read_in_pages_and_forgotten,
    the_last_fires_of_many_are_read_at_once,
);

const KIND: &str = "nightly";

async fn fire_run(rig: &Rig, at: Millis) -> FireRun {
    let lane = rig.lane(KIND).await;
    FireRun { at, run: once(lane, &format!("schedule:a:{at}"), 1), die: crate::rig::dice(), timeout_ms: None }
}

/// Fires of a schedule as it is seen now.
async fn fire(rig: &Rig, seen: &Schedule, overlap: Overlap, at: &[Millis]) -> Fire {
    let mut fires = Vec::new();
    for at in seen.buffered_at.iter().chain(at) {
        fires.push(fire_run(rig, *at).await);
    }
    let last_at = at.last().copied().unwrap_or(seen.last_at);
    Fire {
        schedule: seen.number,
        revision: seen.revision,
        overlap,
        fires,
        last_at,
        next_at: Some(last_at + 1_000),
        missed: None,
    }
}

/// Carries out fires, and returns what was started.
async fn fired(rig: &Rig, overlap: Overlap, at: &[Millis]) -> Vec<(Millis, RunId)> {
    let seen = shown(rig).await;
    match rig.store.fire(fire(rig, &seen, overlap, at).await).await.unwrap() {
        FireAnswer::Fired(started) => started.into_iter().map(|(at, submitted)| (at, submitted.run)).collect(),
        FireAnswer::Stale => panic!("somebody else was faster"),
    }
}

async fn shown(rig: &Rig) -> Schedule {
    rig.store.schedule("default", "a").await.unwrap().unwrap()
}

/// What became of fires, oldest first.
async fn history(rig: &Rig) -> Vec<(Millis, FireKind, Option<RunId>)> {
    let page = Page { after: None, limit: 1_000 };
    let fires = rig.store.fires(shown(rig).await.number, page).await.unwrap();
    fires.into_iter().rev().map(|fire| (fire.fire_at, fire.kind, fire.run)).collect()
}

/// Claims a run and completes it.
async fn end(rig: &Rig, run: RunId) {
    let lane = rig.lane(KIND).await;
    let worker = rig.worker("ender").await;
    let claimed = rig.claim(worker, lane, 1).await;
    assert_eq!(claimed[0].run, run);
    assert_eq!(rig.complete(crate::rig::lease(&claimed[0])).await, done(State::Completed));
}

async fn fires_start_runs_and_move_the_schedule_on(rig: Rig) {
    made(&rig, new_schedule("default", "a")).await;
    rig.clock.advance(2_500);
    let started = fired(&rig, Overlap::Allow, &[START + 1_000, START + 2_000]).await;
    assert_eq!(started.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [START + 1_000, START + 2_000]);
    for (_, run) in &started {
        assert_eq!(rig.state(*run).await, State::Pending);
    }
    let now = shown(&rig).await;
    assert_eq!((now.last_at, now.next_at, now.fired, now.left_out), (START + 2_000, Some(START + 3_000), 2, 0));
    assert_eq!((now.last_fire, now.last_run), (Some(START + 2_000), Some(started[1].1)));
    let expected: Vec<_> = started.iter().map(|(at, run)| (*at, FireKind::Started, Some(*run))).collect();
    assert_eq!(history(&rig).await, expected);
    // Nothing to start is also an answer, and moves on.
    assert_eq!(fired(&rig, Overlap::Allow, &[]).await, []);
    assert!(shown(&rig).await.revision > now.revision);
    assert_eq!(shown(&rig).await.last_run, now.last_run);
}

async fn a_schedule_that_is_not_as_it_was_seen_does_not_fire(rig: Rig) {
    let seen = made(&rig, new_schedule("default", "a")).await;
    let old = fire(&rig, &seen, Overlap::Allow, &[START + 1_000]).await;
    let changed =
        rig.store.change_schedule(seen.number, seen.revision, ScheduleChange::of(&seen)).await.unwrap().unwrap();
    assert_eq!(rig.store.fire(old.clone()).await.unwrap(), FireAnswer::Stale);
    let paused = ScheduleChange { is_paused: true, ..ScheduleChange::of(&changed) };
    let paused = rig.store.change_schedule(seen.number, changed.revision, paused).await.unwrap().unwrap();
    let of_paused = Fire { revision: paused.revision, ..old.clone() };
    assert_eq!(rig.store.fire(of_paused).await.unwrap(), FireAnswer::Stale);
    assert!(rig.store.delete_schedule(seen.number).await.unwrap());
    assert_eq!(rig.store.fire(old).await.unwrap(), FireAnswer::Stale);
    assert_eq!(rig.store.runs(&Default::default(), Page { after: None, limit: 10 }).await.unwrap(), []);
}

async fn of_many_servers_one_fires(rig: Rig) {
    let servers = rig.servers(4).await;
    made(&rig, new_schedule("default", "a")).await;
    for round in 1..=5 {
        let (seen, at) = (shown(&rig).await, START + round * 1_000);
        rig.clock.advance(1_000);
        let mut firing = tokio::task::JoinSet::new();
        for server in &servers {
            let (server, fire) = (server.clone(), fire(&rig, &seen, Overlap::Allow, &[at]).await);
            firing.spawn(async move { server.fire(fire).await.unwrap() });
        }
        let answers = firing.join_all().await;
        assert_eq!(answers.iter().filter(|answer| **answer != FireAnswer::Stale).count(), 1, "round {round}");
    }
    assert_eq!(shown(&rig).await.fired, 5);
    assert_eq!(rig.store.count_runs(&Default::default()).await.unwrap(), 5);
}

async fn skipped_fires_wait_for_nobody(rig: Rig) {
    made(&rig, new_schedule("default", "a")).await;
    let first = fired(&rig, Overlap::Skip, &[1, 2]).await;
    assert_eq!(first.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1]);
    assert_eq!(fired(&rig, Overlap::Skip, &[3]).await, []);
    assert_eq!(shown(&rig).await.last_run, Some(first[0].1));
    end(&rig, first[0].1).await;
    let second = fired(&rig, Overlap::Skip, &[4]).await;
    let expected = [
        (2, FireKind::Skipped, None),
        (1, FireKind::Started, Some(first[0].1)),
        (3, FireKind::Skipped, None),
        (4, FireKind::Started, Some(second[0].1)),
    ];
    assert_eq!(history(&rig).await, expected);
    assert_eq!((shown(&rig).await.fired, shown(&rig).await.left_out), (2, 2));
}

async fn one_fire_waits_for_the_end_of_the_run_before_it(rig: Rig) {
    let far = NewSchedule { next_at: None, ..new_schedule("default", "a") };
    made(&rig, far).await;
    let first = fired(&rig, Overlap::BufferOne, &[1]).await;
    assert_eq!(fired(&rig, Overlap::BufferOne, &[2, 3]).await, []);
    assert_eq!((shown(&rig).await.buffered_at, shown(&rig).await.left_out), (Some(2), 1));
    let waiting = rig.store.due_schedules(10).await.unwrap();
    assert!(waiting.is_waiting && waiting.due.iter().all(|due| due.next_at.is_some()), "{waiting:?}");
    end(&rig, first[0].1).await;
    let ready = rig.store.due_schedules(10).await.unwrap();
    assert_eq!(ready.due.len(), 1, "found once, though its time has come and its fire can start");
    let second = fired(&rig, Overlap::BufferOne, &[]).await;
    assert_eq!(second.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [2]);
    assert_eq!((shown(&rig).await.buffered_at, shown(&rig).await.last_run), (None, Some(second[0].1)));
    assert!(!rig.store.due_schedules(10).await.unwrap().is_waiting);
}

async fn a_run_that_continues_as_another_is_still_the_run_before(rig: Rig) {
    made(&rig, new_schedule("default", "a")).await;
    fired(&rig, Overlap::BufferOne, &[1]).await;
    let (lane, worker) = (rig.lane(KIND).await, rig.worker("w").await);
    for _ in 0..3 {
        let claimed = rig.claim(worker, lane, 1).await;
        rig.store.continue_as_new(lease(&claimed[0]), run(lane), crate::rig::dice()).await.unwrap();
    }
    assert_eq!(fired(&rig, Overlap::Skip, &[2]).await, []);
    assert_eq!(fired(&rig, Overlap::BufferOne, &[3]).await, []);
    let may_start = async || rig.store.due_schedules(10).await.unwrap().due.iter().any(|due| due.next_at.is_none());
    let seen = shown(&rig).await;
    let change = ScheduleChange { next_at: None, ..ScheduleChange::of(&seen) };
    rig.store.change_schedule(seen.number, seen.revision, change).await.unwrap().unwrap();
    assert!(!may_start().await, "its successor lives");
    let claimed = rig.claim(worker, lane, 1).await;
    rig.complete(lease(&claimed[0])).await;
    assert!(may_start().await);
    assert_eq!(fired(&rig, Overlap::BufferOne, &[]).await.len(), 1);
}

async fn a_fire_that_cancels_overtakes_those_before_it(rig: Rig) {
    made(&rig, new_schedule("default", "a")).await;
    let first = fired(&rig, Overlap::CancelPrevious, &[1, 2, 3]).await;
    assert_eq!(first.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [3]);
    assert_eq!(fired(&rig, Overlap::CancelPrevious, &[4]).await.len(), 1, "to cancel is the caller's part");
    assert_eq!((shown(&rig).await.fired, shown(&rig).await.left_out), (2, 2));
}

async fn runs_with_keys_of_their_own_are_placed_fairly(rig: Rig) {
    let seen = made(&rig, new_schedule("default", "a")).await;
    let mut all = fire(&rig, &seen, Overlap::Allow, &[1, 2]).await;
    for fire in &mut all.fires {
        fire.run.key = Some("customer".into());
    }
    let FireAnswer::Fired(started) = rig.store.fire(all).await.unwrap() else { panic!("stale") };
    assert_eq!(started.len(), 2);
    let worker = rig.worker("w").await;
    let claimed = rig.claim_ids(worker, rig.lane(KIND).await, 2).await;
    assert_eq!(claimed, started.iter().map(|(_, submitted)| submitted.run).collect::<Vec<_>>());
}

async fn a_run_with_a_timeout_has_a_deadline(rig: Rig) {
    let seen = made(&rig, new_schedule("default", "a")).await;
    let mut all = fire(&rig, &seen, Overlap::Allow, &[1, 2]).await;
    all.fires[0].timeout_ms = Some(5_000);
    all.fires[0].run.due = Due::At(START + 1_000);
    let FireAnswer::Fired(started) = rig.store.fire(all).await.unwrap() else { panic!("stale") };
    rig.clock.advance(5_999);
    assert_eq!(rig.store.end_overdue(10).await.unwrap().ended, []);
    rig.clock.advance(2);
    assert_eq!(rig.store.end_overdue(10).await.unwrap().ended, [started[0].1.run]);
    assert_eq!((rig.state(started[0].1.run).await, rig.state(started[1].1.run).await), (State::Failed, State::Pending));
}

async fn a_key_that_somebody_took_leaves_the_fire_out(rig: Rig) {
    let seen = made(&rig, new_schedule("default", "a")).await;
    let all = fire(&rig, &seen, Overlap::Allow, &[1, 2]).await;
    let taken = NewRun {
        idempotency: Some(Idempotency { fingerprint: [9; 16], ..all.fires[0].run.idempotency.clone().unwrap() }),
        ..run(all.fires[0].run.lane)
    };
    rig.submit(taken).await;
    let FireAnswer::Fired(started) = rig.store.fire(all).await.unwrap() else { panic!("stale") };
    assert_eq!(started.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [2]);
    let expected = [(1, FireKind::Skipped, None), (2, FireKind::Started, Some(started[0].1.run))];
    assert_eq!(history(&rig).await, expected);
    assert_eq!((shown(&rig).await.fired, shown(&rig).await.left_out), (1, 1));
}

async fn missed_fires_are_one_line_and_all_counted(rig: Rig) {
    made(&rig, new_schedule("default", "a")).await;
    rig.clock.advance(10_000);
    let missed = Some(Missed { at: START + 8_000, count: 7 });
    let late = fire(&rig, &shown(&rig).await, Overlap::Skip, &[START + 9_000, START + 10_000]).await;
    let FireAnswer::Fired(started) = rig.store.fire(Fire { missed, ..late }).await.unwrap() else { panic!("stale") };
    assert_eq!(started.len(), 1);
    let now = shown(&rig).await;
    assert_eq!((now.fired, now.left_out), (1, 8));
    let page = rig.store.fires(now.number, Page { after: None, limit: 10 }).await.unwrap();
    let lines: Vec<_> = page.iter().rev().map(|line| (line.fire_at, line.kind, line.missed)).collect();
    assert_eq!(
        lines,
        [
            (START + 8_000, FireKind::Skipped, Some(7)),
            (START + 10_000, FireKind::Skipped, None),
            (START + 9_000, FireKind::Started, None)
        ]
    );
}

async fn fires_by_hand_start_what_is_not_there_yet(rig: Rig) {
    let seen = made(&rig, new_schedule("default", "a")).await;
    let by_rule = fired(&rig, Overlap::Allow, &[1]).await;
    let before = shown(&rig).await;
    let range = vec![fire_run(&rig, 1).await, fire_run(&rig, 2).await];
    let first = rig.store.fire_by_hand(seen.number, FireKind::Backfilled, range.clone()).await.unwrap().unwrap();
    assert_eq!(first.iter().map(|run| run.is_new).collect::<Vec<_>>(), [false, true]);
    assert_eq!(first[0].run, by_rule[0].1);
    let again = rig.store.fire_by_hand(seen.number, FireKind::Backfilled, range).await.unwrap().unwrap();
    assert_eq!(
        again.iter().map(|run| (run.run, run.is_new)).collect::<Vec<_>>(),
        [(first[0].run, false), (first[1].run, false)]
    );
    let now = FireRun { run: NewRun { idempotency: None, ..run(rig.lane(KIND).await) }, ..fire_run(&rig, START).await };
    let triggered = rig.store.fire_by_hand(seen.number, FireKind::Triggered, vec![now.clone()]).await.unwrap().unwrap();
    let expected = [
        (1, FireKind::Started, Some(by_rule[0].1)),
        (2, FireKind::Backfilled, Some(first[1].run)),
        (START, FireKind::Triggered, Some(triggered[0].run)),
    ];
    assert_eq!(history(&rig).await, expected);
    let after = shown(&rig).await;
    assert_eq!(after, Schedule { fired: 3, ..before }, "nothing else has changed");
    assert_eq!(rig.store.fire_by_hand(seen.number + 1, FireKind::Triggered, vec![now]).await.unwrap(), None);
    // The rule's own fire finds the run that is there.
    let found = fired(&rig, Overlap::Allow, &[2]).await;
    assert_eq!(found, [(2, first[1].run)]);
    assert_eq!((history(&rig).await.len(), shown(&rig).await.fired), (3, 3));
}

async fn the_last_fires_of_many_are_read_at_once(rig: Rig) {
    let one = made(&rig, new_schedule("default", "a")).await.number;
    let other = made(&rig, new_schedule("default", "b")).await.number;
    let started = fired(&rig, Overlap::Allow, &[1, 2, 3]).await;
    end(&rig, started[0].1).await;
    rig.store.fire_by_hand(other, FireKind::Backfilled, vec![fire_run(&rig, 9).await]).await.unwrap().unwrap();
    let last = rig.store.last_fires(&[other, one, other + 1], 2).await.unwrap();
    let told: Vec<_> = last.iter().map(|(number, fire)| (*number, fire.fire_at)).collect();
    assert_eq!(told, [(other, 9), (one, 3), (one, 2)]);
    let ended = rig.store.last_fires(&[one], 3).await.unwrap().pop().unwrap().1;
    assert_eq!((ended.run, ended.state), (Some(started[0].1), Some(State::Completed)));
    assert!(ended.claimed_at.is_some() && ended.ended_at >= ended.claimed_at, "{ended:?}");
    assert_eq!(last[2].1.ended_at, None);
    assert_eq!(rig.store.last_fires(&[], 5).await.unwrap(), []);
}

async fn history_is_read_in_pages_and_forgotten(rig: Rig) {
    let seen = made(&rig, new_schedule("default", "a")).await;
    fired(&rig, Overlap::Skip, &[1, 2]).await;
    rig.clock.advance(1_000);
    fired(&rig, Overlap::Skip, &[3, 4]).await;
    let page = |after, limit| rig.store.fires(seen.number, Page { after, limit });
    let first = page(None, 3).await.unwrap();
    assert_eq!(
        first.iter().map(|fire| (fire.fire_at, fire.at)).collect::<Vec<_>>(),
        [(4, START + 1_000), (3, START + 1_000), (1, START)]
    );
    assert_eq!(first.iter().map(|fire| fire.state).collect::<Vec<_>>(), [None, None, Some(State::Pending)]);
    let rest = page(Some(first[2].number), 3).await.unwrap();
    assert_eq!(rest.iter().map(|fire| fire.fire_at).collect::<Vec<_>>(), [2]);
    end(&rig, first[2].run.unwrap()).await;
    assert_eq!(page(None, 3).await.unwrap()[2].state, Some(State::Completed));
    assert_eq!(rig.store.forget_fires(1_000, 10).await.unwrap(), 0, "those of this very age stay");
    rig.clock.advance(1);
    assert_eq!(rig.store.forget_fires(1_000, 1).await.unwrap(), 1);
    assert_eq!(rig.store.forget_fires(1_000, 10).await.unwrap(), 1);
    assert_eq!(page(None, 10).await.unwrap().len(), 2);
    assert_eq!(rig.store.fires(seen.number + 1, Page { after: None, limit: 10 }).await.unwrap(), []);
}
