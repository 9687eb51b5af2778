//! Builds go with all that belongs to them, but for their files.

use std::sync::Arc;

use baton_store::{ArtifactOwner, LogAnswer, OtpAnswer};

use crate::builds_rig::{ROOM, git_build, lines};
use crate::rig::{Rig, contract, run};

const NEVER: i64 = 1 << 50;

contract!(
    old_builds_go_with_all_that_belongs_to_them,
    young_builds_keep_all_that_belongs_to_them,
    a_build_with_many_lines_goes_in_the_end,
    builds_go_beside_other_runs,
    a_line_that_comes_late_is_not_left_behind,
);

async fn old_builds_go_with_all_that_belongs_to_them(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    rig.say(held.run, Some(held), &["a", "b"]).await;
    assert_eq!(rig.store.use_otp(held, NEVER).await.unwrap(), OtpAnswer::Good);
    assert!(
        rig.store
            .add_measured(held, baton_store::NewMeasurement { cpu: Some(0.5), ..Default::default() }, 10)
            .await
            .unwrap()
    );
    rig.complete(held).await;
    rig.clock.advance(1_001);
    assert_eq!(rig.store.retain(1_000, NEVER, NEVER, 100).await.unwrap().runs, 1);
    assert_eq!(rig.store.run(held.run).await.unwrap(), None);
    assert_eq!(rig.store.builds(&[held.run]).await.unwrap(), [None]);
    assert_eq!(rig.log(held.run, 10).await, []);
    assert_eq!(rig.store.machine(held).await.unwrap(), None);
    assert_eq!(rig.store.measured(held.run, 10).await.unwrap(), []);
    assert_eq!(rig.say(held.run, None, &["late"]).await, LogAnswer::Unknown);
    assert_eq!(rig.store.artifacts(held.run).await.unwrap(), []);
    assert_eq!(rig.orphan_ids(NEVER).await.len(), 1);
}

async fn young_builds_keep_all_that_belongs_to_them(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, ended) = rig.held_build(run(lane)).await;
    rig.say(ended.run, Some(ended), &["a"]).await;
    rig.file(ArtifactOwner::Result(ended)).await;
    rig.complete(ended).await;
    let (_, old_but_live) = rig.held_build(run(lane)).await;
    rig.say(old_but_live.run, Some(old_but_live), &["b"]).await;
    rig.clock.advance(1_000);
    assert_eq!(rig.store.retain(1_000, NEVER, NEVER, 100).await.unwrap().runs, 0);
    assert_eq!(rig.log(ended.run, 10).await.len(), 1);
    assert_eq!(rig.store.artifacts(ended.run).await.unwrap().len(), 2);
    assert_eq!(rig.say(ended.run, None, &["c"]).await, LogAnswer::Kept(2));
    rig.clock.advance(1 << 40);
    assert_eq!(rig.store.retain(1_000, NEVER, NEVER, 100).await.unwrap().runs, 1);
    assert_eq!(rig.say(old_but_live.run, Some(old_but_live), &["d"]).await, LogAnswer::Kept(2));
}

async fn a_build_with_many_lines_goes_in_the_end(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    // Each call is a row; more of them than one piece.
    let mut writers = Vec::new();
    for store in rig.servers(2).await.iter().cycle().take(1_200) {
        let store = Arc::clone(store);
        writers.push(tokio::spawn(async move {
            store.add_logs(held.run, Some(held), None, lines(&["line"]), ROOM).await.unwrap()
        }));
    }
    for writer in writers {
        assert!(matches!(writer.await.unwrap(), LogAnswer::Kept(_)));
    }
    rig.complete(held).await;
    rig.clock.advance(1_001);
    let mut passes = 0;
    while rig.store.run(held.run).await.unwrap().is_some() {
        rig.store.retain(1_000, NEVER, NEVER, 100).await.unwrap();
        passes += 1;
        assert!(passes < 10, "nothing goes any more");
    }
    assert_eq!(rig.store.logs(held.run, 0, 1).await.unwrap(), []);
}

async fn builds_go_beside_other_runs(rig: Rig) {
    let lane = rig.lane("ios").await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(rig.submit(run(lane)).await);
        let build = rig.submit_build(run(lane), git_build("default")).await.run;
        rig.say(build, None, &["a"]).await;
        ids.push(build);
    }
    rig.store.cancel(ids, 0).await.unwrap();
    rig.clock.advance(1_001);
    let mut gone = Vec::new();
    for _ in 0..4 {
        gone.push(rig.store.retain(1_000, NEVER, NEVER, 4).await.unwrap().runs);
    }
    assert_eq!(gone, [4, 4, 2, 0]);
    let counts = rig.store.count_builds(None, 0).await.unwrap();
    assert_eq!((counts.cancelled, counts.since), (5, 0));
}

/// Whoever writes while the build is deleted is before it, and deleted with it, or hears that there is no room or no build.
async fn a_line_that_comes_late_is_not_left_behind(rig: Rig) {
    let lane = rig.lane("ios").await;
    let servers = rig.servers(2).await;
    for _ in 0..10 {
        let build = rig.submit_build(run(lane), git_build("default")).await.run;
        rig.cancel(build, 0).await;
        rig.clock.advance(1_001);
        let writer = tokio::spawn({
            let store = Arc::clone(&servers[1]);
            async move {
                loop {
                    match store.add_logs(build, None, None, lines(&["late"]), ROOM).await.unwrap() {
                        LogAnswer::Kept(_) => {}
                        LogAnswer::Full(_) => tokio::task::yield_now().await,
                        LogAnswer::Unknown => return,
                        LogAnswer::LeaseLost | LogAnswer::Ahead(_) => panic!("there was no lease"),
                    }
                }
            }
        });
        while rig.store.run(build).await.unwrap().is_some() {
            rig.store.retain(1_000, NEVER, NEVER, 10).await.unwrap();
        }
        writer.await.unwrap();
        assert_eq!(rig.store.logs(build, 0, 10).await.unwrap(), []);
    }
}
