//! register: a worker of workflows introduces itself. It takes runs of its types, and those pinned to its version.

use baton_proto::{QUEUE_DEFAULT, RegisterWorker, RegisteredWorker};
use baton_store::LaneName;

use super::super::register;
use super::{VERSION_MARK, check_field, invalid, pinned};
use crate::auth::Caller;
use crate::{App, Error};

/// Most types of workflows that one worker may name: each is registered with and without its version.
const TYPES_MAX: usize = 100;

/// Registers a worker, whose `types` are the plain names of its workflows.
pub async fn one(app: &App, caller: &Caller, mut worker: RegisterWorker) -> Result<RegisteredWorker, Error> {
    if worker.types.is_empty() {
        return Err(invalid("workflow_types", "must name at least one type the worker can do"));
    }
    if worker.types.len() > TYPES_MAX {
        return Err(invalid("workflow_types", format!("may name at most {TYPES_MAX} types")));
    }
    check_field("namespace_id", &worker.namespace)?;
    for kind in &worker.types {
        check_field("workflow_types", kind)?;
        if kind.contains(VERSION_MARK) {
            return Err(invalid("workflow_types", "must not contain '@'; a version goes into version"));
        }
    }
    if let Some(version) = worker.version.as_deref().filter(|version| !version.is_empty()) {
        let own: Vec<_> = worker.types.iter().map(|kind| pinned(kind, Some(version))).collect();
        own.iter().try_for_each(|kind| check_field("version", kind))?;
        worker.types.extend(own);
    }
    let names = lanes(&worker);
    let registered = register::one(app, caller, worker).await?;
    // What it plays are workflows, however they were submitted.
    let lanes = app.lanes.get(names).await?;
    app.lanes.mark_workflows(&lanes).await?;
    Ok(registered)
}

fn lanes(worker: &RegisterWorker) -> Vec<LaneName> {
    let default = [QUEUE_DEFAULT.to_owned()];
    let queues = if worker.queues.is_empty() { &default[..] } else { &worker.queues[..] };
    let of_queue = |queue: &String| {
        let name =
            |kind: &String| LaneName { namespace: worker.namespace.clone(), queue: queue.clone(), kind: kind.clone() };
        worker.types.iter().map(name).collect::<Vec<_>>()
    };
    queues.iter().flat_map(of_queue).collect()
}
