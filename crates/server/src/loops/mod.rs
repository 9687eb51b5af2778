//! The background loops: one table of passes. A pass is bounded, idempotent and safe on every server at the same time;
//! jitter, timeouts, panics and metrics belong to the driver.

mod bulk;
mod collector;
mod events;
mod families;
mod looker;
mod pool_claims;
mod pool_keeper;
mod reaper;
mod retention;
mod scheduler;
mod statistics;
mod traces;
mod webhooks;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use baton_core::Millis;
use futures_util::FutureExt;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

pub(crate) use collector::{collect, sweep};
pub(crate) use families::end_overdue;

use crate::bell::Bell;
use crate::metrics::Passed;
use crate::{App, Error, Settings};

type Pass = for<'a> fn(&'a App) -> Pin<Box<dyn Future<Output = Result<String, Error>> + Send + 'a>>;

/// A loop: its name, how often it passes, and what it does.
struct Loop {
    name: &'static str,
    every_ms: fn(&Settings) -> Millis,
    pass: Pass,
    /// What makes it pass before its time.
    bell: Option<fn(&App) -> &Bell>,
}

/// A loop that passes in its own time only.
const fn timed(name: &'static str, every_ms: fn(&Settings) -> Millis, pass: Pass) -> Loop {
    Loop { name, every_ms, pass, bell: None }
}

const LOOPS: [Loop; 24] = [
    timed("reaper", |_| 500, |app| Box::pin(reaper::pass(app))),
    timed("unblocker", |_| 1_000, |app| Box::pin(reaper::unblock(app))),
    timed("looker", |_| 1_000, |app| Box::pin(looker::pass(app))),
    timed("settings", |_| 2_000, |app| Box::pin(looker::settings(app))),
    timed("schema", |_| 5_000, |app| Box::pin(looker::schema(app))),
    timed("namespaces", |_| 2_000, |app| Box::pin(looker::namespaces(app))),
    timed("secrets", |_| 5_000, |app| Box::pin(looker::secrets(app))),
    timed("events", |_| 2_000, |app| Box::pin(events::pass(app))),
    timed("traces", |_| 5_000, |app| Box::pin(traces::pass(app))),
    timed("statistics", |_| 10_000, |app| Box::pin(statistics::pass(app))),
    timed("statistics rollup", |_| 300_000, |app| Box::pin(statistics::roll_up(app))),
    timed("storage", |_| 15_000, |app| Box::pin(looker::storage(app))),
    timed("retention", |_| 60_000, |app| Box::pin(retention::pass(app))),
    timed("collector", |settings| settings.collect_every_ms as Millis, |app| Box::pin(collector::collect(app))),
    timed("sweeper", |settings| settings.collect_every_ms as Millis * 10, |app| Box::pin(collector::sweep(app))),
    timed("stuck builds", |_| 60_000, |app| Box::pin(collector::look_for_stuck(app))),
    Loop {
        name: "bulk",
        every_ms: |_| 60_000,
        pass: |app| Box::pin(bulk::pass(app)),
        bell: Some(|app| &app.bulk.bell),
    },
    Loop {
        name: "families",
        every_ms: |_| 5_000,
        pass: |app| Box::pin(families::deliver(app)),
        bell: Some(|app| &app.ends),
    },
    Loop {
        name: "scheduler",
        every_ms: |settings| settings.schedule_every_ms as Millis,
        pass: |app| Box::pin(scheduler::pass(app)),
        bell: Some(|app| &app.schedules),
    },
    Loop {
        name: "deadlines",
        every_ms: |_| 1_000,
        pass: |app| Box::pin(families::end_overdue(app)),
        bell: Some(|app| &app.deadlines),
    },
    Loop {
        name: "pool claims",
        every_ms: |settings| settings.pool_look_ms as Millis,
        pass: |app| Box::pin(pool_claims::pass(app)),
        bell: Some(|app| &app.pools.claims),
    },
    Loop {
        name: "pool keeper",
        every_ms: |settings| settings.pool_look_ms as Millis,
        pass: |app| Box::pin(pool_keeper::pass(app)),
        bell: Some(|app| &app.pools.keeper),
    },
    Loop {
        name: "webhooks",
        every_ms: |_| 5_000,
        pass: |app| Box::pin(app.webhooks.pass(app)),
        bell: Some(|app| &app.webhooks.signals.bell),
    },
    timed("pool retention", |_| 60_000, |app| Box::pin(pool_keeper::retain(app))),
];

/// Longest time a pass may take before it is given up and begun anew.
const PASS_TIME_MAX: Duration = Duration::from_secs(60);

