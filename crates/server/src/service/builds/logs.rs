//! Logs of builds.

use baton_core::{LateVerb, RunId};
use baton_proto::{BuildLogLine, BuildLogs, NewLogLine, NewLogs, Time};
use baton_store::{LeaseRef, LogAnswer, LogLine, LogRecord, Scope};

use super::holder::{self, Proof};
use super::{Reader, heard_of, no_build, visible};
use crate::refusals::LeaseWrite;
use crate::{App, Error, crash};

/// Lines in one call.
pub const LINES_MAX: usize = 10_000;
/// Lines of one answer, unless it asks for fewer.
pub const PAGE_LINES: usize = 1_000;
/// Longest word for a level, in bytes; the rest is cut off.
const LEVEL_BYTES_MAX: usize = 20;

/// Adds lines for the holder of the live lease. Returns how many came, and the number of the last
/// one.
pub async fn add(app: &App, proof: &Proof<'_>, id: &str, logs: NewLogs) -> Result<(usize, u64), Error> {
    let (found, lease) = holder::lease(app, proof, id, LateVerb::Log).await?;
    if let Some(worker) = found.record.worker {
        heard_of(app, worker).await?;
    }
    let (lines, first) = match logs {
        NewLogs::One(line) => (vec![line], None),
        NewLogs::Many { logs, first_line } => (logs, first_line),
    };
    if first == Some(0) {
        return Err(Error::field("first_line", "counts from 1"));
    }
    if lines.len() > LINES_MAX {
        return Err(Error::Invalid(format!("at most {LINES_MAX} lines in one call, not {}", lines.len())));
    }
    let count = lines.len();
    Ok((count, append(app, lease.run, Some(lease), first, lines.into_iter().map(line).collect()).await?))
}

fn line(new: NewLogLine) -> LogLine {
    let level = new.level.as_deref().map(str::trim).filter(|level| !level.is_empty()).unwrap_or("info");
    let end = (0..=LEVEL_BYTES_MAX.min(level.len())).rfind(|end| level.is_char_boundary(*end)).unwrap_or(0);
    LogLine { level: level[..end].to_owned(), message: new.message, at: new.timestamp.map(|time| time.0) }
}

/// Adds lines that are known to be allowed.
pub(super) async fn append(
    app: &App,
    run: RunId,
    lease: Option<LeaseRef>,
    first: Option<u64>,
    lines: Vec<LogLine>,
) -> Result<u64, Error> {
    match app.store.add_logs(run, lease, first, lines, app.current().build_log_bytes_max).await? {
        LogAnswer::Kept(last) | LogAnswer::Full(last) => {
            crash::point("logs.written");
            app.log_news.changed(run);
            Ok(last)
        }
        LogAnswer::LeaseLost => {
            lease.inspect(|lease| app.refusals.note(LeaseWrite::new(*lease, LateVerb::Log)));
            Err(Error::LeaseLost)
        }
        LogAnswer::Ahead(lines) => Err(Error::Conflict(format!(
            "lines are missing: {lines} of this lease are there, so first_line must be at most {}",
            lines + 1
        ))),
        LogAnswer::Unknown => Err(no_build(run)),
    }
}

/// Writes a line of the server's own. It is only for people, so that it could not be written is no reason to fail.
pub(super) async fn note(app: &App, run: RunId, message: String) {
    write(app, run, "info", message).await;
}

/// As [`note`], about what went wrong.
pub(super) async fn complain(app: &App, run: RunId, message: String) {
    write(app, run, "error", message).await;
}

async fn write(app: &App, run: RunId, level: &str, message: String) {
    let line = LogLine { level: level.into(), message, at: None };
    if let Err(error) = append(app, run, None, None, vec![line]).await {
        tracing::debug!(%error, build = %run, "a line of the log was not written");
    }
}

/// A whole text as lines, as a builder sends it with its result.
pub(super) fn lines_of(text: &str) -> Vec<LogLine> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.split('\n')
        .map(|message| LogLine { level: "info".into(), message: message.trim_end_matches('\r').to_owned(), at: None })
        .collect()
}

/// Lines after a number, oldest first.
pub async fn read(app: &App, reader: &Reader<'_>, id: &str, after: u64, limit: usize) -> Result<BuildLogs, Error> {
    let found = visible(app, reader, Scope::Read, id).await?;
    Ok(BuildLogs { build_id: id.to_owned(), logs: lines(app, found.record.id, after, limit).await? })
}

/// As [`read`], of a build that its reader may see.
pub async fn lines(app: &App, run: RunId, after: u64, limit: usize) -> Result<Vec<BuildLogLine>, Error> {
    let records = app.store.logs(run, after, limit).await?;
    Ok(records.into_iter().map(|record| shown(run, record)).collect())
}

fn shown(run: RunId, record: LogRecord) -> BuildLogLine {
    BuildLogLine {
        build_id: run.to_string(),
        number: record.number,
        level: record.level,
        message: record.message,
        timestamp: Time(record.at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_into_lines() {
        let lines = |text| lines_of(text).into_iter().map(|line| line.message).collect::<Vec<_>>();
        assert_eq!(lines("a\nb\r\n\nc\n"), ["a", "b", "", "c"]);
        assert_eq!(lines("\0"), ["\0"]);
    }

    #[test]
    fn a_level_is_a_short_word() {
        let level = |text: Option<&str>| {
            line(NewLogLine { level: text.map(str::to_owned), message: String::new(), timestamp: None }).level
        };
        assert_eq!(
            (level(None).as_str(), level(Some(" ")).as_str(), level(Some("WARN")).as_str()),
            ("info", "info", "WARN")
        );
        assert_eq!(level(Some(&"ä".repeat(30))), "ä".repeat(10));
    }
}
