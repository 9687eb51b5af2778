//! Settings that are changed while the servers run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Time;

/// A setting that can be changed while the servers run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SettingView {
    /// Its name, as in docs/settings.md.
    pub name: String,
    /// What holds now.
    pub value: Value,
    /// Where that comes from: `stored`, `flag`, `environment`, `file` or `built in`.
    pub source: String,
    /// When it was stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Time>,
    /// What the server that answers was started with, and what holds again after a reset.
    pub default: Value,
    /// Where that comes from.
    pub default_source: String,
}

/// The settings that can be changed while the servers run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SettingList {
    /// The settings.
    pub settings: Vec<SettingView>,
}

/// A change of settings: all of it, or none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChangeSettings {
    /// New values by name; null where a setting may be none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, Value>,
    /// Names of settings that are to be again as the servers were started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reset: Vec<String>,
}
