//! `baton run`, with `baton worker run` at the other end.

use serde_json::json;

use super::{Person, baton};
use crate::on_both_stores;
use crate::site::{API_KEY, Store, worker};
use crate::wait::PATIENCE;

async fn runs_are_submitted_followed_and_repeated(store: Store) {
    let person = Person::new(store).await;
    let input = person.site.home.path().join("input.json");
    std::fs::write(&input, r#"{"name":"Ada"}"#).unwrap();
    let from_file = format!("@{}", input.display());
    let url = person.site.server.url();
    let echo = worker(&url, 2, "cat");

    // Waits for the run and prints what came out of it.
    let said = person.baton(&["run", "submit", "job", "--queue", "work", "--input", &from_file, "--wait"]).await;
    let id = said.err.lines().next().unwrap().to_owned();
    assert_eq!(said.ok(), r#"{"name":"Ada"}"#);
    // The same from the standard input, as JSON.
    let variables = [("BATON_URL", url.as_str()), ("BATON_API_KEY", API_KEY)];
    let arguments = ["run", "submit", "job", "-q", "work", "--input", "-", "--wait", "--json"];
    let piped = baton(person.site.home.path(), variables, &arguments, "[1,2,3]").await.ok();
    let piped: serde_json::Value = serde_json::from_str(&piped).unwrap();
    assert_eq!((&piped["output"], &piped["state"]), (&json!([1, 2, 3]), &json!("completed")));

    assert_eq!(person.json(&["run", "get", &id]).await["output"], json!({"name": "Ada"}));
    assert!(person.baton(&["run", "get", &id]).await.ok().contains("completed"));
    let long = format!("\"{}\"", "x".repeat(70_000));
    std::fs::write(person.site.home.path().join("long.json"), &long).unwrap();
    let long_id = person.baton(&["run", "submit", "long", "--input", "@long.json"]).await.ok();
    assert!(person.baton(&["run", "get", &long_id]).await.ok().contains(&long));
    let history = person.json(&["run", "history", &id]).await;
    let words: Vec<_> = history["events"].as_array().unwrap().iter().map(|event| event["event"].clone()).collect();
    assert_eq!(words, ["submitted", "claimed", "started", "lease_ended", "completed"]);
    assert!(person.baton(&["run", "history", &id]).await.ok().contains("lease_ended"));
    assert!(person.baton(&["run", "watch", &id]).await.ok().contains("completed"));
    assert_eq!(person.json(&["run", "explain", &id]).await["reasons"], json!([]));

    let again = person.json(&["run", "retry", &id]).await;
    assert_eq!(again["retry_of"], json!(id));
    let followed = person.baton(&["run", "watch", again["id"].as_str().unwrap()]).await.ok();
    assert!(followed.contains("Ada"), "{followed}");

    let page =
        person.json(&["run", "list", "--queue", "work", "--state", "completed", "--total", "--limit", "2"]).await;
    assert_eq!((page["runs"].as_array().unwrap().len(), &page["total"]), (2, &json!(3)));
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = person.json(&["run", "list", "--queue", "work", "--limit", "2", "--cursor", cursor]).await;
    assert_eq!(rest["runs"][0]["id"], json!(id), "newest first, so the first run is last");
    assert!(person.baton(&["run", "ls"]).await.ok().contains(&id[30..]));
    echo.wait_for_line("reported", PATIENCE).await;
}

async fn runs_that_wait_are_explained_and_cancelled(store: Store) {
    let person = Person::new(store).await;
    let arguments = ["run", "submit", "job", "--delay", "1h", "--priority", "9", "--key", "k", "--affinity", "a"];
    let arguments = arguments.iter().chain(&["--idempotency-key", "once", "--max-attempts", "5", "--timeout", "10m"]);
    let arguments: Vec<&str> = arguments.copied().collect();
    let id = person.baton(&arguments).await.ok();
    let again = person.json(&arguments).await;
    assert_eq!((&again["id"], &again["created"]), (&json!(id), &json!(false)));
    let explained = person.json(&["run", "explain", &id]).await;
    assert_eq!(explained["reasons"][0]["code"], json!("due_later"), "{explained}");
    assert!(person.baton(&["run", "explain", &id]).await.ok().starts_with("pending"));
    let due = person.json(&["run", "submit", "job", "--due-at", "2099-01-31T09:30:00Z"]).await;
    assert_eq!(due["due_at"], json!("2099-01-31T09:30:00.000Z"));

    assert_eq!(person.json(&["run", "cancel", &id]).await["state"], json!("cancelled"));
    let watched = person.baton(&["run", "watch", &id]).await;
    assert_eq!(watched.code, 1, "{watched:?}");
    assert!(watched.err.contains("cancelled"), "{watched:?}");
}

async fn a_failed_run_ends_the_command_with_1(store: Store) {
    let person = Person::new(store).await;
    let _worker = worker(&person.site.server.url(), 1, "echo it broke >&2; exit 3");
    let submit = ["run", "submit", "job", "--queue", "work", "--max-attempts", "1", "--wait"];
    let said = person.baton(&submit).await;
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("failed (error)") && said.err.contains("it broke"), "{said:?}");
    let arguments: Vec<&str> = submit.iter().copied().chain(["--json"]).collect();
    let said = person.baton(&arguments).await;
    let run: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((said.code, &run["state"], &run["reason"]), (1, &json!("failed"), &json!("error")));
    assert_eq!(person.baton(&["run", "watch", run["id"].as_str().unwrap()]).await.code, 1);
}

on_both_stores!(
    runs_are_submitted_followed_and_repeated,
    runs_that_wait_are_explained_and_cancelled,
    a_failed_run_ends_the_command_with_1,
);
