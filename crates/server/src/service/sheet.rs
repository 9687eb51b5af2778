//! A run with everything that is shown of it on a page of its own. The holder of a [`Sheet`] may see the run: what is
//! read through it is checked once.

use std::collections::HashMap;
use std::sync::Arc;

use baton_core::payload::{self, Reference};
use baton_core::{LeaseEnd, Millis, RunId, State, WorkerId};
use baton_store::{MessageKind, Page, Scope};
use bytes::Bytes;

pub use baton_store::{
    Artifact, ArtifactKind, Build, BuildSource, LaneName, LogEnd, LogRecord, Machine, Measured, Relations, RunRecord,
    Step, StepAttempt, StepKind, StepOutline, StepState, Worker, WorkerStatus,
};

use super::builds::QUEUE;
use super::workflows::pinned_parts;
use super::{payloads, visible};
use crate::auth::Caller;
use crate::{App, Error};

/// Positions that are read together.
const OUTLINES_AT_ONCE: usize = 10_000;
/// Steps that are read together with what came out, and bytes of that after which a page of them ends.
const STEPS_AT_ONCE: usize = 10;
const STEP_BYTES_MAX: usize = 2 << 20;
/// Builds that an estimate looks at, and how many of the same project it needs at most.
const PAST_BUILDS: usize = 200;
const SAME_BUILDS: usize = 20;
/// Fewer past builds than this say nothing.
const SAME_BUILDS_MIN: usize = 3;

/// A run, and what it is besides.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// The run. Its payloads are in `input` and `output`.
    pub record: RunRecord,
    /// Namespace, queue and type.
    pub lane: Arc<LaneName>,
    /// What it is besides a run.
    pub nature: Nature,
    /// Who holds it, or held it at its end.
    pub worker: Option<Worker>,
    /// What was submitted.
    pub input: Payload,
    /// What came out.
    pub output: Option<Payload>,
}

/// What a run is besides.
#[derive(Clone, Debug)]
pub enum Nature {
    /// Nothing.
    Plain,
    /// A build.
    Build(Box<Build>),
    /// A workflow.
    Workflow(Relations),
}

/// A payload, as far as it is in the database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Payload {
    /// In bytes.
    pub size: u64,
    /// What it is, unless it is so large that it lies in the storage.
    pub bytes: Option<Bytes>,
}

/// A lease of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    /// Its epoch.
    pub epoch: u32,
    /// Who had it.
    pub worker: Option<WorkerId>,
    /// What that worker is called, if it is still known.
    pub worker_name: Option<String>,
    /// From when.
    pub claimed_at: Millis,
    /// When work began.
    pub started_at: Option<Millis>,
    /// Until when, and how it ended; none while it is held.
    pub ended: Option<(Millis, LeaseEnd)>,
    /// What was said about its end.
    pub error: Option<String>,
}

/// A message that came for a workflow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Came {
    /// Its number.
    pub number: i64,
    /// What it is about.
    pub about: About,
    /// When it came.
    pub at: Millis,
}

/// What a message is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum About {
    /// Somebody's signal, with its name.
    Signal(String),
    /// A child has ended: its run, and how.
    Child(String, Option<State>),
    /// Somebody wants the workflow cancelled.
    Cancel,
}

/// A remembered position, and what came out.
pub type Remembered = (Step, Option<Payload>);

/// How a child stands.
#[derive(Clone, PartialEq, Debug)]
pub struct Child {
    /// Its state.
    pub state: State,
    /// When it ended.
    pub ended_at: Option<Millis>,
}

/// Which payload of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// What was submitted.
    Input,
    /// What came out.
    Output,
    /// What a workflow published last.
    Published,
}

/// Reads a run.
pub async fn one(app: &App, caller: &Caller, run: RunId) -> Result<Sheet, Error> {
    let mut record = visible(app, caller, Scope::Read, run).await?;
    let lane = app.lanes.name(record.lane).await?.ok_or(Error::Internal)?;
    let nature = match app.lanes.is_workflow(record.lane).await? {
        true => Nature::Workflow(app.store.relations(&[run]).await?.pop().unwrap_or_default()),
        false if lane.queue == QUEUE => match app.store.builds(&[run]).await?.pop().flatten() {
            Some(build) => Nature::Build(Box::new(build)),
            None => Nature::Plain,
        },
        false => Nature::Plain,
    };
    let worker = match record.worker {
        Some(worker) => app.store.worker(worker).await?,
        None => None,
    };
    let input = opened(app, std::mem::take(&mut record.input)).await?;
    let output = match record.output.take() {
        Some(output) => Some(opened(app, output).await?),
        None => None,
    };
    Ok(Sheet { record, lane, nature, worker, input, output })
}

