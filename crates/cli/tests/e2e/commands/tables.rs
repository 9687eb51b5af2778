//! Tables: they fit the terminal, show short ids that every command takes, and can be watched.

use baton::proto::RegisterWorker;
use baton_testkit::Process;
use serde_json::{Value, json};

use super::{Person, baton};
use crate::on_both_stores;
use crate::site::{API_KEY, BATON, Leases, Store, job, submit};
use crate::wait::PATIENCE;

/// Longest name that the server takes.
const NAME_MAX: usize = 200;

fn absurd(letter: &str) -> String {
    letter.repeat(NAME_MAX)
}

async fn register(person: &Person, name: &str) -> String {
    let worker = json!({"name": name, "queues": [absurd("q"), "work"], "types": [absurd("t")], "hostname": absurd("h"),
                        "version": "1", "max_concurrent": 4});
    let worker: RegisterWorker = serde_json::from_value(worker).unwrap();
    person.site.client().register(&worker).await.unwrap().worker_id
}

async fn every_list_fits_eighty_columns(store: Store) {
    let person = Person::new(store).await;
    let (queue, kind, namespace) = (absurd("q"), absurd("t"), absurd("n"));
    let run = person.baton(&["run", "submit", &kind, "--queue", &queue, "--key", &absurd("k")]).await.ok();
    person.baton(&["run", "submit", "short", "--namespace", &namespace]).await.ok();
    let workflow = person.baton(&["workflow", "start", &kind[50..], "--queue", &queue, "--delay", "1h"]).await.ok();
    register(&person, &absurd("w")).await;
    let schedule = absurd("s");
    let cron = ["schedule", "create", &schedule, "--cron", "0,1,2,3,4,5,6,7,8,9,10 2 * * MON-FRI", "--type", &kind];
    person.baton(&cron).await.ok();
    person.baton(&["schedule", "trigger", &schedule]).await.ok();
    person
        .baton(&["key", "create", &absurd("k"), "--scope", "read", "--scope", "submit", "--expires-in", "90d"])
        .await
        .ok();
    person
        .baton(&["namespace", "create", "other", "--description", &absurd("d"), "--live-runs", "4000000000"])
        .await
        .ok();
    person.baton(&["namespace", "disable", "other", "--reason", &absurd("r")]).await.ok();
    person.baton(&["queue", "pause", "nightly", "--create", "--for", "90m"]).await.ok();
    let pool = "p".repeat(60);
    person.baton(&["pool", "create", &pool, "--max-size", "1", "--min-idle", "0"]).await.ok();

    let lists: [&[&str]; 17] = [
        &["run", "list", "--total"],
        &["run", "history", &run],
        &["workflow", "list"],
        &["workflow", "history", &workflow],
        &["workflow", "steps", &workflow],
        &["build", "list"],
        &["worker", "list"],
        &["queue", "list"],
        &["schedule", "list"],
        &["schedule", "runs", &schedule],
        &["key", "list"],
        &["namespace", "list"],
        &["settings", "list"],
        &["pool", "list"],
        &["pool", "runners", &pool],
        &["pool", "claims", &pool],
        &["audit", "list"],
    ];
    for list in lists {
        let table = person.baton(list).await.ok();
        let longest = table.lines().map(|line| line.chars().count()).max().unwrap_or_default();
        assert!(longest <= 80, "{list:?} is {longest} wide:\n{table}");
        assert!(!table.contains("0000Z") && !table.contains('\u{1b}'), "{list:?}:\n{table}");
        let wide = person.baton(&[list, &["-o", "wide"]].concat()).await.ok();
        assert!(wide.lines().next().unwrap().len() >= table.lines().next().unwrap().len(), "{list:?}:\n{wide}");
        let json = person.json(list).await;
        let entries = json.as_object().unwrap().values().find_map(Value::as_array).unwrap();
        let lines = person.baton(&[list, &["-o", "jsonl"]].concat()).await.ok();
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), entries.len(), "{list:?}");
    }
    let coloured = person.baton(&["run", "list", "--color", "always"]).await.ok();
    assert!(coloured.contains("\u{1b}[33mpending\u{1b}[0m"), "{coloured}");
    let both = person.baton(&["run", "list", "--json", "-o", "wide"]).await;
    assert_eq!(both.code, 2, "one format: {both:?}");
}

async fn short_ids_are_taken_wherever_whole_ones_are(store: Store) {
    let person = Person::new(store).await;
    let run = person.baton(&["run", "submit", "job", "--queue", "work"]).await.ok();
    let short = &run[30..];
    let table = person.baton(&["run", "list"]).await.ok();
    assert!(table.contains(short) && !table.contains(&run), "{table}");
    assert_eq!(person.json(&["run", "get", short]).await["id"], json!(run));
    assert_eq!(person.json(&["run", "get", &format!("…{}", short.to_uppercase())]).await["id"], json!(run));
    assert!(person.baton(&["run", "history", short]).await.ok().contains("submitted"));
    assert!(person.baton(&["run", "explain", short]).await.ok().starts_with("pending"));
    assert_eq!(person.json(&["run", "cancel", short]).await["state"], json!("cancelled"));
    let again = person.baton(&["run", "retry", short]).await.ok();
    assert_eq!(person.json(&["run", "get", &again[24..]]).await["retry_of"], json!(run));
    let workflow = person.baton(&["workflow", "start", "order", "--delay", "1h"]).await.ok();
    assert_eq!(person.json(&["workflow", "get", &workflow[30..]]).await["id"], json!(workflow));
    let nobody = person.baton(&["run", "get", "0000000000ff"]).await;
    assert!(nobody.code == 3 && nobody.err.contains("no run whose id ends with 0000000000ff"), "{nobody:?}");

    let worker = register(&person, "one").await;
    assert_eq!(person.json(&["worker", "get", &worker[30..]]).await["id"], json!(worker));
    assert_eq!(person.json(&["run", "list", "--worker", &worker[30..]]).await["runs"], json!([]));
    assert_eq!(person.json(&["worker", "drain", &worker[30..]]).await["id"], json!(worker));
    let nobody = person.baton(&["worker", "get", "0000000000ff"]).await;
    assert_eq!(nobody.code, 3, "{nobody:?}");
    assert_eq!(person.json(&["queue", "get", "work"]).await["name"], json!("work"));
}

