//! The stream of a worker.

use std::collections::BTreeSet;
use std::time::Duration;

use baton_proto::v1;
use baton_proto::v1::report::What;
use baton_proto::v1::report_answer::What as Answer;
use baton_proto::v1::{MessageKind, RunState};
use tonic::Code;

use crate::harness::{On, eventually, on_both};
use crate::rig::{Rig, Stream, completion, failed_step, field, hello, refusal, sleep, step, suspension, worker};

fn state(answer: Answer) -> RunState {
    match answer {
        Answer::State(state) => RunState::try_from(state).unwrap(),
        other => panic!("no state: {other:?}"),
    }
}

fn reason(answer: Answer) -> (u32, String) {
    match answer {
        Answer::Error(error) => (error.code, error.reason),
        other => panic!("not refused: {other:?}"),
    }
}

async fn runs_are_pushed_as_slots_are_granted(on: On) {
    let mut rig = Rig::start(on).await;
    let (mut stream, registered) = rig.work(hello()).await;
    assert_eq!(registered.heartbeat_interval_secs, 5);
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(rig.begin().await);
    }
    stream.grant(2).await;
    let runs = stream.runs(2).await;
    assert_eq!(runs.iter().map(|run| &run.run_id).collect::<Vec<_>>(), [&ids[0], &ids[1]]);
    eventually("nobody waits without a slot", async || rig.server.app.dispatcher.waiting() == 0).await;
    assert_eq!(rig.state(&ids[2]).await, RunState::Pending);
    let number = stream.report(vec![What::CompleteWorkflow(completion(&runs[0], "1"))]).await;
    assert_eq!(state(stream.answer(number).await), RunState::Completed);
    stream.grant(1).await;
    assert_eq!(stream.run().await.run_id, ids[2]);
}

async fn a_slot_may_come_with_the_end_of_its_run(on: On) {
    let mut rig = Rig::start(on).await;
    let register = v1::RegisterWorkerRequest { max_concurrent: 2, ..worker() };
    let (mut stream, _) = rig.work(v1::Hello { register: Some(register), ..hello() }).await;
    for _ in 0..5 {
        rig.begin().await;
    }
    stream.grant(2).await;
    let first = stream.runs(2).await;
    let end = |number: u64, run: &v1::PollActivityResponse| v1::Report {
        number,
        what: Some(What::CompleteWorkflow(completion(run, "1"))),
    };
    let reports = vec![end(101, &first[0]), end(102, &first[1])];
    stream.send(v1::WorkRequest { slots: 2, reports, ..Default::default() }).await;
    let second = stream.runs(2).await;
    // However much is granted: it said how many it can hold.
    stream.grant(10).await;
    let number = stream.report(vec![What::CompleteStep(step(&second[0], 0, "s", "1"))]).await;
    assert!(matches!(stream.answer(number).await, Answer::CompleteStep(_)));
    let queue = rig.server.client.queue("default", "orders").await.unwrap();
    assert_eq!((queue.held, queue.ready), (2, 1));
    assert_eq!(rig.server.app.dispatcher.waiting(), 0, "no claim is made that would be refused");
    let number = stream.report(vec![What::CompleteWorkflow(completion(&second[0], "1"))]).await;
    assert_eq!(state(stream.answer(number).await), RunState::Completed);
    stream.runs(1).await;
}

/// The worker is busy with what the first brought while the second looks.
async fn large_polls_of_a_stream_take_turns(on: On) {
    const RUNS: usize = 512;
    let mut rig = Rig::start(on).await;
    let register = v1::RegisterWorkerRequest { max_concurrent: RUNS as u32, ..worker() };
    let (mut stream, _) = rig.work(v1::Hello { register: Some(register), ..hello() }).await;
    for _ in 0..RUNS {
        rig.begin().await;
    }
    let claims = &rig.server.app.metrics.claim.calls;
    let before = claims.get();
    stream.grant(RUNS as u32).await;
    stream.runs(RUNS).await;
    assert_eq!(claims.get() - before, 2);
}

