//! Exit codes: 0 done, 1 the run failed (see runs.rs), 2 usage, 3 not found, 4 refused, 5 unreachable.

use super::{Person, baton};
use crate::site::Store;

const NOBODY: &str = "0198c1f2-0000-7000-8000-000000000000";

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_say_what_went_wrong() {
    let person = Person::new(Store::Sqlite).await;
    let closed = format!("http://127.0.0.1:{}", baton_testkit::free_port());
    let cases: [(i32, &[&str]); 18] = [
        (0, &["run", "list"]),
        (0, &["--version"]),
        (2, &[]),
        (2, &["run", "list", "--no-such-flag"]),
        (2, &["run", "submit", "job", "--input", "not JSON"]),
        (2, &["run", "submit", "job", "--input", "@/no/such/file"]),
        (2, &["run", "submit", "job", "--delay", "soon"]),
        (2, &["run", "list", "--url", "ftp://127.0.0.1:1"]),
        (5, &["run", "list", "--url", "https://127.0.0.1:1"]),
        (2, &["serve", "--listen", "nowhere"]),
        (2, &["worker", "run", "--type", "job", "--exec", "cat", "--log", "=,="]),
        (3, &["run", "get", NOBODY]),
        (3, &["worker", "get", NOBODY]),
        (3, &["run", "watch", NOBODY]),
        (4, &["run", "list", "--api-key", "a-key-that-nobody-knows"]),
        (4, &["run", "submit", ""]),
        (5, &["run", "list", "--url", &closed]),
        (5, &["queue", "list", "--url", &closed, "--json"]),
    ];
    for (code, arguments) in cases {
        let said = person.baton(arguments).await;
        assert_eq!(said.code, code, "{arguments:?}: {said:?}");
        assert!(code == 0 || !said.err.is_empty(), "{arguments:?} says nothing");
        assert!(!said.err.contains("panicked"), "{arguments:?}: {said:?}");
    }
    let url = person.site.server.url();
    let without_key = baton(person.site.home.path(), [("BATON_URL", url.as_str())], &["run", "list"], "").await;
    assert_eq!(without_key.code, 4, "{without_key:?}");
    assert!(without_key.err.contains("BATON_API_KEY"), "{without_key:?}");
}

/// Whoever typed a flag is not told of a field of the API.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_said_in_the_words_of_the_command_line() {
    let person = Person::new(Store::Sqlite).await;
    let cases: [(i32, &[&str], &str); 20] = [
        (4, &["run", "submit", ""], "TYPE must not be empty"),
        (4, &["run", "submit", "job", "--queue", ""], "--queue must not be empty"),
        (4, &["run", "submit", "job", "--max-attempts", "0"], "--max-attempts must be 1 to 10000, not 0"),
        (4, &["run", "submit", "job", "--timeout", "9999d"], "--timeout must be at most 365 days"),
        (2, &["run", "submit", "job", "--timeout", "0s"], "'--timeout <SPAN>': it must be longer than nothing"),
        (4, &["run", "submit", "job", "--idempotency-key", ""], "--idempotency-key must not be empty"),
        (4, &["run", "submit", "job", "--key", "a\tb"], "--key must not contain control characters"),
        (4, &["run", "submit", "job", "--delay", "99999d"], "a run can be due at most 100 years from now"),
        (4, &["run", "list", "--limit", "0"], "--limit must be 1 to 1000"),
        (4, &["run", "list", "--cursor", "x"], "--cursor must be taken from an earlier page"),
        (4, &["worker", "list", "--limit", "9999"], "--limit must be 1 to 1000"),
        (4, &["audit", "list", "--limit", "0"], "--limit must be 1 to 1000"),
        (4, &["worker", "run", "--type", "", "--exec", "cat"], "--type must not be empty"),
        (4, &["worker", "run", "--type", "a", "--exec", "cat", "--label", "=x"], "--label must not be empty"),
        (4, &["key", "create", "", "--scope", "read"], "NAME must not be empty"),
        (4, &["queue", "pause", ""], "QUEUE must not be empty"),
        (4, &["queue", "limit", "work", "--create", "--rate", "-1"], "--rate must be above 0"),
        (4, &["queue", "limit", "work", "--create", "--per-key", "0"], "--per-key must be at least 1"),
        (2, &["queue", "limit", "work", "--per-key", "-1"], "'--per-key <RUNS>': a number or `none` is wanted"),
        (2, &["queue", "pause", "work", "--for", "0s"], "'--for <SPAN>': it must be longer than nothing"),
    ];
    for (code, arguments, words) in cases {
        let said = person.baton(arguments).await;
        assert_eq!(said.code, code, "{arguments:?}: {said:?}");
        assert!(said.err.contains(words), "{arguments:?}: {said:?}");
    }
}

/// A server on the same machine leaves its key where the other commands look for it.
#[tokio::test(flavor = "multi_thread")]
async fn the_key_is_found_in_the_data_directory() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let mut server = baton_testkit::Baton::serve(&["--data", data.to_str().unwrap()], &[]).await;
    let url = server.url();
    let by_variable = [("BATON_URL", url.as_str()), ("BATON_DATA", data.to_str().unwrap())];
    assert_eq!(baton(home.path(), by_variable, &["key", "list"], "").await.code, 0);
    let by_flag = ["key", "list", "--data", data.to_str().unwrap()];
    assert_eq!(baton(home.path(), [("BATON_URL", url.as_str())], &by_flag, "").await.code, 0);
    let user_data = home.path().join(".local/share");
    std::fs::create_dir_all(&user_data).unwrap();
    std::os::unix::fs::symlink(&data, user_data.join("baton")).unwrap();
    assert_eq!(baton(home.path(), [("BATON_URL", url.as_str())], &["key", "list"], "").await.code, 0);
    // It is for the server that left it, and for nobody who listens elsewhere, or after it.
    let elsewhere = url.replace("127.0.0.1", "127.1");
    let refused = baton(home.path(), [("BATON_URL", elsewhere.as_str())], &["key", "list"], "").await;
    assert!(refused.code == 4 && refused.err.contains("only to the server that left it there"), "{refused:?}");
    server.stop().await;
    let stopped = baton(home.path(), [("BATON_DATA", data.to_str().unwrap())], &["key", "list"], "").await;
    let expected = format!("no server is running for {}; start it with baton serve", data.display());
    assert!(stopped.code == 5 && stopped.err.contains(&expected), "{stopped:?}");
}
