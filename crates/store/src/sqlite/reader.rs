//! Threads that read beside the writer, each call in a transaction of its own: it sees one moment of the store.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rusqlite::Connection;

use super::connection::Sql;
use super::crew::Hand;
use super::job::Job;
use crate::Clock;

/// Owns a reading connection.
pub(super) struct Reader {
    pub connection: Connection,
    pub clock: Clock,
    pub statements: Arc<AtomicU64>,
}

impl Hand for Reader {
    /// A slow read must not keep others waiting that another thread could do.
    const JOBS_AT_ONCE: usize = 1;

    fn work(&mut self, jobs: Vec<Box<dyn Job>>) {
        let sql = Sql::new(&self.connection, &self.statements, self.clock.local());
        for mut job in jobs {
            let outcome = sql.control("begin").and_then(|()| job.run(&sql));
            if !self.connection.is_autocommit()
                && let Err(error) = sql.control("rollback")
            {
                tracing::error!(%error, "a reading transaction could not be ended");
            }
            job.answer(outcome.as_ref().copied());
        }
    }
}
