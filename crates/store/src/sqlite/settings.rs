//! Settings that are changed while the server runs.

use rusqlite::params;

use super::connection::Sql;
use super::statements;
use crate::{SettingChange, StoreResult, StoredSetting};

pub(super) fn all(sql: &Sql<'_>) -> StoreResult<Vec<StoredSetting>> {
    sql.rows(statements::LIST_SETTINGS, [], |row| {
        Ok(StoredSetting { name: row.get(0)?, value: row.get(1)?, changed_at: row.get(2)? })
    })
}

pub(super) fn change(sql: &Sql<'_>, seen: &[StoredSetting], changes: &[SettingChange]) -> StoreResult<bool> {
    if all(sql)? != seen {
        return Ok(false);
    }
    for SettingChange { name, value } in changes {
        match value {
            Some(value) => sql.execute(statements::SET_SETTING, params![name, value, sql.now])?,
            None => sql.execute(statements::DELETE_SETTING, params![name])?,
        };
    }
    Ok(true)
}
