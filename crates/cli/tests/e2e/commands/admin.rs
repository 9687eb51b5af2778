//! What guards an administrator from a slip: names that nobody knows, the last admin key, a store that is in use.

use baton::{Client, ClientError};
use baton_core::State;
use baton_testkit::Baton;
use serde_json::json;

use super::{Person, baton};
use crate::on_both_stores;
use crate::site::{API_KEY, Store, job, submit};
use crate::verdict::wait_for_count;

async fn a_mistyped_queue_is_not_made(store: Store) {
    let person = Person::new(store).await;
    submit(&person.site.client(), vec![job()]).await;
    let changes: [&[&str]; 3] = [&["pause"], &["resume"], &["limit", "--rate", "5"]];
    for change in changes {
        let on = |queue: &'static str| ["queue", change[0], queue].into_iter().chain(change[1..].iter().copied());
        let said = person.baton(&on("wrok").collect::<Vec<_>>()).await;
        assert_eq!(said.code, 3, "{said:?}");
        assert!(said.err.contains("no queue wrok") && said.err.contains("mean work?"), "{said:?}");
        assert!(said.err.contains("--create"), "{said:?}");
        let said = person.baton(&on("work").chain(["--namespace", "elsewhere"]).collect::<Vec<_>>()).await;
        assert_eq!(said.code, 3, "a queue of another namespace is another queue: {said:?}");
        assert!(!said.err.contains("mean") && said.err.contains("baton queue list"), "{said:?}");
        person.baton(&on("work").collect::<Vec<_>>()).await.ok();
    }
    let queues = person.json(&["queue", "list"]).await;
    assert_eq!(queues["queues"].as_array().unwrap().len(), 1, "{queues}");
    assert_eq!(person.json(&["queue", "pause", "nightly", "--create"]).await["paused"], json!(true));
    assert_eq!(person.json(&["queue", "resume", "nightly"]).await["paused"], json!(false));
}

async fn the_audit_log_is_listed_in_pages(store: Store) {
    let person = Person::new(store).await;
    for queue in ["one", "two", "three"] {
        person.baton(&["queue", "pause", queue, "--create"]).await.ok();
    }
    let subjects = |page: &serde_json::Value| -> Vec<_> {
        page["lines"].as_array().unwrap().iter().map(|line| line["subject"].clone()).collect()
    };
    let page = person.json(&["audit", "list", "--limit", "2"]).await;
    assert_eq!(subjects(&page), ["three", "two"], "newest first");
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = person.json(&["audit", "list", "--limit", "2", "--cursor", cursor]).await;
    assert_eq!(subjects(&rest), ["one"]);
    let table = person.baton(&["audit", "ls", "--limit", "2"]).await.ok();
    assert!(table.contains("queue.pause") && table.contains(&format!("more: --cursor {cursor}")), "{table}");
    let weak = person.json(&["key", "create", "ci", "--scope", "read"]).await;
    let refused = person.baton(&["audit", "list", "--api-key", weak["key"].as_str().unwrap()]).await;
    assert_eq!(refused.code, 4, "{refused:?}");
}

async fn the_audit_log_is_exported_as_lines(store: Store) {
    let person = Person::new(store).await;
    for queue in ["one", "two"] {
        person.baton(&["queue", "pause", queue, "--create"]).await.ok();
    }
    let file = person.site.home.path().join("audit.jsonl");
    let (path, parse) = (file.to_str().unwrap(), |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let said = person.baton(&["audit", "export", "--output", path]).await;
    let last = said.err.rsplit(' ').next().unwrap().trim().to_owned();
    person.baton(&["queue", "pause", "three", "--create"]).await.ok();
    person.baton(&["audit", "export", "--after", &last, "--output", path]).await.ok();
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<_> = text.lines().map(parse).collect();
    let of_queues = |line: &&serde_json::Value| line["action"] == "queue.pause";
    let subjects: Vec<_> = lines.iter().filter(of_queues).map(|line| line["subject"].as_str().unwrap()).collect();
    assert_eq!(subjects, ["one", "two", "three"], "{text}");
    assert!(lines.iter().filter(of_queues).all(|line| line["address"] == "127.0.0.1"), "{text}");
    let printed = person.baton(&["audit", "export"]).await.ok();
    assert_eq!(printed.lines().map(parse).collect::<Vec<_>>(), lines);
}

/// Only where no key is in the settings: that one is never revoked.
async fn the_last_admin_key_is_revoked_by_force_only(store: Store) {
    let database = match store {
        Store::Sqlite => None,
        Store::Postgres => Some(baton_testkit::database().await),
    };
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let mut arguments = vec!["--data", data.to_str().unwrap()];
    arguments.extend(database.iter().flat_map(|database| ["--database", database.url()]));
    let server = Baton::serve(&arguments, &[]).await;
    let url = server.url();
    let variables = [("BATON_URL", url.as_str()), ("BATON_DATA", data.to_str().unwrap())];
    let call = async |arguments: &[&str]| baton(home.path(), variables, arguments, "").await;
    let listed: serde_json::Value = serde_json::from_str(&call(&["key", "list", "--json"]).await.ok()).unwrap();
    let first = listed["keys"][0]["id"].as_str().unwrap();
    // Neither a key that may do less nor the administrator of one namespace can take its place.
    call(&["key", "create", "ci", "--scope", "submit"]).await.ok();
    call(&["key", "create", "team", "--scope", "admin", "--namespace", "team"]).await.ok();
    let refused = call(&["key", "revoke", first]).await;
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.err.contains("last admin key") && refused.err.contains("--force"), "{refused:?}");

    let admin = Client::new(&url, std::fs::read_to_string(data.join("admin.key")).unwrap().trim()).unwrap();
    match admin.revoke_key(first).await {
        Err(ClientError::Refused { status: 409, code, .. }) => assert_eq!(code, "last_admin_key"),
        other => panic!("{other:?}"),
    }

    let second = call(&["key", "create", "second", "--scope", "admin", "--json"]).await.ok();
    let second: serde_json::Value = serde_json::from_str(&second).unwrap();
    let (id, key) = (second["id"].as_str().unwrap(), second["key"].as_str().unwrap());
    call(&["key", "revoke", first]).await.ok();
    assert_eq!(call(&["key", "revoke", id, "--api-key", key]).await.code, 4);
    call(&["key", "revoke", id, "--force", "--api-key", key]).await.ok();
    assert_eq!(call(&["key", "list", "--api-key", key]).await.code, 4, "it is no key any more");
}

