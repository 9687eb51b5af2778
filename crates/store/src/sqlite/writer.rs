//! The one thread that writes. All jobs that wait share one transaction and one trip to the disk (group commit); each
//! has a savepoint of its own, so that one that fails does not disturb its neighbours.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::vec;

use rusqlite::Connection;

use super::connection::Sql;
use super::crew::Hand;
use super::files::Files;
use super::job::Job;
use crate::{Clock, StoreError, StoreResult};

/// Owns the writing connection. The files are let go after it.
pub(super) struct Writer {
    pub connection: Connection,
    pub clock: Clock,
    pub statements: Arc<AtomicU64>,
    pub files: Files,
}

impl Hand for Writer {
    const JOBS_AT_ONCE: usize = 256;

    fn work(&mut self, jobs: Vec<Box<dyn Job>>) {
        let mut waiting = jobs.into_iter();
        while waiting.len() > 0 {
            self.transaction(&mut waiting);
        }
    }
}

impl Writer {
    /// Runs jobs in one transaction and answers them. Leaves those that have not been begun when SQLite gave the
    /// transaction up in the middle.
    fn transaction(&self, waiting: &mut vec::IntoIter<Box<dyn Job>>) {
        if let Err(error) = self.begin() {
            waiting.for_each(|job| job.answer(Err(&error)));
            return;
        }
        let mut done = Vec::with_capacity(waiting.len());
        let mut outcome = Ok(());
        for mut job in waiting.by_ref() {
            match self.savepoint(job.as_mut()) {
                Kept::Yes => done.push(job),
                Kept::No => job.answer(Ok(())),
                Kept::TransactionLost(error) => {
                    done.push(job);
                    outcome = Err(error);
                    break;
                }
            }
        }
        let outcome = outcome.and_then(|()| self.sql().control("commit"));
        if let Err(error) = &outcome {
            tracing::warn!(%error, jobs = done.len(), "a transaction could not be committed");
            self.roll_back();
        }
        for job in done {
            job.answer(outcome.as_ref().copied());
        }
    }

    fn begin(&self) -> StoreResult<()> {
        // What a failed roll back left behind must not stay forever.
        self.roll_back();
        self.sql().control("begin immediate")
    }

    fn roll_back(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.sql().control("rollback")
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }

    fn savepoint(&self, job: &mut dyn Job) -> Kept {
        let sql = self.sql();
        if let Err(error) = sql.control("savepoint job") {
            return Kept::TransactionLost(error);
        }
        let ended = match job.run(&sql) {
            Ok(()) => sql.control("release job").map(|()| Kept::Yes),
            // A full disk makes SQLite roll the whole transaction back by itself.
            Err(error) if self.connection.is_autocommit() => Err(error),
            Err(_) => sql.control("rollback to job").and_then(|()| sql.control("release job")).map(|()| Kept::No),
        };
        ended.unwrap_or_else(Kept::TransactionLost)
    }

    fn sql(&self) -> Sql<'_> {
        Sql::new(&self.connection, &self.statements, self.clock.local())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.files.are_temporary() {
            return;
        }
        // Leaves one file behind instead of three. Without it nothing is lost, the next start reads the log.
        let checkpoint = self.connection.pragma_update_and_check(None, "wal_checkpoint", "truncate", |_| Ok(()));
        if let Err(error) = checkpoint {
            tracing::warn!(%error, "the write-ahead log could not be folded into the database");
        }
    }
}

enum Kept {
    Yes,
    No,
    TransactionLost(StoreError),
}
