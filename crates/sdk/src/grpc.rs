//! gRPC calls: the connection, the key, and errors.

use std::time::Duration;

use baton_core::trace::TraceContext;
use baton_proto::v1::workflow_service_client::WorkflowServiceClient;
use http::{HeaderMap, HeaderValue};
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

use crate::client::trace_headers;
use crate::{ClientError, tls};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that does not answer for so long is dead.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// What may be on its way before the other side has read any of it.
const WINDOW_BYTES: u32 = 4 << 20;

pub(crate) type Workflows = WorkflowServiceClient<InterceptedService<Channel, Key>>;

/// Adds the API key to every call, and the trace that it is part of.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    key: Option<MetadataValue<Ascii>>,
    /// Says which trace calls are part of.
    trace: HeaderMap,
}

impl Key {
    pub(crate) fn new(key: Option<&HeaderValue>, trace: Option<&TraceContext>) -> Key {
        let key = key.and_then(|key| MetadataValue::try_from(key.as_bytes()).ok()).map(|mut key| {
            key.set_sensitive(true);
            key
        });
        Key { key, trace: trace.into_iter().flat_map(trace_headers).collect() }
    }
}

impl Interceptor for Key {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if !self.trace.is_empty() {
            // There is nothing in the metadata yet.
            *request.metadata_mut() = MetadataMap::from_headers(self.trace.clone());
        }
        if let Some(key) = &self.key {
            request.metadata_mut().insert(baton_proto::API_KEY_HEADER, key.clone());
        }
        Ok(request)
    }
}

/// How the server at this address is reached.
pub(crate) fn endpoint(url: &str) -> Result<Endpoint, ClientError> {
    let endpoint = Endpoint::from_shared(url.to_owned())
        .map_err(|error| ClientError::Invalid(format!("{url:?} is not a server's address: {error}")))?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES))
}

pub(crate) fn workflows(channel: Channel, key: Key) -> Workflows {
    // The server has limits on what it sends; a journal may be large.
    WorkflowServiceClient::with_interceptor(channel, key).max_decoding_message_size(usize::MAX)
}

/// A refusal in the words of the HTTP API, so that there is one kind of error for both.
pub(crate) fn refused(status: Status) -> ClientError {
    if let Some(why) = std::error::Error::source(&status).and_then(tls::refusal) {
        return ClientError::Untrusted(why);
    }
    if is_insecure(&status) {
        return ClientError::Untrusted("what answers there speaks TLS: use https:// in the address".into());
    }
    let details = status.get_error_details();
    let reason =
        details.error_info().filter(|info| info.domain == "baton").map(|info| info.reason.to_ascii_lowercase());
    let code = match (status.code(), reason) {
        (_, Some(reason)) => reason,
        // Nobody of ours has spoken: the connection is gone, or something in between answers.
        (Code::Unavailable | Code::Unknown | Code::Cancelled | Code::DeadlineExceeded, None) => {
            return ClientError::Unreachable(text(&status));
        }
        (code, None) => format!("grpc_{}", code as i32),
    };
    ClientError::Refused {
        status: http_status(status.code()),
        code,
        message: text(&status),
        field: details.bad_request().and_then(|request| Some(request.field_violations.first()?.field.clone())),
        retry_after: details.retry_info().and_then(|info| info.retry_delay),
    }
}

/// Whether a server that speaks TLS was spoken to without: it says so in HTTP/2.
fn is_insecure(status: &Status) -> bool {
    std::error::Error::source(status).is_some() && text(status).contains("use https://")
}

fn text(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        // Layers repeat what the ones below them said.
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

fn http_status(code: Code) -> u16 {
    match code {
        Code::Ok => 200,
        Code::InvalidArgument | Code::OutOfRange => 422,
        Code::Unauthenticated => 401,
        Code::PermissionDenied => 403,
        Code::NotFound => 404,
        Code::AlreadyExists | Code::Aborted | Code::FailedPrecondition => 409,
        Code::ResourceExhausted => 429,
        Code::Unimplemented => 501,
        Code::DeadlineExceeded => 504,
        Code::Unavailable | Code::Cancelled => 503,
        Code::Unknown | Code::Internal | Code::DataLoss => 500,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn a_refusal_keeps_the_servers_words() {
        let mut details = ErrorDetails::with_error_info("QUEUE_FULL", "baton", HashMap::new());
        details.set_retry_info(Some(Duration::from_secs(5)));
        let status = Status::with_error_details(Code::ResourceExhausted, "the queue is full", details);
        let expected = ClientError::Refused {
            status: 429,
            code: "queue_full".into(),
            message: "the queue is full".into(),
            field: None,
            retry_after: Some(Duration::from_secs(5)),
        };
        assert_eq!(refused(status), expected);
    }

    #[test]
    fn a_status_of_nobody_is_no_refusal() {
        assert!(matches!(refused(Status::unavailable("connection reset")), ClientError::Unreachable(_)));
        assert_eq!(refused(Status::unimplemented("what?")).code(), Some("grpc_12"));
    }
}
