//! A worker that was declared lost and goes on all the same: not one of a thousand late reports is taken.

use std::collections::HashMap;
use std::fmt::Debug;

use baton::proto::{SubmitBatch, SubmitRun};
use baton_core::State;
use baton_proto::v1;
use baton_proto::v1::report::What;
use baton_proto::v1::report_answer::What as Answer;
use baton_proto::v1::{RunState, StepState};
use baton_server::Caller;
use baton_server::service::custody;
use baton_store::Scope;
use futures_util::{StreamExt, stream};
use tonic::{Code, Status};

use crate::harness::{On, eventually, on_both};
use crate::rig::{Rig, Stream, Workflows, completion, hello, refusal, step, worker};

const RUNS: usize = 1_000;
/// Calls in flight.
const IN_FLIGHT: usize = 64;
/// The step of every run, and what the two workers say came out of it.
const STEP: &str = "charge";
const OF_THE_LOST: &str = r#""of the lost""#;
const OF_THE_HEIR: &str = r#""of the heir""#;

type Held = v1::PollActivityResponse;

/// Makes a call for each run, many at a time, and returns what came of them.
async fn for_each<T, F>(rig: &Rig, runs: &[Held], call: impl Fn(Workflows, Held) -> F) -> Vec<T>
where
    F: Future<Output = T>,
{
    stream::iter(runs).map(|run| call(rig.client.clone(), run.clone())).buffered(IN_FLIGHT).collect().await
}

/// A worker that takes all runs.
async fn take_all(rig: &mut Rig) -> (Stream, Vec<Held>) {
    let register = v1::RegisterWorkerRequest { max_concurrent: RUNS as u32, ..worker() };
    let (mut stream, _) = rig.work(v1::Hello { register: Some(register), ..hello() }).await;
    stream.grant(RUNS as u32).await;
    let runs = stream.runs(RUNS).await;
    (stream, runs)
}

fn count_lease_lost<T: Debug>(answers: Vec<Result<T, Status>>) -> usize {
    let lost = (Code::Aborted, "LEASE_LOST".to_owned());
    answers.into_iter().filter(|answer| answer.is_err()).map(refusal).filter(|refusal| *refusal == lost).count()
}

/// How many reports of the lost worker are refused because of its lease: steps, and ends.
async fn refused(rig: &Rig, runs: &[Held]) -> (usize, usize) {
    let steps =
        for_each(
            rig,
            runs,
            |mut client, run| async move { client.complete_step(step(&run, 0, STEP, OF_THE_LOST)).await },
        );
    let steps = count_lease_lost(steps.await);
    let ends =
        for_each(
            rig,
            runs,
            |mut client, run| async move { client.complete_workflow(completion(&run, OF_THE_LOST)).await },
        );
    (steps, count_lease_lost(ends.await))
}

async fn nothing_of_a_lost_worker_is_taken(on: On) {
    let mut rig = Rig::start(on).await;
    let batch = SubmitBatch { runs: vec![SubmitRun::new("orders", "order"); RUNS] };
    rig.server.client.submit_batch(&batch).await.unwrap();
    let (stream, lost) = take_all(&mut rig).await;
    let begun = for_each(&rig, &lost, |mut client, run| async move {
        let (run_id, lease) = (run.run_id, run.lease);
        client.begin_step(v1::BeginStepRequest { run_id, lease, position: 0, name: STEP.into() }).await.unwrap()
    });
    assert!(begun.await.into_iter().all(|begun| begun.into_inner().execute));
    drop(stream);

    rig.server.clock.advance(rig.server.settings.lease_ttl_ms as i64 + 1_001);
    let last = lost.last().unwrap().run_id.clone();
    eventually("its runs are free", async || rig.server.state(&last).await == State::Pending).await;
    let (mut stream, heirs) = take_all(&mut rig).await;
    let of_heir: HashMap<&str, &Held> = heirs.iter().map(|run| (run.run_id.as_str(), run)).collect();
    assert_eq!(of_heir.len(), RUNS);
    for run in &lost {
        assert_ne!(of_heir[run.run_id.as_str()].lease, run.lease);
    }
    assert_eq!(refused(&rig, &lost).await, (RUNS, RUNS), "while another worker has them");

    // Again, while the heir writes the same.
    let steps = heirs.iter().map(|run| What::CompleteStep(step(run, 0, STEP, OF_THE_HEIR)));
    let first = stream.report(steps.collect()).await;
    let ends = heirs.iter().map(|run| What::CompleteWorkflow(completion(run, OF_THE_HEIR)));
    let answered = async {
        for number in first..first + RUNS as u64 {
            let Answer::CompleteStep(kept) = stream.answer(number).await else { panic!("a step was refused") };
            assert!(!kept.existed && &kept.output[..] == OF_THE_HEIR.as_bytes(), "{kept:?}");
        }
        let first = stream.report(ends.collect()).await;
        for number in first..first + RUNS as u64 {
            assert_eq!(stream.answer(number).await, Answer::State(RunState::Completed.into()));
        }
    };
    let ((), late) = tokio::join!(answered, refused(&rig, &lost));
    assert_eq!(late, (RUNS, RUNS), "while another worker completes them");

    // All of that is on record: what wants the same under the same lease once, with a count.
    let custody = async |run: &Held| {
        let caller = Caller { key_id: "test".into(), scopes: vec![Scope::Read], namespace: None };
        custody::of_run(&rig.server.app, &caller, None, run.run_id.parse().unwrap(), None, 10).await.unwrap()
    };
    for run in &lost {
        eventually("what was refused is on record", async || custody(run).await.refused == 4).await;
        let found = custody(run).await;
        let told = found.lanes[0].refused.iter().map(|late| (late.verb, late.position, late.name.as_str(), late.times));
        let mut told: Vec<_> = told.collect();
        told.sort_unstable();
        assert_eq!(told, [("complete", None, "", 2), ("step", Some(0), STEP, 2)]);
        assert_eq!((found.lanes[0].end, found.lanes[1].refused.len()), ("lost", 0));
    }

    let shown = for_each(&rig, &lost, |mut client, run| async move {
        let run_id = run.run_id;
        let shown = client.get_workflow_run(v1::GetWorkflowRunRequest { run_id: run_id.clone() }).await.unwrap();
        let steps = client.list_steps(v1::ListStepsRequest { run_id, ..Default::default() }).await.unwrap();
        (shown.into_inner(), steps.into_inner().steps)
    });
    for (run, steps) in shown.await {
        assert_eq!((run.state(), &run.output[..]), (RunState::Completed, OF_THE_HEIR.as_bytes()));
        let [kept] = &steps[..] else { panic!("not one step: {steps:?}") };
        assert_eq!((kept.state(), &kept.output[..]), (StepState::Completed, OF_THE_HEIR.as_bytes()));
    }
}

on_both!(nothing_of_a_lost_worker_is_taken);
