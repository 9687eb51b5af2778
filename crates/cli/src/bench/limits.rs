//! What the machine itself can do: the figures of a store mean little without those of its disk.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::database::{self, Database};
use super::load::{IN_FLIGHT, run};
use crate::exit::Exit;

const MEASURED_FOR: Duration = Duration::from_secs(3);
const PAGE_BYTES: usize = 8_192;
const TABLE: &str = "create table q (id integer primary key, state integer not null default 0, payload text not null)";
const POSTGRES_TABLE: &str = "create table q (id bigint generated always as identity primary key, \
     state smallint not null default 0, payload jsonb not null); create index q_ready on q (id) where state = 0";

/// How often in a second one 8 kB page can be written and flushed.
pub fn fdatasync(directory: &Path) -> io::Result<f64> {
    let path = directory.join("fdatasync");
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
    let page = [b'x'; PAGE_BYTES];
    let rate = rate(|| {
        file.write_all_at(&page, 0)?;
        file.sync_data()
    });
    std::fs::remove_file(path)?;
    rate
}

/// How many rows in a second SQLite commits one by one, with the settings that Baton uses.
pub fn sqlite(directory: &Path) -> Result<f64, Exit> {
    let failed = |error: rusqlite::Error| Exit::failed(format!("SQLite: {error}"));
    let connection = rusqlite::Connection::open(directory.join("limit.db")).map_err(failed)?;
    connection.pragma_update(None, "journal_mode", "wal").map_err(failed)?;
    connection.pragma_update(None, "synchronous", "full").map_err(failed)?;
    connection.execute_batch(TABLE).map_err(failed)?;
    let mut insert = connection.prepare("insert into q (payload) values (?1)").map_err(failed)?;
    let payload = run(1);
    Ok(rate(|| insert.execute([&payload]).map(drop).map_err(io::Error::other))?)
}

/// How many rows in a second PostgreSQL commits one by one, from 32 connections.
pub async fn postgres(admin_url: &str) -> Result<f64, Exit> {
    let database = Database::create(admin_url).await?;
    database::execute(&database.connect().await?, POSTGRES_TABLE).await?;
    let mut clients = Vec::new();
    for _ in 0..IN_FLIGHT {
        let client = database.connect().await?;
        let insert = client.prepare("insert into q (payload) values ($1::text::jsonb)").await;
        clients.push((client, insert.map_err(database::failed)?));
    }
    let payload = run(1);
    let begun = Instant::now();
    let mut loops: JoinSet<Result<u64, tokio_postgres::Error>> = JoinSet::new();
    for (client, insert) in clients {
        let payload = payload.clone();
        loops.spawn(async move {
            let mut rows = 0;
            while begun.elapsed() < MEASURED_FOR {
                rows += client.execute(&insert, &[&payload]).await?;
            }
            Ok(rows)
        });
    }
    let mut rows = 0;
    while let Some(ended) = loops.join_next().await {
        rows += ended.map_err(|error| Exit::failed(error.to_string()))?.map_err(database::failed)?;
    }
    Ok(rows as f64 / begun.elapsed().as_secs_f64())
}

fn rate(mut once: impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    let begun = Instant::now();
    let mut count = 0u64;
    while begun.elapsed() < MEASURED_FOR {
        once()?;
        count += 1;
    }
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}
