//! A span, and how it goes over the wire.

use baton_core::Millis;
use baton_core::trace::{SpanId, TraceId, TraceLink};

use crate::proto::common::v1::{AnyValue, KeyValue, any_value};
use crate::proto::trace::v1::{self, span, status};

/// Longest text in a span, in bytes; the rest is cut off.
const TEXT_BYTES_MAX: usize = 256;

/// What a span is to the one it is a child of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Something within a program.
    Internal,
    /// A request that was answered.
    Server,
    /// A message that was taken from a queue and worked on.
    Consumer,
}

/// What an attribute says.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A word.
    Text(String),
    /// A number.
    Number(i64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(bounded(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::from(text.as_str())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Number(number)
    }
}

/// A span that has ended.
#[derive(Clone, PartialEq, Debug)]
pub struct Span {
    /// Its trace.
    pub trace_id: TraceId,
    /// Its identifier.
    pub span_id: SpanId,
    /// The span that it is a child of.
    pub parent: Option<SpanId>,
    /// `tracestate`.
    pub state: Option<String>,
    /// What it is called.
    pub name: String,
    /// What it is to its parent.
    pub kind: Kind,
    /// When it began, in nanoseconds since 1970.
    pub begin: u64,
    /// When it ended, in nanoseconds since 1970.
    pub end: u64,
    /// What else is known of it.
    pub attributes: Vec<(&'static str, Value)>,
    /// Spans of other traces that it has to do with.
    pub links: Vec<TraceLink>,
    /// What went wrong, if something did.
    pub error: Option<String>,
}

impl Span {
    /// Adds an attribute.
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Span {
        self.attributes.push((name, value.into()));
        self
    }

    /// Adds an attribute, if there is something to say.
    pub fn with_some(self, name: &'static str, value: Option<impl Into<Value>>) -> Span {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }
}

/// A moment in nanoseconds.
pub fn nanos(at: Millis) -> u64 {
    at.max(0) as u64 * 1_000_000
}

/// A text that is short enough for a span.
pub fn bounded(text: &str) -> String {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

pub(crate) fn attribute(name: &str, value: Value) -> KeyValue {
    let value = match value {
        Value::Text(text) => any_value::Value::StringValue(text),
        Value::Number(number) => any_value::Value::IntValue(number),
    };
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// Flags of spans: the trace is sampled.
const SAMPLED: u32 = 1;

impl From<Span> for v1::Span {
    fn from(span: Span) -> v1::Span {
        let kind = match span.kind {
            Kind::Internal => span::SpanKind::Internal,
            Kind::Server => span::SpanKind::Server,
            Kind::Consumer => span::SpanKind::Consumer,
        };
        let link = |link: TraceLink| span::Link {
            trace_id: link.trace_id.to_bytes().to_vec(),
            span_id: link.span_id.to_bytes().to_vec(),
            ..span::Link::default()
        };
        v1::Span {
            trace_id: span.trace_id.to_bytes().to_vec(),
            span_id: span.span_id.to_bytes().to_vec(),
            trace_state: span.state.unwrap_or_default(),
            parent_span_id: span.parent.map(|parent| parent.to_bytes().to_vec()).unwrap_or_default(),
            flags: SAMPLED,
            name: span.name,
            kind: kind as i32,
            start_time_unix_nano: span.begin,
            end_time_unix_nano: span.end.max(span.begin),
            attributes: span.attributes.into_iter().map(|(name, value)| attribute(name, value)).collect(),
            links: span.links.into_iter().map(link).collect(),
            status: span
                .error
                .map(|message| v1::Status { message: bounded(&message), code: status::StatusCode::Error as i32 }),
            ..v1::Span::default()
        }
    }
}
