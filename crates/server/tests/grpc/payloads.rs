//! Payloads that are too large for a row: they go to the storage by themselves, come back whole, and vanish with their run.

use std::path::PathBuf;

use baton_core::payload::{MARK, REFERENCE_BYTES};
use baton_core::{Millis, RunId};
use baton_proto::v1;
use baton_proto::v1::report::What;
use baton_proto::v1::report_answer::What as Answer;
use baton_server::Settings;
use baton_store::Page;
use bytes::Bytes;
use tonic::Code;

use crate::harness::{On, Server, eventually, on_both};
use crate::rig::{Rig, completion, hello, order, poll, refusal, step, suspension};

const MIB: usize = 1 << 20;
const NEVER: Millis = 1 << 50;
const HOUR: Millis = 3_600_000;

on_both!(
    a_large_input_output_and_everything_between_come_back_whole,
    large_payloads_go_over_the_stream_too,
    what_looks_like_a_reference_is_refused_wherever_it_comes,
    a_payload_beyond_the_limit_is_refused_and_changes_nothing,
    the_same_key_and_body_is_the_same_run_and_stores_nothing_again,
    what_is_too_much_for_one_answer_is_fetched_on_its_own,
    payloads_vanish_with_their_run,
    a_late_completion_leaves_nothing,
    a_storage_that_is_out_of_reach_is_unavailable_and_then_goes_on,
    a_run_that_has_lost_its_input_fails_and_others_go_on,
    a_retried_run_has_the_input_of_the_first,
    the_output_of_a_child_reaches_its_parent,
);

/// JSON text of this many bytes.
fn text(bytes: usize, letter: &str) -> String {
    format!("\"{}\"", letter.repeat(bytes - 2))
}

/// A server whose rows take a thousand bytes, so that payloads are large soon.
fn small_rows(settings: &mut Settings) {
    settings.payload_inline_bytes_max = 1_000;
    settings.payload_bytes_max = 100_000;
}

async fn large(on: On, change: impl FnOnce(&mut Settings)) -> Rig {
    let mut rig = Rig::with(on, change).await;
    rig.client = rig.client.max_decoding_message_size(usize::MAX);
    rig
}

