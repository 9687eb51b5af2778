//! Reading what workflows have besides their runs, and what becomes of it in the end.

use baton_core::{RunId, State};
use baton_store::{ChildAnswer, NewRun, Page, Relations, StepKind, StepState, StepWrite, Waits};
use bytes::Bytes;

use crate::rig::{Rig, START, claimed_epoch, contract, done, run};
use crate::workflows_rig::{begins, child, completed, fails, signal, taking};

contract!(
    journals_come_in_the_order_they_are_asked_for,
    steps_and_attempts_are_read_in_pages,
    what_was_published_last_is_shown,
    a_retry_goes_on_after_what_was_completed,
    everything_is_there_after_a_restart,
    retention_leaves_nothing_behind,
    several_are_read_in_the_order_asked_for,
    plain_runs_have_nothing_besides_themselves,
    lanes_of_workflows_are_known_by_a_mark,
    what_a_workflow_waits_for_is_found,
);

fn position(step: &baton_store::Step) -> u32 {
    step.position
}

async fn journals_come_in_the_order_they_are_asked_for(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, one) = rig.held(run(lane)).await;
    let (_, two) = rig.held(run(lane)).await;
    let empty = rig.submit(run(lane)).await;
    rig.store
        .write_steps(vec![completed(two, 9, "c", ""), completed(one, 0, "a", "A"), completed(two, 4, "b", "")])
        .await
        .unwrap();
    rig.signal(one.run, "go").await;
    let journals = rig.store.journals(&[two.run, empty, one.run, two.run], u64::MAX).await.unwrap();
    let shapes: Vec<_> = journals
        .iter()
        .map(|journal| (journal.steps.iter().map(position).collect::<Vec<_>>(), journal.messages.len()))
        .collect();
    assert_eq!(shapes, [(vec![4, 9], 0), (vec![], 0), (vec![0], 1), (vec![4, 9], 0)]);
    assert_eq!(journals[2].steps[0].output, Some(Bytes::from_static(b"A")));
    assert_eq!(rig.store.journals(&[], u64::MAX).await.unwrap(), []);
}

async fn steps_and_attempts_are_read_in_pages(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    let (_, other) = rig.held(run(lane)).await;
    rig.step(other, 0, "other", "").await;
    let mut writes = Vec::new();
    for position in 0..5 {
        writes.extend((1..=position).map(|attempt| fails(lease, position, "step", attempt, 10)));
        writes.push(completed(lease, position, "step", ""));
    }
    writes.push(begins(lease, 5, "begun"));
    writes.push(StepWrite { kind: StepKind::Fact, ..completed(lease, 6, "fact", "") });
    rig.store.write_steps(writes).await.unwrap();
    let outlines = rig.store.step_outlines(lease.run, Page { after: None, limit: 100 }).await.unwrap();
    let shapes: Vec<_> = outlines.iter().map(|step| (step.position, step.kind, step.state, step.attempts)).collect();
    let done = |position: u32| (position, StepKind::Step, StepState::Completed, position + 1);
    let others = [(5, StepKind::Step, StepState::Begun, 1), (6, StepKind::Fact, StepState::Completed, 1)];
    assert_eq!(shapes, (0..5).map(done).chain(others).collect::<Vec<_>>());
    assert!(outlines.iter().all(|step| step.epoch == lease.epoch));
    let middle = rig.store.step_outlines(lease.run, Page { after: Some(2), limit: 2 }).await.unwrap();
    assert_eq!(middle, outlines[3..5]);
    let (mut after, mut read) = (None, Vec::new());
    loop {
        let page = rig.store.steps(lease.run, Page { after, limit: 3 }).await.unwrap();
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        after = Some(last.position);
        read.extend(page.iter().map(position));
    }
    assert_eq!(read, [0, 1, 2, 3, 4, 5, 6]);
    let (mut after, mut read) = (None, Vec::new());
    loop {
        let page = rig.store.step_attempts(lease.run, None, Page { after, limit: 4 }).await.unwrap();
        assert!(page.len() <= 4);
        let Some(last) = page.last() else { break };
        after = Some((last.position, last.attempt));
        read.extend(page.iter().map(|one| (one.position, one.attempt, one.state == StepState::Failed)));
    }
    let mut expected: Vec<_> = (0..5)
        .flat_map(|position| (1..=position + 1).map(move |attempt| (position, attempt, attempt <= position)))
        .collect();
    expected.push((5, 1, false));
    assert_eq!(read, expected, "and a fact has no attempts");
    let of_one = rig.store.step_attempts(lease.run, Some(3), Page { after: Some((3, 2)), limit: 10 }).await.unwrap();
    assert_eq!(of_one.iter().map(|one| (one.position, one.attempt)).collect::<Vec<_>>(), [(3, 3), (3, 4)]);
}

