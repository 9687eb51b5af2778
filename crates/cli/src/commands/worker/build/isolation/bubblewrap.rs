//! A sandbox of bubblewrap.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::process::SHELL;
use super::{Environment, INSIDE, Job, Plan, Step, system_limits, text, variables};
use crate::os;

pub const PROGRAM: &str = "bwrap";

/// Of the system, as it is and not to be written to. `/run/systemd/resolve` is where names of hosts are resolved on many
/// systems; the rest of `/run` has sockets of other programs.
const SYSTEM: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/run/systemd/resolve"];

/// Passwords and private keys are among these.
const SETTINGS: &str = "/etc";
const OTHERS_READ: u32 = 0o004;
const OTHERS_ENTER: u32 = 0o005;

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
    // Root owns what it hides from everybody else, and so reads it even without any privilege.
    if os::user().0 == 0 {
        hide(Path::new(SETTINGS), &mut arguments);
    }
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
        container: None,
        clean: vec![],
        environment: Environment::Only(variables(job, &source, &output, &home)),
        directory: places.root.clone(),
        limits: system_limits(job.limits),
    }
}

/// Puts something empty over everything in a directory that is not for everybody to read.
fn hide(directory: &Path, arguments: &mut Vec<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        // Not through a link: what it leads to is hidden, or not, where it is.
        let Ok(found) = entry.metadata() else { continue };
        let (path, mode) = (entry.path(), found.permissions().mode());
        let Some(name) = path.to_str().map(str::to_owned) else {
            tracing::warn!(path = %path.display(), "builds may see this, whose name is no text");
            continue;
        };
        if found.is_dir() && mode & OTHERS_ENTER == OTHERS_ENTER {
            hide(&path, arguments);
        } else if found.is_dir() {
            arguments.extend(["--tmpfs".into(), name]);
        } else if found.is_file() && mode & OTHERS_READ == 0 {
            arguments.extend(["--ro-bind".into(), "/dev/null".into(), name]);
        }
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

    #[test]
    fn what_is_not_for_everybody_is_hidden() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for (name, mode) in [("open", 0o755), ("open/deeper", 0o755), ("closed", 0o750), ("listed", 0o754)] {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join("public"), "").unwrap();
            fs::write(path(name).join("secret"), "").unwrap();
            fs::set_permissions(path(name).join("public"), fs::Permissions::from_mode(0o644)).unwrap();
            fs::set_permissions(path(name).join("secret"), fs::Permissions::from_mode(0o640)).unwrap();
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        std::os::unix::fs::symlink("open/secret", path("link")).unwrap();
        let mut arguments = Vec::new();
        hide(directory.path(), &mut arguments);
        let line = arguments.join(" ").replace(directory.path().to_str().unwrap(), "");
        let mut hidden: Vec<&str> = line.split("--").map(str::trim).filter(|part| !part.is_empty()).collect();
        hidden.sort_unstable();
        let expected = [
            "ro-bind /dev/null /open/deeper/secret",
            "ro-bind /dev/null /open/secret",
            "tmpfs /closed",
            "tmpfs /listed",
        ];
        assert_eq!(hidden, expected);
    }
}
