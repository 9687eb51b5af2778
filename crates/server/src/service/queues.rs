//! Queues: depth, pause, resume, limits.

use baton_core::Millis;
use baton_proto::{Event, PauseQueue, QueueLimits, QueueView, Time};
use baton_store::{AuditRecord, Depth, Page, Queue, QueueChange, QueueId, Scope};

use super::{audit, check_name, page_of};
use crate::auth::Caller;
use crate::events::Kind;
use crate::{App, Error};

/// Counting stops here: a longer queue is shown as this long.
const DEPTH_CAP: u64 = 1_000_000;
/// Lines of the audit log that are looked at for who changed a limit.
const AUDIT_LINES_LOOKED_AT: usize = 100;

/// The queues the caller may see, after the one with the number of the cursor.
pub async fn list(
    app: &App,
    caller: &Caller,
    namespace: Option<&str>,
    page: Page<QueueId>,
) -> Result<(Vec<QueueView>, Option<QueueId>), Error> {
    let (queues, next, _) = counted(app, caller, namespace, page, DEPTH_CAP).await?;
    Ok((queues, next))
}

/// As [`list`], and how many there are in all. Counting of runs stops at `cap`.
pub async fn counted(
    app: &App,
    caller: &Caller,
    namespace: Option<&str>,
    page: Page<QueueId>,
    cap: u64,
) -> Result<(Vec<QueueView>, Option<QueueId>, usize), Error> {
    caller.has(Scope::Read)?;
    if let Some(namespace) = namespace {
        caller.may(Scope::Read, namespace)?;
    }
    let queues = app.store.queues(namespace.or(caller.namespace.as_deref())).await?;
    let total = queues.len();
    let (queues, next) = page_of(queues, page, |queue| queue.id)?;
    let ids: Vec<_> = queues.iter().map(|queue| queue.id).collect();
    let depths = app.store.depths(&ids, cap).await?;
    let now = app.store.now().await?;
    Ok((queues.into_iter().zip(depths).map(|(queue, depth)| view(app, queue, depth, now)).collect(), next, total))
}

/// One queue.
pub async fn get(app: &App, caller: &Caller, namespace: &str, name: &str) -> Result<QueueView, Error> {
    get_counted(app, caller, namespace, name, DEPTH_CAP).await
}

/// One queue. Counting of runs stops at `cap`.
pub async fn get_counted(
    app: &App,
    caller: &Caller,
    namespace: &str,
    name: &str,
    cap: u64,
) -> Result<QueueView, Error> {
    caller.may(Scope::Read, namespace)?;
    let queues = app.store.queues(Some(namespace)).await?;
    let queue = queues.into_iter().find(|queue| queue.name == name);
    show(app, queue.ok_or_else(|| Error::NotFound { what: "queue", id: name.into() })?, cap).await
}

async fn show(app: &App, queue: Queue, cap: u64) -> Result<QueueView, Error> {
    let depth = app.store.depths(&[queue.id], cap).await?.pop().unwrap_or_default();
    let now = app.store.now().await?;
    Ok(view(app, queue, depth, now))
}

/// Stops a queue from handing out runs. One that does not exist yet is made: a pause may be wanted before the first run.
pub async fn pause(
    app: &App,
    caller: &Caller,
    namespace: &str,
    name: &str,
    pause: PauseQueue,
) -> Result<QueueView, Error> {
    let now = app.store.now().await?;
    let until = match (pause.until, pause.for_ms) {
        (None, None) => Millis::MAX,
        (Some(until), None) if until.0 > now => until.0,
        (Some(_), None) => return Err(Error::field("until", "must be in the future")),
        (None, Some(ms)) => now.saturating_add(i64::try_from(ms).unwrap_or(Millis::MAX)),
        (Some(_), Some(_)) => return Err(Error::Invalid("give until or for_ms, not both".into())),
    };
    let change = QueueChange { paused_until: Some(Some(until)), ..QueueChange::default() };
    set(app, caller, namespace, name, change, "queue.pause", &Time(until).to_string()).await
}

/// Lets a queue hand out runs again.
pub async fn resume(app: &App, caller: &Caller, namespace: &str, name: &str) -> Result<QueueView, Error> {
    let change = QueueChange { paused_until: Some(None), ..QueueChange::default() };
    set(app, caller, namespace, name, change, "queue.resume", "").await
}