async fn every_report_is_answered_under_its_number(on: On) {
    let mut rig = Rig::start(on).await;
    let (mut stream, registered) = rig.work(hello()).await;
    stream.grant(10).await;
    for _ in 0..7 {
        rig.begin().await;
    }
    let runs = stream.runs(7).await;
    let (id, lease) = (|index: usize| runs[index].run_id.clone(), |index: usize| runs[index].lease.clone());
    let start = v1::StartWorkflowRequest { workflow_type: "other".into(), ..Default::default() };
    let first = stream
        .report(vec![
            What::CompleteStep(step(&runs[0], 0, "charge", "1")),
            What::FailStep(failed_step(&runs[1], 0, 1)),
            What::StartChild(v1::StartChildRequest {
                run_id: id(0),
                lease: lease(0),
                position: 1,
                name: "c".into(),
                start: Some(start),
            }),
            What::Publish(v1::PublishRequest { run_id: id(0), lease: lease(0), value: "5".into() }),
            What::Suspend(sleep(&runs[2], 0, Duration::from_secs(9))),
            What::FailWorkflow(v1::FailWorkflowRequest { run_id: id(3), lease: lease(3), ..Default::default() }),
            What::CancelledWorkflow(v1::CancelledWorkflowRequest {
                run_id: id(4),
                lease: lease(4),
                message: "x".into(),
            }),
            What::ContinueAsNew(v1::ContinueAsNewRequest { run_id: id(5), lease: lease(5), input: "2".into() }),
            What::CompleteStep(step(&runs[6], 0, "", "1")),
            What::CompleteStep(v1::CompleteStepRequest { run_id: "x".into(), ..step(&runs[6], 0, "s", "1") }),
        ])
        .await;
    assert!(
        matches!(stream.answer(first).await, Answer::CompleteStep(kept) if &kept.output[..] == b"1" && !kept.existed)
    );
    assert!(matches!(stream.answer(first + 1).await, Answer::FailStep(failed) if failed.retry));
    let Answer::StartChild(child) = stream.answer(first + 2).await else { panic!("no child") };
    assert_eq!(rig.get(&child.run_id).await.parent_run_id, id(0));
    assert!(matches!(stream.answer(first + 3).await, Answer::Publish(_)));
    assert!(matches!(stream.answer(first + 4).await, Answer::Suspend(slept) if slept.suspended));
    assert_eq!(state(stream.answer(first + 5).await), RunState::Failed);
    assert_eq!(state(stream.answer(first + 6).await), RunState::Cancelled);
    let Answer::Continued(next) = stream.answer(first + 7).await else { panic!("no successor") };
    assert_eq!(rig.get(&id(5)).await.continued_to, next.run_id);
    for wrong in [first + 8, first + 9] {
        assert_eq!(reason(stream.answer(wrong).await), (Code::InvalidArgument as u32, "INVALID".into()));
    }
    let back = v1::GiveBackWorkflowRequest { run_id: id(6), lease: lease(6), reason: String::new() };
    let number = stream.report(vec![What::GiveBack(back)]).await;
    assert_eq!(state(stream.answer(number).await), RunState::Pending);
    let stale = stream.report(vec![What::CompleteStep(step(&runs[6], 0, "s", "1"))]).await;
    assert_eq!(reason(stream.answer(stale).await), (Code::Aborted as u32, "LEASE_LOST".into()));
    let beat = v1::WorkerHeartbeatRequest { worker_id: registered.worker_id, ..Default::default() };
    stream.send(v1::WorkRequest { heartbeat: Some(beat), ..Default::default() }).await;
    assert!(stream.heartbeat().await.accepted);
}

async fn a_batch_of_reports_is_one_call_to_the_store(on: On) {
    const RUNS: usize = 50;
    let mut rig = Rig::start(on).await;
    let register = v1::RegisterWorkerRequest { max_concurrent: 100, ..worker() };
    let (mut stream, _) = rig.work(v1::Hello { register: Some(register), ..hello() }).await;
    for _ in 0..RUNS {
        rig.begin().await;
    }
    stream.grant(RUNS as u32).await;
    let runs = stream.runs(RUNS).await;
    let (steps, ends) = (&rig.server.app.metrics.write_steps.calls, &rig.server.app.metrics.complete.calls);
    let before = (steps.get(), ends.get());
    let first = stream.report(runs.iter().map(|run| What::CompleteStep(step(run, 0, "s", "1"))).collect()).await;
    for number in first..first + RUNS as u64 {
        assert!(matches!(stream.answer(number).await, Answer::CompleteStep(_)));
    }
    let first = stream.report(runs.iter().map(|run| What::CompleteWorkflow(completion(run, "1"))).collect()).await;
    for number in first..first + RUNS as u64 {
        assert_eq!(state(stream.answer(number).await), RunState::Completed);
    }
    assert_eq!((steps.get() - before.0, ends.get() - before.1), (1, 1));
}

