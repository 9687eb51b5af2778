//! Undoing what was done.

use std::time::Duration;

use super::fake::{End, Fake, Log};
use crate::workflow::{Context, RetryPolicy, StepError, WorkflowError};

async fn book(ctx: &Context, log: &Log, what: &'static str) -> Result<String, WorkflowError> {
    let undo = log.clone();
    ctx.step(what, || async {
        log.note(what);
        Ok(format!("{what} 17"))
    })
    .compensate(move |booked| {
        let undo = undo.clone();
        async move {
            undo.note(format!("undo {booked}"));
            Ok(())
        }
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn what_was_done_is_undone_in_reverse_with_what_was_made() {
    let log = Log::default();
    let notes = log.clone();
    let fake = Fake::new((), move |ctx: Context, (): ()| {
        let log = notes.clone();
        async move {
            book(&ctx, &log, "flight").await?;
            book(&ctx, &log, "hotel").await?;
            ctx.sleep(Duration::from_secs(60)).await?;
            ctx.step("pay", || async { Err::<(), _>(StepError::fatal("declined").code("card")) }).await
        }
    });
    let end = fake.play().await;
    let expected =
        End::Failed { error: "the step \"pay\" failed: declined".into(), code: "card".into(), retryable: false };
    assert_eq!(end, expected);
    assert_eq!(log.all(), ["flight", "hotel", "undo hotel 17", "undo flight 17"]);
    assert_eq!(fake.names(), ["flight", "hotel", "sleep", "pay", "undo hotel", "undo flight"]);
    fake.replay_is_quiet().await;
    assert_eq!(log.all().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_workflow_is_undone_too() {
    let log = Log::default();
    let notes = log.clone();
    let fake = Fake::new((), move |ctx: Context, (): ()| {
        let log = notes.clone();
        async move {
            book(&ctx, &log, "flight").await?;
            ctx.signal::<()>("approved").await
        }
    });
    fake.play_until_asleep().await;
    fake.cancel();
    assert_eq!(fake.play().await, End::Cancelled("the workflow was cancelled".into()));
    assert_eq!(log.all(), ["flight", "undo flight 17"]);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_does_not_keep_a_failed_workflow_from_being_undone() {
    let log = Log::default();
    let notes = log.clone();
    let fake = Fake::new((), move |ctx: Context, (): ()| {
        let log = notes.clone();
        async move {
            book(&ctx, &log, "flight").await?;
            ctx.step("wait", || async { Ok(()) })
                .compensate(|()| async {
                    tokio::time::sleep(Duration::from_secs(60)).await;
                    Ok(())
                })
                .await?;
            Err::<(), _>(WorkflowError::fatal("no"))
        }
    });
    let driver = tokio::spawn(fake.claim());
    tokio::time::sleep(Duration::from_secs(5)).await;
    fake.cancel();
    driver.await.unwrap();
    assert_eq!(log.all(), ["flight", "undo flight 17"]);
    assert_eq!(fake.lock().end, Some(End::Failed { error: "no".into(), code: String::new(), retryable: false }));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_undone_is_tried_again_and_then_said() {
    let log = Log::default();
    let notes = log.clone();
    let fake = Fake::new((), move |ctx: Context, (): ()| {
        let (log, failing) = (notes.clone(), notes.clone());
        async move {
            book(&ctx, &log, "flight").await?;
            ctx.step("hotel", || async { Ok(()) })
                .retry(RetryPolicy::attempts(3))
                .compensate(move |()| {
                    failing.note("try");
                    async { Err(StepError::new("closed")) }
                })
                .await?;
            Err::<(), _>(WorkflowError::failed("no").with_code("why"))
        }
    });
    let End::Failed { error, code, retryable } = fake.play().await else { panic!() };
    assert_eq!((code.as_str(), retryable), ("why", false));
    assert_eq!(error, "no; and could not be undone: the step \"undo hotel\" failed: closed");
    assert_eq!(log.all(), ["flight", "try", "try", "try", "undo flight 17"]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_undone_and_success_is_not() {
    let log = Log::default();
    let notes = log.clone();
    let fake = Fake::new(true, move |ctx: Context, panics: bool| {
        let log = notes.clone();
        async move {
            book(&ctx, &log, "flight").await?;
            if panics {
                panic!("oh");
            }
            Ok::<_, WorkflowError>(())
        }
    });
    let End::Failed { code, retryable, .. } = fake.play().await else { panic!() };
    assert_eq!((code.as_str(), retryable), ("panic", false));
    assert_eq!(log.all(), ["flight", "undo flight 17"]);
}
