//! Workers that ask for work without waiting for it, as those behind a plain HTTP client do.

use std::time::Duration;

use crate::hands::Hands;
use crate::on_both_stores;
use crate::site::{Leases, Site, Store, job, submit};
use crate::verdict::assert_completed_once;

async fn a_claim_that_does_not_wait_gets_what_is_there(store: Store) {
    let site = Site::start(store, Leases::LONG).await;
    let client = site.client();
    let hands = Hands::register(&client, 1).await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        assert!(hands.claim(1, Duration::ZERO).await.is_empty());
        ids.extend(submit(&client, vec![job()]).await);
        let claimed = hands.claim(1, Duration::ZERO).await;
        assert_eq!(claimed.len(), 1, "a run is there, and the claim came back empty");
        hands.complete(&claimed).await;
    }
    assert_completed_once(&client, &ids).await;
}

on_both_stores!(a_claim_that_does_not_wait_gets_what_is_there);
