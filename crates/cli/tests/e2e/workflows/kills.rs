//! The scenario `workflow-kills` of the benchmark in small: servers and workers fall at random while workflows are played.

use baton_testkit::Process;
use serde_json::Value;

use crate::on_both_stores;
use crate::site::{BATON, Store};
use crate::wait::PATIENCE;

/// Enough for eight kills of workers and three of the server.
const WORKFLOWS: &str = "60";

async fn every_step_is_remembered_once_whoever_falls(store: Store) {
    let database = match store {
        Store::Sqlite => None,
        Store::Postgres => Some(baton_testkit::database().await),
    };
    let which = if database.is_some() { "postgres" } else { "sqlite" };
    let arguments = ["bench", "--scenario", "workflow-kills", "--runs", WORKFLOWS, "--json", "--store", which];
    let environment = database.as_ref().map(|database| ("BATON_BENCH_DATABASE_URL", database.url()));
    let mut bench = Process::spawn(BATON, arguments, environment);
    // Another seed each time; the figures name it.
    let status = bench.wait(2 * PATIENCE).await;
    let output = bench.output();
    println!("{output}");
    assert!(status.success(), "{status}: {output}");
    let figure = |metric: &str| {
        let figures = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let found = figures.into_iter().find(|figure| figure["metric"] == metric);
        found.and_then(|figure| figure["value"].as_f64()).unwrap_or_else(|| panic!("no {metric} in {output}"))
    };
    assert_eq!((figure("workflow_kills_workers"), figure("workflow_kills_servers")), (8.0, 3.0));
    assert_eq!((figure("workflow_kills_wrong"), figure("workflow_kills_lost_or_too_many")), (0.0, 0.0));
    assert!(figure("workflow_kills_taken_over") > 0.0, "no kill hit a worker with a workflow in its hands");
}

on_both_stores!(every_step_is_remembered_once_whoever_falls);
