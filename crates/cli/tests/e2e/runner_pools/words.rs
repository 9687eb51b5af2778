//! What the commands about pools say, and how they end, when something is not as it was wanted.

use baton::proto::CreatePool;
use baton_core::pools::ClaimState;
use baton_testkit::Process;
use serde_json::Value;

use super::ground::{self, Ground};
use crate::site::{API_KEY, BATON, Gate, Store};
use crate::wait::PATIENCE;

pub async fn a_claim_whose_machines_are_lost_says_how_many_and_why(store: Store) {
    let mut ground = Ground::new(store).await;
    ground.baton(&["pool", "create", "linux", "--min-idle", "2", "--max-size", "2"]).await.ok();
    ground.settled("linux", 2).await;
    let claim = ["pool", "claim", "linux", "--run-id", "ci-1", "--count", "2"];
    let machines: Value = serde_json::from_str(&ground.baton(&claim).await.ok()).expect("a document");
    let [killed, left] = [0, 1].map(|place| machines[place]["machine_id"].as_str().expect("a name").to_owned());
    ground::kill_agent(ground.home.path(), &killed);
    ground
        .until("the loss is known", async |client, _| {
            let claim = client.pool_claim("default", "linux", "ci-1").await.map_err(|error| error.to_string())?;
            if claim.runners.len() == 1 { Ok(()) } else { Err(format!("{claim:?}")) }
        })
        .await;
    let again = ground.baton(&claim).await;
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.err.contains("ready: 1 handed over, 1 of 2 lost\n"), "{again:?}");
    assert!(again.err.contains("1 of 2 lost, and none comes in its place"), "{again:?}");
    assert!(again.err.contains("  once: lost: its agent has ended (signal: 9 (SIGKILL))\n"), "{again:?}");
    assert!(again.out.contains(&left) && !again.out.contains(&killed), "those that are left are its own: {again:?}");

    let shown = ground.baton(&["pool", "claims", "linux", "ci-1"]).await.ok();
    assert!(shown.contains("ready: 1 handed over, 1 of 2 lost") && shown.contains(&left), "{shown}");
    assert!(shown.contains("1 machine was discarded:\n  once: lost: "), "{shown}");
    let listed = ground.baton(&["pool", "claims", "linux", "--json"]).await.ok();
    assert!(!listed.contains("discarded") && !listed.contains("failures"), "a list does not know: {listed}");
    let json = ground.baton(&["pool", "claims", "linux", "ci-1", "--json"]).await.ok();
    let json: Value = serde_json::from_str(&json).expect("a document");
    assert_eq!((&json["discarded"], json["failures"].as_array().map(Vec::len)), (&1.into(), Some(1)));
    assert_eq!(ground.baton(&["pool", "claims", "linux", "ci-2"]).await.code, 3, "and opens none");
    ground.release("linux", "ci-1").await;
    ground.delete("linux").await;
}

pub async fn a_waiting_claim_is_given_up_with_its_terminal(store: Store) {
    let mut ground = Ground::new(store).await;
    let gate = Gate::in_directory(ground.home.path());
    let mut pool = CreatePool { min_idle: 1, max_size: Some(1), ..CreatePool::new("linux") };
    pool.options.insert("agent.register_hook".into(), gate.command());
    ground.create(&pool).await;
    ground.settled("linux", 1).await;
    // Whatever started this test may have left the signal ignored, or not.
    let claim = |run_id: &str, signals: &str| {
        let (url, arguments) = (ground.url(), [signals, BATON, "pool", "claim", "linux", "--run-id", run_id]);
        Process::spawn("env", arguments, [("BATON_URL", url.as_str()), ("BATON_API_KEY", API_KEY)])
    };
    let mut waiting = claim("ci-1", "--default-signal=HUP");
    waiting.wait_for_line("1 registering", PATIENCE).await;
    waiting.sighup();
    assert_eq!(waiting.wait(PATIENCE).await.code(), Some(130), "{}", waiting.output());
    let given_up = ground.client().pool_claim("default", "linux", "ci-1").await.expect("it was opened");
    assert_eq!(given_up.state, ClaimState::Released);

    let mut kept = claim("ci-2", "--ignore-signal=HUP");
    kept.wait_for_line("1 registering", PATIENCE).await;
    kept.sighup();
    gate.open();
    assert!(kept.wait(PATIENCE).await.success(), "as nohup wants it: {}", kept.output());
    ground.release("linux", "ci-2").await;
    ground.delete("linux").await;
}

pub async fn a_release_waits_for_a_server_that_restarts(store: Store) {
    let mut ground = Ground::new(store).await;
    ground.baton(&["pool", "create", "linux", "--min-idle", "1", "--max-size", "1"]).await.ok();
    ground.settled("linux", 1).await;
    ground.baton(&["pool", "claim", "linux", "--run-id", "ci-1"]).await.ok();
    ground.stop_server();
    let mut waiting = ground.spawn(&["pool", "release", "linux", "--run-id", "ci-1", "--missing-ok"]);
    waiting.wait_for_line("still trying, for 60 seconds", PATIENCE).await;
    ground.kill_server().await;
    assert!(waiting.wait(PATIENCE).await.success(), "{}", waiting.output());
    waiting.wait_for_line("the claim of ci-1 is released (done)", PATIENCE).await;
    ground.settled("linux", 1).await;
    ground.delete("linux").await;
}

