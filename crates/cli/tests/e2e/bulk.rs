//! `kill -9` of the server in the middle of a bulk operation.

use std::collections::BTreeSet;
use std::time::Duration;

use baton::proto::{BulkFilter, BulkView, CreateBulk, SubmitRun};
use baton::{Client, RunFilter};
use baton_core::State;
use baton_server::crash::BULK_POINTS;
use baton_testkit::Database;

use crate::on_both_stores;
use crate::site::{Leases, Store, client, serve_with, submit};
use crate::wait::{eventually, until_answered};

/// More than one turn of an operation has.
const RUNS: usize = 1_200;
const BATCH: usize = 400;

/// Which server dies, and where.
const ARMED: &str = "BATON_CRASH_POINT";

fn of_queue(action: &str, queue: &str, states: &[State]) -> CreateBulk {
    let filter = BulkFilter { queue: Some(queue.into()), ..BulkFilter::in_states(states.iter().copied()) };
    // Slow enough that it takes several turns.
    CreateBulk { rate_per_second: Some(600.0), ..CreateBulk::new(action, filter) }
}

async fn count(client: &Client, queue: &str, state: State) -> u64 {
    let filter = RunFilter { queue: Some(queue.into()), state: Some(state), total: true, ..RunFilter::default() };
    until_answered(async || client.runs(&filter).await).await.unwrap().total.unwrap()
}

async fn ended(client: &Client, id: &str) -> BulkView {
    let look = async || {
        let view = until_answered(async || client.bulk(id).await).await.unwrap();
        view.is_ended().then_some(view)
    };
    eventually("the operation ends", look).await
}

/// The runs that those of a queue in this state repeat.
async fn repeated(client: &Client, queue: &str, state: State) -> Vec<String> {
    let (mut originals, mut cursor) = (Vec::new(), None);
    loop {
        let filter = RunFilter {
            queue: Some(queue.into()),
            state: Some(state),
            limit: Some(1_000),
            cursor: cursor.clone(),
            ..RunFilter::default()
        };
        let page = until_answered(async || client.runs(&filter).await).await.unwrap();
        originals.extend(page.runs.into_iter().filter_map(|run| run.retry_of));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return originals;
        }
    }
}

/// Begins an operation with a server that dies at this point, and has another one go on.
async fn through_a_crash(store: Store, point: &str) {
    let database: Option<Database> = match store {
        Store::Sqlite => None,
        Store::Postgres => Some(baton_testkit::database().await),
    };
    let home = tempfile::tempdir().unwrap();
    let url = database.as_ref().map(Database::url);
    let mut server = serve_with(home.path(), url, Leases::LONG, &[]).await;
    let queue = "mail";
    let run = SubmitRun { delay_ms: Some(3_600_000), ..SubmitRun::new(queue, "send") };
    let mut ids = Vec::new();
    for _ in 0..RUNS / BATCH {
        ids.extend(submit(&client(&server.url()), vec![run.clone(); BATCH]).await);
    }
    for (action, states) in [("cancel", &[State::Pending, State::Sleeping][..]), ("retry", &[State::Cancelled])] {
        server.restart_with(&[(ARMED, Some(point))]).await;
        let wanted = of_queue(action, queue, states);
        let key = format!("{action} them");
        // The server may die before it answers.
        let _ = client(&server.url()).bulk_start(&wanted, Some(&key)).await;
        let until = tokio::time::Instant::now() + Duration::from_secs(60);
        while server.process().ended().is_none() {
            assert!(tokio::time::Instant::now() < until, "nobody comes to {point} with {action}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        server.restart_with(&[(ARMED, None)]).await;
        let client = client(&server.url());
        let operation = until_answered(async || client.bulk_start(&wanted, Some(&key)).await).await.unwrap();
        let view = ended(&client, &operation.id).await;
        assert_eq!((view.state.as_str(), view.matched), ("completed", Some(RUNS as u64)), "{point}: {view:?}");
        assert_eq!((view.done, view.skipped, view.failed), (RUNS as u64, 0, 0), "{point}: {view:?}");
        assert_eq!(count(&client, queue, State::Cancelled).await, RUNS as u64, "{point}");
    }
    let client = client(&server.url());
    let originals = repeated(&client, queue, State::Pending).await;
    assert_eq!(originals.len(), RUNS, "{point}: none was retried twice");
    assert_eq!(originals.into_iter().collect::<BTreeSet<_>>(), ids.into_iter().collect(), "{point}: none was left out");
}

async fn a_killed_server_neither_leaves_a_run_out_nor_retries_one_twice(store: Store) {
    for (name, _) in BULK_POINTS {
        through_a_crash(store, &format!("{name}:2")).await;
    }
}

async fn a_server_that_is_killed_at_any_moment_goes_on(store: Store) {
    let database: Option<Database> = match store {
        Store::Sqlite => None,
        Store::Postgres => Some(baton_testkit::database().await),
    };
    let home = tempfile::tempdir().unwrap();
    let mut server = serve_with(home.path(), database.as_ref().map(Database::url), Leases::LONG, &[]).await;
    let all = client(&server.url());
    for _ in 0..RUNS / BATCH {
        submit(&all, vec![SubmitRun::new("mail", "send"); BATCH]).await;
    }
    let operation = all.bulk_start(&of_queue("cancel", "mail", &[State::Pending]), None).await.unwrap();
    let has_begun = async || (all.bulk(&operation.id).await.unwrap().done > 0).then_some(());
    eventually("some are cancelled", has_begun).await;
    server.kill9();
    server.restart().await;
    let view = ended(&client(&server.url()), &operation.id).await;
    assert_eq!((view.state.as_str(), view.done, view.failed), ("completed", RUNS as u64, 0), "{view:?}");
    assert_eq!(count(&client(&server.url()), "mail", State::Pending).await, 0);
}

on_both_stores!(
    a_killed_server_neither_leaves_a_run_out_nor_retries_one_twice,
    a_server_that_is_killed_at_any_moment_goes_on,
);
