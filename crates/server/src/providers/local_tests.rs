//! Agents that are shells here: they run the file `agent` of their machine's directory.

use std::collections::BTreeMap;

use super::*;

const HOST_NAME: &str = "0badcafe";
const TOKEN: &str = "11111111-2222-3333-4444-555555555555";

struct Machines {
    home: tempfile::TempDir,
    provider: LocalProvider,
}

impl Machines {
    /// So many agents that do this.
    fn doing(script: &str, count: u32) -> Machines {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(HOST), HOST_NAME).unwrap();
        let machines = Machines { provider: Machines::provider(&home), home };
        for number in 0..count {
            let place = machines.home.path().join(machines.id(number));
            make_directory(&place).unwrap();
            std::fs::write(place.join("agent"), script).unwrap();
        }
        machines
    }

    fn provider(home: &tempfile::TempDir) -> LocalProvider {
        let directory = home.path().to_owned();
        LocalProvider { program: Some("/bin/sh".into()), ..LocalProvider::new(directory, ended()) }
    }

    fn id(&self, number: u32) -> String {
        format!("{HOST_NAME}-{TOKEN}-{number}")
    }

    fn file(&self, number: u32, name: &str) -> Option<String> {
        std::fs::read_to_string(self.home.path().join(self.id(number)).join(name)).ok()
    }

    async fn listed(&self) -> Vec<String> {
        let mut ids: Vec<String> =
            self.provider.list(&pool("t-1")).await.unwrap().into_iter().map(|machine| machine.id).collect();
        ids.sort();
        ids
    }
}

fn ended() -> Arc<Ended> {
    Arc::new(Ended::new(Arc::new(crate::bell::Bell::new(baton_store::Clock::Real))))
}

fn pool(tag: &str) -> PoolInfo {
    let spec = serde_json::from_value(serde_json::json!({
        "provider": "local", "cpu": 2, "memory_mib": 512, "max_size": 3, "idle_ms": 1, "runtime_ms": 1
    }));
    PoolInfo { tag: tag.into(), namespace: "default".into(), name: "ci".into(), spec: spec.unwrap() }
}

fn create(count: u32) -> Create {
    let environment = BTreeMap::from([("BATON_JOIN_TOKEN".to_owned(), "bj_x".to_owned())]);
    Create { pool: pool("t-1"), token: TOKEN.into(), count, usage: Usage::OnDemand, types: vec![], environment }
}

/// Waits for a text in a file of a machine.
async fn reads(machines: &Machines, number: u32, name: &str) -> String {
    loop {
        if let Some(text) = machines.file(number, name).filter(|text| text.ends_with('\n')) {
            return text;
        }
        tokio::task::yield_now().await;
    }
}

const WAITS: &str = "echo $$ $BATON_MACHINE_ID $BATON_JOIN_TOKEN >> started; sleep 1000 & wait";

