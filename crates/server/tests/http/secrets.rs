//! /api/v1/secrets: the master key, generations of the secret, and what they mean for whoever holds a lease.

use std::path::Path;
use std::sync::Arc;

use baton::proto::{RotateSecret, SecretStatus};
use baton_core::token::{self, TokenKey};
use baton_server::entropy::SeededEntropy;
use baton_server::secrets::{MasterKeySource, reset};
use baton_server::{App, Settings};
use baton_store::postgres::{PostgresOptions, PostgresStore};
use baton_store::sqlite::SqliteStore;
use baton_store::{Clock, Store};
use serde_json::json;

use crate::harness::{KEY, On, START, Server, complete, eventually, on_both, refusal};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

fn overlap(overlap_ms: u64) -> RotateSecret {
    RotateSecret { overlap_ms: Some(overlap_ms) }
}

fn numbers(status: &SecretStatus) -> Vec<u32> {
    status.generations.iter().map(|one| one.generation).collect()
}

async fn a_rotation_makes_a_generation_and_is_written_down(on: On) {
    let server = Server::start(on).await;
    let key_id = token::master_key_id(&token::master_key([7; 32]));
    let before = server.client.secret_status().await.unwrap();
    assert_eq!((numbers(&before), &before.key_id), (vec![1], &key_id));
    assert_eq!((before.source.as_str(), before.place.as_str()), ("environment", "BATON_MASTER_KEY"));
    let rotated = server.client.rotate_secret(&RotateSecret::default()).await.unwrap();
    assert_eq!((rotated.generation, &rotated.key_id, &rotated.key_id_before), (2, &key_id, &key_id));
    let answer = server.call("GET", "/api/v1/secrets", "").await;
    let shown = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(!shown.contains("bmk_") && !shown.contains("wrapped"), "{shown}");
    let status: SecretStatus = serde_json::from_value(answer.json()).unwrap();
    assert_eq!((numbers(&status), status.trouble), (vec![1, 2], None));
    let until: Vec<_> = status.generations.iter().map(|one| one.tokens_until.map(|at| at.0)).collect();
    assert_eq!(until, [Some(START + 7 * DAY_MS), None]);
    let log = server.client.audit_log(None, None).await.unwrap().lines;
    let line = log.iter().find(|line| line.action == "secret.rotate").unwrap();
    assert_eq!(line.subject, "generation 2");
    let wrong = server.call("POST", "/api/v1/secrets/rotate", json!({"overlap_ms": 91 * DAY_MS}).to_string()).await;
    assert_eq!(wrong.refusal(), "422 invalid");
}

async fn only_an_admin_of_all_namespaces_sees_and_rotates(on: On) {
    let server = Server::start(on).await;
    for (scopes, namespace) in [(&["admin"][..], Some("default")), (&["read", "submit", "worker"][..], None)] {
        let client = server.client_for(scopes, namespace).await;
        assert_eq!(refusal(client.secret_status().await), "403 forbidden");
        assert_eq!(refusal(client.rotate_secret(&overlap(0)).await), "403 forbidden");
    }
    assert_eq!(numbers(&server.client.secret_status().await.unwrap()), [1]);
}

async fn a_lease_survives_a_rotation_for_as_long_as_the_overlap(on: On) {
    let server = Server::start(on).await;
    let (worker, kept) = server.held().await;
    server.submit().await;
    let late = server.claim(&worker).await;
    assert!(kept.lease.starts_with("bl_g1_"), "{}", kept.lease);
    server.client.rotate_secret(&overlap(60_000)).await.unwrap();
    server.submit().await;
    let new = server.claim(&worker).await;
    assert!(new.lease.starts_with("bl_g2_"), "{}", new.lease);
    server.client.complete(&kept.run_id, &complete(&kept.lease)).await.unwrap();
    server.client.complete(&new.run_id, &complete(&new.lease)).await.unwrap();
    // Nobody is given more time by the next rotation.
    server.client.rotate_secret(&overlap(0)).await.unwrap();
    assert_eq!(refusal(server.client.complete(&late.run_id, &complete(&late.lease)).await), "409 lease_lost");
    let forged = late.lease.replace("bl_g1_", "bl_g9_");
    assert_eq!(refusal(server.client.complete(&late.run_id, &complete(&forged)).await), "403 forbidden");
}

