//! `baton worker build`: a worker that builds.

mod attempt;
mod cache;
mod disk;
mod isolation;
mod leash;
mod logs;
pub mod orphans;
pub mod places;
mod recipe;
mod result;
pub mod run;
pub mod size;
mod source;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton::Client;
use baton::proto::NAMESPACE_DEFAULT;
use baton::runs::Worker;
use clap::Args;

use super::{group, health};
use crate::exit::Exit;
use crate::logging::LogArgs;
use crate::{caches, duration, os, signals};
use attempt::Builder;
use cache::Cache;
use disk::Disk;
use isolation::{Isolation, Limits};
use orphans::Orphanage;
use places::WorkDirectory;
use recipe::Recipes;

/// The queue of all builds.
const QUEUE: &str = "builds";

#[derive(Args)]
pub struct BuildArgs {
    /// Platform it builds for. May be given several times; `git` is for builds from repositories.
    #[arg(long = "platform", short, required = true, value_name = "PLATFORM")]
    platforms: Vec<String>,
    /// Shell command that builds: for one platform as PLATFORM=COMMAND, or for all. Without one, the project's baton.toml
    /// says it.
    #[arg(long = "recipe", short, value_name = "COMMAND")]
    recipes: Vec<String>,
    /// How builds are kept apart from this machine.
    #[arg(long, value_enum, default_value_t = Isolation::Process)]
    isolation: Isolation,
    /// Image for builds that name none; for docker, podman and tart.
    #[arg(long)]
    image: Option<String>,
    /// Builds at once.
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    concurrency: u32,
    /// Longest time a recipe may take.
    #[arg(long, value_name = "SPAN", value_parser = duration::parse_positive)]
    limit_time: Option<Duration>,
    /// Memory: of each process, or of a container.
    #[arg(long, value_name = "SIZE", value_parser = size::parse_positive)]
    limit_memory: Option<u64>,
    /// Processes: of this user, all together, or of a container. The system does not count those of root.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    limit_processes: Option<u64>,
    /// Where builds work. Each build's part is removed after it. [default: a directory of this user's caches]
    #[arg(long, value_name = "DIR")]
    work_dir: Option<PathBuf>,
    /// Where sources are kept that may be built again. [default: a directory of this user's caches]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Most that is kept there; 0 for nothing.
    #[arg(long, default_value = "10G", value_name = "SIZE", value_parser = size::parse)]
    cache_size: u64,
    /// How long it takes no builds after its disk was full. What it was building is given back.
    #[arg(long, default_value = "60s", value_name = "SPAN", value_parser = duration::parse_positive)]
    full_disk_pause: Duration,
    /// Namespace it works in.
    #[arg(long, short, default_value = NAMESPACE_DEFAULT)]
    namespace: String,
    /// Its name, which survives restarts. [default: the host name]
    #[arg(long)]
    name: Option<String>,
    /// A label, as name=value. May be given several times.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = super::run::parse_label)]
    labels: Vec<(String, String)>,
    /// How long to finish builds when it is told to stop; the rest is given back.
    #[arg(long, default_value = "30s", value_name = "SPAN", value_parser = duration::parse)]
    drain_timeout: Duration,
    #[command(flatten)]
    log: LogArgs,
}

/// Builds until it is asked to stop.
pub async fn build(client: &Client, args: BuildArgs) -> Result<(), Exit> {
    args.log.start()?;
    let recipes =
        Recipes::parse(&args.recipes, &args.platforms).map_err(|error| Exit::usage(format!("--recipe: {error}")))?;
    let shutdown = signals::shutdown()?;
    // The key is in our environment, and builds may run as this same user.
    os::hide_from_others()?;
    require(args.isolation.program())?;
    args.isolation.check(args.image.as_deref()).await.map_err(Exit::failed)?;
    let work = open(args.work_dir, "work", WorkDirectory::open)?;
    let cache = open(args.cache_dir, "sources", |directory| Cache::open(directory, args.cache_size))?;
    if args.isolation == Isolation::Process && os::user().0 == 0 {
        tracing::warn!(
            "recipes run as root and can read whatever root can, the credentials of this worker included; \
             use --isolation bubblewrap, or run the worker as another user"
        );
    }
    let orphanage = match args.isolation {
        Isolation::Process => Some(Orphanage::open(orphans::BURY_EVERY)?),
        Isolation::Bubblewrap | Isolation::Docker | Isolation::Podman | Isolation::Tart => None,
    };
    let measured = work.path().to_owned();
    let mut worker = Worker::new(client.clone(), args.platforms)
        .queue(QUEUE)
        .namespace(args.namespace)
        .concurrency(args.concurrency)
        .version(env!("CARGO_PKG_VERSION"))
        .drain_timeout(args.drain_timeout)
        // Commands end, what they left is cleaned up, and the last lines of the log go out.
        .stop_grace(group::TERMINATE_GRACE + 3 * run::CLEAN_TIMEOUT)
        .health(move || health::measure(&measured))
        .watch(super::run::log);
    for (name, value) in args.labels {
        worker = worker.label(name, value);
    }
    let hostname = os::hostname();
    if let Some(name) = args.name.or_else(|| hostname.clone()) {
        worker = worker.name(name);
    }
    if let Some(hostname) = hostname {
        worker = worker.hostname(hostname);
    }
    let limits = Limits { time: args.limit_time, memory_bytes: args.limit_memory, processes: args.limit_processes };
    let builder = Arc::new(Builder {
        client: client.clone(),
        recipes,
        isolation: args.isolation,
        image: args.image,
        limits,
        cache,
        work,
        disk: Disk { pause: args.full_disk_pause },
        orphanage,
    });
    let handler = {
        let builder = builder.clone();
        move |run, cancel| builder.clone().build(run, cancel)
    };
    Ok(worker.run(handler, shutdown).await?)
}

fn open<T>(given: Option<PathBuf>, name: &str, open: impl FnOnce(&Path) -> std::io::Result<T>) -> Result<T, Exit> {
    let directory = given.unwrap_or_else(|| caches::directory().join(name));
    if directory.to_str().is_none() {
        return Err(Exit::usage(format!("{} is not UTF-8; choose another directory", directory.display())));
    }
    open(&directory).map_err(|error| Exit::failed(format!("cannot use {}: {error}", directory.display())))
}

/// Fails now instead of with every build.
fn require(program: &str) -> Result<(), Exit> {
    let is_there = match program.contains('/') {
        true => Path::new(program).exists(),
        false => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
        }
    };
    match is_there {
        true => Ok(()),
        false => Err(Exit::failed(format!("{program} is not installed; --isolation says how builds are kept apart"))),
    }
}
