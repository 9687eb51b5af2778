//! Namespaces: made on first use or by hand, limited, disabled and enabled.

use std::collections::HashMap;

use baton_proto::{ChangeNamespace, CreateNamespace, NamespaceView, Time};
use baton_store::{Namespace, NamespaceChange, NamespaceLimits, Page, Scope, WorkerStatus};

use super::news::News;
use super::{audit, check_name, check_plain_name, message};
use crate::auth::{Caller, refused};
use crate::{App, Error};

/// Counting the runs of a queue stops here where it is only to be seen how many there are.
pub const USAGE_CAP: u64 = 100_000;
/// Most namespaces and statuses whose workers are counted.
const COUNTS_MAX: usize = 10_000;

/// Makes a namespace. The same again gives the same answer.
pub async fn create(app: &App, caller: &Caller, wanted: CreateNamespace) -> Result<(NamespaceView, bool), Error> {
    may_change(caller)?;
    check_plain_name("name", &wanted.name)?;
    let limits = NamespaceLimits {
        live_runs_max: wanted.live_runs_max,
        workers_max: wanted.workers_max,
        schedules_max: wanted.schedules_max,
        seal_payloads: wanted.seal_payloads,
    };
    for (what, limit) in named(&limits) {
        check_limit(what, limit)?;
    }
    let description = message(&wanted.description);
    let (made, is_new) = app.store.add_namespace(&wanted.name, &description, limits).await?;
    if !is_new && (made.description != description || made.limits != limits) {
        return Err(Error::Conflict(format!(
            "there is a namespace {} already; change it instead, if you mean that one",
            wanted.name
        )));
    }
    if is_new {
        audit::act(app, caller, "namespace.create", &wanted.name, &described(&limits), Some(&wanted.name)).await?;
    }
    learn(app, made.clone());
    Ok((view(made), is_new))
}

/// One namespace.
pub async fn get(app: &App, caller: &Caller, name: &str) -> Result<NamespaceView, Error> {
    caller.may(Scope::Read, name)?;
    let all = app.store.namespaces(0).await?;
    all.into_iter().find(|namespace| namespace.name == name).map(view).ok_or_else(|| unknown(name))
}

/// A page of the namespaces that the caller sees, by name, and how many there are.
pub async fn list(app: &App, caller: &Caller, page: Page<String>) -> Result<(Vec<NamespaceView>, u64), Error> {
    caller.has(Scope::Read)?;
    let mut all = app.store.namespaces(0).await?;
    all.retain(|namespace| caller.sees(&namespace.name));
    // The order of the store's collation need not be that of the cursor.
    all.sort_by(|one, other| one.name.cmp(&other.name));
    let total = all.len() as u64;
    let after = |namespace: &Namespace| page.after.as_ref().is_none_or(|after| namespace.name > *after);
    Ok((all.into_iter().filter(after).take(page.limit).map(view).collect(), total))
}

/// How much of what is limited a namespace has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Runs that have not ended. Counting stops at [`USAGE_CAP`] for each queue.
    pub live_runs: u64,
    /// Workers that are not offline.
    pub workers: u64,
    /// Schedules.
    pub schedules: u64,
}

/// How much of what is limited these namespaces have, in their order.
pub async fn usage(app: &App, caller: &Caller, names: &[String]) -> Result<Vec<Usage>, Error> {
    caller.has(Scope::Read)?;
    for name in names {
        caller.may(Scope::Read, name)?;
    }
    let mut usage: HashMap<&str, Usage> = names.iter().map(|name| (name.as_str(), Usage::default())).collect();
    let mut queues = app.store.queues(caller.namespace.as_deref()).await?;
    queues.retain(|queue| usage.contains_key(queue.namespace.as_str()));
    let ids: Vec<_> = queues.iter().map(|queue| queue.id).collect();
    for (queue, depth) in queues.iter().zip(app.store.depths(&ids, USAGE_CAP).await?) {
        if let Some(usage) = usage.get_mut(queue.namespace.as_str()) {
            usage.live_runs += depth.ready + depth.scheduled + depth.held + depth.sleeping;
        }
    }
    for counted in app.store.worker_counts(COUNTS_MAX).await? {
        let is_there = counted.status != WorkerStatus::Offline;
        if let Some(usage) = usage.get_mut(counted.namespace.as_str()).filter(|_| is_there) {
            usage.workers += counted.count;
        }
    }
    let mut counted = Vec::with_capacity(names.len());
    for name in names {
        let schedules = app.store.count_schedules(Some(name)).await?;
        let usage = usage.get(name.as_str()).copied().unwrap_or_default();
        counted.push(Usage { schedules, ..usage });
    }
    Ok(counted)
}