/// When a loop that somebody relies on to be woken passes again after a pass that failed: nobody rings for that.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What the last pass of a loop did.
#[derive(Clone, Debug, Serialize)]
pub struct LoopReport {
    /// What it said, or why it failed.
    pub last: String,
    /// True when it was carried out.
    pub ok: bool,
    /// Passes since the start.
    pub passes: u64,
}

/// The last results of all loops.
#[derive(Debug, Default)]
pub struct LoopReports(Mutex<BTreeMap<&'static str, LoopReport>>);

impl LoopReports {
    fn note(&self, name: &'static str, ok: bool, last: String) {
        let mut reports = self.0.lock().expect("nobody panics while holding it");
        let passes = reports.get(name).map_or(0, |report| report.passes) + 1;
        reports.insert(name, LoopReport { last, ok, passes });
    }

    /// Every loop's last result.
    pub fn all(&self) -> BTreeMap<&'static str, LoopReport> {
        self.0.lock().expect("nobody panics while holding it").clone()
    }
}

/// Starts all loops; they end with the token.
pub fn start(app: &App, stop: &CancellationToken) {
    for entry in &LOOPS {
        tokio::spawn(drive(app.clone(), entry, stop.clone()));
    }
    tokio::spawn(looker::listen(app.clone(), stop.clone()));
}

async fn drive(app: App, entry: &'static Loop, stop: CancellationToken) {
    let mut failed = false;
    let clock = app.store.clock().clone();
    let mut begun = clock.fixed();
    loop {
        // Up to a tenth of jitter, so that several servers do not pass in step.
        let every_ms = (entry.every_ms)(&app.settings);
        let jitter = (app.entropy.die() * every_ms as f64 / 10.0) as Millis;
        let rung = async {
            match entry.bell {
                Some(bell) => bell(&app).rung().await,
                None => std::future::pending().await,
            }
        };
        let again = async {
            match failed && entry.bell.is_some() {
                true => tokio::time::sleep(AGAIN_AFTER).await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = clock.sleep_since(begun, every_ms - jitter) => {}
            () = rung => {}
            () = again => {}
        }
        begun = clock.fixed();
        failed = !one_pass(&app, entry.name, entry.pass).await;
    }
}

/// Passes, and returns whether that went well.
async fn one_pass(app: &App, name: &'static str, pass: Pass) -> bool {
    let begun = Instant::now();
    let caught = AssertUnwindSafe(async { tokio::time::timeout(PASS_TIME_MAX, pass(app)).await }).catch_unwind().await;
    let passed = |how| app.metrics.passed(name, begun.elapsed().as_secs_f64(), how);
    match caught {
        Ok(Ok(Ok(did))) => {
            passed(Passed::Well);
            app.loops.note(name, true, did);
            return true;
        }
        Ok(Ok(Err(error))) => {
            passed(Passed::Failed);
            tracing::warn!(name, %error, "a loop's pass failed; it passes again");
            app.loops.note(name, false, error.to_string());
        }
        Ok(Err(_)) => {
            passed(Passed::Failed);
            tracing::warn!(name, "a loop's pass took too long; it passes again");
            app.loops.note(name, false, "took too long".into());
        }
        Err(_) => {
            passed(Passed::Panicked);
            tracing::error!(name, "a loop's pass panicked; it passes again");
            app.loops.note(name, false, "panicked".into());
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::SeededEntropy;
    use baton_store::Clock;
    use baton_store::sqlite::SqliteStore;
    use std::sync::Arc;

    #[tokio::test]
    async fn a_pass_that_panics_is_counted_and_passes_again() {
        let store = Arc::new(SqliteStore::open_in_memory(Clock::manual(1_000)).unwrap());
        let home = tempfile::tempdir().unwrap();
        let storage = crate::artifacts::Storage::open(&home.path().to_string_lossy(), std::iter::empty(), 0).unwrap();
        let entropy = Arc::new(SeededEntropy::new(1));
        let settings = crate::Settings { data: home.path().into(), ..crate::Settings::default() };
        let app = App::build(store, storage, settings, entropy).await.unwrap();
        assert!(!one_pass(&app, "broken", |_| Box::pin(async { panic!("on purpose") })).await);
        assert!(one_pass(&app, "broken", |_| Box::pin(async { Ok("mended".into()) })).await);
        let report = app.loops.all()["broken"].clone();
        assert_eq!((report.ok, report.passes, report.last.as_str()), (true, 2, "mended"));
        assert!(app.metrics.text().contains("baton_loop_panics_total{name=\"broken\"} 1\n"));
    }
}
