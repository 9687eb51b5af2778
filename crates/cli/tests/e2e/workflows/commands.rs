//! `baton workflow`, with a worker of the Rust crate at the other end.

use std::time::Duration;

use baton::{Context, RetryPolicy, StepError, Worker, WorkflowError};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::commands::{Person, Said};
use crate::on_both_stores;
use crate::site::{API_KEY, Store};
use crate::wait::eventually;

/// A worker inside of the test. Dropping it lets it fall silent.
struct Working(JoinHandle<()>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn work(person: &Person) -> Working {
    let builder = Worker::builder(person.site.server.url(), "orders").api_key(API_KEY).version("7");
    let mut worker = builder.build().await.unwrap();
    worker.register("approval", approval);
    worker.register("failing", failing);
    worker.register("booking", booking);
    worker.register("counting", counting);
    Working(tokio::spawn(async { worker.run_until(std::future::pending()).await.unwrap() }))
}

/// Fails once, waits for a signal and a moment.
async fn approval(ctx: Context, order: u32) -> Result<Value, WorkflowError> {
    let attempts = std::sync::atomic::AtomicU32::new(0);
    let charge = ctx
        .step("charge", || async {
            match attempts.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                0 => Err(StepError::new("the bank is closed").code("closed")),
                _ => Ok(format!("a charge for the order {order} that is described at length and in every detail")),
            }
        })
        .retry(RetryPolicy::attempts(2).first_interval(Duration::from_millis(1)))
        .await?;
    ctx.publish(&json!({"charge": charge, "waits": true}))?;
    let by: Value = ctx.signal("approved").await?;
    ctx.sleep(Duration::from_millis(50)).await?;
    Ok(json!({"order": order, "by": by}))
}

async fn failing(ctx: Context, (): ()) -> Result<(), WorkflowError> {
    ctx.step("prepare", || async { Ok(1) }).await?;
    Err(WorkflowError::fatal("no stock"))
}

async fn booking(ctx: Context, (): ()) -> Result<(), WorkflowError> {
    ctx.step("book", || async { Ok(1) }).compensate(|_| async { Ok(()) }).await?;
    ctx.sleep(Duration::from_secs(3_600)).await
}

async fn counting(ctx: Context, count: u32) -> Result<u32, WorkflowError> {
    if count < 3 { ctx.continue_as_new(&(count + 1)) } else { Ok(count) }
}

async fn until_state(person: &Person, run: &str, state: &str) {
    let look = async || (person.json(&["workflow", "get", run]).await["state"] == state).then_some(());
    eventually(&format!("{run} {state}"), look).await;
}

fn names(page: &Value, list: &str, field: &str) -> Vec<String> {
    page[list].as_array().unwrap().iter().map(|one| one[field].as_str().unwrap().to_owned()).collect()
}

