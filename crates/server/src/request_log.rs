//! One line of the log for each request, written when the last byte of its answer has left: what was
//! asked for, by whom, how it ended, and how long that took.

use std::sync::Arc;
use std::time::Instant;

use axum::response::Response;
use http::{HeaderMap, Method, header};
use tonic::Code;
use tracing::Level;

use crate::Settings;
use crate::answers::{Answer, Route};
use crate::grpc::code_name;
use crate::traces::RequestSpan;

/// The target of these lines, for filters of the log.
pub const REQUEST_TARGET: &str = "baton_server::request";

/// Requests of machines that watch machines: every few seconds, and always the same.
const PROBES: [&str; 4] = ["/healthz", "/readyz", "/metrics", "grpc.health.v1.Health/Check"];

/// Writes the line, at a level that has to be known when this is compiled.
macro_rules! log_at {
    ($log:ident, $about:ident, $route:ident, $level:expr) => {{
        let (method, status) = ($log.method.as_str(), $log.status);
        let duration_ms = $log.begun.elapsed().as_micros() as f64 / 1_000.0;
        let (key, request_id) = ($about.key_id, $about.request_id);
        let trace_id = $about.trace.map(|trace| tracing::field::display(trace.trace_id));
        // The caller hung up before the end.
        let aborted = (!$log.is_sent).then_some(true);
        if $log.is_call {
            let (method, code) = ($route, $log.code());
            tracing::event!(target: REQUEST_TARGET, parent: None, $level,
                method, code, duration_ms, key, request_id, trace_id, aborted, "call");
        } else {
            let route = $route;
            tracing::event!(target: REQUEST_TARGET, parent: None, $level,
                method, route, status, duration_ms, key, request_id, trace_id, aborted, "request");
        }
    }};
}

tokio::task_local! {
    /// The request that a task began with, which may have been answered since.
    static BEGUN_BY: Arc<str>;
}

/// A task that goes on beside the answer to a request, or after it: its lines of the log name the
/// request, too.
pub(crate) fn beside<F: Future>(task: F) -> impl Future<Output = F::Output> + use<F> {
    BEGUN_BY.scope(current_request_id().unwrap_or_default(), task)
}

/// A part of the answer's body is being made.
pub(crate) fn during<T>(id: Arc<str>, making: impl FnOnce() -> T) -> T {
    BEGUN_BY.sync_scope(id, making)
}

/// What the request is called that the code which runs here is part of. Every line of the log says
/// so: a span for each request would cost more than all else that is logged of it.
pub fn current_request_id() -> Option<Arc<str>> {
    let begun_by = || BEGUN_BY.try_with(Arc::clone).ok().filter(|id| !id.is_empty());
    Answer::current_request_id().or_else(begun_by)
}

/// A request that is being answered.
pub(crate) struct RequestLog {
    is_on: bool,
    pub(crate) id: Arc<str>,
    answer: Answer,
    method: Method,
    is_call: bool,
    begun: Instant,
    status: Option<u16>,
    code: Option<Code>,
    /// Bytes of the answer that are still to be sent, where its head says how many there are.
    left: Option<u64>,
    /// True when all of the answer was sent.
    is_sent: bool,
    /// What is sent to a collector of traces.
    span: Option<RequestSpan>,
}

impl RequestLog {
    pub(crate) fn begin(
        settings: &Settings,
        id: Arc<str>,
        answer: &Answer,
        method: &Method,
        is_call: bool,
        span: Option<RequestSpan>,
    ) -> RequestLog {
        RequestLog {
            is_on: settings.request_log,
            id,
            answer: answer.clone(),
            method: method.clone(),
            is_call,
            begun: Instant::now(),
            status: None,
            code: None,
            left: None,
            is_sent: false,
            span,
        }
    }

    /// Notes the head of the answer.
    pub(crate) fn answered(&mut self, response: &Response) {
        self.status = Some(response.status().as_u16());
        self.trailers(response.headers());
        let length = response.headers().get(header::CONTENT_LENGTH);
        self.left = length.and_then(|length| length.to_str().ok()?.parse().ok());
        // Nobody asks for the body of an answer to HEAD.
        self.is_sent = self.method == Method::HEAD;
    }

    /// Notes how a call ended, which is said in the head of an answer or after its last message.
    pub(crate) fn trailers(&mut self, headers: &HeaderMap) {
        if let Some(code) = headers.get("grpc-status").filter(|_| self.is_call) {
            self.code = Some(Code::from_bytes(code.as_bytes()));
        }
    }

    /// Notes that so many bytes were taken. Nobody asks for what comes after as many as there are.
    pub(crate) fn taken(&mut self, bytes: usize) {
        self.left = self.left.map(|left| left.saturating_sub(bytes as u64));
        self.is_sent |= self.left == Some(0);
    }

    /// Notes that all of the answer was sent.
    pub(crate) fn sent(&mut self) {
        self.is_sent = true;
    }

    fn write(&self) {
        self.answer.with_about(|about| {
            let route = about.route.map_or("none", Route::as_str);
            // Probes come every few seconds and would drown the others.
            match PROBES.contains(&route) {
                true => log_at!(self, about, route, Level::DEBUG),
                false => log_at!(self, about, route, Level::INFO),
            }
        });
    }

    /// How a call ended, in the words of gRPC.
    fn code(&self) -> &'static str {
        code_name(match self.code {
            Some(code) => code,
            None if self.is_sent => Code::Ok,
            None => Code::Cancelled,
        })
    }
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        if self.is_on && tracing::enabled!(target: REQUEST_TARGET, Level::INFO) {
            self.write();
        }
        if let Some(span) = self.span.take() {
            let code = self.is_call.then(|| self.code());
            self.answer.with_about(|about| {
                let route = about.route.map_or("none", Route::as_str);
                span.answered(self.method.as_str(), route, self.status, code);
            });
        }
    }
}