#[tokio::test]
async fn the_same_token_makes_the_same_agents_and_they_are_listed_and_ended() {
    let machines = Machines::doing(WAITS, 2);
    let made = machines.provider.create(&create(2)).await.unwrap();
    assert_eq!(made.iter().map(|made| made.id.clone()).collect::<Vec<_>>(), [machines.id(0), machines.id(1)]);
    assert_eq!((made[0].machine.cpu, made[0].token.as_deref()), (2, Some(TOKEN)));
    assert_eq!(machines.provider.create(&create(2)).await.unwrap(), made);
    let started = reads(&machines, 0, "started").await;
    assert!(started.ends_with(&format!("{} bj_x\n", machines.id(0))), "{started}");
    assert_eq!(started.lines().count(), 1, "it was started once");
    assert_eq!(machines.listed().await, [machines.id(0), machines.id(1)]);
    assert_eq!(machines.provider.list(&pool("t-2")).await.unwrap(), [], "another pool has none");
    assert!(machines.provider.is_here(&machines.id(0)) && !machines.provider.is_here("ffffffff-x"));
    machines.provider.terminate(&pool("t-2"), &[machines.id(0)]).await.unwrap();
    assert_eq!(machines.listed().await.len(), 2, "another pool ends none");
    machines.provider.terminate(&pool("t-1"), &[machines.id(0), "../x".into(), "unknown".into()]).await.unwrap();
    assert_eq!(machines.listed().await, [machines.id(1)]);
    assert!(!machines.home.path().join(machines.id(0)).exists(), "what it left is removed");
    machines.provider.terminate(&pool("t-1"), &[machines.id(1)]).await.unwrap();
    assert_eq!(machines.listed().await, [""; 0]);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_agent_whose_server_fell_before_it_was_noted_is_found_again() {
    let machines = Machines::doing(WAITS, 1);
    let made = machines.provider.create(&create(1)).await.unwrap();
    reads(&machines, 0, "started").await;
    // As after a crash at local.started.
    let record = machines.provider.read(&made[0].id).unwrap();
    machines.provider.write(&made[0].id, &Record { process: None, ..record }).unwrap();
    let restarted = Machines::provider(&machines.home);
    assert_eq!(restarted.create(&create(1)).await.unwrap(), made);
    assert_eq!(reads(&machines, 0, "started").await.lines().count(), 1, "there is no second one");
    restarted.terminate(&pool("t-1"), &[made[0].id.clone()]).await.unwrap();
    assert_eq!(machines.listed().await, [""; 0]);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_has_detached_itself_does_not_outlive_its_machine() {
    let script =
        "setsid sleep 1000 & echo $! > escaped; env -i setsid sleep 1000 & echo $! > bare; echo $$ >> started; wait";
    let machines = Machines::doing(script, 2);
    machines.provider.create(&create(2)).await.unwrap();
    let mut escaped = Vec::new();
    for number in 0..2 {
        reads(&machines, number, "started").await;
        for name in ["escaped", "bare"] {
            let pid = machines.file(number, name).unwrap().trim().parse().unwrap();
            escaped.push(Process::of(pid).unwrap());
        }
    }
    // One agent is killed, the other one ended in good order.
    machines.provider.read(&machines.id(0)).unwrap().process.unwrap().kill_group();
    while machines.listed().await.len() == 2 {
        tokio::task::yield_now().await;
    }
    assert!(escaped[2].is_alive() && escaped[3].is_alive());
    machines.provider.terminate(&pool("t-1"), &[machines.id(1)]).await.unwrap();
    while escaped.iter().any(Process::is_alive) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_directory_without_a_record_is_what_a_fallen_server_left() {
    let machines = Machines::doing(WAITS, 2);
    std::fs::write(machines.home.path().join(machines.id(1)).join("machine.draft"), "{").unwrap();
    assert_eq!(machines.listed().await, [""; 0]);
    let left: Vec<_> =
        std::fs::read_dir(machines.home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [HOST], "nothing but the name of this place");
}

#[tokio::test]
async fn an_agent_that_ends_by_itself_leaves_its_last_words() {
    let machines = Machines::doing(
        "while ! grep -q pid machine.json; do :; done; echo one; echo two >&2; echo; echo three; echo four; exit 7",
        1,
    );
    machines.provider.create(&create(1)).await.unwrap();
    while machines.provider.ended.all().is_empty() {
        tokio::task::yield_now().await;
    }
    let said = "its agent has ended (exit status: 7): two\nthree\nfour";
    assert_eq!(machines.provider.ended.all().get(&machines.id(0)).map(String::as_str), Some(said));
    assert_eq!(machines.listed().await, [""; 0]);
    assert!(machines.provider.ended.all().is_empty(), "what is removed is forgotten");
}

#[test]
fn options_are_for_agents() {
    let provider = LocalProvider::new("/nowhere".into(), ended());
    let mut spec = pool("t-1").spec;
    spec.options.insert("agent.register_hook".into(), "true".into());
    assert_eq!(provider.check(&spec), Ok(()));
    for (end_with, is_good) in [("exit", true), ("shutdown", false), ("poweroff -f", false)] {
        spec.options.insert(END_WITH.into(), end_with.into());
        assert_eq!(provider.check(&spec).is_ok(), is_good, "{end_with}");
    }
    spec.options.remove(END_WITH);
    spec.options.insert("image".into(), "x".into());
    assert!(provider.check(&spec).is_err());
}

#[test]
fn keys_of_the_server_and_its_storage_do_not_reach_agents() {
    for (variable, is_removed) in [
        ("BATON_API_KEY", true),
        ("BATON_MASTER_KEY", true),
        ("AWS_SECRET_ACCESS_KEY", true),
        ("AWS_SESSION_TOKEN", true),
        ("PATH", false),
        ("HOME", false),
        ("MY_AWS_PROFILE", false),
    ] {
        assert_eq!(is_the_servers(variable), is_removed, "{variable}");
    }
}
