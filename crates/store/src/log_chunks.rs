//! How a log is kept: lines in chunks, each one row with its lines as JSON text.
//!
//! A batch of half a million lines is some hundred rows instead of half a million, also when it is deleted. JSON keeps NUL, which
//! PostgreSQL's text cannot, as an escape; both stores keep and answer the same.

use baton_core::Millis;
use serde::{Deserialize, Serialize};

use crate::{LogLine, LogRecord};

/// Lines of one chunk, at most.
const CHUNK_LINES_MAX: u64 = 1_000;
/// Bytes of one chunk; the line that goes beyond is its last.
const CHUNK_BYTES_MAX: u64 = 64 << 10;

/// A line as it is kept: level, message, and when it was said, if the sender knew.
#[derive(Serialize, Deserialize)]
struct Kept(String, String, Option<Millis>);

impl Kept {
    /// What it takes of the room in a log. An empty line takes some too, or there could be any number of them.
    fn size(&self) -> u64 {
        (self.0.len() + self.1.len() + 1) as u64
    }
}

/// Some lines of one log, one after the other.
pub(crate) struct Chunk {
    pub lines: u64,
    pub bytes: u64,
    pub body: String,
}

/// The end of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tail {
    pub lines: u64,
    pub bytes: u64,
    pub full: bool,
}

impl Tail {
    /// The end after this chunk.
    pub(crate) fn after(self, chunk: &Chunk) -> Tail {
        Tail { lines: self.lines + chunk.lines, bytes: self.bytes + chunk.bytes, full: self.full }
    }
}

/// Puts lines into chunks. Each line is let go as it goes in, so that a large batch is not in memory twice.
pub(crate) fn cut(lines: Vec<LogLine>) -> Result<Vec<Chunk>, serde_json::Error> {
    let mut chunks = Vec::new();
    let mut open: Vec<Kept> = Vec::new();
    let mut bytes = 0;
    for line in lines {
        let line = Kept(line.level, line.message, line.at);
        bytes += line.size();
        open.push(line);
        if bytes >= CHUNK_BYTES_MAX || open.len() as u64 >= CHUNK_LINES_MAX {
            chunks.push(chunk(&open)?);
            open.clear();
            bytes = 0;
        }
    }
    if !open.is_empty() {
        chunks.push(chunk(&open)?);
    }
    Ok(chunks)
}

fn chunk(lines: &[Kept]) -> Result<Chunk, serde_json::Error> {
    let bytes = lines.iter().map(Kept::size).sum();
    Ok(Chunk { lines: lines.len() as u64, bytes, body: serde_json::to_string(lines)? })
}

/// Keeps what a log has room for. The line that would go beyond is replaced by one that says so, and the log is full.
pub(crate) fn fit(tail: Tail, chunks: Vec<Chunk>, bytes_max: u64) -> Result<(Vec<Chunk>, Tail), serde_json::Error> {
    let (mut kept, mut end) = (Vec::with_capacity(chunks.len()), tail);
    for next in chunks {
        if end.full {
            break;
        }
        if end.bytes + next.bytes <= bytes_max {
            end = end.after(&next);
            kept.push(next);
            continue;
        }
        let mut lines: Vec<Kept> = serde_json::from_str(&next.body)?;
        let mut room = bytes_max.saturating_sub(end.bytes);
        let fitting = lines.iter().take_while(|line| {
            let fits = line.size() <= room;
            room = room.saturating_sub(line.size());
            fits
        });
        let fitting = fitting.count();
        lines.truncate(fitting);
        lines.push(Kept("warn".into(), full(bytes_max), None));
        let last = chunk(&lines)?;
        end = Tail { full: true, ..end.after(&last) };
        kept.push(last);
    }
    Ok((kept, end))
}

/// Lines that the lease which wrote last has added, by its own count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Taken {
    pub epoch: Option<i64>,
    pub lines: u64,
}

/// What is new of lines whose writer counts them.
pub(crate) enum Fresh {
    /// These, and how many it has added with them.
    Lines(Vec<Chunk>, Taken),
    /// There are lines missing in between; so many of it are there.
    Ahead(u64),
}

/// Drops lines that their writer has added before: it did not hear that they were kept, and sends them again. `first` is the number
/// of the first one by its own count, from 1; who gives none does not count.
pub(crate) fn fresh(
    taken: Taken,
    epoch: Option<i64>,
    first: Option<u64>,
    chunks: Vec<Chunk>,
) -> Result<Fresh, serde_json::Error> {
    let (Some(epoch), Some(first)) = (epoch, first) else { return Ok(Fresh::Lines(chunks, taken)) };
    let (before, known) = (first.saturating_sub(1), if taken.epoch == Some(epoch) { taken.lines } else { 0 });
    let Some(repeated) = known.checked_sub(before) else { return Ok(Fresh::Ahead(known)) };
    let given: u64 = chunks.iter().map(|chunk| chunk.lines).sum();
    let taken = Taken { epoch: Some(epoch), lines: known.max(before + given) };
    Ok(Fresh::Lines(without_first(chunks, repeated)?, taken))
}

