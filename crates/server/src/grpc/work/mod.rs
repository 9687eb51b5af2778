//! `Work`: one stream for a worker. The worker grants slots, the server pushes runs; reports come in batches and are answered in batches.
//!
//! One task carries a stream. What is ready to be sent gathers in the [`Outbox`] until the connection takes it, so that a slow
//! connection gets fewer and larger messages, and nothing waits for a timer.

mod claims;
mod held;
mod hello;
mod mail;
mod outbox;
mod polls;
mod reports;
mod session;

use std::sync::Arc;

use baton_proto::v1;
use tokio::time::Instant;
use tonic::Streaming;

use super::layer::Authenticated;
use crate::App;
use crate::request_log::beside;

pub use self::outbox::Outgoing;

/// Begins a stream.
pub(super) fn open(
    app: App,
    who: Authenticated,
    requests: Streaming<v1::WorkRequest>,
    deadline: Option<Instant>,
) -> Outgoing {
    let outbox = Arc::new(outbox::Outbox::default());
    let outgoing = Outgoing::new(outbox.clone());
    // A task of its own: what it has begun it brings to its end, also when the connection is gone.
    let running = async move {
        app.metrics.streams.inc();
        let end = session::run(&app, who, requests, deadline, &outbox).await;
        outbox.end(end);
        app.metrics.streams.dec();
    };
    tokio::spawn(beside(running));
    outgoing
}
