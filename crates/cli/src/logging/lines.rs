//! How a line of the log is written, for people and for programs. Every line names the request that
//! it is about. A busy server writes tens of thousands of them in a second, so they are put together
//! without the detours of a general formatter.

use std::cell::RefCell;
use std::fmt::{self, Debug, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use baton::proto::Time;
use baton_server::{REQUEST_TARGET, current_request_id};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// How the name of a request is called in a line.
const REQUEST_ID: &str = "request_id";
/// `2026-11-18T13:17:42.`
const SECOND_CHARS: usize = 20;

/// `2026-11-18T13:17:42.848416Z  INFO baton_server: listening address=127.0.0.1:7070`
pub struct Text {
    pub colours: bool,
}

/// `{"timestamp":"...","level":"INFO","fields":{"message":"listening",...},"target":"baton_server"}`
pub struct Json;

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let [dim, plain] = if self.colours { ["\x1b[2m", "\x1b[0m"] } else { [""; 2] };
        out.write_str(dim)?;
        timestamp(&mut out)?;
        out.write_str(plain)?;
        out.write_str(if self.colours { coloured(metadata) } else { level(metadata) })?;
        out.write_str(dim)?;
        out.write_str(metadata.target())?;
        out.write_str(":")?;
        out.write_str(plain)?;
        let mut fields = TextFields { out: &mut out, result: Ok(()) };
        event.record(&mut fields);
        with_request_id(metadata, |id| fields.pair(REQUEST_ID, |out| quoted(out, id)));
        fields.result?;
        out.write_str("\n")
    }
}

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        out.write_str(r#"{"timestamp":""#)?;
        timestamp(&mut out)?;
        out.write_str(r#"","level":""#)?;
        out.write_str(metadata.level().as_str())?;
        out.write_str(r#"","fields":{"#)?;
        let mut fields = JsonFields { out: &mut out, is_first: true, result: Ok(()) };
        event.record(&mut fields);
        with_request_id(metadata, |id| fields.pair(REQUEST_ID, |out| json_text(out, id)));
        fields.result?;
        out.write_str(r#"},"target":"#)?;
        json_text(&mut out, metadata.target())?;
        out.write_str("}\n")
    }
}

/// Lines about requests have the name as a field of their own.
fn with_request_id(metadata: &Metadata<'_>, write: impl FnOnce(&str)) {
    if metadata.target() != REQUEST_TARGET
        && let Some(id) = current_request_id()
    {
        write(&id);
    }
}

fn level(metadata: &Metadata<'_>) -> &'static str {
    match *metadata.level() {
        Level::ERROR => " ERROR ",
        Level::WARN => "  WARN ",
        Level::INFO => "  INFO ",
        Level::DEBUG => " DEBUG ",
        Level::TRACE => " TRACE ",
    }
}

fn coloured(metadata: &Metadata<'_>) -> &'static str {
    match *metadata.level() {
        Level::ERROR => " \x1b[31mERROR\x1b[0m ",
        Level::WARN => " \x1b[33m WARN\x1b[0m ",
        Level::INFO => " \x1b[32m INFO\x1b[0m ",
        Level::DEBUG => " \x1b[34mDEBUG\x1b[0m ",
        Level::TRACE => " \x1b[35mTRACE\x1b[0m ",
    }
}

thread_local! {
    /// The last second that was written, and how.
    static SECOND: RefCell<(u64, String)> = const { RefCell::new((u64::MAX, String::new())) };
}

/// The moment, to the microsecond. All but that is the same for many lines.
fn timestamp(out: &mut Writer<'_>) -> fmt::Result {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    SECOND.with_borrow_mut(|(second, text)| {
        if *second != now.as_secs() {
            *second = now.as_secs();
            text.clear();
            let moment = Time(now.as_secs() as i64 * 1_000).to_string();
            text.push_str(moment.get(..SECOND_CHARS).unwrap_or(&moment));
        }
        out.write_str(text)
    })?;
    let mut digits = *b"000000Z";
    let mut rest = now.subsec_micros();
    for digit in digits[..6].iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    out.write_str(str::from_utf8(&digits).unwrap_or_default())
}

/// ` name=value` for each field but the message, which stands alone.
struct TextFields<'a, 'w> {
    out: &'a mut Writer<'w>,
    result: fmt::Result,
}

impl<'w> TextFields<'_, 'w> {
    fn pair(&mut self, name: &str, write: impl FnOnce(&mut Writer<'w>) -> fmt::Result) {
        if self.result.is_err() {
            return;
        }
        let name = name.strip_prefix("r#").unwrap_or(name);
        self.result = self.out.write_str(" ").and_then(|()| match name {
            "message" => write(self.out),
            name => {
                self.out.write_str(name)?;
                self.out.write_str("=")?;
                write(self.out)
            }
        });
    }
}

impl Visit for TextFields<'_, '_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.pair("message", |out| one_line(out, value)),
            name => self.pair(name, |out| quoted(out, value)),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.pair(field.name(), |out| write!(OneLine(out), "{value:?}"));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.pair(field.name(), |out| write!(out, "{value}"));
    }
}

