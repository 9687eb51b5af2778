//! The `baton` program: the server, the tools of those who submit and of those who work, the demo, the benchmark.

mod bench;
mod caches;
mod child;
mod commands;
mod connection;
mod contexts;
mod demo;
mod duration;
mod exit;
mod flag_names;
mod logging;
mod os;
mod output;
mod own;
#[cfg(test)]
mod reference;
mod signals;
mod tls;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use commands::{
    agent, audit, build, bulk, completion, context, doctor, events, key, login, man, namespace, open, pool, queue, run,
    schedule, secret, serve, settings, stats, storage, submit, top, webhook, worker, workflow,
};
use connection::Connection;
use exit::Exit;
use output::ColorChoice;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Hands each piece of work to exactly one worker, and reclaims it when that worker dies.
#[derive(Parser)]
#[command(name = "baton", version, propagate_version = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(flatten)]
    connection: Connection,
    /// When states are coloured.
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    color: ColorChoice,
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  baton demo                                  see work survive a killed worker, in ten seconds
  baton serve                                 start a server on 127.0.0.1:7400
  baton top                                   watch queues, runs, workers and pools, and act on them
  baton worker run --type greet --exec 'cat'  work on runs with a shell command
  baton run submit greet --input '{\"a\":1}' --wait
  baton workflow start process_order --queue orders --input '{\"id\":17}' --wait
  baton submit --platform ios                 have the current directory built
  baton worker build --platform ios --recipe './build.sh'
  baton pool claim linux --run-id ci-17 --count 4    machines for a CI run
  baton login https://baton.example.com              use a server elsewhere from now on

Exit codes:
  0 done   1 the run failed   2 usage   3 not found   4 refused   5 unreachable";

const SUBMIT_HELP: &str = "\
Packs what .gitignore and .batonignore files leave, uploads it, and follows the build: its place in the queue, its
worker, its log. What comes out is downloaded. Ctrl-C asks whether to cancel the build or to let it go on.

Examples:
  baton submit --platform ios
  baton submit app --platform ios --certs certs.zip --project shop --output app.ipa
  baton submit --platform android --priority 9 --detach --json
  baton submit --git https://git.example/acme/app.git --ref v1.2 --image debian:12

Ends with 0 when the build completed, with 1 when it failed or was cancelled, with 130 when you detached.";

const AGENT_HELP: &str = "\
Joins its pool, sends heartbeats, and does what the server says: for a run that claims this machine it runs the hook that registers, tells the
server how that went, and when the claim is released the hook that deregisters. Then whatever the run left is ended and removed, and the machine
is free for the next one. Providers start agents by themselves; by hand one is for trying things out.

Hooks are run by `sh -c` in a directory of the run, with BATON_RUN_ID, BATON_POOL, BATON_NAMESPACE, BATON_RUNNER_ID, BATON_MACHINE_ID,
BATON_DEADLINE and BATON_WORK_DIR in their environment. What the hook that registers leaves running goes on until the machine is
released, and ends with the agent, however that ends. A hook that ends with another code than 0 has failed, and the machine is replaced.

Examples:
  BATON_JOIN_TOKEN=... baton agent --url http://ci.internal:7400 --register-hook ./register.sh --deregister-hook ./remove.sh
  BATON_JOIN_TOKEN=... baton agent --machine-id i-0abc --end-with shutdown --unreachable 10m

Give the token as BATON_JOIN_TOKEN, not as --join-token: everybody on this machine can read command lines.";

