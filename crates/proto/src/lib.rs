//! What goes over Baton's wire: the JSON shapes of the native HTTP API, and the gRPC services in [`v1`] (feature `grpc`), shared by the server and its clients.
//!
//! Requests refuse unknown fields, so that a misspelt one is an error and not silence. Times are RFC 3339 in UTC.
//! With the feature `schema` every shape describes itself for `/openapi.json`.

#![warn(missing_docs)]

mod admin;
mod build;
mod build_answers;
mod event;
mod namespace;
mod pool;
mod run;
mod schedule;
mod secrets;
mod settings;
mod time;
#[cfg(feature = "grpc")]
pub mod v1;
mod work;

pub use admin::*;
pub use build::*;
pub use build_answers::*;
pub use event::Event;
pub use namespace::*;
pub use pool::*;
pub use run::*;
pub use schedule::*;
pub use secrets::*;
pub use settings::*;
pub use time::Time;
pub use work::*;

use serde::{Deserialize, Serialize};

/// Header that carries the API key; `Authorization: Bearer` works as well.
pub const API_KEY_HEADER: &str = "x-api-key";
/// Header that makes a repeated submit harmless.
pub const IDEMPOTENCY_KEY_HEADER: &str = "idempotency-key";
/// Namespace of a request that names none.
pub const NAMESPACE_DEFAULT: &str = "default";
/// Queue of a request that names none.
pub const QUEUE_DEFAULT: &str = "default";

/// Longest time a claim may wait for work.
pub const CLAIM_WAIT_MS_MAX: u64 = 60_000;
/// Most runs in one batch submit.
pub const BATCH_RUNS_MAX: usize = 10_000;
/// Most leases in one batch of results.
pub const BATCH_LEASES_MAX: usize = 10_000;
/// Most entries on one page.
pub const PAGE_MAX: usize = 1_000;

pub(crate) fn namespace_default() -> String {
    NAMESPACE_DEFAULT.into()
}

pub(crate) fn queue_default() -> String {
    QUEUE_DEFAULT.into()
}

/// Every refused request is answered with this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Problem {
    /// What happened, why, and what to do, for people.
    pub error: String,
    /// A stable word for programs.
    pub code: String,
}
