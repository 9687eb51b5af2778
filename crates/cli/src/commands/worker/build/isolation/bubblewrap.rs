//! A sandbox of bubblewrap.

use super::process::SHELL;
use super::{Environment, INSIDE, Job, Plan, Step, system_limits, text, variables};

pub const PROGRAM: &str = "bwrap";

/// Of the system, as it is and not to be written to. `/run/systemd/resolve` is where names of hosts are resolved on many
/// systems; the rest of `/run` has sockets of other programs.
const SYSTEM: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/run/systemd/resolve"];

pub fn plan(job: &Job<'_>) -> Plan {
    let inside = |name: &str| format!("{INSIDE}/{name}");
    let (source, output, home) = (inside("source"), inside("output"), inside("home"));
    // Killing it kills everything inside: the first process in there dies with it, and takes the others along.
    let mut arguments = vec!["--unshare-all", "--share-net", "--die-with-parent", "--new-session"];
    // A worker of root would pass on what root may do, and with it the way out: mounting the system anew, to be written to.
    arguments.extend(["--cap-drop", "ALL"]);
    for place in SYSTEM {
        arguments.extend(["--ro-bind-try", place, place]);
    }
    arguments.extend(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]);
    let mut arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
    let places = job.places;
    for (outside, inside) in [(&places.source, &source), (&places.output, &output), (&places.home, &home)] {
        arguments.extend(["--bind".into(), text(outside), inside.clone()]);
    }
    let tail = ["--chdir", &source, "--", SHELL, "-ec", job.recipe];
    arguments.extend(tail.into_iter().map(str::to_owned));
    Plan {
        prepare: vec![],
        beside: None,
        build: Step::new(PROGRAM, arguments),
        clean: vec![],
        environment: Environment::Only(variables(job, &source, &output, &home)),
        directory: places.root.clone(),
        limits: system_limits(job.limits),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{job, places};
    use super::*;

    #[test]
    fn only_the_builds_own_directories_can_be_written_to() {
        let places = places();
        let plan = plan(&job(&places));
        let line = plan.build.arguments.join(" ");
        let head = "--unshare-all --share-net --die-with-parent --new-session --cap-drop ALL --ro-bind-try /usr /usr ";
        assert!(line.starts_with(head), "{line}");
        let writable: Vec<&str> = line.split(" --bind ").skip(1).map(|part| part.split(' ').next().unwrap()).collect();
        assert_eq!(writable, ["/no/such/work/source", "/no/such/work/output", "/no/such/work/home"]);
        assert!(line.ends_with(" --chdir /baton/source -- /bin/sh -ec make 'it'"), "{line}");
        assert_eq!(plan.limits.memory_bytes, Some(1 << 30));
    }
}