/// A payload as it is shown: what lies in the storage is not fetched for that.
async fn opened(app: &App, mut kept: Bytes) -> Result<Payload, Error> {
    let size = payload::size(&kept);
    if Reference::read(&kept).is_some() {
        return Ok(Payload { size, bytes: None });
    }
    payloads::open(app, std::iter::once(&mut kept)).await?;
    Ok(Payload { size: kept.len() as u64, bytes: Some(kept) })
}

/// A payload of a run, however large.
pub async fn payload(app: &App, caller: &Caller, run: RunId, which: Which) -> Result<Bytes, Error> {
    let record = visible(app, caller, Scope::Read, run).await?;
    let found = match which {
        Which::Input => Some(record.input),
        Which::Output => record.output,
        Which::Published => app.store.published(run).await?.map(|(payload, _)| payload),
    };
    let mut found = found.ok_or_else(|| Error::NotFound { what: "payload", id: run.to_string() })?;
    payloads::fill(app, vec![&mut found]).await?;
    Ok(found)
}

impl Sheet {
    /// Its run.
    pub fn run(&self) -> RunId {
        self.record.id
    }

    /// Its type without a version, and the version that it is pinned to.
    pub fn kind(&self) -> (&str, Option<&str>) {
        match self.nature {
            Nature::Workflow(_) => pinned_parts(&self.lane.kind),
            Nature::Plain | Nature::Build(_) => (&self.lane.kind, None),
        }
    }

    /// Its build, if it is one.
    pub fn build(&self) -> Option<&Build> {
        match &self.nature {
            Nature::Build(build) => Some(build),
            Nature::Plain | Nature::Workflow(_) => None,
        }
    }

    /// Its relatives, if it is a workflow.
    pub fn relations(&self) -> Option<&Relations> {
        match &self.nature {
            Nature::Workflow(relations) => Some(relations),
            Nature::Plain | Nature::Build(_) => None,
        }
    }

    /// When the whole run is given up, by what was said when it was submitted.
    pub fn deadline(&self) -> Option<Millis> {
        let ms = Millis::try_from(self.record.options.run_timeout_ms?).ok()?;
        let begins = match self.record.failures {
            // What is due later by a retry was due before.
            0 if self.record.state == State::Pending => self.record.due_at.max(self.record.submitted_at),
            _ => self.record.submitted_at,
        };
        begins.checked_add(ms)
    }

    /// All its leases, oldest first.
    pub async fn leases(&self, app: &App) -> Result<Vec<Lease>, Error> {
        let mut leases = Vec::new();
        for attempt in app.store.attempts(self.run()).await? {
            leases.push(Lease {
                epoch: attempt.epoch.number(),
                worker: attempt.worker,
                worker_name: None,
                claimed_at: attempt.claimed_at,
                started_at: attempt.started_at,
                ended: Some((attempt.ended_at, attempt.end)),
                error: attempt.error,
            });
        }
        if self.record.state.is_held() {
            leases.push(Lease {
                epoch: self.record.epoch.number(),
                worker: self.record.worker,
                worker_name: None,
                claimed_at: self.record.claimed_at.unwrap_or(self.record.submitted_at),
                started_at: self.record.started_at,
                ended: None,
                error: None,
            });
        }
        let mut names: HashMap<WorkerId, Option<String>> = HashMap::new();
        for lease in &mut leases {
            let Some(worker) = lease.worker else { continue };
            lease.worker_name = match names.get(&worker) {
                Some(name) => name.clone(),
                None => {
                    let known = app.workers.get(worker).await?;
                    let name = known.map(|known| known.builder.clone().unwrap_or_else(|| known.name.clone()));
                    names.insert(worker, name.clone());
                    name
                }
            };
        }
        Ok(leases)
    }

    /// Messages that came for it, oldest first; the first thousand.
    pub async fn messages(&self, app: &App) -> Result<Vec<Came>, Error> {
        if self.relations().is_none() {
            return Ok(vec![]);
        }
        let came = app.store.messages(self.run(), 0).await?.into_iter().map(|message| Came {
            number: message.number,
            about: match message.kind {
                MessageKind::Signal => About::Signal(message.name),
                MessageKind::Child => About::Child(message.name, message.state),
                MessageKind::Cancel => About::Cancel,
            },
            at: message.at,
        });
        Ok(came.collect())
    }

    /// What it shows to callers that ask, and since when.
    pub async fn published(&self, app: &App) -> Result<Option<(Payload, Millis)>, Error> {
        if self.relations().is_none() {
            return Ok(None);
        }
        match app.store.published(self.run()).await? {
            Some((payload, at)) => Ok(Some((opened(app, payload).await?, at))),
            None => Ok(None),
        }
    }

