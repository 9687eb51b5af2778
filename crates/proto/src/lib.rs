//! What goes over Baton's wire: the JSON shapes of the native HTTP API, and the gRPC services in [`v1`] (feature `grpc`), shared by the server and its clients.
//!
//! Requests refuse unknown fields, so that a misspelt one is an error and not silence. Times are RFC 3339 in UTC.
//! With the feature `schema` every shape describes itself for `/openapi.json`.

#![warn(missing_docs)]

mod admin;
mod attention;
mod build;
mod build_answers;
mod bulk;
mod event;
mod namespace;
mod pool;
mod run;
mod schedule;
mod secrets;
mod settings;
mod statistics;
mod time;
#[cfg(feature = "grpc")]
pub mod v1;
mod webhook;
#[cfg(feature = "schema")]
pub mod words;
mod work;

pub use admin::*;
pub use attention::{Attention, Finding};
pub use build::*;
pub use build_answers::*;
pub use bulk::*;
pub use event::Event;
pub use namespace::*;
pub use pool::*;
pub use run::*;
pub use schedule::*;
pub use secrets::*;
pub use settings::*;
pub use statistics::{Series, Statistics};
pub use time::Time;
pub use webhook::*;
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
    /// The field or parameter that is wrong, where one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What the request is called in the server's log: `X-Request-Id`, or a name that the server gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The trace that the request says it is part of (`traceparent`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

impl Problem {
    /// One that is about no field.
    pub fn new(error: impl Into<String>, code: impl Into<String>) -> Problem {
        Problem { error: error.into(), code: code.into(), field: None, request_id: None, trace_id: None }
    }
}

/// Every refused request is answered with this where the caller accepts `application/problem+json` (RFC 9457). It has all
/// that [`Problem`] has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ProblemDetails {
    /// Where the code is explained, on the server that answers.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schema(format = "uri-reference"))]
    pub kind: String,
    /// The code, in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened, why, and what to do, for people.
    pub detail: String,
    /// A stable word for programs.
    pub code: String,
    /// The field or parameter that is wrong, where one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The request, as `x-request-id` of the answer and the audit log call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The trace that the request says it is part of (`traceparent`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// The same as `detail`.
    pub error: String,
}
