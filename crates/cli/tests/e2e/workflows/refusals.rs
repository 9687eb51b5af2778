//! What `baton workflow` says when something is wrong, and how it ends then.

use crate::commands::Person;
use crate::site::Store;

const NOBODY: &str = "0198c1f2-0000-7000-8000-000000000000";

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_said_with_the_right_exit_code_and_of_the_flag_that_was_typed() {
    let person = Person::new(Store::Sqlite).await;
    let run = person.baton(&["workflow", "start", "later", "--delay", "1h", "--idempotency-key", "k"]).await.ok();
    let closed = format!("http://127.0.0.1:{}", baton_testkit::free_port());
    let cases: [(i32, &[&str], &str); 25] = [
        (2, &["start", "order", "--input", "not JSON"], "--input is not JSON"),
        (2, &["start", "order", "--input", "@/no/such/file"], "--input: cannot read /no/such/file"),
        (2, &["start", "order", "--delay", "1s", "--at", "2099-01-31T09:30:00Z"], "cannot be used with"),
        (2, &["start", "order", "--at", "tomorrow"], "is not a time like"),
        (2, &["start", "order", "--timeout", "0s"], "it must be longer than nothing"),
        (2, &["start", "order", "--max-attempts", "0"], "'--max-attempts <N>'"),
        (2, &["list", "--state", "asleep"], "one of pending,"),
        (2, &["list", "--limit", "0"], "'--limit <LIMIT>'"),
        (2, &["signal", &run, "go", "--payload", "yes"], "--payload is not JSON"),
        (3, &["get", NOBODY], NOBODY),
        (3, &["result", NOBODY], NOBODY),
        (3, &["history", NOBODY], NOBODY),
        (3, &["steps", NOBODY], NOBODY),
        (3, &["signal", NOBODY, "go"], NOBODY),
        (3, &["query", &run], "has not published anything"),
        (4, &["get", "order-17"], "RUN must be the identifier of a run"),
        (4, &["start", ""], "TYPE must not be empty"),
        (4, &["start", "order@2"], "a version goes into pin_version"),
        (4, &["start", "order", "--delay", "99999d"], "--at must be at most 100 years from now"),
        (4, &["start", "order", "--idempotency-key", "k"], "idempotency"),
        (4, &["cancel", &run, "--grace", "9999d"], "--grace must be at most 365 days"),
        (4, &["signal", &run, ""], "NAME must not be empty"),
        (4, &["list", "--cursor", "x"], "--cursor must be"),
        (4, &["list", "--api-key", "a-key-that-nobody-knows"], "--api-key"),
        (5, &["result", NOBODY, "--url", &closed], "cannot reach the server"),
    ];
    for (code, arguments, words) in cases {
        let arguments: Vec<&str> = ["workflow"].iter().chain(arguments).copied().collect();
        let said = person.baton(&arguments).await;
        assert_eq!(said.code, code, "{arguments:?}: {said:?}");
        assert!(said.err.contains(words), "{arguments:?}: {said:?}");
    }
    assert_eq!(person.baton(&["workflow", "cancel", &run]).await.code, 0);
    let late = person.baton(&["workflow", "signal", &run, "go"]).await;
    assert!(late.code == 4 && late.err.contains("cancelled"), "{late:?}");
}
