//! Help and completion: what a newcomer sees first.

use super::{Said, baton};

async fn alone(arguments: &[&str]) -> Said {
    let home = tempfile::tempdir().unwrap();
    baton(home.path(), [], arguments, "").await
}

/// The commands a help text lists, with their one-line descriptions.
fn listed(help: &str) -> Vec<(String, String)> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let command = |line: &str| {
        let (name, about) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        (name.to_owned(), about.trim().to_owned())
    };
    lines.filter(|line| line.starts_with("  ") && !line.starts_with("   ")).map(command).collect()
}

#[tokio::test]
async fn every_command_has_help_with_examples() {
    let top = alone(&["--help"]).await.ok();
    assert!(top.contains("Examples:") && top.contains("Exit codes:"), "{top}");
    let commands = listed(&top);
    let names: Vec<&str> = commands.iter().map(|(name, _)| name.as_str()).collect();
    for wanted in ["serve", "demo", "run", "worker", "queue", "key", "audit", "doctor", "bench", "completion"] {
        assert!(names.contains(&wanted), "{wanted} is missing in {names:?}");
    }
    assert!(!names.contains(&"demo-worker"), "the demo's worker is not for people");
    let mut seen = 0;
    for (name, about) in commands.iter().filter(|(name, _)| name != "help") {
        assert!(!about.is_empty(), "{name} says nothing about itself");
        let help = alone(&[name, "--help"]).await.ok();
        for (inner, about) in listed(&help).iter().filter(|(name, _)| name != "help") {
            assert!(!about.is_empty(), "{name} {inner} says nothing about itself");
            let help = alone(&[name, inner, "--help"]).await.ok();
            assert!(help.contains("Usage:") && help.contains("Examples:\n  "), "{name} {inner}: {help}");
            seen += 1;
        }
        assert!(!listed(&help).is_empty() || help.contains("Examples:\n  "), "{name}: {help}");
    }
    assert!(seen >= 18, "only {seen} inner commands were looked at");
}

#[tokio::test]
async fn completion_scripts_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = alone(&["completion", shell]).await.ok();
        assert!(script.contains("idempotency-key") && script.contains("doctor"), "{shell}");
    }
    assert_eq!(alone(&["completion", "abacus"]).await.code, 2);
    // Bash is wherever the tests run; it must be able to read its script.
    let home = tempfile::tempdir().unwrap();
    let script = home.path().join("baton.bash");
    std::fs::write(&script, alone(&["completion", "bash"]).await.ok()).unwrap();
    let read = std::process::Command::new("bash").arg("-n").arg(&script).status().unwrap();
    assert!(read.success());
}
