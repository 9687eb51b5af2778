//! How much one workflow may remember: what goes beyond is refused, and what is beyond already is taken up or ends.

use baton_proto::v1;
use baton_proto::v1::report::What;
use baton_proto::v1::report_answer::What as Answer;
use baton_proto::v1::{RunState, StepKind};
use serde_json::json;
use tonic::Code;

use crate::harness::{On, on_both};
use crate::rig::{Rig, completion, failed_step, hello, poll, refusal, step};

on_both!(
    what_goes_beyond_the_journal_is_refused_and_says_what_to_do,
    the_stream_refuses_it_too_and_goes_on,
    what_is_in_the_storage_counts_as_its_reference,
    small_outputs_fill_a_journal_as_well,
    a_run_somewhat_beyond_a_lowered_limit_is_taken_up_and_may_end,
    a_run_far_beyond_a_lowered_limit_fails_for_who_polls,
    a_run_far_beyond_a_lowered_limit_fails_for_a_stream_and_others_go_on,
    runs_that_remember_much_are_handed_over_one_after_the_other,
);

const FULL: (Code, &str) = (Code::ResourceExhausted, "JOURNAL_FULL");

/// A server on which a workflow may remember so many bytes.
async fn limited(on: On, bytes: u64) -> Rig {
    Rig::with(on, |settings| settings.journal_bytes_max = bytes).await
}

async fn limit(rig: &Rig, bytes: u64) {
    let set = [("journal_bytes_max".to_owned(), json!(bytes))].into();
    let change = baton::proto::ChangeSettings { set, ..Default::default() };
    rig.server.client.change_settings(&change).await.unwrap();
}

fn text(bytes: usize) -> String {
    format!("\"{}\"", "x".repeat(bytes - 2))
}

fn full<T: std::fmt::Debug>(result: Result<T, tonic::Status>) {
    let (code, reason) = refusal(result);
    assert_eq!((code, reason.as_str()), FULL);
}

async fn give_back(rig: &mut Rig, run: &v1::PollActivityResponse) {
    let (run_id, lease) = (run.run_id.clone(), run.lease.clone());
    let request = v1::GiveBackWorkflowRequest { run_id, lease, reason: String::new() };
    rig.client.give_back_workflow(request).await.unwrap();
}

async fn what_goes_beyond_the_journal_is_refused_and_says_what_to_do(on: On) {
    let mut rig = limited(on, 10_000).await;
    let (worker, run) = rig.held().await;
    rig.complete_step(&run, 0, "make", &text(4_000)).await;
    rig.complete_step(&run, 1, "make", &text(4_000)).await;
    let refused = rig.client.complete_step(step(&run, 2, "make", &text(4_000))).await.unwrap_err();
    for word in ["12000 bytes", "10000", "journal_bytes_max", "continue as new"] {
        assert!(refused.message().contains(word), "{refused}");
    }
    full::<()>(Err(refused));
    full(
        rig.client
            .complete_step(v1::CompleteStepRequest {
                kind: StepKind::Fact.into(),
                ..step(&run, 2, "now", &text(2_001))
            })
            .await,
    );
    let message = rig.signal(&run.run_id, "go", "1").await;
    let taken = v1::CompleteStepRequest { kind: StepKind::Signal.into(), message, ..step(&run, 2, "go", &text(2_001)) };
    full(rig.client.complete_step(taken).await);
    full(rig.client.fail_step(v1::FailStepRequest { error: text(2_001), ..failed_step(&run, 2, 1) }).await);
    let again = rig.client.complete_step(step(&run, 1, "make", &text(4_000))).await.unwrap().into_inner();
    assert!(again.existed && again.output.len() == 4_000, "a repeat is harmless");
    rig.complete_step(&run, 2, "make", &text(2_000)).await;
    give_back(&mut rig, &run).await;
    let run = rig.poll(&worker).await;
    assert_eq!(run.steps.len(), 3, "nothing that was refused is remembered");
    rig.complete(&run, "1").await;
}

async fn the_stream_refuses_it_too_and_goes_on(on: On) {
    let mut rig = limited(on, 10_000).await;
    let id = rig.begin().await;
    let (mut stream, _) = rig.work(hello()).await;
    stream.grant(1).await;
    let run = stream.run().await;
    let large = |position| What::CompleteStep(step(&run, position, "make", &text(4_000)));
    let first = stream.report(vec![large(0), large(1), large(2)]).await;
    match stream.answer(first + 2).await {
        Answer::Error(error) => {
            assert_eq!((error.code, error.reason.as_str()), (Code::ResourceExhausted as u32, "JOURNAL_FULL"));
            assert!(error.message.contains("10000"), "{}", error.message);
        }
        other => panic!("{other:?}"),
    }
    let again = stream.report(vec![large(1)]).await;
    assert!(matches!(stream.answer(again).await, Answer::CompleteStep(kept) if kept.existed));
    let ended = stream.report(vec![What::CompleteWorkflow(completion(&run, "1"))]).await;
    assert!(matches!(stream.answer(ended).await, Answer::State(_)));
    assert_eq!(rig.state(&id).await, RunState::Completed);
}

