//! /api/v1/namespaces: made on first use or by hand, limited, disabled.

use baton::proto::{
    ChangeNamespace, CreateNamespace, CreateSchedule, RegisterWorker, ScheduledRun, SubmitBatch, SubmitRun, Time,
    TriggerSchedule,
};
use baton_core::State;
use baton_store::{Clock, NamespaceLimits};
use serde_json::json;

use crate::harness::{On, START, Server, complete, eventually, on_both, refusal, run, soon, worker};

fn run_in(namespace: &str) -> SubmitRun {
    SubmitRun { namespace: namespace.into(), ..run() }
}

fn worker_in(namespace: &str, name: &str) -> RegisterWorker {
    RegisterWorker { namespace: namespace.into(), ..worker(name) }
}

fn schedule_in(namespace: &str, id: &str) -> CreateSchedule {
    CreateSchedule {
        namespace: namespace.into(),
        id: id.into(),
        cron: "* * * * *".into(),
        time_zone: None,
        jitter_ms: None,
        max_catchup: None,
        overlap: None,
        run: ScheduledRun::new("builds", "ios"),
        paused: false,
        note: String::new(),
    }
}

async fn names(server: &Server) -> Vec<String> {
    let page = server.client.namespaces(None, None).await.unwrap();
    page.namespaces.into_iter().map(|one| one.name).collect()
}

async fn namespaces_are_made_by_hand_and_on_first_use(on: On) {
    let server = Server::start(on).await;
    let wanted = json!({"name": "mobile", "description": "apps", "live_runs_max": 5, "workers_max": 2}).to_string();
    let made = server.call("POST", "/api/v1/namespaces", wanted.clone()).await;
    assert_eq!(made.status, 201);
    assert_eq!(made.json()["description"], "apps");
    assert_eq!((&made.json()["live_runs_max"], &made.json()["disabled"]), (&json!(5), &json!(false)));
    let again = server.call("POST", "/api/v1/namespaces", wanted).await;
    assert_eq!((again.status, again.json()), (200, made.json()), "a repeated call gets the same answer");
    let other = json!({"name": "mobile"}).to_string();
    assert_eq!(server.call("POST", "/api/v1/namespaces", other).await.refusal(), "409 conflict");
    server.submit_run(&run_in("by a submit")).await;
    server.client.register(&worker_in("by a worker", "w")).await.unwrap();
    server.client.create_schedule(&schedule_in("by a schedule", "s")).await.unwrap();
    server.client.pause_queue("by a queue", "q", &Default::default()).await.unwrap();
    let expected = ["by a queue", "by a schedule", "by a submit", "by a worker", "default", "mobile"];
    assert_eq!(names(&server).await, expected);
    let page = server.client.namespaces(Some(4), None).await.unwrap();
    let rest = server.client.namespaces(Some(4), page.next_cursor.as_deref()).await.unwrap();
    assert_eq!((page.namespaces.len(), rest.namespaces.len(), rest.next_cursor), (4, 2, None));
    assert_eq!(server.client.get_namespace("mobile").await.unwrap().workers_max, Some(2));
    assert_eq!(refusal(server.client.get_namespace("none").await), "404 not_found");
    for wrong in [
        json!({"name": ""}),
        json!({"name": "x", "workers_max": 0}),
        json!({"name": "x", "live_runs_max": u64::MAX}),
        json!({"name": "x", "y": 1}),
    ] {
        assert_eq!(
            server.call("POST", "/api/v1/namespaces", wrong.to_string()).await.refusal(),
            "422 invalid",
            "{wrong}"
        );
    }
}

async fn odd_names_are_for_namespaces_that_have_them_already(on: On) {
    let server = Server::start(on).await;
    for odd in ["a/b", " a", "a\t"] {
        let wanted = json!({"name": odd}).to_string();
        assert_eq!(server.call("POST", "/api/v1/namespaces", wanted).await.refusal(), "422 invalid", "{odd:?}");
        let submitted = serde_json::to_vec(&run_in(odd)).unwrap();
        let refused = server.call("POST", "/api/v1/runs", submitted).await;
        assert_eq!(refused.refusal(), "422 invalid", "{odd:?}");
        let said = refused.json()["error"].as_str().unwrap().to_owned();
        assert!(said.starts_with("namespace must not "), "{said}");
        assert_eq!(refusal(server.client.register(&worker_in(odd, "w")).await), "422 invalid");
        assert_eq!(refusal(server.client.create_schedule(&schedule_in(odd, "s")).await), "422 invalid");
        let key = json!({"name": "k", "scopes": ["read"], "namespace": odd}).to_string();
        assert_eq!(server.call("POST", "/api/v1/keys", key).await.refusal(), "422 invalid", "{odd:?}");
    }
    assert_eq!(names(&server).await, ["default"]);
    assert_eq!(server.app.store.queues(None).await.unwrap(), [], "nothing is left behind");

    // Made before there was such a rule.
    let (old, _) = server.app.store.add_namespace("a/b", "", NamespaceLimits::default()).await.unwrap();
    server.app.namespaces.learn(old);
    server.submit_run(&run_in("a/b")).await;
    server.client.register(&worker_in("a/b", "w")).await.unwrap();
    server.client.create_schedule(&schedule_in("a/b", "s")).await.unwrap();
    assert_eq!(server.client.get_namespace("a/b").await.unwrap().name, "a/b");
}

