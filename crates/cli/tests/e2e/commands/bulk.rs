//! `baton run cancel` and `baton run retry` with filters, and `baton bulk`.

use serde_json::json;

use super::Person;
use crate::on_both_stores;
use crate::site::Store;

async fn runs_that_match_are_cancelled_and_retried(store: Store) {
    let person = Person::new(store).await;
    for queue in ["mail", "mail", "mail", "other"] {
        person.baton(&["run", "submit", "job", "--queue", queue, "--delay", "1h"]).await.ok();
    }
    let counted = person.json(&["run", "cancel", "--queue", "mail", "--dry-run"]).await;
    assert_eq!((&counted["matched"], counted["sample"].as_array().unwrap().len()), (&json!(3), 3));
    let told = person.baton(&["run", "cancel", "-q", "mail", "--dry-run"]).await.ok();
    assert!(told.starts_with("3 runs match: queue mail, state pending,assigned,running,sleeping"), "{told}");
    // Nobody sits there who could be asked.
    let asked = person.baton(&["run", "cancel", "--queue", "mail"]).await;
    assert!(asked.code == 2 && asked.err.contains("--yes"), "{asked:?}");
    let nothing = person.baton(&["run", "cancel"]).await;
    assert!(nothing.code == 2 && nothing.err.contains("--queue"), "{nothing:?}");
    let both = person.baton(&["run", "cancel", "e9d1aa", "--queue", "mail"]).await;
    assert_eq!(both.code, 2, "{both:?}");
    let ended = person.baton(&["run", "cancel", "--state", "completed", "--yes"]).await;
    assert!(ended.code == 4 && ended.err.contains("--state must be one of pending"), "{ended:?}");
    let fast = person.baton(&["run", "cancel", "--queue", "mail", "--rate", "99999999", "--yes"]).await;
    assert!(fast.code == 4 && fast.err.contains("--rate must be"), "{fast:?}");

    let done = person.baton(&["run", "cancel", "--queue", "mail", "--yes", "--reason", "a test"]).await.ok();
    assert_eq!(done, "cancelled 3 runs, 0 skipped, 0 failed");
    let none = person.baton(&["run", "cancel", "--queue", "mail", "--yes"]).await.ok();
    assert!(none.starts_with("0 runs match"), "{none}");
    let retried = person.json(&["run", "retry", "--queue", "mail", "--state", "cancelled", "--yes"]).await;
    assert_eq!((&retried["state"], &retried["done"]), (&json!("completed"), &json!(3)));
    let detached = person.baton(&["run", "cancel", "--all", "--yes", "--detach"]).await.ok();
    let listed = person.json(&["bulk", "list"]).await;
    let ids: Vec<&str> = listed["operations"].as_array().unwrap().iter().filter_map(|one| one["id"].as_str()).collect();
    assert_eq!((ids.len(), ids[0]), (3, detached.as_str()), "newest first");
    let table = person.baton(&["bulk", "ls"]).await.ok();
    assert!(table.contains("retry") && table.contains(&detached[30..]), "{table}");
    let shown = person.baton(&["bulk", "get", &detached[30..]]).await.ok();
    assert!(shown.contains("matched") && shown.contains("cancel"), "{shown}");
    let first = person.baton(&["bulk", "get", ids[2]]).await.ok();
    assert!(first.contains("a test"), "{first}");
    let stopped = person.json(&["bulk", "stop", &detached]).await;
    assert_eq!(stopped["id"], json!(detached));
    assert_eq!(person.baton(&["bulk", "get", "0198c1f2-0c2b-7000-8000-5a0c2be9d1aa"]).await.code, 3);
}

on_both_stores!(runs_that_match_are_cancelled_and_retried);
