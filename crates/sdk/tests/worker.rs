//! The worker's loop against a server that answers as each test wants: late, wrongly, or not at all.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton::Client;
use baton::runs::{Cancel, Failure, Stop, Worker, WorkerEvent};
use baton_proto::ClaimedRun;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

/// A test that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(20);

enum Reply {
    Json(u16, Value),
    /// The connection is closed without an answer.
    HangUp,
    /// No answer, ever.
    Silence,
}

type Script = dyn Fn(&str, usize, &Value) -> Option<Reply> + Send + Sync;

/// A server that follows a script: verb, how often it was called before, body. Where the script says nothing, it
/// answers as a server does that has one run, once.
struct Fake {
    client: Client,
    calls: mpsc::UnboundedReceiver<(String, Value)>,
}

impl Fake {
    async fn start(script: impl Fn(&str, usize, &Value) -> Option<Reply> + Send + Sync + 'static) -> Fake {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client::new(&format!("http://{}", listener.local_addr().unwrap()), "").unwrap();
        let (sender, calls) = mpsc::unbounded_channel();
        let script: Arc<Script> = Arc::new(script);
        let counts: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (script, counts, sender) = (script.clone(), counts.clone(), sender.clone());
                tokio::spawn(async move {
                    let service =
                        service_fn(move |request| answer(request, script.clone(), counts.clone(), sender.clone()));
                    // An error is how a connection is hung up.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Fake { client, calls }
    }

    /// Waits for the next call of this verb.
    async fn next(&mut self, verb: &str) -> Value {
        let found = async {
            loop {
                let (called, body) = self.calls.recv().await.expect("the server is there");
                if called == verb {
                    return body;
                }
            }
        };
        tokio::time::timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("no call of {verb}"))
    }

    fn worker(&self) -> Worker {
        Worker::new(self.client.clone(), ["t"])
    }
}

async fn answer(
    request: Request<Incoming>,
    script: Arc<Script>,
    counts: Arc<Mutex<HashMap<String, usize>>>,
    sender: mpsc::UnboundedSender<(String, Value)>,
) -> Result<Response<Full<Bytes>>, std::io::Error> {
    let path = request.uri().path().to_owned();
    let verb = if path == "/api/v1/workers" { "register" } else { path.rsplit('/').next().unwrap_or_default() };
    let body = request.into_body().collect().await.map_err(std::io::Error::other)?.to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let before = {
        let mut counts = counts.lock().unwrap();
        let count = counts.entry(verb.to_owned()).or_default();
        *count += 1;
        *count - 1
    };
    let _ = sender.send((verb.to_owned(), body.clone()));
    let reply = script(verb, before, &body).unwrap_or_else(|| usual(verb, before));
    match reply {
        Reply::Json(status, body) => Ok(Response::builder().status(status).body(Full::from(body.to_string())).unwrap()),
        Reply::HangUp => Err(std::io::Error::other("hung up")),
        Reply::Silence => std::future::pending::<Result<_, Infallible>>().await.map_err(|never| match never {}),
    }
}

fn usual(verb: &str, before: usize) -> Reply {
    match verb {
        "register" => {
            let id = format!("w{before}");
            Reply::Json(201, json!({"worker_id": id, "heartbeat_interval_ms": 20, "lease_ttl_ms": 60}))
        }
        "claim" if before == 0 => one_run(),
        "claim" => Reply::Silence,
        "heartbeat" => alive(json!([]), json!([])),
        "deregister" => Reply::Json(200, json!({"given_back": 0})),
        _ => Reply::Json(200, json!({"id": "r", "state": "completed"})),
    }
}

fn one_run() -> Reply {
    let run = json!({"run_id": "r", "lease": "bl_1_x", "epoch": 1, "queue": "default", "type": "t", "attempt": 1,
        "priority": 5, "submitted_at": "2026-01-01T00:00:00Z", "input": 7});
    Reply::Json(200, json!({"runs": [run]}))
}

fn alive(lost: Value, cancelling: Value) -> Reply {
    let body = json!({"status": "ONLINE", "should_drain": false, "lease_until": "2026-01-01T00:00:00Z",
        "lost": lost, "cancelling": cancelling});
    Reply::Json(200, body)
}

fn refusal(status: u16, code: &str) -> Reply {
    Reply::Json(status, json!({"error": code, "code": code}))
}

async fn echo(run: ClaimedRun, _: Cancel) -> Result<Value, Failure> {
    Ok(serde_json::from_str(run.input.unwrap().get()).unwrap())
}

#[tokio::test]
async fn a_report_is_repeated_until_the_server_answers() {
    let mut fake = Fake::start(|verb, before, _| match (verb, before) {
        ("complete", 0) => Some(Reply::HangUp),
        ("complete", 1) => Some(refusal(503, "unavailable")),
        _ => None,
    })
    .await;
    tokio::spawn(fake.worker().run(echo, std::future::pending()));
    for _ in 0..3 {
        assert_eq!(fake.next("complete").await, json!({"lease": "bl_1_x", "output": 7}));
    }
}

#[tokio::test]
async fn a_refused_report_is_told_and_not_repeated() {
    let mut fake = Fake::start(|verb, _, _| (verb == "complete").then(|| refusal(409, "lease_lost"))).await;
    let (sender, mut events) = mpsc::unbounded_channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = fake.worker().watch(move |event| drop(sender.send(event)));
    let working = tokio::spawn(worker.run(echo, async move { drop(stopped.await) }));
    let refused = async {
        loop {
            if let WorkerEvent::Refused { run_id, epoch, code, .. } = events.recv().await.unwrap() {
                return (run_id, epoch, code);
            }
        }
    };
    let refused = tokio::time::timeout(PATIENCE, refused).await.unwrap();
    assert_eq!(refused, ("r".into(), 1, "lease_lost".into()));
    stop.send(()).unwrap();
    working.await.unwrap().unwrap();
    let calls: Vec<String> = std::iter::from_fn(|| fake.calls.try_recv().ok()).map(|(verb, _)| verb).collect();
    assert_eq!(calls.iter().filter(|verb| *verb == "complete").count(), 1, "{calls:?}");
}

#[tokio::test]
async fn a_claim_without_an_answer_is_repeated_under_the_same_number() {
    let mut fake = Fake::start(|verb, before, _| match (verb, before) {
        ("claim", 0) => Some(Reply::HangUp),
        ("claim", 1) => Some(one_run()),
        _ => None,
    })
    .await;
    tokio::spawn(fake.worker().run(echo, std::future::pending()));
    let numbers = [fake.next("claim").await, fake.next("claim").await, fake.next("claim").await];
    assert_eq!(numbers.map(|claim| claim["claim_no"].as_u64()), [Some(1), Some(1), Some(2)]);
}

#[tokio::test]
async fn a_worker_that_was_given_up_stops_its_handlers_and_registers_again() {
    let mut fake = Fake::start(|verb, before, body| match (verb, before) {
        ("heartbeat", _) if body["leases"] != Value::Null => Some(refusal(409, "worker_offline")),
        _ => None,
    })
    .await;
    let (sender, mut stops) = mpsc::unbounded_channel();
    let handler = move |_, cancel: Cancel| {
        let sender = sender.clone();
        async move {
            sender.send(cancel.stopped().await).unwrap();
            Err(Failure::new("stopped"))
        }
    };
    tokio::spawn(fake.worker().run(handler, std::future::pending()));
    let first = fake.next("register").await;
    let second = fake.next("register").await;
    assert_ne!(first["instance"], second["instance"], "every start is a new incarnation");
    assert_eq!(tokio::time::timeout(PATIENCE, stops.recv()).await.unwrap(), Some(Stop::LeaseLost));
}

#[tokio::test]
async fn a_worker_that_is_given_up_while_it_drains_does_not_come_back() {
    let is_draining = Arc::new(AtomicBool::new(false));
    let drains = is_draining.clone();
    let mut fake = Fake::start(move |verb, _, _| {
        (verb == "heartbeat" && drains.load(Ordering::SeqCst)).then(|| refusal(409, "worker_offline"))
    })
    .await;
    let (stop, stopped) = oneshot::channel::<()>();
    let (sender, mut begun) = mpsc::unbounded_channel();
    let handler = move |_, cancel: Cancel| {
        sender.send(()).unwrap();
        async move {
            cancel.stopped().await;
            Err(Failure::new("stopped"))
        }
    };
    let working = tokio::spawn(fake.worker().run(handler, async move { drop(stopped.await) }));
    tokio::time::timeout(PATIENCE, begun.recv()).await.unwrap().unwrap();
    is_draining.store(true, Ordering::SeqCst);
    stop.send(()).unwrap();
    tokio::time::timeout(PATIENCE, working).await.unwrap().unwrap().unwrap();
    let calls: Vec<String> = std::iter::from_fn(|| fake.calls.try_recv().ok()).map(|(verb, _)| verb).collect();
    assert_eq!(calls.iter().filter(|verb| *verb == "register").count(), 1, "{calls:?}");
}

#[tokio::test]
async fn a_blocked_handler_keeps_no_heartbeat_back_and_slow_health_does_neither() {
    let mut fake = Fake::start(|_, _, _| None).await;
    let (sender, begun) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let client = fake.client.clone();
    let handler = move |_, _| {
        let (sender, released) = (sender.clone(), released.clone());
        async move {
            sender.send(()).unwrap();
            let _ = released.lock().unwrap().recv();
            Ok(Value::Null)
        }
    };
    let health = || {
        std::thread::sleep(Duration::from_secs(3_600));
        baton_proto::HealthReport::default()
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let working = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let worker = Worker::new(client, ["t"]).health(health);
        runtime.block_on(worker.run(handler, async move { drop(stopped.await) })).unwrap();
        // What measures the machine still sleeps.
        runtime.shutdown_background();
    });
    tokio::task::spawn_blocking(move || begun.recv_timeout(PATIENCE).unwrap()).await.unwrap();
    for _ in 0..5 {
        let heartbeat = fake.next("heartbeat").await;
        assert!(heartbeat.get("health").is_none(), "{heartbeat}");
    }
    release.send(()).unwrap();
    fake.next("complete").await;
    stop.send(()).unwrap();
    tokio::task::spawn_blocking(move || working.join().unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_blocking_handler_runs_beside_the_runtime_and_its_panic_is_a_failure() {
    let mut fake = Fake::start(|verb, before, _| (verb == "claim" && before < 2).then(one_run)).await;
    let calls = Arc::new(AtomicBool::new(false));
    let handler = move |run: ClaimedRun, cancel: Cancel| {
        assert_eq!(cancel.reason(), None);
        if !calls.swap(true, Ordering::SeqCst) {
            panic!("not yet");
        }
        Ok(json!(run.kind))
    };
    tokio::spawn(fake.worker().run_blocking(handler, std::future::pending()));
    let failed = fake.next("fail").await;
    assert_eq!(failed["code"], "panic", "{failed}");
    assert_eq!(fake.next("complete").await["output"], "t");
}

#[tokio::test]
async fn a_cancelled_run_is_stopped_and_failed() {
    let mut fake = Fake::start(|verb, _, body| {
        (verb == "heartbeat" && body["leases"] != Value::Null).then(|| alive(json!([]), json!(["r"])))
    })
    .await;
    let handler = |_, cancel: Cancel| async move { Err(Failure::new(format!("{:?}", cancel.stopped().await))) };
    tokio::spawn(fake.worker().run(handler, std::future::pending()));
    assert_eq!(fake.next("fail").await["error"], "Cancelled");
}

#[tokio::test]
async fn a_handler_that_panics_fails_its_attempt() {
    let mut fake = Fake::start(|_, _, _| None).await;
    let handler = |run: ClaimedRun, _| async move { panic!("cannot do {}", run.run_id) };
    tokio::spawn(fake.worker().run(handler, std::future::pending()));
    let failed = fake.next("fail").await;
    assert_eq!((&failed["code"], &failed["retryable"]), (&json!("panic"), &json!(true)));
}

#[tokio::test]
async fn what_is_not_finished_in_time_is_given_back_before_the_worker_goes() {
    let mut fake = Fake::start(|_, _, _| None).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let (started, mut is_started) = mpsc::unbounded_channel();
    let handler = move |_, _| {
        started.send(()).unwrap();
        // Deaf to every signal, so that it has to be dropped.
        std::future::pending::<Result<Value, Failure>>()
    };
    let short = Duration::from_millis(10);
    let worker = fake.worker().drain_timeout(short).stop_grace(short);
    let working = tokio::spawn(worker.run(handler, async move { drop(stopped.await) }));
    is_started.recv().await.unwrap();
    stop.send(()).unwrap();
    assert_eq!(fake.next("give_back").await["lease"], "bl_1_x");
    fake.next("deregister").await;
    tokio::time::timeout(PATIENCE, working).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_worker_that_is_told_to_drain_finishes_and_goes() {
    let mut fake = Fake::start(|verb, before, _| {
        let body = json!({"status": "DRAINING", "should_drain": true, "lease_until": "2026-01-01T00:00:00Z",
            "lost": [], "cancelling": []});
        (verb == "heartbeat" && before > 0).then_some(Reply::Json(200, body))
    })
    .await;
    let working = tokio::spawn(fake.worker().run(echo, std::future::pending()));
    fake.next("deregister").await;
    tokio::time::timeout(PATIENCE, working).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_worker_that_is_refused_for_good_says_so() {
    let fake = Fake::start(|verb, _, _| (verb == "register").then(|| refusal(403, "forbidden"))).await;
    let error = fake.worker().run(echo, std::future::pending()).await.unwrap_err();
    assert_eq!(error.code(), Some("forbidden"));
}

#[tokio::test]
async fn what_a_worker_cannot_do_is_given_back_and_it_takes_nothing_new() {
    let mut fake = Fake::start(|_, _, _| None).await;
    let handler = |_, _| async { Err(Failure::give_back("no room", Duration::from_secs(3_600))) };
    let (stop, stopped) = oneshot::channel::<()>();
    let working = tokio::spawn(fake.worker().run(handler, async move { drop(stopped.await) }));
    fake.next("claim").await;
    assert_eq!(fake.next("give_back").await, json!({"lease": "bl_1_x", "reason": "no room"}));
    while fake.next("heartbeat").await["unfit"] != "no room" {}
    stop.send(()).unwrap();
    tokio::time::timeout(PATIENCE, working).await.unwrap().unwrap().unwrap();
    let calls: Vec<String> = std::iter::from_fn(|| fake.calls.try_recv().ok()).map(|(verb, _)| verb).collect();
    assert!(!calls.iter().any(|verb| verb == "claim" || verb == "fail"), "{calls:?}");
}

#[tokio::test]
async fn a_worker_that_has_paused_takes_work_again_and_says_so() {
    let mut fake = Fake::start(|_, _, _| None).await;
    let handler = |_, _| async { Err(Failure::give_back("no room", Duration::from_millis(50))) };
    tokio::spawn(fake.worker().run(handler, std::future::pending()));
    fake.next("give_back").await;
    assert_eq!(fake.next("claim").await["claim_no"], 2);
    // What was measured comes with it, or the server would not know that it is over.
    while fake.next("heartbeat").await != json!({"all": true, "health": {}}) {}
}

/// A claim with room for more was waiting, and brings a run after all.
#[tokio::test]
async fn what_comes_during_a_pause_goes_back() {
    let script = {
        let given_back = AtomicBool::new(false);
        move |verb: &str, before: usize, _: &Value| match verb {
            "give_back" => {
                given_back.store(true, Ordering::SeqCst);
                None
            }
            // Repeated until the worker pauses: it is not waited for.
            "claim" if before > 0 && !given_back.load(Ordering::SeqCst) => Some(refusal(503, "unavailable")),
            "claim" => Some(one_run()),
            _ => None,
        }
    };
    let mut fake = Fake::start(script).await;
    let (sender, mut begun) = mpsc::unbounded_channel();
    let handler = move |_, _| {
        sender.send(()).unwrap();
        async { Err(Failure::give_back("no room", Duration::from_secs(3_600))) }
    };
    tokio::spawn(fake.worker().concurrency(2).run(handler, std::future::pending()));
    for _ in 0..2 {
        assert_eq!(fake.next("give_back").await["reason"], "no room");
    }
    begun.recv().await.unwrap();
    assert!(begun.try_recv().is_err(), "the second one was not even begun");
}

/// A server that lets heartbeats wait: there is always one that does, and it says what is known already.
#[tokio::test]
async fn a_heartbeat_waits_for_news_where_it_may() {
    let mut fake = Fake::start(|verb, before, body| match verb {
        "register" => {
            let body = json!({"worker_id": "w", "heartbeat_interval_ms": 60_000, "lease_ttl_ms": 180_000,
                "heartbeat_wait_ms": 48_000});
            Some(Reply::Json(201, body))
        }
        // The first is answered when the run has come, which it could not name.
        "heartbeat" if before == 0 => Some(alive(json!([]), json!([]))),
        "heartbeat" if body["leases"][0]["stopping"] == true => Some(Reply::Silence),
        "heartbeat" => Some(alive(json!([]), json!(["r"]))),
        _ => None,
    })
    .await;
    let (sender, mut stops) = mpsc::unbounded_channel();
    let handler = move |_, cancel: Cancel| {
        let sender = sender.clone();
        async move {
            sender.send(cancel.stopped().await).unwrap();
            std::future::pending().await
        }
    };
    tokio::spawn(fake.worker().run(handler, std::future::pending()));
    assert_eq!(fake.next("heartbeat").await["wait_ms"], 48_000);
    assert_eq!(tokio::time::timeout(PATIENCE, stops.recv()).await.unwrap(), Some(Stop::Cancelled));
    while fake.next("heartbeat").await["leases"][0]["stopping"] != true {}
}
