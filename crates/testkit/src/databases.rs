//! Fresh databases on a throw-away server, so that tests run side by side.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::OnceCell;
use tokio_postgres::NoTls;

use crate::Postgres;

/// Environment variable with the URL of a server on which tests may make databases. scripts/test sets it; without
/// it every test process starts a server of its own.
pub const POSTGRES_VARIABLE: &str = "BATON_TEST_POSTGRES";

/// A database of one test. Dropping it removes it from the server.
#[derive(Debug)]
pub struct Database {
    url: String,
    name: String,
    admin_url: String,
}

/// A fresh, empty database on the server that this test process shares.
pub async fn database() -> Database {
    // Never dropped: the server ends with the process.
    static SERVER: OnceCell<Postgres> = OnceCell::const_new();
    match std::env::var(POSTGRES_VARIABLE) {
        Ok(url) => create(&url).await,
        Err(_) => SERVER.get_or_init(Postgres::start).await.new_database().await,
    }
}

impl Database {
    /// What to connect to.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Changes something in it.
    pub async fn run(&self, sql: &str) {
        administer(&self.url, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// The text of every row of every table, for those who look for something anywhere.
    pub async fn dump(&self) -> String {
        dump(&self.url).await.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// Another database with all that is in this one, which nobody may be connected to.
    pub async fn copy(&self) -> Database {
        make(&self.admin_url, &self.name).await
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (admin_url, sql) = (self.admin_url.clone(), format!("drop database if exists {} with (force)", self.name));
        // A thread, because a destructor cannot wait within a runtime. The server may be gone: then so is the database.
        let dropper = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(administer(&admin_url, &sql)))
        });
        let _ = dropper.join();
    }
}

/// Makes a database on the server whose superuser can use `admin_url`.
pub(crate) async fn create(admin_url: &str) -> Database {
    // template0 has no visitors: template1 cannot be copied while somebody is connected to it.
    make(admin_url, "template0").await
}

async fn make(admin_url: &str, template: &str) -> Database {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("baton_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let sql = format!("create database {name} template {template}");
    administer(admin_url, &sql).await.unwrap_or_else(|error| panic!("no database on {admin_url}: {error}"));
    let (server, _) = admin_url.rsplit_once('/').expect("the URL ends with a database");
    Database { url: format!("{server}/{name}"), name, admin_url: admin_url.to_owned() }
}

/// The text of every row of the database at this URL. Bytes are written in hexadecimal digits.
pub async fn dump(url: &str) -> Result<String, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    let tables = "select table_name::text from information_schema.tables where table_schema = 'public'";
    let mut text = String::new();
    for table in client.query(tables, &[]).await? {
        let rows = format!("select t::text from {:?} t", table.get::<_, String>(0));
        for row in client.query(&rows, &[]).await? {
            text.push_str(row.get(0));
            text.push('\n');
        }
    }
    Ok(text)
}

pub(crate) async fn administer(admin_url: &str, sql: &str) -> Result<(), tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(admin_url, NoTls).await?;
    let connection = tokio::spawn(connection);
    client.batch_execute(sql).await?;
    drop(client);
    // The connection ends when its client is gone; how is of no interest.
    let _ = connection.await;
    Ok(())
}
