//! /api/v1/events

use std::pin::Pin;

use baton::proto::{API_KEY_HEADER, CreateKey, CreateNamespace, Event, PauseQueue, SubmitBatch, SubmitRun};
use baton::{Client, ClientError, EventFilter};
use baton_store::Clock;
use futures_util::{Stream, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{KEY, On, PATIENCE, START, Server, complete, eventually, fail, give_back, on_both, run};

on_both!(
    the_life_of_a_run_is_heard,
    workers_and_queues_are_heard_of,
    a_schedule_that_fires_is_heard_of,
    only_what_the_filter_names_is_heard,
    a_namespace_hears_nothing_of_another,
    a_listener_goes_on_after_what_it_saw_last,
    a_listener_whose_past_is_not_there_is_told_so,
    what_was_not_written_because_nobody_listened_is_told_to_those_who_come_back,
    nothing_is_written_while_nobody_listens,
    listening_ends_with_the_key_and_with_the_server,
    a_filter_that_makes_no_sense_is_refused,
);

/// Somebody who listens.
pub struct Ear(Pin<Box<dyn Stream<Item = Result<Event, ClientError>> + Send>>);

impl Ear {
    /// Listens, and returns once the server knows of it.
    pub async fn open(server: &Server, filter: EventFilter) -> Ear {
        let listeners = server.app.events.listeners("").0;
        let mut ear = Ear(Box::pin(server.client.events(&filter)));
        // The first poll connects.
        assert!(futures_util::poll!(ear.0.next()).is_pending());
        let opened = async || server.app.events.listeners("").0 > listeners;
        let waiting = eventually("somebody listens", opened);
        tokio::select! {
            () = waiting => {}
            heard = ear.0.next() => panic!("heard {heard:?} before anything happened"),
        }
        ear
    }

    pub async fn next(&mut self) -> Event {
        let heard = tokio::time::timeout(PATIENCE, self.0.next()).await;
        heard.expect("nothing was heard").expect("the stream has ended").unwrap()
    }

    /// Kinds of the next events, and the run of each.
    async fn hear(&mut self, count: usize) -> Vec<(String, String)> {
        let mut heard = Vec::new();
        for _ in 0..count {
            let event = self.next().await;
            heard.push((event.kind, event.run_id.unwrap_or_default()));
        }
        heard
    }
}

fn of_kinds(kinds: &[&str]) -> EventFilter {
    EventFilter { kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(), ..EventFilter::default() }
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(kind, run)| ((*kind).to_owned(), (*run).to_owned())).collect()
}

async fn the_life_of_a_run_is_heard(on: On) {
    let server = Server::start(on).await;
    let mut ear = Ear::open(&server, of_kinds(&["run"])).await;
    let (worker, claimed) = server.held().await;
    let run = claimed.run_id.clone();
    server.client.give_back(&run, &give_back(&claimed.lease)).await.unwrap();
    let again = server.claim(&worker).await;
    server.client.cancel(&run).await.unwrap();
    server.client.fail(&run, &fail(&again.lease)).await.unwrap();
    let expected = [
        ("run.submitted", run.as_str()),
        ("run.claimed", &run),
        ("run.returned", &run),
        ("run.claimed", &run),
        ("run.cancel_requested", &run),
    ];
    let mut ids = Vec::new();
    for (kind, of) in expected {
        let event = ear.next().await;
        assert_eq!((event.kind.as_str(), event.run_id.as_deref()), (kind, Some(of)));
        assert_eq!((event.namespace.as_deref(), event.queue.as_deref()), (Some("default"), Some("builds")));
        assert_eq!(event.run_type.as_deref(), Some("ios"));
        if kind == "run.claimed" {
            assert_eq!(event.worker_id.as_deref(), Some(worker.as_str()));
        }
        ids.push(event.id);
    }
    let ended = ear.next().await;
    assert_eq!((ended.kind.as_str(), ended.state.as_deref()), ("run.ended", Some("cancelled")));
    assert_eq!((ended.reason.as_deref(), ended.at.0), (Some("cancelled"), START));
    ids.push(ended.id);
    assert!(ids.windows(2).all(|two| two[0] < two[1]), "{ids:?}");
    let second = server.submit().await;
    let claimed = server.claim(&worker).await;
    server.client.complete(&second, &complete(&claimed.lease)).await.unwrap();
    let expected = pairs(&[("run.submitted", &second), ("run.claimed", &second), ("run.ended", &second)]);
    assert_eq!(ear.hear(3).await, expected);
}

