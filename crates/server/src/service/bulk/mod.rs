//! Bulk operations: one verb on all runs that a filter finds. Here they are made, read and stopped; `act` carries the verb
//! out on a few runs, and `loops/bulk.rs` has operations take turns.

pub(crate) mod act;
mod read;
mod these;

use baton_core::{BulkAction, BulkId, BulkState, IdSuffix, Millis, RunId, State};
use baton_proto::{BulkCount, BulkFilter, BulkProgress, BulkView, CreateBulk, Event, Time};
use baton_store::{BulkMade, BulkOperation, Idempotency, NewBulk, Page, RunFilter, Scope};
use sha2::{Digest, Sha256};

use super::news::News;
use super::{audit, check_name, check_text, worker_id};
use crate::auth::Caller;
use crate::events::Kind;
use crate::{App, Error};

pub(crate) use read::view;
pub use read::{get, list};
pub use these::{THESE_MAX, these};

/// Operations of one namespace that may go on at once; as many as may act on the runs of all.
pub const BULK_LIVE_MAX: u64 = 20;
/// Runs that a dry run shows.
const SAMPLE: usize = 10;

/// What came of a call that wanted an operation.
#[derive(Clone, PartialEq, Debug)]
pub enum Created {
    /// It only counted.
    Counted(Box<BulkCount>),
    /// It is there; maybe since an earlier call.
    Begun(Box<BulkView>),
}

/// An operation that makes sense.
struct Wanted {
    action: BulkAction,
    namespace: Option<String>,
    /// As it was given, with the states that are meant.
    filter: BulkFilter,
    per_second: f64,
}

/// Begins an operation, or only counts what it would act on.
pub async fn create(app: &App, caller: &Caller, create: CreateBulk, key: Option<&str>) -> Result<Created, Error> {
    caller.has(Scope::Submit)?;
    key.map_or(Ok(()), |key| check_name("Idempotency-Key", key))?;
    let fingerprint = fingerprint(&create);
    let wanted = check(app, caller, &create)?;
    if create.dry_run {
        return Ok(Created::Counted(Box::new(count(app, wanted).await?)));
    }
    let text = serde_json::to_string(&wanted.filter).map_err(|_| Error::Internal)?;
    let of_namespace = wanted.namespace.as_deref().unwrap_or_default();
    let new = NewBulk {
        namespace: wanted.namespace.clone(),
        action: wanted.action,
        filter: text,
        reason: create.reason,
        created_by: caller.key_id.clone(),
        idempotency: key.map(|key| Idempotency { key: format!("{of_namespace}\u{1f}{key}"), fingerprint }),
        per_second: wanted.per_second,
    };
    let operation = match app.store.add_bulk(new, app.entropy.bits(), BULK_LIVE_MAX).await? {
        BulkMade::New(operation) => operation,
        BulkMade::Earlier(operation) => return Ok(Created::Begun(Box::new(view(&operation)?))),
        BulkMade::KeyReused => return Err(Error::KeyReused),
        BulkMade::TooMany => {
            let namespace = wanted.namespace.unwrap_or_else(|| "*".into());
            return Err(Error::NamespaceLimit { namespace, what: "live bulk operations", limit: BULK_LIVE_MAX });
        }
    };
    look_at(app);
    app.metrics.bulk_operations(operation.action.as_str(), "started");
    tell(app, &operation);
    let why = operation.reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    let detail = format!("{} {}{why}", operation.action.as_str(), operation.filter);
    let namespace = operation.namespace.as_deref();
    audit::act(app, caller, "bulk.start", &operation.id.to_string(), &detail, namespace).await?;
    Ok(Created::Begun(Box::new(view(&operation)?)))
}

