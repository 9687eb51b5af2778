//! /api/v1/workers: register, heartbeat, drain, offline, deregister, list.

use baton::WorkerFilter;
use baton::proto::{Claim, HealthReport, Heartbeat, LeaseOf, RegisterWorker, Time};
use baton_core::State;
use serde_json::json;

use crate::harness::{LONG_MS, On, START, Server, eventually, on_both, refusal, soon, worker};

const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

async fn a_worker_reads_back_as_it_registered(on: On) {
    let server = Server::start(on).await;
    let body = json!({"name": "mac-1", "queues": ["builds", "tests"], "types": ["ios", "tvos"], "hostname": "mac.local",
        "pid": 42, "version": "1.2", "labels": {"arch": "arm64"}, "max_concurrent": 3});
    let answer = server.call("POST", "/api/v1/workers", body.to_string()).await;
    assert_eq!(answer.status, 201);
    assert_eq!(
        (&answer.json()["heartbeat_interval_ms"], &answer.json()["lease_ttl_ms"]),
        (&json!(5_000), &json!(15_000))
    );
    let seen = server.client.worker(answer.json()["worker_id"].as_str().unwrap()).await.unwrap();
    assert_eq!((seen.name.as_str(), seen.status.as_str(), seen.hostname.as_str()), ("mac-1", "ONLINE", "mac.local"));
    assert_eq!(
        (seen.queues, seen.types),
        (vec!["builds".into(), "tests".into()], vec!["ios".into(), "tvos".to_owned()])
    );
    assert_eq!((seen.pid, seen.version.as_str(), seen.labels["arch"].as_str()), (Some(42), "1.2", "arm64"));
    assert_eq!((seen.max_concurrent, seen.active, seen.completed, seen.failed), (3, 0, 0, 0));
    assert_eq!((seen.registered_at, seen.lease_until), (Time(START), Time(START + 15_000)));
    let least = server.call("POST", "/api/v1/workers", r#"{"types":["ios"],"hostname":"h"}"#).await.json();
    let least = server.client.worker(least["worker_id"].as_str().unwrap()).await.unwrap();
    assert_eq!((least.name.as_str(), least.queues, least.max_concurrent), ("h", vec!["default".to_owned()], 1));
}

async fn what_is_wrong_with_a_registration_is_said(on: On) {
    let server = Server::start(on).await;
    let many: Vec<_> = (0..201).map(|n| n.to_string()).collect();
    for (body, word) in [
        (json!({}), "types"),
        (json!({"types": []}), "types"),
        (json!({"types": [""]}), "types"),
        (json!({"types": many}), "200"),
        (json!({"types": ["a"], "queues": ["\n"]}), "queues"),
        (json!({"types": ["a"], "max_concurrent": 0}), "max_concurrent"),
        (json!({"types": ["a"], "max_concurrent": 100_001}), "max_concurrent"),
        (json!({"types": ["a"], "labels": {"": "x"}}), "labels"),
        (json!({"types": ["a"], "name": "x".repeat(201)}), "name"),
        (json!({"types": ["a"], "namespace": ""}), "namespace"),
        (json!({"types": ["a"], "platforms": []}), "platforms"),
    ] {
        let answer = server.call("POST", "/api/v1/workers", body.to_string()).await;
        assert_eq!(answer.refusal(), "422 invalid", "{body}");
        assert!(answer.json()["error"].as_str().unwrap().contains(word), "{body}: {answer:?}");
    }
}

async fn every_start_is_a_new_worker_but_a_repeated_call_is_not(on: On) {
    let server = Server::start(on).await;
    assert_ne!(server.worker("mac").await, server.worker("mac").await);
    let named = RegisterWorker { instance: Some("boot-1".into()), ..worker("mac") };
    let first = server.client.register(&named).await.unwrap();
    assert_eq!(server.client.register(&named).await.unwrap(), first);
    let elsewhere = RegisterWorker { namespace: "team".into(), ..named };
    assert_ne!(server.client.register(&elsewhere).await.unwrap().worker_id, first.worker_id);
}

async fn a_heartbeat_renews_and_never_adds_up(on: On) {
    let server = Server::start(on).await;
    let id = server.worker("one").await;
    for at in [1_000, 2_000] {
        server.clock.advance(1_000);
        let answer = server.client.heartbeat(&id, &Heartbeat::default()).await.unwrap();
        assert_eq!((answer.status.as_str(), answer.should_drain), ("ONLINE", false));
        assert_eq!(answer.lease_until, Time(START + at + 15_000));
        assert!(answer.lost.is_empty() && answer.cancelling.is_empty());
    }
    for id in [UNKNOWN, "x"] {
        assert_eq!(refusal(server.client.heartbeat(id, &Heartbeat::default()).await), "404 unknown_worker");
        assert_eq!(refusal(server.client.claim(id, &Claim::default()).await), "404 unknown_worker");
        assert_eq!(refusal(server.client.deregister(id).await), "404 unknown_worker");
        assert_eq!(refusal(server.client.drain(id).await), "404 unknown_worker");
        assert_eq!(refusal(server.client.force_offline(id).await), "404 unknown_worker");
        assert_eq!(refusal(server.client.worker(id).await), "404 unknown_worker");
    }
}

async fn a_heartbeat_tells_what_is_lost_and_what_is_to_stop(on: On) {
    let server = Server::start(on).await;
    let (one, taken) = server.held().await;
    server.submit().await;
    let wanted = server.claim(&one).await;
    // Somebody takes one run away and wants the other cancelled.
    server.client.give_back(&taken.run_id, &crate::harness::give_back(&taken.lease)).await.unwrap();
    let two = server.worker("two").await;
    assert_eq!(server.claim(&two).await.run_id, taken.run_id);
    server.client.cancel(&wanted.run_id).await.unwrap();
    let lease = |run: &baton::proto::ClaimedRun| LeaseOf {
        run_id: run.run_id.clone(),
        lease: run.lease.clone(),
        stopping: false,
    };
    let beat = Heartbeat { leases: vec![lease(&taken), lease(&wanted)], health: None, ..Heartbeat::default() };
    let answer = server.client.heartbeat(&one, &beat).await.unwrap();
    assert_eq!((answer.lost, answer.cancelling), (vec![taken.run_id.clone()], vec![wanted.run_id.clone()]));
    // Also one that names nothing is told what to stop.
    let answer = server.client.heartbeat(&one, &Heartbeat::default()).await.unwrap();
    assert_eq!(answer.cancelling, std::slice::from_ref(&wanted.run_id));
    let forged = Heartbeat {
        leases: vec![LeaseOf { lease: "bl_9_x".into(), ..lease(&taken) }],
        health: None,
        ..Heartbeat::default()
    };
    assert_eq!(refusal(server.client.heartbeat(&one, &forged).await), "403 forbidden");
}

async fn a_worker_under_a_health_floor_gets_no_work_and_is_told_why(on: On) {
    let server = Server::with(on, |settings| settings.health_memory_max = Some(0.9)).await;
    let id = server.worker("one").await;
    server.submit().await;
    let beat = |memory| Heartbeat {
        health: Some(HealthReport { memory: Some(memory), disk_free_bytes: Some(u64::MAX), cpu: None }),
        ..Heartbeat::default()
    };
    let told = server.client.heartbeat(&id, &beat(0.95)).await.unwrap().unfit.unwrap();
    assert!(told.contains("95 %"), "{told}");
    assert_eq!(refusal(server.client.claim(&id, &Claim::default()).await), "409 worker_unfit");
    let seen = server.client.worker(&id).await.unwrap();
    assert_eq!((seen.unfit.as_deref(), seen.health.unwrap().disk_free_bytes), (Some(told.as_str()), Some(u64::MAX)));
    assert_eq!(server.client.heartbeat(&id, &beat(0.5)).await.unwrap().unfit, None);
    server.claim(&id).await;
}

async fn a_draining_worker_finishes_and_gets_nothing_new(on: On) {
    let server = Server::start(on).await;
    let (id, claimed) = server.held().await;
    server.submit().await;
    let drained = server.client.drain(&id).await.unwrap();
    assert_eq!((drained.status.as_str(), drained.active), ("DRAINING", 1));
    let answer = server.client.heartbeat(&id, &Heartbeat::default()).await.unwrap();
    assert_eq!((answer.status.as_str(), answer.should_drain), ("DRAINING", true));
    assert_eq!(refusal(server.client.claim(&id, &Claim::default()).await), "409 worker_draining");
    server.client.complete(&claimed.run_id, &crate::harness::complete(&claimed.lease)).await.unwrap();
    assert_eq!(server.client.deregister(&id).await.unwrap().given_back, 0);
    assert_eq!(refusal(server.client.drain(&id).await), "409 worker_offline");
}

/// A poll that already waits is part of "no new work".
async fn a_poll_of_a_worker_that_is_drained_gets_no_run(on: On) {
    let server = Server::start(on).await;
    let id = server.worker("one").await;
    let poll = tokio::spawn({
        let (client, id) = (server.client.clone(), id.clone());
        async move { client.claim(&id, &Claim { wait_ms: Some(LONG_MS), ..Claim::default() }).await }
    });
    eventually("the poll waits", async || server.app.dispatcher.waiting() == 1).await;
    server.client.drain(&id).await.unwrap();
    let run = server.submit().await;
    assert_eq!(refusal(soon(poll).await), "409 worker_draining");
    assert_eq!(server.state(&run).await, State::Pending);
}

async fn who_goes_away_gives_back_and_wakes_others(on: On) {
    let server = Server::start(on).await;
    for forced in [false, true] {
        let (leaving, claimed) = server.held().await;
        let other = server.worker("other").await;
        let poll = server.parked(&other).await;
        let answer = match forced {
            true => server.client.force_offline(&leaving).await.unwrap(),
            false => server.client.deregister(&leaving).await.unwrap(),
        };
        assert_eq!(answer.given_back, 1);
        let again = soon(poll).await.pop().unwrap();
        assert_eq!((again.run_id.as_str(), again.epoch), (claimed.run_id.as_str(), 2));
        let late = server.client.complete(&claimed.run_id, &crate::harness::complete(&claimed.lease)).await;
        assert_eq!(refusal(late), "409 lease_lost");
        assert_eq!(refusal(server.client.heartbeat(&leaving, &Heartbeat::default()).await), "409 worker_offline");
        assert_eq!(refusal(server.client.claim(&leaving, &Claim::default()).await), "409 worker_offline");
        assert_eq!(server.client.deregister(&leaving).await.unwrap().given_back, 0, "again does no harm");
        let seen = server.client.worker(&leaving).await.unwrap();
        assert_eq!(seen.status, "OFFLINE");
        assert_eq!(seen.status_reason.unwrap().contains("administrator"), forced);
        server.client.complete(&again.run_id, &crate::harness::complete(&again.lease)).await.unwrap();
    }
}

async fn lists_of_workers_are_filtered_and_paged(on: On) {
    let server = Server::start(on).await;
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(server.worker(&format!("w{n}")).await);
    }
    let other = RegisterWorker { queues: vec!["other".into()], namespace: "team".into(), ..worker("x") };
    let other = server.client.register(&other).await.unwrap().worker_id;
    server.client.drain(&ids[1]).await.unwrap();
    server.client.deregister(&ids[2]).await.unwrap();
    let find = async |filter: WorkerFilter| {
        let page = server.client.workers(&filter).await.unwrap();
        (page.workers.into_iter().map(|worker| worker.id).collect::<Vec<_>>(), page.next_cursor, page.total)
    };
    let with = WorkerFilter::default;
    assert_eq!(find(WorkerFilter { namespace: Some("team".into()), ..with() }).await.0, [other.as_str()]);
    assert_eq!(find(WorkerFilter { queue: Some("other".into()), ..with() }).await.0, [other]);
    assert_eq!(find(WorkerFilter { status: Some("draining".into()), ..with() }).await.0, [ids[1].clone()]);
    assert_eq!(find(WorkerFilter { status: Some("OFFLINE".into()), ..with() }).await.0, [ids[2].clone()]);
    let mut filter = WorkerFilter { queue: Some("builds".into()), limit: Some(2), total: true, ..with() };
    let mut seen = Vec::new();
    loop {
        let (page, cursor, total) = find(filter.clone()).await;
        assert_eq!(total, Some(5));
        seen.extend(page);
        match cursor {
            Some(cursor) => filter.cursor = Some(cursor),
            None => break,
        }
    }
    seen.sort();
    ids.sort();
    assert_eq!(seen, ids);
    for wrong in ["status=ASLEEP", "limit=0", "cursor=x", "kind=mac"] {
        let answer = server.call("GET", &format!("/api/v1/workers?{wrong}"), "").await;
        assert_eq!(answer.refusal(), "422 invalid", "{wrong}");
    }
}

async fn an_instance_that_went_offline_registers_as_a_new_worker(on: On) {
    let server = Server::start(on).await;
    let named = RegisterWorker { instance: Some("boot-1".into()), ..worker("mac") };
    let first = server.client.register(&named).await.unwrap().worker_id;
    server.client.deregister(&first).await.unwrap();
    let second = server.client.register(&named).await.unwrap().worker_id;
    assert_ne!(first, second);
    server.submit().await;
    server.claim(&second).await;
}

on_both!(
    an_instance_that_went_offline_registers_as_a_new_worker,
    a_worker_reads_back_as_it_registered,
    what_is_wrong_with_a_registration_is_said,
    every_start_is_a_new_worker_but_a_repeated_call_is_not,
    a_heartbeat_renews_and_never_adds_up,
    a_heartbeat_tells_what_is_lost_and_what_is_to_stop,
    a_worker_under_a_health_floor_gets_no_work_and_is_told_why,
    a_draining_worker_finishes_and_gets_nothing_new,
    a_poll_of_a_worker_that_is_drained_gets_no_run,
    who_goes_away_gives_back_and_wakes_others,
    lists_of_workers_are_filtered_and_paged,
);