async fn workers_and_queues_are_heard_of(on: On) {
    let server = Server::start(on).await;
    let mut ear = Ear::open(&server, EventFilter::default()).await;
    let worker = server.worker("builder-1").await;
    let registered = ear.next().await;
    assert_eq!((registered.kind.as_str(), registered.worker_id), ("worker.registered", Some(worker.clone())));
    assert_eq!(registered.worker_name.as_deref(), Some("builder-1"));
    let run = server.submit().await;
    server.claim(&worker).await;
    assert_eq!(ear.hear(2).await, pairs(&[("run.submitted", &run), ("run.claimed", &run)]));
    server.client.drain(&worker).await.unwrap();
    assert_eq!(ear.next().await.kind, "worker.draining");
    server.client.force_offline(&worker).await.unwrap();
    let offline = ear.next().await;
    assert_eq!(
        (offline.kind.as_str(), offline.reason.as_deref()),
        ("worker.offline", Some("forced offline by an administrator"))
    );
    let returned = ear.next().await;
    assert_eq!(
        (returned.kind.as_str(), returned.run_id, returned.reason.as_deref()),
        ("run.returned", Some(run), Some("given_back"))
    );
    server.client.pause_queue("default", "builds", &PauseQueue::default()).await.unwrap();
    server.client.resume_queue("default", "builds").await.unwrap();
    for kind in ["queue.paused", "queue.resumed"] {
        let event = ear.next().await;
        assert_eq!((event.kind.as_str(), event.queue.as_deref()), (kind, Some("builds")));
    }
}

async fn a_schedule_that_fires_is_heard_of(on: On) {
    let server = Server::start(on).await;
    let nightly = r#"{"id":"nightly","cron":"0 2 * * *","paused":true,"run":{"type":"report"}}"#;
    assert_eq!(server.call("POST", "/api/v1/schedules", nightly).await.status, 201);
    let mut ear = Ear::open(&server, of_kinds(&["schedule", "run.submitted"])).await;
    let started = server.call("POST", "/api/v1/schedules/nightly/trigger", "").await;
    let (submitted, fired) = (ear.next().await, ear.next().await);
    assert_eq!((submitted.kind.as_str(), fired.kind.as_str()), ("run.submitted", "schedule.fired"));
    assert_eq!((fired.schedule.as_deref(), &fired.run_id), (Some("nightly"), &submitted.run_id));
    assert!(started.json().to_string().contains(fired.run_id.as_deref().unwrap()), "{started:?}");
}

async fn only_what_the_filter_names_is_heard(on: On) {
    let server = Server::start(on).await;
    let other = SubmitRun { queue: "other".into(), ..run() };
    let by_queue = EventFilter { queue: Some("other".into()), ..EventFilter::default() };
    let by_type = EventFilter { run_type: Some("android".into()), ..EventFilter::default() };
    let (mut by_queue, mut by_type) = (Ear::open(&server, by_queue).await, Ear::open(&server, by_type).await);
    let mut by_kind = Ear::open(&server, of_kinds(&["run.ended"])).await;
    let first = server.submit().await;
    let second = server.submit_run(&other).await;
    let third = server.submit_run(&SubmitRun { kind: "android".into(), ..run() }).await;
    let by_run = EventFilter { run: Some(third.clone()), ..of_kinds(&["run.ended"]) };
    let mut by_run = Ear::open(&server, by_run).await;
    for run in [&first, &second, &third] {
        server.client.cancel(run).await.unwrap();
    }
    assert_eq!(by_queue.hear(2).await, pairs(&[("run.submitted", &second), ("run.ended", &second)]));
    assert_eq!(by_type.hear(2).await, pairs(&[("run.submitted", &third), ("run.ended", &third)]));
    let ends = [("run.ended", first.as_str()), ("run.ended", &second), ("run.ended", &third)];
    assert_eq!(by_kind.hear(3).await, pairs(&ends));
    assert_eq!(by_run.hear(1).await, pairs(&[("run.ended", &third)]));
}

