//! The trace that is kept with a run, and what its spans are made of.

use baton_core::trace::{RunTrace, TraceContext};
use baton_core::{LeaseEnd, State, StepKind};
use baton_store::{ClaimRequest, Due, NewRun, OpenTraces};

use crate::rig::{DIE, Rig, contract, error, lease, once, run, slot, submission};

contract!(
    a_trace_comes_back_with_the_run_and_every_claim,
    only_runs_that_are_recorded_are_open,
    a_repeated_submit_opens_nothing,
    facts_tell_what_spans_are_made_of,
    what_was_told_is_not_told_again,
    open_traces_come_in_pages_and_in_their_time,
    retention_takes_what_is_still_open,
    what_a_workflow_waited_for_is_listed,
);

fn context(flags: &str) -> TraceContext {
    let parent = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
    TraceContext::parse(&parent, Some("vendor=1")).unwrap()
}

fn recorded() -> RunTrace {
    RunTrace::of(context("01"), true)
}

fn traced(run: NewRun) -> NewRun {
    NewRun { trace: Some(recorded()), ..run }
}

async fn open(rig: &Rig) -> OpenTraces {
    rig.store.open_traces(None, 0, 100).await.unwrap()
}

async fn a_trace_comes_back_with_the_run_and_every_claim(rig: Rig) {
    let lane = rig.lane("ios").await;
    let worker = rig.worker("w").await;
    let waiting = ClaimRequest { queue: lane.queue, slots: vec![slot(worker, &[lane], 1)], limit: 1, die: DIE };
    let offered = rig.store.submit_and_claim(vec![submission(vec![traced(run(lane))])], waiting).await;
    let handed = offered.unwrap().1.into_iter().flat_map(|answer| answer.claimed).next();
    let id = rig.submit(traced(run(lane))).await;
    let claimed = rig.claim(worker, lane, 2).await;
    assert!(claimed.iter().any(|one| one.run == id));
    for one in claimed.iter().chain(&handed) {
        assert_eq!(one.trace, Some(recorded()));
    }
    let again = rig.store.claimed(worker, None).await.unwrap();
    assert!(!again.is_empty() && again.iter().all(|one| one.trace == Some(recorded())));
    assert_eq!(rig.record(id).await.trace, Some(recorded()));
    assert_eq!(rig.store.run_trace(id).await.unwrap(), Some(recorded()));
    let plain = rig.submit(run(lane)).await;
    assert_eq!((rig.record(plain).await.trace, rig.store.run_trace(plain).await.unwrap()), (None, None));
}

async fn only_runs_that_are_recorded_are_open(rig: Rig) {
    let lane = rig.lane("ios").await;
    let passed_on = NewRun { trace: Some(RunTrace::of(context("00"), true)), ..run(lane) };
    let ids = rig.submit_all(vec![run(lane), traced(run(lane)), passed_on]).await;
    for id in &ids {
        rig.cancel(*id, 0).await;
    }
    assert_eq!(open(&rig).await.ended, [ids[1]]);
    let rig = rig.reopen().await;
    assert_eq!(open(&rig).await.ended, [ids[1]], "it outlives the server");
    rig.store.close_traces(ids).await.unwrap();
    assert_eq!(open(&rig).await, OpenTraces::default());
}

async fn a_repeated_submit_opens_nothing(rig: Rig) {
    let lane = rig.lane("ios").await;
    let first = rig.submit(traced(once(lane, "k", 1))).await;
    rig.cancel(first, 0).await;
    rig.store.close_traces(vec![first]).await.unwrap();
    assert_eq!(rig.submit(traced(once(lane, "k", 1))).await, first);
    assert_eq!(open(&rig).await, OpenTraces::default());
}

