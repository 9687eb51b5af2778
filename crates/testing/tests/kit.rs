//! What tests of workflows can rely on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use baton::{Client, Context, ResultError, RetryPolicy, State, StepError, WorkflowError};
use baton_testing::{TestEnv, crash_after_each_step};
use tokio::sync::Notify;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

#[derive(Clone, Default)]
struct Counter(Arc<AtomicU32>);

impl Counter {
    fn up(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn get(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

async fn wait_for_approval(ctx: Context, days: u32) -> Result<Option<String>, WorkflowError> {
    ctx.signal("approved").timeout(days * DAY).await
}

/// True when there are only moments between them, in which something was done.
fn is_about(one: SystemTime, other: SystemTime) -> bool {
    one.duration_since(other).or_else(|_| other.duration_since(one)).unwrap() < Duration::from_secs(10)
}

// ---- time

#[tokio::test]
async fn a_year_of_days_takes_seconds_and_every_day_is_one() {
    let env = TestEnv::start().await;
    env.worker("q").register("year", |ctx: Context, (): ()| async move {
        for _ in 0..365 {
            ctx.sleep(DAY).await?;
        }
        Ok::<_, WorkflowError>(ctx.now())
    });
    let (begun, really) = (env.now(), Instant::now());
    let ended: SystemTime = env.run("year", &()).await.unwrap();
    let days = ended.duration_since(begun).unwrap().as_secs_f64() / DAY.as_secs_f64();
    println!("{days} days took {:?}", really.elapsed());
    assert!((364.9..365.1).contains(&days), "{days}");
    assert!(really.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn time_stands_still_while_the_test_does_not_wait() {
    let env = TestEnv::start().await;
    env.worker("q").register("approval", wait_for_approval);
    let begun = env.now();
    let handle = env.begin("approval", &1).await.unwrap();
    env.settle().await;
    assert_eq!(handle.get().await.unwrap().state, State::Sleeping);
    assert!(is_about(env.now(), begun));
    env.skip_time(DAY - HOUR).await;
    assert_eq!(handle.get().await.unwrap().state, State::Sleeping);
    assert!(is_about(env.now(), begun + DAY - HOUR));
    handle.signal("approved", &"Grace").await.unwrap();
    let by: Option<String> = env.result(&handle).await.unwrap();
    assert_eq!(by.as_deref(), Some("Grace"));
    assert!(is_about(env.now(), begun + DAY - HOUR), "nothing was left to wait for");
}

#[tokio::test]
async fn the_clock_does_not_move_while_a_step_is_executed() {
    let env = TestEnv::start().await;
    env.worker("q").register("both", |ctx: Context, (): ()| async move {
        let slow = ctx.step("slow", || async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Ok(())
        });
        let (slow, slept) = futures_util::join!(slow, ctx.sleep(HOUR));
        slow.and(slept)
    });
    let begun = env.now();
    let handle = env.begin("both", &()).await.unwrap();
    env.result::<()>(&handle).await.unwrap();
    assert!(is_about(handle.steps().await.unwrap()[0].ended_at.unwrap(), begun));
    assert!(is_about(env.now(), begun + HOUR));
}

#[tokio::test]
async fn pauses_between_attempts_are_skipped() {
    let env = TestEnv::start().await;
    let tries = Counter::default();
    let counter = tries.clone();
    env.worker("q").register("flaky", move |ctx: Context, (): ()| {
        let tries = counter.clone();
        async move {
            let flaky = || async {
                match tries.up() {
                    4 => Ok(()),
                    number => Err(StepError::new(format!("no {number}"))),
                }
            };
            let policy = RetryPolicy::attempts(4).first_interval(HOUR).factor(2.0).longest_interval(DAY).jitter(0.0);
            ctx.step("flaky", flaky).retry(policy).await
        }
    });
    let begun = env.now();
    env.run::<()>("flaky", &()).await.unwrap();
    assert_eq!(tries.get(), 4);
    assert!(is_about(env.now(), begun + (1 + 2 + 4) * HOUR));
}

#[tokio::test]
async fn children_timeouts_and_cancels_work_as_ever() {
    let env = TestEnv::start().await;
    let worker = env.worker("q");
    worker
        .register("parent", |ctx: Context, days: u32| async move { ctx.child::<Option<String>>("child", &days).await });
    worker.register("child", wait_for_approval);
    assert_eq!(env.run::<Option<String>>("parent", &30).await.unwrap(), None);

    let handle = env.begin("child", &30).timeout(DAY).await.unwrap();
    let error = env.result::<Option<String>>(&handle).await.unwrap_err();
    assert!(matches!(&error, ResultError::Failed { reason, .. } if reason == "timeout"), "{error:?}");

    let handle = env.begin("child", &30).await.unwrap();
    env.settle().await;
    handle.cancel().await.unwrap();
    let error = env.result::<Option<String>>(&handle).await.unwrap_err();
    assert!(matches!(error, ResultError::Cancelled { .. }), "{error:?}");
}

#[tokio::test]
async fn code_that_knows_nothing_of_the_test_can_be_waited_for() {
    async fn product_code(client: Client) -> Result<Option<String>, ResultError> {
        client.start("approval", &90).queue("q").await?.result().await
    }
    let env = TestEnv::start().await;
    env.worker("q").register("approval", wait_for_approval);
    let begun = env.now();
    assert_eq!(env.skip_time_while(product_code(env.client())).await.unwrap(), None);
    assert!(env.now() > begun + 89 * DAY);
}

/// What the test panicked with.
async fn panic_of(test: impl Future<Output = ()> + Send + 'static) -> String {
    let panic = tokio::spawn(test).await.unwrap_err().into_panic();
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => panic!("it panicked with {other:?}"),
    }
}

#[tokio::test]
async fn a_workflow_that_will_never_end_fails_the_test() {
    let text = panic_of(async {
        let env = TestEnv::start().await;
        env.worker("q").register("patient", |ctx: Context, (): ()| async move { ctx.signal::<()>("never").await });
        let _ = env.run::<()>("patient", &()).await;
    })
    .await;
    assert!(text.contains("\"patient\" is sleeping: it waits for a signal or a child"), "{text}");
    let text = panic_of(async {
        let env = TestEnv::start().await;
        let _ = env.run::<()>("unknown", &()).await;
    })
    .await;
    assert!(text.contains("\"unknown\" is pending: no worker takes it"), "{text}");
}

// ---- crashes

#[tokio::test]
async fn a_fall_in_the_middle_of_a_step_makes_for_another_attempt() {
    /// Notes that it is dropped.
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    let env = TestEnv::start().await;
    let (before, during) = (Counter::default(), Counter::default());
    let (begun, dropped) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let seen = (before.clone(), during.clone(), begun.clone(), dropped.clone());
    env.worker("q").register("steps", move |ctx: Context, (): ()| {
        let (before, during, begun, dropped) = seen.clone();
        async move {
            ctx.step("before", || async { Ok(before.up()) }).await?;
            ctx.step("during", || async {
                if during.up() == 1 {
                    let _dropped = Dropped(dropped.clone());
                    begun.notify_one();
                    std::future::pending::<()>().await;
                }
                Ok(())
            })
            .await
        }
    });
    let handle = env.begin("steps", &()).await.unwrap();
    tokio::select! {
        () = begun.notified() => {}
        () = env.settle() => unreachable!("the step is under way"),
    }
    env.crash_workers().await;
    env.result::<()>(&handle).await.unwrap();
    assert_eq!((before.get(), during.get()), (1, 2));
    assert!(dropped.load(Ordering::SeqCst), "the worker that fell still works on it");
}

#[tokio::test]
async fn every_place_of_a_scenario_is_crashed_once() {
    let (plays, environments) = (Counter::default(), Counter::default());
    let sum = crash_after_each_step(async |env| {
        environments.up();
        let counter = plays.clone();
        let worker = env.worker("q");
        worker.register("double", |ctx: Context, number: u64| async move {
            ctx.step("double", || async { Ok(2 * number) }).await
        });
        worker.register("sum", move |ctx: Context, (): ()| {
            counter.up();
            async move {
                let signal: u64 = ctx.signal("number").await?;
                ctx.sleep(DAY).await?;
                let doubled: u64 = ctx.child("double", &signal).await?;
                let ones = ctx.parallel(2, (0..3).map(|_| ctx.step("one", || async { Ok(1) }))).await?;
                Ok::<_, WorkflowError>(doubled + ones.iter().sum::<u64>())
            }
        });
        let handle = env.begin("sum", &()).await.unwrap();
        env.settle().await;
        handle.signal("number", &20).await.unwrap();
        let sum = env.result::<u64>(&handle).await;
        // However often the function was played, no step was executed twice.
        let attempts: Vec<u32> = handle.steps().await.unwrap().iter().map(|step| step.attempts).collect();
        assert!(attempts.iter().all(|attempts| *attempts <= 1), "{attempts:?}");
        sum
    })
    .await;
    assert_eq!(sum.unwrap(), 43);
    println!("{} plays in {} environments", plays.get(), environments.get());
    assert!(environments.get() > 6, "one for each thing that the workflow waits for");
    assert!(plays.get() > 4 * environments.get(), "{} plays in {} environments", plays.get(), environments.get());
}

async fn branch(ctx: &Context, number: u32) -> Result<u32, WorkflowError> {
    let first = ctx.step(format!("first of {number}"), || async move { Ok(number) }).await?;
    ctx.sleep((3 - number) * HOUR).await?;
    let second = ctx.step(format!("second of {number}"), || async move { Ok(10 * number) }).await?;
    Ok(first + second)
}

#[tokio::test]
async fn branches_are_played_again_in_their_order() {
    let sums = crash_after_each_step(async |env| {
        env.worker("q").register("branches", |ctx: Context, (): ()| async move {
            ctx.parallel(3, (0..3).map(|number| branch(&ctx, number))).await
        });
        env.run::<Vec<u32>>("branches", &()).await
    })
    .await;
    assert_eq!(sums.unwrap(), [0, 11, 22]);
}

#[tokio::test]
async fn a_workflow_that_depends_on_the_world_outside_of_steps_is_found_out() {
    let text = panic_of(async {
        let _ = crash_after_each_step(async |env| {
            let plays = Counter::default();
            env.worker("q").register("forgetful", move |ctx: Context, (): ()| {
                let play = plays.up();
                async move {
                    ctx.step("step", || async { Ok(()) }).await?;
                    Ok::<_, WorkflowError>(play)
                }
            });
            env.run::<u32>("forgetful", &()).await
        })
        .await;
    })
    .await;
    assert!(text.contains("it came to Ok(2), and without one to Ok(1)"), "{text}");
}