/// The payloads in the storage.
fn stored(server: &Server) -> Vec<PathBuf> {
    let folder = PathBuf::from(server.settings.storage()).join("payloads");
    let Ok(entries) = std::fs::read_dir(folder) else { return vec![] };
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn id(run: &str) -> RunId {
    run.parse().unwrap()
}

/// Lets time pass until nothing is left in the storage that nobody refers to.
async fn collected(server: &Server, left: usize) {
    eventually("the storage holds what is needed", async || {
        server.clock.advance(HOUR);
        stored(server).len() == left
    })
    .await;
}

async fn signal(rig: &mut Rig, run: &str, payload: impl Into<Bytes>) {
    let (run_id, name) = (run.to_owned(), "go".to_owned());
    let request = v1::SignalWorkflowRunRequest { run_id, name, payload: payload.into(), idempotency_key: None };
    rig.client.signal_workflow_run(request).await.unwrap();
}

async fn publish(rig: &mut Rig, run: &v1::PollActivityResponse, value: impl Into<Bytes>) {
    let (run_id, lease) = (run.run_id.clone(), run.lease.clone());
    rig.client.publish(v1::PublishRequest { run_id, lease, value: value.into() }).await.unwrap();
}

async fn query(rig: &mut Rig, run: &str) -> Bytes {
    let request = v1::QueryWorkflowRunRequest { run_id: run.into() };
    rig.client.query_workflow_run(request).await.unwrap().into_inner().value
}

async fn give_back(rig: &mut Rig, run: &v1::PollActivityResponse) {
    let (run_id, lease) = (run.run_id.clone(), run.lease.clone());
    let request = v1::GiveBackWorkflowRequest { run_id, lease, reason: String::new() };
    rig.client.give_back_workflow(request).await.unwrap();
}

/// In the sizes people have.
async fn a_large_input_output_and_everything_between_come_back_whole(on: On) {
    let mut rig = large(on, |_| {}).await;
    let (input, output) = (text(10 * MIB, "i"), text(20 * MIB, "o"));
    let (remembered, said, shown) = (text(5 * MIB, "s"), text(3 * MIB, "m"), text(4 * MIB, "p"));
    let start = v1::StartWorkflowRequest { input: input.clone().into(), ..order() };
    let started = rig.client.start_workflow(start).await.unwrap().into_inner().run_id;
    let worker = rig.worker().await;
    let run = rig.poll(&worker).await;
    assert!(run.workflow_input == input, "the worker gets all of the input");
    let kept = rig.client.complete_step(step(&run, 0, "make", &remembered)).await.unwrap().into_inner();
    assert!(kept.output == remembered && !kept.existed);
    let again = rig.client.complete_step(step(&run, 0, "make", "1")).await.unwrap().into_inner();
    assert!(again.output == remembered && again.existed);
    let (run_id, lease, name) = (run.run_id.clone(), run.lease.clone(), "make".to_owned());
    let begin = v1::BeginStepRequest { run_id, lease, position: 0, name };
    let begun = rig.client.begin_step(begin).await.unwrap().into_inner();
    assert!(!begun.execute && begun.step.unwrap().output == remembered);
    signal(&mut rig, &started, said.clone()).await;
    let news = rig.client.suspend(suspension(&run, 0)).await.unwrap().into_inner();
    assert!(!news.suspended && news.messages[0].payload == said);
    publish(&mut rig, &run, shown.clone()).await;
    assert!(query(&mut rig, &started).await == shown);
    // The next worker gets everything again.
    give_back(&mut rig, &run).await;
    let run = rig.poll(&worker).await;
    assert!(run.workflow_input == input && run.steps[0].output == remembered && run.messages[0].payload == said);
    rig.complete(&run, &output).await;
    let ended = rig.get(&started).await;
    assert!(ended.input == input && ended.output == output);
    let list = v1::ListStepsRequest { run_id: started.clone(), ..Default::default() };
    let listed = rig.client.list_steps(list).await.unwrap().into_inner().steps;
    assert_eq!((listed[0].output.len(), listed[0].output_bytes), (0, 5 * MIB as u64), "lists have sizes only");
    // The rows stay small.
    let store = &rig.server.app.store;
    let record = store.run(id(&started)).await.unwrap().unwrap();
    assert_eq!((record.input.len(), record.output.unwrap().len()), (REFERENCE_BYTES, REFERENCE_BYTES));
    let steps = store.steps(id(&started), Page { after: None, limit: 10 }).await.unwrap();
    assert_eq!(steps[0].output.as_ref().unwrap().len(), REFERENCE_BYTES);
    assert_eq!(store.messages(id(&started), 0).await.unwrap()[0].payload.as_ref().unwrap().len(), REFERENCE_BYTES);
    assert_eq!(store.published(id(&started)).await.unwrap().unwrap().0.len(), REFERENCE_BYTES);
    collected(&rig.server, 5).await;
}

async fn large_payloads_go_over_the_stream_too(on: On) {
    let mut rig = large(on, |_| {}).await;
    let (input, output) = (text(10 * MIB, "i"), text(20 * MIB, "o"));
    let start = v1::StartWorkflowRequest { input: input.clone().into(), ..order() };
    let started = rig.client.start_workflow(start).await.unwrap().into_inner().run_id;
    let (mut stream, _) = rig.work(hello()).await;
    stream.grant(1).await;
    let run = stream.run().await;
    assert!(run.workflow_input == input);
    let remembered = text(5 * MIB, "s");
    let number = stream.report(vec![What::CompleteStep(step(&run, 0, "make", &remembered))]).await;
    assert!(matches!(stream.answer(number).await, Answer::CompleteStep(kept) if kept.output == remembered));
    signal(&mut rig, &started, text(3 * MIB, "m")).await;
    assert!(stream.messages().await.messages[0].payload == text(3 * MIB, "m"));
    let number = stream.report(vec![What::CompleteWorkflow(completion(&run, &output))]).await;
    assert_eq!(stream.answer(number).await, Answer::State(v1::RunState::Completed.into()));
    assert!(rig.get(&started).await.output == output);
}

async fn what_looks_like_a_reference_is_refused_wherever_it_comes(on: On) {
    let mut rig = large(on, small_rows).await;
    let start = v1::StartWorkflowRequest { input: text(5_000, "x").into(), ..order() };
    let other = rig.client.start_workflow(start).await.unwrap().into_inner().run_id;
    // Stolen from the database itself: as good as a forgery can be.
    let stolen = rig.server.app.store.run(id(&other)).await.unwrap().unwrap().input;
    let worker = rig.worker().await;
    let run = rig.poll(&worker).await;
    let mut forged = MARK.to_vec();
    forged.resize(REFERENCE_BYTES, 7);
    let long = [&stolen[..], &[0; 5_000]].concat();
    for sent in [stolen.clone(), Bytes::from(forged), Bytes::from_static(&MARK), Bytes::from(long)] {
        let refused =
            async |call: Result<(), tonic::Status>| assert_eq!(call.unwrap_err().code(), Code::InvalidArgument);
        let (run_id, lease) = (run.run_id.clone(), run.lease.clone());
        let start = v1::StartWorkflowRequest { input: sent.clone(), ..order() };
        refused(rig.client.start_workflow(start.clone()).await.map(drop)).await;
        let output = v1::CompleteStepRequest { output: sent.clone(), ..step(&run, 0, "x", "") };
        refused(rig.client.complete_step(output).await.map(drop)).await;
        let (name, payload) = ("go".to_owned(), sent.clone());
        let said = v1::SignalWorkflowRunRequest { run_id: run_id.clone(), name, payload, idempotency_key: None };
        refused(rig.client.signal_workflow_run(said).await.map(drop)).await;
        let shown = v1::PublishRequest { run_id: run_id.clone(), lease: lease.clone(), value: sent.clone() };
        refused(rig.client.publish(shown).await.map(drop)).await;
        let (name, start) = ("child".to_owned(), Some(start));
        let child = v1::StartChildRequest { run_id: run_id.clone(), lease: lease.clone(), position: 0, name, start };
        refused(rig.client.start_child(child).await.map(drop)).await;
        let next = v1::ContinueAsNewRequest { run_id, lease, input: sent.clone() };
        refused(rig.client.continue_as_new(next).await.map(drop)).await;
        let done = v1::CompleteWorkflowRequest { output: sent, ..completion(&run, "") };
        refused(rig.client.complete_workflow(done).await.map(drop)).await;
    }
    assert_eq!(rig.state(&run.run_id).await, v1::RunState::Assigned, "nothing was changed");
    // A row from before there were references may look like one: it has no signature of ours, and nothing is fetched for it.
    let mut unsigned = stolen.to_vec();
    *unsigned.last_mut().unwrap() ^= 1;
    let (ring, of) = (rig.server.app.secrets.ring(), id(&run.run_id));
    let (epoch, _) = baton_core::token::open_lease(&ring.newest().tokens, of, &run.lease).unwrap();
    let lease = baton_store::LeaseRef { run: of, epoch };
    rig.server.app.store.publish(vec![(lease, unsigned.clone().into())]).await.unwrap();
    assert_eq!(query(&mut rig, &run.run_id).await, unsigned);
}

async fn a_payload_beyond_the_limit_is_refused_and_changes_nothing(on: On) {
    let mut rig = large(on, small_rows).await;
    let start = v1::StartWorkflowRequest { input: text(100_001, "x").into(), ..order() };
    let refused = rig.client.start_workflow(start).await.unwrap_err();
    assert!(refused.message().contains("100000"), "{refused}");
    assert_eq!(refusal::<()>(Err(refused)), (Code::ResourceExhausted, "TOO_LARGE".into()));
    let (_, run) = rig.held().await;
    let too_large = (Code::ResourceExhausted, "TOO_LARGE".into());
    let much = text(100_001, "x");
    assert_eq!(refusal(rig.client.complete_workflow(completion(&run, &much)).await), too_large);
    // The record of a child's end may be a little larger than the child's output.
    assert_eq!(refusal(rig.client.complete_step(step(&run, 0, "x", &text(200_000, "x"))).await), too_large);
    let (run_id, lease) = (run.run_id.clone(), run.lease.clone());
    let value: Bytes = much.clone().into();
    assert_eq!(
        refusal(rig.client.publish(v1::PublishRequest { run_id, lease, value: value.clone() }).await),
        too_large
    );
    let (run_id, name) = (run.run_id.clone(), "go".to_owned());
    let signal = v1::SignalWorkflowRunRequest { run_id, name, payload: value.clone(), idempotency_key: None };
    assert_eq!(refusal(rig.client.signal_workflow_run(signal).await), too_large);
    let (run_id, lease) = (run.run_id.clone(), run.lease.clone());
    let next = v1::ContinueAsNewRequest { run_id, lease, input: value };
    assert_eq!(refusal(rig.client.continue_as_new(next).await), too_large);
    // Beyond what a whole message may have nothing is even read.
    let start = v1::StartWorkflowRequest { input: text(300_000, "x").into(), ..order() };
    assert_eq!(refusal(rig.client.start_workflow(start).await), too_large);
    assert_eq!(stored(&rig.server), Vec::<PathBuf>::new());
    rig.complete(&run, &text(100_000, "x")).await;
    assert_eq!(stored(&rig.server).len(), 1);
}

async fn the_same_key_and_body_is_the_same_run_and_stores_nothing_again(on: On) {
    let mut rig = large(on, small_rows).await;
    let key = Some("once".to_owned());
    let start = v1::StartWorkflowRequest { input: text(5_000, "x").into(), idempotency_key: key, ..order() };
    let first = rig.client.start_workflow(start.clone()).await.unwrap().into_inner();
    let again = rig.client.start_workflow(start.clone()).await.unwrap().into_inner();
    assert_eq!((&first.run_id, first.existed, again.existed), (&again.run_id, false, true));
    let other = v1::StartWorkflowRequest { input: text(5_000, "y").into(), ..start };
    assert_eq!(refusal(rig.client.start_workflow(other).await), (Code::AlreadyExists, "IDEMPOTENCY_KEY_REUSED".into()));
    assert_eq!(stored(&rig.server).len(), 1);
}

async fn what_is_too_much_for_one_answer_is_fetched_on_its_own(on: On) {
    let mut rig = large(on, small_rows).await;
    let (worker, run) = rig.held().await;
    for position in 0..3 {
        rig.complete_step(&run, position, "make", &text(60_000 + position as usize, "s")).await;
        signal(&mut rig, &run.run_id, text(70_000 + position as usize, "m")).await;
    }
    give_back(&mut rig, &run).await;
    let stale = run;
    let run = rig.poll(&worker).await;
    let sizes: Vec<_> = run.steps.iter().map(|step| (step.output.len(), step.output_bytes)).collect();
    assert_eq!(sizes, [(60_000, 0), (0, 60_001), (0, 60_002)], "as many as fit, and of the others the sizes");
    let left_out = |message: &v1::Message| message.payload.is_empty() && message.payload_bytes >= 70_000;
    assert!(run.messages.iter().all(left_out));
    let of = |run: &v1::PollActivityResponse, lease: &str, which| {
        let (run_id, lease) = (run.run_id.clone(), lease.to_owned());
        v1::GetPayloadRequest { run_id, lease, which: Some(which) }
    };
    use v1::get_payload_request::Which;
    let output = rig.client.get_payload(of(&run, &run.lease, Which::Position(2))).await.unwrap().into_inner();
    assert!(output.payload == text(60_002, "s"));
    let message = rig.client.get_payload(of(&run, "", Which::Message(1))).await.unwrap().into_inner();
    assert!(message.payload == text(70_000, "m"));
    let lost = rig.client.get_payload(of(&run, &stale.lease, Which::Position(2))).await;
    assert_eq!(refusal(lost), (Code::Aborted, "LEASE_LOST".into()));
    let nothing = rig.client.get_payload(of(&run, &run.lease, Which::Position(9))).await;
    assert_eq!(refusal(nothing).0, Code::NotFound);
    let mut stranger = rig.client_for(&["worker"], None).await;
    assert_eq!(refusal(stranger.get_payload(of(&run, "", Which::Position(2))).await).0, Code::PermissionDenied);
    let mut elsewhere = rig.client_for(&["read"], Some("elsewhere")).await;
    assert_eq!(refusal(elsewhere.get_payload(of(&run, "", Which::Position(2))).await).0, Code::NotFound);
    let mut elsewhere = rig.client_for(&["worker"], Some("elsewhere")).await;
    let foreign = elsewhere.get_payload(of(&run, &run.lease, Which::Position(2))).await;
    assert_eq!(refusal(foreign), (Code::PermissionDenied, "FORBIDDEN".into()), "as with a lease that is made up");
}

async fn payloads_vanish_with_their_run(on: On) {
    let mut rig = large(on, small_rows).await;
    let start = v1::StartWorkflowRequest { input: text(5_000, "x").into(), ..order() };
    rig.client.start_workflow(start).await.unwrap();
    let worker = rig.worker().await;
    let run = rig.poll(&worker).await;
    rig.complete_step(&run, 0, "make", &text(6_000, "x")).await;
    rig.complete(&run, &text(7_000, "x")).await;
    // Only what somebody refers to is left, however long it takes.
    for _ in 0..5 {
        rig.server.clock.advance(HOUR);
    }
    assert_eq!(stored(&rig.server).len(), 3);
    rig.server.app.store.retain(0, NEVER, NEVER, 100).await.unwrap();
    collected(&rig.server, 0).await;
    // The rows go after the files.
    let rows = async || rig.server.app.store.look_at_payloads(0, 100).await.unwrap().count;
    eventually("there are no rows either", async || rows().await == 0).await;
}

async fn a_late_completion_leaves_nothing(on: On) {
    let mut rig = large(on, small_rows).await;
    let (_, run) = rig.held().await;
    give_back(&mut rig, &run).await;
    let late = rig.client.complete_workflow(completion(&run, &text(5_000, "x"))).await;
    assert_eq!(refusal(late), (Code::Aborted, "LEASE_LOST".into()));
    assert_eq!(rig.state(&run.run_id).await, v1::RunState::Pending);
    collected(&rig.server, 0).await;
}

async fn a_storage_that_is_out_of_reach_is_unavailable_and_then_goes_on(on: On) {
    let mut rig = large(on, small_rows).await;
    let (_, run) = rig.held().await;
    let (place, aside) = (PathBuf::from(rig.server.settings.storage()), tempfile::tempdir().unwrap());
    std::fs::rename(&place, aside.path().join("storage")).unwrap();
    let start = v1::StartWorkflowRequest { input: text(5_000, "x").into(), ..order() };
    assert_eq!(refusal(rig.client.start_workflow(start.clone()).await).0, Code::Unavailable);
    let done = completion(&run, &text(5_000, "x"));
    assert_eq!(refusal(rig.client.complete_workflow(done.clone()).await).0, Code::Unavailable);
    assert_eq!(rig.state(&run.run_id).await, v1::RunState::Assigned, "nothing was changed");
    std::fs::rename(aside.path().join("storage"), &place).unwrap();
    rig.client.complete_workflow(done).await.unwrap();
    rig.client.start_workflow(start).await.unwrap();
}

async fn a_run_that_has_lost_its_input_fails_and_others_go_on(on: On) {
    let mut rig = large(on, small_rows).await;
    let start = v1::StartWorkflowRequest { input: text(5_000, "x").into(), ..order() };
    let lost = rig.client.start_workflow(start).await.unwrap().into_inner().run_id;
    stored(&rig.server).iter().for_each(|file| std::fs::remove_file(file).unwrap());
    let good = rig.begin().await;
    let (mut stream, _) = rig.work(hello()).await;
    stream.grant(2).await;
    assert_eq!(stream.run().await.run_id, good);
    let request = v1::GetWorkflowRunRequest { run_id: lost.clone() };
    assert_eq!(refusal(rig.client.get_workflow_run(request).await), (Code::DataLoss, "PAYLOAD_LOST".into()));
    let record = rig.server.app.store.run(id(&lost)).await.unwrap().unwrap();
    assert_eq!(record.state, baton_core::State::Failed);
    assert!(record.error.unwrap().contains("payload"));
}

async fn a_retried_run_has_the_input_of_the_first(on: On) {
    let mut rig = large(on, small_rows).await;
    let start = v1::StartWorkflowRequest { input: text(5_000, "x").into(), ..order() };
    let first = rig.client.start_workflow(start).await.unwrap().into_inner().run_id;
    let worker = rig.worker().await;
    let run = rig.poll(&worker).await;
    rig.complete_step(&run, 0, "make", &text(6_000, "x")).await;
    let (run_id, lease) = (run.run_id.clone(), run.lease.clone());
    let failed =
        v1::FailWorkflowRequest { run_id, lease, error: "no".into(), non_retryable: true, ..Default::default() };
    rig.client.fail_workflow(failed).await.unwrap();
    for from_start in [false, true] {
        let again = v1::RetryWorkflowRunRequest { run_id: first.clone(), from_start };
        rig.client.retry_workflow_run(again).await.unwrap();
        // With a number, because the one before is not begun.
        let claim_no = 1 + u64::from(from_start);
        let poll = v1::PollActivityRequest { claim_no, ..poll(&worker, std::time::Duration::ZERO) };
        let run = rig.client.poll_activity(poll).await.unwrap().into_inner();
        assert!(run.workflow_input == text(5_000, "x") && run.steps.len() == usize::from(!from_start));
        assert!(run.steps.iter().all(|step| step.output == text(6_000, "x")));
    }
    // The first one goes, and what the others have of it stays.
    rig.server.clock.advance(1);
    rig.server.app.store.retain(0, NEVER, NEVER, 100).await.unwrap();
    assert_eq!(rig.server.app.store.run(id(&first)).await.unwrap(), None);
    for _ in 0..5 {
        rig.server.clock.advance(HOUR);
        rig.server.app.store.look_at_payloads(HOUR, 100).await.unwrap();
    }
    assert_eq!(stored(&rig.server).len(), 2);
}

async fn the_output_of_a_child_reaches_its_parent(on: On) {
    let mut rig = large(on, small_rows).await;
    let (worker, parent) = rig.held().await;
    let start = v1::StartWorkflowRequest { workflow_type: "child".into(), input: text(4_000, "i").into(), ..order() };
    let (run_id, lease) = (parent.run_id.clone(), parent.lease.clone());
    let child = v1::StartChildRequest { run_id, lease, position: 0, name: "child".into(), start: Some(start) };
    rig.client.start_child(child).await.unwrap();
    let child = rig.poll(&worker).await;
    assert!(child.workflow_input == text(4_000, "i"));
    rig.complete(&child, &text(8_000, "o")).await;
    let (run_id, lease) = (parent.run_id.clone(), parent.lease.clone());
    let wait = Some(prost_types::Duration { seconds: 10, nanos: 0 });
    let messages = v1::AwaitMessagesRequest { run_id, lease, seen: 0, wait };
    let messages = rig.client.await_messages(messages).await.unwrap().into_inner().messages;
    assert!(messages[0].payload == text(8_000, "o"));
}
