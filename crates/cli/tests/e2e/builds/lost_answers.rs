//! A worker that builds behind a network which loses one answer in five, after the server has acted.

use std::time::Duration;

use baton::proto::BuildStatus;
use baton_testkit::Proxy;

use super::Yard;
use crate::balancer::address;
use crate::on_both_stores;
use crate::site::{Leases, Store};

const SEED: u64 = 20_260_301;
const LINES: usize = 60;

async fn a_log_has_every_line_once(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let proxy = Proxy::start(address(&yard.site.server.url())).await;
    proxy.lose_answers_at_random(0.2, SEED);
    let recipe = format!(
        "for number in $(seq 1 {LINES}); do echo line $number; sleep 0.05; done; \
         cp greeting.txt \"$BATON_OUTPUT_DIR/app.txt\""
    );
    let url = format!("http://{}", proxy.address());
    let worker = yard.worker_with("one", &["--recipe", &recipe], &[("BATON_URL", &url)]);
    let id = yard.submit_detached().await;
    let build = yard.wait_for(&id, BuildStatus::Completed).await;
    println!("seed {SEED}: {} answers lost", proxy.lost());
    assert!(proxy.lost() > 2, "only {} answers were lost", proxy.lost());
    assert_eq!(build.attempts, 1, "{build:?}; the worker: {}", worker.output());
    let log = yard.client().build_logs(&id, 0, 1_000, Duration::ZERO).await.unwrap().logs;
    let said: Vec<&str> =
        log.iter().map(|line| line.message.as_str()).filter(|line| line.starts_with("line ")).collect();
    let expected: Vec<String> = (1..=LINES).map(|number| format!("line {number}")).collect();
    assert_eq!(said, expected);
}

on_both_stores!(a_log_has_every_line_once);