async fn a_namespace_hears_nothing_of_another(on: On) {
    let mut server = Server::start(on).await;
    for name in ["ours", "theirs"] {
        let namespace = CreateNamespace { name: name.into(), ..CreateNamespace::default() };
        server.client.create_namespace(&namespace).await.unwrap();
    }
    let ours = server.client_for(&["read"], Some("ours")).await;
    let of_theirs = EventFilter { namespace: Some("theirs".into()), ..EventFilter::default() };
    let refused = Box::pin(ours.events(&of_theirs)).next().await.unwrap().unwrap_err();
    assert_eq!(refused.code(), Some("forbidden"));
    let worker_only = server.client_for(&["worker"], Some("ours")).await;
    let refused = Box::pin(worker_only.events(&EventFilter::default())).next().await.unwrap().unwrap_err();
    assert_eq!(refused.code(), Some("forbidden"));
    let admin = std::mem::replace(&mut server.client, ours);
    let mut ear = Ear::open(&server, EventFilter::default()).await;
    server.client = admin;
    let mut all = Ear::open(&server, EventFilter::default()).await;
    let theirs = server.submit_run(&SubmitRun { namespace: "theirs".into(), ..run() }).await;
    let own = server.submit_run(&SubmitRun { namespace: "ours".into(), ..run() }).await;
    assert_eq!(ear.hear(1).await, pairs(&[("run.submitted", &own)]));
    assert_eq!(all.hear(2).await, pairs(&[("run.submitted", &theirs), ("run.submitted", &own)]));
}

async fn a_listener_goes_on_after_what_it_saw_last(on: On) {
    let server = Server::start(on).await;
    let mut ear = Ear::open(&server, EventFilter::default()).await;
    let (first, second, third) = (server.submit().await, server.submit().await, server.submit().await);
    let seen = ear.next().await;
    assert_eq!(seen.run_id.as_deref(), Some(first.as_str()));
    drop(ear);
    let fourth = server.submit().await;
    // Also over another client, by the query or by the header.
    let after = EventFilter { after: Some(seen.id), ..EventFilter::default() };
    let mut again = Ear(Box::pin(server.client.events(&after)));
    let expected = [("run.submitted", second.as_str()), ("run.submitted", &third), ("run.submitted", &fourth)];
    assert_eq!(again.hear(3).await, pairs(&expected));
    let fifth = server.submit().await;
    assert_eq!(again.hear(1).await, pairs(&[("run.submitted", &fifth)]));
    let path = format!("/api/v1/events?after={}&wait_ms=1", seen.id);
    let text = String::from_utf8(server.call("GET", &path, "").await.body.to_vec()).unwrap();
    assert!(text.starts_with(&format!("retry: 1000\nid: {}\n\n", seen.id)), "{text}");
    assert_eq!(text.matches("event: run.submitted\nid: ").count(), 4, "{text}");
    let wrong = server.request("GET", "/api/v1/events").header(API_KEY_HEADER, KEY).header("last-event-id", "x");
    assert_eq!(server.send(wrong, "").await.refusal(), "422 invalid");
}

async fn a_listener_whose_past_is_not_there_is_told_so(on: On) {
    let server = Server::start(on).await;
    let mut ear = Ear::open(&server, of_kinds(&["run.submitted"])).await;
    let (_, second) = (server.submit().await, server.submit().await);
    let (first_seen, last_seen) = (ear.next().await.id, ear.next().await.id);
    // One batch or two: whatever was written is gone.
    server.app.store.forget_events(0, 0, 100).await.unwrap();
    let third = server.submit().await;
    assert_eq!(ear.hear(1).await, pairs(&[("run.submitted", &third)]));
    for (after, is_gap) in [(first_seen - 1, true), (last_seen, false), (last_seen + 1_000, true)] {
        let filter = EventFilter { after: Some(after), ..of_kinds(&["run.submitted"]) };
        let mut again = Ear(Box::pin(server.client.events(&filter)));
        if is_gap {
            let missed = again.next().await;
            assert_eq!((missed.kind.as_str(), missed.reason.as_deref()), ("missed", Some("forgotten")), "{after}");
            assert_eq!((missed.count, missed.namespace), (None, None), "a count would tell of others' events");
        }
        if after < last_seen + 1 {
            assert_eq!(again.hear(1).await, pairs(&[("run.submitted", &third)]), "after {after}, not {second}");
        }
    }
}

