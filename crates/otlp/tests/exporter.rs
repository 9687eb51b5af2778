//! What is sent to a collector, and what becomes of it when that does not take it.

use std::time::Duration;

use baton_core::trace::{SpanId, TraceId};
use baton_otlp::{Config, Environment, Exporter, Kind, QUEUE_SPANS_MAX, Span};
use baton_testkit::{Collector, Reply};

const SOON: Duration = Duration::from_secs(20);

fn span(number: u64) -> Span {
    Span {
        trace_id: TraceId::from_random(7),
        span_id: SpanId::from_random(number),
        parent: (number > 1).then(|| SpanId::from_random(1)),
        state: None,
        name: format!("span {number}"),
        kind: Kind::Internal,
        begin: number * 1_000_000,
        end: (number + 5) * 1_000_000,
        attributes: vec![],
        links: vec![],
        error: None,
    }
}

fn exporter(url: &str, protocol: &str, timeout_ms: Option<u64>) -> Exporter {
    let environment = Environment::default();
    let config = Config::new(Some(url), Some(protocol), Some("x-key=k"), timeout_ms, &environment).unwrap().unwrap();
    Exporter::start(config.service(&environment, "mine", "1.2.3")).unwrap()
}

async fn delivered(exporter: &Exporter, spans: Vec<Span>) {
    let delivery = exporter.send(spans);
    tokio::time::timeout(SOON, delivery).await.expect("nothing was told").expect("the spans were dropped at once");
}

async fn spans_arrive(protocol: &str) {
    let collector = Collector::start().await;
    let exporter = exporter(collector.url(), protocol, None);
    let failed = Span { error: Some("why".into()), ..span(2) }.with("a", "text").with("b", 5);
    delivered(&exporter, vec![span(1), failed]).await;
    let spans = collector.spans();
    let [first, second] = spans.as_slice() else { panic!("{spans:?}") };
    assert_eq!((first.name.as_str(), first.begin_ms, first.end_ms, first.parent.as_str()), ("span 1", 1, 6, ""));
    assert_eq!((&second.parent, second.error.as_deref()), (&first.span_id, Some("why")));
    assert_eq!((second.attribute("a"), second.attribute("b")), ("text", "5"));
    assert_eq!(
        (first.resource["service.name"].as_str(), first.resource["service.version"].as_str()),
        ("mine", "1.2.3")
    );
    assert_eq!(collector.headers()[0]["x-key"], "k");
    assert_eq!((exporter.counts().sent, exporter.counts().dropped, exporter.counts().queued), (2, 0, 0));
}

#[tokio::test]
async fn spans_arrive_over_grpc() {
    spans_arrive("grpc").await;
}

#[tokio::test]
async fn spans_arrive_over_http() {
    spans_arrive("http").await;
}

#[tokio::test]
async fn a_busy_collector_is_asked_again() {
    for protocol in ["grpc", "http"] {
        let collector = Collector::start().await;
        collector.reply([Reply::Refuse(503), Reply::Refuse(503)]);
        let exporter = exporter(collector.url(), protocol, None);
        delivered(&exporter, vec![span(1)]).await;
        assert_eq!(
            (collector.spans().len(), exporter.counts().retries, exporter.counts().sent),
            (1, 2, 1),
            "{protocol}"
        );
    }
}

#[tokio::test]
async fn what_a_collector_never_takes_is_dropped_and_counted() {
    for protocol in ["grpc", "http"] {
        let collector = Collector::start().await;
        collector.reply([Reply::Refuse(400), Reply::Partly]);
        let exporter = exporter(collector.url(), protocol, None);
        delivered(&exporter, vec![span(1), span(2)]).await;
        assert_eq!((exporter.counts().sent, exporter.counts().dropped), (0, 2), "{protocol}");
        delivered(&exporter, vec![span(3), span(4)]).await;
        let counts = exporter.counts();
        assert_eq!((counts.sent, counts.dropped, counts.retries), (1, 3, 0), "{protocol}: one was not wanted");
    }
}

#[tokio::test]
async fn a_collector_that_does_not_answer_is_asked_again() {
    let collector = Collector::start().await;
    collector.reply([Reply::Silence]);
    let exporter = exporter(collector.url(), "grpc", Some(100));
    delivered(&exporter, vec![span(1)]).await;
    assert_eq!(collector.spans().len(), 2, "it came twice, with the same identifier");
    assert_eq!(collector.trace(&collector.spans()[0].trace_id).len(), 1);
}

#[tokio::test]
async fn a_full_queue_drops_and_never_waits() {
    let nowhere = format!("http://127.0.0.1:{}", baton_testkit::free_port());
    let exporter = exporter(&nowhere, "grpc", None);
    let kept = exporter.send(vec![span(1); QUEUE_SPANS_MAX]);
    let refused = exporter.send(vec![span(2)]);
    assert!(tokio::time::timeout(SOON, refused).await.unwrap().is_err(), "it is told at once");
    let counts = exporter.counts();
    assert_eq!((counts.dropped, counts.queued), (1, QUEUE_SPANS_MAX as u64));
    exporter.flush(Duration::from_millis(50)).await;
    drop(kept);
}

#[tokio::test]
async fn a_flush_sends_what_is_there_at_once() {
    let collector = Collector::start().await;
    let exporter = exporter(collector.url(), "http", None);
    for number in 1..=3 {
        drop(exporter.send(vec![span(number)]));
    }
    exporter.flush(SOON).await;
    assert_eq!(collector.spans().len(), 3);
    assert_eq!(collector.headers().len(), 1, "together");
}