/// Asks an operation to stop. One that has ended stays as it is.
pub async fn stop(app: &App, caller: &Caller, id: &str) -> Result<BulkView, Error> {
    let found = visible(app, caller, Scope::Submit, id).await?;
    let stopped = app.store.stop_bulk(found.id).await?.ok_or_else(|| unknown(id))?;
    if stopped.is_stopping && !found.is_stopping && stopped.state == BulkState::Running {
        look_at(app);
        let detail = in_words(&stopped);
        audit::act(app, caller, "bulk.stop", id, &detail, stopped.namespace.as_deref()).await?;
    }
    view(&stopped)
}

/// An operation, if the caller may see it with this scope. One that reaches into a foreign namespace is unknown to it.
async fn visible(app: &App, caller: &Caller, scope: Scope, id: &str) -> Result<BulkOperation, Error> {
    caller.has(scope)?;
    let found = app.store.bulk(id.parse::<BulkId>().map_err(|_| unknown(id))?).await?;
    let sees = |operation: &BulkOperation| match &operation.namespace {
        Some(namespace) => caller.sees(namespace),
        None => caller.namespace.is_none(),
    };
    found.filter(sees).ok_or_else(|| unknown(id))
}

fn unknown(id: &str) -> Error {
    Error::NotFound { what: "bulk operation", id: id.to_owned() }
}

/// Has the operations looked at, here and by other servers: one of those goes on when this one dies.
fn look_at(app: &App) {
    app.bulk.bell.ring();
    // Only a hint: the others look by themselves now and then.
    let _ = app.news.try_send(News::Bulk);
}

fn check(app: &App, caller: &Caller, create: &CreateBulk) -> Result<Wanted, Error> {
    let actions = BulkAction::ALL.map(BulkAction::as_str).join(" or ");
    let wrong = || Error::field("action", format!("must be {actions}, not {:?}", create.action));
    let action = BulkAction::parse(&create.action).ok_or_else(wrong)?;
    if create.filter.is_empty() && !create.all {
        return Err(Error::field("filter", "must name something; to act on every run, send all: true"));
    }
    let filter = create.filter.clone();
    if let Some(namespace) = &filter.namespace {
        check_name("filter.namespace", namespace)?;
        caller.may(Scope::Submit, namespace)?;
    }
    for (field, text) in [("filter.queue", &filter.queue), ("filter.type", &filter.kind), ("filter.key", &filter.key)] {
        text.as_deref().map_or(Ok(()), |text| check_name(field, text))?;
    }
    create.reason.as_deref().map_or(Ok(()), |reason| check_text("reason", reason))?;
    let states = states(action, &filter)?;
    let state = states.iter().map(|state| state.as_str().to_owned()).collect();
    let filter = BulkFilter { state, ..filter };
    run_filter(&filter)?;
    let settings = app.current();
    let per_second = match create.rate_per_second {
        None => settings.bulk_rate.min(settings.bulk_rate_max),
        Some(rate) if rate.is_finite() && rate > 0.0 && rate <= settings.bulk_rate_max => rate,
        Some(_) => {
            let why = format!("must be more than 0 and at most {} (the setting bulk_rate_max)", settings.bulk_rate_max);
            return Err(Error::field("rate_per_second", why));
        }
    };
    let namespace = filter.namespace.clone().or_else(|| caller.namespace.clone());
    Ok(Wanted { action, namespace, filter, per_second })
}

/// The states that a filter means: those it names, or those that the action is usually for.
fn states(action: BulkAction, filter: &BulkFilter) -> Result<Vec<State>, Error> {
    let mut states = Vec::new();
    for word in &filter.state {
        let state = State::parse(word);
        let state =
            state.ok_or_else(|| Error::field("filter.state", format!("must be states of runs, not {word:?}")))?;
        if !action.acts_on(state) {
            let possible = State::ALL.into_iter().filter(|state| action.acts_on(*state)).map(State::as_str);
            let possible = possible.collect::<Vec<_>>().join(", ");
            let why = format!("must be one of {possible}: a run that is {word} cannot be {}", participle(action));
            return Err(Error::field("filter.state", why));
        }
        if !states.contains(&state) {
            states.push(state);
        }
    }
    Ok(if states.is_empty() { action.states_default() } else { states })
}

