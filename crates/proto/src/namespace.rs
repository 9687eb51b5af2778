//! Namespaces: parts of the installation that see nothing of each other.

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::admin::present;

/// A namespace to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CreateNamespace {
    /// Its name.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// Most runs that have not ended; no limit unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_runs_max: Option<u64>,
    /// Most workers that are online; no limit unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers_max: Option<u64>,
    /// Most schedules; no limit unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedules_max: Option<u64>,
    /// Encrypt inputs, outputs and other payloads before they reach the database.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub seal_payloads: bool,
}

/// A change of a namespace. What is left out stays as it is; null clears a limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChangeNamespace {
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Most runs that have not ended.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    pub live_runs_max: Option<Option<u64>>,
    /// Most workers that are online.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    pub workers_max: Option<Option<u64>>,
    /// Most schedules.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    pub schedules_max: Option<Option<u64>>,
    /// Whether new payloads are encrypted. Those that are there stay as they are, and readable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seal_payloads: Option<bool>,
}

/// Why a namespace is to take nothing new.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DisableNamespace {
    /// For those who wonder.
    pub reason: String,
}

/// A namespace as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NamespaceView {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// When it was made.
    pub created_at: Time,
    /// True while it takes nothing new.
    pub disabled: bool,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_at: Option<Time>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<String>,
    /// Most runs that have not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_runs_max: Option<u64>,
    /// Most workers that are online.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers_max: Option<u64>,
    /// Most schedules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedules_max: Option<u64>,
    /// True when new payloads are encrypted before they reach the database.
    #[serde(default)]
    pub seal_payloads: bool,
}

/// A page of namespaces, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NamespacePage {
    /// The namespaces.
    pub namespaces: Vec<NamespaceView>,
    /// Pass it as `cursor` to get the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// How many there are in all, when asked for with `total=true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}
