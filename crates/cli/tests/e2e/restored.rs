//! A store that is restored from a copy: what happened after the copy has not happened, and leases
//! from then are good for nothing.

use std::path::Path;
use std::time::Duration;

use baton::ClientError;
use baton::proto::CompleteRun;
use baton_testkit::Database;

use crate::hands::Hands;
use crate::on_both_stores;
use crate::site::{Leases, Store, client, job, serve, submit};

on_both_stores!(a_lease_from_before_a_restore_is_lost);

async fn a_lease_from_before_a_restore_is_lost(store: Store) {
    let (home, copied_home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let database = match store {
        Store::Sqlite => None,
        Store::Postgres => Some(baton_testkit::database().await),
    };
    let mut server = serve(home.path(), database.as_ref().map(Database::url), Leases::LONG).await;
    let [run] = submit(&client(&server.url()), vec![job()]).await.try_into().unwrap();
    let other = Hands::register(&client(&server.url()), 1).await;
    server.stop().await;
    copy(&home.path().join("data"), &copied_home.path().join("data"));
    let copied = match &database {
        None => None,
        Some(database) => Some(database.copy().await),
    };

    server.restart().await;
    let first = Hands::register(&client(&server.url()), 1).await;
    let old = first.claim(1, Duration::from_secs(5)).await.remove(0);
    assert_eq!((&old.run_id, old.epoch), (&run, 1));
    server.kill9();

    let restored = serve(copied_home.path(), copied.as_ref().map(Database::url), Leases::LONG).await;
    let client = client(&restored.url());
    other.turn_to(&client);
    let new = other.claim(1, Duration::from_secs(5)).await.remove(0);
    assert_eq!((&new.run_id, new.epoch), (&run, 1), "the copy knows nothing of the first claim");
    assert_ne!(new.lease, old.lease);
    let complete = CompleteRun { run_id: None, lease: old.lease, output: None };
    let late = client.complete(&run, &complete).await;
    assert!(matches!(&late, Err(ClientError::Refused { code, .. }) if code == "lease_lost"), "{late:?}");
    other.complete(&[new]).await;
}

fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}
