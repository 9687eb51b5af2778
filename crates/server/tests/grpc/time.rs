//! Workflows that sleep wake on time, by the store's own clock, and cost nothing meanwhile.

use std::time::{Duration, Instant};

use baton_proto::v1;
use baton_proto::v1::report::What;
use baton_proto::v1::report_answer::What as Answer;

use crate::harness::{On, on_both};
use crate::rig::{Rig, hello, order, sleep, worker};

/// As late as half of them may be.
const LATE_HALF: Duration = Duration::from_millis(50);
/// As late as nearly all may be, on a machine that is busy with other tests.
const LATE_MOST: Duration = Duration::from_millis(500);
const RUNS: usize = 100;

async fn sleeping_workflows_wake_within_milliseconds(on: On) {
    let mut rig = Rig::real(on).await;
    let register = v1::RegisterWorkerRequest { max_concurrent: 1_000, ..worker() };
    let (mut stream, _) = rig.work(v1::Hello { register: Some(register), ..hello() }).await;
    stream.grant(2 * RUNS as u32).await;
    for _ in 0..RUNS {
        rig.client.start_workflow(order()).await.unwrap();
    }
    let mut due = std::collections::HashMap::new();
    let runs = stream.runs(RUNS).await;
    // Two at a time, one pair after the other.
    let pause = |index: usize| Duration::from_millis(1_500 + 14 * (index as u64 / 2));
    let sleeps = runs.iter().enumerate().map(|(index, run)| What::Suspend(sleep(run, 0, pause(index))));
    let first = stream.report(sleeps.collect()).await;
    for (number, run) in (first..).zip(&runs) {
        let Answer::Suspend(suspended) = stream.answer(number).await else { panic!("it does not sleep") };
        let at = suspended.wake_at.unwrap();
        due.insert(run.run_id.clone(), Duration::new(at.seconds as u64, at.nanos as u32));
    }
    let begun = Instant::now();
    let mut late: Vec<Duration> = Vec::new();
    for _ in 0..RUNS {
        let run = stream.run().await;
        // Both on the same machine, so that the clocks are one.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        late.push(now.saturating_sub(due[&run.run_id]));
    }
    late.sort();
    let (half, most) = (late[RUNS / 2], late[RUNS * 99 / 100 - 1]);
    println!("half were at most {half:?} late, 99 of 100 at most {most:?}; all took {:?}", begun.elapsed());
    assert!(half < LATE_HALF && most < LATE_MOST, "half were {half:?} late, 99 of 100 {most:?}");
}

async fn sleeping_workflows_cost_no_statements(on: On) {
    let mut rig = Rig::start(on).await;
    let (mut stream, _) = rig.work(hello()).await;
    stream.grant(10).await;
    for _ in 0..10 {
        rig.client.start_workflow(order()).await.unwrap();
    }
    for run in stream.runs(10).await {
        rig.client.suspend(sleep(&run, 0, Duration::from_secs(3_600))).await.unwrap();
    }
    // The clock stands still, and with it every loop: whatever is sent now is sent for the sleepers or the stream.
    crate::harness::eventually("the claimer rests", async || {
        let before = rig.server.app.store.statements();
        tokio::time::sleep(Duration::from_millis(100)).await;
        rig.server.app.store.statements() == before
    })
    .await;
}

on_both!(sleeping_workflows_wake_within_milliseconds, sleeping_workflows_cost_no_statements);
