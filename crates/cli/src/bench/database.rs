//! Fresh PostgreSQL databases on a server that was given.

use tokio_postgres::{Client, NoTls};

use crate::exit::Exit;

/// A database of one measurement. Dropping it removes it from the server.
#[derive(Debug)]
pub struct Database {
    admin_url: String,
    name: String,
    /// What to connect to.
    pub url: String,
}

impl Database {
    /// Makes an empty database on the server whose owner `admin_url` names.
    pub async fn create(admin_url: &str) -> Result<Database, Exit> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| Exit::failed(format!("no random numbers: {error}")))?;
        let name = format!("baton_bench_{:016x}", u64::from_ne_bytes(random));
        let url = with_database(admin_url, &name).ok_or_else(|| {
            Exit::usage("the URL must be like postgres://user@host:port/postgres, and name a database")
        })?;
        let admin = connect(admin_url).await?;
        // template0 has no visitors: template1 cannot be copied while somebody is connected to it.
        execute(&admin, &format!("create database {name} template template0")).await?;
        // What earlier measurements left to be written is not this one's. Only a superuser may ask for it.
        let _ = admin.batch_execute("checkpoint").await;
        Ok(Database { admin_url: admin_url.to_owned(), name, url })
    }

    /// A connection to it.
    pub async fn connect(&self) -> Result<Client, Exit> {
        connect(&self.url).await
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (admin_url, sql) = (self.admin_url.clone(), format!("drop database if exists {} with (force)", self.name));
        // A thread, because a destructor cannot wait within a runtime.
        let dropper = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async { execute(&connect(&admin_url).await?, &sql).await })
        });
        if !matches!(dropper.join(), Ok(Ok(()))) {
            eprintln!("baton: the database {} could not be removed", self.name);
        }
    }
}

/// Connects, and lets the connection live as long as its client.
async fn connect(url: &str) -> Result<Client, Exit> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(failed)?;
    tokio::spawn(connection);
    Ok(client)
}

/// Carries out statements that have no answer.
pub async fn execute(client: &Client, sql: &str) -> Result<(), Exit> {
    client.batch_execute(sql).await.map_err(failed)
}

/// The one number that a query answers with.
pub async fn number(client: &Client, sql: &str) -> Result<i64, Exit> {
    client.query_one(sql, &[]).await.and_then(|row| row.try_get(0)).map_err(failed)
}

/// What PostgreSQL said, with its cause: the error alone only says where it happened.
pub fn failed(error: tokio_postgres::Error) -> Exit {
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
    Exit::failed(format!("PostgreSQL: {error}{cause}"))
}

/// The same address with another database.
fn with_database(url: &str, name: &str) -> Option<String> {
    let (address, parameters) = url.split_once('?').map_or((url, None), |(address, after)| (address, Some(after)));
    let (scheme, rest) = address.split_once("://")?;
    let (server, _) = rest.split_once('/')?;
    let parameters = parameters.map(|parameters| format!("?{parameters}")).unwrap_or_default();
    Some(format!("{scheme}://{server}/{name}{parameters}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_database_of_an_address_changes() {
        let with = |url| with_database(url, "x");
        assert_eq!(with("postgres://u:p@h:5/postgres?a=b").as_deref(), Some("postgres://u:p@h:5/x?a=b"));
        assert_eq!(with("postgres://u@h/").as_deref(), Some("postgres://u@h/x"));
        assert_eq!(with("postgres://u@h"), None);
        assert_eq!(with("host=h user=u"), None);
    }
}
