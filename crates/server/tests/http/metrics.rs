//! `/metrics` tells what was done, and nothing else; docs/metrics.md, the dashboards and the alerts name what there is. After a
//! change of metrics: `UPDATE_DOCS=1 cargo test -p baton-server --test http metrics::`, then read the difference.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use baton::proto::{Claim, SubmitRun};
use baton_core::State;
use baton_server::{Described, Metrics, VERBS};
use serde_json::{Value, json};

use crate::harness::{On, Server, complete, eventually, fail, give_back, on_both, refusal, run, started_claim};

const HOW_TO_UPDATE: &str =
    "If the metrics are right, run: UPDATE_DOCS=1 cargo test -p baton-server --test http metrics::";

const HEAD: &str = "\
# Metrics

What `/metrics` shows, in the text format of OpenMetrics, which Prometheus reads.
[docs/monitoring.md](monitoring.md) says how to have it read, and which dashboards and alerts there are.
The tables are written by a test, crates/server/tests/http/metrics.rs. Do not edit them: change the
metrics, run `UPDATE_DOCS=1 cargo test -p baton-server --test http metrics::`, and read the difference.

Counters begin at 0 when a server starts, and each server counts what it did itself: add up the
servers. What is in the store (`baton_queue_...`, `baton_workers`, `baton_pool_...`) every server shows
alike: take the largest of them. A series with a label appears with its first value.

The number of series is limited. `baton_queue_...` shows the 100 deepest queues, and
`baton_run_..._seconds` the first 100 pairs of queue and type that the server handed out; all others are
together in one with the name `other`. Queues and workers are counted when somebody asks, at most every
5 seconds; when the store does not answer, they are not shown.
";

/// The value of a series.
fn value(text: &str, series: &str) -> f64 {
    let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {series} in:\n{text}")).parse().unwrap()
}

