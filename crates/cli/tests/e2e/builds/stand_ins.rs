//! Containers and virtual machines, with stand-ins for the programs that start them: each notes how it was called.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use baton::proto::BuildStatus;
use baton_testkit::Process;

use super::{Yard, processes, text, wait_until_gone};
use crate::site::Leases;
use crate::wait::eventually;

impl Yard {
    /// A worker that finds this script where it looks for `program`. Its calls are noted in `calls`, a line each.
    fn worker_with_stand_in(&self, program: &str, script: &str, more: &[&str]) -> Process {
        let directory = self.path("programs");
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join(program);
        let calls = self.path("calls");
        let script =
            format!("#!/bin/sh\necho \"$*\" | tr '\\n' ' ' >> '{0}'\necho >> '{0}'\n{script}\n", calls.display());
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let search = format!("{}:{}", text(&directory), std::env::var("PATH").unwrap());
        self.worker_with("one", &[&["--isolation", program], more].concat(), &[("PATH", &search)])
    }

    fn calls(&self) -> Vec<String> {
        self.read("calls").lines().map(|line| line.trim().to_owned()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_run_and_removed() {
    let yard = Yard::new(Leases::LONG).await;
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
    assert!(calls[0].starts_with("run --rm --init --name baton-") && calls[0].ends_with("theirs:2 -ec make it"));
    assert!(calls[1].starts_with("rm --force baton-"), "{calls:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_removed_also_when_the_build_is_cancelled() {
    let yard = Yard::new(Leases::SHORT).await;
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
#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_removed_also_when_the_worker_is_killed() {
    let yard = Yard::new(Leases::SHORT).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_is_cloned_used_and_deleted() {
    let yard = Yard::new(Leases::LONG).await;
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
