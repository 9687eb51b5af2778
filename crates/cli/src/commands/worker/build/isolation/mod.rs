//! How a build is kept apart from the machine it runs on. Each way makes a plan of command lines; one place carries plans out.

mod bubblewrap;
mod container;
mod daemon;
mod process;
mod tart;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;

use super::places::Places;
use crate::os;
pub use daemon::Container;
pub use process::SHELL;

/// Where sandboxes and containers show a build its directories.
const INSIDE: &str = "/baton";
/// Where builds look for programs when this worker has no `PATH` itself.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";
const LANG: &str = "C.UTF-8";

/// How a build is kept apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Isolation {
    /// A plain process of this user, with limits. It can read what this user can.
    Process,
    /// bubblewrap: the system read-only, nothing else of this machine but the network.
    Bubblewrap,
    /// A container of docker.
    Docker,
    /// A container of podman.
    Podman,
    /// A virtual machine of Tart, cloned for each build.
    Tart,
}

/// What a build may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    pub time: Option<Duration>,
    pub memory_bytes: Option<u64>,
    pub processes: Option<u64>,
}

/// A build, ready to be run.
pub struct Job<'a> {
    pub id: &'a str,
    pub epoch: u32,
    pub platform: &'a str,
    pub recipe: &'a str,
    /// The image that the submitter or the worker named.
    pub image: Option<&'a str>,
    pub places: &'a Places,
    pub limits: Limits,
    /// The variables that name the build's place in its trace.
    pub trace: Vec<(&'static str, String)>,
}

/// A command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    pub program: String,
    pub arguments: Vec<String>,
}

impl Step {
    fn new<T: Into<String>>(program: &str, arguments: impl IntoIterator<Item = T>) -> Step {
        Step { program: program.into(), arguments: arguments.into_iter().map(Into::into).collect() }
    }
}

/// The environment of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Environment {
    /// These variables and nothing else.
    Only(Vec<(&'static str, String)>),
    /// That of this worker, without anything of Baton's: for the programs that start containers and machines.
    OfTheWorker,
}

/// A machine that runs beside the build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Beside {
    pub step: Step,
    /// Works as soon as the machine does.
    pub ready: Step,
}

/// What is to be run, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// One after the other; each has to work.
    pub prepare: Vec<Step>,
    /// Until the build is over.
    pub beside: Option<Beside>,
    /// The build itself.
    pub build: Step,
    /// What the build is run in, where that may be at fault.
    pub container: Option<Container>,
    /// Afterwards, whatever happened; also when this worker is killed.
    pub clean: Vec<Step>,
    pub environment: Environment,
    /// Where all of it is run.
    pub directory: PathBuf,
    /// What the system is told to limit; containers and machines limit themselves.
    pub limits: os::Limits,
}

impl Isolation {
    /// The program that has to be there.
    pub fn program(self) -> &'static str {
        match self {
            Isolation::Process => process::SHELL,
            Isolation::Bubblewrap => bubblewrap::PROGRAM,
            Isolation::Docker => "docker",
            Isolation::Podman => "podman",
            Isolation::Tart => tart::PROGRAM,
        }
    }

    /// Whether builds can be run so at all, in this image unless they name another.
    pub async fn check(self, image: Option<&str>) -> Result<(), String> {
        match self {
            Isolation::Process | Isolation::Bubblewrap | Isolation::Tart => Ok(()),
            Isolation::Docker | Isolation::Podman => {
                daemon::answers(self.program()).await?;
                match image {
                    Some(image) => daemon::knows(self.program(), no_option(image)?).await,
                    None => Ok(()),
                }
            }
        }
    }

    /// What is to be run for a build.
    pub fn plan(self, job: &Job<'_>) -> Result<Plan, String> {
        let image = || {
            let image = job.image.ok_or("this worker needs an image: submit with --image, or start it with --image")?;
            no_option(image)
        };
        match self {
            Isolation::Process => Ok(process::plan(job)),
            Isolation::Bubblewrap => Ok(bubblewrap::plan(job)),
            Isolation::Docker | Isolation::Podman => Ok(container::plan(self, job, image()?)),
            Isolation::Tart => Ok(tart::plan(job, image()?)),
        }
    }
}

