//! A plain process of this user.

use super::{Environment, Job, Plan, Step, system_limits, text, variables};

pub const SHELL: &str = "/bin/sh";

pub fn plan(job: &Job<'_>) -> Plan {
    let places = job.places;
    let variables = variables(job, &text(&places.source), &text(&places.output), &text(&places.home));
    Plan {
        prepare: vec![],
        beside: None,
        // The first command that fails ends the recipe.
        build: Step::new(SHELL, ["-ec", job.recipe]),
        container: None,
        clean: vec![],
        environment: Environment::Only(variables),
        directory: places.source.clone(),
        limits: system_limits(job.limits),
    }
}