async fn what_was_not_written_because_nobody_listened_is_told_to_those_who_come_back(on: On) {
    let server = Server::start(on).await;
    let mut ear = Ear::open(&server, of_kinds(&["run.submitted"])).await;
    let first = server.submit().await;
    let seen = ear.next().await;
    assert_eq!(seen.run_id, Some(first));
    // Another kind was not written until now; this one was all the time.
    let filter = EventFilter { after: Some(seen.id), ..of_kinds(&["queue", "run.submitted"]) };
    let mut again = Ear(Box::pin(server.client.events(&filter)));
    let missed = again.next().await;
    assert_eq!((missed.kind.as_str(), missed.reason.as_deref()), ("missed", Some("not_recorded")));
    let mut same =
        Ear(Box::pin(server.client.events(&EventFilter { after: Some(seen.id), ..of_kinds(&["run.submitted"]) })));
    let second = server.submit().await;
    for ear in [&mut again, &mut same, &mut ear] {
        assert_eq!(ear.hear(1).await, pairs(&[("run.submitted", &second)]));
    }
}

async fn nothing_is_written_while_nobody_listens(on: On) {
    let server = Server::start(on).await;
    let before = server.app.store.events_after(0, 10).await.unwrap();
    server.held().await;
    assert_eq!(server.app.store.events_after(0, 10).await.unwrap(), before);
    assert!(before.batches.iter().all(|batch| batch.body.is_empty()), "{before:?}");
}

