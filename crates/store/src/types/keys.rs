//! API keys, the audit log, and what retention deleted.

use baton_core::Millis;
use baton_core::token::Hash;
use serde::{Deserialize, Serialize};

/// What an API key may do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Everything.
    Admin,
    /// Submit, cancel and retry runs, and read.
    Submit,
    /// Register, claim and report.
    Worker,
    /// Read.
    Read,
}

/// An API key to be added.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewKey {
    /// A public name for it.
    pub id: String,
    /// Its hash.
    pub hash: Hash,
    /// What a person calls it.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Where; `None` is everywhere.
    pub namespace: Option<String>,
    /// How long it is good for; `None` is until somebody revokes it.
    pub lives_ms: Option<Millis>,
}

/// Another secret for an API key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rotation {
    /// The hash of the new secret.
    pub hash: Hash,
    /// How long the one before stays good.
    pub overlap_ms: Millis,
    /// How long the key is good for from now on; `None` changes nothing.
    pub lives_ms: Option<Millis>,
}

/// An API key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Key {
    /// A public name for it.
    pub id: String,
    /// What a person calls it.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Where; `None` is everywhere.
    pub namespace: Option<String>,
    /// When it was made.
    pub created_at: Millis,
    /// When it was revoked.
    pub revoked_at: Option<Millis>,
    /// When it ends by itself.
    pub expires_at: Option<Millis>,
    /// When it was last used, give or take a minute.
    pub used_at: Option<Millis>,
    /// Until when the secret before its last rotation is good.
    pub old_until: Option<Millis>,
    /// True when its time is over, or that of the secret by which it was found.
    pub is_over: bool,
}

/// A line for the audit log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AuditEntry {
    /// Who: a key's id, or what was known of the caller.
    pub actor: String,
    /// What: a verb.
    pub action: String,
    /// On what.
    pub subject: String,
    /// The rest, for people.
    pub detail: String,
    /// The namespace it belongs to, if it belongs to one.
    pub namespace: Option<String>,
    /// Where the caller was.
    pub address: Option<String>,
    /// The request that it was part of.
    pub request_id: Option<String>,
}

/// A line of the audit log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditRecord {
    /// Its number; grows.
    pub id: i64,
    /// When.
    pub at: Millis,
    /// The line.
    pub entry: AuditEntry,
}

/// What retention deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Retained {
    /// Runs.
    pub runs: u64,
    /// Workers.
    pub workers: u64,
    /// Audit lines.
    pub audit: u64,
}