/// Each is claimed once its memory is read; those for which there is no room go back, and come a moment later.
async fn runs_that_remember_much_do_not_come_all_at_once(on: On) {
    const RUNS: usize = 12;
    const STEPS: u32 = 2;
    let mut rig = Rig::start(on).await;
    let register = v1::RegisterWorkerRequest { max_concurrent: 100, ..worker() };
    let (mut stream, _) = rig.work(v1::Hello { register: Some(register), ..hello() }).await;
    let mut expected = BTreeSet::new();
    for _ in 0..RUNS {
        expected.insert(rig.begin().await);
    }
    stream.grant(RUNS as u32).await;
    let large = format!("\"{}\"", "x".repeat(1_800_000));
    for run in stream.runs(RUNS).await {
        for position in 0..STEPS {
            rig.complete_step(&run, position, "large", &large).await;
        }
        rig.client.suspend(sleep(&run, STEPS, Duration::from_secs(5))).await.unwrap();
    }
    rig.server.clock.advance(5_000);
    let before = rig.server.app.metrics.give_back.runs.get();
    stream.grant(RUNS as u32).await;
    let back = stream.runs(RUNS).await;
    assert!(back.iter().all(|run| run.steps.len() == STEPS as usize + 1));
    assert_eq!(back.into_iter().map(|run| run.run_id).collect::<BTreeSet<_>>(), expected);
    assert!(rig.server.app.metrics.give_back.runs.get() > before, "all were in memory together");
}

async fn messages_for_held_runs_are_pushed_at_once(on: On) {
    let mut rig = Rig::start(on).await;
    let (mut stream, _) = rig.work(hello()).await;
    stream.grant(1).await;
    let id = rig.begin().await;
    let run = stream.run().await;
    rig.signal(&id, "go", "1").await;
    let pushed = stream.messages().await;
    assert_eq!((&pushed.run_id, pushed.messages[0].name.as_str()), (&id, "go"));
    rig.client.cancel_workflow_run(v1::CancelWorkflowRunRequest { run_id: id.clone(), grace: None }).await.unwrap();
    let pushed = stream.messages().await;
    assert_eq!(
        (pushed.messages.len(), pushed.messages[0].kind()),
        (1, MessageKind::Cancel),
        "the first is not sent again"
    );
    let number = stream.report(vec![What::Suspend(suspension(&run, 1))]).await;
    let Answer::Suspend(news) = stream.answer(number).await else { panic!("no answer") };
    assert_eq!((news.suspended, news.messages.len()), (false, 1));
}

async fn a_run_that_wakes_comes_back_on_the_stream(on: On) {
    let mut rig = Rig::start(on).await;
    let (mut stream, _) = rig.work(hello()).await;
    stream.grant(2).await;
    rig.begin().await;
    let run = stream.run().await;
    let number = stream.report(vec![What::CompleteStep(step(&run, 0, "charge", "1"))]).await;
    assert!(matches!(stream.answer(number).await, Answer::CompleteStep(_)));
    let number = stream.report(vec![What::Suspend(sleep(&run, 1, Duration::from_secs(9)))]).await;
    assert!(matches!(stream.answer(number).await, Answer::Suspend(slept) if slept.suspended));
    rig.server.clock.advance(9_000);
    let woken = stream.run().await;
    assert_eq!((&woken.run_id, woken.steps.len()), (&run.run_id, 2));
    assert_ne!(woken.lease, run.lease);
}

