//! Client for Baton: submit runs, and work on them.
//!
//! [`Client`] has a method for every call of the server's HTTP API. [`Worker`] is the loop around it that a program
//! needs to work on runs: it registers, sends heartbeats, claims, reports, and drains when it is told to stop.
//!
//! ```no_run
//! # async fn example() -> Result<(), baton::ClientError> {
//! use baton::{Client, Worker};
//! use baton::proto::SubmitRun;
//!
//! let client = Client::new("http://127.0.0.1:7400", "bk_...")?;
//! client.submit(&SubmitRun::new("default", "greet")).await?;
//!
//! Worker::new(client, ["greet"])
//!     .concurrency(4)
//!     .run(|run, _cancel| async move { Ok(format!("hello from {}", run.run_id).into()) }, std::future::pending())
//!     .await
//! # }
//! ```

#![warn(missing_docs)]

mod admin;
mod builds;
mod client;
mod download;
mod error;
mod filter;
mod queues;
mod runs;
mod transfer;
mod upload;
mod worker;
mod workers;

/// The shapes of requests and answers.
pub use baton_proto as proto;
pub use builds::{BuildFilter, NewBuild};
pub use client::Client;
pub use download::Downloaded;
pub use error::ClientError;
pub use filter::{RunFilter, WorkerFilter};
pub use transfer::{Progress, TransferError, sha256_of};
pub use upload::FileToSend;
pub use worker::{Cancel, Failure, Report, Stop, Worker, WorkerEvent};
