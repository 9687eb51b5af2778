//! custody: who had a run, from when to when, how that ended, and what was refused afterwards.

use std::collections::HashMap;

use baton_core::{LeaseEnd, Millis, RunId, State};
use baton_proto::Time;
use baton_store::{RefusedWrite, RunRecord, Scope, Worker};
use serde::Serialize;

use super::visible;
use crate::auth::Caller;
use crate::{App, Error};

/// Most leases in one answer.
pub const LANES_MAX: usize = 1_000;

/// Who had a run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Custody {
    /// The run.
    pub run_id: String,
    /// Where it stands.
    pub state: State,
    /// The number of its newest claim.
    pub epoch: u32,
    /// How many leases there were, the current one included.
    pub leases: u64,
    /// Some of them, oldest first.
    pub lanes: Vec<Lane>,
    /// The number below which there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<u32>,
    /// How many writes were refused.
    pub refused: u64,
    /// Refused writes under leases that are not among the lanes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_refused: Vec<Refusal>,
    /// Refused writes that were only counted, because there were too many.
    #[serde(skip_serializing_if = "is_zero")]
    pub refused_more: u64,
}

/// One lease.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Lane {
    /// Its epoch.
    pub epoch: u32,
    /// The worker's start that had it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    /// What the worker is called, while that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_name: Option<String>,
    /// Since when.
    pub from: Time,
    /// When work began, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// Until when; nothing while it is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Time>,
    /// `held`, or how it ended.
    pub end: &'static str,
    /// What was said about the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the worker was heard of last: of leases that are held, or that were taken away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat: Option<Time>,
    /// When it ends unless the worker is heard of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Time>,
    /// What was refused under it once it was over, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refusal>,
}

/// A write that was refused; or several that wanted the same.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Refusal {
    /// What it wanted.
    pub verb: &'static str,
    /// The epoch that it showed.
    pub epoch: u32,
    /// The newest epoch when it came first.
    pub current_epoch: u32,
    /// The worker's start that had that epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    /// Where in a workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u32>,
    /// The name of the step or file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// When it came first.
    pub at: Time,
    /// When it came last.
    pub last_at: Time,
    /// How often it came.
    pub times: u64,
    /// The size of the largest payload.
    pub bytes: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Refusal {
    fn of(write: RefusedWrite) -> Refusal {
        Refusal {
            verb: write.verb.as_str(),
            epoch: write.epoch.number(),
            current_epoch: write.current_epoch.number(),
            worker_id: write.worker.map(|worker| worker.to_string()),
            position: write.position,
            name: write.name,
            at: Time(write.at),
            last_at: Time(write.last_at),
            times: write.times,
            bytes: write.bytes,
        }
    }

    /// What was refused, in words: `step "charge" (position 4)`.
    pub fn what(&self) -> String {
        let name = if self.name.is_empty() { String::new() } else { format!(" {:?}", self.name) };
        let position = self.position.map_or_else(String::new, |position| format!(" (position {position})"));
        format!("{}{name}{position}", self.verb)
    }
}

/// Who had a run of this namespace, or of any where none is given: the newest leases, or those before an epoch, up to
/// [`LANES_MAX`].
pub async fn of_run(
    app: &App,
    caller: &Caller,
    namespace: Option<&str>,
    run: RunId,
    before: Option<u32>,
    limit: usize,
) -> Result<Custody, Error> {
    let record = visible(app, caller, Scope::Read, run).await?;
    let lane = app.lanes.name(record.lane).await?.ok_or(Error::Internal)?;
    if namespace.is_some_and(|namespace| namespace != lane.namespace) {
        return Err(Error::no_run(run));
    }
    let refused = app.store.refused_writes(run).await?;
    let held = held(app, &record, before).await?;
    let room = limit.clamp(1, LANES_MAX) - held.iter().count();
    let mut past = app.store.past_leases(run, before, room + 1).await?;
    let has_more = past.len() > room;
    past.truncate(room);
    let leases = app.store.count_past_leases(run).await? + u64::from(record.state.is_held());
    let mut lanes: Vec<Lane> = Vec::with_capacity(past.len() + 1);
    for lease in past.into_iter().rev() {
        let attempt = lease.attempt;
        lanes.push(Lane {
            epoch: attempt.epoch.number(),
            worker_id: attempt.worker.map(|worker| worker.to_string()),
            worker_name: lease.worker_name,
            from: Time(attempt.claimed_at),
            started_at: attempt.started_at.map(Time),
            to: Some(Time(attempt.ended_at)),
            end: attempt.end.as_str(),
            message: attempt.error,
            last_heartbeat: heard(lease.seen_at, attempt.claimed_at, Some(attempt.ended_at)),
            lease_until: None,
            refused: Vec::new(),
        });
    }
    lanes.extend(held);
    let (refused_more, writes) = (refused.more, refused.writes);
    let all = writes.iter().map(|write| write.times).sum::<u64>() + refused_more;
    let mut by_epoch: HashMap<u32, Vec<Refusal>> = HashMap::new();
    for write in writes {
        by_epoch.entry(write.epoch.number()).or_default().push(Refusal::of(write));
    }
    for lane in &mut lanes {
        lane.refused = by_epoch.remove(&lane.epoch).unwrap_or_default();
    }
    let mut other_refused: Vec<Refusal> = by_epoch.into_values().flatten().collect();
    other_refused.sort_by_key(|refusal| (refusal.at, refusal.epoch));
    Ok(Custody {
        run_id: run.to_string(),
        state: record.state,
        epoch: record.epoch.number(),
        leases,
        before: lanes.first().map(|lane| lane.epoch).filter(|_| has_more),
        lanes,
        refused: all,
        other_refused,
        refused_more,
    })
}

/// The lease that is held now, unless older ones are asked for.
async fn held(app: &App, record: &RunRecord, before: Option<u32>) -> Result<Option<Lane>, Error> {
    let epoch = record.epoch.number();
    if !record.state.is_held() || before.is_some_and(|before| epoch >= before) {
        return Ok(None);
    }
    let worker: Option<Worker> = match record.worker {
        Some(worker) => app.store.worker(worker).await?,
        None => None,
    };
    let from = record.claimed_at.unwrap_or(record.submitted_at);
    let lease_until = worker.as_ref().map(|worker| worker.lease_until).into_iter().chain(record.lease_until).min();
    Ok(Some(Lane {
        epoch,
        worker_id: record.worker.map(|worker| worker.to_string()),
        last_heartbeat: heard(worker.as_ref().map(|worker| worker.seen_at), from, None),
        worker_name: worker.map(|worker| worker.name),
        from: Time(from),
        started_at: record.started_at.map(Time),
        to: None,
        end: HELD,
        message: None,
        lease_until: lease_until.map(Time),
        refused: Vec::new(),
    }))
}

/// The end of a lease that has none yet.
pub const HELD: &str = "held";

/// When the holder was heard of under this lease: a claim is a sign of life, too.
fn heard(seen_at: Option<Millis>, from: Millis, to: Option<Millis>) -> Option<Time> {
    seen_at.map(|at| Time(at.max(from).min(to.unwrap_or(Millis::MAX))))
}

/// True when a lease with this end was taken from its holder.
pub fn was_taken(end: &str) -> bool {
    [LeaseEnd::Lost, LeaseEnd::TimedOut, LeaseEnd::Cancelled].iter().any(|taken| taken.as_str() == end)
}

/// The refused writes of a run, for its history.
pub(super) async fn refusals(app: &App, run: RunId) -> Result<Vec<Refusal>, Error> {
    Ok(app.store.refused_writes(run).await?.writes.into_iter().map(Refusal::of).collect())
}
