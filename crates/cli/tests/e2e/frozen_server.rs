//! A server that is frozen past the leases of its workers, or whose PostgreSQL is. Nobody could be heard, so nobody was silent.

use std::time::Duration;

use baton::Client;
use baton_core::State;
use baton_testkit::{Postgres, Process};

use crate::hands::Hands;
use crate::on_both_stores;
use crate::site::{Gate, Leases, Site, Store, client, job, serve, submit, worker};
use crate::verdict::{assert_completed_once, wait_for_count};
use crate::wait::eventually;

const LEASES: Leases = Leases::of_ms(3_000, 1_000);
/// Runs that each of the two workers holds.
const HELD: usize = 4;
/// Longer than a lease lives after the latest heartbeat there may be.
const FROZEN: Duration = LEASES.ttl.saturating_add(LEASES.heartbeat).saturating_add(LEASES.heartbeat);

/// Two workers at work: a process, and one inside the test.
struct AtWork {
    client: Client,
    gate: Gate,
    process: Process,
    hands: Hands,
    held: Vec<baton::proto::ClaimedRun>,
    ids: Vec<String>,
}

impl AtWork {
    async fn begin(url: &str, gate: Gate) -> AtWork {
        let client = client(url);
        // After its start a server calls nobody silent for a while. Somebody who is shows when that is over.
        drop(Hands::register(&client, 1).await);
        eventually("the end of a silent worker", async || (lost(&client).await == 1).then_some(())).await;
        let ids = submit(&client, vec![job(); 2 * HELD]).await;
        let hands = Hands::register(&client, HELD as u32).await;
        let held = hands.claim_all(HELD).await;
        let process = worker(url, HELD as u32, &gate.command());
        wait_for_count(&client, State::Running, 2 * HELD as u64).await;
        AtWork { client, gate, process, hands, held, ids }
    }

    /// Demands that everybody still holds what it held, and may complete it.
    async fn goes_on(self) {
        // A successor waits for whatever is taken away. The wait is longer than a lease lives: nothing may come.
        let successor = Hands::register(&self.client, 100).await;
        let taken = successor.claim(100, LEASES.ttl + Duration::from_secs(2)).await;
        assert!(taken.is_empty(), "{taken:?}; the worker printed:\n{}", self.process.output());
        self.hands.complete(&self.held).await;
        self.gate.open();
        wait_for_count(&self.client, State::Completed, 2 * HELD as u64).await;
        for ended in assert_completed_once(&self.client, &self.ids).await {
            assert_eq!((ended.run.epoch, ended.run.losses), (1, 0), "{ended:?}");
        }
        assert_eq!(self.hands.complaints(), Vec::<String>::new());
        assert_eq!(lost(&self.client).await, 1, "nobody but the one that was silent before");
    }
}

/// How many workers the server has called silent.
async fn lost(client: &Client) -> u64 {
    let metrics = client.metrics().await.expect("the server answers");
    let count = metrics.lines().find_map(|line| line.strip_prefix("baton_workers_lost_total "));
    count.and_then(|count| count.parse().ok()).expect("a metric that counts")
}

async fn a_thawed_server_calls_nobody_silent(store: Store) {
    let mut site = Site::start(store, LEASES).await;
    let at_work = AtWork::begin(&site.server.url(), site.gate()).await;
    site.server.process().sigstop();
    tokio::time::sleep(FROZEN).await;
    site.server.process().sigcont();
    at_work.goes_on().await;
}

on_both_stores!(a_thawed_server_calls_nobody_silent);

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_thawed_postgres_nobody_is_called_silent() {
    let postgres = Postgres::start().await;
    let database = postgres.new_database().await;
    let home = tempfile::tempdir().unwrap();
    let server = serve(home.path(), Some(database.url()), LEASES).await;
    let at_work = AtWork::begin(&server.url(), Gate::in_directory(home.path())).await;
    let frozen = postgres.freeze();
    tokio::time::sleep(FROZEN).await;
    drop(frozen);
    at_work.goes_on().await;
}
