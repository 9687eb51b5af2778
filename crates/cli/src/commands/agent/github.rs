//! The hook `github`: this machine is a runner of GitHub for as long as it is claimed.
//!
//! The server has GitHub expect a runner whose only label is the run; the agent starts it, and takes "Listening for Jobs" for its word: it says so when GitHub has given it a session, so it
//! can get jobs from then on, and nobody has to ask GitHub, which counts calls. Such a runner is good for one job. For as long as the run keeps the machine, there is another after it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton::proto::{RegisterRunner, RunnerRegistration};
use baton::{Client, ClientError};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::hooks::{Hooks, LEFTOVER_GRACE};
use super::tail::Tail;
use super::words::Job;
use crate::commands::worker::group::Group;

/// What the runner prints when it can get jobs.
const LISTENS: &str = "Listening for Jobs";
/// How long the server may take: it tries GitHub several times.
const CALL_TIMEOUT: Duration = Duration::from_secs(40);
/// How long it may take to deregister. A machine that ends because there is no server does not wait longer for one.
const DEREGISTER_MAX: Duration = Duration::from_secs(45);
/// Pause before something is tried again; doubles each time.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// What the server says when GitHub has said no, or nothing for too long.
const GITHUB_FAILED: &str = "github_failed";

/// Copies the runner into the directory of the run, where the system can without copying its bytes. It writes beside its programs, so links would not do.
const COPY: &str = "cp -a --reflink=auto \"$RUNNER_DIRECTORY/.\" . 2>/dev/null || cp -Rp \"$RUNNER_DIRECTORY/.\" .";
/// Secrets are in the environment, where the runner looks for them too: everybody on the machine can read arguments.
const CONFIGURE: &str = "rm -f .runner .credentials .credentials_rsaparams
exec ./config.sh --unattended --ephemeral --replace --disableupdate --no-default-labels \\
  --url \"$RUNNER_URL\" --name \"$RUNNER_NAME\" --labels \"$BATON_RUN_ID\"";
const RUN: &str = "exec ./run.sh";
const JIT_VARIABLE: &str = "ACTIONS_RUNNER_INPUT_JITCONFIG";
const TOKEN_VARIABLE: &str = "ACTIONS_RUNNER_INPUT_TOKEN";

/// The way to GitHub, which leads over the server.
pub struct Github {
    client: Client,
    runner: String,
    token: String,
    /// Where GitHub's runner is.
    directory: PathBuf,
}

/// A runner that listens for jobs. Dropping it kills it.
struct Listening(Group);

impl Github {
    /// For the agent with this token.
    pub fn new(client: &Client, runner: &str, token: &str, directory: PathBuf) -> Github {
        let client = client.clone().with_timeout(CALL_TIMEOUT);
        Github { client, runner: runner.into(), token: token.into(), directory }
    }

    /// What it takes to be a runner for the run. A server that does not answer is asked again.
    async fn ask(&self, job: &Job) -> Result<RunnerRegistration, ClientError> {
        let wanted = RegisterRunner { run_id: job.run_id.clone().unwrap_or_default(), epoch: job.epoch };
        loop {
            match self.client.register_runner(&self.runner, &self.token, &wanted).await {
                Err(error) if is_passing(&error) => {
                    tracing::warn!(%error, "the server does not say how to register; asking again");
                    sleep(PAUSE_FIRST).await;
                }
                answer => return answer,
            }
        }
    }

    /// Has the server take the runner back. It has nothing to do any more, so this is only about what GitHub shows.
    pub async fn deregister(&self, most: Duration) -> Result<(), String> {
        let asked = async {
            loop {
                match self.client.deregister_runner(&self.runner, &self.token).await {
                    Err(error) if is_passing(&error) => {
                        tracing::warn!(%error, "the server does not deregister; asking again");
                        sleep(PAUSE_FIRST).await;
                    }
                    answer => return answer.map_err(|error| error.to_string()),
                }
            }
        };
        timeout(most.min(DEREGISTER_MAX), asked)
            .await
            .unwrap_or_else(|_| Err("no server has deregistered it in time".into()))
    }
}

/// Whether the same call may go better. What GitHub says was asked for often enough.
fn is_passing(error: &ClientError) -> bool {
    error.is_transient() && error.code() != Some(GITHUB_FAILED)
}

/// Whether the server had no registration for this machine, and knows it: GitHub gave none, or the
/// claim is over.
fn is_decided(error: &ClientError) -> bool {
    error.code() == Some(GITHUB_FAILED) || matches!(error, ClientError::Refused { status: 409, .. })
}

/// Makes this machine a runner for a run. What is returned sees to it that it stays one; dropping that ends it.
pub async fn register(
    hooks: &Arc<Hooks>,
    github: &Arc<Github>,
    job: &Job,
    directory: &Path,
) -> Result<JoinSet<()>, String> {
    let begun = async {
        let mut copy = hooks.command(COPY, job, directory);
        copy.env("RUNNER_DIRECTORY", &github.directory);
        let copied = async { hooks.carry_out(copy).await.map_err(|why| format!("cannot copy GitHub's runner: {why}")) };
        let asked = async {
            match github.ask(job).await {
                // The server has decided what becomes of this machine, which may be well: that it
                // goes back to its pool until GitHub answers. Its order is on the way, and takes
                // the place of this.
                Err(error) if is_decided(&error) => {
                    tracing::warn!(%error, "this machine is not registered now; waiting for what the server wants instead");
                    std::future::pending().await
                }
                answer => answer.map_err(|error| said(&error)),
            }
        };
        let (_, registration) = tokio::try_join!(copied, asked)?;
        listen(hooks, job, directory, registration).await
    };
    let late = |_| Err(format!("GitHub's runner did not listen for jobs within {:?}", hooks.timeout));
    let listening = timeout(hooks.timeout, begun).await.unwrap_or_else(late)?;
    let mut service = JoinSet::new();
    service.spawn(stay(hooks.clone(), github.clone(), job.clone(), directory.to_owned(), listening));
    Ok(service)
}

