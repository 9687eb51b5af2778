//! Claims that the store carried out while the server got no answer. Whoever asked hears of those runs, once.

use std::collections::HashSet;
use std::sync::Arc;

use baton::ClientError;
use baton::proto::{Claim, ClaimedRun, SubmitRun};
use baton_core::State;

use crate::harness::{LONG_MS, On, PATIENCE, Server, complete, on_both, refusal, run, soon, started_claim};
use crate::lossy_store::LossyStore;

async fn lossy(on: On) -> (Server, Arc<LossyStore>) {
    let mut between = None;
    let server = Server::over(on, |store| between.insert(LossyStore::before(store)).clone()).await;
    (server, between.unwrap())
}

async fn submit(server: &Server, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(server.submit().await);
    }
    ids
}

/// Sends a claim until it is answered, as every worker does.
async fn claim(server: &Server, worker: &str, claim: &Claim) -> Vec<ClaimedRun> {
    let answered = async {
        loop {
            match server.client.claim(worker, claim).await {
                Ok(answer) => return answer.runs,
                Err(ClientError::Refused { status: 503, .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, answered).await.expect("no answer came")
}

fn ids(runs: &[ClaimedRun]) -> HashSet<&str> {
    runs.iter().map(|run| run.run_id.as_str()).collect()
}

/// Demands that these are all the runs that anybody holds, that each was told of once, and that the leases are good.
async fn all_held_are_told(server: &Server, told: &[ClaimedRun], all: &[String]) {
    assert_eq!(ids(told).len(), told.len(), "told twice: {told:?}");
    for id in all {
        let held = server.state(id).await != State::Pending;
        assert_eq!(held, ids(told).contains(id.as_str()), "{id} is held: {held}; told: {told:?}");
    }
    for run in told {
        assert_eq!(run.epoch, 1, "{run:?}");
        server.client.complete(&run.run_id, &complete(&run.lease)).await.unwrap();
    }
}

async fn a_claim_whose_answer_was_lost_is_found_out(on: On) {
    let (server, store) = lossy(on).await;
    let all = submit(&server, 5).await;
    let worker = server.worker("one").await;
    store.lose_claims(1);
    let wanted = Claim { max: Some(3), wait_ms: Some(LONG_MS), ..started_claim() };
    let mut told = claim(&server, &worker, &wanted).await;
    assert_eq!(store.faults_left(), 0);
    assert_eq!(ids(&told), all[..3].iter().map(String::as_str).collect(), "those that it had got, and no others");
    all_held_are_told(&server, &told, &all).await;
    // The next claim gets the rest.
    told.extend(claim(&server, &worker, &Claim { max: Some(3), ..started_claim() }).await);
    assert_eq!(ids(&told).len(), 5);
}

/// The store stays away for a while: what came of the claim cannot be found out at the first try.
async fn a_claim_is_not_made_again_before_it_is_found_out(on: On) {
    let (server, store) = lossy(on).await;
    let worker = server.worker("one").await;
    // The first claim of a worker looks for what an earlier one may have brought. This is about later looks.
    assert!(server.claims(&worker, &started_claim()).await.is_empty());
    let all = submit(&server, 5).await;
    store.lose_claims(1);
    store.refuse_looks(2);
    let wanted = Claim { max: Some(3), wait_ms: Some(LONG_MS), ..started_claim() };
    let told = claim(&server, &worker, &wanted).await;
    assert_eq!(store.faults_left(), 0);
    all_held_are_told(&server, &told, &all).await;
    assert_eq!(told.len(), 3);
}

/// Its wait is over before its claim comes back from the store. "No runs" would be a lie that the worker believes.
async fn a_short_claim_whose_answer_was_lost_is_not_told_that_there_is_nothing(on: On) {
    let (server, store) = lossy(on).await;
    let all = submit(&server, 5).await;
    let worker = server.worker("one").await;
    store.lose_claims(1);
    let wanted = Claim { max: Some(3), wait_ms: Some(0), ..started_claim() };
    let told = claim(&server, &worker, &wanted).await;
    assert_eq!(store.faults_left(), 0);
    all_held_are_told(&server, &told, &all).await;
    assert_eq!(told.len(), 3);
}

async fn a_submit_whose_answer_was_lost_hands_its_run_over_once(on: On) {
    let (server, store) = lossy(on).await;
    let worker = server.worker("one").await;
    let poll = server.parked(&worker).await;
    store.lose_submits(1);
    let keyed = SubmitRun { idempotency_key: Some("once".into()), ..run() };
    assert_eq!(refusal(server.client.submit(&keyed).await), "503 unavailable");
    assert_eq!(store.faults_left(), 0, "it went to the poll that waited");
    // The submitter asks again, and others submit, before anybody knows what came of the first call.
    let first = server.submit_run(&keyed).await;
    let other = server.submit().await;
    let told = soon(poll).await;
    assert_eq!(ids(&told), [first.as_str()].into(), "the one that it had got");
    all_held_are_told(&server, &told, &[first, other]).await;
}

/// A worker that sends no numbers finds what it holds with its next claim.
async fn an_unnumbered_claim_whose_answer_was_lost_is_found_by_the_next(on: On) {
    let (server, store) = lossy(on).await;
    let all = submit(&server, 5).await;
    let worker = server.worker("one").await;
    store.lose_claims(1);
    let wanted = Claim { max: Some(3), wait_ms: Some(LONG_MS), ..Claim::default() };
    let told = claim(&server, &worker, &wanted).await;
    assert_eq!(store.faults_left(), 0);
    all_held_are_told(&server, &told, &all).await;
    assert_eq!(told.len(), 3);
}

on_both!(
    a_claim_whose_answer_was_lost_is_found_out,
    a_claim_is_not_made_again_before_it_is_found_out,
    a_short_claim_whose_answer_was_lost_is_not_told_that_there_is_nothing,
    a_submit_whose_answer_was_lost_hands_its_run_over_once,
    an_unnumbered_claim_whose_answer_was_lost_is_found_by_the_next,
);