async fn a_workflow_is_started_signalled_and_followed_to_its_result(store: Store) {
    let person = Person::new(store).await;
    let _working = work(&person).await;
    let start = ["workflow", "start", "approval", "-q", "orders", "--input", "17", "--idempotency-key", "order-17"];
    let run = person.baton(&start).await.ok();
    let again = person.json(&start).await;
    assert_eq!((&again["id"], &again["existed"]), (&json!(run), &json!(true)));
    until_state(&person, &run, "sleeping").await;

    let published: Value = serde_json::from_str(&person.baton(&["workflow", "query", &run]).await.ok()).unwrap();
    assert_eq!(published["waits"], json!(true));
    let shown = person.baton(&["workflow", "get", &run]).await.ok();
    assert!(shown.contains("when a message comes"), "{shown}");
    let steps = person.baton(&["workflow", "steps", &run]).await.ok();
    let heading: Vec<&str> = steps.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(heading, ["POSITION", "KIND", "NAME", "STATE", "ATTEMPTS", "AGE", "OUTPUT"]);
    let charge = steps.lines().nth(1).unwrap();
    let words: Vec<&str> = charge.split_whitespace().collect();
    assert_eq!(words[..5], ["0", "step", "charge", "completed", "2"], "{steps}");
    assert!(charge.ends_with('…'), "a long output is cut: {steps}");

    let signal =
        ["workflow", "signal", &run, "approved", "--payload", "{\"name\":\"Ada\"}", "--idempotency-key", "once"];
    assert_eq!(person.baton(&signal).await.ok(), format!("{run} has the signal approved"));
    person.baton(&signal).await;
    let result = person.baton(&["workflow", "result", &run]).await.ok();
    assert_eq!(serde_json::from_str::<Value>(&result).unwrap(), json!({"order": 17, "by": {"name": "Ada"}}));
    let whole = person.json(&["workflow", "result", &run]).await;
    assert_eq!(
        (&whole["state"], &whole["input"], &whole["output"]["order"]),
        (&json!("completed"), &json!(17), &json!(17))
    );

    let steps = person.json(&["workflow", "steps", &run]).await;
    assert_eq!(names(&steps, "steps", "kind")[..2], ["step", "signal"], "{steps}");
    let history = person.json(&["workflow", "history", &run]).await;
    let events = names(&history, "events", "event");
    let ordered = ["submitted", "claimed", "step_failed", "step_completed", "signal", "sleep", "completed"];
    let mut places = ordered.iter().map(|event| events.iter().position(|found| found == event).unwrap_or(usize::MAX));
    assert!(places.by_ref().is_sorted(), "{events:?}");
    assert_eq!(events.last().unwrap(), "completed", "{events:?}");
    let failed = history["events"].as_array().unwrap().iter().find(|event| event["event"] == "step_failed").unwrap();
    assert_eq!((&failed["reason"], &failed["message"]), (&json!("closed"), &json!("the bank is closed")));
    assert!(person.baton(&["workflow", "history", &run]).await.ok().contains("the bank is closed"));
}

async fn workflows_are_listed_page_by_page(store: Store) {
    let person = Person::new(store).await;
    let mut runs = Vec::new();
    for number in 0..3 {
        let input = number.to_string();
        let start =
            ["workflow", "start", "later", "-q", "orders", "--input", &input, "--delay", "1h", "--priority", "9"];
        runs.push(person.baton(&start).await.ok());
    }
    person.baton(&["workflow", "start", "other", "--at", "2099-01-31T09:30:00Z", "--namespace", "mobile"]).await.ok();
    let first = person.json(&["workflow", "list", "--type", "later", "--limit", "2"]).await;
    assert_eq!((names(&first, "runs", "id"), &first["total"]), (vec![runs[2].clone(), runs[1].clone()], &json!(3)));
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = person.json(&["workflow", "list", "--queue", "orders", "--limit", "2", "--cursor", cursor]).await;
    assert_eq!((names(&rest, "runs", "id"), &rest["next_cursor"]), (vec![runs[0].clone()], &Value::Null));
    let table = person.baton(&["workflow", "ls", "--limit", "2"]).await.ok();
    assert!(table.contains("2 of 4") && table.contains("more: --cursor ") && table.contains("mobile"), "{table}");
    let mobile = person.json(&["workflow", "list", "--namespace", "mobile", "--state", "pending"]).await;
    assert_eq!(mobile["runs"][0]["due_at"], json!("2099-01-31T09:30:00.000Z"));
    assert_eq!(person.json(&["workflow", "list", "--state", "failed"]).await["total"], json!(0));
    person.baton(&["run", "submit", "plain", "--queue", "orders"]).await.ok();
    assert_eq!(person.json(&["workflow", "list"]).await["total"], json!(4), "no run that is no workflow");
    let pinned = ["workflow", "start", "later", "-q", "orders", "--delay", "1h", "--pin-version", "1.2"];
    person.baton(&pinned).await.ok();
    let every = person.json(&["workflow", "list", "--type", "later"]).await;
    assert_eq!(every["total"], json!(4), "of whatever version");
    let cancelled = person.baton(&["workflow", "cancel", &runs[0]]).await.ok();
    assert_eq!(cancelled, format!("{} cancelled", runs[0]), "nobody has begun it");
}

