//! The user's commands, and what they leave on the machine.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use baton_server::crash;
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::github::{self, Github};
use super::tail::Tail;
use super::words::{Hook, Input, Job};
use crate::commands::worker::build::orphans::{Family, Orphanage};
use crate::commands::worker::build::places::{WorkDirectory, remove_tree};
use crate::commands::worker::build::run::without_baton;
use crate::commands::worker::group::{Group, TERMINATE_GRACE};

/// How long pipes may stay open after a hook has failed, held by something that it has left behind.
pub(super) const LEFTOVER_GRACE: Duration = Duration::from_millis(500);

/// How the shell ends when there is no such command.
const NOT_FOUND: &str = "exit status: 127";

/// The variable that has the run's directory. Whatever runs for the run is known by it, wherever it went.
const DIRECTORY: &str = "BATON_WORK_DIR";

/// Runs the hook with a watcher beside it, in one group. The watcher reads from a pipe that only the agent can write to, so that it hears of the agent's death, whatever that died of,
/// and takes the group along. Until then it keeps the group's number from being given to a stranger. It has no environment: jobs could read the hook's secrets there.
const WATCHED: &str = "exec 3<&0 </dev/null
env -i /bin/sh -c 'trap \"\" TERM INT HUP; read -r goodbye; kill -s KILL 0' <&3 3<&- >/dev/null 2>&1 &
exec 3<&-
exec /bin/sh -c \"$1\"";

/// What hooks are told besides their run.
#[derive(Clone, Debug)]
pub struct About {
    /// The pool.
    pub pool: String,
    /// Its namespace.
    pub namespace: String,
    /// The runner's identifier.
    pub runner_id: String,
    /// The provider's name for the machine.
    pub machine_id: String,
}

/// What is to be done.
#[derive(Debug)]
pub enum Task {
    /// Run the hook that registers.
    Register(Job),
    /// Run the hook that deregisters, after the other one.
    Deregister(Job),
    /// Remove what the run has left.
    Clean,
}

/// The hooks of one agent, and what they started.
pub struct Hooks {
    pub register: Option<String>,
    pub deregister: Option<String>,
    /// Where those are that begin with `./` or `../`: what they work in is empty.
    pub directory: PathBuf,
    /// Instead of those: the machine becomes a runner of GitHub.
    pub github: Option<Arc<Github>>,
    pub timeout: Duration,
    pub about: About,
    pub work: WorkDirectory,
    pub orphanage: Orphanage,
}

/// What belongs to a run: its directory, and whatever runs for it.
struct Place {
    directory: PathBuf,
    /// What the hook that registered has started, and that goes on.
    service: Option<Service>,
    family: Family,
}

/// What goes on after a machine was registered. Dropping it ends it.
enum Service {
    /// What a command left running.
    Group(Group),
    /// What sees to it that there is a runner of GitHub.
    Github(JoinSet<()>),
}

impl Service {
    /// Nothing of it runs any more when this returns.
    async fn end(self) {
        match self {
            Service::Group(group) => drop(group),
            Service::Github(mut keeper) => keeper.shutdown().await,
        }
    }
}

impl Hooks {
    /// Carries out tasks one by one until there are no more to come, and leaves nothing behind then.
    pub async fn work(self, tasks: mpsc::Receiver<Task>, inputs: mpsc::Sender<Input>) {
        Arc::new(self).carry_on(tasks, inputs).await;
    }

    async fn carry_on(self: Arc<Hooks>, mut tasks: mpsc::Receiver<Task>, inputs: mpsc::Sender<Input>) {
        let mut place = None;
        let mut next = tasks.recv().await;
        while let Some(task) = next.take() {
            let input = match task {
                Task::Register(job) => {
                    let mut result = Err("something else was wanted".into());
                    tokio::select! {
                        done = self.register(&job, &mut place) => {
                            crash::point("agent.hooked");
                            result = done;
                        }
                        // Dropping the hook kills it.
                        Some(other) = tasks.recv() => next = Some(other),
                    }
                    Input::Hook(Hook::Register, result)
                }
                Task::Deregister(job) => {
                    let done = self.deregister(&job, &mut place).await;
                    crash::point("agent.unhooked");
                    Input::Hook(Hook::Deregister, done)
                }
                Task::Clean => {
                    let done = clean(&mut place).await;
                    crash::point("agent.cleaned");
                    Input::Cleaned(done.map_err(|error| error.to_string()))
                }
            };
            if inputs.send(input).await.is_err() {
                break;
            }
            if next.is_none() {
                next = tasks.recv().await;
            }
        }
        if let Err(error) = clean(&mut place).await {
            tracing::warn!(%error, "something of the last run is left");
        }
    }

