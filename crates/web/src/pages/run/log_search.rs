//! Search in logs. A log only grows, so what was looked at once is not looked at again: each text that somebody looks for
//! is remembered with its matches, and a later look goes on where the last one stopped.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use baton_core::RunId;
use baton_server::service::sheet::{LogRecord, Sheet};
use baton_server::{App, Error, face};

/// Lines that are read together.
const BATCH: usize = 2_000;
/// How long one look takes at most; the next one goes on.
const LOOK_MAX: Duration = Duration::from_millis(120);
/// Most matches that are remembered of a search.
const MATCHES_MAX: usize = 10_000;
/// Most searches that are remembered.
const SEARCHES_MAX: usize = 200;

/// A log, and what is looked for in lower case; nothing but errors when there is no text.
type Key = (usize, RunId, Option<String>);

/// Searches of late, with the time of their last use.
type Searches = HashMap<Key, (Instant, Arc<Searched>)>;

static SEARCHES: LazyLock<Mutex<Searches>> = LazyLock::new(Mutex::default);

/// What was found so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Searched {
    /// Numbers of lines that match.
    pub lines: Vec<u64>,
    /// The first line that looks like an error.
    pub first_error: Option<u64>,
    /// How far it was looked.
    pub upto: u64,
    /// That is all there is.
    pub is_whole: bool,
    /// There are more matches than are remembered.
    pub is_capped: bool,
}

impl Searched {
    /// The last match before a line.
    pub fn before(&self, at: Option<u64>) -> Option<u64> {
        let index = self.lines.partition_point(|line| at.is_some_and(|at| *line < at));
        index.checked_sub(1).map(|index| self.lines[index])
    }

    /// The first match after a line.
    pub fn after(&self, at: Option<u64>) -> Option<u64> {
        let index = self.lines.partition_point(|line| at.is_some_and(|at| *line <= at));
        self.lines.get(index).copied()
    }

    fn take(&mut self, line: &LogRecord, find: Option<&str>) {
        self.upto = line.number;
        match find {
            Some(find) if line.message.to_ascii_lowercase().contains(find) => match self.lines.len() < MATCHES_MAX {
                true => self.lines.push(line.number),
                false => self.is_capped = true,
            },
            Some(_) => {}
            None if self.first_error.is_none() && is_error(line) => self.first_error = Some(line.number),
            None => {}
        }
    }

    /// There is nothing left that would change what is said.
    fn is_settled(&self, find: Option<&str>) -> bool {
        self.is_capped || find.is_none() && self.first_error.is_some()
    }
}

/// Looks for a text, or for the first error; `lines` is the number of the last line there is.
pub async fn look(app: &App, sheet: &Sheet, find: Option<&str>, lines: u64) -> Result<Searched, Error> {
    let find = find.map(str::to_ascii_lowercase);
    let key = (face::server_mark(app), sheet.run(), find.clone());
    let known = remembered().get(&key).map(|(_, searched)| searched.clone());
    let mut searched = known.map_or_else(Searched::default, |known| Searched::clone(&known));
    let until = Instant::now() + LOOK_MAX;
    while searched.upto < lines && !searched.is_settled(find.as_deref()) && Instant::now() < until {
        let some = sheet.log_lines(app, searched.upto, BATCH).await?;
        if some.is_empty() {
            break;
        }
        some.iter().for_each(|line| searched.take(line, find.as_deref()));
    }
    searched.is_whole = searched.upto >= lines || searched.is_settled(find.as_deref());
    let mut searches = remembered();
    if searches.len() >= SEARCHES_MAX && !searches.contains_key(&key) {
        let oldest = searches.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
        oldest.and_then(|oldest| searches.remove(&oldest));
    }
    searches.insert(key, (Instant::now(), Arc::new(searched.clone())));
    Ok(searched)
}

fn remembered() -> std::sync::MutexGuard<'static, HashMap<Key, (Instant, Arc<Searched>)>> {
    SEARCHES.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Whether a line looks like what broke a build.
pub fn is_error(line: &LogRecord) -> bool {
    const BEGINNINGS: [&str; 7] =
        ["error:", "error[", "error ", "fatal:", "fatal error", "npm err!", "traceback (most recent call last)"];
    const PARTS: [&str; 6] = [": error:", ": fatal error:", "panicked at", " failed", "failure:", "##[error]"];
    if matches!(line.level.to_ascii_lowercase().as_str(), "error" | "fatal" | "critical") {
        return true;
    }
    let plain = strip(&line.message);
    let text = plain.trim_start().to_ascii_lowercase();
    let is_count = text.contains(" 0 failed") || text.contains(" 0 errors") || text.contains("no error");
    !is_count
        && (BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
            || PARTS.iter().any(|part| text.contains(part))
            || plain.contains("FAILED")
            || plain.contains("FAIL:"))
}

/// A line without colours.
fn strip(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    let mut rest = message.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => {
                rest.by_ref().find(|c| c.is_ascii_alphabetic());
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64, level: &str, message: &str) -> LogRecord {
        LogRecord { number, level: level.into(), message: message.into(), at: 0, arrived_at: 0 }
    }

    #[test]
    fn errors_are_known_by_what_tools_print() {
        for error in [
            "error[E0425]: cannot find value",
            "\u{1b}[1m\u{1b}[38;5;9merror\u{1b}[0m: linking failed",
            "src/a.c:4:2: error: expected ';'",
            "test ledger::rounds ... FAILED",
            "thread 'main' panicked at src/main.rs:3:5",
            "npm ERR! code 1",
            "Traceback (most recent call last):",
            "fatal: not a git repository",
        ] {
            assert!(is_error(&line(1, "info", error)), "{error}");
        }
        for fine in
            ["test result: ok. 12 passed; 0 failed", "no errors", "error_chain v0.12", "Compiling thiserror", ""]
        {
            assert!(!is_error(&line(1, "info", fine)), "{fine}");
        }
        assert!(is_error(&line(1, "ERROR", "anything")));
    }

    #[test]
    fn one_goes_from_match_to_match() {
        let searched = Searched { lines: vec![3, 7, 9], ..Searched::default() };
        let around = |at| (searched.before(at), searched.after(at));
        assert_eq!(around(None), (None, Some(3)));
        assert_eq!(around(Some(3)), (None, Some(7)));
        assert_eq!(around(Some(5)), (Some(3), Some(7)));
        assert_eq!(around(Some(9)), (Some(7), None));
    }

    #[test]
    fn matches_do_not_look_at_the_case_of_letters() {
        let mut searched = Searched::default();
        for (number, message) in [(1, "Refund"), (2, "x"), (3, "a refund of ä")] {
            searched.take(&line(number, "info", message), Some("refund"));
        }
        assert_eq!((searched.lines, searched.upto), (vec![1, 3], 3));
    }
}
