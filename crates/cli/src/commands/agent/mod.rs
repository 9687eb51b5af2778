//! `baton agent`: speaks for one machine of a pool.

mod ending;
mod github;
mod hooks;
mod link;
mod machine;
mod tail;
mod words;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton::Client;
use baton::background::Background;
use baton::proto::{JoinRunner, JoinedRunner, RunnerAction};
use baton_server::crash;
use clap::{Args, ValueEnum};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::commands::worker::build::orphans::Orphanage;
use crate::commands::worker::build::places::WorkDirectory;
use crate::connection::Connection;
use crate::exit::Exit;
use crate::logging::LogArgs;
use crate::{caches, duration, os, signals};
use ending::EndWith;
use github::Github;
use hooks::{About, Hooks, Task};
use link::{Link, NotJoined};
use machine::Agent;
use words::{Action, Input, Patience, Why};

/// Orphans that ended by themselves only take up a number; there may be many agents on one machine, and each has to look at all processes for them.
const BURY_EVERY: Duration = Duration::from_secs(30);
/// What the agent has heard and not looked at. Whoever has more to say waits.
const INPUTS_MAX: usize = 64;
/// Tasks for hooks that wait for the one before: the rules ask for one at a time, and for one more in its place.
const TASKS_MAX: usize = 4;
/// How long what a run has left may take to go away when the agent ends.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a server is looked for that has not said yet how long it may be away.
const JOIN_PATIENCE: Duration = Duration::from_secs(600);
const NONCE_BYTES: usize = 16;

/// How a machine is registered for a run.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum HookKind {
    /// By shell commands.
    Command,
    /// As a runner of GitHub.
    Github,
}

#[derive(Args)]
pub struct AgentArgs {
    /// What lets this machine join its pool; its provider gives it.
    #[arg(long, env = "BATON_JOIN_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    join_token: Option<String>,
    /// The provider's name for this machine. [default: the host name]
    #[arg(long, env = "BATON_MACHINE_ID", value_name = "ID")]
    machine_id: Option<String>,
    /// How this machine is registered for a run: by shell commands, or as a runner of GitHub.
    #[arg(long, env = "BATON_AGENT_HOOK", default_value = "command", value_name = "HOW", hide_possible_values = true)]
    hook: HookKind,
    /// Where GitHub's runner is (its run.sh and config.sh), for the hook github. It is copied for each run.
    #[arg(long, env = "BATON_AGENT_GITHUB_RUNNER", default_value = "/opt/actions-runner", value_name = "DIR")]
    github_runner: PathBuf,
    /// Shell command that registers this machine for a run. Without one it counts as registered at once.
    #[arg(long, env = "BATON_AGENT_REGISTER_HOOK", value_name = "COMMAND")]
    register_hook: Option<String>,
    /// Shell command that takes the registration back.
    #[arg(long, env = "BATON_AGENT_DEREGISTER_HOOK", value_name = "COMMAND")]
    deregister_hook: Option<String>,
    /// Where hooks are that begin with ./ or ../. They work in an empty directory of the run.
    /// [default: where the agent was started]
    #[arg(long, env = "BATON_AGENT_HOOK_DIRECTORY", value_name = "DIR")]
    hook_dir: Option<PathBuf>,
    /// Longest time a hook may take.
    #[arg(long, env = "BATON_AGENT_HOOK_TIMEOUT", default_value = "2m", value_name = "SPAN", value_parser = duration::parse_positive)]
    hook_timeout: Duration,
    /// Where runs work. Each run's part is removed after it. [default: a directory of this user's caches]
    #[arg(long, env = "BATON_AGENT_WORK_DIRECTORY", value_name = "DIR")]
    work_dir: Option<PathBuf>,
    /// How this machine ends: exit (the agent's process), shutdown, or a shell command.
    #[arg(long, env = "BATON_AGENT_END_WITH", default_value = "exit", value_name = "HOW", value_parser = EndWith::parse)]
    end_with: EndWith,
    /// How long after its run's deadline this machine ends by itself.
    #[arg(long, env = "BATON_AGENT_OVERTIME", default_value = "1m", value_name = "SPAN", value_parser = duration::parse)]
    overtime: Duration,
    /// How long the server may be out of reach before this machine ends by itself. [default: what the server says]
    #[arg(long, env = "BATON_AGENT_UNREACHABLE", value_name = "SPAN", value_parser = duration::parse_positive)]
    unreachable: Option<Duration>,
    #[command(flatten)]
    log: LogArgs,
}

