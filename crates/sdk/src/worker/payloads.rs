//! Large payloads that the server has left out of an answer, because there were several: fetched one by one before anybody misses them.

use std::time::Duration;

use baton_proto::v1;
use baton_proto::v1::get_payload_request::Which;
use baton_proto::v1::report_answer::What;
use bytes::Bytes;
use tonic::Code;

use crate::grpc::Workflows;

/// Waits before a payload is asked for again that could not be had.
const AGAIN_FIRST: Duration = Duration::from_millis(100);
const AGAIN_LONGEST: Duration = Duration::from_secs(5);

/// True for a message whose payload was left out.
pub(super) fn is_left_out(message: &v1::Message) -> bool {
    message.payload_bytes > 0
}

/// True when nothing of a run was left out.
pub(super) fn is_whole(run: &v1::PollActivityResponse) -> bool {
    run.steps.iter().all(|step| step.output_bytes == 0) && !run.messages.iter().any(is_left_out)
}

/// True when something of an answer was left out.
pub(super) fn left_out(answer: &mut v1::ReportAnswer) -> bool {
    messages_of(answer).iter().any(is_left_out)
}

fn messages_of(answer: &mut v1::ReportAnswer) -> &mut [v1::Message] {
    match &mut answer.what {
        Some(What::Suspend(suspended)) => &mut suspended.messages,
        _ => &mut [],
    }
}

/// Fetches what was left out of a run. False when that cannot be had any more: the lease is lost.
pub(super) async fn fetch_run(calls: Workflows, run: &mut v1::PollActivityResponse) -> bool {
    let lease = v1::RunLease { run_id: run.run_id.clone(), lease: run.lease.clone() };
    for step in run.steps.iter_mut().filter(|step| step.output_bytes > 0) {
        match fetch(calls.clone(), &lease, Which::Position(step.position)).await {
            Some(output) => (step.output, step.output_bytes) = (output, 0),
            None => return false,
        }
    }
    fetch_messages(calls, &lease, &mut run.messages).await
}

/// Fetches what was left out of messages.
pub(super) async fn fetch_messages(calls: Workflows, lease: &v1::RunLease, messages: &mut [v1::Message]) -> bool {
    for message in messages.iter_mut().filter(|message| is_left_out(message)) {
        match fetch(calls.clone(), lease, Which::Message(message.number)).await {
            Some(payload) => (message.payload, message.payload_bytes) = (payload, 0),
            None => return false,
        }
    }
    true
}

/// Fetches what was left out of an answer.
pub(super) async fn fetch_answer(calls: Workflows, lease: &v1::RunLease, answer: &mut v1::ReportAnswer) -> bool {
    fetch_messages(calls, lease, messages_of(answer)).await
}

/// Asks until there is an answer, or there can be none. Whoever has lost the lease hears of it on the stream.
async fn fetch(mut calls: Workflows, lease: &v1::RunLease, which: Which) -> Option<Bytes> {
    let mut pause = AGAIN_FIRST;
    loop {
        let (run_id, lease) = (lease.run_id.clone(), lease.lease.clone());
        match calls.get_payload(v1::GetPayloadRequest { run_id, lease, which: Some(which) }).await {
            Ok(answer) => return Some(answer.into_inner().payload),
            Err(status) if passes(status.code()) => {
                tracing::debug!(error = status.message(), "a payload is asked for again");
                tokio::time::sleep(pause).await;
                pause = (2 * pause).min(AGAIN_LONGEST);
            }
            Err(status) => {
                tracing::warn!(error = status.message(), "a payload of a run cannot be had");
                return None;
            }
        }
    }
}

fn passes(code: Code) -> bool {
    matches!(
        code,
        Code::Unavailable
            | Code::Unknown
            | Code::Cancelled
            | Code::DeadlineExceeded
            | Code::ResourceExhausted
            | Code::Internal
    )
}
