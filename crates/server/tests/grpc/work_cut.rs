//! Streams that are cut: nothing is lost, nothing is done twice.

use std::collections::HashMap;

use baton_proto::v1;
use baton_proto::v1::report::What;
use baton_proto::v1::report_answer::What as Answer;
use baton_proto::v1::{RunState, StepState};
use tonic::Code;

use crate::harness::{On, eventually, on_both};
use crate::rig::{Rig, completion, hello, refusal, step, worker};

fn lease(run: &v1::PollActivityResponse) -> v1::RunLease {
    v1::RunLease { run_id: run.run_id.clone(), lease: run.lease.clone() }
}

fn again(worker: &str, leases: Vec<v1::RunLease>) -> v1::Hello {
    v1::Hello { worker_id: worker.into(), leases, ..hello() }
}

async fn a_worker_goes_on_with_what_it_holds_and_the_rest_goes_back(on: On) {
    let mut rig = Rig::start(on).await;
    let (mut stream, registered) = rig.work(hello()).await;
    stream.grant(3).await;
    let (first, second) = (rig.begin().await, rig.begin().await);
    let runs = stream.runs(2).await;
    assert_eq!((&runs[0].run_id, &runs[1].run_id), (&first, &second));
    drop(stream);
    eventually("its poll is withdrawn", async || rig.server.app.dispatcher.waiting() == 0).await;
    rig.signal(&first, "meanwhile", "1").await;
    let (mut stream, resumed) = rig.work(again(&registered.worker_id, vec![lease(&runs[0])])).await;
    assert_eq!(resumed.worker_id, registered.worker_id);
    assert_eq!(stream.messages().await.messages[0].name, "meanwhile", "what came while there was no stream");
    let number = stream.report(vec![What::CompleteWorkflow(completion(&runs[0], "1"))]).await;
    assert!(matches!(stream.answer(number).await, Answer::State(_)));
    // As if it had never arrived.
    stream.grant(1).await;
    let back = stream.run().await;
    assert_eq!(back.run_id, second);
    assert_ne!(back.lease, runs[1].lease);
}

async fn a_registration_that_is_over_is_made_anew(on: On) {
    let mut rig = Rig::start(on).await;
    let (mut stream, registered) = rig.work(hello()).await;
    stream.grant(1).await;
    rig.begin().await;
    let run = stream.run().await;
    drop(stream);
    let gone = v1::DeregisterWorkerRequest { worker_id: registered.worker_id.clone(), drain: false };
    rig.client.deregister_worker(gone).await.unwrap();
    let (mut stream, anew) = rig.work(again(&registered.worker_id, vec![lease(&run)])).await;
    assert_ne!(anew.worker_id, registered.worker_id);
    assert_eq!(stream.heartbeat().await.lost, std::slice::from_ref(&run.run_id));
    stream.grant(1).await;
    assert_eq!(stream.run().await.run_id, run.run_id);
}

async fn leases_of_another_installation_are_lost_and_no_reason_to_refuse_the_worker(on: On) {
    let mut rig = Rig::start(on).await;
    let (_, run) = rig.held().await;
    let foreign = v1::RunLease { lease: "given by a server that stood here before".into(), ..lease(&run) };
    let odd = v1::RunLease { run_id: "odd".into(), ..foreign.clone() };
    let (mut stream, _) = rig.work(again("", vec![foreign, odd])).await;
    assert_eq!(stream.heartbeat().await.lost, [run.run_id.as_str(), "odd"]);
    let id = rig.begin().await;
    stream.grant(1).await;
    assert_eq!(stream.run().await.run_id, id);
}

async fn a_second_stream_takes_over(on: On) {
    let mut rig = Rig::start(on).await;
    let (mut old, registered) = rig.work(hello()).await;
    old.grant(1).await;
    let (mut new, _) = rig.work(again(&registered.worker_id, vec![])).await;
    let status = loop {
        if let Err(end) = old.next().await {
            break end.expect("it ended without a word");
        }
    };
    assert_eq!(status.code(), Code::Aborted);
    new.grant(1).await;
    let id = rig.begin().await;
    assert_eq!(new.run().await.run_id, id);
}

async fn a_server_that_stops_ends_its_streams(on: On) {
    let mut rig = Rig::start(on).await;
    let (mut stream, _) = rig.work(hello()).await;
    stream.grant(5).await;
    rig.begin().await;
    stream.run().await;
    rig.server.stop();
    let status = loop {
        if let Err(end) = stream.next().await {
            break end.expect("it ended without a word");
        }
    };
    assert_eq!(refusal(Err::<(), _>(status)), (Code::Unavailable, "STOPPING".into()));
    rig.server.stopped().await;
}

