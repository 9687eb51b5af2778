//! Settings that are changed while the servers run.

use super::PostgresStore;
use super::params::params;
use super::pool::Outcome;
use super::sql;
use crate::{SettingChange, StoredSetting};

impl PostgresStore {
    pub(super) async fn list_settings(&self) -> Outcome<Vec<StoredSetting>> {
        self.database.query(sql::LIST_SETTINGS, &[]).await?.iter().map(setting).collect()
    }

    pub(super) async fn write_settings(&self, seen: &[StoredSetting], changes: &[SettingChange]) -> Outcome<bool> {
        let session = self.database.transaction().await?;
        session.query(sql::LOCK_SETTINGS, &[]).await?;
        let stored = session.query(sql::LIST_SETTINGS, &[]).await?;
        if stored.iter().map(setting).collect::<Outcome<Vec<_>>>()? != seen {
            session.roll_back().await?;
            return Ok(false);
        }
        let (mut names, mut values, mut forgotten) = (Vec::new(), Vec::new(), Vec::new());
        for change in changes {
            match &change.value {
                Some(value) => {
                    names.push(change.name.as_str());
                    values.push(value.as_str());
                }
                None => forgotten.push(change.name.as_str()),
            }
        }
        session.query(sql::SET_SETTINGS, params![self.database.fixed_now(), names, values]).await?;
        session.query(sql::DELETE_SETTINGS, params![forgotten]).await?;
        session.commit().await?;
        Ok(true)
    }
}

fn setting(row: &tokio_postgres::Row) -> Outcome<StoredSetting> {
    Ok(StoredSetting { name: row.try_get(0)?, value: row.try_get(1)?, changed_at: row.try_get(2)? })
}