async fn lost_leases_and_drain_are_pushed_at_once(on: On) {
    let mut rig = Rig::start(on).await;
    let (mut stream, registered) = rig.work(hello()).await;
    stream.grant(2).await;
    let id = rig.begin().await;
    let run = stream.run().await;
    let at_once = Some(prost_types::Duration::default());
    rig.client.cancel_workflow_run(v1::CancelWorkflowRunRequest { run_id: id.clone(), grace: at_once }).await.unwrap();
    loop {
        let news = stream.heartbeat().await;
        if news.lost.contains(&id) {
            break;
        }
    }
    let late = stream.report(vec![What::CompleteStep(step(&run, 0, "s", "1"))]).await;
    assert_eq!(reason(stream.answer(late).await).1, "LEASE_LOST");
    rig.server.client.drain(&registered.worker_id).await.unwrap();
    while !stream.heartbeat().await.should_drain {}
    let waiting = rig.begin().await;
    eventually("nobody waits", async || rig.server.app.dispatcher.waiting() == 0).await;
    assert_eq!(rig.state(&waiting).await, RunState::Pending);
}

async fn a_worker_that_drains_gets_no_more_and_ends_when_it_holds_nothing(on: On) {
    let mut rig = Rig::start(on).await;
    let (mut stream, _) = rig.work(hello()).await;
    stream.grant(2).await;
    rig.begin().await;
    let run = stream.run().await;
    stream.send(v1::WorkRequest { drain: true, ..Default::default() }).await;
    // Messages are read in their order: once this is answered, no poll is parked any more.
    let number = stream.report(vec![What::CompleteStep(step(&run, 0, "s", "1"))]).await;
    stream.answer(number).await;
    eventually("the poll is withdrawn", async || rig.server.app.dispatcher.waiting() == 0).await;
    let later = rig.begin().await;
    let number = stream.report(vec![What::CompleteWorkflow(completion(&run, "1"))]).await;
    assert_eq!(state(stream.answer(number).await), RunState::Completed);
    while let Ok(rest) = stream.next().await {
        assert_eq!(rest.runs, []);
    }
    assert_eq!(rig.state(&later).await, RunState::Pending);
}

async fn the_first_message_must_be_a_hello_of_a_worker(on: On) {
    let mut rig = Rig::start(on).await;
    let mut stream = Stream::connect(&mut rig.client, v1::WorkRequest { slots: 1, ..Default::default() }).await;
    assert_eq!(field(Err::<(), _>(stream.next().await.unwrap_err().unwrap())), "hello");
    let first = v1::WorkRequest { hello: Some(v1::Hello::default()), ..Default::default() };
    let mut stream = Stream::connect(&mut rig.client, first).await;
    let refused = refusal(Err::<(), _>(stream.next().await.unwrap_err().unwrap()));
    assert_eq!(refused, (Code::FailedPrecondition, "WORKER_OFFLINE".into()));
    let mut submitter = rig.client_for(&["submit"], None).await;
    // Before a message is read: this one never comes.
    let refused = submitter.work(futures_util::stream::pending()).await.map(drop);
    assert_eq!(refusal(refused).0, Code::PermissionDenied);
}

async fn a_worker_forced_offline_loses_its_stream(on: On) {
    let mut rig = Rig::start(on).await;
    let (mut stream, registered) = rig.work(hello()).await;
    stream.grant(1).await;
    rig.server.client.force_offline(&registered.worker_id).await.unwrap();
    let status = loop {
        if let Err(end) = stream.next().await {
            break end.expect("it ended without a word");
        }
    };
    assert_eq!(refusal(Err::<(), _>(status)), (Code::FailedPrecondition, "WORKER_OFFLINE".into()));
}

on_both!(
    runs_are_pushed_as_slots_are_granted,
    a_slot_may_come_with_the_end_of_its_run,
    large_polls_of_a_stream_take_turns,
    every_report_is_answered_under_its_number,
    a_batch_of_reports_is_one_call_to_the_store,
    runs_that_remember_much_do_not_come_all_at_once,
    messages_for_held_runs_are_pushed_at_once,
    a_run_that_wakes_comes_back_on_the_stream,
    lost_leases_and_drain_are_pushed_at_once,
    a_worker_that_drains_gets_no_more_and_ends_when_it_holds_nothing,
    the_first_message_must_be_a_hello_of_a_worker,
    a_worker_forced_offline_loses_its_stream,
);
