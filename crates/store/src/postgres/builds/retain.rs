//! What retention does with builds. Logs may be large, so they go first and piece by piece.

use baton_core::Millis;
use uuid::Uuid;

use super::super::PostgresStore;
use super::super::params::params;
use super::super::pool::{Outcome, retried};
use super::super::sql;

/// Builds and results that one call settles for good, at most.
pub(super) const SETTLED_MAX: i64 = 10_000;
/// Rows of logs or measurements that one statement deletes, at most.
const STRIPPED_MAX: i64 = 5_000;
/// Such statements in one retention.
const ROUNDS_MAX: usize = 20;

impl PostgresStore {
    /// Counts builds that have ended, and deletes logs and measurements of those that ended long ago. Returns the latter: they can be
    /// deleted as far as nothing is left of them.
    pub(in super::super) async fn strip_builds(
        &self,
        floor: Uuid,
        ended_before: Millis,
        limit: i64,
    ) -> Outcome<Vec<Uuid>> {
        retried!(self.look_up(sql::COUNT_ENDED_BUILDS, params![SETTLED_MAX]))?;
        let mut old: Vec<Uuid> = Vec::new();
        for row in self.look_up(sql::LIST_OLD_BUILDS, params![floor, ended_before, limit]).await? {
            old.push(row.try_get(0)?);
        }
        if old.is_empty() {
            return Ok(old);
        }
        retried!(self.look_up(sql::CLOSE_LOGS, params![old]))?;
        for text in [sql::DELETE_LOG_CHUNKS, sql::DELETE_MEASUREMENTS] {
            for _ in 0..ROUNDS_MAX {
                let gone = retried!(self.look_up(text, params![old, STRIPPED_MAX]))?;
                if (gone.len() as i64) < STRIPPED_MAX {
                    break;
                }
            }
        }
        Ok(old)
    }
}
