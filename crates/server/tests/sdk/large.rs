//! Workflows whose payloads are too large for a row, as users write them: nothing but the sizes is different.

use std::time::Duration;

use baton::{Client, Context, ResultError, WorkflowError};
use baton_server::Settings;

use crate::harness::{KEY, On, Server, on_both};
use crate::site::{Counter, QUEUE, Site, Working, within};

const MIB: usize = 1 << 20;

on_both!(
    large_inputs_steps_signals_children_and_results_just_work,
    a_workflow_that_remembers_more_than_one_answer_can_hold_is_played_again,
    a_result_beyond_the_limit_fails_the_workflow_and_says_why,
    a_workflow_that_remembers_too_much_fails_for_good_and_its_worker_lives_on,
);

async fn site(on: On, change: impl FnOnce(&mut Settings)) -> Site {
    let server = Server::real(on, change).await;
    let client = Client::connect(format!("http://{}", server.address)).api_key(KEY).await.unwrap();
    Site { server, client }
}

async fn twice(_: Context, text: String) -> Result<String, WorkflowError> {
    Ok(text.repeat(2))
}

async fn large_inputs_steps_signals_children_and_results_just_work(on: On) {
    let site = site(on, |_| {}).await;
    let (mut worker, executed) = (site.worker().await, Counter::default());
    let counter = executed.clone();
    worker.register("twice", twice).register("large", move |ctx: Context, input: String| {
        let counter = counter.clone();
        async move {
            let made = ctx
                .step("make", || async {
                    counter.up();
                    Ok("s".repeat(5 * MIB))
                })
                .await?;
            ctx.publish(&made)?;
            // Suspended here, and played again with all that it remembers.
            ctx.sleep(Duration::from_millis(50)).await?;
            let said: String = ctx.signal("go").await?;
            let doubled: String = ctx.child("twice", &made).await?;
            assert!(doubled.len() == 10 * MIB && said == "m".repeat(3 * MIB) && input == "i".repeat(10 * MIB));
            Ok::<_, WorkflowError>("o".repeat(20 * MIB))
        }
    });
    let working = Working::begin(worker);
    let handle = site.begin("large", &"i".repeat(10 * MIB)).await;
    handle.signal("go", &"m".repeat(3 * MIB)).await.unwrap();
    let output: String = within(handle.result()).await.unwrap();
    assert!(output == "o".repeat(20 * MIB));
    assert_eq!(executed.get(), 1);
    let published: String = handle.query().await.unwrap().unwrap();
    assert!(published == "s".repeat(5 * MIB));
    let steps = handle.steps().await.unwrap();
    assert_eq!((steps[0].output.len(), steps[0].output_bytes), (0, 5 * MIB as u64 + 2));
    assert_eq!(handle.step_output(0).await.unwrap().len(), 5 * MIB + 2);
    working.stop().await;
}

async fn a_workflow_that_remembers_more_than_one_answer_can_hold_is_played_again(on: On) {
    let site = site(on, |settings| {
        settings.payload_inline_bytes_max = 1_000;
        settings.payload_bytes_max = 50_000;
    })
    .await;
    let (mut worker, executed) = (site.worker().await, Counter::default());
    let counter = executed.clone();
    worker.register("much", move |ctx: Context, (): ()| {
        let counter = counter.clone();
        async move {
            let mut all = 0;
            for number in 0..5 {
                let step = ctx.step("make", || async {
                    counter.up();
                    Ok("s".repeat(20_000 + number))
                });
                all += step.await?.len();
            }
            ctx.sleep(Duration::from_millis(50)).await?;
            for number in 0..5 {
                let said: String = ctx.signal("go").await?;
                assert_eq!(said.len(), 30_000 + number);
                all += said.len();
            }
            Ok::<_, WorkflowError>(all)
        }
    });
    let handle = site.begin("much", &()).await;
    for number in 0..5 {
        handle.signal("go", &"m".repeat(30_000 + number)).await.unwrap();
    }
    let working = Working::begin(worker);
    assert_eq!(within(handle.result::<usize>()).await.unwrap(), 5 * 50_000 + 20);
    assert_eq!(executed.get(), 5, "every step was remembered");
    working.stop().await;
}

async fn a_result_beyond_the_limit_fails_the_workflow_and_says_why(on: On) {
    let site = site(on, |settings| settings.payload_bytes_max = 50_000).await;
    let mut worker = site.worker().await;
    worker.register("too_much", |_: Context, (): ()| async { Ok::<_, WorkflowError>("o".repeat(50_000)) });
    let working = Working::begin(worker);
    let handle = site.client.start("too_much", &()).queue(QUEUE).await.unwrap();
    match within(handle.result::<String>()).await {
        Err(ResultError::Failed { message, .. }) => assert!(message.contains("50000 bytes"), "{message}"),
        other => panic!("{other:?}"),
    }
    working.stop().await;
}

async fn a_workflow_that_remembers_too_much_fails_for_good_and_its_worker_lives_on(on: On) {
    let site = site(on, |settings| settings.journal_bytes_max = 50_000).await;
    let (mut worker, executed) = (site.worker().await, Counter::default());
    let counter = executed.clone();
    worker.register("twice", twice).register("hoards", move |ctx: Context, (): ()| {
        let counter = counter.clone();
        async move {
            loop {
                ctx.step("make", || async {
                    counter.up();
                    Ok("s".repeat(20_000))
                })
                .await?;
            }
            #[allow(unreachable_code, reason = "it says what the workflow would give back")]
            Ok::<_, WorkflowError>(())
        }
    });
    let working = Working::begin(worker);
    let handle = site.begin("hoards", &()).await;
    match within(handle.result::<()>()).await {
        Err(ResultError::Failed { message, .. }) => {
            for word in ["60006 bytes", "50000", "journal_bytes_max", "continue as new"] {
                assert!(message.contains(word), "{message}");
            }
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(executed.get(), 3, "nothing is tried again");
    let other = site.begin("twice", &"ab").await;
    assert_eq!(within(other.result::<String>()).await.unwrap(), "abab");
    working.stop().await;
}
