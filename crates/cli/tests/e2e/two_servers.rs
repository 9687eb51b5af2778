//! Two servers on one PostgreSQL.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use baton::proto::{Claim, SubmitRun};
use baton::{Client, ClientError};
use baton_core::State;
use baton_testkit::{Baton, Database, Process};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::balancer::Balancer;
use crate::hands::Hands;
use crate::site::{BATON, Gate, Leases, client, job, serve_with, submit, worker};
use crate::verdict::{assert_completed_once, wait_for_count};
use crate::wait::eventually;

struct Pair {
    servers: [Baton; 2],
    homes: [TempDir; 2],
    database: Database,
}

impl Pair {
    async fn start(leases: Leases) -> Pair {
        Pair::start_with(leases, &[]).await
    }

    async fn start_with(leases: Leases, settings: &[(&str, &str)]) -> Pair {
        let database = baton_testkit::database().await;
        let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        // At the same time, so that both find an empty database and want to migrate it.
        let servers = tokio::join!(
            serve_with(homes[0].path(), Some(database.url()), leases, settings),
            serve_with(homes[1].path(), Some(database.url()), leases, settings),
        );
        Pair { servers: servers.into(), homes, database }
    }

    fn clients(&self) -> [Client; 2] {
        [client(&self.servers[0].url()), client(&self.servers[1].url())]
    }
}

