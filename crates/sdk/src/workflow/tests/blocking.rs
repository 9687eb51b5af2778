//! Steps that block, and steps that should have been.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use baton_proto::v1::report;

use super::fake::{Counter, End, Fake};
use crate::workflow::{Context, StepError, WorkflowError};

#[tokio::test(start_paused = true)]
async fn a_blocking_step_is_remembered_as_every_other() {
    let executed = Counter::default();
    let count = executed.clone();
    let fake = Fake::new((), move |ctx: Context, (): ()| {
        let count = count.clone();
        async move {
            let mine = count.clone();
            let first = ctx.step_blocking("first", move || Ok(mine.up())).await?;
            let second = ctx.step("second", || async { Ok(count.up()) }).await?;
            Ok::<_, WorkflowError>((first, second))
        }
    });
    assert_eq!(fake.play().await, End::Completed("[1,2]".into()));
    fake.replay_is_quiet().await;
    assert_eq!((executed.get(), fake.names()), (2, vec!["first".to_owned(), "second".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_blocking_step_that_fails_or_panics_is_tried_again_with_its_input() {
    let executed = Counter::default();
    let count = executed.clone();
    let fake = Fake::new((), move |ctx: Context, (): ()| {
        let count = count.clone();
        let input = vec![1, 2, 3];
        async move {
            ctx.step_blocking("flaky", move || match count.up() {
                1 => Err(StepError::new("not yet")),
                2 => panic!("not at all"),
                _ => Ok(input),
            })
            .await
        }
    });
    assert_eq!(fake.play().await, End::Completed("[1,2,3]".into()));
    assert_eq!(executed.get(), 3);
    let errors: Vec<_> = fake.lock().reports.iter().filter_map(failure).collect();
    assert_eq!(errors, [("not yet".into(), String::new()), ("it panicked: not at all".into(), "panic".into())]);
}

fn failure(report: &report::What) -> Option<(String, String)> {
    match report {
        report::What::FailStep(failure) => Some((failure.error.clone(), failure.code.clone())),
        _ => None,
    }
}

#[tokio::test]
async fn a_blocking_step_that_takes_too_long_goes_on_for_nobody_and_is_told() {
    let told = Arc::new((Mutex::new(false), Condvar::new()));
    let tell = told.clone();
    let fake = Fake::new((), move |ctx: Context, (): ()| {
        let tell = tell.clone();
        async move {
            let asked = ctx.clone();
            let step = ctx.step_blocking("endless", move || {
                while !asked.cancel_requested() {
                    std::thread::yield_now();
                }
                *tell.0.lock().unwrap() = true;
                tell.1.notify_all();
                Ok(())
            });
            step.timeout(Duration::from_millis(20)).await
        }
    });
    fake.lock().attempts_max = 1;
    let End::Failed { error, .. } = fake.play().await else { panic!("it completed") };
    assert!(error.contains("took longer than 20ms"), "{error}");
    // The workflow is over, and the code that nobody waits for hears of it.
    let is_told = told.0.lock().unwrap();
    let patience = Duration::from_secs(20);
    let (is_told, _) = told.1.wait_timeout_while(is_told, patience, |is_told| !*is_told).unwrap();
    assert!(*is_told);
}

#[tokio::test]
async fn waiting_for_a_thread_is_no_timeout() {
    let fake = Fake::new((), move |ctx: Context, (): ()| async move {
        let step = |_| {
            let work = || {
                std::thread::sleep(Duration::from_millis(200));
                Ok(1)
            };
            ctx.step_blocking("nap", work).timeout(Duration::from_millis(700))
        };
        // There are two threads: the last ones wait for longer than the timeout.
        ctx.parallel(10, (0..10).map(step)).await
    });
    assert_eq!(fake.play().await, End::Completed(format!("{:?}", [1; 10]).replace(' ', "")));
}

#[tokio::test]
async fn what_is_done_is_reported_before_the_next_step_begins_that_may_keep_the_thread() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        let step = |_| {
            ctx.step("keep", || async {
                std::thread::sleep(Duration::from_millis(15));
                Ok(())
            })
        };
        ctx.parallel(50, (0..10).map(step)).await.map(|done| done.len())
    });
    assert_eq!(fake.play().await, End::Completed("10".into()));
    // Had they been reported together, they would have been written down in the same moment.
    let written: std::collections::BTreeSet<_> =
        fake.lock().steps.values().filter_map(|step| step.ended_at.map(|at| (at.seconds, at.nanos))).collect();
    // One may wait until an outcome was delivered that is older.
    assert!(written.len() >= 5, "{written:?}");
    fake.replay_is_quiet().await;
}

#[tokio::test]
async fn a_step_that_was_held_back_hears_first_that_the_workflow_is_cancelled() {
    let executed = Counter::default();
    let (count, cancelling) = (executed.clone(), Arc::new(Mutex::new(None::<Fake>)));
    let cancel = cancelling.clone();
    let fake = Fake::new((), move |ctx: Context, (): ()| {
        let (count, cancel) = (count.clone(), cancel.clone());
        async move {
            let step = |_| {
                ctx.step("keep", || async {
                    count.up();
                    if let Some(fake) = cancel.lock().unwrap().take() {
                        fake.cancel();
                    }
                    std::thread::sleep(Duration::from_millis(15));
                    Ok(())
                })
            };
            ctx.parallel(50, (0..5).map(step)).await.map(|_| ())
        }
    });
    *cancelling.lock().unwrap() = Some(fake.clone());
    let End::Cancelled(_) = fake.play().await else { panic!("{:?}", fake.lock().end) };
    assert!(executed.get() < 5, "{} were begun", executed.get());
    fake.replay_is_quiet().await;
}