async fn facts_tell_what_spans_are_made_of(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held(traced(run(lane))).await;
    let plain = rig.submit(run(lane)).await;
    let facts = rig.store.trace_facts(&[plain, held.run]).await.unwrap();
    let [facts] = facts.as_slice() else { panic!("{facts:?}") };
    assert_eq!((facts.run, facts.state, facts.epoch, facts.told), (held.run, State::Assigned, held.epoch, 0));
    assert_eq!((facts.ended_at, &facts.last, facts.is_workflow), (None, &None, false));
    rig.clock.advance(500);
    rig.complete(held).await;
    let facts = rig.store.trace_facts(&[held.run]).await.unwrap().remove(0);
    let last = facts.last.unwrap();
    assert_eq!((facts.state, facts.ended_at, facts.trace), (State::Completed, Some(rig.now()), recorded()));
    assert_eq!((last.epoch, last.worker, last.end), (held.epoch, Some(worker), LeaseEnd::Completed));
    assert_eq!(last.ended_at - last.claimed_at, 500);
    assert_eq!(rig.store.attempts(held.run).await.unwrap(), [last], "as it is listed");
}

async fn what_was_told_is_not_told_again(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, first) = rig.held(traced(run(lane))).await;
    rig.fail(first, error()).await;
    rig.store.tell_traces(vec![(first.run, 1)]).await.unwrap();
    rig.clock.advance(60_000);
    let second = lease(&rig.claim(worker, lane, 1).await[0]);
    rig.complete(second).await;
    rig.store.tell_traces(vec![(first.run, 0)]).await.unwrap();
    assert_eq!(rig.store.trace_facts(&[first.run]).await.unwrap()[0].told, 1, "it never goes back");
    rig.store.close_traces(vec![first.run]).await.unwrap();
    rig.store.tell_traces(vec![(first.run, 2)]).await.unwrap();
    assert_eq!(rig.store.trace_facts(&[first.run]).await.unwrap(), [], "what is closed stays closed");
}

async fn open_traces_come_in_pages_and_in_their_time(rig: Rig) {
    let lane = rig.lane("ios").await;
    let ids = rig.submit_all(vec![traced(run(lane)); 5]).await;
    for id in &ids[1..] {
        rig.cancel(*id, 0).await;
    }
    assert_eq!(rig.store.open_traces(None, 1_000, 10).await.unwrap(), OpenTraces::default(), "they ended just now");
    rig.clock.advance(1_000);
    let first = rig.store.open_traces(None, 1_000, 3).await.unwrap();
    assert_eq!(first, OpenTraces { ended: ids[1..3].to_vec(), next: Some(ids[2]) });
    let second = rig.store.open_traces(first.next, 1_000, 3).await.unwrap();
    assert_eq!(second, OpenTraces { ended: ids[3..].to_vec(), next: None });
}

async fn retention_takes_what_is_still_open(rig: Rig) {
    const NEVER: i64 = i64::MAX / 4;
    let lane = rig.lane("ios").await;
    let id = rig.submit(traced(run(lane))).await;
    rig.cancel(id, 0).await;
    rig.clock.advance(1_001);
    assert_eq!(rig.store.retain(1_000, NEVER, NEVER, 100).await.unwrap().runs, 1);
    assert_eq!(open(&rig).await, OpenTraces::default());
}

async fn what_a_workflow_waited_for_is_listed(rig: Rig) {
    let lane = rig.lane("flow").await;
    rig.store.mark_workflow_lanes(&[lane.lane]).await.unwrap();
    let (_, held) = rig.held(traced(run(lane))).await;
    assert!(rig.store.trace_facts(&[held.run]).await.unwrap()[0].is_workflow);
    let child = baton_store::NewChild {
        lease: held,
        position: 3,
        name: "double".into(),
        run: NewRun { due: Due::After(5), trace: Some(recorded()), ..run(lane) },
        die: 9,
        timeout_ms: None,
    };
    rig.store.start_children(vec![child]).await.unwrap();
    let pauses = rig.store.pauses(held.run, 10).await.unwrap();
    let [pause] = pauses.as_slice() else { panic!("{pauses:?}") };
    assert_eq!((pause.position, pause.kind, pause.name.as_str()), (3, StepKind::Child, "double"));
    let child = pause.child.expect("the run of the child");
    assert_eq!(rig.record(child).await.trace, Some(recorded()));
    rig.cancel(child, 0).await;
    assert_eq!(open(&rig).await.ended, [child], "a child is open as any run");
    assert_eq!(rig.store.pauses(held.run, 0).await.unwrap(), []);
}
