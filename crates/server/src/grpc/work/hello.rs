//! The first message of a stream: registers the worker, or goes on with a registration.

use std::collections::HashSet;
use std::sync::Arc;

use baton_proto::{RegisteredWorker, v1};
use baton_store::{LeaseRef, WorkerStatus};

use super::super::convert::{run_id, worker_id};
use super::super::layer::Authenticated;
use super::super::workers::registration;
use crate::service;
use crate::service::workflows;
use crate::workers::KnownWorker;
use crate::{App, Error};

/// Younger than nothing: also what was claimed in this very millisecond.
const ANY_AGE_MS: i64 = -1;

/// A worker whose stream begins.
#[derive(Debug)]
pub(super) struct Welcome {
    pub(super) known: Arc<KnownWorker>,
    pub(super) registered: RegisteredWorker,
    /// What it holds, of what it says it holds.
    pub(super) held: Vec<(LeaseRef, String)>,
    /// What it says it holds, and does not.
    pub(super) lost: Vec<String>,
    pub(super) draining: bool,
}

/// Registers, or goes on where the stream before ended.
pub(super) async fn greet(app: &App, who: &Authenticated, hello: v1::Hello) -> Result<Welcome, Error> {
    let (mut leases, mut foreign) = (Vec::with_capacity(hello.leases.len()), Vec::new());
    for v1::RunLease { run_id: run, lease } in hello.leases {
        // One that another installation has given, which stood at this address before, is lost as any other: the worker goes on with new work.
        let Ok(id) = run_id(&run) else {
            foreign.push(run);
            continue;
        };
        match service::open_lease(app, &who.caller, id, &lease).await {
            Ok(opened) => leases.push((opened, lease)),
            Err(Error::Forbidden(_)) => foreign.push(run),
            Err(other) => return Err(other),
        }
    }
    if !hello.worker_id.is_empty()
        && let Some(mut welcome) = resume(app, who, worker_id(&hello.worker_id)?, &leases).await?
    {
        welcome.lost.extend(foreign);
        return Ok(welcome);
    }
    let Some(register) = hello.register else { return Err(Error::WorkerOffline) };
    let registered = workflows::register::one(app, &who.caller, registration(register)).await?;
    let id = service::worker_id(&registered.worker_id)?;
    let known = app.workers.get(id).await?.ok_or_else(|| Error::no_worker(id))?;
    // A new incarnation holds nothing.
    let lost = leases.iter().map(|(lease, _)| lease.run.to_string()).chain(foreign).collect();
    Ok(Welcome { known, registered, held: vec![], lost, draining: false })
}

/// Goes on with a registration, unless it is over.
async fn resume(
    app: &App,
    who: &Authenticated,
    worker: baton_core::WorkerId,
    leases: &[(LeaseRef, String)],
) -> Result<Option<Welcome>, Error> {
    let known = app.workers.get(worker).await?;
    // One of a foreign namespace is as unknown as one that does not exist.
    let Some(known) = known.filter(|known| who.caller.sees(&known.namespace)) else { return Ok(None) };
    who.caller.may_act_for(worker, known.key_id.as_deref(), &known.namespace)?;
    app.inboxes.displace(worker).await;
    let named: Vec<_> = leases.iter().map(|(lease, _)| *lease).collect();
    let answer = match service::renew::look(app, &known, named.clone()).await {
        Ok(answer) => answer,
        Err(Error::WorkerOffline | Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    // What was sent and never arrived goes to others at once.
    service::renew::put_back(app, worker, named, ANY_AGE_MS).await?;
    let settings = app.current();
    let registered = RegisteredWorker {
        worker_id: worker.to_string(),
        heartbeat_interval_ms: settings.heartbeat_interval_ms,
        lease_ttl_ms: settings.lease_ttl_ms,
        heartbeat_wait_ms: 0,
    };
    let lost: HashSet<&str> = answer.lost.iter().map(String::as_str).collect();
    let is_held = |lease: &LeaseRef| !lost.contains(lease.run.to_string().as_str());
    let held = leases.iter().filter(|(lease, _)| is_held(lease)).cloned().collect();
    let draining = known.status() == WorkerStatus::Draining;
    Ok(Some(Welcome { known, registered, held, lost: answer.lost, draining }))
}