#[derive(Subcommand)]
enum Command {
    /// Start the server.
    Serve(serve::ServeArgs),
    /// See work survive a killed worker and a frozen one.
    Demo(demo::DemoArgs),
    /// Have a directory or a repository built, and follow the build.
    #[command(after_help = SUBMIT_HELP)]
    Submit(submit::SubmitArgs),
    /// Follow builds, fetch what came out of them, stop them.
    #[command(subcommand)]
    Build(build::BuildCommand),
    /// Submit runs and follow them.
    #[command(subcommand)]
    Run(run::RunCommand),
    /// Look at operations on all runs that a filter finds, and stop them.
    #[command(subcommand)]
    Bulk(bulk::BulkCommand),
    /// Start durable workflows, wait for them, talk to them.
    #[command(subcommand)]
    Workflow(workflow::WorkflowCommand),
    /// Look at workers, stop them, or be one.
    #[command(subcommand)]
    Worker(worker::WorkerCommand),
    /// Look at queues, pause and limit them.
    #[command(subcommand)]
    Queue(queue::QueueCommand),
    /// Keep warm machines, claim them for a run and give them back.
    #[command(subcommand)]
    Pool(pool::PoolCommand),
    /// Speak for one machine of a pool.
    #[command(after_help = AGENT_HELP)]
    Agent(agent::AgentArgs),
    /// Make, look at and stop schedules: rules that start runs.
    #[command(subcommand)]
    Schedule(schedule::ScheduleCommand),
    /// Have events told by calls, and look at what became of them.
    #[command(subcommand)]
    Webhook(webhook::WebhookCommand),
    /// Make, limit, disable and enable namespaces.
    #[command(subcommand)]
    Namespace(namespace::NamespaceCommand),
    /// Make and revoke API keys.
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Make, look at and change the master key and the secret it wraps.
    #[command(subcommand)]
    Secret(secret::SecretCommand),
    /// Look at settings, and change them while the servers run.
    #[command(subcommand)]
    Settings(settings::SettingsCommand),
    /// Move artifacts from one storage to another, and see whether one has all of them.
    #[command(subcommand)]
    Storage(storage::StorageCommand),
    /// Log in to a server: keep its address and the key to it.
    Login(login::LoginArgs),
    /// Open the dashboard in the browser, signed in.
    Open(open::OpenArgs),
    /// Choose among the servers that you have logged in to.
    #[command(subcommand)]
    Context(context::ContextCommand),
    /// Read the audit log.
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Listen to what happens, as it happens.
    #[command(after_help = events::HELP)]
    Events(events::EventsArgs),
    /// Show what has happened lately, as numbers and small charts.
    #[command(after_help = stats::HELP)]
    Stats(stats::StatsArgs),
    /// Watch queues, runs, workers and pools in the terminal, and act on them.
    #[command(after_help = top::HELP)]
    Top(top::TopArgs),
    /// Check the settings, the data directory, the store, the storage and the server.
    Doctor(doctor::DoctorArgs),
    /// Measure how fast Baton is on this machine.
    Bench(bench::BenchArgs),
    /// Print the completion script of a shell.
    Completion(completion::CompletionArgs),
    /// Write the pages of the manual.
    Man(man::ManArgs),
    /// One worker of the demo.
    #[command(hide = true)]
    DemoWorker(demo::worker::DemoWorkerArgs),
    /// One worker of the benchmark.
    #[command(hide = true)]
    BenchWorker(bench::worker::BenchWorkerArgs),
}

fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    let mut cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    output::choose_color(cli.color);
    if cli.command.asks_a_server()
        && let Err(exit) = cli.connection.settle(&matches)
    {
        return exit.report();
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Exit::failed(format!("cannot start: {error}")).report(),
    };
    let done = runtime.block_on(execute(cli));
    // Whatever still runs in the background has nothing left to say.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => exit.naming_flag(flag_names::command_of(&mut Cli::command(), &matches)).report(),
    }
}

impl Command {
    /// Whether it talks to a server that somebody may have logged in to.
    fn asks_a_server(&self) -> bool {
        match self {
            Command::Serve(_)
            | Command::Demo(_)
            | Command::Agent(_)
            | Command::Login(_)
            | Command::Context(_)
            | Command::Completion(_)
            | Command::Man(_)
            | Command::DemoWorker(_)
            | Command::BenchWorker(_) => false,
            Command::Submit(_)
            | Command::Build(_)
            | Command::Run(_)
            | Command::Bulk(_)
            | Command::Workflow(_)
            | Command::Worker(_)
            | Command::Queue(_)
            | Command::Pool(_)
            | Command::Schedule(_)
            | Command::Webhook(_)
            | Command::Namespace(_)
            | Command::Key(_)
            | Command::Open(_)
            | Command::Secret(_)
            | Command::Settings(_)
            | Command::Storage(_)
            | Command::Audit(_)
            | Command::Events(_)
            | Command::Stats(_)
            | Command::Top(_)
            | Command::Doctor(_)
            | Command::Bench(_) => true,
        }
    }
}