async fn the_secret_from_before_is_wrapped_and_its_leases_go_on_for_a_week(on: On) {
    let server = planted(on).await;
    let (_, held) = server.held().await;
    let status = server.client.secret_status().await.unwrap();
    assert_eq!(numbers(&status), [0, 1]);
    let stored = server.app.store.secrets().await.unwrap();
    assert_eq!((stored.plain, stored.generations.len()), (None, 2));
    // What a server of the version before would have handed out.
    let run = held.run_id.parse().unwrap();
    let ring = server.app.secrets.ring();
    let (epoch, _) = token::open_lease(&ring.newest().tokens, run, &held.lease).unwrap();
    let old = token::lease(&TokenKey::new(0, &PLAIN), run, epoch, "default");
    assert!(!old.starts_with("bl_g"), "{old}");
    let start = baton::proto::StartRun { run_id: None, lease: old.clone() };
    server.client.start_run(&held.run_id, &start).await.unwrap();
    server.clock.advance(7 * DAY_MS + 1);
    server.client.secret_status().await.unwrap();
    assert_eq!(refusal(server.client.complete(&held.run_id, &complete(&old)).await), "409 lease_lost");
    // It is the token that has ended, not the lease.
    server.client.complete(&held.run_id, &complete(&held.lease)).await.unwrap();
}

const PLAIN: [u8; 32] = [0x5a; 32];

/// A server on a database in which the version before has left its secret.
async fn planted(on: On) -> Server {
    match on {
        On::Sqlite => {
            Server::with(on, |settings| {
                settings.lease_ttl_ms = 30 * DAY_MS as u64;
                let path = settings.sqlite_path().unwrap();
                drop(SqliteStore::open(&path, Clock::Real).unwrap());
                let connection = rusqlite::Connection::open(&path).unwrap();
                connection.execute("insert into meta values ('secret', ?1)", [PLAIN]).unwrap();
            })
            .await
        }
        On::Postgres => {
            let database = baton_testkit::database().await;
            let open = PostgresStore::connect(database.url(), Clock::Real, PostgresOptions::default());
            open.await.unwrap().close().await;
            let (client, connection) = tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            client.execute("insert into meta values ('secret', $1)", &[&PLAIN.as_slice()]).await.unwrap();
            let long = |settings: &mut Settings| settings.lease_ttl_ms = 30 * DAY_MS as u64;
            Server::on_database_with(database.url(), Clock::manual(START), long).await.with_home(database)
        }
    }
}

