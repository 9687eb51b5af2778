//! Exit codes: 0 done, 1 the run failed (see runs.rs), 2 usage, 3 not found, 4 refused, 5 unreachable.

use super::{Person, baton};
use crate::site::Store;

const NOBODY: &str = "0198c1f2-0000-7000-8000-000000000000";

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_say_what_went_wrong() {
    let person = Person::new(Store::Sqlite).await;
    let closed = format!("http://127.0.0.1:{}", baton_testkit::free_port());
    let cases: [(i32, &[&str]); 17] = [
        (0, &["run", "list"]),
        (0, &["--version"]),
        (2, &[]),
        (2, &["run", "list", "--no-such-flag"]),
        (2, &["run", "submit", "job", "--input", "not JSON"]),
        (2, &["run", "submit", "job", "--input", "@/no/such/file"]),
        (2, &["run", "submit", "job", "--delay", "soon"]),
        (2, &["run", "list", "--url", "https://127.0.0.1:1"]),
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

/// A server on the same machine leaves its key where the other commands look for it.
#[tokio::test(flavor = "multi_thread")]
async fn the_key_is_found_in_the_data_directory() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let server = baton_testkit::Baton::serve(&["--data", data.to_str().unwrap()], &[]).await;
    let url = server.url();
    let by_variable = [("BATON_URL", url.as_str()), ("BATON_DATA", data.to_str().unwrap())];
    assert_eq!(baton(home.path(), by_variable, &["key", "list"], "").await.code, 0);
    let by_flag = ["key", "list", "--data", data.to_str().unwrap()];
    assert_eq!(baton(home.path(), [("BATON_URL", url.as_str())], &by_flag, "").await.code, 0);
    let user_data = home.path().join(".local/share");
    std::fs::create_dir_all(&user_data).unwrap();
    std::os::unix::fs::symlink(&data, user_data.join("baton")).unwrap();
    assert_eq!(baton(home.path(), [("BATON_URL", url.as_str())], &["key", "list"], "").await.code, 0);
}