/// An image that a command line does not take for something else.
fn no_option(image: &str) -> Result<&str, &'static str> {
    if image.starts_with('-') { Err("an image must not begin with a dash") } else { Ok(image) }
}

/// What the system limits for a command of this machine.
fn system_limits(limits: Limits) -> os::Limits {
    os::Limits { memory_bytes: limits.memory_bytes, processes: limits.processes }
}

/// The four variables of Baton and those of the trace, for a build that sees its directories at `source` and `output`.
fn baton_variables(job: &Job<'_>, source: &str, output: &str) -> Vec<(&'static str, String)> {
    let mut all = vec![
        ("BATON_BUILD_ID", job.id.to_owned()),
        ("BATON_PLATFORM", job.platform.to_owned()),
        ("BATON_SOURCE_DIR", source.to_owned()),
        ("BATON_OUTPUT_DIR", output.to_owned()),
    ];
    all.extend(job.trace.iter().cloned());
    all
}

/// All variables of a build on this machine's own system.
fn variables(job: &Job<'_>, source: &str, output: &str, home: &str) -> Vec<(&'static str, String)> {
    let path = std::env::var("PATH").ok().filter(|path| !path.is_empty());
    let mut all = vec![
        ("PATH", path.unwrap_or_else(|| PATH_DEFAULT.into())),
        ("HOME", home.to_owned()),
        ("LANG", LANG.to_owned()),
    ];
    all.extend(baton_variables(job, source, output));
    all
}

/// A path of ours. The work directory was checked to be text.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A name for the container or machine of one lease.
fn name(job: &Job<'_>) -> String {
    format!("baton-{}-{}", job.id, job.epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn places() -> Places {
        let root = PathBuf::from("/no/such/work");
        Places { source: root.join("source"), output: root.join("output"), home: root.join("home"), root }
    }

    pub(super) fn job(places: &Places) -> Job<'_> {
        let limits = Limits { time: None, memory_bytes: Some(1 << 30), processes: Some(100) };
        let trace = vec![];
        Job { id: "b1", epoch: 2, platform: "ios", recipe: "make 'it'", image: Some("image:1"), places, limits, trace }
    }

    #[test]
    fn a_build_on_this_system_sees_seven_variables() {
        let places = places();
        for isolation in [Isolation::Process, Isolation::Bubblewrap] {
            let Environment::Only(variables) = isolation.plan(&job(&places)).unwrap().environment else {
                panic!("{isolation:?} passes on the worker's environment");
            };
            let names: Vec<&str> = variables.iter().map(|(name, _)| *name).collect();
            let expected =
                ["PATH", "HOME", "LANG", "BATON_BUILD_ID", "BATON_PLATFORM", "BATON_SOURCE_DIR", "BATON_OUTPUT_DIR"];
            assert_eq!(names, expected, "{isolation:?}");
        }
    }

    #[test]
    fn a_build_that_is_traced_sees_its_place_in_the_trace() {
        let places = places();
        let traced = Job { trace: vec![("TRACEPARENT", "00-1-2-01".into())], ..job(&places) };
        let Environment::Only(variables) = Isolation::Process.plan(&traced).unwrap().environment else {
            panic!("the worker's environment is passed on")
        };
        assert!(variables.contains(&("TRACEPARENT", "00-1-2-01".into())));
        let line = format!("{:?}", Isolation::Docker.plan(&traced).unwrap().build);
        assert!(line.contains("TRACEPARENT=00-1-2-01"), "{line}");
    }

    #[test]
    fn an_image_is_needed_where_it_is_used_and_never_an_option() {
        let places = places();
        for isolation in Isolation::value_variants() {
            for image in [None, Some("--privileged")] {
                let plan = isolation.plan(&Job { image, ..job(&places) });
                let needs_image = !matches!(isolation, Isolation::Process | Isolation::Bubblewrap);
                assert_eq!(plan.is_err(), needs_image, "{isolation:?} {image:?}");
            }
        }
    }
}
