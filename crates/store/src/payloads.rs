//! Payloads that are kept in the storage, because they are too large for a row. docs/adr/0015 has the reasons.
//!
//! What stands in a row for one is its reference ([`baton_core::payload`]), which verbs carry as they carry any payload. Nobody counts
//! who has it: each table with payloads has an index of those that are references, and a look into the five says whether one is used.

use async_trait::async_trait;
use baton_core::Millis;
use uuid::Uuid;

use crate::StoreResult;

/// What a look at payloads has shown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LookedAt {
    /// How many were looked at.
    pub count: usize,
    /// Those that nobody refers to any more: to be removed from the storage, and then forgotten.
    pub doomed: Vec<Uuid>,
}

/// The verbs of payloads in the storage. Every [`crate::Store`] has them.
#[async_trait]
pub trait Payloads: Send + Sync {
    /// Notes a payload that is about to be written to the storage.
    async fn note_payload(&self, id: Uuid, reference: Vec<u8>) -> StoreResult<()>;
    /// Somebody is about to put this payload's reference into a row. False when it has been given up: then its reference must not be used.
    async fn touch_payload(&self, id: Uuid) -> StoreResult<bool>;
    /// Looks at payloads that were not looked at, noted or touched for `age_ms`, and gives up those that no row has referred to for as long. They are
    /// returned again until they are forgotten.
    async fn look_at_payloads(&self, age_ms: Millis, limit: usize) -> StoreResult<LookedAt>;
    /// Forgets payloads that were given up, after they are gone from the storage.
    async fn forget_payloads(&self, ids: &[Uuid]) -> StoreResult<()>;
}
