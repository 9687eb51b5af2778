//! How a call goes out and its answer comes back.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use baton_core::trace::TraceContext;
use baton_proto::{API_KEY_HEADER, IDEMPOTENCY_KEY_HEADER, Problem};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::transport::Channel;

use crate::connect::Connect;
use crate::connector::{Connector, Protocol};
use crate::{ClientError, Tls, grpc, tls};

/// How long a call may take, unless it waits for something on purpose.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// What a call that waits on the server may take on top of the wait.
const WAIT_MARGIN: Duration = Duration::from_secs(10);
/// Shorter than the server's own idle timeout, so that this side closes first and no request meets a closed connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How much of an answer that is not ours is shown to people.
const FOREIGN_ANSWER_CHARS_MAX: usize = 200;

/// What a call sends: all at once, or as it is read from somewhere.
pub(crate) type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// A client of one Baton server: workflows over gRPC, everything else over HTTP. Clones share the connections.
#[derive(Clone)]
pub struct Client {
    http: legacy::Client<Connector, Body>,
    /// Opens connections for HTTP, and for gRPC.
    connectors: (Connector, Connector),
    /// Connected with the first call that needs it.
    channel: Arc<OnceLock<Channel>>,
    base: Arc<str>,
    api_key: Option<HeaderValue>,
    namespace: Arc<str>,
    timeout: Duration,
    /// Sent with every call.
    trace: Option<Arc<TraceContext>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("url", &self.base).finish_non_exhaustive()
    }
}

/// One call, ready to be sent.
pub(crate) struct Call {
    method: Method,
    path: String,
    body: Option<Vec<u8>>,
    headers: HeaderMap,
    wait: Option<Duration>,
}

impl Call {
    pub(crate) fn get(path: impl Into<String>) -> Call {
        Call { method: Method::GET, path: path.into(), body: None, headers: HeaderMap::new(), wait: None }
    }

    pub(crate) fn post(path: impl Into<String>) -> Call {
        Call { method: Method::POST, ..Call::get(path) }
    }

    pub(crate) fn patch(path: impl Into<String>) -> Call {
        Call { method: Method::PATCH, ..Call::get(path) }
    }

    pub(crate) fn delete(path: impl Into<String>) -> Call {
        Call { method: Method::DELETE, ..Call::get(path) }
    }

    pub(crate) fn body(mut self, body: &impl Serialize) -> Result<Call, ClientError> {
        let body = serde_json::to_vec(body)
            .map_err(|error| ClientError::Invalid(format!("the request cannot be written as JSON: {error}")))?;
        self.body = Some(body);
        Ok(self)
    }

    pub(crate) fn idempotency_key(mut self, key: Option<&str>) -> Result<Call, ClientError> {
        if let Some(key) = key {
            let key = HeaderValue::from_str(key)
                .map_err(|_| ClientError::Invalid("an idempotency key must be printable ASCII".into()))?;
            self.headers.insert(IDEMPOTENCY_KEY_HEADER, key);
        }
        Ok(self)
    }

    /// Sends this header, too.
    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> Result<Call, ClientError> {
        let value = HeaderValue::from_str(value)
            .map_err(|_| ClientError::Invalid(format!("the header {name} must be printable ASCII")))?;
        self.headers.insert(name, value);
        Ok(self)
    }

    /// The server may take this long on purpose.
    pub(crate) fn waits(mut self, wait: Duration) -> Call {
        self.wait = Some(wait);
        self
    }
}

impl Client {
    /// A client of the server at `url` (`http://host:port` or `https://host:port`), with this API key. An empty key is not sent.
    ///
    /// Nothing is sent yet; [`Client::healthz`] says whether the server is there.
    pub fn new(url: &str, api_key: &str) -> Result<Client, ClientError> {
        Client::new_with_tls(url, api_key, &Tls::new())
    }