async fn what_was_published_last_is_shown(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    assert_eq!(rig.store.published(lease.run).await.unwrap(), None);
    let publish = |texts: &[&'static str]| {
        let each = texts.iter().map(|text| (lease, Bytes::from_static(text.as_bytes()))).collect();
        rig.store.publish(each)
    };
    assert_eq!(publish(&["one", "two"]).await.unwrap(), [done(baton_core::State::Running); 2]);
    assert_eq!(rig.state(lease.run).await, baton_core::State::Running);
    assert_eq!(rig.store.published(lease.run).await.unwrap(), Some((Bytes::from_static(b"two"), START)));
    rig.clock.advance(7);
    publish(&["three"]).await.unwrap();
    rig.complete(lease).await;
    assert_eq!(rig.store.published(lease.run).await.unwrap(), Some((Bytes::from_static(b"three"), START + 7)));
}

async fn a_retry_goes_on_after_what_was_completed(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, from) = rig.held(run(lane)).await;
    rig.signal(from.run, "go").await;
    let writes = vec![
        completed(from, 0, "pay", "receipt"),
        taking(from, 1, 1),
        fails(from, 2, "ship", 1, 1),
        begins(from, 3, "pack"),
        completed(from, 4, "thank", ""),
    ];
    rig.store.write_steps(writes).await.unwrap();
    rig.complete(from).await;
    let retry = NewRun { retry_of: Some(from.run), ..run(lane) };
    let to = rig.store.retry_from(from.run, retry.clone(), 1).await.unwrap().run;
    let copied = rig.steps(to).await;
    assert_eq!(copied.iter().map(position).collect::<Vec<_>>(), [0, 1, 4]);
    assert_eq!(copied[0], rig.steps(from.run).await[0]);
    assert_eq!((copied[1].message, copied[1].output.clone()), (None, Some(Bytes::from_static(b"taken"))));
    // Its own first signal can still be taken, and whoever gets it asks for what is remembered.
    rig.signal(to, "go").await;
    let held = rig.claim_again(lane).await;
    assert_eq!((held.run, held.epoch), (to, claimed_epoch(2)));
    rig.store.write_steps(vec![taking(held, 2, 1)]).await.unwrap();
    assert_eq!(rig.steps(to).await.len(), 4);
    assert_eq!(rig.steps(from.run).await.len(), 5, "the first keeps its own");
    rig.complete(held).await;
    // Of a run that is gone, or never was, there is nothing to remember.
    let afresh = rig.store.retry_from(RunId::new(START, 1, 1), retry, 2).await.unwrap().run;
    assert_eq!(rig.steps(afresh).await, []);
    assert_eq!(rig.claim_again(lane).await.run, afresh);
}

/// A workflow with something in every table.
async fn rich(rig: &Rig) -> (RunId, RunId) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    rig.leave(signal(lease.run, "go", Some("key"))).await;
    let writes = vec![completed(lease, 0, "pay", "receipt"), fails(lease, 1, "ship", 1, 3), taking(lease, 2, 1)];
    rig.store.write_steps(writes).await.unwrap();
    rig.store.publish(vec![(lease, Bytes::from_static(b"half"))]).await.unwrap();
    rig.store.set_deadlines(vec![(lease.run, 1_000_000, false)]).await.unwrap();
    let new = child(lease, 3, "child", rig.lane("child").await);
    let ChildAnswer::Started(child) = rig.store.start_children(vec![new]).await.unwrap().remove(0) else {
        panic!("it is started")
    };
    (lease.run, child.run)
}

async fn everything_is_there_after_a_restart(rig: Rig) {
    let (id, child) = rich(&rig).await;
    let before = (rig.steps(id).await, rig.store.messages(id, 0).await.unwrap(), rig.step_attempts(id, None).await);
    assert_eq!((before.0.len(), before.1.len(), before.2.len()), (4, 1, 2));
    let rig = rig.reopen().await;
    let after = (rig.steps(id).await, rig.store.messages(id, 0).await.unwrap(), rig.step_attempts(id, None).await);
    assert_eq!(after, before);
    assert_eq!(rig.store.relations(&[child]).await.unwrap()[0].parent, Some(id));
    rig.clock.advance(1_000_000);
    assert_eq!(rig.store.end_overdue(10).await.unwrap().ended, [id]);
    assert_eq!(rig.deliver().await.orphaned, [child]);
}

