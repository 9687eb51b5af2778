//! Baton for Rust: durable workflows, a client, and workers.
//!
//! A **workflow** is an async function of a [`Context`]; whatever it asks of that is remembered, so that it survives the fall of whoever plays it. [`Worker`] plays
//! workflows, [`Client::start`] starts them:
//!
//! ```no_run
//! use baton::{Client, Context, Worker, WorkflowError};
//!
//! async fn greet(ctx: Context, name: String) -> Result<String, WorkflowError> {
//!     let greeting = ctx.step("choose", || async { Ok("hello".to_owned()) }).await?;
//!     ctx.sleep(std::time::Duration::from_secs(60)).await?;
//!     Ok(format!("{greeting}, {name}"))
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let mut worker = Worker::builder("http://localhost:7400", "greetings").build().await?;
//! worker.register("greet", greet);
//! tokio::spawn(worker.run_until_signal());
//!
//! let client = Client::connect("http://localhost:7400").await?;
//! let handle = client.start("greet", &"Ada").queue("greetings").await?;
//! println!("{}", handle.result::<String>().await?);
//! # Ok(()) }
//! ```
//!
//! Work that needs no memory is a plain **run**: [`Client`] has a method for every call of the server's HTTP API, and [`runs::Worker`] is the loop around it that
//! a program needs to work on runs.
//!
//! ```no_run
//! # async fn example() -> Result<(), baton::ClientError> {
//! use baton::{Client, runs};
//! use baton::proto::SubmitRun;
//!
//! let client = Client::new("http://127.0.0.1:7400", "bk_...")?;
//! client.submit(&SubmitRun::new("default", "greet")).await?;
//!
//! runs::Worker::new(client, ["greet"])
//!     .concurrency(4)
//!     .run(|run, _cancel| async move { Ok(format!("hello from {}", run.run_id).into()) }, std::future::pending())
//!     .await
//! # }
//! ```

#![warn(missing_docs)]

mod admin;
#[doc(hidden)]
pub mod background;
mod builds;
mod bulk;
mod busy;
mod client;
mod connect;
mod connector;
mod download;
mod error;
mod events;
mod filter;
mod grpc;
mod namespaces;
mod pools;
mod queues;
pub mod runs;
mod schedules;
mod server;
mod spans;
mod statistics;
mod tls;
mod transfer;
mod upload;
mod webhooks;
mod worker;
mod workers;
mod workflow;
mod workflows;

/// The states of a run.
pub use baton_core::State;
/// The shapes of requests and answers.
pub use baton_proto as proto;
pub use builds::{BuildFilter, NewBuild};
pub use client::Client;
pub use connect::Connect;
#[doc(hidden)]
pub use connector::{Dialer, Stream};
pub use download::Downloaded;
pub use error::ClientError;
pub use events::EventFilter;
pub use filter::{RunFilter, WorkerFilter};
pub use statistics::StatisticsFilter;
pub use tls::Tls;
pub use transfer::{Progress, TransferError, sha256_of};
pub use upload::FileToSend;
pub use worker::{Worker, WorkerBuilder};
pub use workflow::{
    Child, ChildResult, Context, Continuation, RetryPolicy, Signal, SignalWithin, Sleep, StartChild, StartedChild,
    Step, StepError, WorkflowError,
};
pub use workflows::{
    ListWorkflows, ResultError, StartWorkflow, StepAttempt, StepKind, StepState, StepView, WorkflowHandle,
    WorkflowPage, WorkflowRun,
};
