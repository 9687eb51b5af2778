//! Containers and virtual machines, with stand-ins for the programs that start them: each notes how it was called.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use baton::proto::BuildStatus;
use baton_testkit::Process;

use super::{Yard, processes, text, wait_until_gone};
use crate::on_both_stores;
use crate::site::{Leases, Store};
use crate::wait::eventually;

impl Yard {
    /// A worker that finds this script where it looks for `program`. Its calls are noted in `calls`, a line each.
    fn worker_with_stand_in(&self, program: &str, script: &str, more: &[&str]) -> Process {
        let directory = self.path("programs");
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join(program);
        let calls = self.path("calls");
        // In one write, because two of them may be at work at the same time.
        let note = format!("call=$(echo \"$*\" | tr '\\n' ' ')\necho \"$call\" >> '{}'", calls.display());
        let script = format!("#!/bin/sh\n{note}\n{script}\n");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let search = format!("{}:{}", text(&directory), std::env::var("PATH").unwrap());
        self.worker_with("one", &[&["--isolation", program], more].concat(), &[("PATH", &search)])
    }

    fn calls(&self) -> Vec<String> {
        self.read("calls").lines().map(|line| line.trim().to_owned()).collect()
    }
}

async fn a_container_is_run_and_removed(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    // Does what the container would: writes to the directory that is shown as /baton/output.
    let script = r#"for word in "$@"; do
  case $word in *:/baton/output) echo made > "${word%%:*}/app.txt" ;; esac
done
env | grep ^BATON_ && echo a variable of the worker
echo out of the container"#;
    let worker = yard.worker_with_stand_in("docker", script, &["--image", "mine:1", "--recipe", "make it"]);
    let said = yard.submit(&["--image", "theirs:2"]).await;
    assert_eq!(said.code, Some(0), "{said:?}; the worker: {}", worker.output());
    assert_eq!(yard.read("desk/app.txt"), "made\n");
    assert!(said.out.contains("out of the container") && !said.out.contains("a variable of the worker"), "{said:?}");
    let calls = yard.calls();
    assert_eq!(calls[..2], ["version", "image inspect mine:1"], "{calls:?}");
    assert!(calls[2].starts_with("run --rm --init --name baton-") && calls[2].ends_with("theirs:2 -ec make it"));
    assert!(calls[3].starts_with("rm --force baton-"), "{calls:?}");
}

async fn a_worker_that_cannot_run_containers_does_not_start(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let silent = "echo 'Cannot connect to the daemon' >&2; exit 1";
    let without_image = "[ $1 = version ] || { echo 'No such image' >&2; exit 1; }";
    for (script, complaint) in [
        (silent, "docker does not answer: Cannot connect to the daemon"),
        (without_image, "docker does not know the image mine:1 (No such image); `docker pull mine:1` fetches it"),
    ] {
        let mut worker = yard.worker_with_stand_in("docker", script, &["--image", "mine:1", "--recipe", "make it"]);
        assert_eq!(worker.wait(super::PATIENCE).await.code(), Some(1));
        assert!(worker.output().contains(complaint), "{}", worker.output());
    }
}

/// A recipe that never ran has not failed.
async fn a_build_whose_container_was_not_made_is_given_back(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let script = "[ $1 != run ] || exit 125";
    let worker = yard.worker_with_stand_in("docker", script, &["--image", "mine:1", "--recipe", "make it"]);
    let id = yard.submit_detached().await;
    let client = yard.client();
    let said = eventually("a build that was given back", async || {
        let logs = client.build_logs(&id, 0, 100, std::time::Duration::ZERO).await.ok()?;
        logs.logs.into_iter().find(|line| line.message.starts_with("given back: "))
    })
    .await;
    assert!(said.message.contains("docker made none (exit status: 125)"), "{said:?}; {}", worker.output());
    yard.wait_for(&id, BuildStatus::Pending).await;
}

/// What a recipe ends with is its own affair, and an image that nobody has is the submitter's.
async fn a_recipe_or_an_image_that_is_at_fault_fails_the_build(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let script = r#"case "$*" in
  *"image inspect nobody"*) echo 'No such image' >&2; exit 1 ;;
  run*nobody*) exit 125 ;;
  run*) while [ "$1" != --cidfile ]; do shift; done; echo id > "$2"; exit 125 ;;