/// A stream, as it comes over the wire.
async fn open_raw(server: &Server, key: &str) -> TcpStream {
    let mut stream = server.connect().await;
    let head = format!("GET /api/v1/events HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut text = String::new();
    while !text.contains("retry: 1000") {
        let mut bytes = [0; 4_096];
        let count = stream.read(&mut bytes).await.unwrap();
        assert!(count > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("content-type: text/event-stream"), "{text}");
    stream
}

async fn listening_ends_with_the_key_and_with_the_server(on: On) {
    let mut server = Server::start(on).await;
    let wanted = CreateKey { name: "a".into(), scopes: vec!["read".into()], namespace: None, expires_in_ms: None };
    let key = server.client.create_key(&wanted).await.unwrap();
    let (mut revoked, mut stopped) = (open_raw(&server, &key.key).await, open_raw(&server, KEY).await);
    server.client.revoke_key(&key.id).await.unwrap();
    let mut rest = Vec::new();
    // Somebody at the same address makes up keys, and is slowed down for that.
    let guessing = async {
        loop {
            server.send(server.request("GET", "/api/v1/runs").header(API_KEY_HEADER, "bk_guessed"), "").await;
        }
    };
    tokio::select! {
        ended = tokio::time::timeout(PATIENCE, revoked.read_to_end(&mut rest)) => {
            ended.expect("the key was revoked").unwrap();
        }
        () = guessing => {}
    }
    assert!(rest.ends_with(b"0\r\n\r\n"), "{rest:?}");
    server.stop();
    rest.clear();
    tokio::time::timeout(PATIENCE, stopped.read_to_end(&mut rest)).await.expect("the server stops").unwrap();
    assert!(rest.ends_with(b"0\r\n\r\n"), "{rest:?}");
    server.stopped().await;
}

async fn a_filter_that_makes_no_sense_is_refused(on: On) {
    let server = Server::start(on).await;
    for query in ["kind=run.over", "kind=,x", "after=-1", "after=x", "colour=red", "wait_ms=86400001"] {
        let answer = server.call("GET", &format!("/api/v1/events?{query}"), "").await;
        assert_eq!(answer.refusal(), "422 invalid", "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_at_one_server_hears_what_happens_at_another() {
    let database = baton_testkit::database().await;
    let here = Server::on_database(database.url(), Clock::Real).await;
    let there = Server::on_database(database.url(), Clock::Real).await;
    let mut ear = Ear::open(&here, of_kinds(&["run.submitted"])).await;
    // The other server hears of the listener in a moment.
    eventually("it writes, too", async || there.app.events.written() != 0).await;
    let mut runs = Vec::new();
    for _ in 0..10 {
        runs.push(there.submit().await);
        runs.push(here.submit().await);
    }
    let mut heard: Vec<_> = ear.hear(20).await.into_iter().map(|(_, run)| run).collect();
    heard.sort_unstable();
    runs.sort_unstable();
    assert_eq!(heard, runs);
    // A cut, and on at the other server.
    let last = there.submit().await;
    let seen = ear.next().await;
    assert_eq!(seen.run_id, Some(last));
    drop(ear);
    let missed = here.submit().await;
    let after = EventFilter { after: Some(seen.id), ..of_kinds(&["run.submitted"]) };
    let mut again = Ear(Box::pin(there.client.events(&after)));
    assert_eq!(again.hear(1).await, pairs(&[("run.submitted", &missed)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_does_not_read_is_told_what_it_missed_and_goes_on() {
    const RUNS: usize = 40_000;
    let server = Server::start(On::Sqlite).await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut stream = socket.connect(server.address).await.unwrap();
    let head = format!("GET /api/v1/events?kind=run.submitted HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    eventually("somebody listens", async || server.app.events.listeners("").0 == 1).await;
    let batch = SubmitBatch { runs: vec![SubmitRun { queue: "many".into(), ..run() }; 10_000] };
    for _ in 0..RUNS / batch.runs.len() {
        server.client.submit_batch(&batch).await.unwrap();
    }
    // All of it was written before anything is read.
    eventually("all was written", async || {
        server.app.store.events_after(i64::MAX - 1, 1).await.unwrap().last as usize > RUNS
    })
    .await;
    let (mut text, mut bytes) = (String::new(), vec![0; 1 << 16]);
    let mut read = async |text: &mut String| {
        let count = tokio::time::timeout(PATIENCE, stream.read(&mut bytes)).await.expect("it goes on").unwrap();
        assert!(count > 0, "the stream was ended");
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
    };
    let heard = |text: &str| text.matches("event: run.submitted\n").count();
    let missed = |text: &str| -> usize {
        let counts = text.split("\"count\":").skip(1);
        counts.filter_map(|rest| rest.split_once('}')?.0.parse::<usize>().ok()).sum()
    };
    while heard(&text) + missed(&text) < RUNS {
        read(&mut text).await;
    }
    assert_eq!(heard(&text) + missed(&text), RUNS, "each is heard of or counted");
    assert!(missed(&text) > 0 && text.contains("\"reason\":\"slow_reader\""), "it was too fast to miss anything");
    let metrics = &server.app.metrics;
    assert_eq!((metrics.event_listeners.get(), metrics.events_lost.get()), (1, 0));
    assert_eq!((metrics.events_written.get(), metrics.events_missed.get()), (RUNS as u64, missed(&text) as u64));
    let next = server.submit().await;
    while !text.contains(&next) {
        read(&mut text).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_cut_goes_on_by_itself() {
    let server = Server::start(On::Sqlite).await;
    let proxy = baton_testkit::Proxy::start(server.address).await;
    let client = Client::new(&format!("http://{}", proxy.address()), KEY).unwrap();
    let mut ear = Ear(Box::pin(client.events(&EventFilter::default())));
    assert!(futures_util::poll!(ear.0.next()).is_pending());
    eventually("somebody listens", async || {
        let _ = futures_util::poll!(ear.0.next());
        server.app.events.listeners("").0 == 1
    })
    .await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(server.submit().await);
        assert_eq!(ear.hear(1).await, pairs(&[("run.submitted", runs.last().unwrap())]));
        proxy.cut();
        runs.push(server.submit().await);
        proxy.mend();
        assert_eq!(ear.hear(1).await, pairs(&[("run.submitted", runs.last().unwrap())]));
    }
}
