use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::json;

use super::*;

fn spec(options: serde_json::Value) -> PoolSpec {
    let spec = json!({"provider": "ec2", "types": ["m7i.large"], "options": options, "cpu": 2, "memory_mib": 4096,
        "max_size": 4, "idle_ms": 1000, "runtime_ms": 1000});
    serde_json::from_value(spec).unwrap()
}

fn options(options: serde_json::Value) -> Options {
    Options::of(&spec(options)).unwrap()
}

/// Runs a script as cloud-init would, with everything it touches in a directory.
fn run(script: &str, place: &std::path::Path) -> std::process::Output {
    let inside = |path: &str| place.join(path.rsplit('/').next().unwrap()).display().to_string();
    std::fs::write(place.join("instance-id"), "i-0123\n").unwrap();
    let script = script
        .replace(INSTANCE_ID, &inside(INSTANCE_ID))
        .replace("/var/log/baton-agent.log", &inside("baton-agent.log"))
        // Whoever waits for the script waits for its agent, too.
        .replace(" &\n", "\n");
    Command::new("sh").arg("-c").arg(script).env_clear().env("PATH", "/usr/bin:/bin").output().unwrap()
}

#[test]
fn the_agent_is_started_with_all_it_needs_whatever_is_in_it() {
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("it's baton");
    std::fs::write(&program, "#!/bin/sh\necho \"$@\"\nenv\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let done = place.path().join("done");
    let setup = format!("test -z \"${{BATON_JOIN_TOKEN:-}}\"\necho ready > '{}'", done.display());
    let read = options(json!({"launch_template": "lt-1", "setup": setup, "program": program}));
    let hook = "echo 'one' \"$TWO\" `three` \\\n\tand $(four) > file";
    let environment = BTreeMap::from([
        ("BATON_JOIN_TOKEN".to_owned(), "secret".to_owned()),
        ("BATON_URL".to_owned(), "http://10.0.0.1:7400".to_owned()),
        ("BATON_AGENT_REGISTER_HOOK".to_owned(), hook.to_owned()),
        ("BATON_AGENT_END_WITH".to_owned(), "exit".to_owned()),
    ]);
    let encoded = user_data(&read, &environment).unwrap();
    let script = String::from_utf8(BASE64_STANDARD.decode(encoded).unwrap()).unwrap();
    assert!(script.starts_with("#!/bin/sh\n"), "cloud-init knows it by that");
    let ran = run(&script, place.path());
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(std::fs::read_to_string(done).unwrap(), "ready\n");
    let seen = std::fs::read_to_string(place.path().join("baton-agent.log")).unwrap();
    let line = |text: &str| assert!(seen.lines().any(|line| line == text), "{text}: {seen}");
    line("agent");
    line("BATON_MACHINE_ID=i-0123");
    line("BATON_JOIN_TOKEN=secret");
    line("BATON_URL=http://10.0.0.1:7400");
    line("BATON_AGENT_END_WITH=exit");
    line("BATON_AGENT_WORK_DIRECTORY=/var/lib/baton/agent");
    line("HOME=/root");
    assert!(seen.contains(&format!("BATON_AGENT_REGISTER_HOOK={hook}\n")), "{seen}");
}

#[test]
fn without_its_setup_a_machine_starts_no_agent() {
    let place = tempfile::tempdir().unwrap();
    let read = options(json!({"launch_template": "lt-1", "setup": "false\ntrue", "program": "/bin/echo"}));
    let ran = run(&script(&read, &BTreeMap::new()), place.path());
    assert!(!ran.status.success());
    assert!(!place.path().join("baton-agent.log").exists());
}

#[test]
fn what_has_no_room_in_start_data_is_refused_when_the_pool_is_made() {
    let long = "x".repeat(8_000);
    let fits = spec(json!({"launch_template": "lt-1", "setup": long}));
    assert_eq!(check(&Options::of(&fits).unwrap(), &fits), Ok(()));
    let too_long = spec(json!({"launch_template": "lt-1", "setup": long, "agent.register_hook": long}));
    let why = check(&Options::of(&too_long).unwrap(), &too_long).unwrap_err();
    assert!(why.contains("16384"), "{why}");
}
