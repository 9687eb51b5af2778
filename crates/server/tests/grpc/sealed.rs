//! Workflows of a namespace that seals its payloads: everything that is remembered, said and shown.

use baton_proto::v1;
use baton_proto::v1::report::What;
use baton_proto::v1::report_answer::What as Answer;

use crate::harness::{On, on_both};
use crate::rig::{Rig, completion, hello, order, step, suspension};

const CANARY: &str = "\"canary-0815-blue\"";

async fn sealed(on: On) -> Rig {
    let rig = Rig::with(on, |settings| settings.payload_inline_bytes_max = 1_000).await;
    rig.server.submit().await;
    rig.server.seal("default", true).await;
    rig
}

async fn nothing_of_a_workflow_is_in_the_database_in_plain(on: On) {
    let mut rig = sealed(on).await;
    let large = format!("\"{}\"", CANARY.trim_matches('"').repeat(100));
    for text in [CANARY, large.as_str()] {
        let start = v1::StartWorkflowRequest { input: text.to_owned().into(), ..order() };
        let started = rig.client.start_workflow(start).await.unwrap().into_inner().run_id;
        let worker = rig.worker().await;
        let run = rig.poll(&worker).await;
        assert_eq!(run.workflow_input, text);
        let kept = rig.client.complete_step(step(&run, 0, "make", text)).await.unwrap().into_inner();
        assert!(kept.output == text && !kept.existed);
        let again = rig.client.complete_step(step(&run, 0, "make", "1")).await.unwrap().into_inner();
        assert!(again.output == text && again.existed, "what was remembered first");
        rig.signal(&started, "go", text).await;
        let news = rig.client.suspend(suspension(&run, 0)).await.unwrap().into_inner();
        assert!(!news.suspended && news.messages[0].payload == text);
        let value = text.to_owned().into();
        let publish = v1::PublishRequest { run_id: run.run_id.clone(), lease: run.lease.clone(), value };
        rig.client.publish(publish).await.unwrap();
        let query = v1::QueryWorkflowRunRequest { run_id: started.clone() };
        assert_eq!(rig.client.query_workflow_run(query).await.unwrap().into_inner().value, text);
        let back =
            v1::GiveBackWorkflowRequest { run_id: run.run_id.clone(), lease: run.lease.clone(), reason: String::new() };
        rig.client.give_back_workflow(back).await.unwrap();
        let run = rig.poll(&worker).await;
        assert!(run.workflow_input == text && run.steps[0].output == text && run.messages[0].payload == text);
        let next = v1::ContinueAsNewRequest {
            run_id: run.run_id.clone(),
            lease: run.lease.clone(),
            input: text.to_owned().into(),
        };
        rig.client.continue_as_new(next).await.unwrap();
        let run = rig.poll(&worker).await;
        assert_eq!(run.workflow_input, text);
        rig.complete(&run, text).await;
        let ended = rig.get(&run.run_id).await;
        assert!(ended.input == text && ended.output == text);
        let list = v1::ListStepsRequest { run_id: started.clone(), ..Default::default() };
        let listed = rig.client.list_steps(list).await.unwrap().into_inner().steps;
        assert!(listed[0].output == text || listed[0].output_bytes > 0, "{listed:?}");
    }
    assert!(!rig.server.holds(CANARY.trim_matches('"')).await);
}

async fn the_stream_and_the_end_of_a_child_are_sealed_too(on: On) {
    let mut rig = sealed(on).await;
    let start = v1::StartWorkflowRequest { input: CANARY.into(), ..order() };
    let started = rig.client.start_workflow(start).await.unwrap().into_inner().run_id;
    let (mut stream, _) = rig.work(hello()).await;
    stream.grant(2).await;
    let run = stream.run().await;
    assert_eq!(run.workflow_input, CANARY);
    let number = stream.report(vec![What::CompleteStep(step(&run, 0, "make", CANARY))]).await;
    assert!(matches!(stream.answer(number).await, Answer::CompleteStep(kept) if kept.output == CANARY));
    let child = v1::StartChildRequest {
        run_id: run.run_id.clone(),
        lease: run.lease.clone(),
        position: 1,
        name: "child".into(),
        start: Some(v1::StartWorkflowRequest { input: CANARY.into(), ..order() }),
    };
    rig.client.start_child(child).await.unwrap();
    let child = stream.run().await;
    assert_eq!(child.workflow_input, CANARY);
    let number = stream.report(vec![What::CompleteWorkflow(completion(&child, CANARY))]).await;
    assert_eq!(stream.answer(number).await, Answer::State(v1::RunState::Completed.into()));
    let messages = stream.messages().await.messages;
    assert_eq!(messages[0].payload, CANARY, "the parent hears what came out");
    let number = stream.report(vec![What::CompleteWorkflow(completion(&run, CANARY))]).await;
    assert_eq!(stream.answer(number).await, Answer::State(v1::RunState::Completed.into()));
    assert_eq!(rig.get(&started).await.output, CANARY);
    assert!(!rig.server.holds(CANARY.trim_matches('"')).await);
}

on_both!(nothing_of_a_workflow_is_in_the_database_in_plain, the_stream_and_the_end_of_a_child_are_sealed_too);
