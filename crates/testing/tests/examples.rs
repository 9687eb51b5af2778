//! The examples of the crate `baton` do what they say. People copy them.

macro_rules! examples {
    ($($name:ident = $path:literal;)+) => {
        $(#[path = $path]
        #[allow(dead_code, reason = "the tests play the workflows, not `main`")]
        mod $name;)+
    };
}

examples! {
    fan_out = "../../sdk/examples/fan_out.rs";
    hello = "../../sdk/examples/hello.rs";
    human_approval = "../../sdk/examples/human_approval.rs";
    idempotent_start = "../../sdk/examples/idempotent_start.rs";
    long_sleep = "../../sdk/examples/long_sleep.rs";
    nightly_report = "../../sdk/examples/nightly_report.rs";
    order_saga = "../../sdk/examples/order_saga.rs";
    poller = "../../sdk/examples/poller.rs";
    priorities_and_namespaces = "../../sdk/examples/priorities_and_namespaces.rs";
    thumbnails = "../../sdk/examples/thumbnails.rs";
}

use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton::{Client, Context, ResultError, State, StepState, WorkflowHandle, WorkflowRun};
use baton_testing::{TestEnv, crash_after_each_step};
use human_approval::{Decision, Expense, Outcome};
use order_saga::{Order, Receipt};
use poller::Parcel;

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// The names of the steps that were completed, in order.
async fn completed_steps(handle: &WorkflowHandle) -> Vec<String> {
    let steps = handle.steps().await.unwrap();
    steps.into_iter().filter(|step| step.state == StepState::Completed).map(|step| step.name).collect()
}

async fn runs_of(client: &Client, namespace: &str, workflow_type: &str) -> Vec<WorkflowRun> {
    client.list_workflows().namespace(namespace).workflow_type(workflow_type).await.unwrap().runs
}

#[test]
fn every_example_is_tested() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../sdk/examples");
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let here = include_str!("examples.rs");
    let missing: Vec<String> = names.filter(|name| !here.contains(&format!("examples/{name}\""))).collect();
    assert!(missing.is_empty(), "no test plays {missing:?}");
}

#[tokio::test]
async fn hello_greets() {
    let env = TestEnv::start().await;
    env.worker("greetings").register("greet", hello::greet);
    let greeting: String = env.run("greet", &"Ada").await.unwrap();
    assert_eq!(greeting, "Hello, Ada!");
}

#[tokio::test]
async fn an_order_is_shipped_wherever_the_worker_falls() {
    let order = Order { id: 7, item: "teapot".into(), cents: 1_900 };
    let receipt = crash_after_each_step(async |env| {
        env.worker("orders").register("process_order", order_saga::process_order);
        env.run::<Receipt>("process_order", &order).await
    })
    .await
    .unwrap();
    assert_eq!(receipt, Receipt { charge: "charge-7".into(), parcel: "parcel-7".into() });
}

#[tokio::test]
async fn an_order_that_cannot_be_shipped_is_undone_wherever_the_worker_falls() {
    let order = Order { id: 8, item: "unicorn".into(), cents: 1_900 };
    let (result, steps) = crash_after_each_step(async |env| {
        env.worker("orders").register("process_order", order_saga::process_order);
        let handle = env.begin("process_order", &order).await.unwrap();
        let result = env.result::<Receipt>(&handle).await;
        (result, completed_steps(&handle).await)
    })
    .await;
    let error = result.unwrap_err();
    assert!(matches!(&error, ResultError::Failed { message, .. } if message.contains("no unicorns")), "{error:?}");
    assert_eq!(steps, ["reserve", "charge", "undo charge", "undo reserve"]);
}

fn expense() -> Expense {
    Expense { what: "a chair".into(), cents: 24_900 }
}

#[tokio::test]
async fn an_expense_is_approved_on_the_third_day() {
    let env = TestEnv::start().await;
    env.worker("expenses").register("approve_expense", human_approval::approve_expense);
    let handle = env.begin("approve_expense", &expense()).await.unwrap();
    env.skip_time(5 * DAY / 2).await;
    let status: Option<String> = handle.query().await.unwrap();
    assert_eq!(status.as_deref(), Some("waits for a decision, day 3"));
    handle.signal("decision", &Decision { approved: true, by: "Grace".into() }).await.unwrap();
    let outcome: Outcome = env.result(&handle).await.unwrap();
    assert_eq!(outcome, Outcome::Approved { by: "Grace".into() });
}

#[tokio::test]
async fn an_expense_that_nobody_decides_on_is_given_up_after_three_reminders() {
    let env = TestEnv::start().await;
    env.worker("expenses").register("approve_expense", human_approval::approve_expense);
    let begun = env.now();
    let handle = env.begin("approve_expense", &expense()).await.unwrap();
    let outcome: Outcome = env.result(&handle).await.unwrap();
    assert_eq!(outcome, Outcome::NobodyCared);
    let reminders = completed_steps(&handle).await.iter().filter(|name| *name == "remind").count();
    assert_eq!(reminders, 3);
    let days = env.now().duration_since(begun).unwrap().as_secs_f64() / DAY.as_secs_f64();
    assert!((2.99..3.01).contains(&days), "{days}");
}

