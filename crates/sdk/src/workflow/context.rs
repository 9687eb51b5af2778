//! What a workflow's function has in its hands.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use baton_core::trace::TraceContext;
use baton_proto::v1::StepKind;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::Continuation;
use super::state::{Shared, bounded, encode};
use super::time::{millis_of, system_time};
use super::wait::Until;
use super::{Child, Signal, Sleep, Step, StepError, WorkflowError};

/// What a workflow's function has in its hands: steps, sleeps, signals, children, and what else must come out the same when the function is played again.
///
/// A worker may fall at any moment. Another one then plays the function from its beginning, and everything that was asked of the context before is
/// answered from memory. So a function must ask for the same things in the same order again: whatever depends on the world belongs into a [step](Context::step).
/// What is asked for is counted when it is made, not when it is awaited, so `join` and [`Context::parallel`] are fine. Do not give the context to tasks of their own.
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) shared: Arc<Shared>,
}

impl Context {
    pub(crate) fn new(shared: Arc<Shared>) -> Context {
        Context { shared }
    }

    // ---- things to wait for

    /// Executes code whose result is remembered: it is not executed again once it has completed. An attempt that failed is repeated as the step's
    /// [policy](Step::retry) says; a worker that falls in the middle of an attempt makes for another one, so the code should bear being repeated.
    /// Code that blocks its thread or computes for long belongs into [`Context::step_blocking`].
    /// Nothing may be asked of the context inside of it, except [`Context::cancel_requested`] and what is known of the run.
    ///
    /// ```no_run
    /// # use baton::{Context, StepError, WorkflowError};
    /// # async fn send(text: &str) -> Result<u32, std::io::Error> { Ok(1) }
    /// # async fn example(ctx: Context, text: String) -> Result<(), WorkflowError> {
    /// let sent = ctx.step("send", || async { Ok(send(&text).await?) }).await?;
    /// # let _: u32 = sent; Ok(()) }
    /// ```
    pub fn step<'a, T, F, R>(&self, name: impl Into<String>, make: F) -> Step<'a, T>
    where
        F: Fn() -> R + Send + 'a,
        R: Future<Output = Result<T, StepError>> + Send + 'a,
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        Step::new(self.clone(), name.into(), make)
    }

    /// Executes code that blocks or computes, and remembers its result as [`Context::step`] does.
    /// It runs on a thread beside the runtime, so that nothing else has to wait for it; as many at
    /// a time as the worker [has threads for it](crate::WorkerBuilder::blocking_threads), in the
    /// order in which they were begun.
    ///
    /// The code owns what it works on. It is cloned for each attempt, so large inputs are best in
    /// an [`Arc`].
    ///
    /// Such code cannot be interrupted. After a [timeout](Step::timeout), when the workflow drops
    /// the step, and when the worker loses the run, it goes on for nobody and keeps its thread
    /// until it returns. Code that takes long should ask [`Context::cancel_requested`] now and
    /// then.
    ///
    /// ```no_run
    /// # use baton::{Context, StepError, WorkflowError};
    /// # fn thumbnail(image: &[u8]) -> Result<Vec<u8>, std::io::Error> { Ok(image.to_vec()) }
    /// # async fn example(ctx: Context, images: Vec<Vec<u8>>) -> Result<(), WorkflowError> {
    /// let steps = images.into_iter().map(|image| ctx.step_blocking("thumbnail", move || Ok(thumbnail(&image)?)));
    /// let small = ctx.parallel(50, steps).await?;
    /// # let _: Vec<Vec<u8>> = small; Ok(()) }
    /// ```
    pub fn step_blocking<T, F>(&self, name: impl Into<String>, work: F) -> Step<'static, T>
    where
        F: FnOnce() -> Result<T, StepError> + Clone + Send + 'static,
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        Step::blocking(self.clone(), name.into(), work)
    }

    /// Waits for many things at once, at most `limit` at a time, and returns what they came to, in their order. All of them are waited for, even when one
    /// fails; then the first error is returned.
    ///
    /// ```no_run
    /// # use baton::{Context, StepError, WorkflowError};
    /// # async fn resize(image: &str) -> Result<String, StepError> { Ok(image.into()) }
    /// # async fn example(ctx: Context, images: Vec<String>) -> Result<(), WorkflowError> {
    /// let small = ctx.parallel(8, images.iter().map(|image| ctx.step("resize", || resize(image)))).await?;
    /// # let _: Vec<String> = small; Ok(()) }
    /// ```
    pub fn parallel<T, W>(
        &self,
        limit: usize,
        waits: impl IntoIterator<Item = W>,
    ) -> impl Future<Output = Result<Vec<T>, WorkflowError>>
    where
        W: Future<Output = Result<T, WorkflowError>>,
    {
        // Made at once, before the first is polled: they are counted in their order.
        let waits: Vec<W> = waits.into_iter().collect();
        async move {
            let mut results: Vec<Option<Result<T, WorkflowError>>> = Vec::new();
            results.resize_with(waits.len(), || None);
            let numbered = waits.into_iter().enumerate().map(|(index, wait)| wait.map(move |result| (index, result)));
            let mut running = stream::iter(numbered).buffer_unordered(limit.max(1));
            while let Some((index, result)) = running.next().await {
                results[index] = Some(result);
            }
            results.into_iter().flatten().collect()
        }
    }

    /// Sleeps. No worker is kept for it, and a restart of anything does not make it longer.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        Sleep::new(self.clone(), Until::After(duration))
    }

    /// Sleeps until the server's clock shows this.
    pub fn sleep_until(&self, moment: impl Into<SystemTime>) -> Sleep {
        Sleep::new(self.clone(), Until::At(millis_of(moment.into())))
    }

    /// Waits for a signal of this name, and takes it.
    pub fn signal<T: DeserializeOwned>(&self, name: impl Into<String>) -> Signal<T> {
        Signal::new(self.clone(), name.into())
    }

    /// A child of this type: a workflow of its own. Awaiting it starts it and waits for what it returns.
    pub fn child<T: DeserializeOwned>(&self, workflow_type: impl Into<String>, input: &impl Serialize) -> Child<T> {
        Child::new(self.clone(), workflow_type.into(), encode(input))
    }

    // ---- facts

    /// The time. It is the same when the function is played again.
    pub fn now(&self) -> SystemTime {
        let decided = self.shared.fact("now", || Bytes::from(self.shared.clock.now().to_string()));
        system_time(serde_json::from_slice(&decided).unwrap_or_else(|_| self.shared.clock.now()))
    }

    /// A random number. It is the same when the function is played again.
    pub fn random(&self) -> u64 {
        let decided = self.shared.fact("random", || Bytes::from(dice().to_string()));
        serde_json::from_slice(&decided).unwrap_or_else(|_| dice())
    }

    /// A random text of 32 hexadecimal digits, good as an idempotency key for others. It is the same when the function is played again.
    pub fn random_id(&self) -> String {
        let decide = || format!("{:016x}{:016x}", dice(), dice());
        let decided = self.shared.fact("random_id", || Bytes::from(format!("\"{}\"", decide())));
        serde_json::from_slice(&decided).unwrap_or_else(|_| decide())
    }

    /// Which version of a change this run follows: `newest` for runs that come here for the first time, `oldest` for those that were here before the change
    /// was made. A run that follows a version older than `oldest` fails: this code cannot play it any more.
    ///
    /// ```no_run
    /// # use baton::{Context, WorkflowError};
    /// # async fn example(ctx: Context) -> Result<(), WorkflowError> {
    /// if ctx.version("check stock first", 1, 2) >= 2 {
    ///     ctx.step("check stock", || async { Ok(()) }).await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub fn version(&self, change: &str, oldest: u32, newest: u32) -> u32 {
        let name = bounded(format!("version of {change}"));
        let mut state = self.shared.lock();
        if let Some(version) = state.versions.get(change) {
            return *version;
        }
        let position = state.next_position;
        let version = if state.journal.has(position, StepKind::Fact, &name) {
            let step = state.journal.take(position, StepKind::Fact, &name).ok().flatten();
            state.next_position += 1;
            step.and_then(|step| serde_json::from_slice(&step.output).ok()).unwrap_or(oldest)
        } else if state.journal.reaches(position) {
            // It has been further than here, before there was anything to ask.
            oldest
        } else {
            state.next_position += 1;
            self.shared.write_fact(&mut state, position, &name, Bytes::from(newest.to_string()));
            newest
        };
        if !(oldest..=newest).contains(&version) {
            state.fail("unsupported_version", || {
                format!("the run follows version {version} of {change:?}, and this worker knows {oldest} to {newest}")
            });
        }
        state.versions.insert(change.to_owned(), version);
        version
    }

    // ---- the run

    /// Shows this to whoever [asks](crate::WorkflowHandle::query). The last one counts.
    pub fn publish(&self, value: &impl Serialize) -> Result<(), WorkflowError> {
        let value = encode(value)
            .map_err(|error| WorkflowError::fatal(format!("what is published cannot be written as JSON: {error}")))?;
        let mut state = self.shared.lock();
        // What was published before the worker fell must not come back in place of what came after it.
        if !state.replaying() {
            state.published = Some(value);
            state.wake_driver();
        }
        Ok(())
    }

    /// Ends this run, and begins another one in its place with this input and an empty memory. The function has to return what comes out:
    ///
    /// ```no_run
    /// # use baton::{Context, WorkflowError};
    /// async fn poll(ctx: Context, count: u64) -> Result<(), WorkflowError> {
    ///     ctx.sleep(std::time::Duration::from_secs(3600)).await?;
    ///     ctx.continue_as_new(&(count + 1))
    /// }
    /// ```
    pub fn continue_as_new<T>(&self, input: &impl Serialize) -> Result<T, WorkflowError> {
        Err(match encode(input) {
            Ok(input) => WorkflowError::ContinueAsNew(Continuation(input)),
            Err(error) => WorkflowError::fatal(format!("the input cannot be written as JSON: {error}")),
        })
    }

    /// True when the workflow has been told that it is cancelled, with [`WorkflowError::Cancelled`].
    pub fn is_cancelled(&self) -> bool {
        self.shared.lock().told
    }

    /// True as soon as somebody wants the run cancelled, or nobody waits for it here any more: the
    /// lease was lost, or the worker has stopped. Only for code inside of a step that takes long
    /// and can stop: outside of steps it would not come out the
    /// same when the function is played again. A step that is being executed is not interrupted.
    pub fn cancel_requested(&self) -> bool {
        let state = self.shared.lock();
        state.journal.cancel_requested || state.is_over
    }

    /// The run.
    pub fn run_id(&self) -> &str {
        &self.shared.info.run_id
    }

    /// The type of the workflow.
    pub fn workflow_type(&self) -> &str {
        &self.shared.info.workflow_type
    }

    /// The namespace of the run.
    pub fn namespace(&self) -> &str {
        &self.shared.info.namespace
    }

    /// The queue of the run.
    pub fn queue(&self) -> &str {
        &self.shared.info.queue
    }

    /// Which attempt of the run this is; 1 for the first.
    pub fn attempt(&self) -> u32 {
        self.shared.info.attempt
    }

    /// The run that started this one, if one did.
    pub fn parent_run_id(&self) -> Option<&str> {
        self.shared.info.parent.as_deref()
    }

    /// Where this attempt stands in the run's trace (W3C Trace Context): calls of other systems that carry it as their header
    /// `traceparent` are part of the trace. Nothing where the run is not traced.
    pub fn traceparent(&self) -> Option<String> {
        self.shared.info.trace.as_ref().map(TraceContext::traceparent)
    }

    /// The header `tracestate` that belongs to [`Context::traceparent`].
    pub fn tracestate(&self) -> Option<&str> {
        self.shared.info.trace.as_ref()?.state.as_deref()
    }

    /// When the run was submitted.
    pub fn submitted_at(&self) -> SystemTime {
        system_time(self.shared.info.submitted_at)
    }
}

fn dice() -> u64 {
    // A system without random numbers has larger problems; the process's own seed is better than a panic in a workflow.
    getrandom::u64().unwrap_or_else(|_| {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(0)
    })
}
