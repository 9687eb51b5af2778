//! News for a stream's worker: messages for runs it holds, leases that are over.

use baton_proto::{HeartbeatAnswer, v1};
use baton_store::{LeaseRef, Message};
use futures_util::StreamExt;
use futures_util::stream;

use super::super::layer::Authenticated;
use super::super::workers::{heard, heartbeat};
use crate::service;
use crate::service::workflows::messages;
use crate::workers::KnownWorker;
use crate::{App, Error};

/// Inboxes that are read at once.
const INBOXES_MAX: usize = 16;
/// Bytes that are read of one inbox. What is left comes when the worker suspends the run.
const INBOX_BYTES_MAX: usize = 8 << 20;

/// What was found.
#[derive(Debug)]
pub(super) struct Mail {
    /// Messages of each run that there was news of.
    pub(super) inboxes: Vec<(LeaseRef, Vec<Message>)>,
    /// Leases that are over.
    pub(super) news: Option<v1::WorkerHeartbeatResponse>,
}

/// Reads the inboxes of runs that there is news of, beyond what each has seen.
pub(super) async fn read(app: &App, known: &KnownWorker, runs: Vec<(LeaseRef, i64)>) -> Mail {
    let inboxes = runs.into_iter().map(|(lease, seen)| inbox(app.clone(), lease, seen));
    let inboxes: Vec<_> = stream::iter(inboxes).buffer_unordered(INBOXES_MAX).collect().await;
    // News without messages is the end of the run, or of its lease.
    let quiet: Vec<_> = inboxes.iter().filter(|(_, messages)| messages.is_empty()).map(|(lease, _)| *lease).collect();
    let news = match quiet.is_empty() {
        true => None,
        false => service::renew::look(app, known, quiet).await.ok().and_then(worth_telling),
    };
    Mail { inboxes, news }
}

/// The messages of a run beyond those seen; none when they cannot be read now.
async fn inbox(app: App, lease: LeaseRef, seen: i64) -> (LeaseRef, Vec<Message>) {
    // The worker gets them when it suspends the run.
    let messages = messages::read(&app, lease.run, seen, INBOX_BYTES_MAX).await.unwrap_or_default();
    (lease, messages)
}

fn worth_telling(answer: HeartbeatAnswer) -> Option<v1::WorkerHeartbeatResponse> {
    let worth = !answer.lost.is_empty() || !answer.cancelling.is_empty() || answer.should_drain;
    worth.then(|| heard(answer))
}

/// Takes a heartbeat, and another look at the key: a stream lasts longer than a key may.
pub(super) async fn beat(
    app: &App,
    who: &Authenticated,
    known: &KnownWorker,
    said: v1::WorkerHeartbeatRequest,
) -> Result<v1::WorkerHeartbeatResponse, Error> {
    app.keys.check(Some(&who.credential), who.peer.map(|peer| peer.0)).await?;
    Ok(heard(service::renew::one(app, &who.caller, known.id, heartbeat(said)).await?))
}
