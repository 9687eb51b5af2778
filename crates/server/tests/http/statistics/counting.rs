//! What is counted, and how it is told.

use std::collections::BTreeMap;

use baton::StatisticsFilter;
use baton::proto::{Claim, CreateNamespace, FailRun, Statistics, SubmitRun};
use baton_core::statistics::{ERROR_MAX, MINUTE, STEP};
use baton_core::{Millis, State};
use serde_json::json;

use super::{ask, hour, live, of_range, series, sum, sums, to};
use crate::harness::{On, Server, complete, eventually, fail, give_back, on_both, refusal, run, started_claim};

on_both!(
    statistics_tell_what_a_load_did,
    values_are_in_the_step_of_their_moment,
    a_namespace_sees_nothing_of_another,
    many_queues_stay_bounded,
    runs_that_wait_for_nobody_are_a_line,
    the_deepest_queues_are_listed_and_the_others_together,
    workers_are_counted,
    a_question_that_makes_no_sense_is_refused,
);

async fn statistics_tell_what_a_load_did(on: On) {
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
    server.clock.advance(500);
    for run in &held[..4] {
        server.client.complete(&run.run_id, &complete(&run.lease)).await.unwrap();
    }
    // Once more, because the answer might have been lost.
    server.client.complete(&held[0].run_id, &complete(&held[0].lease)).await.unwrap();
    for run in &held[4..6] {
        let report = FailRun { retryable: false, ..fail(&run.lease) };
        server.client.fail(&run.run_id, &report).await.unwrap();
    }
    server.client.give_back(&held[6].run_id, &give_back(&held[6].lease)).await.unwrap();
    let sleep = json!({"lease": held[7].lease, "ms": 3_600_000}).to_string();
    assert_eq!(server.call("POST", &format!("/api/v1/runs/{}/sleep", held[7].run_id), sleep).await.status, 200);
    for id in &runs[17..] {
        server.client.cancel(id).await.unwrap();
    }
    let again = format!("/api/v1/runs/{}/retry", held[4].run_id);
    assert_eq!(server.call("POST", &again, "").await.status, 201);
    // The worker falls silent with two runs in its hands, and comes back too late.
    server.clock.advance(server.settings.lease_ttl_ms as i64 + 1_001);
    eventually("its runs are free", async || server.state(&held[9].run_id).await == State::Pending).await;
    assert_eq!(refusal(server.client.complete(&held[9].run_id, &complete(&held[9].lease)).await), "409 lease_lost");

    let expected = BTreeMap::from([
        ("submitted", 21.0),
        ("claimed", 10.0),
        ("completed", 4.0),
        ("failed", 2.0),
        ("failed.error", 2.0),
        ("failed.timeout", 0.0),
        ("cancelled", 3.0),
        ("returned", 1.0),
        ("retried", 0.0),
        ("lost", 2.0),
    ]);
    let names: Vec<&str> = expected.keys().copied().collect();
    let told = hour(&server).await;
    assert_eq!(sums(&told, &names), expected, "from memory");
    assert_eq!(told.times.len(), 360);
    let known = |name: &str| series(&told, name).values.iter().flatten().copied().collect::<Vec<_>>();
    for (name, truth) in [("wait.p50_ms", 2_000.0), ("wait.p99_ms", 2_000.0), ("duration.p50_ms", 500.0)] {
        let values = known(name);
        assert!(values.len() == 1 && (values[0] - truth).abs() <= truth * ERROR_MAX, "{name}: {values:?}");
    }
    // The same once it is written.
    live(&server, 2 * MINUTE).await;
    assert_eq!(sums(&hour(&server).await, &names), expected, "from the store");
    let written = server.metric("baton_statistics_blocks_written_total").await;
    assert!((2..=4).contains(&written), "one a minute, not {written}");
    // And of its queue.
    let builds = ask(&server, StatisticsFilter { queue: Some("builds".into()), ..of_range("day") }).await;
    assert_eq!(sums(&builds, &names), expected, "of its queue");
    let other = ask(&server, StatisticsFilter { queue: Some("other".into()), ..of_range("day") }).await;
    assert!(names.iter().all(|name| sum(&other, name) == 0.0), "of another queue");
    assert!(other.series.iter().all(|series| !series.name.starts_with("workers")), "workers have no queue");
}

