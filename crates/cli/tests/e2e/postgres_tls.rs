//! Servers whose PostgreSQL takes connections over TLS only, and is checked by name.

use std::time::Duration;

use baton_testkit::{Authority, Database, Postgres, ServerTls};
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_postgres::NoTls;

use crate::hands::Hands;
use crate::site::{Leases, client, job, serve, serve_with, submit};
use crate::verdict::assert_completed_once;
use crate::wait::eventually;

/// A PostgreSQL for a name of its own, and who trusts its certificate.
struct Vault {
    authority: Authority,
    files: TempDir,
}

impl Vault {
    fn new() -> Vault {
        let (authority, files) = (Authority::new(), tempfile::tempdir().unwrap());
        std::fs::write(files.path().join("ca.pem"), authority.pem()).unwrap();
        Vault { authority, files }
    }

    fn tls(&self, name: &str) -> ServerTls {
        ServerTls { certificate: self.authority.server(&[name]), client_authority: None, method: "trust" }
    }

    /// A URL that names these servers by the names in their certificates.
    fn url(&self, hosts: &[(&str, &Postgres)], database: &Database) -> String {
        let (_, database) = database.url().rsplit_once('/').unwrap();
        let join = |each: &dyn Fn(&(&str, &Postgres)) -> String| hosts.iter().map(each).collect::<Vec<_>>().join(",");
        format!(
            "postgres://baton@{}/{database}?hostaddr={}&sslmode=verify-full&sslrootcert={}",
            join(&|(name, postgres)| format!("{name}:{}", postgres.address().port())),
            join(&|_| "127.0.0.1".to_owned()),
            self.files.path().join("ca.pem").display()
        )
    }
}

/// For each connection of a server whether it is over TLS.
async fn over_tls(postgres: &Postgres) -> Vec<bool> {
    let (client, connection) = tokio_postgres::connect(&postgres.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let sql = "select ssl from pg_stat_ssl join pg_stat_activity using (pid) where application_name = 'baton'";
    client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_work_together_over_verified_tls() {
    let vault = Vault::new();
    let postgres = Postgres::start_tls(vault.tls("db.test")).await;
    let database = postgres.new_database().await;
    let url = vault.url(&[("db.test", &postgres)], &database);
    let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let first = serve(homes[0].path(), Some(&url), Leases::LONG).await;
    // The other one is told separately where to listen, as if a pooler stood between.
    let second = serve_with(homes[1].path(), Some(&url), Leases::LONG, &[("BATON_LISTEN_URL", &url)]).await;
    let (here, there) = (client(&first.url()), client(&second.url()));
    let hands = Hands::register(&there, 1).await;
    let (mut ids, mut waits) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let claim = async {
            let claimed = hands.claim(1, Duration::from_secs(20)).await;
            (claimed, Instant::now())
        };
        let submit = async {
            eventually("a parked poll", async || {
                let metrics = there.metrics().await.expect("the server answers");
                metrics.lines().any(|line| line == "baton_polls_waiting 1").then_some(())
            })
            .await;
            let sent = Instant::now();
            (submit(&here, vec![job()]).await, sent)
        };
        let ((claimed, came), (submitted, sent)) = tokio::join!(claim, submit);
        assert_eq!(claimed[0].run_id, submitted[0]);
        hands.complete(&claimed).await;
        ids.extend(submitted);
        waits.push(came - sent);
    }
    waits.sort();
    println!("from submit on one server to claim on the other: {waits:?}");
    assert!(waits[2] < Duration::from_millis(300), "the hint is not heard: {waits:?}");
    assert_completed_once(&here, &ids).await;
    let connections = over_tls(&postgres).await;
    assert!(connections.len() >= 4 && connections.iter().all(|over_tls| *over_tls), "{connections:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_with_a_certificate_of_its_own_takes_over() {
    let vault = Vault::new();
    let primary = Postgres::start_tls(vault.tls("one.test")).await;
    let database = primary.new_database().await;
    let standby = primary.standby_with(Some(vault.tls("two.test"))).await;
    // The standby first: whichever host can be written to is the one.
    let url = vault.url(&[("two.test", &standby), ("one.test", &primary)], &database);
    let home = tempfile::tempdir().unwrap();
    let server = serve(home.path(), Some(&url), Leases::LONG).await;
    let here = client(&server.url());
    let mut ids = submit(&here, vec![job(); 3]).await;
    let hands = Hands::register(&here, 10).await;
    let held = hands.claim(3, Duration::from_secs(20)).await;
    primary.wait_until_followed().await;

    primary.kill9();
    standby.promote().await;
    eventually("the server is ready again", async || here.readyz().await.ok()).await;
    hands.complete(&held).await;
    ids.extend(submit(&here, vec![job()]).await);
    hands.complete(&hands.claim(1, Duration::from_secs(20)).await).await;
    assert_completed_once(&here, &ids).await;
    let connections = over_tls(&standby).await;
    assert!(!connections.is_empty() && connections.iter().all(|over_tls| *over_tls), "{connections:?}");
}