/// Changes a queue's limits.
pub async fn limit(
    app: &App,
    caller: &Caller,
    namespace: &str,
    name: &str,
    limits: QueueLimits,
) -> Result<QueueView, Error> {
    if limits.rate_per_second.flatten().is_some_and(|rate| !(rate > 0.0 && rate <= 1_000_000.0)) {
        return Err(Error::field("rate_per_second", "must be above 0 and at most 1,000,000; pause to stop"));
    }
    if limits.key_limit.flatten() == Some(0) {
        return Err(Error::field("key_limit", "must be at least 1; pause to stop"));
    }
    if limits.backlog_max.flatten().is_some_and(|most| i64::try_from(most).is_err()) {
        return Err(Error::field("backlog_max", "is too large"));
    }
    let change = QueueChange {
        paused_until: None,
        backlog_max: limits.backlog_max,
        rate_per_second: limits.rate_per_second,
        key_limit: limits.key_limit,
    };
    let detail = serde_json::to_string(&limits).unwrap_or_default();
    set(app, caller, namespace, name, change, "queue.limit", &detail).await
}

/// As [`limit`], unless somebody else has changed one of these limits since they were `seen`: of two who change the same at
/// once the second is told.
pub async fn limit_if(
    app: &App,
    caller: &Caller,
    namespace: &str,
    name: &str,
    limits: QueueLimits,
    seen: QueueLimits,
) -> Result<QueueView, Error> {
    let now = get_counted(app, caller, namespace, name, 1).await?;
    let differs = |is: String, seen: Option<String>| seen.filter(|seen| *seen != is).map(|_| is);
    let shown = |value: Option<String>| value.unwrap_or_else(|| "no limit".into());
    let backlog = differs(now.backlog_max.to_string(), seen.backlog_max.map(|seen| shown(seen.map(|n| n.to_string()))));
    let rate = differs(
        shown(now.rate_per_second.map(|rate| rate.to_string())),
        seen.rate_per_second.map(|seen| shown(seen.map(|rate| rate.to_string()))),
    );
    let keys = differs(
        shown(now.key_limit.map(|limit| limit.to_string())),
        seen.key_limit.map(|seen| shown(seen.map(|limit| limit.to_string()))),
    );
    if let Some(is) = backlog.or(rate).or(keys) {
        let who = last_limited_by(app, namespace, name).await?.unwrap_or_else(|| "somebody".into());
        return Err(Error::Conflict(format!("{who} was faster and has set it to {is}; nothing was changed")));
    }
    limit(app, caller, namespace, name, limits).await
}

/// The key that changed the limits of a queue last, if that is not long ago.
async fn last_limited_by(app: &App, namespace: &str, name: &str) -> Result<Option<String>, Error> {
    let lines = app.store.audit_log(Page { after: None, limit: AUDIT_LINES_LOOKED_AT }, false).await?;
    let is_it = |line: &AuditRecord| {
        line.entry.action == "queue.limit"
            && line.entry.subject == name
            && line.entry.namespace.as_deref() == Some(namespace)
    };
    Ok(lines.into_iter().find(is_it).map(|line| line.entry.actor))
}

async fn set(
    app: &App,
    caller: &Caller,
    namespace: &str,
    name: &str,
    change: QueueChange,
    action: &str,
    detail: &str,
) -> Result<QueueView, Error> {
    caller.may(Scope::Admin, namespace)?;
    check_name("namespace", namespace)?;
    check_name("queue", name)?;
    if !app.namespaces.is_disabled(namespace) {
        app.namespaces.limits(namespace).await?;
    }
    let kind = change.paused_until.map(|until| until.map_or(Kind::QueueResumed, |_| Kind::QueuePaused));
    let queue = app.store.set_queue(namespace, name, change).await?;
    if let Some(kind) = kind {
        let now = app.time.now().await?;
        app.events.plain(kind, || Event {
            namespace: Some(namespace.to_owned()),
            queue: Some(name.to_owned()),
            ..Event::new(kind.as_str(), Time(now))
        });
    }
    audit::act(app, caller, action, name, detail, Some(namespace)).await?;
    app.backlogs.forget(queue.id);
    app.dispatcher.wake_queue(queue.id);
    show(app, queue, DEPTH_CAP).await
}

fn view(app: &App, queue: Queue, depth: Depth, now: Millis) -> QueueView {
    let paused_until = queue.paused_until.filter(|until| *until > now);
    QueueView {
        namespace: queue.namespace,
        backlog_max: queue.backlog_max.unwrap_or_else(|| app.backlogs.limit_default(&queue.name)),
        name: queue.name,
        ready: depth.ready,
        scheduled: depth.scheduled,
        held: depth.held,
        sleeping: depth.sleeping,
        oldest_ms: depth.oldest_ms.map(|ms| ms.max(0) as u64),
        paused: paused_until.is_some(),
        paused_until: paused_until.map(Time),
        rate_per_second: queue.rate_per_second,
        key_limit: queue.key_limit,
    }
}
