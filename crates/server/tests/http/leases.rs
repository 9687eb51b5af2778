//! /api/v1/runs/{id}/start and its kin, one by one and in batches.

use baton::proto::{Batch, Claim, ClaimedRun, CompleteRun, FailRun, GiveBackRun, SleepRun, StartRun, SubmitRun, Time};
use baton_core::{Reason, RetryPolicy, State};
use serde_json::{Value, json};

use crate::harness::{On, START, Server, complete, eventually, fail, give_back, on_both, refusal, run};

async fn start_is_told_once_and_may_be_repeated(on: On) {
    let server = Server::start(on).await;
    let id = server.submit().await;
    let worker = server.worker("one").await;
    let claimed = server.claims(&worker, &Claim::default()).await.pop().unwrap();
    assert_eq!(server.state(&id).await, State::Assigned);
    let start = StartRun { run_id: None, lease: claimed.lease };
    for _ in 0..2 {
        assert_eq!(server.client.start_run(&id, &start).await.unwrap().state, State::Running);
    }
    assert_eq!(server.client.run(&id).await.unwrap().started_at, Some(Time(START)));
}

async fn complete_keeps_the_output_and_may_be_repeated(on: On) {
    let server = Server::start(on).await;
    let (worker, claimed) = server.held().await;
    let path = format!("/api/v1/runs/{}/complete", claimed.run_id);
    let body = json!({"lease": claimed.lease, "output": {"url": "x"}}).to_string();
    for _ in 0..2 {
        let answer = server.call("POST", &path, body.clone()).await;
        assert_eq!((answer.status, &answer.json()["state"]), (200, &json!("completed")));
    }
    let run = server.client.run(&claimed.run_id).await.unwrap();
    assert_eq!((run.output.unwrap().get(), run.worker_id), (r#"{"url":"x"}"#, Some(worker.clone())));
    assert_eq!(server.client.worker(&worker).await.unwrap().completed, 1, "a repeated call counts once");
    // Another end of the same lease is no repeat.
    assert_eq!(refusal(server.client.fail(&claimed.run_id, &fail(&claimed.lease)).await), "409 ended");
}

async fn fail_retries_by_the_policy_and_then_ends(on: On) {
    let server = Server::start(on).await;
    let policy = RetryPolicy { max_attempts: 2, first_interval_ms: 1_000, jitter: 0.0, ..RetryPolicy::default() };
    let id = server.submit_run(&SubmitRun { retry: Some(policy), ..run() }).await;
    let worker = server.worker("one").await;
    let first = server.claim(&worker).await;
    for _ in 0..2 {
        assert_eq!(server.client.fail(&id, &fail(&first.lease)).await.unwrap().state, State::Pending);
    }
    let waiting = server.client.run(&id).await.unwrap();
    assert_eq!(
        (waiting.failures, waiting.due_at, waiting.error.as_deref()),
        (1, Time(START + 1_000), Some("it broke"))
    );
    server.clock.advance(1_001);
    let second = server.claim(&worker).await;
    assert_eq!((second.epoch, second.attempt), (2, 2));
    for _ in 0..2 {
        assert_eq!(server.client.fail(&id, &fail(&second.lease)).await.unwrap().state, State::Failed);
    }
    let ended = server.client.run(&id).await.unwrap();
    assert_eq!((ended.reason, ended.failures), (Some(Reason::Error), 2));
}

async fn an_error_may_say_never_again_or_not_before(on: On) {
    let server = Server::start(on).await;
    let worker = server.worker("one").await;
    let fail_with = async |extra: Value| {
        let id = server.submit().await;
        let claimed = server.claim(&worker).await;
        assert_eq!(claimed.run_id, id);
        let mut body = json!({"lease": claimed.lease, "error": "no\u{0}"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let answer = server.call("POST", &format!("/api/v1/runs/{id}/fail"), body.to_string()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        server.client.run(&id).await.unwrap()
    };
    let never = fail_with(json!({"retryable": false})).await;
    assert_eq!((never.state, never.reason), (State::Failed, Some(Reason::Error)));
    let rejected = fail_with(json!({"rejected": true})).await;
    assert_eq!((rejected.state, rejected.reason), (State::Failed, Some(Reason::Rejected)));
    let later = fail_with(json!({"retry_after_ms": 60_000})).await;
    assert_eq!((later.state, later.due_at), (State::Pending, Time(START + 60_000)));
    server.client.cancel(&later.id).await.unwrap();
    let (_, claimed) = server.held().await;
    let path = format!("/api/v1/runs/{}/fail", claimed.run_id);
    for wrong in
        [json!({"lease": claimed.lease}), json!({"lease": claimed.lease, "error": "", "retry_after_ms": u64::MAX})]
    {
        assert_eq!(server.call("POST", &path, wrong.to_string()).await.refusal(), "422 invalid", "{wrong}");
    }
}

async fn give_back_goes_to_the_front_and_may_be_repeated(on: On) {
    let server = Server::start(on).await;
    let (_, claimed) = server.held().await;
    server.submit().await;
    for _ in 0..2 {
        let answer = server.client.give_back(&claimed.run_id, &give_back(&claimed.lease)).await.unwrap();
        assert_eq!(answer.state, State::Pending);
    }
    let other = server.worker("two").await;
    let again = server.claim(&other).await;
    assert_eq!((again.run_id.as_str(), again.epoch), (claimed.run_id.as_str(), 2));
    // The late repeat of the first holder still gets its answer, and takes nothing from the second.
    server.client.give_back(&claimed.run_id, &give_back(&claimed.lease)).await.unwrap();
    assert_eq!(server.state(&claimed.run_id).await, State::Running);
}

async fn sleep_waits_without_a_worker(on: On) {
    let server = Server::start(on).await;
    let (worker, claimed) = server.held().await;
    let sleep = SleepRun { lease: claimed.lease.clone(), ms: Some(5_000), until: None };
    for _ in 0..2 {
        assert_eq!(server.client.sleep(&claimed.run_id, &sleep).await.unwrap().state, State::Sleeping);
    }
    assert!(server.claims(&worker, &Claim::default()).await.is_empty());
    server.clock.advance(5_001);
    let again = server.claim(&worker).await;
    assert_eq!((again.run_id.as_str(), again.epoch), (claimed.run_id.as_str(), 2));
    let until = SleepRun { lease: again.lease.clone(), ms: None, until: Some(Time(START + 90_000)) };
    server.client.sleep(&again.run_id, &until).await.unwrap();
    assert_eq!(server.client.run(&again.run_id).await.unwrap().due_at, Time(START + 90_000));
    let (_, held) = server.held().await;
    let path = format!("/api/v1/runs/{}/sleep", held.run_id);
    for wrong in [
        json!({"lease": held.lease}),
        json!({"lease": held.lease, "ms": 1, "until": "2030-01-01T00:00:00Z"}),
        json!({"lease": held.lease, "ms": u64::MAX}),
        json!({"lease": held.lease, "until": "never"}),
    ] {
        assert_eq!(server.call("POST", &path, wrong.to_string()).await.refusal(), "422 invalid", "{wrong}");
    }
}

async fn a_zombie_changes_nothing(on: On) {
    let server = Server::start(on).await;
    let (_, zombie) = server.held().await;
    // It falls silent, and the run goes to another worker.
    server.clock.advance(server.settings.lease_ttl_ms as i64 + 1_001);
    eventually("its run is free", async || server.state(&zombie.run_id).await == State::Pending).await;
    let healthy = server.worker("healthy").await;
    let current = server.claim(&healthy).await;
    assert_eq!((current.run_id.as_str(), current.epoch), (zombie.run_id.as_str(), 2));
    let id = zombie.run_id.as_str();
    let start = StartRun { run_id: None, lease: zombie.lease.clone() };
    let sleep = SleepRun { lease: zombie.lease.clone(), ms: Some(1), until: None };
    assert_eq!(refusal(server.client.complete(id, &complete(&zombie.lease)).await), "409 lease_lost");
    assert_eq!(refusal(server.client.fail(id, &fail(&zombie.lease)).await), "409 lease_lost");
    assert_eq!(refusal(server.client.give_back(id, &give_back(&zombie.lease)).await), "409 lease_lost");
    assert_eq!(refusal(server.client.start_run(id, &start).await), "409 lease_lost");
    assert_eq!(refusal(server.client.sleep(id, &sleep).await), "409 lease_lost");
    assert_eq!(server.metric("baton_lease_refusals_total").await, 5);
    let run = server.client.run(id).await.unwrap();
    assert_eq!((run.state, run.epoch, run.losses, run.worker_id), (State::Running, 2, 1, Some(healthy)));
    server.client.complete(id, &complete(&current.lease)).await.unwrap();
    assert_eq!(refusal(server.client.complete(id, &complete(&zombie.lease)).await), "409 ended");
}

async fn a_forged_lease_opens_nothing(on: On) {
    let server = Server::start(on).await;
    let (_, claimed) = server.held().await;
    let next = claimed.lease.replace("bl_g1_1_", "bl_g1_2_");
    for forged in ["", "bl_1_", "bl_1_0000", next.as_str(), &format!("{}x", claimed.lease)] {
        let answer = server.client.complete(&claimed.run_id, &complete(forged)).await;
        assert_eq!(refusal(answer), "403 forbidden", "{forged}");
    }
    // A good lease opens no other run, and none that is not there.
    let other = server.submit().await;
    assert_eq!(refusal(server.client.complete(&other, &complete(&claimed.lease)).await), "403 forbidden");
    assert_eq!(refusal(server.client.complete("x", &complete(&claimed.lease)).await), "404 not_found");
    let elsewhere = CompleteRun { run_id: Some(other), ..complete(&claimed.lease) };
    assert_eq!(refusal(server.client.complete(&claimed.run_id, &elsewhere).await), "422 invalid");
    assert_eq!(server.state(&claimed.run_id).await, State::Running);
}

async fn a_batch_answers_for_each_run_on_its_own(on: On) {
    let server = Server::start(on).await;
    for _ in 0..8 {
        server.submit().await;
    }
    let worker = server.worker("one").await;
    let held = server.claims(&worker, &Claim { max: Some(8), ..Claim::default() }).await;
    assert_eq!(held.len(), 8);
    let id = |run: &ClaimedRun| Some(run.run_id.clone());
    let forged = || StartRun { run_id: id(&held[0]), lease: "bl_1_x".into() };
    let mut starts: Vec<_> = held.iter().map(|run| StartRun { run_id: id(run), lease: run.lease.clone() }).collect();
    starts.insert(1, forged());
    for _ in 0..2 {
        let told = server.client.start_batch(&Batch { runs: starts.clone() }).await.unwrap().runs;
        assert_eq!((told.len(), told[1].code.as_deref()), (9, Some("forbidden")));
        assert!(told.iter().enumerate().all(|(n, one)| n == 1 || one.state == Some(State::Running)), "{told:?}");
    }
    let done = held[..3].iter().map(|run| CompleteRun { run_id: id(run), ..complete(&run.lease) }).collect();
    let failed =
        held[3..5].iter().map(|run| FailRun { run_id: id(run), retryable: false, ..fail(&run.lease) }).collect();
    let back = held[5..].iter().map(|run| GiveBackRun { run_id: id(run), ..give_back(&run.lease) }).collect();
    let (done, failed, back) = (Batch { runs: done }, Batch { runs: failed }, Batch { runs: back });
    for _ in 0..2 {
        let told = server.client.complete_batch(&done).await.unwrap().runs;
        assert!(told.len() == 3 && told.iter().all(|one| one.state == Some(State::Completed)), "{told:?}");
        let told = server.client.fail_batch(&failed).await.unwrap().runs;
        assert!(told.len() == 2 && told.iter().all(|one| one.state == Some(State::Failed)), "{told:?}");
        let told = server.client.give_back_batch(&back).await.unwrap().runs;
        assert!(told.len() == 3 && told.iter().all(|one| one.state == Some(State::Pending)), "{told:?}");
    }
    let again = server.claims(&worker, &Claim { max: Some(8), ..Claim::default() }).await;
    assert_eq!(again.len(), 3);
    let mixed = [&held[5], &again[1]].map(|run| CompleteRun { run_id: id(run), ..complete(&run.lease) });
    let told = server.client.complete_batch(&Batch { runs: mixed.to_vec() }).await.unwrap().runs;
    assert_eq!((told[0].code.as_deref(), told[1].state), (Some("lease_lost"), Some(State::Completed)));
    // A zombie and the holder of the same run, beside somebody who has nothing to do with it.
    let zombie = held.iter().find(|run| run.run_id == again[2].run_id).unwrap();
    let mixed = [zombie, &again[2], &again[0]].map(|run| CompleteRun { run_id: id(run), ..complete(&run.lease) });
    let told = server.client.complete_batch(&Batch { runs: mixed.to_vec() }).await.unwrap().runs;
    assert!(told[0].code.is_some() && told[0].state != Some(State::Completed), "{told:?}");
    assert_eq!((told[1].state, told[2].state), (Some(State::Completed), Some(State::Completed)), "{told:?}");
    for verb in ["start", "complete", "fail", "give_back"] {
        let path = format!("/api/v1/runs/{verb}");
        let nameless = json!({"runs": [{"lease": "x", "error": "y"}]}).to_string();
        let nameless = if verb == "fail" { nameless } else { nameless.replace(r#""error":"y","#, "") };
        assert_eq!(server.call("POST", &path, nameless).await.refusal(), "422 invalid", "{verb}");
        let empty = server.call("POST", &path, r#"{"runs":[]}"#).await;
        assert_eq!((empty.status, empty.json()), (200, json!({"runs": []})), "{verb}");
    }
}

async fn a_cancelled_holder_may_give_up_in_any_way(on: On) {
    let server = Server::start(on).await;
    let worker = server.worker("one").await;
    let cancelled = async || {
        server.submit().await;
        let claimed = server.claim(&worker).await;
        server.client.cancel(&claimed.run_id).await.unwrap();
        claimed
    };
    let one = cancelled().await;
    let sleep = SleepRun { lease: one.lease.clone(), ms: Some(1), until: None };
    assert_eq!(refusal(server.client.sleep(&one.run_id, &sleep).await), "409 cancelling");
    assert_eq!(server.client.fail(&one.run_id, &fail(&one.lease)).await.unwrap().state, State::Cancelled);
    let two = cancelled().await;
    for _ in 0..2 {
        let answer = server.client.give_back(&two.run_id, &give_back(&two.lease)).await.unwrap();
        assert_eq!((answer.state, answer.cancelling), (State::Cancelled, false));
    }
    let three = cancelled().await;
    let done = server.client.complete(&three.run_id, &complete(&three.lease)).await.unwrap();
    assert_eq!(done.state, State::Completed, "done is done");
}

on_both!(
    start_is_told_once_and_may_be_repeated,
    complete_keeps_the_output_and_may_be_repeated,
    fail_retries_by_the_policy_and_then_ends,
    an_error_may_say_never_again_or_not_before,
    give_back_goes_to_the_front_and_may_be_repeated,
    sleep_waits_without_a_worker,
    a_zombie_changes_nothing,
    a_forged_lease_opens_nothing,
    a_batch_answers_for_each_run_on_its_own,
    a_cancelled_holder_may_give_up_in_any_way,
);
