//! Remembering, playing again, and code that was changed.

use std::time::Duration;

use baton_proto::v1::{self, report};
use serde::Deserialize;

use super::fake::{Counter, End, Fake};
use crate::workflow::driver::Finished;
use crate::workflow::mailbox::Event;
use crate::workflow::{Context, RetryPolicy, StepError, WorkflowError};

async fn sum(ctx: &Context, executed: &Counter) -> Result<u32, WorkflowError> {
    let mut sum = 0;
    for step in ["one", "two", "three"] {
        sum += ctx.step(step, || async { Ok(executed.up()) }).await?;
    }
    Ok(sum)
}

#[tokio::test(start_paused = true)]
async fn steps_are_executed_once_however_often_the_function_is_played() {
    let executed = Counter::default();
    let counter = executed.clone();
    let fake = Fake::new((), move |ctx: Context, (): ()| {
        let counter = counter.clone();
        async move { sum(&ctx, &counter).await }
    });
    assert_eq!(fake.play().await, End::Completed("6".into()));
    assert_eq!(executed.get(), 3);
    fake.replay_is_quiet().await;
    assert_eq!(executed.get(), 3);
    // One write for a step, and one for the end.
    assert_eq!(fake.lock().reports.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn the_result_of_a_step_is_seen_only_after_it_was_written_down() {
    let seen = Counter::default();
    let counter = seen.clone();
    let fake = Fake::new((), move |ctx: Context, (): ()| {
        let counter = counter.clone();
        async move {
            ctx.step("one", || async { Ok(()) }).await?;
            counter.up();
            Ok::<_, WorkflowError>(())
        }
    });
    fake.lock().silent = true;
    let driver = tokio::spawn(fake.claim());
    while fake.lock().mailbox_is_idle() {
        tokio::task::yield_now().await;
    }
    assert_eq!(seen.get(), 0);
    fake.speak();
    assert_eq!(driver.await.unwrap(), Finished::Completed);
    assert_eq!(seen.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn another_name_at_a_remembered_position_fails_the_run_for_good_and_names_both() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        ctx.step("charge", || async { Ok(1) }).await?;
        ctx.sleep(Duration::from_secs(60)).await?;
        ctx.step("ship", || async { Ok(2) }).await
    });
    fake.play_until_asleep().await;
    let changed = fake.played_by(|ctx: Context, (): ()| async move {
        // It must not be able to go on, whatever it does about errors.
        let _: Result<u32, _> = ctx.step("pack", || async { Ok(1) }).await;
        Ok::<_, WorkflowError>(())
    });
    let End::Failed { error, code, retryable } = changed.play().await else { panic!() };
    assert_eq!((code.as_str(), retryable), ("diverged", false));
    assert!(error.contains("the step \"pack\" at position 0, where the step \"charge\" is remembered"), "{error}");
    let changed = fake.played_by(|ctx: Context, (): ()| async move {
        ctx.step("charge", || async { Ok(1) }).await?;
        ctx.step("ship", || async { Ok(2) }).await
    });
    let End::Failed { error, .. } = changed.play().await else { panic!() };
    assert!(error.contains("the step \"ship\" at position 1, where the sleep \"sleep\" is remembered"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_repeated_when_it_is_due_without_anybody_waiting() {
    let executed = Counter::default();
    let counter = executed.clone();
    let fake = Fake::new((), move |ctx: Context, (): ()| {
        let counter = counter.clone();
        async move {
            ctx.step("flaky", || async {
                match counter.up() {
                    3 => Ok("at last".to_owned()),
                    number => Err(StepError::new(format!("attempt {number}")).code("flaky")),
                }
            })
            .retry(RetryPolicy::attempts(5).non_retryable(["fatal"]))
            .await
        }
    });
    fake.play_until_asleep().await;
    assert_eq!(executed.get(), 1);
    assert_eq!(fake.play().await, End::Completed("\"at last\"".into()));
    assert_eq!(executed.get(), 3);
    let memory = fake.lock();
    let failures: Vec<_> = memory
        .reports
        .iter()
        .filter_map(|report| match report {
            report::What::FailStep(said) => {
                Some((said.attempt, said.code.as_str(), said.retry.as_ref().unwrap().max_attempts))
            }
            _ => None,
        })
        .collect();
    assert_eq!(failures, [(1, "flaky", 5), (2, "flaky", 5)]);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_failed_for_good_is_an_error_the_workflow_can_handle() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        let failed = ctx.step::<(), _, _>("charge", || async { Err(StepError::fatal("declined").code("card")) }).await;
        match failed {
            Err(WorkflowError::Step { name, code, message, attempts }) => {
                ctx.step("note", || async { Ok(()) }).await?;
                Ok((name, code, message, attempts))
            }
            other => Err(WorkflowError::fatal(format!("{other:?}"))),
        }
    });
    assert_eq!(fake.play().await, End::Completed(r#"["charge","card","declined",1]"#.into()));
    fake.replay_is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_takes_too_long_has_failed() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        let slow = || async {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            Ok(())
        };
        ctx.step("slow", slow).timeout(Duration::from_secs(5)).await
    });
    fake.lock().attempts_max = 1;
    let End::Failed { error, code, retryable } = fake.play().await else { panic!() };
    assert_eq!((code.as_str(), retryable), ("timeout", true));
    assert!(error.contains("took longer than 5s"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn panics_fail_the_step_or_the_attempt_and_nothing_else() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        ctx.step::<(), _, _>("explode", || async { panic!("boom") }).await
    });
    fake.lock().attempts_max = 1;
    let End::Failed { error, code, .. } = fake.play().await else { panic!() };
    assert_eq!(code, "panic");
    assert!(error.contains("boom"), "{error}");
    let fake = Fake::new(3, |_: Context, number: u32| async move {
        assert_eq!(number, 4, "no {}", "luck");
        Ok::<_, WorkflowError>(())
    });
    let End::Failed { error, code, retryable } = fake.play().await else { panic!() };
    assert_eq!((code.as_str(), retryable), ("panic", true));
    assert!(error.contains("no luck"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn input_that_cannot_be_read_fails_the_run_for_good_and_names_the_field() {
    #[derive(Deserialize)]
    struct Order {
        items: Vec<Item>,
    }
    #[derive(Deserialize)]
    struct Item {
        price: u32,
    }
    let input = serde_json::json!({ "items": [{ "price": 1 }, { "price": "two" }] });
    let fake = Fake::new(input, |_: Context, order: Order| async move {
        Ok::<_, WorkflowError>(order.items.iter().map(|item| item.price).sum::<u32>())
    });
    let End::Failed { error, code, retryable } = fake.play().await else { panic!() };
    assert_eq!((code.as_str(), retryable), ("invalid_input", false));
    assert!(error.contains("items[1].price"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn facts_come_out_the_same_and_are_written_before_anything_depends_on_them() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        let facts = (ctx.now(), ctx.random(), ctx.random_id());
        assert_ne!(ctx.random(), facts.1);
        let again = ctx.step("use", || async { Ok(format!("{facts:?}")) }).await?;
        assert_eq!(again, format!("{facts:?}"));
        ctx.sleep(Duration::from_secs(60)).await?;
        Ok::<_, WorkflowError>(again)
    });
    let End::Completed(_) = fake.play().await else { panic!("{:?}", fake.lock().end) };
    assert_eq!(fake.names(), ["now", "random", "random_id", "random", "use", "sleep"]);
    let kinds: Vec<bool> = fake.lock().reports[..5]
        .iter()
        .map(|report| matches!(report, report::What::CompleteStep(said) if said.name == "use"))
        .collect();
    assert_eq!(kinds, [false, false, false, false, true]);
    fake.replay_is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_from_before_a_change_follows_the_old_version_and_a_new_one_the_new() {
    let old = |ctx: Context, (): ()| async move {
        ctx.sleep(Duration::from_secs(60)).await?;
        ctx.step("ship", || async { Ok(()) }).await?;
        ctx.sleep(Duration::from_secs(60)).await?;
        Ok::<_, WorkflowError>("old".to_owned())
    };
    let new = |ctx: Context, (): ()| async move {
        ctx.sleep(Duration::from_secs(60)).await?;
        let version = ctx.version("check stock", 1, 2);
        if version >= 2 {
            ctx.step("check", || async { Ok(()) }).await?;
        }
        ctx.step("ship", || async { Ok(()) }).await?;
        ctx.sleep(Duration::from_secs(60)).await?;
        assert_eq!(ctx.version("check stock", 1, 2), version);
        Ok::<_, WorkflowError>(format!("version {version}"))
    };
    let begun_before = Fake::new((), old);
    begun_before.play_until_asleep().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    begun_before.play_until_asleep().await;
    assert_eq!(begun_before.played_by(new).play().await, End::Completed("\"version 1\"".into()));
    // Asleep before the place of the change: it was never there.
    let asleep_before = Fake::new((), old);
    asleep_before.play_until_asleep().await;
    assert_eq!(asleep_before.played_by(new).play().await, End::Completed("\"version 2\"".into()));
    let fresh = Fake::new((), new);
    assert_eq!(fresh.play().await, End::Completed("\"version 2\"".into()));
    fresh.replay_is_quiet().await;
    let newer = fresh.played_by(|ctx: Context, (): ()| async move {
        ctx.sleep(Duration::from_secs(60)).await?;
        ctx.version("check stock", 3, 4);
        ctx.step("ship", || async { Ok(()) }).await
    });
    let End::Failed { code, retryable, .. } = newer.play().await else { panic!() };
    assert_eq!((code.as_str(), retryable), ("unsupported_version", false));
}

#[tokio::test(start_paused = true)]
async fn a_workflow_continues_as_new() {
    let fake = Fake::new(41, |ctx: Context, count: u32| async move {
        ctx.step("count", || async { Ok(()) }).await?;
        ctx.continue_as_new::<()>(&(count + 1))
    });
    assert_eq!(fake.play().await, End::Continued("42".into()));
}

#[tokio::test(start_paused = true)]
async fn what_is_published_again_while_playing_again_is_not_sent() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        for number in 1..=3 {
            ctx.publish(&number)?;
            ctx.step("work", || async { Ok(()) }).await?;
            ctx.sleep(Duration::from_secs(60)).await?;
        }
        Ok::<_, WorkflowError>(())
    });
    assert_eq!(fake.play().await, End::Completed("null".into()));
    assert_eq!(fake.lock().published, ["1", "2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_ends_everything_at_once() {
    let dropped = Counter::default();
    struct Guard(Counter);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.up();
        }
    }
    let counter = dropped.clone();
    let fake = Fake::new((), move |ctx: Context, (): ()| {
        let guard = Guard(counter.clone());
        async move {
            let _guard = guard;
            ctx.step::<(), _, _>("forever", std::future::pending).await
        }
    });
    let driver = tokio::spawn(fake.claim());
    tokio::task::yield_now().await;
    fake.tell(Event::Lost);
    assert_eq!(driver.await.unwrap(), Finished::Lost);
    assert_eq!(dropped.get(), 1);
    assert!(fake.lock().reports.is_empty());
    let fake = Fake::new((), |ctx: Context, (): ()| async move { ctx.step("one", || async { Ok(()) }).await });
    fake.lock().refuse =
        Some(|_| Some(v1::ReportError { code: 10, reason: "LEASE_LOST".into(), message: String::new() }));
    assert_eq!(fake.claim().await, Finished::Lost);
}

#[tokio::test(start_paused = true)]
async fn a_run_is_given_back_when_its_worker_has_to_stop() {
    let fake =
        Fake::new(
            (),
            |ctx: Context, (): ()| async move { ctx.step::<(), _, _>("forever", std::future::pending).await },
        );
    let driver = tokio::spawn(fake.claim());
    tokio::task::yield_now().await;
    fake.tell(Event::GiveBack("stopping"));
    assert_eq!(driver.await.unwrap(), Finished::GivenBack);
    assert!(matches!(&fake.lock().reports[..], [report::What::GiveBack(said)] if said.reason == "stopping"));
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_to_be_kept_fails_the_step_or_the_run() {
    fn refuse(what: &report::What) -> Option<v1::ReportError> {
        let large = match what {
            report::What::CompleteStep(said) => said.output.len() > 10,
            report::What::CompleteWorkflow(said) => said.output.len() > 10,
            _ => false,
        };
        large.then(|| v1::ReportError { code: 8, reason: "TOO_LARGE".into(), message: "2 MiB at most".into() })
    }
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        let large = ctx.step("large", || async { Ok("x".repeat(100)) }).await;
        Ok::<_, WorkflowError>(large.is_err_and(|error| error.code() == "too_large"))
    });
    fake.lock().refuse = Some(refuse);
    assert_eq!(fake.play().await, End::Completed("true".into()));
    let fake = Fake::new((), |_: Context, (): ()| async move { Ok::<_, WorkflowError>("x".repeat(100)) });
    fake.lock().refuse = Some(refuse);
    let End::Failed { error, retryable, .. } = fake.play().await else { panic!() };
    assert!(!retryable && error.contains("2 MiB at most"), "{error}");
}

/// As the server: what it refuses could never be reported, and the run would be given back and tried again for ever.
#[tokio::test(start_paused = true)]
async fn whatever_an_error_says_it_can_be_reported() {
    fn refuse(what: &report::What) -> Option<v1::ReportError> {
        const YEAR: i64 = 365 * 24 * 3_600;
        let (error, code, after) = match what {
            report::What::FailStep(said) => (&said.error, &said.code, &said.not_before),
            report::What::FailWorkflow(said) => (&said.error, &said.code, &said.not_before),
            _ => return None,
        };
        let wrong = error.len() > 16 << 20
            || code.len() > 200
            || code.chars().any(char::is_control)
            || after.as_ref().is_some_and(|after| after.seconds > YEAR);
        wrong.then(|| v1::ReportError { code: 3, reason: "INVALID".into(), message: "wrong".into() })
    }
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        let code = format!("a\n{}", "ä".repeat(300));
        let failed: Result<(), _> = ctx.step("odd", || async { Err(StepError::fatal("x").code(code.clone())) }).await;
        let failed = failed.unwrap_err();
        assert!(failed.code().len() <= 200, "{}", failed.code());
        Err::<(), _>(WorkflowError::failed("x".repeat(17 << 20)).with_code(code).with_retry_after(Duration::MAX))
    });
    fake.lock().refuse = Some(refuse);
    let End::Failed { error, .. } = fake.play().await else { panic!() };
    assert!(error.starts_with("xxx"), "{}", error.len());
}
