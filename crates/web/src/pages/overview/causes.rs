//! Why runs failed: many failures, few causes. Two have the same cause when reason, type and the first line of the message are the
//! same but for numbers.

use std::collections::BTreeMap;

use baton_core::{Millis, Reason};
use baton_proto::RunView;

/// Parts of the sparkline of a cause.
pub const STEPS: usize = 20;
/// A message is told apart by its beginning.
const CHARS_MAX: usize = 160;

/// Runs that failed for the same cause.
#[derive(Clone, PartialEq, Debug)]
pub struct Cause {
    /// Why, in the kernel's word.
    pub reason: Option<Reason>,
    /// The type of the runs.
    pub kind: String,
    /// The first line of the newest message.
    pub line: String,
    /// What all messages have in common, as far as it can be searched for.
    pub words: String,
    /// How many.
    pub count: u64,
    /// When, in equal parts of the time that is shown.
    pub when: [u64; STEPS],
}

/// The causes of these failures between two moments, the most frequent first.
pub fn causes(runs: &[RunView], from: Millis, until: Millis) -> Vec<Cause> {
    let mut found = BTreeMap::<(Option<&'static str>, &str, String), Cause>::new();
    for run in runs {
        let ended = run.ended_at.map_or(until, |at| at.0);
        if ended < from {
            continue;
        }
        let line: String = run
            .error
            .as_deref()
            .unwrap_or_default()
            .trim_start()
            .lines()
            .next()
            .unwrap_or_default()
            .chars()
            .take(CHARS_MAX)
            .collect();
        let cause = found.entry((run.reason.map(Reason::as_str), &run.kind, alike(&line))).or_insert_with(|| Cause {
            reason: run.reason,
            kind: run.kind.clone(),
            words: common(&line),
            line,
            count: 0,
            when: [0; STEPS],
        });
        cause.count += 1;
        let part = (ended - from).clamp(0, until - from - 1) as i128 * STEPS as i128 / (until - from).max(1) as i128;
        if let Some(step) = cause.when.get_mut(usize::try_from(part).unwrap_or(0)) {
            *step += 1;
        }
    }
    let mut found: Vec<Cause> = found.into_values().collect();
    found.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.line.cmp(&other.line)));
    found
}

/// A line without its numbers and identifiers.
fn alike(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for word in words(line) {
        text.push_str(if is_number(word) { "#" } else { word });
    }
    text
}

/// The longest part of a line without numbers: what a search for the others of its kind can ask for.
fn common(line: &str) -> String {
    let (mut longest, mut begin, mut at) = ("", 0, 0);
    for word in words(line) {
        let end = at + word.len();
        if is_number(word) {
            begin = end;
        } else if end - begin > longest.len() {
            longest = &line[begin..end];
        }
        at = end;
    }
    longest.trim().to_owned()
}

/// Letters and digits that stand together, and what stands between them.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = rest.find(|c: char| c.is_alphanumeric() != first.is_alphanumeric()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}

/// True for numbers and for what looks like a part of an identifier.
fn is_number(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let is_hexadecimal = word.len() >= 4 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits > 0 && (is_hexadecimal || digits * 2 >= word.len())
}

#[cfg(test)]
mod tests {
    use baton_core::State;
    use baton_proto::Time;
    use proptest::prelude::*;

    use super::*;

    fn failed(kind: &str, error: &str, ended_at: Millis) -> RunView {
        RunView {
            id: "0199a3c4-7d21-7aaa-8b0c-0c2be9d1aa55".into(),
            namespace: "default".into(),
            queue: "mail".into(),
            kind: kind.into(),
            state: State::Failed,
            reason: Some(Reason::Error),
            error: Some(error.into()),
            epoch: 1,
            failures: 1,
            losses: 0,
            priority: 4,
            key: None,
            affinity: None,
            retry_of: None,
            worker_id: None,
            submitted_at: Time(0),
            due_at: Time(0),
            claimed_at: None,
            started_at: None,
            ended_at: Some(Time(ended_at)),
            cancel_by: None,
            trace_id: None,
            input: None,
            output: None,
        }
    }

    #[test]
    fn numbers_do_not_make_another_cause() {
        let runs = [
            failed("send", "no answer in 30 s from 10.0.0.7\nstack", 100),
            failed("send", "no answer in 31 s from 10.0.0.12", 900),
            failed("send", "order 0199a3c4-7d21 is gone", 950),
            failed("other", "no answer in 30 s from 10.0.0.7", 950),
            failed("send", "no answer in 30 s from 10.0.0.7", -5),
        ];
        let found = causes(&runs, 0, 1_000);
        assert_eq!(found.len(), 3);
        assert_eq!((found[0].count, found[0].line.as_str()), (2, "no answer in 30 s from 10.0.0.7"));
        assert_eq!(found[0].words, "no answer in");
        assert_eq!((found[0].when[2], found[0].when[18]), (1, 1));
        assert_eq!(alike("order 0199a3c4-7d21 is gone"), "order #-# is gone");
        assert_eq!(alike("line 7 of v2 differs"), "line # of # differs");
    }

    proptest! {
        #[test]
        fn any_message_has_a_cause(error in any::<String>(), at in any::<i32>()) {
            let found = causes(&[failed("a", &error, i64::from(at))], i64::from(i32::MIN), 0);
            prop_assert_eq!(found.len(), 1);
            prop_assert!(error.contains(&found[0].words));
            prop_assert_eq!(found[0].when.iter().sum::<u64>(), 1);
        }
    }
}
