//! Builds from end to end: a directory is submitted, a real worker builds it, and what comes out is downloaded.

mod cancel;
#[cfg(target_os = "linux")]
mod disk_full;
mod follow;
mod isolation;
#[cfg(target_os = "linux")]
mod leftovers;
mod lost_answers;
mod repositories;
mod spoilt;
mod stand_ins;
mod what_it_gets;
mod workers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use baton::Client;
use baton::proto::{BuildStatus, BuildView};
use baton_testkit::Process;
use tokio::process::Command;

use crate::site::{API_KEY, BATON, Leases, Site, Store};
use crate::wait::eventually;

/// Longer than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The platform of all builds here.
const PLATFORM: &str = "linux";

/// What a command did.
#[derive(Debug)]
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

/// A server, a project to build, and a place for everything else.
struct Yard {
    site: Site,
}

impl Yard {
    async fn new(store: Store, leases: Leases) -> Yard {
        let yard = Yard { site: Site::start(store, leases).await };
        for directory in ["project", "desk"] {
            fs::create_dir(yard.path(directory)).unwrap();
        }
        yard.write("project/greeting.txt", "hello");
        yard
    }

    fn path(&self, name: &str) -> PathBuf {
        self.site.home.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn client(&self) -> Client {
        self.site.client()
    }

    /// A worker with directories of its own under this name.
    fn worker(&self, name: &str, more: &[&str]) -> Process {
        self.worker_with(name, more, &[])
    }

    fn worker_with(&self, name: &str, more: &[&str], environment: &[(&str, &str)]) -> Process {
        let url = self.site.server.url();
        let ours = [("BATON_URL", url.as_str()), ("BATON_API_KEY", API_KEY)];
        Process::spawn(BATON, self.arguments(name, more), ours.into_iter().chain(environment.iter().copied()))
    }

    fn arguments(&self, name: &str, more: &[&str]) -> Vec<String> {
        let (work, cache) = (self.path(&format!("{name}/work")), self.path(&format!("{name}/cache")));
        let known = ["worker", "build", "--platform", PLATFORM, "--name", name];
        let places = ["--work-dir", text(&work), "--cache-dir", text(&cache)];
        known.into_iter().chain(places).chain(more.iter().copied()).map(str::to_owned).collect()
    }

    /// A command of a person who sits in the directory `desk`.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(BATON);
        command
            .env_clear()
            .env("HOME", self.site.home.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("BATON_URL", self.site.server.url()).env("BATON_API_KEY", API_KEY);
        command.current_dir(self.path("desk")).args(arguments).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    async fn baton(&self, arguments: &[&str]) -> Said {
        let output = tokio::time::timeout(PATIENCE, self.command(arguments).output()).await;
        let output = output.unwrap_or_else(|_| panic!("{arguments:?} did not end")).unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Submits the project and follows it.
    async fn submit(&self, more: &[&str]) -> Said {
        let arguments = ["submit", "../project", "--platform", PLATFORM];
        self.baton(&arguments.into_iter().chain(more.iter().copied()).collect::<Vec<_>>()).await
    }

    /// Submits the project and returns the identifier of its build.
    async fn submit_detached(&self) -> String {
        let said = self.submit(&["--detach"]).await;
        assert_eq!(said.code, Some(0), "{said:?}");
        said.out.trim().to_owned()
    }

    /// Waits until a build stands so.
    async fn wait_for(&self, id: &str, status: BuildStatus) -> BuildView {
        let client = self.client();
        let what = format!("a build that is {}", status.as_str());
        eventually(&what, async || client.build(id).await.ok().filter(|build| build.status == status)).await
    }

    /// What is left in the part of the work directory that a worker has for its builds.
    fn left_by(&self, worker: &str) -> Vec<PathBuf> {
        let work = self.path(&format!("{worker}/work"));
        let parts = entries(&work).into_iter().filter(|path| path.is_dir());
        parts.flat_map(|part| entries(&part)).collect()
    }

    /// Waits until a worker has removed what its builds left: it does so after the build is completed.
    async fn wait_until_tidy(&self, worker: &str) {
        eventually("an empty work directory", async || self.left_by(worker).is_empty().then_some(())).await;
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

/// A recipe that starts a child of its own, notes both numbers in `file`, and never ends.
fn endless(file: &Path) -> String {
    // Written under another name first: whoever reads it finds all of it.
    let file = file.display();
    format!("sleep 600 & echo $$ $! > '{file}.new'; mv '{file}.new' '{file}'; wait")
}

/// Waits until the recipe above runs, and returns its processes.
async fn processes(file: &Path) -> Vec<String> {
    let what = format!("a recipe that writes {}", file.display());
    let numbers = eventually(&what, async || fs::read_to_string(file).ok()).await;
    numbers.split_whitespace().map(str::to_owned).collect()
}

async fn wait_until_gone(processes: &[String]) {
    let is_alive = |pid: &String| {
        let said = std::process::Command::new("ps").args(["-o", "stat=", "-p", pid]).output().unwrap();
        let state = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        !state.is_empty() && !state.starts_with('Z')
    };
    eventually("the end of all processes", async || (!processes.iter().any(is_alive)).then_some(())).await;
}