    /// As [`Client::new`], and with a say in which servers are believed over `https://`.
    pub fn new_with_tls(url: &str, api_key: &str, tls: &Tls) -> Result<Client, ClientError> {
        let base = url.trim_end_matches('/');
        let wrong = |why: &str| ClientError::Invalid(format!("{url:?} is not a server's address: {why}"));
        let uri: Uri = base.parse().map_err(|_| wrong("it must be like http://127.0.0.1:7400"))?;
        match uri.scheme_str() {
            Some("http" | "https") => {}
            Some(_) | None => return Err(wrong("it must begin with http:// or https://")),
        }
        if uri.host().is_none_or(str::is_empty) {
            return Err(wrong("it names no host"));
        }
        if uri.query().is_some() {
            return Err(wrong("it must not have a query"));
        }
        let api_key = match api_key.trim() {
            "" => None,
            key => {
                let mut value = HeaderValue::from_str(key)
                    .map_err(|_| ClientError::Invalid("the API key must be printable ASCII".into()))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let namespace = baton_proto::NAMESPACE_DEFAULT.into();
        let connector = |protocol| Connector::new(&base.to_ascii_lowercase(), protocol, tls);
        let connectors = (connector(Protocol::Http1)?, connector(Protocol::Http2)?);
        Ok(Client {
            http: connections(connectors.0.clone()),
            connectors,
            channel: Arc::default(),
            base: base.into(),
            api_key,
            namespace,
            timeout: CALL_TIMEOUT,
            trace: None,
        })
    }

    /// A client of the server at `url` (`http://host:port` or `https://host:port`), which is asked whether it is there and knows the key: what the environment variable
    /// `BATON_API_KEY` says unless [given](Connect::api_key).
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), baton::ClientError> {
    /// let client = baton::Client::connect("http://localhost:7400").namespace("production").await?;
    /// # Ok(()) }
    /// ```
    pub fn connect(url: impl Into<String>) -> Connect {
        Connect::new(url.into())
    }

    /// The same client, for workflows of this namespace; `default` unless given.
    pub fn with_namespace(mut self, namespace: impl Into<String>) -> Client {
        self.namespace = namespace.into().into();
        self
    }

    /// The same client with another limit on how long a call may take; 30 seconds unless given. Calls that wait on
    /// the server have their wait and ten seconds.
    pub fn with_timeout(mut self, timeout: Duration) -> Client {
        self.timeout = timeout;
        self
    }

    /// The same client, whose calls are part of this trace (W3C Trace Context), and so are the runs that it submits. A wrong
    /// `traceparent` is ignored.
    ///
    /// ```no_run
    /// # async fn example(client: baton::Client) -> Result<(), baton::ClientError> {
    /// let client = client.with_trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", None);
    /// client.start("process_order", &17).await?;
    /// # Ok(()) }
    /// ```
    pub fn with_trace(mut self, traceparent: &str, tracestate: Option<&str>) -> Client {
        self.trace = TraceContext::parse(traceparent, tracestate).map(Arc::new);
        self
    }

    /// The same client, whose calls are part of the trace that the environment names, as it does for programs that a worker
    /// executes: `TRACEPARENT` and `TRACESTATE`.
    pub fn with_trace_of_environment(self) -> Client {
        match std::env::var("TRACEPARENT") {
            Ok(parent) => self.with_trace(&parent, std::env::var("TRACESTATE").ok().as_deref()),
            Err(_) => self,
        }
    }

    /// The same client with connections of its own. A connection is carried by the runtime that
    /// opened it, and stands still with it: whoever calls from several runtimes and must not wait
    /// for the others has a client for each.
    pub fn with_own_connections(mut self) -> Client {
        self.http = connections(self.connectors.0.clone());
        self.channel = Arc::default();
        self
    }

    /// The server's address.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// The namespace of its workflows.
    pub(crate) fn workflow_namespace(&self) -> &str {
        &self.namespace
    }

    pub(crate) fn key(&self) -> grpc::Key {
        grpc::Key::new(self.api_key.as_ref(), self.trace.as_deref())
    }

    /// Opens connections for gRPC.
    pub(crate) fn grpc_connector(&self) -> Connector {
        self.connectors.1.clone()
    }

    pub(crate) fn workflows_service(&self) -> Result<grpc::Workflows, ClientError> {
        let channel = match self.channel.get() {
            Some(channel) => channel,
            None => {
                let endpoint = grpc::endpoint(&self.base)?;
                self.channel.get_or_init(|| endpoint.connect_with_connector_lazy(self.grpc_connector()))
            }
        };
        Ok(grpc::workflows(channel.clone(), self.key()))
    }

    /// Waits for the answer to a gRPC call, for as long as calls may take and `wait` besides.
    pub(crate) async fn answer<T>(
        &self,
        wait: Duration,
        call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    ) -> Result<T, ClientError> {
        let limit = if wait.is_zero() { self.timeout } else { wait + WAIT_MARGIN };
        let refused = |status| match grpc::refused(status) {
            ClientError::Unreachable(why) => match self.connectors.1.refusal() {
                Some(why) => ClientError::Untrusted(format!("{}: {why}", self.base)),
                None => ClientError::Unreachable(format!("{}: {why}", self.base)),
            },
            ClientError::Untrusted(why) => ClientError::Untrusted(format!("{}: {why}", self.base)),
            other => other,
        };
        within(limit, async { call.await.map(tonic::Response::into_inner).map_err(refused) }).await
    }

    /// Sends a call and reads the JSON of its answer.
    pub(crate) async fn json<T: DeserializeOwned>(&self, call: Call) -> Result<T, ClientError> {
        let path = call.path.clone();
        let body = self.bytes(call).await?;
        serde_json::from_slice(&body).map_err(|error| ClientError::Decode(format!("{path}: {error}")))
    }

    /// Sends a call whose answer has no body worth reading.
    pub(crate) async fn empty(&self, call: Call) -> Result<(), ClientError> {
        self.bytes(call).await.map(drop)
    }

    /// Sends a call and returns its answer as text.
    pub(crate) async fn text(&self, call: Call) -> Result<String, ClientError> {
        let body = self.bytes(call).await?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    pub(crate) async fn bytes(&self, call: Call) -> Result<Bytes, ClientError> {
        let limit = call.wait.map_or(self.timeout, |wait| wait + WAIT_MARGIN);
        within(limit, async {
            let answer = self.open(call, None).await?;
            Ok(answer.into_body().collect().await.map_err(|error| self.unreachable(&error))?.to_bytes())
        })
        .await
    }

    /// Sends a call, with a body of its own if given, and returns an answer whose body has not been read. There is no
    /// limit of time here: a large file may take as long as it moves.
    pub(crate) async fn open(&self, call: Call, body: Option<Body>) -> Result<Response<Incoming>, ClientError> {
        let mut request = self.request(call)?;
        if let Some(body) = body {
            *request.body_mut() = body;
        }
        let answer = self.http.request(request).await.map_err(|error| self.unreachable(&error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let (head, body) = answer.into_parts();
        let body = body.collect().await.map_err(|error| self.unreachable(&error))?.to_bytes();
        Err(refused(head.status, head.headers.get(RETRY_AFTER), &body))
    }

    /// No answer, and why.
    pub(crate) fn unreachable(&self, error: &(dyn std::error::Error + 'static)) -> ClientError {
        match tls::refusal(error).or_else(|| self.connectors.0.refusal()) {
            Some(why) => ClientError::Untrusted(format!("{}: {why}", self.base)),
            None => ClientError::Unreachable(format!("{}: {}", self.base, reasons(error))),
        }
    }

    fn request(&self, call: Call) -> Result<Request<Body>, ClientError> {
        let uri = Uri::try_from(format!("{}{}", self.base, call.path))
            .map_err(|error| ClientError::Invalid(format!("{}: {error}", call.path)))?;
        let has_body = call.body.is_some();
        let body = Full::from(call.body.unwrap_or_default()).map_err(|never| match never {}).boxed_unsync();
        let mut request = Request::new(body);
        *request.method_mut() = call.method;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if has_body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(key) = &self.api_key {
            headers.insert(API_KEY_HEADER, key.clone());
        }
        for (name, value) in self.trace.iter().flat_map(|trace| trace_headers(trace)) {
            headers.insert(name, value);
        }
        headers.extend(call.headers);
        Ok(request)
    }
}

/// The headers that say which trace a call is part of.
pub(crate) fn trace_headers(trace: &TraceContext) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let parent = (HeaderName::from_static("traceparent"), trace.traceparent());
    let state = trace.state.clone().map(|state| (HeaderName::from_static("tracestate"), state));
    let said = [Some(parent), state].into_iter().flatten();
    said.filter_map(|(name, value)| Some((name, HeaderValue::try_from(value).ok()?)))
}

fn connections(connector: Connector) -> legacy::Client<Connector, Body> {
    legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build(connector)
}

/// Gives up on an answer after `limit`.
pub(crate) async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(ClientError::Unreachable(format!("no answer within {limit:?}"))),
    }
}

fn refused(status: StatusCode, retry_after: Option<&HeaderValue>, body: &[u8]) -> ClientError {
    let seconds = retry_after.and_then(|value| value.to_str().ok()).and_then(|value| value.parse().ok());
    let problem = serde_json::from_slice(body).unwrap_or_else(|_| {
        // Something between us and the server answered, or it is no Baton server: show what it said.
        let said: String = String::from_utf8_lossy(body).trim().chars().take(FOREIGN_ANSWER_CHARS_MAX).collect();
        Problem::new(format!("the answer was {status}: {said}"), format!("http_{}", status.as_u16()))
    });
    ClientError::Refused {
        status: status.as_u16(),
        code: problem.code,
        message: problem.error,
        field: problem.field,
        retry_after: seconds.map(Duration::from_secs),
    }
}

/// The error and everything that caused it: the outermost one alone says only that something went wrong.
fn reasons(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_work_is_refused_at_once() {
        for url in ["", "127.0.0.1:7400", "https://", "https:///x", "ftp://x", "http://x/?a=b"] {
            assert!(matches!(Client::new(url, ""), Err(ClientError::Invalid(_))), "{url}");
        }
        assert_eq!(Client::new("http://baton.example:7400/", "bk_x").unwrap().url(), "http://baton.example:7400");
        assert_eq!(Client::new("https://baton.example/", "").unwrap().url(), "https://baton.example");
        assert!(matches!(Client::new("http://x", "bk_\n1"), Err(ClientError::Invalid(_))));
    }

    #[test]
    fn a_refusal_keeps_the_servers_words() {
        let wait = HeaderValue::from_static("7");
        let body = br#"{"error":"the queue is full","code":"queue_full"}"#;
        assert_eq!(
            refused(StatusCode::SERVICE_UNAVAILABLE, Some(&wait), body),
            ClientError::Refused {
                status: 503,
                code: "queue_full".into(),
                message: "the queue is full".into(),
                field: None,
                retry_after: Some(Duration::from_secs(7)),
            }
        );
    }

    #[test]
    fn an_answer_of_somebody_else_is_shown() {
        let error = refused(StatusCode::BAD_GATEWAY, None, b"<html>oops");
        assert_eq!(error.code(), Some("http_502"));
        assert!(error.to_string().contains("<html>oops"));
        assert!(error.is_transient());
    }

    #[tokio::test]
    async fn nobody_there_is_unreachable() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let error = Client::new(&url, "").unwrap().healthz().await.unwrap_err();
        assert!(matches!(error, ClientError::Unreachable(_)), "{error:?}");
    }

    #[tokio::test]
    async fn a_silent_server_is_unreachable_after_the_timeout() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let client = Client::new(&url, "").unwrap().with_timeout(Duration::from_millis(20));
        let error = client.healthz().await.unwrap_err();
        assert!(error.to_string().contains("no answer within"), "{error}");
    }
}
