//! The span of a request that says which trace it is part of.

use std::sync::Arc;
use std::time::Instant;

use baton_core::Millis;
use baton_core::trace::{SpanId, TraceContext, derived};
use baton_otlp::{Kind, Span, nanos};
use http::HeaderMap;

use super::RunTraces;
use crate::App;

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// The trace that a request says it is part of. A wrong header is as good as none.
pub(crate) fn context_of(headers: &HeaderMap) -> Option<Arc<TraceContext>> {
    let mut parents = headers.get_all(TRACEPARENT).iter();
    let parent = parents.next()?.to_str().ok()?;
    if parents.next().is_some() {
        return None;
    }
    // Several lines are one list.
    let states: Vec<&str> = headers.get_all(TRACESTATE).iter().filter_map(|state| state.to_str().ok()).collect();
    let states = (!states.is_empty()).then(|| states.join(","));
    TraceContext::parse(parent, states.as_deref()).map(Arc::new)
}

/// A request whose span is sent when it has been answered.
#[derive(Debug)]
pub(crate) struct RequestSpan {
    app: App,
    context: Arc<TraceContext>,
    span_id: SpanId,
    begun_at: Millis,
    begun: Instant,
}

impl RequestSpan {
    /// `None` when nobody records the trace.
    pub(crate) fn begin(app: &App, context: Option<&Arc<TraceContext>>) -> Option<RequestSpan> {
        let context = context.filter(|context| context.is_sampled() && app.traces.is_on())?.clone();
        // Repeated requests are requests of their own.
        let span_id = derived(context.trace_id, context.span_id, app.entropy.bits());
        let clock = app.store.clock();
        let begun_at = clock.fixed().unwrap_or_else(|| clock.local());
        Some(RequestSpan { app: app.clone(), context, span_id, begun_at, begun: Instant::now() })
    }

    /// Sends it.
    pub(crate) fn answered(self, method: &str, route: &str, status: Option<u16>, call: Option<&'static str>) {
        let begin = nanos(self.begun_at);
        let has_failed = status.is_none_or(|status| status >= 500);
        let span = Span {
            trace_id: self.context.trace_id,
            span_id: self.span_id,
            parent: Some(self.context.span_id),
            state: self.context.state.clone(),
            name: if call.is_some() { route.to_owned() } else { format!("{method} {route}") },
            kind: Kind::Server,
            begin,
            end: begin + u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX / 2),
            attributes: vec![],
            links: vec![],
            error: has_failed.then(String::new),
        };
        let span = match (call, route.rsplit_once('/')) {
            (Some(code), parts) => {
                let (service, method) = parts.unwrap_or(("", route));
                let failed = matches!(code, "unknown" | "deadline_exceeded" | "unimplemented" | "internal")
                    || matches!(code, "unavailable" | "data_loss");
                Span { error: failed.then(String::new), ..span }
                    .with("rpc.system", "grpc")
                    .with("rpc.service", service)
                    .with("rpc.method", method)
                    .with("rpc.response.status_code", code.to_ascii_uppercase())
                    .with_some("error.type", failed.then_some(code))
            }
            (None, _) => span
                .with("http.request.method", method)
                .with("http.route", route)
                .with_some("http.response.status_code", status.map(i64::from))
                .with_some("error.type", status.filter(|_| has_failed).map(|status| status.to_string())),
        };
        let traces: &RunTraces = &self.app.traces;
        // Nobody waits for it: one that is dropped is counted.
        drop(traces.send(span));
    }
}
