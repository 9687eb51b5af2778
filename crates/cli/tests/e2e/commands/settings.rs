//! Settings that are changed while a server runs, and hold after it was killed and started again.

use baton_testkit::Baton;
use serde_json::{Value, json};

use super::{Said, baton};
use crate::on_both_stores;
use crate::site::{API_KEY, Store};

async fn a_changed_setting_wins_and_survives_a_restart(store: Store) {
    let database = match store {
        Store::Sqlite => None,
        Store::Postgres => Some(baton_testkit::database().await),
    };
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let mut arguments = vec!["--data", data.to_str().unwrap(), "--api-key", API_KEY];
    arguments.extend(database.iter().flat_map(|database| ["--database", database.url()]));
    let environment = [("BATON_BUILD_STUCK_MS", "77000")];
    let call = async |server: &Baton, arguments: &[&str]| -> Said {
        let url = server.url();
        baton(home.path(), [("BATON_URL", url.as_str()), ("BATON_API_KEY", API_KEY)], arguments, "").await
    };
    let get = async |server: &Baton| -> Value {
        serde_json::from_str(&call(server, &["settings", "get", "build_stuck_ms", "--json"]).await.ok()).unwrap()
    };

    let mut server = Baton::serve(&arguments, &environment).await;
    let before = get(&server).await;
    assert_eq!((&before["value"], &before["source"]), (&json!(77_000), &json!("environment")));
    let set = call(&server, &["settings", "set", "build_stuck_ms=2h", "build_polls_burst=20"]).await.ok();
    assert!(set.contains("  2h  ") && set.contains("stored") && set.contains("build_polls_burst"), "{set}");
    server.kill9();

    let server = Baton::serve(&arguments, &environment).await;
    let after = get(&server).await;
    assert_eq!((&after["value"], &after["source"]), (&json!(7_200_000), &json!("stored")));
    assert_eq!((&after["default"], &after["default_source"]), (&json!(77_000), &json!("environment")));
    let listed = call(&server, &["settings", "list"]).await.ok();
    let line = listed.lines().find(|line| line.starts_with("build_stuck_ms")).unwrap();
    assert!(line.contains("  2h  ") && line.contains("1m17s") && line.contains("stored"), "{line}");

    let refused = call(&server, &["settings", "set", "build_stuck_ms=3h", "build_polls_burst=many"]).await;
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.err.contains("build_polls_burst must be a whole number"), "{refused:?}");
    assert_eq!(get(&server).await, after, "all or none");
    let unknown = call(&server, &["settings", "get", "build_stuk_ms"]).await;
    assert!(unknown.code == 3 && unknown.err.contains("mean build_stuck_ms?"), "{unknown:?}");
    assert_eq!(call(&server, &["settings", "set", "build_stuck_ms"]).await.code, 2);
    assert_eq!(call(&server, &["settings", "set", "build_stuck_ms=1", "build_stuck_ms=2"]).await.code, 2);

    let reset = call(&server, &["settings", "reset", "build_stuck_ms", "build_polls_burst", "--json"]).await.ok();
    let reset: Value = serde_json::from_str(&reset).unwrap();
    assert_eq!(reset["settings"].as_array().unwrap().len(), 2);
    assert_eq!(get(&server).await, before);
}

on_both_stores!(a_changed_setting_wins_and_survives_a_restart);
