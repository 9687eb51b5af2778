//! Webhooks of the real program: received by other people's code, and by servers that are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton::Client;
use baton::proto::{CreateWebhook, WebhookFilter, WebhookView};
use baton_testkit::{Database, Process};
use serde_json::Value;
use tokio::time::sleep;

use crate::on_both_stores;
use crate::site::{API_KEY, BATON, Leases, Store, job, serve_with, submit};
use crate::wait::{PATIENCE, eventually, until_answered};

#[cfg(debug_assertions)]
on_both_stores!(every_event_arrives_although_the_server_is_killed);

/// Where `scripts/webhook-tools` puts its libraries.
const PLACE: &str = "webhook-tools-1";
/// A receiver that uses them.
const RECEIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/webhooks/receiver.py");
/// What the guide says of webhooks.
const GUIDE: &str = include_str!("../../../../../docs/webhooks.md");
/// The secret of the reference libraries.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// How often the server is killed at random.
const KILLS: usize = 6;

fn python() -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join(PLACE);
    assert!(place.join("ready").exists(), "no libraries in {}: run scripts/webhook-tools", place.display());
    place.join("bin/python")
}

async fn receiver() -> (Process, String) {
    let none: [(&str, &str); 0] = [];
    let receiver = Process::spawn(python(), [RECEIVER, SECRET, "slow"], none);
    let line = receiver.wait_for_line("receives on", PATIENCE).await;
    (receiver, format!("http://127.0.0.1:{}/", line.rsplit(' ').next().unwrap()))
}

