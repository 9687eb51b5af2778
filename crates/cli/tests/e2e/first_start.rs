//! The first start of a server: the key it makes, and who else may use its files.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use baton::Client;
use baton_testkit::{Baton, Process};

use crate::on_both_stores;
use crate::site::{BATON, Leases, Site, Store};

/// Starts a server without a key of its own.
async fn serve(data: &Path, database: Option<&str>) -> Baton {
    let mut arguments = vec!["--data", data.to_str().unwrap()];
    if let Some(url) = database {
        arguments.extend(["--database", url]);
    }
    Baton::serve(&arguments, &[]).await
}

async fn the_first_start_leaves_a_key_and_shows_it_once(store: Store) {
    let database = match store {
        Store::Sqlite => None,
        Store::Postgres => Some(baton_testkit::database().await),
    };
    let url = database.as_ref().map(|database| database.url());
    let home = tempfile::tempdir().unwrap();
    let mut server = serve(home.path(), url).await;
    let path = home.path().join("admin.key");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let key = std::fs::read_to_string(&path).unwrap().trim().to_owned();
    assert!(key.starts_with("bk_"), "{key}");
    assert_eq!(std::fs::read_to_string(home.path().join("server.addr")).unwrap(), server.url()["http://".len()..]);
    assert_eq!(server.process().output().matches(&key).count(), 1, "{}", server.process().output());
    Client::new(&server.url(), &key).unwrap().keys().await.expect("the key is good for administration");

    assert_eq!(server.stop().await.code(), Some(0));
    server.restart().await;
    assert!(!server.process().output().contains("bk_"), "{}", server.process().output());
    assert_eq!(std::fs::read_to_string(&path).unwrap().trim(), key);
    Client::new(&server.url(), &key).unwrap().keys().await.expect("the key is still good");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_on_the_same_sqlite_file_is_refused() {
    let site = Site::start(Store::Sqlite, Leases::LONG).await;
    let data = site.home.path().join("data");
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()];
    let mut second = Process::spawn(BATON, arguments, Leases::LONG.settings());
    let status = second.wait(Duration::from_secs(20)).await;
    assert_eq!(status.code(), Some(1));
    let said = second.output();
    assert!(said.contains("another process is using") && said.contains("PostgreSQL"), "{said}");
    assert!(said.contains("baton.db"), "{said}");
    site.client().readyz().await.expect("the first server goes on");
}

on_both_stores!(the_first_start_leaves_a_key_and_shows_it_once);
