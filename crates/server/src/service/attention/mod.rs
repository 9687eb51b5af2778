//! attention: what is wrong now, worst first, in one sentence each. It is looked up at most once a second for all who look, and
//! every look is bounded: a handful of queries, none over runs that have ended.

mod capacity;
mod installation;
mod work;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_core::Millis;
use baton_core::readable::number;
use baton_proto::{Attention, Finding, Time};
use baton_store::Scope;

use super::statistics::{self, Range, Wanted};
use crate::auth::Caller;
use crate::{App, Error};

/// How long an answer is told again.
const FRESH: Duration = Duration::from_secs(1);
/// Looks of different callers that are remembered.
const REMEMBERED_MAX: usize = 100;
/// Findings that are told.
const FINDINGS_MAX: usize = 100;

/// What two callers have in common who see the same.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Key {
    namespace: Option<String>,
    is_administrator: bool,
}

/// When it was looked at, and what was found. Held while somebody looks: the others wait for that.
type Found = tokio::sync::Mutex<Option<(Instant, Attention)>>;

/// What was found a moment ago.
#[derive(Debug, Default)]
pub struct Looked(Mutex<HashMap<Key, Arc<Found>>>);

/// What is wrong now in a namespace, or in all that the caller sees.
pub async fn get(app: &App, caller: &Caller, namespace: Option<&str>) -> Result<Attention, Error> {
    caller.has(Scope::Read)?;
    if let Some(namespace) = namespace {
        caller.may(Scope::Read, namespace)?;
    }
    let namespace = namespace.or(caller.namespace.as_deref());
    let is_administrator = caller.can(Scope::Admin) && caller.namespace.is_none();
    let key = Key { namespace: namespace.map(str::to_owned), is_administrator };
    let place = {
        let mut looked = app.attention.0.lock().expect("nobody panics while holding it");
        if looked.len() >= REMEMBERED_MAX {
            looked.clear();
        }
        looked.entry(key).or_default().clone()
    };
    // A caller that comes during a look waits for its result.
    let mut last = place.lock().await;
    // Where time is moved by hand, nothing stays fresh.
    let is_fresh = |at: &Instant| at.elapsed() < FRESH && app.store.clock().fixed().is_none();
    if let Some((_, attention)) = last.as_ref().filter(|(at, _)| is_fresh(at)) {
        return Ok(attention.clone());
    }
    let attention = look(app, caller, namespace, is_administrator).await?;
    *last = Some((Instant::now(), attention.clone()));
    Ok(attention)
}

async fn look(app: &App, caller: &Caller, namespace: Option<&str>, is_administrator: bool) -> Result<Attention, Error> {
    let now = app.store.now().await?;
    let mut findings = installation::findings(app, is_administrator).await;
    findings.extend(work::queues(app, namespace, now).await?);
    findings.extend(capacity::workers(app, namespace, now).await?);
    findings.extend(capacity::pools(app, caller, namespace).await?);
    findings.extend(work::schedules(app, caller, namespace, now).await?);
    findings.extend(work::webhooks(app, caller, namespace).await?);
    let (findings, more) = ranked(findings);
    let last_failure_at = match findings.is_empty() {
        true => last_failure(app, caller, namespace).await?.map(Time),
        false => None,
    };
    Ok(Attention { findings, more, last_failure_at })
}

/// The worst first; of what is equally bad, what has lasted longest.
fn ranked(mut findings: Vec<Finding>) -> (Vec<Finding>, u64) {
    findings.sort_by(|one, other| {
        let rank = |finding: &Finding| (finding.severity != FAIL, finding.since.map_or(Millis::MAX, |since| since.0));
        rank(one).cmp(&rank(other)).then_with(|| one.subject.cmp(&other.subject))
    });
    let more = findings.len().saturating_sub(FINDINGS_MAX) as u64;
    findings.truncate(FINDINGS_MAX);
    (findings, more)
}

/// The step of the last day in which a run failed last.
async fn last_failure(app: &App, caller: &Caller, namespace: Option<&str>) -> Result<Option<Millis>, Error> {
    let wanted = Wanted {
        range: Some(Range::Day),
        namespace: namespace.map(str::to_owned),
        series: Some("failed".into()),
        ..Wanted::default()
    };
    let found = statistics::get(app, caller, wanted).await?;
    let Some(failed) = found.series.iter().find(|series| series.name == "failed") else { return Ok(None) };
    let last = failed.values.iter().rposition(|count| count.is_some_and(|count| count > 0.0));
    Ok(last.and_then(|index| found.times.get(index)).map(|at| at.0))
}

const FAIL: &str = "fail";
const WARN: &str = "warn";

/// A finding of its own words.
fn finding(severity: &str, code: &str, subject: impl Into<String>, message: impl Into<String>) -> Finding {
    Finding {
        code: code.into(),
        severity: severity.into(),
        subject: subject.into(),
        message: message.into(),
        namespace: None,
        since: None,
        link: None,
    }
}

/// A name in a path of the dashboard.
fn escape(name: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    let escaped = |byte: u8| if is_plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(escaped).collect()
}

/// `1 run waits`, `412 runs wait`; at the limit of counting `100,000 runs or more wait`.
fn waiting(count: u64, cap: u64) -> String {
    match count {
        1 => "1 run waits".into(),
        count if count >= cap => format!("{} runs or more wait", number(cap)),
        count => format!("{} runs wait", number(count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_and_the_oldest_come_first() {
        let at = |severity, subject: &str, since: Option<i64>| Finding {
            since: since.map(Time),
            ..finding(severity, "x", subject, "y")
        };
        let all = vec![at(WARN, "d", Some(1)), at(FAIL, "c", None), at(FAIL, "b", Some(9)), at(FAIL, "a", Some(3))];
        let (ranked, more) = ranked(all);
        let subjects: Vec<&str> = ranked.iter().map(|finding| finding.subject.as_str()).collect();
        assert_eq!((subjects, more), (vec!["a", "b", "c", "d"], 0));
    }

    #[test]
    fn no_more_are_told_than_somebody_reads() {
        let (ranked, more) = ranked(vec![finding(WARN, "x", "a", "b"); FINDINGS_MAX + 3]);
        assert_eq!((ranked.len(), more), (FINDINGS_MAX, 3));
    }

    #[test]
    fn counts_are_grouped_and_say_where_they_end() {
        assert_eq!(waiting(1, 100_000), "1 run waits");
        assert_eq!(waiting(1_284, 100_000), "1,284 runs wait");
        assert_eq!(waiting(100_000, 100_000), "100,000 runs or more wait");
        assert_eq!(escape("a/b c"), "a%2Fb%20c");
    }
}