    async fn register(self: &Arc<Hooks>, job: &Job, place: &mut Option<Place>) -> Result<(), String> {
        let made = self.place(job).map_err(|error| format!("cannot make a directory for the run: {error}"))?;
        let place = place.insert(made);
        if let Some(github) = &self.github {
            place.service = Some(Service::Github(github::register(self, github, job, &place.directory).await?));
            return Ok(());
        }
        let Some(command) = &self.register else { return Ok(()) };
        place.service = Some(Service::Group(self.run(command, job, &place.directory).await?));
        Ok(())
    }

    async fn deregister(&self, job: &Job, place: &mut Option<Place>) -> Result<(), String> {
        if let Some(github) = &self.github {
            // GitHub does not let go of a runner that is at work.
            if let Some(service) = place.as_mut().and_then(|place| place.service.take()) {
                service.end().await;
            }
            return github.deregister(self.timeout).await;
        }
        let Some(command) = &self.deregister else { return Ok(()) };
        let directory = match place {
            Some(place) => place.directory.clone(),
            None => self.work.path().to_owned(),
        };
        // What it leaves running ends with it: nothing is to go on after this.
        self.run(command, job, &directory).await.map(drop)
    }

    fn place(&self, job: &Job) -> io::Result<Place> {
        let directory = self.work.fresh(&format!("run-{}", job.epoch))?;
        let family = self.orphanage.family(DIRECTORY, &directory);
        Ok(Place { directory, service: None, family })
    }

    /// Runs a hook to its end. What it has left running is in the group that is returned.
    async fn run(&self, hook: &str, job: &Job, directory: &Path) -> Result<Group, String> {
        let located = located(hook, &self.directory);
        self.carry_out(self.command(&located, job, directory)).await.map_err(|why| match why.strip_prefix(NOT_FOUND) {
            Some(said) => format!(
                "{NOT_FOUND} (not found; hooks work in an empty directory, and ./ before one is {}){said}",
                self.directory.display()
            ),
            None => why,
        })
    }

    /// As `run`, with a command that was made ready.
    pub(super) async fn carry_out(&self, command: Command) -> Result<Group, String> {
        let mut group = Group::start(command).map_err(|error| format!("cannot start the hook: {error}"))?;
        let tail = Tail::of(group.child.stdout.take(), group.child.stderr.take());
        // Waiting for a child closes its pipe, and the watcher is to wait at it for as long as the group is wanted.
        let pipe = group.child.stdin.take();
        let why = match timeout(self.timeout, group.child.wait()).await {
            Ok(Ok(status)) if status.success() => {
                group.child.stdin = pipe;
                return Ok(group);
            }
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => format!("cannot wait for the hook: {error}"),
            Err(_) => {
                group.signal(libc::SIGTERM);
                let _ = timeout(TERMINATE_GRACE, group.child.wait()).await;
                format!("the hook took longer than {:?}", self.timeout)
            }
        };
        drop(group);
        let said = tail.end(LEFTOVER_GRACE).await;
        Err(if said.is_empty() { why } else { format!("{why}\n{said}") })
    }

    /// A hook, made ready to be run.
    pub(super) fn command(&self, hook: &str, job: &Job, directory: &Path) -> Command {
        let mut command = Command::new("/bin/sh");
        without_baton(&mut command);
        command
            .args(["-c", WATCHED, "hook", hook])
            .current_dir(directory)
            .env("BATON_RUN_ID", job.run_id.as_deref().unwrap_or_default())
            .env("BATON_POOL", &self.about.pool)
            .env("BATON_NAMESPACE", &self.about.namespace)
            .env("BATON_RUNNER_ID", &self.about.runner_id)
            .env("BATON_MACHINE_ID", &self.about.machine_id)
            .env("BATON_DEADLINE", job.until.map(|until| until.to_string()).unwrap_or_default())
            .env(DIRECTORY, directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

/// A hook that begins with `./` or `../`, with the directory that this is.
fn located(hook: &str, directory: &Path) -> String {
    let hook = hook.trim_start();
    if hook.starts_with("./") || hook.starts_with("../") {
        // Quoted for the shell, whatever the directory is called.
        let quoted = directory.display().to_string().replace('\'', r"'\''");
        return format!("'{quoted}'/{hook}");
    }
    hook.to_owned()
}

/// Ends whatever runs for the run, and removes its directory.
async fn clean(place: &mut Option<Place>) -> io::Result<()> {
    let Some(Place { directory, service, family }) = place.take() else { return Ok(()) };
    if let Some(service) = service {
        service.end().await;
    }
    family.end().await;
    drop(family);
    tokio::task::spawn_blocking(move || remove_tree(&directory)).await.map_err(io::Error::other)?
}

#[cfg(test)]
#[path = "hooks_tests.rs"]
mod tests;
