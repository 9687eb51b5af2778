//! Sleeps, signals and children.

use std::time::Duration;

use baton_proto::v1::{RunState, report};

use super::fake::{End, Fake};
use crate::workflow::driver::Finished;
use crate::workflow::time::system_time;
use crate::workflow::{Context, WorkflowError};

#[tokio::test(start_paused = true)]
async fn a_sleep_lets_go_of_the_run_and_is_not_made_longer_by_restarts() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move { ctx.sleep(Duration::from_secs(3_600)).await });
    fake.play_until_asleep().await;
    tokio::time::sleep(Duration::from_secs(3_000)).await;
    // Taken up too early, and let go of again.
    fake.play_until_asleep().await;
    let begun = fake.now();
    assert_eq!(fake.play().await, End::Completed("null".into()));
    assert_eq!(fake.now() - begun, 600_000);
}

#[tokio::test(start_paused = true)]
async fn a_sleep_until_a_moment_of_the_past_is_over_at_once() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        ctx.sleep_until(system_time(0)).await?;
        ctx.sleep_until(ctx.now() + Duration::from_secs(5)).await?;
        Ok::<_, WorkflowError>(())
    });
    assert_eq!(fake.play().await, End::Completed("null".into()));
    let suspensions = fake.lock().reports.iter().filter(|report| matches!(report, report::What::Suspend(_))).count();
    assert_eq!(suspensions, 1);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_workflow_says_what_it_waits_for_and_what_it_has_seen() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        let signal = ctx.signal::<u32>("never").timeout(Duration::from_secs(50));
        let sleep = ctx.sleep(Duration::from_secs(100));
        let (signal, _) = futures_util::future::join(signal, sleep).await;
        signal
    });
    fake.signal("other", "1");
    fake.signal("other", "2");
    fake.play_until_asleep().await;
    let memory = fake.lock();
    let [report::What::Suspend(said)] = &memory.reports[..] else { panic!("{:?}", memory.reports) };
    assert_eq!((said.seen, said.awaits_messages), (2, true));
    let sleeps: Vec<_> = said
        .sleeps
        .iter()
        .map(|sleep| (sleep.position, sleep.name.as_str(), sleep.duration.unwrap().seconds))
        .collect();
    assert_eq!(sleeps, [(2, "timeout", 50), (3, "sleep", 100)]);
}

#[tokio::test(start_paused = true)]
async fn signals_come_in_order_and_are_taken_once() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        let first: u32 = ctx.signal("go").await?;
        let second: u32 = ctx.signal("go").await?;
        ctx.sleep(Duration::from_secs(60)).await?;
        let third: u32 = ctx.signal("go").await?;
        Ok::<_, WorkflowError>((first, second, third))
    });
    fake.signal("go", "1");
    fake.play_until_asleep().await;
    fake.signal("go", "2");
    fake.signal("other", "0");
    fake.signal("go", "3");
    fake.play_until_asleep().await;
    assert_eq!(fake.play().await, End::Completed("[1,2,3]".into()));
    fake.replay_is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_signal_that_comes_while_the_run_is_let_go_of_is_not_missed() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move { ctx.signal::<String>("go").await });
    fake.lock().silent = true;
    let driver = tokio::spawn(fake.claim());
    while fake.lock().mailbox_is_idle() {
        tokio::task::yield_now().await;
    }
    // The suspension is on its way. The answer to it brings the signal, and the same function goes on.
    fake.signal("go", "\"now\"");
    fake.speak();
    assert_eq!(driver.await.unwrap(), Finished::Completed);
    assert_eq!(fake.lock().end, Some(End::Completed("\"now\"".into())));
}

#[tokio::test(start_paused = true)]
async fn a_signal_that_is_pushed_while_a_step_is_executed_is_there_at_once() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        let step = ctx.step("long", || async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok(())
        });
        let signal = async {
            let number: u32 = ctx.signal("go").await?;
            Ok::<_, WorkflowError>((number, ctx.now()))
        };
        let (step, signal) = futures_util::future::join(step, signal).await;
        step.and(signal)
    });
    let begun = fake.now();
    let driver = tokio::spawn(fake.claim());
    tokio::time::sleep(Duration::from_secs(5)).await;
    fake.signal("go", "1");
    assert_eq!(driver.await.unwrap(), Finished::Completed);
    let now: i64 = serde_json::from_slice(&fake.lock().steps[&3].output).unwrap();
    assert!((5_000..5_010).contains(&(now - begun)), "{}", now - begun);
}

#[tokio::test(start_paused = true)]
async fn a_signal_that_does_not_come_in_time_stays_away_when_it_comes_later() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        let in_time: Option<u32> = ctx.signal("go").timeout(Duration::from_secs(60)).await?;
        ctx.sleep(Duration::from_secs(600)).await?;
        let later: Option<u32> = ctx.signal("go").timeout(Duration::from_secs(60)).await?;
        Ok::<_, WorkflowError>((in_time, later))
    });
    fake.play_until_asleep().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    fake.play_until_asleep().await;
    fake.signal("go", "5");
    assert_eq!(fake.play().await, End::Completed("[null,5]".into()));
    fake.replay_is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_payload_of_another_shape_is_an_error_that_names_the_field() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        let signal = ctx.signal::<Vec<u32>>("go").await;
        Ok::<_, WorkflowError>(signal.unwrap_err().to_string())
    });
    fake.signal("go", "[1,\"two\"]");
    let End::Completed(said) = fake.play().await else { panic!() };
    assert!(said.contains("[1]") && said.contains("the signal"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_child_is_started_once_and_waited_for() {
    let fake = Fake::new(20, |ctx: Context, number: u32| async move {
        let output: u32 = ctx.child("double", &number).queue("sums").timeout(Duration::from_secs(9)).await?;
        ctx.step("note", || async { Ok(()) }).await?;
        Ok::<_, WorkflowError>(output)
    });
    fake.play_until_asleep().await;
    fake.play_until_asleep().await;
    {
        let memory = fake.lock();
        let [child] = &memory.children[..] else { panic!("{:?}", memory.children) };
        let start = child.start.as_ref().unwrap();
        assert_eq!(
            (start.workflow_type.as_str(), start.task_queue.as_str(), &start.input[..]),
            ("double", "sums", &b"20"[..])
        );
        assert_eq!(start.timeout.unwrap().seconds, 9);
    }
    fake.child_ends(0, RunState::Completed, "40", "");
    assert_eq!(fake.play().await, End::Completed("40".into()));
    fake.replay_is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_fails_is_an_error_with_its_words() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move { ctx.child::<()>("doomed", &()).await });
    fake.play_until_asleep().await;
    fake.child_ends(0, RunState::Failed, "", "no luck");
    let End::Failed { error, code, retryable } = fake.play().await else { panic!() };
    assert_eq!((code.as_str(), retryable), ("child_failed", true));
    assert_eq!(error, "the child \"doomed\" (child-0) failed: no luck");
}

#[tokio::test(start_paused = true)]
async fn a_child_can_be_started_and_waited_for_later() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        let child = ctx.child::<u32>("slow", &1).start().await?;
        let run_id = child.run_id().to_owned();
        ctx.step("meanwhile", || async { Ok(()) }).await?;
        Ok::<_, WorkflowError>((run_id, child.result().await?))
    });
    fake.play_until_asleep().await;
    assert_eq!(fake.names(), ["slow", "meanwhile"]);
    fake.child_ends(0, RunState::Completed, "5", "");
    assert_eq!(fake.play().await, End::Completed("[\"child-0\",5]".into()));
    fake.replay_is_quiet().await;
}