async fn what_is_in_the_storage_counts_as_its_reference(on: On) {
    let mut rig = Rig::with(on, |settings| {
        settings.payload_inline_bytes_max = 1_000;
        settings.journal_bytes_max = 3 * 88;
    })
    .await;
    let (_, run) = rig.held().await;
    for position in 0..3 {
        rig.complete_step(&run, position, "make", &text(5_000)).await;
    }
    full(rig.client.complete_step(step(&run, 3, "make", &text(5_000))).await);
}

async fn small_outputs_fill_a_journal_as_well(on: On) {
    // One in two or three looks.
    let mut rig = limited(on, 6_400).await;
    let (_, run) = rig.held().await;
    let mut position = 0;
    let refused = loop {
        match rig.client.complete_step(step(&run, position, "make", &text(10))).await {
            Ok(_) => position += 1,
            Err(refused) => break refused,
        }
        assert!(position < 10_000, "dice are not like this");
    };
    full::<()>(Err(refused));
    assert!(position >= 640, "refused at {position}, before it was full");
}

async fn a_run_somewhat_beyond_a_lowered_limit_is_taken_up_and_may_end(on: On) {
    let mut rig = limited(on, 100_000).await;
    let (worker, run) = rig.held().await;
    for position in 0..4 {
        rig.complete_step(&run, position, "make", &text(4_000)).await;
    }
    give_back(&mut rig, &run).await;
    limit(&rig, 8_000).await;
    let run = rig.poll(&worker).await;
    assert_eq!(run.steps.len(), 4);
    full(rig.client.complete_step(step(&run, 4, "make", &text(100))).await);
    rig.complete(&run, "1").await;
}

async fn a_run_far_beyond_a_lowered_limit_fails_for_who_polls(on: On) {
    let mut rig = limited(on, 100_000).await;
    let (worker, run) = rig.held().await;
    for position in 0..4 {
        rig.complete_step(&run, position, "make", &text(4_000)).await;
    }
    give_back(&mut rig, &run).await;
    limit(&rig, 7_999).await;
    let good = rig.begin().await;
    let nothing = rig.client.poll_activity(poll(&worker, Default::default())).await.unwrap().into_inner();
    assert_eq!(nothing.run_id, "", "the run is not handed over");
    let other = rig.poll(&worker).await;
    assert_eq!(other.run_id, good);
    rig.complete(&other, "1").await;
    let failed = rig.get(&run.run_id).await;
    assert_eq!(failed.state(), RunState::Failed);
    for word in ["15998", "7999", "journal_bytes_max"] {
        assert!(failed.error.contains(word), "{}", failed.error);
    }
    // What was done is not lost.
    limit(&rig, 100_000).await;
    let retry = v1::RetryWorkflowRunRequest { run_id: run.run_id.clone(), ..Default::default() };
    let retried = rig.client.retry_workflow_run(retry).await.unwrap().into_inner().run_id;
    let run = rig.poll(&worker).await;
    assert_eq!((run.run_id, run.steps.len()), (retried, 4));
}

async fn a_run_far_beyond_a_lowered_limit_fails_for_a_stream_and_others_go_on(on: On) {
    let mut rig = limited(on, 100 << 20).await;
    let (_, run) = rig.held().await;
    // More than is read at once for several runs.
    for position in 0..17 {
        rig.complete_step(&run, position, "make", &text(2 << 20)).await;
    }
    give_back(&mut rig, &run).await;
    limit(&rig, 16 << 20).await;
    let good = rig.begin().await;
    let (mut stream, _) = rig.work(hello()).await;
    stream.grant(2).await;
    assert_eq!(stream.run().await.run_id, good);
    let failed = rig.get(&run.run_id).await;
    assert_eq!(failed.state(), RunState::Failed);
    assert!(failed.error.contains("journal_bytes_max"), "{}", failed.error);
}

async fn runs_that_remember_much_are_handed_over_one_after_the_other(on: On) {
    let mut rig = limited(on, 100 << 20).await;
    rig.client = rig.client.max_decoding_message_size(usize::MAX);
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(rig.held().await.1);
    }
    for run in &runs {
        for position in 0..9 {
            rig.complete_step(run, position, "make", &text(2 << 20)).await;
        }
    }
    for run in &runs {
        give_back(&mut rig, run).await;
    }
    let (mut stream, _) = rig.work(hello()).await;
    stream.grant(3).await;
    let taken = stream.runs(3).await;
    assert!(taken.iter().all(|run| run.steps.len() == 9));
    for run in taken {
        let ended = stream.report(vec![What::CompleteWorkflow(completion(&run, "1"))]).await;
        assert!(matches!(stream.answer(ended).await, Answer::State(_)));
    }
}