#[tokio::test]
async fn a_report_comes_every_night_at_three_in_berlin() {
    let env = TestEnv::start().await;
    env.worker("reports").register("report", nightly_report::report);
    let schedule = nightly_report::nightly().unwrap();
    for _ in 0..2 {
        env.client().create_schedule(&schedule).await.unwrap();
    }
    // Two in the morning in UTC, in winter.
    env.skip_time(2 * DAY / 24 - Duration::from_secs(1)).await;
    assert_eq!(runs_of(&env.client(), "default", "report").await.len(), 0);
    env.skip_time(Duration::from_secs(1)).await;
    assert_eq!(runs_of(&env.client(), "default", "report").await.len(), 1);
    env.skip_time(30 * DAY).await;
    let runs = runs_of(&env.client(), "default", "report").await;
    assert_eq!(runs.len(), 31);
    assert!(runs.iter().all(|run| run.state == State::Completed), "{runs:?}");
    let text: String = env.client().workflow(&runs[0].run_id).result().await.unwrap();
    assert_eq!(text, "Last night: 42 sales");
}

#[tokio::test]
async fn a_thousand_images_are_resized() {
    let env = TestEnv::start().await;
    env.worker("images").register("resize_all", fan_out::resize_all);
    let images = fan_out::images();
    let handle = env.begin("resize_all", &images).await.unwrap();
    let bytes: u64 = env.result(&handle).await.unwrap();
    assert_eq!(bytes, images.iter().map(|image| image.len() as u64).sum::<u64>());
    assert_eq!(completed_steps(&handle).await.len(), 1_000);
}

#[tokio::test]
async fn thumbnails_are_computed_beside_the_runtime_and_once() {
    let env = TestEnv::start().await;
    env.worker("thumbnails").register("make_thumbnails", thumbnails::make_thumbnails);
    let seeds: Vec<u64> = (0..20).collect();
    let handle = env.begin("make_thumbnails", &seeds).await.unwrap();
    let made: Vec<u64> = env.result(&handle).await.unwrap();
    assert_eq!(made.len(), seeds.len());
    assert_eq!(completed_steps(&handle).await.len(), seeds.len());
}

#[tokio::test]
async fn a_parcel_is_followed_for_days_in_several_runs() {
    let env = TestEnv::start().await;
    env.worker("parcels").register("follow_parcel", poller::follow_parcel);
    let begun = env.now();
    let looks: u32 = env.run("follow_parcel", &Parcel { number: "JD0002".into(), looks: 0 }).await.unwrap();
    assert_eq!(looks, 61);
    let hours = env.now().duration_since(begun).unwrap().as_secs_f64() / 3_600.0;
    assert!((59.9..60.1).contains(&hours), "{hours}");
    assert_eq!(runs_of(&env.client(), "default", "follow_parcel").await.len(), 3, "a run for each day");
}

#[tokio::test]
async fn a_trial_of_a_month_survives_a_fall_at_every_step() {
    let (invoice, days) = crash_after_each_step(async |env| {
        env.worker("trials").register("trial", long_sleep::trial);
        let begun = env.now();
        let invoice: Result<String, ResultError> = env.run("trial", &"Ada").await;
        (invoice, (env.now().duration_since(begun).unwrap().as_secs_f64() / DAY.as_secs_f64()).round())
    })
    .await;
    assert_eq!((invoice.unwrap().as_str(), days), ("invoice for Ada", 30.0));
}

#[tokio::test]
async fn exports_go_by_priority_and_tenants_do_not_meet() {
    let env = TestEnv::start().await;
    let acme = priorities_and_namespaces::start_exports(&env.client(), "acme").await.unwrap();
    let other = priorities_and_namespaces::start_exports(&env.client(), "umbrella").await.unwrap();
    let played: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = played.clone();
    env.worker("exports").namespace("acme").max_concurrent(1).register("export", move |ctx: Context, what: String| {
        seen.lock().unwrap().push(what.clone());
        priorities_and_namespaces::export(ctx, what)
    });
    for handle in &acme {
        let file: String = env.result(handle).await.unwrap();
        assert!(file.ends_with(".csv"), "{file}");
    }
    assert_eq!(*played.lock().unwrap(), ["what the auditor waits for", "this month", "everything"]);
    for handle in &other {
        assert_eq!(handle.get().await.unwrap().state, State::Pending);
    }
}

#[tokio::test]
async fn an_order_is_paid_once_however_often_the_button_is_pressed() {
    let env = TestEnv::start().await;
    env.worker("payments").register("pay", idempotent_start::pay);
    let mut payments = Vec::new();
    for presses in 0..3 {
        let handle = idempotent_start::checkout(&env.client(), 7).await.unwrap();
        assert_eq!(handle.existed(), presses > 0);
        payments.push(env.result::<String>(&handle).await.unwrap());
    }
    assert_eq!((&payments[0], &payments[0]), (&payments[1], &payments[2]));
    assert_eq!(runs_of(&env.client(), "default", "pay").await.len(), 1);
}
