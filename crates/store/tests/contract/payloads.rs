//! Payloads in the storage: kept as long as any row refers to them, and not much longer.

use baton_core::payload::Reference;
use baton_core::token::TokenKey;
use baton_core::{Millis, RunId};
use baton_store::{CLAIM_BYTES_MAX, Completion, Due, LeaseRef, LookedAt, MessageKind, NewMessage, NewRun, StepKind};
use baton_store::{StepChange, StepWrite};
use bytes::Bytes;
use uuid::Uuid;

use crate::rig::{Rig, contract, dice, lease, run};

const AGE: Millis = 1_000;
const NEVER: Millis = 1 << 50;
const NONE: [Uuid; 0] = [];

contract!(
    one_that_nobody_refers_to_is_given_up_when_it_is_old,
    one_that_is_about_to_be_used_is_left_alone,
    what_was_given_up_is_found_until_it_is_forgotten_and_cannot_be_used,
    every_place_of_a_run_keeps_its_payload_and_lets_go_of_it_with_the_run,
    what_was_published_before_is_let_go_of,
    the_output_of_a_child_is_kept_for_its_parent,
    a_run_that_is_made_of_another_keeps_what_both_have,
    one_that_is_no_longer_used_is_given_up_at_the_second_look,
    a_look_is_bounded_and_goes_round,
    claims_count_large_inputs_by_their_true_size,
);

/// A payload that is noted, and its reference.
async fn noted(rig: &Rig, number: u8) -> (Uuid, Bytes) {
    let id = Uuid::from_bytes([number; 16]);
    let reference = Reference { id, size: 10 << 20, sha256: [number; 32], generation: 1 };
    let reference = Bytes::from(reference.write(&TokenKey::new(1, b"secret")));
    rig.store.note_payload(id, reference.to_vec()).await.unwrap();
    (id, reference)
}

async fn look(rig: &Rig) -> LookedAt {
    rig.store.look_at_payloads(AGE, 100).await.unwrap()
}

/// Looks often enough for everything that is not used to be given up, and forgets it.
async fn given_up(rig: &Rig) -> Vec<Uuid> {
    let mut all = Vec::new();
    for _ in 0..3 {
        rig.clock.advance(AGE);
        let doomed = look(rig).await.doomed;
        rig.store.forget_payloads(&doomed).await.unwrap();
        all.extend(doomed);
    }
    all.sort_unstable();
    all
}

async fn one_that_nobody_refers_to_is_given_up_when_it_is_old(rig: Rig) {
    let (id, _) = noted(&rig, 1).await;
    rig.clock.advance(AGE - 1);
    assert_eq!(look(&rig).await, LookedAt::default());
    rig.clock.advance(1);
    assert_eq!(look(&rig).await, LookedAt { count: 1, doomed: vec![id] });
    rig.store.forget_payloads(&[id]).await.unwrap();
    rig.clock.advance(10 * AGE);
    assert_eq!(look(&rig).await, LookedAt::default());
}

async fn one_that_is_about_to_be_used_is_left_alone(rig: Rig) {
    let (id, _) = noted(&rig, 1).await;
    rig.clock.advance(AGE);
    assert!(rig.store.touch_payload(id).await.unwrap());
    rig.clock.advance(AGE - 1);
    assert_eq!(look(&rig).await, LookedAt::default());
    rig.clock.advance(1);
    assert_eq!(look(&rig).await.doomed, [id]);
    assert!(!rig.store.touch_payload(Uuid::from_bytes([9; 16])).await.unwrap(), "nobody knows of this one");
}

async fn what_was_given_up_is_found_until_it_is_forgotten_and_cannot_be_used(rig: Rig) {
    let (id, reference) = noted(&rig, 1).await;
    rig.store.forget_payloads(&[id]).await.unwrap();
    assert!(rig.store.touch_payload(id).await.unwrap(), "only what was given up is forgotten");
    rig.clock.advance(AGE);
    assert_eq!(look(&rig).await.doomed, [id]);
    assert!(!rig.store.touch_payload(id).await.unwrap());
    assert_eq!(look(&rig).await.doomed, [id], "the server fell before it was removed");
    rig.store.note_payload(id, reference.to_vec()).await.unwrap();
    assert!(!rig.store.touch_payload(id).await.unwrap(), "noting it again does not bring it back");
    rig.store.forget_payloads(&[id]).await.unwrap();
    assert_eq!(look(&rig).await, LookedAt::default());
}

async fn complete(rig: &Rig, lease: LeaseRef, output: Bytes) {
    rig.store.complete(vec![Completion { lease, output: Some(output) }]).await.unwrap();
}

fn step(lease: LeaseRef, position: u32, output: Bytes) -> StepWrite {
    let what = StepChange::Complete { output, message: None, took_ms: 1 };
    StepWrite { lease, position, name: "step".into(), kind: StepKind::Step, what, journal_bytes_max: None }
}

fn signal(run: RunId, payload: Bytes) -> NewMessage {
    NewMessage { run, kind: MessageKind::Signal, name: "go".into(), payload: Some(payload), key: None }
}