async fn values_are_in_the_step_of_their_moment(on: On) {
    let server = Server::start(on).await;
    let mut moments = Vec::new();
    for pause in [0, STEP, 3 * STEP, MINUTE] {
        server.clock.advance(pause);
        server.submit().await;
        moments.push(server.clock.local());
    }
    let told = ask(&server, StatisticsFilter { series: vec!["submitted".into()], ..of_range("hour") }).await;
    assert_eq!(told.series.len(), 1);
    let values = &told.series[0].values;
    let seen: Vec<Millis> =
        told.times.iter().zip(values).filter(|(_, value)| **value == Some(1.0)).map(|(at, _)| at.0).collect();
    assert_eq!(seen, moments.iter().map(|at| at - at % STEP).collect::<Vec<_>>());
    assert_eq!(told.until.0, told.times.last().unwrap().0 + STEP);
    assert!(told.complete_until.0 <= server.clock.local() && told.complete_until.0 > server.clock.local() - 2 * MINUTE);
    // The same as fewer, longer steps.
    let few = ask(&server, StatisticsFilter { points: Some(20), ..of_range("hour") }).await;
    assert!(few.times.len() <= 20 && few.step_ms % 10_000 == 0);
    assert_eq!(sum(&few, "submitted"), 4.0);
    // A stretch that was named.
    let named = StatisticsFilter {
        from: Some(baton::proto::Time(moments[1])),
        until: Some(baton::proto::Time(moments[2])),
        ..StatisticsFilter::default()
    };
    let named = ask(&server, named).await;
    assert_eq!((sum(&named, "submitted"), named.times.len(), named.step_ms), (1.0, 3, 10_000));
}

async fn a_namespace_sees_nothing_of_another(on: On) {
    let server = Server::start(on).await;
    for name in ["ours", "theirs"] {
        let namespace = CreateNamespace { name: name.into(), ..CreateNamespace::default() };
        server.client.create_namespace(&namespace).await.unwrap();
    }
    for (namespace, count) in [("ours", 2), ("theirs", 5)] {
        for number in 0..count {
            let queue = format!("{namespace}-{number}");
            server.submit_run(&SubmitRun { namespace: namespace.into(), ..to(&queue) }).await;
        }
    }
    live(&server, 2 * MINUTE).await;
    let ours = server.client_for(&["read"], Some("ours")).await;
    let by_queue = StatisticsFilter { by: Some("queue".into()), ..StatisticsFilter::default() };
    let told = ours.statistics(&by_queue).await.unwrap();
    assert_eq!(sum(&told, "submitted"), 2.0);
    let seen: Vec<_> = told.series.iter().flat_map(|series| [&series.namespace, &series.queue]).flatten().collect();
    assert!(seen.iter().all(|name| name.starts_with("ours")), "{seen:?}");
    let text = serde_json::to_string(&told).unwrap();
    assert!(!text.contains("theirs"), "{text}");
    let of_theirs = StatisticsFilter { namespace: Some("theirs".into()), ..StatisticsFilter::default() };
    assert_eq!(refusal(ours.statistics(&of_theirs).await), "403 forbidden");
    // What is foreign is as what is not there.
    let one = |queue: &str| StatisticsFilter { queue: Some(queue.into()), ..StatisticsFilter::default() };
    let [foreign, unknown] = [ours.statistics(&one("theirs-0")).await, ours.statistics(&one("nowhere")).await];
    let values = |told: &Statistics| told.series.iter().map(|series| series.values.clone()).collect::<Vec<_>>();
    assert_eq!(values(&foreign.unwrap()), values(&unknown.unwrap()));
    assert_eq!(sum(&server.client.statistics(&of_theirs).await.unwrap(), "submitted"), 5.0);
    assert_eq!(sum(&hour(&server).await, "submitted"), 7.0);
    let worker_only = server.client_for(&["worker"], Some("ours")).await;
    assert_eq!(refusal(worker_only.statistics(&StatisticsFilter::default()).await), "403 forbidden");
}

async fn many_queues_stay_bounded(on: On) {
    /// More than are told apart in memory.
    const QUEUES: u32 = 1_200;
    let server = Server::start(on).await;
    let namespace = CreateNamespace { name: "few".into(), ..CreateNamespace::default() };
    server.client.create_namespace(&namespace).await.unwrap();
    server.submit_run(&SubmitRun { namespace: "few".into(), ..to("only") }).await;
    for _ in 0..20 {
        server.submit_run(&to("busy")).await;
    }
    // It has its place before the crowd comes: in memory those that come first are told apart.
    assert_eq!(sum(&hour(&server).await, "submitted"), 21.0);
    let runs: Vec<SubmitRun> = (0..QUEUES).map(|number| to(&format!("q{number}"))).collect();
    for some in runs.chunks(100) {
        server.client.submit_batch(&baton::proto::SubmitBatch { runs: some.to_vec() }).await.unwrap();
    }
    live(&server, 2 * MINUTE).await;
    let by_queue = StatisticsFilter {
        by: Some("queue".into()),
        limit: Some(100),
        series: vec!["submitted".into()],
        ..StatisticsFilter::default()
    };
    let told = ask(&server, by_queue.clone()).await;
    assert_eq!(sum(&told, "submitted"), f64::from(QUEUES) + 21.0);
    assert!(told.series.len() <= 102, "{}", told.series.len());
    let of = |name: &str| told.series.iter().find(|series| series.queue.as_deref() == Some(name));
    assert_eq!(of("busy").unwrap().values.iter().flatten().sum::<f64>(), 20.0);
    let listed: f64 = told.series[1..].iter().flat_map(|series| series.values.iter().flatten()).sum();
    assert_eq!(listed, f64::from(QUEUES) + 21.0, "the listed and the others are all");
    assert!(told.series.last().unwrap().other);
    // A queue that was counted with others is not known to be empty.
    let told_apart: Vec<_> = told.series.iter().filter_map(|series| series.queue.clone()).collect();
    let lost = (0..QUEUES).map(|number| format!("q{number}")).find(|name| !told_apart.contains(name)).unwrap();
    let lost = StatisticsFilter { queue: Some(lost), namespace: Some("default".into()), ..by_queue };
    let lost = ask(&server, StatisticsFilter { by: None, limit: None, ..lost }).await;
    assert!(lost.series[0].values.contains(&None) && !lost.series[0].values.contains(&Some(1.0)));
    // The other namespace has not lost its own.
    let few = StatisticsFilter { namespace: Some("few".into()), ..StatisticsFilter::default() };
    assert_eq!(sum(&ask(&server, few).await, "submitted"), 1.0);
    let bytes = server.metric("baton_statistics_bytes_written_total").await;
    assert!(bytes < 60_000, "{bytes} bytes");
}