/// Two servers on one database that hear of each other by looking only.
async fn pair(database: &baton_testkit::Database, change: impl Fn(usize, &mut Settings)) -> (Server, Server) {
    let clock = Clock::manual(START);
    let start = async |number| {
        Server::on_database_with(database.url(), clock.clone(), |settings| {
            settings.database_listen = false;
            change(number, settings);
        })
        .await
    };
    (start(0).await, start(1).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_a_generation_that_another_server_made_is_good_at_once() {
    let database = baton_testkit::database().await;
    let (one, two) = pair(&database, |_, _| {}).await;
    let (worker, before) = one.held().await;
    for generation in 2..5 {
        one.client.rotate_secret(&overlap(60_000)).await.unwrap();
        one.submit().await;
        let run = one.claim(&worker).await;
        assert!(run.lease.starts_with(&format!("bl_g{generation}_")), "{}", run.lease);
        two.client.complete(&run.run_id, &complete(&run.lease)).await.unwrap();
    }
    two.client.complete(&before.run_id, &complete(&before.lease)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rotations_at_two_servers_at_once_make_one_generation_each() {
    let database = baton_testkit::database().await;
    let (one, two) = pair(&database, |_, _| {}).await;
    let mut rotating = tokio::task::JoinSet::new();
    for client in [&one, &two].map(|server| server.client.clone()).into_iter().cycle().take(8) {
        rotating.spawn(async move { client.rotate_secret(&overlap(1_000)).await.unwrap().generation });
    }
    let mut made = rotating.join_all().await;
    made.sort_unstable();
    assert_eq!(made, [2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(numbers(&two.client.secret_status().await.unwrap()), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

fn write(path: &Path, keys: &[&str]) {
    std::fs::write(path, keys.join("\n")).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_the_new_master_key_says_so_and_goes_on_until_it_gets_it() {
    let (database, files) = (baton_testkit::database().await, tempfile::tempdir().unwrap());
    let [old, new] = [[1; 32], [2; 32]].map(token::master_key);
    let paths = ["one", "two"].map(|name| files.path().join(name));
    paths.iter().for_each(|path| write(path, &[&old]));
    let (one, two) = pair(&database, |number, settings| {
        settings.master_key_file = Some(paths[number].to_string_lossy().into_owned());
    })
    .await;
    let (worker, _) = two.held().await;
    write(&paths[0], &[&new, &old]);
    // What the next rotation takes is shown before.
    let before = one.client.secret_status().await.unwrap();
    assert_eq!((before.key_id, &before.key_ids[0]), (token::master_key_id(&old), &token::master_key_id(&new)));
    let rotated = one.client.rotate_secret(&RotateSecret::default()).await.unwrap();
    let ids = [&new, &old].map(|key| token::master_key_id(key));
    assert_eq!((&rotated.key_id, &rotated.key_id_before), (&ids[0], &ids[1]));
    let status = two.client.secret_status().await.unwrap();
    let trouble = status.trouble.unwrap();
    assert!(trouble.contains(&ids[0]) && trouble.contains(&paths[1].display().to_string()), "{trouble}");
    assert!(!trouble.contains(&new) && !trouble.contains(&old));
    // It hands out and takes what it knows.
    two.submit().await;
    let run = two.claim(&worker).await;
    assert!(run.lease.starts_with("bl_g1_"), "{}", run.lease);
    one.client.complete(&run.run_id, &complete(&run.lease)).await.unwrap();
    let refused = two.client.rotate_secret(&RotateSecret::default()).await;
    assert_eq!(refusal(refused), "409 conflict");
    // A lease that only the other server can read is not lost: this one cannot tell.
    one.submit().await;
    let newer = one.claim(&worker).await;
    assert!(newer.lease.starts_with("bl_g2_"), "{}", newer.lease);
    let unknown = two.client.complete(&newer.run_id, &complete(&newer.lease)).await;
    assert_eq!(refusal(unknown), "503 unavailable");
    one.client.complete(&newer.run_id, &complete(&newer.lease)).await.unwrap();
    write(&paths[1], &[&new]);
    assert_eq!(two.client.secret_status().await.unwrap().trouble, None);
    two.submit().await;
    assert!(two.claim(&worker).await.lease.starts_with("bl_g2_"));
    // Nothing is wrapped with the old one any more.
    write(&paths[0], &[&new]);
    assert_eq!(one.client.rotate_secret(&RotateSecret::default()).await.unwrap().generation, 3);
}

async fn build(settings: &Settings) -> Result<App, baton_server::Error> {
    let store = baton_server::open_store(settings, Clock::Real).await.unwrap();
    let storage = baton_server::open_storage(settings).unwrap();
    let built = App::build(store.clone(), storage, settings.clone(), Arc::new(SeededEntropy::new(9))).await;
    if built.is_err() {
        store.close().await;
    }
    built
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_server_with_another_master_key_does_not_start_and_says_what_to_copy() {
    let (database, files) = (baton_testkit::database().await, tempfile::tempdir().unwrap());
    let settings = |name: &str| {
        let data = files.path().join(name);
        std::fs::create_dir_all(&data).unwrap();
        Settings { data, database_url: Some(database.url().into()), ..Settings::default() }
    };
    let first = build(&settings("first")).await.unwrap();
    let key_id = first.secrets.ring().newest().key_id().to_owned();
    let refused = build(&settings("second")).await.unwrap_err().to_string();
    for words in [key_id.as_str(), "second/master.key", "copy it from another server"] {
        assert!(refused.contains(words), "{refused}");
    }
    assert!(!files.path().join("second/master.key").exists(), "nothing is made that is of no use");
    let other = Settings { master_key: Some(token::master_key([3; 32]).into()), ..settings("second") };
    let refused = build(&other).await.unwrap_err().to_string();
    let own = token::master_key_id(&token::master_key([3; 32]));
    for words in [key_id.as_str(), "BATON_MASTER_KEY has", &own, "All servers of a database need the same master key"] {
        assert!(refused.contains(words), "{refused}");
    }
    std::fs::copy(files.path().join("first/master.key"), files.path().join("second/master.key")).unwrap();
    build(&settings("second")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_master_key_stops_the_server_until_somebody_begins_anew() {
    let files = tempfile::tempdir().unwrap();
    let settings = Settings { data: files.path().into(), ..Settings::default() };
    let key = files.path().join("master.key");
    let app = build(&settings).await.unwrap();
    let installation = app.secrets.installation().to_owned();
    app.store.close().await;
    drop(app);
    std::fs::remove_file(&key).unwrap();
    let closed = async || {
        let mut answer = build(&settings).await;
        // The store before is closed beside.
        eventually("the store is free", async || {
            if answer.as_ref().is_err_and(|error| error.to_string().contains("another process")) {
                answer = build(&settings).await;
                return false;
            }
            true
        })
        .await;
        answer
    };
    let refused = closed().await.unwrap_err().to_string();
    assert!(refused.contains("master.key, where it was expected, is not there"), "{refused}");
    assert!(!key.exists(), "it is never made anew by itself");
    let store = baton_server::open_store(&settings, Clock::Real).await.unwrap();
    let source = MasterKeySource::of(&settings);
    assert_eq!(reset(&*store, &source, &SeededEntropy::new(4)).await.unwrap().generation, 2);
    store.close().await;
    drop(store);
    let app = closed().await.unwrap();
    assert_eq!(app.secrets.installation(), installation, "its machines stay its own");
    assert_eq!(app.secrets.ring().newest().number(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_the_server_made_is_replaced_with_every_rotation() {
    let files = tempfile::tempdir().unwrap();
    let settings = Settings { data: files.path().into(), api_key: Some(KEY.into()), ..Settings::default() };
    let app = build(&settings).await.unwrap();
    let read = || std::fs::read_to_string(files.path().join("master.key")).unwrap();
    let mut seen = vec![read()];
    let caller =
        baton_server::Caller { key_id: "settings".into(), scopes: vec![baton_store::Scope::Admin], namespace: None };
    for generation in 2..4 {
        let rotated = baton_server::service::secrets::rotate(&app, &caller, RotateSecret::default()).await.unwrap();
        let now = read();
        assert_eq!(now.lines().count(), 1);
        assert_eq!((rotated.generation, rotated.key_id), (generation, token::master_key_id(now.trim())));
        assert!(!seen.contains(&now));
        seen.push(now);
    }
    let stored = app.store.secrets().await.unwrap();
    let id = token::master_key_id(seen[2].trim());
    assert!(stored.generations.iter().all(|one| one.key_id == id), "{stored:?}");
}

on_both!(
    a_rotation_makes_a_generation_and_is_written_down,
    only_an_admin_of_all_namespaces_sees_and_rotates,
    a_lease_survives_a_rotation_for_as_long_as_the_overlap,
    the_secret_from_before_is_wrapped_and_its_leases_go_on_for_a_week,
);