fn participle(action: BulkAction) -> &'static str {
    match action {
        BulkAction::Cancel => "cancelled",
        BulkAction::Retry => "retried",
    }
}

/// The filter for the store, but for the lanes, which have to be looked up.
fn run_filter(filter: &BulkFilter) -> Result<RunFilter, Error> {
    let worker = filter.worker.as_deref().map(worker_id).transpose();
    let suffix = filter.id_suffix.as_deref().map(|digits| {
        let wrong = || Error::field("filter.id_suffix", "must be 4 to 12 hexadecimal digits");
        IdSuffix::parse(digits).ok_or_else(wrong)
    });
    if let (Some(after), Some(before)) = (filter.submitted_after, filter.submitted_before)
        && after >= before
    {
        return Err(Error::field("filter.submitted_before", "must be later than submitted_after"));
    }
    Ok(RunFilter {
        lanes: None,
        states: filter.state.iter().filter_map(|word| State::parse(word)).collect(),
        worker: worker.map_err(|_| Error::field("filter.worker", "must be the identifier of a worker"))?,
        key: filter.key.clone(),
        // Identifiers begin with the time of their run.
        since: filter.submitted_after.map(|at| RunId::floor(at.0)),
        before: filter.submitted_before.map(|at| RunId::floor(at.0)),
        id_suffix: suffix.transpose()?,
    })
}

/// The runs that a filter finds within a namespace (within all when `None`), as the store is asked for them.
pub(crate) async fn search(
    app: &App,
    namespace: Option<&str>,
    filter: &BulkFilter,
    bound: Option<BulkId>,
) -> Result<RunFilter, Error> {
    let lanes = match (namespace, &filter.queue, &filter.kind) {
        (None, None, None) => None,
        (namespace, queue, kind) => Some(app.lanes.find(namespace, queue.as_deref(), kind.as_deref()).await?),
    };
    let found = run_filter(filter)?;
    let before = found.before.into_iter().chain(bound.map(BulkId::as_bound)).min();
    Ok(RunFilter { lanes, before, ..found })
}

async fn count(app: &App, wanted: Wanted) -> Result<BulkCount, Error> {
    let search = search(app, wanted.namespace.as_deref(), &wanted.filter, None).await?;
    let matched = app.store.count_runs(&search).await?;
    let sample = app.store.find_runs(&search, Page { after: None, limit: SAMPLE }).await?;
    Ok(BulkCount {
        action: wanted.action.as_str().into(),
        filter: wanted.filter,
        matched,
        sample: sample.iter().map(RunId::to_string).collect(),
    })
}

/// A hash of everything the caller said.
fn fingerprint(create: &CreateBulk) -> [u8; 16] {
    let said = serde_json::to_vec(create).unwrap_or_default();
    let mut short = [0; 16];
    short.copy_from_slice(&Sha256::digest(said)[..16]);
    short
}

/// How far an operation has come, for people.
pub(crate) fn in_words(operation: &BulkOperation) -> String {
    let progress = &operation.progress;
    let matched = progress.matched.map(|matched| format!(" of {matched} matched")).unwrap_or_default();
    let tally = progress.tally;
    format!("{} done, {} skipped, {} failed{matched}", tally.done, tally.skipped, tally.failed)
}

/// Tells those who listen how far an operation has come.
pub(crate) fn tell(app: &App, operation: &BulkOperation) {
    let at: Millis = operation.ended_at.unwrap_or(operation.created_at);
    app.events.plain(Kind::BulkChanged, || Event {
        namespace: operation.namespace.clone(),
        state: Some(operation.state.as_str().into()),
        bulk: Some(BulkProgress {
            id: operation.id.to_string(),
            action: operation.action.as_str().into(),
            matched: operation.progress.matched,
            done: operation.progress.tally.done,
            skipped: operation.progress.tally.skipped,
            failed: operation.progress.tally.failed,
        }),
        ..Event::new(Kind::BulkChanged.as_str(), Time(at))
    });
}