async fn every_place_of_a_run_keeps_its_payload_and_lets_go_of_it_with_the_run(rig: Rig) {
    let lane = rig.lane("large").await;
    let mut ids = Vec::new();
    let mut references = Vec::new();
    for number in 1..=5 {
        let (id, reference) = noted(&rig, number).await;
        ids.push(id);
        references.push(reference);
    }
    let (_, held) = rig.held(NewRun { input: references[0].clone(), ..run(lane) }).await;
    rig.write(step(held, 0, references[1].clone())).await;
    rig.leave(signal(held.run, references[2].clone())).await;
    rig.store.publish(vec![(held, references[3].clone())]).await.unwrap();
    complete(&rig, held, references[4].clone()).await;
    assert_eq!(given_up(&rig).await, NONE);
    let record = rig.store.run(held.run).await.unwrap().unwrap();
    assert_eq!((&record.input, record.output.as_ref()), (&references[0], Some(&references[4])));
    rig.store.retain(0, NEVER, NEVER, 100).await.unwrap();
    assert_eq!(given_up(&rig).await, ids);
}

async fn what_was_published_before_is_let_go_of(rig: Rig) {
    let ((old, first), (_, second)) = (noted(&rig, 1).await, noted(&rig, 2).await);
    let (_, held) = rig.held(run(rig.lane("large").await)).await;
    rig.store.publish(vec![(held, first)]).await.unwrap();
    rig.store.publish(vec![(held, second)]).await.unwrap();
    assert_eq!(given_up(&rig).await, [old]);
}

async fn the_output_of_a_child_is_kept_for_its_parent(rig: Rig) {
    let (parents, children) = (rig.lane("parent").await, rig.lane("child").await);
    let (id, reference) = noted(&rig, 1).await;
    let (_, parent) = rig.held(run(parents)).await;
    rig.child(parent, 0, children).await;
    let child = rig.claim_again(children).await;
    complete(&rig, child, reference.clone()).await;
    rig.deliver().await;
    rig.clock.advance(1);
    // The child is older than the parent's end, and goes first.
    rig.store.retain(0, NEVER, NEVER, 100).await.unwrap();
    assert_eq!(rig.store.run(child.run).await.unwrap(), None);
    assert_eq!(given_up(&rig).await, NONE);
    assert_eq!(rig.store.messages(parent.run, 0).await.unwrap()[0].payload, Some(reference));
    complete(&rig, parent, Bytes::new()).await;
    rig.clock.advance(1);
    rig.store.retain(0, NEVER, NEVER, 100).await.unwrap();
    assert_eq!(given_up(&rig).await, [id]);
}

async fn a_run_that_is_made_of_another_keeps_what_both_have(rig: Rig) {
    let lane = rig.lane("large").await;
    let ((first, input), (second, output)) = (noted(&rig, 1).await, noted(&rig, 2).await);
    let (_, held) = rig.held(NewRun { input: input.clone(), ..run(lane) }).await;
    rig.write(step(held, 0, output)).await;
    complete(&rig, held, Bytes::new()).await;
    let again = NewRun { input, retry_of: Some(held.run), ..run(lane) };
    let again = rig.store.retry_from(held.run, again, dice()).await.unwrap();
    rig.clock.advance(1);
    rig.store.retain(0, NEVER, NEVER, 100).await.unwrap();
    assert_eq!(given_up(&rig).await, NONE);
    let held = rig.claim_again(lane).await;
    assert_eq!(held.run, again.run);
    complete(&rig, held, Bytes::new()).await;
    rig.clock.advance(1);
    rig.store.retain(0, NEVER, NEVER, 100).await.unwrap();
    assert_eq!(given_up(&rig).await, [first, second]);
}

async fn one_that_is_no_longer_used_is_given_up_at_the_second_look(rig: Rig) {
    let lane = rig.lane("large").await;
    let (id, input) = noted(&rig, 1).await;
    let (_, held) = rig.held(NewRun { input, ..run(lane) }).await;
    rig.clock.advance(AGE);
    assert_eq!(look(&rig).await, LookedAt { count: 1, doomed: vec![] });
    complete(&rig, held, Bytes::new()).await;
    rig.clock.advance(AGE);
    rig.store.retain(0, NEVER, NEVER, 100).await.unwrap();
    // A transaction that began before this look may still take it over.
    assert_eq!(look(&rig).await, LookedAt { count: 1, doomed: vec![] });
    rig.clock.advance(AGE - 1);
    assert_eq!(look(&rig).await, LookedAt::default());
    rig.clock.advance(1);
    assert_eq!(look(&rig).await.doomed, [id]);
}

async fn a_look_is_bounded_and_goes_round(rig: Rig) {
    let lane = rig.lane("large").await;
    for number in 1..=5 {
        let (_, input) = noted(&rig, number).await;
        rig.submit(NewRun { input, due: Due::After(NEVER), ..run(lane) }).await;
        rig.clock.advance(1);
    }
    rig.clock.advance(AGE);
    let counts = async || rig.store.look_at_payloads(AGE, 2).await.unwrap().count;
    assert_eq!([counts().await, counts().await, counts().await, counts().await], [2, 2, 1, 0]);
}

async fn claims_count_large_inputs_by_their_true_size(rig: Rig) {
    let lane = rig.lane("large").await;
    let (_, input) = noted(&rig, 1).await;
    let runs = (0..10).map(|_| NewRun { input: input.clone(), ..run(lane) });
    rig.submit_all(runs.collect()).await;
    let worker = rig.worker("a").await;
    let claimed = rig.claim(worker, lane, 10).await;
    // The run that goes beyond is the last.
    assert_eq!(claimed.len() as u64, CLAIM_BYTES_MAX.div_ceil(10 << 20));
    assert!(claimed.iter().all(|claimed| claimed.input == input && lease(claimed).run == claimed.run));
}
