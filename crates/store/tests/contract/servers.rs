//! Several servers on one store: hints between them, and whose clock counts.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton_store::{Due, Hints, LaneId, NewRun, Store};
use futures_util::FutureExt;
use tokio::time::timeout;

use crate::rig::{Rig, contract, run, slot};

contract!(hints_reach_other_servers, a_store_keeps_time_by_itself);

async fn hints_reach_other_servers(rig: Rig) {
    let lane = rig.lane("ios").await.lane;
    let one = Hints {
        lanes: vec![lane],
        workers: vec![rig.worker("a").await],
        runs: vec![baton_core::RunId::new(1, 2, 3)],
        runners: vec![baton_core::pools::RunnerId::from_random(4)],
        claims: vec![5],
        namespaces: true,
        secrets: true,
        events: true,
        bulk: true,
    };
    if !rig.store.is_shared() {
        rig.store.notify(&one).await.unwrap();
        assert!(rig.store.listen().now_or_never().is_none(), "there is nobody to hear from");
        return;
    }
    let other = rig.servers(2).await.remove(1);
    assert!(hear(other.as_ref()).await.is_empty(), "whoever begins to listen may have missed some");
    rig.store.notify(&one).await.unwrap();
    assert_eq!(hear(other.as_ref()).await, one);
    // More than fit into one message.
    let many: BTreeSet<LaneId> = (1_000_000..1_003_000).collect();
    rig.store.notify(&Hints { lanes: many.iter().copied().collect(), ..Hints::default() }).await.unwrap();
    let mut heard = BTreeSet::new();
    while heard != many {
        let hints = hear(other.as_ref()).await;
        assert!(!hints.is_empty(), "nothing was lost");
        heard.extend(hints.lanes);
    }
}

async fn hear(store: &dyn Store) -> Hints {
    timeout(Duration::from_secs(20), store.listen()).await.expect("a hint within 20 seconds").unwrap()
}

async fn a_store_keeps_time_by_itself(rig: Rig) {
    let rig = rig.on_its_own_clock().await;
    let here = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    assert!((rig.store.now().await.unwrap() - here).abs() < 60_000);
    let lane = rig.lane("ios").await;
    let worker = rig.worker("a").await;
    let submitted = rig.try_submit(vec![NewRun { due: Due::After(50), ..run(lane) }]).await.unwrap()[0];
    assert_eq!(submitted.due_at, submitted.submitted_at + 50);
    assert_eq!(submitted.run.submitted_at(), submitted.submitted_at);
    loop {
        let answer = rig.claim_for(vec![slot(worker, &[lane], 1)], lane).await;
        if let Some(claimed) = answer.claimed.first() {
            assert_eq!(claimed.run, submitted.run);
            break;
        }
        let wait = answer.next_in_ms.expect("the run is due soon");
        assert!((0..=50).contains(&wait), "{wait}");
        tokio::time::sleep(Duration::from_millis(wait as u64)).await;
    }
    let claimed_at = rig.record(submitted.run).await.claimed_at.unwrap();
    assert!(claimed_at >= submitted.due_at, "it was claimed before it was due");
}