/// Waits until a poll is parked at the server.
async fn wait_for_parked_poll(client: &Client) {
    eventually("a parked poll", async || {
        let metrics = client.metrics().await.expect("the server answers");
        metrics.lines().any(|line| line == "baton_polls_waiting 1").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submit_on_one_server_wakes_a_poll_on_the_other() {
    let pair = Pair::start(Leases::LONG).await;
    let [here, there] = pair.clients();
    let hands = Hands::register(&there, 1).await;
    let (mut ids, mut waits) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        let claim = async {
            let claimed = hands.claim(1, Duration::from_secs(20)).await;
            (claimed, Instant::now())
        };
        let submit = async {
            wait_for_parked_poll(&there).await;
            let sent = Instant::now();
            (submit(&here, vec![job()]).await, sent)
        };
        let ((claimed, came), (submitted, sent)) = tokio::join!(claim, submit);
        assert_eq!(claimed[0].run_id, submitted[0]);
        hands.complete(&claimed).await;
        ids.extend(submitted);
        waits.push(came - sent);
    }
    waits.sort();
    println!("from submit on one server to claim on the other: {waits:?}");
    assert!(waits[8] < Duration::from_millis(1_500), "the promise is a second: {waits:?}");
    // Each poll parks just after a look of the server, so without the hint most would wait for nearly a second.
    assert!(waits[4] < Duration::from_millis(300), "the hint is not heard: {waits:?}");
    assert_completed_once(&here, &ids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_of_a_killed_server_go_on_with_the_other() {
    const HELD: usize = 4;
    let mut pair = Pair::start(Leases::SHORT).await;
    let [here, there] = pair.clients();
    let gate = Gate::in_directory(pair.homes[0].path());
    let balancer = Balancer::start(&[here.url().to_owned(), there.url().to_owned()]).await;
    let ids = submit(&here, vec![job(); 2 * HELD]).await;
    let hands = Hands::register(&here, HELD as u32).await;
    let held = hands.claim_all(HELD).await;
    let worker = worker(&balancer.url(), HELD as u32, &gate.command());
    wait_for_count(&here, State::Running, 2 * HELD as u64).await;

    pair.servers[0].kill9();
    hands.turn_to(&there);
    // A successor waits for whatever is taken away. The wait is longer than a lease lives: nothing may come.
    let successor = Hands::register(&there, 100).await;
    let taken = successor.claim(100, Leases::SHORT.ttl + Duration::from_secs(2)).await;
    assert!(taken.is_empty(), "{taken:?}; the worker printed:\n{}", worker.output());
    hands.complete(&held).await;
    gate.open();
    wait_for_count(&there, State::Completed, 2 * HELD as u64).await;
    for ended in assert_completed_once(&there, &ids).await {
        assert_eq!(ended.run.epoch, 1, "{ended:?}");
    }
    assert_eq!(hands.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_polls_without_waiting_sees_what_the_other_server_took_in() {
    let pair = Pair::start_with(Leases::LONG, &[("BATON_DATABASE_LISTEN", "false")]).await;
    let [here, there] = pair.clients();
    let hands = Hands::register(&there, 1).await;
    assert!(hands.claim(1, Duration::ZERO).await.is_empty());
    let ids = submit(&here, vec![job()]).await;
    // No hint came, and nobody waits there for whom the server would look: this poll has to look for itself.
    let claimed = hands.claim(1, Duration::ZERO).await;
    assert_eq!(claimed.len(), 1);
    hands.complete(&claimed).await;
    assert_completed_once(&here, &ids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_never_hand_out_a_run_twice() {
    const RUNS: usize = 2_000;
    let pair = Pair::start(Leases::LONG).await;
    let clients = pair.clients();
    let ids = submit(&clients[0], vec![job(); RUNS]).await;
    let claimed_in_all = Arc::new(AtomicUsize::new(0));
    let mut claimers = JoinSet::new();
    for number in 0..8 {
        let (client, claimed_in_all) = (clients[number % 2].clone(), claimed_in_all.clone());
        claimers.spawn(async move {
            let hands = Hands::register(&client, 100).await;
            let mut claims = Vec::new();
            // Odd sizes, so that the two servers meet in the middle of each other's batches.
            let max = [1, 7, 13, 29][number / 2];
            while claimed_in_all.load(Ordering::SeqCst) < RUNS {
                let claimed = hands.claim(max, Duration::from_millis(100)).await;
                claimed_in_all.fetch_add(claimed.len(), Ordering::SeqCst);
                hands.complete(&claimed).await;
                claims.extend(claimed.into_iter().map(|run| (run.run_id, run.epoch)));
            }
            claims
        });
    }
    let claims: Vec<Vec<(String, u32)>> = claimers.join_all().await;
    let busy = claims.iter().filter(|claims| !claims.is_empty()).count();
    let mut times = HashMap::<String, u32>::new();
    for (run, epoch) in claims.into_iter().flatten() {
        assert_eq!(epoch, 1, "{run}");
        *times.entry(run).or_default() += 1;
    }
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "handed out more than once: {twice:?}");
    assert_eq!(times.len(), RUNS);
    assert!(busy >= 4, "only {busy} of 8 claimers got anything, so nobody met anybody");
    assert_completed_once(&clients[1], &ids).await;
}

/// A claim whose answer is lost, made again at the other server: by number, and without one.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_repeated_at_the_other_server_gets_the_same_runs() {
    let pair = Pair::start(Leases::LONG).await;
    let [here, there] = pair.clients();
    let hands = Hands::register(&here, 4).await;
    let claim = |claim_no: Option<u64>, wait_ms: u64, start: bool| Claim {
        wait_ms: Some(wait_ms),
        claim_no,
        start,
        ..Claim::default()
    };
    for wait_ms in [0, 20_000] {
        for (numbers, start) in [([Some(1), Some(2), Some(3)], true), ([None; 3], false)] {
            let numbers = numbers.map(|number| number.map(|number| if wait_ms == 0 { number } else { number + 3 }));
            assert!(here.claim(hands.id(), &claim(numbers[0], 0, start)).await.unwrap().runs.is_empty());
            assert!(there.claim(hands.id(), &claim(numbers[1], 0, start)).await.unwrap().runs.is_empty());
            let ids = submit(&here, vec![job()]).await;
            let lost = here.claim(hands.id(), &claim(numbers[2], 0, start)).await.unwrap().runs;
            assert_eq!(lost[0].run_id, ids[0]);
            let began = Instant::now();
            let again = there.claim(hands.id(), &claim(numbers[2], wait_ms, start)).await.unwrap().runs;
            let same: Vec<_> = again.iter().map(|run| (&run.run_id, &run.lease)).collect();
            assert_eq!(same, [(&lost[0].run_id, &lost[0].lease)], "number {:?}, {wait_ms} ms", numbers[2]);
            assert!(began.elapsed() < Duration::from_secs(5), "it came after {:?}", began.elapsed());
            hands.complete(&again).await;
        }
    }
}

/// The same claim waits at both servers: one of the connections only looks alive. Whichever is
/// answered, the worker hears of its run.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_waits_at_both_servers_is_answered_once() {
    let pair = Pair::start(Leases::LONG).await;
    let [here, there] = pair.clients();
    let hands = Hands::register(&here, 4).await;
    let claim =
        |claim_no, wait_ms| Claim { wait_ms: Some(wait_ms), claim_no: Some(claim_no), start: true, ..Claim::default() };
    for number in [1, 3, 5, 7] {
        // Nobody will ever read this answer.
        let (dead, id) = (here.clone(), hands.id().to_owned());
        let long = claim(number, 8_000);
        let dead = tokio::spawn(async move { dead.claim(&id, &long).await });
        wait_for_parked_poll(&here).await;
        let (mut ids, mut got) = (Vec::new(), Vec::new());
        let answered = there.claim(hands.id(), &claim(number, 300)).await.unwrap().runs;
        assert!(answered.is_empty(), "{answered:?}");
        // It was told that there is nothing, so it goes on with the next number.
        ids.extend(submit(&here, vec![job()]).await);
        got.extend(there.claim(hands.id(), &claim(number + 1, 5_000)).await.unwrap().runs);
        assert_eq!(got.iter().map(|run| &run.run_id).collect::<Vec<_>>(), ids.iter().collect::<Vec<_>>());
        hands.complete(&got).await;
        assert!(dead.await.unwrap().unwrap().runs.is_empty(), "what nobody reads brings nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_notices_that_a_newer_one_has_changed_the_schema() {
    let pair = Pair::start(Leases::LONG).await;
    let [here, _] = pair.clients();
    here.readyz().await.expect("nothing has changed");
    pair.database.run("insert into schema_migrations (version, name, applied_at) values (999, 'later', 0)").await;
    let said = eventually("it is not ready any more", async || here.readyz().await.err()).await.to_string();
    assert!(said.contains("999") && said.contains("newer version"), "{said}");
    pair.database.run("delete from schema_migrations where version = 999").await;
    eventually("it is ready again", async || here.readyz().await.ok()).await;
}

/// The mistake that is made first: two servers, and no `--storage`.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_another_storage_says_so_and_loses_nothing() {
    let database = baton_testkit::database().await;
    let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let small = [("BATON_PAYLOAD_INLINE_BYTES_MAX", "1000")];
    let serve = async |home: &TempDir| serve_with(home.path(), Some(database.url()), Leases::LONG, &small).await;
    let first = serve(&homes[0]).await;
    let mut second = serve(&homes[1]).await;
    let [here, there] = [client(&first.url()), client(&second.url())];
    let text = serde_json::value::to_raw_value(&"x".repeat(5_000)).unwrap();
    let large = || SubmitRun { input: Some(text.clone()), ..job() };

    let refused = there.submit(&large()).await.unwrap_err();
    assert!(matches!(&refused, ClientError::Refused { status: 503, code, .. } if code == "storage_unavailable"));
    let log = second.process().output();
    assert!(log.contains("this is not the storage that has the files of this installation"), "{log}");
    let mut ids = submit(&there, vec![job()]).await;
    let hands = Hands::register(&there, 1).await;
    hands.complete(&hands.claim_all(1).await).await;

    // What cannot be read here is not lost: nothing fails, and the other server has it.
    ids.push(here.submit(&large()).await.unwrap().id);
    assert!(hands.claim_once(Duration::from_secs(5)).await.is_err());
    assert!(!here.run(&ids[1]).await.unwrap().state.is_ended());
    there.deregister(hands.id()).await.unwrap();
    let hands = Hands::register(&here, 1).await;
    let claimed = hands.claim_all(1).await;
    assert_eq!(claimed[0].run_id, ids[1]);
    hands.complete(&claimed).await;
    assert_completed_once(&here, &ids).await;

    // On the word of somebody who knows better it is the installation's storage.
    second.stop().await;
    let data = homes[1].path().join("data");
    let adopt = ["storage", "adopt", "--data", data.to_str().unwrap(), "--database", database.url()];
    let mut adopted = Process::spawn(BATON, adopt, [("", ""); 0]);
    assert!(adopted.wait(Duration::from_secs(30)).await.success(), "{}", adopted.output());
    second.restart().await;
    there.submit(&large()).await.unwrap();
    // The other one runs on, and notices.
    eventually("it uses the old storage no more", async || {
        let refused = here.submit(&large()).await.err();
        refused.filter(|error| error.code() == Some("storage_unavailable"))
    })
    .await;
}