async fn a_failed_workflow_ends_the_command_with_1_and_is_retried(store: Store) {
    let person = Person::new(store).await;
    let _working = work(&person).await;
    let failed = |said: &Said| said.code == 1 && said.err.contains("failed (error): no stock");
    let said = person.baton(&["workflow", "start", "failing", "-q", "orders", "--wait"]).await;
    assert!(failed(&said), "{said:?}");
    let run = said.err.lines().next().unwrap().to_owned();
    let said = person.baton(&["workflow", "result", &run, "--json"]).await;
    let shown: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((said.code, &shown["state"], &shown["reason"]), (1, &json!("failed"), &json!("error")));

    let again = person.baton(&["workflow", "retry", &run]).await.ok();
    assert!(failed(&person.baton(&["workflow", "result", &again]).await));
    let attempts = async |run: &str| names(&person.json(&["workflow", "history", run]).await, "events", "event");
    assert!(attempts(&run).await.contains(&"step_completed".to_owned()));
    let fresh = person.json(&["workflow", "retry", &run, "--from-start"]).await["id"].as_str().unwrap().to_owned();
    assert!(failed(&person.baton(&["workflow", "result", &fresh]).await));
    let step = async |run: &str| person.json(&["workflow", "steps", run]).await["steps"][0]["ended_at"].clone();
    assert_eq!(step(&again).await, step(&run).await, "the step was not executed again");
    assert_ne!(step(&fresh).await, step(&run).await, "everything was forgotten");
}

async fn a_cancelled_workflow_cleans_up_unless_it_is_given_no_time(store: Store) {
    let person = Person::new(store).await;
    let _working = work(&person).await;
    let book = async || person.baton(&["workflow", "start", "booking", "-q", "orders"]).await.ok();
    let (polite, rude) = (book().await, book().await);
    until_state(&person, &polite, "sleeping").await;
    until_state(&person, &rude, "sleeping").await;
    person.json(&["workflow", "cancel", &polite, "--grace", "1m"]).await;
    let said = person.baton(&["workflow", "result", &polite]).await;
    assert!(said.code == 1 && said.err.contains("cancelled"), "{said:?}");
    let steps = names(&person.json(&["workflow", "steps", &polite]).await, "steps", "name");
    assert_eq!(steps.last().unwrap(), "undo book", "{steps:?}");
    assert_eq!(person.baton(&["workflow", "cancel", &rude, "--grace", "0s"]).await.ok(), format!("{rude} cancelled"));
    let steps = names(&person.json(&["workflow", "steps", &rude]).await, "steps", "name");
    assert!(!steps.contains(&"undo book".to_owned()), "{steps:?}");
}

async fn what_continues_as_new_is_followed_and_versions_are_kept_apart(store: Store) {
    let person = Person::new(store).await;
    let _working = work(&person).await;
    let start = ["workflow", "start", "counting", "-q", "orders", "--input", "1", "--wait"];
    let pinned = |version: &'static str| start.iter().copied().chain(["--pin-version", version]).collect::<Vec<_>>();
    let said = person.baton(&pinned("7")).await;
    let first = said.err.trim().to_owned();
    assert_eq!(said.ok(), "3");
    assert!(person.json(&["workflow", "get", &first]).await["continued_to"].is_string());
    let said = person.baton(&[&pinned("8")[..], &["--timeout", "100ms"]].concat()).await;
    assert!(said.code == 1 && said.err.contains("failed (timeout)"), "nobody of version 8 is there: {said:?}");
}

on_both_stores!(
    a_workflow_is_started_signalled_and_followed_to_its_result,
    workflows_are_listed_page_by_page,
    a_failed_workflow_ends_the_command_with_1_and_is_retried,
    a_cancelled_workflow_cleans_up_unless_it_is_given_no_time,
    what_continues_as_new_is_followed_and_versions_are_kept_apart,
);
