//! What a recipe starts and leaves behind, out of reach of its group.

use std::fs;
use std::path::Path;

use baton::proto::BuildStatus;

use super::{Yard, processes, wait_until_gone};
use crate::on_both_stores;
use crate::site::{Leases, Store};

/// A recipe that leaves a process in a session of its own, which notes its number under the build's name in `place`. It ends only if
/// the project has a file `ends`.
fn leaves_something(place: &Path, how: &str) -> String {
    let note = "echo $$ > \"$0.new\"; mv \"$0.new\" \"$0\"; exec sleep 600";
    let place = place.display();
    format!(
        "cd .; note='{place}'/$BATON_BUILD_ID; {how} /bin/sh -c '{note}' \"$note\" & \
         while [ ! -e \"$note\" ]; do sleep 0.05; done; [ -e ends ] || sleep 600"
    )
}

fn is_alive(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

async fn what_left_its_group_ends_with_its_build_and_no_other(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let place = yard.path("running");
    fs::create_dir(&place).unwrap();
    let recipe = leaves_something(&place, "setsid");
    let worker = yard.worker("one", &["--recipe", &recipe, "--concurrency", "2"]);
    let other = yard.submit_detached().await;
    let others = processes(&place.join(&other)).await;
    yard.write("project/ends", "");
    let id = yard.submit_detached().await;
    let left = processes(&place.join(&id)).await;
    yard.wait_for(&id, BuildStatus::Completed).await;
    // Not a moment later: whoever downloads the result finds a machine that is free of it.
    assert!(!is_alive(&left[0]), "{}", worker.output());
    assert!(is_alive(&others[0]), "{}", worker.output());
    yard.client().cancel_build(&other).await.unwrap();
    yard.wait_for(&other, BuildStatus::Cancelled).await;
    wait_until_gone(&others).await;
}

/// Without its environment nobody knows whose it is. With one build at a time, there is no doubt.
async fn what_threw_its_environment_away_ends_with_its_build(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let place = yard.path("running");
    fs::create_dir(&place).unwrap();
    yard.write("project/ends", "");
    let worker = yard.worker("one", &["--recipe", &leaves_something(&place, "setsid env -i")]);
    let id = yard.submit_detached().await;
    let left = processes(&place.join(&id)).await;
    yard.wait_for(&id, BuildStatus::Completed).await;
    assert!(!is_alive(&left[0]), "{}", worker.output());
}

on_both_stores!(
    what_left_its_group_ends_with_its_build_and_no_other,
    what_threw_its_environment_away_ends_with_its_build,
);
