//! The statements as files: each one is used, says what it does, and is understood by its database.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use baton_store::postgres::{self, PostgresOptions, PostgresStore};
use baton_store::sqlite::{self, SqliteStore};
use baton_store::{Clock, Store};
use tokio_postgres::NoTls;

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn files(name: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory(name)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[tokio::test]
async fn sqlite_understands_its_statements() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("baton.db");
    SqliteStore::open(&path, Clock::Real).unwrap().close().await;
    let connection = rusqlite::Connection::open(&path).unwrap();
    let wrong: Vec<_> = sqlite::SQL
        .iter()
        .filter_map(|(name, text)| Some(format!("{name}: {}", connection.prepare(text).err()?)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn postgres_understands_its_statements() {
    let database = baton_testkit::database().await;
    let store = PostgresStore::connect(database.url(), Clock::Real, PostgresOptions::default()).await.unwrap();
    store.close().await;
    let (client, connection) = tokio_postgres::connect(database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut wrong = Vec::new();
    for (name, text) in postgres::SQL {
        if let Err(error) = client.prepare(text).await {
            wrong.push(format!(
                "{name}: {}",
                error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string)
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_file_is_used_by_the_store_it_is_named_for() {
    let used = |statements: &[(&'static str, &str)], ends: &[&'static str]| -> BTreeSet<&str> {
        statements.iter().map(|(name, _)| *name).chain(ends.iter().copied()).collect()
    };
    let by_sqlite = used(sqlite::SQL, sqlite::SQL_ENDS);
    let by_postgres = used(postgres::SQL, postgres::SQL_ENDS);
    for name in files("sql") {
        let expected = (!name.ends_with(".pg.sql"), !name.ends_with(".sqlite.sql"));
        let found = (by_sqlite.contains(&*name), by_postgres.contains(&*name));
        assert_eq!(found, expected, "{name} is to be used by (SQLite, PostgreSQL)");
    }
}

#[test]
fn every_file_begins_by_saying_what_it_does() {
    for name in files("sql") {
        let text = std::fs::read_to_string(directory("sql").join(&name)).unwrap();
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with("-- ") && first.len() > 10, "{name} begins with {first:?}");
    }
}

#[test]
fn both_dialects_have_the_same_migrations() {
    assert_eq!(files("migrations/sqlite"), files("migrations/postgres"));
}