async fn an_ambiguous_id_is_answered_with_its_candidates(store: Store) {
    let person = Person::new(store).await;
    let mut ids = Vec::new();
    // Of 500 runs two very likely end with the same four digits, of which there are 65,536.
    let ambiguous = loop {
        ids.extend(submit(&person.site.client(), vec![job(); 500]).await);
        let ends = |end: &str| ids.iter().filter(|id| id.ends_with(end)).count();
        if let Some(id) = ids.iter().find(|id| ends(&id[32..]) > 1) {
            break id.clone();
        }
    };
    let end = &ambiguous[32..];
    let said = person.baton(&["run", "get", end]).await;
    assert_eq!(said.code, 2, "{said:?}");
    for id in ids.iter().filter(|id| id.ends_with(end)) {
        assert!(said.err.contains(id.as_str()), "{said:?}");
    }
}

async fn a_list_is_watched_across_a_restart(store: Store) {
    let mut person = Person::with_leases(store, Leases::LONG).await;
    person.baton(&["run", "submit", "first"]).await.ok();
    let url = person.site.server.url();
    let variables = [("BATON_URL", url.as_str()), ("BATON_API_KEY", API_KEY)];
    let mut watch = Process::spawn(BATON, ["run", "list", "--watch"], variables);
    let mut lines = Process::spawn(BATON, ["run", "list", "--watch", "-o", "jsonl"], variables);
    watch.wait_for_line("first", PATIENCE).await;
    lines.wait_for_line("\"type\":\"first\"", PATIENCE).await;
    person.site.server.kill9();
    watch.wait_for_line("still trying, until Ctrl-C", PATIENCE).await;
    person.site.server.restart().await;
    person.baton(&["run", "submit", "second"]).await.ok();
    watch.wait_for_line("second", PATIENCE).await;
    lines.wait_for_line("\"type\":\"second\"", PATIENCE).await;
    let printed = watch.output();
    assert_eq!(printed.matches("first").count(), 1, "what has not changed is not repeated: {printed}");
    for watching in [&mut watch, &mut lines] {
        watching.sigint();
        assert_eq!(watching.wait(PATIENCE).await.code(), Some(0), "{}", watching.output());
    }
    let gone = format!("http://127.0.0.1:{}", baton_testkit::free_port());
    let never = person.baton(&["run", "list", "--watch", "--url", &gone]).await;
    assert_eq!(never.code, 5, "a server that was never there is no outage: {never:?}");
}

async fn whoever_waits_is_told_why(store: Store) {
    let person = Person::new(store).await;
    let url = person.site.server.url();
    let variables = [("BATON_URL", url.as_str()), ("BATON_API_KEY", API_KEY)];
    let mut waiting = Process::spawn(BATON, ["run", "submit", "job", "--queue", "work", "--wait"], variables);
    let line = waiting.wait_for_line("still waiting: ", PATIENCE).await;
    assert!(line.contains("worker"), "{line}");
    person.baton(&["queue", "pause", "work"]).await.ok();
    let changed = waiting.wait_for_line("paused", PATIENCE).await;
    assert!(changed.contains("still waiting: "), "{changed}");
    assert_eq!(waiting.output().matches("still waiting: ").count(), 2, "once for each reason: {}", waiting.output());
    waiting.sigkill();
    let mut workflow = Process::spawn(BATON, ["workflow", "start", "order", "--wait"], variables);
    workflow.wait_for_line("still waiting: ", PATIENCE).await;
    workflow.sigkill();
}

on_both_stores!(
    every_list_fits_eighty_columns,
    short_ids_are_taken_wherever_whole_ones_are,
    an_ambiguous_id_is_answered_with_its_candidates,
    a_list_is_watched_across_a_restart,
    whoever_waits_is_told_why,
);

#[tokio::test]
async fn old_spellings_are_still_understood() {
    let home = tempfile::tempdir().unwrap();
    let closed = format!("http://127.0.0.1:{}", baton_testkit::free_port());
    let old: [&[&str]; 4] = [
        &["pool", "show", "linux"],
        &["build", "status", "0198c1f2-0000-7000-8000-000000000000"],
        &["build", "list", "--status", "failed"],
        &["worker", "list", "--status", "ONLINE"],
    ];
    for arguments in old {
        let said = baton(home.path(), [("BATON_URL", closed.as_str())], arguments, "").await;
        assert_eq!(said.code, 5, "nobody is there, but the words are known: {said:?}");
    }
}
