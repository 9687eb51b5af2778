//! Settings that are changed while the servers run.

use baton_store::{SettingChange, StoredSetting};

use crate::rig::{Rig, START, contract};

contract!(
    settings_are_changed_and_forgotten_together,
    a_change_against_settings_that_are_gone_changes_nothing,
    of_many_servers_that_change_at_once_one_wins_each_round,
    settings_survive_a_restart,
);

fn set(name: &str, value: &str) -> SettingChange {
    SettingChange { name: name.into(), value: Some(value.into()) }
}

fn forget(name: &str) -> SettingChange {
    SettingChange { name: name.into(), value: None }
}

fn stored(name: &str, value: &str, changed_at: i64) -> StoredSetting {
    StoredSetting { name: name.into(), value: value.into(), changed_at }
}

async fn settings_are_changed_and_forgotten_together(rig: Rig) {
    assert_eq!(rig.store.settings().await.unwrap(), []);
    assert!(rig.store.change_settings(&[], vec![set("b", "\"it's\""), set("a", "1")]).await.unwrap());
    let first = rig.store.settings().await.unwrap();
    assert_eq!(first, [stored("a", "1", START), stored("b", "\"it's\"", START)], "by name");
    rig.clock.advance(5);
    assert!(rig.store.change_settings(&first, vec![set("a", "2"), forget("b"), forget("c")]).await.unwrap());
    assert_eq!(rig.store.settings().await.unwrap(), [stored("a", "2", START + 5)]);
    assert!(rig.store.change_settings(&[stored("a", "2", START + 5)], vec![]).await.unwrap());
    assert_eq!(rig.store.settings().await.unwrap(), [stored("a", "2", START + 5)]);
}

async fn a_change_against_settings_that_are_gone_changes_nothing(rig: Rig) {
    assert!(rig.store.change_settings(&[], vec![set("a", "1")]).await.unwrap());
    let seen = rig.store.settings().await.unwrap();
    assert!(!rig.store.change_settings(&[], vec![set("b", "1")]).await.unwrap());
    rig.clock.advance(1);
    assert!(rig.store.change_settings(&seen, vec![set("a", "1")]).await.unwrap());
    // The same value, but written anew since.
    assert!(!rig.store.change_settings(&seen, vec![forget("a")]).await.unwrap());
    assert_eq!(rig.store.settings().await.unwrap(), [stored("a", "1", START + 1)]);
}

async fn of_many_servers_that_change_at_once_one_wins_each_round(rig: Rig) {
    let servers = rig.servers(4).await;
    for round in 0..5 {
        rig.clock.advance(1);
        let seen = rig.store.settings().await.unwrap();
        let mut changing = tokio::task::JoinSet::new();
        for (number, server) in servers.iter().cloned().enumerate() {
            let seen = seen.clone();
            changing.spawn(async move {
                let change = set(&format!("of {number}"), &round.to_string());
                server.change_settings(&seen, vec![change]).await.unwrap()
            });
        }
        let won = changing.join_all().await.into_iter().filter(|changed| *changed).count();
        assert_eq!(won, 1, "round {round}");
    }
}

async fn settings_survive_a_restart(rig: Rig) {
    assert!(rig.store.change_settings(&[], vec![set("a", "1")]).await.unwrap());
    let rig = rig.reopen().await;
    assert_eq!(rig.store.settings().await.unwrap(), [stored("a", "1", START)]);
}
