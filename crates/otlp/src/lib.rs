//! Sends spans to a collector over OTLP, by gRPC or by HTTP with protobuf.
//!
//! [`Exporter::send`] never waits: spans go into a queue with a limit, and a task sends them in batches. What has no
//! room is dropped and counted. A collector that cannot be reached, or is busy, is asked again for a while.

#![warn(missing_docs)]

mod config;
mod exporter;
pub mod proto;
mod span;
mod transport;

pub use config::{Config, ConfigError, Environment, Protocol};
pub use exporter::{Counts, Delivery, Exporter, QUEUE_SPANS_MAX};
pub use span::{Kind, Span, Value, bounded, nanos};
