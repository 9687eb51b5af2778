//! The installation's secret, as administrators see it: never what it is.

use serde::{Deserialize, Serialize};

use crate::Time;

/// Where the master key is, and what it wraps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SecretStatus {
    /// The public name of the master key that wraps now.
    pub key_id: String,
    /// Where this server has it from: `environment`, `file`, `command` or `data_directory`.
    pub source: String,
    /// That place: a path, or the name of a variable or a setting.
    pub place: String,
    /// The public names of all keys that this server can read there. The first wraps with the next rotation.
    pub key_ids: Vec<String>,
    /// The mode of the key's file, in octal, where others than its owner can read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode_too_wide: Option<String>,
    /// What somebody has to do something about on this server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// True when a rotation makes a new master key by itself.
    pub makes_master_key: bool,
    /// The generations of the secret, oldest first. The last one makes everything new.
    pub generations: Vec<SecretGeneration>,
}

/// One generation of the installation's secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SecretGeneration {
    /// Its number. 0 is the secret from before there was a master key.
    pub generation: u32,
    /// The public name of the master key that it is wrapped with.
    pub key_id: String,
    /// When it was made.
    pub made_at: Time,
    /// Until when leases and other tokens made with it are good; without end while it is the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_until: Option<Time>,
}

/// Make a new generation of the installation's secret.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RotateSecret {
    /// How long leases and other tokens of the generations before stay good; a week unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap_ms: Option<u64>,
}

/// What a rotation did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RotatedSecret {
    /// The new generation.
    pub generation: u32,
    /// The public name of the master key that wraps from now on.
    pub key_id: String,
    /// That of the one before.
    pub key_id_before: String,
}