async fn a_request_to_cancel_a_held_run_is_seen(store: Store) {
    let person = Person::new(store).await;
    let client = person.site.client();
    let worker = person.site.worker(1, "exec sleep 600");
    let id = submit(&client, vec![job()]).await.remove(0);
    wait_for_count(&client, State::Running, 1).await;
    // Frozen, so that it does not hear of it and the run stays held while we look.
    worker.sigstop();
    assert!(person.baton(&["run", "cancel", &id]).await.ok().contains("told to stop"));
    let by = person.json(&["run", "get", &id]).await["cancel_by"].as_str().unwrap().to_owned();
    let shown = person.baton(&["run", "get", &id]).await.ok();
    assert!(shown.contains(&by) && shown.contains("until then to stop"), "{shown}");
    let history = person.json(&["run", "history", &id]).await;
    let last = history["events"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["event"], &last["at"], &last["epoch"]), (&json!("cancel_by"), &json!(by), &json!(1)));
    assert!(person.baton(&["run", "history", &id]).await.ok().contains("asked to cancel"));
    let explained = person.baton(&["run", "explain", &id]).await.ok();
    assert!(explained.contains("asked to cancel") && explained.contains(&by), "{explained}");
}

on_both_stores!(
    a_mistyped_queue_is_not_made,
    the_audit_log_is_listed_in_pages,
    the_audit_log_is_exported_as_lines,
    the_last_admin_key_is_revoked_by_force_only,
    a_request_to_cancel_a_held_run_is_seen,
);

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_knows_a_store_that_a_server_is_using() {
    let person = Person::new(Store::Sqlite).await;
    let data = person.site.home.path().join("data");
    let elsewhere = format!("http://127.0.0.1:{}", baton_testkit::free_port());
    let variables = [("BATON_DATA", data.to_str().unwrap()), ("BATON_URL", &elsewhere), ("BATON_API_KEY", API_KEY)];
    let said = baton(person.site.home.path(), variables, &["doctor", "--json"], "").await;
    let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let store = report["checks"].as_array().unwrap().iter().find(|check| check["name"] == json!("store")).unwrap();
    assert_eq!((said.code, &store["status"]), (1, &json!("warn")), "only the server is missing: {report}");
    assert!(store["found"].as_str().unwrap().contains("in use by another process"), "{store}");
    assert!(store["todo"].as_str().unwrap().contains("fine if that is your server"), "{store}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_knows_a_store_that_a_tool_has_locked() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    drop(Baton::serve(&["--data", data.to_str().unwrap()], &[]).await);
    let tool = rusqlite::Connection::open(data.join("baton.db")).unwrap();
    tool.execute_batch("begin exclusive").unwrap();
    let elsewhere = format!("http://127.0.0.1:{}", baton_testkit::free_port());
    let variables = [("BATON_DATA", data.to_str().unwrap()), ("BATON_URL", &elsewhere)];
    let said = baton(home.path(), variables, &["doctor"], "").await;
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("baton.db is locked by another process"), "{said:?}");
    tool.execute_batch("rollback").unwrap();
    let said = baton(home.path(), variables, &["doctor"], "").await;
    assert!(said.out.contains("sqlite, reachable and migrated"), "{said:?}");
}
