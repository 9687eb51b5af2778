//! Cancelling: told once, at something that waits, and at the same place when played again.

use std::time::Duration;

use baton_proto::v1::report;

use super::fake::{Counter, End, Fake};
use crate::workflow::driver::Finished;
use crate::workflow::{Context, WorkflowError};

#[tokio::test(start_paused = true)]
async fn a_sleeping_workflow_is_told_cleans_up_and_ends_as_cancelled() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        assert!(!ctx.is_cancelled());
        let slept = ctx.sleep(Duration::from_secs(3_600)).await;
        assert_eq!(slept, Err(WorkflowError::Cancelled));
        assert!(ctx.is_cancelled());
        ctx.step("clean up", || async { Ok(()) }).await?;
        ctx.sleep(Duration::from_secs(60)).await?;
        ctx.step("and more", || async { Ok(()) }).await?;
        slept
    });
    fake.play_until_asleep().await;
    fake.cancel();
    // The sleep of the cleaning up.
    fake.play_until_asleep().await;
    assert_eq!(fake.play().await, End::Cancelled("the workflow was cancelled".into()));
    assert_eq!(fake.names(), ["sleep", "end", "clean up", "sleep", "and more"]);
    fake.replay_is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_workflow_that_returns_something_good_completes_although_it_was_cancelled() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        let signal = ctx.signal::<()>("never").await;
        Ok::<_, WorkflowError>(format!("{signal:?}"))
    });
    fake.play_until_asleep().await;
    fake.cancel();
    assert_eq!(fake.play().await, End::Completed("\"Err(Cancelled)\"".into()));
}

#[tokio::test(start_paused = true)]
async fn any_error_after_being_told_is_a_cancellation() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        let _ = ctx.sleep(Duration::from_secs(3_600)).await;
        Err::<(), _>(WorkflowError::failed("could not stop well"))
    });
    fake.play_until_asleep().await;
    fake.cancel();
    assert_eq!(fake.play().await, End::Cancelled("could not stop well".into()));
}

#[tokio::test(start_paused = true)]
async fn a_step_that_is_executed_is_not_interrupted_the_next_is_not_begun() {
    let executed = Counter::default();
    let counter = executed.clone();
    let fake = Fake::new((), move |ctx: Context, (): ()| {
        let counter = counter.clone();
        async move {
            ctx.step("long", || async {
                tokio::time::sleep(Duration::from_secs(60)).await;
                assert!(ctx.cancel_requested());
                Ok(counter.up())
            })
            .await?;
            ctx.step("next", || async { Ok(counter.up()) }).await
        }
    });
    let driver = tokio::spawn(fake.claim());
    tokio::time::sleep(Duration::from_secs(5)).await;
    fake.cancel();
    assert_eq!(driver.await.unwrap(), Finished::Failed);
    assert_eq!(executed.get(), 1);
    assert_eq!(fake.lock().end, Some(End::Cancelled("the workflow was cancelled".into())));
    fake.replay_is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_workflow_is_told_once_even_if_it_has_several_branches() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        let sleep = |seconds| ctx.sleep(Duration::from_secs(seconds));
        let (one, two) = futures_util::future::join(sleep(3_600), sleep(7_200)).await;
        assert_eq!((&one, &two), (&Err(WorkflowError::Cancelled), &Ok(())));
        one
    });
    fake.play_until_asleep().await;
    fake.cancel();
    fake.play_until_asleep().await;
    assert_eq!(fake.play().await, End::Cancelled("the workflow was cancelled".into()));
    fake.replay_is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_comes_late_is_not_heard_earlier_when_played_again() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        ctx.sleep(Duration::from_secs(10)).await?;
        ctx.step("one", || async { Ok(()) }).await?;
        match ctx.sleep(Duration::from_secs(10)).await {
            Err(WorkflowError::Cancelled) => {
                ctx.step("clean up", || async { Ok(()) }).await?;
                ctx.sleep(Duration::from_secs(10)).await?;
                Err::<(), _>(WorkflowError::Cancelled)
            }
            other => panic!("{other:?}"),
        }
    });
    fake.play_until_asleep().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    fake.play_until_asleep().await;
    fake.cancel();
    fake.play_until_asleep().await;
    assert_eq!(fake.play().await, End::Cancelled("the workflow was cancelled".into()));
    let reports = fake.lock().reports.iter().filter(|report| matches!(report, report::What::CompleteStep(_))).count();
    assert_eq!(reports, 3, "one, clean up, and where it was told");
}

#[tokio::test(start_paused = true)]
async fn a_workflow_that_was_cancelled_before_it_began_is_told_at_its_first_step() {
    let executed = Counter::default();
    let counter = executed.clone();
    let fake = Fake::new((), move |ctx: Context, (): ()| {
        let counter = counter.clone();
        async move { ctx.step("one", || async { Ok(counter.up()) }).await }
    });
    fake.cancel();
    assert_eq!(fake.play().await, End::Cancelled("the workflow was cancelled".into()));
    assert_eq!(executed.get(), 0);
    fake.replay_is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_made_of_a_cancelled_one_is_not_cancelled() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        ctx.step("one", || async { Ok(()) }).await?;
        ctx.sleep(Duration::from_secs(60)).await
    });
    fake.play_until_asleep().await;
    fake.cancel();
    assert_eq!(fake.play().await, End::Cancelled("the workflow was cancelled".into()));
    // What was remembered is copied; who asked for the end is not.
    fake.lock().messages.clear();
    assert_eq!(fake.play().await, End::Completed("null".into()));
}
