//! `baton login` and `baton context`: several servers, and keys that go to their own alone.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use baton_testkit::Baton;
use serde_json::{Value, json};

use super::{Said, baton};
use crate::site::API_KEY;

const OTHER_KEY: &str = "another-key-for-end-to-end-tests";

async fn serve(home: &Path, name: &str, key: &str) -> Baton {
    let data = home.join(name);
    Baton::serve(&["--data", data.to_str().unwrap(), "--api-key", key], &[]).await
}

async fn call(home: &Path, arguments: &[&str]) -> Said {
    baton(home, [], arguments, "").await
}

async fn queues(home: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Vec<Value> {
    let arguments = [arguments, &["queue", "list", "--json"]].concat();
    let said = baton(home, variables.iter().copied(), &arguments, "").await.ok();
    let queues: Value = serde_json::from_str(&said).unwrap();
    queues["queues"].as_array().unwrap().iter().map(|queue| queue["name"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_logged_in_to_chosen_and_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path();
    let (one, two) = (serve(home, "one", API_KEY).await, serve(home, "two", OTHER_KEY).await);
    let (one, two) = (one.url(), two.url());
    let login = async |url: &str, name: &str, key: &str| {
        baton(home, [], &["login", url, "--name", name], &format!("{key}\n")).await
    };
    let wrong = login(&one, "one", "a-key-that-nobody-knows").await;
    assert!(wrong.code == 4 && wrong.err.contains("Nothing was kept"), "{wrong:?}");
    assert!(!home.join(".config/baton/contexts.toml").exists());
    assert_eq!(login("http://127.0.0.1:1", "none", "x").await.code, 5);
    assert_eq!(login("ftp://here", "none", "x").await.code, 2);
    assert_eq!(login(&one, "one", "").await.code, 2);

    login(&one, "one", API_KEY).await.ok();
    login(&two, "two", OTHER_KEY).await.ok();
    let file = home.join(".config/baton/contexts.toml");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    for (name, context) in [("first", "one"), ("second", "two")] {
        call(home, &["queue", "pause", name, "--create", "--context", context]).await.ok();
    }
    assert_eq!(queues(home, &[], &[]).await, [json!("second")], "the last login is in use");
    let listed = call(home, &["context", "list", "--json"]).await.ok();
    assert!(!listed.contains(API_KEY) && !listed.contains(OTHER_KEY), "no key is shown: {listed}");
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&listed["contexts"][1]["name"], &listed["contexts"][1]["current"]), (&json!("two"), &json!(true)));
    call(home, &["context", "use", "one"]).await.ok();
    assert_eq!(queues(home, &[], &[]).await, [json!("first")]);

    let unknown = call(home, &["context", "use", "tow"]).await;
    assert!(unknown.code == 3 && unknown.err.contains("Did you mean two?"), "{unknown:?}");
    assert_eq!(call(home, &["queue", "list", "--context", "tow"]).await.code, 3);
    assert_eq!(call(home, &["context", "remove", "one"]).await.ok(), "removed one");
    let nobody = call(home, &["queue", "list"]).await;
    assert!(nobody.code == 5 && nobody.err.contains("baton login"), "{nobody:?}");
    assert!(!std::fs::read_to_string(&file).unwrap().contains(API_KEY));
}

/// Flags before the environment, that before the context, and that before the server of this machine.
#[tokio::test(flavor = "multi_thread")]
async fn the_nearest_word_about_the_server_counts() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path();
    let (one, two) = (serve(home, "one", API_KEY).await, serve(home, "two", OTHER_KEY).await);
    // The server of this machine, in the user's data directory.
    let here = home.join(".local/share/baton");
    let _own = Baton::serve(&["--data", here.to_str().unwrap()], &[]).await;
    call(home, &["queue", "pause", "own", "--create"]).await.ok();
    assert_eq!(queues(home, &[], &[]).await, [json!("own")]);
    let (one, two) = (one.url(), two.url());
    for (url, name, key, queue) in [(&two, "two", OTHER_KEY, "second"), (&one, "one", API_KEY, "first")] {
        baton(home, [], &["login", url, "--name", name], key).await.ok();
        call(home, &["queue", "pause", queue, "--create"]).await.ok();
    }
    let (first, second, own) = ([json!("first")], [json!("second")], [json!("own")]);
    assert_eq!(queues(home, &[], &[]).await, first, "the context before the server of this machine");
    assert_eq!(
        queues(home, &[("BATON_CONTEXT", "two")], &[]).await,
        second,
        "the environment before the context in use"
    );
    assert_eq!(queues(home, &[("BATON_CONTEXT", "two")], &["--context", "one"]).await, first, "flags before all");
    let variables = [("BATON_URL", one.as_str()), ("BATON_API_KEY", API_KEY)];
    assert_eq!(queues(home, &variables, &["--context", "two"]).await, second, "also with another key around");
    assert_eq!(queues(home, &[("BATON_CONTEXT", "two")], &["--url", &one]).await, first);
    assert_eq!(queues(home, &[("BATON_CONTEXT", "two"), ("BATON_URL", &one)], &[]).await, first);
    assert_eq!(queues(home, &[], &["--data", here.to_str().unwrap()]).await, own, "whoever names a data directory");
    let both = call(home, &["queue", "list", "--url", &one, "--context", "two"]).await;
    assert_eq!(both.code, 2, "{both:?}");
    let elsewhere = one.replace("127.0.0.1", "localhost");
    let refused = call(home, &["queue", "list", "--url", &elsewhere]).await;
    assert_eq!(refused.code, 4, "the key of a context goes to its own URL alone: {refused:?}");
    call(home, &["context", "use", "--none"]).await.ok();
    assert_eq!(queues(home, &[], &[]).await, own);
}

#[tokio::test]
async fn pages_of_the_manual_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    call(directory.path(), &["man", pages.to_str().unwrap()]).await.ok();
    for page in ["baton.1", "baton-run-list.1", "baton-login.1"] {
        let text = std::fs::read_to_string(pages.join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
    assert!(!pages.join("baton-demo-worker.1").exists(), "what is hidden is in no manual");
}
