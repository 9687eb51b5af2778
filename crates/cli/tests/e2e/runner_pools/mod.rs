//! Runner pools as their users have them: the real server, the real commands, and machines that are processes here.

pub mod ground;
mod race;
mod words;

use std::collections::BTreeSet;

use baton::Client;
use baton::proto::CreatePool;
use baton_core::pools::{Cause, ClaimState};
use serde_json::Value;

use crate::on_both_stores;
use crate::site::{Gate, Store};
use crate::wait::PATIENCE;
use ground::Ground;
use race::no_machine_is_claimed_twice;
use words::{
    a_claim_whose_machines_are_lost_says_how_many_and_why, a_hook_is_looked_for_where_it_is_said_to_be,
    a_pool_is_changed_and_what_is_not_named_stays, a_release_waits_for_a_server_that_restarts,
    a_waiting_claim_is_given_up_with_its_terminal, changes_of_one_option_each_at_the_same_time_are_all_kept,
};

/// The machines that `baton pool claim` has printed.
fn machines(printed: &str) -> BTreeSet<String> {
    let printed: Value = serde_json::from_str(printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    let runners = printed.as_array().expect("a list");
    assert!(runners.iter().all(|runner| runner["phase"] == "running"), "{printed}");
    runners.iter().map(|runner| runner["machine_id"].as_str().expect("a name").to_owned()).collect()
}

async fn machines_go_from_run_to_run_and_are_clean_each_time(store: Store) {
    let mut ground = Ground::new(store).await;
    let log = ground.home.path().join("log");
    let hook = |word: &str| format!("echo {word} $BATON_RUN_ID $BATON_MACHINE_ID >> {}", log.display());
    // A directory that another run has used fails the hook.
    let register = format!("[ ! -e left ] && touch left && {}", hook("registered"));
    let create = ["pool", "create", "linux", "--min-idle", "3", "--max-size", "3", "--idle", "500ms"];
    let hooks = ["--register-hook", &register, "--deregister-hook", &hook("removed")];
    ground.baton(&[create.as_slice(), &hooks].concat()).await.ok();
    ground.settled("linux", 3).await;

    let claim = ["pool", "claim", "linux", "--run-id", "ci-1", "--count", "3"];
    let said = ground.baton(&claim).await;
    assert!(said.err.contains("ci-1 of linux, ready: 3 handed over"), "{said:?}");
    let first = said.ok();
    assert_eq!(machines(&first), ground::agents(ground.home.path()));
    assert_eq!(ground.baton(&claim).await.ok(), first, "the same run has the same machines");
    let other = ground.baton(&["pool", "claim", "linux", "--run-id", "ci-1", "--count", "2"]).await;
    assert_ne!(other.code, 0, "it says something else now: {other:?}");

    let too_much = ["pool", "claim", "linux", "--run-id", "ci-2", "--count", "1", "--wait", "300ms"];
    let failed = ground.baton(&too_much).await;
    assert!(failed.code == 1 && failed.out.is_empty(), "{failed:?}");
    assert!(failed.err.contains("the claim of ci-2 was not filled: wait_over: "), "{failed:?}");

    // Somebody waits while the first run works, and gets its machines as soon as those are clean.
    let mut waiting = ground.spawn(&["pool", "claim", "linux", "--run-id", "ci-3", "--count", "3"]);
    waiting.wait_for_line("ci-3 of linux, waiting: 3 to come", PATIENCE).await;
    let released = ground.baton(&["pool", "release", "linux", "--run-id", "ci-1"]).await.ok();
    assert_eq!(released, "the claim of ci-1 is released (done)");
    assert!(waiting.wait(PATIENCE).await.success(), "{}", waiting.output());
    let second = waiting.wait_for_line("machine_id", PATIENCE).await;
    assert_eq!(machines(&second), machines(&first), "they were not replaced");
    let lines = std::fs::read_to_string(&log).expect("hooks ran");
    let count = |words: &str| lines.lines().filter(|line| line.starts_with(words)).count();
    assert_eq!(["registered ci-1", "removed ci-1", "registered ci-3"].map(count), [3, 3, 3], "{lines}");
    assert_eq!(lines.lines().count(), 9, "nobody else ran a hook: {lines}");

    ground.baton(&["pool", "release", "linux", "--run-id", "ci-3"]).await.ok();
    ground.settled("linux", 3).await;
    ground.baton(&["pool", "scale", "linux", "--min-idle", "0"]).await.ok();
    ground.settled("linux", 0).await;
    let shown = ground.baton(&["pool", "get", "linux"]).await.ok();
    assert!(shown.contains("6 warm, 0 cold") && shown.contains("no machines"), "{shown}");
    ground.baton(&["pool", "delete", "linux"]).await.ok();
    ground.gone("linux").await;
}

async fn a_machine_whose_hook_fails_is_replaced_and_the_reason_is_seen(store: Store) {
    let mut ground = Ground::new(store).await;
    let once = ground.home.path().join("failed");
    // Whoever is first makes the directory, and fails.
    let hook = format!("if mkdir {}; then echo no token today >&2; exit 7; fi", once.display());
    let create = ["pool", "create", "linux", "--min-idle", "2", "--max-size", "4", "--idle", "200ms"];
    ground.baton(&[create.as_slice(), &["--register-hook", &hook]].concat()).await.ok();
    ground.settled("linux", 2).await;
    let said = ground.baton(&["pool", "claim", "linux", "--run-id", "ci-1", "--count", "2"]).await;
    assert!(said.err.contains("register_failed: exit status: 7"), "{said:?}");
    assert_eq!(machines(&said.ok()).len(), 2);
    let claim = ground.client().pool_claim("default", "linux", "ci-1").await.expect("it is there");
    let [failure] = &claim.failures[..] else { panic!("{claim:?}") };
    assert_eq!(failure.cause, Cause::RegisterFailed);
    assert!(failure.detail.ends_with("no token today"), "{failure:?}");
    assert!(claim.runners.iter().all(|runner| runner.id != failure.runner_id), "{claim:?}");
    ground.baton(&["pool", "release", "linux", "--run-id", "ci-1"]).await.ok();
    ground.settled("linux", 2).await;
    let gone = ground.baton(&["pool", "runners", "linux", "--state", "gone", "-o", "wide"]).await.ok();
    assert!(gone.contains("register_failed") && gone.contains("no token today"), "{gone}");
    ground.delete("linux").await;
}

async fn claims_and_machines_are_looked_at_and_a_machine_is_ended_by_name(store: Store) {
    let mut ground = Ground::new(store).await;
    let create = ["pool", "create", "linux", "--min-idle", "1", "--max-size", "2"];
    ground.baton(&create).await.ok();
    let before = ground.settled("linux", 1).await;
    ground.baton(&["pool", "claim", "linux", "--run-id", "ci-1"]).await.ok();
    let claims = ground.baton(&["pool", "claims", "linux"]).await.ok();
    assert!(claims.lines().any(|line| line.starts_with("ci-1  ready")), "{claims}");
    let json = ground.baton(&["pool", "claims", "linux", "--state", "ready", "--json"]).await.ok();
    let json: Value = serde_json::from_str(&json).expect("a document");
    assert_eq!((&json["claims"][0]["run_id"], &json["claims"][0]["count"]), (&"ci-1".into(), &1.into()));
    assert_eq!(ground.baton(&["pool", "claims", "linux", "--state", "lost"]).await.code, 2);

    // By the end of its identifier, as the table shows it, by the beginning, and by its machine.
    let (id, machine) = (before[0].id.clone(), before[0].machine_id.clone().expect("it has one"));
    let listed = ground.baton(&["pool", "runners", "linux", "--state", "running"]).await.ok();
    assert!(listed.contains(&id[30..]) && !listed.contains(&id), "{listed}");
    let shown = ground.baton(&["pool", "runner", "linux", &id[30..]]).await.ok();
    assert!(shown.contains(&id) && shown.contains("ci-1"), "{shown}");
    let json = ground.baton(&["pool", "runner", "linux", &machine, "--json"]).await.ok();
    let json: Value = serde_json::from_str(&json).expect("a document");
    let mut moves =
        json["moves"].as_array().expect("its moves").iter().map(|moved| moved["to"].as_str().expect("a state"));
    assert_eq!((&json["id"], moves.next_back()), (&id.as_str().into(), Some("creating")));
    assert_eq!(ground.baton(&["pool", "runner", "linux", "nobody"]).await.code, 3);
    assert_eq!(ground.baton(&["pool", "end", "linux", "nobody"]).await.code, 3);

    let ended = ground.baton(&["pool", "end", "linux", &id[..8]]).await.ok();
    assert!(ended.starts_with(&format!("{id} is terminating (asked: ")), "{ended}");
    ground.baton(&["pool", "release", "linux", "--run-id", "ci-1"]).await.ok();
    let after = ground.settled("linux", 1).await;
    assert!(after.iter().all(|runner| runner.id != id), "{after:?}");
    let again = ground.baton(&["pool", "end", "linux", &id[..8]]).await.ok();
    assert!(again.starts_with(&format!("{id} is gone (asked: ")), "{again}");
    ground.delete("linux").await;
}

async fn a_claim_goes_on_when_its_server_is_killed_and_its_machines_outlive_it(store: Store) {
    let mut ground = Ground::new(store).await;
    let gate = Gate::in_directory(ground.home.path());
    let mut pool = CreatePool { min_idle: 2, max_size: Some(2), ..CreatePool::new("linux") };
    pool.options.insert("agent.register_hook".into(), gate.command());
    ground.create(&pool).await;
    ground.settled("linux", 2).await;
    let before = ground::agents(ground.home.path());
    let mut waiting = ground.spawn(&["pool", "claim", "linux", "--run-id", "ci-1", "--count", "2"]);
    waiting.wait_for_line("2 registering", PATIENCE).await;
    ground.kill_server().await;
    gate.open();
    assert!(waiting.wait(PATIENCE).await.success(), "{}", waiting.output());
    assert_eq!(machines(&waiting.wait_for_line("machine_id", PATIENCE).await), before);

    // A pool that is deleted keeps what is in use.
    ground.kill_server().await;
    let deleted = ground.baton(&["pool", "delete", "linux"]).await.ok();
    let said = "linux is being deleted; 2 machines have to end first; 2 in use by ci-1, until that releases";
    assert_eq!(deleted, said);
    let claim = ground.client().pool_claim("default", "linux", "ci-1").await.expect("it is there");
    assert_eq!((claim.state, claim.runners.len()), (ClaimState::Ready, 2));
    assert_eq!(ground::agents(ground.home.path()), before);
    let refused = ground.baton(&["pool", "claim", "linux", "--run-id", "ci-2"]).await;
    assert_ne!(refused.code, 0, "{refused:?}");
    let released = ground.ask(async |client: &Client| client.release_pool_claim("default", "linux", "ci-1").await);
    released.await.expect("it is there");
    ground.gone("linux").await;
}

async fn a_waiting_claim_that_is_interrupted_leaves_nothing_behind(store: Store) {
    let mut ground = Ground::new(store).await;
    let gate = Gate::in_directory(ground.home.path());
    let mut pool = CreatePool { min_idle: 1, max_size: Some(1), ..CreatePool::new("linux") };
    pool.options.insert("agent.register_hook".into(), gate.command());
    ground.create(&pool).await;
    let before = ground.settled("linux", 1).await;
    let mut waiting = ground.spawn(&["pool", "claim", "linux", "--run-id", "ci-1"]);
    waiting.wait_for_line("1 registering", PATIENCE).await;
    assert_eq!(waiting.sigterm_and_wait(PATIENCE).await.code(), Some(130), "{}", waiting.output());
    let after = ground.settled("linux", 1).await;
    assert_eq!(after[0].machine_id, before[0].machine_id, "its hook was stopped, and it is as good as before");
    ground.delete("linux").await;
}

on_both_stores! {
    machines_go_from_run_to_run_and_are_clean_each_time,
    a_machine_whose_hook_fails_is_replaced_and_the_reason_is_seen,
    claims_and_machines_are_looked_at_and_a_machine_is_ended_by_name,
    a_claim_goes_on_when_its_server_is_killed_and_its_machines_outlive_it,
    a_waiting_claim_that_is_interrupted_leaves_nothing_behind,
    no_machine_is_claimed_twice,
    a_claim_whose_machines_are_lost_says_how_many_and_why,
    a_waiting_claim_is_given_up_with_its_terminal,
    a_release_waits_for_a_server_that_restarts,
    a_hook_is_looked_for_where_it_is_said_to_be,
    a_pool_is_changed_and_what_is_not_named_stays,
    changes_of_one_option_each_at_the_same_time_are_all_kept,
}
