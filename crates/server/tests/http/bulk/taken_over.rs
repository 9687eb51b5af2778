//! Another server goes on with an operation whose server died.

use std::collections::BTreeSet;

use baton::RunFilter;
use baton::proto::CreateBulk;
use baton_core::{BulkState, RunId, State};
use baton_store::{BulkProgress, Page};

use super::{cancel, on_queue, retry, tally};
use crate::harness::{On, Server, eventually, on_both};

on_both!(another_server_goes_on_where_one_died, a_server_that_died_after_it_retried_does_no_harm,);

/// An operation that has acted on one run and waits for its rate, as another server sees it.
async fn slow(server: &Server, wanted: CreateBulk) -> baton_store::BulkOperation {
    let operation = server.begin(&CreateBulk { rate_per_second: Some(0.001), ..wanted }).await;
    server.waits(&operation.id, 1).await
}

/// Does as a server does that plans runs, and dies.
async fn plan_and_die(
    server: &Server,
    seen: &baton_store::BulkOperation,
    count: usize,
    states: Vec<State>,
) -> Vec<RunId> {
    let filter = baton_store::RunFilter { states, before: Some(seen.id.as_bound()), ..Default::default() };
    let page = Page { after: seen.progress.cursor, limit: count };
    let planned = server.app.store.find_runs(&filter, page).await.unwrap();
    let progress = BulkProgress { planned: planned.clone(), cursor: planned.last().copied(), ..seen.progress.clone() };
    let saved = server.app.store.save_bulk(seen.id, seen.version, &progress, BulkState::Running, 10_000).await.unwrap();
    assert!(saved.is_some(), "nobody else had a turn");
    planned
}

async fn another_server_goes_on_where_one_died(on: On) {
    let server = Server::start(on).await;
    // Where the store can be shared there is a second server.
    let second = match on {
        On::Sqlite => None,
        On::Postgres => {
            let url = server.settings.database_url.as_deref().unwrap();
            Some(Server::on_database(url, server.clock.clone()).await)
        }
    };
    server.submit_many(20, &on_queue("mail")).await;
    let seen = slow(&server, cancel("mail")).await;
    let planned = plan_and_die(&server, &seen, 5, vec![State::Pending]).await;
    server.app.store.cancel(planned[..2].to_vec(), 0).await.unwrap();
    server.clock.advance(9_999);
    let id = seen.id.to_string();
    assert_eq!(server.client.bulk(&id).await.unwrap().done, 1, "it may live");
    // Nobody has told this server of the turn that began before its time: it looks by itself.
    server.clock.advance(60_000);
    eventually("somebody else goes on", async || server.client.bulk(&id).await.unwrap().done == 6).await;
    assert_eq!(server.standing("mail").await, [("cancelled", 6), ("pending", 14)].into());
    // A server that was only slow comes too late, and changes nothing.
    let late = server.app.store.save_bulk(seen.id, seen.version + 1, &seen.progress, BulkState::Running, 0).await;
    assert_eq!(late.unwrap(), None);
    let through = second.as_ref().unwrap_or(&server);
    through.client.bulk_stop(&id).await.unwrap();
    assert_eq!(tally(&through.ended(&id).await), (6, 0, 0));
}

async fn a_server_that_died_after_it_retried_does_no_harm(on: On) {
    let server = Server::start(on).await;
    server.submit_failed(12, "mail").await;
    let seen = slow(&server, retry("mail")).await;
    let planned = plan_and_die(&server, &seen, 5, vec![State::Failed]).await;
    // It got as far as three of them. The key is the one that the single verb would have made of operation and run.
    for run in &planned[..3] {
        let record = server.app.store.run(*run).await.unwrap().unwrap();
        let key = format!("retry\u{1f}{run}\u{1f}bulk\u{1f}{}", seen.id);
        let queue = server.app.lanes.queue_of(record.lane).unwrap();
        let again = baton_store::NewRun {
            lane: baton_store::Lane { lane: record.lane, queue },
            priority: record.priority,
            due: baton_store::Due::Now,
            key: None,
            affinity: None,
            idempotency: Some(baton_store::Idempotency { key, fingerprint: [0; 16] }),
            options: None,
            retry_of: Some(*run),
            trace: None,
            input: record.input,
        };
        let submission = baton_store::Submission { runs: vec![again], dice: vec![5] };
        server.app.store.submit(vec![submission]).await.unwrap().remove(0).unwrap();
    }
    server.clock.advance(60_000);
    let id = seen.id.to_string();
    eventually("the server goes on", async || server.client.bulk(&id).await.unwrap().done == 6).await;
    let page = RunFilter { queue: Some("mail".into()), state: Some(State::Pending), ..RunFilter::default() };
    let again: Vec<_> =
        server.client.runs(&page).await.unwrap().runs.into_iter().filter_map(|run| run.retry_of).collect();
    assert_eq!(again.len(), 6);
    assert_eq!(again.iter().collect::<BTreeSet<_>>().len(), 6, "none of them twice");
}
