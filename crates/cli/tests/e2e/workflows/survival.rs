//! The program of docs/workflows.md as a process, and what the tutorial does to it.

use std::fmt::Debug;

use baton_testkit::Process;
use serde_json::{Value, json};

use crate::commands::Person;
use crate::on_both_stores;
use crate::site::{API_KEY, Leases, Store};
use crate::wait::{PATIENCE, eventually};

/// Says that this process is to be the program of the tutorial.
const BE_THE_PROGRAM: &str = "BATON_TEST_IS_TUTORIAL";

/// The program as people type it.
mod program {
    include!("tutorial.rs");

    /// Not a test: the tests start this executable again with this as its only one, and it works until it is killed.
    #[test]
    #[ignore = "started by the tests of this file"]
    fn works() {
        if std::env::var_os(super::BE_THE_PROGRAM).is_some() {
            main().unwrap();
        }
    }
}

fn program(url: &str) -> Process {
    let arguments = ["workflows::survival::program::works", "--exact", "--ignored", "--nocapture"];
    let environment = [("BATON_URL", url), ("BATON_API_KEY", API_KEY), (BE_THE_PROGRAM, "yes")];
    Process::spawn(std::env::current_exe().unwrap(), arguments, environment)
}

fn count(output: &str, text: &str) -> usize {
    output.lines().filter(|line| line.contains(text)).count()
}

/// Waits until a command prints JSON that fits.
async fn until<T: Debug>(person: &Person, arguments: &[&str], fits: impl Fn(&Value) -> Option<T>) -> T {
    eventually(&format!("{arguments:?}"), async || fits(&person.json(arguments).await)).await
}

async fn until_state(person: &Person, run: &str, state: &str) {
    until(person, &["workflow", "get", run], |shown| (shown["state"] == state).then_some(())).await;
}

async fn a_workflow_survives_kill_9_of_its_worker_and_the_server(store: Store) {
    let mut person = Person::with_leases(store, Leases::SHORT).await;
    let url = person.site.server.url();
    let mut first = program(&url);
    first.wait_for_line("waiting for orders", PATIENCE).await;
    let start = ["workflow", "start", "process_order", "--queue", "orders", "--input", r#"{"id":17,"boxes":3}"#];
    let run = person.baton(&start).await.ok();

    first.wait_for_line("packing box 2 of 3", PATIENCE).await;
    first.sigkill();
    let second = program(&url);
    second.wait_for_line("packing box 2 of 3", PATIENCE).await;
    person.site.server.kill9();
    person.site.server.restart().await;

    until_state(&person, &run, "sleeping").await;
    assert_eq!(person.baton(&["workflow", "query", &run]).await.ok(), r#""waits for approval""#);
    person.baton(&["workflow", "signal", &run, "approved", "--payload", r#""Ada""#]).await.ok();
    // It sleeps now; whoever waits for it outlives the server, too.
    let sleeps =
        |steps: &Value| steps["steps"].as_array().unwrap().iter().any(|step| step["kind"] == "sleep").then_some(());
    until(&person, &["workflow", "steps", &run], sleeps).await;
    person.site.server.kill9();
    person.site.server.restart().await;
    let receipt: Value = serde_json::from_str(&person.baton(&["workflow", "result", &run]).await.ok()).unwrap();
    assert_eq!(receipt, json!({"charge": "charge-17", "approved_by": "Ada", "parcel": "parcel-17"}));

    let both = format!("{}\n{}", first.output(), second.output());
    for (line, times) in
        [("charging", 1), ("packing box 1", 2), ("packing box 3", 1), ("shipping", 1), ("refunding", 0)]
    {
        assert_eq!(count(&both, line), times, "{line}; they printed:\n{both}");
    }
    let history = person.json(&["workflow", "history", &run]).await;
    let lost = history["events"].as_array().unwrap().iter().find(|event| event["event"] == "lease_ended").unwrap();
    assert_eq!(lost["reason"], "lost", "{history}");
}

async fn a_cancelled_order_is_refunded(store: Store) {
    let person = Person::new(store).await;
    let worker = program(&person.site.server.url());
    let start = ["workflow", "start", "process_order", "--queue", "orders", "--input", r#"{"id":18,"boxes":0}"#];
    let run = person.baton(&start).await.ok();
    until_state(&person, &run, "sleeping").await;
    assert!(person.baton(&["workflow", "cancel", &run]).await.ok().starts_with(&run));
    let said = person.baton(&["workflow", "result", &run]).await;
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("cancelled"), "{said:?}");
    worker.wait_for_line("charge-18: refunding", PATIENCE).await;
    let steps = person.json(&["workflow", "steps", &run]).await;
    assert_eq!(steps["steps"].as_array().unwrap().last().unwrap()["name"], "undo charge");
}

#[test]
fn the_tutorial_shows_the_program_that_is_tested() {
    let tutorial = include_str!("../../../../../docs/workflows.md");
    assert!(
        tutorial.contains(include_str!("tutorial.rs")),
        "docs/workflows.md and tutorial.rs are not the same program"
    );
}

on_both_stores!(a_workflow_survives_kill_9_of_its_worker_and_the_server, a_cancelled_order_is_refunded);
