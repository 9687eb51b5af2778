//! What somebody sees who submits: the log, the file, the exit code.

use std::os::unix::process::ExitStatusExt;

use baton::proto::BuildStatus;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{Yard, endless, processes, wait_until_gone};
use crate::site::Leases;

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_built_and_its_file_comes_back() {
    let yard = Yard::new(Leases::LONG).await;
    yard.write("project/secret.txt", "not for others");
    yard.write("project/.batonignore", "secret.txt\n");
    let recipe = "ls -A; echo oh >&2; echo; cp greeting.txt \"$BATON_OUTPUT_DIR/app.txt\"";
    let worker = yard.worker("one", &["--recipe", recipe]);
    let said = yard.submit(&["--project", "shop"]).await;
    assert_eq!(said.code, Some(0), "{said:?}; the worker: {}", worker.output());
    assert_eq!(yard.read("desk/app.txt"), "hello");
    for line in ["greeting.txt\n", "oh\n", "\n\n"] {
        assert!(said.out.contains(line), "{line:?} is missing: {said:?}");
    }
    assert!(!said.out.contains("secret.txt"), "{said:?}");
    assert!(said.out.ends_with("app.txt (5 B)\n"), "{said:?}");
    assert!(said.err.contains("-- submitted as ") && said.err.contains("with the worker one ("), "{said:?}");
    assert_eq!(yard.left_by("one"), Vec::<std::path::PathBuf>::new());

    // The same source again: from the cache, and beside the file that is there already.
    let again = yard.submit(&["--json"]).await;
    let document: serde_json::Value = serde_json::from_str(&again.out).unwrap_or_else(|_| panic!("{again:?}"));
    assert!(again.err.contains("in this worker's cache"), "{again:?}");
    let id = document["id"].as_str().unwrap();
    assert_eq!(document["output"], format!("{id}-app.txt"), "{document}");
    assert_eq!(document["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_brings_its_recipe_and_several_files_come_as_a_zip() {
    let yard = Yard::new(Leases::LONG).await;
    yard.write(
        "project/baton.toml",
        "[build.linux]\nrun = '''\ncd \"$BATON_OUTPUT_DIR\"\necho 1 > a\nmkdir b\necho 2 > b/c\n'''\n",
    );
    let _worker = yard.worker("one", &[]);
    let said = yard.submit(&["--output", "here.zip"]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    let zip = std::fs::File::open(yard.path("desk/here.zip")).unwrap();
    baton_archive::unpack(zip, &yard.path("unpacked"), &baton_archive::Limits::default()).unwrap();
    assert_eq!((yard.read("unpacked/a"), yard.read("unpacked/b/c")), ("1\n".into(), "2\n".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_ends_as_its_recipe_does() {
    let yard = Yard::new(Leases::LONG).await;
    let _worker = yard.worker("one", &["--recipe", "test -e works; cat works"]);
    let failed = yard.submit(&[]).await;
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.err.contains("failed: the recipe did not work: exit status: 1"), "{failed:?}");
    yard.write("project/works", "it does\n");
    let nothing = yard.submit(&[]).await;
    assert_eq!(nothing.code, Some(0), "{nothing:?}");
    assert!(nothing.out.contains("it does\n") && nothing.err.contains("it left no file"), "{nothing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_about_a_build_works() {
    let yard = Yard::new(Leases::LONG).await;
    let id = yard.submit_detached().await;
    let waiting = yard.baton(&["build", "status", &id]).await;
    assert!(waiting.out.contains("place in the queue  1"), "{waiting:?}");
    let why = yard.baton(&["build", "explain", &id]).await;
    assert!(why.code == Some(0) && why.out.contains("pending"), "{why:?}");
    let early = yard.baton(&["build", "download", &id]).await;
    assert!(early.code == Some(3) && early.err.contains("the build is pending"), "{early:?}");

    let _worker = yard.worker("one", &["--recipe", "echo working; cp greeting.txt \"$BATON_OUTPUT_DIR\""]);
    let followed = yard.baton(&["build", "logs", "-f", &id]).await;
    assert!(followed.code == Some(0) && followed.out.contains("working\n"), "{followed:?}");
    let fetched = yard.baton(&["build", "download", &id, "--output", "there.txt"]).await;
    assert_eq!((fetched.code, fetched.out.as_str()), (Some(0), "there.txt\n"), "{fetched:?}");
    assert_eq!(yard.read("desk/there.txt"), "hello");

    let retried = yard.baton(&["build", "retry", &id]).await;
    let second = retried.out.trim();
    let build = yard.wait_for(second, BuildStatus::Completed).await;
    assert_eq!(build.original_build_id.as_deref(), Some(id.as_str()));
    let list = yard.baton(&["build", "list", "--status", "completed"]).await;
    assert!(list.out.contains(&id) && list.out.contains(second) && list.out.contains("2 of 2"), "{list:?}");
    for (code, arguments) in [
        (4, ["build", "cancel", &id].as_slice()),
        (3, &["build", "status", "0198c1f2-0000-7000-8000-000000000000"]),
        (4, &["submit", "../project", "--platform", "abacus"]),
        (2, &["submit", "../project"]),
        (2, &["submit", "../no-such-directory", "--platform", "linux"]),
        (2, &["submit", "--git", "https://x/y", "--ref", "v1"]),
        (2, &["worker", "build", "--platform", "linux", "--recipe", "linnux=make"]),
    ] {
        let said = yard.baton(arguments).await;
        assert_eq!(said.code, Some(code), "{arguments:?}: {said:?}");
    }
}

/// Nobody can be asked who has no terminal, and a build is not stopped by accident.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_interrupted_without_a_terminal_is_detached() {
    let yard = Yard::new(Leases::LONG).await;
    let running = yard.path("running");
    let _worker = yard.worker("one", &["--recipe", &endless(&running)]);
    let mut follower = yard.command(&["submit", "../project", "--platform", super::PLATFORM]).spawn().unwrap();
    let mut lines = BufReader::new(follower.stderr.take().unwrap()).lines();
    let mut id = None;
    while let Some(line) = lines.next_line().await.unwrap() {
        id = line.strip_prefix("-- submitted as ").map(str::to_owned).or(id);
        // It follows now, so that it has caught the signal.
        if line.contains("with the worker") {
            break;
        }
    }
    let pids = processes(&running).await;
    let pid = follower.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let status = follower.wait().await.unwrap();
    assert_eq!((status.code(), status.signal()), (Some(130), None));
    let id = id.expect("it was submitted");
    assert_eq!(yard.client().build(&id).await.unwrap().status, BuildStatus::Building);

    let cancelled = yard.baton(&["build", "cancel", &id]).await;
    assert!(cancelled.out.contains("its worker has been told to stop"), "{cancelled:?}");
    yard.wait_for(&id, BuildStatus::Cancelled).await;
    wait_until_gone(&pids).await;
}
