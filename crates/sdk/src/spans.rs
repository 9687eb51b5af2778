//! Spans of what a worker does with its runs, for a collector of traces.
//!
//! They are children of the attempt, whose span the server sends: so none of them hangs in the air when the worker dies.

use std::time::Duration;

use baton_core::Millis;
use baton_core::trace::{TraceContext, derived};
use baton_otlp::{Config, Environment, Exporter, Kind, Span, nanos};

use crate::ClientError;

/// How long a worker that stops tries to send what is left.
const FLUSH_TIME: Duration = Duration::from_secs(2);
/// What a worker is called, unless the environment says otherwise.
const SERVICE: &str = "baton-worker";

/// Sends spans, if somebody says where to: the program, or `OTEL_EXPORTER_OTLP_ENDPOINT`.
pub(crate) fn exporter(endpoint: Option<&str>) -> Result<Option<Exporter>, ClientError> {
    let environment = Environment::of_process();
    let wrong = |error: baton_otlp::ConfigError| ClientError::Invalid(format!("spans cannot be sent: {error}"));
    let config = Config::new(endpoint, None, None, None, &environment).map_err(wrong)?;
    let config = config.map(|config| {
        let host = std::env::var("HOSTNAME").ok();
        let config = config.service(&environment, SERVICE, env!("CARGO_PKG_VERSION"));
        host.into_iter().fold(config, |config, host| config.about("host.name", host))
    });
    config.map(Exporter::start).transpose().map_err(wrong)
}

/// Sends what is left, within limits.
pub(crate) async fn flush(exporter: Option<&Exporter>) {
    if let Some(exporter) = exporter {
        exporter.flush(FLUSH_TIME).await;
    }
}

/// Sends the spans of one attempt of one run.
#[derive(Clone, Debug)]
pub(crate) struct AttemptSpans {
    exporter: Exporter,
    context: TraceContext,
    run_id: String,
    epoch: Option<i64>,
}

impl AttemptSpans {
    /// `None` when nobody wants them.
    pub(crate) fn new(
        exporter: Option<&Exporter>,
        context: Option<&TraceContext>,
        run_id: &str,
        epoch: Option<u32>,
    ) -> Option<AttemptSpans> {
        let context = context.filter(|context| context.is_sampled())?.clone();
        let epoch = epoch.map(i64::from);
        Some(AttemptSpans { exporter: exporter?.clone(), context, run_id: run_id.to_owned(), epoch })
    }

    /// The function or handler was executed.
    pub(crate) fn executed(&self, kind: &str, begin: Millis, end: Millis, failure: Option<String>) {
        self.send(0, format!("execute {kind}"), (begin, end), failure, |span| span.with("baton.type", kind));
    }

    /// An attempt of a step was executed.
    pub(crate) fn step(
        &self,
        position: u32,
        name: &str,
        attempt: u32,
        span: (Millis, Millis),
        failure: Option<String>,
    ) {
        let number = 1 + (u64::from(position) << 32 | u64::from(attempt));
        self.send(number, format!("execute step {name}"), span, failure, |span| {
            span.with("baton.step.name", name)
                .with("baton.step.position", i64::from(position))
                .with("baton.step.attempt", i64::from(attempt))
        });
    }

    /// `failure` is the kind of error: its words may say anything.
    fn send(
        &self,
        number: u64,
        name: String,
        (begin, end): (Millis, Millis),
        failure: Option<String>,
        with: impl FnOnce(Span) -> Span,
    ) {
        let TraceContext { trace_id, span_id, state, .. } = &self.context;
        let span = Span {
            trace_id: *trace_id,
            span_id: derived(*trace_id, *span_id, number),
            parent: Some(*span_id),
            state: state.clone(),
            name: baton_otlp::bounded(&name),
            kind: Kind::Internal,
            begin: nanos(begin),
            end: nanos(end.max(begin)),
            attributes: vec![],
            links: vec![],
            error: failure.as_ref().map(|_| String::new()),
        };
        let span = with(span.with("baton.run.id", self.run_id.as_str()))
            .with_some("baton.epoch", self.epoch)
            .with_some("error.type", failure);
        // Nobody waits for it.
        drop(self.exporter.send(vec![span]));
    }
}
