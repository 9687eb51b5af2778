//! What a build sees of the machine it runs on.

use super::{Said, Yard};
use crate::on_both_stores;
use crate::site::{API_KEY, Leases, Store};

/// Prints what is around it.
const LOOK: &str = "env; echo; ls -A /; cat /proc/self/limits";

/// Everything a build sees of Baton. `PWD` and `_` are the shell's own.
fn names(said: &Said) -> Vec<&str> {
    let lines = said.out.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
    let mut names: Vec<&str> =
        lines.filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name) && !name.contains(' ')).collect();
    names.sort_unstable();
    names
}

const EXPECTED: [&str; 7] =
    ["BATON_BUILD_ID", "BATON_OUTPUT_DIR", "BATON_PLATFORM", "BATON_SOURCE_DIR", "HOME", "LANG", "PATH"];

async fn a_plain_process_has_limits_and_no_credential(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let limits = ["--limit-memory", "3G", "--limit-processes", "12345"];
    let arguments = [&["--recipe", LOOK], limits.as_slice()].concat();
    let _worker = yard.worker_with("one", &arguments, &[("AWS_SECRET_ACCESS_KEY", "do-not-tell")]);
    let said = yard.submit(&[]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(names(&said), EXPECTED, "{said:?}");
    for secret in [API_KEY, "do-not-tell"] {
        assert!(!said.out.contains(secret), "{said:?}");
    }
    #[cfg(target_os = "linux")]
    for (name, most) in [("Max address space", "3221225472"), ("Max processes", "12345"), ("Max core file size", "0")] {
        let line = said.out.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        assert!(line.split_whitespace().any(|word| word == most), "{line:?}");
    }
}

#[cfg(target_os = "linux")]
async fn a_build_that_wants_too_much_memory_fails(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    // dd takes a buffer of this size at once.
    let recipe = "dd if=/dev/zero of=/dev/null bs=800M count=1";
    let _worker = yard.worker("one", &["--recipe", recipe, "--limit-memory", "400M"]);
    let said = yard.submit(&[]).await;
    assert!(said.code == Some(1) && said.out.contains("memory exhausted"), "{said:?}");
}

/// Needs `bwrap` and user namespaces. Where they are missing this fails and says so; it is never skipped in silence.
#[cfg(target_os = "linux")]
async fn a_sandbox_shows_the_system_and_nothing_else(store: Store) {
    let tried = std::process::Command::new("bwrap").args(["--unshare-all", "--ro-bind", "/", "/", "true"]).output();
    let tried = tried.unwrap_or_else(|error| panic!("bwrap cannot be started ({error}): install bubblewrap"));
    let complaint = String::from_utf8_lossy(&tried.stderr);
    assert!(tried.status.success(), "bwrap does not work here; are user namespaces allowed? It said: {complaint}");

    let yard = Yard::new(store, Leases::LONG).await;
    let outside = yard.path("outside");
    yard.write("outside", "not for builds");
    let recipe = format!(
        "{LOOK}; grep CapEff /proc/self/status; ls -d /proc/[0-9]* | wc -l; ! cat '{0}'; ! touch /usr/here /etc/here; touch /tmp/here; \
         echo > '{0}' || echo kept; cp greeting.txt \"$BATON_OUTPUT_DIR/app.txt\"; touch \"$HOME/x\" ./y; \
         test -e /etc/shadow; ! grep . /etc/shadow",
        outside.display()
    );
    let worker = yard.worker("one", &["--isolation", "bubblewrap", "--recipe", &recipe]);
    let said = yard.submit(&[]).await;
    assert_eq!(said.code, Some(0), "{said:?}; the worker: {}", worker.output());
    assert_eq!(yard.read("desk/app.txt"), "hello");
    assert_eq!(yard.read("outside"), "not for builds");
    assert_eq!(names(&said), EXPECTED, "{said:?}");
    assert!(said.out.contains("BATON_SOURCE_DIR=/baton/source\n"), "{said:?}");
    assert!(said.out.contains("Read-only file system") && !said.out.contains("not for builds"), "{said:?}");
    assert!(!said.out.contains("root:*:") && !said.out.contains("root:!") && !said.out.contains("root:$"), "{said:?}");
    // Also when the worker is root: who may mount could mount the system anew, to be written to.
    assert!(said.out.contains("CapEff:\t0000000000000000\n"), "{said:?}");
    for hidden in ["root", "home", "var", "run"] {
        assert!(!said.out.lines().any(|line| line == hidden), "/{hidden} can be seen: {said:?}");
    }
    let seen: Vec<u32> = said.out.lines().filter_map(|line| line.parse().ok()).collect();
    assert!(seen.iter().all(|processes| *processes < 10), "processes of others can be seen: {seen:?}");
}

/// What is in a sandbox dies with it.
#[cfg(target_os = "linux")]
async fn a_cancelled_build_in_a_sandbox_leaves_nothing(store: Store) {
    use baton::proto::BuildStatus;
    let yard = Yard::new(store, Leases::SHORT).await;
    // Its numbers are those of the sandbox, so it is known by what it runs.
    let span = if store == Store::Sqlite { "617.25" } else { "617.5" };
    let recipe = format!("setsid sleep {span} & touch \"$BATON_SOURCE_DIR/up\"; echo up; wait");
    let _worker = yard.worker("one", &["--isolation", "bubblewrap", "--recipe", &recipe]);
    let id = yard.submit_detached().await;
    let sleepers = || {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let line = format!("sleep\0{span}\0");
        all.filter(|entry| std::fs::read(entry.path().join("cmdline")).is_ok_and(|found| found == line.as_bytes()))
            .count()
    };
    crate::wait::eventually("a build at work", async || (sleepers() == 1).then_some(())).await;
    yard.client().cancel_build(&id).await.unwrap();
    yard.wait_for(&id, BuildStatus::Cancelled).await;
    crate::wait::eventually("the end of the sandbox", async || (sleepers() == 0).then_some(())).await;
}

on_both_stores!(
    a_plain_process_has_limits_and_no_credential,
    #[cfg(target_os = "linux")]
    a_build_that_wants_too_much_memory_fails,
    #[cfg(target_os = "linux")]
    a_sandbox_shows_the_system_and_nothing_else,
    #[cfg(target_os = "linux")]
    a_cancelled_build_in_a_sandbox_leaves_nothing,
);
