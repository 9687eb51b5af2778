//! register: a worker introduces itself. Every start is a new incarnation.

use baton_core::{Millis, WorkerId};
use baton_proto::{QUEUE_DEFAULT, RegisterWorker, RegisteredWorker};
use baton_store::{NewWorker, Scope, WorkerFilter, WorkerInfo, WorkerStatus};

use super::{check_name, check_text};
use crate::auth::Caller;
use crate::events::Kind;
use crate::{App, Error};

/// Most queues, types or labels one worker may name.
const NAMES_MAX: usize = 200;
/// Most runs one worker may hold at once.
const CONCURRENT_MAX: u32 = 100_000;

/// Registers a worker.
pub async fn one(app: &App, caller: &Caller, worker: RegisterWorker) -> Result<RegisteredWorker, Error> {
    check(&worker)?;
    caller.may(Scope::Worker, &worker.namespace)?;
    // Scoped to the namespace, so that nobody learns of another's workers by guessing.
    let instance = worker.instance.map(|instance| format!("{}\u{1f}{instance}", worker.namespace));
    let registered_before = async || match &instance {
        Some(instance) => Ok(app.store.worker_of_instance(instance).await?),
        None => Ok(None),
    };
    admit(app, &worker.namespace, registered_before).await?;
    let settings = app.current();
    let ttl_ms = settings.lease_ttl_ms as Millis;
    let mut random = [0; 16];
    app.entropy.fill(&mut random);
    let id = WorkerId::from_random(u128::from_ne_bytes(random));
    let hostname = worker.hostname.unwrap_or_default();
    let name = worker.name.filter(|name| !name.is_empty()).unwrap_or_else(|| match hostname.as_str() {
        "" => id.to_string(),
        host => host.to_owned(),
    });
    let queues = if worker.queues.is_empty() { vec![QUEUE_DEFAULT.to_owned()] } else { worker.queues };
    let new = NewWorker {
        id,
        instance,
        namespace: worker.namespace,
        name,
        info: WorkerInfo {
            queues,
            types: worker.types,
            hostname,
            pid: worker.pid,
            version: worker.version.unwrap_or_default(),
            labels: worker.labels,
        },
        max_concurrent: worker.max_concurrent.unwrap_or(1),
        ttl_ms,
        key_id: Some(caller.key_id.clone()),
    };
    let mut registered = app.store.register(new.clone()).await?;
    if !registered.is_new && is_offline(app, registered.id).await? {
        // It was told to register again and kept its instance: that incarnation is over, this is the next one.
        registered = app.store.register(NewWorker { instance: None, ..new }).await?;
    }
    if let Some(known) = app.workers.get(registered.id).await? {
        caller.may_act_for(known.id, known.key_id.as_deref(), &known.namespace)?;
        if registered.is_new {
            app.events.worker(Kind::WorkerRegistered, registered.id, None);
            known.confirm(WorkerStatus::Online);
            // Nothing was claimed yet, so no answer can have been lost.
            known.last_claim_no.store(i64::MIN + 1, std::sync::atomic::Ordering::Relaxed);
            known.may_hold_unstarted.store(false, std::sync::atomic::Ordering::Relaxed);
        } else if let Some(changed_ms) = known.new_ttl_ms(ttl_ms) {
            // The settings were changed since, and it is told the new interval.
            super::renew::sign_of_life(app, &known, Some(changed_ms)).await?;
        }
    }
    Ok(RegisteredWorker {
        worker_id: registered.id.to_string(),
        heartbeat_interval_ms: settings.heartbeat_interval_ms,
        lease_ttl_ms: settings.lease_ttl_ms,
        heartbeat_wait_ms: super::renew::wait_ms_max(app),
    })
}

/// Refuses a worker that the namespace has no room for, or that comes while it is disabled. One that was registered before, and is repeated or
/// replaced, takes no room.
pub(crate) async fn admit(
    app: &App,
    namespace: &str,
    registered_before: impl AsyncFnOnce() -> Result<Option<WorkerId>, Error>,
) -> Result<(), Error> {
    let Some(limit) = app.namespaces.limits(namespace).await?.workers_max else { return Ok(()) };
    let online = WorkerFilter {
        namespace: Some(namespace.to_owned()),
        status: Some(WorkerStatus::Online),
        ..WorkerFilter::default()
    };
    if app.store.count_workers(&online).await? < limit {
        return Ok(());
    }
    match registered_before().await? {
        Some(worker) if !is_offline(app, worker).await? => Ok(()),
        _ => Err(Error::NamespaceLimit { namespace: namespace.to_owned(), what: "online workers", limit }),
    }
}

async fn is_offline(app: &App, worker: WorkerId) -> Result<bool, Error> {
    Ok(app.store.worker(worker).await?.is_none_or(|worker| worker.status == WorkerStatus::Offline))
}

fn check(worker: &RegisterWorker) -> Result<(), Error> {
    check_name("namespace", &worker.namespace)?;
    if worker.types.is_empty() {
        return Err(Error::field("types", "must name at least one type the worker can do"));
    }
    if worker.types.len() > NAMES_MAX || worker.queues.len() > NAMES_MAX || worker.labels.len() > NAMES_MAX {
        return Err(Error::Invalid(format!("a worker may name at most {NAMES_MAX} queues, types and labels each")));
    }
    worker.types.iter().try_for_each(|kind| check_name("types", kind))?;
    worker.queues.iter().try_for_each(|queue| check_name("queues", queue))?;
    for (what, text) in [
        ("name", &worker.name),
        ("hostname", &worker.hostname),
        ("version", &worker.version),
        ("instance", &worker.instance),
    ] {
        text.as_deref().map_or(Ok(()), |text| check_text(what, text))?;
    }
    for (label, value) in &worker.labels {
        check_name("labels", label)?;
        check_text("labels", value)?;
    }
    match worker.max_concurrent {
        Some(0) => Err(Error::field("max_concurrent", "must be at least 1")),
        Some(many) if many > CONCURRENT_MAX => {
            Err(Error::field("max_concurrent", format!("must be at most {CONCURRENT_MAX}")))
        }
        Some(_) | None => Ok(()),
    }
}
