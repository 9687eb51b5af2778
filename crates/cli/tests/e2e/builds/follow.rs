//! What somebody sees who submits: the log, the file, the exit code.

use std::os::unix::process::ExitStatusExt;

use baton::proto::BuildStatus;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{Yard, endless, processes, wait_until_gone};
use crate::on_both_stores;
use crate::site::{Leases, Store};

async fn a_directory_is_built_and_its_file_comes_back(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
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
    yard.wait_until_tidy("one").await;

    // The same source again: from the cache, and beside the file that is there already.
    let again = yard.submit(&["--json"]).await;
    let document: serde_json::Value = serde_json::from_str(&again.out).unwrap_or_else(|_| panic!("{again:?}"));
    assert!(again.err.contains("in this worker's cache"), "{again:?}");
    let id = document["id"].as_str().unwrap();
    assert_eq!(document["output"], format!("{id}-app.txt"), "{document}");
    assert_eq!(document["status"], "completed");
}

async fn a_project_brings_its_recipe_and_several_files_come_as_a_zip(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
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

async fn a_build_ends_as_its_recipe_does(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let _worker = yard.worker("one", &["--recipe", "test -e works; cat works"]);
    let failed = yard.submit(&[]).await;
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.err.contains("failed: the recipe did not work: exit status: 1"), "{failed:?}");
    yard.write("project/works", "it does\n");
    let nothing = yard.submit(&[]).await;
    assert_eq!(nothing.code, Some(0), "{nothing:?}");
    assert!(nothing.out.contains("it does\n") && nothing.err.contains("it left no file"), "{nothing:?}");
}

/// The first result lies in the project when it is submitted again: by its own name, in a directory, under a new name.
async fn results_are_not_packed_with_the_source(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let _worker = yard.worker("one", &["--recipe", "find . -type f | sort; cp greeting.txt \"$BATON_OUTPUT_DIR/app\""]);
    let submit = async |more: &[&str]| {
        let arguments = [&["submit", ".", "--platform", super::PLATFORM], more].concat();
        let output = yard.command(&arguments).current_dir(yard.path("project")).output().await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (out, err) = (text(output.stdout), text(output.stderr));
        assert!(output.status.success(), "{more:?}: {out}{err}");
        // The last line says where the result went.
        let found = out.lines().filter(|line| line.starts_with("./") && !line.ends_with(" B)"));
        let files: Vec<&str> = found.collect();
        assert_eq!(files, ["./greeting.txt"], "{more:?}: {err}");
        err
    };
    std::fs::create_dir(yard.path("project/dist")).unwrap();
    submit(&[]).await;
    let again = submit(&[]).await;
    assert!(again.contains("-- left out, as certificates or results of builds: app\n"), "{again}");
    for output in ["dist", "named", "."] {
        submit(&["--output", output]).await;
        submit(&["--output", output]).await;
    }
    // What somebody wrote there by hand is source, whatever it is called.
    yard.write("project/app", "mine");
    let mine = yard.baton(&["submit", "../project", "--platform", super::PLATFORM]).await;
    assert!(mine.out.contains("./app\n"), "{mine:?}");
}

async fn an_output_that_cannot_be_had_is_a_failure(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let nowhere = yard.submit(&["--output", "no/such/place"]).await;
    assert_eq!(nowhere.code, Some(2), "{nowhere:?}");
    assert!(nowhere.err.contains("--output no/such/place: there is no directory no/such"), "{nowhere:?}");
    assert!(!nowhere.err.contains("packed"), "{nowhere:?}");
    let _worker = yard.worker("one", &["--recipe", "true"]);
    let nothing = yard.submit(&["--output", "app"]).await;
    assert_eq!(nothing.code, Some(1), "{nothing:?}");
    assert!(nothing.err.contains("left no file for --output"), "{nothing:?}");
}

async fn every_command_about_a_build_works(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let id = yard.submit_detached().await;
    let waiting = yard.baton(&["build", "get", &id]).await;
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
    let list = yard.baton(&["build", "list", "--state", "completed"]).await;
    assert!(
        list.out.contains(&id[30..]) && list.out.contains(&second[30..]) && list.out.contains("2 of 2"),
        "{list:?}"
    );
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
async fn who_is_interrupted_without_a_terminal_is_detached(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
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

on_both_stores!(
    a_directory_is_built_and_its_file_comes_back,
    a_project_brings_its_recipe_and_several_files_come_as_a_zip,
    a_build_ends_as_its_recipe_does,
    results_are_not_packed_with_the_source,
    an_output_that_cannot_be_had_is_a_failure,
    every_command_about_a_build_works,
    who_is_interrupted_without_a_terminal_is_detached,
);