    /// All that it remembers, without what came out.
    pub async fn outlines(&self, app: &App) -> Result<Vec<StepOutline>, Error> {
        let mut all: Vec<StepOutline> = Vec::new();
        if self.relations().is_none() {
            return Ok(all);
        }
        loop {
            let after = all.last().map(|step| step.position);
            let some = app.store.step_outlines(self.run(), Page { after, limit: OUTLINES_AT_ONCE }).await?;
            let is_last = some.len() < OUTLINES_AT_ONCE;
            all.extend(some);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Attempts of its steps beyond a place.
    pub async fn attempts(
        &self,
        app: &App,
        position: Option<u32>,
        page: Page<(u32, u32)>,
    ) -> Result<Vec<StepAttempt>, Error> {
        Ok(app.store.step_attempts(self.run(), position, page).await?)
    }

    /// What it remembers beyond a position with what came out, and whether there may be more.
    pub async fn steps(&self, app: &App, page: Page<u32>) -> Result<(Vec<Remembered>, bool), Error> {
        let (mut steps, mut bytes): (Vec<Remembered>, usize) = (Vec::new(), 0);
        loop {
            // Some at a time: nobody knows how large they are before they are read.
            let after = steps.last().map_or(page.after, |(step, _)| Some(step.position));
            let limit = STEPS_AT_ONCE.min(page.limit - steps.len());
            let some = app.store.steps(self.run(), Page { after, limit }).await?;
            let is_last = some.len() < limit;
            for mut step in some {
                let output = match step.output.take() {
                    Some(output) => Some(opened(app, output).await?),
                    None => None,
                };
                bytes += output.as_ref().and_then(|output| output.bytes.as_ref()).map_or(0, Bytes::len);
                steps.push((step, output));
            }
            if is_last || steps.len() >= page.limit || bytes >= STEP_BYTES_MAX {
                return Ok((steps, !is_last));
            }
        }
    }

    /// How children of it stand, in the order asked for.
    pub async fn children(&self, app: &App, runs: &[RunId]) -> Result<Vec<Option<Child>>, Error> {
        let facts = app.store.run_facts(runs).await?;
        let child = |facts: baton_store::RunFacts| Child { state: facts.state, ended_at: facts.ended_at };
        Ok(facts.into_iter().map(|facts| facts.map(child)).collect())
    }

    /// How far its log is.
    pub async fn log_end(&self, app: &App) -> Result<LogEnd, Error> {
        match self.build() {
            Some(_) => Ok(app.store.log_end(self.run()).await?),
            None => Ok(LogEnd::default()),
        }
    }

    /// Lines of its log after a number.
    pub async fn log_lines(&self, app: &App, after: u64, limit: usize) -> Result<Vec<LogRecord>, Error> {
        match self.build() {
            Some(_) => Ok(app.store.logs(self.run(), after, limit).await?),
            None => Ok(vec![]),
        }
    }

    /// Its files that are all there.
    pub async fn files(&self, app: &App) -> Result<Vec<Artifact>, Error> {
        match self.build() {
            Some(_) => Ok(app.store.artifacts(self.run()).await?),
            None => Ok(vec![]),
        }
    }

    /// The machine of its last lease, and what was measured there.
    pub async fn machine(&self, app: &App) -> Result<(Option<Machine>, Vec<Measured>), Error> {
        if self.build().is_none() || self.record.epoch.number() == 0 {
            return Ok((None, vec![]));
        }
        let lease = baton_store::LeaseRef { run: self.run(), epoch: self.record.epoch };
        Ok((app.store.machine(lease).await?, app.store.measured(self.run(), MEASURED_SHOWN).await?))
    }

    /// How long builds of its project usually take from their claim to their end; none where too few are known.
    pub async fn usual_ms(&self, app: &App) -> Result<Option<Millis>, Error> {
        let Some(build) = self.build() else { return Ok(None) };
        let filter = baton_store::RunFilter {
            lanes: Some(vec![self.record.lane]),
            states: vec![State::Completed],
            before: Some(self.run()),
            ..baton_store::RunFilter::default()
        };
        let past = app.store.runs(&filter, Page { after: None, limit: PAST_BUILDS }).await?;
        let same = past.into_iter().filter(|past| past.key == build.submitted.project);
        let took = same.filter_map(|past| Some(past.ended_at? - past.started_at.or(past.claimed_at)?));
        let mut took: Vec<Millis> = took.take(SAME_BUILDS).collect();
        took.sort_unstable();
        Ok((took.len() >= SAME_BUILDS_MIN).then(|| took[took.len() / 2]))
    }
}

/// Measurements that a page shows.
const MEASURED_SHOWN: usize = 120;