async fn half_closing_is_answered_to_the_end(on: On) {
    let mut rig = Rig::start(on).await;
    let (mut stream, _) = rig.work(hello()).await;
    stream.grant(1).await;
    rig.begin().await;
    let run = stream.run().await;
    stream
        .report(vec![What::CompleteStep(step(&run, 0, "s", "1")), What::CompleteWorkflow(completion(&run, "1"))])
        .await;
    stream.half_close();
    let mut answers = 0;
    let end = loop {
        match stream.next().await {
            Ok(message) => answers += message.answers.len(),
            Err(end) => break end,
        }
    };
    assert!(end.is_none() && answers == 2, "{answers} answers, then {end:?}");
}

/// Two-step workflows for a worker whose stream is cut again and again, in the middle of whatever it does. It does what a worker has to: it
/// names what it holds, and sends again what was not answered.
async fn a_stream_cut_in_the_middle_loses_nothing_and_doubles_nothing(on: On) {
    const RUNS: usize = 200;
    /// Messages read before a stream is cut.
    const READ_MAX: [usize; 5] = [1, 2, 1, 3, 2];
    let mut rig = Rig::start(on).await;
    let mut all = Vec::new();
    for _ in 0..RUNS {
        all.push(rig.begin().await);
    }
    let register = v1::RegisterWorkerRequest { max_concurrent: 50, ..worker() };
    let mut worker_id = String::new();
    // How far each held run is: the position it is at.
    let mut held: HashMap<String, (v1::PollActivityResponse, u32)> = HashMap::new();
    let (mut completed, mut cuts) = (0, 0);
    while completed < RUNS {
        let leases = held.values().map(|(run, _)| lease(run)).collect();
        let first = v1::Hello { register: Some(register.clone()), worker_id: worker_id.clone(), leases };
        let (mut stream, registered) = rig.work(first).await;
        worker_id = registered.worker_id;
        stream.grant(50 - held.len() as u32).await;
        let mut asked: HashMap<u64, String> = HashMap::new();
        for (run, position) in held.values() {
            asked.insert(stream.report(vec![next_report(run, *position)]).await, run.run_id.clone());
        }
        for _ in 0..READ_MAX[cuts % READ_MAX.len()] {
            let Ok(message) = stream.next().await else { panic!("the server ended a stream") };
            for run in message.runs {
                // What was remembered is not executed again.
                let position = run.steps.iter().filter(|step| step.state() == StepState::Completed).count() as u32;
                asked.insert(stream.report(vec![next_report(&run, position)]).await, run.run_id.clone());
                held.insert(run.run_id.clone(), (run, position));
            }
            for answer in message.answers {
                let id = asked.remove(&answer.number).expect("an answer nobody asked for");
                match answer.what {
                    Some(Answer::CompleteStep(_)) => {
                        let (run, position) = held.get_mut(&id).unwrap();
                        *position += 1;
                        asked.insert(stream.report(vec![next_report(run, *position)]).await, id);
                    }
                    Some(Answer::State(state)) => {
                        assert_eq!(state, RunState::Completed as i32);
                        held.remove(&id);
                        completed += 1;
                        stream.grant(1).await;
                    }
                    other => panic!("{other:?}"),
                }
            }
            if completed == RUNS {
                break;
            }
        }
        cuts += 1;
    }
    assert!(cuts >= 5, "it was cut {cuts} times only");
    for id in &all {
        assert_eq!(rig.state(id).await, RunState::Completed);
        let list = v1::ListStepsRequest { run_id: id.clone(), ..Default::default() };
        let steps = rig.client.list_steps(list).await.unwrap().into_inner().steps;
        assert_eq!(steps.iter().map(|step| &step.output[..]).collect::<Vec<_>>(), [&b"0"[..], &b"1"[..]]);
    }
    assert_eq!(rig.server.app.metrics.complete.runs.get(), RUNS as u64, "each was completed once");
}

fn next_report(run: &v1::PollActivityResponse, position: u32) -> What {
    match position {
        0 | 1 => What::CompleteStep(step(run, position, "s", &position.to_string())),
        _ => What::CompleteWorkflow(completion(run, "1")),
    }
}

on_both!(
    a_worker_goes_on_with_what_it_holds_and_the_rest_goes_back,
    a_registration_that_is_over_is_made_anew,
    leases_of_another_installation_are_lost_and_no_reason_to_refuse_the_worker,
    a_second_stream_takes_over,
    a_server_that_stops_ends_its_streams,
    half_closing_is_answered_to_the_end,
    a_stream_cut_in_the_middle_loses_nothing_and_doubles_nothing,
);
