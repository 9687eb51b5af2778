//! Carrying out a plan: every step in a group of its own, read line by line, stopped when there is a reason to.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use baton::runs::{Cancel, Failure, Stop};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::isolation::{Beside, Environment, Plan, SHELL, Step};
use super::leash::Leash;
use super::logs::Logs;
use super::orphans::Family;
use crate::commands::worker::group::Group;
use crate::os;

/// How long a machine may take until it can be used.
const READY_TIMEOUT: Duration = Duration::from_secs(300);
const READY_PAUSE: Duration = Duration::from_secs(1);
/// How long one step of cleaning up may take.
pub const CLEAN_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the pipes of a command may stay open after its group was killed, held by something that left the group.
const LEFTOVER_GRACE: Duration = Duration::from_secs(5);

/// Runs a plan. Whatever happens, nothing of it is left.
/// `family` is what the build starts, where that may go further than its group.
pub async fn run(
    plan: &Plan,
    time: Option<Duration>,
    cancel: &Cancel,
    logs: &Logs,
    family: Option<&Family>,
) -> Result<(), Failure> {
    let leash = Leash::attach(&plan.clean).map_err(|error| format!("cannot watch over the build: {error}"))?;
    let deadline = time.map(|time| (Instant::now() + time, time));
    let mut runner = Runner { plan, cancel, logs, deadline, leash, family };
    let outcome = runner.all().await;
    for step in &plan.clean {
        runner.clean(step).await;
    }
    runner.leash.let_go().await;
    outcome
}

/// Does something that can be dropped at any time, until there is a reason to stop.
pub async fn unless_stopped<T>(cancel: &Cancel, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::select! {
        done = work => done,
        why = cancel.stopped() => Err(stopped(why)),
    }
}

fn stopped(why: Stop) -> Failure {
    let message = match why {
        Stop::Cancelled => "the build was cancelled",
        Stop::LeaseLost => "the build is no longer this worker's",
        Stop::Shutdown => "the worker is stopping",
    };
    Failure::new(message).code("stopped")
}

struct Runner<'a> {
    plan: &'a Plan,
    cancel: &'a Cancel,
    logs: &'a Logs,
    deadline: Option<(Instant, Duration)>,
    leash: Leash,
    family: Option<&'a Family>,
}

impl Runner<'_> {
    async fn all(&mut self) -> Result<(), Failure> {
        for step in &self.plan.prepare {
            let status = self.step(step, os::Limits::default()).await?;
            works(step, status)?;
        }
        let beside = match &self.plan.beside {
            Some(beside) => Some(self.start_beside(beside).await?),
            None => None,
        };
        let status = self.step(&self.plan.build, self.plan.limits).await;
        if let Some((machine, _reading)) = beside {
            self.end(machine).await;
        }
        match status? {
            status if status.success() => Ok(()),
            status => {
                let excuse = match &self.plan.container {
                    Some(container) => container.excuse(status).await,
                    None => None,
                };
                Err(excuse.unwrap_or_else(|| {
                    Failure::new(format!("the recipe did not work: {status}")).code("recipe").not_retryable()
                }))
            }
        }
    }

    /// Runs one command to its end.
    async fn step(&mut self, step: &Step, limits: os::Limits) -> Result<ExitStatus, Failure> {
        let mut group = self.start(step, limits).await?;
        let readers = self.read(&mut group);
        let outcome = tokio::select! {
            status = group.child.wait() => {
                status.map_err(|error| Failure::new(format!("cannot wait for {}: {error}", step.program)))
            }
            why = self.cancel.stopped() => {
                group.stop(why).await;
                Err(stopped(why))
            }
            time = too_long(self.deadline) => {
                group.stop(Stop::Cancelled).await;
                Err(Failure::new(format!("the build took longer than {time:?}")).code("timeout").not_retryable())
            }
        };
        self.end(group).await;
        if let Some(family) = self.family {
            family.end().await;
        }
        let _ = timeout(LEFTOVER_GRACE, readers).await;
        outcome
    }

    async fn start(&mut self, step: &Step, limits: os::Limits) -> Result<Group, Failure> {
        // What is alone with its group must not begin before the leash holds that: a worker killed in between would
        // leave the group's children behind.
        let mut command = match self.family {
            Some(_) => waiting(step, &self.plan.environment),
            None => command(step, &self.plan.environment),
        };
        command.current_dir(&self.plan.directory);
        os::limit(&mut command, limits);
        let mut group = Group::start(command)
            .map_err(|error| Failure::new(format!("cannot start {}: {error}", step.program)).code("worker"))?;
        if let Some(number) = group.number() {
            self.leash.hold(number).await;
        }
        if let Some(mut pipe) = group.child.stdin.take() {
            // A command that is gone already says so when it is waited for.
            let _ = pipe.write_all(b"\n").await;
        }
        Ok(group)
    }

    /// Passes on what a command prints, until nothing can print any more.
    fn read(&self, group: &mut Group) -> impl Future<Output = ()> + use<> {
        let (stdout, stderr) = (group.child.stdout.take(), group.child.stderr.take());
        let (out, err) = (self.logs.clone(), self.logs.clone());
        let mut readers = JoinSet::new();
        if let Some(pipe) = stdout {
            readers.spawn(out.read(pipe, "info"));
        }
        if let Some(pipe) = stderr {
            readers.spawn(err.read(pipe, "warn"));
        }
        async move { while readers.join_next().await.is_some() {} }
    }

    /// Kills what is left of a group.
    async fn end(&mut self, group: Group) {
        let number = group.number();
        drop(group);
        if let Some(number) = number {
            self.leash.release(number).await;
        }
    }

    /// Starts the machine and waits until it can be used. What it prints is read until the second value is dropped.
    async fn start_beside(&mut self, beside: &Beside) -> Result<(Group, JoinSet<()>), Failure> {
        let mut group = self.start(&beside.step, os::Limits::default()).await?;
        let mut reading = JoinSet::new();
        reading.spawn(self.read(&mut group));
        let until = Instant::now() + READY_TIMEOUT;
        loop {
            if let Ok(Some(status)) = group.child.try_wait() {
                self.end(group).await;
                return Err(Failure::new(format!("the machine ended before it could be used: {status}")).code("worker"));
            }
            let answer = self.step(&beside.ready, os::Limits::default()).await;
            match answer {
                Ok(status) if status.success() => return Ok((group, reading)),
                Ok(_) if Instant::now() < until => sleep(READY_PAUSE).await,
                Ok(_) => {
                    self.end(group).await;
                    let message = format!("the machine could not be used after {READY_TIMEOUT:?}");
                    return Err(Failure::new(message).code("worker"));
                }
                Err(failure) => {
                    self.end(group).await;
                    return Err(failure);
                }
            }
        }
    }

    async fn clean(&mut self, step: &Step) {
        let mut command = command(step, &self.plan.environment);
        command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        match timeout(CLEAN_TIMEOUT, command.status()).await {
            Ok(Ok(status)) => tracing::debug!(program = %step.program, %status, "cleaned up"),
            Ok(Err(error)) => tracing::warn!(program = %step.program, %error, "cannot clean up"),
            Err(_) => tracing::warn!(program = %step.program, "cleaning up took too long"),
        }
    }
}

