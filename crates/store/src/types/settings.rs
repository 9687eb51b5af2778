//! Settings that are changed while the servers run.

use baton_core::Millis;

/// A setting that somebody changed while the servers run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredSetting {
    /// Its name.
    pub name: String,
    /// Its value, as JSON.
    pub value: String,
    /// When it was changed last.
    pub changed_at: Millis,
}

/// A change of one setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingChange {
    /// Its name.
    pub name: String,
    /// Its new value, as JSON; `None` forgets the stored one.
    pub value: Option<String>,
}
