//! A run whose input and output are too large for a row, and a worker that reports too late once.

use serde_json::{Value, json};

use super::TIMES_MAX;
use super::walks::Act;
use super::yard::{Storage, Yard};
use crate::site::Store;
use crate::stored::entries;
use crate::wait::eventually;
use crate::wire::Request;

/// More than goes into a row.
const BYTES: usize = 2_200_000;

/// The points on its way.
pub const WALKS: [(Act, &str); 9] = [
    (Act::Submit, "payload.noted"),
    (Act::Submit, "draft.renamed"),
    (Act::Submit, "payload.stored"),
    (Act::Build, "payload.noted"),
    (Act::Build, "draft.renamed"),
    (Act::Build, "payload.stored"),
    (Act::Collect, "payload.doomed"),
    (Act::Collect, "payload.deleted"),
    (Act::Collect, "payload.forgotten"),
];

/// Kills the server at each point. Then every run has ended with its own output, and the storage has an input and an output of each.
pub async fn every_point(store: Store) {
    let mut yard = Yard::new(store, Storage::Directory).await;
    let mut runs = 0;
    for (falls_in, name) in WALKS {
        for time in 1..=TIMES_MAX {
            let point = format!("{name}:{time}");
            yard.begin_story();
            let arm = |act: Act| (act == falls_in).then_some(point.as_str());
            yard.serve(arm(Act::Submit)).await;
            let run = submit(&mut yard).await;
            yard.serve(arm(Act::Build)).await;
            work(&mut yard, &run).await;
            yard.collect(arm(Act::Collect)).await;
            runs += 1;
            assert_well(&mut yard, runs, &point).await;
            if !yard.has_fallen() {
                assert_ne!(time, 1, "nobody comes to the point {name} in the act {falls_in:?}");
                break;
            }
        }
    }
}

fn text(letter: char) -> String {
    letter.to_string().repeat(BYTES)
}

async fn submit(yard: &mut Yard) -> String {
    let key = format!("large-{}", yard.story());
    let run = json!({"queue": "large", "type": "large", "input": text('i')});
    let submitted = yard.ask(&Request::post("/api/v1/runs").header("idempotency-key", key).json(&run)).await;
    assert!([200, 201].contains(&submitted.status), "{submitted:?}");
    submitted.text("id")
}

/// Claims until there is something, however often the server falls.
async fn claim(yard: &mut Yard) -> Value {
    loop {
        let worker = json!({"queues": ["large"], "types": ["large"], "name": "a worker"});
        let worker = yard.ask(&Request::post("/api/v1/workers").json(&worker)).await.text("worker_id");
        for claim_no in 1.. {
            let wanted = json!({"claim_no": claim_no, "wait_ms": 200});
            let claimed = yard.ask(&Request::post(&format!("/api/v1/workers/{worker}/claim")).json(&wanted)).await;
            match claimed.status {
                200 if claimed.json()["runs"][0].is_object() => return claimed.json()["runs"][0].clone(),
                200 => {}
                // It was silent for too long.
                409 => break,
                _ => panic!("{claimed:?}"),
            }
        }
    }
}

async fn work(yard: &mut Yard, run: &str) {
    let path = |verb: &str| format!("/api/v1/runs/{run}/{verb}");
    let mut late = true;
    loop {
        let claimed = claim(yard).await;
        assert!(claimed["run_id"] == run && claimed["input"] == text('i'), "the input came whole");
        let lease = claimed["lease"].clone();
        if late {
            late = false;
            yard.ask(&Request::post(&path("give_back")).json(&json!({"lease": lease}))).await;
            let done = json!({"lease": lease, "output": text('x')});
            let refused = yard.ask(&Request::post(&path("complete")).json(&done)).await;
            assert_eq!(refused.status, 409, "{refused:?}");
            continue;
        }
        let done = json!({"lease": lease, "output": text('o')});
        let told = yard.ask(&Request::post(&path("complete")).json(&done)).await;
        match told.status {
            200 => return,
            // The lease was over before the server was there again.
            409 => {}
            _ => panic!("{told:?}"),
        }
    }
}

async fn assert_well(yard: &mut Yard, runs: usize, point: &str) {
    let listed = yard.ask(&Request::get("/api/v1/runs?state=completed&limit=100")).await.json();
    let ids: Vec<_> = listed["runs"].as_array().unwrap().iter().map(|run| run["id"].clone()).collect();
    assert_eq!(ids.len(), runs, "killed at {point}");
    let newest = yard.ask(&Request::get(&format!("/api/v1/runs/{}", ids[0].as_str().unwrap()))).await.json();
    assert!(newest["input"] == text('i') && newest["output"] == text('o'), "killed at {point}: both came whole");
    let folder = yard.roots()[0].1.join("payloads");
    let what = format!("killed at {point}: an input and an output of each run, and nothing else");
    eventually(&what, async || (entries(&folder).len() == 2 * runs).then_some(())).await;
    assert_eq!(yard.count("select count(*) from payloads").await, 2 * runs, "killed at {point}: rows");
}