fn works(step: &Step, status: ExitStatus) -> Result<(), Failure> {
    match status.success() {
        true => Ok(()),
        false => Err(Failure::new(format!("{} did not work: {status}", step.program)).code("worker")),
    }
}

async fn too_long(deadline: Option<(Instant, Duration)>) -> Duration {
    match deadline {
        Some((at, time)) => {
            sleep_until(at).await;
            time
        }
        None => std::future::pending().await,
    }
}

fn command(step: &Step, environment: &Environment) -> Command {
    let mut command = Command::new(&step.program);
    command.args(&step.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    match environment {
        Environment::Only(variables) => {
            command.env_clear().envs(variables.iter().map(|(name, value)| (name, value)));
        }
        Environment::OfTheWorker => without_baton(&mut command),
    }
    command
}

/// The same command, which begins when it reads a line, and never if this worker dies before it writes one.
fn waiting(step: &Step, environment: &Environment) -> Command {
    const SCRIPT: &str = "read -r line || exit 1; exec \"$0\" \"$@\" </dev/null";
    let arguments = [SCRIPT.to_owned(), step.program.clone()].into_iter().chain(step.arguments.iter().cloned());
    let shell =
        Step { program: SHELL.to_owned(), arguments: std::iter::once("-c".to_owned()).chain(arguments).collect() };
    let mut command = command(&shell, environment);
    command.stdin(Stdio::piped());
    command
}

/// Takes away what a worker knows of its server, above all its key.
pub fn without_baton(command: &mut Command) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("BATON_")) {
        command.env_remove(name);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    /// Starts a command that says what it was told, and what it may read.
    fn start() -> Group {
        let arguments = ["-ec", "echo \"$0 $1\"; cat; echo end", "a b", "it's \"c\""];
        let step = Step { program: SHELL.into(), arguments: arguments.map(str::to_owned).to_vec() };
        Group::start(waiting(&step, &Environment::Only(vec![]))).unwrap()
    }

    async fn said(group: &mut Group) -> String {
        let mut said = String::new();
        group.child.stdout.take().unwrap().read_to_string(&mut said).await.unwrap();
        said
    }

    #[tokio::test]
    async fn a_command_begins_when_it_is_told_to() {
        let mut group = start();
        group.child.stdin.take().unwrap().write_all(b"\n").await.unwrap();
        assert_eq!(said(&mut group).await, "a b it's \"c\"\nend\n");
        assert!(group.child.wait().await.unwrap().success());
    }

    #[tokio::test]
    async fn a_command_whose_worker_dies_before_never_begins() {
        let mut group = start();
        // As the death of this program would.
        drop(group.child.stdin.take());
        assert_eq!(said(&mut group).await, "");
        assert_eq!(group.child.wait().await.unwrap().code(), Some(1));
    }
}
