//! A server that is started before its PostgreSQL waits for it, and ends at once where waiting would not
//! help. Nothing that is said holds a password.

use std::path::Path;
use std::time::Duration;

use baton_testkit::{Postgres, Process};
use tokio::time::Instant;

use crate::hands::Hands;
use crate::site::{BATON, Leases, client, job, submit};
use crate::verdict::assert_completed_once;
use crate::wait::{PATIENCE, eventually};

/// Starts a server, and does not wait until it is ready.
fn spawn(home: &Path, port: u16, database: &str) -> Process {
    let (data, listen) = (home.join("data"), format!("127.0.0.1:{port}"));
    let arguments = ["serve", "--listen", &listen, "--data", data.to_str().unwrap(), "--database", database];
    Process::spawn(BATON, arguments, Leases::LONG.settings())
}

fn with_password(url: &str) -> String {
    url.replace("postgres://baton@", "postgres://baton:PASS-CANARY@")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_waits_for_a_postgres_that_is_not_there_yet() {
    let postgres = Postgres::durable().await;
    let database = postgres.new_database().await;
    let address = postgres.address().to_string();
    postgres.kill9();
    let (home, port) = (tempfile::tempdir().unwrap(), baton_testkit::free_port());
    let mut server = spawn(home.path(), port, &with_password(database.url()));
    let line = server.wait_for_line("waiting for PostgreSQL", PATIENCE).await;
    assert!(line.contains(&address) && line.contains("refused"), "{line}");
    // It says so again while it waits, and does not listen meanwhile.
    let line = server.wait_for_line("still waiting for PostgreSQL", PATIENCE).await;
    assert!(line.contains(&address), "{line}");
    let here = client(&format!("http://127.0.0.1:{port}"));
    assert!(here.healthz().await.is_err());
    assert!(server.ended().is_none());

    postgres.start_again().await;
    eventually("the server is ready", async || here.readyz().await.ok()).await;
    let ids = submit(&here, vec![job()]).await;
    let hands = Hands::register(&here, 1).await;
    hands.complete(&hands.claim(1, PATIENCE).await).await;
    assert_completed_once(&here, &ids).await;
    assert!(!server.output().contains("CANARY"), "{}", server.output());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_waits_for_its_database_ends_when_it_is_asked_to() {
    let home = tempfile::tempdir().unwrap();
    let nobody = baton_testkit::free_port();
    let url = format!("postgres://baton:PASS-CANARY@127.0.0.1:{nobody}/baton");
    let mut server = spawn(home.path(), baton_testkit::free_port(), &url);
    server.wait_for_line("waiting for PostgreSQL", PATIENCE).await;
    let began = Instant::now();
    let status = server.sigterm_and_wait(PATIENCE).await;
    assert_eq!(status.code(), Some(0), "{}", server.output());
    assert!(began.elapsed() < Duration::from_secs(2), "it took {:?}", began.elapsed());
    assert!(!server.output().contains("CANARY"), "{}", server.output());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_waiting_does_not_help_ends_at_once_and_says_why() {
    let database = baton_testkit::database().await;
    let (server, _) = database.url().rsplit_once('/').unwrap();
    for (url, code, words) in [
        (with_password(&format!("{server}/nowhere")), 1, ["nowhere", "does not exist", "createdb"]),
        (
            with_password(&format!("{}?sslmode=require", database.url())),
            1,
            ["does not support TLS", "ssl = on", "sslmode"],
        ),
        (
            with_password(&format!("{}?sslmode=verify-ca", database.url())),
            2,
            ["database_url", "verify-ca", "sslrootcert"],
        ),
        ("mysql://baton:PASS-CANARY@127.0.0.1/d".into(), 2, ["mysql://", "database_url", "postgres://"]),
        ("baton:PASS-CANARY@127.0.0.1/d".into(), 2, ["database_url", "postgres://", "sqlite://"]),
    ] {
        let home = tempfile::tempdir().unwrap();
        let mut server = spawn(home.path(), baton_testkit::free_port(), &url);
        let status = server.wait(PATIENCE).await;
        let said = server.output();
        assert_eq!(status.code(), Some(code), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
        assert!(!said.contains("CANARY"), "{said}");
    }
}
