//! A virtual machine of Tart, by its command line. The image has to run Tart's guest agent.

use super::process::SHELL;
use super::{Beside, Environment, Job, Plan, Step, baton_variables, name, text};
use crate::os;

pub const PROGRAM: &str = "tart";

/// Where a Mac shows directories that are shared with it.
const SHARED: &str = "/Volumes/My Shared Files/baton";
/// Goes to the source, and runs the recipe, which is its argument.
const SCRIPT: &str = "cd \"$BATON_SOURCE_DIR\" && exec /bin/sh -ec \"$0\"";

pub fn plan(job: &Job<'_>, image: &str) -> Plan {
    let name = name(job);
    let tart = |arguments: &[&str]| Step::new(PROGRAM, arguments.iter().copied());
    let share = format!("--dir=baton:{}", text(&job.places.root));
    let variables = baton_variables(job, &format!("{SHARED}/source"), &format!("{SHARED}/output"));
    let variables: Vec<String> = variables.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut build = vec!["exec", &name, "/usr/bin/env"];
    build.extend(variables.iter().map(String::as_str));
    build.extend([SHELL, "-c", SCRIPT, job.recipe]);
    Plan {
        prepare: vec![tart(&["clone", image, &name])],
        beside: Some(Beside {
            step: tart(&["run", "--no-graphics", &share, &name]),
            ready: tart(&["exec", &name, "/usr/bin/true"]),
        }),
        build: tart(&build),
        container: None,
        clean: vec![tart(&["stop", &name]), tart(&["delete", &name])],
        environment: Environment::OfTheWorker,
        directory: job.places.root.clone(),
        limits: os::Limits::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{job, places};
    use super::*;

    #[test]
    fn a_machine_is_cloned_started_used_and_deleted() {
        let places = places();
        let plan = plan(&job(&places), "image:1");
        let line = |step: &Step| format!("{} {}", step.program, step.arguments.join(" "));
        let beside = plan.beside.as_ref().unwrap();
        assert_eq!(line(&plan.prepare[0]), "tart clone image:1 baton-b1-2");
        assert_eq!(line(&beside.step), "tart run --no-graphics --dir=baton:/no/such/work baton-b1-2");
        assert_eq!(line(&beside.ready), "tart exec baton-b1-2 /usr/bin/true");
        assert!(line(&plan.build).starts_with("tart exec baton-b1-2 /usr/bin/env BATON_BUILD_ID=b1 "));
        assert_eq!(plan.build.arguments.last().unwrap(), "make 'it'");
        assert_eq!(plan.clean.iter().map(line).collect::<Vec<_>>(), ["tart stop baton-b1-2", "tart delete baton-b1-2"]);
    }
}
