//! Builds of repositories.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use baton::proto::BuildStatus;
use baton_testkit::Process;

use super::{Yard, text};
use crate::on_both_stores;
use crate::site::{Leases, Store};
use crate::wait::eventually;

/// A repository that is served as others serve theirs: a worker takes none from its own disk.
struct Forge {
    url: String,
    _daemon: Process,
}

fn git(directory: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command
        .current_dir(directory)
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "a test").env(format!("GIT_{who}_EMAIL"), "test@example.com");
    }
    let output = command.output().expect("git is installed");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Forge {
    /// Two commits on the branch `main`; the first is tagged `v1`.
    async fn start(yard: &Yard) -> Forge {
        let (tree, served) = (yard.path("tree"), yard.path("served"));
        fs::create_dir_all(&tree).unwrap();
        fs::create_dir_all(&served).unwrap();
        git(&tree, &["init", "--quiet", "--initial-branch=main"]);
        for (version, tag) in [("one", Some("v1")), ("two", None)] {
            fs::write(tree.join("version.txt"), version).unwrap();
            git(&tree, &["add", "."]);
            git(&tree, &["commit", "--quiet", "--message", version]);
            if let Some(tag) = tag {
                git(&tree, &["tag", tag]);
            }
        }
        git(&served, &["clone", "--quiet", "--bare", text(&tree), "app.git"]);
        let port = baton_testkit::free_port().to_string();
        let base = format!("--base-path={}", text(&served));
        let listen = format!("--port={port}");
        let arguments = ["daemon", "--listen=127.0.0.1", "--reuseaddr", "--export-all", &listen, &base];
        let daemon = Process::spawn("git", arguments, [("GIT_CONFIG_NOSYSTEM", "1")]);
        let address = format!("127.0.0.1:{port}");
        eventually("a git server", async || TcpStream::connect(&address).ok()).await;
        Forge { url: format!("git://{address}/app.git"), _daemon: daemon }
    }
}

async fn a_repository_is_built_at_its_ref(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let forge = Forge::start(&yard).await;
    let recipe = "cp version.txt \"$BATON_OUTPUT_DIR/$(cat version.txt).txt\"; echo platform $BATON_PLATFORM";
    let worker = yard.worker("one", &["--platform", "git", "--recipe", recipe]);
    for (reference, version) in [("v1", "one"), ("main", "two")] {
        let said = yard.baton(&["submit", "--git", &forge.url, "--ref", reference, "--image", "none"]).await;
        assert_eq!(said.code, Some(0), "{said:?}; the worker: {}", worker.output());
        assert_eq!(yard.read(&format!("desk/{version}.txt")), version);
        assert!(said.out.contains("platform git\n"), "{said:?}");
        let id = said.err.lines().find_map(|line| line.strip_prefix("-- submitted as ")).unwrap();
        let build = yard.client().build(id).await.unwrap();
        assert_eq!((build.status, build.project.as_deref()), (BuildStatus::Completed, Some("app")), "{build:?}");
    }
    yard.wait_until_tidy("one").await;
}

async fn what_cannot_be_fetched_is_said(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let forge = Forge::start(&yard).await;
    let _worker = yard.worker("one", &["--platform", "git", "--recipe", "true"]);
    let here = format!("file://{}", text(&yard.path("served/app.git")));
    for (url, reference, word) in [
        (forge.url.as_str(), "v2", "v2"),
        (&here, "v1", "not allowed"),
        (text(&yard.path("served/app.git")), "v1", "not allowed"),
    ] {
        let said = yard.baton(&["submit", "--git", url, "--ref", reference, "--image", "none"]).await;
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.out.contains(word), "{said:?}");
    }
}

on_both_stores!(a_repository_is_built_at_its_ref, what_cannot_be_fetched_is_said);