async fn a_key_of_one_namespace_sees_it_and_changes_nothing(on: On) {
    let server = Server::start(on).await;
    server.client.create_namespace(&CreateNamespace { name: "mobile".into(), ..Default::default() }).await.unwrap();
    let own = server.client_for(&["admin"], Some("mobile")).await;
    let seen = own.namespaces(None, None).await.unwrap().namespaces;
    assert_eq!(seen.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["mobile"]);
    assert_eq!(own.get_namespace("mobile").await.unwrap().name, "mobile");
    assert_eq!(refusal(own.get_namespace("default").await), "403 forbidden");
    assert_eq!(refusal(own.disable_namespace("mobile", "").await), "403 forbidden");
    assert_eq!(refusal(own.enable_namespace("mobile").await), "403 forbidden");
    assert_eq!(refusal(own.change_namespace("mobile", &ChangeNamespace::default()).await), "403 forbidden");
    assert_eq!(
        refusal(own.create_namespace(&CreateNamespace { name: "x".into(), ..Default::default() }).await),
        "403 forbidden"
    );
    let submitter = server.client_for(&["submit"], None).await;
    assert_eq!(refusal(submitter.disable_namespace("mobile", "").await), "403 forbidden");
}

async fn a_disabled_namespace_takes_nothing_and_lets_work_finish(on: On) {
    let server = Server::start(on).await;
    let (held, waiting) = (server.submit_run(&run_in("m")).await, server.submit_run(&run_in("m")).await);
    let holder = server.client.register(&worker_in("m", "w")).await.unwrap().worker_id;
    let claimed = server.claim(&holder).await;
    assert_eq!(claimed.run_id, held);
    server.client.create_schedule(&schedule_in("m", "s")).await.unwrap();
    let other = RegisterWorker { types: vec!["android".into()], ..worker_in("m", "parked") };
    let parked = server.client.register(&other).await.unwrap().worker_id;
    let poll = server.parked(&parked).await;
    let disabled = server.client.disable_namespace("m", "they moved").await.unwrap();
    assert_eq!(
        (disabled.disabled, disabled.disabled_reason.as_deref(), disabled.disabled_at),
        (true, Some("they moved"), Some(Time(START)))
    );
    assert_eq!(soon(poll).await.len(), 0, "whoever waits is sent away");
    for answer in [
        refusal(server.client.submit(&run_in("m")).await),
        refusal(
            server
                .client
                .submit_batch(&SubmitBatch {
                    runs: vec![run_in("default"), SubmitRun { queue: "q".into(), ..run_in("m") }],
                })
                .await,
        ),
        refusal(server.client.register(&worker_in("m", "late")).await),
        refusal(server.client.create_schedule(&schedule_in("m", "t")).await),
        refusal(server.client.trigger_schedule("m", "s", &TriggerSchedule::default()).await),
        refusal(server.client.claim(&holder, &crate::harness::started_claim()).await),
    ] {
        assert_eq!(answer, "403 namespace_disabled");
    }
    server.submit_run(&run_in("default")).await;
    assert_eq!(server.client.explain(&waiting).await.unwrap().reasons[0].code, "namespace_disabled");
    // Work under way goes on to its end.
    server.client.heartbeat(&holder, &Default::default()).await.unwrap();
    server.client.complete(&held, &complete(&claimed.lease)).await.unwrap();
    assert_eq!((server.state(&held).await, server.state(&waiting).await), (State::Completed, State::Pending));
    // Schedules stand still, and what they miss is not made up for.
    server.clock.advance(10 * 60_000);
    eventually("the schedule is passed over", async || {
        server.app.store.schedule("m", "s").await.unwrap().unwrap().last_at > START
    })
    .await;
    let enabled = server.client.enable_namespace("m").await.unwrap();
    assert_eq!((enabled.disabled, enabled.disabled_reason), (false, None));
    assert_eq!(server.client.schedule("m", "s").await.unwrap().fired, 0);
    server.clock.advance(60_000);
    eventually("it fires again", async || server.client.schedule("m", "s").await.unwrap().fired == 1).await;
    server.submit_run(&run_in("m")).await;
    let next = server.client.register(&worker_in("m", "next")).await.unwrap().worker_id;
    assert_eq!(server.claim(&next).await.run_id, waiting);
}