/// Changes the description and the limits of a namespace, and whether its payloads are sealed.
pub async fn change(app: &App, caller: &Caller, name: &str, wanted: ChangeNamespace) -> Result<NamespaceView, Error> {
    for (what, limit) in [
        ("live_runs_max", wanted.live_runs_max),
        ("workers_max", wanted.workers_max),
        ("schedules_max", wanted.schedules_max),
    ] {
        check_limit(what, limit.flatten())?;
    }
    let detail = serde_json::to_string(&wanted).unwrap_or_default();
    let change = NamespaceChange {
        description: wanted.description.as_deref().map(message),
        disabled: None,
        live_runs_max: wanted.live_runs_max,
        workers_max: wanted.workers_max,
        schedules_max: wanted.schedules_max,
        seal_payloads: wanted.seal_payloads,
    };
    set(app, caller, name, change, "namespace.change", &detail).await
}

/// Lets a namespace take nothing new: no runs, no workers, no schedules, and nothing is handed out. What is under way may finish.
pub async fn disable(app: &App, caller: &Caller, name: &str, reason: &str) -> Result<NamespaceView, Error> {
    let reason = message(reason);
    let change = NamespaceChange { disabled: Some(Some(reason.clone())), ..NamespaceChange::default() };
    set(app, caller, name, change, "namespace.disable", &reason).await
}

/// Lets a namespace take things again.
pub async fn enable(app: &App, caller: &Caller, name: &str) -> Result<NamespaceView, Error> {
    let change = NamespaceChange { disabled: Some(None), ..NamespaceChange::default() };
    set(app, caller, name, change, "namespace.enable", "").await
}

async fn set(
    app: &App,
    caller: &Caller,
    name: &str,
    change: NamespaceChange,
    action: &str,
    detail: &str,
) -> Result<NamespaceView, Error> {
    may_change(caller)?;
    check_name("name", name)?;
    let changed = app.store.change_namespace(name, change).await?.ok_or_else(|| unknown(name))?;
    audit::act(app, caller, action, name, detail, Some(name)).await?;
    learn(app, changed.clone());
    // Only a hint: the other servers also look now and then.
    let _ = app.news.try_send(News::Namespaces);
    Ok(view(changed))
}

/// What a namespace may is not for those to say who are in it.
fn may_change(caller: &Caller) -> Result<(), Error> {
    caller.has(Scope::Admin)?;
    match &caller.namespace {
        Some(_) => Err(refused("namespaces are changed with keys that are good for all of them".into())),
        None => Ok(()),
    }
}

fn learn(app: &App, namespace: Namespace) {
    if let Some(turned) = app.namespaces.learn(namespace) {
        app.dispatcher.turn(&turned);
    }
}

fn unknown(name: &str) -> Error {
    Error::NotFound { what: "namespace", id: name.into() }
}

fn named(limits: &NamespaceLimits) -> [(&'static str, Option<u64>); 3] {
    let NamespaceLimits { live_runs_max, workers_max, schedules_max, seal_payloads: _ } = *limits;
    [("live_runs_max", live_runs_max), ("workers_max", workers_max), ("schedules_max", schedules_max)]
}

fn check_limit(what: &str, limit: Option<u64>) -> Result<(), Error> {
    match limit {
        Some(0) => Err(Error::field(what.to_owned(), "must be at least 1; disable the namespace to stop it")),
        Some(most) if i64::try_from(most).is_err() => Err(Error::field(what.to_owned(), "is too large")),
        Some(_) | None => Ok(()),
    }
}

fn described(limits: &NamespaceLimits) -> String {
    let given = named(limits).into_iter().filter_map(|(what, limit)| Some(format!("{what} {}", limit?)));
    given.chain(limits.seal_payloads.then(|| "seal_payloads".to_owned())).collect::<Vec<_>>().join(", ")
}

fn view(namespace: Namespace) -> NamespaceView {
    NamespaceView {
        name: namespace.name,
        description: namespace.description,
        created_at: Time(namespace.created_at),
        disabled: namespace.disabled_at.is_some(),
        disabled_at: namespace.disabled_at.map(Time),
        disabled_reason: Some(namespace.disabled_reason).filter(|reason| !reason.is_empty()),
        live_runs_max: namespace.limits.live_runs_max,
        workers_max: namespace.limits.workers_max,
        schedules_max: namespace.limits.schedules_max,
        seal_payloads: namespace.limits.seal_payloads,
    }
}
