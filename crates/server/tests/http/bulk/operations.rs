//! Operations as they are seen: by whom, in lists, by listeners, in the audit log, and until when.

use std::time::Instant;

use baton::proto::{BulkFilter, CreateBulk, Event, SubmitRun};
use baton::{Client, EventFilter};

use super::{cancel, filter, on_queue, tally};
use crate::events::Ear;
use crate::harness::{KEY, On, Server, eventually, on_both, refusal};

on_both!(
    a_namespace_knows_nothing_of_the_operations_of_another,
    an_operation_over_all_namespaces_is_for_keys_that_are_good_for_all,
    a_namespace_has_so_many_operations,
    operations_are_listed_in_pages_and_have_tags,
    listeners_hear_of_it_and_the_audit_log_has_two_lines,
    what_ended_long_ago_is_deleted,
);

async fn a_namespace_knows_nothing_of_the_operations_of_another(on: On) {
    let server = Server::unhurried(on).await;
    server.submit_many(5, &on_queue("mail")).await;
    let team = server.client_for(&["submit"], Some("team")).await;
    let reader = server.client_for(&["read"], Some("default")).await;
    team.submit(&SubmitRun { namespace: "team".into(), ..on_queue("mail") }).await.unwrap();
    // Of a foreign namespace there is nothing to be found, and one that is named is refused.
    assert_eq!(team.bulk_count(&cancel("mail")).await.unwrap().matched, 1);
    let named = CreateBulk::new("cancel", BulkFilter { namespace: Some("default".into()), ..BulkFilter::default() });
    assert_eq!(refusal(team.bulk_count(&named).await), "403 forbidden");
    assert_eq!(refusal(reader.bulk_count(&cancel("mail")).await), "403 forbidden");
    let all = CreateBulk { all: true, ..CreateBulk::new("cancel", BulkFilter::default()) };
    let theirs = team.bulk_start(&all, None).await.unwrap();
    assert_eq!(theirs.namespace.as_deref(), Some("team"));
    assert_eq!(tally(&server.ended(&theirs.id).await), (1, 0, 0));
    assert_eq!(server.standing("mail").await["pending"], 5);
    let ours = server.begin(&named).await;
    for client in [&team] {
        assert_eq!(refusal(client.bulk(&ours.id).await), "404 not_found");
        assert_eq!(refusal(client.bulk_stop(&ours.id).await), "404 not_found");
        let listed = client.bulks(None, None, None, None).await.unwrap().operations;
        assert_eq!(listed.iter().map(|one| &one.id).collect::<Vec<_>>(), [&theirs.id]);
    }
    assert_eq!(reader.bulk(&ours.id).await.unwrap().id, ours.id);
    assert_eq!(refusal(reader.bulk_stop(&ours.id).await), "403 forbidden");
    assert_eq!(refusal(reader.bulk(&theirs.id).await), "404 not_found");
}

async fn an_operation_over_all_namespaces_is_for_keys_that_are_good_for_all(on: On) {
    let server = Server::unhurried(on).await;
    for namespace in ["default", "team"] {
        let run = SubmitRun { namespace: namespace.into(), ..on_queue("mail") };
        server.submit_many(3, &run).await;
    }
    let done = server.carried_out(&cancel("mail")).await;
    assert_eq!((done.namespace.as_deref(), tally(&done)), (None, (6, 0, 0)));
    let team: Client = server.client_for(&["admin"], Some("team")).await;
    assert_eq!(refusal(team.bulk(&done.id).await), "404 not_found", "it reaches beyond");
    assert_eq!(team.bulks(None, None, None, None).await.unwrap().operations, []);
}

