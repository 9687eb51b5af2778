//! A network between everybody and the server that loses one answer in five, after the server has acted.

use std::time::Duration;

use baton::Client;
use baton::proto::SubmitRun;
use baton_core::State;
use baton_testkit::Proxy;
use tokio::task::JoinSet;

use crate::balancer::address;
use crate::hands::Hands;
use crate::on_both_stores;
use crate::site::{Leases, Site, Store, client, job, worker};
use crate::verdict::{assert_completed_once, count};
use crate::wait::{eventually, until_answered};

const SUBMITTERS: usize = 6;
const EACH: usize = 40;
const SEED: u64 = 20_260_114;

async fn lost_answers_do_no_harm(store: Store) {
    let site = Site::start(store, Leases::LONG).await;
    let proxy = Proxy::start(address(&site.server.url())).await;
    proxy.lose_answers_at_random(0.2, SEED);
    let url = format!("http://{}", proxy.address());
    let lossy = client(&url);

    let process = worker(&url, 4, "cat");
    let mut workers = JoinSet::new();
    for _ in 0..3 {
        workers.spawn(work(lossy.clone()));
    }
    let mut submitters = JoinSet::new();
    for submitter in 0..SUBMITTERS {
        submitters.spawn(submit(lossy.clone(), submitter));
    }
    let ids: Vec<String> = submitters.join_all().await.into_iter().flatten().collect();
    let direct = site.client();
    eventually("all runs completed", async || {
        (count(&direct, Some(State::Completed)).await == ids.len() as u64).then_some(())
    })
    .await;
    workers.abort_all();

    assert!(proxy.lost() > 50, "only {} answers were lost", proxy.lost());
    println!("seed {SEED}: {} answers lost", proxy.lost());
    // Not one lease ran out: whoever lost the answer to a claim or a report asked again and got the same one.
    for ended in assert_completed_once(&direct, &ids).await {
        assert_eq!((ended.run.epoch, ended.run.losses), (1, 0), "{ended:?}; the worker printed:\n{}", process.output());
    }
}

async fn submit(client: Client, submitter: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for number in 0..EACH {
        let run = SubmitRun { idempotency_key: Some(format!("{submitter}-{number}")), ..job() };
        ids.push(until_answered(|| client.submit(&run)).await.expect("a good submit").id);
    }
    ids
}

async fn work(client: Client) {
    let hands = Hands::register(&client, 5).await;
    loop {
        hands.complete(&hands.claim(5, Duration::from_secs(5)).await).await;
    }
}

on_both_stores!(lost_answers_do_no_harm);
