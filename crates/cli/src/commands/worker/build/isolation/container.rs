//! A container of docker or podman, by their command line.

use super::process::SHELL;
use super::{Container, Environment, INSIDE, Isolation, Job, LANG, Plan, Step, baton_variables, name, text};
use crate::os;

pub fn plan(isolation: Isolation, job: &Job<'_>, image: &str) -> Plan {
    let (program, name) = (isolation.program(), name(job));
    let inside = |name: &str| format!("{INSIDE}/{name}");
    let (source, output, home) = (inside("source"), inside("output"), inside("home"));
    let (user, group) = os::user();
    let mut arguments: Vec<String> = ["run", "--rm", "--init", "--name", &name, "--workdir", &source]
        .into_iter()
        .chain(["--security-opt", "no-new-privileges"])
        .map(str::to_owned)
        .collect();
    let id_file = job.places.root.join("container");
    arguments.extend(["--cidfile".into(), text(&id_file)]);
    // What the build writes has to be ours, to be read and removed.
    arguments.extend(["--user".into(), format!("{user}:{group}")]);
    if isolation == Isolation::Podman && user != 0 {
        arguments.push("--userns=keep-id".into());
    }
    if let Some(bytes) = job.limits.memory_bytes {
        arguments.extend(["--memory".into(), bytes.to_string()]);
    }
    if let Some(processes) = job.limits.processes {
        arguments.extend(["--pids-limit".into(), processes.to_string()]);
    }
    let places = job.places;
    for (outside, inside) in [(&places.source, &source), (&places.output, &output), (&places.home, &home)] {
        arguments.extend(["--volume".into(), format!("{}:{inside}", text(outside))]);
    }
    // The image has a PATH of its own.
    let mut variables = vec![("HOME", home.clone()), ("LANG", LANG.to_owned())];
    variables.extend(baton_variables(job, &source, &output));
    for (name, value) in variables {
        arguments.extend(["--env".into(), format!("{name}={value}")]);
    }
    // Images may have an entry point that would get the shell as its argument.
    arguments.extend(["--entrypoint", SHELL, image, "-ec", job.recipe].into_iter().map(str::to_owned));
    Plan {
        prepare: vec![],
        beside: None,
        build: Step::new(program, arguments),
        container: Some(Container { program, image: image.to_owned(), id_file }),
        clean: vec![Step::new(program, ["rm", "--force", &name])],
        environment: Environment::OfTheWorker,
        directory: places.root.clone(),
        limits: os::Limits::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{job, places};
    use super::*;

    #[test]
    fn a_container_gets_the_directories_the_variables_and_the_limits() {
        let places = places();
        let plan = plan(Isolation::Docker, &job(&places), "image:1");
        let line = plan.build.arguments.join(" ");
        assert_eq!(plan.build.program, "docker");
        for part in [
            "run --rm --init --name baton-b1-2 --workdir /baton/source ",
            "--cidfile /no/such/work/container ",
            "--memory 1073741824 --pids-limit 100 ",
            "--volume /no/such/work/source:/baton/source --volume /no/such/work/output:/baton/output ",
            "--env BATON_BUILD_ID=b1 --env BATON_PLATFORM=ios --env BATON_SOURCE_DIR=/baton/source ",
        ] {
            assert!(line.contains(part), "{part:?} is missing in {line}");
        }
        assert!(line.ends_with("--entrypoint /bin/sh image:1 -ec make 'it'"), "{line}");
        assert_eq!(plan.clean, [Step::new("docker", ["rm", "--force", "baton-b1-2"])]);
    }
}
