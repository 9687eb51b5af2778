//! Traces of runs: which run is part of which trace, and the spans that the servers send of it. docs/adr/0030 has the
//! reasons.
//!
//! Verbs say which runs they changed, after the commit. While tracing is off that costs them one look.

mod recorder;
mod requests;
mod spans;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton_core::trace::{RunTrace, TraceContext, TraceId};
use baton_core::{Epoch, RunId};
use baton_otlp::{Config, Counts, Delivery, Exporter, Span};
use baton_store::{Store, StoreResult};
use tokio::sync::{Mutex, mpsc, oneshot};

pub(crate) use self::requests::{RequestSpan, context_of};

use crate::Settings;
use crate::answers::Answer;
use crate::entropy::Entropy;
use crate::lanes::Lanes;
use crate::workers::Workers;

/// Notes that wait for the recorder; more are left to the loop that looks for open traces.
const NOTES_MAX: usize = 100_000;
/// How long a server that stops tries to send what is left.
const STOP_TIME: Duration = Duration::from_secs(5);
/// Runs that one pass of the loop looks at.
pub(crate) const OPEN_TRACES_PAGE: usize = 1_000;
/// How long ago a run must have ended for another server to send its spans: the one that ended it is at it.
const ENDED_MS_AGO: i64 = 15_000;
/// The same where there is no other server.
const ENDED_MS_AGO_ALONE: i64 = 2_000;

/// What goes to the recorder.
enum Note {
    /// These runs were given back, or have ended.
    Changed(Vec<RunId>),
    /// Send everything that came before this.
    Stop(oneshot::Sender<()>),
}

/// The traces of this server.
#[derive(Debug)]
pub struct RunTraces {
    store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
    on: Option<On>,
}

/// What there is while tracing is on.
#[derive(Debug)]
struct On {
    exporter: Exporter,
    sample_ratio: f64,
    notes: mpsc::Sender<Note>,
    /// Notes that had no room.
    missed: AtomicU64,
    /// Where the next look for open traces begins.
    cursor: Mutex<Option<RunId>>,
}

impl RunTraces {
    /// Starts what sends spans, if the settings say where to. Settings were checked before.
    pub(crate) fn start(
        settings: &Settings,
        store: Arc<dyn Store>,
        lanes: Arc<Lanes>,
        workers: Arc<Workers>,
        entropy: Arc<dyn Entropy>,
    ) -> Arc<RunTraces> {
        let config = settings.otlp().ok().flatten().map(|config| about(settings, config, &*entropy));
        let exporter = config.and_then(|config| {
            let started = Exporter::start(config);
            started.inspect_err(|error| tracing::error!(%error, "spans cannot be sent; tracing is off")).ok()
        });
        let on = exporter.map(|exporter| {
            let (notes, receiver) = mpsc::channel(NOTES_MAX);
            tokio::spawn(recorder::record(store.clone(), lanes, workers, exporter.clone(), receiver));
            let sample_ratio = settings.otlp_sample_ratio;
            On { exporter, sample_ratio, notes, missed: AtomicU64::new(0), cursor: Mutex::default() }
        });
        Arc::new(RunTraces { store, entropy, on })
    }

    /// True when spans are sent.
    pub(crate) fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// The trace of a run that is submitted: that of its submitter, which is said for the run or with the request, or one
    /// that begins here.
    pub(crate) fn begin(&self, said: Option<TraceContext>) -> Option<RunTrace> {
        match said.or_else(current) {
            Some(context) => Some(RunTrace::of(context, self.is_on())),
            None => self.begin_own(),
        }
    }

    fn begin_own(&self) -> Option<RunTrace> {
        let on = self.on.as_ref()?;
        let trace_id = self.new_id();
        (trace_id.die() < on.sample_ratio).then(|| RunTrace::begun(trace_id, None))
    }

    /// The trace of a run that repeats another one, or goes on in its place: a new one with a link to the other.
    /// Where somebody `asks` for it, the trace of the request comes first.
    pub(crate) fn follow(&self, run: RunId, before: Option<&RunTrace>, asks: bool) -> Option<RunTrace> {
        let said = current().filter(|_| asks);
        let link = before.filter(|before| before.is_recorded).map(|before| before.link(run));
        match (said, before) {
            (Some(context), _) => Some(RunTrace { link, ..RunTrace::of(context, self.is_on()) }),
            (None, Some(before)) if before.is_recorded && self.is_on() => Some(RunTrace::begun(self.new_id(), link)),
            (None, Some(before)) => Some(RunTrace { is_recorded: false, link: None, ..before.clone() }),
            (None, None) => self.begin_own(),
        }
    }

    /// The trace of a child: that of its parent's attempt. A worker that knows it says so; otherwise it is looked up.
    pub(crate) async fn child_of(
        &self,
        parent: RunId,
        epoch: Epoch,
        said: Option<TraceContext>,
    ) -> StoreResult<Option<RunTrace>> {
        let context = match said {
            Some(context) => Some(context),
            None if self.is_on() => self.store.run_trace(parent).await?.map(|trace| trace.of_attempt(parent, epoch)),
            None => None,
        };
        Ok(context.map(|context| RunTrace::of(context, self.is_on())))
    }

    fn new_id(&self) -> TraceId {
        TraceId::from_random(u128::from(self.entropy.bits()) << 64 | u128::from(self.entropy.bits()))
    }

    /// Runs were given back, or have ended. Call it after the commit.
    pub(crate) fn changed(&self, runs: impl Iterator<Item = RunId>) {
        let Some(on) = &self.on else { return };
        let runs: Vec<RunId> = runs.collect();
        if !runs.is_empty() && on.notes.try_send(Note::Changed(runs)).is_err() {
            on.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends a span that has nothing to do with a run.
    fn send(&self, span: Span) -> Option<Delivery> {
        self.on.as_ref().map(|on| on.exporter.send(vec![span]))
    }

    /// Looks at a page of runs whose spans are still to be sent, and has those sent that another server has left. Returns how
    /// many.
    pub(crate) async fn pick_up(&self) -> StoreResult<usize> {
        let Some(on) = &self.on else { return Ok(0) };
        let age_ms = if self.store.is_shared() { ENDED_MS_AGO } else { ENDED_MS_AGO_ALONE };
        let mut cursor = on.cursor.lock().await;
        let page = self.store.open_traces(*cursor, age_ms, OPEN_TRACES_PAGE).await?;
        *cursor = page.next;
        let found = page.ended.len();
        self.changed(page.ended.into_iter());
        Ok(found)
    }

    /// What became of spans so far.
    pub(crate) fn counts(&self) -> Counts {
        self.on.as_ref().map(|on| on.exporter.counts()).unwrap_or_default()
    }

    /// The server stops: sends what is left, within limits.
    pub(crate) async fn stop(&self) {
        let Some(on) = &self.on else { return };
        let (done, stopped) = oneshot::channel();
        if on.notes.send(Note::Stop(done)).await.is_ok() {
            let _ = tokio::time::timeout(STOP_TIME, stopped).await;
        }
    }
}

/// Says which server sends.
fn about(settings: &Settings, config: Config, entropy: &dyn Entropy) -> Config {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    config
        .service(&settings.otel, "baton", env!("CARGO_PKG_VERSION"))
        .about("service.instance.id", format!("{:016x}", entropy.bits()))
        .about("host.name", host)
}

/// The trace that the request says it is part of, whose answer is being made.
fn current() -> Option<TraceContext> {
    Answer::current_trace().as_deref().cloned()
}