async fn retention_leaves_nothing_behind(rig: Rig) {
    let (id, child) = rich(&rig).await;
    let lane = rig.lane("flow").await;
    let (_, chain) = rig.held(run(lane)).await;
    let next = rig.store.continue_as_new(chain, run(lane), 1).await.unwrap().next.unwrap().run;
    rig.store.cancel(vec![child, next], 0).await.unwrap();
    rig.clock.advance(1_000_000);
    // Its deadline has been carried out, its outbox has not been looked at.
    rig.store.end_overdue(10).await.unwrap();
    rig.clock.advance(60_000);
    let gone = rig.store.retain(10_000, 1 << 40, 1 << 40, 100).await.unwrap();
    assert_eq!(gone.runs, 4);
    assert_eq!((rig.steps(id).await, rig.step_attempts(id, None).await), (vec![], vec![]));
    assert_eq!(rig.store.messages(id, 0).await.unwrap(), []);
    assert_eq!(rig.store.published(id).await.unwrap(), None);
    let nothing = rig.store.relations(&[id, child, chain.run]).await.unwrap();
    assert!(nothing.iter().all(|one| *one == Relations::default()), "{nothing:?}");
    assert_eq!(rig.deliver().await, Default::default());
    assert_eq!(rig.leave(signal(id, "go", Some("key"))).await, baton_store::MessageAnswer::Unknown);
}

async fn several_are_read_in_the_order_asked_for(rig: Rig) {
    let (id, child) = rich(&rig).await;
    let nobody = RunId::new(START, 5, 5);
    let asked = [child, nobody, id, child];
    let read = rig.store.workflows(&asked).await.unwrap();
    assert_eq!(read.len(), asked.len());
    for (run, read) in asked.iter().zip(read) {
        let alone = rig.store.run(*run).await.unwrap();
        let relations = rig.store.relations(&[*run]).await.unwrap().remove(0);
        assert_eq!(read, alone.map(|record| (record, relations)), "{run}");
    }
    assert_eq!(rig.store.workflows(&[]).await.unwrap(), []);
}

async fn plain_runs_have_nothing_besides_themselves(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, lease) = rig.held(run(lane)).await;
    rig.complete(lease).await;
    assert_eq!(rig.store.journals(&[lease.run], u64::MAX).await.unwrap(), [Default::default()]);
    assert_eq!(rig.store.relations(&[lease.run]).await.unwrap(), [Default::default()]);
    assert_eq!((rig.steps(lease.run).await, rig.step_attempts(lease.run, None).await), (vec![], vec![]));
}

async fn lanes_of_workflows_are_known_by_a_mark(rig: Rig) {
    let (flow, plain, other) = (rig.lane("flow").await, rig.lane("plain").await, rig.lane("other").await);
    assert!(rig.store.workflow_lanes().await.unwrap().is_empty());
    for _ in 0..2 {
        rig.store.mark_workflow_lanes(&[flow.lane, other.lane]).await.unwrap();
    }
    let mut marked = rig.store.workflow_lanes().await.unwrap();
    marked.sort();
    assert_eq!(marked, [flow.lane, other.lane]);
    assert!(!marked.contains(&plain.lane));
}

async fn what_a_workflow_waits_for_is_found(rig: Rig) {
    let (lane, children) = (rig.lane("flow").await, rig.lane("child").await);
    let (_, parent) = rig.held(run(lane)).await;
    assert_eq!(rig.store.waits(parent.run, 10).await.unwrap(), Waits::default());
    rig.step(parent, 0, "done", "").await;
    assert!(!rig.store.is_undone(parent.run).await.unwrap());
    rig.store.write_steps(vec![fails(parent, 1, "shaky", 1, 3)]).await.unwrap();
    let ended = rig.child(parent, 2, children).await;
    let held = rig.claim_again(children).await;
    assert_eq!(rig.complete(held).await, done(State::Completed));
    rig.deliver().await;
    let lives = rig.child(parent, 4, children).await;
    for name in ["first", "go", "typo"] {
        rig.signal(parent.run, name).await;
    }
    let messages = rig.message_names(parent.run).await;
    let number = messages.iter().find(|(_, name)| name == "go").unwrap().0;
    rig.store.write_steps(vec![taking(parent, 6, number)]).await.unwrap();
    let waits = rig.store.waits(parent.run, 10).await.unwrap();
    let open: Vec<_> = waits.open.iter().map(|open| (open.kind, open.name.as_str(), open.child)).collect();
    assert_eq!(open, [(StepKind::Step, "shaky", None), (StepKind::Child, "child", Some(lives))], "not {ended}");
    assert_eq!((waits.open[0].attempts, waits.open[0].error.as_deref()), (1, Some("attempt 1 broke")));
    assert!(waits.open[0].due_at.is_some());
    assert_eq!(waits.signals, [("first".into(), START), ("typo".into(), START)]);
    let one = rig.store.waits(parent.run, 1).await.unwrap();
    assert_eq!((one.open.len(), one.signals.len()), (1, 1));
    rig.step(parent, 7, "undo done", "").await;
    assert!(rig.store.is_undone(parent.run).await.unwrap());
}