async fn runs_that_wait_for_nobody_are_a_line(on: On) {
    let server = Server::start(on).await;
    for _ in 0..12 {
        server.submit_run(&to("mail")).await;
    }
    live(&server, 10 * MINUTE).await;
    let mail = StatisticsFilter { queue: Some("mail".into()), ..StatisticsFilter::default() };
    let told = ask(&server, mail).await;
    let recent = |name: &str| -> Vec<f64> {
        let values = &series(&told, name).values;
        values[values.len() - 50..].iter().map(|value| value.unwrap_or(-1.0)).collect()
    };
    assert!(recent("ready").iter().all(|value| *value == 12.0), "{:?}", recent("ready"));
    let ages = recent("oldest_ms");
    assert!(ages.windows(2).all(|two| two[1] >= two[0]) && ages[49] >= (9 * MINUTE) as f64, "{ages:?}");
    assert!(recent("submitted").iter().all(|value| *value == 0.0));
    // A quiet system is looked at less often, and told as it was seen.
    let quiet = Server::start(on).await;
    live(&quiet, 10 * MINUTE).await;
    let looks = quiet.metric("baton_statistics_looks_total").await;
    assert!((9..=13).contains(&looks), "{looks} looks in ten minutes");
    let told = hour(&quiet).await;
    let values = &series(&told, "ready").values;
    assert!(values[values.len() - 50..].iter().all(|value| *value == Some(0.0)), "{values:?}");
}

async fn the_deepest_queues_are_listed_and_the_others_together(on: On) {
    let server = Server::start(on).await;
    for (queue, count) in [("deep", 5), ("middle", 3), ("shallow", 1)] {
        for _ in 0..count {
            server.submit_run(&to(queue)).await;
        }
    }
    live(&server, MINUTE).await;
    let by_queue = StatisticsFilter {
        by: Some("queue".into()),
        limit: Some(2),
        series: vec!["ready".into(), "submitted".into()],
        points: Some(30),
        ..StatisticsFilter::default()
    };
    let told = ask(&server, by_queue).await;
    let listed: Vec<_> = told
        .series
        .iter()
        .map(|series| {
            let last = series.values.iter().flatten().next_back().copied();
            (series.name.as_str(), series.queue.as_deref().unwrap_or(if series.other { "others" } else { "" }), last)
        })
        .filter(|(name, ..)| *name == "ready")
        .collect();
    let expected = [("ready", "", 9.0), ("ready", "deep", 5.0), ("ready", "middle", 3.0), ("ready", "others", 1.0)];
    assert_eq!(listed, expected.map(|(name, queue, last)| (name, queue, Some(last))));
    assert!(told.times.len() <= 30);
}

async fn workers_are_counted(on: On) {
    let server = Server::start(on).await;
    let gone = server.worker("gone").await;
    server.worker("here").await;
    server.client.force_offline(&gone).await.unwrap();
    server.app.statistics.pass().await.unwrap();
    let told = hour(&server).await;
    let last = |name: &str| series(&told, name).values.iter().flatten().next_back().copied();
    assert_eq!((last("workers.online"), last("workers.offline")), (Some(1.0), Some(1.0)));
}

async fn a_question_that_makes_no_sense_is_refused(on: On) {
    let server = Server::start(on).await;
    for (question, field) in [
        ("range=week", "range"),
        ("by=worker", "by"),
        ("series=redy", "series"),
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("points=1", "points"),
        ("points=100000", "points"),
        ("until=2023-11-14T22:13:20Z", "from"),
        ("range=day&from=2023-11-14T22:13:20Z", "range"),
        ("from=2023-11-14T22:13:20Z&until=2023-11-14T22:13:20Z", "until"),
        ("from=1990-11-14T22:13:20Z", "from"),
    ] {
        let answer = server.call("GET", &format!("/api/v1/statistics?{question}"), "").await;
        assert_eq!((answer.status, answer.json()["field"].as_str()), (422, Some(field)), "{question}: {answer:?}");
    }
    for malformed in ["from=yesterday", "unknown=1", "limit=-1"] {
        let answer = server.call("GET", &format!("/api/v1/statistics?{malformed}"), "").await;
        assert!((400..=422).contains(&answer.status), "{malformed}: {answer:?}");
    }
}
