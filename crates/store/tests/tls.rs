//! Connections to PostgreSQL over TLS: every `sslmode` against every kind of server, and what is said
//! where one is refused.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use baton_store::postgres::{PostgresOptions, PostgresStore};
use baton_store::{Clock, Hints, Store, StoreError};
use baton_testkit::{Authority, Issued, Postgres, ServerTls};
use tempfile::TempDir;
use tokio_postgres::NoTls;

/// The name in the certificates of these servers. The address of each is told beside it.
const NAME: &str = "db.test";

/// Files with certificates.
struct Files {
    home: TempDir,
}

impl Files {
    fn new() -> Files {
        Files { home: tempfile::tempdir().unwrap() }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The parameters that name a client certificate.
    fn identity(&self, name: &str, made: &Issued) -> String {
        let certificate = self.write(&format!("{name}.crt"), &made.certificate);
        let key = self.write(&format!("{name}.key"), &made.key);
        format!("sslcert={}&sslkey={}", certificate.display(), key.display())
    }
}

/// A URL of the server's own database, with the name of a host that need not exist.
fn url(server: &Postgres, host: &str, params: &str) -> String {
    let port = server.address().port();
    format!("postgres://baton:PASS-CANARY@{host}:{port}/postgres?hostaddr=127.0.0.1&{params}")
}

fn rooted(mode: &str, roots: &Path) -> String {
    format!("sslmode={mode}&sslrootcert={}", roots.display())
}

/// Opens a store and says whether its connections are over TLS, as the server sees it.
async fn open(server: &Postgres, url: &str) -> Result<bool, StoreError> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let application_name = format!("tls{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let options = PostgresOptions { application_name: application_name.clone(), ..PostgresOptions::default() };
    let store = PostgresStore::connect(url, Clock::Real, options).await?;
    store.now().await?;
    // The first hint says that the listening connection stands.
    assert_eq!(store.listen().await?, Hints::default());
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let sql = "select ssl from pg_stat_ssl join pg_stat_activity using (pid) where application_name = $1";
    let found = client.query(sql, &[&application_name]).await.unwrap();
    let found: Vec<bool> = found.iter().map(|row| row.get(0)).collect();
    assert!(
        found.len() >= 2 && found.iter().all(|over_tls| *over_tls == found[0]),
        "pool and listener alike: {found:?}"
    );
    store.close().await;
    Ok(found[0])
}

#[derive(Debug)]
enum Wanted {
    Tls,
    Plain,
    /// Refused for good, with these words.
    Refused(&'static [&'static str]),
}
use Wanted::{Plain, Refused, Tls};

async fn check(server: &Postgres, cases: Vec<(String, Wanted)>) {
    for (url, wanted) in cases {
        let opened = open(server, &url).await;
        match (&opened, &wanted) {
            (Ok(true), Tls) | (Ok(false), Plain) => {}
            (Err(StoreError::Unusable(said)), Refused(words)) => {
                assert!(words.iter().all(|word| said.contains(word)), "{url}: {said}");
                assert!(!said.contains("CANARY"), "{said}");
            }
            _ => panic!("{url}: {opened:?}, not {wanted:?}"),
        }
    }
}