fn without_first(chunks: Vec<Chunk>, mut lines: u64) -> Result<Vec<Chunk>, serde_json::Error> {
    let mut left = Vec::with_capacity(chunks.len());
    for next in chunks {
        if lines == 0 {
            left.push(next);
        } else if lines >= next.lines {
            lines -= next.lines;
        } else {
            let kept: Vec<Kept> = serde_json::from_str(&next.body)?;
            left.push(chunk(&kept[lines as usize..])?);
            lines = 0;
        }
    }
    Ok(left)
}

fn full(bytes_max: u64) -> String {
    format!("This log is full: it takes at most {bytes_max} bytes, and everything after this line was dropped.")
}

/// The lines of a chunk that come after a number. `last` is the number of its last line, `at` when it arrived.
pub(crate) fn read(
    body: &str,
    last: u64,
    lines: u64,
    at: Millis,
    after: u64,
) -> Result<Vec<LogRecord>, serde_json::Error> {
    let kept: Vec<Kept> = serde_json::from_str(body)?;
    let first = last.saturating_sub(lines) + 1;
    let numbered = (first..).zip(kept).filter(|(number, _)| *number > after);
    let record = |(number, Kept(level, message, said_at)): (u64, Kept)| LogRecord {
        number,
        level,
        message,
        at: said_at.unwrap_or(at),
        arrived_at: at,
    };
    Ok(numbered.map(record).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(message: &str) -> LogLine {
        LogLine { level: "info".into(), message: message.into(), at: None }
    }

    fn numbers(chunks: &[Chunk]) -> Vec<(u64, String)> {
        let (mut all, mut last) = (Vec::new(), 0);
        for chunk in chunks {
            last += chunk.lines;
            let lines = read(&chunk.body, last, chunk.lines, 7, 0).unwrap();
            all.extend(lines.into_iter().map(|line| (line.number, line.message)));
        }
        all
    }

    #[test]
    fn lines_keep_their_order_and_numbers_over_chunks() {
        let lines: Vec<LogLine> = (1..=2_500).map(|number| line(&number.to_string())).collect();
        let chunks = cut(lines).unwrap();
        assert_eq!(chunks.iter().map(|chunk| chunk.lines).collect::<Vec<_>>(), [1_000, 1_000, 500]);
        let expected: Vec<(u64, String)> = (1..=2_500).map(|number| (number, number.to_string())).collect();
        assert_eq!(numbers(&chunks), expected);
    }

    #[test]
    fn lines_that_come_again_are_known_by_their_numbers() {
        let of = |range: std::ops::RangeInclusive<u64>| {
            cut(range.map(|number| line(&number.to_string())).collect()).unwrap()
        };
        let known = Taken { epoch: Some(2), lines: 1_500 };
        let new = |epoch, first, chunks| match fresh(known, Some(epoch), first, chunks).unwrap() {
            Fresh::Lines(left, taken) => {
                let lines = numbers(&left);
                Ok((lines.len(), lines.first().map(|(_, message)| message.clone()), taken.lines))
            }
            Fresh::Ahead(lines) => Err(lines),
        };
        assert_eq!(new(2, Some(1), of(1..=1_500)), Ok((0, None, 1_500)), "all of them");
        assert_eq!(new(2, Some(1_001), of(1_001..=2_500)), Ok((1_000, Some("1501".into()), 2_500)), "some of them");
        assert_eq!(new(2, Some(1_501), of(1_501..=1_501)), Ok((1, Some("1501".into()), 1_501)), "none of them");
        assert_eq!(new(2, Some(1_502), of(1_502..=1_502)), Err(1_500), "one is missing");
        assert_eq!(new(3, Some(1), of(1..=2)), Ok((2, Some("1".into()), 2)), "another lease has a count of its own");
        assert_eq!(new(2, None, of(1..=2)), Ok((2, Some("1".into()), 1_500)), "who does not count is not counted");
    }

    #[test]
    fn large_lines_are_in_chunks_of_their_own() {
        let large = "x".repeat(100_000);
        let chunks = cut(vec![line(&large), line(&large), line("small")]).unwrap();
        assert_eq!(chunks.iter().map(|chunk| chunk.lines).collect::<Vec<_>>(), [1, 1, 1]);
    }

    #[test]
    fn what_goes_beyond_is_replaced_by_a_line_that_says_so() {
        // "info", four letters and one more: nine bytes each.
        let chunks = || cut(vec![line("aaaa"), line("bbbb"), line("cccc")]).unwrap();
        let (kept, end) = fit(Tail::default(), chunks(), 27).unwrap();
        assert_eq!((numbers(&kept).len(), end), (3, Tail { lines: 3, bytes: 27, full: false }));
        let (kept, end) = fit(Tail::default(), chunks(), 26).unwrap();
        let kept = numbers(&kept);
        assert_eq!((kept.len(), end.lines, end.full), (3, 3, true));
        assert_eq!(kept[1], (2, "bbbb".into()));
        assert!(kept[2].1.contains("at most 26 bytes"), "{kept:?}");
        let (kept, end) = fit(end, chunks(), 1_000).unwrap();
        assert_eq!((kept.len(), end.lines), (0, 3), "a full log stays as it is");
    }

    #[test]
    fn a_log_without_room_keeps_only_the_line_that_says_so() {
        let tail = Tail { lines: 5, bytes: 50, full: false };
        let (kept, end) = fit(tail, cut(vec![line("aaaa"); 3_000]).unwrap(), 10).unwrap();
        assert_eq!((kept.len(), end.lines, end.full), (1, 6, true));
    }
}