async fn a_namespace_has_so_many_operations(on: On) {
    let server = Server::start(on).await;
    server.submit_many(2, &on_queue("mail")).await;
    let of = |namespace: &str| CreateBulk {
        rate_per_second: Some(0.001),
        ..CreateBulk::new("cancel", BulkFilter { namespace: Some(namespace.into()), ..filter("mail") })
    };
    let first = server.begin(&of("default")).await;
    eventually("it waits for its rate", async || server.client.bulk(&first.id).await.unwrap().done == 1).await;
    // Those that find nothing end, and make room; this one does not.
    for _ in 0..30 {
        let other = server.begin(&of("team")).await;
        server.ended(&other.id).await;
    }
    for _ in 1..20 {
        // Each has one run to wait for that nobody can act on.
        server.submit_many(2, &on_queue("mail")).await;
        let next = server.begin(&of("default")).await;
        eventually("it waits, too", async || server.client.bulk(&next.id).await.unwrap().done == 1).await;
    }
    assert_eq!(refusal(server.client.bulk_start(&of("default"), None).await), "429 namespace_limit");
    assert_eq!(server.client.bulk_count(&of("default")).await.unwrap().action, "cancel", "counting is free");
    server.client.bulk_stop(&first.id).await.unwrap();
    server.ended(&first.id).await;
    server.begin(&of("default")).await;
}

async fn operations_are_listed_in_pages_and_have_tags(on: On) {
    let server = Server::unhurried(on).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.insert(0, server.carried_out(&cancel("mail")).await.id);
    }
    let (mut listed, mut cursor) = (Vec::new(), None);
    loop {
        let page = server.client.bulks(None, Some("completed"), Some(2), cursor.as_deref()).await.unwrap();
        listed.extend(page.operations.into_iter().map(|one| one.id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(listed, ids);
    assert_eq!(server.client.bulks(None, Some("running"), None, None).await.unwrap().operations, []);
    let path = format!("/api/v1/bulk/{}", ids[0]);
    let tag = server.call("GET", &path, "").await.header("etag").to_owned();
    let request = server.request("GET", &path).header("x-api-key", KEY).header("if-none-match", &tag);
    assert_eq!(server.send(request, "").await.status, 304);
}

async fn listeners_hear_of_it_and_the_audit_log_has_two_lines(on: On) {
    let server = Server::unhurried(on).await;
    server.submit_many(700, &on_queue("mail")).await;
    let of_default =
        EventFilter { namespace: Some("default".into()), kinds: vec!["bulk".into()], ..EventFilter::default() };
    let mut ear = Ear::open(&server, of_default).await;
    let wanted = CreateBulk {
        reason: Some("the wrong template".into()),
        ..CreateBulk::new("cancel", BulkFilter { namespace: Some("default".into()), ..filter("mail") })
    };
    let begun = Instant::now();
    let operation = server.begin(&wanted).await;
    let mut heard: Vec<Event> = vec![ear.next().await];
    while heard.last().is_some_and(|event| event.state.as_deref() == Some("running")) {
        heard.push(ear.next().await);
    }
    assert!(heard.len() as u64 <= 3 + begun.elapsed().as_secs(), "start, end, and once a second in between: {heard:?}");
    assert!(heard.iter().all(|event| event.kind == "bulk.changed" && event.namespace.as_deref() == Some("default")));
    let (first, last) = (heard[0].bulk.clone().unwrap(), heard.last().unwrap().bulk.clone().unwrap());
    assert_eq!((first.id.as_str(), first.done, first.matched), (operation.id.as_str(), 0, None));
    assert_eq!((last.done, last.matched, last.action.as_str()), (700, Some(700), "cancel"));
    let log = server.call("GET", "/api/v1/audit", "").await.json();
    let lines: Vec<_> = log["lines"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|line| line["subject"] == operation.id.as_str())
        .map(|line| (line["action"].as_str().unwrap(), line["detail"].as_str().unwrap()))
        .collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0], ("bulk.end", "completed: 700 done, 0 skipped, 0 failed of 700 matched"));
    assert!(lines[1].0 == "bulk.start" && lines[1].1.contains("the wrong template"), "{lines:?}");
}

async fn what_ended_long_ago_is_deleted(on: On) {
    let server = Server::with(on, |settings| settings.retention_runs_ms = 60_000).await;
    let done = server.carried_out(&cancel("mail")).await;
    assert_eq!(done.state, "completed");
    let id = done.id.clone();
    eventually("retention comes by", async || {
        server.clock.advance(30_000);
        server.client.bulk(&id).await.is_err()
    })
    .await;
    assert_eq!(refusal(server.client.bulk(&id).await), "404 not_found");
}