/// Speaks for this machine until it ends.
pub async fn agent(connection: &Connection, args: AgentArgs) -> Result<(), Exit> {
    args.log.start()?;
    let token = args.join_token.as_deref().ok_or_else(|| {
        Exit::usage("a join token is wanted: --join-token or BATON_JOIN_TOKEN; the provider of the pool gives it to its machines")
    })?;
    let machine_id =
        args.machine_id.clone().or_else(os::hostname).ok_or_else(|| Exit::usage("--machine-id is wanted"))?;
    let shutdown = signals::shutdown()?;
    // Jobs may run as this same user, and the tokens are in our environment and memory.
    os::hide_from_others()?;
    let tls = connection.tls.for_agent().options(None)?;
    let client = Client::new_with_tls(&connection.find_url(), "", &tls)?;
    let directory = args.work_dir.clone().unwrap_or_else(|| caches::directory().join("agents"));
    let work = WorkDirectory::open(&directory)
        .map_err(|error| Exit::failed(format!("cannot use {}: {error}", directory.display())))?;
    let hook_directory = std::path::absolute(args.hook_dir.clone().unwrap_or_else(|| PathBuf::from(".")))
        .map_err(|error| Exit::failed(format!("cannot tell where hooks are: {error}")))?;
    let orphanage = Orphanage::open(BURY_EVERY)?;
    let mut shutdown = std::pin::pin!(shutdown);
    crash::point("agent.started");
    // Kept in memory alone: jobs could read it anywhere else, and speak for the machine. An agent that falls does not come back, and the server replaces its machine.
    let join = JoinRunner { machine_id: machine_id.clone(), nonce: nonce()? };
    let joined = tokio::select! {
        joined = link::join(&client, token, &join, args.unreachable.unwrap_or(JOIN_PATIENCE)) => joined,
        () = &mut shutdown => return args.end_with.end(Why::Stopped).await,
    };
    let joined = match joined {
        Ok(joined) => joined,
        // Nobody will ever ask for this machine.
        Err(NotJoined::Refused(error)) => return args.end_with.end(Why::Disowned(error.to_string())).await,
        Err(NotJoined::Unreachable(error)) => {
            tracing::error!(%error, "no server to join");
            return args.end_with.end(Why::Unreachable).await;
        }
    };
    crash::point("agent.joined");
    tracing::info!(runner_id = %joined.runner_id, pool = %joined.pool, namespace = %joined.namespace, "joined");
    let about = About {
        pool: joined.pool.clone(),
        namespace: joined.namespace.clone(),
        runner_id: joined.runner_id.clone(),
        machine_id,
    };
    let github = match args.hook {
        HookKind::Command => None,
        HookKind::Github => Some(Arc::new(Github::new(&client, &joined.runner_id, &joined.token, args.github_runner))),
    };
    let hooks = Hooks {
        register: args.register_hook,
        deregister: args.deregister_hook,
        directory: hook_directory,
        github,
        timeout: args.hook_timeout,
        about,
        work,
        orphanage,
    };
    let unreachable = args.unreachable.unwrap_or(Duration::from_millis(joined.abandon_ms));
    let patience = Patience { overtime_ms: ms(args.overtime), unreachable_ms: ms(unreachable) };
    let why = live(&client, &joined, hooks, patience, shutdown).await;
    args.end_with.end(why).await
}

/// Does what the rules say, until they say that it is over.
async fn live(
    client: &Client,
    joined: &JoinedRunner,
    hooks: Hooks,
    patience: Patience,
    mut shutdown: std::pin::Pin<&mut impl Future<Output = ()>>,
) -> Why {
    let begun = Instant::now();
    let now = || ms(begun.elapsed());
    let (inputs, mut heard) = mpsc::channel(INPUTS_MAX);
    let (tasks, to_do) = mpsc::channel(TASKS_MAX);
    let (say, said) = watch::channel(None);
    let mut hands = tokio::spawn(hooks.work(to_do, inputs.clone()));
    let link = Link::new(client, joined, inputs);
    // On a thread of their own: whatever keeps the others must not cost the machine. All of it ends
    // with this.
    let background = match Background::start("baton-agent") {
        Ok(background) => background,
        Err(error) => {
            tracing::error!(%error, "nobody would hear of this machine");
            return Why::Confused;
        }
    };
    background.spawn(link.clone().beat(Duration::from_millis(joined.heartbeat_ms.max(1))));
    background.spawn(link.clone().listen(joined.order.serial.clone()));
    background.spawn(link.speak(said));
    let (mut agent, mut actions) = Agent::joined(patience, &joined.order, now());
    let mut is_stopping = false;
    let why = 'life: loop {
        for action in actions {
            tracing::debug!(?action, "to do");
            let task = match action {
                Action::Register(job) => {
                    crash::point("agent.register");
                    Task::Register(job)
                }
                Action::Deregister(job) => {
                    crash::point("agent.deregister");
                    Task::Deregister(job)
                }
                Action::Clean => Task::Clean,
                Action::Say(signal) => {
                    say.send_replace(Some(signal));
                    continue;
                }
                Action::End(why) => {
                    crash::point("agent.ending");
                    break 'life why;
                }
            };
            if tasks.send(task).await.is_err() {
                tracing::error!("the hooks fell over");
                break 'life Why::Confused;
            }
        }
        let input = tokio::select! {
            Some(input) = heard.recv() => input,
            () = wait_until(agent.wake_at().map(|at| begun + Duration::from_millis(at.unsigned_abs()))) => Input::Time,
            () = &mut shutdown, if !is_stopping => {
                is_stopping = true;
                Input::Stop
            }
        };
        tracing::debug!(?input, "heard");
        if matches!(&input, Input::Order(order) if order.action == RunnerAction::Keep && order.deadline.is_some()) {
            crash::point("agent.kept");
        }
        actions = agent.hear(input, now());
    };
    // Nothing of a run stays behind, whatever happens to the machine.
    drop((tasks, heard));
    if timeout(LEAVE_TIMEOUT, &mut hands).await.is_err() {
        tracing::warn!("the last run's leavings do not go away");
        hands.abort();
    }
    why
}

async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn ms(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

fn nonce() -> Result<String, Exit> {
    let mut random = [0; NONCE_BYTES];
    getrandom::fill(&mut random)
        .map_err(|error| Exit::failed(format!("the system gives no random numbers: {error}")))?;
    Ok(format!("{:032x}", u128::from_be_bytes(random)))
}
