//! `kill -9` of a server: minutes of statistics that were written stay. Takes two minutes, because minutes do.

use std::time::Duration;

use baton::{Client, StatisticsFilter};
use tokio::time::Instant;

use crate::on_both_stores;
use crate::site::{Leases, Site, Store, job, submit};

/// Longer than it takes until a minute is over and written.
const PATIENCE: Duration = Duration::from_secs(120);

async fn written(client: &Client) -> u64 {
    let text = client.metrics().await.expect("the server answers");
    let name = "baton_statistics_blocks_written_total ";
    text.lines().find_map(|line| line.strip_prefix(name)?.parse().ok()).expect("it counts what it writes")
}

/// Waits until the minute of this moment is written. Returns how many were.
async fn minute_is_written(client: &Client, before: u64) -> u64 {
    let until = Instant::now() + PATIENCE;
    loop {
        let now = written(client).await;
        if now > before {
            return now;
        }
        assert!(Instant::now() < until, "no minute was written");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn submitted(client: &Client) -> f64 {
    let filter = StatisticsFilter { series: vec!["submitted".into()], ..StatisticsFilter::default() };
    let told = client.statistics(&filter).await.expect("the server answers");
    told.series[0].values.iter().flatten().sum()
}

async fn a_killed_server_keeps_all_minutes_that_were_written(store: Store) {
    let mut site = Site::start(store, Leases::LONG).await;
    let client = site.client();
    // Right after a minute was written nothing else waits to be.
    let first = minute_is_written(&client, 0).await;
    submit(&client, vec![job(); 10]).await;
    assert_eq!(submitted(&client).await, 10.0);
    minute_is_written(&client, first).await;
    submit(&client, vec![job(); 5]).await;
    assert_eq!(submitted(&client).await, 15.0);
    site.server.kill9();
    site.server.restart().await;
    assert_eq!(submitted(&client).await, 10.0, "what was not written is lost, and nothing else");
    submit(&client, vec![job(); 3]).await;
    assert_eq!(submitted(&client).await, 13.0);
}

on_both_stores!(a_killed_server_keeps_all_minutes_that_were_written);