esac"#;
    let worker = yard.worker_with_stand_in("docker", script, &["--image", "mine:1", "--recipe", "make it"]);
    let own = yard.submit(&[]).await;
    assert_eq!(own.code, Some(1), "{own:?}; the worker: {}", worker.output());
    assert!(own.err.contains("the recipe did not work: exit status: 125"), "{own:?}");
    let image = yard.submit(&["--image", "nobody:1"]).await;
    assert_eq!(image.code, Some(1), "{image:?}; the worker: {}", worker.output());
    assert!(image.err.contains("docker does not know the image nobody:1"), "{image:?}");
}

async fn a_container_is_removed_also_when_the_build_is_cancelled(store: Store) {
    let yard = Yard::new(store, Leases::SHORT).await;
    let running = yard.path("running");
    let script = format!("[ $1 = run ] && {{ {}; }}; exit 0", super::endless(&running));
    let _worker = yard.worker_with_stand_in("podman", &script, &["--image", "mine:1", "--recipe", "make it"]);
    let id = yard.submit_detached().await;
    let pids = processes(&running).await;
    yard.client().cancel_build(&id).await.unwrap();
    yard.wait_for(&id, BuildStatus::Cancelled).await;
    wait_until_gone(&pids).await;
    assert!(yard.calls().iter().any(|call| call.starts_with(&format!("rm --force baton-{id}-"))), "{:?}", yard.calls());
}

/// A killed worker cannot remove its container, so somebody else does.
async fn a_container_is_removed_also_when_the_worker_is_killed(store: Store) {
    let yard = Yard::new(store, Leases::SHORT).await;
    let running = yard.path("running");
    let script = format!("[ $1 = run ] && {{ {}; }}; exit 0", super::endless(&running));
    let mut worker = yard.worker_with_stand_in("docker", &script, &["--image", "mine:1", "--recipe", "make it"]);
    let id = yard.submit_detached().await;
    let pids = processes(&running).await;
    worker.sigkill();
    wait_until_gone(&pids).await;
    let removed = format!("rm --force baton-{id}-");
    eventually("the end of the container", async || {
        yard.calls().iter().any(|call| call.starts_with(&removed)).then_some(())
    })
    .await;
}

async fn a_machine_is_cloned_used_and_deleted(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let up: PathBuf = yard.path("up");
    let up = up.display();
    // The machine can be used once it was asked in vain, and its output is the directory that is shared with it.
    let script = format!(
        r#"case "$1 $4" in
  "run "*) echo "${{3#--dir=baton:}}" > '{up}.shared'; exec sleep 600 ;;
  "exec ") [ -e '{up}' ] || {{ touch '{up}'; exit 1; }} ;;
  "exec "*) echo in the machine; echo made > "$(cat '{up}.shared')/output/app.txt" ;;
esac"#
    );
    let worker = yard.worker_with_stand_in("tart", &script, &["--image", "sonoma", "--recipe", "make it"]);
    let said = yard.submit(&[]).await;
    assert_eq!(said.code, Some(0), "{said:?}; the worker: {}; {:?}", worker.output(), yard.calls());
    assert!(said.out.contains("in the machine"), "{said:?}");
    assert_eq!(yard.read("desk/app.txt"), "made\n");
    let calls = yard.calls();
    let verbs: Vec<&str> = calls.iter().map(|call| call.split(' ').next().unwrap()).collect();
    // The machine starts while it is asked for the first time.
    assert_eq!(verbs[0], "clone", "{calls:?}");
    assert_eq!(verbs.iter().filter(|verb| **verb == "exec").count(), 3, "{calls:?}");
    assert_eq!(verbs[verbs.len() - 2..], ["stop", "delete"], "{calls:?}");
}

on_both_stores!(
    a_worker_that_cannot_run_containers_does_not_start,
    a_build_whose_container_was_not_made_is_given_back,
    a_recipe_or_an_image_that_is_at_fault_fails_the_build,
    a_container_is_run_and_removed,
    a_container_is_removed_also_when_the_build_is_cancelled,
    a_container_is_removed_also_when_the_worker_is_killed,
    a_machine_is_cloned_used_and_deleted,
);