pub async fn a_hook_is_looked_for_where_it_is_said_to_be(store: Store) {
    let mut ground = Ground::new(store).await;
    let (home, script) = (ground.home.path().display().to_string(), ground.home.path().join("register it"));
    let log = ground.home.path().join("log");
    let hook = r#"./register\ it "$BATON_RUN_ID""#;
    let plain = "./register \"$BATON_RUN_ID\"";
    let option = format!("agent.hook_directory={home}");
    let create = |hook: &'static str| {
        ["pool", "create", "linux", "--min-idle", "1", "--max-size", "1", "--register-hook", hook, "--option"]
    };
    let refused = ground.baton(&[create(plain).as_slice(), &[option.as_str()]].concat()).await;
    assert!(refused.code == 4 && refused.err.contains(&format!("there is no {home}/./register")), "{refused:?}");
    std::fs::write(&script, format!("#!/bin/sh\npwd >> {0}\necho registered for $1 >> {0}\n", log.display()))
        .expect("our own");
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("our own");
    ground.baton(&[create(hook).as_slice(), &[option.as_str()]].concat()).await.ok();
    ground.settled("linux", 1).await;
    ground.baton(&["pool", "claim", "linux", "--run-id", "ci-1"]).await.ok();
    let said = std::fs::read_to_string(&log).expect("the hook ran");
    let (directory, words) = said.trim_end().split_once('\n').expect("two lines");
    assert!(words == "registered for ci-1" && directory != home, "it works in the directory of the run: {said}");
    ground.release("linux", "ci-1").await;
    // One that went away is told of in words that help.
    ground.settled("linux", 1).await;
    std::fs::remove_file(&script).expect("it is there");
    let failed = ground.baton(&["pool", "claim", "linux", "--run-id", "ci-2", "--wait", "3s"]).await;
    let said = format!(
        "register_failed: exit status: 127 (not found; hooks work in an empty directory, and ./ before one is {home})"
    );
    assert!(failed.code == 1 && failed.err.contains(&said), "{failed:?}");
    ground.delete("linux").await;
}

pub async fn a_pool_is_changed_and_what_is_not_named_stays(store: Store) {
    let mut ground = Ground::new(store).await;
    let create = ["pool", "create", "linux", "--max-size", "6", "--register-hook", "true"];
    ground.baton(&create).await.ok();
    let other = ground.baton(&["pool", "create", "linux", "--max-size", "7"]).await;
    assert!(other.code == 4 && other.err.contains("baton pool set"), "{other:?}");

    let set = ["pool", "set", "linux", "--option", "agent.hook_timeout=5m", "--runtime", "2h", "--json"];
    let changed: Value = serde_json::from_str(&ground.baton(&set).await.ok()).expect("a document");
    assert_eq!((&changed["max_size"], &changed["runtime_ms"]), (&6.into(), &7_200_000.into()));
    let hooks = |options: &Value| (options["agent.register_hook"].clone(), options["agent.hook_timeout"].clone());
    assert_eq!(hooks(&changed["options"]), ("true".into(), "5m".into()));
    let set = ["pool", "set", "linux", "--unset-option", "agent.hook_timeout", "--register-hook", "false", "--json"];
    let changed: Value = serde_json::from_str(&ground.baton(&set).await.ok()).expect("a document");
    assert_eq!(hooks(&changed["options"]), ("false".into(), Value::Null));

    for (wrong, code, said) in [
        (["set", "linux", "--unset-option", "agent.hook_timeout"].as_slice(), 2, "has no option agent.hook_timeout"),
        (&["set", "linux"], 2, "nothing is to be changed"),
        (&["set", "linux", "--spot-fallback"], 2, "add --usage spot"),
        (&["set", "none", "--idle", "1m"], 3, "none"),
        (&["create", "spot", "--spot-fallback"], 2, "add --usage spot"),
        (&["create", "idle", "--idle-at", "@daily=4", "--max-size", "3"], 2, "--idle-at asks for 4, --max-size is 3"),
        (&["create", "few", "--min-idle", "4", "--idle-at", "0 19 * * *=1"], 2, "--idle-at '0 19 * * *=1'"),
        (&["create", "none", "--register-hook", "./no-such-hook"], 4, "./no-such-hook"),
        (&["scale", "linux", "--idle-at", "@daily=10"], 4, "--idle-at asks for 10, --max-size is 6"),
        (&["claim", "linux", "--run-id", "x", "--count", "0"], 2, "--count"),
        (&["claim", "linux", "--run-id", "x", "--runtime", "3h"], 4, "--runtime (max_runtime_ms) must be 1 to 7200000"),
        (&["claim", "linux", "--run-id", "x", "--memory", "64G"], 4, "--memory (memory_mib) is 65536"),
        (&["claim", "linux", "--run-id", "x", "--type", "["], 4, "no machine of this pool is of type ["),
        (&["release", "linux", "--run-id", "x"], 3, "x"),
        (&["release", "linux", "--run-id", "x", "--missing-ok"], 0, "x"),
        (&["release", "none", "--run-id", "x", "--missing-ok"], 3, "none"),
    ] {
        let answer = ground.baton(&[["pool"].as_slice(), wrong].concat()).await;
        assert!(answer.code == code && answer.err.contains(said), "{wrong:?}: {answer:?}");
    }
    ground.delete("linux").await;
}

pub async fn changes_of_one_option_each_at_the_same_time_are_all_kept(store: Store) {
    let mut ground = Ground::new(store).await;
    ground.baton(&["pool", "create", "linux"]).await.ok();
    let options = ["agent.hook_timeout=5m", "agent.overtime=2m", "agent.unreachable=3m", "agent.register_hook=true"];
    let set = |option: &'static str| ground.spawn(&["pool", "set", "linux", "--option", option]);
    for mut changing in options.map(set) {
        assert!(changing.wait(PATIENCE).await.success(), "{}", changing.output());
    }
    let kept = ground.client().pool("default", "linux").await.expect("it is there").options;
    assert!(
        options.iter().all(|option| kept.iter().any(|(name, value)| *option == format!("{name}={value}"))),
        "{kept:?}"
    );
    ground.delete("linux").await;
}