/// Everything that was received.
fn received(receiver: &Process) -> Vec<Value> {
    let output = receiver.output();
    output.lines().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn subjects(received: &[Value]) -> BTreeSet<String> {
    received.iter().filter_map(|event| Some(event["subject"].as_str()?.to_owned())).collect()
}

fn was_told_of_a_gap(received: &[Value]) -> bool {
    received.iter().any(|event| event["type"] == "dev.baton.missed")
}

async fn made(client: &Client, url: &str) -> WebhookView {
    let wanted = CreateWebhook {
        name: "try".into(),
        namespace: None,
        url: url.into(),
        filter: WebhookFilter { kinds: vec!["run.submitted".into()], ..WebhookFilter::default() },
        secret: Some(SECRET.into()),
    };
    until_answered(|| client.create_webhook(&wanted)).await.unwrap()
}

#[cfg(debug_assertions)]
async fn every_event_arrives_although_the_server_is_killed(store: Store) {
    let (receiver, url) = receiver().await;
    let database = match store {
        Store::Sqlite => None,
        Store::Postgres => Some(baton_testkit::database().await),
    };
    let home = tempfile::tempdir().unwrap();
    let settings = [("BATON_WEBHOOK_ALLOW", "127.0.0.1"), ("BATON_WEBHOOK_TIMEOUT_MS", "2000")];
    let mut server = serve_with(home.path(), database.as_ref().map(Database::url), Leases::LONG, &settings).await;
    let client = crate::site::client(&server.url());
    made(&client, &url).await;
    let mut runs = BTreeSet::new();
    let arrived = async |runs: &BTreeSet<String>| {
        let all = async || subjects(&received(&receiver)).is_superset(runs).then_some(());
        eventually("all have arrived", all).await;
    };
    let gaps = || received(&receiver).iter().filter(|event| event["type"] == "dev.baton.missed").count();
    let settled = async || {
        let view = until_answered(|| client.webhooks(None, None, None)).await.unwrap().webhooks.remove(0);
        (view.waiting == 0).then_some(view)
    };
    // At each step between the event and the note of what came of the call.
    for ((point, _), kills) in baton_server::crash::WEBHOOK_POINTS.iter().zip(1..) {
        server.stop().await;
        server.restart_with(&[("BATON_CRASH_POINT", Some(point))]).await;
        runs.extend(submit(&client, vec![job()]).await);
        server.process().wait(PATIENCE).await;
        server.restart_with(&[("BATON_CRASH_POINT", None)]).await;
        arrived(&runs).await;
        if store == Store::Sqlite {
            // Where there are several servers, one has to be silent for a while before the others say so.
            eventually("the kill was told", async || (gaps() == kills).then_some(())).await;
        }
        eventually("nothing waits", settled).await;
    }
    // A server that stops by itself has lost nothing, and says nothing.
    let before = gaps();
    server.stop().await;
    server.restart().await;
    runs.extend(submit(&client, vec![job()]).await);
    arrived(&runs).await;
    let after = gaps();
    if store == Store::Sqlite {
        assert_eq!(before, after, "nothing was missed");
    }
    // At any moment at all.
    for _ in 0..KILLS {
        let more = submit(&client, (0..20).map(|_| job()).collect()).await;
        runs.extend(more);
        sleep(Duration::from_millis(RandomState::new().hash_one(0) % 400)).await;
        server.restart().await;
    }
    let all_or_told = async || {
        let received = received(&receiver);
        (subjects(&received).is_superset(&runs) || was_told_of_a_gap(&received)).then_some(())
    };
    eventually("all have arrived, or it was said that some have not", all_or_told).await;
    let view = eventually("nothing waits", settled).await;
    assert_eq!((view.state.as_str(), view.dead), ("active", 0));
    let received = received(&receiver);
    let errors: Vec<_> = received.iter().filter(|event| !event["error"].is_null()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    // What came twice is the same.
    let mut by_id = BTreeMap::new();
    for event in &received {
        let first = by_id.entry(event["id"].as_str().unwrap().to_owned()).or_insert(event);
        assert_eq!(*first, event);
    }
    let submitted = by_id.values().filter(|event| event["type"] == "dev.baton.run.submitted").count();
    assert!(submitted <= runs.len(), "{submitted} deliveries of {} runs", runs.len());
}

fn command(url: &str, arguments: &[&str]) -> Process {
    Process::spawn(BATON, arguments, [("BATON_URL", url), ("BATON_API_KEY", API_KEY)])
}

/// The output of a command, and whether it went well.
async fn said(url: &str, arguments: &[&str]) -> (String, bool) {
    let mut command = command(url, arguments);
    let went_well = command.wait(PATIENCE).await.success();
    (command.output(), went_well)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_receiver_of_the_guide_takes_what_the_command_line_sets_up() {
    let home = tempfile::tempdir().unwrap();
    let script = GUIDE.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let path = home.path().join("receiver.py");
    std::fs::write(&path, script).unwrap();
    let server = serve_with(home.path(), None, Leases::LONG, &[("BATON_WEBHOOK_ALLOW", "127.0.0.1")]).await;
    let (url, port) = (server.url(), baton_testkit::free_port().to_string());
    let target = format!("http://127.0.0.1:{port}/");
    let (made, went_well) =
        said(&url, &["webhook", "create", "try", &target, "--kind", "run.submitted", "--json"]).await;
    assert!(went_well, "{made}");
    let made: WebhookView = serde_json::from_str(&made).unwrap();
    let (failed, went_well) = said(&url, &["webhook", "test", "try"]).await;
    assert!(!went_well && failed.contains("no connection"), "{failed}");
    let secret = made.secret.unwrap();
    let receiver = Process::spawn("python3", [&path], [("PORT", port.as_str()), ("WEBHOOK_SECRET", &secret)]);
    let taken = async || {
        let (said, went_well) = said(&url, &["webhook", "test", "try"]).await;
        (went_well && said.contains("answered 204")).then_some(())
    };
    eventually("the receiver takes a test", taken).await;
    let client = crate::site::client(&url);
    let run = submit(&client, vec![job()]).await.remove(0);
    receiver.wait_for_line(&run, PATIENCE).await;
    let delivered = async || {
        let (listed, _) = said(&url, &["webhook", "deliveries", "try", "--state", "delivered"]).await;
        listed.contains("run.submitted").then_some(())
    };
    eventually("the delivery is listed", delivered).await;
    for arguments in [
        &["webhook", "list"][..],
        &["webhook", "get", &made.id],
        &["webhook", "set", "try", "--everything"],
        &["webhook", "pause", "try"],
        &["webhook", "resume", "try"],
        &["webhook", "rotate", "try", "--overlap", "0s"],
        &["webhook", "replay", "try"],
    ] {
        let (said, went_well) = said(&url, arguments).await;
        assert!(went_well, "{arguments:?}: {said}");
    }
    let (refused, went_well) = said(&url, &["webhook", "test", "try"]).await;
    assert!(!went_well && refused.contains("answered 401"), "it has another secret now: {refused}");
    let (said, went_well) = said(&url, &["webhook", "delete", "try"]).await;
    assert!(went_well, "{said}");
}