/// What the server said, without its status: people read it beside the claim.
fn said(error: &ClientError) -> String {
    match error {
        ClientError::Refused { message, .. } => message.clone(),
        ClientError::Unreachable(_) | ClientError::Untrusted(_) | ClientError::Decode(_) | ClientError::Invalid(_) => {
            error.to_string()
        }
    }
}

/// Starts the runner, and waits until it can get jobs.
async fn listen(
    hooks: &Hooks,
    job: &Job,
    directory: &Path,
    registration: RunnerRegistration,
) -> Result<Listening, String> {
    let mut run = hooks.command(RUN, job, directory);
    match registration {
        RunnerRegistration::Jit { name, config } => {
            tracing::info!(name, "starting a runner with a configuration of its own");
            run.env(JIT_VARIABLE, config);
        }
        RunnerRegistration::Token { name, url, token } => {
            tracing::info!(name, url, "registering a runner with a token");
            let mut configure = hooks.command(CONFIGURE, job, directory);
            configure.env("RUNNER_URL", url).env("RUNNER_NAME", name).env(TOKEN_VARIABLE, token);
            hooks.carry_out(configure).await.map_err(|why| format!("config.sh: {why}"))?;
        }
    }
    let mut group = Group::start(run).map_err(|error| format!("cannot start run.sh: {error}"))?;
    let tail = Tail::looking_for(LISTENS, group.child.stdout.take(), group.child.stderr.take());
    // Waiting for a child closes its pipe, and the watcher beside it is to wait there.
    let pipe = group.child.stdin.take();
    let ended = tokio::select! {
        () = tail.found() => None,
        ended = group.child.wait() => Some(ended),
    };
    group.child.stdin = pipe;
    let why = match ended {
        None => return Ok(Listening(group)),
        Some(Ok(status)) => status.to_string(),
        Some(Err(error)) => error.to_string(),
    };
    drop(group);
    let words = tail.end(LEFTOVER_GRACE).await;
    Err(format!("run.sh ended before it listened for jobs: {why}\n{words}"))
}

/// Starts the next runner when one has done its job, for as long as this machine is the run's.
async fn stay(hooks: Arc<Hooks>, github: Arc<Github>, job: Job, directory: PathBuf, first: Listening) {
    let mut listening = first;
    let mut pause = PAUSE_FIRST;
    loop {
        let pipe = listening.0.child.stdin.take();
        let ended = listening.0.child.wait().await;
        drop((pipe, listening));
        tracing::info!(?ended, "the runner has ended, and the run still has this machine");
        let mut is_well = ended.is_ok_and(|status| status.success());
        listening = loop {
            if is_well {
                pause = PAUSE_FIRST;
            } else {
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
            match timeout(hooks.timeout, next(&hooks, &github, &job, &directory)).await {
                Ok(Next::Listens(listening)) => break listening,
                Ok(Next::IsOver) => return,
                Ok(Next::Failed(why)) => tracing::warn!(why, "the next runner does not start; trying again"),
                Err(_) => tracing::warn!("the next runner does not listen for jobs; trying again"),
            }
            is_well = false;
        };
    }
}

/// What became of the next runner.
enum Next {
    Listens(Listening),
    Failed(String),
    /// The run does not have this machine any more. The server says what is to be done instead.
    IsOver,
}

async fn next(hooks: &Hooks, github: &Github, job: &Job, directory: &Path) -> Next {
    let registration = match github.ask(job).await {
        Ok(registration) => registration,
        Err(ClientError::Refused { status: 401 | 403 | 404 | 409, .. }) => return Next::IsOver,
        Err(error) => return Next::Failed(said(&error)),
    };
    listen(hooks, job, directory, registration).await.map_or_else(Next::Failed, Next::Listens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: &str) -> ClientError {
        ClientError::Refused {
            status,
            code: code.into(),
            message: "GitHub answered 403: no".into(),
            field: None,
            retry_after: None,
        }
    }

    #[test]
    fn what_github_refuses_is_told_and_not_asked_for_again() {
        assert!(!is_passing(&refused(502, GITHUB_FAILED)) && is_passing(&refused(502, "http_502")));
        assert!(is_passing(&ClientError::Unreachable("x".into())) && !is_passing(&refused(409, "conflict")));
        assert_eq!(said(&refused(502, GITHUB_FAILED)), "GitHub answered 403: no");
        assert!(is_decided(&refused(502, GITHUB_FAILED)) && is_decided(&refused(409, "conflict")));
        assert!(!is_decided(&refused(403, "forbidden")) && !is_decided(&ClientError::Unreachable("x".into())));
    }
}