async fn counters_tell_what_a_load_did(on: On) {
    let server = Server::start(on).await;
    let keyed = SubmitRun { idempotency_key: Some("once".into()), ..run() };
    let mut runs = vec![server.submit_run(&keyed).await];
    assert_eq!(server.submit_run(&keyed).await, runs[0]);
    for _ in 1..20 {
        runs.push(server.submit().await);
    }
    let wrong = SubmitRun { priority: Some(10), ..run() };
    assert_eq!(refusal(server.client.submit(&wrong).await), "422 invalid");
    server.clock.advance(2_000);

    let worker = server.worker("busy").await;
    let held = server.claims(&worker, &Claim { max: Some(10), ..started_claim() }).await;
    assert_eq!(held.len(), 10);
    for run in &held[..4] {
        server.client.complete(&run.run_id, &complete(&run.lease)).await.unwrap();
    }
    // Once more, because the answer might have been lost.
    server.client.complete(&held[0].run_id, &complete(&held[0].lease)).await.unwrap();
    for run in &held[4..6] {
        let report = baton::proto::FailRun { retryable: false, ..fail(&run.lease) };
        server.client.fail(&run.run_id, &report).await.unwrap();
    }
    server.client.give_back(&held[6].run_id, &give_back(&held[6].lease)).await.unwrap();
    let sleep = json!({"lease": held[7].lease, "ms": 3_600_000}).to_string();
    assert_eq!(server.call("POST", &format!("/api/v1/runs/{}/sleep", held[7].run_id), sleep).await.status, 200);

    for id in &runs[17..] {
        server.client.cancel(id).await.unwrap();
    }
    assert_eq!(refusal(server.client.cancel(&held[0].run_id).await), "409 ended");
    assert_eq!(refusal(server.client.cancel("0192f0c1-0000-7000-8000-000000000000").await), "404 not_found");
    let again = format!("/api/v1/runs/{}/retry", held[4].run_id);
    assert_eq!(server.call("POST", &again, "").await.status, 201);

    // The worker falls silent with two runs in its hands, and comes back too late.
    server.clock.advance(server.settings.lease_ttl_ms as i64 + 1_001);
    eventually("its runs are free", async || server.state(&held[9].run_id).await == State::Pending).await;
    assert_eq!(refusal(server.client.complete(&held[9].run_id, &complete(&held[9].lease)).await), "409 lease_lost");

    let text = server.client.metrics().await.unwrap();
    let carried_out = [
        ("submit", 21),
        ("claim", 10),
        ("start", 10),
        ("complete", 4),
        ("fail", 2),
        ("give_back", 1),
        ("sleep", 1),
        ("cancel", 3),
        ("retry", 1),
        ("expire", 2),
        ("suspend", 0),
    ];
    for (verb, runs) in carried_out {
        assert_eq!(value(&text, &format!("baton_{verb}_total")), f64::from(runs), "{verb}");
    }
    let queue = r#"namespace="default",queue="builds""#;
    for (series, expected) in [
        (r#"baton_submit_refused_total{code="invalid"}"#.to_owned(), 1.0),
        (r#"baton_cancel_refused_total{code="ended"}"#.to_owned(), 1.0),
        (r#"baton_cancel_refused_total{code="not_found"}"#.to_owned(), 1.0),
        (r#"baton_complete_refused_total{code="lease_lost"}"#.to_owned(), 1.0),
        (r#"baton_leases_lost_total{reason="lost"}"#.to_owned(), 2.0),
        ("baton_lease_refusals_total".to_owned(), 1.0),
        ("baton_workers_lost_total".to_owned(), 1.0),
        (r#"baton_workers{status="online"}"#.to_owned(), 0.0),
        (r#"baton_workers{status="offline"}"#.to_owned(), 1.0),
        // 21 were submitted; 4 completed, 2 failed, 3 were cancelled and 1 sleeps.
        (format!(r#"baton_queue_runs{{{queue},state="ready"}}"#), 11.0),
        (format!(r#"baton_queue_runs{{{queue},state="running"}}"#), 0.0),
        (format!(r#"baton_queue_runs{{{queue},state="sleeping"}}"#), 1.0),
        (format!(r#"baton_run_wait_seconds_count{{{queue},type="ios"}}"#), 10.0),
        (format!(r#"baton_run_wait_seconds_sum{{{queue},type="ios"}}"#), 20.0),
        (format!(r#"baton_run_duration_seconds_count{{{queue},type="ios"}}"#), 6.0),
        ("baton_complete_duration_seconds_count".to_owned(), 6.0),
        ("baton_cancel_duration_seconds_count".to_owned(), 4.0),
    ] {
        assert_eq!(value(&text, &series), expected, "{series} in:\n{text}");
    }
    assert!(value(&text, &format!("baton_queue_oldest_seconds{{{queue}}}")) >= 18.0);
    assert!(value(&text, r#"baton_store_call_duration_seconds_count{verb="claim"}"#) >= 1.0);
    let route = r#"baton_http_request_duration_seconds_count{method="POST",route="/api/v1/runs"}"#;
    assert_eq!(value(&text, route), 22.0);
    if cfg!(target_os = "linux") {
        assert!(value(&text, "process_resident_memory_bytes") > 1e6);
    }
    if on == On::Postgres {
        assert_eq!(value(&text, "baton_store_connections_max"), 4.0);
    }
    assert_described(&text);
}

on_both!(counters_tell_what_a_load_did);

/// Everything that can be shown, with `<verb>` written out.
fn all() -> Vec<Described> {
    let metrics = Metrics::new("sqlite");
    let named = |described: &Described| match described.name.contains("<verb>") {
        false => vec![described.clone()],
        true => {
            let of = |verb: &&str| Described { name: described.name.replace("<verb>", verb), ..described.clone() };
            VERBS.iter().map(of).collect()
        }
    };
    metrics.described().iter().flat_map(named).collect()
}

/// What a name in a query stands for, with the labels it has.
fn described<'a>(all: &'a [Described], name: &str) -> Option<(&'a Described, BTreeSet<&'a str>)> {
    all.iter().find_map(|described| {
        let suffix = name.strip_prefix(described.name.as_str())?;
        let is_histogram = described.kind == "histogram";
        let mut labels: BTreeSet<&str> = described.labels.iter().copied().collect();
        match suffix {
            "" if !is_histogram => {}
            "_sum" | "_count" if is_histogram => {}
            "_bucket" if is_histogram => drop(labels.insert("le")),
            _ => return None,
        }
        Some((described, labels))
    })
}

/// Fails unless each series is one that the page describes, with the same labels.
fn assert_described(text: &str) {
    let all = all();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let series = line.rsplit_once(' ').unwrap().0;
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let (_, known) = described(&all, name).unwrap_or_else(|| panic!("nobody describes {line}"));
        let used: BTreeSet<&str> = labels.split("=\"").filter_map(|part| part.rsplit([',', '{', '"']).next()).collect();
        let used: BTreeSet<&str> = used.into_iter().filter(|label| !label.contains('}')).collect();
        assert_eq!(used, known, "{line}");
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The tables of the page.
fn page() -> String {
    let mut page = HEAD.to_owned();
    let metrics = Metrics::new("sqlite");
    let section = |name: &str| match name {
        name if name.contains("<verb>") => 1,
        name if name.starts_with("baton_queue") || name.starts_with("baton_run_") => 0,
        name if name.starts_with("baton_worker") || name.starts_with("baton_lease") || name == "baton_fires_total" => 0,
        name if name.starts_with("baton_bulk") => 0,
        name if name.starts_with("baton_http") || name.starts_with("baton_grpc") => 2,
        name if name.starts_with("baton_connections") || name.starts_with("baton_tls") => 2,
        name if name.starts_with("baton_store") => 3,
        name if name.starts_with("baton_pool") => 4,
        _ => 5,
    };
    let titles =
        ["Queues, runs and workers", "Verbs", "Requests and connections", "The store", "Runner pools", "The server"];
    for (number, title) in titles.into_iter().enumerate() {
        writeln!(page, "\n## {title}\n").unwrap();
        if number == 1 {
            let verbs: Vec<_> = VERBS.iter().map(|verb| format!("`{verb}`")).collect();
            writeln!(page, "`<verb>` stands for each of {}.\n", verbs.join(", ")).unwrap();
        }
        page.push_str("| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n");
        for one in metrics.described().iter().filter(|one| section(&one.name) == number) {
            let labels: Vec<_> = one.labels.iter().map(|label| format!("`{label}`")).collect();
            let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
            writeln!(page, "| `{}` | {} | {labels} | {} |", one.name, one.kind, one.help).unwrap();
        }
    }
    page
}

#[test]
fn the_page_names_every_metric_and_no_other() {
    let path = root().join("docs/metrics.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "docs/metrics.md is not what the server shows. {HOW_TO_UPDATE}");
}

/// Names keep to the conventions: seconds and bytes, and `_total` for counters alone.
#[test]
fn names_keep_to_the_conventions() {
    for one in all() {
        let name = one.name.as_str();
        assert_eq!(name.ends_with("_total"), one.kind == "counter", "{name}");
        assert!(name.starts_with("baton_") || name.starts_with("process_"), "{name}");
        let wrong = ["_ms", "_millis", "_minutes", "_kb", "_percent"];
        assert!(!wrong.iter().any(|unit| name.contains(unit)), "{name}");
        assert!(!one.help.is_empty() && !one.help.ends_with('.'), "{name}");
    }
}

/// Names of metrics in a query, and the labels that are used with them: those in braces, and those that are grouped by.
fn used(query: &str) -> Vec<(String, BTreeSet<String>)> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut found: Vec<(String, BTreeSet<String>)> = Vec::new();
    let mut grouped: BTreeSet<String> = BTreeSet::new();
    let mut rest = query;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_alphabetic() || letter == '"') {
        rest = &rest[start..];
        if let Some(quoted) = rest.strip_prefix('"') {
            rest = quoted.split_once('"').map_or("", |(_, after)| after);
            continue;
        }
        let end = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        let open = after.trim_start();
        if ["by", "on", "ignoring", "without", "group_left"].contains(&word) && open.starts_with('(') {
            let (inside, after) = open[1..].split_once(')').unwrap_or((&open[1..], ""));
            grouped.extend(inside.split(',').map(|label| label.trim().to_owned()).filter(|label| !label.is_empty()));
            rest = after;
        } else if word.starts_with("baton_") || word.starts_with("process_") {
            let mut labels = BTreeSet::new();
            if let Some(inside) = open.strip_prefix('{') {
                let (inside, after) = inside.split_once('}').unwrap_or((inside, ""));
                let matchers = inside.split(',').filter_map(|matcher| matcher.split(['=', '!', '~']).next());
                labels.extend(matchers.map(|label| label.trim().to_owned()).filter(|label| !label.is_empty()));
                rest = after;
            }
            found.push((word.to_owned(), labels));
        }
    }
    for (_, labels) in &mut found {
        labels.extend(grouped.iter().cloned());
    }
    found
}

/// Labels that Prometheus itself gives to what it reads.
const OF_PROMETHEUS: [&str; 2] = ["instance", "job"];

fn assert_used_exists(all: &[Described], place: &str, query: &str) {
    for (name, labels) in used(query) {
        let known = described(all, &name);
        let (_, known) = known.unwrap_or_else(|| panic!("{place}: there is no metric {name} in {query}"));
        for label in labels.iter().filter(|label| !OF_PROMETHEUS.contains(&label.as_str())) {
            assert!(known.contains(label.as_str()), "{place}: {name} has no label {label} in {query}");
        }
    }
}

#[test]
fn queries_are_taken_apart() {
    let query = r#"sum by (queue, le) (rate(baton_wait_bucket{namespace="a", queue=~"x.*"}[5m])) > on (queue) baton_x"#;
    let labels = |labels: &[&str]| labels.iter().map(|label| (*label).to_owned()).collect::<BTreeSet<_>>();
    let wait = ("baton_wait_bucket".to_owned(), labels(&["le", "namespace", "queue"]));
    assert_eq!(used(query), [wait, ("baton_x".to_owned(), labels(&["le", "queue"]))]);
}

/// Every query in a dashboard: panels and variables, however deep they are.
fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(text) if ["expr", "query", "definition"].contains(&key.as_str()) => {
                        found.push(text.clone());
                    }
                    other => queries(other, found),
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|value| queries(value, found)),
        _ => {}
    }
}

#[test]
fn dashboards_ask_for_what_there_is() {
    let all = all();
    for name in ["overview", "queues", "workflows", "builds", "pools"] {
        let path = root().join(format!("deploy/grafana/{name}.json"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}: {}", path.display()));
        let board: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((&board["uid"], board["title"].is_string()), (&json!(format!("baton-{name}")), true), "{name}");
        let mut found = Vec::new();
        queries(&board, &mut found);
        assert!(found.len() >= 4, "{name}: {found:?}");
        for query in found {
            // What stands for a choice of the reader.
            assert_used_exists(&all, name, &query.replace("$__rate_interval", "5m"));
        }
    }
}

#[test]
fn alerts_ask_for_what_there_is() {
    let path = root().join("deploy/prometheus/alerts.yml");
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let queries: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("expr: ")).collect();
    let alerts = lines.iter().filter(|line| line.starts_with("- alert: ")).count();
    assert!(alerts >= 10 && queries.len() == alerts, "each alert has a query on one line");
    let all = all();
    for query in queries {
        assert!(!used(query).is_empty() || query.starts_with("up"), "{query}");
        assert_used_exists(&all, "alerts.yml", query);
    }
    // Prometheus reads them as it would, where it is there: scripts/test installs it where it may.
    match std::process::Command::new("promtool").args(["check", "rules"]).arg(&path).output() {
        Ok(checked) => {
            let said = String::from_utf8_lossy(&checked.stdout) + String::from_utf8_lossy(&checked.stderr);
            assert!(checked.status.success(), "{said}");
        }
        Err(error) => eprintln!("promtool cannot be run ({error}): only the names were checked"),
    }
}