async fn execute(cli: Cli) -> Result<(), Exit> {
    let connection = cli.connection;
    match cli.command {
        Command::Serve(args) => serve::serve(&connection, args).await,
        Command::Demo(args) => demo::demo(args).await,
        Command::Submit(args) => submit::submit(&connection.client()?, args).await,
        Command::Build(command) => build::execute(&connection.client()?, command).await,
        Command::Run(command @ run::RunCommand::Cancel(_)) => {
            run::execute(&connection.patient_client().await?, command).await
        }
        Command::Run(command) => run::execute(&connection.client()?, command).await,
        Command::Bulk(command) => bulk::execute(&connection.client()?, command).await,
        Command::Workflow(command) => workflow::execute(&connection.client()?, command).await,
        Command::Worker(command) => worker::execute(&connection.client()?, command).await,
        Command::Queue(command) => queue::execute(&connection.client()?, command).await,
        Command::Pool(command) if command.waits_for_a_restart() => {
            pool::execute(&connection.patient_client().await?, command).await
        }
        Command::Pool(command) => pool::execute(&connection.client()?, command).await,
        Command::Agent(args) => agent::agent(&connection, args).await,
        Command::Schedule(command) => schedule::execute(&connection, command).await,
        Command::Webhook(command) => webhook::execute(&connection.client()?, command).await,
        Command::Namespace(command) => namespace::execute(&connection.client()?, command).await,
        Command::Key(command) => key::execute(&connection.client()?, command).await,
        Command::Secret(command) => secret::execute(&connection, command).await,
        Command::Settings(command) => settings::execute(&connection.client()?, command).await,
        Command::Storage(command) => storage::execute(&connection, command).await,
        Command::Audit(command) => audit::execute(&connection.client()?, command).await,
        Command::Events(args) => events::events(&connection.client()?, args).await,
        Command::Stats(args) => stats::stats(&connection.client()?, args).await,
        Command::Top(args) => top::top(connection.client()?, args).await,
        Command::Doctor(args) => doctor::doctor(&connection, args).await,
        Command::Open(args) => open::open(&connection, args).await,
        Command::Login(args) => login::login(&connection, args).await,
        Command::Context(command) => context::execute(command).await,
        Command::Completion(args) => completion::completion(args),
        Command::Man(args) => man::man(args),
        Command::Bench(args) => bench::run(&connection, args).await,
        Command::BenchWorker(args) => bench::worker::work(&connection, args).await,
        Command::DemoWorker(args) => demo::worker::work(&connection.client()?, args).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        super::Cli::command().debug_assert();
    }

    /// Every command that people can type and that has no commands below it.
    fn leaves(command: &clap::Command, path: &str, found: &mut Vec<(String, String)>) {
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            let path = format!("{path} {}", inner.get_name());
            if inner.has_subcommands() {
                leaves(inner, &path, found);
            } else {
                found.push((path, inner.get_after_help().map(ToString::to_string).unwrap_or_default()));
            }
        }
    }

    /// The words of a line, as a shell would split it; up to a pipe, a redirection or the remark after two spaces.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
        for c in line.chars().chain([' ']) {
            match c {
                '\'' => quoted = !quoted,
                ' ' if !quoted && (word.is_empty() || word == ">") => return words,
                ' ' if !quoted => words.push(std::mem::take(&mut word)),
                c => word.push(c),
            }
        }
        words
    }

    #[test]
    fn every_command_shows_examples_that_work() {
        let (mut found, mut seen) = (Vec::new(), 0);
        leaves(&super::Cli::command(), "baton", &mut found);
        for (path, help) in &found {
            let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
            let examples: Vec<_> = lines.take_while(|line| line.starts_with("  ")).collect();
            assert!(!examples.is_empty(), "{path} shows no example");
            for example in examples {
                let call = &example[example.find("baton ").unwrap_or_else(|| panic!("{path}: {example:?}"))..];
                assert!(call.starts_with(path.as_str()), "{path} shows another command: {example}");
                super::Cli::command().try_get_matches_from(words(call)).unwrap_or_else(|e| panic!("{example}: {e}"));
                seen += 1;
            }
        }
        assert!(found.len() >= 23 && seen > found.len(), "only {} commands, {seen} examples", found.len());
    }
}
