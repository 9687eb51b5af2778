//! `baton worker`, `baton queue`, `baton key` and `baton doctor`.

use baton_core::State;
use baton_testkit::Process;
use serde_json::json;

use super::{Person, baton};
use crate::on_both_stores;
use crate::site::{API_KEY, BATON, Store, job, submit, worker};
use crate::verdict::wait_for_count;
use crate::wait::PATIENCE;

async fn workers_are_listed_drained_and_forced_offline(store: Store) {
    let person = Person::new(store).await;
    let client = person.site.client();
    let gate = person.site.gate();
    let url = person.site.server.url();
    let mut first = worker(&url, 1, &gate.command());
    let mut second = worker(&url, 1, "exec sleep 600");
    submit(&client, vec![job(); 2]).await;
    wait_for_count(&client, State::Running, 2).await;
    let page = person.json(&["worker", "list", "--state", "online", "--queue", "work", "--total"]).await;
    assert_eq!((page["workers"].as_array().unwrap().len(), &page["total"]), (2, &json!(2)));
    let find = |pid: u32| {
        let workers = page["workers"].as_array().unwrap().iter();
        workers
            .filter(|worker| worker["pid"] == json!(pid))
            .map(|worker| worker["id"].as_str().unwrap())
            .next()
            .unwrap()
    };
    let (drained, forced) = (find(first.pid()), find(second.pid()));
    assert_eq!(person.json(&["worker", "get", drained]).await["active"], json!(1));
    assert!(person.baton(&["worker", "get", drained]).await.ok().contains("ONLINE"));
    let listed = person.baton(&["worker", "ls"]).await.ok();
    assert!(listed.contains(&forced[30..]) && !listed.contains(forced), "{listed}");
    assert!(person.baton(&["worker", "ls", "-o", "wide"]).await.ok().contains(forced));

    assert_eq!(person.json(&["worker", "drain", drained]).await["status"], json!("DRAINING"));
    gate.open();
    assert_eq!(first.wait(PATIENCE).await.code(), Some(0), "{}", first.output());
    assert!(first.output().contains("deregistered"), "{}", first.output());
    wait_for_count(&client, State::Completed, 1).await;

    assert_eq!(person.json(&["worker", "offline", forced]).await["given_back"], json!(1));
    // It is told, stops what it was doing, and comes back as a new incarnation, which gets the run again.
    second.wait_for_line("given up by the server", PATIENCE).await;
    second.wait_for_line("epoch=2", PATIENCE).await;
    let again = person.json(&["worker", "list", "--status", "ONLINE"]).await;
    assert_ne!(again["workers"][0]["id"], json!(forced));
    assert_eq!(again["workers"].as_array().unwrap().len(), 1);
    second.sigkill();
}

async fn queues_are_paused_limited_and_watched(store: Store) {
    let person = Person::new(store).await;
    submit(&person.site.client(), vec![job(); 3]).await;
    let queues = person.json(&["queue", "list"]).await;
    assert_eq!((&queues["queues"][0]["name"], &queues["queues"][0]["ready"]), (&json!("work"), &json!(3)));
    assert!(person.baton(&["queue", "ls", "--namespace", "default"]).await.ok().contains("work"));
    assert_eq!(person.json(&["queue", "pause", "work", "--for", "10m"]).await["paused"], json!(true));
    assert!(person.baton(&["queue", "pause", "work"]).await.ok().contains("yes"));
    assert_eq!(person.json(&["queue", "resume", "work"]).await["paused"], json!(false));
    let limited = person.json(&["queue", "limit", "work", "--rate", "5", "--per-key", "2", "--backlog", "3"]).await;
    assert_eq!((&limited["rate_per_second"], &limited["key_limit"]), (&json!(5.0), &json!(2)));
    let full = person.baton(&["run", "submit", "job", "--queue", "work"]).await;
    assert_eq!(full.code, 4, "{full:?}");
    assert!(full.err.contains("full"), "{full:?}");
    let cleared = person.json(&["queue", "limit", "work", "--rate", "none"]).await;
    assert_eq!(cleared.get("rate_per_second"), None);

    let url = person.site.server.url();
    let variables = [("BATON_URL", url.as_str()), ("BATON_API_KEY", API_KEY)];
    let watch = Process::spawn(BATON, ["run", "watch", "--queue", "work"], variables);
    watch.wait_for_line("3 ready", PATIENCE).await;
}

async fn keys_are_made_used_and_revoked(store: Store) {
    let person = Person::new(store).await;
    let made = person.json(&["key", "create", "ci", "--scope", "submit", "--scope", "read"]).await;
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    let plain = person.baton(&["key", "create", "other", "--scope", "worker", "--namespace", "mobile"]).await.ok();
    assert!(plain.starts_with("bk_"), "{plain}");
    let listed = person.json(&["key", "list"]).await;
    let names: Vec<_> = listed["keys"].as_array().unwrap().iter().map(|key| key["name"].clone()).collect();
    assert!(names.contains(&json!("ci")) && names.contains(&json!("other")), "{listed}");
    assert!(!listed.to_string().contains(key), "a key is shown once");

    person.baton(&["run", "submit", "job", "--api-key", key]).await.ok();
    let forbidden = person.baton(&["key", "list", "--api-key", key]).await;
    assert_eq!(forbidden.code, 4, "{forbidden:?}");
    assert!(person.baton(&["key", "revoke", id]).await.ok().contains(id));
    assert_eq!(person.baton(&["run", "list", "--api-key", key]).await.code, 4);
    assert_eq!(person.baton(&["key", "revoke", "key_nobody"]).await.code, 3);
}

async fn the_doctor_finds_what_is_well_and_what_is_not(store: Store) {
    let person = Person::new(store).await;
    let report = person.json(&["doctor"]).await;
    assert_eq!(report["ok"], json!(true), "{report}");
    assert!(report["checks"].as_array().unwrap().iter().any(|check| check["name"] == json!("API key")), "{report}");
    assert!(person.baton(&["doctor"]).await.ok().contains("answers"));

    let wrong = person.baton(&["doctor", "--api-key", "a-key-that-nobody-knows"]).await;
    assert_eq!(wrong.code, 1, "{wrong:?}");
    assert!(wrong.out.contains("FAIL") && wrong.out.contains("API key"), "{wrong:?}");
    let nowhere = [("BATON_LEASE_TTL_MS", "soon"), ("BATON_URL", "http://127.0.0.1:1")];
    let said = baton(person.site.home.path(), nowhere, &["doctor", "--json"], "").await;
    let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let failed = report["checks"].as_array().unwrap().iter().filter(|check| check["status"] == json!("fail"));
    assert_eq!((said.code, failed.count()), (1, 2), "settings and server: {report}");
}

on_both_stores!(
    workers_are_listed_drained_and_forced_offline,
    queues_are_paused_limited_and_watched,
    keys_are_made_used_and_revoked,
    the_doctor_finds_what_is_well_and_what_is_not,
);