/// Text in quotation marks.
fn quoted(out: &mut Writer<'_>, text: &str) -> fmt::Result {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\');
    match is_plain {
        true => {
            out.write_str("\"")?;
            out.write_str(text)?;
            out.write_str("\"")
        }
        false => write!(out, "{text:?}"),
    }
}

/// Text without line breaks and other controls, which could pretend to be lines of their own.
fn one_line(out: &mut Writer<'_>, text: &str) -> fmt::Result {
    if !text.contains(char::is_control) {
        return out.write_str(text);
    }
    text.chars().try_for_each(|char| match char.is_control() {
        true => write!(out, "{}", char.escape_debug()),
        false => out.write_char(char),
    })
}

struct OneLine<'a, 'w>(&'a mut Writer<'w>);

impl Write for OneLine<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        one_line(self.0, text)
    }
}

struct JsonFields<'a, 'w> {
    out: &'a mut Writer<'w>,
    is_first: bool,
    result: fmt::Result,
}

impl<'w> JsonFields<'_, 'w> {
    fn pair(&mut self, name: &str, write: impl FnOnce(&mut Writer<'w>) -> fmt::Result) {
        if self.result.is_err() {
            return;
        }
        let comma = if std::mem::take(&mut self.is_first) { "" } else { "," };
        self.result = self.out.write_str(comma).and_then(|()| {
            json_text(self.out, name.strip_prefix("r#").unwrap_or(name))?;
            self.out.write_str(":")?;
            write(self.out)
        });
    }
}

impl Visit for JsonFields<'_, '_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.pair(field.name(), |out| json_text(out, value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.pair(field.name(), |out| json_text(out, &format!("{value:?}")));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        match value.is_finite() {
            true => self.pair(field.name(), |out| write!(out, "{value}")),
            false => self.pair(field.name(), |out| out.write_str("null")),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.pair(field.name(), |out| write!(out, "{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.pair(field.name(), |out| write!(out, "{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.pair(field.name(), |out| out.write_str(if value { "true" } else { "false" }));
    }
}

/// Text as JSON has it.
fn json_text(out: &mut Writer<'_>, text: &str) -> fmt::Result {
    match text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        true => {
            out.write_str("\"")?;
            out.write_str(text)?;
            out.write_str("\"")
        }
        false => out.write_str(&serde_json::to_string(text).map_err(|_| fmt::Error)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(
        format: impl FormatEvent<tracing_subscriber::Registry, tracing_subscriber::fmt::format::DefaultFields>
        + Send
        + Sync
        + 'static,
    ) -> String {
        let kept = Kept::default();
        let own = kept.clone();
        let lines = tracing_subscriber::fmt().with_writer(move || own.clone()).event_format(format).finish();
        tracing::subscriber::with_default(lines, || {
            let (error, nothing) = (io::Error::other("first\nsecond \"quoted\""), None::<&str>);
            tracing::warn!(%error, count = 7, ratio = 0.5, done = true, name = "a\\b", kind = ?Some(1), nothing, "went \x1b[31mwrong");
        });
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_line_for_people_is_one_line_whatever_is_in_it() {
        let line = logged(Text { colours: false });
        let (moment, rest) = line.split_once(' ').unwrap();
        assert!(moment.parse::<Time>().is_ok() && moment.len() == 27, "{moment}");
        let fields =
            r#"went \u{1b}[31mwrong error=first\nsecond "quoted" count=7 ratio=0.5 done=true name="a\\b" kind=Some(1)"#;
        assert_eq!(rest, format!(" WARN baton::logging::lines::tests: {fields}\n"));
    }

    #[test]
    fn a_line_for_programs_is_json_whatever_is_in_it() {
        let line: serde_json::Value = serde_json::from_str(&logged(Json)).unwrap();
        assert!(line["timestamp"].as_str().unwrap().parse::<Time>().is_ok(), "{line}");
        let fields = serde_json::json!({"message": "went \x1b[31mwrong", "error": "first\nsecond \"quoted\"", "count": 7,
            "ratio": 0.5, "done": true, "name": "a\\b", "kind": "Some(1)"});
        assert_eq!((&line["level"], &line["fields"]), (&"WARN".into(), &fields));
    }
}
