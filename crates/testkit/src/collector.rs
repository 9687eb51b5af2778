//! A collector of traces, for tests: takes spans over OTLP, by gRPC and by HTTP on one port, and keeps them.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_otlp::proto::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use baton_otlp::proto::common::v1::{KeyValue, any_value};
use baton_otlp::proto::trace::v1 as wire;
use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// How long tests wait for spans.
const PATIENCE: Duration = Duration::from_secs(30);

/// A span as the collector got it.
#[derive(Clone, PartialEq, Debug)]
pub struct CollectedSpan {
    /// Its trace, in hexadecimal digits.
    pub trace_id: String,
    /// Its identifier, in hexadecimal digits.
    pub span_id: String,
    /// Its parent; empty for a root.
    pub parent: String,
    /// `tracestate`.
    pub state: String,
    /// What it is called.
    pub name: String,
    /// What it is to its parent.
    pub kind: i32,
    /// When it began, in milliseconds since 1970.
    pub begin_ms: u64,
    /// When it ended.
    pub end_ms: u64,
    /// Its attributes, as text.
    pub attributes: BTreeMap<String, String>,
    /// Spans that it refers to: trace and span.
    pub links: Vec<(String, String)>,
    /// The message of its status, if that is an error.
    pub error: Option<String>,
    /// What its sender said of itself.
    pub resource: BTreeMap<String, String>,
}

impl CollectedSpan {
    /// An attribute; empty when there is none.
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    /// What is the same whoever sends it.
    pub fn without_resource(&self) -> CollectedSpan {
        CollectedSpan { resource: BTreeMap::new(), ..self.clone() }
    }
}

/// What the collector does with a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Refuses it with this HTTP status, or the code of gRPC that is like it.
    Refuse(u16),
    /// Takes it, and says that it did not want one of the spans.
    Partly,
    /// Takes it, and never answers.
    Silence,
}

#[derive(Debug, Default)]
struct Shared {
    spans: Mutex<Vec<CollectedSpan>>,
    replies: Mutex<VecDeque<Reply>>,
    headers: Mutex<Vec<HeaderMap>>,
    bytes: Mutex<Vec<u8>>,
    news: Notify,
}

/// A collector on a port of this machine, which is closed when this is dropped.
#[derive(Debug)]
pub struct Collector {
    shared: Arc<Shared>,
    url: String,
    serving: JoinHandle<()>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Collector {
    /// Starts one.
    pub async fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let shared = Arc::new(Shared::default());
        let serving = tokio::spawn(serve(listener, shared.clone()));
        Collector { shared, url, serving }
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What it does with the next calls, one after the other; those after them it takes.
    pub fn reply(&self, replies: impl IntoIterator<Item = Reply>) {
        self.shared.replies.lock().expect("nobody panics while holding it").extend(replies);
    }

    /// All spans that it got so far, oldest first.
    pub fn spans(&self) -> Vec<CollectedSpan> {
        self.shared.spans.lock().expect("nobody panics while holding it").clone()
    }

    /// The spans of one trace. A span that came twice is there once; one that came with another content is there twice.
    pub fn trace(&self, trace_id: &str) -> Vec<CollectedSpan> {
        let mut found: Vec<CollectedSpan> = Vec::new();
        for span in self.spans().into_iter().filter(|span| span.trace_id == trace_id) {
            if found.iter().all(|known| known.without_resource() != span.without_resource()) {
                found.push(span);
            }
        }
        found
    }

    /// The headers of all calls so far.
    pub fn headers(&self) -> Vec<HeaderMap> {
        self.shared.headers.lock().expect("nobody panics while holding it").clone()
    }

    /// Every byte of every body so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.shared.bytes.lock().expect("nobody panics while holding it").clone()
    }

    /// Waits until what it has got is as it is wanted. Panics, and shows what is there, when that takes too long.
    pub async fn until<T>(&self, mut wanted: impl FnMut(&[CollectedSpan]) -> Option<T>) -> T {
        let waiting = async {
            loop {
                let news = self.shared.news.notified();
                if let Some(found) = wanted(&self.spans()) {
                    return found;
                }
                news.await;
            }
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(found) => found,
            Err(_) => panic!("the spans that are waited for did not come; there are {:#?}", self.spans()),
        }
    }