fn trusting(certificate: Issued) -> ServerTls {
    ServerTls { certificate, client_authority: None, method: "trust" }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_sslmode_checks_what_it_promises() {
    let (files, ours, other) = (Files::new(), Authority::new(), Authority::new());
    let server = Postgres::start_tls(trusting(ours.server(&[NAME]))).await;
    let (ours, other) = (files.write("ours.pem", &ours.pem()), files.write("other.pem", &other.pem()));
    let untrusted: &[_] = &["db.test:", "signed by nobody", "sslrootcert=FILE"];
    let wrong_name: &[_] = &["other.test", "is for db.test", "subjectAltName", "verify-ca"];
    let at = |host: &str, params: &str| url(&server, host, params);
    check(
        &server,
        vec![
            (at(NAME, ""), Tls),
            (at(NAME, "sslmode=disable"), Refused(&["no encryption", "sslmode=verify-full", "28000"])),
            (at(NAME, "sslmode=prefer"), Tls),
            (at(NAME, "sslmode=require"), Tls),
            (at(NAME, &rooted("prefer", &ours)), Tls),
            (at(NAME, &rooted("require", &ours)), Tls),
            (at(NAME, &rooted("verify-ca", &ours)), Tls),
            (at(NAME, &rooted("verify-full", &ours)), Tls),
            // Nobody who is trusted has signed it. One that is only preferred is tried without TLS, which this
            // server does not take.
            (at(NAME, &rooted("prefer", &other)), Refused(&["signed by nobody", "without TLS", "no encryption"])),
            (at(NAME, &rooted("require", &other)), Refused(untrusted)),
            (at(NAME, &rooted("verify-ca", &other)), Refused(untrusted)),
            (at(NAME, &rooted("verify-full", &other)), Refused(untrusted)),
            (at(NAME, "sslmode=verify-full"), Refused(untrusted)),
            (at(NAME, "sslrootcert=system"), Refused(untrusted)),
            // It is somebody else's.
            (at("other.test", "sslmode=require"), Tls),
            (at("other.test", &rooted("require", &ours)), Tls),
            (at("other.test", &rooted("verify-ca", &ours)), Tls),
            (at("other.test", &rooted("verify-full", &ours)), Refused(wrong_name)),
            (at("127.0.0.1", &rooted("verify-full", &ours)), Refused(&["127.0.0.1", "is for db.test"])),
            // What waiting does not mend, besides.
            (
                at(NAME, "sslmode=require").replace("/postgres?", "/nowhere?"),
                Refused(&["nowhere", "does not exist", "createdb"]),
            ),
            (at(NAME, "sslmode=require").replace("baton:", "nobody:"), Refused(&["nobody", "does not exist"])),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_has_expired_is_refused_where_certificates_are_looked_at() {
    let (files, ours) = (Files::new(), Authority::new());
    let server = Postgres::start_tls(trusting(ours.expired(&[NAME]))).await;
    let ours = files.write("ours.pem", &ours.pem());
    let expired = || Refused(&["its certificate has expired", "renew it"]);
    let at = |params: &str| url(&server, NAME, params);
    check(
        &server,
        vec![
            (at("sslmode=require"), Tls),
            (at(&rooted("verify-ca", &ours)), expired()),
            (at(&rooted("verify-full", &ours)), expired()),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_is_used_where_tls_is_only_preferred() {
    let (files, ours) = (Files::new(), Authority::new());
    let ours = files.write("ours.pem", &ours.pem());
    let server = Postgres::start().await;
    let none = || Refused(&["the server does not support TLS", "ssl = on", "sslmode=disable"]);
    let at = |params: &str| url(&server, NAME, params);
    check(
        &server,
        vec![
            (at(""), Plain),
            (at("sslmode=disable"), Plain),
            (at("sslmode=prefer"), Plain),
            (at(&rooted("prefer", &ours)), Plain),
            (at("sslmode=require"), none()),
            (at(&rooted("verify-ca", &ours)), none()),
            (at(&rooted("verify-full", &ours)), none()),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_certificates_prove_who_a_server_is() {
    let (files, ours, other) = (Files::new(), Authority::new(), Authority::new());
    let server = Postgres::start_tls(ServerTls {
        certificate: ours.server(&[NAME]),
        client_authority: Some(ours.pem()),
        method: "cert",
    })
    .await;
    let full = rooted("verify-full", &files.write("ours.pem", &ours.pem()));
    let good = files.identity("good", &ours.client("baton", None, &[]));
    let foreign = files.identity("foreign", &other.client("baton", None, &[]));
    let somebody = files.identity("somebody", &ours.client("somebody", None, &[]));
    let at = |params: &str| url(&server, NAME, params);
    check(
        &server,
        vec![
            (at(&format!("{full}&{good}")), Tls),
            (at(&format!("sslmode=require&{good}")), Tls),
            (at(&full), Refused(&["client certificate", "sslcert=FILE", "sslkey=FILE"])),
            (at(&format!("{full}&{foreign}")), Refused(&["refuses the client certificate", "ssl_ca_file"])),
            (at(&format!("{full}&{somebody}")), Refused(&["authentication failed", "baton"])),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_has_signed_itself_can_be_trusted_by_name() {
    let files = Files::new();
    let own = Issued::self_signed(&[NAME]);
    let server = Postgres::start_tls(trusting(own.clone())).await;
    let another = files.write("another.pem", &Issued::self_signed(&[NAME]).certificate);
    let own = files.write("own.pem", &own.certificate);
    let at = |host: &str, params: &str| url(&server, host, params);
    check(
        &server,
        vec![
            (at(NAME, &rooted("verify-full", &own)), Tls),
            (at("other.test", &rooted("verify-ca", &own)), Tls),
            (at("other.test", &rooted("verify-full", &own)), Refused(&["is for db.test"])),
            (at(NAME, &rooted("verify-full", &another)), Refused(&["has signed itself", "sslrootcert=FILE"])),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_bound_to_the_channel_it_goes_through() {
    let (files, ours) = (Files::new(), Authority::new());
    let tls = ServerTls { method: "scram-sha-256", ..trusting(ours.server(&[NAME])) };
    let server = Postgres::start_tls(tls).await;
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("alter role baton password 'PASS-CANARY'").await.unwrap();
    let full = rooted("verify-full", &files.write("ours.pem", &ours.pem()));
    let at = |params: &str| url(&server, NAME, params);
    check(
        &server,
        vec![
            (at(&format!("{full}&channel_binding=require")), Tls),
            (at(&format!("{full}&channel_binding=disable")), Tls),
            (at(&full).replace("PASS-CANARY", "WRONG-CANARY"), Refused(&["password authentication failed", "28P01"])),
            (at(&full).replace(":PASS-CANARY", ""), Refused(&["asks for a password"])),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_hosts_each_is_checked_by_its_own_name() {
    let (files, ours) = (Files::new(), Authority::new());
    let first = Postgres::start_tls(trusting(ours.server(&["one.test"]))).await;
    let second = Postgres::start_tls(trusting(ours.server(&["two.test"]))).await;
    let full = rooted("verify-full", &files.write("ours.pem", &ours.pem()));
    let ports = [&first, &second].map(|server| server.address().port());
    let at = |names: [&str; 2]| {
        let [one, two] = names;
        let params = format!("target_session_attrs=read-write&hostaddr=127.0.0.1,127.0.0.1&{full}");
        format!("postgres://baton@{one}:{},{two}:{}/postgres?{params}", ports[0], ports[1])
    };
    assert!(open(&first, &at(["one.test", "two.test"])).await.unwrap());
    // The name of the other host counts for nothing.
    let refused = open(&first, &at(["two.test", "one.test"])).await.unwrap_err().to_string();
    assert!(refused.contains("is for one.test") && refused.contains("is for two.test"), "{refused}");
    assert!(open(&second, &at(["two.test", "two.test"])).await.unwrap(), "the second is good");
    // While one of them may come back, waiting may help.
    second.kill9();
    let down = open(&first, &at(["two.test", "two.test"])).await.unwrap_err();
    assert!(matches!(&down, StoreError::Unavailable(said) if said.contains("two.test:")), "{down}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_waited_for_and_what_is_wrong_is_not() {
    let port = baton_testkit::free_port();
    for (url, waits) in [
        (format!("postgres://me:CANARY@127.0.0.1:{port}/d"), true),
        (format!("postgres://me:CANARY@127.0.0.1:{port}/d?sslmode=require"), true),
        (format!("postgres://me:CANARY@nowhere.invalid:{port}/d"), true),
        (format!("postgres://me:CANARY@127.0.0.1:{port}/d?sslmode=verify-ca"), false),
        (format!("postgres://me:CANARY@127.0.0.1:{port}/d?sslrootcert=/no/such/file&sslmode=require"), false),
    ] {
        let error = PostgresStore::connect(&url, Clock::Real, PostgresOptions::default()).await.unwrap_err();
        let is_unavailable = matches!(error, StoreError::Unavailable(_));
        assert_eq!(is_unavailable, waits, "{url}: {error}");
        assert!(!error.to_string().contains("CANARY"), "{error}");
    }
}
