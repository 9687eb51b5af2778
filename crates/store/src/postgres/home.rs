//! Which database this process speaks to. What a server remembers of its lanes, and where it began
//! to read them, is true of one history of the database. A standby that was promoted without the
//! last of its primary's writes has another one, in which the same numbers may stand for other
//! things. So every connection is asked for its history, and none with another one than the first
//! is ever used: whoever holds this store has to begin again with nothing in memory.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use tokio::sync::watch;
use tokio_postgres::error::SqlState;

use super::sql;

/// The newest history that this process has met of each database. An old primary that comes back
/// has an older one, and is not used.
static NEWEST: Mutex<Option<HashMap<String, u32>>> = Mutex::new(None);

/// The history that this process began with.
#[derive(Debug)]
pub(super) struct Home {
    first: OnceLock<String>,
    moved: watch::Sender<bool>,
}

impl Home {
    pub(super) fn new() -> Home {
        Home { first: OnceLock::new(), moved: watch::Sender::new(false) }
    }

    /// True once a connection was to another history.
    pub(super) fn has_moved(&self) -> bool {
        *self.moved.borrow()
    }

    /// Ends when a connection was to another history.
    pub(super) async fn moved(&self) {
        // The sender lives as long as this.
        let _ = self.moved.subscribe().wait_for(|moved| *moved).await;
    }

    /// Refuses a new connection that is not to where the first one was.
    pub(super) async fn check(&self, client: &tokio_postgres::Client) -> Result<(), String> {
        let found = match client.query_typed(sql::READ_TIMELINE, &[]).await {
            Ok(rows) => match rows.first().map(|row| row.try_get::<_, Option<String>>(0)) {
                Some(Ok(Some(timeline))) => timeline,
                Some(Ok(None)) => return Err("it is a standby, which nothing can be written to".into()),
                other => return Err(format!("it does not say which database it is: {other:?}")),
            },
            // Some that only look like PostgreSQL have no history of this kind, or do not show it.
            Err(error) if error.code().is_some_and(is_refusal) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        if let Some(newest) = older_than(&found) {
            return Err(format!(
                "it has the history {found}, which ended when {newest} began: it is not the primary any more"
            ));
        }
        let first = self.first.get_or_init(|| found.clone());
        if *first == found {
            return Ok(());
        }
        if !self.moved.send_replace(true) {
            tracing::error!(
                was = first,
                now = found,
                "the database is not the one this server began with: a standby took over, or it was restored; what it lost is lost, \
                 and everything this server remembers of it is dropped"
            );
        }
        Err(format!("the database has moved from {first} to {found}"))
    }
}

/// The newest history of the same database, if this one is older than that.
fn older_than(found: &str) -> Option<String> {
    let (database, timeline) = found.split_once(':')?;
    let timeline = u32::from_str_radix(timeline, 16).ok()?;
    let mut newest = NEWEST.lock().unwrap_or_else(PoisonError::into_inner);
    let newest = newest.get_or_insert_default().entry(database.to_owned()).or_insert(timeline);
    *newest = timeline.max(*newest);
    (timeline < *newest).then(|| format!("{database}:{newest:08X}"))
}

fn is_refusal(code: &SqlState) -> bool {
    [SqlState::UNDEFINED_FUNCTION, SqlState::INSUFFICIENT_PRIVILEGE, SqlState::FEATURE_NOT_SUPPORTED].contains(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_that_has_ended_is_told_from_the_newest() {
        assert_eq!(older_than("7001:00000009"), None);
        assert_eq!(older_than("7001:0000000A"), None);
        assert_eq!(older_than("7001:00000009").as_deref(), Some("7001:0000000A"));
        assert_eq!(older_than("7001:0000000A"), None);
        assert_eq!(older_than("7002:00000001"), None, "another database has a history of its own");
        assert_eq!(older_than("of no kind"), None);
    }
}
