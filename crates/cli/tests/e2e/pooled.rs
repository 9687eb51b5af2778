//! PgBouncer in transaction mode before PostgreSQL: each transaction may run on another connection, and nothing that a session
//! would remember is there in the next.

use std::time::Duration;

use baton_core::State;
use baton_testkit::PgBouncer;

use crate::hands::Hands;
use crate::site::{Gate, Leases, client, job, serve_with, submit, worker};
use crate::verdict::{assert_completed_once, wait_for_count};

const BATCHES: usize = 8;
const BATCH: usize = 25;
/// Fewer than the server opens, so that its transactions have to share them.
const CONNECTIONS: usize = 3;
/// Runs that the worker which falls holds then.
const HELD: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_transaction_pooler_everything_completes_once() {
    let database = baton_testkit::database().await;
    let pooler = PgBouncer::before(&database, CONNECTIONS).await;
    let home = tempfile::tempdir().unwrap();
    let direct = [("BATON_LISTEN_URL", database.url())];
    let server = serve_with(home.path(), Some(pooler.url()), Leases::SHORT, &direct).await;
    let (client, gate) = (client(&server.url()), Gate::in_directory(home.path()));

    // A worker that falls while it holds some.
    let mut ids = submit(&client, vec![job(); HELD]).await;
    let mut victim = worker(&server.url(), HELD as u32, &gate.command());
    wait_for_count(&client, State::Running, HELD as u64).await;
    victim.sigkill();

    // Others, small and large claims at the same time, while more comes in.
    let quick = worker(&server.url(), 4, "true");
    let hands = [Hands::register(&client, 100).await, Hands::register(&client, 100).await];
    let batches = async {
        for _ in 1..BATCHES {
            ids.extend(submit(&client, vec![job(); BATCH]).await);
        }
        ids.extend(submit(&client, vec![job(); BATCH - HELD]).await);
    };
    let work = async |hands: &Hands, max: u32| {
        loop {
            let claimed = hands.claim(max, Leases::SHORT.ttl + Duration::from_secs(2)).await;
            if claimed.is_empty() {
                break;
            }
            hands.complete(&claimed).await;
        }
    };
    tokio::join!(batches, work(&hands[0], 1), work(&hands[1], 30));

    wait_for_count(&client, State::Completed, ids.len() as u64).await;
    assert_eq!(ids.len(), BATCHES * BATCH);
    let ended = assert_completed_once(&client, &ids).await;
    let epochs = |epoch: u32| ended.iter().filter(|ended| ended.run.epoch == epoch).count();
    assert_eq!((epochs(1), epochs(2)), (ids.len() - HELD, HELD), "only the fallen worker's runs were taken back");
    for hands in &hands {
        assert_eq!(hands.complaints(), Vec::<String>::new(), "the worker printed:\n{}", quick.output());
    }
}