    /// Waits until the trace has this many spans called so.
    pub async fn until_named(&self, trace_id: &str, name: &str, count: usize) -> Vec<CollectedSpan> {
        self.until(|_| {
            let trace = self.trace(trace_id);
            (trace.iter().filter(|span| span.name == name).count() >= count).then_some(trace)
        })
        .await
    }
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        connections.spawn(async move {
            let service = hyper::service::service_fn(move |request| {
                let shared = shared.clone();
                async move { Ok::<_, Infallible>(answer(&shared, request).await) }
            });
            let server = auto::Builder::new(TokioExecutor::new());
            // A client that goes away is no concern of ours.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(shared: &Shared, request: Request<Incoming>) -> Answer {
    let (head, body) = request.into_parts();
    let is_grpc = head.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    let path = if is_grpc { "/opentelemetry.proto.collector.trace.v1.TraceService/Export" } else { "/v1/traces" };
    if head.uri.path() != path {
        return plain(StatusCode::NOT_FOUND, Bytes::new());
    }
    shared.headers.lock().expect("nobody panics while holding it").push(head.headers);
    let Ok(body) = body.collect().await else { return plain(StatusCode::BAD_REQUEST, Bytes::new()) };
    let body = body.to_bytes();
    let reply = shared.replies.lock().expect("nobody panics while holding it").pop_front();
    if let Some(Reply::Refuse(status)) = reply {
        shared.news.notify_waiters();
        return refused(is_grpc, status);
    }
    shared.bytes.lock().expect("nobody panics while holding it").extend_from_slice(&body);
    // A message of gRPC has its length before it.
    let message = if is_grpc { body.slice(body.len().min(5)..) } else { body };
    let Ok(request) = ExportTraceServiceRequest::decode(message) else { return refused(is_grpc, 400) };
    shared.spans.lock().expect("nobody panics while holding it").extend(collected(request));
    shared.news.notify_waiters();
    let partial_success = match reply {
        Some(Reply::Silence) => std::future::pending().await,
        Some(Reply::Partly) => Some(ExportTracePartialSuccess { rejected_spans: 1, error_message: "too old".into() }),
        Some(Reply::Refuse(_)) | None => None,
    };
    let answer = ExportTraceServiceResponse { partial_success }.encode_to_vec();
    if !is_grpc {
        return plain(StatusCode::OK, answer.into());
    }
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(answer.len() as u32);
    framed.extend_from_slice(&answer);
    let trailers = HeaderMap::from_iter([("grpc-status".parse().expect("a name"), HeaderValue::from_static("0"))]);
    let frames = [Ok(Frame::data(framed.freeze())), Ok(Frame::trailers(trailers))];
    let body = http_body_util::StreamBody::new(futures_util::stream::iter(frames));
    let mut answer = Response::new(BodyExt::boxed(body));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    answer
}

fn plain(status: StatusCode, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body).boxed());
    *answer.status_mut() = status;
    answer
}

fn refused(is_grpc: bool, status: u16) -> Answer {
    if !is_grpc {
        return plain(StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST), Bytes::new());
    }
    let mut answer = plain(StatusCode::OK, Bytes::new());
    // UNAVAILABLE, or INVALID_ARGUMENT.
    let code = if status == 503 { "14" } else { "3" };
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    answer.headers_mut().insert("grpc-status", HeaderValue::from_static(code));
    answer
}

fn collected(request: ExportTraceServiceRequest) -> Vec<CollectedSpan> {
    let mut all = Vec::new();
    for of_resource in request.resource_spans {
        let resource = texts(of_resource.resource.map(|resource| resource.attributes).unwrap_or_default());
        for span in of_resource.scope_spans.into_iter().flat_map(|scoped| scoped.spans) {
            all.push(one(span, resource.clone()));
        }
    }
    all
}

fn one(span: wire::Span, resource: BTreeMap<String, String>) -> CollectedSpan {
    let is_error = |status: &wire::Status| status.code == wire::status::StatusCode::Error as i32;
    CollectedSpan {
        trace_id: hexadecimal(&span.trace_id),
        span_id: hexadecimal(&span.span_id),
        parent: hexadecimal(&span.parent_span_id),
        state: span.trace_state,
        name: span.name,
        kind: span.kind,
        begin_ms: span.start_time_unix_nano / 1_000_000,
        end_ms: span.end_time_unix_nano / 1_000_000,
        attributes: texts(span.attributes),
        links: span.links.iter().map(|link| (hexadecimal(&link.trace_id), hexadecimal(&link.span_id))).collect(),
        error: span.status.filter(is_error).map(|status| status.message),
        resource,
    }
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |value: Option<any_value::Value>| match value {
        Some(any_value::Value::StringValue(text)) => text,
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes.into_iter().map(|one| (one.key, text(one.value.and_then(|value| value.value)))).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