async fn a_namespace_has_as_many_live_runs_as_it_may(on: On) {
    let server = Server::start(on).await;
    let limited = CreateNamespace { name: "m".into(), live_runs_max: Some(3), ..Default::default() };
    server.client.create_namespace(&limited).await.unwrap();
    let keyed = SubmitRun { idempotency_key: Some("k".into()), ..run_in("m") };
    let first = server.submit_run(&keyed).await;
    server.submit_run(&SubmitRun { queue: "other".into(), ..run_in("m") }).await;
    let two = SubmitBatch { runs: vec![run_in("m"), run_in("m")] };
    assert_eq!(refusal(server.client.submit_batch(&two).await), "429 namespace_limit", "all or none");
    server.submit_run(&SubmitRun { delay_ms: Some(1_000_000), ..run_in("m") }).await;
    let refused = server.call("POST", "/api/v1/runs", serde_json::to_string(&run_in("m")).unwrap()).await;
    assert_eq!((refused.refusal().as_str(), refused.header("retry-after")), ("429 namespace_limit", "5"));
    let error = refused.json()["error"].as_str().unwrap().to_owned();
    assert!(error.contains("namespace m") && error.contains("3 live runs"), "{error}");
    assert_eq!(server.submit_run(&keyed).await, first, "a repeated call takes no room");
    server.submit_run(&run_in("default")).await;
    server.client.cancel(&first).await.unwrap();
    server.submit_run(&run_in("m")).await;
    let more = ChangeNamespace { live_runs_max: Some(None), ..ChangeNamespace::default() };
    assert_eq!(server.client.change_namespace("m", &more).await.unwrap().live_runs_max, None);
    for _ in 0..5 {
        server.submit_run(&run_in("m")).await;
    }
}

async fn a_namespace_has_as_many_workers_and_schedules_as_it_may(on: On) {
    let server = Server::start(on).await;
    let limited =
        CreateNamespace { name: "m".into(), workers_max: Some(1), schedules_max: Some(1), ..Default::default() };
    server.client.create_namespace(&limited).await.unwrap();
    let first = RegisterWorker { instance: Some("i".into()), ..worker_in("m", "one") };
    let worker = server.client.register(&first).await.unwrap().worker_id;
    assert_eq!(server.client.register(&first).await.unwrap().worker_id, worker, "a repeated call takes no room");
    assert_eq!(refusal(server.client.register(&worker_in("m", "two")).await), "429 namespace_limit");
    server.client.register(&worker_in("default", "two")).await.unwrap();
    server.client.deregister(&worker).await.unwrap();
    server.client.register(&worker_in("m", "two")).await.unwrap();
    assert_eq!(refusal(server.client.register(&first).await), "429 namespace_limit", "its place is taken by now");
    server.client.create_schedule(&schedule_in("m", "a")).await.unwrap();
    assert_eq!(refusal(server.client.create_schedule(&schedule_in("m", "b")).await), "429 namespace_limit");
    server.client.create_schedule(&schedule_in("m", "a")).await.unwrap();
    server.client.delete_schedule("m", "a").await.unwrap();
    server.client.create_schedule(&schedule_in("m", "b")).await.unwrap();
}

/// What it costs a submit to learn that its namespace is open and has room.
async fn a_submit_asks_nobody_about_its_namespace(on: On) {
    let server = Server::start(on).await;
    let limited = CreateNamespace { name: "m".into(), live_runs_max: Some(1_000), ..Default::default() };
    server.client.create_namespace(&limited).await.unwrap();
    let cost = async |namespace: &str| {
        for _ in 0..3 {
            server.submit_run(&run_in(namespace)).await;
        }
        let before = server.app.store.statements();
        for _ in 0..20 {
            server.submit_run(&run_in(namespace)).await;
        }
        server.app.store.statements() - before
    };
    let (free, limited) = (cost("default").await, cost("m").await);
    // On the clock that stands still no loop passes, so all statements are the submits' own, and a few hints to other servers.
    assert!(limited.abs_diff(free) < 10, "{limited} statements, and {free} without a limit");
}

on_both!(
    namespaces_are_made_by_hand_and_on_first_use,
    odd_names_are_for_namespaces_that_have_them_already,
    a_key_of_one_namespace_sees_it_and_changes_nothing,
    a_disabled_namespace_takes_nothing_and_lets_work_finish,
    a_namespace_has_as_many_live_runs_as_it_may,
    a_namespace_has_as_many_workers_and_schedules_as_it_may,
    a_submit_asks_nobody_about_its_namespace,
);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_servers_hear_of_it_at_once() {
    let database = baton_testkit::database().await;
    // On a clock that stands still nothing passes: only a hint can have brought the news.
    let clock = Clock::manual(START);
    let (one, other) =
        (Server::on_database(database.url(), clock.clone()).await, Server::on_database(database.url(), clock).await);
    other.submit_run(&run_in("m")).await;
    one.client.disable_namespace("m", "").await.unwrap();
    eventually("the other server knows", async || {
        matches!(other.client.submit(&run_in("m")).await, Err(baton::ClientError::Refused { code, .. }) if code == "namespace_disabled")
    })
    .await;
    one.client.enable_namespace("m").await.unwrap();
    eventually("the other server knows", async || other.client.submit(&run_in("m")).await.is_ok()).await;
    one.client
        .change_namespace("m", &ChangeNamespace { live_runs_max: Some(Some(1)), ..Default::default() })
        .await
        .unwrap();
    eventually("the other server knows", async || {
        matches!(other.client.submit(&run_in("m")).await, Err(baton::ClientError::Refused { code, .. }) if code == "namespace_limit")
    })
    .await;
}
