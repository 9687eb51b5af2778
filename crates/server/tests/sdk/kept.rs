//! What keeps a thread is named in the worker's log.

use std::fmt::{self, Write};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use baton::proto::SubmitRun;
use baton::{Context, State, WorkflowError, runs};
use tokio::sync::oneshot;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

use crate::harness::{On, PATIENCE, on_both};
use crate::site::{Site, Working, until_true, within};

on_both!(a_step_and_a_handler_that_keep_their_threads_are_named_while_they_do_and_afterwards);

/// What this process has logged.
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Lines;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("baton")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        LINES.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// How many lines have all of this.
fn lines_with(words: &[&str]) -> usize {
    LINES.lock().unwrap().iter().filter(|line| words.iter().all(|word| line.contains(word))).count()
}

/// Keeps this thread until a line names the culprit.
fn keep_until_named(words: &[&str]) {
    let begun = Instant::now();
    while lines_with(words) == 0 && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
    }
}

async fn a_step_and_a_handler_that_keep_their_threads_are_named_while_they_do_and_afterwards(on: On) {
    // The test of the other store may have been here before, in the same process.
    let _ = tracing::subscriber::set_global_default(Lines);
    let site = Site::start(on).await;
    let mut worker = site.worker().await;
    worker.register("keeping", |ctx: Context, (): ()| async move {
        let run_id = ctx.run_id().to_owned();
        let keep = || async {
            keep_until_named(&["keeps its thread", &run_id, "render"]);
            Ok(())
        };
        ctx.step("quick", || async { Ok(()) }).await?;
        ctx.step("render", keep).await?;
        Ok::<_, WorkflowError>(())
    });
    let working = Working::begin(worker);
    let handle = site.begin("keeping", &()).await;
    within(handle.result::<()>()).await.unwrap();
    let run_id = handle.run_id();
    assert_eq!(lines_with(&["keeps its thread", run_id, "render", "keeping", "ms="]), 1);
    assert_eq!(lines_with(&["has let go of its thread", run_id, "render", "ms="]), 1);
    assert_eq!(lines_with(&[run_id, "quick"]), 0);
    working.stop().await;

    let client = site.server.client.clone();
    let (stop, stopped) = oneshot::channel::<()>();
    let handler = |run: baton::proto::ClaimedRun, _| async move {
        keep_until_named(&["a handler keeps its thread", &run.run_id]);
        Ok("kept".into())
    };
    let working = runs::Worker::new(client.clone(), ["sleepy"]).run(handler, async move { drop(stopped.await) });
    let working = tokio::spawn(working);
    let run = client.submit(&SubmitRun::new("default", "sleepy")).await.unwrap().id;
    until_true(|| lines_with(&["a handler has let go of its thread", &run, "sleepy"]) == 1).await;
    assert_eq!(lines_with(&["a handler keeps its thread", &run, "sleepy"]), 1);
    stop.send(()).unwrap();
    within(working).await.unwrap().unwrap();
    assert_eq!(client.run(&run).await.unwrap().state, State::Completed);
}
